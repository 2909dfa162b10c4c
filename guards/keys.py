"""Call keys: two calls have equal keys exactly where tool and arguments are the same to JavaScript's JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from guards.json_text import number_text, paired, serialise, string_text


def call_key(tool: str, args: Any, *, ignored: Collection[str] = ()) -> bytes | None:
    """A digest of `[tool, canonical(args)]`, or None where the arguments are no JSON value.

    `ignored` names are left out at the top level, where the arguments are an object. A string stays a string and is
    never parsed.
    """
    if ignored and isinstance(args, dict):
        args = {name: value for name, value in args.items() if name not in ignored}
    try:
        text = f"[{string_text(tool)},{canonical(args)}]"
    except (TypeError, ValueError):
        return None
    return hashlib.sha256(text.encode()).digest()


def canonical(value: Any) -> str:
    """The text of `JSON.stringify`, with the names of every object in the order of their UTF-16 code units.

    Numbers are rounded to doubles, strings are compared as they are, depth is no limit. Raises TypeError or ValueError
    for what is no JSON value.
    """
    return serialise(value, number=number_text, order=_by_code_units)


def _by_code_units(members: Mapping[str, Any]) -> Iterable[str]:
    if all(name.isascii() for name in members):
        return sorted(members)
    return sorted(members, key=lambda name: paired(name).encode("utf-16-be", "surrogatepass"))
