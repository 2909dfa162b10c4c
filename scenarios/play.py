"""Plays a course against a world, with no harness, no model and no guard."""

from __future__ import annotations

from dataclasses import dataclass, replace

from results.trace import Call, End, Event, Header, Result, Spawn, Step, Trace, User
from scenarios.base import Outcome, Scenario
from scenarios.course import Course, course_of
from scenarios.delegation import STARTED
from scenarios.judge import judge
from scenarios.order import Order


@dataclass
class _Agent:
    name: str
    course: Course
    step: int = 0
    results: tuple[Outcome, ...] = ()


def play(scenario: Scenario, course: Course, *, horizon: int | None = None) -> Trace:
    """The trace of the episode, with labels.

    An agent ends with a turn without calls; all end after `horizon` turns with calls (None: as many as the scenario
    needs, by its own horizon where that counts tool turns, else 200). Contexts are endless: nothing is compacted.
    """
    needs = scenario.needs
    most = horizon or (needs.horizon if needs.horizon_unit == "tool turns" else 200)
    world, order = scenario.world(), Order()
    agents = {"root": _Agent("root", course)}
    events: list[Event] = [User(text=scenario.prompt)]
    turns = 0
    while (chosen := order.next()) is not None:
        agent = agents[chosen]
        turn = agent.course.turn(agent.step, agent.results)
        if turns == most and turn.calls:
            events += (End(agent=each, reason="horizon") for each in order.waiting())
            break
        turns += bool(turn.calls)
        events.append(Step(agent=chosen, n=agent.step, calls=len(turn.calls), finish="stop"))
        if not turn.calls:
            order.done(chosen)
            events.append(End(agent=chosen, reason="completed"))
            continue
        mark = "c" if chosen == "root" else f"{chosen}-c"
        names = [f"{mark}{agent.step}-{at}" for at in range(len(turn.calls))]
        events += (
            Call(agent=chosen, id=name, step=agent.step, tool=tool, args=args)
            for name, (tool, args) in zip(names, turn.calls, strict=True)
        )
        agent.results = tuple(world.call(tool, args, chosen) for tool, args in turn.calls)
        agent.step += 1
        for name, (_, args), result in zip(names, turn.calls, agent.results, strict=True):
            text = result.text
            if chosen == "root" and text == STARTED:
                child = f"agent-{len(agents)}"
                text = f"{STARTED} {child}"
                agents[child] = _Agent(child, course_of(course, len(agents)))
                order.started(child, chosen)
                events += (
                    Spawn(agent=chosen, child=child, purpose=args["description"]),
                    User(agent=child, text=args["prompt"]),
                )
            content = ({"type": "text", "text": text},)
            events.append(Result(agent=chosen, id=name, content=content, error=result.error))
    header = Header(
        episode=f"{scenario.name}-{scenario.size}-{scenario.seed}", scenario=scenario.name, source="scenarios.play"
    )
    trace = Trace(header, tuple(events))
    labels, success = judge(scenario, trace)
    return Trace(header, (*(_ended(event, success) for event in events), *labels))


def _ended(event: Event, success: bool) -> Event:
    return replace(event, success=success) if isinstance(event, End) and event.agent == "root" else event
