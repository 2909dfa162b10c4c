"""deer-flow: the same set of calls three and five times among the last twenty responses; too many calls of one tool.

Source: bytedance/deer-flow, LoopDetectionMiddleware at f1f4af99b (autumn 2026).

Rule: each response with calls has a key, made of all its calls in any order. Of a call only `path`, `url`, `query`,
`command`, `pattern`, `glob` and `cmd` count where one of them is given; of `read_file` the path and the lines in
buckets of 200; of `write_file` and `str_replace` everything. A key that stands `warnThreshold` times among the last
`windowSize` brings a warning, once while it stays there, and `hardLimit` times strips the calls and ends the run.
Behind that, unless such a warning was just given, the tools of the last calls are counted, of as many calls as the
larger of `windowSize` and `toolFreqHardLimit`: `toolFreqWarn` of one tool bring a warning, once until they are fewer
again, and `toolFreqHardLimit` end the run. A user message begins a run (at that commit counts leak into the next run of
a thread, which is a known fault, #5343).

A response is whole with its last call, so that the decision stands there: of a stripped response with several calls
the others are not denied here. A warning is a nudge behind that call's result; the product keeps it for the next
response of the model.

Left out: other frequencies for single tools; the cap on all calls of a run in later versions.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import Field

from guards.config import Flag, GuardConfig, Integer
from guards.json_text import parse
from guards.peers.peer import Asked, Peer, Session, reason
from guards.policy import Denial, Nudge

_SALIENT = ("path", "url", "query", "command", "pattern", "glob", "cmd")
_WHOLE = ("write_file", "str_replace")
_BUCKET = 200
_ONE = "an integer >= 1"


class DeerFlowConfig(GuardConfig):
    guard: ClassVar[str] = "peer:deer-flow"

    enabled: Flag = True
    warn_threshold: Integer = Field(3, ge=1, description=_ONE)
    hard_limit: Integer = Field(5, ge=1, description="an integer >= warnThreshold")
    window_size: Integer = Field(20, ge=1, description=_ONE)
    tool_freq_warn: Integer = Field(30, ge=1, description=_ONE)
    tool_freq_hard_limit: Integer = Field(50, ge=1, description="an integer >= toolFreqWarn")

    def check(self) -> None:
        if self.hard_limit < self.warn_threshold:
            self.refuse("hardLimit", self.hard_limit, f" (warnThreshold is {self.warn_threshold})")
        if self.tool_freq_hard_limit < self.tool_freq_warn:
            self.refuse("toolFreqHardLimit", self.tool_freq_hard_limit, f" (toolFreqWarn is {self.tool_freq_warn})")


@dataclass(slots=True)
class Run:
    """`calls`: tool and key of each call of the response under way; `tools`: those of the last calls, oldest first."""

    window: deque[Hashable]
    calls: list[tuple[str, Hashable]] = field(default_factory=list)
    tools: deque[str] = field(default_factory=deque)
    warned: set[Hashable] = field(default_factory=set)
    warned_tools: set[str] = field(default_factory=set)


class DeerFlow(Peer[Run]):
    name: ClassVar[str] = DeerFlowConfig.guard
    config_type = DeerFlowConfig
    config: DeerFlowConfig

    def fresh(self) -> Run:
        size = self.config.window_size
        return Run(deque(maxlen=size), tools=deque(maxlen=max(size, self.config.tool_freq_hard_limit)))

    def key(self, tool: str, args: Any) -> Hashable:
        return super().key(tool, salient(tool, args))

    def respond(self, session: Session[Run], calls: int) -> None:
        session.seen.calls.clear()

    def judge(self, session: Session[Run], call: Asked) -> Denial | None:
        seen = session.seen
        seen.calls.append((call.tool, call.key))
        if not call.last or not self.config.enabled:
            return None
        kind, count, limit, hard = self._same_set(seen) or self._frequent(seen) or ("", 0, 0, False)
        if hard:
            return session.stop(Denial(kind, count, limit, reason("deer-flow", f"{count} times ({kind})")))
        if kind:
            text = f"{count} times ({kind}): stop calling tools and answer with what you have."
            session.owe(Nudge(kind, count, limit, text))
        return None

    def _same_set(self, seen: Run) -> tuple[str, int, int, bool] | None:
        response = frozenset(Counter(seen.calls).items())
        seen.window.append(response)
        seen.warned.intersection_update(seen.window)
        count = seen.window.count(response)
        if count >= self.config.hard_limit:
            return "same-calls", count, self.config.hard_limit, True
        if count < self.config.warn_threshold or response in seen.warned:
            return None
        seen.warned.add(response)
        return "same-calls", count, self.config.warn_threshold, False

    def _frequent(self, seen: Run) -> tuple[str, int, int, bool] | None:
        warn, hard = self.config.tool_freq_warn, self.config.tool_freq_hard_limit
        for tool, _ in seen.calls:
            seen.tools.append(tool)
            count = seen.tools.count(tool)
            if count >= hard:
                return "tool-frequency", count, hard, True
            if count < warn:
                seen.warned_tools.discard(tool)
            elif tool not in seen.warned_tools:
                seen.warned_tools.add(tool)
                return "tool-frequency", count, warn, False
        return None


def salient(tool: str, args: Any) -> Any:
    """What of a call's arguments the product compares."""
    if isinstance(args, str):
        try:
            args = parse(args)
        except ValueError:
            return args
    if not isinstance(args, dict):
        return args
    if tool == "read_file":
        start = _line(args.get("start_line"), 1)
        lines = sorted((start, _line(args.get("end_line"), start)))
        return [args.get("path") or "", *((max(line, 1) - 1) // _BUCKET for line in lines)]
    if tool in _WHOLE:
        return args
    return {name: args[name] for name in _SALIENT if args.get(name) is not None} or args


def _line(given: Any, absent: int) -> int:
    try:
        return absent if given is None else int(given)
    except (TypeError, ValueError, OverflowError):
        return absent
