"""What every scenario is made of: a task with its parameters, and the deterministic world behind its tools."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar, get_args

from guards.errors import UserError
from scenarios.course import Course, Tree, Turn, course_of
from scenarios.draws import Draws
from scenarios.tools import Args, Tool

Size = Literal["small", "default", "large"]
Judged = Literal["novel", "needed", "requested", "sterile"]
HorizonUnit = Literal["tool turns", "compaction attempts"]
T = TypeVar("T")

CLOSED = "The task is closed: the submission was accepted. There is nothing left to do."


@dataclass(frozen=True)
class Outcome:
    """What a call gives: the text that the model is shown."""

    text: str
    error: bool = False


@dataclass(frozen=True)
class Verdict:
    """What an asked call is worth (the classes are those of the trace's labels); `unit`: if it runs, it completes a
    unit of the task."""

    judged: Judged
    why: str
    unit: bool = False


@dataclass(frozen=True)
class Needs:
    """What an episode needs of its surroundings.

    `window` in tokens, None = the runner's own; `reply_tokens` is the most that one model response may hold.
    `harness_tools` are the harness's own tools that stay enabled: a subset of bash, read, write, edit. `engine` holds
    keys of the harness's compaction engine, None = compaction never comes to bear. `subagents`: the root agent has the
    harness's own tools to start subagents and to write to them; the horizon counts the whole tree.
    """

    horizon: int = 24
    horizon_unit: HorizonUnit = "tool turns"
    window: int | None = None
    reply_tokens: int = 128
    harness_tools: tuple[str, ...] = ()
    engine: Mapping[str, Any] | None = None
    subagents: bool = False


class World(ABC):
    """Executes calls and judges them from task state; a pure function of (scenario, calls so far).

    It moves by one tick per executed valid call of its own tools; mistaken calls do not count, so that it makes no
    difference whether the harness or the world refuses them. `ticks` is how many settled before. `finished` turns true
    with the final submission's acceptance, `success` with the task's solution. `agent` never changes what a call
    gives, only what that agent is known to have been told: a live world is served without knowing who asks.
    """

    def __init__(self, calls: Iterable[type[Args]]) -> None:
        self.ticks = 0
        self.finished = False
        self.success = False
        self._calls = {each.tool: each for each in calls}
        self._known: dict[str, set[Hashable]] = {}

    def call(self, tool: str, args: Any, agent: str = "root") -> Outcome:
        """Executes a call. `args` is any JSON value; a bad one gives an error outcome."""
        kind = self._calls.get(tool)
        if kind is None:
            self.learn(agent, ("no such tool", tool))
            return Outcome(f"There is no tool named {_short(tool)}. Tools: {', '.join(self._calls)}.", error=True)
        if self.finished:
            return Outcome(CLOSED)
        parsed = kind.parse(args)
        if isinstance(parsed, str):
            self.learn(agent, (kind.tool, parsed))
            return Outcome(f"Invalid arguments for {kind.tool}: {parsed}", error=True)
        outcome = self.run(parsed, agent)
        self.ticks += 1
        return outcome

    def judge(self, agent: str, tool: str, args: Any) -> Verdict:
        """What the call would be worth now, before it; changes nothing. A mistake is worth something once."""
        kind = self._calls.get(tool)
        if self.finished:
            return Verdict("sterile", "the task was closed before")
        if kind is None:
            return self.first(agent, ("no such tool", tool), "that there is no such tool")
        parsed = kind.parse(args)
        if isinstance(parsed, str):
            return self.first(agent, (tool, parsed), "that the tool does not take these arguments")
        return self.worth(parsed, agent)

    def compacted(self, agent: str) -> None:  # noqa: B027
        """The agent's context was replaced by a summary. Changes no later result."""

    def observe(self, changed: Mapping[str, str | None]) -> None:  # noqa: B027
        """The scenario's files in the workspace, those that are not as they were last known: text by path."""

    def settled(self, tool: str, args: Any, text: str) -> Mapping[str, str]:
        """A call of the harness's own tools was executed and gave this text. The texts by path that are now to be
        written into the workspace: files that move by themselves."""
        return {}

    @abstractmethod
    def run(self, args: Args, agent: str) -> Outcome:
        """Executes a valid call of an open task."""

    @abstractmethod
    def worth(self, args: Args, agent: str) -> Verdict:
        """Judges a valid call of an open task; changes nothing."""

    def learn(self, agent: str, *facts: Hashable) -> None:
        """Notes that the agent was told these facts."""
        self._known.setdefault(agent, set()).update(facts)

    def forget(self, agent: str, *facts: Hashable) -> None:
        """Notes that the agent no longer has these facts."""
        self._known.setdefault(agent, set()).difference_update(facts)

    def knows(self, agent: str, *facts: Hashable) -> bool:
        """Whether the agent was told all of these facts."""
        return self._known.get(agent, set()).issuperset(facts)

    def first(self, agent: str, fact: Hashable, what: str) -> Verdict:
        """Novel where the agent does not know the fact, else sterile; `what` follows the word `learns`."""
        if self.knows(agent, fact):
            return Verdict("sterile", f"the agent was told before {what}")
        return Verdict("novel", f"the agent learns {what}")

    def accept(self, text: str) -> Outcome:
        """Ends the task with success."""
        self.finished = self.success = True
        return Outcome(text)


class Scenario(ABC):
    """A task. `seed` chooses its texts, names and numbers: seeds are variants of the task, not repetitions.

    Raises UserError for a negative seed or an unknown size.
    """

    name: ClassVar[str]
    expect: ClassVar[Literal["trip", "quiet"]]
    summary: ClassVar[str]
    calls: ClassVar[tuple[type[Args], ...]]
    """The arguments of each tool, in the order in which the tools are offered."""
    stand_ins: ClassVar[tuple[type[Args], ...]] = ()
    """The arguments of the harness's own tools that the task needs, for where there is no harness."""

    def __init__(self, seed: int = 0, size: Size = "default") -> None:
        if seed < 0:
            raise UserError(f"scenario {self.name}: seed {seed} is negative: give 0 or more")
        if size not in get_args(Size):
            raise UserError(f"scenario {self.name}: no size {size!r}: give one of {', '.join(get_args(Size))}")
        self.seed = seed
        self.size: Size = size
        self.draws = Draws(self.name, seed)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """What the world serves."""
        return tuple(each.described() for each in self.calls)

    @property
    def native_tools(self) -> tuple[Tool, ...]:
        """What the world answers to where there is no harness: `tools` and what stands in for the harness's own."""
        return tuple(each.described() for each in (*self.calls, *self.stand_ins))

    @property
    def needs(self) -> Needs:
        return Needs()

    @property
    def files(self) -> Mapping[str, str]:
        """Texts to lay into the workspace, by relative path."""
        return {}

    @property
    @abstractmethod
    def prompt(self) -> str:
        """The task, as the user gives it."""

    @abstractmethod
    def world(self) -> World:
        """A fresh world."""

    @abstractmethod
    def honest(self) -> Course:
        """The course of an actor that solves the task."""

    def looping(self) -> Course | None:
        """The course of an actor that loops; None where that makes no sense."""
        return None

    def primed(self, repeats: int) -> Sequence[Sequence[Turn]]:
        """The turns that a primed episode begins with, by the number of the agent (0 is the root): `repeats` of the
        looping course; where that is a subagent's, the root's first turn before them. The scenario must have one."""
        course = self.looping()
        assert course is not None, f"{self.name} has no looping course"
        counts = (1, repeats) if isinstance(course, Tree) else (repeats,)
        return tuple(
            tuple(course_of(course, agent).turn(step, ()) for step in range(count))
            for agent, count in enumerate(counts)
        )

    def by_size(self, small: T, default: T, large: T) -> T:
        """The one for this size."""
        return {"small": small, "default": default, "large": large}[self.size]


def _short(name: str) -> str:
    text = name.encode("ascii", "backslashreplace").decode()
    return text if len(text) <= 60 else f"{text[:60]}..."
