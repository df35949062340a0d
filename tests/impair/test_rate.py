from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual.impair import OVERHEAD, Bottleneck, Rate

MBIT = 10**6


def train(count: int, gap_ns: int, size: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(count, dtype=np.int64) * gap_ns, np.full(count, size, np.int64)


@pytest.mark.parametrize("counts", OVERHEAD)
def test_a_shaper_lets_out_what_its_rate_counts(counts: str) -> None:
    times, sizes = train(20_000, 1000)
    out, lost = Bottleneck(Rate(100 * MBIT, bucket_bytes=3_000, buffer_bytes=10**9, counts=counts)).through(
        times, sizes
    )
    assert not lost.any()
    seconds = (out[-1] - out[1000]) / 1e9
    assert 19_000 * 8 * (1500 + OVERHEAD[counts] - 1) / seconds == pytest.approx(100 * MBIT, rel=1e-3)


def test_below_the_rate_nothing_waits() -> None:
    times, sizes = train(1000, 200_000)  # 61.5 Mbit/s on the wire
    out, lost = Bottleneck(Rate(100 * MBIT)).through(times, sizes)
    assert not lost.any()
    assert np.array_equal(out, times)


def test_the_bucket_passes_a_burst_at_once() -> None:
    times, sizes = train(20, 0)
    out, _ = Bottleneck(Rate(100 * MBIT, bucket_bytes=10 * 1538)).through(times, sizes)
    assert (out[:10] == 0).all()
    assert (np.diff(out[9:]) == 1538 * 8 * 10).all()


def test_a_full_buffer_drops_the_tail() -> None:
    times, sizes = train(200, 0)
    rate = Rate(100 * MBIT, bucket_bytes=3_076, buffer_bytes=100 * 1538)
    bottleneck = Bottleneck(rate)
    out, lost = bottleneck.through(times, sizes)
    assert np.flatnonzero(lost).tolist() == list(range(102, 200))
    assert bottleneck.dropped == 98
    assert out[101] == 100 * 1538 * 80


def test_a_policer_drops_and_never_delays() -> None:
    times, sizes = train(50_000, 1538 * 40)  # twice the rate
    out, lost = Bottleneck(Rate(100 * MBIT, policer=True, bucket_bytes=50_000)).through(times, sizes)
    assert np.array_equal(out[~lost], times[~lost])
    assert lost[5_000:].mean() == pytest.approx(0.5, abs=0.01)
    assert not lost[:50].any()


@given(seed=st.integers(0, 2**32), cuts=st.lists(st.integers(0, 3000), max_size=4), policer=st.booleans())
@settings(max_examples=20, deadline=None)
def test_cutting_the_stream_changes_nothing(seed: int, cuts: list[int], policer: bool) -> None:
    generator = np.random.default_rng(seed)
    times = np.cumsum(generator.integers(0, 150_000, 3000))
    sizes = generator.integers(64, 1500, 3000)
    rate = Rate(100 * MBIT, policer=policer, bucket_bytes=6_000, buffer_bytes=20_000)
    whole, whole_lost = Bottleneck(rate).through(times, sizes)
    pieces = Bottleneck(rate)
    at = sorted(cuts)
    parts = [pieces.through(*part) for part in zip(np.split(times, at), np.split(sizes, at), strict=True)]
    lost = np.concatenate([part[1] for part in parts])
    assert np.array_equal(lost, whole_lost)
    assert np.array_equal(np.concatenate([part[0] for part in parts])[~lost], whole[~lost])
    assert (np.diff(whole[~whole_lost]) >= 0).all()
