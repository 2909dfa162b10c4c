"""Several guards as one: who is asked, who counts a call, and who sees a denial."""

from itertools import chain

import pytest

from guards import registry
from guards.policy import Denial, Nudge, Policy, ToolOutcome
from guards.stack_policy import StackPolicy, denial_outcome

SAME = ToolOutcome(({"type": "text", "text": "nothing found"},))


class Witness(Policy):
    """Writes down what it is told; its name says where it stands."""

    def __init__(self, name):
        self.name = name
        self.seen = []

    def before_call(self, agent, tool, args, *, counted=True):
        self.seen.append(("asked", args, counted))

    def after_call(self, agent, tool, args, result, *, executed):
        self.seen.append(("settled", args, result.error_message, result.error, executed))


class Denier(Witness):
    """Denies the arguments "no" and remembers all else."""

    def before_call(self, agent, tool, args, *, counted=True):
        super().before_call(agent, tool, args, counted=counted)
        return Denial("test", 1, 1, "because") if args == "no" else None


def guards(*names, **settings):
    return StackPolicy([registry.build(name, settings=settings.get(name.replace("-", "_"))) for name in names])


def played(stack, args, result=SAME, agent="root"):
    """One call from its asking to its settling: the guards that denied and nudged it."""
    denial = stack.before_call(agent, "x", args)
    shown = result if denial is None else denial_outcome(denial.decision)
    who = None if denial is None else denial.guard
    nudges = stack.after_call(agent, "x", args, shown, executed=denial is None, denied_by=who)
    return [*([] if who is None else [f"{who} denies"]), *(f"{nudge.guard} nudges" for nudge in nudges)]


def test_the_first_that_denies_ends_the_asking():
    first, denier, last = Witness("first"), Denier("denier"), Witness("last")
    stack = StackPolicy([first, denier, last])
    assert stack.before_call("root", "x", "no").guard == "denier"
    assert first.seen == [("asked", "no", True)]
    assert last.seen == []


def test_a_denial_reaches_every_other_guard_as_an_error_result():
    first, denier, last = Witness("first"), Denier("denier"), Witness("last")
    stack = StackPolicy([first, denier, last])
    denial = stack.before_call("root", "x", "no")
    stack.after_call("root", "x", "no", denial_outcome(denial.decision), executed=False, denied_by="denier")
    for witness in (first, last):
        assert witness.seen[-1] == ("settled", "no", "because", True, False)
    assert denier.seen == [("asked", "no", True)]


def test_a_call_that_is_stopped_elsewhere_counts_for_no_guard_if_all_allow_it():
    first, denier, last = Witness("first"), Denier("denier"), Witness("last")
    assert StackPolicy([first, denier, last]).before_call("root", "x", "yes", counted=False) is None
    assert [first.seen, denier.seen, last.seen] == [[("asked", "yes", False)]] * 3


def test_a_call_that_is_stopped_elsewhere_counts_before_a_denier_of_the_stack():
    first, denier, last = Witness("first"), Denier("denier"), Witness("last")
    assert StackPolicy([first, denier, last]).before_call("root", "x", "no", counted=False) is not None
    assert first.seen == [("asked", "no", False), ("asked", "no", True)]
    assert denier.seen == [("asked", "no", False)]
    assert last.seen == []


def test_the_full_stack_at_its_defaults_on_an_identical_loop():
    stack = guards("circuit-breaker", "loop-guard", "compaction-breaker", "repeat-reminder")
    acts = {index: played(stack, {"q": 1}) for index in range(1, 31)}
    found = {act: [index for index, each in acts.items() if act in each] for act in chain(*acts.values())}
    assert found == {
        "repeat-reminder nudges": [3, 5, 8],
        "loop-guard nudges": [4, 5, 9, 10, 11, 12],
        "circuit-breaker denies": list(range(6, 31)),
    }


def test_the_breaker_has_counted_what_the_loop_guard_denies():
    stack = guards(
        *("circuit-breaker", "loop-guard"),
        circuit_breaker={"duplicateLimit": 5},
        loop_guard={"softThreshold": 0, "hardThreshold": 2},
    )
    acts = [played(stack, 1) for _ in range(7)]
    assert acts == [[], [], *[["loop-guard denies"]] * 2, *[["circuit-breaker denies"]] * 3]


def test_the_loop_guards_chain_starts_anew_with_anothers_denial():
    stack = guards(
        *("circuit-breaker", "loop-guard"),
        circuit_breaker={"duplicateLimit": 3},
        loop_guard={"softThreshold": 2, "hardThreshold": 9},
    )
    acts = [played(stack, 1) for _ in range(5)]
    assert acts == [
        [],
        ["loop-guard nudges"],
        ["circuit-breaker denies"],
        ["circuit-breaker denies", "loop-guard nudges"],
        ["circuit-breaker denies", "loop-guard nudges"],
    ]


def test_compaction_steps_messages_and_resets_reach_the_guards():
    stack = guards("circuit-breaker", "compaction-breaker", compaction_breaker={"maxConsecutiveRapidRefills": 1})
    stack.model_response("root", 1)
    assert stack.before_compaction("root", "pressure") is None
    stack.after_compaction("root", "pressure", "committed")
    stack.model_response("root", 1)
    assert stack.before_compaction("root", "pressure").guard == "compaction-breaker"
    stack.reset("root", "circuit-breaker")
    assert stack.before_compaction("root", "pressure").decision.kind == "latched"
    stack.reset("root", "compaction-breaker")
    stack.model_response("root", 2)
    stack.model_response("root", 2)
    assert stack.before_compaction("root", "pressure") is None


def test_user_messages_reach_the_guards():
    stack = guards(
        "loop-guard", "repeat-reminder", loop_guard={"softThreshold": 2}, repeat_reminder={"thresholds": [2]}
    )
    assert played(stack, 1) == []
    stack.user_message("root")
    assert played(stack, 1) == []
    assert played(stack, 1) == ["loop-guard nudges", "repeat-reminder nudges"]


def test_two_guards_of_one_name_are_a_bug():
    with pytest.raises(ValueError, match="two policies of one name"):
        guards("loop-guard", "loop-guard")


def test_a_policy_that_overrides_nothing_never_acts():
    policy = Policy(registry.configure("loop-guard"))
    assert policy.before_call("root", "x", 1) is None
    assert policy.after_call("root", "x", 1, SAME, executed=True) is None
    assert policy.before_compaction("root", "pressure") is None
    assert not isinstance(policy.before_compaction("root", "overflow"), Nudge)
