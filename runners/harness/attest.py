"""Arming is proven, never assumed: what should be live beside what is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runners.harness.composition import PRESET, Expected

SCAFFOLD = "scaffold"
INSTRUMENTED = ("circuit-breaker", "loop-guard", "compaction-breaker", "null")
"""Guards of ours, which write an `arm` line when they mount; of others only the row can be looked at."""


@dataclass(frozen=True)
class Failure:
    """Why an episode can not count. `guard` is `scaffold` and `plane` None where it is not about one guard."""

    guard: str
    plane: str | None
    cause: str

    def __str__(self) -> str:
        where = self.guard if self.plane is None else f"{self.guard}@{self.plane}"
        return f"{where}: {self.cause}"


def check(
    expected: Sequence[Expected],
    live: Mapping[str, Any],
    lines: Sequence[Mapping[str, Any]],
    own: Sequence[str],
    stderr: Sequence[str],
) -> list[Failure]:
    """What is missing of `expected`. `live` is the recorder's report, `lines` the event log so far, `own` the guards
    whose plugin is ours; `stderr` gives the cause where a row did not come up."""
    rows = {row["id"]: row for row in live["rows"]}
    presets = {preset["id"]: preset for preset in live["presets"]}
    preset = presets.get(PRESET)
    inner = {row["id"]: row for row in (preset or {}).get("rows", ())}
    armed = {(line["guard"], line["plane"]) for line in lines if line["ev"] == "arm"}
    failures = []
    for row in expected:
        cause = None
        if row.plane == "agent":
            if preset is None:
                cause = f"the preset {PRESET!r} is not mounted"
            elif preset["broken"]:
                cause = f"the preset {PRESET!r} is broken: {_text(preset['broken'])}"
            elif live["preset"] != PRESET:
                cause = f"the agent has not joined the preset {PRESET!r} but {live['preset'] or 'none'}"
        cause = cause or _wrong(row, inner if row.plane == "agent" else rows, stderr)
        if cause is None and row.guard in own and (row.guard, row.plane) not in armed:
            cause = "the row is live, but the guard wrote no `arm` line"
        if cause is not None:
            failures.append(Failure(row.guard or row.row, row.plane, cause))
    # A guard is named before the scaffold that fell with it.
    return sorted(failures, key=lambda failure: failure.guard not in {row.guard for row in expected})


def joined(agent: str, live: Mapping[str, Any]) -> list[Failure]:
    """What is wrong with where a subagent is: it must be in the preset of its parent."""
    if live.get("preset") == PRESET:
        return []
    cause = f"the subagent {agent} has not joined the preset {PRESET!r} but {live.get('preset') or 'none'}"
    return [Failure(SCAFFOLD, "agent", cause)]


def _wrong(row: Expected, rows: Mapping[str, Mapping[str, Any]], stderr: Sequence[str]) -> str | None:
    """None where the row is live as it should be."""
    found = rows.get(row.row)
    if found is None:
        return f"row {row.row!r} is not in the tree: its patch was skipped"
    if found["name"] != row.package:
        return f"row {row.row!r} is {found['name']}, not {row.package}: a patch's name matches a row, it replaces none"
    if found.get("disabled"):
        # It disables a plugin that is made for other versions of it.
        why = next((line.strip() for line in stderr if "disabling" in line and f'"{row.row}"' in line), None)
        return f"row {row.row!r} is disabled" + ("" if why is None else f": {why[:400]}")
    if found["state"] == "active":
        return None
    return f"row {row.row!r} is {found['state']}: {reason(row.row, row.package, stderr) or 'no reason was given'}"


def reason(row: str, package: str, stderr: Sequence[str]) -> str:
    """What the runtime wrote about a row; else its last words."""
    for at, line in enumerate(stderr):
        if row in line or package in line:
            return " ".join(part.strip() for part in stderr[at : at + 3])[:400]
    return stderr[-1].strip()[:400] if stderr else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value.get("message", value) if isinstance(value, dict) else value)
