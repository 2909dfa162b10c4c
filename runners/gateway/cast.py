"""Who plays in which episode: the model behind the gateway, or an actor, and the replies that a script begins with."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from runners.gateway.actors import Actor, scripted
from runners.gateway.asking import Ask, Backend, Event
from runners.gateway.conversation import Reply
from runners.gateway.sampler import Sampler


@dataclass(frozen=True)
class Role:
    """Who answers an episode. `actor` None is the model; `primed` are the root agent's first replies, whoever plays,
    and `children` those of its subagents by their numbers, from 1."""

    actor: Actor | None = None
    primed: Sequence[Reply] = ()
    children: Mapping[int, Sequence[Reply]] = field(default_factory=dict)

    def script(self, agent: int) -> Sequence[Reply]:
        """The agent's first replies; empty where it answers for itself from the beginning."""
        return self.children.get(agent, ()) if agent else self.primed


class Cast:
    """A backend that gives each episode its own player. `model` None serves actors alone, in a window of `window`."""

    def __init__(self, model: Backend | None, *, window: int = 200_000) -> None:
        self._model = model
        self._roles: dict[str, Role] = {}
        self.name = model.name if model is not None else "actors"
        self.window = model.window if model is not None else window
        self.sampler: Sampler = model.sampler if model is not None else Sampler()

    def assign(self, episode: str, role: Role) -> None:
        """Before the episode's first request. An episode without a role is the model's."""
        if role.actor is None and self._model is None:
            raise ValueError(f"episode {episode!r} has no actor, and no model is loaded")
        self._roles[episode] = role

    def release(self, episode: str) -> None:
        self._roles.pop(episode, None)

    async def answer(self, ask: Ask) -> AsyncGenerator[Event]:
        role = self._roles.get(ask.episode, Role())
        script = role.script(ask.agent)
        if not ask.compaction and ask.step < len(script):
            events = scripted(ask, script[ask.step], primed=True)
        elif role.actor is not None:
            events = scripted(ask, role.actor.reply(ask))
        else:
            assert self._model is not None
            events = self._model.answer(ask)
        # Closed with this one: a client that goes away stops the decoding now, not when memory is collected.
        async with aclosing(events):
            async for event in events:
                yield event

    def healthy(self) -> str | None:
        return None if self._model is None else self._model.healthy()

    def load(self) -> dict[str, int]:
        return {} if self._model is None else self._model.load()

    def close(self) -> None:
        if self._model is not None:
            self._model.close()
