"""The pattern of a public report as a small trace, and what a guard ought to do on it.

Names, arguments and results are made up: only the pattern is the report's (which call, how often, with equal or
different results, in which order).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from results.trace import Call, Compaction, End, Event, Header, Outcome, Result, Step, Trace, Trigger, User, blocks


@dataclass(frozen=True)
class Shape:
    """`onset`: the 1-based place from which on stopping is right, None = nowhere. `resumes`: where it is wrong again.

    They are places among the compaction attempts of `agent` where the tag COMP is given, and among its calls elsewhere.
    `report` says where the pattern was reported, `why` what is right and why.
    """

    name: str
    report: str
    tags: tuple[str, ...]
    want: Literal["trip", "quiet", "requested"]
    why: str
    events: tuple[Event, ...]
    onset: int | None = None
    resumes: int | None = None
    agent: str = "root"

    def trace(self) -> Trace:
        meta = {"report": self.name.partition("-")[0], "tags": list(self.tags), "want": self.want}
        return Trace(
            Header(self.name, None, "the call pattern of a public report, in our own words", meta), self.events
        )


@dataclass
class Script:
    """The events of one agent, as they are written down."""

    agent: str = "root"
    events: list[Event] = field(default_factory=list)
    steps: int = 0
    calls: int = 0

    def user(self, text: str, t: float | None = None) -> Script:
        self.events.append(User(text, agent=self.agent, t=t))
        return self

    def call(self, tool: str, args: Any, shown: str, *, error: bool = False, denied_by: str | None = None) -> Script:
        return self.together([(tool, args, shown)], error=error, denied_by=denied_by)

    def together(
        self, calls: Sequence[tuple[str, Any, str]], *, error: bool = False, denied_by: str | None = None
    ) -> Script:
        """One response with several calls."""
        self.steps += 1
        self.events.append(Step(self.steps, len(calls), agent=self.agent))
        ids = [f"c{self.calls + place}" for place in range(1, len(calls) + 1)]
        self.calls += len(calls)
        for name, (tool, args, _) in zip(ids, calls, strict=True):
            self.events.append(Call(name, self.steps, tool, args, agent=self.agent))
        for name, (_, _, shown) in zip(ids, calls, strict=True):
            self.events.append(Result(name, blocks(shown), error, denied_by, agent=self.agent))
        return self

    def compacts(self, outcome: Outcome = "committed", trigger: Trigger = "pressure") -> Script:
        self.events.append(Compaction(trigger, outcome, agent=self.agent))
        return self

    def done(self, reason: Literal["completed", "horizon", "overflow"] = "horizon") -> tuple[Event, ...]:
        self.events.append(End(reason, agent=self.agent))
        return tuple(self.events)
