"""A run directory: what it must hold, what is written into it, and that this is the same from the same traces."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from guards.errors import UserError
from results.console import table
from results.pairs import Study
from results.run import console_table, load_run, write_report, write_tables
from results.summary import rows
from results.tables import IDENTITY, SUMMARY
from tests.results.script import script
from tests.results.synthetic import quick, run_directory

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    found = load_run(run_directory(tmp_path_factory.mktemp("runs") / "run", quick()))
    write_tables(found)
    return found


def test_traces_come_in_the_order_of_their_names(run):
    names = [trace.header.episode for trace in run.traces]
    assert names == sorted(names)
    assert run.manifest["suite"] == "quick"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: (d / "manifest.json").unlink(), "manifest.json: No such file or directory; name a run directory"),
        (lambda d: (d / "manifest.json").write_text("{"), "manifest.json: .*; name a run directory"),
        (lambda d: (d / "manifest.json").write_text("[]"), "manifest.json: must be a JSON object"),
        (
            lambda d: [each.unlink() for each in (d / "traces").iterdir()],
            "traces: holds no .*; there is nothing to report",
        ),
    ],
)
def test_what_is_no_run_directory_is_one_clear_line(spoil, message, tmp_path):
    directory = run_directory(tmp_path / "run", [script("n")])
    spoil(directory)
    with pytest.raises(UserError, match=message) as raised:
        load_run(directory)
    assert "\n" not in str(raised.value)


def test_episodes_table(run):
    table = pd.read_parquet(run.directory / "episodes.parquet")
    assert len(table) == len(run.traces)
    assert set(IDENTITY) < set(table.columns)
    failed = table[table.failure.notna()]
    assert sorted(failed.episode) == ["poll-progress.t0.7.host.3", "search-mirage.t0.7.host.3"]
    assert failed.provoked.isna().all()
    sound = table[table.failure.isna()]
    own = [len([c for c in episode.calls if not c.primed]) for episode in run.study.episodes if not episode.failure]
    assert sorted(sound.asked) == sorted(own)
    assert (sound.executed + sound.denied == sound.asked).all()
    assert (sound[["novel", "needed", "requested", "sterile"]].sum(axis=1) == sound.asked).all()
    assert sound.divergence[sound.arm == "off"].isna().all()
    assert str(table.dtypes["onset"]) == "Int64"


def test_calls_table(run):
    table = pd.read_parquet(run.directory / "calls.parquet")
    assert len(table) == sum(len(episode.calls) for episode in run.study.episodes)
    assert set(table["class"]) <= {"novel", "needed", "requested", "sterile"}
    assert (table.executed == table.denied_by.isna()).all()
    assert "loop-guard@host" in set(table.nudged_by.dropna())


def test_summary_has_its_columns_and_no_row_twice(run):
    table = pd.read_csv(run.directory / "summary.csv", keep_default_na=False)
    assert tuple(table.columns) == SUMMARY
    assert not table.duplicated([*IDENTITY, "arm", "guard", "plane", "metric"]).any()
    assert (table.n > 0).all()
    assert (table.unique > 0).all()


def test_columns_have_the_same_types_in_a_run_with_next_to_nothing(run, tmp_path):
    small = load_run(run_directory(tmp_path / "run", [script("", end="completed", success=None)]))
    write_tables(small)
    for name in ("episodes.parquet", "calls.parquet"):
        kinds = pd.read_parquet(run.directory / name).dtypes
        assert (
            pd.read_parquet(small.directory / name)
            .dtypes.drop(["primed", "unit", "executed", "error"], errors="ignore")
            .equals(kinds.drop(["primed", "unit", "executed", "error"], errors="ignore"))
        )


WRITE = "import sys; from results.run import *; run = load_run(sys.argv[1]); write_tables(run); write_report(run)"


def test_everything_is_the_same_byte_for_byte_in_another_process_and_folder(tmp_path):
    """Two processes, hash seeds and folders; the second writes over what was there."""
    traces = [trace for trace in quick(seeds=2) if trace.header.meta["arm"] in ("off", "host", "only:loop-guard@host")]
    running = []
    for place, folder in enumerate(("a", "other/place"), start=1):
        directory = run_directory(tmp_path / folder, reversed(traces) if place == 2 else traces)
        if place == 2:
            (directory / "figures").mkdir()
            (directory / "figures" / "old.svg").write_text("old")
        env = os.environ | {"PYTHONHASHSEED": str(place), "PYTHONPATH": str(ROOT), "TZ": f"UTC-{place}"}
        command = [sys.executable, "-c", WRITE, str(directory)]
        running.append((directory, subprocess.Popen(command, env=env, cwd=tmp_path)))
    written = []
    for directory, process in running:
        assert process.wait(timeout=300) == 0
        files = (each for each in directory.rglob("*") if each.is_file() and each.parent.name != "traces")
        written.append({str(each.relative_to(directory)): each.read_bytes() for each in files})
    assert written[0].keys() == written[1].keys()
    assert {"report.html", "report.md", "summary.csv", "episodes.parquet", "calls.parquet"} < written[0].keys()
    assert sum(name.endswith(".svg") for name in written[0]) >= 8
    assert [name for name in written[0] if written[0][name] != written[1][name]] == []


def test_console_table(run):
    console = Console(width=170, record=True, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
    console.print(console_table(run))
    lines = console.export_text().splitlines()
    place = next(place for place, line in enumerate(lines) if "search-mirage" in line)
    assert "7 of 7" in lines[place]
    host = next(line for line in lines[place:] if "│ host " in line)
    assert "circuit-breaker@host" in host
    assert "6 of 6" in host
    assert any("tiny-0.5b, lazy, temperature 0.7" in line for line in lines)


def test_a_model_name_is_no_markup_for_the_console():
    study = Study([script("s s s", model={"name": "[red]x[/]", "sha256": ""}, scenario="[b]")])
    console = Console(width=120, record=True, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
    console.print(table(study, rows(study)))
    assert "[red]x[/]" in console.export_text()


def test_a_report_over_one_episode_stands(tmp_path):
    run = load_run(run_directory(tmp_path / "run", [script("n", end="error")]))
    write_tables(run)
    write_report(run)
    assert "infrastructure error without a recorded cause" in (run.directory / "report.md").read_text()
