"""The tables that answer the questions of a report, for one setting."""

from __future__ import annotations

from collections.abc import Iterator

from results.after_trip import MARKS
from results.estimate import Estimate
from results.loops import Kind
from results.pairs import OFF, Cell, Setting, Study
from results.report import captions
from results.report.parts import Table
from results.report.words import Figures, Names, guard_name, horizon, middle, number, rate
from results.savings import MEASURES
from results.trips import kind_of

UNITS = {
    "calls": "executed calls",
    "tokens": "model tokens",
    "output_tokens": "tokens written",
    "seconds": "model seconds",
    "summary_calls": "summary calls",
}


class Questions:
    """The tables of one setting."""

    def __init__(self, study: Study, figures: Figures, names: Names, setting: Setting) -> None:
        self._study, self._figures, self._names = study, figures, names
        self._cells = [cell for cell in study.cells if cell.setting == setting]

    def provoked(self) -> Table:
        rows = []
        for cell in self._cells:
            get = self._figures.at(cell, OFF)
            unique = len({episode.trajectory for episode in self._study.observed(cell, OFF)})
            onsets = [("call", get("onset_calls")), ("attempt", get("onset_attempts"))]
            rows.append(
                (
                    self._names.cell(cell),
                    cell.expect,
                    _short_horizon(cell),
                    rate(get("provoked_calls")),
                    rate(get("provoked_refill")),
                    "; ".join(f"{unit} {middle(onset)}" for unit, onset in onsets if onset) or "-",
                    rate(get("self_recovered")),
                    rate(get("solved")),
                    rate(get("overflowed")),
                    str(unique),
                )
            )
        columns = (
            *("scenario", "expected", "horizon", "loop of calls", "loop of refills", "onset (median)"),
            *("left by itself", "solved", "overflowed", "unique"),
        )
        return Table(captions.PROVOKED, columns, tuple(rows), numeric=7)

    def timing(self, kind: Kind) -> Table | None:
        """First acts of the guards against one kind of loop; None where no pair is provoked for them."""
        rows = [
            row
            for cell, arm in self._guarded()
            for guard, plane in self._figures.guards(cell, arm)
            for what in ("trip", "nudge")
            for row in self._timed(cell, arm, guard, plane, what, kind)
        ]
        columns = (
            *("scenario", "arm", "guard", "first", "acted", "early", "missed", "index", "delay"),
            *("tool turns", "model tokens", "model seconds", "unique"),
            *(("summaries before",) if kind == "refill" else ()),
        )
        caption = captions.TIMING_REFILL if kind == "refill" else captions.TIMING_CALLS
        return Table(caption, columns, tuple(rows), numeric=len(columns) - 4) if rows else None

    def false_positives(self) -> Table:
        rows = []
        for cell, arm in self._guarded():
            get = self._figures.at(cell, arm)
            useful, refused = get("denied_useful"), get("refused_productive")
            rows.append(
                (
                    self._names.cell(cell),
                    arm,
                    rate(useful),
                    _counted(get("denied_novel")),
                    _counted(get("denied_needed")),
                    _counted(get("denied_requested")),
                    rate(refused),
                    rate(get("quiet_false_positive")),
                    _counted(get("denied_sterile_in_loop")) if cell.quiet else "-",
                    rate(get("nudged_useful")),
                    str(useful.unique) if useful else "-",
                )
            )
        columns = (
            "scenario",
            "arm",
            "novel + needed denied",
            *("novel", "needed", "requested denied", "compactions refused"),
            *("quiet episodes", "true trips in quiet", "novel + needed nudged", "unique"),
        )
        return Table(captions.FALSE_POSITIVES, columns, tuple(rows), numeric=9)

    def by_guard(self) -> Table | None:
        """Which guard the false positives are of; None where there is none."""
        rows = []
        for cell, arm in self._guarded():
            for guard, plane in self._figures.guards(cell, arm):
                get = self._figures.at(cell, arm, guard, plane)
                hits = [get(metric) for metric in ("denied_useful", "refused_productive", "nudged_useful")]
                if any(each is not None and each.count for each in hits):
                    texts = (rate(each) for each in hits)
                    rows.append((self._names.cell(cell), arm, guard_name(guard, plane), *texts))
        columns = ("scenario", "arm", "guard", "novel + needed denied", "compactions refused", "novel + needed nudged")
        return Table(captions.BY_GUARD, columns, tuple(rows), numeric=3) if rows else None

    def harm(self) -> Table:
        rows = []
        for cell, arm in self._guarded():
            get = self._figures.at(cell, arm)
            p = get("harm_p")
            harmed = rate(get("harmed")) if get("harmed") else "not measurable with this model"
            off = rate(self._figures.get(cell, OFF, "solved"))
            rescued = rate(get("rescued"))
            rows.append(
                (self._names.cell(cell), arm, off, rate(get("solved")), harmed, rescued, _p(p.value if p else None))
            )
        columns = ("scenario", "arm", "off solved", "arm solved", "harmed", "rescued", "McNemar p")
        return Table(captions.HARM, columns, tuple(rows), numeric=5)

    def saved(self) -> Table:
        rows = []
        for cell, arm in self._guarded():
            for name in ("saved", "lost"):
                first = self._figures.get(cell, arm, f"{name}_calls")
                if first is None:
                    continue
                texts = [self._measure(cell, arm, name, measure) for measure in MEASURES]
                counts = (str(first.n), str(first.unique))
                rows.append((self._names.cell(cell), arm, name, _short_horizon(cell), *texts, *counts))
        columns = ("scenario", "arm", "", "horizon", *(UNITS[measure] for measure in MEASURES), "pairs", "unique")
        return Table(captions.SAVED, columns, tuple(rows), numeric=7)

    def after(self) -> Table:
        rows = []
        for cell, arm in self._guarded():
            tripped = self._figures.get(cell, arm, "tripped")
            if tripped is not None and tripped.count:
                marks = [self._figures.get(cell, arm, f"after_{mark}") for mark in MARKS]
                unique = str(marks[0].unique) if marks[0] else "-"
                texts = (rate(mark) for mark in marks)
                rows.append((self._names.cell(cell), arm, rate(tripped), *texts, unique))
        return Table(captions.AFTER, ("scenario", "arm", "tripped", *MARKS, "unique"), tuple(rows), numeric=8)

    def _guarded(self) -> Iterator[tuple[Cell, str]]:
        return ((cell, arm) for cell in self._cells for arm in self._study.arms(cell) if arm != OFF)

    def _timed(self, cell: Cell, arm: str, guard: str, plane: str, what: str, kind: Kind) -> list[tuple[str, ...]]:
        get = self._figures.at(cell, arm, guard, plane, f"{what}_")
        acted, primed = get("acted"), get("primed")
        if acted is None or kind_of(guard) != kind:
            return []
        texts = (
            self._names.cell(cell),
            arm,
            guard_name(guard, plane),
            {"trip": "refusal" if kind_of(guard) == "refill" else "denial"}.get(what, what),
            rate(acted) + (f", {primed.count} in the primed part" if primed and primed.count else ""),
            _counted(get("early")),
            _counted(get("missed")),
            *(middle(get(metric)) for metric in ("index", "delay", "delay_turns")),
            middle(get("delay_tokens"), 0),
            middle(get("delay_seconds")),
            str(acted.unique),
        )
        return [(*texts, middle(get("summary_calls_before")))] if kind == "refill" else [texts]

    def _measure(self, cell: Cell, arm: str, name: str, measure: str) -> str:
        digits = 0 if "tokens" in measure else 1
        median = self._figures.get(cell, arm, f"{name}_{measure}")
        total = self._figures.get(cell, arm, f"{name}_{measure}_total")
        spent = self._figures.get(cell, arm, f"off_after_onset_{measure}_total")
        if total is None or total.value is None:
            return "-"
        of = f" of {number(spent.value, digits)}" if name == "saved" and spent and spent.value else ""
        share = f", {100 * total.value / spent.value:.0f}%" if of and spent and spent.value else ""
        return f"{middle(median, digits)}; sum {number(total.value, digits)}{of}{share}"


def _counted(value: Estimate | None) -> str:
    """Counts alone, where the row's rate has the interval."""
    return f"{value.count} of {value.n}" if value else "-"


def _p(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value >= 0.001 else "< 0.001"


def _short_horizon(cell: Cell) -> str:
    return horizon(cell).removeprefix("horizon ")
