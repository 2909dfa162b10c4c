"""circuit-breaker: denies a call that was made too often, and every call after too many.

The rules are those of the guard stack's specification, section 1; after dsh-circuit-breaker.
"""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from guards.config import Flag, GuardConfig, Integer, Names
from guards.keys import call_key
from guards.policy import Denial, Policy

DUPLICATE_MESSAGE = (
    "This call was not run: it would be call number {count} of {tool} with the same arguments, and the limit is "
    "{limit}. Stop repeating it. Work with the results you have, try a different approach, or finish and say what you "
    "found."
)
CAP_MESSAGE = (
    "This call was not run: {count} tool calls have been run and the limit is {limit}, so {tool} will not run any "
    "more. Stop calling tools and finish with what you know."
)


class CircuitBreakerConfig(GuardConfig):
    """`deny_message` "" stands for our own text of each kind, `incident_log` "" for none."""

    guard: ClassVar[str] = "circuit-breaker"

    enabled: Flag = True
    duplicate_limit: Integer = Field(6, ge=0, description="an integer >= 2, at most window + 1, or 0 = off")
    window: Integer = Field(200, ge=1, description="an integer >= 1")
    max_calls_per_agent: Integer = Field(300, ge=0, description="an integer >= 0 (0 = off)")
    exempt: Names = Field(("todo_write", "ask_user_question", "exit_plan_mode"), description="a list of texts")
    only: Names = Field((), description="a list of texts")
    ignore_args: Names = Field(
        ("description", "explanation", "reason", "thought", "purpose"), description="a list of texts"
    )
    deny_message: str = Field("", description="a text")
    incident_log: str = Field("", description="a text")

    def check(self) -> None:
        if self.duplicate_limit == 1:
            self.refuse("duplicateLimit", 1)
        if self.duplicate_limit > self.window + 1:
            self.refuse("duplicateLimit", self.duplicate_limit, f" (window is {self.window})")


@dataclass(slots=True)
class _Seen:
    """One agent: executed guarded calls, and the keys of the last `window` of them that have one."""

    executed: int = 0
    recent: deque[bytes] = field(default_factory=deque)
    counts: Counter[bytes] = field(default_factory=Counter)
    recorded: set[str] = field(default_factory=set)


class CircuitBreaker(Policy):
    """`live`: the first denials of each agent go to the incident log, where the configuration names one."""

    name: ClassVar[str] = "circuit-breaker"
    config: CircuitBreakerConfig

    def __init__(self, config: CircuitBreakerConfig, *, live: bool = False) -> None:
        super().__init__(config)
        self._live = live
        self._ignored = frozenset(config.ignore_args)
        self._agents: dict[str, _Seen] = {}

    def before_call(self, agent: str, tool: str, args: Any, *, counted: bool = True) -> Denial | None:
        config = self.config
        if not config.enabled or (tool not in config.only if config.only else tool in config.exempt):
            return None
        seen = self._agents.setdefault(agent, _Seen())
        if 0 < config.max_calls_per_agent <= seen.executed:
            return self._denial(agent, seen, "cap", tool, seen.executed, config.max_calls_per_agent)
        key = call_key(tool, args, ignored=self._ignored) if config.duplicate_limit else None
        if key is not None and seen.counts[key] + 1 >= config.duplicate_limit:
            return self._denial(agent, seen, "duplicate", tool, seen.counts[key] + 1, config.duplicate_limit)
        if counted:
            seen.executed += 1
            if key is not None:
                self._remember(seen, key)
        return None

    def _remember(self, seen: _Seen, key: bytes) -> None:
        seen.recent.append(key)
        seen.counts[key] += 1
        if len(seen.recent) > self.config.window:
            oldest = seen.recent.popleft()
            seen.counts[oldest] -= 1
            if not seen.counts[oldest]:
                del seen.counts[oldest]

    def _denial(self, agent: str, seen: _Seen, kind: str, tool: str, count: int, limit: int) -> Denial:
        ours = CAP_MESSAGE if kind == "cap" else DUPLICATE_MESSAGE
        values = {"tool": tool, "count": str(count), "limit": str(limit)}
        reason = re.sub(r"\{(tool|count|limit)\}", lambda match: values[match[1]], self.config.deny_message or ours)
        if self._live and self.config.incident_log and kind not in seen.recorded:
            seen.recorded.add(kind)
            time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            line = {"time": time, "kind": kind, "tool": tool, "count": count, "limit": limit, "agent": agent}
            _append(Path(self.config.incident_log), json.dumps(line))
        return Denial(kind, count, limit, reason)


def _append(path: Path, line: str) -> None:
    """The log is a convenience: a write that fails changes nothing."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
    except OSError:
        pass
