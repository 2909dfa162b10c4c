"""compaction-breaker: every rule of its section."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards import registry
from guards.errors import UserError


def breaker(preset=None, **settings):
    return registry.build("compaction-breaker", preset, settings)


def played(policy, script, agent="root"):
    """The attempts of a script: a committed, l refused as latched, r refused and latched.

    In the script t is a tool turn, s a step without calls, p and o are automatic attempts that commit if they may, f
    one that fails, n one that finds nothing, x one that another guard refuses; m and k are by hand, committed or not; z
    is the reset command and u a user message.
    """
    outcomes = {"f": "failed", "n": "nothing", "x": "refused", "k": "nothing"}
    letters = []
    for each in script:
        if each in "ts":
            policy.model_response(agent, 2 if each == "t" else 0)
        elif each == "z":
            policy.reset(agent)
        elif each == "u":
            policy.user_message(agent)
        else:
            trigger = "overflow" if each == "o" else "manual" if each in "mk" else "pressure"
            refusal = policy.before_compaction(agent, trigger)
            letters.append("a" if refusal is None else refusal.kind[0])
            if refusal is None:
                policy.after_compaction(agent, trigger, outcomes.get(each, "committed"))
    return "".join(letters)


def test_defaults():
    effective = registry.configure("compaction-breaker").effective()
    assert effective == {
        "toolTurnThreshold": 2,
        "maxConsecutiveRapidRefills": 3,
        "announceInPrompt": True,
        "variant": "ours",
    }


def test_free_rapid_rapid_and_the_third_rapid_one_is_refused():
    policy = breaker()
    assert played(policy, "tptptptptp") == "aaarl"
    refusal = policy.before_compaction("root", "pressure")
    assert (refusal.kind, refusal.count, refusal.limit) == ("latched", 2, 3)
    assert "smaller chunks" in refusal.reason
    assert "start a new task" in refusal.reason
    assert "/compaction-breaker reset" in refusal.reason


def test_the_refusal_that_latches_has_the_committed_count():
    policy = breaker(maxConsecutiveRapidRefills=2)
    assert played(policy, "pp") == "aa"
    refusal = policy.before_compaction("root", "overflow")
    assert (refusal.kind, refusal.count, refusal.limit) == ("rapid-refill", 1, 2)


@pytest.mark.parametrize("threshold", [1, 2, 3, 7])
def test_fewer_turns_than_the_threshold_are_rapid_and_exactly_as_many_are_not(threshold):
    policy = breaker(toolTurnThreshold=threshold, maxConsecutiveRapidRefills=1)
    assert played(policy, "p" + "t" * threshold + "p" + "t" * threshold + "p") == "aaa"
    assert played(policy, "t" * (threshold - 1) + "p") == "r"


def test_the_first_attempt_is_free_whatever_came_before():
    assert played(breaker(maxConsecutiveRapidRefills=1), "p") == "a"
    assert played(breaker(maxConsecutiveRapidRefills=1), "fffp") == "aaaa"


def test_steps_without_a_call_do_not_move_the_clock():
    assert played(breaker(maxConsecutiveRapidRefills=1), "ptssssp") == "ar"
    assert played(breaker(maxConsecutiveRapidRefills=1), "ptsstp") == "aa"


def test_a_healthy_gap_clears_the_count():
    assert played(breaker(), "ptptp" + "ttp" + "tptptp") == "aaa" + "a" + "aar"


def test_both_automatic_triggers_are_gated():
    assert played(breaker(), "opoopo") == "aaarll"


def test_what_does_not_replace_the_surface_moves_nothing():
    """Failed, nothing to do, refused by others: neither the count nor the mark."""
    assert played(breaker(), "p" + "fnx" * 9 + "pp" + "p") == "a" + "a" * 27 + "aa" + "r"
    for attempt in "fnx":
        assert played(breaker(maxConsecutiveRapidRefills=1), f"ptt{attempt}tp") == "aaa"


def test_a_refusal_moves_neither_the_count_nor_the_mark():
    policy = breaker(toolTurnThreshold=3)
    assert played(policy, "ppp" + "pttttp") == "aaa" + "rl"
    assert policy.before_compaction("root", "pressure").count == 2


def test_the_latch_holds_whatever_the_gap():
    assert played(breaker(), "pppp" + "t" * 50 + "puotp") == "aaar" + "lll"


@pytest.mark.parametrize("way_out", ["m", "z"])
def test_out_of_a_trip(way_out):
    policy = breaker()
    assert played(policy, "pppp" + way_out).rstrip("a") == "aaar"
    assert played(policy, "p" + "p" + "p") == "aar"


@pytest.mark.parametrize("way_out", ["m", "z"])
def test_a_reset_sets_the_mark_to_now_and_leaves_the_clock(way_out):
    policy = breaker(maxConsecutiveRapidRefills=1)
    assert played(policy, "ttt" + way_out + "tp").strip("a") == "r"
    policy = breaker(maxConsecutiveRapidRefills=1)
    assert played(policy, "ttt" + way_out + "ttp").strip("a") == ""


@pytest.mark.parametrize("way_out", ["m", "z"])
def test_a_reset_clears_the_count_untripped_too(way_out):
    policy = breaker()
    assert played(policy, "ppp" + way_out).strip("a") == ""
    assert played(policy, "ppp") == "aar"


def test_by_hand_is_never_gated_and_one_that_commits_nothing_changes_nothing():
    policy = breaker()
    assert played(policy, "pppp" + "kkk" + "p") == "aaar" + "aaa" + "l"
    assert played(policy, "m" + "k" + "ppp") == "aa" + "aar"


def test_a_user_message_changes_nothing():
    assert played(breaker(), "pupupupu") == "aaar"


def test_agents_are_apart():
    policy = breaker()
    assert played(policy, "pppp", "root") == "aaar"
    assert played(policy, "pppp", "s1") == "aaar"
    policy.reset("root")
    assert played(policy, "p", "root") + played(policy, "p", "s1") == "al"


def test_the_preset_of_zcode_is_three_turns():
    assert registry.configure("compaction-breaker", "zcode").effective()["toolTurnThreshold"] == 3
    assert played(breaker("zcode", maxConsecutiveRapidRefills=1), "pttp") == "ar"
    assert played(breaker("zcode", maxConsecutiveRapidRefills=1), "ptttp") == "aa"
    assert played(breaker("zcode", toolTurnThreshold=2, maxConsecutiveRapidRefills=1), "pttp") == "aa"


def test_the_literal_preset_is_live_only():
    assert registry.configure("compaction-breaker", "upstream-literal").effective()["variant"] == "upstream-literal"
    with pytest.raises(UserError, match="compaction-breaker: upstream-literal is live only"):
        breaker("upstream-literal")


def test_keys_of_the_base_engine_are_taken_and_passed_on():
    base = {
        "thresholdRatio": 0.6,
        "retainRatio": 0.1,
        "retainTokens": "whatever",
        "headroomTokens": 256,
        "summarizationProvider": "p",
        "summarizationModel": "m",
        "maxTokens": 200,
        "compactionRetries": 1,
        "maxOverflowRetries": 2,
        "modelPolicies": [{"deep": [1]}],
        "auto": True,
    }
    own = registry.configure("compaction-breaker").effective()
    assert registry.configure("compaction-breaker", settings=base).effective() == own | base
    assert played(breaker(**base), "pppp") == "aaar"


def test_calls_change_nothing():
    policy = breaker()
    assert policy.before_call("root", "x", {}) is None
    assert played(policy, "pppp") == "aaar"


@given(st.text("tspofnxmkzu", max_size=40), st.integers(1, 4), st.integers(1, 4))
def test_the_rule_in_plain_words(script, threshold, limit):
    turns, mark, rapid, tripped, expected = 0, None, 0, False, ""
    for each in script:
        turns += each == "t"
        if each in "pofnx":
            projected = rapid + 1 if mark is not None and turns - mark < threshold else 0
            refused = tripped or projected >= limit
            expected += "l" if tripped else "r" if refused else "a"
            tripped = refused
            if each in "po" and not refused:
                rapid, mark = projected, turns
        elif each in "mk":
            expected += "a"
        if each in "mz":
            rapid, tripped, mark = 0, False, turns
    policy = breaker(toolTurnThreshold=threshold, maxConsecutiveRapidRefills=limit)
    assert played(policy, script) == expected
