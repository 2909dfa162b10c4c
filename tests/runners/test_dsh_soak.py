"""Many episodes, a third of them stopped at random moments: nothing of them may stay."""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from guards.stack import default_stack
from runners.dsh import DshRunner
from runners.gateway.cast import Cast
from runners.gateway.house import House
from runners.harness.layout import Scratch
from runners.harness.runtime import MARK
from runners.run_directory import failure_of
from runners.spec import Interrupted
from tests.runners.dsh_stage import spec

EPISODES = 30
SEED = 20261130


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: the runner has no room for long ones."""
    made = Path(tempfile.mkdtemp(prefix="soak-"))
    yield made
    shutil.rmtree(made)


def test_nothing_is_left_behind(folder: Path) -> None:
    draw = random.Random(SEED)
    # Once before counting: what the libraries open for good is open then.
    _episode(folder, 0, None)
    us = psutil.Process()
    before = _state(us, folder)
    stopped = 0
    for number in range(1, EPISODES + 1):
        after = draw.uniform(0.0, 2.5) if number % 3 == 0 else None
        stopped += _episode(folder, number, after)
        assert list(folder.iterdir()) == []
    # An interrupt can come when the episode is over already; most must have met one under way.
    assert stopped >= EPISODES // 3 - 3
    assert _state(us, folder) == before


def _episode(folder: Path, number: int, after: float | None) -> bool:
    """One episode, interrupted after that many seconds; whether it was stopped."""
    stack = default_stack()
    scratch = Scratch(folder)
    scenario, arm = ("refill-oversized", "both") if number % 2 else ("search-mirage", "host")
    try:
        with House(Cast(None)) as house:
            runner = DshRunner(house, stack, scratch)
            timer = threading.Timer(after, runner.interrupt) if after is not None else None
            if timer is not None:
                timer.start()
            try:
                trace = runner.run(spec(scenario, arm, "looping", stack, seed=number)).trace
            except Interrupted:
                return True
            finally:
                if timer is not None:
                    timer.cancel()
                    timer.join()
    finally:
        scratch.remove()
    assert failure_of(trace) is None, failure_of(trace)
    return False


def _state(us: psutil.Process, folder: Path) -> dict[str, object]:
    """What this process and its episodes hold open."""
    return {
        "children": [(child.name(), child.status()) for child in us.children(recursive=True)],
        "marked": [process.pid for process in psutil.process_iter() if _marked(process, folder)],
        "sockets": len(us.net_connections(kind="all")),
        "files": us.num_fds(),
        "threads": sorted(thread.name for thread in threading.enumerate() if not thread.name.startswith("asyncio_")),
    }


def _marked(process: psutil.Process, folder: Path) -> bool:
    """Whether it belongs to an episode of this test; others may run at the same time."""
    try:
        environment = process.environ()
        return MARK in environment and environment.get("DSH_HOME", "").startswith(str(folder))
    except psutil.Error:
        return False
