"""How figures look: one light style, colours that colour-blind readers can tell apart, and bytes that never change."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1b1f24"
FAINT = "#8a929c"
GRID = "#e3e6ea"
# Okabe and Ito 2008, without yellow, which is too light on white.
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, INK, FAINT)
DASHES = ("-", "--", ":", "-.")

WIDTH = 11.0
"""Inches; a figure fills a page of the report."""

ROW = 0.21
"""Inches that a row of a chart takes."""

_RC: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "x",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.facecolor": "white",
    "svg.fonttype": "path",
    "svg.hashsalt": "tripbench",
}


@contextmanager
def styled() -> Iterator[None]:
    """The style, for as long as a figure is made and written."""
    from matplotlib import rc_context

    with rc_context(_RC):
        yield


def canvas(
    height: float, widths: Sequence[float], heights: Sequence[float] = (1.0,)
) -> tuple[Figure, list[list[Axes]]]:
    """A figure `height` inches high with a grid of axes of these relative sizes; no state of pyplot is touched."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(WIDTH, height), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08))
    ratios = {"width_ratios": list(widths), "height_ratios": list(heights)}
    axes = figure.subplots(len(heights), len(widths), squeeze=False, gridspec_kw=ratios)
    return figure, [list(row) for row in axes]


def written(figure: Figure) -> bytes:
    """The figure as SVG, without a date."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "tripbench"})
    return buffer.getvalue()


def rows(axes: Axes, labels: Sequence[tuple[str, str]], *, named: bool = True) -> None:
    """Makes the y axis one of rows, the first on top; each label is (group, name), and a line parts two groups.

    A group is named above its first row, so a group takes one row more: `places` says where rows are.
    """
    heights = places(labels)
    axes.set_ylim(heights[-1] + 0.7 if heights else 1, -0.7)
    axes.set_yticks(heights, [name for _, name in labels] if named else [""] * len(labels))
    axes.tick_params(axis="y", length=0)
    axes.patch.set_visible(False)
    axes.spines["left"].set_visible(False)
    for place, (group, _) in zip(heights, labels, strict=True):
        if place - 1 not in heights:
            if place > 1:
                axes.axhline(place - 1.55, color=GRID, linewidth=0.8)
            if named:
                axes.annotate(
                    group,
                    (0, place - 1),
                    xycoords=axes.get_yaxis_transform(),
                    xytext=(2, 0),
                    textcoords="offset points",
                    va="center",
                    fontweight="bold",
                    fontsize=8.5,
                ).set_in_layout(False)


def places(labels: Sequence[tuple[str, str]]) -> list[int]:
    """The y of each row: rows follow each other, a new group leaves one place for its name."""
    found: list[int] = []
    for place, (group, _) in enumerate(labels):
        new = place == 0 or labels[place - 1][0] != group
        found.append((found[-1] if found else -1) + (2 if new else 1))
    return found


def stacked(values: Sequence[float]) -> list[float]:
    """For each value how far to move its mark up or down so that equal ones stand side by side, -0.3 to 0.3."""
    found = []
    for place, value in enumerate(values):
        equal, before = values.count(value), values[:place].count(value)
        found.append((before - (equal - 1) / 2) * min(0.12, 0.6 / equal))
    return found


def height(labels: Sequence[tuple[str, str]], above: float) -> float:
    """Inches for a chart of these rows, with room for its x axis and `above` inches over it."""
    return ROW * (places(labels)[-1] + 2 if labels else 2) + 0.55 + above


def legend(axes: Axes, columns: int) -> None:
    """A legend over the axes, at their left edge; one of several columns may be wider than they are."""
    axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0.1, handletextpad=0.2, columnspacing=1.2
    ).set_in_layout(columns == 1)
