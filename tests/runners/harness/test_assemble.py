"""Traces put together from hand-made logs, and logs that make none."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.trace import Call, Compaction, End, Event, Guard, Notice, Result, Step, User, event_of, line_of
from runners.harness.assemble import Inconsistent, assemble
from runners.harness.eventlog import Line
from tests.runners.harness.log_lines import CHILD, ROOT, Ask, Log, merged, timed


def made(
    lines: Sequence[Line], *, stopped_by: str | None = None, engines: tuple[str, ...] = ("host",), reminders: str = ""
) -> list[Event]:
    return assemble(lines, engines=engines, reminders=tuple(reminders.split()), stopped_by=stopped_by)


def of(events: Sequence[Event], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


# -- what stands in a trace ------------------------------------------------------------------------------------------


def test_an_episode_in_the_order_in_which_it_happened() -> None:
    looked, denied = Ask("c1", args='{"at": [1, 2]}'), Ask("c2", fate="denied", by=("loop-guard", "agent"))
    log = Log().said("Find it.").said("cwd", "runtime-context").step(looked)
    log.add("nudge", guard="loop-guard", plane="host", call="c1", kind="identical-result", count=4, limit=4, reason="!")
    log.said("Again?", "loop-guard").step(denied, tape_key="k", prompt_digest="p", finish="stop_string").reply().end()
    assert made(timed(log.lines)) == [
        User("Find it.", t=0.0),
        Step(1, 1, 100, 10, 0.75, "stop", None, "d", t=4.0),
        Call("c1", 1, "mcp__tools__look", {"at": [1, 2]}, t=5.0),
        Result("c1", ({"type": "text", "text": "ran c1"},), t=7.0),
        Guard("loop-guard", "host", "nudge", "c1", "identical-result", 4, 4, "!", t=8.0),
        Notice("Again?", "loop-guard", t=10.0),
        Step(2, 1, 100, 10, 0.75, "stop_string", "k", "p", t=13.0),
        Call("c2", 2, "mcp__tools__look", {"at": 1}, t=14.0),
        Guard("loop-guard", "agent", "deny", "c2", "duplicate", 6, 6, "denied c2", t=14.0),
        Result("c2", ({"type": "text", "text": "denied c2"},), error=True, denied_by="loop-guard@agent", t=16.0),
        Step(3, 0, 100, 10, 0.75, "stop", None, "d", t=19.0),
        End("completed", t=20.0),
    ]


def test_the_calls_of_one_reply_keep_their_order() -> None:
    events = made(Log().step(Ask("a"), Ask("b", fate="failed"), Ask("c", "bash")).end().lines)
    assert [(type(event).__name__, getattr(event, "id", None)) for event in events[1:-1]] == [
        (kind, call) for call in "abc" for kind in ("Call", "Result")
    ]
    assert [result.error for result in of(events, Result)] == [False, True, False]


def test_calls_that_run_side_by_side() -> None:
    first, second = Ask("a", "mcp__tools__look"), Ask("b", "mcp__tools__note")
    log = Log().reply(first, second)
    for ask in (first, second):
        log.event("tool/call", callId=ask.id, name=ask.tool, arguments=ask.args)
    log.settle(second).settle(first).end()
    worlds = [at for at, line in enumerate(log.lines) if line["ev"] == "world"]
    log.lines[worlds[0]], log.lines[worlds[1]] = log.lines[worlds[1]], log.lines[worlds[0]]
    # The world took `note` before `look`, and the harness had both before it settled either.
    log.lines.insert(worlds[0] + 1, log.lines.pop(worlds[1]))
    events = made(log.lines)
    assert [event.id for event in of(events, Call)] == ["a", "b"]
    assert [event.id for event in of(events, Result)] == ["b", "a"]


@pytest.mark.parametrize("text", ["{", "", "NaN", "{'a': 1}", '{"a": 1} more'])
def test_arguments_that_are_no_json_stay_text(text: str) -> None:
    (call,) = of(made(Log().step(Ask("c1", args=text)).end().lines), Call)
    assert call.args == text


@pytest.mark.parametrize("text", ["null", "[1]", '"x"', "1.5", "{}", '{"a": {"b": []}}', "[" * 900 + "]" * 900])
def test_arguments_of_any_kind_are_values(text: str) -> None:
    (call,) = of(made(Log().step(Ask("c1", args=text)).end().lines), Call)
    assert line_of(call) == line_of(Call("c1", 1, "mcp__tools__look", call.args))
    assert not isinstance(call.args, str) or call.args == "x"


def test_a_primed_step_costs_nothing_and_its_calls_are_primed() -> None:
    events = made(Log().step(Ask("a"), primed=True).step(Ask("b")).end().lines)
    first, second = of(events, Step)
    assert (first.primed, first.input_tokens, first.output_tokens, first.seconds) == (True, None, None, None)
    assert (second.primed, second.input_tokens) == (False, 100)
    assert [call.primed for call in of(events, Call)] == [True, False]


def test_calls_of_a_reply_that_was_cut_off_run_where_they_were_whole() -> None:
    """The gateway hands on the calls that it could read, whatever ended the reply."""
    events = made(Log().reply(Ask("a"), finish="length").run(Ask("a")).end().lines)
    assert [type(event).__name__ for event in events] == ["Step", "Call", "Result", "End"]


def test_a_pruned_result_is_told_once() -> None:
    log = Log().step(Ask("a"))
    again = next(line for line in log.lines if line.get("type") == "tool/result")["data"]
    log.event("tool/result", **again).end()
    assert len(of(made(log.lines), Result)) == 1


def test_a_step_that_was_interrupted_is_none() -> None:
    log = Log().event("assistant/message", interrupted=True, message={"content": []})
    log.end("aborted", reason={"kind": "user"})
    (end,) = made(log.lines)
    assert isinstance(end, End)
    assert end.reason == "error"
    assert "aborted" in end.extra["cause"]


def test_an_attempt_stands_before_what_ends_it() -> None:
    log = Log().step(Ask("a")).event("step/end").compact().step(Ask("b")).end()
    events = made(log.lines)
    kinds = [type(event).__name__ for event in events]
    assert kinds == ["Step", "Call", "Result", "Compaction", "Step", "Call", "Result", "End"]
    (attempt,) = of(events, Compaction)
    assert attempt == Compaction(
        trigger="pressure",
        outcome="committed",
        plane="host",
        summary_calls=1,
        tokens_before=900,
        tokens_after=300,
        seconds=0.75,
        extra={"input_tokens": 100, "output_tokens": 10, "tape_keys": []},
    )


def test_a_refusal_stands_before_its_attempt() -> None:
    events = made(Log().attempt("refuse").settled().step().end().lines)
    refusal = Guard("compaction-breaker", "host", "refuse", None, "rapid-refill", 2, 3, "enough")
    assert events[0] == refusal
    assert (events[1].type, events[1].outcome) == ("compaction", "refused")  # type: ignore[attr-defined]


def test_an_attempt_that_the_log_s_end_cuts_off_stands_before_the_end() -> None:
    events = made(Log().event("compaction/start", turn=1).answer(compaction=True).lines)
    assert [event.type for event in events] == ["compaction", "end"]


@pytest.mark.parametrize("action", ["arm", "consulted", "announce", "incident", "reset"])
def test_what_guards_do_besides(action: str) -> None:
    lines = [{"ev": action, "guard": "g", "plane": "agent", "pid": 1}]
    assert made([*lines, *Log().end().lines])[0] == Guard("g", "agent", action)  # type: ignore[arg-type]


def test_lines_of_other_kinds_are_nothing() -> None:
    log = Log().add("mark", plane="host").add("control", go=True, why=None).add("up", plane="host")
    log.add("import", package="p", error="e").add("something new").event("something/new").end()
    assert made(log.lines) == [End("completed")]


# -- the harness' own reminder ---------------------------------------------------------------------------------------


def reminded(log: Log, count: int) -> Log:
    return log.said("You repeat.", "repeat-tool-reminder", form="notice", summary=f"mcp__tools__look × {count}")


def test_a_reminder_is_a_nudge_about_the_last_call_of_its_tool() -> None:
    log = Log().step(Ask("a"), Ask("b"), Ask("c", "bash"))
    events = made(reminded(log, 3).end().lines, reminders="agent")
    nudge, notice, _ = events[-3:]
    assert nudge == Guard("repeat-reminder", "agent", "nudge", "b", count=3, limit=3)
    assert notice == Notice("You repeat.", "repeat-tool-reminder")


def test_a_reminder_in_a_step_of_several_calls_is_about_the_one_that_made_the_count_full() -> None:
    """Its message comes when all of them have settled. The order of names in the arguments makes no difference."""
    calls = [Ask(name, args='{"x": 1, "at": 1}' if name == "b" else '{"at": 1, "x": 1}') for name in "abcdef"]
    log = Log().said("Go.").step(*calls[:4], Ask("o", "bash"), *calls[4:])
    nudges = of(made(reminded(reminded(log, 3), 2).end().lines, reminders="host"), Guard)
    assert [(nudge.call, nudge.count) for nudge in nudges] == [("c", 3), ("f", 2)]


def test_a_user_message_begins_the_count_of_a_reminder_anew() -> None:
    log = Log().said("Go.").step(Ask("a"), Ask("b")).said("Go on.").step(Ask("c"), Ask("d"), Ask("e"), Ask("f"))
    (nudge,) = of(made(reminded(log, 3).end().lines, reminders="host"), Guard)
    assert nudge.call == "e"


def test_of_two_reminders_the_agent_s_comes_first() -> None:
    log = Log().step(Ask("a"))
    for count in (3, 3, 5, 5):
        if count == 5 and "b" not in str(log.lines):
            log.step(Ask("b"))
        reminded(log, count)
    nudges = of(made(log.end().lines, reminders="host agent"), Guard)
    assert [(nudge.plane, nudge.count) for nudge in nudges] == [("agent", 3), ("host", 3), ("agent", 5), ("host", 5)]


@pytest.mark.parametrize("summary", ["", "look", "look × many", " × 3"])
def test_a_reminder_without_tool_and_count(summary: str) -> None:
    log = Log().said("You repeat.", "repeat-tool-reminder", form="notice", summary=summary)
    with pytest.raises(Inconsistent, match="no tool and count"):
        made(log.lines, reminders="host")


# -- who is who, and how it ends -------------------------------------------------------------------------------------


def test_agents_are_named_by_the_gateway_s_numbers() -> None:
    child, root = Log(CHILD, 1).step(Ask("x")).end(), Log().step(Ask("y")).end()
    events = made([*child.lines, *root.lines])
    assert [event.agent for event in events] == ["agent-1"] * 3 + ["root"] * 3 + ["agent-1", "root"]


def test_agents_that_never_asked_have_names_of_their_own() -> None:
    logs = [Log().step().end(), *(Log(f"session-{name}", -1).event("turn/start").end() for name in "abc")]
    events = made([line for log in logs for line in log.lines])
    assert [end.agent for end in of(events, End)] == ["root", "agent-1", "agent-2", "agent-3"]


def test_a_lone_session_that_never_asked_is_the_root() -> None:
    assert made(Log(ordinal=-1).end("error", error={"code": "SERVER", "message": "no luck"}).lines) == [
        End("error", extra={"cause": "SERVER: no luck"})
    ]


@pytest.mark.parametrize(
    ("turn_end", "stopped_by", "reason", "cause"),
    [
        ({"kind": "completed"}, None, "completed", None),
        ({"kind": "completed"}, "horizon", "completed", None),
        ({"kind": "max-tokens"}, None, "max_tokens", None),
        ({"kind": "blocked"}, "horizon", "horizon", None),
        ({"kind": "blocked"}, "finished", "completed", None),
        ({"kind": "blocked"}, None, "blocked", None),
        ({"kind": "blocked"}, "error", "error", None),
        ({"kind": "error", "error": {"code": "CONTEXT_WINDOW_EXCEEDED", "message": "m"}}, None, "overflow", None),
        ({"kind": "error", "error": {"code": "SERVER", "message": "died"}}, None, "error", "SERVER: died"),
        ({"kind": "error"}, "horizon", "error", "None: None"),
        ({"kind": "aborted", "reason": {"kind": "user"}}, "horizon", "error", "the turn ended as aborted"),
        ({"kind": "something new"}, None, "error", "the turn ended as something new"),
        (None, None, "error", "the session has no end"),
        (None, "finished", "error", "the session has no end"),
        (None, "horizon", "horizon", None),
    ],
)
def test_how_an_agent_ended(
    turn_end: dict[str, Any] | None, stopped_by: str | None, reason: str, cause: str | None
) -> None:
    log = Log().event("turn/start").reply()
    if turn_end is not None:
        log.end(**turn_end)
    (end,) = of(made(log.lines, stopped_by=stopped_by), End)
    assert end.reason == reason
    assert (end.extra.get("cause") or "").startswith(cause or "")
    assert ("cause" in end.extra) == (cause is not None)


def test_the_last_turn_counts() -> None:
    log = Log().reply().end().event("turn/start").reply().end("blocked")
    assert of(made(log.lines, stopped_by="horizon"), End) == [End("horizon")]


# -- logs that contradict themselves ---------------------------------------------------------------------------------


def sound() -> Log:
    """Two steps: a call that ran and one that was denied, then a step with a call of the harness' own tools."""
    return (
        Log()
        .said("Find it.")
        .step(Ask("a"), Ask("b", fate="denied"))
        .compact()
        .step(Ask("c", "bash"), Ask("d", fate="failed"))
        .reply()
        .end()
    )


