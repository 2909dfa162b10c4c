"""Plays a course against a world, with no harness, no model and no guard."""

from __future__ import annotations

from results.trace import Call, End, Event, Header, Result, Step, Trace, User
from scenarios.base import Outcome, Scenario
from scenarios.course import Course
from scenarios.judge import judge


def play(scenario: Scenario, course: Course, *, horizon: int | None = None) -> Trace:
    """The trace of the episode, with labels.

    It ends with a turn without calls, or after `horizon` turns with calls (None: as many as the scenario needs, by its
    own horizon where that counts tool turns, else 200). Contexts are endless: nothing is compacted.
    """
    needs = scenario.needs
    most = horizon or (needs.horizon if needs.horizon_unit == "tool turns" else 200)
    world = scenario.world()
    events: list[Event] = [User(text=scenario.prompt)]
    results: tuple[Outcome, ...] = ()
    for step in range(most + 1):
        turn = course.turn(step, results)
        if step == most and turn.calls:
            break
        events.append(Step(n=step, calls=len(turn.calls), finish="stop"))
        if not turn.calls:
            break
        names = [f"c{step}-{at}" for at in range(len(turn.calls))]
        events += (
            Call(id=name, step=step, tool=tool, args=args) for name, (tool, args) in zip(names, turn.calls, strict=True)
        )
        results = tuple(world.call(tool, args) for tool, args in turn.calls)
        for name, result in zip(names, results, strict=True):
            events.append(Result(id=name, content=({"type": "text", "text": result.text},), error=result.error))
    reason = "horizon" if turn.calls else "completed"
    events.append(End(reason=reason, success=world.success))  # type: ignore[arg-type]
    header = Header(
        episode=f"{scenario.name}-{scenario.size}-{scenario.seed}", scenario=scenario.name, source="scenarios.play"
    )
    trace = Trace(header, tuple(events))
    labels, _ = judge(scenario, trace)
    return Trace(header, (*events, *labels))
