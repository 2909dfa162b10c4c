"""repeat-reminder: every rule of its section."""

import pytest

from guards import registry
from guards.policy import ToolOutcome

RESULT = ToolOutcome(({"type": "text", "text": "r"},))


def reminder(**settings):
    return registry.build("repeat-reminder", settings=settings)


def nudged(policy, *calls, agent="root"):
    """The 1-based places of the calls (tool, args) that are nudged."""
    return [
        place
        for place, (tool, args) in enumerate(calls, start=1)
        if policy.after_call(agent, tool, args, RESULT, executed=True) is not None
    ]


def test_defaults():
    assert registry.configure("repeat-reminder").effective() == {
        "thresholds": [3, 5, 8],
        "include": [],
        "exclude": [],
        "argumentsPreviewChars": 500,
    }


def test_a_nudge_at_exactly_each_threshold_and_none_after_the_last():
    assert nudged(reminder(), *[("x", {"q": 1})] * 40) == [3, 5, 8]
    assert nudged(reminder(thresholds=[7, 2]), *[("x", {"q": 1})] * 40) == [2, 7]


def test_kind_count_and_limit():
    policy = reminder(thresholds=[2])
    nudges = [policy.after_call("root", "x", 1, RESULT, executed=True) for _ in range(2)]
    assert nudges[0] is None
    assert (nudges[1].kind, nudges[1].count, nudges[1].limit) == ("repeat", 2, 2)


def test_another_call_starts_anew():
    a, b = ("x", {"a": 1, "b": 2}), ("x", {"b": 2, "a": 1})
    assert nudged(reminder(), a, b, a) == [3]
    assert nudged(reminder(), a, a, ("y", a[1]), a, a, ("x", 1), a, a, a) == [9]


def test_results_are_not_looked_at_and_denied_calls_count():
    policy = reminder()
    for result, executed in ((RESULT, True), (ToolOutcome((), error=True), False)):
        assert policy.after_call("root", "x", 1, result, executed=executed) is None
    assert policy.after_call("root", "x", 1, ToolOutcome(()), executed=False) is not None


@pytest.mark.parametrize(
    ("settings", "transparent"),
    [
        ({"exclude": ["poll"]}, "poll"),
        ({"exclude": ["z", "po*"]}, "poll"),
        ({"exclude": ["*l*"]}, "poll"),
        ({"include": ["x"]}, "poll"),
        ({"include": ["x", "poll"], "exclude": ["poll"]}, "poll"),
        ({"include": ["?", "x*"]}, "?x"),
        ({"include": ["x"]}, "xx"),
        ({"exclude": ["a.c"]}, "a.c"),
    ],
)
def test_excluded_tools_are_transparent(settings, transparent):
    calls = [("x", 1), (transparent, 1), ("x", 1), *[(transparent, 1)] * 9, ("x", 1)]
    assert nudged(reminder(**settings), *calls) == [13]


@pytest.mark.parametrize(
    ("settings", "tool"),
    [
        ({"exclude": ["a.c"]}, "abc"),
        ({"exclude": ["a*c"]}, "a\nc"),
        ({"exclude": ["a"]}, "A"),
        ({"include": ["*"]}, ""),
    ],
)
def test_patterns_match_no_more_than_they_say(settings, tool):
    assert nudged(reminder(**settings), *[(tool, 1)] * 3) == [3]


def test_a_user_message_resets_its_agent():
    policy = reminder()
    for agent in ("root", "s1"):
        assert nudged(policy, *[("x", 1)] * 2, agent=agent) == []
    policy.user_message("root")
    assert nudged(policy, *[("x", 1)] * 3, agent="root") == [3]
    assert nudged(policy, ("x", 1), agent="s1") == [1]


def test_it_never_denies():
    policy = reminder()
    for _ in range(20):
        assert policy.before_call("root", "x", 1) is None
        policy.after_call("root", "x", 1, RESULT, executed=True)


def test_arguments_that_are_no_json_are_like_no_others():
    assert nudged(reminder(), *[("x", {1})] * 9) == []


def test_the_later_texts_show_the_arguments_up_to_a_length():
    policy = reminder(thresholds=[2, 3], argumentsPreviewChars=9)
    texts = [policy.after_call("root", "x", {"q": "😀😀😀"}, RESULT, executed=True) for _ in range(3)]
    assert "arguments {" not in texts[1].text
    assert 'the arguments {"q":"😀\ufffd… (5 more characters).' in texts[2].text
    policy = reminder(thresholds=[2, 3], argumentsPreviewChars=9)
    texts = [policy.after_call("root", "x", {"q": 123}, RESULT, executed=True) for _ in range(3)]
    assert 'the arguments {"q":123}.' in texts[2].text
