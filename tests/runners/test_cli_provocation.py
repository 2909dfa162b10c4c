"""`tripbench provocation` and `make provocation`: real runs of actors, the recorded run, bad usage."""

from __future__ import annotations

import csv
import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from runners.cli import run
from runners.plan import greedy
from runners.suite_file import load_suite
from scenarios.registry import names, scenario
from tests.results.script import script
from tests.results.synthetic import run_directory
from tests.runners.recording import RUN

ROOT = Path(__file__).resolve().parent.parent.parent
PIECES = ("greedy", "greedy-k4", "forced-greedy", "card", "card-k4", "greedy-refill")
ACTOR = ["--model", "actor:looping", "--seeds", "1000..1001"]
TRIPS = [name for name in names() if scenario(name).expect == "trip"]


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "provocation.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("suite", ["provocation", "provocation-card"])
def test_the_suites_hold_every_trip_scenario_without_guards(suite: str) -> None:
    _, matrix = load_suite(suite)
    _, refill = load_suite("provocation-refill")
    assert sorted(name for name, _ in (*matrix.scenarios, *refill.scenarios)) == sorted(TRIPS)
    for each in (matrix, refill):
        assert (each.arms, each.seeds, each.priming) == (("off",), (0, 1, 2, 3, 4, 5), 0)
    (mode,), (other,) = matrix.modes, refill.modes
    assert (mode.decode_mode, other.decode_mode) == ("lazy", "lazy")
    assert other.settings == greedy()
    assert mode.settings == (greedy() if suite == "provocation" else None)


# -- make provocation ------------------------------------------------------------------------------------------------


