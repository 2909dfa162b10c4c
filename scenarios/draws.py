"""Seeded choices: every text, name and number of a task is drawn here."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TypeVar

T = TypeVar("T")


class Draws:
    """Choices that depend on (scenario, seed, label) alone.

    Each label draws for itself, so one more draw changes no other; nothing depends on the hash seed, the locale or
    Python's own generator.
    """

    def __init__(self, scenario: str, seed: int) -> None:
        self._root = f"{scenario}\0{seed}"

    def rank(self, *label: object) -> int:
        """A number below 2**64."""
        text = "\0".join((self._root, *map(str, label)))
        return int.from_bytes(sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")

    def pick(self, label: object, options: Sequence[T]) -> T:
        """One of the options."""
        return options[self.rank(label) % len(options)]

    def some(self, label: object, options: Sequence[T], count: int) -> tuple[T, ...]:
        """`count` different positions of the options, in drawn order."""
        order = sorted(range(len(options)), key=lambda at: (self.rank(label, at), at))
        return tuple(options[at] for at in order[:count])

    def number(self, label: object, low: int, high: int) -> int:
        """Between `low` and `high`, both inclusive."""
        return low + self.rank(label) % (high - low + 1)

    def code(self, label: object, length: int = 6) -> str:
        """Letters and digits that are not mistaken for one another."""
        signs = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"
        return "".join(signs[self.rank(label, at) % len(signs)] for at in range(length))
