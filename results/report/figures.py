"""Figures of one setting: false positives, calls saved, after the trip. None pools over scenarios or settings."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from results import stats
from results.after_trip import MARKS
from results.estimate import Estimate
from results.loops import first_loop
from results.pairs import OFF, Cell, Setting, Study
from results.report import style
from results.report.parts import Picture
from results.report.words import Figures, Names, horizon
from results.savings import savings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Mark = tuple[float, str, str, str]
"""How far below its row a mark stands, its shape, its colour, what it means."""

_PER_CALL: dict[str, Mark] = {
    "denied_useful": (-0.16, "o", style.VERMILION, "novel or needed calls denied"),
    "refused_productive": (0.0, "s", style.PURPLE, "compactions with progress refused"),
    "nudged_useful": (0.16, "d", style.BLUE, "novel or needed calls nudged"),
}
_PER_EPISODE: dict[str, Mark] = {
    "quiet_false_positive": (-0.12, "o", style.VERMILION, "episodes with a false positive"),
    "quiet_nudged_useful": (0.12, "d", style.BLUE, "episodes with such a nudge"),
}


class Charts:
    """The figures of one setting; None where there is nothing to show."""

    def __init__(self, study: Study, figures: Figures, names: Names, setting: Setting) -> None:
        self._study, self._figures, self._names = study, figures, names
        self._title, self._slug = names.setting(setting), names.slug(setting)
        self._guarded = [
            (cell, arm) for cell in study.cells if cell.setting == setting for arm in study.arms(cell) if arm != OFF
        ]

    def false_positives(self) -> Picture | None:
        shown = [place for place in self._guarded if place[0].quiet or self._wrong(*place)]
        if not shown:
            return None
        labels = [(self._names.cell(cell), arm) for cell, arm in shown]
        with style.styled():
            figure, [[calls, episodes]] = style.canvas(style.height(labels, 0.55), (1, 1))
            for axes, marks in ((calls, _PER_CALL), (episodes, _PER_EPISODE)):
                style.rows(axes, labels, named=axes is calls)
                axes.set_xlim(-0.03, 1.03)
                axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
                for metric, (lift, shape, colour, meaning) in marks.items():
                    found = [self._figures.get(cell, arm, metric) for cell, arm in shown]
                    if any(found):
                        axes.plot([], [], shape, color=colour, markersize=5, label=meaning)
                    for place, value in zip(style.places(labels), found, strict=True):
                        _estimate(axes, place + lift, value, shape, colour)
                style.legend(axes, 1)
            calls.set_xlabel("share of the calls (attempts), with 95% interval")
            episodes.set_xlabel("share of the quiet episodes, with 95% interval")
            return self._picture(
                "false-positives",
                figure,
                "By scenario and arm, the shares of right calls, and of quiet episodes, that guards denied, refused or "
                "nudged, with 95% intervals.",
            )

    def saved(self) -> Picture | None:
        shown = [place for place in self._guarded if self._study.pairs(*place)]
        if not shown:
            return None
        labels = [(f"{self._names.cell(cell)}, {horizon(cell)}", arm) for cell, arm in shown]
        measures = [("calls", "executed calls"), ("tokens", "model tokens"), ("seconds", "model seconds")]
        found = {measure: [self._differences(cell, arm, measure) for cell, arm in shown] for measure, _ in measures}
        measures = [(measure, name) for measure, name in measures if any(a or b for a, b in found[measure])]
        if not measures:
            return None
        with style.styled():
            figure, [row] = style.canvas(style.height(labels, 0.45), [1.0] * len(measures))
            for axes, (measure, name) in zip(row, measures, strict=True):
                style.rows(axes, labels, named=axes is row[0])
                axes.axvline(0, color=style.FAINT, linewidth=1)
                axes.set_xlabel(f"{name}: off minus guarded")
                for place, (provoked, calm) in zip(style.places(labels), found[measure], strict=True):
                    _spread(axes, place, provoked, "o", style.BLUE)
                    _spread(axes, place, calm, "D", style.ORANGE)
            row[0].set_title(" ")
            row[0].plot([], [], "o", color=style.BLUE, markersize=4, label="saved (the twin has a loop)")
            row[0].plot([], [], "D", color=style.ORANGE, markersize=4, label="lost (it has none)")
            row[0].plot([], [], "|", color=style.INK, markersize=10, markeredgewidth=2, label="median")
            style.legend(row[0], 3)
            return self._picture(
                "calls-saved",
                figure,
                "What each pair of episodes saved or lost up to the horizon, off minus guarded, by scenario and arm, "
                "with medians.",
            )

    def after_trip(self) -> Picture | None:
        shown = []
        for cell, arm in self._guarded:
            tripped = self._figures.get(cell, arm, "tripped")
            if tripped is not None and tripped.count:
                shown.append((cell, arm))
        if not shown:
            return None
        labels = [(self._names.cell(cell), arm) for cell, arm in shown]
        with style.styled():
            figure, [[axes]] = style.canvas(style.height(labels, 0.2), (1,))
            style.rows(axes, labels)
            axes.grid(False)
            axes.set_xlim(-0.5, len(MARKS) - 0.5)
            axes.set_xticks(range(len(MARKS)), MARKS)
            axes.xaxis.tick_top()
            axes.tick_params(axis="x", length=0)
            axes.spines["bottom"].set_visible(False)
            for place, (cell, arm) in zip(style.places(labels), shown, strict=True):
                for column, mark in enumerate(MARKS):
                    _cell(axes, column, place, self._figures.get(cell, arm, f"after_{mark}"))
            return self._picture(
                "after-the-trip",
                figure,
                "By scenario and arm, how many tripped episodes were completed, changed course, stopped, went on as "
                "zombies, evaded or overflowed.",
            )

    def _wrong(self, cell: Cell, arm: str) -> bool:
        found = (self._figures.get(cell, arm, metric) for metric in _PER_CALL)
        return any(each is not None and each.count for each in found)

    def _differences(self, cell: Cell, arm: str, measure: str) -> tuple[list[float], list[float]]:
        """The differences of the provoked pairs, and of the others, as far as known."""
        both: tuple[list[float], list[float]] = ([], [])
        for pair in self._study.pairs(cell, arm):
            difference = savings(pair)[measure].difference
            if difference is not None:
                both[0 if first_loop(pair.off) else 1].append(difference)
        return both

    def _picture(self, question: str, figure: Figure, alt: str) -> Picture:
        return Picture(f"{question}--{self._slug}", f"{self._title}. {alt}", style.written(figure))


def _estimate(axes: Axes, place: float, value: Estimate | None, shape: str, colour: str) -> None:
    """A mark with its interval; hollow where nothing was counted."""
    if value is None or value.value is None:
        return
    if value.low is not None and value.high is not None:
        axes.plot([value.low, value.high], [place, place], color=colour, linewidth=1.3, solid_capstyle="butt")
    face = colour if value.count else "white"
    axes.plot([value.value], [place], shape, color=colour, markerfacecolor=face, markersize=4.5, clip_on=False)


def _spread(axes: Axes, place: float, values: Sequence[float], shape: str, colour: str) -> None:
    """One mark a pair, and their median with its interval."""
    if not values:
        return
    lifted = [place + lift for lift in style.stacked(values)]
    axes.plot(values, lifted, shape, color=colour, markersize=3.4, markeredgewidth=0, zorder=4)
    interval = stats.median_interval(values)
    if interval is not None:
        axes.plot(interval, [place, place], color=style.INK, linewidth=1)
    axes.plot([median(values)], [place], "|", color=style.INK, markersize=10, markeredgewidth=2)


def _cell(axes: Axes, column: int, place: float, value: Estimate | None) -> None:
    """One square of the table of marks, darker for a larger share."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Rectangle

    share = value.value if value is not None and value.value is not None else 0.0
    colour = [1 - (1 - part) * 0.85 * share for part in to_rgb(style.BLUE)]
    axes.add_patch(Rectangle((column - 0.48, place - 0.45), 0.96, 0.9, facecolor=colour, edgecolor=style.GRID))
    text = f"{value.count} of {value.n}" if value is not None else "-"
    axes.text(column, place, text, ha="center", va="center", fontsize=8.5)
