"""Call keys: equal exactly where tool and arguments are the same JSON to JavaScript."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.json_text import dump, parse
from guards.keys import call_key, canonical
from tests.guards.test_json_text import TEXTS, VALUES, in_node

KEYS = Path(__file__).resolve().parents[2] / "guards" / "plugins" / "loop-guard" / "keys.js"


def shuffled(value, chance):
    """The same value, with the names of every object in another order."""
    if isinstance(value, dict):
        names = list(value)
        chance.shuffle(names)
        return {name: shuffled(value[name], chance) for name in names}
    return [shuffled(each, chance) for each in value] if isinstance(value, list) else value


def floats(value):
    """The same value, with every integer that is a double written as one."""
    if isinstance(value, dict):
        return {name: floats(each) for name, each in value.items()}
    if isinstance(value, list):
        return [floats(each) for each in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        return float(value)
    return value


@given(VALUES, st.randoms(use_true_random=False))
def test_key_order_does_not_matter(value, chance):
    assert call_key("t", shuffled(value, chance)) == call_key("t", value)


@given(VALUES)
def test_number_forms_do_not_matter(value):
    assert call_key("t", floats(value)) == call_key("t", value)
    assert call_key("t", parse(dump(value))) == call_key("t", value)


@given(VALUES, VALUES)
def test_other_values_have_other_keys(one, other):
    assert (call_key("t", one) == call_key("t", other)) == (canonical(one) == canonical(other))


@given(TEXTS, TEXTS)
def test_strings_are_compared_code_unit_by_code_unit(one, other):
    units = [text.encode("utf-16-le", "surrogatepass") for text in (one, other)]
    assert (call_key("t", one) == call_key("t", other)) == (units[0] == units[1])
    assert (call_key(one, {}) == call_key(other, {})) == (units[0] == units[1])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1, "b": [1, {"c": 2, "d": 3}]}', '{"b": [1.0, {"d": 3e0, "c": 2}], "a": 1}'),
        ("9007199254740993", "9007199254740992"),
        ("-0", "0.0"),
        ("1e400", "null"),
        ('{"a": 1, "a": 2}', '{"a": 2}'),
        ('"\\u0041"', '"A"'),
    ],
)
def test_the_same(one, other):
    assert call_key("t", parse(one)) == call_key("t", parse(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, 2], [2, 1]),
        ("é", "e\u0301"),
        ("a", "A"),
        ("a", "a "),
        ('{"a": 1}', {"a": 1}),
        ("{}", {}),
        ({}, []),
        ({}, None),
        (1, True),
        ("1", 1),
        ("\ud83d", "\ude00"),
        ("\ud83d", "\\ud83d"),
        ({"a": None}, {}),
    ],
)
def test_not_the_same(one, other):
    assert call_key("t", one) != call_key("t", other)


def test_the_tool_is_part_of_the_key():
    assert call_key("a", {"x": 1}) != call_key("b", {"x": 1})
    assert call_key('a",{', {}) != call_key("a", {})


def test_names_stand_in_the_order_of_utf_16():
    # U+FF5E is one unit above the surrogates of U+1F600, and a smaller code point.
    assert canonical({"\uff5e": 1, "😀": 2, "z": 3, "é": 4}) == '{"z":3,"é":4,"😀":2,"\uff5e":1}'


def test_ignored_names_are_left_out_at_the_top_level_alone():
    ignored = {"reason"}
    assert call_key("t", {"x": 1, "reason": "a"}, ignored=ignored) == call_key("t", {"x": 1})
    assert call_key("t", {"x": {"reason": "a"}}, ignored=ignored) == call_key("t", {"x": {"reason": "a"}})
    assert call_key("t", [{"reason": "a"}], ignored=ignored) == call_key("t", [{"reason": "a"}])
    assert call_key("t", '{"reason":"a"}', ignored=ignored) == call_key("t", '{"reason":"a"}')


def test_deep_and_large_arguments_have_keys():
    deep = "[" * 1000 + '{"b":1,"a":2}' + "]" * 1000
    other = "[" * 1000 + '{"a":2,"b":1.0}' + "]" * 1000
    assert call_key("t", parse(deep)) == call_key("t", parse(other))
    assert call_key("t", parse(deep.replace("2", "3"))) != call_key("t", parse(other))
    assert len(call_key("t", {"a": "x" * 4_000_000, "b": list(range(100_000))})) == 32


def test_what_is_no_json_value_has_no_key():
    ring: dict[str, object] = {}
    ring["self"] = [ring]
    for args in ({1, 2}, {"a": b"x"}, {1: 2}, {"a": [object()]}, ring):
        assert call_key("t", args) is None


def test_the_plugins_have_the_same_canonical_text():
    chance = random.Random(7)
    leaves = [0, -0.0, 1.5, 1e21, 1e-7, 2**60, True, None, "é", "\ud83d", "😀", "\uff5e", [], {}]

    def value(depth):
        if depth == 0 or chance.random() < 0.2:
            return chance.choice(leaves)
        if chance.random() < 0.4:
            return [value(depth - 1) for _ in range(chance.randrange(4))]
        names = ["b", "a", "10", "9", "é", "😀", "\uff5e", "\ud83d", "__proto__", ""]
        return {name: value(depth - 1) for name in chance.sample(names, chance.randrange(1, 5))}

    values = [value(4) for _ in range(400)]
    code = "given.map(each => canonical(each))"
    wrapped = f"(({{ canonical }}) => {code})(require({json.dumps(str(KEYS))}))"
    assert in_node(wrapped, values) == [canonical(each) for each in values]