def at(kind: str, number: int = 0) -> Callable[[list[Line]], int]:
    """Where the line of that kind stands, by its number among them."""

    def place(lines: list[Line]) -> int:
        return [at for at, line in enumerate(lines) if kind in (line["ev"], line.get("type"))][number]

    return place


def changed(kind: str, number: int, path: str, value: Any) -> Callable[[list[Line]], None]:
    def change(lines: list[Line]) -> None:
        inner: Any = lines[at(kind, number)(lines)]
        *way, last = path.split(".")
        for key in way:
            inner = inner[key]
        inner[last] = value

    return change


def without(kind: str, number: int = 0) -> Callable[[list[Line]], None]:
    return lambda lines: lines.pop(at(kind, number)(lines)) and None


def twice(kind: str, number: int = 0) -> Callable[[list[Line]], None]:
    def change(lines: list[Line]) -> None:
        place = at(kind, number)(lines)
        again = copy.deepcopy(lines[place])
        if again["ev"] == "event":
            again["seq"] += 1
        lines.insert(place + 1, again)

    return change


CONTRADICTIONS: list[tuple[str, Callable[[list[Line]], Any], str]] = [
    ("a reply is missing", without("answer"), "the harness had 1 replies, the gateway gave fewer"),
    ("a reply is one too many", twice("answer", -1), "the gateway gave 4 replies, the harness had 3"),
    ("a reply says other calls", changed("answer", 0, "calls", 1), "step 1: 2 calls here, 1 at the gateway"),
    ("a message is missing", without("assistant/message"), "the call 'a', which the last reply does not hold"),
    ("a message came twice", twice("assistant/message"), "the harness had 2 replies, the gateway gave fewer"),
    ("a call is missing", without("tool/call"), "a result for 'a', which nobody asked for"),
    ("a call is of no reply", changed("tool/call", 0, "data.callId", "z"), "the call 'z', which the last reply"),
    ("a call came twice", twice("tool/call"), "the call 'a', which the last reply does not hold or held once"),
    ("a result is missing", without("tool/result"), "a reply before the call 'a' was settled"),
    ("a result is of no call", changed("tool/result", 0, "data.message.toolCallId", "z"), "which nobody asked for"),
    ("the world never saw it", without("world"), "look ran, but never reached the world"),
    ("the world saw another", changed("world", 0, "tool", "note"), "look ran, but never reached the world"),
    ("the world saw more", twice("world"), "the world executed 'look', and no call"),
    ("the denial is missing", without("deny"), "look ran, but never reached the world"),
    ("a denial is of no call", changed("deny", 0, "call", "z"), "circuit-breaker@host denied 'z', which is no call"),
    ("a denial came late", changed("deny", 0, "call", "a"), "denied 'a', which is no call that waits"),
    ("a denied call ran", changed("tool/result", 1, "data.message.isError", False), "denied the call 'b', and its"),
    ("an event came twice", changed("step/end", 0, "seq", 2), "its event 2 stands behind its event"),
    ("the last call hangs", without("tool/result", -1), "a reply before the call 'd' was settled"),
    ("a summary of nothing", without("compaction/start"), "asked for a summary, and none is under way"),
    ("an agent has two numbers", changed("answer", -1, "ordinal", 1), f"session {ROOT} is agent 0 and agent 1"),
    ("a reply to nobody", changed("answer", 0, "agent", None), "answered the agent 0 of session None"),
    ("a line lacks a key", changed("tool/call", 0, "data", {"callId": "a"}), "line 5: event tool/call: not as it"),
    ("a line is of another make", changed("user/message", 0, "data", []), "line 1: event user/message: not as it"),
    ("an end is of another make", changed("turn/end", 0, "data.reason", {}), "its end: not as it should be"),
]


