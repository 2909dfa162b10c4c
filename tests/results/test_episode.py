"""Facts of one trace: classes, fates, costs, what guards did, and what is no observation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from guards.errors import UserError
from results.episode import Episode
from results.trace import Call, Compaction, End, Guard, Header, Label, Result, Step, Trace
from tests.results.script import episode, meta, script


def trace(*events, **given):
    return Trace(Header("e", "search-mirage", "", meta(**given)), events)


def call(name, **given):
    return Call(id=name, tool="search", step=1, **given)


END = End("horizon", False)


def test_index_counts_primed_calls_and_calls_of_its_agent_alone():
    found = episode("pn n A:n n")
    assert [(c.agent, c.index, c.primed) for c in found.calls] == [
        ("root", 1, True),
        ("root", 2, False),
        ("A", 1, False),
        ("root", 3, False),
    ]


def test_labels_belong_to_the_nth_call_of_an_id():
    events = [call("c"), Result("c"), call("c"), Result("c"), call("c", agent="A"), END]
    labels = [Label("c", "novel"), Label("c", "sterile"), Label("c", "needed", agent="A")]
    found = Episode(trace(*events, *labels))
    assert [c.judged for c in found.calls] == ["novel", "sterile", "needed"]


def test_a_result_belongs_to_the_latest_unsettled_call_of_its_id():
    events = [call("c"), call("c"), Result("c", denied_by="loop-guard"), Result("c"), Result("c", denied_by="x"), END]
    found = Episode(trace(*events, Label("c", "novel"), Label("c", "novel")))
    assert [c.denied_by for c in found.calls] == [None, "loop-guard"]


def test_a_call_that_was_denied_and_never_answered_did_not_run():
    denied = Guard("circuit-breaker", "host", action="deny", call="c")
    found = Episode(trace(call("c"), denied, END, Label("c", "novel")))
    assert found.calls[0].denied_by == "circuit-breaker@host"
    assert found.spent().calls == 0
    assert Episode(trace(call("c"), END, Label("c", "novel"))).spent().calls == 1


def test_a_foreign_denial_without_an_event_is_an_act_too():
    found = Episode(trace(call("c"), Result("c", denied_by="theirs@agent"), END, Label("c", "sterile")))
    assert [(a.guard, a.plane, a.action, a.index) for a in found.acts] == [("theirs", "agent", "deny", 1)]
    assert found.armed == (("theirs", "agent"),)


def test_an_act_is_about_the_latest_call_with_its_id():
    nudge = Guard("loop-guard", "host", action="nudge", call="c")
    labels = [Label("c", "novel"), Label("c", "sterile")]
    found = Episode(trace(call("c"), Result("c"), call("c"), Result("c"), nudge, END, *labels))
    assert found.acts[0].index == 2


def test_refusals_meet_the_refused_attempts_of_their_plane_in_order():
    found = episode("C X@host X@agent X@host", arm="both")
    assert [(a.plane, a.index, a.attempt.index) for a in found.acts] == [
        ("host", 2, 2),
        ("agent", 3, 3),
        ("host", 4, 4),
    ]


def test_a_refusal_without_an_attempt_stands_where_one_would_have():
    refuse = Guard("compaction-breaker", "host", action="refuse")
    found = Episode(trace(Compaction(trigger="pressure", outcome="committed"), refuse, END))
    assert (found.acts[0].index, found.acts[0].attempt) == (2, None)


def test_attempts_are_futile_without_a_unit_since_the_one_before():
    found = episode("C n C u C M C")
    assert [a.futile for a in found.attempts] == [False, True, False, False, True]


def test_costs_by_hand():
    found = episode("pn n C n!cb@host A:n F")
    cost = found.spent()
    # Three own steps of 100 + 10 tokens and 2 s; 1 + 2 summaries of 5 s. The primed step is the script's.
    assert (cost.turns, cost.asked, cost.calls, cost.attempts, cost.summary_calls) == (3, 3, 2, 2, 3)
    assert (cost.input_tokens, cost.output_tokens, cost.tokens, cost.seconds) == (300, 30, 330, 21)
    mine = found.spent(agent="A")
    assert (mine.calls, mine.tokens, mine.summary_calls) == (1, 110, 0)
    # Up to the second own call, that call left out: its step stands before it and counts.
    assert found.spent(stop=found.calls[2].position, agent="root").tokens == 220


def test_what_is_not_known_is_not_zero():
    found = Episode(trace(Step(1, 0, input_tokens=5), Compaction(trigger="pressure", outcome="failed"), END))
    cost = found.spent()
    assert (cost.input_tokens, cost.output_tokens, cost.tokens, cost.seconds, cost.summary_calls) == (5, *[None] * 4)
    refused = Episode(trace(Compaction(trigger="pressure", outcome="refused", summary_calls=0), END)).spent()
    assert (refused.seconds, refused.summary_calls) == (0, 0)


def test_tokens_of_summaries_count_where_they_were_recorded():
    told = Compaction(trigger="pressure", outcome="committed", extra={"input_tokens": 70, "output_tokens": 7})
    assert Episode(trace(told, END)).spent().tokens == 77


def test_the_end_is_the_roots_and_nothing_follows_it():
    found = episode("n A:n", end="completed", success=True)
    assert (found.root, found.end, found.success) == ("root", "completed", True)
    late = Episode(trace(END, call("c"), End("completed", True), Label("c", "novel")))
    assert (late.calls, late.end) == ((), "horizon")


@pytest.mark.parametrize(
    ("end", "given", "cause"),
    [
        (End("error", extra={"cause": "the gateway is gone"}), {}, "the gateway is gone"),
        (End("error"), {"error": "no memory"}, "no memory"),
        (End("error"), {}, "infrastructure error without a recorded cause"),
        (End("completed", agent="A"), {}, "the trace has no end of its root agent"),
    ],
)
def test_what_is_no_observation_says_why(end, given, cause):
    assert Episode(trace(call("c"), end, **given)).failure == cause


def test_an_error_of_a_child_is_one_of_the_episode():
    found = Episode(trace(End("error", agent="A", extra={"detail": "killed"}), END))
    assert found.failure == "killed"


def test_a_call_without_a_label_is_named():
    with pytest.raises(UserError, match=r"^episode e: call c2 \(number 2 of root\) has no label"):
        Episode(trace(call("c1"), call("c2"), END, Label("c1", "novel")))


def test_trajectories_differ_where_anything_happened_otherwise():
    marks = ["s s", "s s s", "s n", "s s!cb@host", "s s?lg@host", "s s C", "s s X@host", "ps s"]
    digests = {episode(each).trajectory for each in marks}
    digests |= {episode("s s", end="completed").trajectory, episode("s s", success=True).trajectory}
    assert len(digests) == len(marks) + 2
    again = replace(script("s s"), header=replace(script("s s").header, episode="another", meta=meta(seed=9)))
    assert Episode(again).trajectory == episode("s s").trajectory
