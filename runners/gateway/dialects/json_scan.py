"""Finds the end of a JSON value in a text that may still grow, in one pass, however long or hostile the text."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from typing import Any, Literal

MAX_DEPTH = 200
"""Deeper values are not taken for calls: what reads them next (JSON libraries, templates) recurses."""

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING_STOP = {quote: re.compile(rf"[{quote}\\]") for quote in "\"'"}
_IN_SINGLE = re.compile(r"""\\.|\"""", re.DOTALL)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_NUMBER_PART = re.compile(r"-?[\d.eE+-]*")
_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')
_LITERALS = ("true", "false", "null")

Status = Literal["more", "done", "failed"]
_Expect = Literal["key-or-end", "key", "colon", "value", "value-or-end", "comma-or-end"]


class JsonScanner:
    """Reads one JSON object or array that begins at `start`.

    Liberties that models take and this reader too: raw line breaks in strings, strings in single quotes as values,
    backslashes that escape nothing, and objects in doubled braces (`{{...}}`, the end doubled or not). `closed` has
    the outermost objects closed so far as (first, end) index pairs, so that a value that fails half way need not be
    read again.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self.at = start
        """The first index not read yet; after "done" the end of the value (exclusive), after "failed" the offender."""
        self.closed: list[tuple[int, int]] = []
        self._edits: list[tuple[int, int]] = []
        """The (first, end) pairs of what is no JSON, in order: second braces, and strings in single quotes."""
        self._stack: list[tuple[str, int, bool]] = []
        self._expect: _Expect = "value"
        self._string: int | None = None

    def advance(self, text: str, *, final: bool) -> Status:
        """Reads on. `text` is the whole text, longer than or equal to what was given before; `final`: no more comes."""
        while True:
            if self._string is not None:
                if not self._end_string(text):
                    if not final:
                        return "more"
                    self.at = self._string + 1  # no quote follows, so nothing in there begins an object: still one pass
                    return "failed"
                self._expect = "colon" if self._expect in ("key", "key-or-end") else "comma-or-end"
            if not self._stack and self._expect == "comma-or-end":
                return "done"
            space = _SPACE.match(text, self.at)
            self.at = space.end() if space else self.at
            if self.at >= len(text):
                return "failed" if final else "more"
            status = self._token(text, final)
            if status is not None:
                return status

    @property
    def missing(self) -> str:
        """The closing brackets that would make what was read a whole value; empty where more than those is missing."""
        whole = self._expect == "comma-or-end" and self._string is None
        return "".join("}" if opener == "{" else "]" for opener, _, _ in reversed(self._stack)) if whole else ""

    def value(self, text: str, first: int, end: int, more: str = "") -> Any:
        """The value in text[first:end] followed by `more`, doubled braces made single. Raises ValueError.

        A backslash before a character that JSON does not escape (`\\;` in a shell command) stands for itself.
        """
        parts, last = [], first
        for start, stop in self._edits[bisect_left(self._edits, (first,)) : bisect_left(self._edits, (end,))]:
            parts += [text[last:start], _double_quoted(text[start:stop]) if text[start] == "'" else ""]
            last = stop
        whole = "".join((*parts, text[last:end], more))
        try:
            return json.loads(whole, strict=False, parse_float=_finite)
        except ValueError:
            whole = _ESCAPE.sub(lambda found: found[0] if found[1] else r"\\", whole)
            return json.loads(whole, strict=False, parse_float=_finite)

    def _end_string(self, text: str) -> bool:
        start = self._string or 0
        pattern = _STRING_STOP[text[start]]
        while stop := pattern.search(text, self.at):
            if stop.group() != "\\":
                self.at = stop.end()
                self._string = None
                if stop.group() == "'":
                    self._edits.append((start, self.at))
                return True
            if stop.end() >= len(text):
                self.at = stop.start()
                return False
            self.at = stop.end() + 1
        self.at = len(text)
        return False

    def _token(self, text: str, final: bool) -> Status | None:  # noqa: PLR0911
        """Reads one token; None means that reading goes on."""
        char, expect = text[self.at], self._expect
        quotes = '"' if expect in ("key", "key-or-end") else "\"'" if expect in ("value", "value-or-end") else ""
        if char in quotes:
            self._string = self.at
            self.at += 1
            return None
        if char == "{" and expect == "key-or-end" and not self._stack[-1][2]:
            self._stack[-1] = (*self._stack[-1][:2], True)
            self._drop()
            return None
        if char in "{[" and expect in ("value", "value-or-end"):
            if len(self._stack) >= MAX_DEPTH:
                return "failed"
            self._stack.append((char, self.at, False))
            self._expect = "key-or-end" if char == "{" else "value-or-end"
        elif char in "}]" and expect in ("key-or-end", "value-or-end", "comma-or-end"):
            return self._close(text, char, final)
        elif char == ":" and expect == "colon":
            self._expect = "value"
        elif char == "," and expect == "comma-or-end":
            self._expect = "key" if self._stack[-1][0] == "{" else "value"
        elif expect in ("value", "value-or-end"):
            return self._scalar(text, final)
        else:
            return "failed"
        self.at += 1
        return None

    def _drop(self) -> None:
        self._edits.append((self.at, self.at + 1))
        self.at += 1

    def _close(self, text: str, char: str, final: bool) -> Status | None:
        opener, first, doubled = self._stack[-1]
        if opener != ("{" if char == "}" else "["):
            return "failed"
        if doubled:
            after = _SPACE.match(text, self.at + 1)
            following = after.end() if after else self.at + 1
            if following >= len(text) and not final:
                return "more"
            if text[following : following + 1] == "}":
                self._drop()
                self.at = following
        self.at += 1
        self._stack.pop()
        self._expect = "comma-or-end"
        if char == "}":
            while self.closed and self.closed[-1][0] > first:
                self.closed.pop()
            self.closed.append((first, self.at))
        return None

    def _scalar(self, text: str, final: bool) -> Status | None:
        part = _NUMBER_PART.match(text, self.at)
        if part and part.end() == len(text) > self.at and part.end() > part.start() and not final:
            return "more"
        number = _NUMBER.match(text, self.at)
        if number:
            self.at = number.end()
        else:
            literal = next((word for word in _LITERALS if text.startswith(word, self.at)), None)
            if literal is None:
                rest = text[self.at : self.at + 5]
                partial = self.at + len(rest) == len(text) and any(word.startswith(rest) for word in _LITERALS)
                return "more" if partial and not final else "failed"
            self.at += len(literal)
        self._expect = "comma-or-end"
        return None


def _finite(text: str) -> float:
    """Refuses numbers that are infinite as floats: they could not be written as JSON again."""
    if math.isinf(number := float(text)):
        raise ValueError(f"{text} is out of range")
    return number


def _double_quoted(text: str) -> str:
    """A string in single quotes as one in double quotes."""
    inner = _IN_SINGLE.sub(lambda found: {'"': '\\"', "\\'": "'"}.get(found[0], found[0]), text[1:-1])
    return f'"{inner}"'