def test_the_sound_log_is_sound() -> None:
    assert made(sound().lines)[-1] == End("completed")


@pytest.mark.parametrize(
    ("edit", "says"), [each[1:] for each in CONTRADICTIONS], ids=[each[0] for each in CONTRADICTIONS]
)
def test_a_contradiction_is_no_trace(edit: Callable[[list[Line]], Any], says: str) -> None:
    lines = copy.deepcopy(sound().lines)
    edit(lines)
    with pytest.raises(Inconsistent, match=says):
        made(lines)


@pytest.mark.parametrize("kind", ["completed", "blocked"])
@pytest.mark.parametrize("begun", [False, True])
def test_an_end_before_the_last_result(kind: str, begun: bool) -> None:
    log = Log().reply(Ask("a"))
    if begun:
        log.event("tool/call", callId="a", name="bash", arguments="{}")
    with pytest.raises(Inconsistent, match="root: it ended, and the call 'a' has no result"):
        made(log.end(kind).lines, stopped_by="horizon")


def test_a_line_that_stands_there_twice() -> None:
    lines = sound().lines
    at_end = at("step/end")(lines)
    with pytest.raises(Inconsistent, match="stands behind its event"):
        made([*lines[:at_end], lines[at_end], *lines[at_end:]])


def test_two_sessions_with_one_number() -> None:
    with pytest.raises(Inconsistent, match="share a number"):
        made([*Log().step().end().lines, *Log(CHILD, 0).step().end().lines])


