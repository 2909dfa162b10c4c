"""The provocation tables as files: Markdown for people, CSV for programs; equal runs give equal bytes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from guards.errors import UserError
from results import tables as written
from results.estimate import Estimate
from results.loops import KINDS, Kind
from results.provocation import TUNING, Row, Table
from results.report.words import horizon, number, penalties, rate, sampler, temperature
from results.run import Run

NAME = "provocation"
_HEADS = (
    "scenario",
    "horizon",
    "episodes (unique)",
    "provoked",
    "onset",
    "length",
    "left again",
    "ended",
    "solved",
    "errors",
)
_UNITS: dict[Kind, str] = {"calls": "call", "refill": "attempt"}
_HOW = """\
How often models fall into a loop by themselves, without any guard, in the `trip` scenarios. Made by `make provocation`
from the runs below; `tripbench provocation RUN...` makes these tables again from the traces alone. No row and no line
is taken over two models, decode modes, samplers, primings, sizes, runners, harness or oracle versions.

- **episodes (unique)**: those that ran to their end, one a seed, and how many different trajectories they have. At
  temperature 0 equal trajectories are one piece of evidence; an actor is one episode, whatever the seeds.
- **provoked**: episodes with a loop, of all, with Wilson's 95% interval over the independent ones. A loop is three or
  more sterile calls of one agent in a row that the model chose, or three or more compaction attempts with no unit of
  the task between them. Primed calls never count as the model's own.
- **onset**, **length**: medians over the episodes with a loop of calls, and over those with a loop of compaction
  attempts (some have both), of the first such loop: the number of its first call (or attempt) among the agent's own,
  and how many calls (or attempts) it has, up to the horizon.
- **left again**: of the provoked, those that left their first loop themselves. **ended**: how the root agent ended.
- **solved**: the task was solved. **errors**: infrastructure errors, which are in no other column.

Aims are those of the issue that asked for these tables, set before anything was measured; they are no results.
"""
_UNTUNED = f"Seeds from {TUNING:,} on, on which texts were tuned, are not used here.\n"
_TUNING = "**Made with `--tuning`: it may hold seeds that texts were tuned on. Not for publication.**\n"


def write(found: Sequence[Table], runs: Sequence[Run], folder: Path, *, tuning: bool = False) -> None:
    """Writes `provocation.md` and `provocation.csv` into the folder, over what is there. Raises UserError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{NAME}.md").write_bytes(page(found, runs, tuning=tuning).encode("utf-8", "surrogatepass"))
        written.write_csv(frame(found), folder / f"{NAME}.csv")
    except OSError as error:
        raise UserError(f"--out {folder}: {error.strerror or error}; choose another folder") from error


def page(found: Sequence[Table], runs: Sequence[Run], *, tuning: bool = False) -> str:
    """The Markdown page."""
    parts = ["# Provocation\n", _HOW, _TUNING if tuning else _UNTUNED]
    parts.append("\n".join(f"- {heading(table)}: {verdict(table)}" for table in found) + "\n")
    parts += [_section(table) for table in found]
    parts.append("## Runs\n\n" + "\n".join(_run(place, run) for place, run in enumerate(runs, start=1)) + "\n")
    return "\n".join(part for part in parts if part)


def heading(table: Table) -> str:
    """Who plays what, how: the name of a table."""
    key, setting = table.key, table.key.setting
    who = f"{setting.actor} actor" if setting.actor else setting.model or "unnamed model"
    decoded = [] if setting.actor else [setting.decode_mode, temperature(setting), penalties(setting)]
    primed = f"{key.priming} primed repeats" if key.priming else "unprimed"
    size = "" if key.size in ("", "default") else f"size {key.size}"
    runner = f"runner {setting.runner or 'not recorded'}"
    return ", ".join(part for part in (who, *decoded, primed, size, runner) if part)


def verdict(table: Table) -> str:
    """The table in one line, beside its aim."""
    line = f"scenarios provoked in at least half of their episodes: {len(table.half)} of {len(table.rows)}"
    aim = table.key.aim
    return f"{line} (aim, not a result: {aim})" if aim is not None else f"{line} (no aim was set for this table)"


def _section(table: Table) -> str:
    key, setting = table.key, table.key.setting
    facts = (
        [] if setting.actor else [f"Model sha256 `{setting.sha256 or 'not recorded'}`", f"sampler {sampler(setting)}"]
    )
    facts += [f"harness {setting.harness or 'none'}", f"oracle version {key.oracle or 'not recorded'}"]
    facts.append(f"run{'s' if len(table.runs) > 1 else ''} {', '.join(str(place + 1) for place in table.runs)}")
    said = "; ".join(facts)
    lines = [f"## {heading(table)}", "", f"{said[0].upper()}{said[1:]}.", ""]
    lines += [_cells(_HEADS), _cells(["---"] * len(_HEADS))]
    lines += [_cells(_words(row)) for row in table.rows]
    said = verdict(table)
    lines += ["", f"**{said[0].upper()}{said[1:]}.**"]
    if short := [f"{row.cell.scenario} ({_count(row.provoked)})" for row in table.rows if not row.half]:
        lines.append(f"Provoked in less than half: {', '.join(short)}.")
    if table.absent:
        absent = ", ".join(f"{name} ({count})" for name, count in table.absent)
        lines.append(f"**Not finished**: planned episodes without a trace: {absent}.")
    return "\n".join(lines) + "\n"


