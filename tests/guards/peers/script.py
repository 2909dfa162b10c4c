"""Traces for tests of peers, written as what a model did, and decisions in short."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from guards import registry
from results.trace import Call, Compaction, Event, Header, Outcome, Result, Step, Trace, Trigger, User, blocks
from runners.replay import replay


@dataclass(frozen=True)
class Does:
    """A call and what comes of it. `result` None = it never settles; `denied_by` as in a trace."""

    tool: str = "look"
    args: Any = field(default_factory=dict)
    result: str | None = "same"
    error: bool = False
    denied_by: str | None = None


@dataclass(frozen=True)
class Together:
    """One response with several calls, all asked before the first settles."""

    calls: tuple[Does | str, ...]


@dataclass(frozen=True)
class Compacts:
    """An attempt behind as many tool turns of other work."""

    turns: int = 0
    outcome: Outcome = "committed"
    trigger: Trigger = "pressure"


USER: Literal["user"] = "user"
ANSWER: Literal["answer"] = "answer"
Act = Does | Together | Compacts | str


def trace(*acts: Act, agent: str = "root", steps: bool = True) -> Trace:
    """A word is a call of `look` whose arguments and result are that word; USER and ANSWER are what they say.

    `steps` False leaves the steps out.
    """
    return Trace(Header("e"), tuple(_events(acts, agent, steps)))


def decided(name: str, *acts: Act, preset: str | None = None, **settings: Any) -> list[tuple[str, str, int, int, int]]:
    """Action, kind, index, count and limit of each decision of a peer, without its prefix."""
    return short(name, trace(*acts), preset, **settings)


def short(name: str, given: Trace, preset: str | None = None, **settings: Any) -> list[tuple[str, str, int, int, int]]:
    found = replay(given, registry.build(f"peer:{name}", preset, settings))
    return [(each.action, each.kind, each.index, each.count, each.limit) for each in found]


def denied(name: str, *acts: Act, preset: str | None = None, **settings: Any) -> list[int]:
    """The places of the denied calls."""
    return [each[2] for each in decided(name, *acts, preset=preset, **settings) if each[0] == "deny"]


def nudged(name: str, *acts: Act, preset: str | None = None, **settings: Any) -> list[int]:
    """The places of the calls with a nudge."""
    return [each[2] for each in decided(name, *acts, preset=preset, **settings) if each[0] == "nudge"]


def _events(acts: tuple[Act, ...], agent: str, steps: bool) -> Iterator[Event]:
    number = 0
    for act in acts:
        if act == USER:
            yield User("go on", agent=agent)
        elif isinstance(act, Compacts):
            for _ in range(act.turns):
                yield Step(0, 1, agent=agent)
            yield Compaction(act.trigger, act.outcome, agent=agent)
        elif act == ANSWER:
            yield Step(0, 0, agent=agent)
        else:
            does = [_does(each) for each in (act.calls if isinstance(act, Together) else (act,))]
            if steps:
                yield Step(number, len(does), agent=agent)
            ids = [f"c{number + place}" for place in range(1, len(does) + 1)]
            number += len(does)
            for call, each in zip(ids, does, strict=True):
                yield Call(call, None, each.tool, each.args, agent=agent)
            for call, each in zip(ids, does, strict=True):
                if each.result is not None:
                    yield Result(call, blocks(each.result), each.error, each.denied_by, agent=agent)


def _does(given: Does | str) -> Does:
    return Does(args={"what": given}, result=given) if isinstance(given, str) else given
