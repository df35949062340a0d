from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from linkqual.stats import confidence as c
from linkqual.stats.histogram import LogLinear

# k bad of n, confidence: two-sided lower, two-sided upper, one-sided upper
CLOPPER_PEARSON = [
    (0, 300_000, 0.95, 0, 1.229619e-05, 9.985724e-06),
    (0, 300_000, 0.99, 0, 1.766090e-05, 1.535045e-05),
    (0, 1_000_000, 0.95, 0, 3.688873e-06, 2.995728e-06),
    (0, 1_000_000, 0.99, 0, 5.298303e-06, 4.605160e-06),
    (1, 1_000_000, 0.95, 2.531781e-08, 5.571631e-06, 4.743856e-06),
    (1, 1_000_000, 0.99, 5.012542e-09, 7.430106e-06, 6.638333e-06),
    (3, 1_000_000, 0.95, 6.186726e-07, 8.767248e-06, 7.753638e-06),
    (3, 1_000_000, 0.99, 3.378637e-07, 1.097743e-05, 1.004508e-05),
    (5, 1_000_000, 0.95, 1.623488e-06, 1.166829e-05, 1.051301e-05),
    (5, 1_000_000, 0.99, 1.077930e-06, 1.414969e-05, 1.310843e-05),
    (10, 1_000_000, 0.95, 4.795399e-06, 1.839028e-05, 1.696216e-05),
    (10, 1_000_000, 0.99, 3.716932e-06, 2.139771e-05, 2.014458e-05),
    (20, 1_000_000, 0.95, 1.221656e-05, 3.088821e-05, 2.906189e-05),
    (20, 1_000_000, 0.99, 1.035331e-05, 3.466774e-05, 3.310290e-05),
    (0, 10_000_000, 0.95, 0, 3.688879e-07, 2.995732e-07),
    (0, 10_000_000, 0.99, 0, 5.298316e-07, 4.605169e-07),
    (7, 10_000_000, 0.95, 2.814363e-07, 1.442267e-06, 1.314811e-06),
    (7, 10_000_000, 0.99, 2.037338e-07, 1.713358e-06, 1.599996e-06),
    (100, 10_000_000, 0.95, 8.136406e-06, 1.216267e-05, 1.180792e-05),
    (100, 10_000_000, 0.99, 7.612058e-06, 1.287604e-05, 1.258385e-05),
    (2, 50, 0.95, 4.881433e-03, 1.371376e-01, 1.206142e-01),
    (2, 50, 0.99, 2.088725e-03, 1.725018e-01, 1.577040e-01),
]

# trials that prove a limit with 0, 1, 2, 3 bad ones; from arithmetic with 60 digits
TRIALS = {
    (1e-4, 0.95): (29956, 47437, 62956, 77535),
    (1e-5, 0.95): (299572, 474385, 629578, 775364),
    (1e-6, 0.95): (2995731, 4743863, 6295792, 7753655),
    (1e-7, 0.95): (29957322, 47438644, 62957935, 77536563),
    (1e-4, 0.99): (46050, 66381, 84057, 100448),
    (1e-5, 0.99): (460515, 663833, 840592, 1004509),
    (1e-6, 0.99): (4605168, 6638350, 8405944, 10045114),
    (1e-7, 0.99): (46051700, 66383518, 84059466, 100451172),
}

# n, q: ranks of a 95 % interval, its exact coverage
RANKS = [
    (100, 0.5, 40, 61, 0.964800),
    (1000, 0.5, 469, 532, 0.953709),
    (1000, 0.9, 881, 919, 0.954907),
    (1000, 0.99, 983, 997, 0.976095),
    (3688, 0.999, 3680, 3688, 0.961624),
    (10_000, 0.99, 9880, 9920, 0.955755),
    (10_000, 0.999, 9983, 9997, 0.975457),
    (100_000, 0.99, 98938, 99062, 0.951234),
    (100_000, 0.999, 99880, 99920, 0.954789),
    (100_000, 0.9999, 99983, 99997, 0.975393),
    (1_000_000, 0.999, 998938, 999062, 0.950207),
    (1_000_000, 0.9999, 999880, 999920, 0.954692),
    (10_000_000, 0.9999, 9998938, 9999062, 0.950104),
]


