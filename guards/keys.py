"""Call keys: two calls have equal keys exactly where tool and arguments are the same to JavaScript's JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from pydantic_core import to_json

from guards.json_text import number_text, paired, serialise, string_text

_QUICK_DEPTH: Final = 40
_EXACT: Final = 2**53
_TEXT: Final = frozenset({str})
_PLAIN: Final = frozenset({str, bool, type(None)})


def call_key(tool: str, args: Any, *, ignored: AbstractSet[str] = frozenset()) -> bytes | None:
    """A digest of `[tool, canonical(args)]`, or None where the arguments are no JSON value.

    `ignored` names are left out at the top level, where the arguments are an object. A string stays a string and is
    never parsed.
    """
    if isinstance(args, dict) and not ignored.isdisjoint(args):
        args = {name: value for name, value in args.items() if name not in ignored}
    try:
        text = to_json([tool, _ordered(args, _QUICK_DEPTH)])
    except (_Unusual, TypeError, ValueError):
        try:
            text = f"[{string_text(tool)},{canonical(args)}]".encode()
        except (TypeError, ValueError):
            return None
    return hashlib.sha256(text).digest()


def canonical(value: Any) -> str:
    """The text of `JSON.stringify`, with the names of every object in the order of their UTF-16 code units.

    Numbers are rounded to doubles, strings are compared as they are, depth is no limit. Raises TypeError or ValueError
    for what is no JSON value.
    """
    return serialise(value, number=number_text, order=_by_code_units)


class _Unusual(Exception):
    """A value that the quick writer might write in another way than `canonical`, if at all."""


def _ordered(value: Any, depth: int) -> Any:
    """An equal value whose text by the quick writer is `canonical(value)`, or an error where a text is.

    That is so for texts, for integers that a double holds, and for objects whose names stand in order already; what is
    more than `depth` containers deep is left to `canonical`, and so is every number that may need rounding. Raises
    _Unusual.
    """
    kind = type(value)
    if kind in _PLAIN or (kind is int and -_EXACT <= value <= _EXACT):
        return value
    if depth and kind is list:
        return [each if type(each) in _PLAIN else _ordered(each, depth - 1) for each in value]
    if depth and kind is dict and _TEXT.issuperset(map(type, value)):
        ordered = {}
        for name in _by_code_units(value):
            each = value[name]
            ordered[name] = each if type(each) in _PLAIN else _ordered(each, depth - 1)
        return ordered
    raise _Unusual


def _by_code_units(members: Mapping[str, Any]) -> Iterable[str]:
    if "".join(members).isascii():
        return sorted(members)
    return sorted(members, key=lambda name: paired(name).encode("utf-16-be", "surrogatepass"))
