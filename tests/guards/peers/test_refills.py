"""The rapid-refill breakers of ZCode and of Claude Code."""

from __future__ import annotations

import pytest

from guards import registry
from results.trace_file import read_trace
from runners.replay import replay
from tests.guards.peers.script import ANSWER, USER, Compacts, decided
from tests.guards.peers.test_peers import CORPUS

BOTH = pytest.mark.parametrize("name", ["zcode-refill", "claude-code"])


def refused(name, *acts, **settings):
    """The places of the refused attempts."""
    return [each[2] for each in decided(name, *acts, **settings) if each[0] == "refuse"]


@BOTH
class TestBoth:
    def test_the_third_rapid_one_is_refused_and_the_run_is_over(self, name):
        assert decided(name, Compacts(), *[Compacts(2)] * 4, "A", "B") == [
            ("refuse", "rapid-refill", 4, 3, 3),
            ("refuse", "halted", 5, 3, 3),
            ("deny", "halted", 1, 3, 3),
            ("deny", "halted", 2, 3, 3),
        ]

    @pytest.mark.parametrize(("turns", "found"), [(0, [4]), (1, [4]), (2, [4]), (3, []), (4, [])])
    def test_fewer_than_three_tool_turns_are_rapid(self, name, turns, found):
        assert refused(name, Compacts(), *[Compacts(turns)] * 3) == found

    def test_a_healthy_gap_clears(self, name):
        assert refused(name, Compacts(), Compacts(1), Compacts(1), Compacts(3), Compacts(1), Compacts(1)) == []

    def test_answers_are_no_tool_turns(self, name):
        assert refused(name, Compacts(), *[ANSWER, ANSWER, ANSWER, Compacts(0)] * 3) == [4]

    def test_manual_ones_are_never_refused_and_set_the_clock_back(self, name):
        manual = Compacts(9, trigger="manual")
        assert refused(name, Compacts(), *[Compacts(1)] * 2, manual, Compacts(0)) == [5]
        assert refused(name, Compacts(), *[Compacts(1)] * 3, Compacts(0, trigger="manual")) == [4]

    def test_context_errors_count_like_pressure(self, name):
        assert refused(name, Compacts(), *[Compacts(1, trigger="overflow")] * 3) == [4]

    def test_settings(self, name):
        assert refused(name, Compacts(), Compacts(4), rapidRefillToolTurnThreshold=5, maxConsecutiveRapidRefills=1) == [
            2
        ]


class TestZcode:
    def test_the_streak_is_kept_when_one_succeeds(self):
        failing = Compacts(1, "failed")
        assert refused("zcode-refill", Compacts(), failing, failing, failing, Compacts(0)) == []

    def test_a_user_message_begins_a_turn(self):
        acts = [Compacts(), Compacts(1), Compacts(1), USER, Compacts(1), Compacts(1), Compacts(1)]
        assert refused("zcode-refill", *acts) == []
        assert refused("zcode-refill", *acts, Compacts(1)) == [7]
        assert decided("zcode-refill", Compacts(), *[Compacts(1)] * 3, USER, "A")[-1][0] == "refuse"

    @pytest.mark.parametrize("file", CORPUS, ids=lambda path: path.stem)
    def test_it_trips_where_our_preset_of_that_name_does(self, file):
        """Up to the first refusal they are one rule, where no user speaks and none compacts by hand."""
        trace = read_trace(file)
        ours = list(replay(trace, registry.build("compaction-breaker", "zcode")))
        theirs = [each for each in replay(trace, registry.build("peer:zcode-refill")) if each.action == "refuse"]
        if "manual" not in file.stem and "reset" not in file.stem:
            assert [each.index for each in ours] == [each.index for each in theirs]


class TestClaudeCode:
    def test_the_streak_moves_with_the_attempt(self):
        acts = [Compacts(), Compacts(1, "nothing"), Compacts(0, "nothing"), Compacts(0)]
        assert refused("claude-code", *acts) == [4]

    def test_a_user_message_forgets_nothing(self):
        """As anthropics/claude-code#72857 reports: it fires on a later, short prompt."""
        assert decided("claude-code", Compacts(), *[Compacts(1)] * 3, USER, "A", Compacts(0)) == [
            ("refuse", "rapid-refill", 4, 3, 3),
            ("refuse", "rapid-refill", 5, 4, 3),
        ]

    @pytest.mark.parametrize(("failed", "found"), [(2, []), (3, [4])])
    def test_three_failures_in_a_row(self, failed, found):
        assert refused("claude-code", *[Compacts(9, "failed")] * failed, Compacts(9)) == found

    def test_what_is_no_failure_of_automatic_compaction(self):
        for other in (Compacts(9, "nothing"), Compacts(9, "refused"), Compacts(9, "failed", "manual")):
            assert refused("claude-code", *[other] * 3, Compacts(9)) == []

    def test_failures_do_not_end_the_run(self):
        assert decided("claude-code", *[Compacts(9, "failed")] * 3, Compacts(9), "A", Compacts(9)) == [
            ("refuse", "consecutive-failures", 4, 3, 3),
            ("refuse", "consecutive-failures", 5, 3, 3),
        ]
        manual = Compacts(9, trigger="manual")
        assert refused("claude-code", *[Compacts(9, "failed")] * 3, manual, Compacts(9)) == []

    def test_a_success_between(self):
        failed = Compacts(9, "failed")
        assert refused("claude-code", failed, failed, Compacts(9), failed, failed, Compacts(9)) == []
