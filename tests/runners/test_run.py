"""`tripbench run` from end to end: actors in the real harness, what is written and said, each way in which it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
import pytest

from results.trace import Call, Event, Guard, Header
from results.trace_file import read_trace
from runners.cli import run
from runners.harness.composition import Composition, compose
from runners.harness.runtime import MARK
from runners.plan import Matrix, Player, plan
from runners.run_directory import RunDirectory
from runners.suite import PromptsDiffer, Suite
from tests.runners.dsh_stage import staged
from tests.runners.gateway.serving import wait_for
from tests.tiny_gguf import write

CODE = "from runners.cli import main; main()"
MIRAGE = ("--scenario", "search-mirage:small", "--model", "actor:looping")
WHOLE = (*MIRAGE, "--model", "actor:honest", "--arms", "off,only:circuit-breaker@host", "--horizon", "7")
"""Four episodes, and a proof before them."""
KEYS = ["scenario", "model", "arm", "seed", "end", "success", "provoked", "calls", "executed", "trips"]


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A temporary folder for the command's processes, with a path that is short enough."""
    with tempfile.TemporaryDirectory(prefix="run-") as folder:
        yield Path(folder)


class Command:
    """`tripbench run` in a process of its own, that leads a group as a shell's job does."""

    def __init__(self, temporary: Path, *arguments: str) -> None:
        self.temporary = temporary
        self.process = subprocess.Popen(
            [sys.executable, "-c", CODE, "run", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TMPDIR": str(temporary)},
            start_new_session=True,
        )

    def end(self) -> tuple[int, str, str]:
        """Waits for it: status, stdout, stderr."""
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out, err

    def episodes(self) -> list[int]:
        """Processes of its episodes that live."""
        return [process.pid for process in psutil.process_iter() if self._owns(process)]

    def _owns(self, process: psutil.Process) -> bool:
        try:
            environment = process.environ()
        except psutil.Error:
            return False
        return MARK in environment and environment.get("DSH_HOME", "").startswith(str(self.temporary))


def traces(directory: Path) -> dict[str, tuple[Header, list[Event]]]:
    """The run's traces without what no two runs share: when things happened."""
    found = {}
    for path in sorted((directory / "traces").glob("*.trace.jsonl.zst")):
        trace = read_trace(path)
        found[trace.header.episode] = (trace.header, [replace(event, t=None) for event in trace.events])
    return found


def stamps(directory: Path) -> dict[str, tuple[int, int]]:
    """Which trace files there are: a file that is written again is another."""
    found = (directory / "traces").glob("*.trace.jsonl.zst")
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found if path.name[0] != "."}


# -- a whole run -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    """A run's directory, the JSON that it printed, and what it said."""
    out = tmp_path_factory.mktemp("whole") / "run"
    with tempfile.TemporaryDirectory(prefix="run-") as temporary:
        command = Command(Path(temporary), *WHOLE, "--out", str(out), "--json")
        status, printed, said = command.end()
        assert status == 0, said
        assert list(Path(temporary).iterdir()) == []
        assert command.episodes() == []
    assert printed.count("\n") == 1
    return out, json.loads(printed), said


def test_json_is_what_the_design_says(whole: tuple[Path, dict[str, Any], str]) -> None:
    out, printed, _ = whole
    assert list(printed) == ["run", "episodes"]
    assert printed["run"] == str(out)
    assert [list(row) for row in printed["episodes"]] == [KEYS] * 4
    rows = {(row["model"], row["arm"]): row for row in printed["episodes"]}
    off, guarded = rows["actor:looping", "off"], rows["actor:looping", "only:circuit-breaker@host"]
    assert (off["end"], off["success"], off["provoked"]) == ("horizon", False, True)
    assert (off["calls"], off["executed"], off["trips"]) == (7, 7, [])
    assert (guarded["provoked"], guarded["calls"], guarded["executed"]) == (True, 7, 5)
    trip = {"guard": "circuit-breaker", "plane": "host", "action": "deny", "index": 6, "count": 6, "agent": "root"}
    assert guarded["trips"] == [trip]
    for arm in ("off", "only:circuit-breaker@host"):
        honest = rows["actor:honest", arm]
        assert (honest["end"], honest["success"], honest["provoked"]) == ("completed", True, False)
        assert honest["calls"] == honest["executed"] == 3
        assert honest["trips"] == []


