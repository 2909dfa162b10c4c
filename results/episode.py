"""One trace as facts: calls with their class and fate, compaction attempts, what guards did, what was spent."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from guards.errors import UserError
from guards.json_text import dump
from results.facts import Act, Asked, Attempt, Cost
from results.trace import Call, Compaction, End, Event, Guard, Label, Result, Step, Trace

ACTING = ("nudge", "deny", "refuse")
"""The actions of a guard that the model can notice; a trip is a `deny` or a `refuse`."""


class Episode:
    """The facts of one trace. Raises UserError where a call of an episode that did not fail has no label."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.name = trace.header.episode
        self.meta = trace.header.meta
        self.arm = str(self.meta.get("arm") or "off")
        self.seed = self.meta.get("seed")
        self.events = tuple(_until_end(trace))
        self.ends = {event.agent: event for event in self.events if isinstance(event, End)}
        agents = dict.fromkeys(event.agent for event in self.events)
        self.agents = tuple(agents)
        self.root = "root" if "root" in agents or not agents else next(iter(agents))
        for call in self.calls if self.failure is None else ():
            if call.judged is None:
                where = f"call {call.id} (number {call.index} of {call.agent})"
                raise UserError(f"episode {self.name}: {where} has no label; judge the trace before it is measured")

    @property
    def end(self) -> str | None:
        """How the root agent ended; None where the trace does not say."""
        return self.ends[self.root].reason if self.root in self.ends else None

    @property
    def success(self) -> bool | None:
        """Whether the task was solved; None = not known."""
        return self.ends[self.root].success if self.root in self.ends else None

    @property
    def overflowed(self) -> bool:
        """Whether some agent's context no longer fitted."""
        return any(end.reason == "overflow" for end in self.ends.values())

    @cached_property
    def failure(self) -> str | None:
        """Why the episode is no observation: an infrastructure error or an absent end; None = it is one."""
        for end in self.ends.values():
            if end.reason == "error":
                said = [end.extra.get(key) for key in ("cause", "error", "detail", "message")]
                said += [self.meta.get(key) for key in ("cause", "error")]
                return next((str(each) for each in said if each), "infrastructure error without a recorded cause")
        return None if self.root in self.ends else "the trace has no end of its root agent"

    @cached_property
    def calls(self) -> tuple[Asked, ...]:
        """Every asked call, in trace order."""
        results = _results(self.events)
        denied = _denials(self.events)
        labels = _by_occurrence(self.trace.events, Label)
        seen: dict[str, int] = {}
        occurrences: dict[tuple[str, str], int] = {}
        found = []
        for position, event in enumerate(self.events):
            if not isinstance(event, Call):
                continue
            seen[event.agent] = seen.get(event.agent, 0) + 1
            key = (event.agent, event.id)
            occurrences[key] = occurrences.get(key, 0) + 1
            label = labels.get((*key, occurrences[key]))
            result = results.get(position)
            found.append(
                Asked(
                    position=position,
                    agent=event.agent,
                    index=seen[event.agent],
                    id=event.id,
                    tool=event.tool,
                    args=event.args,
                    step=event.step,
                    primed=event.primed,
                    judged=label.judged if label else None,
                    why=label.why if label else "",
                    unit=label.unit if label else False,
                    denied_by=(result.denied_by if result else None) or denied.get(position),
                    error=result.error if result else False,
                )
            )
        return tuple(found)

    @cached_property
    def attempts(self) -> tuple[Attempt, ...]:
        """Every compaction attempt, in trace order."""
        primed_until = {call.agent: call.position for call in self.calls if call.primed}
        counts: dict[str, int] = {}
        last: dict[str, int] = {}
        found = []
        for position, event in enumerate(self.events):
            if not isinstance(event, Compaction):
                continue
            counts[event.agent] = counts.get(event.agent, 0) + 1
            automatic = event.trigger != "manual"
            since = last.get(event.agent)
            units = since is None or self.units(event.agent, since, position) > 0
            found.append(
                Attempt(
                    position=position,
                    agent=event.agent,
                    index=counts[event.agent],
                    trigger=event.trigger,
                    outcome=event.outcome,
                    plane=event.plane,
                    summary_calls=event.summary_calls,
                    futile=automatic and not units,
                    primed=position < primed_until.get(event.agent, -1),
                )
            )
            if automatic:
                last[event.agent] = position
        return tuple(found)

    @cached_property
    def acts(self) -> tuple[Act, ...]:
        """What guards did, in trace order; a denial that only its result tells (a foreign guard's) is one too."""
        refused = {each.position: each for each in self.attempts if each.outcome == "refused"}
        found, told = [], set()
        for position, event in enumerate(self.events):
            if not isinstance(event, Guard) or event.action not in ACTING:
                continue
            call = attempt = None
            if event.call is not None:
                call = self._call(position, event.agent, event.call)
            else:
                places = [p for p, a in refused.items() if (a.agent, a.plane) == (event.agent, event.plane)]
                attempt = refused.pop(places[0]) if places else None
            if call is not None:
                index = call.index
                told.add((event.action, call.position))
            elif attempt is not None:
                index = attempt.index
            else:
                index = 1 + sum(each.position < position for each in self.attempts if each.agent == event.agent)
            found.append(Act(position, event.guard, event.plane, event.action, event.agent, index, call, attempt))
        for call in self.calls:
            if call.denied_by and ("deny", call.position) not in told:
                guard, _, plane = call.denied_by.partition("@")
                found.append(Act(call.position, guard, plane or None, "deny", call.agent, call.index, call, None))
        return tuple(sorted(found, key=lambda act: act.position))

    @cached_property
    def armed(self) -> tuple[tuple[str, str | None], ...]:
        """(guard, plane) of every guard that armed or acted, sorted."""
        armed = {(e.guard, e.plane) for e in self.events if isinstance(e, Guard) and e.action == "arm"}
        armed |= {(act.guard, act.plane) for act in self.acts}
        return tuple(sorted(armed, key=lambda pair: (pair[0], pair[1] or "")))

    @cached_property
    def trajectory(self) -> str:
        """A digest of what happened: calls, their fates and classes, attempts, guards, ends; no text, no time."""
        happened: list[Any] = []
        for call in self.calls:
            happened.append((call.agent, call.tool, call.args, call.primed, call.denied_by, call.error, call.judged))
        happened += [(a.agent, a.trigger, a.outcome, a.plane, a.futile) for a in self.attempts]
        happened += [(a.guard, a.plane, a.action, a.agent, a.index) for a in self.acts]
        happened += [(agent, end.reason, end.success) for agent, end in sorted(self.ends.items())]
        return hashlib.sha256(dump(happened).encode()).hexdigest()[:16]

    def calls_of(self, agent: str) -> tuple[Asked, ...]:
        return tuple(call for call in self.calls if call.agent == agent)

    def attempts_of(self, agent: str) -> tuple[Attempt, ...]:
        return tuple(attempt for attempt in self.attempts if attempt.agent == agent)

    def last_primed(self, agent: str) -> Asked | None:
        return next((call for call in reversed(self.calls_of(agent)) if call.primed), None)

    def units(self, agent: str, start: int, stop: int) -> int:
        """Units of the task that the agent's executed calls completed at positions in start..stop (not included)."""
        mine = (call for call in self.calls_of(agent) if start <= call.position < stop)
        return sum(call.unit and call.denied_by is None for call in mine)

    def step_position(self, agent: str, position: int) -> int:
        """Where the model response stands that a call at `position` belongs to; `position` where none is known."""
        for place in range(position, -1, -1):
            event = self.events[place]
            if isinstance(event, Step) and event.agent == agent:
                return place
        return position

    def spent(self, start: int = 0, stop: int | None = None, agent: str | None = None) -> Cost:
        """The cost at positions in start..stop (not included; None = to the end); agent None = all agents."""
        stop = len(self.events) if stop is None else stop
        part = [e for e in self.events[start:stop] if agent in (None, e.agent)]
        steps = [e for e in part if isinstance(e, Step) and not e.primed]
        tries = [e for e in part if isinstance(e, Compaction)]
        own = [c for c in self.calls if start <= c.position < stop and agent in (None, c.agent) and not c.primed]
        return Cost(
            turns=sum(e.calls >= 1 for e in steps),
            asked=len(own),
            calls=sum(call.denied_by is None for call in own),
            input_tokens=_total([e.input_tokens for e in steps] + [e.extra.get("input_tokens", 0) for e in tries]),
            output_tokens=_total([e.output_tokens for e in steps] + [e.extra.get("output_tokens", 0) for e in tries]),
            seconds=_seconds([e.seconds for e in steps] + [0.0 if e.summary_calls == 0 else e.seconds for e in tries]),
            attempts=len(tries),
            summary_calls=_total([e.summary_calls for e in tries]),
        )

    def _call(self, position: int, agent: str, name: str) -> Asked | None:
        """The call that a guard event at `position` is about: the latest asked before it, else the first after."""
        mine = [call for call in self.calls_of(agent) if call.id == name]
        before = [call for call in mine if call.position < position]
        return before[-1] if before else mine[0] if mine else None


