"""loop-guard: every rule of its section."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards import registry
from guards.loop_guard import result_key
from guards.policy import ToolOutcome


def guard(**settings):
    return registry.build("loop-guard", settings=settings)


def shown(text, *, error=False):
    return ToolOutcome(({"type": "text", "text": text},), error)


def called(policy, *calls, agent="root"):
    """One letter a call (args, result text) of "x": r it runs, n and is nudged, d it is denied, its result unseen."""
    letters = []
    for args, text in calls:
        if policy.before_call(agent, "x", args) is not None:
            letters.append("d")
            continue
        nudge = policy.after_call(agent, "x", args, shown(text), executed=True)
        letters.append("r" if nudge is None else "n")
    return "".join(letters)


SAME = ({"q": 1}, "nothing found")


def test_defaults():
    effective = registry.configure("loop-guard").effective()
    assert effective == {"softThreshold": 4, "hardThreshold": 8, "resultHashChars": 4000}


def test_the_4th_to_7th_are_nudged_eight_run_and_the_ninth_is_denied():
    assert called(guard(), *[SAME] * 12) == "rrrnnnnrdddd"


def test_counts_and_limits():
    policy = guard(softThreshold=2, hardThreshold=4)
    nudges = [policy.after_call("root", "x", 1, shown("a"), executed=True) for _ in range(4)]
    assert [nudge and (nudge.kind, nudge.count, nudge.limit) for nudge in nudges] == [
        None,
        ("identical-result", 2, 2),
        ("identical-result", 3, 2),
        None,
    ]
    for _ in range(3):
        denial = policy.before_call("root", "x", 1)
        assert (denial.kind, denial.count, denial.limit) == ("identical-result", 4, 4)


@pytest.mark.parametrize(
    ("settings", "letters"),
    [
        ({"softThreshold": 0}, "r" * 8 + "dddd"),
        ({"hardThreshold": 0}, "rrr" + "n" * 9),
        ({"softThreshold": 0, "hardThreshold": 0}, "r" * 12),
        ({"softThreshold": 1, "hardThreshold": 2}, "nr" + "d" * 10),
        ({"softThreshold": 0, "hardThreshold": 1}, "r" + "d" * 11),
        ({"softThreshold": 7}, "rrrrrrnrdddd"),
    ],
)
def test_thresholds(settings, letters):
    assert called(guard(**settings), *[SAME] * 12) == letters


def test_another_result_or_another_call_starts_anew():
    policy = guard(softThreshold=2, hardThreshold=3)
    assert called(policy, (1, "a"), (1, "b"), (1, "a"), (1, "a")) == "rrrn"
    assert called(policy, (2, "a"), (1, "a"), (1, "a"), (1, "a"), (1, "a")) == "rrnrd"


def test_the_chain_freezes_at_its_own_denials_until_another_call_settles():
    policy = guard(softThreshold=0, hardThreshold=2)
    assert called(policy, SAME, SAME, SAME, SAME, SAME) == "rrddd"
    assert called(policy, ("other", "x"), SAME, SAME, SAME) == "rrrd"


def test_a_denied_call_of_others_is_an_error_result():
    policy = guard(softThreshold=2, hardThreshold=3)
    denial = shown("not run", error=True)
    counts = [policy.after_call("root", "x", 1, denial, executed=False) for _ in range(2)]
    assert [nudge and nudge.count for nudge in counts] == [None, 2]
    assert policy.after_call("root", "x", 1, shown("not run"), executed=True) is None


def test_calls_of_one_step_are_judged_before_their_results():
    """The count may exceed the limit then, and no call is nudged from the limit on."""
    policy = guard(softThreshold=2, hardThreshold=3)
    assert [policy.before_call("root", "x", 1) for _ in range(5)] == [None] * 5
    nudges = [policy.after_call("root", "x", 1, shown("a"), executed=True) for _ in range(5)]
    assert [nudge and nudge.count for nudge in nudges] == [None, 2, None, None, None]
    denial = policy.before_call("root", "x", 1)
    assert (denial.count, denial.limit) == (5, 3)


def test_nothing_in_the_arguments_is_ignored():
    policy = guard(softThreshold=2)
    assert called(policy, ({"c": 1, "description": "a"}, "r"), ({"c": 1, "description": "b"}, "r")) == "rr"
    assert called(policy, ({"c": 1, "d": 2}, "r"), ({"d": 2.0, "c": 1}, "r")) == "rn"


def test_the_tool_is_part_of_the_key():
    policy = guard(softThreshold=2)
    for tool in ("a", "b", "a"):
        assert policy.after_call("root", tool, {}, shown("r"), executed=True) is None


def test_a_user_message_resets_the_chain_of_its_agent():
    policy = guard(softThreshold=0, hardThreshold=2)
    for agent in ("root", "s1"):
        assert called(policy, SAME, SAME, SAME, agent=agent) == "rrd"
    policy.user_message("root")
    assert called(policy, SAME, SAME, SAME, agent="root") == "rrd"
    assert called(policy, SAME, agent="s1") == "d"


def test_nothing_else_resets_it():
    policy = guard(softThreshold=0, hardThreshold=2)
    called(policy, SAME, SAME)
    policy.model_response("root", 1)
    policy.after_compaction("root", "manual", "committed")
    policy.reset("root")
    assert called(policy, SAME) == "d"


def test_arguments_that_are_no_json_start_a_new_chain():
    policy = guard(softThreshold=2, hardThreshold=3)
    assert called(policy, ({1}, "a"), ({1}, "a"), ({1}, "a"), SAME, SAME, ({1}, "a"), SAME) == "rrrrnrr"


def test_texts():
    policy = guard(softThreshold=2, hardThreshold=3)
    nudge = [policy.after_call("root", "x", 1, shown("a"), executed=True) for _ in range(3)][1]
    assert nudge.text == (
        "The last 2 calls of x had the same arguments and gave the same result; one more will tell you nothing new. "
        "After 3 identical calls in a row this exact call will be denied. Act on what you know: take a different step, "
        "or finish with what you have."
    )
    assert policy.before_call("root", "x", 1).reason == (
        "This call was not run: the last 3 calls of x had the same arguments and gave the same result, and the limit "
        "is 3. Act on what you know: take a different step, or finish with what you have."
    )


def test_a_nudge_without_a_hard_threshold_threatens_nothing():
    policy = guard(softThreshold=1, hardThreshold=0)
    assert "denied" not in policy.after_call("root", "x", 1, shown("a"), executed=True).text


def key(*blocks, error=False, characters=4000, message=None):
    return result_key(ToolOutcome(blocks, error, message), characters).decode("utf-16-le", "surrogatepass")


def test_what_is_compared_is_the_text_of_json_stringify():
    text = {"type": "text", "text": 'é"\n😀\ud83d/'}
    assert key(text) == '[{"type":"text","text":"é\\"\\n😀\\ud83d/"}]'
    assert key() == "[]"
    assert key(text, text, error=True) == (
        '["error","é\\"\\n😀\\ud83d/é\\"\\n😀\\ud83d/",['
        '{"type":"text","text":"é\\"\\n😀\\ud83d/"},{"type":"text","text":"é\\"\\n😀\\ud83d/"}]]'
    )
    assert key(text, error=True, message="m").startswith('["error","m",[')


def test_other_blocks_are_written_in_the_order_of_their_keys():
    assert key({"type": "image", "n": 1.0, "a": [1e21, -0.0]}) == '[{"type":"image","n":1,"a":[1e+21,0]}]'
    assert key({"b": 1, "a": 2}) != key({"a": 2, "b": 1})


def test_a_result_that_is_no_json_is_like_no_other():
    policy = guard(softThreshold=2)
    odd = ToolOutcome(({"type": "blob", "data": b"x"},))
    assert [policy.after_call("root", "x", 1, odd, executed=True) for _ in range(4)] == [None] * 4


def test_the_prefix_is_counted_in_utf_16_units():
    head = len('[{"type":"text","text":"')
    one, other = {"type": "text", "text": "😀a"}, {"type": "text", "text": "😀b"}
    for characters in (1, head, head + 1, head + 2):
        assert key(one, characters=characters) == key(other, characters=characters)
    assert key(one, characters=head + 1) != key({"type": "text", "text": "xa"}, characters=head + 1)
    assert key(one, characters=head + 1) == key({"type": "text", "text": "😁"}, characters=head + 1)
    assert key(one, characters=head + 3) != key(other, characters=head + 3)


def test_results_that_differ_behind_the_prefix_are_the_same():
    first, second = ({"q": 1}, "x" * 50 + "a"), ({"q": 1}, "x" * 50 + "b")
    assert called(guard(softThreshold=2, resultHashChars=60), first, second) == "rn"
    assert called(guard(softThreshold=2, resultHashChars=80), first, second) == "rr"
    assert called(guard(softThreshold=2, resultHashChars=1), (1, "a"), (1, "b")) == "rn"


def test_an_error_is_not_the_same_as_its_text():
    policy = guard(softThreshold=2)
    for error in (False, True, False, True):
        assert policy.after_call("root", "x", 1, shown("a", error=error), executed=True) is None


@given(
    st.lists(st.tuples(st.sampled_from("rs"), st.integers(0, 1), st.integers(0, 1)), max_size=60),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_the_rule_in_plain_words(calls, soft, more):
    """The calls that settled since the last user message of each agent, kept as a plain list."""
    hard = soft + more if soft and more else more
    policy = guard(softThreshold=soft, hardThreshold=hard)
    settled: dict[str, list[tuple[int, str]]] = {"r": [], "s": []}
    for agent, args, result in calls:
        mine = settled[agent]
        run = next((n for n, each in enumerate(reversed(mine)) if each != mine[-1]), len(mine))
        denial = policy.before_call(agent, "x", args)
        if hard and run >= hard and mine[-1][0] == args:
            assert (denial.count, denial.limit) == (run, hard)
            continue
        assert denial is None
        mine.append((args, str(result)))
        run = next((n for n, each in enumerate(reversed(mine)) if each != mine[-1]), len(mine))
        nudge = policy.after_call(agent, "x", args, shown(str(result)), executed=True)
        if soft and soft <= run and (hard == 0 or run < hard):
            assert (nudge.count, nudge.limit) == (run, soft)
        else:
            assert nudge is None
