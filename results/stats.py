"""The statistics of small samples: every function is exact about what it assumes, and none pools anything."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

CONFIDENCE = 0.95
"""The level of every interval in a report."""

Z = statistics.NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)


class Interval(NamedTuple):
    """Both ends belong to it."""

    low: float
    high: float


class Step(NamedTuple):
    """One jump of a cumulative incidence: from `time` on (inclusive) the incidence is `value`."""

    time: float
    value: float


@cache
def wilson(successes: int, n: int) -> Interval | None:
    """The 95% score interval of a binomial rate; None where n is 0.

    Source: E. B. Wilson 1927, without continuity correction; recommended for small n by Brown, Cai and DasGupta 2001.
    Its mean coverage over rates is at least 95% at any n; at a single true rate it varies, and near 0 or 1 with n
    from 5 on it can fall to 83%. `n` must count independent trials. Raises ValueError unless 0 <= successes <= n.
    """
    if n == 0 and successes == 0:
        return None
    found = _binomial_test(successes, n).proportion_ci(confidence_level=CONFIDENCE, method="wilson")
    return Interval(float(found.low), float(found.high))


def clustered(successes: Sequence[int], sizes: Sequence[int]) -> Interval | None:
    """The 95% interval of the rate sum(successes) / sum(sizes) where trials of one cluster may be fully dependent.

    One cluster is one episode, one trial one call. A guard that denies one call of an episode tends to deny the next,
    so calls are no independent evidence. The interval is Wilson's at Kish's effective sample size for unequal
    clusters and an intra-cluster correlation of 1, (sum m)^2 / sum m^2 (Kish 1965, section 8.2): never more than the
    number of episodes, so it errs on the wide side. None where no cluster has a trial. Raises ValueError where
    successes exceed a cluster's size.
    """
    if len(successes) != len(sizes) or any(not 0 <= k <= m for k, m in zip(successes, sizes, strict=False)):
        raise ValueError("each cluster needs 0 <= successes <= size")
    trials = sum(sizes)
    if trials == 0:
        return None
    return _score(sum(successes) / trials, trials**2 / sum(m * m for m in sizes))


def _score(rate: float, n: float) -> Interval:
    """Wilson's interval for a sample size that need not be whole."""
    centre = (rate + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * math.sqrt(rate * (1 - rate) / n + Z * Z / (4 * n * n))
    return Interval(0.0 if rate == 0 else centre - half, 1.0 if rate == 1 else centre + half)


def _binomial_test(successes: int, n: int) -> Any:
    """scipy's exact test of `successes` in n against 1/2."""
    from scipy.stats import binomtest  # type: ignore[import-untyped]

    return binomtest(successes, n)


def median(values: Iterable[float]) -> float | None:
    """The middle value, or the mean of the two middle ones; None where there is none."""
    ordered = sorted(values)
    return float(statistics.median(ordered)) if ordered else None


def median_interval(values: Iterable[float]) -> Interval | None:
    """The order-statistic interval of a median, coverage at least 95%; None for fewer than 6 values, where none exists.

    From the rank r-th smallest to the r-th largest, r the largest rank with P(Binomial(n, 1/2) < r) <= 2.5%. Free of
    any assumption on the distribution but independence (David and Nagaraja, Order Statistics, section 7.1); with
    ties, as counts have them, it covers more.
    """
    ordered = sorted(values)
    n = len(ordered)
    below, rank = 0, 0
    while (below + math.comb(n, rank)) / 2**n <= (1 - CONFIDENCE) / 2:
        below += math.comb(n, rank)
        rank += 1
    return Interval(float(ordered[rank - 1]), float(ordered[n - rank])) if rank else None


@cache
def mcnemar(worse: int, better: int) -> float:
    """The exact two-sided p value of McNemar's test for pairs that changed one way or the other; 1 where none changed.

    A binomial test of `worse` in worse + better at 1/2 (McNemar 1947; exact form: Agresti, Categorical Data Analysis,
    10.1).
    """
    return float(_binomial_test(worse, worse + better).pvalue) if worse + better else 1.0


def cumulative_incidence(observed: Iterable[tuple[float, str | None]]) -> dict[str, tuple[Step, ...]]:
    """Aalen-Johansen estimates, one step function a cause, from (time, cause); cause None is censoring at that time.

    Each episode counts from its beginning until its first event: the trip or a competing event (self-recovery, the
    end of the task). An episode censored at a time is still at risk at that very time. The incidence of a cause at t
    is the sum over event times s <= t of S(s-) * d(s) / r(s): S the share without any event, d events of the cause, r
    episodes at risk (Aalen and Johansen 1978). Unlike 1 - Kaplan-Meier it treats no competing event as censoring, so
    the causes' incidences and the share without an event add up to 1. Steps are in time order; a cause that never
    happened is absent.
    """
    records = sorted(((time, cause or "") for time, cause in observed), key=lambda each: each[0])
    steps: dict[str, list[Step]] = {}
    surviving, at_risk, start = 1.0, len(records), 0
    while start < len(records):
        time = records[start][0]
        stop = start
        while stop < len(records) and records[stop][0] == time:
            stop += 1
        causes = [cause for _, cause in records[start:stop] if cause]
        for cause in sorted(set(causes)):
            past = steps.setdefault(cause, [])
            past.append(Step(time, (past[-1].value if past else 0.0) + surviving * causes.count(cause) / at_risk))
        surviving *= 1 - len(causes) / at_risk
        at_risk -= stop - start
        start = stop
    return {cause: tuple(found) for cause, found in sorted(steps.items())}
