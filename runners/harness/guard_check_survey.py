"""What plugins require, import and export, found out inside the harness before any of them is mounted.

The surveyor, a plugin of ours, runs in a process of the harness of its own and asks the harness itself: its rule about
ranges of versions, its way of resolving imports, its loader's idea of what can be mounted.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guards.errors import UserError
from runners.harness.composition import PROFILE
from runners.harness.layout import Layout, Scratch
from runners.harness.plugins import declared, install, manifest_of, package_of, plugin_folder
from runners.harness.runtime import MARK, kill_marked, runtime_command

_SECONDS = 300.0
_NO_ENGINE = re.compile(r"^- +id: *['\"]?compaction-basic['\"]? *(#.*)?\n +disabled: *true\b", re.MULTILINE)
"""In a plugin's own patch: it takes the place of the harness' engine."""

_EXACT = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
"""A version, and no range or prefix of one."""

_BY_US = re.compile(r" imported from \S+/dsh-surveyor-tripbench/index\.js$")


class SurveyFailed(Exception):
    """The harness' process ended, or did not end, before it had looked at all of them."""


@dataclass(frozen=True)
class Surveyed:
    """One plugin. `requires` are the ranges that it declares by what declares them, `unmet` those of them that this
    harness is outside of; `denied` says why the harness could not judge them, else None.

    `imports` are its bare imports in the order of loading, each with why it does not resolve, or None. `error` is what
    loading it threw. `applies`: the harness could mount what it exports. `engine`: it is a compaction engine.
    """

    name: str
    version: str | None
    requires: Mapping[str, Any]
    unmet: Mapping[str, str]
    denied: str | None
    imports: tuple[tuple[str, str | None], ...]
    error: str | None
    applies: bool
    engine: bool


@dataclass(frozen=True)
class Survey:
    """`harness` is the running version as the harness spells it."""

    harness: str
    plugins: tuple[Surveyed, ...]


def survey(folders: Sequence[Path], scratch: Scratch, command: Sequence[str] | None = None) -> Survey:
    """Looks at plugins, all in one process. `command` None is the bundled runtime.

    Raises UserError for a folder that is no plugin or can not be copied, and SurveyFailed.
    """
    names = [package_of(folder) for folder in folders]
    layout = scratch.layout(f"s{uuid.uuid4().hex[:8]}")
    try:
        out = layout.root / "survey.json"
        _lay_out(layout, folders, names, out)
        said = _run(layout, command or runtime_command())
        if not out.exists():
            raise SurveyFailed(said)
        found = json.loads(out.read_bytes())
        places = [layout.packages(PROFILE) / name for name in names]
        return Survey(found["harness"], tuple(map(_surveyed, folders, places, names, found["plugins"])))
    finally:
        layout.remove()


@dataclass(frozen=True)
class Outside:
    """A plugin that declares itself made for other harness versions. `requires` are the ranges that are not met by
    what declares them; `harness` is the running version as the harness spells it."""

    folder: Path
    name: str
    version: str
    requires: Mapping[str, str]
    harness: str

    def __str__(self) -> str:
        return f"{self.name}@{self.version} is made for {ranges(self.requires)}, and the harness is {self.harness}"

    def data(self) -> dict[str, Any]:
        """As it is stamped into traces and proofs."""
        return {"plugin": f"{self.name}@{self.version}", "requires": dict(self.requires), "harness": self.harness}


def ranges(requires: Mapping[str, Any]) -> str:
    """Declared ranges for people, on one line."""
    return ", ".join(f"{name} {wanted}" for name, wanted in requires.items())


