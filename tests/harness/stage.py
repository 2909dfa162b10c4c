"""A real gateway with a scripted model, for the real harness: who says what, and in which order agents go on."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runners.gateway.actors import ActorBackend
from runners.gateway.app import Gateway
from runners.gateway.asking import Answer, Ask, Event
from runners.gateway.conversation import Call, Conversation, Reply
from runners.gateway.episode import Episode, EpisodeSettings
from runners.gateway.server import GatewayServer, bind_port
from runners.gateway.turn import COMPACT_HEADER, SESSION_HEADER

Moment = tuple[int, int]
"""An agent and one of its steps, both ordinals from 0."""

EPISODE = "e1"


def does(name: str, /, **arguments: Any) -> Call:
    """A tool call in the words of the model: with aliases."""
    return Call(name, arguments)


@dataclass(frozen=True)
class Course:
    """A play for a whole episode: each agent's replies by step (empty after the last), and one summary.

    `after` holds a reply back until another agent has asked for a step: what agents do to each other then happens in
    the same order in every run. `failures` are raised when a step is asked for the first time. Replies of the steps in
    `cut` end at the token limit.
    """

    replies: Mapping[int, Sequence[Reply]]
    summary: str = "(none)"
    after: Mapping[Moment, Moment] = field(default_factory=dict)
    failures: Mapping[Moment, Exception] = field(default_factory=dict)
    cut: frozenset[Moment] = frozenset()


class _Player:
    """The actor of a course."""

    name = "course"

    def __init__(self, course: Course) -> None:
        self._course = course

    def reply(self, ask: Ask) -> Reply:
        if ask.compaction:
            return Reply(text=self._course.summary)
        replies = self._course.replies.get(ask.agent, ())
        return replies[ask.step] if ask.step < len(replies) else Reply()


class StagedBackend(ActorBackend):
    """Plays a course and keeps the conversations that it was asked to continue, as they are rendered."""

    def __init__(self, course: Course) -> None:
        super().__init__(_Player(course), window=200_000)
        self._course = course
        self._asked: dict[Moment, asyncio.Event] = {}
        self._failed: set[Moment] = set()
        self.asks: list[tuple[Moment, bool, Conversation]] = []
        """The moment, whether it is a summary, and the conversation, in order of arrival."""

    async def answer(self, ask: Ask) -> AsyncGenerator[Event]:
        moment = (ask.agent, ask.step)
        self.asks.append((moment, ask.compaction, ask.conversation))
        if not ask.compaction:
            if moment in self._course.failures and moment not in self._failed:
                self._failed.add(moment)
                raise self._course.failures[moment]
            self._event(moment).set()
            if moment in self._course.after:
                await self._event(self._course.after[moment]).wait()
        async for event in super().answer(ask):
            cut = isinstance(event, Answer) and moment in self._course.cut
            yield replace(event, finish="length") if cut else event  # type: ignore[arg-type]

    def of_agents(self) -> list[tuple[Moment, bool, Conversation]]:
        """`asks` by agent, and in order of arrival for each: agents may run at once."""
        return sorted(self.asks, key=lambda asked: asked[0][0])

    def _event(self, moment: Moment) -> asyncio.Event:
        return self._asked.setdefault(moment, asyncio.Event())


@dataclass(frozen=True)
class Sent:
    """A request of the harness as it came over the wire."""

    session: str
    compacting: bool
    body: dict[str, Any]


class _Recorder:
    """Keeps the Messages requests that pass by."""

    def __init__(self, app: ASGIApp, sent: list[Sent]) -> None:
        self._app = app
        self._sent = sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].endswith("/messages"):
            await self._app(scope, receive, send)
            return
        body = bytearray()

        async def listened() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                body.extend(message.get("body", b""))
                if not message.get("more_body"):
                    headers = {key.decode(): value.decode() for key, value in scope["headers"]}
                    compacting = headers.get(COMPACT_HEADER) == "1"
                    self._sent.append(Sent(headers.get(SESSION_HEADER, ""), compacting, json.loads(body)))
                    body.clear()
            return message

        await self._app(scope, listened, send)


@dataclass(frozen=True)
class Stage:
    """A running gateway: the address for the harness, the episode, what is played, and what was sent."""

    url: str
    gateway: Gateway
    episode: Episode
    backend: StagedBackend
    sent: list[Sent]


@contextmanager
def stage(course: Course, settings: EpisodeSettings) -> Iterator[Stage]:
    """A gateway on a free loopback port with one open episode; stopped and closed at the end."""
    backend, sent = StagedBackend(course), list[Sent]()
    gateway = Gateway(backend, EpisodeSettings())
    episode = gateway.open(EPISODE, settings)
    gateway.app = _Recorder(gateway.app, sent)  # type: ignore[assignment]
    server = GatewayServer(gateway, [bind_port(0)])
    ready = threading.Event()
    url = f"http://127.0.0.1:{server.port}/e/{EPISODE}"
    thread = threading.Thread(target=server.run, args=(ready.set,), daemon=True)
    thread.start()
    try:
        if not ready.wait(timeout=20):
            raise TimeoutError("the gateway did not start")
        yield Stage(url, gateway, episode, backend, sent)
    finally:
        server.stop()
        thread.join(timeout=20)
