"""Arguments and results as JSON text: forms of numbers, of escapes and the order of names matter."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tests.guards.plugins.choices import Choices

NUMBERS = (
    *("0", "-0", "-0.0", "0e9", "1", "1.0", "1e0", "10E-1", "-1", "0.1", "0.10", "1E-1"),
    *("9007199254740992", "9007199254740993", "9007199254740994", "9007199254740992.0", "-9007199254740993"),
    *("1e15", "1e16", "10000000000000000", "1e20", "1e21", "999999999999999999999", "1000000000000000000000"),
    *("0.0001", "0.00001", "1e-6", "0.000001", "1e-7", "0.1234567890123456", "0.12345678901234567"),
    *("1e400", "-1e400", "1" * 400, "1.7976931348623157e308", "5e-324", "1e-324", "2e-324"),
)
STRINGS = (
    *('"a"', '""', '"\\u0061"', '"A"', '" a"', '"a "', '"1"', '"\\/"', '"/"', '"\\n"', '"\\u000a"', '"{}"', '"null"'),
    *('"é"', '"e\\u0301"', '"\\u00e9"', '"ﬁ"', '"fi"', '"ａ"', '"😀"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\\ude00"'),
    *('"\\ude00\\ud83d"', '"\\ud83d\\ud83d\\ude00"', '"\\u2028"', '"\\u2029"', '"\\u007f"', '"\\u0000"', '"\\u001f"'),
    *('"\\"\\\\"', '"\\b\\f\\r\\t"', '"\\u0008"', '"\\ufeff"', '"\\ufffe"', '"\\udbff\\udfff"', '"👩‍👩‍👧"'),
)
NAMES = (
    *('"a"', '"b"', '"10"', '"9"', '"01"', '"description"', '"reason"', '"__proto__"', '"constructor"', '"length"'),
    *('"é"', '"\\uffff"', '"\\ue000"', '"😀"', '"\\ud83d"', '"\\ude00"', '"\\u0061"', '""', '"4294967294"'),
    *('"4294967295"', '"-1"', '"A"', '"toString"', '"\\n"'),
)
_CONSTANTS = ("null", "true", "false")
_SPACES = ("", "", "", " ", "\t", "\r")


def scalar(choose: Choices) -> str:
    return choose.of((choose.of(STRINGS), choose.of(NUMBERS), choose.of(_CONSTANTS)))


def value(choose: Choices, depth: int = 2) -> str:
    """Any JSON value, containers at most `depth` deep."""
    kind = choose.of(("scalar", "scalar", "object", "array")) if depth else "scalar"
    if kind == "scalar":
        return scalar(choose)
    inner = [value(choose, depth - 1) for _ in range(choose.below(4))]
    if kind == "array":
        return f"[{', '.join(inner)}]"
    # Names may be repeated: the last one wins.
    return record([(choose.of(NAMES), each) for each in inner], choose.of(_SPACES))


def record(members: Sequence[tuple[str, str]], space: str = "") -> str:
    return "{" + f",{space}".join(f"{name}{space}:{text}" for name, text in members) + "}"


def family(choose: Choices) -> Sequence[str | None]:
    """Arguments of the calls of one trace, None = missing: equal, equal but for their form, or nearly equal."""
    kind = choose.of(_KINDS)
    if kind in _FAMILIES:
        return _FAMILIES[kind](choose)
    if kind == "others":
        return [value(choose, 3) for _ in range(choose.between(1, 3))]
    if kind == "scalars":
        options = choose.of((NUMBERS, STRINGS))
        return [choose.of(options) for _ in range(4)]
    return _FIXED[kind]


def _forms_of_an_object(choose: Choices) -> Sequence[str]:
    names = choose.some(NAMES, 1, 4)
    members = [(name, value(choose, 1)) for name in names]
    changed = [*members[:-1], (members[-1][0], scalar(choose))]
    told = [*members, ('"description"', scalar(choose))]
    inside = [*members, ('"z"', record([('"reason"', scalar(choose))]))]
    forms = (members, members[::-1], [*members[1:], members[0]], changed, told, inside, [*members, members[0]])
    return [record(form, choose.of(_SPACES)) for form in choose.some(forms, 2, 5)]


def _nested(choose: Choices) -> Sequence[str]:
    """Deeper than Python's own recursion goes; the innermost values differ."""
    deep = choose.of((30, 900, 1000))
    inner = [scalar(choose), scalar(choose)]
    if choose.below(2):
        return ["[" * deep + each + "]" * deep for each in inner]
    return ['{"b":0,"a":' * deep + each + "}" * deep for each in inner]


def _huge(choose: Choices) -> Sequence[str]:
    """Kilobytes; the last part differs."""
    last = [scalar(choose), scalar(choose)]
    kind = choose.below(4)
    if kind == 0:
        return [f'{{"text": "{"x" * 9_000}", "z": {each}}}' for each in last]
    if kind == 1:
        text = "é\\n😀" * 800
        return [f'{{"text": "{text}", "z": {each}}}' for each in last]
    if kind == 2:
        return [f"[{', '.join(str(n) for n in range(300))}, {each}]" for each in last]
    return [record([(f'"n{n}"', '{"b": 1, "a": []}') for n in range(80)] + [('"n7"', each)]) for each in last]


_KINDS = ("plain", *("forms",) * 7, "others", "others", "scalars", "scalars", "empty", "inner", "nested", "huge")
_FAMILIES = {"forms": _forms_of_an_object, "nested": _nested, "huge": _huge}
_FIXED: dict[str, Sequence[str | None]] = {
    "plain": ['{"command": "ls"}'],
    "empty": [None, "{}", "null", '"{}"', "[]"],
    "inner": [f'{{"in": {{"b": [{one}], "a": {other}}}}}' for one, other in zip("1112", "2223", strict=True)],
}

_HEADS = ("x" * 35, "x" * 12, "é" * 20, "😀" * 9)


def content(choose: Choices) -> str | None:
    """A result's content, None = missing: a text or a list of blocks, some alike but behind a cut."""
    kind = choose.below(8)
    if kind < 3:
        return choose.of(STRINGS)
    if kind < 5:
        head, tail = choose.of(_HEADS), choose.of(("\\ud83d\\ude00", "\\ud83d\\ude01", "\\ud83e\\ude00", "\\ud83d", ""))
        return json.dumps(head, ensure_ascii=False)[:-1] + tail + '"'
    if kind < 7:
        return f"[{', '.join(_block(choose) for _ in range(choose.below(4)))}]"
    return choose.of((None, f'"{"long " * 1000}"', f'"{"long " * 1000}!"', f'"{"long " * 790}!"'))


def _block(choose: Choices) -> str:
    kind = choose.below(5)
    if kind < 2:
        return f'{{"type": "text", "text": {choose.of(STRINGS)}}}'
    if kind == 2:
        return f'{{"text": {choose.of(STRINGS)}, "x": {scalar(choose)}, "type": "text"}}'
    if kind == 3:
        return f'{{"type": "image", "b": {choose.of(NUMBERS)}, "10": [], "2": {{"z": null, "1": {scalar(choose)}}}}}'
    return record([(choose.of(NAMES), value(choose, 1)), ('"type"', '"other"'), (choose.of(NAMES), scalar(choose))])
