"""An episode as the gateway knows it: its settings, its agents, and what each model response was."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from runners.gateway.aliases import AliasMap
from runners.gateway.asking import DecodeMode, Occurrences
from runners.gateway.conversation import Conversation
from runners.gateway.sampler import Sampler

KEPT_STEPS = 10_000
PARENT_SECONDS = 10.0
"""How long a child whose call can not be told apart from another's waits for its parent to name it."""
_POLL_SECONDS = 0.02


class EpisodeSettings(BaseModel):
    """What decides an episode's completions beside its prompts, and what must not reach a prompt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = Field(default=0, ge=0)
    """Seed index: the sampling seeds derive from it through the tape keys."""
    decode_mode: DecodeMode = "lazy"
    sampler: Sampler | None = None
    """None takes the model's recommended one."""
    window: int | None = Field(default=None, ge=64)
    """Most tokens of prompt and completion together; None is the server's."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Caps what a request asks for; None does not."""
    root_session: str | None = None
    """The session id of the root agent; None takes the first that comes."""
    workspace: str | None = None
    """What prompts show as `/workspace`; None hides none."""
    home: str | None = None
    """What prompts show as `/home/agent`; None hides none."""
    volatile: dict[str, str] = Field(default_factory=dict)
    """Further values that differ from run to run, with the aliases that prompts show in their place."""
    watch: tuple[str, ...] = ()
    """Values that have no alias and must not stand in a prompt: one that does fails the episode."""
    allow: tuple[str, ...] = ()
    """Texts of the scenario whose dates are its own, whatever day it is."""


@dataclass(frozen=True)
class Step:
    """One model response. `agent` and `step` are ordinals from 0; seconds are those stored with the completion."""

    agent: int
    step: int
    session: str | None
    compaction: bool
    calls: int
    input_tokens: int
    output_tokens: int
    prefill_seconds: float
    decode_seconds: float
    finish: str
    tape_key: str | None
    prompt_digest: str | None
    decoded: bool
    primed: bool = False


class Episode:
    """The state of one episode while it runs. Lives on the server's event loop.

    `plain` is for requests that name no episode: nothing of theirs is aliased, and they may set their own sampler.
    Raises UserError where the settings' volatile values can not be hidden without doubt.
    """

    def __init__(self, name: str, settings: EpisodeSettings, *, plain: bool = False) -> None:
        self.name = name
        self.settings = settings
        self.plain = plain
        self.occurrences = Occurrences()
        self.aliases = AliasMap(
            workspace=settings.workspace,
            home=settings.home,
            root_session=settings.root_session,
            extra=settings.volatile,
            watch=settings.watch,
        )
        for text in settings.allow:
            self.aliases.allow(text)
        self.steps: deque[Step] = deque(maxlen=KEPT_STEPS)
        self.failure: str | None = None
        """Why this episode can not be trusted any more; None as long as it can."""
        self.assumed: list[str] = []
        """Sessions whose agent could only be told by the order of arrival: another run may number them otherwise."""
        self.opening: Conversation | None = None
        """What the root agent's first step was asked with, as it was rendered; None before it."""
        self.on_step: Callable[[Step], None] = lambda _step: None
        """Called with each step before its answer's last bytes are sent."""
        self._next: dict[int, int] = {}

    async def agent(self, session: str | None, conversation: Conversation) -> int:
        """The ordinal of the agent that asks: 0 is the root, or a request without a session id."""
        if self.plain:
            return 0
        waited = 0.0
        while (number := self.aliases.number(session, conversation)) is None and waited < PARENT_SECONDS:
            await asyncio.sleep(_POLL_SECONDS)
            waited += _POLL_SECONDS
        if number is None:
            number = self.aliases.assume(session, conversation)
            self.assumed.append(session or "")
        return number

    def hidden(self, session: str | None, conversation: Conversation) -> Conversation:
        """The conversation with aliases in place of what is volatile. Raises VolatileLeft where some of it is left."""
        if self.plain:
            return conversation
        self.aliases.learn(session, conversation)
        hidden = self.aliases.hidden(conversation)
        self.aliases.check(hidden)
        return hidden

    def record(self, step: Step) -> None:
        """Books a model response."""
        self.steps.append(step)
        self.on_step(step)

    def begin(self, agent: int, *, compaction: bool) -> int:
        """The ordinal of the agent's next step; a summary for a compaction has that of the step that it precedes."""
        step = self._next.get(agent, 0)
        if not compaction:
            self._next[agent] = step + 1
        return step

    def abandon(self, agent: int, step: int) -> None:
        """Gives a step's ordinal back when nothing came of it, so that asking again gives equal ids."""
        if self._next.get(agent) == step + 1:
            self._next[agent] = step

    def summary(self) -> dict[str, Any]:
        """For `GET /e/EPISODE`: settings, steps (the last 10,000), aliases, failure."""
        return {
            "episode": self.name,
            "settings": self.settings.model_dump(mode="json"),
            "failure": self.failure,
            "assumed": self.assumed,
            "aliases": dict(self.aliases.pairs),
            "steps": [vars(step) for step in self.steps],
        }
