"""Which result and which label belong to which call, and what does not count."""

from results.trace import Call, Compaction, End, Label, Notice, Result, Step, Unknown, User
from results.trace_calls import link


def call(name, agent="root"):
    return Call(name, None, "x", agent=agent)


def test_a_result_belongs_to_the_latest_unsettled_call_of_that_id():
    events = [call("a"), call("a"), Result("a", error=True), call("a"), Result("a"), Result("a", denied_by="g@host")]
    linked = link(events)
    assert [(each.index, each.position, each.settled) for each in linked.asked] == [(1, 0, 5), (2, 1, 2), (3, 3, 4)]
    assert [each.denied_by for each in linked.asked] == ["g@host", None, None]
    assert linked.warnings == ()
    assert {position: each.index for position, each in linked.by_position().items()} == {
        0: 1,
        1: 2,
        2: 2,
        3: 3,
        4: 3,
        5: 1,
    }


def test_agents_are_independent():
    events = [call("a"), call("a", "s"), Result("a", agent="s"), Result("a"), call("b"), call("b", "s")]
    linked = link(events)
    assert [(each.agent, each.index, each.settled) for each in linked.asked] == [
        ("root", 1, 3),
        ("s", 1, 2),
        ("root", 2, None),
        ("s", 2, None),
    ]


def test_a_result_of_no_call_is_ignored_with_a_warning():
    events = [Result("a"), call("a"), Result("b"), Result("a"), Result("a"), Result("a", agent="s")]
    linked = link(events)
    assert linked.ignored == {0, 2, 4, 5}
    assert linked.asked[0].settled == 3
    assert len(linked.warnings) == 4
    assert linked.warnings[1] == "event 3 (agent 'root', result): no unsettled call has the id 'b': ignored"


def test_what_stands_after_an_agents_end_is_ignored():
    after = [
        User("u"),
        call("b"),
        Result("a"),
        Compaction("manual", "committed"),
        Step(1, 1),
        Notice("n"),
        End("error"),
    ]
    events = [call("a"), End("completed"), *after, call("a", "s"), Unknown("new"), Label("a", "novel")]
    linked = link(events)
    assert linked.ignored == set(range(2, 9))
    assert [each.agent for each in linked.asked] == ["root", "s"]
    assert linked.asked[0].settled is None
    assert linked.asked[0].label == Label("a", "novel")
    assert all("stands after the agent's end" in warning for warning in linked.warnings)


def test_the_nth_label_of_an_id_belongs_to_its_nth_call():
    events = [call("a"), call("a"), call("a", "s"), call("b")]
    labels = [Label("a", "novel"), Label("a", "sterile"), Label("a", "needed", agent="s"), Label("a", "novel")]
    linked = link([*events, *labels])
    assert [each.label and each.label.judged for each in linked.asked] == ["novel", "sterile", "needed", None]
    assert linked.ignored == {7}
    assert "no call without a label has the id 'a'" in linked.warnings[0]
