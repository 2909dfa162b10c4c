"""ZCode: the third compaction in a row that comes within fewer than three tool turns is refused.

Source: ZCode (zai-org), its opened source, constants verified there (autumn 2026).

Rule: before an automatic compaction, under pressure or after a context error, the streak of rapid refills is one more
if fewer than `rapidRefillToolTurnThreshold` tool turns lie behind the last successful one, else 0. At
`maxConsecutiveRapidRefills` the attempt is refused and the turn ends in an error. The streak is kept when a compaction
succeeds; each success sets the clock back, manual ones too, which are never refused. A user message begins a turn, with
all of it forgotten. Responses with calls are the clock: the calls of one response are one tool turn.

Left out: the breaker for compactions that fail, which the specification of peers does not describe.
"""

from __future__ import annotations

from typing import ClassVar

from guards.peers.peer import Session
from guards.peers.refill import RefillConfig, RefillPeer, Refills
from guards.policy import Refusal


class ZcodeRefillConfig(RefillConfig):
    guard: ClassVar[str] = "peer:zcode-refill"


class ZcodeRefill(RefillPeer):
    name: ClassVar[str] = ZcodeRefillConfig.guard
    config_type = ZcodeRefillConfig
    config: ZcodeRefillConfig

    def attempt(self, session: Session[Refills]) -> Refusal | None:
        streak = session.seen.projected(self.config.rapid_refill_tool_turn_threshold)
        if streak < self.config.max_consecutive_rapid_refills:
            return None
        return self.rapid_refill(session, streak)

    def committed(self, seen: Refills) -> None:
        seen.rapid = seen.projected(self.config.rapid_refill_tool_turn_threshold)
