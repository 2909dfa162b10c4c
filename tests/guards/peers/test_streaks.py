"""Peers that count identical calls in a row: Cline, Roo Code, Kimi CLI, ZCode, CrewAI, and opencode's neighbours."""

from __future__ import annotations

import pytest

from guards.peers.streak import Streak
from tests.guards.peers.script import ANSWER, USER, Does, Together, decided, denied, nudged, short, trace

FAILS = Does(args={"what": "A"}, result="no", error=True)


def test_streak():
    streak = Streak()
    assert [streak.add(key) for key in "AABAAA"] == [1, 2, 1, 1, 2, 3]


class TestCline:
    def test_warns_at_three_and_stops_at_five(self):
        assert decided("cline", *"AAAAAA") == [
            ("nudge", "identical", 3, 3, 3),
            ("deny", "identical", 5, 5, 5),
            ("deny", "halted", 6, 5, 5),
        ]

    @pytest.mark.parametrize(("calls", "warned", "stopped"), [(2, [], []), (3, [3], []), (4, [3], []), (5, [3], [5])])
    def test_thresholds(self, calls, warned, stopped):
        assert nudged("cline", *["A"] * calls) == warned
        assert denied("cline", *["A"] * calls) == stopped

    def test_another_call_resets(self):
        assert decided("cline", *"AABAABAA") == []

    def test_results_and_the_order_of_names_do_not_matter(self):
        calls = [Does(args=args, result=str(args)) for args in ({"a": 1, "b": {"c": 1, "d": 2}},) * 2]
        turned = Does(args={"b": {"d": 2, "c": 1}, "a": 1}, result="other")
        assert nudged("cline", *calls, turned) == [3]

    def test_after_a_stop_the_user_may_go_on_and_the_next_identical_call_stops_again(self):
        assert decided("cline", *"AAAAA", USER, "B", "A", USER, *"AAAAAA") == [
            ("nudge", "identical", 3, 3, 3),
            ("deny", "identical", 5, 5, 5),
            ("nudge", "identical", 9, 3, 3),
            ("deny", "identical", 11, 5, 5),
            ("deny", "halted", 12, 5, 5),
            ("deny", "halted", 13, 5, 5),
        ]
        assert decided("cline", *"AAAAA", USER, "A", "B")[-2:] == [
            ("deny", "identical", 6, 6, 5),
            ("deny", "halted", 7, 6, 5),
        ]

    def test_a_nudge_stands_behind_its_own_call(self):
        """Also where earlier identical calls never settled, or several are asked before the first does."""
        unsettled = Does(result=None)
        assert nudged("cline", unsettled, unsettled, Does()) == [3]
        assert nudged("cline", Together(("A",) * 4)) == [3]
        spoken = trace(unsettled, USER, Does(), Does(), steps=False)
        assert [each[2] for each in short("cline", spoken)] == [3]

    def test_settings(self):
        assert decided("cline", *"AAA", softThreshold=2, hardThreshold=3) == [
            ("nudge", "identical", 2, 2, 2),
            ("deny", "identical", 3, 3, 3),
        ]


class TestRooCode:
    @pytest.mark.parametrize(
        ("calls", "stopped"), [(3, []), (4, [4]), (5, [4]), (7, [4]), (8, [4, 8]), (12, [4, 8, 12])]
    )
    def test_every_fourth_is_denied(self, calls, stopped):
        assert denied("roo-code", *["A"] * calls) == stopped

    def test_counts_repeats(self):
        assert decided("roo-code", *"AAAA") == [("deny", "identical", 4, 3, 3)]

    def test_zero_is_unlimited_and_one_denies_the_second(self):
        assert denied("roo-code", *"AAAAAAAA", consecutiveMistakeLimit=0) == []
        assert denied("roo-code", *"AAAA", consecutiveMistakeLimit=1) == [2, 4]

    def test_a_cycle_of_three_is_not_seen(self):
        """As RooCodeInc/Roo-Code#5496 reports."""
        assert denied("roo-code", *"ABCABCABCABC") == []

    def test_a_user_message_does_not_reset(self):
        assert denied("roo-code", *"AAA", USER, "A") == [4]


