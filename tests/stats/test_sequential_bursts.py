"""Bursts: what the trials alone get wrong, and the events get right. Bounds of the mean event size."""

from __future__ import annotations

import math

import numpy as np
import pytest

from linkqual.model import Outcome
from linkqual.stats.boundaries import mean_event_lower, mean_event_upper
from linkqual.stats.sequential import SequentialTest

from .test_sequential import FAIL, LIMIT, PASS, bursts, independent, play

RUNS = 400
CAP = 4_000_000
ERROR = 0.05 + 3 * math.sqrt(0.05 * 0.95 / RUNS)


@pytest.mark.parametrize(("size", "naive"), [(1, 0.05), (2, 0.27), (5, 0.62), (20, 0.88)])
def test_bursts_taken_for_single_losses_pass_a_bad_line(size: float, naive: float) -> None:
    """The table's warning, reproduced: this is what a profile promises when it assumes bursts of one packet."""
    rates, _ = play(LIMIT, LIMIT, CAP, RUNS, size)
    assert rates[PASS] == pytest.approx(naive, abs=4 * math.sqrt(naive * (1 - naive) / RUNS) + 0.03)


@pytest.mark.parametrize("size", [1, 2, 5, 20])
def test_a_line_at_the_limit_passes_or_fails_with_at_most_five_percent(size: float) -> None:
    rates, _ = play(LIMIT, LIMIT, CAP, RUNS, size, assumed_burst=size)
    assert rates[PASS] <= ERROR
    assert rates[FAIL] <= ERROR


@pytest.mark.parametrize("size", [2, 5, 20, 100])
def test_a_bound_estimated_late_keeps_the_error(size: float) -> None:
    """A run long enough that nearly all passes come after the five events from which the data rule."""
    rates, _ = play(LIMIT, LIMIT, 20 * CAP, RUNS, size, assumed_burst=size, seed=2)
    assert rates[PASS] <= ERROR
    assert rates[FAIL] <= ERROR


@pytest.mark.parametrize("size", [2, 5, 20])
def test_a_fail_needs_no_assumption(size: float) -> None:
    for assumed in (1.0, 50.0):
        rates, _ = play(LIMIT, LIMIT, CAP, RUNS, size, assumed_burst=assumed, seed=3)
        assert rates[FAIL] <= ERROR


@pytest.mark.parametrize(("size", "passes"), [(1, 1.0), (2, 0.97), (5, 0.80)])
def test_a_good_line_passes_at_least_as_often_as_with_the_factor_2b_minus_1(size: float, passes: float) -> None:
    rates, _ = play(LIMIT, LIMIT / 10, CAP, 200, size, assumed_burst=size)
    assert rates[PASS] >= passes - 4 * math.sqrt(passes * (1 - passes) / 200)


@pytest.mark.parametrize("size", [2, 5, 20])
def test_a_bad_line_with_bursts_fails(size: float) -> None:
    rates, _ = play(LIMIT, 10 * LIMIT, 2 * CAP, 100, size, assumed_burst=size)
    assert rates[FAIL] >= 0.97


@pytest.mark.parametrize("sizes", [(4,), (1, 7), (1, 2, 3, 14)])
def test_other_sizes_than_geometric(sizes: tuple[int, ...]) -> None:
    """All events alike, or of very different sizes: the errors hold as long as no rare event carries most of the loss."""
    rng = np.random.default_rng(5)
    mean, passed, failed = float(np.mean(sizes)), 0, 0
    for _ in range(RUNS):
        starts = independent(rng, LIMIT / mean, 10 * CAP)
        lengths = rng.choice(sizes, len(starts))
        inside = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        test = SequentialTest(LIMIT, assumed_burst=mean)
        test.update_at(np.unique(np.repeat(starts, lengths) + inside), 10 * CAP + 100)
        passed, failed = passed + (test.outcome is PASS), failed + (test.outcome is FAIL)
    assert passed / RUNS <= ERROR
    assert failed / RUNS <= ERROR


# ---- clusters


def test_a_gap_joins_what_is_close() -> None:
    where = np.array([100, 103, 106, 5_000])
    for gap, events in ((1, 4), (2, 4), (3, 2), (5_000, 1)):
        test = SequentialTest(0.001, gap=gap, family=1000)
        test.update_at(where, 5_100)
        assert (test.bad, test.events) == (4, events), gap


def test_events_go_on_over_the_edge_of_a_chunk() -> None:
    test = SequentialTest(0.1, gap=3, family=1000)
    for part in ([False] * 50 + [True], [], [False, False], [True, False], [False, False, False, True]):
        test.update(np.array(part, bool))
    assert (test.n, test.bad, test.events) == (59, 3, 2)


# ---- the mean size of an event


def test_few_events_leave_the_assumption_or_what_was_seen() -> None:
    assert mean_event_upper(0, 0, 3.0) == 3.0
    assert mean_event_upper(1, 1, 3.0) == 3.0
    assert mean_event_upper(2, 2, 100.0) == pytest.approx(10)  # at 10 two single packets have a chance of 1 %
    assert mean_event_upper(4, 4, 100.0) == pytest.approx(0.01 ** (-1 / 4))
    assert mean_event_upper(2, 40, 3.0) == 20.0
    assert mean_event_lower(4, 80) == 1.0


def test_single_events_never_raise_the_assumption_and_lower_a_large_one() -> None:
    assert mean_event_upper(50, 50, 1.0) == 1.0
    assert 1.0 < mean_event_upper(50, 50, 20.0) < 1.1


@pytest.mark.parametrize("size", [1.5, 4.0, 25.0])
@pytest.mark.parametrize("events", [5, 30])
def test_the_bounds_hold_for_geometric_sizes(size: float, events: int) -> None:
    rng = np.random.default_rng(11)
    bad = rng.geometric(1 / size, (2000, events)).sum(axis=1)
    seen = np.full(2000, events)
    assert np.mean(mean_event_upper(seen, bad, size) < size) <= 0.02
    assert np.mean(mean_event_lower(seen, bad) > size) <= 0.02


def test_the_bounds_close_in() -> None:
    assert mean_event_upper(10_000, 50_000) == pytest.approx(5, rel=0.03)
    assert mean_event_lower(10_000, 50_000) == pytest.approx(5, rel=0.03)


def test_streams_of_this_file_are_what_they_say() -> None:
    where = bursts(np.random.default_rng(1), 0.01, 1_000_000, 5)
    runs = np.count_nonzero(np.diff(where) > 1) + 1
    assert len(where) / 1_000_000 == pytest.approx(0.01, rel=0.05)
    assert len(where) / runs == pytest.approx(5, rel=0.06)
    assert Outcome.PASS is PASS
