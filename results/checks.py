"""Where a run's own promises do not hold, for a reader to know before trusting its figures. No check hides a figure."""

from __future__ import annotations

from collections.abc import Iterator

from results.episode import Episode
from results.pairs import OFF, SAMPLER_ARMS, Pair, Study
from results.trace import Notice, Step
from results.trips import mounted


def checks(study: Study) -> list[str]:
    """One sentence for each thing that does not hold, sorted; empty where everything does."""
    found = [
        *_warnings(study),
        *_without_twin(study),
        *_different_beginnings(study),
        *_early_divergence(study),
        *_unplaced_refusals(study),
        *_actors(study),
    ]
    return sorted(found)


def _warnings(study: Study) -> Iterator[str]:
    for episode in study.episodes:
        for warning in episode.trace.warnings:
            yield f"{episode.name}: {warning.rpartition(': ')[2]}"


def _without_twin(study: Study) -> Iterator[str]:
    for cell in study.cells:
        for arm in study.arms(cell):
            lone = [episode.name for episode in study.observed(cell, arm) if study.twin(episode) is None]
            if arm != OFF and lone:
                yield f"no `off` twin, so in no paired figure: {', '.join(lone)}"


def _different_beginnings(study: Study) -> Iterator[str]:
    """Equal digests of the first prompt over all arms of a scenario and seed are what makes arms comparable."""
    for cell in study.cells:
        for twin in study.seeds(cell, OFF):
            others = [e for arm in study.arms(cell) for e in study.seeds(cell, arm) if study.twin(e) is twin]
            different = [e.name for e in others if _first_digest(e) != _first_digest(twin)]
            if different:
                yield f"the first prompt is not that of {twin.name}, so they are not comparable: {', '.join(different)}"


def _early_divergence(study: Study) -> Iterator[str]:
    """Histories are equal up to the first intervention; where they are not, the difference is not the guard's doing."""
    for cell in study.cells:
        for arm in study.arms(cell):
            if arm == OFF or arm in SAMPLER_ARMS:
                continue
            for pair in study.pairs(cell, arm):
                apart = pair.divergence
                if apart is not None and apart[1] <= _first_intervention(pair):
                    where = f"at step {apart[0]}, before any intervention"
                    yield f"{pair.guarded.name} differs from {pair.off.name} {where}"


def _unplaced_refusals(study: Study) -> Iterator[str]:
    for episode in study.episodes:
        lost = sum(act.action == "refuse" and act.attempt is None for act in episode.acts)
        if lost and episode.failure is None:
            yield f"{episode.name}: {lost} refusals without a refused compaction attempt are in no rate of attempts"


def _actors(study: Study) -> Iterator[str]:
    """An actor stands for all its seeds, so its seeds must do the same."""
    for cell in study.cells:
        for arm in study.arms(cell) if cell.setting.actor else ():
            outcomes = {_outcome(episode) for episode in study.seeds(cell, arm)}
            if len(outcomes) > 1:
                yield (
                    f"the {cell.setting.actor} actor does not do the same for every seed in {cell.scenario}, {arm}: "
                    "figures show the first seed alone"
                )


def _outcome(episode: Episode) -> tuple[object, ...]:
    acts = tuple((act.guard, act.plane, act.action, act.agent, act.index) for act in episode.acts)
    return episode.end, episode.success, len(episode.calls), len(episode.attempts), acts, mounted([episode])


def _first_digest(episode: Episode) -> str | None:
    return next((event.prompt_digest for event in episode.events if isinstance(event, Step)), None)


def _first_intervention(pair: Pair) -> int:
    """The place of the first thing in the guarded trace that `off` could not have; past its end where there is none."""
    acts = [act.position for act in pair.guarded.acts]
    # What the harness itself says, of a subagent that is done for example, it says in `off` too.
    usual = {event.source for event in pair.off.events if isinstance(event, Notice)}
    notices = [
        place
        for place, event in enumerate(pair.guarded.events)
        if isinstance(event, Notice) and event.source not in usual
    ]
    return min([*acts, *notices], default=len(pair.guarded.events))
