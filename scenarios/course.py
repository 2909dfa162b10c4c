"""Courses: what a scripted actor says and calls at each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from scenarios.base import Outcome

Asked = tuple[str, Any]
"""A tool's name and its arguments, a JSON value."""


@dataclass(frozen=True)
class Turn:
    """One response. Without calls it ends the agent's turn."""

    text: str = ""
    calls: tuple[Asked, ...] = ()


class Course(Protocol):
    """A pure function of its arguments, and the text that answers every request for a summary."""

    @property
    def summary(self) -> str: ...

    def turn(self, step: int, results: Sequence[Outcome]) -> Turn:
        """`step` is the agent's ordinal step from 0; `results` those of the previous step's calls, in their order,
        empty at first. A denied call is an error outcome."""


def ask(tool: str, /, **args: Any) -> Turn:
    """A turn of one call."""
    return Turn(calls=((tool, args),))


@dataclass(frozen=True)
class Script:
    """Plays turns in order; after the last one `after` for ever (the default ends the turn)."""

    turns: tuple[Turn, ...]
    after: Turn = field(default_factory=lambda: Turn(text="Done."))
    summary: str = "- nothing of note so far"

    def turn(self, step: int, results: Sequence[Outcome]) -> Turn:
        return self.turns[step] if step < len(self.turns) else self.after


@dataclass(frozen=True)
class Reaction:
    """Plays what `choose` makes of the previous step's results."""

    choose: Callable[[Sequence[Outcome]], Turn]
    summary: str = "- nothing of note so far"

    def turn(self, step: int, results: Sequence[Outcome]) -> Turn:
        return self.choose(results)


@dataclass(frozen=True)
class Tree:
    """The course of a root agent, and those of the subagents that it starts, in the order in which it starts them."""

    root: Course
    children: tuple[Course, ...]

    @property
    def summary(self) -> str:
        return self.root.summary

    def turn(self, step: int, results: Sequence[Outcome]) -> Turn:
        return self.root.turn(step, results)


def course_of(course: Course, agent: int) -> Course:
    """The course of an agent by its number: 0 is the root, subagents count from 1. One that the course does not know
    of ends its turn at once."""
    if agent == 0:
        return course
    children = course.children if isinstance(course, Tree) else ()
    return children[agent - 1] if agent <= len(children) else Script(())
