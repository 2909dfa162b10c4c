"""Choices read from bytes: a byte that is missing is the first option, so that fewer and smaller bytes are simpler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Option = TypeVar("Option")


class Choices:
    """A byte a choice, in the order in which they are asked for."""

    def __init__(self, data: bytes) -> None:
        self._data = iter(data)

    def below(self, limit: int) -> int:
        """A number from 0, less than `limit`, which is 256 at most."""
        return next(self._data, 0) % limit

    def between(self, least: int, most: int) -> int:
        """A number from `least` to `most`, both inclusive."""
        return least + self.below(most - least + 1)

    def of(self, options: Sequence[Option]) -> Option:
        return options[self.below(len(options))]

    def some(self, options: Sequence[Option], least: int, most: int) -> list[Option]:
        """`least` to `most` different places of `options`, in any order."""
        left = list(options)
        return [left.pop(self.below(len(left))) for _ in range(min(self.between(least, most), len(left)))]

    def once_in(self, times: int) -> bool:
        """True for one byte in so many, and never where the bytes have ended."""
        return self.below(times) == times - 1