def test_what_is_cut_off_in_a_call_is_an_error_that_keeps_what_there_was() -> None:
    """The runtime was killed between the world's answer and its own event."""
    lines = sound().lines[: at("tool/result", -1)(sound().lines)]
    events = made(lines)
    assert events[-1] == End("error", extra={"cause": "the session has no end"})
    assert [call.id for call in of(events, Call)] == ["a", "b", "c", "d"]
    assert [result.id for result in of(events, Result)] == ["a", "b", "c"]


# -- any log ---------------------------------------------------------------------------------------------------------

FATES = st.sampled_from(["ran", "failed", "denied", "unknown"])
TOOLS = st.sampled_from(["mcp__tools__look", "mcp__tools__note", "bash"])
GUARDS = st.tuples(st.sampled_from(["circuit-breaker", "loop-guard"]), st.sampled_from(["host", "agent"]))
STEPS = st.lists(st.lists(st.tuples(TOOLS, FATES, GUARDS), max_size=3), max_size=5)
CHOICES = st.lists(st.booleans(), max_size=120)


def session(name: str, ordinal: int, steps: list[list[tuple[str, str, tuple[str, str]]]]) -> tuple[Log, list[Ask]]:
    """A sound log, and its calls in order."""
    log, asked = Log(name, ordinal).said("Do it."), []
    for number, step in enumerate(steps):
        asks = [Ask(f"{name}.{number}.{at}", *each[:1], fate=each[1], by=each[2]) for at, each in enumerate(step)]
        log.step(*asks)
        asked += asks
    return log.reply().end(), asked


