"""The asked calls of a trace, each with its result and its label, and the events that do not count."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, replace

from results.trace import Call, End, Event, Label, Result, Unknown


@dataclass(frozen=True, slots=True)
class AskedCall:
    """A call with the events that belong to it.

    `position` is that of the call in the trace's events, from 0, and `settled` that of its result; None = it has none,
    and never settles. `index` is the 1-based place of the call among the calls of its agent; `label` None = not judged.
    """

    position: int
    index: int
    call: Call
    result: Result | None = None
    settled: int | None = None
    label: Label | None = None

    @property
    def agent(self) -> str:
        return self.call.agent

    @property
    def denied_by(self) -> str | None:
        """Which guard stopped it in the recording; None = it ran."""
        return None if self.result is None else self.result.denied_by


@dataclass(frozen=True, slots=True)
class Calls:
    """`asked` stands in the order of the trace; `ignored` are positions of events that do not count, see `link`."""

    asked: tuple[AskedCall, ...]
    ignored: frozenset[int]
    warnings: tuple[str, ...]

    def by_position(self) -> dict[int, AskedCall]:
        """Each call under its own position and, where it settled, under its result's."""
        found = {each.position: each for each in self.asked}
        return found | {each.settled: each for each in self.asked if each.settled is not None}


def link(events: Iterable[Event]) -> Calls:
    """Links calls, results and labels, agent by agent.

    A result belongs to the latest unsettled call with its id, the n-th label of an id to the n-th call of that id. What
    belongs nowhere is ignored with a warning, and so is what an agent does after its `end`; labels stand there.
    """
    asked: list[AskedCall] = []
    ignored: set[int] = set()
    warnings: list[str] = []
    ended: set[str] = set()
    count: dict[str, int] = defaultdict(int)
    unsettled: dict[tuple[str, str], list[int]] = defaultdict(list)
    unlabelled: dict[tuple[str, str], deque[int]] = defaultdict(deque)

    def ignore(position: int, event: Event, why: str) -> None:
        ignored.add(position)
        warnings.append(f"event {position + 1} (agent {event.agent!r}, {event.type or 'unknown'}): {why}: ignored")

    for position, event in enumerate(events):
        if event.agent in ended and not isinstance(event, Label | Unknown):
            ignore(position, event, "stands after the agent's end")
        elif isinstance(event, End):
            ended.add(event.agent)
        elif isinstance(event, Call):
            count[event.agent] += 1
            unsettled[event.agent, event.id].append(len(asked))
            unlabelled[event.agent, event.id].append(len(asked))
            asked.append(AskedCall(position, count[event.agent], event))
        elif isinstance(event, Result):
            waiting = unsettled[event.agent, event.id]
            if waiting:
                place = waiting.pop()
                asked[place] = replace(asked[place], result=event, settled=position)
            else:
                ignore(position, event, f"no unsettled call has the id {event.id!r}")
        elif isinstance(event, Label):
            open_calls = unlabelled[event.agent, event.call]
            if open_calls:
                place = open_calls.popleft()
                asked[place] = replace(asked[place], label=event)
            else:
                ignore(position, event, f"no call without a label has the id {event.call!r}")
    return Calls(tuple(asked), frozenset(ignored), tuple(warnings))
