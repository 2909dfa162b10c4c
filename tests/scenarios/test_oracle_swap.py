"""What the figures would be if results decided what a call is worth: an oracle of equal results in the judge's place.

It calls a call sterile where an earlier call of the same agent, tool and arguments gave the same text. On these figures
of the actors' courses it differs from the judge, and on no other: polling becomes a loop and its denial right, so that
a guard that looks at results could do no wrong; and rewritten arguments are never a loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, Literal

import pytest

from guards.keys import call_key
from results.episode import Episode
from results.false_positives import false_positives, stopped
from results.loops import first_loop
from results.trace import Call, Label, Result, Trace
from runners.audit import mounted, play
from scenarios.base import Scenario
from scenarios.registry import names, scenario

GUARDS = ("circuit-breaker", "loop-guard")
Figures = dict[str, Any]

# Each figure that moves, as the judge has it and as the other oracle has it.
MOVED: Mapping[str, Mapping[str, tuple[Any, Any]]] = {
    # The arguments are never the same: no loop, and a guard that leaves the description out does wrong.
    "annotated-args": {
        "looping: loop": ((2, 23), None),
        "looping: circuit-breaker, false positives": (0, 19),
        "looping: circuit-breaker, in a loop": (19, 0),
    },
    "reworded-search": {"looping: loop": ((2, 23), None)},
    # The first rejection is a new text, though it tells nothing that the agent did not have.
    "wasted-read": {"looping: loop": ((2, 23), (3, 22))},
    # Waiting gives the same text until it is over.
    "poll-queued": {
        "honest: loop": (None, (2, 11)),
        "honest: circuit-breaker, false positives": (19, 0),
        "honest: circuit-breaker, in a loop": (0, 19),
        "honest: loop-guard, false positives": (16, 0),
        "honest: loop-guard, in a loop": (0, 16),
    },
    # Ten times is what the user wants.
    "asked-repeat": {
        "honest: loop": (None, (2, 9)),
        "honest: circuit-breaker, requested": (5, 0),
        "honest: circuit-breaker, in a loop": (0, 5),
        "honest: loop-guard, requested": (2, 0),
        "honest: loop-guard, in a loop": (0, 2),
    },
    "flaky-retry": {
        "honest: loop": (None, (2, 6)),
        "honest: circuit-breaker, false positives": (19, 0),
        "honest: circuit-breaker, in a loop": (0, 19),
    },
    # Each listing comes twice: never three in a row, so that the denials are in no loop either.
    "relist-directory": {"honest: circuit-breaker, false positives": (19, 0)},
}


def swapped(made: Scenario, trace: Trace) -> Trace:
    """The trace with the labels of the oracle of equal results. A denied call is judged by what it would have given."""
    world, told = made.world(), dict[tuple[Any, ...], set[tuple[str, bool]]]()
    denied = {(event.agent, event.id) for event in trace.events if isinstance(event, Result) and event.denied_by}
    labels = [event for event in trace.events if isinstance(event, Label)]
    classes: list[Literal["novel", "sterile"]] = []
    for call in (event for event in trace.events if isinstance(event, Call)):
        stopped_here = (call.agent, call.id) in denied
        gives = (deepcopy(world) if stopped_here else world).call(call.tool, call.args, call.agent)
        known = told.setdefault((call.agent, call_key(call.tool, call.args)), set())
        classes.append("sterile" if (gives.text, gives.error) in known else "novel")
        if not stopped_here:
            known.add((gives.text, gives.error))
    rest = tuple(event for event in trace.events if not isinstance(event, Label))
    return Trace(
        trace.header, (*rest, *(replace(label, judged=each) for label, each in zip(labels, classes, strict=True)))
    )


def figures(made: Scenario, *, swap: bool) -> Figures:
    """Loops of calls without a guard, as (onset, length), and denials by class under each guard alone."""

    def episode(course: Literal["honest", "looping"], guard: str | None = None) -> Episode:
        trace = play(made, course, None if guard is None else mounted()[guard])
        return Episode(swapped(made, trace) if swap else trace)

    found: Figures = {}
    for course in ("honest", "looping"):
        if course == "looping" and made.looping() is None:
            continue
        off = episode(course)  # type: ignore[arg-type]
        loop = first_loop(off, "calls")
        found[f"{course}: loop"] = None if loop is None else (loop.onset, loop.length)
        for guard in GUARDS:
            counts = stopped(episode(course, guard), off)  # type: ignore[arg-type]
            found[f"{course}: {guard}, false positives"] = false_positives(counts)
            found[f"{course}: {guard}, requested"] = counts["requested"].hit
            found[f"{course}: {guard}, in a loop"] = counts["sterile-in-loop"].hit
    return found


@pytest.mark.parametrize("name", names())
def test_what_moves(name: str):
    made = scenario(name)
    ours, others = figures(made, swap=False), figures(made, swap=True)
    moved = {figure: (ours[figure], others[figure]) for figure in ours if ours[figure] != others[figure]}
    assert moved == MOVED.get(name, {})


def test_the_table_names_scenarios():
    assert set(MOVED) <= set(names())
