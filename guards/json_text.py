"""JSON text as JavaScript reads and writes it, without recursion where values are deep.

What `JSON.parse` accepts is accepted, and nothing more: no NaN or Infinity literals, `1e400` is infinity, a lone
surrogate may stand as an escape, the last of equal keys wins. Values are Python's own: dict, list, str, int, float,
bool and None. Python's own parser and writer do the work; where a value is too deep for their recursion, which depends
on Python's version and on the caller's stack, loops take over.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from pydantic_core import to_json

# A double ends below 1.8e308, so an integer of more digits than this is infinity to JavaScript.
_INTEGER_CHARACTERS = 310
_CLOSING = {"{": "}", "[": "]"}
_SPACE = re.compile(r"[ \t\n\r]*")
_INDEX = re.compile(r"(?:0|[1-9][0-9]{0,9})\Z", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")


def parse(text: str) -> Any:
    """The value of a JSON text. Integers stay exact up to 309 digits. Raises ValueError where it is no JSON."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        return _DeepParser(text).value()


def dump(value: Any) -> str:
    """Compact text that `parse` reads back to an equal value; infinity is written `1e999`.

    Lone surrogates stand as escapes, so the text can be encoded. Raises ValueError for NaN and for a value that holds
    itself, TypeError for what is no JSON value.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (RecursionError, ValueError):
        return serialise(value, number=_exact_number, order=lambda members: members)
    return _SURROGATE.sub(_escaped, text)


def stringify(value: Any) -> str:
    """Exactly what `JSON.stringify` writes for a value that `JSON.parse` made of the same text.

    Numbers are doubles in JavaScript's shortest form, infinity is null, names that are array indices come first.
    Raises TypeError or ValueError for what is no JSON value.
    """
    return serialise(value, number=number_text, order=_javascript_order)


def number_text(number: float) -> str:
    """A number as JavaScript writes its double: `1.0` is `1`, `-0` is `0`, 2^53+1 is 2^53, 1e400 and NaN are null.

    The notation is that of `Number::toString` in ECMA-262.
    """
    try:
        double = float(number)
    except OverflowError:
        return "null"
    if not math.isfinite(double):
        return "null"
    if double == 0:
        return "0"
    # Python's repr has the same shortest digits, in another notation.
    mantissa, _, exponent = repr(abs(double)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(digits) - len(fraction) + int(exponent or 0)
    return ("-" if double < 0 else "") + _notation(digits.rstrip("0"), point)


def _notation(digits: str, point: int) -> str:
    """The text of 0.DIGITS times ten to the power of `point`."""
    if len(digits) <= point <= 21:
        return digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{tail}e{point - 1:+d}"


def string_text(string: str) -> str:
    """A string as `JSON.stringify` writes it: no escape but for quotes, backslashes, controls and lone surrogates."""
    if type(string) is str:
        try:
            # The same text in a fraction of the time, but it refuses lone surrogates.
            return to_json(string).decode()
        except ValueError:
            pass
    text = _ENCODER.encode(string)
    if _SURROGATE.search(text):
        text = _SURROGATE.sub(_escaped, paired(text))
    return text


def paired(string: str) -> str:
    """The string with every high surrogate that a low one follows joined to one character, as UTF-16 has it."""
    return string.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def serialise(
    value: Any, *, number: Callable[[float], str], order: Callable[[Mapping[str, Any]], Iterable[str]]
) -> str:
    """The compact text of a value, with the caller's form of numbers and order of an object's names.

    Tuples are arrays. Raises TypeError for what is no JSON value, ValueError for a value that holds itself.
    """
    parts: list[str] = []
    inside: set[int] = set()
    # What is still to be written, last first: (text, None), (closing text, the container's id) or (None, value).
    todo: list[tuple[str | None, Any]] = [(None, value)]
    while todo:
        text, item = todo.pop()
        if text is not None:
            parts.append(text)
            inside.discard(item)
        elif item is None or item is True or item is False:
            parts.append("null" if item is None else "true" if item else "false")
        elif isinstance(item, str):
            parts.append(string_text(item))
        elif isinstance(item, int | float):
            parts.append(number(item))
        elif isinstance(item, dict | list | tuple):
            if id(item) in inside:
                raise ValueError("a value that holds itself is no JSON value")
            inside.add(id(item))
            if isinstance(item, dict):
                parts.append("{")
                todo.append(("}", id(item)))
                todo.extend(_members(item, order))
            else:
                parts.append("[")
                todo.append(("]", id(item)))
                todo.extend(_elements(item))
        else:
            raise TypeError(f"{type(item).__name__} is no JSON value")
    return "".join(parts)


def _members(item: dict[Any, Any], order: Callable[[Mapping[str, Any]], Iterable[str]]) -> list[tuple[str | None, Any]]:
    for name in item:
        if not isinstance(name, str):
            raise TypeError(f"an object's name must be a string, not {type(name).__name__}")
    todo: list[tuple[str | None, Any]] = []
    for name in order(item):
        todo += ((f"{',' if todo else ''}{string_text(name)}:", None), (None, item[name]))
    todo.reverse()
    return todo


def _elements(item: list[Any] | tuple[Any, ...]) -> list[tuple[str | None, Any]]:
    todo: list[tuple[str | None, Any]] = []
    for element in item:
        if todo:
            todo.append((",", None))
        todo.append((None, element))
    todo.reverse()
    return todo


class _DeepParser:
    """`parse` by a loop: containers are opened and closed here, all else is left to the decoder."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = _after_space(text, 0)
        self._root: list[Any] = []
        self._open: list[list[Any] | dict[str, Any]] = [self._root]
        self._name = ""

    def value(self) -> Any:
        while True:
            self._read_value()
            while len(self._open) > 1 and not self._comma():
                pass
            if len(self._open) == 1:
                if self._at != len(self._text):
                    raise json.JSONDecodeError("Extra data", self._text, self._at)
                return self._root[0]

    def _read_value(self) -> None:
        """Reads one value, and opens containers for as long as their first value is a container."""
        while True:
            mark = self._mark()
            if mark not in ("{", "["):
                value, self._at = _DECODER.raw_decode(self._text, self._at)
                self._place(value)
                self._at = _after_space(self._text, self._at)
                return
            container: dict[str, Any] | list[Any] = {} if mark == "{" else []
            self._place(container)
            self._open.append(container)
            self._skip_mark()
            if self._mark() == _CLOSING[mark]:
                return
            if mark == "{":
                self._read_name()

    def _comma(self) -> bool:
        """Whether a comma leads to a further value of the innermost container; else closes it."""
        top = self._open[-1]
        mark = self._mark()
        if mark == ",":
            self._skip_mark()
            if isinstance(top, dict):
                self._read_name()
            return True
        if mark != ("}" if isinstance(top, dict) else "]"):
            raise json.JSONDecodeError("Expecting ',' delimiter", self._text, self._at)
        self._open.pop()
        self._skip_mark()
        return False

    def _place(self, value: Any) -> None:
        top = self._open[-1]
        if isinstance(top, dict):
            top[self._name] = value
        else:
            top.append(value)

    def _read_name(self) -> None:
        if self._mark() != '"':
            raise json.JSONDecodeError("Expecting property name enclosed in double quotes", self._text, self._at)
        self._name, self._at = _DECODER.raw_decode(self._text, self._at)
        self._at = _after_space(self._text, self._at)
        if self._mark() != ":":
            raise json.JSONDecodeError("Expecting ':' delimiter", self._text, self._at)
        self._skip_mark()

    def _mark(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip_mark(self) -> None:
        self._at = _after_space(self._text, self._at + 1)


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _exact_number(number: float) -> str:
    if isinstance(number, int):
        return str(number)
    if math.isnan(number):
        raise ValueError("NaN is no JSON value")
    if math.isinf(number):
        return "1e999" if number > 0 else "-1e999"
    return repr(number)


def _javascript_order(members: Mapping[str, Any]) -> Iterable[str]:
    indices = [name for name in members if _INDEX.match(name) and int(name) < 2**32 - 1]
    if not indices:
        return members
    return [*sorted(indices, key=int), *(name for name in members if name not in set(indices))]


def _integer(text: str) -> int | float:
    return int(text) if len(text) <= _INTEGER_CHARACTERS else float(text)


def _no_constant(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is no JSON")


_ENCODER = json.JSONEncoder(ensure_ascii=False)
_DECODER = json.JSONDecoder(parse_int=_integer, parse_constant=_no_constant)
