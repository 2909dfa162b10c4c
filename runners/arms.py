"""Arms: which guards are mounted in which plane, and what of the sampler is changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from guards.errors import UserError
from guards.stack import Stack

Plane = Literal["host", "agent"]
PLANES: tuple[Plane, ...] = ("host", "agent")
REMINDER = "repeat-reminder"
NULL = "null"

SAMPLER_ARMS: Mapping[str, Mapping[str, float]] = {
    "presence-penalty": {"presence_penalty": 1.0, "repeat_last_n": -1},
    "repeat-penalty": {"repeat_penalty": 1.3, "repeat_last_n": 256},
    "dry": {"dry_multiplier": 0.8, "dry_base": 1.75, "dry_allowed_length": 2},
}
"""Arms that mount no guard and change the sampler; DRY with the values its author recommends (llama.cpp PR 9702)."""

PLAIN = ("off", "stock", "null", "host", "agent", "both", *SAMPLER_ARMS)


@dataclass(frozen=True)
class Mount:
    """A guard in a plane."""

    guard: str
    plane: Plane

    def __str__(self) -> str:
        return f"{self.guard}@{self.plane}"


@dataclass(frozen=True)
class Arm:
    """`mounts` in the order of mounting, host plane first. `sampler` are the settings laid over the run's sampler."""

    name: str
    mounts: tuple[Mount, ...] = ()
    sampler: Mapping[str, float] = field(default_factory=dict)


def parse_arm(text: str, stack: Stack) -> Arm:
    """An arm by its name, over the guards of `stack`. Raises UserError naming the text and what is allowed."""
    names = tuple(entry.name for entry in stack.guards)
    if NULL in names:
        raise UserError(f"stack {stack.name}: {NULL!r} is the control guard's name; give the guard another")
    if text == "off":
        return Arm(text)
    if text == "stock":
        return Arm(text, (Mount(REMINDER, "host"),))
    if text == NULL:
        return Arm(text, tuple(Mount(NULL, plane) for plane in PLANES))
    if text in SAMPLER_ARMS:
        return Arm(text, sampler=SAMPLER_ARMS[text])
    if text in ("host", "agent", "both"):
        planes = PLANES if text == "both" else (text,)
        return Arm(text, tuple(Mount(name, plane) for plane in planes for name in names))  # type: ignore[arg-type]
    only, colon, rest = text.partition(":")
    guard, at, plane = rest.rpartition("@")
    if only == "only" and colon and guard in names and at and plane in PLANES:
        return Arm(text, (Mount(guard, plane),))
    allowed = ", ".join((*PLAIN, "only:GUARD@host", "only:GUARD@agent"))
    known = ", ".join(names) or "none: the stack is empty"
    raise UserError(f"--arms: {text!r} is no arm; use {allowed} with GUARD one of {known}")


def parse_native_arm(text: str, stack: Stack) -> Arm:
    """An arm of the native runner, which has no planes: `off`, `stack`, `only:GUARD` or a sampler arm. The mounts say
    the host plane for want of another. Raises UserError naming the text and what is allowed."""
    names = tuple(guard.name for guard in stack.guards)
    if text == "off":
        return Arm(text)
    if text in SAMPLER_ARMS:
        return Arm(text, sampler=SAMPLER_ARMS[text])
    if text == "stack":
        return Arm(text, tuple(Mount(name, "host") for name in names))
    if text.removeprefix("only:") in names and text.startswith("only:"):
        return Arm(text, (Mount(text.removeprefix("only:"), "host"),))
    allowed = ", ".join(("off", "stack", *SAMPLER_ARMS, "only:GUARD"))
    raise UserError(
        f"--arms: {text!r} is no arm of --runner native; use {allowed} with GUARD one of {', '.join(names)}"
    )


def parse_arms(text: str, stack: Stack, *, native: bool = False) -> tuple[Arm, ...]:
    """Arms from names with commas between them. Raises UserError for a bad or repeated one, or none."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UserError("--arms: name at least one arm")
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"--arms: {name!r} stands there twice")
    return tuple((parse_native_arm if native else parse_arm)(name, stack) for name in names)
