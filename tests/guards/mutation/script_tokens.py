"""The tokens of JavaScript as our plugins write it: no semicolons, no statement over a line's end without a bracket."""

from __future__ import annotations

import re
from typing import NamedTuple

_PATTERNS = {
    "space": r"\s+",
    "comment": r"//[^\n]*|/\*.*?\*/",
    "number": r"\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?n?",
    "name": r"#?[A-Za-z_$][\w$]*",
    "string": r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"",
    "mark": (
        r"\.\.\.|===|!==|\*\*=|\?\?=|&&=|\|\|=|=>|==|!=|<=|>=|&&|\|\||\?\?|\?\.(?!\d)|\+\+|--|\+=|-=|\*=|%=|\*\*"
        r"|[-+*/%<>=!?:;,.(){}\[\]&|^~]"
    ),
}
_TOKEN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _PATTERNS.items()), re.DOTALL)
_PATTERN = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")
_CHUNK = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*", re.DOTALL)
# After one of these a slash divides; anywhere else it begins a pattern.
_ENDS = frozenset({")", "]", "}"})
_WORDS = frozenset({"return", "typeof", "in", "of", "new", "delete", "void", "throw", "case", "else"})


class Token(NamedTuple):
    """`kind`: space, comment, number, name, string, pattern, chunk (a template's text, with its quotes) or mark."""

    kind: str
    start: int
    text: str


def tokens(source: str) -> list[Token]:
    """Tokens that make up the whole source. Raises ValueError at what is none."""
    found: list[Token] = []
    # For each open template how many braces are open in its current expression.
    templates: list[int] = []
    at = 0
    while at < len(source):
        if source[at] == "`" or (source[at] == "}" and templates and templates[-1] == 0):
            if source[at] == "}":
                templates.pop()
            token = _chunk(source, at)
            if token.text.endswith("${"):
                templates.append(0)
        elif source[at] == "/" and not source.startswith(("//", "/*"), at) and not _is_value(found):
            match = _PATTERN.match(source, at)
            if match is None:
                raise ValueError(f"no pattern at {at}: {source[at : at + 40]!r}")
            token = Token("pattern", at, match[0])
        else:
            match = _TOKEN.match(source, at)
            if match is None or match.lastgroup is None:
                raise ValueError(f"no token at {at}: {source[at : at + 40]!r}")
            token = Token(match.lastgroup, at, match[0])
            if templates:
                templates[-1] += (token.text == "{") - (token.text == "}")
        found.append(token)
        at += len(token.text)
    return found


def code(source: str) -> list[Token]:
    """The tokens without spaces and comments."""
    return [token for token in tokens(source) if token.kind not in ("space", "comment")]


def _chunk(source: str, at: int) -> Token:
    match = _CHUNK.match(source, at + 1)
    assert match is not None
    end = match.end() + (1 if source.startswith("`", match.end()) else 2)
    return Token("chunk", at, source[at:end])


def _is_value(found: list[Token]) -> bool:
    """Whether what stands before is a value, so that a slash divides it."""
    before = next((token for token in reversed(found) if token.kind not in ("space", "comment")), None)
    if before is None or (before.kind == "name" and before.text in _WORDS):
        return False
    return before.kind != "mark" or before.text in _ENDS
