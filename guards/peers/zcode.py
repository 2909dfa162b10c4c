"""ZCode: a reminder at exactly three identical calls in a row. It never denies.

Source: ZCode (zai-org), the modelAnomalyGuard of its opened source, constants verified there (autumn 2026).

Rule: calls of the same tool with the same input, names sorted at every depth, are counted while no other call comes
between; at exactly `repeatedToolCallWarningThreshold` the model is reminded, at most `maxBudgetWarningsPerTurn` times a
turn. With `toolCallWarningThreshold`, which is not set by default, that call of a turn is followed by a reminder too,
out of the same budget. Results are never looked at. A user message begins a turn.

Left out: nothing of this rule; the refill rule is peer:zcode-refill.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from pydantic import Field

from guards.config import GuardConfig, Integer
from guards.peers.peer import Asked, Peer, Session
from guards.peers.streak import Streak
from guards.policy import Denial, Nudge


class ZcodeConfig(GuardConfig):
    guard: ClassVar[str] = "peer:zcode"

    repeated_tool_call_warning_threshold: Integer = Field(3, ge=0, description="an integer >= 0 (0 = off)")
    max_budget_warnings_per_turn: Integer = Field(3, ge=0, description="an integer >= 0")
    tool_call_warning_threshold: Integer = Field(0, ge=0, description="an integer >= 0 (0 = not set)")


@dataclass(slots=True)
class Turn:
    streak: Streak = field(default_factory=Streak)
    calls: int = 0
    warnings: int = 0


class Zcode(Peer[Turn]):
    name: ClassVar[str] = ZcodeConfig.guard
    config_type = ZcodeConfig
    config: ZcodeConfig

    def fresh(self) -> Turn:
        return Turn()

    def judge(self, session: Session[Turn], call: Asked) -> Denial | None:
        seen = session.seen
        seen.calls += 1
        count, repeated = seen.streak.add(call.key), self.config.repeated_tool_call_warning_threshold
        budget = self.config.tool_call_warning_threshold
        if count == repeated:
            text = f"{call.tool} was called {count} times in a row with the same input. Use the result you have."
            self._warn(session, call, Nudge("repeat", count, repeated, text))
        elif seen.calls == budget:
            text = f"{budget} calls in this turn. Say what is missing, or go on with what you have."
            self._warn(session, call, Nudge("tool-call-budget", budget, budget, text))
        return None

    def _warn(self, session: Session[Turn], call: Asked, nudge: Nudge) -> None:
        if session.seen.warnings < self.config.max_budget_warnings_per_turn:
            session.seen.warnings += 1
            session.owe(nudge)
