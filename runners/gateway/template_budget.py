"""What one rendering of a chat template may use."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from jinja2.runtime import Undefined

from guards.errors import UserError

STEPS = 1_000_000
"""Loop iterations, calls and filter applications that one rendering may take. The main bound: it is deterministic."""
SECONDS = 10.0
"""Wall time of one rendering, for few but dear steps; looked at on every step."""
BASE_SIZE = 1 << 20
SIZE_FACTOR = 16
"""A value, and the whole output, may have `BASE_SIZE + SIZE_FACTOR * (size of the input)` characters."""
INT_BITS = 16_384

_PLAIN: tuple[type, ...] = (str, bool, int, float, type(None), Undefined)
_SEQUENCES: tuple[type, ...] = (
    list,
    tuple,
    set,
    frozenset,
    range,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
)


class TemplateLimit(UserError):
    """A chat template crossed one of the bounds of this module."""


class Budget:
    """What one rendering may still use. Raises TemplateLimit when a bound is crossed."""

    def __init__(self, name: str, inputs: Iterable[Any]) -> None:
        self.name = name
        self.size = 1 << 62
        self._sizes: dict[int, tuple[Any, int]] = {}
        self.size = BASE_SIZE + SIZE_FACTOR * sum(self.measure(value) for value in inputs)
        self._steps = STEPS
        self._output = self.size
        self._deadline = time.monotonic() + SECONDS

    def cross(self, limit: str) -> TemplateLimit:
        return TemplateLimit(f"chat template {self.name}: {limit}; use another model or template")

    def step(self) -> None:
        self._steps -= 1
        if self._steps < 0:
            raise self.cross(f"more than {STEPS} steps (loop iterations, calls, filters)")
        if time.monotonic() > self._deadline:
            raise self.cross(f"more than {SECONDS:g} seconds")

    def emit(self, text: str) -> str:
        self._output -= len(text)
        if self._output < 0:
            raise self.cross(f"more than {self.size} characters of output")
        return text

    def allow(self, size: int) -> None:
        """Raises unless a value of this many characters and elements may be made."""
        if size > self.size:
            raise self.cross(f"a value of more than {self.size} characters")

    def measure(self, value: Any) -> int:
        """Characters and elements of a value, shared parts counted as often as they would be printed.

        Sizes of larger containers are remembered (the sandbox has no way to change one), so growing a list element by
        element stays linear.
        """
        total, todo = 0, [value]
        while todo:
            item = todo.pop()
            if isinstance(item, str):
                total += len(item) + 1
            elif isinstance(item, int) and item.bit_length() > INT_BITS:
                raise self.cross(f"an integer of more than {INT_BITS} bits")
            elif isinstance(item, _PLAIN):
                total += 1
            elif (known := self._sizes.get(id(item))) is not None:
                total += known[1]
            elif isinstance(item, Mapping):
                total += 1
                todo.extend(item.keys())
                todo.extend(item.values())
            elif isinstance(item, _SEQUENCES):
                total += 1
                todo.extend(list(item))  # type: ignore[call-overload]
            else:
                raise self.cross(f"a value of type {type(item).__name__!r} where text or data is needed")
            if total + len(todo) > self.size:
                raise self.cross(f"a value of more than {self.size} characters")
        if isinstance(value, (dict, list, tuple)) and total > 64:
            self._sizes[id(value)] = (value, total)
        return total

    def text(self, value: Any) -> str:
        """The value as Jinja prints it. Objects whose text has an address or no bound are refused."""
        if type(value) is str:
            return value
        self.measure(value)
        return str(value)
