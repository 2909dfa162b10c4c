"""compaction-breaker: stops compacting a context that fills up again at once.

The rules are those of the guard stack's specification, section 3; after dsh-zcode-breaker. One agent is one session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field

from guards.config import Flag, GuardConfig, Integer
from guards.errors import UserError
from guards.policy import Outcome, Policy, Refusal, Trigger

_OF_THE_BASE_ENGINE = "what the base engine allows"


class CompactionBreakerConfig(GuardConfig):
    """The guard's own keys, and those of the base engine, which are passed on unchanged and mean nothing here.

    `variant` "upstream-literal" gates every `compactIfNeeded` and commits on what it returns, as upstream's sample
    does; it exists in the harness alone.
    """

    guard: ClassVar[str] = "compaction-breaker"

    tool_turn_threshold: Integer = Field(2, ge=1, description="an integer >= 1")
    max_consecutive_rapid_refills: Integer = Field(3, ge=1, description="an integer >= 1")
    announce_in_prompt: Flag = True
    variant: Literal["ours", "upstream-literal"] = Field("ours", description='"ours" or "upstream-literal"')
    threshold_ratio: Any = Field(None, description=_OF_THE_BASE_ENGINE)
    retain_ratio: Any = Field(None, description=_OF_THE_BASE_ENGINE)
    retain_tokens: Any = Field(None, description=_OF_THE_BASE_ENGINE)
    headroom_tokens: Any = Field(None, description=_OF_THE_BASE_ENGINE)
    summarization_provider: Any = Field(None, description=_OF_THE_BASE_ENGINE)
    summarization_model: Any = Field(None, description=_OF_THE_BASE_ENGINE)
    max_tokens: Any = Field(None, description=_OF_THE_BASE_ENGINE)
    compaction_retries: Any = Field(None, description=_OF_THE_BASE_ENGINE)
    max_overflow_retries: Any = Field(None, description=_OF_THE_BASE_ENGINE)
    model_policies: Any = Field(None, description=_OF_THE_BASE_ENGINE)
    auto: Any = Field(None, description=_OF_THE_BASE_ENGINE)


@dataclass(slots=True)
class _Session:
    """`turns`: tool turns seen; `mark`: that of the last committed compaction, None = none yet."""

    turns: int = 0
    mark: int | None = None
    rapid: int = 0
    tripped: bool = False
    refused: int = 0


class CompactionBreaker(Policy):
    name: ClassVar[str] = "compaction-breaker"
    config: CompactionBreakerConfig

    def __init__(self, config: CompactionBreakerConfig) -> None:
        if config.variant != "ours":
            raise UserError(
                f"{self.name}: {config.variant} is live only: a trace holds no attempt that found nothing to do; "
                'replay it with variant "ours"'
            )
        super().__init__(config)
        self._sessions: dict[str, _Session] = {}

    def model_response(self, agent: str, calls: int) -> None:
        if calls > 0:
            self._session(agent).turns += 1

    def before_compaction(self, agent: str, trigger: Trigger) -> Refusal | None:
        if trigger == "manual":
            return None
        session, limit = self._session(agent), self.config.max_consecutive_rapid_refills
        if not session.tripped and self._projected(session) < limit:
            return None
        kind = "latched" if session.tripped else "rapid-refill"
        session.tripped = True
        session.refused += 1
        reason = (
            "Automatic compaction has stopped: the context was full again right after compaction, "
            f"{limit} times in a row. Read the file or run the command in smaller chunks, start a new task, or compact "
            'by hand. "/compaction-breaker reset" allows automatic compaction again.'
        )
        return Refusal(kind, session.rapid, limit, reason)

    def after_compaction(self, agent: str, trigger: Trigger, outcome: Outcome) -> None:
        if outcome != "committed":
            return
        if trigger == "manual":
            self.reset(agent)
            return
        session = self._session(agent)
        # No step of this session comes between the gate and the commit, so that the clock stands where it stood.
        session.rapid = self._projected(session)
        session.mark = session.turns

    def reset(self, agent: str) -> None:
        session = self._session(agent)
        session.rapid, session.tripped, session.refused = 0, False, 0
        session.mark = session.turns

    def _session(self, agent: str) -> _Session:
        return self._sessions.setdefault(agent, _Session())

    def _projected(self, session: _Session) -> int:
        """The rapid count once the attempt under way is committed."""
        rapid = session.mark is not None and session.turns - session.mark < self.config.tool_turn_threshold
        return session.rapid + 1 if rapid else 0
