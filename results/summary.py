"""Every figure of a run as one row: a cell, an arm, perhaps a guard, a metric and its estimate. Pooled over nothing.

Metrics (a rate unless said otherwise; what no observation could show has no row):

    every arm   solved, overflowed
    off         provoked, provoked_calls, provoked_refill (n: episodes), self_recovered (n: provoked; its first loop);
                onset_calls, onset_attempts: medians of the index of the onset
    other arms  twin_provoked (n: pairs)
    by guard    {trip,nudge}_{acted,early,primed,missed} (n: pairs provoked for the guard); medians of those that acted:
                {trip,nudge}_{index,delay,delay_turns,delay_tokens,delay_output_tokens,delay_seconds}; of refusals:
                trip_attempts_before, trip_summary_calls_before
    guards      for the arm and by guard that does such a thing; n: asked calls of the class, useful = novel + needed:
                {denied,nudged}_{useful,novel,needed,requested,sterile_in_loop,sterile_elsewhere}; n: attempts:
                refused_{productive,futile_in_loop,futile_elsewhere}; n: episodes of a quiet scenario:
                quiet_false_positive, quiet_nudged_useful
    harm        harmed (n: pairs whose twin succeeded), rescued (n: whose twin failed), harm_p (McNemar's p; no rate)
    savings     M = calls, tokens, output_tokens, seconds, summary_calls; over provoked pairs: saved_M_total, saved_M
                (median), saved_M_share (median), off_after_onset_M_total; over the others: lost_M_total, lost_M
    after       tripped (n: episodes), after_{completed,changed,stopped,zombie,evaded,overflowed} (n: tripped episodes)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from results import after_trip, estimate
from results.episode import Episode
from results.estimate import Estimate
from results.false_positives import Count, false_positives, harm, nudged, stopped
from results.loops import first_loop
from results.pairs import OFF, SAMPLER_ARMS, Cell, Pair, Study
from results.savings import MEASURES, savings
from results.trips import First, What, expected, first, kind_of, mounted, provoking_loop

_CALLS = {
    "useful": ("novel", "needed"),
    "novel": ("novel",),
    "needed": ("needed",),
    "requested": ("requested",),
    "sterile_in_loop": ("sterile-in-loop",),
    "sterile_elsewhere": ("sterile-elsewhere",),
}
_ATTEMPTS = {
    "productive": ("productive",),
    "futile_in_loop": ("futile-in-loop",),
    "futile_elsewhere": ("futile-elsewhere",),
}
_WHATS: tuple[What, ...] = ("trip", "nudge")


@dataclass(frozen=True)
class Row:
    """One figure. `guard` and `plane` are "" where it is about the arm; `plane` also where there are no planes."""

    cell: Cell
    arm: str
    guard: str
    plane: str
    metric: str
    estimate: Estimate


def rows(study: Study) -> list[Row]:
    """Every figure of a study: by cell, arm, guard, in the order of this module's list."""
    found = []
    for cell in study.cells:
        for arm in study.arms(cell):
            for guard, plane, metric, value in _arm(study, cell, arm):
                if value.n:
                    found.append(Row(cell, arm, guard, plane, metric, value))
    return found


Figure = tuple[str, str, str, Estimate]


def _arm(study: Study, cell: Cell, arm: str) -> Iterator[Figure]:
    setting, episodes, pairs = cell.setting, study.observed(cell, arm), study.pairs(cell, arm)
    known = [(e.trajectory, bool(e.success)) for e in episodes if e.success is not None]
    yield "", "", "solved", estimate.rate(setting, known)
    yield "", "", "overflowed", estimate.rate(setting, [(e.trajectory, e.overflowed) for e in episodes])
    if arm == OFF:
        yield from _provoked(study, cell)
        return
    provoked = [(pair.trajectory, first_loop(pair.off) is not None) for pair in pairs]
    yield "", "", "twin_provoked", estimate.rate(setting, provoked)
    guards = mounted(episodes)
    for guard, plane in guards:
        for what in _WHATS:
            if expected(guard, what, episodes):
                yield from _timing(cell, pairs, guard, plane, what)
    if arm not in SAMPLER_ARMS:
        twins = [(episode, study.twin(episode)) for episode in episodes]
        for each in (None, *guards):
            yield from _by_class(cell, twins, each)
    yield from _harm(cell, pairs)
    yield from _saved(cell, pairs)
    trips = [(episode.trajectory, after_trip.after_trip(episode)) for episode in episodes]
    yield "", "", "tripped", estimate.rate(setting, [(trajectory, after is not None) for trajectory, after in trips])
    for mark in after_trip.MARKS:
        marked = [(trajectory, bool(getattr(after, mark))) for trajectory, after in trips if after is not None]
        yield "", "", f"after_{mark}", estimate.rate(setting, marked)


def _provoked(study: Study, cell: Cell) -> Iterator[Figure]:
    setting, episodes = cell.setting, study.observed(cell, OFF)
    every = [(episode.trajectory, first_loop(episode)) for episode in episodes]
    calls = [(episode.trajectory, first_loop(episode, "calls")) for episode in episodes]
    refills = [(episode.trajectory, first_loop(episode, "refill")) for episode in episodes]
    for metric, found in (("provoked", every), ("provoked_calls", calls), ("provoked_refill", refills)):
        yield "", "", metric, estimate.rate(setting, [(trajectory, loop is not None) for trajectory, loop in found])
    recovered = [(trajectory, loop.ended == "recovered") for trajectory, loop in every if loop]
    yield "", "", "self_recovered", estimate.rate(setting, recovered)
    for metric, found in (("onset_calls", calls), ("onset_attempts", refills)):
        onsets = [(trajectory, loop.onset) for trajectory, loop in found if loop]
        yield "", "", metric, estimate.median(setting, onsets)