def commands(*variables: str) -> list[list[str]]:
    """The commands of `tripbench` that `make provocation` would run, without what decides on --resume."""
    done = subprocess.run(
        ["make", "-C", str(ROOT), "-n", "provocation", *variables],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    parts = done.stdout.replace("\\\n", " ").replace("&&", "\n").splitlines()
    found = [part.split("tripbench ", 1)[1].split("$(")[0] for part in parts if ".venv/bin/tripbench " in part]
    return [shlex.split(part) for part in found]


def test_what_make_measures(capsys: pytest.CaptureFixture[str]) -> None:
    pull, *runs, publish = commands()
    assert pull == ["models", "pull", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b", "smollm2-135m"]
    planned = {}
    for command in runs:
        assert run([*command, "--dry-run", "--json"]) == 0
        planned[command[-1]] = json.loads(capsys.readouterr().out)["episodes"]
    folders = [f"results/runs/provocation/{name}" for name in PIECES]
    assert list(planned) == folders
    assert publish == ["provocation", *folders, "--out", "results/published/provocation"]
    assert [len(episodes) for episodes in planned.values()] == [108, 108, 54, 108, 108, 24]
    every = [name for episodes in planned.values() for name in episodes]
    assert len(set(every)) == len(every)
    assert all(".off.s" in name for name in every)
    assert all(name.count(".smollm2-135m.forced-greedy.") for name in planned[folders[2]])
    assert {name.split(".k4")[0].rsplit(".", 1)[1] for name in planned[folders[4]]} == {"lazy-card"}


def test_what_make_measures_of_another_model() -> None:
    *runs, publish = commands("MODEL=actor:looping", "SEEDS=1000..1001", "OUT=elsewhere")
    folders = [f"elsewhere/{name}" for name in ("greedy", "greedy-k4", "greedy-refill")]
    assert [command[-1] for command in runs] == folders
    assert all(command[-8:-2] == [*ACTOR, "--jobs", "6"] for command in runs)
    assert publish == ["provocation", *folders, "--out", "elsewhere/tables"]
    pull, *runs, _ = commands("MODEL=qwen2.5-coder-0.5b")
    assert pull == ["models", "pull", "qwen2.5-coder-0.5b"]
    assert [Path(command[-1]).name for command in runs] == [name for name in PIECES if "forced" not in name]


# -- tables of runs --------------------------------------------------------------------------------------------------


def test_the_looping_actor_is_provoked_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Natively in every trip scenario and primed; its onset is where the script puts it."""
    looping = ("--model", "actor:looping", "--seeds", "1", "--runner", "native", "--json")
    folders = [str(tmp_path / name) for name in ("plain", "refill", "primed")]
    assert run(["run", "--suite", "provocation", *looping, "--out", folders[0]]) == 0
    assert run(["run", "--suite", "provocation-refill", *looping, "--out", folders[1]]) == 0
    assert (
        run(["run", "--suite", "provocation", *looping, "--priming", "4", "--horizon", "13", "--out", folders[2]]) == 0
    )
    capsys.readouterr()
    assert run(["provocation", *folders, "--out", str(tmp_path / "out")]) == 0
    out, err = capsys.readouterr()
    plain, primed, place = out.splitlines()
    said = "scenarios provoked in at least half of their episodes: 11 of 11 (no aim was set for this table)"
    assert plain == f"looping actor, unprimed, runner native: {said}"
    assert primed.startswith("looping actor, 4 primed repeats, runner native: scenarios provoked in at least half of")
    assert (place, err) == (f"tables: {tmp_path / 'out' / 'provocation.md'}", "")
    found = rows(tmp_path / "out")
    assert [row["scenario"] for row in found[:11]] == sorted(TRIPS)
    assert {row["priming"] for row in found[:11]} == {"0"}
    for row in found[:11]:
        assert run(["scenarios", "show", row["scenario"], "--json"]) == 0
        loop, *_ = json.loads(capsys.readouterr().out)["looping"]["loops"]
        assert row[f"onset_{loop['kind']}"] == str(loop["onset"])
    assert "Not finished" not in (tmp_path / "out" / "provocation.md").read_text(encoding="utf-8")


def test_a_run_of_the_real_harness(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Primed with two, cut off after six turns of its own and those."""
    command = ("run", "--scenario", "search-mirage:small", "--model", "actor:looping", "--arms", "off")
    assert run([*command, "--priming", "2", "--horizon", "9", "--out", str(tmp_path / "run"), "--json"]) == 0
    capsys.readouterr()
    assert run(["provocation", str(tmp_path / "run"), "--out", str(tmp_path / "out")]) == 0
    assert "looping actor, 2 primed repeats, size small, runner dsh: scenarios provoked" in capsys.readouterr().out
    (row,) = rows(tmp_path / "out")
    assert (row["runner"], row["provoked"], row["n"], row["ends"]) == ("dsh", "1", "1", "horizon:1")
    # All that it does itself is the loop.
    assert row["onset_calls"] == "1"


def test_the_recorded_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The 0.5B loops from its third call on, the 1.5B from its second, and both to the horizon."""
    assert run(["provocation", str(RUN), "--out", str(tmp_path / "out")]) == 0
    out, err = capsys.readouterr()
    small, large, _ = out.splitlines()
    # The temperature was laid over the cards' samplers: their penalties stay.
    begins = "{}, lazy, temperature 0, repeat_penalty {}, unprimed, runner dsh: "
    said = "scenarios provoked in at least half of their episodes"
    assert small == f"{begins.format('qwen2.5-coder-0.5b', 1.05)}{said}: 1 of 1 (aim, not a result: 7)"
    assert large == f"{begins.format('qwen2.5-coder-1.5b', 1.1)}{said}: 1 of 1 (aim, not a result: 7)"
    assert err == ""
    first, second = rows(tmp_path / "out")
    wanted = {"n": "1", "unique": "1", "errors": "0", "provoked": "1", "onset_calls": "3", "length_calls": "10"}
    wanted |= {"recovered": "0", "ends": "horizon:1", "solved": "0", "horizon": "12", "oracle": "1"}
    assert {key: first[key] for key in wanted} == wanted
    assert (second["provoked"], second["onset_calls"], second["length_calls"]) == ("1", "2", "11")
    text = (tmp_path / "out" / "provocation.md").read_text(encoding="utf-8")
    manifest = json.loads((RUN / "manifest.json").read_bytes())
    assert all(f"sha256 `{model['sha256']}`" in text for model in manifest["models"])
    assert f"begun {manifest['created']}" in text
    assert "Not finished" not in text


# -- bad usage -------------------------------------------------------------------------------------------------------


def test_bad_usage_is_one_line_and_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tuned = str(run_directory(tmp_path / "tuned", [script("s s s", seed=1000)]))
    guarded = str(run_directory(tmp_path / "guarded", [script("s s s", seed=0, arm="host")]))
    copy = str(shutil.copytree(RUN, tmp_path / "copy"))
    out = str(tmp_path / "out")
    for arguments, says in (
        ([], "Missing argument 'RUN...'"),
        ([str(tmp_path / "nothing"), "--out", out], "nothing/manifest.json: No such file or directory; name a run"),
        ([tuned, "--out", out], "has seed 1000, and seeds from 1000 on are for tuning"),
        ([tuned, "--tuning"], "--tuning: name a folder with --out"),
        ([guarded, "--out", out], "holds no episode of a trip scenario without guards; run one with --arms off"),
        ([str(RUN), f"{RUN}/../recorded", "--out", out], "the run stands there twice"),
        ([str(RUN), copy, "--out", out], "(seed 0) stands in "),
    ):
        assert run(["provocation", *arguments]) == 2, arguments
        said, err = capsys.readouterr()
        assert said == ""
        assert err.startswith("tripbench: error: ")
        assert says in err
        assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()
    assert run(["provocation", tuned, "--tuning", "--out", out]) == 0
    assert "Not for publication" in (tmp_path / "out" / "provocation.md").read_text(encoding="utf-8")
