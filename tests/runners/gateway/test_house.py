"""A gateway in a thread: episodes are opened and closed from outside, with guests that live as long as they do."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from guards.errors import UserError
from runners.gateway.actors import Script, ScriptedActor, ScriptedReply
from runners.gateway.app import Guest
from runners.gateway.cast import Cast, Role
from runners.gateway.episode import EpisodeSettings
from runners.gateway.house import House, HouseGone

ROLE = Role(ScriptedActor("a", Script(replies=(ScriptedReply(text="I act."),))))
ASKED = {"model": "default", "max_tokens": 50, "messages": [{"role": "user", "content": "Go."}]}


class Visitor:
    """A guest that says where it is, in a context that must be left by the task that entered it."""

    def __init__(self, fails: str | None = None) -> None:
        self.fails = fails
        self.state = "away"
        self.tasks: list[asyncio.Task[Any] | None] = []

    @property
    def mcp(self) -> ASGIApp:
        return PlainTextResponse("the world")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        if self.fails is not None:
            raise RuntimeError(self.fails)
        self.tasks.append(asyncio.current_task())
        self.state = "here"
        try:
            yield
        finally:
            self.tasks.append(asyncio.current_task())
            self.state = "gone"

    async def control(self, question: dict[str, Any]) -> dict[str, Any]:
        return {"go": True, "asked": question}


def opened(house: House, name: str, guest: Guest | None = None) -> Any:
    return house.open(name, EpisodeSettings(), ROLE, guest)


def said(house: House, name: str) -> str:
    answer = httpx.post(f"{house.address(name)}/v1/messages", json=ASKED, trust_env=False)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["content"][0]["text"])


def test_an_episode_from_its_beginning_to_its_end() -> None:
    guest = Visitor()
    with House(Cast(None)) as house:
        episode = opened(house, "one", guest)
        assert guest.state == "here"
        assert said(house, "one") == "I act."
        assert [step.step for step in episode.steps] == [0]
        assert httpx.post(f"{house.address('one')}/mcp", trust_env=False).text == "the world"
        control = httpx.post(f"{house.address('one')}/control", json={"at": "x"}, trust_env=False)
        assert control.json() == {"go": True, "asked": {"at": "x"}}
        house.close("one")
        assert guest.state == "gone"
        for path in ("v1/messages", "mcp", "control"):
            assert httpx.post(f"{house.address('one')}/{path}", json=ASKED, trust_env=False).status_code == 404
        # The name is free again.
        opened(house, "one")
        assert said(house, "one") == "I act."
    entered, left = guest.tasks
    assert entered is left


def test_closing_what_is_not_open_does_nothing() -> None:
    with House(Cast(None)) as house:
        house.close("nothing")


def test_a_name_is_taken_once() -> None:
    guest, second = Visitor(), Visitor()
    with House(Cast(None)) as house:
        opened(house, "one", guest)
        with pytest.raises(UserError, match="open already"):
            opened(house, "one", second)
        assert (guest.state, second.state) == ("here", "away")
        assert said(house, "one") == "I act."


@pytest.mark.parametrize(
    ("role", "guest", "why"),
    [
        (Role(), None, "has no actor, and no model is loaded"),
        (ROLE, Visitor("it can not come"), "it can not come"),
    ],
)
def test_what_could_not_be_opened_is_not_half_open(role: Role, guest: Visitor | None, why: str) -> None:
    with House(Cast(None)) as house:
        with pytest.raises((ValueError, RuntimeError), match=why):
            house.open("one", EpisodeSettings(), role, guest)
        assert httpx.get(house.address("one"), trust_env=False).status_code == 404
        late = Visitor()
        opened(house, "one", late)
        assert late.state == "here"


def test_guests_leave_when_the_house_ends() -> None:
    guests = [Visitor() for _ in range(3)]
    with House(Cast(None)) as house:
        for number, guest in enumerate(guests):
            opened(house, f"e{number}", guest)
    assert [guest.state for guest in guests] == ["gone"] * 3


def test_after_its_end_nothing_answers_and_nothing_is_left() -> None:
    before = sorted(thread.name for thread in threading.enumerate())
    with House(Cast(None)) as house:
        opened(house, "one", Visitor())
        house.stop()
        house.stop()
        with pytest.raises(HouseGone, match="has ended"):
            opened(house, "two")
        with pytest.raises(HouseGone, match="has ended"):
            house.close("one")
    assert sorted(thread.name for thread in threading.enumerate()) == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(house.port or 0)))


def test_before_its_beginning_nothing_answers() -> None:
    house = House(Cast(None))
    with pytest.raises(HouseGone, match="has ended"):
        opened(house, "one")
    with house:
        opened(house, "one")


def test_episodes_from_many_threads() -> None:
    count = 12
    guests = [Visitor() for _ in range(count)]
    with House(Cast(None)) as house:

        def visit(number: int) -> None:
            opened(house, f"e{number}", guests[number])
            assert said(house, f"e{number}") == "I act."
            house.close(f"e{number}")

        threads = [threading.Thread(target=visit, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [guest.state for guest in guests] == ["gone"] * count
        health = httpx.get(f"http://127.0.0.1:{house.port}/healthz", trust_env=False).json()
        assert health["episodes"] == 1  # the server's own
