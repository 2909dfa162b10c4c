"""Loops and onsets, on hand-written episodes."""

from __future__ import annotations

import pytest

from results.loops import first_loop, loops
from tests.results.script import episode


def seen(marks: str, **given: object) -> list[tuple[object, ...]]:
    return [(loop.kind, loop.agent, loop.onset, loop.length, loop.ended) for loop in loops(episode(marks, **given))]


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ("s s n s s e s s r s s", []),
        ("n s s s", [("calls", "root", 2, 3, "horizon")]),
        ("s s s s n s s s r", [("calls", "root", 1, 4, "recovered"), ("calls", "root", 6, 3, "recovered")]),
        # A denied call is judged by what it would have given, so a loop goes on through denials.
        ("s s!cb@host s!cb@host", [("calls", "root", 1, 3, "horizon")]),
        # Two agents, each its own run: neither has three.
        ("s A:s s A:s", []),
        ("A:s s A:s A:s", [("calls", "A", 1, 3, "horizon")]),
        # Primed calls do not count; the index of the onset counts them.
        ("ps ps ps s s", []),
        ("ps ps s s s n", [("calls", "root", 3, 3, "recovered")]),
        # A primed call does not break a run either.
        ("s s ps s", [("calls", "root", 1, 3, "horizon")]),
    ],
)
def test_loops_of_calls(marks, expected):
    assert seen(marks) == expected


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ("u C n C n C", [("refill", "root", 1, 3, "horizon")]),
        ("C u C u C u C", []),
        # A unit parts the runs; the first attempt after it begins one.
        ("C C u C C C u", [("refill", "root", 3, 3, "recovered")]),
        ("C F X@host u", [("refill", "root", 1, 3, "recovered")]),
        # A manual compaction neither counts nor breaks.
        ("C M C", []),
        ("C M C C", [("refill", "root", 1, 3, "horizon")]),
        # A unit that was denied was not completed; a child's unit is the child's.
        ("C u!cb@host C A:u C", [("refill", "root", 1, 3, "horizon")]),
        # Attempts within the primed part are the script's.
        ("pn C C pn C C", []),
        ("pn C pn C C C", [("refill", "root", 2, 3, "horizon")]),
    ],
)
def test_loops_of_refills(marks, expected):
    assert seen(marks) == expected


def test_both_kinds_stand_in_the_order_of_their_onsets():
    marks = "n C s C s C s"
    assert seen(marks) == [("refill", "root", 1, 3, "horizon"), ("calls", "root", 2, 3, "horizon")]
    assert first_loop(episode(marks)).kind == "refill"
    assert first_loop(episode(marks), "calls").onset == 2
    assert first_loop(episode("n n")) is None


@pytest.mark.parametrize("end", ["completed", "overflow", "stopped", "max_tokens"])
def test_an_agent_that_ends_in_its_loop_did_not_recover(end):
    assert seen("s s s", end=end) == [("calls", "root", 1, 3, "ended")]
