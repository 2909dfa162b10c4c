"""Replay: the two rules of an open loop, agents, and a whole stack."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guards import registry
from guards.policy import ToolOutcome
from guards.stack import default_stack
from guards.stack_policy import StackPolicy
from results.trace import Call, Compaction, End, Guard, Header, Notice, Result, Step, Trace, Unknown, User, blocks
from results.trace_calls import link
from results.trace_file import read_trace
from runners.replay import replay

TRACES = Path(__file__).resolve().parents[1] / "traces"


def decided(events, name="loop-guard", preset=None, **settings):
    """The decisions of one guard on events, shortened to (action, call or attempt, count)."""
    found = replay(Trace(Header("e"), tuple(events)), registry.build(name, preset, settings))
    return [(each.action, each.call or each.index, each.count) for each in found]


def repeated(count, *, agent="root", first=1, text="same", denied=(), error=False):
    """Identical calls c1, c2 ... each with its step and its result; those whose numbers are `denied` were stopped."""
    events = []
    for number in range(first, first + count):
        stopped = "other@host" if number in denied else None
        shown = "not run: policy" if stopped else text
        events += [
            Step(number, 1, agent=agent),
            Call(f"c{number}", number, "x", {"q": 1}, agent=agent),
            Result(f"c{number}", blocks(shown), error or stopped is not None, stopped, agent=agent),
        ]
    return events


def test_a_row_has_these_keys_in_this_order():
    trace = Trace(Header("e"), tuple(repeated(4)))
    (row,) = (each.row() for each in replay(trace, registry.build("loop-guard")))
    assert list(row.items()) == [
        ("episode", "e"),
        ("agent", "root"),
        ("guard", "loop-guard"),
        ("action", "nudge"),
        ("kind", "identical-result"),
        ("call", "c4"),
        ("index", 4),
        ("count", 4),
        ("limit", 4),
    ]


def test_a_denied_calls_result_is_not_shown_to_the_guard():
    """The recorded result would start the chain anew."""
    events = repeated(3) + repeated(2, first=4, text="other") + repeated(1, first=6)
    assert decided(events, softThreshold=0, hardThreshold=3) == [("deny", f"c{n}", 3) for n in (4, 5, 6)]


def test_a_call_that_was_stopped_in_the_recording_is_gated_and_does_not_count():
    events = repeated(9, denied=(2, 3, 7))
    assert decided(events, "circuit-breaker", duplicateLimit=4) == [("deny", f"c{n}", 4) for n in (6, 7, 8, 9)]
    assert decided(events, "circuit-breaker", duplicateLimit=0, maxCallsPerAgent=2) == [
        ("deny", f"c{n}", 2) for n in range(5, 10)
    ]


def test_its_recorded_content_is_an_error_whoever_denied():
    """Even where the recording does not say so; and denied and real errors of one text are the same."""
    quiet = [Call("c1", 1, "x", 1), Result("c1", blocks("no"), False, "other@host")]
    loud = [Call("c2", 2, "x", 1), Result("c2", blocks("no"), True)]
    assert decided([*quiet, *loud], softThreshold=2) == [("nudge", "c2", 2)]
    plain = [Call("c2", 2, "x", 1), Result("c2", blocks("no"))]
    assert decided([*quiet, *plain], softThreshold=2) == []


def test_the_loop_guard_sees_denials_of_others_and_the_reminder_counts_them():
    events = repeated(8, denied=(3, 4, 5))
    assert decided(events, softThreshold=3, hardThreshold=0) == [("nudge", "c5", 3), ("nudge", "c8", 3)]
    assert decided(events, "repeat-reminder") == [("nudge", f"c{n}", n) for n in (3, 5, 8)]


def test_a_call_without_a_result_counts_as_executed_and_never_settles():
    events = [event for event in repeated(6) if not isinstance(event, Result)]
    assert decided(events, "circuit-breaker", duplicateLimit=4) == [("deny", f"c{n}", 4) for n in (4, 5, 6)]
    assert decided(events, softThreshold=1) == []
    assert decided(events, "repeat-reminder", thresholds=[2]) == []


def test_calls_of_one_step_are_gated_before_their_results():
    calls = [Call(f"c{n}", 1, "x", 1) for n in range(1, 6)]
    results = [Result(f"c{n}", blocks("r")) for n in range(1, 6)]
    later = [Call("c6", 2, "x", 1), Result("c6", blocks("r"))]
    assert decided([*calls, *results, *later], softThreshold=2, hardThreshold=3) == [
        ("nudge", "c2", 2),
        ("deny", "c6", 5),
    ]
    assert decided([*calls, *results], "circuit-breaker", duplicateLimit=3) == [
        ("deny", "c3", 3),
        ("deny", "c4", 3),
        ("deny", "c5", 3),
    ]


def test_results_settle_in_the_order_in_which_they_stand():
    calls = [Call("a", 1, "x", 1), Call("b", 1, "x", 1), Call("c", 1, "x", 2)]
    settled = [Result("b", blocks("r")), Result("c", blocks("r")), Result("a", blocks("r"))]
    assert decided([*calls, *settled], softThreshold=2) == []
    assert decided([*calls, settled[0], settled[2], settled[1]], softThreshold=2) == [("nudge", "a", 2)]


def test_ids_may_be_used_again():
    """A result belongs to the latest unsettled call of its id."""
    events = []
    for number in range(1, 5):
        events += [
            Call("a", number, "x", 1),
            Call("a", number, "x", 2),
            Result("a", blocks("r")),
            Result("a", blocks("s")),
        ]
    assert decided(events, softThreshold=2) == []
    assert [index for _, index, _ in decided(events, "circuit-breaker", duplicateLimit=3)] == ["a"] * 4


def test_a_result_of_no_call_is_ignored():
    strays = [Result("c1", blocks("other")), Result("zz", blocks("other"))]
    events = [*repeated(1), *strays, *repeated(1, first=2)]
    assert decided(events, softThreshold=2) == [("nudge", "c2", 2)]
    assert len(link(events).warnings) == 2


def test_events_after_the_end_are_ignored():
    events = [*repeated(2), End("completed"), *repeated(2, first=3), *repeated(4, agent="s1")]
    assert decided(events, softThreshold=3) == [("nudge", "c3", 3), ("nudge", "c4", 4)]
    found = replay(Trace(Header("e"), tuple(events)), registry.build("loop-guard", settings={"softThreshold": 3}))
    assert {each.agent for each in found} == {"s1"}


def test_notices_recorded_guards_and_unknown_events_are_ignored():
    between = [
        Notice("stop", "loop-guard"),
        Guard("loop-guard", "host", "reset"),
        Guard("loop-guard", "host", "deny", "c2"),
        Unknown("user"),
    ]
    events = [*repeated(3), *between, *repeated(1, first=4)]
    assert decided(events) == [("nudge", "c4", 4)]
    assert decided([*repeated(3), User("go on"), *repeated(1, first=4)]) == []


def attempts(*outcomes):
    events = []
    for outcome in outcomes:
        trigger, _, result = outcome.rpartition(" ")
        events += [Step(1, 1), Compaction(trigger or "pressure", result)]
    return events


def test_compactions():
    committed = attempts(*["committed"] * 6)
    assert decided(committed, "compaction-breaker") == [("refuse", 4, 2), ("refuse", 5, 2), ("refuse", 6, 2)]
    events = attempts("committed", "failed", "nothing", "refused", "overflow committed", "committed", "committed")
    assert decided(events, "compaction-breaker") == []
    rapid = [event for event in events if isinstance(event, Compaction)]
    assert decided(rapid, "compaction-breaker") == [("refuse", 7, 2)]


def test_a_refusal_has_no_call_and_the_index_of_the_attempt():
    trace = Trace(Header("e"), tuple(attempts("committed", "manual nothing", "committed")))
    settings = {"maxConsecutiveRapidRefills": 1, "toolTurnThreshold": 3}
    (row,) = (each.row() for each in replay(trace, registry.build("compaction-breaker", None, settings)))
    wanted = {"action": "refuse", "kind": "rapid-refill", "call": None, "index": 3, "count": 0, "limit": 1}
    assert {key: row[key] for key in wanted} == wanted


def test_a_recorded_reset_of_the_compaction_breaker_resets_the_replayed_one():
    reset = [Guard("compaction-breaker", "agent", "reset")]
    events = [*attempts(*["committed"] * 4), *reset, *attempts(*["committed"] * 3)]
    assert decided(events, "compaction-breaker") == [("refuse", 4, 2), ("refuse", 7, 2)]
    other = [Guard("compaction-breaker", "agent", "reset", agent="s1"), Guard("loop-guard", "agent", "reset")]
    still = [*attempts(*["committed"] * 4), *other, *attempts("committed")]
    assert decided(still, "compaction-breaker") == [("refuse", 4, 2), ("refuse", 5, 2)]


def test_the_clock_is_that_of_steps_with_calls():
    events = [
        Compaction("pressure", "committed"),
        Step(1, 1),
        Step(2, 0),
        Step(3, 0),
        Compaction("pressure", "committed"),
    ]
    assert decided(events, "compaction-breaker", maxConsecutiveRapidRefills=1) == [("refuse", 2, 0)]
    assert decided([*events[:4], Step(4, 2), events[4]], "compaction-breaker", maxConsecutiveRapidRefills=1) == []


def test_the_full_stack_on_an_identical_loop():
    found = list(
        replay(read_trace(TRACES / "identical-search-30.trace.jsonl"), StackPolicy(default_stack().policies()))
    )
    indices = {
        (guard, action): [each.index for each in found if (each.guard, each.action) == (guard, action)]
        for guard, action in {(each.guard, each.action) for each in found}
    }
    assert indices == {
        ("repeat-reminder", "nudge"): [3, 5, 8],
        ("loop-guard", "nudge"): [4, 5, 9, 10, 11, 12],
        ("circuit-breaker", "deny"): list(range(6, 31)),
    }
    assert [each.index for each in found] == sorted(each.index for each in found)
    assert [each.guard for each in found if each.index == 5] == ["loop-guard", "repeat-reminder"]


def closed_loop(recorded, policies):
    """The recording as it would be if these guards had been live in it."""
    stack = StackPolicy(policies)
    events = []
    denied = {}
    for event in recorded:
        if isinstance(event, Call):
            denied[event.id] = stack.before_call(event.agent, event.tool, event.args)
        if isinstance(event, Result) and denied[event.id] is not None:
            by, reason = denied[event.id].guard, denied[event.id].decision.reason
            events.append(Result(event.id, blocks(reason), True, f"{by}@host", agent=event.agent))
        else:
            events.append(event)
        if isinstance(event, Result):
            shown = events[-1]
            by = None if denied[event.id] is None else denied[event.id].guard
            outcome = ToolOutcome(shown.content, shown.error)
            stack.after_call(event.agent, "x", {"q": 1}, outcome, executed=by is None, denied_by=by)
    return events


@pytest.mark.parametrize(
    ("breaker", "loop"),
    [
        ({"duplicateLimit": 6}, {"softThreshold": 0, "hardThreshold": 3}),
        ({"duplicateLimit": 3}, {"softThreshold": 0, "hardThreshold": 6}),
        ({"duplicateLimit": 0, "maxCallsPerAgent": 7}, {"softThreshold": 0, "hardThreshold": 3}),
    ],
)
def test_a_stack_replayed_on_its_own_recording_decides_the_same(breaker, loop):
    def policies():
        return [registry.build("circuit-breaker", None, breaker), registry.build("loop-guard", None, loop)]

    recorded = repeated(20)
    live = closed_loop(recorded, policies())
    assert any(isinstance(event, Result) and event.denied_by for event in live)
    first, again = (
        [each.row() for each in replay(Trace(Header("e"), tuple(events)), StackPolicy(policies()))]
        for events in (recorded, live)
    )
    assert first == again


AGENTS = ("root", "s1", "s2")
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(AGENTS),
        st.sampled_from(["call", "call", "call", "user", "compaction", "reset"]),
        st.integers(0, 1),
        st.sampled_from(["r", "s"]),
        st.booleans(),
    ),
    max_size=60,
)


def events_of(script):
    """Events from a script. Calls of one agent have ids of their own; some settle later and some were denied."""
    events = []
    numbers = itertools.count()
    for agent, kind, args, text, flag in script:
        name = f"c{next(numbers)}"
        if kind == "call":
            events += [Step(1, 1, agent=agent), Call(name, 1, "x", {"q": args}, agent=agent)]
            events.append(Result(name, blocks(text), False, "o@host" if flag and text == "s" else None, agent=agent))
        elif kind == "user":
            events.append(User("go", agent=agent))
        elif kind == "compaction":
            events.append(Compaction("manual" if args and flag else "pressure", "committed", agent=agent))
        else:
            events.append(Guard("compaction-breaker", "host", "reset", agent=agent))
    return events


SETTINGS = {
    "circuit-breaker": {"duplicateLimit": 3, "window": 5, "maxCallsPerAgent": 12},
    "loop-guard": {"softThreshold": 2, "hardThreshold": 3},
    "compaction-breaker": {"maxConsecutiveRapidRefills": 2},
    "repeat-reminder": {"thresholds": [2, 3]},
}


def stack():
    return StackPolicy([registry.build(name, None, settings) for name, settings in SETTINGS.items()])


@given(EVENTS)
def test_interleaved_agents_equal_separate_ones(script):
    events = events_of(script)
    together = [each.row() for each in replay(Trace(Header("e"), tuple(events)), stack())]
    for agent in AGENTS:
        alone = tuple(event for event in events if event.agent == agent)
        apart = [each.row() for each in replay(Trace(Header("e"), alone), stack())]
        assert apart == [row for row in together if row["agent"] == agent]


@given(EVENTS)
def test_a_stack_of_one_is_that_guard(script):
    trace = Trace(Header("e"), tuple(events_of(script)))
    for name, settings in SETTINGS.items():
        alone = list(replay(trace, registry.build(name, None, settings)))
        assert alone == list(replay(trace, StackPolicy([registry.build(name, None, settings)])))
        assert all(each.guard == name for each in alone)


def test_reasons_are_those_of_the_guards():
    found = list(replay(Trace(Header("e"), tuple(repeated(9))), registry.build("loop-guard")))
    assert found[0].reason.startswith("The last 4 calls of x had the same arguments")
    assert found[-1].reason.startswith("This call was not run: the last 8 calls of x")
