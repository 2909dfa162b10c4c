"""The short table that `tripbench run` prints: one row a scenario and arm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from results.pairs import OFF, Cell, Study
from results.report.words import Figures, Names, guard_name, horizon, number
from results.summary import Row

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS = ("arm", "n (unique)", "provoked", "first trip (median index)", "false positives", "calls saved")


_CAPTION = (
    "First trip: by guard and plane, the median number of the call (compaction-breaker: of the attempt)\n"
    "and in how many provoked pairs. False positives: novel or needed calls denied. Calls saved: executed\n"
    "calls, off minus guarded, median of the provoked pairs, up to the horizon."
)


def brief(study: Study, figures: Figures, cell: Cell) -> list[tuple[str, ...]]:
    """The rows of one cell, one an arm, with the columns `COLUMNS`.

    First trip: the median index of the first deny or refuse by guard and plane over the provoked pairs, and in how
    many of them it acted; of the first nudge for a guard that only nudges. False positives: denied of asked calls
    that are novel or needed, and refused of attempts that are not futile. Calls saved: `off` minus guarded, the
    median over the provoked pairs of executed calls; "lost" where no pair is provoked.
    """
    rows: list[tuple[str, ...]] = []
    for arm in study.arms(cell):
        observed = study.observed(cell, arm)
        n = f"{len(observed)} ({len({episode.trajectory for episode in observed})})"
        provoked = _counted(figures, cell, arm, "provoked" if arm == OFF else "twin_provoked")
        told = (
            ("", "", "")
            if arm == OFF
            else (_trips(figures, cell, arm), _wrong(figures, cell, arm), _saved(figures, cell, arm))
        )
        rows.append((arm, n, provoked, *told))
    return rows


def table(study: Study, rows: list[Row]) -> Table:
    """The table of a whole run, in sections of one scenario under one setting each."""
    from rich.table import Table
    from rich.text import Text

    figures, names = Figures(rows), Names(study)
    found = Table(caption=_CAPTION, caption_justify="left")
    for column in ("scenario", *COLUMNS):
        found.add_column(column, justify="right" if column.startswith("n ") else "left", overflow="fold")
    for setting in study.settings:
        found.add_section()
        found.add_row(Text(names.setting(setting), style="bold"))
        for cell in (each for each in study.cells if each.setting == setting):
            found.add_section()
            scenario = f"{names.cell(cell)}\n{cell.expect}, {horizon(cell)}"
            for place, row in enumerate(brief(study, figures, cell)):
                found.add_row(Text(scenario if place == 0 else ""), *(Text(text) for text in row))
    return found


def _counted(figures: Figures, cell: Cell, arm: str, metric: str) -> str:
    value = figures.get(cell, arm, metric)
    return f"{value.count} of {value.n}" if value else "-"


def _trips(figures: Figures, cell: Cell, arm: str) -> str:
    found = []
    for guard, plane in figures.guards(cell, arm):
        tripped = figures.get(cell, arm, "trip_acted", guard, plane)
        what = "trip" if tripped else "nudge"
        index = figures.get(cell, arm, f"{what}_index", guard, plane)
        provoked = figures.get(cell, arm, f"{what}_missed", guard, plane)
        if index is not None and provoked is not None:
            said = "" if what == "trip" else "nudge of "
            found.append(f"{said}{guard_name(guard, plane)} {number(index.value)} ({index.n} of {provoked.n})")
    return "\n".join(found) or ("none" if figures.get(cell, arm, "trip_missed") else "-")


def _wrong(figures: Figures, cell: Cell, arm: str) -> str:
    wrong = [(figures.get(cell, arm, "denied_useful"), "calls")]
    wrong.append((figures.get(cell, arm, "refused_productive"), "compactions"))
    return "\n".join(f"{value.count} of {value.n} {what}" for value, what in wrong if value) or "-"


def _saved(figures: Figures, cell: Cell, arm: str) -> str:
    saved = figures.get(cell, arm, "saved_calls")
    if saved is not None:
        return f"{number(saved.value)}"
    lost = figures.get(cell, arm, "lost_calls")
    return f"lost {number(lost.value)}" if lost else "-"
