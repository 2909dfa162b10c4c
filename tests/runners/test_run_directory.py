"""A run's directory: begun once, gone on with by the same run only, and every file in it whole or not there."""

from __future__ import annotations

import contextlib
import json
import re
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from guards.errors import UserError
from results.trace import Call, End, Header, Trace
from runners.run_directory import FORMAT, RUNS, RunDirectory, new_path, surroundings

PLAN = {"arms": ["off", "host"], "seeds": [0], "modes": [{"decode_mode": "lazy", "settings": None}], "horizon": None}


def begun(path: Path) -> RunDirectory:
    return RunDirectory.create(path, {**surroundings(), "suite": "s", "plan": PLAN})


def trace(name: str, reason: Any = "horizon", **extra: Any) -> Trace:
    return Trace(Header(episode=name, source="tripbench"), (Call("c1", 1, "look"), End(reason, extra=extra)))


def changed(path: Path, **values: Any) -> None:
    """Another manifest; a key with value ... is not there at all."""
    manifest = json.loads((path / "manifest.json").read_text()) | values
    kept = {key: value for key, value in manifest.items() if value is not ...}
    (path / "manifest.json").write_text(json.dumps(kept))


def test_a_new_one(tmp_path: Path) -> None:
    run = begun(tmp_path / "a" / "b")
    assert sorted(path.name for path in run.path.iterdir()) == ["manifest.json", "traces"]
    written = json.loads((run.path / "manifest.json").read_text())
    assert written == run.manifest
    assert (written["format"], written["suite"], written["plan"]) == (FORMAT, "s", PLAN)
    assert written["tripbench"] == metadata.version("tripbench")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", written["created"])
    assert written["command"][0] == "tripbench"
    assert written["harness"] == {"name": "dsh", "version": metadata.version("deepseek-harness-sdk")}
    assert written["hardware"]["cores"] >= 1
    assert written["hardware"]["memory_gib"] > 0
    assert set(written["hardware"]) == {"machine", "system", "cpu", "cores", "memory_gib"}


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    assert begun(tmp_path).path == tmp_path


@pytest.mark.parametrize("name", ["a.txt", ".hidden", "traces"])
def test_a_folder_that_holds_anything_will_not(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(
        UserError, match=f"--out {tmp_path}: the folder is not empty; go on with --resume, or take another"
    ):
        begun(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_place_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path, why in ((tmp_path / "file", "File exists"), (tmp_path / "file" / "run", "Not a directory")):
        with pytest.raises(UserError, match=f"--out {path}: {why}; choose another folder"):
            begun(path)
    with pytest.raises(UserError, match=r"--out /proc/nowhere/run: .*; choose another folder"):
        begun(Path("/proc/nowhere/run"))


def test_runs_without_a_name_lie_side_by_side(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        assert re.fullmatch(rf"{RUNS}/\d{{8}}-\d{{6}}-run", str(new_path(None)))
        assert str(new_path("my suite / 2")).endswith("-my-suite-2")
        found = set()
        for _ in range(5):
            path = new_path("s")
            begun(path)
            found.add(path)
        assert len(found) == 5


# -- going on --------------------------------------------------------------------------------------------------------


def test_the_same_run_goes_on(tmp_path: Path) -> None:
    manifest = begun(tmp_path / "r").manifest
    assert RunDirectory.resume(tmp_path / "r", PLAN).manifest == manifest
    # Killed right after its beginning.
    (tmp_path / "r" / "traces").rmdir()
    RunDirectory.resume(tmp_path / "r", PLAN).write_trace(trace("e"))


def test_there_is_no_run(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UserError, match=f"--out {path}: no run to go on with: manifest.json: No such file"):
            RunDirectory.resume(path, PLAN)


@pytest.mark.parametrize("text", ["", "{", '{"format": 1'])
def test_a_manifest_that_is_no_json(tmp_path: Path, text: str) -> None:
    begun(tmp_path)
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(UserError, match=r"manifest\.json: no JSON: "):
        RunDirectory.resume(tmp_path, PLAN)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"format": 2}, "a run directory of format 2, and this tripbench writes 1"),
        ({"format": ...}, "a run directory of format None, and this"),
        ({"tripbench": "0.0.1"}, "made by tripbench 0.0.1, and this is "),
        (
            {"harness": {"name": "dsh", "version": "0.1.5"}},
            r'played in the harness \{"name": "dsh", "version": "0.1.5"',
        ),
        ({"harness": ...}, "played in the harness null"),
        ({"plan": PLAN | {"arms": ["off"]}}, r'the run there has arms \["off"\], not \["off", "host"\]; resume with'),
        ({"plan": PLAN | {"modes": []}}, r"the run there has modes \[\], not \["),
        ({"plan": PLAN | {"horizon": 4}}, "the run there has horizon 4, not null"),
        ({"plan": {}}, "the run there has arms null"),
        ({"plan": []}, "the run there has arms null"),
        ({"plan": ...}, "the run there has arms null"),
    ],
)
def test_another_run_does_not(tmp_path: Path, values: dict[str, Any], says: str) -> None:
    begun(tmp_path)
    changed(tmp_path, **values)
    with pytest.raises(UserError, match=says):
        RunDirectory.resume(tmp_path, PLAN)


