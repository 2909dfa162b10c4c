"""Claude Code: the third automatic compaction in a row within three turns stops the run; so do three that failed.

Source: Claude Code, from version 2.1.89 on, by independent notes and by get-bb/bb#1939 (autumn 2026); not read.

Rule: at each automatic attempt the streak is one more if a compaction was committed before and fewer than
`rapidRefillToolTurnThreshold` turns have passed since, else 0; at `maxConsecutiveRapidRefills` the attempt is refused
and the run ends. The streak moves with the attempt, whatever becomes of it, and a user message forgets nothing, as
public complaints about later prompts say. After `maxConsecutiveFailures` attempts that failed, further ones are refused
until one by hand succeeds, and the run goes on. A turn is a response with calls.

Left out: the rejection of a second read of an unchanged file, and the check for a fixed prompt that is too long alone:
both need what a trace does not hold. There is no public rule for identical calls.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from guards.config import Integer
from guards.peers.peer import Session
from guards.peers.refill import RefillConfig, RefillPeer, Refills
from guards.policy import Refusal


class ClaudeCodeConfig(RefillConfig):
    guard: ClassVar[str] = "peer:claude-code"

    max_consecutive_failures: Integer = Field(3, ge=1, description="an integer >= 1")


class ClaudeCode(RefillPeer):
    name: ClassVar[str] = ClaudeCodeConfig.guard
    config_type = ClaudeCodeConfig
    config: ClaudeCodeConfig

    def prompt(self, session: Session[Refills]) -> None:
        """A user message forgets nothing."""

    def attempt(self, session: Session[Refills]) -> Refusal | None:
        seen, config = session.seen, self.config
        if seen.failures >= config.max_consecutive_failures:
            text = f"Compaction has stopped: {seen.failures} attempts in a row failed."
            return Refusal("consecutive-failures", seen.failures, config.max_consecutive_failures, text)
        seen.rapid = seen.projected(config.rapid_refill_tool_turn_threshold)
        return self.rapid_refill(session, seen.rapid) if seen.rapid >= config.max_consecutive_rapid_refills else None
