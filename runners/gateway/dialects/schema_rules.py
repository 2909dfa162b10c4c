"""JSON schemas as grammar rules.

llama-cpp-python has a converter too; it lets raw control characters into strings, puts required properties before
optional ones, raises on what it does not know, and can make grammars that have no end. This one promises:

- every text that the rules allow is JSON, and valid by the schema in all that is listed here: `type`, `properties`,
  `required`, `additionalProperties` (for objects without named properties; with them only those are written),
  `items`, `prefixItems`, `minItems`, `maxItems`, `enum`, `const`, `anyOf`, `oneOf`, `allOf`, local `$ref`, recursion,
  `minLength`, `maxLength`, and the bounds of numbers;
- what is not listed (`pattern`, `format`, `not`, `if`, `multipleOf`, `uniqueItems`, references to other documents) is
  not enforced: that part is any value of its type;
- properties come in the schema's order; white space is bounded;
- it never raises, whatever the schema, and the text can always be ended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from runners.gateway.dialects.number_rules import integer_rule, number_rule
from runners.gateway.grammar import Alt, Expr, Ref, Repeat, Rules, Seq, Terminal, alt, literal, opt, seq

MAX_NODES = 4000
"""Schema nodes of one tool that are translated; what comes after is any value."""
MAX_DEPTH = 40
MAX_COUNT = 100
"""Bounds of lengths and item counts above this are not enforced: llama.cpp unrolls repetitions."""

WS = Ref("ws")
_SEPARATOR = seq(WS, ",", WS)
_COLON = seq(WS, ":", WS)
_KEYWORDS = (
    ("object", ("properties", "required", "additionalProperties")),
    ("array", ("items", "prefixItems", "minItems", "maxItems")),
    ("string", ("minLength", "maxLength", "pattern", "format")),
    ("number", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
)
_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
_NOTES = frozenset(
    ("title", "description", "default", "examples", "example", "$comment", "$defs", "definitions", "$id")
)


def add_json_rules(rules: Rules) -> None:
    """Adds the rules of any JSON: ws, char, string, integer, number, boolean, null, object, array, value."""
    rules.add("ws", opt(alt((literal(" "), seq("\n", Repeat(Terminal(r"[ \t]"), 0, 40))))))
    hexa = Terminal("[0-9a-fA-F]")
    code = alt((seq(Terminal("[0-9a-cefA-CEF]"), hexa, hexa, hexa), seq(Terminal("[dD] [0-7]"), hexa, hexa)))
    rules.add(
        "char", alt((Terminal(r'[^"\\\x00-\x1F\x7F]'), seq("\\", alt((Terminal(r'["\\/bfnrt]'), seq("u", code))))))
    )
    rules.add("string", seq('"', Repeat(Ref("char")), '"'))
    rules.add("integer", integer_rule(None, None))
    rules.add("number", number_rule(None, None))
    rules.add("boolean", alt((literal("true"), literal("false"))))
    rules.add("null", literal("null"))
    rules.add("object", _mapping(Ref("value")))
    rules.add("array", _list(Ref("value"), 0, None))
    rules.add("value", alt(Ref(kind) for kind in _TYPES if kind != "integer"))


class SchemaRules:
    """Translates one tool's schema; references are looked up in that schema."""

    def __init__(self, rules: Rules, schema: Any, prefix: str) -> None:
        self._rules = rules
        self._root = schema
        self._prefix = prefix
        self._nodes = 0
        self._named: dict[str, Ref] = {}

    def arguments(self) -> Ref:
        """The rule of the arguments object. A schema that allows no object at all counts as one of any object."""
        name = self._rules.fresh(self._prefix)
        schema = self._root if isinstance(self._root, Mapping) else {}
        self._rules.add(name, self._objects(schema))
        return Ref(name) if self._rules.productive(name) else Ref("object")

    def _objects(self, schema: Mapping[str, Any]) -> Expr:
        merged = self._merged(schema, {})
        branches = merged.get("anyOf") or merged.get("oneOf")
        if isinstance(branches, list):
            base = {key: value for key, value in merged.items() if key not in ("anyOf", "oneOf")}
            return alt(self._objects({**base, "allOf": [branch]}) for branch in branches if isinstance(branch, Mapping))
        kinds = merged.get("type", "object")
        return self._object(merged, 0) if kinds == "object" or "object" in _sequence(kinds) else Alt()

    def _value(self, schema: Any, depth: int, refs: frozenset[str] = frozenset()) -> Expr:  # noqa: PLR0911
        """`refs` are the references followed since the last character: to follow one again would never end."""
        self._nodes += 1
        if schema is False:
            return Alt()
        if not isinstance(schema, Mapping) or self._nodes > MAX_NODES or depth > MAX_DEPTH:
            return Ref("value")
        pointer = schema.get("$ref")
        if isinstance(pointer, str):
            return self._reference(schema, pointer, depth, refs)
        if "allOf" in schema:
            return self._value(self._merged(schema, {}), depth, refs)
        if "const" in schema:
            return _constant(schema["const"])
        if isinstance(schema.get("enum"), (list, tuple)):
            return alt(_constant(value) for value in schema["enum"])
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), (list, tuple)):
                base = {name: value for name, value in schema.items() if name not in _NOTES | {key}}
                return alt(self._value(_both(base, branch), depth + 1, refs) for branch in schema[key])
        kinds = _sequence(schema.get("type")) or tuple(
            kind for kind, keywords in _KEYWORDS if any(keyword in schema for keyword in keywords)
        )
        if schema.get("nullable") is True:
            kinds = (*kinds, "null")
        if not kinds or any(kind not in _TYPES for kind in kinds):
            return Ref("value")
        return alt(self._typed(kind, schema, depth) for kind in dict.fromkeys(kinds))

    def _reference(self, schema: Mapping[str, Any], pointer: str, depth: int, refs: frozenset[str]) -> Expr:
        target, found = self._resolve(pointer)
        if not found:
            return Ref("value")
        if pointer in refs:
            return Alt()
        beside = {key: value for key, value in schema.items() if key not in _NOTES | {"$ref"}}
        if beside or refs:
            return self._value(_both(beside, target), depth + 1, refs | {pointer})
        if pointer not in self._named:
            name = self._rules.fresh(self._prefix)
            self._named[pointer] = Ref(name)
            self._rules.add(name, self._value(target, depth + 1, frozenset((pointer,))))
        return self._named[pointer]

    def _resolve(self, pointer: str) -> tuple[Any, bool]:
        if not pointer.startswith("#"):
            return None, False
        node = self._root
        for step in pointer[1:].split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
                node = node[int(key)]
            else:
                return None, False
        return node, True

    def _merged(self, schema: Mapping[str, Any], seen: Mapping[str, None]) -> dict[str, Any]:
        """The schema with its `allOf` parts, and the references among them, drawn into it."""
        merged: dict[str, Any] = {key: value for key, value in schema.items() if key not in ("allOf", "$ref")}
        pointer = schema.get("$ref")
        parts = list(_sequence(schema.get("allOf")))
        if isinstance(pointer, str) and pointer not in seen:
            seen = {**seen, pointer: None}
            parts.insert(0, self._resolve(pointer)[0])
        for part in parts:
            self._nodes += 1
            if isinstance(part, Mapping) and self._nodes <= MAX_NODES and len(seen) < MAX_DEPTH:
                merged = _both(merged, self._merged(part, {**seen, f" {len(seen)}": None}))
        return merged

    def _typed(self, kind: str, schema: Mapping[str, Any], depth: int) -> Expr:  # noqa: PLR0911
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return self._array(schema, depth)
        if kind == "string":
            least, most = _count(schema.get("minLength")) or 0, _count(schema.get("maxLength"))
            if least == 0 and most is None:
                return Ref("string")
            return seq('"', Repeat(Ref("char"), least, most), '"') if most is None or least <= most else Alt()
        if kind in ("integer", "number"):
            low, high = _bound(schema, "inimum", kind, max), _bound(schema, "aximum", kind, min)
            if low is None and high is None:
                return Ref(kind)
            return integer_rule(low, high) if kind == "integer" else number_rule(low, high)
        return Ref(kind)

    def _object(self, schema: Mapping[str, Any], depth: int) -> Expr:
        properties = schema.get("properties")
        named = dict(properties) if isinstance(properties, Mapping) else {}
        required = [name for name in _sequence(schema.get("required")) if isinstance(name, str)]
        named |= {name: True for name in required if name not in named}
        more = schema.get("additionalProperties", {} if properties is None else False)
        if not named:
            if more is False:
                return seq("{", WS, "}")
            inner = self._value(more, depth + 1)
            return Ref("object") if inner == Ref("value") else _mapping(inner)
        pairs = [
            (seq(_constant(str(name)), _COLON, self._value(part, depth + 1)), name in required)
            for name, part in named.items()
        ]
        return seq("{", WS, self._members(pairs), "}")

    def _members(self, pairs: list[tuple[Expr, bool]]) -> Expr:
        """Members in order, optional ones present or not, with commas only between those that are present."""
        rest: Expr = Seq()
        first: Expr = Seq()
        for pair, required in reversed(pairs):
            rule = self._rules.add(self._rules.fresh(self._prefix), pair)
            begun = seq(rule, rest, WS)
            first = begun if required else self._rules.add(self._rules.fresh(self._prefix), alt((begun, first)))
            following = seq(_SEPARATOR, rule)
            rest = self._rules.add(
                self._rules.fresh(self._prefix), seq(following if required else opt(following), rest)
            )
        return first

    def _array(self, schema: Mapping[str, Any], depth: int) -> Expr:
        prefix = _sequence(schema.get("prefixItems"))
        items = schema.get("items", True)
        if isinstance(items, (list, tuple)):
            prefix, items = tuple(items), schema.get("additionalItems", True)
        least, most = _count(schema.get("minItems")) or 0, _count(schema.get("maxItems"))
        if prefix:
            fixed = [self._value(item, depth + 1) for item in prefix[:MAX_COUNT]]
            parts: list[Expr | str] = [fixed[0]]
            for item in fixed[1:]:
                parts += [_SEPARATOR, item]
            if least > len(fixed):
                extra = seq(_SEPARATOR, self._value(items, depth + 1))
                parts.append(Repeat(extra, least - len(fixed), None if most is None else max(0, most - len(fixed))))
            return seq("[", WS, *parts, WS, "]")
        if most == 0 or (items is False and least == 0):
            return seq("[", WS, "]")
        if most is not None and most < least:
            return Alt()
        return _list(self._value(items, depth + 1), least, most)


