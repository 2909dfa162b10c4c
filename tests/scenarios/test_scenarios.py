"""What holds for every scenario."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import get_args

import pytest

from guards.errors import UserError
from results.episode import Episode
from results.loops import loops
from results.trace import Call, End, Label, Result, Trace
from runners.suite_file import load_suite
from scenarios.base import CLOSED, Outcome, Scenario, Size
from scenarios.course import Course
from scenarios.judge import judge
from scenarios.play import play
from scenarios.registry import SCENARIOS, names, scenario
from tests.scenarios.calls import HOSTILE, HOSTILE_VALUES, PATHS, classes, filled, listening, nested, walked

ROOT = Path(__file__).parents[2]
SEEDS = (0, 1, 7, 1000, 123_456)
SIZES: tuple[Size, ...] = get_args(Size)
ALL = pytest.mark.parametrize("kind", SCENARIOS, ids=[each.name for each in SCENARIOS])
TASKS = [each(seed, size) for each in SCENARIOS for size in SIZES for seed in SEEDS]
ONSETS: Mapping[str, int | Mapping[Size, int]] = {
    "ping-pong": 3,
    "cycle-of-three": 4,
    "refill-chatty": {"small": 5, "default": 6, "large": 7},
}
"""The call with which each looping course's loop begins, where it is not the second."""
DELEGATED = {"delegated-loop"}
"""Scenarios whose loop is in the first subagent."""
EVERY = pytest.mark.parametrize("task", TASKS, ids=[f"{task.name}-{task.size}-{task.seed}" for task in TASKS])


def end(trace: Trace) -> End:
    (found,) = (event for event in trace.events if isinstance(event, End) and event.agent == "root")
    return found


@EVERY
def test_the_honest_course_succeeds_within_the_horizon(task: Scenario):
    trace = play(task, task.honest())
    assert end(trace) == End(reason="completed", success=True)
    assert [event.unit for event in trace.events if isinstance(event, Label)].count(True) >= 1
    if task.expect == "quiet":
        assert set(classes(trace)) <= {"novel", "needed", "requested"}


@EVERY
def test_a_turn_depends_on_nothing_but_its_arguments(task: Scenario):
    def turns(course: Course, again: Course) -> None:
        world, results = task.world(), ()
        for step in range(12):
            turn = course.turn(step, results)
            assert again.turn(step, results) == turn == course.turn(step, results)
            results = tuple(world.call(tool, args) for tool, args in turn.calls)

    turns(task.honest(), task.honest())
    first, second = task.looping(), task.looping()
    if first is not None and second is not None:
        turns(first, second)


@EVERY
def test_a_looping_course_loops_from_where_its_script_puts_it_to_the_horizon(task: Scenario):
    looping = task.looping()
    assert (looping is not None) == (task.expect == "trip")
    if looping is None:
        return
    episode = Episode(play(task, looping))
    assert (episode.end, episode.success) == ("horizon", False)
    (loop,) = loops(episode)
    at = ONSETS.get(task.name, 2)
    agent = "agent-1" if task.name in DELEGATED else "root"
    assert (loop.kind, loop.agent, loop.ended) == ("calls", agent, "horizon")
    assert loop.onset == (at if isinstance(at, int) else at[task.size])
    # Nothing is sterile before it, and everything after.
    assert {call.judged for call in episode.calls if call.position < loop.position} == {"novel"}
    assert {call.judged for call in episode.calls if call.position >= loop.position} == {"sterile"}
    assert loop.length == len(episode.calls_of(agent)) - loop.onset + 1


@EVERY
def test_after_the_end_every_call_is_answered_that_the_task_is_closed(task: Scenario):
    trace = play(task, task.honest())
    calls = [event for event in trace.events if isinstance(event, Call)]
    world = task.world()
    for call in calls:
        world.call(call.tool, call.args)
    assert world.finished
    assert {world.judge("root", call.tool, call.args).judged for call in calls} == {"sterile"}
    assert {world.call(call.tool, call.args).text for call in calls} == {CLOSED}


@ALL
@pytest.mark.parametrize("size", SIZES)
def test_texts_vary_by_seed_and_are_plain(kind: type[Scenario], size: Size):
    tasks = [kind(seed, size) for seed in range(40)]
    assert len({task.prompt for task in tasks}) >= 8
    traces = [play(task, task.honest()) for task in tasks]
    texts = {tuple(event.text for event in trace.events if isinstance(event, Result)) for trace in traces}
    assert len(texts) >= 38
    for task, trace in zip(tasks, traces, strict=True):
        shown = task.prompt + "".join(event.text for event in trace.events if isinstance(event, Result))
        assert shown.isascii()
        assert not {"{", "}"} & set(shown)


@ALL
def test_labels_are_a_pure_function_of_the_trace(kind: type[Scenario]):
    for number in range(60):
        task = kind(number, SIZES[number % 3])
        trace = walked(task, Random(number))
        labels, success = judge(task, trace)
        calls = [event for event in trace.events if isinstance(event, Call)]
        assert [(label.agent, label.call) for label in labels] == [(call.agent, call.id) for call in calls]
        assert all(label.why for label in labels)
        again = Trace(trace.header, (*trace.events, *labels))
        assert judge(kind(number, SIZES[number % 3]), again) == (labels, success)