def test_what_is_in_the_directory(whole: tuple[Path, dict[str, Any], str]) -> None:
    out, _, _ = whole
    names = {path.name for path in out.iterdir()}
    assert names == {
        *("manifest.json", "traces", "proof", "proof.json", "prompts", "log.txt", "figures"),
        *("episodes.parquet", "calls.parquet", "summary.csv", "report.md", "report.html"),
    }
    episodes = [
        f"search-mirage.small.actor-{actor}.{arm}.s0"
        for actor in ("honest", "looping")
        for arm in ("off", "only-circuit-breaker-host")
    ]
    assert sorted(path.name for path in (out / "traces").iterdir()) == [f"{name}.trace.jsonl.zst" for name in episodes]
    assert sorted(path.name for path in (out / "prompts").iterdir()) == [
        f"search-mirage.small.actor-{actor}.s0.txt" for actor in ("honest", "looping")
    ]
    assert not list(out.rglob(".*"))


def test_what_the_manifest_says(whole: tuple[Path, dict[str, Any], str]) -> None:
    out, _, _ = whole
    manifest = json.loads((out / "manifest.json").read_text())
    assert {"format", "tripbench", "created", "command", "python", "harness", "hardware", "git"} <= set(manifest)
    assert manifest["arms"] == ["off", "only:circuit-breaker@host"]
    assert manifest["seeds"] == [0]
    assert manifest["models"] == []
    assert [guard["name"] for guard in manifest["stack"]["guards"]][:2] == ["circuit-breaker", "loop-guard"]
    assert manifest["plan"]["models"] == ["actor:looping", "actor:honest"]
    assert manifest["plan"]["stack"] == manifest["stack"]["digest"] == manifest["stamp"]["stack"]
    assert manifest["stamp"]["horizon"] == 7


def test_the_guard_was_proven_once(whole: tuple[Path, dict[str, Any], str]) -> None:
    out, _, said = whole
    (proof,) = json.loads((out / "proof.json").read_text())
    assert (proof["guard"], proof["plane"], proof["note"]) == ("circuit-breaker", "host", "")
    assert proof["actions"][0] == ["deny", 6, 6]
    trace = read_trace(out / "proof" / f"{proof['episode']}.trace.jsonl.zst")
    assert [event.action for event in trace.events if isinstance(event, Guard)][:3] == ["arm", "consulted", "deny"]
    assert "proven: circuit-breaker@host: deny at 6" in (out / "log.txt").read_text()
    assert "proven" not in said


def test_the_traces_say_how_they_were_made(whole: tuple[Path, dict[str, Any], str]) -> None:
    out, _, _ = whole
    for name, (header, events) in traces(out).items():
        meta = header.meta
        assert (header.episode, header.scenario, header.source) == (name, "search-mirage", "tripbench")
        assert (meta["size"], meta["expect"], meta["seed"]) == ("small", "trip", 0)
        assert (meta["horizon"], meta["horizon_unit"], meta["priming"]) == (7, "tool turns", 0)
        assert (meta["runner"], meta["harness"]["name"], meta["sampler"]) == ("dsh", "dsh", None)
        assert f"actor-{meta['actor']}" in name
        assert meta["model"] == {"name": f"actor:{meta['actor']}", "sha256": None}
        labels = [event for event in events if event.type == "label"]
        assert len(labels) == sum(isinstance(event, Call) for event in events)
        assert events[-len(labels) - 1].type == "end"


