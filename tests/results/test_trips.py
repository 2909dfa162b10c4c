"""When guards first acted, by hand: each response is one call, 110 tokens, 10 of them written, and 2 seconds."""

from __future__ import annotations

import pytest

from results.loops import first_loop
from results.pairs import Pair
from results.trips import Delay, expected, first, kind_of, mounted, outcome, provoking_loop
from tests.results.script import episode


def pair(off: str, guarded: str, *, end: str = "horizon", off_end: str = "horizon") -> Pair:
    return Pair(episode(guarded, arm="host", end=end), episode(off, end=off_end))


def act(found: Pair, guard: str = "circuit-breaker", plane: str | None = "host", what: str = "trip"):
    return first(found, provoking_loop(found, guard), guard, plane, what)


def test_a_denial_by_hand():
    found = act(pair("n n s s s s s s s s", "n n s s s s s s!cb@host s!cb@host"))
    # The onset is call 3; call 8 is denied, 5 calls later.
    assert (found.status, found.act.index) == ("acted", 8)
    assert found.delay == Delay(units=5, turns=5, tokens=550, output_tokens=50, seconds=10)
    assert (found.attempts_before, found.summary_calls_before) == (None, None)


def test_the_onset_itself_has_delay_0():
    found = act(pair("n s s s", "n s!cb@host s s"))
    assert (found.status, found.delay) == ("acted", Delay(0, 0, 0, 0, 0))


def test_before_the_onset_is_early():
    found = act(pair("n n n s s s", "n n!cb@host n n"))
    assert (found.status, found.delay.units, found.delay.turns) == ("early", -2, -2)


def test_never_is_missed():
    found = act(pair("s s s s", "s s s s"))
    assert (found.status, found.act, found.delay) == ("missed", None, None)


def test_the_first_nudge_is_apart_from_the_first_denial():
    found = pair("s s s s s s", "s s s?lg@host s?lg@host s!lg@host")
    assert act(found, "loop-guard").delay.units == 4
    assert act(found, "loop-guard", what="nudge").delay.units == 2
    assert act(found, "circuit-breaker").status == "missed"
    assert act(found, "loop-guard", plane="agent").status == "missed"


def test_another_agent_is_no_detection():
    found = pair("n A:s A:s A:s A:s", "n s!cb@host A:s A:s A:s!cb@host")
    assert (act(found).act.agent, act(found).delay.units) == ("A", 2)


def test_what_other_agents_spent_is_no_delay():
    found = act(pair("s s s s", "s A:n A:n s A:n s!cb@host"))
    assert (found.delay.units, found.delay.turns, found.delay.tokens) == (2, 2, 220)


def test_primed_episodes_count_from_the_last_primed_call():
    found = act(pair("ps ps s s s s", "ps ps s s!cb@host s"))
    assert (found.status, found.act.index, found.delay.units) == ("acted", 4, 2)
    # Two own responses stand between the last primed call and the denial, its own among them.
    assert (found.delay.turns, found.delay.tokens) == (2, 220)


def test_an_act_on_the_script_is_neither_early_nor_acted():
    assert act(pair("ps ps ps s s s", "ps ps ps!cb@host s s s")).status == "primed"


def test_a_refusal_by_hand():
    found = act(pair("u C n F n C n C n C", "u C n F n X@host n X@host"), "compaction-breaker")
    # The onset is attempt 1, attempt 3 is refused; 1 + 2 summaries were asked for before it.
    assert (found.status, found.act.index, found.delay.units) == ("acted", 3, 2)
    assert (found.attempts_before, found.summary_calls_before) == (2, 3)
    # Two responses and the three summaries of 5 s stand between the onset and the refusal.
    assert (found.delay.turns, found.delay.tokens, found.delay.seconds) == (2, 220, 19)


def test_primed_refills_count_attempts_after_the_last_primed_call():
    found = act(pair("pn C pn C C C", "pn C pn C X@host"), "compaction-breaker")
    assert (found.act.index, found.delay.units) == (3, 2)


def test_a_pair_is_provoked_for_a_guard_by_its_kind_of_loop():
    calls, refills = pair("s s s", "n"), pair("C n C n C", "n")
    assert provoking_loop(calls, "loop-guard").kind == "calls"
    assert provoking_loop(calls, "compaction-breaker") is None
    assert provoking_loop(refills, "circuit-breaker") is None
    assert provoking_loop(refills, "compaction-breaker").kind == "refill"
    assert (kind_of("repeat-reminder"), kind_of("someone-elses")) == ("calls", "calls")


def test_what_a_guard_can_do():
    quiet, theirs = episode("n", arm="host"), episode("s?rr@host s!cb@host", arm="host")
    assert not expected("repeat-reminder", "trip", [theirs])
    assert expected("repeat-reminder", "nudge", [quiet])
    assert not expected("circuit-breaker", "nudge", [theirs])
    assert expected("circuit-breaker", "trip", [quiet])
    assert mounted([quiet]) == (("circuit-breaker", "host"), ("compaction-breaker", "host"), ("loop-guard", "host"))
    assert ("repeat-reminder", "host") in mounted([theirs])


@pytest.mark.parametrize(
    ("guarded", "end", "expected"),
    [
        ("n s s s!cb@host s!cb@host", "horizon", (2, "trip")),
        ("n!cb@host s s s", "horizon", (-1, "trip")),
        ("n s s e s!cb@host", "horizon", (2, "recovered")),
        # The denied call is novel: the guard came first.
        ("n s s n!cb@host", "horizon", (2, "trip")),
        ("n s s", "completed", (1, "ended")),
        ("n s s s s", "horizon", (3, None)),
        # A nudge is no trip.
        ("n s s?lg@host s s", "horizon", (3, None)),
    ],
)
def test_what_ends_the_wait_for_a_trip(guarded, end, expected):
    found = pair("n s s s s", guarded, end=end)
    assert outcome(found, first_loop(found.off)) == expected


@pytest.mark.parametrize(
    ("guarded", "end", "expected"),
    [
        ("C n C n X@host", "horizon", (2, "trip")),
        ("C n C u C", "horizon", (1, "recovered")),
        ("C n X@host u C", "horizon", (1, "trip")),
        ("C n C n", "overflow", (1, "ended")),
        ("C n C n C n C", "horizon", (3, None)),
        # A denied call is no trip of the guard against refills.
        ("C s!cb@host C n C n C", "horizon", (3, None)),
    ],
)
def test_what_ends_the_wait_for_a_refusal(guarded, end, expected):
    found = pair("C n C n C n C", guarded, end=end)
    assert outcome(found, first_loop(found.off, "refill")) == expected
