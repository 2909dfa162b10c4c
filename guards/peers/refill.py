"""What the rapid-refill breakers of ZCode and of Claude Code share.

Compaction attempts of a session are judged by how many tool turns lie between an attempt and the last committed
compaction. A stopped session refuses every later attempt, and denies every later call, until the user speaks.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from guards.config import GuardConfig, Integer
from guards.peers.peer import Peer, Session
from guards.policy import Denial, Outcome, Refusal, Trigger


class RefillConfig(GuardConfig):
    rapid_refill_tool_turn_threshold: Integer = Field(3, ge=1, description="an integer >= 1")
    max_consecutive_rapid_refills: Integer = Field(3, ge=1, description="an integer >= 1")


@dataclass(slots=True)
class Refills:
    """`turns`: tool turns since the last committed compaction, None = there was none; `rapid`: the streak.

    `failures`: automatic attempts that failed since one was committed.
    """

    turns: int | None = None
    rapid: int = 0
    failures: int = 0

    def projected(self, threshold: int) -> int:
        """The streak with the attempt that begins now."""
        return self.rapid + 1 if self.turns is not None and self.turns < threshold else 0


class RefillPeer(Peer[Refills]):
    config: RefillConfig

    def fresh(self) -> Refills:
        return Refills()

    def respond(self, session: Session[Refills], calls: int) -> None:
        if calls > 0 and session.seen.turns is not None:
            session.seen.turns += 1

    def before_compaction(self, agent: str, trigger: Trigger) -> Refusal | None:
        if trigger == "manual":
            return None
        session = self.session(agent)
        stopped = session.stopped()
        if stopped is not None:
            return Refusal(stopped.kind, stopped.count, stopped.limit, stopped.reason)
        return self.attempt(session)

    def attempt(self, session: Session[Refills]) -> Refusal | None:
        """Automatic compaction is tried, and the product has not stopped."""
        raise NotImplementedError

    def after_compaction(self, agent: str, trigger: Trigger, outcome: Outcome) -> None:
        seen = self.session(agent).seen
        if outcome == "failed" and trigger != "manual":
            seen.failures += 1
        if outcome != "committed":
            return
        if trigger != "manual":
            self.committed(seen)
        seen.turns, seen.failures = 0, 0

    def committed(self, seen: Refills) -> None:
        """An automatic compaction is committed, and the clock is not set back yet."""

    def rapid_refill(self, session: Session[Refills], streak: int) -> Refusal:
        """Stops the session."""
        limit = self.config.max_consecutive_rapid_refills
        text = (
            f"Compaction has stopped: the context was full again within {self.config.rapid_refill_tool_turn_threshold} "
            f"tool turns, {streak} times in a row. Take in less at a time."
        )
        session.stop(Denial("rapid-refill", streak, limit, text))
        return Refusal("rapid-refill", streak, limit, text)