def outside(folders: Sequence[Path], scratch: Scratch, command: Sequence[str] | None = None) -> list[Outside]:
    """Those of the plugins that are. No process is run where none of them declares anything.

    Raises UserError for what can not be looked at, and where the harness can not judge what is declared.
    """
    asked = [folder for folder in folders if declared(folder)]
    if not asked:
        return []
    try:
        done = survey(asked, scratch, command)
    except SurveyFailed as error:
        raise UserError(f"{', '.join(map(str, asked))}: can not be looked at in the harness: {error}") from error
    for folder, each in zip(asked, done.plugins, strict=True):
        if each.denied is not None:
            raise UserError(f"{folder}: the harness refuses its manifest: {each.denied}")
        if each.unmet and not grantable(each.name, each.version):
            raise UserError(
                f"{folder}: it is made for {ranges(each.unmet)}, and the harness is {done.harness}; give it a "
                "lower-case name and an exact version, so that an exception can be made"
            )
    return [
        Outside(folder, each.name, each.version or "", each.unmet, done.harness)
        for folder, each in zip(asked, done.plugins, strict=True)
        if each.unmet
    ]


def grantable(name: str, version: str | None) -> bool:
    """Whether the harness takes an exception for that package."""
    return name == name.lower() and version is not None and _EXACT.fullmatch(version) is not None


def grant(profile: Path, plugins: Sequence[Outside]) -> None:
    """Lets a profile mount plugins that are outside of their ranges: the harness disables them otherwise. `profile` is
    the profile's folder in a home of the episode's own."""
    if plugins:
        granted = {f"{each.name}@{each.version}": [each.harness] for each in plugins}
        (profile / "compatibility.json").write_text(json.dumps(granted), encoding="utf-8")


def _lay_out(layout: Layout, folders: Sequence[Path], names: Sequence[str], out: Path) -> None:
    packages = layout.packages(PROFILE)
    packages.mkdir(parents=True)
    surveyor = package_of(plugin_folder("surveyor"))
    folder_of = {surveyor: plugin_folder("surveyor")}
    for folder, name in zip(folders, names, strict=True):
        if (other := folder_of.setdefault(name, folder)) is not folder:
            raise UserError(f"{folder} and {other} are both the package {name!r}: only one of them could be mounted")
    for name, folder in folder_of.items():
        install(folder, name, packages)
    config = {"out": str(out), "packages": list(names)}
    rows = [{"insert": [{"id": "surveyor", "name": surveyor, "config": config}]}]
    layout.patch.write_text(json.dumps(rows), encoding="utf-8")


def _run(layout: Layout, command: Sequence[str]) -> str:
    """Runs the process to its end; gives what it said last."""
    mark = f"survey-{uuid.uuid4().hex}"
    log = layout.root / "stderr.txt"
    # No provider is asked.
    environment = {**os.environ, **layout.environment("http://127.0.0.1:1"), MARK: mark}
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [*command, "--profile", PROFILE, "--patch", str(layout.patch)],
            cwd=layout.workspace,
            env=environment,
            # Open for as long as it runs: the runtime ends with it.
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            return f"loading did not end in {_SECONDS:g} s"
        finally:
            kill_marked(mark)
            process.wait()
            with contextlib.suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"the harness ended with {process.returncode} while loading it: {lines[-1][:300] if lines else 'no message'}"


def _surveyed(folder: Path, place: Path, name: str, found: Mapping[str, Any]) -> Surveyed:
    """`place` is where the folder was copied to: what is said of that is meant of the folder."""
    error = found["error"]
    if error is not None:
        error = _BY_US.sub("", error.replace(str(place), str(folder)))
    version = manifest_of(folder).get("version")
    patch = folder / "cordis.patch.yml"
    text = patch.read_text(encoding="utf-8", errors="replace") if patch.is_file() else ""
    return Surveyed(
        name=name,
        version=version if isinstance(version, str) else None,
        requires=declared(folder),
        unmet=found["unmet"],
        denied=found["denied"],
        imports=tuple((specifier, why) for specifier, why in found["imports"]),
        error=error,
        applies=found["applies"],
        engine=found["engine"] or _NO_ENGINE.search(text) is not None,
    )
