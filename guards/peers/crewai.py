"""CrewAI: the second of two identical calls in a row is refused.

Source: crewAIInc/crewAI, lib/crewai/src/crewai/tools/tool_usage.py at f4731f502 (autumn 2026).

Rule: a call with the tool and the arguments of the last one that was used is answered with an observation instead of a
result, whether or not results are cached, and so is every further one until another call is used. A call whose tool
failed is no use, and may be repeated.

Left out: the retries inside the product after a tool's exception; near matches of a tool's name. The product forgets
the last call with each task: a user message is taken as a new one.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from guards.config import GuardConfig
from guards.peers.peer import Asked, Peer, Session, reason
from guards.policy import Denial, Nudge, ToolOutcome


class CrewAIConfig(GuardConfig):
    """The product has no settings for it."""

    guard: ClassVar[str] = "peer:crewai"


@dataclass(slots=True)
class LastUsed:
    """None = no call was used yet."""

    key: Hashable = None
    before: Hashable = None


class CrewAI(Peer[LastUsed]):
    name: ClassVar[str] = CrewAIConfig.guard
    config_type = CrewAIConfig
    config: CrewAIConfig

    def fresh(self) -> LastUsed:
        return LastUsed()

    def judge(self, session: Session[LastUsed], call: Asked) -> Denial | None:
        if call.key == session.seen.key:
            what = f"{call.tool} was just used with the same arguments"
            return Denial("repeated-usage", 2, 2, reason("CrewAI", what))
        if call.counted:
            session.seen = LastUsed(call.key, session.seen.key)
        return None

    def settle(self, session: Session[LastUsed], call: Asked, result: ToolOutcome) -> Nudge | None:
        if result.error and call.key == session.seen.key:
            session.seen = LastUsed(session.seen.before)
        return None