@pytest.mark.parametrize(("k", "n", "level", "low", "high", "one_sided"), CLOPPER_PEARSON)
def test_clopper_pearson(k, n, level, low, high, one_sided):
    assert c.ratio_interval(k, n, level) == pytest.approx((low, high), rel=1e-6)
    assert c.ratio_upper(k, n, level) == pytest.approx(one_sided, rel=1e-6)


@pytest.mark.parametrize("n", [10**3, 10**6, 10**9])
@pytest.mark.parametrize("k", [0, 1, 2, 50, 500])
def test_bounds_solve_the_binomial_equation_they_are_defined_by(k, n):
    upper, lower = c.ratio_upper(k, n), c.ratio_lower(k, n)
    assert stats.binom.cdf(k, n, upper) == pytest.approx(0.05, rel=1e-6)
    if k:
        assert stats.binom.sf(k - 1, n, lower) == pytest.approx(0.05, rel=1e-6)


def test_bounds_at_the_ends_and_without_trials():
    assert (c.ratio_upper(7, 7), c.ratio_lower(0, 7)) == (1.0, 0.0)
    assert c.ratio_lower(7, 7) == pytest.approx(0.05 ** (1 / 7))
    assert (c.ratio_upper(0, 0), c.ratio_lower(0, 0)) == (1.0, 0.0)
    for k, n in ((-1, 5), (6, 5)):
        with pytest.raises(ValueError, match="bad among"):
            c.ratio_upper(k, n)
    with pytest.raises(ValueError, match="confidence"):
        c.ratio_lower(1, 5, 1.0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 10**9), st.floats(0.8, 0.999))
def test_one_more_bad_trial_never_lowers_a_bound(k, n, level):
    k = min(k, n - 1)
    assert c.ratio_upper(k, n, level) <= c.ratio_upper(k + 1, n, level)
    assert c.ratio_lower(k, n, level) <= c.ratio_lower(k + 1, n, level)
    assert c.ratio_lower(k, n, level) <= k / n <= c.ratio_upper(k, n, level)


@pytest.mark.parametrize(("limit", "level"), TRIALS)
def test_trials_to_prove_are_exact(limit, level):
    assert tuple(c.trials_to_prove(limit, k, level) for k in range(4)) == TRIALS[limit, level]


@pytest.mark.parametrize(("limit", "k"), [(0.01, 0), (0.05, 3), (0.3, 20), (0.001, 40), (0.5, 0)])
def test_one_trial_less_proves_nothing(limit, k):
    n = c.trials_to_prove(limit, k)
    assert stats.binom.cdf(k, n, limit) <= 0.05 < stats.binom.cdf(k, n - 1, limit)


@pytest.mark.parametrize(("limit", "level"), [(0.01, 0.95), (0.05, 0.997)])
def test_most_bad_is_the_last_that_is_still_proven(limit, level):
    least = c.trials_to_prove(limit, 0, level)
    assert (c.most_bad(limit, least - 1, level), c.most_bad(limit, least, level)) == (None, 0)
    for n in (least + 1, 1000, 100_000):
        k = c.most_bad(limit, n, level)
        assert c.trials_to_prove(limit, k, level) <= n < c.trials_to_prove(limit, k + 1, level)


def test_trials_to_prove_with_many_bad_ones_still_agree_with_the_bound():
    n = c.trials_to_prove(1e-5, 2000)
    assert c.ratio_upper(2000, n) <= 1e-5 < c.ratio_upper(2000, n - 1000)
    with pytest.raises(ValueError, match="cannot be proven"):
        c.trials_to_prove(0.0)


def test_a1_four_hundred_thousand_good_probes_bound_the_loss():
    assert c.ratio_upper(0, 400_000) == pytest.approx(7.5e-6, rel=0.005)


def test_a2_ten_thousand_pings_are_289572_too_few():
    assert c.ratio_upper(0, 10_000) == pytest.approx(3.0e-4, rel=0.01)
    assert c.trials_to_decide(0, 10_000, 1e-5) - 10_000 == 289_572