def _words(row: Row) -> list[str]:
    return [
        row.cell.scenario,
        horizon(row.cell).removeprefix("horizon "),
        f"{row.episodes.n} ({row.episodes.unique})",
        rate(row.provoked),
        _medians(row.onset, before=True),
        _medians(row.length, before=False),
        _count(row.recovered),
        ", ".join(f"{name} {count}" for name, count in row.ends) or "-",
        _count(row.solved),
        str(row.errors),
    ]


def _medians(found: dict[Kind, Estimate], *, before: bool) -> str:
    said = []
    for kind in KINDS:
        if kind in found:
            value, unit = number(found[kind].value), _UNITS[kind]
            said.append(f"{unit} {value} (n {found[kind].n})" if before else f"{value} {unit}s (n {found[kind].n})")
    return "; ".join(said) or "-"


def _count(value: Estimate) -> str:
    return f"{value.count} of {value.n}" if value.n else "-"


def _cells(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def _run(place: int, run: Run) -> str:
    """A run's facts, from its manifest; what it does not say is "not recorded"."""
    manifest = run.manifest
    words = manifest.get("command")
    command = shlex.join(map(str, words)) if isinstance(words, list) and words else "not recorded"
    said = [f"{place}. `{command}`", f"begun {_said(manifest.get('created'))}"]
    said += [f"tripbench {_said(manifest.get('tripbench'))}", f"harness {_of(manifest, 'harness', 'name', 'version')}"]
    said += [f"commit {_commit(manifest)}", f"oracle version {_of(manifest, 'stamp', 'oracle')}"]
    said.append(f"{_of(manifest, 'hardware', 'cpu')}, cores: {_of(manifest, 'hardware', 'cores')}")
    plan = manifest.get("plan")
    if isinstance(plan, dict):
        said.append(f"seeds {', '.join(map(str, plan.get('seeds', ())))}")
        if plan.get("batched"):
            said.append("several episodes were decoded in one batch: decoded anew, near ties can fall otherwise")
    models = manifest.get("models")
    for model in models if isinstance(models, list) else ():
        if isinstance(model, dict):
            said.append(
                f"{_said(model.get('name'))} sha256 `{_said(model.get('sha256'))}` ({_said(model.get('engine'))})"
            )
    return "; ".join(said)


def _commit(manifest: dict[str, Any]) -> str:
    git = manifest.get("git")
    if not isinstance(git, dict) or not git.get("commit"):
        return "not recorded"
    return f"{str(git['commit'])[:12]}{' and changes on it' if git.get('dirty') else ''}"


def _of(manifest: dict[str, Any], key: str, *names: str) -> str:
    found = manifest.get(key)
    return " ".join(_said(found.get(name)) for name in names) if isinstance(found, dict) else "not recorded"


def _said(value: Any) -> str:
    return "not recorded" if value is None or value == "" else str(value)


# -- the csv ---------------------------------------------------------------------------------------------------------


def frame(found: Sequence[Table]) -> Any:
    """One row a scenario of a table: `IDENTITY` of results/tables.py, the oracle's version, and the figures.

    `*_n` is how many episodes a figure rests on; of `provoked` and `solved` they are `n` and `solved_n`, of
    `recovered` it is `provoked`. An empty cell: no episode shows it, or there is no interval.
    """
    import pandas as pd

    records = [_record(table, row) for table in found for row in table.rows]
    table = pd.DataFrame(records, columns=list(records[0]))
    counts = [name for name in table if str(name).endswith("_n") or name in ("provoked", "recovered", "solved")]
    return table.astype(dict.fromkeys(counts, "Int64"))


def _record(table: Table, row: Row) -> dict[str, Any]:
    record = written.identity(row.cell) | {"oracle": table.key.oracle, "n": row.episodes.n}
    record |= {"unique": row.episodes.unique, "errors": row.errors, "at_least_half": row.half}
    record |= {"provoked": row.provoked.count, "provoked_low": row.provoked.low, "provoked_high": row.provoked.high}
    for kind in KINDS:
        for name, values in (("onset", row.onset), ("length", row.length)):
            value = values.get(kind)
            record[f"{name}_{kind}"] = value.value if value else None
            record[f"{name}_{kind}_n"] = value.n if value else 0
    record |= {"recovered": row.recovered.count, "solved": row.solved.count, "solved_n": row.solved.n}
    return record | {"ends": " ".join(f"{name}:{count}" for name, count in row.ends)}
