"""A recorded trace as a scenario: its calls are asked again step by step, and what they gave is given again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from results.trace import Call, Compaction, Result, Step, Trace, User
from results.trace_calls import link
from scenarios.base import Needs, Outcome, Scenario, Verdict, World
from scenarios.course import Course, Turn
from scenarios.tools import Args, Tool

FIRST_PROMPT = "go"
NEEDS = Needs(horizon=1000, window=100_000)
"""Equal for all: the runner looks at a composition's patch once for each arm and set of needs."""
ENGINE = {"thresholdRatio": 0.06, "retainRatio": 0.002, "headroomTokens": 256, "maxTokens": 450, "compactionRetries": 0}
"""Pressure from 6,000 tokens of the window on: far below its end, so that refused attempts do not overflow it."""
HEAVY = "the same line of a long file\n" * 420
"""About 3,000 tokens. Two of them are pressure, one and a dozen of small results are not: the engine keeps the last
one, and what comes before the first of them is as heavy."""


@dataclass(frozen=True)
class Recorded:
    """A call of the recording and what the model was shown for it; `heavy`: a compaction was attempted next."""

    tool: str
    args: Any
    outcome: Outcome
    heavy: bool = False


@dataclass(frozen=True)
class Part:
    """What an agent does between two user messages: its steps, each with its calls."""

    prompt: str
    steps: tuple[tuple[Recorded, ...], ...]


def parts(trace: Trace, agent: str = "root") -> tuple[Part, ...]:
    """One agent's stream. A step before the first user message belongs to a prompt of ours.

    Raises ValueError for what no scenario can give again: a call without a result, content that is not one text.
    """
    asked = {each.position: each for each in link(trace.events).asked}
    found: list[tuple[str, list[list[Recorded]]]] = []
    for position, event in enumerate(trace.events):
        if event.agent != agent:
            continue
        if isinstance(event, User) or (not found and isinstance(event, Step)):
            found.append((event.text if isinstance(event, User) else FIRST_PROMPT, []))
        if isinstance(event, Step):
            found[-1][1].append([])
        elif isinstance(event, Call):
            found[-1][1][-1].append(Recorded(event.tool, event.args, _outcome(asked[position].result)))
        elif isinstance(event, Compaction):
            calls = found[-1][1][-1]
            if calls[-1].heavy:
                raise ValueError("two attempts without a call between them")
            calls[-1] = replace(calls[-1], heavy=True)
    return tuple(Part(prompt, tuple(map(tuple, steps))) for prompt, steps in found)


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


class CorpusScenario(Scenario):
    """The stream of one agent. The prompts after the first are whoever plays the episode to say."""

    name = "corpus"
    expect = "quiet"
    summary = "a recorded trace, played again"
    calls: tuple[type[Args], ...] = ()  # type: ignore[misc]

    def __init__(self, stream: Sequence[Part]) -> None:
        super().__init__()
        self._stream = tuple(stream)
        self._due = _Due()

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tools(call for part in self._stream for step in part.steps for call in step)

    @property
    def needs(self) -> Needs:
        return NEEDS

    @property
    def prompt(self) -> str:
        return self._stream[0].prompt

    @property
    def prompts(self) -> tuple[str, ...]:
        """Those after the first."""
        return tuple(part.prompt for part in self._stream[1:])

    def world(self) -> World:
        return _World(self._due)

    def honest(self) -> Course:
        return _Course(self._stream, self._due)


class Refilling(CorpusScenario):
    """The stream of an agent whose context is compacted: after the calls that an attempt follows, its results are
    heavy. `summary` is what the model says of what is compacted."""

    def __init__(self, stream: Sequence[Part], summary: str) -> None:
        super().__init__([replace(part, steps=tuple(tuple(map(_padded, step)) for step in part.steps)) for part in stream])
        self._summary = summary

    @property
    def needs(self) -> Needs:
        return replace(NEEDS, engine=ENGINE)

    @property
    def prompt(self) -> str:
        return f"{super().prompt}\n{HEAVY}"

    def honest(self) -> Course:
        return _Course(self._stream, self._due, self._summary)


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
