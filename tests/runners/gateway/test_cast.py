"""Who answers in which episode: a model, an actor, or first a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from runners.gateway.actors import Script, ScriptedActor, ScriptedCall, ScriptedReply
from runners.gateway.asking import Accepted, Answer, Ask, ContextOverflow, Delta, Event
from runners.gateway.cast import Cast, Role
from runners.gateway.conversation import Call, Conversation, Message, Reply, Text
from runners.gateway.sampler import Sampler

CONVERSATION = Conversation("", (Message("user", (Text("Go."),)),))
ASK = Ask("one", 0, None, 0, CONVERSATION, "lazy", 100, 1000, Sampler(), 0)
PRIMED = (Reply("First.", calls=(Call("look", {}),)), Reply("Second."))


class Model:
    """A backend that says its name, counts its loads, and knows when its answer was closed early."""

    name = "model"
    window = 4096
    sampler = Sampler(temperature=0.5)

    def __init__(self) -> None:
        self.asks: list[Ask] = []
        self.abandoned = 0
        self.closed = 0

    async def answer(self, ask: Ask) -> AsyncGenerator[Event]:
        self.asks.append(ask)
        ended = False
        try:
            yield Accepted(1)
            yield Delta("text", "I am the model.")
            yield Answer(Reply("I am the model."), "stop", None, 1, 1, 0.0, 0.0, "key", "digest", True)
            ended = True
        finally:
            self.abandoned += not ended

    def healthy(self) -> str | None:
        return "the engine died"

    def load(self) -> dict[str, int]:
        return {"active": 3}

    def close(self) -> None:
        self.closed += 1


def actor(*texts: str) -> ScriptedActor:
    replies = tuple(ScriptedReply(text=text, calls=(ScriptedCall(name="look"),)) for text in texts)
    return ScriptedActor("a", Script(replies=replies, summary="The summary."))


def events(cast: Cast, ask: Ask) -> list[Event]:
    async def collect() -> list[Event]:
        return [event async for event in cast.answer(ask)]

    return asyncio.run(collect())


def said(cast: Cast, ask: Ask) -> tuple[str, bool]:
    """The answer's text, and whether a script put it there."""
    answer = events(cast, ask)[-1]
    assert isinstance(answer, Answer)
    return answer.reply.text, answer.primed


def test_each_episode_has_its_own_player() -> None:
    cast = Cast(model := Model())
    cast.assign("acted", Role(actor("I act.")))
    cast.assign("modelled", Role())
    assert said(cast, replace(ASK, episode="acted")) == ("I act.", False)
    assert said(cast, replace(ASK, episode="modelled")) == ("I am the model.", False)
    assert said(cast, replace(ASK, episode="unknown")) == ("I am the model.", False)
    assert [ask.episode for ask in model.asks] == ["modelled", "unknown"]


def test_a_released_episode_is_the_model_s_again() -> None:
    cast = Cast(Model())
    cast.assign("one", Role(actor("I act.")))
    cast.release("one")
    cast.release("one")
    assert said(cast, ASK) == ("I am the model.", False)


@pytest.mark.parametrize("role", [Role(primed=PRIMED), Role(actor("zero", "one", "two"), PRIMED)])
def test_the_script_speaks_first_whoever_plays(role: Role) -> None:
    cast = Cast(Model())
    cast.assign("one", role)
    assert said(cast, ASK) == ("First.", True)
    assert said(cast, replace(ASK, step=1)) == ("Second.", True)
    last = "two" if role.actor is not None else "I am the model."
    assert said(cast, replace(ASK, step=2)) == (last, False)


def test_the_script_is_the_root_agent_s_and_no_summary() -> None:
    cast = Cast(None)
    cast.assign("one", Role(actor("I act."), PRIMED))
    assert said(cast, replace(ASK, agent=1)) == ("", False)
    assert said(cast, replace(ASK, compaction=True)) == ("The summary.", False)


def test_a_primed_reply_carries_its_calls() -> None:
    cast = Cast(Model())
    cast.assign("one", Role(primed=PRIMED))
    answer = events(cast, ASK)[-1]
    assert isinstance(answer, Answer)
    assert answer.reply == PRIMED[0]
    assert not answer.decoded


def test_without_a_model_every_episode_needs_an_actor() -> None:
    cast = Cast(None)
    with pytest.raises(ValueError, match="episode 'one' has no actor, and no model is loaded"):
        cast.assign("one", Role(primed=PRIMED))


def test_it_is_what_its_model_is() -> None:
    cast = Cast(model := Model())
    assert (cast.name, cast.window, cast.sampler) == ("model", 4096, model.sampler)
    assert (cast.healthy(), cast.load()) == ("the engine died", {"active": 3})
    cast.close()
    assert model.closed == 1


def test_without_a_model_it_is_well() -> None:
    cast = Cast(None, window=500)
    assert (cast.name, cast.window, cast.sampler) == ("actors", 500, Sampler())
    assert (cast.healthy(), cast.load()) == (None, {})
    cast.close()


def test_an_actor_s_prompt_can_be_too_long() -> None:
    cast = Cast(None)
    cast.assign("one", Role(actor("I act.")))
    with pytest.raises(ContextOverflow):
        events(cast, replace(ASK, window=2))


def test_an_answer_that_nobody_waits_for_ends_at_once() -> None:
    cast = Cast(model := Model())

    async def leave() -> None:
        answer = cast.answer(ASK)
        assert isinstance(await anext(answer), Accepted)
        await answer.aclose()
        assert model.abandoned == 1

    asyncio.run(leave())
