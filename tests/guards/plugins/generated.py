"""Traces and configurations to compare two builds of the same guards on.

A case is read from bytes (`choices.py`), so that a hundred thousand of them are a matter of minutes, and so that
Hypothesis, which draws and shrinks the bytes, ends at a small one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.guards.plugins.choices import Choices
from tests.guards.plugins.values import content, family

BYTES = 400
GUARDS = ("circuit-breaker", "loop-guard", "compaction-breaker")

Case = tuple[str, dict[str, Any], str]
"""A guard's name, a configuration that it allows, and a trace file's text."""


class _Writer:
    """The lines of one trace. Fields are JSON texts; None leaves one out."""

    def __init__(self) -> None:
        header = {"trace": 1, "episode": "generated", "scenario": None, "source": "generated", "meta": {}}
        self.lines = [json.dumps(header)]

    def event(self, kind: str, agent: str | None, **fields: str | None) -> None:
        told = {"type": json.dumps(kind), "agent": agent, **fields}
        self.lines.append("{" + ", ".join(f'"{name}": {text}' for name, text in told.items() if text is not None) + "}")

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def settled(*calls: tuple[str, str]) -> str:
    """A trace file's text: calls by the JSON texts of their arguments and their results' content, one a step."""
    writer = _Writer()
    for args, shown in calls:
        writer.event("step", '"root"', n="1", calls="1")
        writer.event("call", '"root"', id='"c1"', step="1", tool='"bash"', args=args)
        writer.event("result", '"root"', id='"c1"', content=shown)
    return writer.text()


_AGENTS = ('"root"', '"child"', '"a\\ud83d"', None)
_TOOLS = ('"bash"', '"read 😀"', '"{tool}"', '"todo_write"', '"\\ud83d"', '""')
_STOPPED = (None, None, None, "null", '"x@host"', '"circuit-breaker@agent"')


@dataclass
class _Play:
    """What the events of one trace are made of, and the calls that still have no result."""

    choose: Choices
    writer: _Writer
    agents: Sequence[str | None]
    tools: Sequence[str]
    args: Sequence[str | None]
    contents: Sequence[str | None]
    fresh_ids: bool
    calls: int = 0
    open: list[tuple[str | None, str]] = field(default_factory=list)

    def agent(self) -> str | None:
        return self.choose.of(self.agents)

    def id(self) -> str:
        self.calls += 1
        return f'"c{self.calls}"' if self.fresh_ids else self.choose.of(('"c1"', '"c1"', '"c2"', '"\\ude00"'))

    def call(self, agent: str | None, tool: str, args: str | None) -> str:
        told = self.id()
        self.writer.event("call", agent, id=told, step=self.choose.of(("1", None, "null")), tool=tool, args=args)
        return told

    def result(self, agent: str | None, told: str, shown: str | None, error: str | None, denied: str | None) -> None:
        self.writer.event("result", agent, id=told, content=shown, error=error, denied_by=denied)

    def any_result(self, agent: str | None, told: str) -> None:
        choose = self.choose
        error, denied = choose.of((None, "false", None, "true")), choose.of(_STOPPED)
        self.result(agent, told, choose.of(self.contents), error, denied)

    def step(self, agent: str | None, calls: int) -> None:
        self.writer.event("step", agent, n="1", calls=self.choose.of((str(calls), f"{calls}.0")))


def _burst(play: _Play) -> None:
    """One call a few times over, each settled at once and mostly in the same way."""
    choose, agent = play.choose, play.agent()
    tool, args, shown = choose.of(play.tools), choose.of(play.args), choose.of(play.contents)
    error = choose.of((None, "false", "true"))
    denied = choose.of(_STOPPED)
    for _ in range(choose.between(2, 7)):
        if choose.once_in(5):
            args = choose.of(play.args)
        play.step(agent, 1)
        told = play.call(agent, tool, args)
        if choose.once_in(9):
            play.any_result(agent, told)
        else:
            play.result(agent, told, shown, error, denied)


def _parallel(play: _Play) -> None:
    """Calls of one step, or of the steps of several agents mixed; some results come late, or never."""
    choose = play.choose
    agents = [play.agent() for _ in range(choose.between(1, 2))]
    asked = [(agents[choose.below(len(agents))], choose.of(play.tools), choose.of(play.args))]
    asked *= choose.of((1, 2, 3))
    asked += [(choose.of(agents), choose.of(play.tools), choose.of(play.args)) for _ in range(choose.below(3))]
    for agent in dict.fromkeys(agents):
        play.step(agent, sum(each[0] == agent for each in asked))
    play.open += [(agent, play.call(agent, tool, args)) for agent, tool, args in asked]
    _settle(play)


def _settle(play: _Play) -> None:
    """Results in any order: missing ones, and some that come again or belong nowhere."""
    choose = play.choose
    for agent, told in choose.some(play.open, 0, len(play.open)):
        play.any_result(agent, told)
        play.open.remove((agent, told))
    if choose.once_in(4):
        play.any_result(play.agent(), choose.of(('"c1"', '"c2"', '"none"')))


def _refill(play: _Play) -> None:
    """Compactions a few steps apart."""
    choose, agent = play.choose, play.agent()
    for _ in range(choose.between(1, 5)):
        for _ in range(choose.below(5)):
            play.step(agent, choose.of((1, 0, 1, 3)))
        trigger = choose.of((None, '"pressure"', '"overflow"', '"pressure"', '"manual"'))
        outcome = choose.of(("committed", "committed", "failed", "nothing", "refused"))
        play.writer.event("compaction", agent, trigger=trigger, outcome=f'"{outcome}"')


def _other(play: _Play) -> None:
    choose, agent = play.choose, play.agent()
    kind = choose.of(("user", "guard", "user", "guard", "notice", "spawn", "curious", "end"))
    if kind in ("user", "notice"):
        play.writer.event(kind, agent, text='"hm"', source='"loop-guard"' if kind == "notice" else None)
    elif kind == "guard":
        guard = choose.of(('"compaction-breaker"', '"compaction-breaker"', '"loop-guard"'))
        action = choose.of(('"reset"', '"reset"', '"refuse"'))
        play.writer.event(kind, agent, guard=guard, plane='"host"', action=action, call="null")
    elif kind == "spawn":
        play.writer.event(kind, agent, child='"child"', purpose='"look"')
    elif kind == "curious":
        play.writer.event(kind, agent, call="1")
    elif choose.once_in(3):
        play.writer.event("end", agent, reason='"completed"', success="null")


_ACTIONS = {"burst": _burst, "parallel": _parallel, "settle": _settle, "refill": _refill, "other": _other}
_CALLING = ("burst", "burst", "burst", "parallel", "parallel", "settle", "refill", "other")
_COMPACTING = ("refill", "refill", "refill", "refill", "other", "other", "burst", "parallel")


def trace_of(choose: Choices, guard: str) -> str:
    """A trace file's text: a few agents, and a few calls that often repeat. `guard` is to have much to decide."""
    play = _Play(
        choose,
        _Writer(),
        choose.some(_AGENTS, 1, 3),
        choose.some(_TOOLS, 1, 2),
        family(choose),
        [content(choose) for _ in range(choose.between(1, 3))],
        not choose.once_in(3),
    )
    for _ in range(choose.between(1, 8)):
        _ACTIONS[choose.of(_COMPACTING if guard == "compaction-breaker" else _CALLING)](play)
    return play.writer.text()


