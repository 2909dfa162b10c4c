"""What guards did to calls that were right, and harm, counted by hand."""

from __future__ import annotations

import pytest

from results.false_positives import Count, false_positives, harm, nudged, stopped
from results.pairs import Pair
from tests.results.script import episode


def counts(off: str | None, guarded: str, guard=None):
    twin = episode(off) if off is not None else None
    return stopped(episode(guarded, arm="host"), twin, guard)


def test_denied_calls_by_class():
    found = counts("n s s s", "n!cb@host n e!cb@host e e r!cb@host r s!cb@host s s!cb@host")
    assert (found["novel"], found["needed"], found["requested"]) == (Count(1, 2), Count(1, 3), Count(1, 2))
    # The twin's onset is call 2: the sterile calls 8, 9 and 10 are in its loop.
    assert (found["sterile-in-loop"], found["sterile-elsewhere"]) == (Count(2, 3), Count(0, 0))
    assert false_positives(found) == 2


@pytest.mark.parametrize("off", ["n n s n", "n n n s s s"])
def test_sterile_calls_before_the_onset_or_without_a_loop_are_elsewhere(off):
    found = counts(off, "n s!cb@host s")
    assert (found["sterile-in-loop"], found["sterile-elsewhere"]) == (Count(0, 0), Count(1, 2))
    assert false_positives(found) == 0


def test_without_a_twin_nothing_is_known_of_loops():
    found = counts(None, "n!cb@host s!cb@host C n X@host")
    assert found["novel"] == Count(1, 2)
    assert all(
        found[f"{name}-{where}"] == Count(0, 0) for name in ("sterile", "futile") for where in ("in-loop", "elsewhere")
    )


def test_primed_calls_are_left_out():
    assert counts("n", "pn!cb@host n")["novel"] == Count(0, 1)


def test_one_guard_alone():
    guarded = "n!cb@host n!lg@agent n!lg@host"
    assert counts("n", guarded)["novel"] == Count(3, 3)
    assert counts("n", guarded, ("loop-guard", "agent"))["novel"] == Count(1, 3)
    assert counts("n", guarded, ("loop-guard", None))["novel"] == Count(0, 3)


def test_refusals_by_what_was_done_since_the_attempt_before():
    off = "u C n C n C n C"
    # Attempts 1 and 4 follow a unit (or nothing), 2, 3 and 5 do not; the refused are 3, 4 and 5.
    found = counts(off, "u C n C n X@host u X@host n X@host")
    assert (found["productive"], found["futile-in-loop"]) == (Count(1, 2), Count(2, 3))
    assert false_positives(found) == 1
    assert counts("u C", "u C n C n X@host")["futile-elsewhere"] == Count(1, 2)
    # A manual compaction is the user's, and nothing that a guard asks about.
    assert counts(off, "C M M")["productive"] == Count(0, 1)


def test_nudges_are_apart_and_a_call_counts_once():
    guarded = episode("n?lg@host?rr@host e s?lg@host n!cb@host?rr@host", arm="host")
    found = nudged(guarded, episode("n"))
    assert (found["novel"], found["needed"], found["sterile-elsewhere"]) == (Count(2, 2), Count(0, 1), Count(1, 1))
    assert nudged(guarded, episode("n"), ("loop-guard", "host"))["novel"] == Count(1, 2)
    assert stopped(guarded, episode("n"))["novel"] == Count(1, 2)


def test_harm_by_hand():
    outcomes = (
        [(True, True)] * 3
        + [(True, False)] * 5
        + [(False, True)] * 1
        + [(False, False)] * 2
        + [(True, None), (None, True)]
    )
    pairs = [Pair(episode("n", arm="host", success=ours), episode("n", success=theirs)) for theirs, ours in outcomes]
    found = harm(pairs)
    assert (found.succeeded_twins, found.failed, found.failed_twins, found.rescued) == (8, 5, 3, 1)
    # 6 pairs changed, 1 for the better: 2 (1 + 6) / 64.
    assert found.p == pytest.approx(14 / 64)


def test_harm_is_not_measurable_where_no_twin_succeeded():
    pairs = [Pair(episode("n", arm="host", success=ours), episode("n", success=False)) for ours in (True, False)]
    assert (harm(pairs).p, harm(pairs).rescued) == (None, 1)
