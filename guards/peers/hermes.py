"""Hermes: failures, unchanged reads and repeated cycles within a turn; it stops only where nobody watches.

Source: NousResearch/hermes-agent, agent/tool_guardrails.py at 06c25ac90b (autumn 2026).

Rule, by signature (tool and arguments, names sorted at every depth), all counts of one turn:
- An identical call that fails is warned about from `exactFailureWarnAfter` failures on and blocked after
  `exactFailureBlockAfter`, unless a call of `progressTools` succeeded in between, which makes the next failure a first.
- A tool that fails, whatever the arguments, is warned about from `sameToolFailureWarnAfter` on and halts the turn at
  `sameToolFailureHaltAfter`, if it is none of `failureTolerantTools`. A success of it, or of a progress tool, clears.
- A call of `idempotentTools` with an unchanged result is warned about from `noProgressWarnAfter` on and blocked after
  `noProgressBlockAfter`.
- Identical calls with identical results in a row, and cycles of 2 to 4 of them, bring a notice from
  `identicalThreshold` rounds on, and halt the turn at `noProgressBlockAfter`. Pollers (`process_manage`, names that end
  in `_get_result` or `_poll`) are exempt, and so is a cycle of nothing else.
- `web_search` is blocked after `maxWebSearches`, always. All other blocks and halts need `hardStopEnabled`, which is
  off where a person watches and on in a gateway or a scheduled job (preset `unattended`).
A block denies that call; a halt denies every call behind it. Where a result earns a warning and a notice, the warning
is the decision. A user message begins a turn.

Left out: the cap on subagents (how many were built is not in a trace); the stub that replaces repeated results; what
the product reads from a result's text, which here is the result's error flag; results are compared whole.
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

_LONGEST_CYCLE, _HISTORY = 4, 64
_ONE = "an integer >= 1"
_TEXTS = "a list of texts"
_IDEMPOTENT = (
    *("read_file", "search_files", "web_search", "web_extract", "session_search", "skill_view", "skills_list"),
    *("browser_snapshot", "browser_console", "browser_get_images"),
    *("mcp_filesystem_read_file", "mcp_filesystem_read_text_file", "mcp_filesystem_read_multiple_files"),
    *("mcp_filesystem_list_directory", "mcp_filesystem_list_directory_with_sizes", "mcp_filesystem_directory_tree"),
    *("mcp_filesystem_get_file_info", "mcp_filesystem_search_files"),
)
_PROGRESS = (
    *("write_file", "patch", "terminal", "execute_code", "browser_click", "browser_type", "browser_press"),
    *("browser_navigate", "process_manage", "process", "delegate_task", "send_message", "cronjob", "cronjob_manage"),
    *("todo", "todo_list", "memory", "skill_manage"),
)
_TOLERANT = ("terminal", "execute_code", "process_manage", "process", "browser_navigate", "web_extract")


class HermesConfig(GuardConfig):
    guard: ClassVar[str] = "peer:hermes"

    warnings_enabled: Flag = True
    hard_stop_enabled: Flag = False
    exact_failure_warn_after: Integer = Field(2, ge=1, description=_ONE)
    exact_failure_block_after: Integer = Field(5, ge=1, description=_ONE)
    same_tool_failure_warn_after: Integer = Field(3, ge=1, description=_ONE)
    same_tool_failure_halt_after: Integer = Field(8, ge=1, description=_ONE)
    no_progress_warn_after: Integer = Field(2, ge=1, description=_ONE)
    no_progress_block_after: Integer = Field(5, ge=1, description=_ONE)
    identical_threshold: Integer = Field(3, ge=1, description=_ONE)
    max_web_searches: Integer = Field(50, ge=0, description="an integer >= 0 (0 = no cap)")
    idempotent_tools: Names = Field(_IDEMPOTENT, description=_TEXTS)
    progress_tools: Names = Field(_PROGRESS, description=_TEXTS)
    failure_tolerant_tools: Names = Field(_TOLERANT, description=_TEXTS)


@dataclass(slots=True)
class Turn:
    """`retried`: failing calls since whose last failure something succeeded; `unchanged`: last result and its count."""

    failures: Counter[Hashable] = field(default_factory=Counter)
    tool_failures: Counter[str] = field(default_factory=Counter)
    retried: set[Hashable] = field(default_factory=set)
    unchanged: dict[Hashable, Streak] = field(default_factory=dict)
    identical: Streak = field(default_factory=Streak)
    rounds: deque[tuple[Hashable, bool]] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    searches: int = 0


class Hermes(Peer[Turn]):
    name: ClassVar[str] = HermesConfig.guard
    config_type = HermesConfig
    config: HermesConfig
    presets: ClassVar[dict[str, dict[str, Any]]] = {"unattended": {"hardStopEnabled": True}}

    def fresh(self) -> Turn:
        return Turn()

    def judge(self, session: Session[Turn], call: Asked) -> Denial | None:
        seen, config = session.seen, self.config
        if call.tool == "web_search" and 0 < config.max_web_searches <= seen.searches:
            return _denial("web-search-cap", seen.searches, config.max_web_searches, call)
        seen.searches += call.tool == "web_search" and call.counted
        if not config.hard_stop_enabled:
            return None
        failed = 0 if call.key in seen.retried else seen.failures[call.key]
        if failed >= config.exact_failure_block_after:
            return _denial("exact-failure", failed, config.exact_failure_block_after, call)
        same = seen.unchanged[call.key].count if call.key in seen.unchanged else 0
        if same >= config.no_progress_block_after:
            return _denial("no-progress", same, config.no_progress_block_after, call)
        return None

    def settle(self, session: Session[Turn], call: Asked, result: ToolOutcome) -> Nudge | None:
        shown = result_digest(result)
        warning = self._failed(session, call) if result.error else self._succeeded(session.seen, call, shown)
        notice = self._repeated(session, call, shown)
        return warning or notice

    def _failed(self, session: Session[Turn], call: Asked) -> Nudge | None:
        seen, config = session.seen, self.config
        if call.key in seen.retried:
            seen.retried.remove(call.key)
            seen.failures[call.key] = 0
        seen.failures[call.key] += 1
        seen.tool_failures[call.tool] += 1
        seen.unchanged.pop(call.key, None)
        exact, of_tool = seen.failures[call.key], seen.tool_failures[call.tool]
        halt = config.same_tool_failure_halt_after
        if config.hard_stop_enabled and of_tool >= halt and call.tool not in config.failure_tolerant_tools:
            session.stop(_denial("same-tool-failure", of_tool, halt, call), told=False)
            return None
        if exact >= config.exact_failure_warn_after:
            return self._warning("exact-failure", exact, config.exact_failure_warn_after, call)
        if of_tool >= config.same_tool_failure_warn_after:
            return self._warning("same-tool-failure", of_tool, config.same_tool_failure_warn_after, call)
        return None

    def _succeeded(self, seen: Turn, call: Asked, shown: Hashable) -> Nudge | None:
        config = self.config
        del seen.failures[call.key]
        del seen.tool_failures[call.tool]
        if call.tool in config.progress_tools:
            seen.retried.update(seen.failures)
            seen.tool_failures.clear()
        if call.tool not in config.idempotent_tools:
            return None
        same = seen.unchanged.setdefault(call.key, Streak()).add(shown)
        if same < config.no_progress_warn_after:
            return None
        return self._warning("no-progress", same, config.no_progress_warn_after, call)

    def _repeated(self, session: Session[Turn], call: Asked, shown: Hashable) -> Nudge | None:
        """The notice about identical calls with identical results, of one call or of a cycle."""
        seen, limit, hard = session.seen, self.config.identical_threshold, self.config.no_progress_block_after
        poller = call.tool == "process_manage" or call.tool.endswith(("_get_result", "_poll"))
        seen.rounds.append(((call.key, shown), poller))
        kind, count = "identical-call", seen.identical.add((call.key, shown))
        if poller or count < limit:
            found = _cycle(list(seen.rounds), limit)
            if found is None:
                return None
            kind, count = f"identical-cycle-{found[0]}", found[1]
        if self.config.hard_stop_enabled and count >= hard:
            session.stop(_denial(kind, count, hard, call), told=False)
        text = f"{call.tool}: {count} identical rounds with identical results. Use what you have, or do something else."
        return Nudge(kind, count, limit, text)

    def _warning(self, kind: str, count: int, limit: int, call: Asked) -> Nudge | None:
        text = f"{call.tool}: {count} times ({kind}). Look at the result, and change the call."
        return Nudge(kind, count, limit, text) if self.config.warnings_enabled else None


def _denial(kind: str, count: int, limit: int, call: Asked) -> Denial:
    return Denial(kind, count, limit, reason("Hermes", f"{call.tool}, {count} times ({kind})"))


def _cycle(rounds: list[tuple[Hashable, bool]], least: int) -> tuple[int, int] | None:
    """Length and laps of the shortest cycle of 2 to 4 that `rounds` end in `least` times; None = there is none."""
    for length in range(2, _LONGEST_CYCLE + 1):
        lap, laps = rounds[-length:], 0
        while len(rounds) >= length * (laps + 1) and rounds[-length * (laps + 1) : len(rounds) - length * laps] == lap:
            laps += 1
        if laps >= least and not all(poller for _, poller in lap):
            return length, laps
    return None
