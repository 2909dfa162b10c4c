"""Compaction attempts told from hand-made logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.harness.attempts import Attempt, Attempts
from runners.harness.eventlog import Inconsistent, Line
from tests.runners.harness.log_lines import CHILD, Ask, Log, merged


def read(lines: list[Line], *planes: str) -> list[Attempt]:
    attempts = Attempts(planes or ("host",))
    for line in lines:
        attempts.read(line)
    attempts.rest()
    return attempts.settled


def only(log: Log, *planes: str) -> Attempt:
    (attempt,) = read(log.lines, *planes)
    return attempt


def test_before_a_step_it_is_pressure_and_the_one_engine_names_the_plane() -> None:
    attempt = only(Log().event("turn/start").compact().event("step/start"), "agent")
    assert attempt == Attempt(
        agent="session-root",
        trigger="pressure",
        plane="agent",
        committed=True,
        summary_calls=1,
        input_tokens=100,
        output_tokens=10,
        seconds=0.75,
        tokens_before=900,
        tokens_after=300,
    )
    assert attempt.outcome == "committed"


def test_within_a_step_it_is_overflow() -> None:
    log = Log().event("step/start").event("assistant/attempt").compact().reply().event("step/end")
    assert only(log).trigger == "overflow"


@pytest.mark.parametrize("over", ["assistant/message", "step/end", "turn/end"])
def test_after_a_step_it_is_pressure_again(over: str) -> None:
    assert only(Log().event("step/start").event(over).compact()).trigger == "pressure"


def test_outside_of_a_turn_it_is_by_hand() -> None:
    assert only(Log().event("turn/end").compact(turn=None)).trigger == "manual"


def test_two_engines_leave_the_plane_open() -> None:
    assert only(Log().compact(), "host", "agent").plane is None


def test_what_is_compacted_in_one_go_is_one_attempt() -> None:
    attempt = only(Log().compact(error="not smaller").compact(summaries=2).event("step/start"))
    assert (attempt.outcome, attempt.summary_calls, attempt.seconds) == ("committed", 3, 2.25)
    assert (attempt.tokens_before, attempt.tokens_after) == (900, 300)


@pytest.mark.parametrize("move", ["turn/start", "step/start", "assistant/attempt", "tool/call", "step/end", "turn/end"])
def test_the_loop_s_next_move_ends_it(move: str) -> None:
    attempts = Attempts(["host"])
    log = Log().compact().event("session/title").event(move)
    gave = [attempts.read(line) for line in log.lines]
    assert [len(each) for each in gave] == [0] * (len(gave) - 1) + [1]
    assert attempts.settled == gave[-1]
    assert attempts.rest() == []


def test_a_failed_summary_is_a_failed_attempt() -> None:
    assert only(Log().compact(error="not smaller").event("step/start")).outcome == "failed"


def test_an_attempt_that_came_to_nothing() -> None:
    attempt = only(Log().attempt().settled(replaced=False))
    assert (attempt.outcome, attempt.summary_calls, attempt.by) == ("nothing", 0, "compaction-breaker")


def test_a_refused_attempt_has_no_summary() -> None:
    attempt = only(Log().attempt("refuse", "overflow", "agent").settled("agent"), "host", "agent")
    assert (attempt.outcome, attempt.trigger, attempt.plane, attempt.summary_calls) == (
        "refused",
        "overflow",
        "agent",
        0,
    )


def test_the_breaker_s_word_for_the_trigger_and_its_end_count() -> None:
    log = Log().event("step/start").attempt(trigger="pressure").compact().event("job/settled").compact().settled()
    log.attempt(trigger="overflow").compact().settled()
    assert [(each.trigger, each.summary_calls) for each in read(log.lines)] == [("pressure", 2), ("overflow", 1)]


def test_both_planes_make_two_attempts() -> None:
    log = Log().attempt("refuse").settled().attempt(plane="agent").compact().settled("agent")
    assert [(each.plane, each.outcome) for each in read(log.lines, "host", "agent")] == [
        ("host", "refused"),
        ("agent", "committed"),
    ]


def test_what_the_log_s_end_cuts_off_is_one_too() -> None:
    log = Log().event("compaction/start", turn=1).answer(compaction=True)
    attempts = Attempts(["host"])
    assert [attempts.read(line) for line in log.lines] == [[], []]
    (attempt,) = attempts.rest()
    assert (attempt.outcome, attempt.summary_calls) == ("nothing", 1)


def test_replies_that_are_no_summaries_are_none_of_its() -> None:
    assert read(Log().step(Ask("c1")).answer(1).lines) == []


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (Log().answer(compaction=True), "asked for a summary, and none is under way"),
        (Log().event("compaction/summary"), "has a summary, and none is under way"),
        (Log().event("compaction/end", turn=1, error="x"), "failed, and none is under way"),
        (Log().compact().event("step/start").answer(compaction=True), "asked for a summary, and none is under way"),
        (Log().settled(), "is settled, and none is under way"),
        (Log().attempt().settled().settled(), "is settled, and none is under way"),
        (Log().attempt(plane="host").settled("agent"), "is settled in agent, and began elsewhere"),
        (Log().attempt("refuse").answer(compaction=True), "a refused compaction asked for a summary"),
        (Log().attempt().add("answer", compaction=True), "input_tokens"),
    ],
)
def test_what_contradicts_itself_is_no_attempt(log: Log, says: str) -> None:
    with pytest.raises((Inconsistent, KeyError), match=says):
        read(log.lines)


# -- two sessions at once --------------------------------------------------------------------------------------------

MOVES: dict[str, Callable[[Log], Any]] = {
    "step": lambda log: log.step(Ask("c")),
    "open step": lambda log: log.event("step/start").event("assistant/attempt"),
    "own": lambda log: log.compact(),
    "own, twice": lambda log: log.compact(summaries=2),
    "own, failed": lambda log: log.compact(error="not smaller"),
    "by hand": lambda log: log.event("turn/end").compact(turn=None),
    "allowed": lambda log: log.attempt().compact().settled(),
    "allowed, failed": lambda log: log.attempt().compact(error="x").compact(error="y").settled(replaced=False),
    "refused": lambda log: log.attempt("refuse").settled(replaced=False),
    "refused, then the other plane": lambda log: (
        log.attempt("refuse").settled().attempt(plane="agent").compact().settled("agent")
    ),
    "cut off": lambda log: log.event("compaction/start", turn=1).answer(compaction=True),
    "message": lambda log: log.said("go on"),
}
COURSES = st.lists(st.sampled_from(sorted(MOVES)), max_size=8)


def written(session: str, course: list[str]) -> Log:
    log = Log(session)
    for move in course:
        MOVES[move](log)
    return log


@given(COURSES, COURSES, st.lists(st.booleans(), max_size=200))
def test_sessions_do_not_touch_each_other(mine: list[str], other: list[str], choices: list[bool]) -> None:
    logs = written("session-root", mine), written(CHILD, other)
    together = read(merged(choices, *logs), "host", "agent")
    for log in logs:
        assert [each for each in together if each.agent == log.session] == read(log.lines, "host", "agent")


@given(COURSES, COURSES, st.lists(st.booleans(), max_size=200))
def test_no_summary_is_lost_and_every_reading_is_the_same(
    mine: list[str], other: list[str], choices: list[bool]
) -> None:
    lines = merged(choices, written("session-root", mine), written(CHILD, other))
    attempts = Attempts(["host"])
    piecewise = [attempt for line in lines for attempt in attempts.read(line)] + attempts.rest()
    assert piecewise == attempts.settled == read(lines, "host")
    asked = sum(line["ev"] == "answer" and line["compaction"] for line in lines)
    assert sum(attempt.summary_calls for attempt in piecewise) == asked
    assert sum(attempt.outcome == "refused" for attempt in piecewise) == sum(line["ev"] == "refuse" for line in lines)
