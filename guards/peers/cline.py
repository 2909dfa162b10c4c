"""Cline: identical calls in a row, a warning at three and a stop at five.

Source: cline/cline, sdk/packages/core/src/runtime/safety/loop-detection.ts at 21cb8d2525 (autumn 2026).

Rule: calls of the same tool with the same arguments (names sorted at every depth) are counted while no other call comes
between. At exactly `softThreshold` the model is told so; at `hardThreshold` and beyond the run is stopped before the
call. Results are never looked at. Only another call starts the count anew: after a stop the user may go on, and the
next identical call stops the run again.

Left out: the separate count of mistakes (3), which needs the product's own idea of a mistake.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from guards.config import GuardConfig, Integer
from guards.peers.peer import Asked, Peer, Session, reason
from guards.peers.streak import Streak
from guards.policy import Denial, Nudge


class ClineConfig(GuardConfig):
    guard: ClassVar[str] = "peer:cline"

    soft_threshold: Integer = Field(3, ge=1, description="an integer >= 1")
    hard_threshold: Integer = Field(5, ge=1, description="an integer >= 1")


class Cline(Peer[Streak]):
    name: ClassVar[str] = ClineConfig.guard
    config_type = ClineConfig
    config: ClineConfig

    def fresh(self) -> Streak:
        return Streak()

    def prompt(self, session: Session[Streak]) -> None:
        """Only another call resets."""

    def judge(self, session: Session[Streak], call: Asked) -> Denial | None:
        soft, hard = self.config.soft_threshold, self.config.hard_threshold
        count = session.seen.add(call.key)
        if count >= hard:
            what = f"{count} identical calls of {call.tool} in a row"
            return session.stop(Denial("identical", count, hard, reason("Cline", what)))
        if count == soft:
            text = f"{count} identical calls of {call.tool} in a row: try a different approach."
            session.owe(Nudge("identical", count, soft, text))
        return None