def _until_end(trace: Trace) -> Iterator[Event]:
    """The events without labels and without what stands after an agent's end (trace.md ignores it)."""
    over = set()
    for event in trace.events:
        if isinstance(event, Label) or event.agent in over:
            continue
        if isinstance(event, End):
            over.add(event.agent)
        yield event


def _by_occurrence(events: tuple[Event, ...], kind: type[Label]) -> dict[tuple[str, str, int], Label]:
    """The n-th label (n from 1) of a call id belongs to the n-th call with that id of the same agent."""
    counts: dict[tuple[str, str], int] = {}
    found = {}
    for event in events:
        if isinstance(event, kind):
            key = (event.agent, event.call)
            counts[key] = counts.get(key, 0) + 1
            found[(*key, counts[key])] = event
    return found


def _results(events: tuple[Event, ...]) -> dict[int, Result]:
    """The result of the call at each position: of the latest unsettled call with its id of the same agent."""
    unsettled: dict[tuple[str, str], list[int]] = {}
    found = {}
    for position, event in enumerate(events):
        if isinstance(event, Call):
            unsettled.setdefault((event.agent, event.id), []).append(position)
        elif isinstance(event, Result) and unsettled.get((event.agent, event.id)):
            found[unsettled[(event.agent, event.id)].pop()] = event
    return found


def _denials(events: tuple[Event, ...]) -> dict[int, str]:
    """Positions of calls that a `deny` event names, with GUARD@PLANE: one cut off before its result is denied too."""
    latest: dict[tuple[str, str | None], int] = {}
    found: dict[int, str] = {}
    for position, event in enumerate(events):
        if isinstance(event, Call):
            latest[(event.agent, event.id)] = position
        elif isinstance(event, Guard) and event.action == "deny" and (event.agent, event.call) in latest:
            by = f"{event.guard}@{event.plane}" if event.plane else event.guard
            found.setdefault(latest[(event.agent, event.call)], by)
    return found


def _total(values: list[int | None]) -> int | None:
    return None if None in values else sum(value for value in values if value is not None)


def _seconds(values: list[float | None]) -> float | None:
    return None if None in values else sum(value for value in values if value is not None)
