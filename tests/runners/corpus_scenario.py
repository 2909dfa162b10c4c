"""A recorded trace as a scenario: its calls are asked again step by step, and what they gave is given again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from results.trace import Call, Compaction, Guard, Result, Step, Trace, User
from results.trace_calls import link
from scenarios.base import Needs, Outcome, Scenario, Verdict, World
from scenarios.course import Course, Turn
from scenarios.tools import Args, Tool

PROMPT = "go on"
NEEDS = Needs(horizon=1000, window=100_000)
"""Equal for all: the runner looks at a composition's patch once for each arm and set of needs."""
ENGINE = {"retainRatio": 0.002, "headroomTokens": 256, "maxTokens": 450, "compactionRetries": 0}
HEAVY = "the same line of a long file\n" * 420
"""About 3,000 tokens, see `Refilling`."""


@dataclass(frozen=True)
class Recorded:
    """A call of the recording and what the model was shown for it; `heavy`: a compaction was attempted next."""

    tool: str
    args: Any
    outcome: Outcome
    heavy: bool = False


@dataclass(frozen=True)
class Part:
    """What an agent does from one user message to the next: its steps, each with its calls.

    `commands` are the user's own, given before the message; `weight` is how often the message has to hold HEAVY where
    the agent's context is to be compacted.
    """

    prompt: str
    steps: tuple[tuple[Recorded, ...], ...] = ()
    commands: tuple[str, ...] = ()
    weight: int = 0


def parts(trace: Trace, agent: str = "root") -> tuple[Part, ...]:
    """One agent's stream. Where the recording has no user message, and a harness needs one, there is one of ours:
    before the first step, after a command, and for attempts to compact that have no call between them.

    Raises ValueError for what no scenario can give again: a call without a result, content that is not one text, a
    compaction by hand.
    """
    asked = {each.position: each for each in link(trace.events).asked}
    found: list[Part] = []
    steps: list[list[Recorded]] = []

    def close() -> None:
        if found:
            found[-1] = replace(found[-1], steps=tuple(map(tuple, steps)))
        steps.clear()

    def begin(part: Part) -> None:
        close()
        found.append(part)

    for position, event in enumerate(trace.events):
        if event.agent != agent:
            continue
        match event:
            case User(text=text):
                begin(Part(text, weight=0 if found else 1))
            case Step():
                if not found:
                    begin(Part(PROMPT, weight=1))
                steps.append([])
            case Call():
                steps[-1].append(Recorded(event.tool, event.args, _outcome(asked[position].result)))
            case Compaction(trigger="pressure") if steps and steps[-1] and not steps[-1][-1].heavy:
                steps[-1][-1] = replace(steps[-1][-1], heavy=True)
            case Compaction(trigger="pressure"):
                begin(Part(PROMPT, weight=2))
            case Compaction(trigger="overflow"):
                begin(Part(PROMPT, weight=1))
            case Compaction():
                raise ValueError(f"an attempt by {event.trigger}: the session would have to be idle for it")
            case Guard(guard="compaction-breaker", action="reset"):
                begin(Part(PROMPT, commands=("/compaction-breaker reset",)))
    close()
    # Pressure of a message is felt before the step that comes after its own.
    return (*found, Part(PROMPT)) if found[-1].weight > 1 else tuple(found)


def tools(calls: Iterable[Recorded]) -> tuple[Tool, ...]:
    """The tools of these calls, which take whatever they are given."""
    schema = {"type": "object", "properties": {}, "required": []}
    return tuple(Tool(name, "A tool of the recording.", schema) for name in sorted({call.tool for call in calls}))


def _outcome(result: Result | None) -> Outcome:
    if result is None:
        raise ValueError("a call without a result")
    if [block["type"] for block in result.content] != ["text"]:
        raise ValueError(f"a result that is not one text: {result.content}")
    return Outcome(result.content[0]["text"], result.error)


@dataclass
class _Due:
    """The calls of the step that was asked last, as far as they were not executed."""

    calls: list[Recorded] = field(default_factory=list)