def test_a3_twenty_two_of_a_million_fail_and_twelve_are_open():
    assert c.ratio_lower(22, 10**6) > 1e-5
    assert c.ratio_lower(12, 10**6) <= 1e-5 < c.ratio_upper(12, 10**6)
    needed = c.trials_to_decide(12, 10**6, 1e-5)
    assert c.ratio_lower(1.2e-5 * needed, needed) > 1e-5 >= c.ratio_lower(1.2e-5 * (needed - 1), needed - 1)
    assert c.trials_to_decide(22, 10**6, 1e-5) == 10**6


def test_trials_to_decide_a_good_line_and_one_on_the_limit():
    needed = c.trials_to_decide(2, 400_000, 1e-5)
    assert c.ratio_upper(needed * 5e-6, needed) <= 1e-5 < c.ratio_upper((needed - 1) * 5e-6, needed - 1)
    assert c.trials_to_decide(10, 10**6, 1e-5) is None
    assert c.trials_to_decide(0, 0, 1e-5) == 299_572


@pytest.mark.parametrize(("n", "q", "low", "high", "coverage"), RANKS)
def test_ranks_that_enclose_a_quantile(n, q, low, high, coverage):
    assert c.quantile_ranks(n, q) == (low, high)
    assert stats.binom.cdf(high - 1, n, q) - stats.binom.cdf(low - 1, n, q) == pytest.approx(coverage, abs=2e-6)


@pytest.mark.parametrize(
    ("q", "equal_tailed", "one_sided", "at_99"),
    [
        (0.9, 36, 29, 51),
        (0.95, 72, 59, 104),
        (0.99, 368, 299, 528),
        (0.999, 3688, 2995, 5296),
        (0.9999, 36887, 29956, 52981),
    ],
)
def test_a_sample_too_small_has_no_upper_rank(q, equal_tailed, one_sided, at_99):
    assert c.quantile_ranks(equal_tailed, q)[1] == equal_tailed
    assert c.quantile_ranks(equal_tailed - 1, q)[1] is None
    assert c.quantile_rank_upper(one_sided, q) == one_sided
    assert c.quantile_rank_upper(one_sided - 1, q) is None
    assert c.quantile_ranks(at_99, q, 0.99)[1] == at_99
    assert c.quantile_ranks(at_99 - 1, q, 0.99)[1] is None


def test_low_quantiles_mirror_high_ones():
    for n, q in ((1000, 0.05), (400, 0.01), (50, 0.1)):
        low, high = c.quantile_ranks(n, q)
        mirrored = c.quantile_ranks(n, 1 - q)
        assert (low, high) == tuple(None if rank is None else n + 1 - rank for rank in reversed(mirrored))
    assert c.quantile_ranks(0, 0.5) == (None, None)


def test_a_quantile_interval_of_a_histogram_is_never_narrower_than_that_of_the_values():
    values = np.random.default_rng(5).gamma(3, 4e6, 5000).astype(np.int64)
    filled = LogLinear()
    filled.add(values)
    ordered = np.sort(values)
    for q in (0.01, 0.5, 0.99):
        low, high = c.quantile_interval(filled.data(), q)
        l_rank, u_rank = c.quantile_ranks(values.size, q)
        assert low <= ordered[l_rank - 1]
        assert high >= ordered[u_rank - 1]
        assert high - low <= (ordered[u_rank - 1] - ordered[l_rank - 1]) + 0.002 * high
    assert c.quantile_interval(filled.data(), 0.9999)[1] is None


def test_outage_rates():
    assert c.outage_rate_bounds(0, 72)[1] == pytest.approx(0.041607393, rel=1e-7)
    assert c.outage_rate_bounds(1, 72)[1] == pytest.approx(0.065887007, rel=1e-7)
    assert c.outage_rate_bounds(2, 72)[0] == pytest.approx(0.004935577, rel=1e-6)
    assert c.outage_rate_bounds(0, 72)[0] == 0.0
    assert c.outage_rate_bounds(0, 0) == (0.0, math.inf)
    for hours, mtbf in ((24, 8.011), (168, 56.080), (8760, 2924.160)):
        assert 1 / c.outage_rate_bounds(0, hours)[1] == pytest.approx(mtbf, abs=1e-3)