@given(STEPS, STEPS, CHOICES)
def test_nothing_is_lost_or_reordered(mine: list[Any], others: list[Any], choices: list[bool]) -> None:
    (root, asked), (child, also) = session(ROOT, 0, mine), session(CHILD, 1, others)
    events = made(merged(choices, root, child))
    for name, log, asks, steps in (("root", root, asked, mine), ("agent-1", child, also, others)):
        own = [event for event in events if event.agent == name]
        assert [event.id for event in of(own, Call)] == [ask.id for ask in asks]
        assert [(event.id, event.text, event.denied_by) for event in of(own, Result)] == [
            (ask.id, ask.shown, "@".join(ask.by) if ask.fate == "denied" else None) for ask in asks
        ]
        assert [event.calls for event in of(own, Step)] == [*(len(step) for step in steps), 0]
        assert [event.call for event in of(own, Guard)] == [ask.id for ask in asks if ask.fate == "denied"]
        assert isinstance(own[-1], End)
        # As if the other had not been there, but for its name.
        alone = made(log.lines)
        assert [line_of(event) for event in own] == [
            line_of(event).replace(f'"agent":"{alone[0].agent}"', f'"agent":"{name}"') for event in alone
        ]


@given(STEPS, STEPS, CHOICES)
def test_every_event_can_be_written_and_read_back(mine: list[Any], others: list[Any], choices: list[bool]) -> None:
    for event in made(timed(merged(choices, session(ROOT, 0, mine)[0], session(CHILD, 1, others)[0]))):
        assert event_of(line_of(event)) == event


