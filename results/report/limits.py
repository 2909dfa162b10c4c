"""What a run does not show: scenarios that were not provoked, and what its sample is too small for."""

from __future__ import annotations

from collections.abc import Iterator

from results.estimate import Estimate
from results.pairs import OFF, Cell, Setting, Study
from results.report.words import Figures, Names, guard_name, percent
from results.stats import wilson
from results.trips import mounted

SMALL = 6
"""Fewer observations than this give no interval of a median."""


def not_provoked(study: Study, figures: Figures, names: Names, setting: Setting) -> list[str]:
    """One sentence for each `trip` scenario of a setting whose `off` episodes hold no loop, or were not run."""
    found = []
    for cell in _cells(study, setting):
        provoked = figures.get(cell, OFF, "provoked")
        if cell.expect != "trip":
            continue
        if provoked is None:
            found.append(f"{names.cell(cell)}: has no sound `off` episode, so nothing can be said about detection.")
        elif not provoked.count:
            bound = f", upper bound {percent(provoked.high)}" if provoked.high is not None else ""
            found.append(
                f"{names.cell(cell)}: not provoked (0 of {provoked.n} `off` episodes hold a loop{bound}). "
                "It is in no figure of detection, and says nothing about how well a guard detects."
            )
        elif provoked.count < provoked.n:
            found.append(
                f"{names.cell(cell)}: provoked in {provoked.count} of {provoked.n} `off` episodes; figures of "
                "detection rest on these alone."
            )
    return found


def limits(study: Study, figures: Figures, names: Names, setting: Setting) -> list[str]:
    """What the sample of one setting can not show."""
    return [
        *_size(study, figures, names, setting),
        *_false_positives(study, figures, names, setting),
        *_harm(study, figures, names, setting),
        *_stack(study, setting),
    ]


def _size(study: Study, figures: Figures, names: Names, setting: Setting) -> Iterator[str]:
    if setting.actor:
        yield (
            f"The {setting.actor} actor plays a script: it is one observation a scenario and size, has no interval, "
            "and shows that a path works, not how a model behaves."
        )
        return
    counts = [len(study.observed(cell, OFF)) for cell in _cells(study, setting)]
    if setting.greedy:
        yield (
            "At temperature 0 a seed with the same prompts gives the same episode: it is no new evidence. Intervals "
            "count unique trajectories here."
        )
    interval = wilson(0, min(counts, default=0))
    if interval is not None:
        medians = f" Below {SMALL} pairs a median has no interval." if min(counts) < SMALL else ""
        yield (
            f"n is {min(counts)} in the smallest `off` cell: what was seen in none of {min(counts)} may still happen "
            f"in up to {percent(interval.high)}.{medians}"
        )
    yield (
        "Intervals are about other seeds of the same tasks at the same size and horizon, not about other tasks, models "
        "or harness versions. What an agent would have done after the horizon is not known."
    )


def _false_positives(study: Study, figures: Figures, names: Names, setting: Setting) -> Iterator[str]:
    quiet: list[tuple[Cell, str, Estimate]] = []
    for cell in _cells(study, setting):
        for arm in study.arms(cell):
            value = figures.get(cell, arm, "quiet_false_positive")
            if value is not None and value.high is not None:
                quiet.append((cell, arm, value))
    clean = [each for each in quiet if each[2].count == 0]
    if clean:
        cell, arm, value = max(clean, key=lambda each: each[2].high or 0.0)
        yield (
            f"No false positive was seen in {len(clean)} of {len(quiet)} combinations of quiet scenario and arm. "
            f"That is no proof that there are none: the weakest of these bounds is {percent(value.high or 0.0)} of "
            f"the episodes ({names.cell(cell)}, {arm}, n {value.n})."
        )


def _harm(study: Study, figures: Figures, names: Names, setting: Setting) -> Iterator[str]:
    unsolved = []
    for cell in _cells(study, setting):
        solved = figures.get(cell, OFF, "solved")
        if solved is not None and not solved.count:
            unsolved.append(names.cell(cell))
    if unsolved and not setting.actor:
        yield f"Harm is not measurable with this model where it solves nothing without a guard: {', '.join(unsolved)}."


def _stack(study: Study, setting: Setting) -> Iterator[str]:
    for cell in _cells(study, setting):
        for arm in study.arms(cell):
            guards = mounted(study.observed(cell, arm))
            names = {guard for guard, _ in guards}
            if {"circuit-breaker", "loop-guard"} <= names:
                listed = ", ".join(guard_name(guard, plane or "") for guard, plane in guards)
                yield (
                    f"Where guards stand together (`{arm}`: {listed}) the first that denies ends the asking, and one "
                    "behind it may have nothing left to deny. Its misses there are not its own: read a guard's own "
                    "timing in its `only:` arm."
                )
                return


def _cells(study: Study, setting: Setting) -> list[Cell]:
    return [cell for cell in study.cells if cell.setting == setting]
