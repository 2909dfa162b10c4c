"""The audit: where guards first hurt honest courses and stop looping ones, worked out by hand for our own."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from rich.console import Console

from guards import registry
from guards.errors import UserError
from guards.stack_policy import StackPolicy
from results.episode import Episode
from runners.audit import RIGHT, STACK, Audit, audit, kinds, mounted, play
from runners.audit_tables import data, summary, tables
from runners.replay import replay
from scenarios.play import play as plain
from scenarios.registry import names, scenario

# Honest courses at the default size that a guard of ours alone hurts: call, tool, class, and whether they succeed then.
# circuit-breaker: the sixth identical call; of reread-after-edit's rounds of three that is call 16.
BREAKER = {
    "poll-progress": (6, "job_status", "novel", False),
    "poll-queued": (6, "job_status", "needed", False),
    "reread-after-edit": (16, "bash", "novel", True),
    "asked-repeat": (6, "run_command", "requested", False),
    "flaky-retry": (6, "fetch_gauge", "needed", False),
    "long-tail-diff": (6, "job_status", "novel", False),
    "poll-file": (6, "read", "novel", False),
    "relist-directory": (6, "list_directory", "needed", False),
}
# loop-guard: the ninth, where call and the beginning of its result were the same eight times.
LOOP_GUARD = {
    "poll-queued": (9, "job_status", "needed", False),
    "asked-repeat": (9, "run_command", "requested", False),
    "long-tail-diff": (9, "job_status", "novel", False),
}
# The first denial of looping courses of one call again and again, of two and of three calls, and of five in each turn.
BREAKER_TRIPS = {"ping-pong": 11, "cycle-of-three": 16, "refill-chatty": 26, "reworded-search": None}
LOOP_GUARD_TRIPS = {
    "annotated-args": None,
    "reworded-search": None,
    "ping-pong": None,
    "cycle-of-three": None,
    "refill-chatty": None,
    # Its first result is the text, and those after it are rejections.
    "wasted-read": 10,
}


@pytest.fixture(scope="module")
def found() -> Audit:
    return audit(names(), ("default",), (0,))


def hurt(found: Audit, guard: str) -> dict[str, tuple[int, str | None, str, bool]]:
    return {
        row.scenario: (row.hurt.asked, row.hurt.tool, row.hurt.judged, row.success)
        for row in found.honest
        if row.guard == guard and row.hurt is not None
    }


def trips(found: Audit, guard: str, loop: str = "calls") -> dict[str, int | None]:
    return {
        row.scenario: None if row.trip is None else row.trip.index
        for row in found.looping
        if (row.guard, row.loop) == (guard, loop)
    }


def test_every_course_meets_every_guard(found: Audit):
    assert found.guards == (STACK, *registry.names(), *registry.peer_names())
    assert [(row.guard, row.scenario) for row in found.honest] == [(g, n) for g in found.guards for n in names()]
    looping = {name for name in names() if scenario(name).looping() is not None}
    for guard, stack in mounted().items():
        if "calls" in kinds(stack):
            assert set(trips(found, guard)) == looping
        if "refill" in kinds(stack):
            refills = {name for name in looping if scenario(name).needs.engine is not None}
            assert set(trips(found, guard, "refill")) == refills


def test_whom_our_guards_hurt_and_when(found: Audit):
    assert hurt(found, "circuit-breaker") == BREAKER
    assert hurt(found, "loop-guard") == LOOP_GUARD
    # In the stack the breaker is asked first and acts first.
    assert hurt(found, STACK) == BREAKER
    assert hurt(found, "compaction-breaker") == hurt(found, "repeat-reminder") == {}
    nudged = {row.scenario for row in found.honest if row.guard == "loop-guard" and row.nudge is not None}
    assert nudged == {*LOOP_GUARD, "flaky-retry"}


def test_when_our_guards_stop_loops(found: Audit):
    looping = trips(found, "circuit-breaker")
    assert looping == dict.fromkeys(looping, 6) | BREAKER_TRIPS
    assert trips(found, "loop-guard") == dict.fromkeys(looping, 9) | LOOP_GUARD_TRIPS
    assert set(trips(found, "repeat-reminder").values()) == {None}
    assert trips(found, "compaction-breaker", "refill") == {"refill-oversized": 4, "refill-chatty": 4}
    for row in found.looping:
        assert row.delay == (None if row.trip is None else row.trip.index - row.onset)
        assert row.trip is None or row.trip.judged in ("sterile-in-loop", "futile-in-loop")


def test_the_reminder_nudges_at_the_third_in_a_row(found: Audit):
    nudges = {row.scenario: row.nudge for row in found.looping if row.guard == "repeat-reminder"}
    assert {name for name, nudge in nudges.items() if nudge is None} == {
        *("annotated-args", "reworded-search", "ping-pong", "cycle-of-three", "refill-chatty"),
    }
    assert {(nudge.index, nudge.count, nudge.limit) for nudge in nudges.values() if nudge} == {(3, 3, 3)}


def test_a_course_that_the_recording_leaves_alone_is_left_alone(found: Audit):
    for row in found.honest:
        assert (row.frozen == 0) == (row.stopped == {})
        assert row.success or row.stopped
        assert (row.hurt is None) == (not set(row.stopped) & set(RIGHT))
        assert (row.nudge is None) == (not set(row.nudged) & set(RIGHT))


@pytest.mark.parametrize("guard", ["loop-guard", "peer:roo-code", "peer:crewai", "peer:hermes"])
def test_the_first_stop_is_that_of_the_recording(found: Audit, guard: str):
    for name in names():
        trace = play(scenario(name), "honest")
        decided = replay(trace, StackPolicy(mounted()[guard].policies()))
        first = next((each for each in decided if each.action == "deny"), None)
        row = next(row for row in found.honest if (row.guard, row.scenario) == (guard, name))
        assert (row.hurt and (row.hurt.agent, row.hurt.index, row.hurt.count)) == (
            first and (first.agent, first.index, first.count)
        )


@pytest.mark.parametrize("name", names())
def test_without_a_guard_the_courses_are_those_of_the_world_alone(name: str):
    made = scenario(name, 1, "small")
    for course, script in (("honest", made.honest()), ("looping", made.looping())):
        if script is None or (course == "looping" and made.needs.engine is not None):
            continue
        native, alone = Episode(play(made, course)), Episode(plain(made, script))  # type: ignore[arg-type]
        asked = [[(call.agent, call.tool, call.args, call.why) for call in each.calls] for each in (native, alone)]
        assert asked[0] == asked[1]
        assert (native.end, native.success) == (alone.end, alone.success)


def test_honest_courses_count_once_a_scenario_and_size():
    found = audit(("poll-queued", "search-mirage"), ("small", "default"), (0, 1, 2))
    assert len(found.honest) == 2 * 2 * 3 * len(found.guards)
    told = summary(found, "circuit-breaker")
    assert (told["n"], told["hurt"], told["failed"], told["nudged"]) == (4, 2, 2, 0)
    assert (told["loops"], told["tripped"]) == (2, 2)
    assert told["first"] == {
        "scenario": "poll-queued",
        "size": "small",
        "seed": 0,
        "call": 6,
        "tool": "job_status",
        "class": "needed",
        "success": False,
    }
    assert summary(found, "repeat-reminder") | {"guard": ""} == {
        **{"guard": "", "n": 4, "hurt": 0, "failed": 0, "nudged": 2, "first": None, "loops": 2, "tripped": 0},
    }


def test_as_data(found: Audit):
    read = json.loads(json.dumps(data(found)))
    assert set(read) == {"sizes", "seeds", "scenarios", "guards", "honest", "looping"}
    assert [row["guard"] for row in read["guards"]] == list(found.guards)
    row = next(row for row in read["honest"] if (row["guard"], row["scenario"]) == ("loop-guard", "poll-queued"))
    assert row["hurt"] == {
        "guard": "loop-guard",
        "action": "deny",
        "agent": "root",
        "index": 9,
        "asked": 9,
        "tool": "job_status",
        "judged": "needed",
        "why": "the queue moves on by one place with each call",
        "kind": "identical-result",
        "count": 8,
        "limit": 8,
    }
    assert {len(row) for row in read["looping"]} == {12}


def test_as_tables(found: Audit):
    text = StringIO()
    for table in tables(found):
        Console(file=text, width=150).print(table)
    lines = text.getvalue().splitlines()
    (first,) = (line for line in lines if "loop-guard" in line and "│ 24 │" in line)
    cells = [cell.strip() for cell in first.split("│")[1:-1]]
    assert cells == ["loop-guard", "24", "3", "3", "4", "poll-queued", "9 job_status", "needed"]
    assert any("6 of 6" in line and "fails (horizon)" in line and "19 needed" in line for line in lines)
    assert any("11 (+8): ping-pong" in line for line in lines)
    assert any("compaction-breaker (refills)" in line and "4 (+3): refill-oversized" in line for line in lines)


def test_what_does_not_exist():
    with pytest.raises(UserError, match="no scenario 'nope'"):
        audit(("nope",), ("small",), (0,))
