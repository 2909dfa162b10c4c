"""`tripbench report`: tables, figures and report of a run, written anew from its traces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]) -> None:
    """Write the tables and the report of a run again, from its traces alone, and print the short table."""
    from results.run import console_table, load_run, write_report, write_tables
    from runners.execution import show

    loaded = load_run(run)
    write_tables(loaded)
    write_report(loaded)
    show(console_table(loaded))
    print(f"report: {run / 'report.html'}")
