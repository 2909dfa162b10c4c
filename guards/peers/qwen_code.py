"""Qwen Code: five identical calls in a row, a cap with a second sign, and four detectors that are off by default.

Source: QwenLM/qwen-code, packages/core/src/services/loopDetectionService.ts at 00aa71b4a0 (autumn 2026).

Rule, always on: the call that makes `consecutive` identical ones (names sorted at every depth) is not run and the turn
is halted. For the tools in `statefulReadTools` the results count too: where all results of the streak are known and one
changed, the streak begins anew at this call. A turn of more than 100 calls is halted once one of its calls has come
`globalDuplicates` times, and always beyond 1,000; `maxToolCallsPerTurn` replaces both with one hard cap.
With `skipLoopDetection` false also: `globalDuplicates` identical calls anywhere in the turn; `alternatingCycles` rounds
of two calls in turn; `readFileThreshold` read-like calls among the last `readFileWindow`, once the turn has had a call
of another kind; `stagnation` calls of one tool in a row, whatever their arguments. A user message begins a turn.

Left out: repeated text and thoughts (a trace holds neither); repeated shell inspection (8), whose commands the
specification of peers does not list; what the four detectors do about results of stateful readers, which take no part
in them here; old names of tools.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import Field

from guards.config import Flag, GuardConfig, Integer, Names
from guards.peers.peer import Asked, Peer, Session, reason, result_digest
from guards.peers.streak import Streak
from guards.policy import Denial, Nudge, ToolOutcome

_SOFT_CAP, _HARD_CAP = 100, 1000
_READ_LIKE = {"read_file", "read_many_files", "list_directory", "zoom_image"}
_TWO = "an integer >= 2"


class QwenCodeConfig(GuardConfig):
    """`max_tool_calls_per_turn` None: the adaptive cap."""

    guard: ClassVar[str] = "peer:qwen-code"

    consecutive: Integer = Field(5, ge=2, description=_TWO)
    stateful_read_tools: Names = Field(("task_list",), description="a list of texts")
    max_tool_calls_per_turn: Integer | None = Field(
        None, description="an integer (<= 0 = no cap), or null = 100 with a repeat and 1000 without"
    )
    skip_loop_detection: Flag = True
    global_duplicates: Integer = Field(6, ge=2, description=_TWO)
    alternating_cycles: Integer = Field(3, ge=2, description=_TWO)
    read_file_threshold: Integer = Field(8, ge=1, description="an integer >= 1, at most readFileWindow")
    read_file_window: Integer = Field(15, ge=1, description="an integer >= 1")
    stagnation: Integer = Field(8, ge=2, description=_TWO)

    def check(self) -> None:
        if self.read_file_threshold > self.read_file_window:
            self.refuse("readFileThreshold", self.read_file_threshold, f" (readFileWindow is {self.read_file_window})")


@dataclass(slots=True)
class Turn:
    """`results`: those of the streak under way, in order; `keys` and `reads`: of the last calls, oldest first."""

    calls: int = 0
    streak: Streak = field(default_factory=Streak)
    results: list[Hashable] = field(default_factory=list)
    counts: Counter[Hashable] = field(default_factory=Counter)
    tools: Streak = field(default_factory=Streak)
    keys: deque[Hashable] = field(default_factory=deque)
    reads: deque[bool] = field(default_factory=deque)
    explored: bool = False


class QwenCode(Peer[Turn]):
    name: ClassVar[str] = QwenCodeConfig.guard
    config_type = QwenCodeConfig
    config: QwenCodeConfig
    presets: ClassVar[dict[str, dict[str, Any]]] = {"all": {"skipLoopDetection": False}}

    def fresh(self) -> Turn:
        config = self.config
        return Turn(keys=deque(maxlen=2 * config.alternating_cycles), reads=deque(maxlen=config.read_file_window))

    def judge(self, session: Session[Turn], call: Asked) -> Denial | None:
        seen = session.seen
        stateful = call.tool in self.config.stateful_read_tools
        seen.calls += 1
        if not stateful:
            seen.counts[call.key] += 1
        found = self._consecutive(seen, call, stateful) or self._cap(seen)
        if found is None and not self.config.skip_loop_detection and not stateful:
            found = self._heuristics(seen, call)
        if found is None:
            return None
        kind, count, limit, what = found
        return session.stop(Denial(kind, count, limit, reason("Qwen Code", what)))

    def settle(self, session: Session[Turn], call: Asked, result: ToolOutcome) -> Nudge | None:
        if call.tool in self.config.stateful_read_tools and call.key == session.seen.streak.key:
            session.seen.results.append(result_digest(result))
        return None

    def _consecutive(self, seen: Turn, call: Asked, stateful: bool) -> tuple[str, int, int, str] | None:
        limit = self.config.consecutive
        if call.key != seen.streak.key:
            seen.results.clear()
        count = seen.streak.add(call.key)
        if count < limit:
            return None
        if stateful and len(seen.results) >= count - 1 and len(set(seen.results)) > 1:
            seen.streak.count = 1
            seen.results.clear()
            return None
        return "consecutive", count, limit, f"{count} identical calls of {call.tool} in a row"

    def _cap(self, seen: Turn) -> tuple[str, int, int, str] | None:
        cap = self.config.max_tool_calls_per_turn
        if cap is None:
            beyond = seen.calls > _SOFT_CAP
            repeated = beyond and max(seen.counts.values(), default=0) >= self.config.global_duplicates
            cap = _SOFT_CAP if repeated else _HARD_CAP
        if not 0 < cap < seen.calls:
            return None
        return "cap", seen.calls, cap, f"{seen.calls} calls in this turn"

    def _heuristics(self, seen: Turn, call: Asked) -> tuple[str, int, int, str] | None:
        config, count = self.config, seen.counts[call.key]
        seen.keys.append(call.key)
        read = call.tool in _READ_LIKE or call.tool.startswith(("read_", "list_"))
        seen.reads.append(read)
        seen.explored = seen.explored or not read
        in_a_row, reads = seen.tools.add(call.tool), sum(seen.reads)
        if count >= config.global_duplicates:
            return "duplicate", count, config.global_duplicates, f"{call.tool} was called {count} times like this"
        if len(seen.keys) == seen.keys.maxlen and _alternate(list(seen.keys)):
            cycles = config.alternating_cycles
            return "alternating", cycles, cycles, f"two calls in turn, {cycles} times"
        if seen.explored and reads >= config.read_file_threshold:
            return "read-file", reads, config.read_file_threshold, f"{reads} of the last calls read"
        if in_a_row >= config.stagnation:
            return "stagnation", in_a_row, config.stagnation, f"{in_a_row} calls of {call.tool} in a row"
        return None


def _alternate(keys: list[Hashable]) -> bool:
    return keys[0] != keys[1] and all(keys[at] == keys[at - 2] for at in range(2, len(keys)))