def _mapping(value: Expr) -> Expr:
    member = seq(Ref("string"), _COLON, value)
    return seq("{", WS, opt(member, Repeat(seq(_SEPARATOR, member)), WS), "}")


def _list(item: Expr, least: int, most: int | None) -> Expr:
    more = Repeat(seq(_SEPARATOR, item), max(0, least - 1), None if most is None else most - 1)
    return seq("[", WS, *((item, more, WS) if least else (opt(item, more, WS),)), "]")


def _constant(value: Any) -> Expr:
    text = json.dumps(value, ensure_ascii=False)
    return literal(text if text.isascii() or not any(0xD800 <= ord(c) < 0xE000 for c in text) else json.dumps(value))


def _both(one: Mapping[str, Any], other: Any) -> Any:
    """Both schemas at once, as far as that can be said by merging keywords; False where one of them is."""
    if other is False:
        return False
    if not isinstance(other, Mapping):
        return dict(one)
    merged = {**one, **other}
    if isinstance(one.get("properties"), Mapping) and isinstance(other.get("properties"), Mapping):
        merged["properties"] = {**one["properties"], **other["properties"]}
    if "required" in one and "required" in other:
        merged["required"] = [*_sequence(one["required"]), *_sequence(other["required"])]
    return merged


def _sequence(value: Any) -> tuple[Any, ...]:
    """A list's items; a lone string's one; of anything else none."""
    return tuple(value) if isinstance(value, (list, tuple)) else (value,) if isinstance(value, str) else ()


def _count(value: Any) -> int | None:
    """A length bound that is worth enforcing."""
    whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value // 1
    return int(value) if whole and 0 <= value <= MAX_COUNT else None


def _bound(schema: Mapping[str, Any], suffix: str, kind: str, tighter: Any) -> float | None:
    """The tighter of `minimum` and `exclusiveMinimum` (or maximum); an exclusive one moved inwards by one."""
    inward = 1 if suffix == "inimum" else -1
    found = []
    for key, step in (("m" + suffix, 0), ("exclusiveM" + suffix, inward)):
        value = schema.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e15:
            found.append(value + step if kind == "integer" or step == 0 else value + step * 1e-9)
    return tighter(found) if found else None
