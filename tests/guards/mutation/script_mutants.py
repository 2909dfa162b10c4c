"""Changes to JavaScript source: each comparison, operator, constant, condition, update and return in turn."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from tests.guards.mutation.mutant import Change, Mutant, mutants
from tests.guards.mutation.script_tokens import Token, code

MARKS = {
    **{"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "===": ("!==",), "!==": ("===",)},
    **{"&&": ("||",), "||": ("&&",), "??": ("&&",), "+": ("-",), "-": ("+",), "*": ("+",), "%": ("*",), "!": ("",)},
    **{"+=": ("-=",), "-=": ("+=",), "?.": (".",)},
}
WORDS = {"true": "false", "false": "true", "null": "0"}
_STATEMENT = re.compile(
    r"[ ]*(?:(?:\}[ ])?(?:if[ ]\(.*\)|else(?:[ ]if[ ]\(.*\))?)[ ])?"
    r"(?P<statement>(?!if\b|for\b|while\b|const\b|let\b|else\b|export\b|import\b|function\b|static\b|constructor\b)"
    r"(?:return\b.*|throw\b.*|continue|break|[\w.]+(?:\[[^\]]*\])?[ ](?:=|\+=|-=)[ ].+|[\w.]+\(.*\)))\Z"
)
_OPENING, _CLOSING = "([{", ")]}"


def script_mutants(file: str, source: str) -> list[Mutant]:
    """All mutants of a file. Imports are left alone."""
    return list(mutants(file, source, _changes(source)))


def _changes(source: str) -> Iterator[Change]:
    found = code(source)
    imports = [(each.start(), each.end()) for each in re.finditer(r"^import .*$", source, re.MULTILINE)]
    for place, token in enumerate(found):
        if not any(start <= token.start < end for start, end in imports):
            yield from _of_token(source, found, place)
    yield from _statements(source, found)
    yield from _members(source, found)


def _of_token(source: str, found: Sequence[Token], place: int) -> Iterator[Change]:
    token = found[place]
    start, end = token.start, token.start + len(token.text)
    if token.kind == "mark":
        for after in MARKS.get(token.text, ()):
            yield Change(start, end, after)
        if token.text == "?":
            yield Change(start, end, "&& false ?")
            yield Change(start, end, "|| true ?")
    elif token.kind == "number":
        yield Change(start, end, str(int(token.text.replace("_", "")) + 1))
    elif token.kind == "name" and token.text in WORDS and found[place - 1].text != ".":
        yield Change(start, end, WORDS[token.text])
    elif token.kind == "name" and token.text in ("if", "while"):
        start, end = found[place + 1].start, found[_closing(found, place + 1)].start + 1
        yield Change(start, end, f"(!{source[start:end]})")
    elif token.kind in ("string", "chunk", "pattern") and not token.text.startswith("}"):
        yield Change(start, end, f"{token.text[0]}Z{token.text[1:]}")


def _closing(found: Sequence[Token], place: int) -> int:
    """The place of the bracket that closes the one at `place`."""
    depth = 0
    for at in range(place, len(found)):
        depth += (found[at].text in _OPENING) - (found[at].text in _CLOSING)
        if depth == 0:
            return at
    raise ValueError("a bracket is not closed")


def _statements(source: str, found: Sequence[Token]) -> Iterator[Change]:
    """Statements of one line, which go."""
    places = {token.start: place for place, token in enumerate(found)}
    start = 0
    for line in source.split("\n"):
        match = _STATEMENT.match(line)
        first = places.get(start + len(line) - len(line.lstrip()))
        if match is not None and first is not None and _stands_alone(found, first, start + len(line)):
            begun = start + match.start("statement")
            after = "return undefined" if match["statement"].startswith("return ") else ";"
            if match["statement"] != "return null":
                yield Change(begun, start + len(line), after)
        start += len(line) + 1


def _stands_alone(found: Sequence[Token], first: int, end: int) -> bool:
    """Whether the tokens from place `first` to the character `end` are whole statements."""
    last = first
    depth = 0
    while last < len(found) and found[last].start < end:
        depth += (found[last].text in _OPENING) - (found[last].text in _CLOSING)
        last += 1
    before = found[first - 1]
    whole = depth == 0 or (found[first].text == "}" and depth == -1)
    follows = found[last].text in (".", "+", "?", ":", "&&", "||", "??", ",", ")", "]") if last < len(found) else False
    return whole and not follows and not (before.kind == "mark" and before.text not in ("{", "}", ")", "]", ";"))


def _members(source: str, found: Sequence[Token]) -> Iterator[Change]:
    """Members of the object in `Object.assign(..., {...})`, each of which goes."""
    for place, token in enumerate(found):
        if token.text == "assign" and found[place - 2].text == "Object":
            call = found[place + 1 : _closing(found, place + 1)]
            begun = next((at for at, each in enumerate(call) if each.text == "{"), None)
            if begun is None:
                continue
            inner = call[begun + 1 : _closing(call, begun)]
            end = call[_closing(call, begun)].start
            depth, starts = 0, [inner[0].start]
            for each, following in pairwise(inner):
                depth += (each.text in _OPENING) - (each.text in _CLOSING)
                if each.text == "," and depth == 0:
                    starts.append(following.start)
            for begin, until in zip(starts, [*starts[1:], end], strict=True):
                yield Change(begin, until, "")