BEARING = {"answer", "world", "deny", "assistant/message", "tool/call", "tool/result"}
"""Lines without which the log tells of another episode."""


@given(STEPS, STEPS, CHOICES, st.data())
def test_a_log_that_lacks_a_line_is_no_trace(
    mine: list[Any], others: list[Any], choices: list[bool], data: st.DataObject
) -> None:
    lines = merged(choices, session(ROOT, 0, mine)[0], session(CHILD, 1, others)[0])
    # A denied call of the harness' own tools looks like one that failed: only the guard's line tells.
    own = {line["data"]["callId"] for line in lines if line.get("type") == "tool/call" and "bash" in str(line)}
    places = [
        at
        for at, line in enumerate(lines)
        if line.get("type", line["ev"]) in BEARING and not (line["ev"] == "deny" and line["call"] in own)
    ]
    at = data.draw(st.sampled_from(places))
    lines.pop(at)
    with pytest.raises(Inconsistent):
        made(lines)


@given(STEPS, st.data())
def test_a_session_s_events_in_another_order_are_no_trace(mine: list[Any], data: st.DataObject) -> None:
    lines = session(ROOT, 0, mine)[0].lines
    places = [at for at, line in enumerate(lines) if line["ev"] == "event"]
    one, other = sorted(data.draw(st.lists(st.sampled_from(places), min_size=2, max_size=2, unique=True)))
    lines[one], lines[other] = lines[other], lines[one]
    with pytest.raises(Inconsistent, match=re.escape(f"{ROOT}: its event") + "|not|before|which|gave|calls here"):
        made(lines)
