"""Figures of trip timing for one setting: when each guard first acted, and how many pairs were tripped by when."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from results.loops import KINDS, Kind, first_loop
from results.pairs import OFF, Cell, Setting, Study
from results.report import style
from results.report.parts import Picture
from results.report.words import Names, guard_name
from results.stats import Step, cumulative_incidence
from results.trips import What, expected, first, kind_of, mounted, outcome, provoking_loop

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_UNITS = {"calls": "asked calls", "refill": "compaction attempts"}
_MARKS: dict[What, tuple[str, str, str]] = {
    "trip": ("o", style.VERMILION, "denied or refused"),
    "nudge": ("d", style.BLUE, "nudged"),
}


class Acts(NamedTuple):
    """What one guard first did in one arm and scenario: delays by kind of act, of how many provoked pairs."""

    group: str
    label: str
    delays: dict[What, list[float]]
    provoked: int


class Curve(NamedTuple):
    """The incidence of a first trip in the arms that have this very curve, observed until `last`."""

    arms: tuple[str, ...]
    n: int
    steps: tuple[Step, ...]
    last: float


def first_acts(study: Study, names: Names, setting: Setting) -> Picture | None:
    """One row a scenario, arm and guard that acted in a provoked pair; None where none did."""
    rows = [row for cell in _cells(study, setting) for kind in KINDS for row in _acts(study, names, cell, kind)]
    if not rows:
        return None
    labels = [(row.group, row.label) for row in rows]
    with style.styled():
        figure, [[axes]] = style.canvas(style.height(labels, 0.25), (1,))
        style.rows(axes, labels)
        axes.set_title(" ")
        axes.axvline(0, color=style.FAINT, linewidth=1)
        axes.set_xlabel("asked calls (refills: compaction attempts) after the onset of the loop in the off twin")
        for place, row in zip(style.places(labels), rows, strict=True):
            _row(axes, place, row)
        for shape, colour, meaning in _MARKS.values():
            axes.plot([], [], shape, color=colour, markersize=4.5, label=meaning)
        axes.plot([], [], "|", color=style.INK, markersize=10, markeredgewidth=2, label="median")
        axes.plot([], [], " ", label="right: acted in, of provoked pairs")
        style.legend(axes, 4)
        return Picture(
            f"trip-timing--{names.slug(setting)}",
            f"{names.setting(setting)}. By provoked scenario, arm and guard, how long after the onset of the loop it "
            "first denied, refused or nudged, with medians.",
            style.written(figure),
        )


def curves(study: Study, names: Names, setting: Setting) -> Picture | None:
    """The cumulative incidence of the first trip, one chart a scenario and kind of loop; None without any trip."""
    charts = []
    for cell in _cells(study, setting):
        for kind in KINDS:
            found = incidences(study, cell, kind)
            if any(curve.steps for curve in found):
                charts.append((_group(names, cell, kind), kind, found))
    if not charts:
        return None
    across = 2 if len(charts) > 1 else 1
    down = -(-len(charts) // across)
    with style.styled():
        figure, grid = style.canvas(2.5 * down, [1.0] * across, [1.0] * down)
        places = [axes for row in grid for axes in row]
        for axes, (title, kind, found) in zip(places, charts, strict=False):
            axes.set_title(title)
            axes.set_xlabel(f"{_UNITS[kind]} after the onset")
            _curves(axes, found)
        for axes in places[len(charts) :]:
            axes.set_axis_off()
        return Picture(
            f"trip-curves--{names.slug(setting)}",
            f"{names.setting(setting)}. By provoked scenario and arm, the cumulative incidence of the first trip.",
            style.written(figure),
        )


def incidences(study: Study, cell: Cell, kind: Kind) -> list[Curve]:
    """The different curves of a cell, over the pairs whose twin has a loop of that kind.

    Arms without a guard that can trip on such a loop have none.
    """
    found: dict[tuple[tuple[Step, ...], float, int], list[str]] = {}
    for arm in _guarded(study, cell):
        guards = mounted(study.observed(cell, arm))
        loops = [(pair, first_loop(pair.off, kind)) for pair in study.pairs(cell, arm)]
        observed = [outcome(pair, loop) for pair, loop in loops if loop]
        if observed and any(kind_of(guard) == kind and expected(guard, "trip", ()) for guard, _ in guards):
            steps = cumulative_incidence(observed).get("trip", ())
            found.setdefault((steps, max(time for time, _ in observed), len(observed)), []).append(arm)
    return [Curve(tuple(arms), n, steps, last) for (steps, last, n), arms in found.items()]


def _cells(study: Study, setting: Setting) -> list[Cell]:
    return [cell for cell in study.cells if cell.setting == setting]


def _guarded(study: Study, cell: Cell) -> list[str]:
    return [arm for arm in study.arms(cell) if arm != OFF]


def _group(names: Names, cell: Cell, kind: Kind) -> str:
    return names.cell(cell) + (", loops of refills" if kind == "refill" else "")


def _acts(study: Study, names: Names, cell: Cell, kind: Kind) -> list[Acts]:
    rows = []
    for arm in _guarded(study, cell):
        pairs = study.pairs(cell, arm)
        for guard, plane in mounted(study.observed(cell, arm)):
            loops = [(pair, provoking_loop(pair, guard)) for pair in pairs] if kind_of(guard) == kind else []
            delays: dict[What, list[float]] = {}
            for what in _MARKS:
                found = [first(pair, loop, guard, plane, what) for pair, loop in loops if loop]
                delays[what] = [float(one.delay.units) for one in found if one.delay]
            if any(delays.values()):
                name = guard_name(guard, plane or "")
                label = arm if arm == f"only:{name}" else f"{arm}: {name}"
                rows.append(Acts(_group(names, cell, kind), label, delays, sum(loop is not None for _, loop in loops)))
    return rows


def _row(axes: Axes, place: float, row: Acts) -> None:
    shown = [what for what in _MARKS if row.delays[what]]
    for what in shown:
        shape, colour, _ = _MARKS[what]
        values, lift = row.delays[what], 0.0 if len(shown) == 1 else 0.18 if what == "nudge" else -0.18
        heights = [place + lift + each / len(shown) for each in style.stacked(values)]
        axes.plot(values, heights, shape, color=colour, markersize=3.8, markeredgewidth=0, zorder=4)
        axes.plot([median(values)], [place + lift], "|", color=style.INK, markersize=10 / len(shown), markeredgewidth=2)
    axes.annotate(
        ", ".join(f"{len(row.delays[what])} of {row.provoked}" for what in shown),
        (1, place),
        xycoords=axes.get_yaxis_transform(),
        xytext=(3, 0),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
    )


def _curves(axes: Axes, found: list[Curve]) -> None:
    axes.grid(axis="both")
    axes.set_ylim(-0.03, 1.03)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
    start = min([0.0, *(step.time for curve in found for step in curve.steps)]) - 0.5
    stop = max([curve.last for curve in found]) + 0.5
    for place, curve in enumerate(found):
        times = [start, *(step.time for step in curve.steps), stop]
        values = [0.0, *(step.value for step in curve.steps)]
        axes.plot(
            times,
            [*values, values[-1]],
            drawstyle="steps-post",
            color=style.COLOURS[place % len(style.COLOURS)],
            linestyle=style.DASHES[place % len(style.DASHES)],
            linewidth=1.8,
            label="\n".join(curve.arms) + f" (n {curve.n})",
        )
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=2.6)
