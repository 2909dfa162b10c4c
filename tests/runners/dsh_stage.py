"""The real harness with scripted players, for tests of the runner: one gateway, one episode after the other."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from guards.stack import Stack, default_stack
from results.trace import Compaction, End, Event, Guard, Notice, Result, Step, Trace
from runners.arms import parse_arm
from runners.dsh import DshRunner
from runners.gateway.asking import Backend
from runners.gateway.cast import Cast
from runners.gateway.house import House
from runners.harness.composition import Composer, compose
from runners.harness.layout import Scratch
from runners.spec import EpisodeSpec, Horizon
from scenarios.base import Scenario
from scenarios.registry import scenario


@contextmanager
def staged(
    stack: Stack | None = None,
    *,
    wall_seconds: float = 120.0,
    command: Sequence[str] | None = None,
    composer: Composer = compose,
    kept: Path | None = None,
    model: Backend | None = None,
) -> Iterator[tuple[DshRunner, House, Stack]]:
    """A runner behind a gateway of its own; nothing of it is left afterwards. `model` plays where no actor does."""
    stack = stack or default_stack()
    scratch = Scratch()
    # What the runtime unpacks is shared by all tests (`unpacked` in conftest.py).
    (scratch.root / "unpacked").symlink_to(os.environ["PKG_NATIVE_CACHE_PATH"])
    try:
        with House(Cast(model)) as house:
            runner = DshRunner(
                house, stack, scratch, wall_seconds=wall_seconds, command=command, composer=composer, kept=kept
            )
            yield runner, house, stack
    finally:
        scratch.remove()


def spec(
    made: Scenario | str, arm: str, actor: str, stack: Stack | None = None, *, horizon: int | None = None, seed: int = 0
) -> EpisodeSpec:
    """An actor's episode; `horizon` None is the scenario's."""
    made = scenario(made, seed) if isinstance(made, str) else made
    needs = made.needs
    return EpisodeSpec(
        name=f"{made.name}.{arm.replace(':', '-').replace('@', '-')}.{actor}.s{seed}",
        scenario=made,
        arm=parse_arm(arm, stack or default_stack()),
        seed=seed,
        model=f"actor:{actor}",
        sha256=None,
        actor=actor,
        horizon=Horizon(horizon or needs.horizon, needs.horizon_unit),
    )


def play(
    made: Scenario | str, arm: str, actor: str, *, stack: Stack | None = None, horizon: int | None = None
) -> Trace:
    """One episode in a runner of its own."""
    with staged(stack) as (runner, _, given):
        return runner.run(spec(made, arm, actor, given, horizon=horizon)).trace


def acts(trace: Trace, guard: str | None = None) -> list[tuple[str, str | None, str, int]]:
    """(guard, plane, action, index) of all nudges, denials and refusals; the index counts calls, or attempts."""
    places: dict[str | None, int] = {}
    attempts = 0
    found = []
    for event in trace.events:
        if event.type == "call":
            places[event.id] = len(places) + 1  # type: ignore[attr-defined]
        elif isinstance(event, Compaction):
            attempts += 1
        elif isinstance(event, Guard) and event.action in ("nudge", "deny", "refuse") and guard in (None, event.guard):
            at = attempts + 1 if event.action == "refuse" else places[event.call]
            found.append((event.guard, event.plane, event.action, at))
    return found


def of(trace: Trace, kind: type[Any]) -> list[Any]:
    """The events of one type, in order."""
    return [event for event in trace.events if isinstance(event, kind)]


def end(trace: Trace) -> End:
    """The root agent's end."""
    (found,) = (event for event in of(trace, End) if event.agent == "root")
    return found


def cause(trace: Trace) -> str:
    """Why the episode is no result."""
    assert end(trace).reason == "error", end(trace)
    return str(end(trace).extra["cause"])


def shown(events: Sequence[Event]) -> list[str]:
    """The events in a form that reads well where an assertion fails."""
    kept = (Result, Step, Guard, Notice, Compaction, End)
    return [str(event) for event in events if isinstance(event, kept)]
