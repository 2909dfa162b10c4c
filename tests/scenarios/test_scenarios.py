"""What holds for every scenario."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any, get_args

import pytest

from guards.errors import UserError
from results.trace import Call, End, Label, Result, Trace
from scenarios.base import CLOSED, Scenario, Size
from scenarios.course import Course
from scenarios.judge import judge
from scenarios.play import play
from scenarios.registry import SCENARIOS, names, scenario
from tests.scenarios.calls import HOSTILE, HOSTILE_VALUES, PATHS, classes, walked

ROOT = Path(__file__).parents[2]
SEEDS = (0, 1, 7, 1000, 123_456)
SIZES: tuple[Size, ...] = get_args(Size)
ALL = pytest.mark.parametrize("kind", SCENARIOS, ids=[each.name for each in SCENARIOS])
TASKS = [each(seed, size) for each in SCENARIOS for size in SIZES for seed in SEEDS]
EVERY = pytest.mark.parametrize("task", TASKS, ids=[f"{task.name}-{task.size}-{task.seed}" for task in TASKS])


def end(trace: Trace) -> End:
    (found,) = (event for event in trace.events if isinstance(event, End))
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
def test_a_trip_scenario_has_a_loop_that_begins_with_its_second_turn_and_never_ends(task: Scenario):
    looping = task.looping()
    assert (looping is not None) == (task.expect == "trip")
    if looping is not None:
        trace = play(task, looping)
        assert end(trace) == End(reason="horizon", success=False)
        found, fresh = classes(trace), len(looping.turn(0, ()).calls)
        assert (set(found[:fresh]), set(found[fresh:])) == ({"novel"}, {"sterile"})
        assert len(found) - fresh >= task.needs.horizon - 1


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
        good: dict[str, Any] = {"string": "x", "integer": 1, "boolean": False}
        properties = tool.parameters["properties"]
        for name in properties:
            args = {each: good[schema["type"]] for each, schema in properties.items()} | {name: HOSTILE_VALUES[value]}
            world = task.world()
            world.judge("root", tool.name, args)
            outcome = world.call(tool.name, args)
            assert 0 < len(outcome.text) < 8000
            refused += outcome.error
    assert refused > 0


@ALL
def test_paths_lead_nowhere(kind: type[Scenario]):
    task = kind()
    for tool in task.native_tools:
        for name in {"path", "file_path"} & set(tool.parameters["properties"]):
            for path in PATHS:
                args = {name: path} | dict.fromkeys(set(tool.parameters["required"]) - {name}, "x")
                assert task.world().call(tool.name, args).error


def test_worlds_are_equal_in_other_processes():
    """200 random walks a scenario: results and labels, with other hash seeds, time zones and locales."""

    def started(hash_seed: str, zone: str, locale: str) -> subprocess.Popen[str]:
        env = os.environ | {"PYTHONHASHSEED": hash_seed, "TZ": zone, "LC_ALL": locale, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "tests.scenarios.walks"]
        return subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)

    with started("0", "UTC", "C") as first, started("4711", "Pacific/Kiritimati", "tr_TR.UTF-8") as second:
        digests, others = first.communicate(timeout=120)[0], second.communicate(timeout=120)[0]
    assert (first.returncode, second.returncode) == (0, 0)
    assert len(digests.splitlines()) == 200 * len(SCENARIOS)
    assert digests == others


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