def test_a_long_difference_is_cut(tmp_path: Path) -> None:
    begun(tmp_path)
    with pytest.raises(UserError) as error:
        RunDirectory.resume(tmp_path, PLAN | {"seeds": list(range(1000))})
    assert len(str(error.value)) < 400


def test_a_manifest_that_is_a_list(tmp_path: Path) -> None:
    begun(tmp_path)
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(UserError, match="format None"):
        RunDirectory.resume(tmp_path, PLAN)


# -- what is in it ---------------------------------------------------------------------------------------------------


def test_traces_of_episodes_that_count_are_done(tmp_path: Path) -> None:
    run = begun(tmp_path)
    assert run.done("e") is None
    run.write_trace(trace("e"))
    assert run.done("e") == trace("e")
    assert [path.name for path in (tmp_path / "traces").iterdir()] == ["e.trace.jsonl.zst"]
    run.write_trace(trace("f", "error", cause="no luck"))
    assert run.done("f") is None
    run.write_trace(trace("f", "completed"))
    assert run.done("f") == trace("f", "completed")


def test_a_trace_that_is_damaged_is_named(tmp_path: Path) -> None:
    run = begun(tmp_path)
    run.write_trace(trace("e"))
    path = run.trace_path("e")
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(UserError, match=r"e\.trace\.jsonl\.zst"):
        run.done("e")


def test_proofs_are_kept_apart(tmp_path: Path) -> None:
    run = begun(tmp_path)
    run.write_proof(trace("proof.g-host"))
    assert (tmp_path / "proof" / "proof.g-host.trace.jsonl.zst").is_file()
    assert list((tmp_path / "traces").iterdir()) == []
    assert run.done("proof.g-host") is None


def test_first_prompts_of_pairs(tmp_path: Path) -> None:
    run = begun(tmp_path)
    assert run.opening("pair.s0") is None
    text = "digest\nText with\r\nlines of\rall \u2028 kinds, é and \ud800"
    run.keep_opening("pair.s0", text)
    assert RunDirectory.resume(tmp_path, PLAN).opening("pair.s0") == text
    assert run.opening("pair.s1") is None


def test_the_log_grows(tmp_path: Path) -> None:
    run = begun(tmp_path)
    run.log("first \ud800")
    RunDirectory.resume(tmp_path, PLAN).log("second")
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines] == ["first \\ud800", "second"]


def test_the_manifest_is_written_over_as_a_whole(tmp_path: Path) -> None:
    run = begun(tmp_path)
    run.manifest["models"] = ["m"]
    run.write_manifest()
    assert json.loads((tmp_path / "manifest.json").read_text())["models"] == ["m"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", "traces"]
