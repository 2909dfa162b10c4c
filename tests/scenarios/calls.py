"""Calls for tests: hostile ones, and random walks through a world."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any

from results.trace import Call, Compaction, Event, Header, Label, Result, Trace
from scenarios.base import Outcome, Scenario
from scenarios.play import play

BIG = "y" * 10_000_000


def nested(levels: int) -> Any:
    """An object within an object and so on."""
    value: Any = {}
    for _ in range(levels):
        value = {"a": value}
    return value


HOSTILE: Mapping[str, Any] = {
    "a string": "not parsed {",
    "null": None,
    "a list": [1, 2],
    "a number": 1e400,
    "nested 5,000 deep": nested(5000),
    "an unknown name": {"no_such_argument": 1},
    "a huge name": {BIG: 1},
    "a lone surrogate as a name": {"\ud800": 1},
}
"""Arguments that no tool takes."""

HOSTILE_VALUES: Mapping[str, Any] = {
    "null": None,
    "nested 5,000 deep": nested(5000),
    "a list": [[]],
    "10 MB": BIG,
    "a lone surrogate": "\udfff",
    "control characters": "a\x00b\x1b[2Jc",
    "a deletion": "\x7f",
    "true": True,
    "a huge number": 10**300,
    "a fraction": 0.5,
    "infinity": float("inf"),
}
"""Values for one argument; which of them it takes depends on its type."""

PATHS = (
    "../../etc/passwd",
    "/etc/passwd",
    "minutes/../minutes/../../x",
    "~/.ssh/id_rsa",
    "file:///etc/passwd",
    "%2e%2e/x",
    "..\\..\\windows\\win.ini",
    "/proc/self/environ",
    "a\x00/../../../etc/passwd",
    "./" * 500 + "../" * 500 + "etc/passwd",
)


def filled(schema: Mapping[str, Any], **given: Any) -> dict[str, Any]:
    """Arguments of the right types for a tool's schema, `given` over them."""
    values = {"string": "x", "integer": 1, "number": 1.5, "boolean": False, "array": [], "object": {}}
    return {
        name: each["enum"][0] if "enum" in each else values.get(each.get("type", ""))
        for name, each in schema["properties"].items()
    } | given


_TOUCHING = ("open", "os.", "shutil.", "tempfile.", "glob.", "subprocess.", "socket.", "urllib.", "ctypes.", "signal.")


class _Ear:
    """Hears of what Python itself reports (sys.audit), while `heard` is a list."""

    heard: list[str] | None = None
    hung_up = False

    def __call__(self, event: str, _args: tuple[Any, ...]) -> None:
        if self.heard is not None and event.startswith(_TOUCHING):
            self.heard.append(event)


_EAR = _Ear()


@contextmanager
def listening() -> Iterator[list[str]]:
    """Gives the list of what is touched in it: files that are opened, processes that are started, other machines."""
    if not _EAR.hung_up:
        # A hook can not be taken down again; outside of this it hears nothing.
        sys.addaudithook(_EAR)
        _EAR.hung_up = True
    _EAR.heard = found = []
    try:
        yield found
    finally:
        _EAR.heard = None


@dataclass(frozen=True)
class Asked:
    """A call of a random walk."""

    agent: str
    tool: str
    args: Any
    denied: bool


@lru_cache(maxsize=8)
def scripted(task: Scenario) -> tuple[tuple[str, Any], ...]:
    """The first calls of the task's courses."""
    courses = [task.honest(), task.looping()]
    events = [event for course in courses if course is not None for event in play(task, course, horizon=8).events]
    return tuple((event.tool, event.args) for event in events if isinstance(event, Call))


def walk(task: Scenario, random: Random, length: int) -> Iterator[Asked | str]:
    """Calls as a confused group of agents would make them, and names of agents that are compacted."""
    good = scripted(task)
    tools = [*(args.tool for args in (*task.calls, *task.stand_ins)), "no_such_tool"]
    for _ in range(length):
        agent = random.choice(("root", "root", "child"))
        kind = random.randrange(10)
        if kind == 0:
            yield agent
            continue
        tool, args = random.choice(good)
        if kind == 1:
            tool = random.choice(tools)
        elif kind == 2:
            # Neither huge nor deep: both would only cost time here.
            args = random.choice(
                [HOSTILE[name] for name in ("a string", "null", "a list", "a number", "an unknown name")]
            )
        elif kind == 3 and isinstance(args, dict) and args:
            args = dict(args)
            args[random.choice(sorted(args))] = random.choice([0, 1, 3, "", "x", "amber", -1, True, *PATHS])
        yield Asked(agent, tool, args, random.random() < 0.2)


def walked(task: Scenario, random: Random, length: int = 16) -> Trace:
    """A trace of a random walk, with the results of a world that does not know who asks."""
    world, events = task.world(), list[Event]()
    for number, asked in enumerate(walk(task, random, length)):
        if isinstance(asked, str):
            events.append(Compaction(agent=asked, trigger="pressure", outcome=random.choice(("committed", "failed"))))
            continue
        outcome = Outcome("denied", error=True) if asked.denied else world.call(asked.tool, asked.args)
        content = ({"type": "text", "text": outcome.text},)
        denied_by = "circuit-breaker@host" if asked.denied else None
        events.append(Call(agent=asked.agent, id=f"c{number}", step=number, tool=asked.tool, args=asked.args))
        events.append(
            Result(agent=asked.agent, id=f"c{number}", content=content, error=outcome.error, denied_by=denied_by)
        )
    return Trace(Header(episode="walk", scenario=task.name, source="test"), tuple(events))


def classes(trace: Trace) -> list[str]:
    """The labels' classes."""
    return [event.judged for event in trace.events if isinstance(event, Label)]
