"""Hermes: failures, unchanged reads, rounds, the cap on searches; blocks and halts where nobody watches."""

from __future__ import annotations

import pytest

from tests.guards.peers.script import USER, Does, decided, denied, nudged


def fails(args=1, tool="look"):
    return Does(tool, {"args": args}, f"no {args}", error=True)


def reads(*shown):
    return [Does("read_file", {"path": "a"}, text) for text in shown]


EDIT = Does("patch", {"path": "a"}, "done")
RUN = Does("terminal", {"command": "test"}, "passed")


def hard(*acts, **settings):
    return decided("hermes", *acts, preset="unattended", **settings)


class TestExactFailure:
    def test_warned_from_the_second_on(self):
        assert decided("hermes", *[fails()] * 4, identicalThreshold=9) == [
            ("nudge", "exact-failure", index, index, 2) for index in (2, 3, 4)
        ]

    @pytest.mark.parametrize(("calls", "found"), [(5, []), (6, [6]), (7, [6, 7])])
    def test_blocked_behind_the_fifth(self, calls, found):
        acts = [each for n in range(calls) for each in (fails(), f"b{n}")][:-1]
        assert denied("hermes", *acts, preset="unattended", sameToolFailureHaltAfter=99) == [2 * n - 1 for n in found]

    def test_the_block_is_of_that_call_alone(self):
        acts = [each for n in range(6) for each in (fails(), f"b{n}")]
        assert [each for each in hard(*acts) if each[0] == "deny"] == [("deny", "exact-failure", 11, 5, 5)]

    def test_never_blocked_where_a_person_watches(self):
        assert denied("hermes", *[fails()] * 20) == []

    def test_a_success_clears(self):
        well = Does("look", {"args": 1}, "well")
        assert nudged("hermes", fails(), well, fails()) == []

    def test_an_edit_between_makes_it_a_first_again(self):
        acts = [each for _ in range(8) for each in (EDIT, fails(tool="terminal"))]
        assert denied("hermes", *acts, preset="unattended", identicalThreshold=99, noProgressBlockAfter=99) == []
        assert nudged("hermes", *acts, identicalThreshold=99) == []

    def test_but_only_once(self):
        red = fails(tool="terminal")
        assert decided("hermes", red, EDIT, red, red) == [("nudge", "exact-failure", 4, 2, 2)]
        assert denied("hermes", red, EDIT, red, red, preset="unattended", exactFailureBlockAfter=1) == [4]

    def test_a_call_that_is_no_progress_does_not(self):
        acts = [each for n in range(2) for each in (fails(), f"b{n}")]
        assert nudged("hermes", *acts) == [3]


class TestSameToolFailure:
    def test_warned_from_the_third_on_and_halted_at_the_eighth(self):
        assert hard(*(fails(n) for n in range(10))) == [
            *(("nudge", "same-tool-failure", n, n, 3) for n in range(3, 8)),
            ("deny", "same-tool-failure", 9, 8, 8),
            ("deny", "halted", 10, 8, 8),
        ]

    @pytest.mark.parametrize(("calls", "found"), [(7, []), (8, [9])])
    def test_the_halt(self, calls, found):
        assert denied("hermes", *(fails(n) for n in range(calls)), "B", preset="unattended") == found

    def test_a_tolerant_tool_is_never_halted(self):
        assert denied("hermes", *(fails(n, "terminal") for n in range(30)), preset="unattended") == []

    def test_a_success_of_it_or_of_a_progress_tool_clears(self):
        assert nudged("hermes", fails(1), fails(2), "well", fails(3)) == []
        assert nudged("hermes", fails(1), fails(2), EDIT, fails(3)) == []
        assert nudged("hermes", fails(1), fails(2), Does("other"), fails(3)) == [4]


