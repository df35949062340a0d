from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual.impair import LOST, Distribution, Impairer, Impairment, Jitter, Loss, Reordering

MS = 1_000_000
CASES = {
    "nothing": Impairment(),
    "delay": Impairment(delay_ns=4 * MS),
    "held jitter": Impairment(delay_ns=MS, jitter=Jitter(Distribution.UNIFORM, 2 * MS)),
    "free jitter": Impairment(delay_ns=MS, jitter=Jitter(Distribution.EXPONENTIAL, MS, keep_order=False)),
    "normal jitter": Impairment(jitter=Jitter(Distribution.NORMAL, 2 * MS, hold_ns=3 * MS)),
    "independent loss": Impairment(loss=Loss(0.05)),
    "bursts": Impairment(delay_ns=MS, loss=Loss(0.05, burst=4)),
    "every": Impairment(loss=Loss(every=7)),
    "positions": Impairment(loss=Loss(positions=(0, 3, 9000, 20_000))),
    "everything": Impairment(
        MS, Jitter(Distribution.UNIFORM, 3 * MS), Loss(0.02, burst=3), 0.03, Reordering(0.04, 2 * MS)
    ),
}


def every_50_us(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int64) * 50_000


@pytest.mark.parametrize("what", CASES.values(), ids=CASES.keys())
@given(cuts=st.lists(st.integers(0, 20_000), max_size=4), seed=st.integers(0, 2**32))
@settings(max_examples=2, deadline=None)
def test_decisions_do_not_depend_on_how_the_stream_is_cut(what: Impairment, cuts: list[int], seed: int) -> None:
    times = every_50_us(20_000)
    whole = Impairer(what, seed).through(times)
    pieces, cut_one = Impairer(what, seed), np.split(times, sorted(cuts))
    parts = [pieces.through(part) for part in cut_one]
    assert np.array_equal(whole.lost, np.concatenate([part.lost for part in parts]))
    assert np.array_equal(whole.copied, np.concatenate([part.copied for part in parts]))
    kept = ~whole.lost
    assert np.array_equal(whole.due_ns[kept], np.concatenate([part.due_ns for part in parts])[kept])


@pytest.mark.parametrize("what", CASES.values(), ids=CASES.keys())
def test_packet_by_packet_decides_as_columns_do(what: Impairment) -> None:
    times = every_50_us(20_000)
    columns, single = Impairer(what, 3), Impairer(what, 3)
    whole = columns.through(times)
    ones = [single.one(int(now)) for now in times]
    assert [due == LOST for due, _ in ones] == whole.lost.tolist()
    assert [copied for _, copied in ones] == whole.copied.tolist()
    kept = np.flatnonzero(~whole.lost)
    assert [ones[i][0] for i in kept] == whole.due_ns[kept].tolist()
    assert (single.seen, single.dropped, single.duplicated) == (columns.seen, columns.dropped, columns.duplicated)


@pytest.mark.parametrize("what", CASES.values(), ids=CASES.keys())
def test_counters_are_the_truth(what: Impairment) -> None:
    impairer = Impairer(what, 5)
    passages = [impairer.through(every_50_us(10_000) + i * 10**9) for i in range(3)]
    assert impairer.seen == 30_000
    assert impairer.dropped == sum(int(passage.lost.sum()) for passage in passages)
    assert impairer.duplicated == sum(int(passage.copied.sum()) for passage in passages)
    assert not any((passage.copied & passage.lost).any() for passage in passages)


@pytest.mark.parametrize("what", [case for case in CASES.values() if case.keeps_order])
def test_order_is_kept_where_it_is_said_to_be(what: Impairment) -> None:
    passage = Impairer(what, 1).through(every_50_us(50_000))
    assert (np.diff(passage.due_ns[~passage.lost]) >= 0).all()


def test_nobody_is_faster_than_the_constant_delay() -> None:
    for what in CASES.values():
        times = every_50_us(20_000)
        passage = Impairer(what, 1).through(times)
        assert (passage.due_ns - times)[~passage.lost].min() >= what.delay_ns


@given(
    ratio=st.sampled_from([1e-3, 0.01, 0.1, 0.3]),
    burst=st.sampled_from([1.0, 2.0, 8.0, 20.0]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=8, deadline=None)
def test_ratio_and_mean_burst_are_as_asked(ratio: float, burst: float, seed: int) -> None:
    n = 100_000
    lost = Impairer(Impairment(loss=Loss(ratio, burst)), seed).through(every_50_us(n)).lost
    # variance of the mean of a two-state chain: p q / n times (1 + r) / (1 - r), r the correlation of neighbours
    mean_run = burst if burst > 1 else 1 / (1 - ratio)
    r = 1 - 1 / mean_run - ratio / (mean_run * (1 - ratio))
    sigma = np.sqrt(ratio * (1 - ratio) / n * (1 + r) / (1 - r))
    assert abs(lost.mean() - ratio) < 6 * sigma
    starts = lost & ~np.concatenate(([False], lost[:-1]))
    runs = lost.sum() / starts.sum()
    assert abs(runs - mean_run) < 6 * mean_run / np.sqrt(starts.sum())


def test_exact_places() -> None:
    lost = Impairer(Impairment(loss=Loss(every=1000)), 1).through(every_50_us(100_000)).lost
    assert np.flatnonzero(lost).tolist() == list(range(999, 100_000, 1000))
    lost = Impairer(Impairment(loss=Loss(positions=(70_000, 2))), 1).through(every_50_us(100_000)).lost
    assert np.flatnonzero(lost).tolist() == [2, 70_000]


@pytest.mark.parametrize("distribution", list(Distribution))
@pytest.mark.parametrize("keep_order", [True, False])
def test_jitter_has_the_quantiles_it_names(distribution: Distribution, keep_order: bool) -> None:
    what = Impairment(delay_ns=MS, jitter=Jitter(distribution, 2 * MS, keep_order))
    times = np.arange(200_000, dtype=np.int64) * (MS if keep_order else 10_000)
    delays = Impairer(what, 11).through(times).due_ns - times
    for q in (0.1, 0.5, 0.9):
        assert np.quantile(delays, q) == pytest.approx(what.delay_quantile(q), abs=0.12 * MS)
    if distribution is not Distribution.EXPONENTIAL:
        assert delays.max() <= 3 * MS


def test_a_reordered_packet_is_overtaken_by_those_behind_it() -> None:
    what = Impairment(MS, reordering=Reordering(0.01, 2 * MS))
    times = every_50_us(100_000)
    late = Impairer(what, 1).through(times).due_ns - times > MS
    assert late.mean() == pytest.approx(0.01, abs=0.002)


def test_seeds_differ() -> None:
    what = Impairment(loss=Loss(0.1))
    one, other = (Impairer(what, seed).through(every_50_us(1000)).lost for seed in (1, 2))
    assert not np.array_equal(one, other)
