"""`tripbench provocation`: the tables of what provokes which model, from the traces of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from guards.errors import UserError

PUBLISHED = Path("results/published/provocation")


def provocation(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run directories; arms but off are left out.")],
    out: Annotated[Path | None, typer.Option(metavar="DIR", help=f"Default: {PUBLISHED}.")] = None,
    tuning: Annotated[
        bool, typer.Option("--tuning", help="Take seeds from 1000 on too, which are for tuning; needs --out.")
    ] = False,
) -> None:
    """Write provocation.md and provocation.csv: how often each trip scenario provokes a loop without guards, by model,
    decode mode, sampler, priming, runner and harness, which are never pooled."""
    from results.provocation import tables
    from results.provocation_page import NAME, heading, verdict, write
    from results.run import load_run

    if tuning and out is None:
        raise UserError(f"--tuning: name a folder with --out: tuning seeds do not belong into {PUBLISHED}")
    if (twice := next((run for at, run in enumerate(runs) if run.resolve() in _resolved(runs[:at])), None)) is not None:
        raise UserError(f"{twice}: the run stands there twice")
    loaded = [load_run(run) for run in runs]
    found = tables(loaded, tuning=tuning)
    folder = out or PUBLISHED
    write(found, loaded, folder, tuning=tuning)
    for table in found:
        print(f"{heading(table)}: {verdict(table)}")
    print(f"tables: {folder / f'{NAME}.md'}")


def _resolved(paths: list[Path]) -> list[Path]:
    return [path.resolve() for path in paths]
