"""The values that a field of a trace may have, and how a record's field says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, dataclass, fields
from math import isfinite
from typing import Any, get_args

Read = Callable[[Any], Any]
Block = dict[str, Any]


class LineError(ValueError):
    """Why a line is malformed, without file and line number."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One field in a file: its name there, the record's attribute, its check, and what stands for an absent one.

    `required`: it may not be absent. `asked`: it may, but the record's constructor has no default for it.
    """

    name: str
    attribute: str
    read: Read
    absent: Any
    required: bool
    asked: bool


def checked(read: Read, *, name: str | None = None, absent: Any = MISSING) -> dict[str, Any]:
    """The metadata of a dataclass field that stands in the file, as `name` where that differs, checked by `read`.

    A field may be absent where it has a default; with `absent`, the value that then stands, only code must give it.
    """
    return {"read": read, "name": name, "absent": absent}


def entries(record: type[Any]) -> tuple[Entry, ...]:
    """The fields of a record that stand in a file, in the file's order."""
    return tuple(_entry(each) for each in fields(record) if "read" in each.metadata)


def _entry(each: Field[Any]) -> Entry:
    metadata = each.metadata
    asked = metadata["absent"] is not MISSING
    required = not asked and each.default is MISSING and each.default_factory is MISSING
    return Entry(metadata["name"] or each.name, each.name, metadata["read"], metadata["absent"], required, asked)


def blocks(content: str | Iterable[Any]) -> tuple[Block, ...]:
    """Content in its one form: a string is one text block, a text block is exactly {"type", "text"}.

    Raises LineError for what is no content.
    """
    if isinstance(content, str):
        return ({"type": "text", "text": content},)
    if not isinstance(content, list | tuple):
        raise LineError("must be a string or a list of blocks")
    return tuple(_block(each) for each in content)


def _block(block: Any) -> Block:
    if not isinstance(block, dict):
        raise LineError("has a block that is no object")
    if block.get("type") != "text":
        return block
    if not isinstance(block.get("text"), str):
        raise LineError('has a text block whose "text" is no string')
    return {"type": "text", "text": block["text"]}


def string(value: Any) -> str:
    if not isinstance(value, str):
        raise LineError("must be a string")
    return value


def number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
        raise LineError("must be a finite number")
    return value


def _finite(value: float) -> bool:
    try:
        return isfinite(value)
    except OverflowError:
        return False


def integer(value: Any) -> int:
    """`2.0` is the integer 2, as it is to JavaScript."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise LineError("must be an integer")
    return value


def boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise LineError("must be true or false")
    return value


def object_(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise LineError("must be an object")
    return value


def anything(value: Any) -> Any:
    return value


def one_of(literal: Any) -> Read:
    """One of the strings of a Literal type."""
    allowed = get_args(literal)

    def read(value: Any) -> Any:
        if value not in allowed:
            raise LineError(f"must be one of {', '.join(allowed)}")
        return value

    return read


def or_null(read: Read) -> Read:
    return lambda value: None if value is None else read(value)
