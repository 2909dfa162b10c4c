"""The statistics, against values worked out by hand, other derivations, and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import CensoredData, binom, ecdf

from results.stats import Step, clustered, cumulative_incidence, mcnemar, median, median_interval, wilson


def test_wilson_by_hand():
    # 0 of n: the upper end is z^2 / (n + z^2) with z = 1.959964.
    low, high = wilson(0, 10)
    assert low == 0
    assert high == pytest.approx(3.841459 / 13.841459, abs=1e-6)
    assert wilson(5, 5).low == pytest.approx(5 / 8.841459, abs=1e-6)
    assert wilson(0, 0) is None
    with pytest.raises(ValueError, match="k"):
        wilson(3, 2)


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_clusters_of_one_call_are_wilson(drawn):
    k, n = drawn
    found = clustered([1] * k + [0] * (n - k), [1] * n)
    assert found == pytest.approx(wilson(k, n), abs=1e-9)


def test_clusters_of_equal_size_count_as_one_each():
    assert clustered([0, 0, 0, 0, 0], [20] * 5) == pytest.approx(wilson(0, 5), abs=1e-9)
    assert clustered([7, 0, 7, 0], [7] * 4) == pytest.approx(wilson(2, 4), abs=1e-9)
    # (1 + 9)^2 / (1 + 81) = 100 / 82 clusters of evidence.
    assert clustered([0, 0], [1, 9]).high == pytest.approx(3.841459 / (100 / 82 + 3.841459), abs=1e-6)
    assert clustered([], []) is None
    with pytest.raises(ValueError, match="successes"):
        clustered([2], [1])


IN_USE = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 30)
"""The n that runs have: seeds of a cell, and evidence of as many clusters of calls."""

RATES = np.linspace(0.005, 0.995, 199)


@pytest.mark.parametrize("n", IN_USE)
def test_wilson_covers_93_percent_over_all_rates(n):
    """The mean coverage over rates, simulated: what a reader of many cells gets; at one rate it can be less."""
    rng = np.random.default_rng(n)
    ends = np.array([wilson(k, n) for k in range(n + 1)])
    drawn = rng.binomial(n, RATES, size=(4000, len(RATES)))
    covered = (ends[drawn, 0] <= RATES) & (ends[drawn, 1] >= RATES)
    assert covered.mean() >= 0.93


def test_what_the_docstring_says_of_one_rate_is_so():
    """Exact coverage: the least of all rates, and the least between 0.2 and 0.8, for the n in use from 5 on."""
    least, middle = [], []
    for n in (n for n in IN_USE if n >= 5):
        ends = [wilson(k, n) for k in range(n + 1)]
        exact = [
            sum(binom.pmf(k, n, rate) for k in range(n + 1) if ends[k].low <= rate <= ends[k].high) for rate in RATES
        ]
        least.append(min(exact))
        middle.append(min(c for c, rate in zip(exact, RATES, strict=True) if 0.2 <= rate <= 0.8))
    assert 0.83 <= min(least) < 0.84
    assert min(middle) >= 0.89


@pytest.mark.parametrize("episodes", [3, 5, 10, 20])
@pytest.mark.parametrize("correlation", [0.05, 0.3, 0.8, 1.0])
def test_the_interval_of_calls_covers_however_they_depend(episodes, correlation):
    """Calls of an episode share a rate that varies between episodes (beta-binomial); episodes have 5 to 24 calls."""
    rng = np.random.default_rng([episodes, int(100 * correlation)])
    hits = tries = 0
    for mean in np.linspace(0.02, 0.98, 25):
        for _ in range(60):
            sizes = rng.integers(5, 25, episodes)
            if correlation == 1:
                own = rng.binomial(1, mean, episodes).astype(float)
            else:
                spread = (1 - correlation) / correlation
                own = rng.beta(mean * spread, (1 - mean) * spread, episodes)
            found = clustered(rng.binomial(sizes, own).tolist(), sizes.tolist())
            hits += found.low <= mean <= found.high
            tries += 1
    assert hits / tries >= 0.93


def test_median_and_its_interval_by_hand():
    assert median([]) is None
    assert median([3, 1]) == 2
    assert median([9, 1, 4]) == 4
    assert median_interval([1, 2, 3, 4, 5]) is None
    # n = 6: P(Binomial(6, 1/2) < 1) = 1/64 <= 2.5%; < 2 would be 7/64.
    assert median_interval([6, 5, 4, 3, 2, 1]) == (1, 6)
    # n = 9: P(< 2) = 10/512 = 1.95%; < 3 would be 46/512.
    assert median_interval(range(1, 10)) == (2, 8)


@given(st.integers(6, 200))
def test_median_interval_has_the_smallest_width_that_covers(n):
    low, high = median_interval(range(1, n + 1))
    assert low + high == n + 1
    assert binom.cdf(low - 1, n, 0.5) <= 0.025 < binom.cdf(low, n, 0.5)


def test_mcnemar_by_hand():
    assert mcnemar(0, 0) == 1
    assert mcnemar(5, 0) == pytest.approx(2 / 32)
    assert mcnemar(1, 7) == pytest.approx(2 * (1 + 8) / 256)
    assert mcnemar(4, 4) == 1


def test_incidence_by_hand():
    # Four at risk at 2: one trips. Three at 3: one recovers. One is censored at 3, so one is left at 5 and trips.
    found = cumulative_incidence([(2, "trip"), (3, "recovered"), (3, None), (5, "trip")])
    assert found == {
        "recovered": (Step(3, pytest.approx(3 / 4 / 3)),),
        "trip": (Step(2, 0.25), Step(5, pytest.approx(0.25 + 3 / 4 * 2 / 3))),
    }
    assert cumulative_incidence([]) == {}
    assert cumulative_incidence([(4, None)]) == {}


TIMES = st.lists(st.tuples(st.integers(-3, 12), st.sampled_from(["trip", "recovered", "ended", None])), min_size=1)


@given(TIMES)
def test_incidences_and_the_share_without_event_add_up(observed):
    """The share without any event is scipy's Kaplan-Meier, with every cause as the event."""
    found = cumulative_incidence(observed)
    kept = [time for time, cause in observed if cause]
    survival = ecdf(CensoredData(kept, right=[time for time, cause in observed if not cause])).sf
    for time in range(-4, 14):
        total = sum(max((s.value for s in steps if s.time <= time), default=0.0) for steps in found.values())
        assert math.isclose(total, 1 - survival.evaluate(time), abs_tol=1e-9)


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["trip", "recovered"])), min_size=1))
def test_without_censoring_incidence_is_the_share_that_had_it(observed):
    found = cumulative_incidence(observed)
    for cause, steps in found.items():
        for step in steps:
            share = sum(time <= step.time and each == cause for time, each in observed) / len(observed)
            assert step.value == pytest.approx(share)
