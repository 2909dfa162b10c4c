"""Suites: named matrices, ours in `scenarios/suites`, a user's anywhere.

name = "quick"
scenarios = ["search-mirage", "poll-queued:large"]   # NAME or NAME:SIZE
arms = ["off", "host", "only:loop-guard@agent"]
seeds = 3                                            # how many from 0, or a list of them
horizon = 24                                         # optional; else each scenario's own
priming = 0                                          # optional

[[mode]]                                             # one or more
decode_mode = "lazy"
sampler = "card"                                     # as the model's card says; "greedy"; or settings over the card's
seeds = 1                                            # optional: only the first of the seeds

[[mode]]
decode_mode = "lazy"
sampler = { temperature = 0.0 }
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError

import scenarios
from guards.errors import UserError
from runners.gateway.asking import DecodeMode
from runners.gateway.sampler import Sampler
from runners.plan import CARD, GREEDY, Matrix, Mode, greedy, parse_scenarios

_Strict = ConfigDict(extra="forbid", frozen=True)
_HINTS = {
    ".sampler": '; give "card", "greedy", or settings, as { temperature = 0.0 }',
    "seeds": "; give how many, from 0, or a list of them",
}


class _ModeRow(BaseModel):
    model_config = _Strict

    decode_mode: DecodeMode = "lazy"
    sampler: Literal["card", "greedy"] | dict[str, Any] = CARD  # type: ignore[assignment]
    seeds: StrictInt | None = Field(default=None, ge=1)


class SuiteFile(BaseModel):
    """A suite file. All keys that are not known are errors."""

    model_config = _Strict

    name: str = Field(min_length=1)
    scenarios: tuple[str, ...] = Field(min_length=1)
    arms: tuple[str, ...] = Field(min_length=1)
    seeds: StrictInt | tuple[StrictInt, ...] = 1
    horizon: StrictInt | None = Field(default=None, ge=1)
    priming: StrictInt = Field(default=0, ge=0)
    mode: tuple[_ModeRow, ...] = Field(min_length=1)

    def matrix(self) -> Matrix:
        """Raises UserError for scenarios, seeds and sampler settings that do not exist."""
        return Matrix(
            scenarios=parse_scenarios(",".join(self.scenarios)),
            arms=self.arms,
            seeds=seed_list(self.seeds, "seeds"),
            modes=tuple(_mode(row) for row in self.mode),
            priming=self.priming,
            horizon=self.horizon,
        )


def load_suite(name: str) -> tuple[str, Matrix]:
    """A suite by name or path: its name and what it asks for. Raises UserError naming file, key, value and what is
    allowed."""
    folder = Path(scenarios.__file__).parent / "suites"
    path = Path(name) if "/" in name or name.endswith(".toml") else folder / f"{name}.toml"
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        known = ", ".join(sorted(each.stem for each in folder.glob("*.toml")))
        raise UserError(f"--suite {name}: {path}: {error.strerror}; known: {known}; or give a file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: no TOML: {error}") from error
    try:
        suite = SuiteFile.model_validate(data)
        return suite.name, suite.matrix()
    except ValidationError as error:
        raise UserError(f"{path}: {_wrong(error)}") from error
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def seed_list(seeds: int | tuple[int, ...], key: str) -> tuple[int, ...]:
    """A count from 0, or the seeds themselves. Raises UserError."""
    given = tuple(range(seeds)) if isinstance(seeds, int) else seeds
    if not given or min(given) < 0 or len(set(given)) != len(given):
        raise UserError(f"{key}: {seeds!r}: give how many seeds (1 or more), or different ones of 0 and more")
    return given


def parse_seeds(text: str) -> tuple[int, ...]:
    """`N` (how many from 0), `A..B` (both inclusive) or `A,B,C`. Raises UserError."""
    first, dots, last = text.partition("..")
    try:
        if dots:
            return seed_list(tuple(range(int(first), int(last) + 1)), "--seeds")
        if "," in text:
            return seed_list(tuple(int(part) for part in text.split(",")), "--seeds")
        return seed_list(int(text), "--seeds")
    except ValueError as error:
        raise UserError(f"--seeds {text}: give how many (3), a range (1000..1005), or a list (0,2,4)") from error


def parse_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Sampler settings that exist. Raises UserError."""
    try:
        checked = Sampler.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(step) for step in first["loc"])
        raise UserError(
            f"sampler {key} = {first['input']!r}: {first['msg']}; keys: {', '.join(Sampler.model_fields)}"
        ) from error
    return {key: getattr(checked, key) for key in settings}


def _wrong(error: ValidationError) -> str:
    """The first mistake in a suite file, on one line."""
    first = error.errors()[0]
    kind = _ModeRow if first["loc"][0] == "mode" else SuiteFile
    # Behind a field's name stands which of its types was tried.
    steps = [step for step in first["loc"] if isinstance(step, int) or step in kind.model_fields or step == "mode"]
    if first["type"] == "extra_forbidden":
        return f"unknown key {'.'.join(map(str, first['loc']))}; keys: {', '.join(kind.model_fields)}"
    where = ".".join(str(step) for step in steps) or "file"
    if first["type"] == "missing":
        return f"{where} is missing"
    hint = next((hint for end, hint in _HINTS.items() if where.endswith(end)), "")
    return f"{where} = {first['input']!r}: {first['msg'].replace('tuple', 'list')}{hint}"


def _mode(row: _ModeRow) -> Mode:
    if isinstance(row.sampler, str):
        return Mode(row.decode_mode, greedy() if row.sampler == GREEDY else None, row.seeds)
    return Mode(row.decode_mode, parse_settings(dict(row.sampler)), row.seeds)
