"""Scenarios in the real harness: the tools work over MCP, and the refill arithmetic is that of the real engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.base import Size
from scenarios.course import Script, ask
from scenarios.registry import scenario
from scenarios.reread_after_edit import SETTINGS, RereadAfterEdit
from scenarios.workspace import FilesWorld, snapshot
from tests.scenarios.harness_play import play_in_harness

SIZES: tuple[Size, ...] = ("small", "default", "large")


@pytest.mark.parametrize("size", SIZES)
def test_whole_reads_refill_the_context_at_every_turn(size: Size, tmp_path: Path):
    task = scenario("refill-oversized", 3, size)
    looping = task.looping()
    assert looping is not None
    played = play_in_harness(task, looping, tmp_path, steps=10)
    assert played.run.events("request/context")[0]["contextWindow"] == task.needs.window
    # The first reads fit. Each later one drives out the one before: one attempt, one summary, one turn apart.
    first = played.commits()[0][0]
    assert first in (2, 3)
    assert played.commits() == [(first, None), *((turn, 1) for turn in range(first + 1, 11))]
    assert sum(request.compacting for request in played.requests) == 11 - first
    assert not any("error" in data for data in played.run.events("compaction/end"))
    assert (played.ends(), played.world.success) == (["completed"], False)


@pytest.mark.parametrize("size", SIZES)
def test_the_alarm_solves_the_oversized_task(size: Size, tmp_path: Path):
    task = scenario("refill-oversized", 3, size)
    played = play_in_harness(task, task.honest(), tmp_path)
    assert (played.ends(), played.world.success) == (["completed"], True)
    assert len(played.commits()) <= 1


@pytest.mark.parametrize("size", SIZES)
def test_the_healthy_task_compacts_several_times_at_healthy_gaps(size: Size, tmp_path: Path):
    task = scenario("refill-healthy", 3, size)
    played = play_in_harness(task, task.honest(), tmp_path)
    assert (played.ends(), played.world.success) == (["completed"], True)
    assert len(played.commits()) >= {"small": 2, "default": 3, "large": 6}[size]
    assert all(gap is None or gap >= 4 for _, gap in played.commits())


def test_a_loop_without_compaction_runs_on(tmp_path: Path):
    task = scenario("search-mirage", 3)
    looping = task.looping()
    assert looping is not None
    played = play_in_harness(task, looping, tmp_path, steps=12)
    assert (played.world.ticks, played.commits(), played.world.finished) == (12, [], False)


def test_polling_ends_with_an_accepted_receipt(tmp_path: Path):
    task = scenario("poll-queued", 3, "small")
    played = play_in_harness(task, task.honest(), tmp_path)
    assert (played.ends(), played.world.success) == (["completed"], True)
    assert played.world.ticks == 6 + 3 + 2


def test_the_stand_ins_do_what_the_harness_s_own_tools_do_to_the_files(tmp_path: Path):
    task = RereadAfterEdit(3)
    (key, before, after), *_ = task.wrong()
    edit = {"file_path": SETTINGS, "old_string": f"{key} = {before}\n", "new_string": f"{key} = {after}\n"}
    there, twice = str(tmp_path / "workspace" / SETTINGS), {"file_path": SETTINGS, "old_string": " = "}
    odd = Script(
        (
            ask("edit", **edit | {"old_string": "nowhere"}),
            ask("edit", **twice, new_string=" == "),
            ask("edit", **edit | {"new_string": edit["old_string"]}),
            ask("read", file_path=SETTINGS, offset=3, limit=2),
            ask("read", file_path="nowhere.ini"),
            ask("edit", **edit | {"file_path": "nowhere.ini"}),
            ask("edit", **edit | {"file_path": there}),
            ask("read", file_path=f"./{SETTINGS}"),
            ask("edit", **twice, new_string=" =  ", replace_all=True),
            ask("bash", command="sh check.sh"),
            ask("edit", **twice | {"old_string": " =  "}, new_string=" = ", replace_all=True),
        )
    )
    for number, course in enumerate((odd, task.honest())):
        folder, twin = tmp_path if number == 0 else tmp_path / "honest", task.world()
        played = play_in_harness(task, course, folder)
        assert played.ends() == ["completed"]
        assert len(played.calls) == len(course.turns)
        for (tool, args), shown in played.calls:
            expected = twin.call(tool, args)
            assert shown.error == expected.error, (tool, args, shown)
            if tool == "bash":
                assert expected.text in shown.text
            if tool == "read" and not expected.error:
                assert all(line.split("\t")[1] in shown.text for line in expected.text.splitlines())
        assert isinstance(twin, FilesWorld)
        assert snapshot(folder / "workspace", twin.files)[0]["changed"] == {}
        assert twin.success is (number == 1)
