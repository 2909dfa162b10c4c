"""OpenHands: four patterns, looked for before each response; a stuck run ends before the next calls."""

from __future__ import annotations

import pytest

from tests.guards.peers.script import ANSWER, USER, Does, Together, decided, denied, nudged, short, trace


def fails(word, says="no"):
    return Does(args={"what": word}, result=says, error=True)


def polls(*shown):
    return [Does("job_status", {}, text) for text in shown]


class TestActionObservation:
    @pytest.mark.parametrize(("calls", "found"), [(3, []), (4, []), (5, [5]), (6, [5, 6])])
    def test_four_equal_pairs_and_the_fifth_call_is_denied(self, calls, found):
        assert denied("openhands", *["A"] * calls) == found

    def test_the_decision(self):
        assert decided("openhands", *"AAAAAB") == [
            ("deny", "action-observation", 5, 4, 4),
            ("deny", "halted", 6, 4, 4),
        ]

    def test_whatever_the_next_call_is(self):
        assert denied("openhands", *"AAAAB") == [5]

    def test_a_result_that_changes_is_no_loop(self):
        assert denied("openhands", *polls(*"12345678")) == []
        assert denied("openhands", *polls(*"11121111"), "B") == [9]

    def test_four_equal_polls_are_stuck(self):
        """As OpenHands/software-agent-sdk#762 reports."""
        assert denied("openhands", *polls(*["running"] * 4), "B") == [5]

    def test_equal_results_of_different_calls_are_none(self):
        assert denied("openhands", *(Does(args={"n": n}) for n in range(8))) == []

    def test_both_halves_of_a_pair_count(self):
        two_calls = [Does(args={"n": n % 2}) for n in range(5)]
        two_results = [Does(result=str(n % 2)) for n in range(5)]
        assert denied("openhands", *two_calls) == denied("openhands", *two_results) == []

    def test_the_user_begins_anew(self):
        assert denied("openhands", "A", "A", "A", USER, "A", "A", "A", "A") == []
        assert denied("openhands", *"AAAA", USER, "A") == []
        assert denied("openhands", *"AAAAA", USER, *"AAAAA") == [5, 10]

    def test_parallel_calls_are_looked_at_when_all_have_settled(self):
        together = Together(("A",) * 4)
        assert decided("openhands", together) == []
        assert denied("openhands", together, Together(("A", "B"))) == [5, 6]


class TestActionError:
    def test_told_at_three_and_stuck_above(self):
        one, two, three, four = (fails("A", f"no {n}") for n in range(4))
        assert decided("openhands", one, two, three) == [("nudge", "action-error", 3, 3, 3)]
        assert decided("openhands", one, two, three, four) == [("nudge", "action-error", 3, 3, 3)]
        assert decided("openhands", one, two, three, four, "B", "C") == [
            ("nudge", "action-error", 3, 3, 3),
            ("deny", "action-error", 5, 4, 3),
            ("deny", "halted", 6, 4, 3),
        ]

    def test_another_call_behind_the_nudge_is_none(self):
        assert denied("openhands", *[fails("A")] * 3, "B", *[fails("A")] * 3, "B") == []
        assert nudged("openhands", *[fails("A")] * 3, "B", *[fails("A")] * 3, "B") == [3, 7]

    def test_a_success_between_is_none(self):
        assert decided("openhands", fails("A"), fails("A"), "A", fails("A"), fails("A")) == []

    def test_answers_behind_the_nudge_are_a_monologue_all_the_same(self):
        assert denied("openhands", *[fails("A")] * 3, ANSWER, ANSWER, ANSWER, "B") == [4]

    def test_the_product_speaks_instead_of_looking_for_patterns(self):
        assert denied("openhands", *[fails("A")] * 3, "B", actionObservation=3) == []
        assert denied("openhands", *[fails("A")] * 4, "B", actionObservation=3) == [5]

    def test_an_answer_behind_the_nudge_makes_nobody_stuck(self):
        assert denied("openhands", *[fails("A")] * 3, ANSWER, "B") == []

    def test_five_at_once(self):
        """The count goes no further than one more than the threshold."""
        five = Together(tuple(fails("A", f"no {n}") for n in range(5)))
        assert decided("openhands", five, "B") == [("deny", "action-error", 6, 4, 3)]

    def test_a_call_that_never_settles_hides_no_later_one(self):
        unsettled = Does(args={"what": "B"}, result=None)
        assert nudged("openhands", unsettled, *[fails("A")] * 3) == [4]


class TestMonologue:
    @pytest.mark.parametrize(("answers", "found"), [(2, []), (3, [2]), (4, [2])])
    def test_three_answers(self, answers, found):
        assert denied("openhands", "A", *[ANSWER] * answers, "B") == found

    def test_calls_and_users_break_it(self):
        assert denied("openhands", ANSWER, ANSWER, "A", ANSWER, "B") == []
        assert denied("openhands", ANSWER, ANSWER, USER, ANSWER, "B") == []


class TestAlternating:
    @pytest.mark.parametrize(("acts", "found"), [("ABABA", []), ("ABABAB", []), ("ABABABA", [7]), ("ABABABC", [7])])
    def test_six_pairs(self, acts, found):
        assert denied("openhands", *acts) == found

    def test_a_changed_result_on_one_side_is_none(self):
        turns = [each for n in range(6) for each in (Does("left", {}, "same"), Does("right", {}, str(n)))]
        assert denied("openhands", *turns) == []

    def test_a_cycle_of_three_is_not_seen(self):
        assert denied("openhands", *("ABC" * 8)) == []

    def test_ten_pairs_fill_the_window(self):
        """More than half of `maxEvents` can never be seen."""
        assert denied("openhands", *("AB" * 8), alternatingPattern=10) == [11, 12, 13, 14, 15, 16]
        assert denied("openhands", *("AB" * 16), alternatingPattern=11) == []
        assert denied("openhands", *("AB" * 8), alternatingPattern=11, maxEvents=22)[0] == 12


def test_switched_off():
    assert decided("openhands", *[fails("A")] * 8, ANSWER, ANSWER, ANSWER, *"AAAAA", stuckDetection=False) == []


def test_without_steps_each_call_is_a_response():
    assert [each[2] for each in short("openhands", trace(*"AAAAAA", steps=False))] == [5, 6]