@dataclass(frozen=True)
class Said:
    """A user message, and the commands that the user gives before it."""

    text: str
    commands: tuple[str, ...] = ()


class CorpusScenario(Scenario):
    """The stream of one agent. Whoever plays the episode has to see that what is `said` is said."""

    name = "corpus"
    expect = "quiet"
    summary = "a recorded trace, played again"
    calls: tuple[type[Args], ...] = ()  # type: ignore[misc]

    def __init__(self, stream: Sequence[Part]) -> None:
        super().__init__()
        self.stream = tuple(stream)
        self._due = _Due()

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tools(call for part in self.stream for step in part.steps for call in step)

    @property
    def needs(self) -> Needs:
        return NEEDS

    @property
    def prompt(self) -> str:
        return self.stream[0].prompt

    @property
    def said(self) -> tuple[Said, ...]:
        """What the user says after the first prompt."""
        return tuple(Said(part.prompt, part.commands) for part in self.stream[1:])

    def world(self) -> World:
        return _World(self._due)

    def honest(self) -> Course:
        return _Course(self.stream, self._due)


class Refilling(CorpusScenario):
    """The stream of an agent whose context is compacted: what an attempt follows is heavy.

    Two heavy texts are pressure; one, with a dozen of small results, is not. The engine keeps the last result, and so
    what comes before the first of them is heavy too. The window's end is far away, so that attempts can be refused.
    """

    def __init__(self, stream: Sequence[Part], summary: str = "- read on") -> None:
        """`summary` is what the model says of what is compacted; one that is longer than that makes attempts fail."""
        super().__init__([_weighed(part) for part in stream])
        self._summary = summary

    @property
    def needs(self) -> Needs:
        return replace(NEEDS, engine={**ENGINE, "thresholdRatio": 0.06})

    def honest(self) -> Course:
        return _Course(self.stream, self._due, self._summary)


class Overflowing(Refilling):
    """The same in a window that two heavy texts overflow, and that is under pressure only just before."""

    @property
    def needs(self) -> Needs:
        return replace(NEEDS, window=6144, engine={**ENGINE, "thresholdRatio": 0.9})


def _weighed(part: Part) -> Part:
    steps = tuple(tuple(map(_padded, step)) for step in part.steps)
    return replace(part, prompt="\n".join([part.prompt, *[HEAVY] * part.weight]), steps=steps)


def _padded(call: Recorded) -> Recorded:
    if not call.heavy:
        return call
    return replace(call, outcome=replace(call.outcome, text=f"{call.outcome.text}\n{HEAVY}"))


class _Course:
    """Asks what was asked, whatever comes of it, and ends its turn where the recording has a user message or no more.

    It tells the world which step this is: a world alone can not know which of several equal calls were denied.
    """

    def __init__(self, stream: Sequence[Part], due: _Due, summary: str = "- the recording goes on") -> None:
        self.summary = summary
        self._steps = [step for part in stream for step in (*part.steps, ())]
        self._due = due

    def turn(self, step: int, results: Sequence[Outcome]) -> Turn:
        calls = self._steps[step] if step < len(self._steps) else ()
        self._due.calls = list(calls)
        return Turn("" if calls else "Done.", tuple((call.tool, call.args) for call in calls))


class _World(World):
    def __init__(self, due: _Due) -> None:
        super().__init__(())
        self._due = due

    def call(self, tool: str, args: Any, agent: str = "root") -> Outcome:
        for at, call in enumerate(self._due.calls):
            if (call.tool, call.args) == (tool, args):
                return self._due.calls.pop(at).outcome
        return Outcome("The recording has no such call here.", error=True)

    def judge(self, agent: str, tool: str, args: Any) -> Verdict:
        return Verdict("novel", "recordings are not judged")

    def run(self, args: Args, agent: str) -> Outcome:
        raise NotImplementedError

    def worth(self, args: Args, agent: str) -> Verdict:
        raise NotImplementedError
