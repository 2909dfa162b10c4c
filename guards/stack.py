"""A stack of guards as a file says it, in the order in which they are mounted.

name = "default"

[[guard]]
name = "circuit-breaker"     # one of ours, or any name where `path` is given
preset = "zcode"             # optional: fills keys first
config = { }                 # the guard's own keys
path = "../my-plugin"        # a DSH plugin's folder, mounted in place of ours; relative to this file; live only
attribution = "blocked by"   # with `path`: what tells its denials, a regular expression on the denial's text
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guards import registry
from guards.errors import UserError
from guards.keys import canonical
from guards.policy import Policy

_KEYS = {"name": str, "preset": str, "config": dict, "path": str, "attribution": str}


@dataclass(frozen=True, slots=True)
class StackGuard:
    """One row. `path` None: the guard is ours, and `config` its keys as given; else it is someone else's plugin."""

    name: str
    preset: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    path: Path | None = None
    attribution: str | None = None

    def effective(self) -> dict[str, Any]:
        """Every key with its value in force; of someone else's plugin only those that are given."""
        if self.path is not None:
            return dict(self.config)
        return registry.configure(self.name, self.preset, self.config).effective()


@dataclass(frozen=True, slots=True)
class Stack:
    name: str
    guards: tuple[StackGuard, ...]

    def policies(self, *, live: bool = False) -> tuple[Policy, ...]:
        """Fresh policies in the order of the stack; `live` as in `registry.build`.

        Raises UserError for a guard that has no policy.
        """
        for guard in self.guards:
            if guard.path is not None:
                raise UserError(f"stack {self.name}: {guard.name} of {guard.path} is live only: it has no policy here")
        return tuple(registry.build(guard.name, guard.preset, guard.config, live=live) for guard in self.guards)

    @property
    def digest(self) -> str:
        """SHA-256 in hex over names, effective keys and foreign files, in their order; the stack's name is no part."""
        rows = [
            [guard.name, guard.effective(), guard.attribution, None if guard.path is None else _files(guard.path)]
            for guard in self.guards
        ]
        return hashlib.sha256(canonical(rows).encode()).hexdigest()


def default_stack() -> Stack:
    """The full stack at its defaults."""
    return load_stack(Path(__file__).parent / "stacks" / "default.toml")


def load_stack(path: str | Path) -> Stack:
    """The stack in a file. Raises UserError, which names the file, for anything that is not as it should be."""
    path = Path(path)
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: can not be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{path}: is no TOML: {error}") from error
    try:
        return _stack(given, path)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _stack(given: dict[str, Any], path: Path) -> Stack:
    unknown = given.keys() - {"name", "guard"}
    if unknown:
        raise UserError(f"unknown key {min(unknown)!r}; allowed keys: name, guard")
    name, rows = given.get("name", path.stem), given.get("guard", [])
    if not isinstance(name, str):
        raise UserError("name must be a text")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UserError("guard must be a list of tables: [[guard]]")
    guards = tuple(_guard(row, number, path.parent) for number, row in enumerate(rows, start=1))
    order = [guard.name for guard in guards]
    twice = {each for each in order if order.count(each) > 1}
    if twice:
        raise UserError(f"{min(twice)} stands in the stack twice")
    if {"circuit-breaker", "loop-guard"} <= set(order) and order.index("circuit-breaker") > order.index("loop-guard"):
        raise UserError("circuit-breaker must stand before loop-guard")
    return Stack(name, guards)


def _guard(row: dict[str, Any], number: int, folder: Path) -> StackGuard:
    for key, value in row.items():
        if key not in _KEYS:
            raise UserError(f"guard {number}: unknown key {key!r}; allowed keys: {', '.join(_KEYS)}")
        if not isinstance(value, _KEYS[key]):
            raise UserError(f"guard {number}: {key} must be a {'table' if key == 'config' else 'text'}")
    if "name" not in row:
        raise UserError(f"guard {number}: name is missing")
    path = folder / row["path"] if "path" in row else None
    guard = StackGuard(row["name"], row.get("preset"), row.get("config", {}), path, row.get("attribution"))
    if path is None:
        if guard.attribution is not None:
            raise UserError(f"guard {number}: attribution is for a plugin with path; ours tell their own decisions")
        guard.effective()
        return guard
    if guard.preset is not None:
        raise UserError(f"guard {number}: preset is for guards of ours, and {guard.name} has a path")
    if not (path / "package.json").is_file():
        raise UserError(f"guard {number}: path {path} is no plugin's folder: it has no package.json")
    try:
        re.compile(guard.attribution or "")
    except re.error as error:
        raise UserError(f"guard {number}: attribution is no regular expression: {error}") from error
    return guard


def _files(folder: Path) -> list[list[str]]:
    """Names and digests of the files of a plugin, without what it depends on."""
    inside = sorted(path for path in folder.rglob("*") if path.is_file() and "node_modules" not in path.parts)
    return [[path.relative_to(folder).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()] for path in inside]
