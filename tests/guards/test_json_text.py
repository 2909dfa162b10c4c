"""JSON text: what JSON.parse accepts and nothing more, at any depth, and back."""

import json
import math
import struct
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from guards.json_text import dump, number_text, parse, string_text, stringify
from tests.guards.plugins.node import NODE

DEEP = 20_000
TEXTS = st.text(st.characters() | st.characters(categories=["Cs"]), max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
)

REFUSED = [
    "",
    " ",
    "nul",
    "NaN",
    "Infinity",
    "[-Infinity]",
    "01",
    "1.",
    ".5",
    "+1",
    "1e",
    "'a'",
    '"\t"',
    '"\\x41"',
    '"\\u12"',
    '"open',
    "[",
    "[1",
    "[1,",
    "[1,]",
    "[,1]",
    "[1 2]",
    "[1}",
    "]",
    "{",
    "{a:1}",
    '{"a"',
    '{"a" 1}',
    '{"a":',
    '{"a":}',
    '{"a":1',
    '{"a":1,}',
    '{"a":1]',
    "{,}",
    "1 2",
    "{}{}",
    "[]]",
    "\ufeff1",
    "\xa01",
    "1\u2028",
    "// no\n1",
]


def nested(text, depth=DEEP):
    return "[" * depth + text + "]" * depth


def joined(value):
    """The value as UTF-16 has it: two halves of a character are that character."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    if isinstance(value, dict):
        return {joined(name): joined(each) for name, each in value.items()}
    return [joined(each) for each in value] if isinstance(value, list) else value


def in_node(code, question):
    """What a piece of JavaScript makes of a JSON value, both ways as ASCII JSON."""
    program = f"const given = JSON.parse(require('fs').readFileSync(0, 'utf8')); console.log(JSON.stringify({code}))"
    done = subprocess.run(
        [str(NODE), "-e", program], input=json.dumps(question), capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_json_is_refused_at_any_depth(text):
    with pytest.raises(ValueError, match=r"."):
        parse(text)
    with pytest.raises(ValueError, match=r"."):
        parse(nested(f"0,{text}"))


def test_javascript_refuses_the_same():
    refused = in_node("given.map(text => { try { JSON.parse(text); return false } catch { return true } })", REFUSED)
    assert refused == [True] * len(REFUSED)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (' \t\r\n{ "a" : [ 1 , 2.5e0 , true , null ] } \n', {"a": [1, 2.5, True, None]}),
        ('{"a": 1, "b": {}, "a": {"c": []}}', {"a": {"c": []}, "b": {}}),
        ("[1e400, -1e400]", [math.inf, -math.inf]),
        ('["\\ud83d\\ude00", "\\ud83d", "\\ude00\\ud83d"]', ["😀", "\ud83d", "\ude00\ud83d"]),
        ('"\u2028\x7f"', "\u2028\x7f"),
        ("1" + "0" * 309, 10**309),
        ("-1" + "0" * 5000, -math.inf),
        ("[[], [{}], {}]", [[], [{}], {}]),
    ],
)
def test_accepted(text, value):
    assert parse(text) == value
    deep = parse(nested(text))
    for _ in range(DEEP):
        (deep,) = deep
    assert deep == value


def test_duplicate_keys_keep_the_first_place_and_the_last_value():
    assert list(parse('{"a": 1, "b": 2, "a": 3}').items()) == [("a", 3), ("b", 2)]


@given(VALUES)
@example([math.inf, {"x": -math.inf}])
@example("\ud83d")
def test_dump_and_parse_are_a_round_trip(value):
    text = dump(value)
    assert parse(text) == joined(value)
    assert "\n" not in text
    text.encode()


@given(VALUES)
def test_the_loops_write_and_read_what_python_does(value):
    deep = dump([value])
    for _ in range(2000):
        deep = f"[{deep}]"
    read = parse(deep)
    assert dump(read) == deep


def test_dump_refuses_what_no_reader_would_accept():
    with pytest.raises(ValueError, match="NaN"):
        dump([math.nan])
    with pytest.raises(TypeError, match="set"):
        dump({"a": {1}})
    ring: list[object] = []
    ring.append(ring)
    with pytest.raises(ValueError, match="holds itself"):
        dump(ring)


def test_a_value_that_stands_in_two_places_does_not_hold_itself():
    shared = {"a": 1}
    assert stringify([shared, shared, {"b": shared}]) == '[{"a":1},{"a":1},{"b":{"a":1}}]'


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (2**53 + 1, "9007199254740992"),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (123456789012345680000, "123456789012345680000"),
        (1.5e-6, "0.0000015"),
        (1e-7, "1e-7"),
        (1.25e-9, "1.25e-9"),
        (-12.5, "-12.5"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (10**400, "null"),
        (math.inf, "null"),
        (math.nan, "null"),
    ],
)
def test_numbers_as_javascript_writes_them(number, text):
    assert number_text(number) == text


@given(st.lists(st.floats(width=64) | st.integers(), min_size=50, max_size=50))
@example([struct.unpack("d", struct.pack("Q", bits << 52 | 1))[0] for bits in range(0, 4096, 17)])
def test_numbers_read_back_to_the_same_double(numbers):
    for number in numbers:
        text = number_text(number)
        try:
            double = float(number)
        except OverflowError:
            double = math.inf
        assert text == "null" if not math.isfinite(double) else float(text) == double


def test_node_writes_the_same():
    """Doubles of every exponent, strings of every kind of code unit, and objects whose names are indices."""
    doubles = [struct.unpack("d", struct.pack("Q", bits << 51 | bits * 7919))[0] for bits in range(1, 4094)]
    numbers = [*doubles, *(10.0**power * 1.23456 for power in range(-40, 40)), *(10**power + 1 for power in range(25))]
    strings = [chr(code) + "a" for code in (*range(0x180), 0x2028, 0x2029, 0xD7FF, *range(0xD800, 0xE000, 97), 0xFEFF)]
    strings += ["\ud83d\ude00", "\ude00\ud83d", "😀", '"\\/']
    objects = [
        {"b": 1, "10": 2, "a": 3, "9": 4, "01": 5, "-1": 6, "1.5": 7, "4294967294": 8, "4294967295": 9, "": 10},
        {"__proto__": 1, "constructor": {"1": [], "0": {}}},
    ]
    for question in (numbers, strings, objects):
        assert in_node("given.map(each => JSON.stringify(each))", question) == [stringify(each) for each in question]


def test_strings_of_two_halves_are_one_character():
    assert string_text("\ud83d" + "\ude00") == '"😀"'
    assert string_text("\ud83d-\ude00") == '"\\ud83d-\\ude00"'
