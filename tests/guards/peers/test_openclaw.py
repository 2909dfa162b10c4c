"""OpenClaw: off by default; warnings at 10, vetoes at 20, by what the calls' results were."""

from __future__ import annotations

import pytest

from tests.guards.peers.script import USER, Does, Together, decided, denied, nudged


def changing(count, tool="look", **args):
    return [Does(tool, args, str(n)) for n in range(count)]


def test_off_by_default():
    assert decided("openclaw", *"A" * 40) == []


class TestGeneric:
    def test_warns_with_ten_behind_it_and_vetoes_with_twenty(self):
        found = decided("openclaw", *"A" * 40, preset="on")
        assert found[0] == ("nudge", "generic-repeat", 11, 10, 10)
        assert found[1:] == [("deny", "generic-repeat", index, 20, 20) for index in range(21, 41)]

    @pytest.mark.parametrize(("calls", "warned"), [(10, []), (11, [11]), (20, [11])])
    def test_the_warning(self, calls, warned):
        assert nudged("openclaw", *"A" * calls, preset="on") == warned

    @pytest.mark.parametrize(("calls", "stopped"), [(20, []), (21, [21]), (22, [21, 22])])
    def test_the_veto(self, calls, stopped):
        assert denied("openclaw", *"A" * calls, preset="on") == stopped

    def test_the_count_of_a_veto_is_frozen(self):
        """As openclaw/openclaw#127701 reports: the breaker at 30 is never reached."""
        assert {each[3] for each in decided("openclaw", *"A" * 60, preset="on") if each[0] == "deny"} == {20}

    def test_a_veto_is_of_that_call_alone(self):
        assert denied("openclaw", *"A" * 21, "B", "A", preset="on") == [21, 23]

    def test_changing_results_are_only_warned_about(self):
        """As #73763 reports, at 10, 20 and 30."""
        found = decided("openclaw", *changing(40), preset="on")
        assert found == [("nudge", "generic-repeat", at + 1, at, 10) for at in (10, 20, 30)]

    def test_other_calls_between_do_not_reset(self):
        acts = [each for n in range(12) for each in ("A", f"b{n}")]
        assert nudged("openclaw", *acts, preset="on") == [21]

    def test_the_history_holds_thirty(self):
        acts = ["A"] * 9 + [f"b{n}" for n in range(21)] + ["A"] * 9
        assert nudged("openclaw", *acts, preset="on") == []

    def test_a_user_message_begins_a_run(self):
        assert decided("openclaw", *"A" * 10, USER, *"A" * 10, preset="on") == []


class TestPingPong:
    def test_warns_at_the_tenth_and_vetoes_at_the_twentieth(self):
        assert decided("openclaw", *"AB" * 10, preset="on") == [
            ("nudge", "ping-pong", 10, 10, 10),
            ("deny", "ping-pong", 20, 20, 20),
        ]
        assert decided("openclaw", *"AB" * 4, "A", preset="on") == []
        assert denied("openclaw", *"AB" * 9, "A", "C", preset="on") == []

    def test_one_half_is_blocked_and_the_other_runs_on(self):
        """As #64500 reports: the call that is not blocked comes twice, and the count begins again."""
        assert denied("openclaw", *"AB" * 14, preset="on") == [20]

    def test_a_side_that_changes_is_only_warned_about(self):
        acts = [each for n in range(14) for each in (Does("left", {}, "same"), Does("right", {}, str(n)))]
        assert nudged("openclaw", *acts, preset="on")[:2] == [10, 20]
        assert denied("openclaw", *acts, preset="on") == []

    def test_switched_off(self):
        assert decided("openclaw", *"AB" * 9, preset="on", pingPong=False) == []


class TestPolls:
    @pytest.mark.parametrize(
        "poll",
        [Does("command_status", {"id": 1}), Does("process", {"action": "poll"}), Does("process", {"action": "log"})],
    )
    def test_a_poll_without_progress(self, poll):
        found = decided("openclaw", *[poll] * 21, preset="on")
        assert found == [
            ("nudge", "known-poll-no-progress", 11, 10, 10),
            ("deny", "known-poll-no-progress", 21, 20, 20),
        ]

    def test_a_poll_that_changes_is_let_be(self):
        assert decided("openclaw", *changing(29, "command_status"), preset="on") == []

    def test_another_action_is_no_poll(self):
        assert decided("openclaw", *[Does("process", {"action": "kill"})] * 11, preset="on")[0][1] == "generic-repeat"
        assert decided("openclaw", *[Does("process", "poll")] * 11, preset="on")[0][1] == "generic-repeat"


def test_the_breaker_goes_before_all():
    found = decided("openclaw", *"A" * 4, preset="on", globalCircuitBreakerThreshold=3, criticalThreshold=3)
    assert found == [("deny", "global-circuit-breaker", 4, 3, 3)]


def test_denials_of_others_are_results():
    stopped = Does(result="no", denied_by="x@host")
    assert denied("openclaw", *[stopped] * 21, preset="on") == [21]


def test_small_thresholds():
    assert decided("openclaw", *"ABA", preset="on", warningThreshold=3) == [("nudge", "ping-pong", 3, 3, 3)]
    assert decided("openclaw", "A", preset="on", warningThreshold=1) == []
    assert decided("openclaw", *"AA", preset="on", warningThreshold=1) == [("nudge", "generic-repeat", 2, 1, 1)]


def test_calls_of_one_response_are_seen_before_they_settle():
    assert decided("openclaw", Together(("A",) * 12), preset="on") == [("nudge", "generic-repeat", 11, 10, 10)]


def test_calls_that_never_settle_are_no_evidence():
    assert denied("openclaw", *[Does(result=None)] * 30, preset="on") == []
