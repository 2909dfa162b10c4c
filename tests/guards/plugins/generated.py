"""Traces and configurations to compare two builds of the same guards on.

Arguments and results are drawn as JSON text, since forms of numbers, of escapes and the order of names matter.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

NUMBERS = (
    "0",
    "-0",
    "1",
    "1.0",
    "1e0",
    "10E-1",
    "0.1",
    "0.10",
    "9007199254740992",
    "9007199254740993",
    "1e400",
    "5e-324",
)
STRINGS = (
    *('""', '"a"', '"\\u0061"', '"A"', '" a"', '"1"', '"\\/"', '"/"', '"\\n"', '"{}"'),
    *('"é"', '"e\\u0301"', '"ﬁ"', '"😀"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\\ude00"', '"\\u2028"', '"\\u007f"'),
)
NAMES = (
    *('"a"', '"b"', '"10"', '"9"', '"01"', '"description"', '"reason"', '"__proto__"', '"constructor"', '"length"'),
    *('"é"', '"\\uffff"', '"😀"', '"\\ud83d"', '"\\u0061"', '""'),
)
DEEP = ("[" * 1000 + "]" * 1000, '{"a":' * 900 + "1" + "}" * 900)

scalars = st.sampled_from(("null", "true", "false", *NUMBERS, *STRINGS))
spaces = st.sampled_from(("", "", "", " ", "\t"))


@st.composite
def objects(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    space = draw(spaces)
    members = draw(st.lists(st.tuples(st.sampled_from(NAMES), values), max_size=4))
    return "{" + f",{space}".join(f"{name}{space}:{value}" for name, value in members) + "}"


def arrays(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(values, max_size=3).map(lambda members: f"[{', '.join(members)}]")


values = st.recursive(scalars, lambda inner: objects(inner) | arrays(inner), max_leaves=6)


@st.composite
def families(draw: st.DrawFn) -> Sequence[str | None]:
    """Arguments as calls of one trace may carry them: equal, equal but for the order of names, or nearly equal."""
    if not draw(st.sampled_from((True, True, True, False))):
        return (draw(st.one_of(values, st.sampled_from(DEEP), st.none())),)
    names = draw(st.lists(st.sampled_from(NAMES), min_size=2, max_size=4, unique=True))
    members = [(name, draw(st.one_of(scalars, scalars, values))) for name in names]
    forms = [members, draw(st.permutations(members))]
    changed = list(members)
    changed[-1] = (changed[-1][0], draw(scalars))
    forms.append(changed)
    space = draw(spaces)
    return ["{" + f",{space}".join(f"{name}{space}:{value}" for name, value in form) + "}" for form in forms]


blocks = st.one_of(
    st.sampled_from(STRINGS).map(lambda text: f'{{"type": "text", "text": {text}}}'),
    st.sampled_from(STRINGS).map(lambda text: f'{{"text": {text}, "x": 1, "type": "text"}}'),
    st.sampled_from(NUMBERS).map(
        lambda number: f'{{"type": "image", "b": {number}, "10": [], "2": {{"z": null, "1": 0}}}}'
    ),
)
LONG = f'"{"x" * 35}\\ud83d\\ude00"', f'"{"x" * 35}\\ud83d\\ude01"', f'"{"x" * 35}\\ud83e\\ude00"'
contents = st.one_of(
    st.sampled_from((*STRINGS, *LONG)), st.lists(blocks, max_size=3).map(lambda inner: f"[{', '.join(inner)}]")
)


class _Writer:
    """The lines of one trace. Fields are JSON texts; None leaves one out."""

    def __init__(self) -> None:
        header = {"trace": 1, "episode": "generated", "scenario": None, "source": "hypothesis", "meta": {}}
        self.lines = [json.dumps(header)]

    def event(self, kind: str, agent: str, **fields: str | None) -> None:
        told = {"type": json.dumps(kind), "agent": agent, **fields}
        self.lines.append("{" + ", ".join(f'"{name}": {text}' for name, text in told.items() if text is not None) + "}")

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


@dataclass(frozen=True)
class _Cast:
    """What the events of one trace are made of."""

    agents: Sequence[str]
    tools: Sequence[str]
    args: Sequence[str | None]
    contents: Sequence[str]


def settled(*calls: tuple[str, str]) -> str:
    """A trace file's text: calls by the JSON texts of their arguments and their results' content, one a step."""
    writer = _Writer()
    for args, content in calls:
        writer.event("step", '"root"', n="1", calls="1")
        writer.event("call", '"root"', id='"c1"', step="1", tool='"bash"', args=args)
        writer.event("result", '"root"', id='"c1"', content=content)
    return writer.text()


@st.composite
def traces(draw: st.DrawFn, guard: str) -> str:
    """A trace file's text: a few agents, few calls that often repeat, parallel steps, results in any order or none.

    `guard` is the one that is to have much to decide.
    """
    cast = _Cast(
        draw(st.lists(st.sampled_from(('"root"', '"a\\ud83d"', '"child"')), min_size=1, max_size=2, unique=True)),
        draw(st.lists(st.sampled_from(('"bash"', '"read 😀"', '"{tool}"')), min_size=1, max_size=2, unique=True)),
        draw(families()),
        draw(st.lists(contents, min_size=1, max_size=2)),
    )
    writer = _Writer()
    often = "refills" if guard == "compaction-breaker" else "burst"
    for _ in range(draw(st.integers(3, 10))):
        agent = draw(st.sampled_from(cast.agents))
        kind = draw(st.sampled_from((often, often, often, often, often, "step", "other")))
        if kind == "burst":
            _burst(draw, writer, agent, cast)
        elif kind == "step":
            _step(draw, writer, agent, cast)
        elif kind == "refills":
            _refill(draw, writer, agent)
        else:
            _other(draw, writer, agent)
    return writer.text()


def _burst(draw: st.DrawFn, writer: _Writer, agent: str, cast: _Cast) -> None:
    """One call a few times over, each settled at once and in the same way."""
    tool, content = draw(st.sampled_from(cast.tools)), draw(st.sampled_from(cast.contents))
    error, denied = draw(
        st.sampled_from((("false", "null"), ("false", "null"), ("true", "null"), ("true", '"x@host"')))
    )
    for told in draw(st.lists(st.sampled_from(cast.args), min_size=2, max_size=6)):
        writer.event("step", agent, n="1", calls="1")
        writer.event("call", agent, id='"c1"', step="1", tool=tool, args=told)
        writer.event("result", agent, id='"c1"', content=content, error=error, denied_by=denied)


def _step(draw: st.DrawFn, writer: _Writer, agent: str, cast: _Cast) -> None:
    """Parallel calls, whose ids may be equal; results in any order, missing or too many."""
    ids = draw(st.lists(st.sampled_from(('"c1"', '"c2"', '"\\ude00"')), max_size=3))
    writer.event("step", agent, n="1", calls=str(len(ids)))
    for each in ids:
        told, tool = draw(st.sampled_from(cast.args)), draw(st.sampled_from(cast.tools))
        writer.event("call", agent, id=each, step="1", tool=tool, args=told)
    settled = draw(st.permutations(ids))[draw(st.sampled_from((0, 0, 0, 1))) :]
    again = draw(st.sampled_from(((), (), ('"c1"', '"c4"'))))
    for each in (*settled, *again):
        denied = draw(st.sampled_from((None, "null", '"circuit-breaker@host"')))
        error = draw(st.sampled_from((None, "false", "true")))
        content = draw(st.sampled_from((None, *cast.contents)))
        writer.event("result", agent, id=each, content=content, error=error, denied_by=denied)


def _refill(draw: st.DrawFn, writer: _Writer, agent: str) -> None:
    """Compactions a few steps apart."""
    for gap in draw(st.lists(st.integers(0, 4), min_size=1, max_size=4)):
        for _ in range(gap):
            writer.event("step", agent, n="1", calls=draw(st.sampled_from(("0", "1", "1", "3"))))
        trigger = draw(st.sampled_from((None, '"pressure"', '"overflow"', '"pressure"', '"manual"')))
        outcome = draw(
            st.sampled_from(('"committed"', '"committed"', '"committed"', '"failed"', '"nothing"', '"refused"'))
        )
        writer.event("compaction", agent, trigger=trigger, outcome=outcome)


def _other(draw: st.DrawFn, writer: _Writer, agent: str) -> None:
    kind = draw(st.sampled_from(("user", "user", "notice", "guard", "guard", "end")))
    if kind in ("user", "notice"):
        writer.event(kind, agent, text='"hm"', source='"loop-guard"' if kind == "notice" else None)
    elif kind == "guard":
        guard = draw(st.sampled_from(('"compaction-breaker"', '"loop-guard"')))
        action = draw(st.sampled_from(('"reset"', '"refuse"')))
        writer.event("guard", agent, guard=guard, plane='"host"', action=action, call="null")
    else:
        writer.event("end", agent, reason='"completed"', success="null")


_breakers = st.fixed_dictionaries(
    {"duplicateLimit": st.sampled_from((0, 2, 3, 3, 4))},
    optional={
        "enabled": st.sampled_from((True, True, True, False)),
        "window": st.integers(3, 6),
        "maxCallsPerAgent": st.sampled_from((0, 1, 3, 6)),
        "exempt": st.sampled_from(([], ["bash"])),
        "only": st.sampled_from(([], [], ["bash"])),
        "ignoreArgs": st.sampled_from(([], ["a", "__proto__"], ["description"])),
        "denyMessage": st.sampled_from(("", "{tool} {count}/{limit} {limit} {other} $& {tool}")),
    },
)
_loops = st.one_of(
    st.fixed_dictionaries(
        {"softThreshold": st.integers(0, 2), "hardThreshold": st.integers(3, 4)},
        optional={"resultHashChars": st.integers(1, 40)},
    ),
    st.sampled_from(({}, {"softThreshold": 2, "hardThreshold": 0}, {"softThreshold": 0, "hardThreshold": 1})),
)
_refills = st.fixed_dictionaries(
    {"maxConsecutiveRapidRefills": st.integers(1, 2)}, optional={"toolTurnThreshold": st.integers(1, 4)}
)

_CONFIGS = {"circuit-breaker": _breakers, "loop-guard": _loops, "compaction-breaker": _refills}

cases = st.sampled_from(sorted(_CONFIGS)).flatmap(
    lambda guard: st.tuples(st.just(guard), _CONFIGS[guard], traces(guard))
)
"""A guard's name, a configuration that it allows, and a trace file's text."""

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
    st.sampled_from(("circuit-breaker", "loop-guard", "compaction-breaker")),
    st.dictionaries(st.sampled_from(_KEYS), st.sampled_from(_SETTINGS), max_size=2),
)
"""A guard's name and keys and values, most of them wrong."""
