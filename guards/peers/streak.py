"""How many calls in a row had the same key."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(slots=True)
class Streak:
    """None is the key of no call."""

    key: Hashable = None
    count: int = 0

    def add(self, key: Hashable) -> int:
        """The length of the streak with a further call."""
        self.count = self.count + 1 if key == self.key else 1
        self.key = key
        return self.count
