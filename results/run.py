"""A run directory: reading its traces, writing its tables and its report. Nothing else of it is needed or changed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guards.errors import UserError
from guards.json_text import parse
from results.pairs import Study
from results.summary import Row, rows
from results.trace import Trace
from results.trace_file import read_trace

if TYPE_CHECKING:
    from rich.table import Table

TRACES = "*.trace.jsonl.zst"


@dataclass(frozen=True)
class Run:
    """A run as it stands on disk. Every figure comes from the traces; the manifest is only shown."""

    directory: Path
    manifest: dict[str, Any]
    traces: tuple[Trace, ...]

    @cached_property
    def study(self) -> Study:
        """The traces, sorted into cells and pairs. Raises UserError where they are no run of ours."""
        return Study(self.traces)

    @cached_property
    def rows(self) -> list[Row]:
        """Every figure."""
        return rows(self.study)


def load_run(directory: str | Path) -> Run:
    """Reads `manifest.json` and `traces/*.trace.jsonl.zst` of a run directory, in the order of the names.

    Raises UserError where either is missing or can not be read.
    """
    directory = Path(directory)
    path = directory / "manifest.json"
    try:
        manifest = parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{path}: {reason}; name a run directory, as `tripbench run` writes it") from error
    if not isinstance(manifest, dict):
        raise UserError(f"{path}: must be a JSON object; name a run directory, as `tripbench run` writes it")
    found = sorted((directory / "traces").glob(TRACES), key=lambda each: each.name)
    if not found:
        raise UserError(f"{directory / 'traces'}: holds no {TRACES}; there is nothing to report on")
    return Run(directory, manifest, tuple(read_trace(each) for each in found))


def write_tables(run: Run) -> None:
    """Writes `episodes.parquet`, `calls.parquet` and `summary.csv` into the run directory, over what is there."""
    from results import tables

    tables.write_parquet(tables.episodes_frame(run.study), run.directory / "episodes.parquet")
    tables.write_parquet(tables.calls_frame(run.study), run.directory / "calls.parquet")
    tables.write_csv(tables.summary_frame(run.rows), run.directory / "summary.csv")


def write_report(run: Run) -> None:
    """Writes `report.md`, `report.html` and `figures/*.svg` into the run directory, over what is there."""
    from results.report import page

    page.write(run.study, run.rows, run.manifest, run.directory)


def console_table(run: Run) -> Table:
    """The short table for a terminal: one row a scenario and arm."""
    from results.console import table

    return table(run.study, run.rows)
