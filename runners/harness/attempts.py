"""Compaction attempts, told from the event log: one for each time that an engine decided to summarise.

An engine that finds pressure before a step may summarise once or more; a compaction-breaker writes where an attempt
begins and whether it was refused, before which nothing of it stands in the log. For the harness' own engine an attempt
is everything that it compacts between two moves of its session's loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from runners.harness.eventlog import Inconsistent

Trigger = Literal["pressure", "overflow", "manual"]
_OUTSIDE = {
    "turn/start", "step/start", "assistant/message", "assistant/attempt", "tool/call", "step/end", "turn/end",
}  # fmt: skip
"""What the loop of a session does: no attempt goes on over it."""


@dataclass
class Attempt:
    """`tokens_before` and `tokens_after` are the harness' own estimate of the prompt; None where it was not taken."""

    agent: str
    trigger: Trigger
    plane: str | None
    by: str | None = None
    """The breaker that announced it; None where the engine is the harness' own."""
    committed: bool = False
    failed: bool = False
    refused: bool = False
    summary_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    tape_keys: list[str] = field(default_factory=list)
    """Of its summaries, as are the seconds."""
    seconds: float = 0.0
    tokens_before: int | None = None
    tokens_after: int | None = None

    @property
    def outcome(self) -> Literal["committed", "nothing", "failed", "refused"]:
        if self.refused:
            return "refused"
        if self.committed:
            return "committed"
        return "failed" if self.failed else "nothing"


class Attempts:
    """Reads the log's lines in order. `planes` are those with an engine: one alone names every attempt's plane.

    Raises Inconsistent for what belongs to an attempt and stands outside of one, and for the summary of a refused one.
    """

    def __init__(self, planes: Sequence[str]) -> None:
        self._plane = planes[0] if len(planes) == 1 else None
        self._open: dict[str, Attempt] = {}
        self._in_step: dict[str, bool] = {}
        self.settled: list[Attempt] = []
        """All that are over, in order."""

    def read(self, line: dict[str, Any]) -> list[Attempt]:
        """Takes the next line; gives the attempts that are over with it, to be placed before what it tells."""
        agent = str(line.get("agent", ""))
        before = len(self.settled)
        match line["ev"]:
            case "attempt":
                self._settle(agent)
                self._begin(agent, line["trigger"], line["plane"], line["guard"])
                if line["verdict"] == "refuse":
                    self._open[agent].refused = True
            case "settled":
                if self._under_way(agent, "is settled").plane != line["plane"]:
                    raise Inconsistent(f"{agent}: a compaction is settled in {line['plane']}, and began elsewhere")
                self._settle(agent)
            case "answer" if line["compaction"]:
                attempt = self._under_way(agent, "asked for a summary")
                if attempt.refused:
                    raise Inconsistent(f"{agent}: a refused compaction asked for a summary")
                attempt.summary_calls += 1
                attempt.input_tokens += line["input_tokens"]
                attempt.output_tokens += line["output_tokens"]
                attempt.tape_keys += [line["tape_key"]] if line["tape_key"] else []
                attempt.seconds += line["prefill_seconds"] + line["decode_seconds"]
            case "meter" if agent in self._open:
                attempt = self._open[agent]
                if line["at"] == "compaction/start":
                    attempt.tokens_before = attempt.tokens_before or line["tokens"]
                else:
                    attempt.tokens_after = line["tokens"]
            case "event":
                self._event(agent, line)
            case "refuse":
                pass
        return self.settled[before:]

    def rest(self) -> list[Attempt]:
        """Those that were still open when the log ended."""
        before = len(self.settled)
        for agent in tuple(self._open):
            self._settle(agent)
        return self.settled[before:]

    def _event(self, agent: str, line: dict[str, Any]) -> None:
        kind, data = line["type"], line["data"]
        if kind in _OUTSIDE:
            self._settle(agent)
        if kind == "step/start":
            self._in_step[agent] = True
        elif kind in ("assistant/message", "step/end", "turn/end"):
            self._in_step[agent] = False
        elif kind == "compaction/start":
            if agent not in self._open:
                trigger: Trigger = "overflow" if self._in_step.get(agent) else "pressure"
                self._begin(agent, "manual" if data.get("turn") is None else trigger, self._plane, None)
        elif kind == "compaction/summary":
            self._under_way(agent, "has a summary").committed = True
        elif kind == "compaction/end" and data.get("error"):
            self._under_way(agent, "failed").failed = True

    def _under_way(self, agent: str, what: str) -> Attempt:
        if agent not in self._open:
            raise Inconsistent(f"{agent}: a compaction {what}, and none is under way")
        return self._open[agent]

    def _begin(self, agent: str, trigger: Trigger, plane: str | None, by: str | None) -> None:
        self._open[agent] = Attempt(agent, trigger, plane, by)

    def _settle(self, agent: str) -> None:
        if (attempt := self._open.pop(agent, None)) is not None:
            self.settled.append(attempt)
