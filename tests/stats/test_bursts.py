"""Completions of bursts: ranks with bursts never complete, spread and drift with intervals that hold; and what a model sends."""

from __future__ import annotations

import numpy as np
import pytest

from linkqual.stats import bursts, collectives


def test_quantiles_are_order_statistics_with_the_known_ranks() -> None:
    completions = list(range(1, 1001))
    assert bursts.quantile(completions[::-1], 0.99) == (990, 983, 997)
    assert bursts.quantile(completions, 0.5) == (500, 469, 532)


def test_a_burst_never_complete_took_longer_than_any() -> None:
    completions = [5] * 991 + [None] * 9
    assert bursts.quantile(completions, 0.99) == (5, 5, None)
    assert bursts.quantile([7, None], 0.5) == (7, None, None)
    assert bursts.quantile([], 0.5) == (None, None, None)


def test_spread_and_drift_hold_the_truth_as_often_as_they_say() -> None:
    """Bursts that resemble their neighbours, drifting by half of one deviation over the run."""
    chance = np.random.default_rng(11)
    held, moved, runs = 0, 0, 300
    for _ in range(runs):
        noise = chance.normal(0, 1, 1002)
        alike = (noise[2:] + noise[1:-1] + noise[:-2]) / np.sqrt(3)
        values = (1e7 + 2e5 * alike).round().astype(int)
        _, low, high = bursts.variation(values.tolist())
        held += low <= 2e5 / 1e7 <= high
        _, low, high = bursts.drift((values + np.linspace(0, 1e5, 1000)).astype(int).tolist())
        moved += low <= 1e5 * 19 / 20 <= high
    assert 0.9 * runs <= held <= runs
    assert 0.9 * runs <= moved <= 0.995 * runs


def test_spread_and_drift_of_few_bursts_are_not_told() -> None:
    assert bursts.variation([1] * 39) == (None, None, None)
    assert bursts.drift([1] * 30 + [None] * 30) == (None, None, None)


def test_a_steady_rise_is_a_drift_of_its_whole_size() -> None:
    value, low, high = bursts.drift([10_000 + 2 * at for at in range(1000)])
    assert (value, low, high) == pytest.approx((1900, 1900, 1900), rel=0.01)


@pytest.mark.parametrize(
    ("parameters", "dtype", "expected"), [(10e9, "bf16", 20_000_000_000), (7e9, "fp32", 28_000_000_000)]
)
def test_a_gradient_is_as_large_as_the_model(parameters: float, dtype: str, expected: int) -> None:
    assert collectives.gradient_bytes(parameters, dtype) == expected


@pytest.mark.parametrize(
    ("members", "buffer", "expected"),
    [(2, 1e9, 1e9), (4, 1e9, 1.5e9), (8, 1e9, 1.75e9), (64, 1e9, 1.96875e9), (8, 140e9, 245e9)],
)
def test_an_all_reduce_sends_what_the_formula_says(members: int, buffer: float, expected: float) -> None:
    assert collectives.between_sites(buffer, members) == expected
    assert collectives.between_sites(buffer, 2, ranks=members) == expected


def test_two_sites_send_one_gradient_each_way_however_many_ranks_there_are() -> None:
    assert collectives.between_sites(collectives.gradient_bytes(70e9, "bf16"), 2) == 140e9