def test_in_words_for_people_and_once_more(
    whole: tuple[Path, dict[str, Any], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Gone on with, nothing is left to play, and what is written is the same to the byte."""
    out, *_ = whole
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name != "log.txt"}
    assert run(["run", *WHOLE, "--out", str(out), "--resume"]) == 0
    printed, said = capsys.readouterr()
    assert "scenario" in printed
    assert "provoked" in printed
    progress, *rest = said.splitlines()
    assert progress.startswith("4 of 4 episodes; ")
    assert rest == [f"traces: {out / 'traces'}", f"report: {out / 'report.html'}"]
    assert {path: path.read_bytes() for path in before} == before


def test_a_plan_without_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    asked = ["run", *MIRAGE, "--arms", "null,off", "--seeds", "2", "--dry-run"]
    assert run([*asked, "--out", str(out)]) == 0
    printed, said = capsys.readouterr()
    *names, last = printed.splitlines()
    assert names == [f"search-mirage.small.actor-looping.{arm}.s{seed}" for seed in (0, 1) for arm in ("off", "null")]
    assert last.startswith("4 episodes; about ")
    assert said == ""
    assert run([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"episodes": names}
    assert not out.exists()


# -- interrupted -----------------------------------------------------------------------------------------------------


def test_stopped_again_and_again_and_gone_on_with(
    whole: tuple[Path, dict[str, Any], str], tmp_path: Path, temporary: Path
) -> None:
    """No episode that was finished is lost or played twice, and in the end the traces are those of a run in one go."""
    out = tmp_path / "a run"
    arguments = (*WHOLE, "--out", str(out), "--jobs", "1", "--json")
    kept: dict[str, tuple[int, int]] = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        command = Command(temporary, *arguments, *(("--resume",) if kept else ()))
        # In the midst of an episode; the first two times of the one after the next, so that two are left at least.
        due = len(kept) + (number != signal.SIGKILL)
        wait_for(lambda: len(stamps(out)) >= due and command.episodes())  # noqa: B023
        if number == signal.SIGINT:
            os.killpg(command.process.pid, number)  # as a terminal does
        else:
            command.process.send_signal(number)
        status, printed, said = command.end()
        assert printed == ""
        if number == signal.SIGKILL:
            assert status == -number
        else:
            assert status == 130, said
            again = f"tripbench run {' '.join(WHOLE)} --out '{out}' --jobs 1 --json --resume"
            assert said.splitlines()[-2:] == [
                f"tripbench: what is finished is kept; go on with: {again}",
                "tripbench: interrupted",
            ]
            assert list(temporary.iterdir()) == []
            assert command.episodes() == []
        # One that is killed can not end its episode: that ends when it notices.
        wait_for(lambda: not command.episodes())  # noqa: B023
        assert kept.items() <= stamps(out).items()
        kept = stamps(out)
    assert 2 <= len(kept) <= 3
    status, printed, said = Command(temporary, *WHOLE, "--out", str(out), "--resume", "--json").end()
    assert status == 0, said
    assert kept.items() <= stamps(out).items()
    assert json.loads(printed)["episodes"] == whole[1]["episodes"]
    assert traces(out) == traces(whole[0])
    assert json.loads((out / "proof.json").read_text()) == json.loads((whole[0] / "proof.json").read_text())
    assert (out / "log.txt").read_text().count("proven: ") == 1


# -- what fails ------------------------------------------------------------------------------------------------------


def test_failed_episodes_are_1_and_due_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    arguments = ["run", *MIRAGE, "--arms", "off", "--out", str(out), "--json"]
    name = "search-mirage.small.actor-looping.off.s0"
    assert run([*arguments, "--wall-limit", "0.001"]) == 1
    printed, said = capsys.readouterr()
    (row,) = json.loads(printed)["episodes"]
    assert list(row) == KEYS
    assert (row["end"], row["success"], row["calls"], row["trips"]) == ("error", None, None, [])
    assert f"tripbench: error: episode {name}: runtime: wall limit: the episode did not end in 0.001 s" in said
    assert (out / "failed" / f"{name}.events.jsonl").is_file()
    assert read_trace(out / "traces" / f"{name}.trace.jsonl.zst").events[-1].type == "end"
    assert not (out / "report.html").exists()

    assert run([*arguments, "--resume"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["episodes"]
    assert row["end"] == "horizon"
    assert (out / "report.html").is_file()


def test_another_first_prompt_is_1(
    whole: tuple[Path, dict[str, Any], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    shutil.copytree(whole[0], out)
    opening = out / "prompts" / "search-mirage.small.actor-looping.s0.txt"
    text = opening.read_text()
    opening.write_text(text.replace("answer", "reply", 1))
    name = "search-mirage.small.actor-looping.only-circuit-breaker-host.s0"
    (out / "traces" / f"{name}.trace.jsonl.zst").unlink()
    assert run(["run", *WHOLE, "--out", str(out), "--resume", "--json"]) == 1
    printed, said = capsys.readouterr()
    assert printed == ""
    at = text.partition("\n")[2].index("answer")
    assert said.startswith(
        f"tripbench: error: {name}: its first prompt is not that of the other arms: at character {at}: "
    )
    assert said.count("\n") == 1
    assert not (out / "traces" / f"{name}.trace.jsonl.zst").exists()


def test_an_arm_that_is_asked_with_other_tools_stops_the_run(tmp_path: Path) -> None:
    """A composition that gives one arm a tool more than the others."""

    def unequal(arm: Any, *rest: Any) -> Composition:
        made = compose(arm, *rest)
        more = {"id": "tool-fs", "config": {"read": True, "readImage": False, "write": False, "edit": False}}
        rows = tuple(more if row.get("id") == "tool-fs" else row for row in made.rows)
        return replace(made, rows=rows) if arm.name == "null" else made

    directory = RunDirectory.create(tmp_path / "run", {})
    with staged(composer=unequal) as (runner, _, stack):
        matrix = Matrix((("search-mirage", "small"),), ("off", "null"), (0,), horizon=2)
        every = plan(matrix, stack, Player("actor:looping", None, "looping", None))
        with pytest.raises(PromptsDiffer) as error:
            Suite(runner, directory, jobs=1, fresh=False).play(every, lambda _: None)
    assert str(error.value).startswith(f"{every[1].name}: its first prompt is not that of the other arms: at character")
    there, here = str(error.value).split(" there, ")
    assert "read" not in there
    assert "read" in here
    assert [path.name for path in (tmp_path / "run" / "traces").iterdir()] == [f"{every[0].name}.trace.jsonl.zst"]


def test_a_guard_that_can_not_be_proven_stops_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken").mkdir()
    manifest = {"name": "dsh-broken", "version": "1.0.0", "type": "module", "exports": "./index.js"}
    (tmp_path / "broken" / "package.json").write_text(json.dumps(manifest))
    (tmp_path / "broken" / "index.js").write_text("throw new Error('it breaks at load')")
    (tmp_path / "stack.toml").write_text('[[guard]]\nname = "circuit-breaker"\npath = "broken"\n')
    arguments = ("--arms", "off,host", "--stack", str(tmp_path / "stack.toml"), "--out", str(tmp_path / "run"))
    assert run(["run", *MIRAGE, *arguments, "--json"]) == 1
    printed, said = capsys.readouterr()
    assert printed == ""
    assert said.startswith("tripbench: error: circuit-breaker@host could not be proven to work: circuit-breaker@host: ")
    assert "it breaks at load" in said
    assert said.count("\n") == 1
    assert list((tmp_path / "run" / "traces").iterdir()) == []


# -- a model ---------------------------------------------------------------------------------------------------------


def test_episodes_side_by_side_are_decoded_in_one_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Greedy, whatever the card says; the tape gives the same again, however many are played at once."""
    model = write(tmp_path / "noise.gguf", "llama", context_length=8192)
    out = tmp_path / "run"
    arguments = ["run", "--scenario", "search-mirage:small", "--model", str(model), "--arms", "off", "--horizon", "2"]
    arguments += [
        "--seeds",
        "2",
        "--sampler",
        "greedy",
        "--cache",
        str(tmp_path / "cache"),
        "--out",
        str(out),
        "--json",
    ]
    assert run([*arguments, "--jobs", "2"]) == 0
    (booked,) = json.loads((out / "manifest.json").read_text())["models"]
    assert booked["deterministic"] is False
    first = traces(out)
    assert {name.split(".")[3] for name in first} == {"lazy-greedy"}
    assert all(header.meta["sampler"]["repeat_penalty"] == 1.0 for header, _ in first.values())
    capsys.readouterr()
    assert run([*arguments, "--resume"]) == 2
    assert "the run there has batched true, not false; resume with the same command" in capsys.readouterr().err
    model.unlink()
    assert run([*arguments, "--tape-only"]) == 0
    assert traces(out) == first


def test_a_taped_run_is_played_again_without_its_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = write(tmp_path / "noise.gguf", "llama", context_length=8192)
    out = tmp_path / "run"
    arguments = ["run", "--scenario", "search-mirage:small", "--model", str(model), "--arms", "off", "--horizon", "2"]
    arguments += ["--cache", str(tmp_path / "cache"), "--out", str(out), "--json"]
    assert run(arguments) == 0
    (row,) = json.loads(capsys.readouterr().out)["episodes"]
    assert row["model"] == "noise"
    (booked,) = json.loads((out / "manifest.json").read_text())["models"]
    first = traces(out)
    ((header, events),) = first.values()
    assert header.meta["model"] == {"name": "noise", "sha256": booked["sha256"]}
    assert header.meta["tape"] is not None
    assert [event.tape_key for event in events if event.type == "step"] != [None]  # type: ignore[attr-defined]

    other = write(tmp_path / "other.gguf", "llama", seed=1, context_length=8192)
    other.replace(model)
    assert run([*arguments, "--resume"]) == 2
    said = capsys.readouterr().err
    assert f"--model {model}: the run in {out} was begun with another one: sha256 " in said

    model.unlink()
    stamp = stamps(out)
    manifest = json.loads((out / "manifest.json").read_text())
    with_tags = manifest | {"models": [booked | {"dialect": "generic/0"}]}
    (out / "manifest.json").write_text(json.dumps(with_tags))
    assert run([*arguments, "--tape-only"]) == 2
    assert f'begun with another one: dialect "generic/0" there, "{booked["dialect"]}" now; ' in capsys.readouterr().err
    (out / "manifest.json").write_text(json.dumps(manifest))
    assert run([*arguments, "--tape-only"]) == 0
    assert json.loads(capsys.readouterr().out)["episodes"] == [row]
    assert traces(out) == first
    assert stamps(out) != stamp


# -- bad usage -------------------------------------------------------------------------------------------------------

NOTHING = "nothing-of-the-kind"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """What the arguments below name: `{}` is this folder."""
    suite = 'name = "s"\nscenarios = ["search-mirage"]\narms = [{}]\n[[mode]]\n{}'
    texts = {
        "suite-key.toml": suite.format('"off"', "warmth = 1"),
        "suite-arm.toml": suite.format('"of"', ""),
        "no.toml": "what is this",
        "guard.toml": f'[[guard]]\nname = "{NOTHING}"\n',
        "guard-key.toml": '[[guard]]\nname = "circuit-breaker"\nconfig = { duplicateLimt = 4 }\n',
        "guard-value.toml": '[[guard]]\nname = "circuit-breaker"\nconfig = { duplicateLimit = 1 }\n',
        "folder.toml": '[[guard]]\nname = "mine"\npath = "nowhere"\n',
        "package.toml": '[[guard]]\nname = "mine"\npath = "unnamed"\n',
        "twins.toml": '[[guard]]\nname = "one"\npath = "one"\n[[guard]]\nname = "two"\npath = "two"\n',
        "file": "x",
        "full/file": "x",
        "unnamed/package.json": "{}",
        "one/package.json": '{"name": "guard"}',
        "two/package.json": '{"name": "guard"}',
        "models/a/noise.gguf": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


BAD: list[tuple[str, str]] = [
    ("", "say what to run: --suite NAME or --scenario NAME,... (one of the two)"),
    ("--suite smoke --scenario search-mirage", "say what to run"),
    (f"--scenario {NOTHING}", f"no scenario '{NOTHING}': give one of search-mirage, "),
    ("--scenario search-mirage,search-mirage", "'search-mirage' stands there twice"),
    ("--scenario search-mirage:huge", "no size 'huge': give one of small, default, large"),
    ("--scenario search-mirage --size huge", "'huge' is not one of 'small', 'default', 'large'"),
    (f"--scenario search-mirage --arms {NOTHING}", f"--arms: '{NOTHING}' is no arm; use off, stock, null, "),
    ("--scenario search-mirage --arms off,off", "--arms: 'off' stands there twice"),
    ("--scenario search-mirage --arms ,", "--arms: name at least one arm"),
    (f"--scenario search-mirage --arms only:{NOTHING}@host", "with GUARD one of circuit-breaker, loop-guard"),
    (f"--suite {NOTHING}", f"--suite {NOTHING}: "),
    ("--suite {}/none.toml", "No such file"),
    ("--suite {}/no.toml", "no.toml: no TOML: "),
    ("--suite {}/suite-key.toml", "suite-key.toml: unknown key mode.0.warmth; keys: decode_mode, sampler, seeds"),
    ("--suite {}/suite-arm.toml", "'of' is no arm"),
    ("--scenario search-mirage --stack {}/none.toml", "none.toml: can not be read: No such file"),
    ("--scenario search-mirage --stack {}/no.toml", "no.toml: is no TOML: "),
    ("--scenario search-mirage --stack {}/guard.toml", NOTHING),
    ("--scenario search-mirage --stack {}/guard-key.toml", "duplicateLimt"),
    ("--scenario search-mirage --stack {}/guard-value.toml", "duplicateLimit"),
    ("--scenario search-mirage --stack {}/folder.toml", "is no plugin's folder: it has no package.json"),
    ("--scenario search-mirage --arms host --stack {}/package.toml", "package.json: no package manifest with a name"),
    ("--scenario search-mirage --arms host --stack {}/twins.toml", "are both the package 'guard'"),
    ("--scenario search-mirage --seeds none", "--seeds none: give how many (3), a range (1000..1005), or a list"),
    ("--scenario search-mirage --seeds 0", "--seeds: 0: give how many seeds (1 or more)"),
    ("--scenario search-mirage --seeds 5..3", "--seeds: "),
    ("--scenario search-mirage --seeds 1,1", "--seeds: (1, 1)"),
    ("--scenario search-mirage --model actor:lazy", "--model actor:lazy: there is no such actor; use actor:honest or"),
    (f"--scenario search-mirage --model {NOTHING}", f"unknown model '{NOTHING}'"),
    (
        "--scenario search-mirage --model actor:looping --harness 0.1.5rc1",
        f"--harness 0.1.5rc1: {metadata.version('deepseek-harness-sdk')} is installed; put the other one into",
    ),
    (f"--scenario search-mirage --model {NOTHING} --dry-run", f"unknown model '{NOTHING}'"),
    ("--scenario search-mirage --model {}/none.gguf", "none.gguf"),
    ("--scenario search-mirage --model {}/models/a/noise.gguf", "noise.gguf"),
    ("--scenario search-mirage --model actor:honest --model actor:honest", "--model actor:honest stands there twice"),
    (
        "--scenario search-mirage --model {}/a/m.gguf --model {}/b/m.gguf --dry-run",
        "/a/m.gguf and --model {}/b/m.gguf have one name, m: rename a file",
    ),
    ("--scenario poll-progress --model actor:looping", "nothing to run: none of the scenarios has a looping course"),
    ("--scenario search-mirage --horizon 0", "--horizon 0: give 1 or more"),
    ("--scenario search-mirage --horizon some", "'--horizon': Input should be a valid integer"),
    ("--scenario search-mirage --priming -1", "--priming -1: give 0 or more"),
    ("--scenario search-mirage --jobs 0", "--jobs 0: give 1 or more"),
    ("--scenario search-mirage --wall-limit 0", "--wall-limit 0: give seconds above 0"),
    ("--scenario search-mirage --wall-limit nan", "--wall-limit nan: give seconds above 0"),
    ("--scenario search-mirage --wall-limit inf", "--wall-limit inf: give seconds above 0"),
    ("--scenario search-mirage --sampler warmth=1", "--sampler warmth=1: give KEY=VALUE with KEY one of temperature"),
    ("--scenario search-mirage --sampler temperature=hot", "--sampler temperature=hot: "),
    ("--scenario search-mirage --decode-mode wild", "'wild' is not one of 'free', 'lazy', 'forced'"),
    ("--scenario search-mirage --resume", "--resume and --tape-only go on with a run: name its folder with --out"),
    ("--scenario search-mirage --tape-only", "--resume and --tape-only go on with a run"),
    ("--scenario search-mirage --resume --tape-only --out {}/run", "give one of them"),
    ("--scenario search-mirage --resume --out {}/run", "run: no run to go on with: manifest.json: No such file"),
    ("--scenario search-mirage --resume --out {}/full", "full: no run to go on with: manifest.json: No such file"),
    ("--scenario search-mirage --out {}/full", "full: the folder is not empty; go on with --resume, or take another"),
    ("--scenario search-mirage --out {}/file", "file: File exists; choose another folder"),
    ("--scenario search-mirage --out {}/file/run", "run: Not a directory; choose another folder"),
    ("--scenario search-mirage --out /proc/nowhere/run", "--out /proc/nowhere/run: "),
]


@pytest.mark.parametrize(("arguments", "says"), BAD, ids=[arguments or "nothing" for arguments, _ in BAD])
def test_bad_usage_is_one_clear_line_and_nothing_is_written(
    files: Path, capsys: pytest.CaptureFixture[str], arguments: str, says: str
) -> None:
    before = sorted(files.rglob("*"))
    given = arguments.replace("{}", str(files)).split()
    model = [] if "--model" in given else ["--model", "actor:honest"]
    out = [] if "--out" in given or "tape-only" in arguments or "--resume" in given else ["--out", str(files / "run")]
    assert run(["run", *given, *model, *out]) == 2
    printed, said = capsys.readouterr()
    assert printed == ""
    assert said.startswith("tripbench: error: ")
    assert says.replace("{}", str(files)) in said
    assert said.count("\n") == 1
    assert [path for path in sorted(files.rglob("*")) if path not in before] == []


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"format": 99}, "a run directory of format 99, and this tripbench writes 1"),
        ({"tripbench": "9.9"}, "made by tripbench 9.9, and this is "),
        ({"harness": {"name": "dsh", "version": "9"}}, "played in the harness "),
        (None, "the run there has horizon 7, not 8; resume with the same command, or take another --out"),
    ],
)
def test_a_run_that_is_another_is_not_gone_on_with(
    whole: tuple[Path, dict[str, Any], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    values: dict[str, Any] | None,
    says: str,
) -> None:
    manifest = json.loads((whole[0] / "manifest.json").read_text()) | (values or {})
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    asked = WHOLE if values else (*WHOLE[:-1], "8")
    for how in ("--resume", "--tape-only"):
        assert run(["run", *asked, "--out", str(tmp_path), how]) == 2
        printed, said = capsys.readouterr()
        assert printed == ""
        assert said.startswith("tripbench: error: ")
        assert says in said
        assert said.count("\n") == 1


def test_a_temporary_folder_too_deep_is_said_before_anything_is_written(temporary: Path, tmp_path: Path) -> None:
    deep = temporary / ("d" * 60)
    deep.mkdir()
    status, printed, said = Command(deep, *MIRAGE, "--arms", "off", "--out", str(tmp_path / "run")).end()
    assert (status, printed) == (2, "")
    assert "the path of the temporary folder is too long" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "run").exists()
    assert list(deep.iterdir()) == []


def test_the_command_s_help_names_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "--help"]) == 0
    printed = capsys.readouterr().out
    for option in ("--scenario", "--suite", "--arms", "--resume", "--tape-only", "--dry-run", "--json"):
        assert option in printed
