"""A real run, played again from its tape: no model file, the real harness and the real guards."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from results.run import load_run, write_report, write_tables
from results.trace import Call, Trace
from results.trace_file import read_trace
from runners.cli import run
from tests.results.second_derivation import differences
from tests.runners.dsh_stage import acts, end, of
from tests.runners.recording import COMMAND, MODELS, RUN

FILES = ("report.md", "report.html", "summary.csv")


def traces(folder: Path) -> dict[str, Trace]:
    """The traces by episode, without the times, which are a machine's."""
    found = {path.name: read_trace(path) for path in (folder / "traces").glob("*.trace.jsonl.zst")}
    return {
        name: replace(trace, events=tuple(replace(event, t=None) for event in trace.events))
        for name, trace in found.items()
    }


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the recorded run, played again."""
    folder = tmp_path_factory.mktemp("recorded") / "run"
    shutil.copytree(RUN, folder)
    shutil.rmtree(folder / "traces")
    (folder / "traces").mkdir()
    # A cache without any model.
    assert run([*COMMAND, "--out", str(folder), "--tape-only", "--cache", str(folder / "no-models")]) == 0
    return folder


def test_the_traces_come_out_again(played: Path) -> None:
    assert traces(played) == traces(RUN)


def test_the_report_comes_out_again_byte_for_byte(played: Path, tmp_path: Path) -> None:
    shutil.copytree(RUN, tmp_path / "run")
    recorded = load_run(tmp_path / "run")
    write_tables(recorded)
    write_report(recorded)
    for name in FILES:
        assert (played / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


def test_every_number_is_derived_a_second_time(played: Path) -> None:
    assert differences(played) == []


def test_nothing_was_decoded_twice() -> None:
    counted = json.loads((RUN / "manifest.json").read_bytes())["tokens"]
    assert counted["decoded"] > 0
    assert counted["by_arm"]["host"]["reused"] > 0
    # Until a guard acts, its arm reads what `off` read.
    assert counted["by_arm"]["off"]["reused"] == 0


@pytest.mark.parametrize("model", MODELS)
def test_the_model_acted_for_itself(model: str) -> None:
    (path,) = (RUN / "traces").glob(f"search-mirage.default.{model}.lazy-t0.off.s0.trace.jsonl.zst")
    trace = read_trace(path)
    assert trace.header.meta["model"]["name"] == model
    assert len(of(trace, Call)) >= 2
    assert acts(trace) == []
    assert end(trace).reason in ("completed", "horizon", "max_tokens")


def test_where_the_model_loops_the_guards_act() -> None:
    """The 0.5B hands in the same rejected answer again and again."""
    by_arm = {read_trace(path).header.meta["arm"]: read_trace(path) for path in (RUN / "traces").glob("*0.5b*")}
    off = [call.args for call in of(by_arm["off"], Call)]
    assert max(off.count(args) for args in off) >= 6
    guard, plane, did, index = acts(by_arm["only:circuit-breaker@agent"])[0]
    assert (guard, plane, did) == ("circuit-breaker", "agent", "deny")
    asked = [call.args for call in of(by_arm["only:circuit-breaker@agent"], Call)][:index]
    assert asked.count(asked[-1]) == 6
    guard, plane, did, index = acts(by_arm["only:loop-guard@host"])[0]
    assert (guard, plane, did) == ("loop-guard", "host", "nudge")
    asked = [call.args for call in of(by_arm["only:loop-guard@host"], Call)][:index]
    assert asked[-4:] == 4 * [asked[-1]]
    assert asked[-5] != asked[-1]
