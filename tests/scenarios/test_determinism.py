"""Worlds and verdicts are functions of (scenario, seed, size, calls): nothing of the process or machine gets in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from scenarios.registry import names

ROOT = Path(__file__).parents[2]
WALKS = 200


def started(hash_seed: str, zone: str, locale: str, folder: Path) -> subprocess.Popen[str]:
    """A process that prints a digest of each random walk: prompt, calls, results, labels, success."""
    env = os.environ | {"PYTHONHASHSEED": hash_seed, "TZ": zone, "LC_ALL": locale, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.scenarios.walks", str(WALKS)]
    return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True)


def test_200_random_call_sequences_a_scenario_are_equal_in_two_processes(tmp_path: Path):
    first = started("0", "UTC", "C", tmp_path)
    second = started("4711", "Pacific/Kiritimati", "tr_TR.UTF-8", tmp_path)
    with first, second:
        digests, others = (
            first.communicate(timeout=600)[0].splitlines(),
            second.communicate(timeout=600)[0].splitlines(),
        )
    assert (first.returncode, second.returncode) == (0, 0)
    assert [line.rpartition(" ")[0] for line in digests] == [f"{name} {at}" for name in names() for at in range(WALKS)]
    assert [line for line, other in zip(digests, others, strict=True) if line != other] == []
    # The walks are different ones.
    assert len({line.rpartition(" ")[2] for line in digests}) == len(digests)
    assert list(tmp_path.iterdir()) == []
