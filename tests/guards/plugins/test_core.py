"""The plugins' decision cores give the decisions that are expected of every guard."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.guards.plugins.node import NODE, REPLAY, Cores

ROOT = Path(__file__).resolve().parents[3]
PLUGINS = ROOT / "guards" / "plugins"
TRACES = ROOT / "tests" / "traces"
EXPECTED = [
    pytest.param(trace, row, id=f"{trace}-{row['guard']}-{json.dumps(row['config'])}")
    for trace, rows in json.loads((TRACES / "expected.json").read_text(encoding="utf-8")).items()
    for row in rows
]


@pytest.fixture(scope="module")
def cores() -> Iterator[Cores]:
    with Cores() as running:
        yield running


def test_rows_of_all_traces_are_there() -> None:
    assert len(EXPECTED) == 300


@pytest.mark.parametrize(("trace", "row"), EXPECTED)
def test_expected_decisions(cores: Cores, trace: str, row: dict[str, Any]) -> None:
    text = (TRACES / f"{trace}.trace.jsonl").read_text(encoding="utf-8")
    decisions = cores.replay(row["guard"], row["config"], text)
    keys = [tuple(wanted) for wanted in row["decisions"]]
    assert [{key: got[key] for key in of} for got, of in zip(decisions, keys, strict=True)] == row["decisions"]


def test_command_line_prints_one_decision_a_line() -> None:
    trace = TRACES / "identical-search-30.trace.jsonl"
    command = [str(NODE), str(REPLAY), "loop-guard", '{"softThreshold": 0, "hardThreshold": 29}', str(trace)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == (
        '{"episode":"identical-search-30","agent":"root","guard":"loop-guard","action":"deny","kind":"identical-result",'
        '"call":"c30","index":30,"count":29,"limit":29}\n'
    )


def test_live_values() -> None:
    suite = Path(__file__).with_name("live.test.mjs")
    done = subprocess.run([str(NODE), "--test", str(suite)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^. pass 15$", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.parametrize("name", ["keys.js", "settings.js", "events.js"])
def test_shared_files_are_the_same_in_every_plugin(name: str) -> None:
    copies = [path.read_bytes() for path in PLUGINS.glob(f"*/{name}")]
    assert len(copies) >= 2
    assert len(set(copies)) == 1