def config_of(choose: Choices, guard: str) -> dict[str, Any]:
    """A configuration that the guard allows, with few keys or all of them, near the limits of each."""
    if guard == "circuit-breaker":
        window = choose.of((200, 1, 2, 3, 4, 5, 6))
        limits = [limit for limit in (6, 0, 2, 3, 4, 5, 7) if limit <= window + 1]
        found: dict[str, Any] = {
            "duplicateLimit": choose.of((*limits, 2, 2)),
            "window": window,
            "maxCallsPerAgent": choose.of((300, 0, 1, 2, 3, 6, 9, 9)),
            "enabled": not choose.once_in(12),
            "exempt": choose.of((["todo_write"], [], ["bash"], ["", "Bash"])),
            "only": choose.of(([], [], [], ["bash"], ["todo_write", "{tool}"])),
            "ignoreArgs": choose.of((["description", "reason"], [], ["a", "__proto__"], ["", "10", "é"])),
            "denyMessage": choose.of(("", "", "{tool} {count}/{limit} {limit} {other} $& $1 {{tool}}", "no")),
            "incidentLog": "",
        }
    elif guard == "loop-guard":
        soft = choose.of((4, 0, 1, 2, 3))
        hard = choose.of((8, 0, soft + 1, soft + 1, soft + 2, soft + 4))
        found = {
            "softThreshold": soft,
            "hardThreshold": hard,
            "resultHashChars": choose.of((4000, 1, 2, 23, 24, 25, 26, 27, 40, 59, 60, 61, 62, 100)),
        }
    else:
        found = {
            "toolTurnThreshold": choose.of((2, 1, 3, 4, 5)),
            "maxConsecutiveRapidRefills": choose.of((3, 1, 2, 4)),
            "announceInPrompt": not choose.once_in(4),
            "variant": "ours",
            "auto": choose.of((None, True, False)),
            "thresholdRatio": choose.of((None, 0.5, "any")),
        }
        found = {key: value for key, value in found.items() if value is not None}
    if choose.once_in(4):
        # The thresholds of the loop-guard bound each other, so that they go together or not at all.
        left = choose.of((("softThreshold", "hardThreshold", "exempt", "variant"), ("resultHashChars", "ignoreArgs")))
        found = {key: value for key, value in found.items() if key not in left}
    if choose.once_in(6):
        found = {key: float(value) if type(value) is int else value for key, value in found.items()}
    return found


def case_of(data: bytes) -> Case:
    choose = Choices(data)
    guard = choose.of(GUARDS)
    config = config_of(choose, guard)
    return guard, config, trace_of(choose, guard)


cases = st.binary(min_size=BYTES, max_size=BYTES).map(case_of)


def traces(guard: str) -> st.SearchStrategy[str]:
    """A trace file's text: a few agents, few calls that often repeat, parallel steps, results in any order or none.

    `guard` is the one that is to have much to decide.
    """
    return st.binary(min_size=BYTES, max_size=BYTES).map(lambda data: trace_of(Choices(data), guard))


_KEYS = (
    *("enabled", "duplicateLimit", "window", "maxCallsPerAgent", "exempt", "only", "ignoreArgs", "denyMessage"),
    *("incidentLog", "softThreshold", "hardThreshold", "resultHashChars", "toolTurnThreshold"),
    *("maxConsecutiveRapidRefills", "announceInPrompt", "variant", "auto", "nonsense", "__proto__"),
)
_SETTINGS: tuple[Any, ...] = (
    *(0, 1, 2, 3, 4, 5, 200, 201, 202, -1, 2.0, 2.5, True, False, None, "", "ours", "upstream-literal", "2"),
    *([], ["a"], ["a", 1], {}),
)
anything = st.tuples(
    st.sampled_from(GUARDS),
    st.dictionaries(st.sampled_from(_KEYS), st.sampled_from(_SETTINGS), max_size=2),
)
"""A guard's name and keys and values, most of them wrong."""
