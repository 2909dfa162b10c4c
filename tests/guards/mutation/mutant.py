"""A changed place in a source file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple


class Change(NamedTuple):
    """The characters from `start` to `end` (exclusive) of a source become `after`."""

    start: int
    end: int
    after: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """`file` is relative to the repository; `line` counts from 1; `text` is the line as it was, without indentation.

    `change` says in words what became of what; `nth` counts, from 0, equal changes of equal lines in one file.
    """

    file: str
    line: int
    text: str
    change: str
    nth: int
    source: str

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What stays the same when other lines of the file are edited."""
        return self.file, self.text, self.change, self.nth

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.change}   in: {self.text}"


def mutants(file: str, source: str, changes: Iterable[Change]) -> Iterator[Mutant]:
    """One mutant a change, in the order of the source. A change that changes nothing is an error."""
    seen: Counter[tuple[str, str, str, int]] = Counter()
    lines = source.split("\n")
    for start, end, after in sorted(set(changes)):
        before = source[start:end]
        if before == after:
            raise ValueError(f"{file}: {before!r} is not changed")
        line = source.count("\n", 0, start) + 1
        made = f"{source[:start]}{after}{source[end:]}"
        told = Mutant(file, line, lines[line - 1].strip(), f"{_short(before)} -> {_short(after)}", 0, made)
        yield replace(told, nth=seen[told.key])
        seen[told.key] += 1


def _short(text: str) -> str:
    told = " ".join(text.split())
    return told if len(told) <= 60 else f"{told[:57]}..."
