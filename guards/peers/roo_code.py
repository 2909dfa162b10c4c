"""Roo Code: identical calls in a row, the fourth of which waits for a person.

Source: RooCodeInc/Roo-Code, src/core/tools/ToolRepetitionDetector.ts at cb83656718 (autumn 2026).

Rule: the repeats of a call, names sorted, are counted from 0 at its first. Repeat number
`consecutiveMistakeLimit` is not run and the user is asked; then count and call are forgotten, so that the cycle can run
again: of identical calls in a row the 4th, 8th, 12th ... are denied. `count` and `limit` of a decision are the
product's: repeats after the first. Results are never looked at, and a user message resets nothing.

Left out: waiting for the user's answer (a trace holds none, so that only the call itself is denied).
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from guards.config import GuardConfig, Integer
from guards.peers.peer import Asked, Peer, Session, reason
from guards.peers.streak import Streak
from guards.policy import Denial


class RooCodeConfig(GuardConfig):
    guard: ClassVar[str] = "peer:roo-code"

    consecutive_mistake_limit: Integer = Field(3, ge=0, description="an integer >= 0 (0 = unlimited)")


class RooCode(Peer[Streak]):
    name: ClassVar[str] = RooCodeConfig.guard
    config_type = RooCodeConfig
    config: RooCodeConfig

    def fresh(self) -> Streak:
        return Streak()

    def prompt(self, session: Session[Streak]) -> None:
        """Only another call, or a denial, resets."""

    def judge(self, session: Session[Streak], call: Asked) -> Denial | None:
        repeats, limit = session.seen.add(call.key) - 1, self.config.consecutive_mistake_limit
        if not 0 < limit <= repeats:
            return None
        session.seen = self.fresh()
        return Denial("identical", repeats, limit, reason("Roo Code", f"{call.tool} was repeated {repeats} times"))
