"""The intervals keep their word: over seeded repetitions a 95 % interval holds the truth at least 93 % of the time."""

from __future__ import annotations

import numpy as np
import pytest

from linkqual.stats import confidence, tally, throughput
from linkqual.stats.histogram import LogLinear

RUNS = 1000


@pytest.mark.parametrize(("n", "truth"), [(300_000, 1e-5), (1_000_000, 1e-6), (20_000, 1e-3), (500, 0.05), (200, 0.4)])
def test_clopper_pearson_holds_the_loss_ratio(n, truth):
    losses = np.random.default_rng(11).binomial(n, truth, RUNS)
    two_sided = [confidence.ratio_interval(int(k), n) for k in losses]
    assert np.mean([low <= truth <= high for low, high in two_sided]) >= 0.95
    assert np.mean([truth <= confidence.ratio_upper(int(k), n) for k in losses]) >= 0.94
    assert np.mean([truth >= confidence.ratio_lower(int(k), n) for k in losses]) >= 0.94


@pytest.mark.parametrize(("n", "q"), [(500, 0.5), (1000, 0.99), (4000, 0.999), (200, 0.05)])
def test_order_statistics_hold_the_quantile_of_a_heavy_tail(n, q):
    rng = np.random.default_rng(12)
    truth = 1e6 * (1 - q) ** (-1 / 1.5)  # Pareto, alpha 1.5
    hits = 0
    for _ in range(400):
        filled = LogLinear()
        filled.add((1e6 * (1 + rng.pareto(1.5, n))).astype(np.int64))
        low, high = confidence.quantile_interval(filled.data(), q)
        hits += (low is None or low <= truth) and (high is None or truth <= high)
    assert hits / 400 >= 0.93


def gilbert_chain(rng: np.random.Generator, n: int, ratio: float, burst: float) -> np.ndarray:
    """Losses in runs of geometric length, the gaps between them geometric too."""
    runs = int(n * ratio / burst * 1.5) + 20
    good = rng.geometric(ratio / burst / (1 - ratio), runs)
    bad = rng.geometric(1 / burst, runs)
    column = np.repeat(np.tile([False, True], runs), np.stack([good, bad], axis=1).ravel())
    assert column.size >= n
    return column[:n]


@pytest.mark.parametrize("burst", [1.0, 2.0, 5.0, 20.0])
def test_the_effective_sample_holds_the_loss_ratio_of_bursts(burst):
    rng, n, truth = np.random.default_rng(13), 50_000, 0.02
    naive = corrected = 0
    for _ in range(300):
        found = tally.tally(gilbert_chain(rng, n, truth, burst))
        low, high = confidence.ratio_interval(found.bad, found.n)
        naive += low <= truth <= high
        held = tally.interval(found)
        corrected += held.low <= truth <= held.high
    assert corrected / 300 >= 0.93
    if burst >= 5:
        assert naive / 300 < 0.8  # why the correction is there


def test_the_interval_of_a_low_percentile_of_seconds_holds_it():
    rng, truth = np.random.default_rng(15), 9.4e9 - 1.6449 * 1e7
    hits = 0
    for _ in range(400):
        low, high = throughput.seconds_interval(rng.normal(9.4e9, 1e7, 120).tolist(), 0.05)
        hits += (low is None or low <= truth) and (high is None or truth <= high)
    assert hits / 400 >= 0.93