class TestNoProgress:
    def test_warned_from_the_second_on(self):
        assert decided("hermes", *reads(*"111"), identicalThreshold=9) == [
            ("nudge", "no-progress", 2, 2, 2),
            ("nudge", "no-progress", 3, 3, 2),
        ]

    def test_blocked_behind_the_fifth_also_when_others_stand_between(self):
        acts = [each for n, read in enumerate(reads(*"1" * 7)) for each in (read, f"b{n}")]
        assert denied("hermes", *acts, preset="unattended") == [11, 13]

    def test_a_change_begins_anew(self):
        assert denied("hermes", *reads(*"1111211112"), preset="unattended") == []
        assert nudged("hermes", *reads(*"123")) == []

    def test_a_failure_forgets(self):
        lost = Does("read_file", {"path": "a"}, "gone", error=True)
        assert nudged("hermes", *reads("1"), lost, *reads("1")) == []

    def test_the_least_threshold(self):
        assert denied("hermes", *reads(*"11"), preset="unattended", noProgressBlockAfter=1) == [2]

    def test_other_tools_are_not_looked_at(self):
        assert nudged("hermes", "A", "A") == []


class TestRounds:
    @pytest.mark.parametrize(("calls", "found"), [(2, []), (3, [3]), (4, [3, 4])])
    def test_a_notice_from_the_third_identical_on(self, calls, found):
        assert nudged("hermes", *[RUN] * calls) == found

    def test_halted_at_the_fifth(self):
        assert hard(*[RUN] * 7) == [
            *(("nudge", "identical-call", n, n, 3) for n in (3, 4, 5)),
            ("deny", "identical-call", 6, 5, 5),
            ("deny", "halted", 7, 5, 5),
        ]

    def test_a_result_that_changes_is_no_round(self):
        assert decided("hermes", *(Does("terminal", {}, str(n)) for n in range(9))) == []

    @pytest.mark.parametrize("length", [2, 3, 4])
    def test_cycles(self, length):
        acts = [*"ABCD"[:length]] * 6
        found = hard(*acts)
        assert found[0] == ("nudge", f"identical-cycle-{length}", 3 * length, 3, 3)
        stops = [each for each in found if each[0] == "deny"]
        assert stops[0] == ("deny", f"identical-cycle-{length}", 5 * length + 1, 5, 5)
        assert len(stops) == length

    def test_a_cycle_of_five_is_not_seen(self):
        assert decided("hermes", *"ABCDE" * 6) == []

    def test_pollers_are_exempt(self):
        """One other call in the cycle is enough to arm it."""
        first, second = Does("job_poll", {}, "wait"), Does("task_get_result", {}, "wait")
        assert decided("hermes", *[first] * 9) == []
        assert decided("hermes", *[Does("process_manage", {}, "wait")] * 9) == []
        assert decided("hermes", *[first, second] * 6) == []
        assert nudged("hermes", *[first, "A"] * 3) == [6]

    def test_the_warning_goes_before_the_notice(self):
        assert [each[1] for each in decided("hermes", *reads(*"1111"))] == ["no-progress"] * 3
        assert [each[1] for each in decided("hermes", *reads(*"1111"), warningsEnabled=False)] == ["identical-call"] * 2


class TestSearches:
    def test_the_fifty_first_is_blocked_always(self):
        acts = [Does("web_search", {"q": n}, str(n)) for n in range(52)]
        assert decided("hermes", *acts, "A") == [("deny", "web-search-cap", n, 50, 50) for n in (51, 52)]
        assert denied("hermes", *acts, USER, *acts[:1]) == [51, 52]

    def test_only_searches_that_ran_count(self):
        stopped = Does("web_search", {"q": 0}, "no", denied_by="x@host")
        acts = [stopped, *"ABC", *(Does("web_search", {"q": n}, str(n)) for n in range(3))]
        assert denied("hermes", *acts, maxWebSearches=2) == [7]
        assert denied("hermes", *acts, maxWebSearches=1) == [6, 7]

    def test_zero_is_no_cap(self):
        assert decided("hermes", *(Does("web_search", {"q": n}, str(n)) for n in range(60)), maxWebSearches=0) == []


def test_a_user_message_begins_a_turn():
    assert decided("hermes", fails(), USER, fails(), USER, *reads("1"), USER, *reads("1"), RUN, RUN, USER, RUN) == []
    assert denied("hermes", *[RUN] * 6, USER, RUN, preset="unattended") == [6]