class TestKimiCli:
    def test_three_reminders_and_a_stop(self):
        tiers = [("gentle", 3)] * 2 + [("detailed", 5)] * 3 + [("stop", 8)] * 5
        assert decided("kimi-cli", *"A" * 14) == [
            *(("nudge", kind, index, index, limit) for index, (kind, limit) in enumerate(tiers, start=3)),
            ("deny", "tool-call-repeat", 13, 12, 12),
            ("deny", "halted", 14, 12, 12),
        ]

    @pytest.mark.parametrize(
        ("calls", "last"), [(2, None), (3, "gentle"), (4, "gentle"), (5, "detailed"), (7, "detailed"), (8, "stop")]
    )
    def test_thresholds(self, calls, last):
        found = decided("kimi-cli", *["A"] * calls)
        assert (found[-1][1] if found else None) == last

    def test_the_twelfth_still_runs(self):
        assert denied("kimi-cli", *"A" * 11) == denied("kimi-cli", *"A" * 12) == []
        assert denied("kimi-cli", *"A" * 11, "B") == []
        assert denied("kimi-cli", *"A" * 12, "B") == [13]

    def test_twins_of_one_response_count_and_are_reminded_once(self):
        assert decided("kimi-cli", Together(("A",) * 5)) == []
        assert decided("kimi-cli", "A", "A", Together(("A",) * 3), "A") == [
            ("nudge", "gentle", 3, 3, 3),
            ("nudge", "detailed", 6, 6, 5),
        ]

    def test_a_twin_has_no_reminder_of_its_own(self):
        tiers = {"gentleThreshold": 1, "detailedThreshold": 2}
        assert decided("kimi-cli", Together(("A", "A")), **tiers) == [("nudge", "gentle", 1, 1, 1)]

    def test_what_resets(self):
        assert decided("kimi-cli", *"AABA") == []
        assert decided("kimi-cli", "A", "A", ANSWER, "A") == []
        assert decided("kimi-cli", "A", "A", USER, "A") == []
        assert denied("kimi-cli", *"A" * 12, USER, "A") == []

    def test_unparsed_arguments_are_no_call(self):
        torn = Does(args='{"what": "A')
        assert decided("kimi-cli", torn, torn, torn) == []
        assert nudged("kimi-cli", "A", Together((torn, "A")), "A") == [4]
        assert nudged("kimi-cli", "A", torn, "A", "A") == []

    def test_a_stop_is_lifted_by_the_user(self):
        assert denied("kimi-cli", *"A" * 13, USER, "B") == [13]


class TestZcode:
    @pytest.mark.parametrize(("calls", "found"), [(2, []), (3, [3]), (4, [3]), (9, [3])])
    def test_reminds_at_exactly_three(self, calls, found):
        assert nudged("zcode", *["A"] * calls) == found

    def test_three_reminders_a_turn(self):
        calls = [*"AAABBBCCCDDDEEE"]
        assert nudged("zcode", *calls) == [3, 6, 9]
        assert nudged("zcode", *calls, USER, *"AAA") == [3, 6, 9, 18]

    def test_a_user_message_begins_the_count(self):
        assert nudged("zcode", "A", "A", USER, "A") == []

    def test_the_budget_that_is_off_by_default(self):
        assert decided("zcode", *"ABCD", toolCallWarningThreshold=3) == [("nudge", "tool-call-budget", 3, 3, 3)]
        assert nudged("zcode", *"ABCD", toolCallWarningThreshold=3, maxBudgetWarningsPerTurn=0) == []
        assert nudged("zcode", *"AAAA", repeatedToolCallWarningThreshold=0) == []

    def test_a_number_in_the_argument_hides_the_loop(self):
        """The public case of 460 calls (R95)."""
        assert decided("zcode", *(Does("explore", {"query": f"noop{n}"}) for n in range(40))) == []


class TestCrewAI:
    @pytest.mark.parametrize(("acts", "found"), [("A", []), ("AA", [2]), ("AAA", [2, 3]), ("ABAB", []), ("AABA", [2])])
    def test_the_second_in_a_row(self, acts, found):
        assert denied("crewai", *acts) == found

    def test_the_decision(self):
        assert decided("crewai", *"AAA") == [("deny", "repeated-usage", index, 2, 2) for index in (2, 3)]

    def test_a_failed_call_is_no_use(self):
        assert denied("crewai", FAILS, FAILS, FAILS) == []
        assert denied("crewai", "B", FAILS, "B") == [3]
        assert denied("crewai", FAILS, "A", "A") == [3]

    def test_a_call_that_never_settles_was_used(self):
        assert denied("crewai", Does(result=None), Does(result=None)) == [2]

    def test_a_call_that_something_else_stopped_was_not(self):
        stopped = Does(result="no", denied_by="x@host")
        assert denied("crewai", stopped, stopped, Does(), Does()) == [4]

    def test_a_user_message_forgets(self):
        assert denied("crewai", "A", USER, "A") == []


class TestOpencode:
    @pytest.mark.parametrize(("calls", "found"), [(2, []), (3, [3]), (4, [3, 4])])
    def test_neighbours_in_one_response(self, calls, found):
        assert denied("opencode", Together(("A",) * calls)) == found

    def test_does_not_look_across_responses(self):
        """As anomalyco/opencode#25254 reports."""
        assert decided("opencode", *"AAAAAAAA") == []
        assert denied("opencode", Together(("A", "A")), Together(("A", "A"))) == []

    def test_another_call_between_hides_it(self):
        assert denied("opencode", Together(("A", "A", "B", "A"))) == []

    def test_the_order_of_names_matters(self):
        one, two = Does(args={"a": 1, "b": 2}), Does(args={"b": 2, "a": 1})
        assert denied("opencode", Together((one, two, one))) == []
        assert denied("opencode", Together((one, one, one))) == [3]

    def test_permission(self):
        assert denied("opencode", Together(("A",) * 3), permission="allow") == []
        assert denied("opencode", Together(("A",) * 3), permission="deny") == [3]

    def test_calls_without_a_step_are_a_response_each(self):
        assert short("opencode", trace(Together(("A",) * 4), steps=False)) == []