@ALL
def test_judging_changes_nothing(kind: type[Scenario]):
    for number in range(30):
        trace = walked(kind(number), Random(number))
        calls = [event for event in trace.events if isinstance(event, Call)]
        plain, judged = kind(number).world(), kind(number).world()
        for call in calls:
            first = judged.judge(call.agent, call.tool, call.args)
            assert judged.judge(call.agent, call.tool, call.args) == first
            assert judged.call(call.tool, call.args, call.agent) == plain.call(call.tool, call.args)


@ALL
@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_arguments_are_an_error_and_change_nothing(kind: type[Scenario], value: str):
    task = kind()
    world, fresh = task.world(), task.world()
    for tool in (*(each.name for each in task.native_tools), "no_such_tool", "", "\ud800\x00", "x" * 10_000_000):
        first = world.judge("root", tool, HOSTILE[value])
        outcome = world.call(tool, HOSTILE[value])
        assert outcome.error
        assert 0 < len(outcome.text) < 400
        outcome.text.encode()
        assert (first.judged, world.judge("root", tool, HOSTILE[value]).judged) == ("novel", "sterile")
    assert world.ticks == 0
    rest = [call for call in play(task, task.honest()).events if isinstance(call, Call)]
    assert [world.call(call.tool, call.args) for call in rest] == [fresh.call(call.tool, call.args) for call in rest]


@ALL
@pytest.mark.parametrize("value", HOSTILE_VALUES)
def test_a_hostile_value_in_any_argument_is_answered(kind: type[Scenario], value: str):
    task = kind()
    refused = 0
    for tool in task.native_tools:
        for name in tool.parameters["properties"]:
            args = filled(tool.parameters, **{name: HOSTILE_VALUES[value]})
            world = task.world()
            world.judge("root", tool.name, args)
            outcome = world.call(tool.name, args)
            assert 0 < len(outcome.text) < 8000
            outcome.text.encode()
            refused += outcome.error
    assert refused > 0


@ALL
def test_a_missing_argument_is_named_and_one_too_many_is_an_error(kind: type[Scenario]):
    task = kind()
    world = task.world()
    for tool in task.native_tools:
        for name in tool.parameters["required"]:
            args = filled(tool.parameters)
            del args[name]
            assert world.call(tool.name, args) == Outcome(
                f"Invalid arguments for {tool.name}: {name}: Field required", error=True
            )
    for tool in task.tools:
        outcome = world.call(tool.name, filled(tool.parameters, surprise=1))
        assert outcome.error
        assert "surprise: " in outcome.text
    assert world.ticks == 0


@ALL
def test_paths_lead_nowhere(kind: type[Scenario]):
    task = kind()
    for tool in task.native_tools:
        for name in {"path", "file_path"} & set(tool.parameters["properties"]):
            for path in PATHS:
                assert task.world().call(tool.name, filled(tool.parameters, **{name: path})).error


@ALL
def test_hostile_calls_touch_nothing(kind: type[Scenario]):
    """Files, processes, other machines: a world has nothing to do with them, whatever it is asked."""
    task = kind()
    calls = [
        (tool.name, filled(tool.parameters, **{name: value}))
        for tool in task.native_tools
        for name in tool.parameters["properties"]
        for value in (*PATHS, "$(id)", "; rm -rf /", "x\x00y", 10**300, nested(5000))
    ]
    # What is loaded when it is first needed is loaded now.
    task.world().call(*calls[0])
    world = task.world()
    with listening() as touched:
        for tool, args in calls:
            world.judge("root", tool, args)
            world.call(tool, args)
    assert touched == []


def test_what_is_touched_is_heard(tmp_path: Path):
    with listening() as touched:
        (tmp_path / "a").write_text("a")
        (tmp_path / "a").rename(tmp_path / "b")
    assert touched == ["open", "os.rename"]


def test_the_registry_names_what_there_is():
    assert set(names()) == {each.name for each in SCENARIOS}
    assert len(set(names())) == len(SCENARIOS)
    for name in names():
        assert scenario(name, 3, "small").name == name
    with pytest.raises(UserError, match=r"no scenario 'nope': give one of search-mirage, "):
        scenario("nope")
    with pytest.raises(UserError, match=r"seed -1 is negative"):
        scenario("search-mirage", -1)
    with pytest.raises(UserError, match=r"no size 'huge': give one of small, default, large"):
        scenario("search-mirage", 0, "huge")  # type: ignore[arg-type]


def test_each_scenario_is_one_module_of_less_than_120_lines():
    for each in SCENARIOS:
        module = ROOT / "scenarios" / f"{each.name.replace('-', '_')}.py"
        assert each.__module__ == f"scenarios.{module.stem}"
        assert len(module.read_text().splitlines()) < 120


def test_suites_leave_nothing_out():
    def of(suite: str) -> set[str]:
        return {name for name, _ in load_suite(suite)[1].scenarios}

    quiet = {name for name in names() if scenario(name).expect == "quiet"}
    refills = {name for name in names() if scenario(name).needs.engine is not None}
    # Both ways, so that a failure names what is missing.
    assert (set(names()) - of("full"), of("full") - set(names())) == (set(), set())
    assert (quiet - of("quiet-only"), of("quiet-only") - quiet) == (set(), set())
    assert (refills - of("refill"), of("refill") - refills) == (set(), set())
    assert load_suite("full")[1].arms == load_suite("quick")[1].arms
