"""Scenarios in the real harness: the tools work over MCP, and the refill arithmetic is that of the real engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.base import Size
from scenarios.registry import scenario
from tests.scenarios.harness_play import play_in_harness

SIZES: tuple[Size, ...] = ("small", "default", "large")


@pytest.mark.parametrize("size", SIZES)
def test_whole_reads_refill_the_context_at_every_turn(size: Size, tmp_path: Path):
    task = scenario("refill-oversized", 3, size)
    looping = task.looping()
    assert looping is not None
    played = play_in_harness(task, looping, tmp_path, steps=10)
    assert played.run.events("request/context")[0]["contextWindow"] == task.needs.window
    # The first read fits. Each later one drives out the one before: one attempt, one summary, one turn apart.
    assert played.commits() == [(2, None), *((turn, 1) for turn in range(3, 11))]
    assert sum(request.compacting for request in played.requests) == 9
    assert not any("error" in data for data in played.run.events("compaction/end"))
    assert (played.ends(), played.world.success) == (["completed"], False)


@pytest.mark.parametrize("size", SIZES)
def test_reading_in_chunks_solves_the_oversized_task(size: Size, tmp_path: Path):
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