def _timing(cell: Cell, pairs: Sequence[Pair], guard: str, plane: str | None, what: What) -> Iterator[Figure]:
    found: list[tuple[str, First]] = []
    for pair in pairs:
        loop = provoking_loop(pair, guard)
        if loop is not None:
            found.append((pair.trajectory, first(pair, loop, guard, plane, what)))
    for status in ("acted", "early", "primed", "missed"):
        hits = [(trajectory, one.status == status) for trajectory, one in found]
        yield guard, plane or "", f"{what}_{status}", estimate.rate(cell.setting, hits)
    middles: dict[str, Callable[[First], float | None]] = {
        "index": lambda one: one.act.index if one.act else None,
        "delay": lambda one: one.delay.units if one.delay else None,
        "delay_turns": lambda one: one.delay.turns if one.delay else None,
        "delay_tokens": lambda one: one.delay.tokens if one.delay else None,
        "delay_output_tokens": lambda one: one.delay.output_tokens if one.delay else None,
        "delay_seconds": lambda one: one.delay.seconds if one.delay else None,
        "attempts_before": lambda one: one.attempts_before,
        "summary_calls_before": lambda one: one.summary_calls_before,
    }
    for metric, value in middles.items():
        measured = [(trajectory, value(one)) for trajectory, one in found]
        yield guard, plane or "", f"{what}_{metric}", estimate.median(cell.setting, measured)


def _by_class(
    cell: Cell, twins: Sequence[tuple[Episode, Episode | None]], guard: tuple[str, str | None] | None
) -> Iterator[Figure]:
    name, plane = ("", "") if guard is None else (guard[0], guard[1] or "")
    denied = [(episode.trajectory, stopped(episode, off, guard)) for episode, off in twins]
    noticed = [(episode.trajectory, nudged(episode, off, guard)) for episode, off in twins]
    may_nudge = guard is None or expected(guard[0], "nudge", [episode for episode, _ in twins])
    verbs = (
        ("denied", denied, _CALLS, guard is None or (kind_of(name) == "calls" and expected(name, "trip", ()))),
        ("refused", denied, _ATTEMPTS, guard is None or kind_of(name) == "refill"),
        ("nudged", noticed, _CALLS, may_nudge),
    )
    for verb, found, kinds, possible in verbs:
        for metric, classes in kinds.items() if possible else ():
            yield name, plane, f"{verb}_{metric}", _class_rate(cell, found, classes)
    quiet = (
        ("quiet_false_positive", denied, guard is None or expected(name, "trip", ())),
        ("quiet_nudged_useful", noticed, may_nudge),
    )
    for metric, found, possible in quiet if cell.quiet else ():
        if possible:
            hits = [(trajectory, false_positives(counts) > 0) for trajectory, counts in found]
            yield name, plane, metric, estimate.rate(cell.setting, hits)


def _class_rate(cell: Cell, found: Sequence[tuple[str, dict[str, Count]]], classes: Sequence[str]) -> Estimate:
    observed = [
        (trajectory, sum(counts[name].hit for name in classes), sum(counts[name].asked for name in classes))
        for trajectory, counts in found
    ]
    return estimate.call_rate(cell.setting, [each for each in observed if each[2]])


def _harm(cell: Cell, pairs: Sequence[Pair]) -> Iterator[Figure]:
    known = [pair for pair in pairs if pair.off.success is not None and pair.guarded.success is not None]
    lost = [(pair.trajectory, not pair.guarded.success) for pair in known if pair.off.success]
    won = [(pair.trajectory, bool(pair.guarded.success)) for pair in known if not pair.off.success]
    yield "", "", "harmed", estimate.rate(cell.setting, lost)
    yield "", "", "rescued", estimate.rate(cell.setting, won)
    independent = [pair for _, pair in estimate.evidence(cell.setting, [(pair.trajectory, pair) for pair in known])]
    p = harm(independent).p
    if p is not None:
        yield "", "", "harm_p", Estimate(n=len(known), unique=len({pair.trajectory for pair in known}), value=p)


def _saved(cell: Cell, pairs: Sequence[Pair]) -> Iterator[Figure]:
    provoked = [(pair.trajectory, savings(pair)) for pair in pairs if first_loop(pair.off)]
    calm = [(pair.trajectory, savings(pair)) for pair in pairs if not first_loop(pair.off)]
    for measure in MEASURES:
        for name, found in (("saved", provoked), ("lost", calm)):
            differences = [(trajectory, saved[measure].difference) for trajectory, saved in found]
            yield "", "", f"{name}_{measure}_total", estimate.total(differences)
            yield "", "", f"{name}_{measure}", estimate.median(cell.setting, differences)
        shares = [(trajectory, saved[measure].share) for trajectory, saved in provoked]
        yield "", "", f"saved_{measure}_share", estimate.median(cell.setting, shares)
        both = [(trajectory, saved[measure]) for trajectory, saved in provoked]
        spent = [(trajectory, one.after_onset if one.difference is not None else None) for trajectory, one in both]
        yield "", "", f"off_after_onset_{measure}_total", estimate.total(spent)
