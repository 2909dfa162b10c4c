"""All mutants of the decision cores, the survivors that are known, and what a run found."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.guards.mutation import python_run, script_run
from tests.guards.mutation.mutant import Mutant
from tests.guards.mutation.python_mutants import python_mutants
from tests.guards.mutation.script_mutants import script_mutants

ROOT = Path(__file__).resolve().parents[3]
SURVIVORS = Path(__file__).with_name("survivors.toml")
PYTHON: Final[dict[str, tuple[str, ...]]] = {
    "guards/circuit_breaker.py": (),
    "guards/loop_guard.py": (),
    "guards/compaction_breaker.py": (),
    "guards/repeat_reminder.py": (),
    "guards/keys.py": (),
    "guards/config.py": (),
    # What reads JSON, and what writes it for files alone, decides nothing.
    "guards/json_text.py": (
        *("parse", "dump", "_DeepParser", "_after_space", "_exact_number", "_integer", "_no_constant"),
        *("_INTEGER_CHARACTERS", "_CLOSING", "_SPACE", "_DECODER"),
    ),
}
"""Files, and what in them is left alone."""

SCRIPTS: Final = (
    "guards/plugins/circuit-breaker/core.js",
    "guards/plugins/loop-guard/core.js",
    "guards/plugins/compaction-breaker/core.js",
    # The same in every plugin.
    "guards/plugins/circuit-breaker/keys.js",
    "guards/plugins/circuit-breaker/settings.js",
)
Key = tuple[str, str, str, int]


@dataclass(frozen=True, slots=True)
class Found:
    """A mutant and the row that killed it, None = it survived."""

    mutant: Mutant
    row: str | None


@cache
def all_mutants() -> tuple[Mutant, ...]:
    """Every mutant of every file, in the order of files and lines."""
    found: list[Mutant] = []
    for file, skipped in PYTHON.items():
        found += python_mutants(file, (ROOT / file).read_text(encoding="utf-8"), skipped)
    for file in SCRIPTS:
        found += script_mutants(file, (ROOT / file).read_text(encoding="utf-8"))
    return tuple(found)


def known() -> dict[Key, str]:
    """The survivors in `survivors.toml` and why each decides the same as the original."""
    rows = tomllib.loads(SURVIVORS.read_text(encoding="utf-8"))["survivor"]
    return {(row["file"], row["line"], row["change"], row.get("nth", 0)): row["reason"] for row in rows}


def sample(count: int, seed: int) -> list[Mutant]:
    """So many mutants, the same for the same seed, in the order of files and lines."""
    mutants = all_mutants()
    chosen = random.Random(seed).sample(range(len(mutants)), min(count, len(mutants)))
    return [mutants[place] for place in sorted(chosen)]


def judge(mutants: Sequence[Mutant]) -> list[Found]:
    """Judges mutants, those of Python first, else in their order."""
    python = [mutant for mutant in mutants if mutant.file in PYTHON]
    scripts = [mutant for mutant in mutants if mutant.file in SCRIPTS]
    found = [Found(mutant, python_run.verdict(mutant)) for mutant in python]
    if scripts:
        found += [Found(mutant, row) for mutant, row in zip(scripts, script_run.judge(scripts).rows, strict=True)]
    return found


def wrong(found: Iterable[Found]) -> list[str]:
    """A line for each survivor that is not known, and for each known one that was killed."""
    listed = known()
    lines = []
    for each in found:
        if each.row is None and each.mutant.key not in listed:
            lines.append(f"survives and is not in {SURVIVORS.name}: {each.mutant} (nth = {each.mutant.nth})")
        elif each.row is not None and each.mutant.key in listed:
            lines.append(f"is in {SURVIVORS.name} and was killed by {each.row}: {each.mutant}")
    return lines


def missing() -> list[Key]:
    """What `survivors.toml` names and is no mutant of the files as they are."""
    return sorted(known().keys() - {mutant.key for mutant in all_mutants()})
