"""Which JSON values are tool calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from runners.gateway.conversation import Call, Tool

_ARGUMENTS = ("arguments", "parameters")
_ALLOWED = frozenset(("name", *_ARGUMENTS, "id", "type"))
_AROUND = frozenset(("function", "id", "type", "index"))


def calls_in(value: Any, tools: Mapping[str, Tool], *, marked: bool) -> tuple[Call, ...]:
    """The calls that a JSON value makes; empty when it is anything else.

    A call is an object with the keys `name` and `arguments` (or `parameters`; an object, or a JSON text of one), or
    `{"function": {...}}` around one; a list is several calls when each item is one. Any other key makes it plain
    data. The tool may be unknown where the model clearly tried to call something, which the harness then answers:
    in a `<tool_call>` block (`marked`), and anywhere in the exact form `{"name": string, "arguments": object or null}`.
    Anything looser is a call of a known tool only.
    """
    if isinstance(value, list):
        found = [calls_in(item, tools, marked=marked) for item in value if isinstance(item, dict)]
        return tuple(call for calls in found for call in calls) if len(found) == len(value) and all(found) else ()
    if not isinstance(value, dict):
        return ()
    inner = value.get("function")
    if isinstance(inner, dict) and not set(value) - _AROUND:
        value = inner
    name = value.get("name")
    if set(value) - _ALLOWED or not isinstance(name, str) or not name:
        return ()
    exact = set(value) == {"name", "arguments"} and isinstance(value["arguments"], (dict, type(None)))
    if name not in tools and not marked and not exact:
        return ()
    arguments = _arguments(value, tools.get(name))
    return () if arguments is None else (Call(_clean(name), _clean(arguments)),)


def _arguments(value: Mapping[str, Any], tool: Tool | None) -> dict[str, Any] | None:
    """The arguments object; null is an empty one. None where there are no arguments, unless a known tool needs none."""
    given = [value[key] for key in _ARGUMENTS if key in value]
    if not given:
        return {} if tool is not None and not tool.schema.get("required") else None
    arguments = given[0]
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments, strict=False)
        except (ValueError, RecursionError):
            return None
    if arguments is None:
        arguments = {}
    return arguments if isinstance(arguments, dict) and len(given) == 1 else None


def _clean(value: Any) -> Any:
    """Lone surrogates, which JSON's escapes can spell and UTF-8 can not, become U+FFFD."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    return [_clean(item) for item in value] if isinstance(value, list) else value
