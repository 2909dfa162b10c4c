"""Grammars of JSON schemas, judged by llama.cpp's matcher and by the jsonschema package."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.gateway.dialects.schema_rules import SchemaRules, add_json_rules
from runners.gateway.grammar import Rules
from tests.runners.gateway.dialects.llama_grammar import ByteVocabulary


def grammar(schema: Any) -> str:
    rules = Rules()
    add_json_rules(rules)
    return rules.gbnf(SchemaRules(rules, schema, "t").arguments())


def props(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def one(schema: Any) -> dict[str, Any]:
    return props("x", x=schema)


TREE = {
    **props("root", root={"$ref": "#/$defs/node"}),
    "$defs": {
        "node": props("value", value={"type": "integer"}, children={"type": "array", "items": {"$ref": "#/$defs/node"}})
    },
}
LOOPS = {
    "$defs": {
        "self": {"$ref": "#/$defs/self"},
        "either": {"anyOf": [{"$ref": "#/$defs/either"}, {"type": "boolean"}, {"$ref": "#/$defs/self"}]},
        "a": {"anyOf": [{"$ref": "#/$defs/b"}, {"const": "a"}]},
        "b": {"anyOf": [{"$ref": "#/$defs/a"}, {"const": "b"}]},
        "endless": props("more", more={"$ref": "#/$defs/endless"}),
    },
}

CASES: list[tuple[Any, list[str], list[str]]] = [
    ({"type": "object", "properties": {}}, ["{}", "{ }", "{\n  }"], ['{"a": 1}', "[]", ""]),
    ({}, ["{}", '{"a": [1, {"b": null}], "c": "d"}'], ["[]", "1", '{"a"}', '{"a": 1,}']),
    ({"type": "object"}, ["{}", '{"a":true}'], ["null"]),
    ("nonsense", ["{}", '{"a": 1}'], ["1"]),
    (False, ["{}"], ["false"]),
    (
        props(a={"type": "string"}),
        ["{}", '{"a": "x"}', '{"a":"é😀\\n\\u00e9\\"\\\\"}'],
        ['{"a": 1}', '{"b": "x"}', '{"a": "\n"}', '{"a": "\\x"}', '{"a": "\\ud800"}', '{"a": "\x7f"}'],
    ),
    (
        props("b", a={"type": "null"}, b={"type": "null"}, c={"type": "null"}),
        [
            '{"b": null}',
            '{"a": null, "b": null}',
            '{"b": null, "c": null}',
            '{"a":null,"b":null,"c":null}',
            '{\n  "a": null,\n  "b": null\n}',
        ],
        [
            "{}",
            '{"a": null}',
            '{"b": null,}',
            '{, "b": null}',
            '{"c": null, "b": null}',
            '{"b": null "c": null}',
            '{"b": null, "b": null}',
        ],
    ),
    (
        props(a={"type": "null"}, b={"type": "null"}, c={"type": "null"}),
        ["{}", '{"a": null}', '{"b": null}', '{"c": null}', '{"a": null, "c": null}', '{"b": null, "c": null}'],
        ['{"a": null, }', '{"c": null, "a": null}'],
    ),
    (props("y", x={"type": "null"}), ['{"y": 1}', '{"x": null, "y": [2]}'], ['{"x": null}']),
    (
        one({"enum": ["a b", 'q"', 1, None, {"k": [1]}]}),
        ['{"x": "a b"}', '{"x": "q\\""}', '{"x": 1}', '{"x": null}', '{"x": {"k": [1]}}'],
        ['{"x": "a"}', '{"x": 2}'],
    ),
    (one({"const": "née"}), ['{"x": "née"}'], ['{"x": "nee"}']),
    (
        one({"type": ["integer", "null"]}),
        ['{"x": 5}', '{"x": -5}', '{"x": null}'],
        ['{"x": 1.5}', '{"x": 05}', '{"x": "5"}'],
    ),
    (
        one({"type": "number"}),
        ['{"x": 5}', '{"x": -0.25}', '{"x": 1e10}', '{"x": 2.5E-3}'],
        ['{"x": .5}', '{"x": 1.}', '{"x": +1}', '{"x": NaN}'],
    ),
    (one({"type": "boolean"}), ['{"x": true}', '{"x": false}'], ['{"x": True}', '{"x": 0}']),
    (
        one({"type": "array", "items": {"type": "integer"}}),
        ['{"x": []}', '{"x": [1]}', '{"x": [1, 2,3]}', '{"x": [\n 1,\n 2\n ]}'],
        ['{"x": [1,]}', '{"x": ["a"]}', '{"x": 1}'],
    ),
    (
        one({"type": "array", "items": {"type": "null"}, "minItems": 2, "maxItems": 3}),
        ['{"x": [null, null]}', '{"x": [null, null, null]}'],
        ['{"x": [null]}', '{"x": [null, null, null, null]}'],
    ),
    (
        one({"type": "array", "prefixItems": [{"type": "null"}, {"type": "boolean"}]}),
        ['{"x": [null, true]}'],
        ['{"x": [true, null]}', '{"x": [null true]}'],
    ),
    (one({"type": "array", "maxItems": 0}), ['{"x": []}'], ['{"x": [1]}']),
    (
        one({"type": "string", "minLength": 2, "maxLength": 3}),
        ['{"x": "ab"}', '{"x": "a\\n"}', '{"x": "äöü"}'],
        ['{"x": "a"}', '{"x": "abcd"}'],
    ),
    (
        one({"anyOf": [{"type": "integer"}, props("k", k={"type": "null"})]}),
        ['{"x": 1}', '{"x": {"k": null}}'],
        ['{"x": {}}', '{"x": "s"}'],
    ),
    (one({"oneOf": [{"const": 1}, {"const": 2}], "description": "d"}), ['{"x": 1}', '{"x": 2}'], ['{"x": 3}']),
    (
        one({"allOf": [props("a", a={"type": "null"}), props("b", b={"type": "null"})]}),
        ['{"x": {"a": null, "b": null}}'],
        ['{"x": {"a": null}}'],
    ),
    (
        one({"type": "object", "additionalProperties": {"type": "integer"}}),
        ['{"x": {}}', '{"x": {"any key": 1, "b": 2}}'],
        ['{"x": {"a": "b"}}'],
    ),
    (one({"type": "object", "additionalProperties": False}), ['{"x": {}}'], ['{"x": {"a": 1}}']),
    (one({"type": "string", "nullable": True}), ['{"x": "a"}', '{"x": null}'], ['{"x": 1}']),
    (one({"type": "odd"}), ['{"x": 1}', '{"x": {"a": []}}'], ["{}"]),
    (one(True), ['{"x": 1}', '{"x": "a"}'], ["{}"]),
    (one({"$ref": "elsewhere.json"}), ['{"x": 1}', '{"x": "a"}'], ["{}"]),
    (props(x=False, y={"enum": []}, z={"type": "null"}), ["{}", '{"z": null}'], ['{"x": 1}', '{"y": 1}']),
    (one(False), ["{}", '{"y": 1}'], ["null"]),
    (
        TREE,
        ['{"root": {"value": 1}}', '{"root": {"value": 1, "children": [{"value": 2, "children": []}, {"value": 3}]}}'],
        ['{"root": {}}', '{"root": {"value": 1, "children": [{}]}}'],
    ),
    ({**props(x={"$ref": "#/$defs/self"}), **LOOPS}, ["{}"], ['{"x": 1}']),
    ({**props("x", x={"$ref": "#/$defs/either"}), **LOOPS}, ['{"x": true}'], ['{"x": 1}']),
    (
        {**props("x", x={"$ref": "#/$defs/a"}, y={"$ref": "#/$defs/b"}), **LOOPS},
        ['{"x": "a", "y": "a"}', '{"x": "b"}'],
        ['{"x": 1}'],
    ),
    ({**props(x={"$ref": "#/$defs/endless"}), **LOOPS}, ["{}"], ['{"x": {']),
    ({**props("x", x={"$ref": "#/$defs/endless"}), **LOOPS}, ["{}", '{"x": 1}'], ["1"]),
    ({"$ref": "#/$defs/args", "$defs": {"args": props("a", a={"type": "null"})}}, ['{"a": null}'], ["{}"]),
    (
        {
            "type": "object",
            "properties": {"a": {"type": "null"}, "b": {"type": "null"}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        ['{"a": null}', '{"b": null}', '{"a": null, "b": null}'],
        ["{}"],
    ),
    (
        {"type": "object", "properties": {'we"ird\\ näme\n': {"type": "null"}}},
        ['{"we\\"ird\\\\ näme\\n": null}'],
        ['{"weird": null}'],
    ),
    ({"type": "object", "properties": "bad", "required": "bad"}, ['{"bad": 1}'], ["1"]),
    (
        {"type": "object", "properties": {"a": "bad", "b": 7, "c": None}, "required": ["a", 5]},
        ['{"a": 1}', '{"a": 1, "b": 2}'],
        ["{}"],
    ),
]


@pytest.mark.parametrize(
    ("schema", "good", "bad"), CASES, ids=lambda value: None if isinstance(value, list) else json.dumps(value)[:70]
)
def test_what_is_allowed(vocabulary: ByteVocabulary, schema: Any, good: list[str], bad: list[str]) -> None:
    gbnf = grammar(schema)
    assert [text for text in good if vocabulary.verdict(gbnf, text) != "complete"] == []
    assert [text for text in bad if vocabulary.verdict(gbnf, text) == "complete"] == []


def test_white_space_is_bounded(vocabulary: ByteVocabulary) -> None:
    gbnf = grammar(one({"type": "null"}))
    assert vocabulary.verdict(gbnf, "{\n" + " " * 40 + '"x" :\n null }') == "complete"
    for text in ("{\n" + " " * 41, "{  ", "{\n\n", '{"x":  ', '{"x": null} '):
        assert vocabulary.verdict(gbnf, text) == "refused"


@settings(max_examples=60, deadline=None)
@given(low=st.none() | st.integers(-1300, 1300), high=st.none() | st.integers(-1300, 1300), data=st.data())
def test_integer_bounds(vocabulary: ByteVocabulary, low: int | None, high: int | None, data: st.DataObject) -> None:
    schema = (
        {"type": "integer"} | ({} if low is None else {"minimum": low}) | ({} if high is None else {"maximum": high})
    )
    gbnf = grammar({**props("x", x=schema)})
    near = [edge + step for edge in (low or 0, high or 0) for step in (-1, 0, 1)]
    value = data.draw(st.sampled_from(near) | st.integers(-2000, 2000))
    satisfiable = low is None or high is None or low <= high
    allowed = vocabulary.verdict(gbnf, f'{{"x": {value}}}') == "complete"
    assert allowed is (jsonschema.Draft202012Validator(schema).is_valid(value) if satisfiable else True)


def names(size: int = 4) -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=size)


def schemas() -> st.SearchStrategy[Any]:
    number = st.integers(-50, 50) | st.floats(-50, 50, width=16)
    leaf = st.one_of(
        st.just({"type": "string"}),
        st.builds(
            lambda least, more: {"type": "string", "minLength": least, "maxLength": least + more},
            st.integers(0, 3),
            st.integers(0, 3),
        ),
        st.builds(
            lambda low, more: {"type": "integer", "minimum": low, "maximum": low + more},
            st.integers(-99, 99),
            st.integers(0, 200),
        ),
        st.builds(
            lambda low, more: {"type": "number", "minimum": low, "maximum": low + more}, number, st.integers(1, 99)
        ),
        st.builds(lambda low: {"type": "number", "exclusiveMinimum": low}, number),
        st.builds(
            lambda values: {"enum": values},
            st.lists(st.none() | st.booleans() | st.integers(-9, 9) | names(), min_size=1, max_size=3),
        ),
        st.sampled_from(
            [{"type": "boolean"}, {"type": "null"}, {"type": ["integer", "null"]}, {"$ref": "#/$defs/d"}, {}]
        ),
    )

    def deeper(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.one_of(
            st.builds(
                lambda named, keep: {
                    "type": "object",
                    "properties": named,
                    "required": [n for i, n in enumerate(named) if keep >> i & 1],
                },
                st.dictionaries(names(), inner, max_size=4),
                st.integers(0, 15),
            ),
            st.builds(
                lambda item, least, more: {"type": "array", "items": item, "minItems": least, "maxItems": least + more},
                inner,
                st.integers(0, 2),
                st.integers(0, 2),
            ),
            st.builds(lambda branches: {"anyOf": branches}, st.lists(inner, min_size=1, max_size=3)),
            st.builds(lambda value: {"type": "object", "additionalProperties": value}, inner),
        )

    return st.builds(
        lambda named, definition: {
            "type": "object",
            "properties": named,
            "required": list(named)[:1],
            "$defs": {"d": definition},
        },
        st.dictionaries(names(), st.recursive(leaf, deeper, max_leaves=6), max_size=3),
        st.sampled_from(
            [
                {"type": "integer"},
                {"type": "array", "items": {"$ref": "#/$defs/d"}},
                {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/d"}]},
            ]
        ),
    )


CLOSING = b'"}]:0123456789'


@settings(max_examples=40, deadline=None)
@given(schema=schemas(), seed=st.integers(0, 2**32))
def test_whatever_the_grammar_lets_through_is_valid_and_can_end(
    vocabulary: ByteVocabulary, schema: Any, seed: int
) -> None:
    """A walk through the grammar: at random for a while, then always towards an end."""
    choose = random.Random(seed)
    text, steps = vocabulary.walk(grammar(schema), choose, free=30, most=600, closing=CLOSING)
    assert steps < 600, text
    value = json.loads(text)
    jsonschema.Draft202012Validator(schema).validate(value)


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "type",
                        "properties",
                        "required",
                        "items",
                        "anyOf",
                        "allOf",
                        "$ref",
                        "enum",
                        "const",
                        "minimum",
                        "maximum",
                        "minItems",
                        "maxItems",
                        "minLength",
                        "maxLength",
                        "prefixItems",
                        "additionalProperties",
                        "oneOf",
                        "nullable",
                    ]
                ),
                inner
                | st.sampled_from(["object", "array", "string", "integer", "number", "#", "#/properties", "#/anyOf/0"]),
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_no_schema_is_too_strange(vocabulary: ByteVocabulary, schema: Any) -> None:
    assert vocabulary.verdict(grammar(schema), "") == "unfinished"


def test_huge_schemas_stay_usable(vocabulary: ByteVocabulary) -> None:
    deep: Any = {"type": "null"}
    for _ in range(2000):
        deep = props("x", x=deep)
    wide = {"type": "object", "properties": {f"p{i}": {"type": "string", "maxLength": 10**9} for i in range(2000)}}
    pairs = {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(60)} | {"d60": {"type": "null"}}
    many = {**props("x", x={"$ref": "#/$defs/d0"}), "$defs": pairs}
    for schema in (deep, wide, many, one({"type": "array", "minItems": 10**9}), one({"enum": list(range(5000))})):
        assert vocabulary.verdict(grammar(schema), "{") == "unfinished"
