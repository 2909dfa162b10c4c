"""Gemini CLI: cycles of one to five calls, five times; a turn to recover; then the stop."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards.peers.gemini_cli import cycle_length
from tests.guards.peers.script import USER, Does, Together, decided, denied


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_a_cycle_trips_at_its_fifth_round(length):
    acts = "ABCDE"[:length] * 5
    assert decided("gemini-cli", *acts[:-1]) == []
    assert decided("gemini-cli", *acts) == [("deny", f"cycle-{length}", 5 * length, 5, 5)]


def test_a_cycle_of_six_is_not_seen():
    assert decided("gemini-cli", *("ABCDEF" * 8)) == []


def test_one_turn_to_recover_then_the_stop():
    assert decided("gemini-cli", *"AAAAAAAB") == [
        ("deny", "cycle-1", 5, 5, 5),
        ("deny", "cycle-1", 6, 5, 5),
        ("deny", "halted", 7, 5, 5),
        ("deny", "halted", 8, 5, 5),
    ]


def test_recovered():
    assert denied("gemini-cli", *"AAAAA", *"BAAAA") == [5]
    assert denied("gemini-cli", *"AAAAA", *"BAAAAA", "C") == [5, 11, 12]


def test_the_rest_of_the_response_that_trips_is_not_read():
    assert decided("gemini-cli", "A", "A", "A", Together(("A", "A", "B", "C")), "D", "E") == [
        ("deny", "cycle-1", 5, 5, 5),
        ("deny", "halted", 6, 5, 5),
        ("deny", "halted", 7, 5, 5),
    ]


def test_a_user_message_begins_a_prompt():
    assert denied("gemini-cli", *"AAAA", USER, *"AAAA") == []
    assert denied("gemini-cli", *"AAAAAA", USER, "A", "B") == [5, 6]


def test_the_order_of_names_is_part_of_a_call():
    one, two = Does(args={"a": 1, "b": 2}), Does(args={"b": 2, "a": 1})
    assert decided("gemini-cli", one, one, two, one, one) == []
    assert decided("gemini-cli", *(one, two) * 5) == [("deny", "cycle-2", 10, 5, 5)]


def test_results_are_not_looked_at():
    assert denied("gemini-cli", *(Does(result=f"{n} %") for n in range(5))) == [5]


def test_a_call_that_something_else_stopped_was_asked_for():
    assert denied("gemini-cli", *"AA", Does(args={"what": "A"}, result="no", denied_by="x@host"), *"AA") == [5]


def test_settings():
    assert decided("gemini-cli", *"AAAAAA", disableLoopDetection=True) == []
    assert denied("gemini-cli", *"ABAB", threshold=2, maxCycleLength=1) == []
    assert denied("gemini-cli", *"ABAB", threshold=2) == [4]
    assert denied("gemini-cli", *"AB" * 5, historySize=9) == []


@given(
    st.lists(st.sampled_from("ABC"), max_size=4),
    st.lists(st.sampled_from("ABC"), min_size=1, max_size=4),
    st.integers(1, 3),
)
def test_a_planted_cycle_is_found(before, cycle, times):
    found = cycle_length([*before, *cycle * times], times, 4)
    assert found is not None
    assert found <= len(cycle)


@given(st.lists(st.sampled_from("AB"), max_size=12), st.integers(2, 3), st.integers(1, 4))
def test_what_is_found_is_a_cycle(keys, times, longest):
    """By its definition: the tail is its own first lap, over and over; and no shorter one is."""

    def laps(length):
        tail = keys[len(keys) - length * times :]
        return len(keys) >= length * times and tail == tail[:length] * times

    fitting = [length for length in range(1, longest + 1) if laps(length)]
    assert cycle_length(keys, times, longest) == (fitting[0] if fitting else None)
