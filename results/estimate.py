"""A figure with what it rests on: how many observations, how many unique trajectories, and an interval.

What counts as evidence for an interval is decided here, once. A real model that samples: every observation. At
temperature 0 equal trajectories are one (another seed is no new evidence where the prompts are equal). An actor:
none, it is deterministic, so its figures have no interval. `count`, `n` and `value` are always over all observations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from results import stats
from results.pairs import Setting

Key = TypeVar("Key", bound=tuple[object, ...])


@dataclass(frozen=True)
class Estimate:
    """`value` = `count` / `n` for a rate, where `count` is not None; else a median or a total over n observations.

    `unique`: different trajectories among the episodes (or pairs) observed. `low`, `high`: the 95% interval, both or
    neither. `value` is None where n is 0.
    """

    n: int
    unique: int
    value: float | None
    low: float | None = None
    high: float | None = None
    count: int | None = None


def evidence(setting: Setting, observed: Sequence[Key]) -> list[Key]:
    """The observations, each (trajectory, ...), that are independent of each other."""
    if setting.actor:
        return []
    if not setting.greedy:
        return list(observed)
    return list({each[0]: each for each in reversed(observed)}.values())


def rate(setting: Setting, observed: Sequence[tuple[str, bool]]) -> Estimate:
    """The share of episodes or pairs, each (trajectory, whether), with Wilson's interval."""
    independent = evidence(setting, observed)
    interval = stats.wilson(sum(hit for _, hit in independent), len(independent))
    hits = sum(hit for _, hit in observed)
    return _estimate(observed, len(observed), hits / len(observed) if observed else None, interval, hits)


def call_rate(setting: Setting, observed: Sequence[tuple[str, int, int]]) -> Estimate:
    """The share of calls, each episode (trajectory, hit, asked); n is calls; calls of one episode are one cluster."""
    independent = evidence(setting, observed)
    interval = stats.clustered([hit for _, hit, _ in independent], [asked for _, _, asked in independent])
    hits, asked = sum(hit for _, hit, _ in observed), sum(asked for _, _, asked in observed)
    return _estimate(observed, asked, hits / asked if asked else None, interval, hits)


def median(setting: Setting, observed: Sequence[tuple[str, float | None]]) -> Estimate:
    """The median of the known values, each (trajectory, value), with its order-statistic interval (none for n < 6)."""
    known = [(trajectory, value) for trajectory, value in observed if value is not None]
    interval = stats.median_interval(value for _, value in evidence(setting, known))
    return _estimate(known, len(known), stats.median(value for _, value in known), interval, None)


def total(observed: Sequence[tuple[str, float | None]]) -> Estimate:
    """The sum of the known values, each (trajectory, value)."""
    known = [(trajectory, value) for trajectory, value in observed if value is not None]
    return _estimate(known, len(known), sum(value for _, value in known) if known else None, None, None)


def _estimate(
    observed: Sequence[tuple[object, ...]],
    n: int,
    value: float | None,
    interval: stats.Interval | None,
    count: int | None,
) -> Estimate:
    unique = len({each[0] for each in observed})
    low, high = interval or (None, None)
    return Estimate(n=n, unique=unique, value=value, low=low, high=high, count=count)
