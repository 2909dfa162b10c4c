"""A run's directory while it is written: manifest, traces, tape, log, and the first prompts of its pairs."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from itertools import chain, count
from pathlib import Path
from typing import Any

import psutil

from guards.errors import UserError
from results.trace import End, Trace
from results.trace_file import read_trace, write_trace

FORMAT = 1
"""Of the run directory. One of another format is not gone on with."""
RUNS = Path("results/runs")


class RunDirectory:
    """`create` a new one or `resume` one that is there."""

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path = path
        self.manifest = manifest

    @classmethod
    def create(cls, path: Path, manifest: Mapping[str, Any]) -> RunDirectory:
        """Raises UserError where it can not be made, or holds anything already."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise UserError(f"--out {path}: the folder is not empty; go on with --resume, or take another one")
            made = cls(path, {"format": FORMAT, **manifest})
            # First of all: what is killed after it can be gone on with.
            made.write_manifest()
            (path / "traces").mkdir()
        except OSError as error:
            raise UserError(f"--out {path}: {error.strerror or error}; choose another folder") from error
        return made

    @classmethod
    def resume(cls, path: Path, plan: Mapping[str, Any]) -> RunDirectory:
        """Raises UserError where there is none, or one of another format, version or harness, or of other episodes than
        `plan` says."""
        try:
            manifest = json.loads((path / "manifest.json").read_bytes())
        except OSError as error:
            raise UserError(f"--out {path}: no run to go on with: manifest.json: {error.strerror}") from error
        except ValueError as error:
            raise UserError(f"{path / 'manifest.json'}: no JSON: {error}") from error
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            had = manifest.get("format") if isinstance(manifest, dict) else None
            raise UserError(f"{path}: a run directory of format {had!r}, and this tripbench writes {FORMAT}")
        version = metadata.version("tripbench")
        if manifest.get("tripbench") != version:
            raise UserError(f"{path}: made by tripbench {manifest.get('tripbench')}, and this is {version}")
        if (harness := manifest.get("harness")) != (this := installed_harness()):
            raise UserError(
                f"{path}: played in the harness {_short(harness)}, and this one is {_short(this)}; episodes of two are "
                "not comparable: take another --out"
            )
        had = manifest.get("plan")
        for key, value in plan.items():
            there = had.get(key) if isinstance(had, dict) else None
            if there != value:
                raise UserError(
                    f"{path}: the run there has {key} {_short(there)}, not {_short(value)}; "
                    "resume with the same command, or take another --out"
                )
        try:
            (path / "traces").mkdir(exist_ok=True)
        except OSError as error:
            raise UserError(f"--out {path}: traces: {error.strerror}") from error
        return cls(path, manifest)

    @property
    def tape(self) -> Path:
        return self.path / "tape.sqlite"

    @property
    def failed(self) -> Path:
        """Where event logs and stderr of failed episodes are kept."""
        return self.path / "failed"

    def write_manifest(self) -> None:
        self.write_json("manifest.json", self.manifest)

    def write_trace(self, trace: Trace) -> None:
        """Whole or not at all."""
        write_trace(self.trace_path(trace.header.episode), trace)

    def write_proof(self, trace: Trace) -> None:
        """The trace of a guard's proof; no part of the run's results."""
        (self.path / "proof").mkdir(exist_ok=True)
        write_trace(self.path / "proof" / f"{trace.header.episode}.trace.jsonl.zst", trace)

    def write_json(self, name: str, data: Any) -> None:
        _write(self.path / name, json.dumps(data, indent=2, ensure_ascii=False) + "\n")

    def trace_path(self, episode: str) -> Path:
        return self.path / "traces" / f"{episode}.trace.jsonl.zst"

    def done(self, episode: str) -> Trace | None:
        """The episode's trace; None where there is none, or it ended in an infrastructure error and is due again."""
        path = self.trace_path(episode)
        if not path.exists():
            return None
        trace = read_trace(path)
        return None if failure_of(trace) is not None else trace

    def opening(self, pair: str) -> str | None:
        """What the root agent of this pair's first episode was asked with; None before it."""
        path = self.path / "prompts" / f"{pair}.txt"
        # As bytes: a text file's line ends would be changed on the way.
        return path.read_bytes().decode("utf-8", "surrogatepass") if path.exists() else None

    def keep_opening(self, pair: str, text: str) -> None:
        (self.path / "prompts").mkdir(exist_ok=True)
        _write(self.path / "prompts" / f"{pair}.txt", text)

    def log(self, text: str) -> None:
        """Appends a line to the run's log, with the wall clock's time."""
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        with (self.path / "log.txt").open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{stamp} {text}\n")


def failure_of(trace: Trace) -> str | None:
    """Why the episode is no result: the cause of its infrastructure error. None where it is one."""
    for event in trace.events:
        if isinstance(event, End) and event.reason == "error":
            return str(event.extra.get("cause", "no cause was recorded"))
    return None


def new_path(suite: str | None) -> Path:
    """Where a run goes that names no folder: in the working directory, by date and suite, where nothing is yet."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    name = f"{stamp}-{re.sub(r'[^A-Za-z0-9._-]+', '-', suite or 'run')}"
    names = chain([name], (f"{name}-{number}" for number in count(2)))
    return next(path for path in map(RUNS.joinpath, names) if not path.exists())


def surroundings() -> dict[str, Any]:
    """What a run's manifest says of versions, machine and working copy."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "tripbench": metadata.version("tripbench"),
        "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": ["tripbench", *sys.argv[1:]],
        "python": platform.python_version(),
        "harness": installed_harness(),
        "hardware": {
            "machine": platform.machine(),
            "system": f"{platform.system()} {platform.release()}",
            "cpu": _cpu(),
            "cores": cores,
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        },
        "git": _git(),
    }


def installed_harness() -> dict[str, str]:
    """Name and version of the installed harness."""
    return {"name": "dsh", "version": metadata.version("deepseek-harness-sdk")}


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    found = re.search(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)
    return found[1] if found else platform.processor()


def _git() -> dict[str, Any] | None:
    """Commit and whether the files differ from it, where the package is used from a working copy; else None."""
    here = Path(__file__).parent
    try:
        head = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, timeout=10, check=True
        )
        state = subprocess.run(
            ["git", "status", "--porcelain"], cwd=here, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": head.stdout.strip(), "dirty": bool(state.stdout.strip())}


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(text.encode("utf-8", "surrogatepass"))
    draft.replace(path)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 120 else text[:117] + "..."
