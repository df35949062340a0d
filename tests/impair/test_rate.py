from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual.bottleneck import OVERHEAD, Bottleneck, Rate, flow_hash, member_of

MBIT = 10**6
# what the kernel's firewall gave for 10.0.0.1 -> 10.0.0.2 and fd00::1 -> fd00::2, destination port 9, mod 1000000, seed 7
KERNEL = [
    (4, 5000, 358376),
    (6, 5000, 515405),
    (4, 5001, 80299),
    (6, 5001, 415628),
    (4, 5002, 138479),
    (6, 5002, 362271),
]


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


def many(generator: np.random.Generator, flows: int, count: int, gap_ns: int) -> tuple[np.ndarray, ...]:
    """Packets of `flows` flows in turn: times, sizes, hashes of their flows."""
    hashes = generator.integers(0, 2**32, flows)
    return *train(count, gap_ns), hashes[np.arange(count) % flows]


def delivered(hashes: np.ndarray, out: np.ndarray, lost: np.ndarray, key: np.ndarray) -> dict[int, float]:
    """Mbit/s on the wire that each value of `key` gets through in the second half."""
    half = (out > out.max() // 2) & ~lost
    seconds = (out[half].max() - out[half].min()) / 1e9
    return {int(one): ((key == one) & half).sum() * 1538 * 8 / seconds / MBIT for one in np.unique(key)}


@pytest.mark.parametrize("policer", [False, True])
@pytest.mark.parametrize("flows", [1, 2, 8])
def test_each_flow_is_limited_by_itself_and_all_together_too(policer: bool, flows: int) -> None:
    rate = Rate(200 * MBIT, policer=policer, per_flow_bps=50 * MBIT, buffer_bytes=50_000)
    times, sizes, hashes = many(np.random.default_rng(1), flows, 60_000, 1538 * 8 * 3)  # 333 Mbit/s
    out, lost = Bottleneck(rate).through(times, sizes, hashes)
    each = delivered(hashes, out, lost, hashes)
    assert len(each) == flows
    for got in each.values():
        assert got == pytest.approx(min(50, 200 / flows), rel=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_a_bundle_fills_the_members_its_flows_are_on(seed: int) -> None:
    times, sizes, hashes = many(np.random.default_rng(seed), 8, 40_000, 1538 * 40)  # 200 Mbit/s, 25 a flow
    bottleneck = Bottleneck(Rate(160 * MBIT, members=4, buffer_bytes=20_000))
    out, lost = bottleneck.through(times, sizes, hashes)
    members = member_of(hashes, 4)
    for member, got in delivered(hashes, out, lost, members).items():
        offered = 25 * len(np.unique(hashes[members == member]))
        assert got == pytest.approx(min(40, offered), rel=0.02)
    assert bottleneck.dropped == lost.sum() > 0


def test_a_bundle_cut_into_calls_is_the_same_bundle() -> None:
    times, sizes, hashes = many(np.random.default_rng(5), 5, 9_000, 1538 * 60)
    rate = Rate(120 * MBIT, members=3, bucket_bytes=9_000, buffer_bytes=20_000)
    whole, whole_lost = Bottleneck(rate).through(times, sizes, hashes)
    pieces = Bottleneck(rate)
    parts = [
        pieces.through(*(column[at : at + 700] for column in (times, sizes, hashes))) for at in range(0, 9_000, 700)
    ]
    assert np.array_equal(np.concatenate([part[1] for part in parts]), whole_lost)
    assert np.array_equal(np.concatenate([part[0] for part in parts])[~whole_lost], whole[~whole_lost])


def test_what_one_flow_meets() -> None:
    assert Rate(200 * MBIT, members=4).of_one.bps == 50 * MBIT
    assert Rate(200 * MBIT, per_flow_bps=30 * MBIT).of_one.bps == 30 * MBIT
    assert Rate(200 * MBIT, members=4, buffer_bytes=62_500).buffer_ns == 10 * MBIT
    assert Rate(200 * MBIT, policer=True).buffer_ns == 0


def test_flows_are_spread_as_the_kernel_spreads_them() -> None:
    four, six = ("0a000001", "0a000002"), ("fd" + "00" * 14 + "01", "fd" + "00" * 14 + "02")
    for addresses, port, member in KERNEL:
        source, target = (bytes.fromhex(text) for text in (four if addresses == 4 else six))
        assert member_of(flow_hash(source, target, struct.pack("!HH", port, 9), 7), 1_000_000) == member
