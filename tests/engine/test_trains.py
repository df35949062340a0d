"""Trains against lines in memory whose bucket is known (benchmarks/buckets.py makes them): the right kind and figures, or honestly none."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from linkqual.bottleneck import Rate
from linkqual.model import Direction, Train, TrainsResult
from linkqual.session.train import Bounds, Trains
from linkqual.session.train_result import result, spread
from linkqual.stats.arrival_curve import Idle

MBIT, NS = 1_000_000, 10**9
BOUNDS = Bounds(60_000_000, 200 * MBIT, 100 * MBIT)


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import buckets

    return buckets


def test_random_lines(buckets: ModuleType) -> None:
    """Never a wrong kind, rates within 1 %, buckets and buffers within 15 % but for what 1 ms of jitter hides."""
    named = 0
    for seed in range(1000, 1040):
        line, bounds = buckets.random_line(seed)
        found, trains = buckets.measure(line, bounds)
        row = buckets.Row(seed, line, found, trains.ended)
        assert found.kind in {row.wanted, "unknown"}, row
        assert sum(train.packets for train in found.trains) * 1500 <= bounds.most_bytes, row
        named += found.kind == row.wanted
        for name, (got, true) in row.pairs().items():
            slack = 2_000_000 / NS * line.rate.bps / 8 if name == "bucket" and line.jitter_ns >= 1_000_000 else 0
            assert got is None or got[0] == pytest.approx(true, rel=buckets.WITHIN[name], abs=slack), row
    assert named >= 39


@pytest.mark.parametrize("policer", [True, False])
def test_a_gigabit_at_953_and_its_twin(buckets: ModuleType, policer: bool) -> None:
    """Scenario A7 with other figures: loss with a flat delay is a policer, a delay that climbs until packets are dropped is a shaper."""
    rate = Rate(953 * MBIT, policer, 190_000, 2_400_000)
    line = buckets.MemoryLine(rate, 3, fastest_bps=1.6e9, stalls=1.0)
    found, _ = buckets.measure(line, Bounds(250_000_000, 2e9, 1e9))
    assert found.kind == ("policer" if policer else "shaper")
    assert found.outlasted
    assert found.rate_bps[0] == pytest.approx(953 * MBIT, rel=0.005)
    assert found.bucket_bytes[0] == pytest.approx(190_000, rel=0.1)
    if policer:
        assert found.buffer_ns is None
        first = min(train.lost_from for train in found.trains if train.lost_from)
        assert first > 100  # the first loss comes after the bucket, not at once
    else:
        assert found.buffer_ns[0] == pytest.approx(2_400_000 * 8 * NS / (953 * MBIT), rel=0.05)


def test_a_wider_choke_point_does_not_hide_a_deep_bucket(buckets: ModuleType) -> None:
    line = buckets.MemoryLine(Rate(100 * MBIT, bucket_bytes=10**6), 4, fastest_bps=1e9, ahead=Rate(400 * MBIT))
    found, _ = buckets.measure(line, Bounds(60_000_000))
    assert found.rate_bps[0] == pytest.approx(100 * MBIT, rel=0.01)
    assert found.bucket_bytes[0] == pytest.approx(10**6, rel=0.05)


def test_the_queue_of_a_wider_choke_point_is_not_taken_for_its_own(buckets: ModuleType) -> None:
    """Fast trains wait at the 140 Mbit/s shaper ahead; the policer behind it only drops."""
    ahead = Rate(140 * MBIT, buffer_bytes=600_000)
    line = buckets.MemoryLine(Rate(100 * MBIT, True, 90_000), 4, ahead=ahead)
    found, _ = buckets.measure(line, BOUNDS)
    assert found.kind == "policer"


def test_a_line_as_fast_as_its_sender_has_no_limit(buckets: ModuleType) -> None:
    found, trains = buckets.measure(buckets.MemoryLine(None, 1), BOUNDS)
    assert (found.kind, trains.ended) == ("none", "none")
    assert found.at_least_bps == pytest.approx(200 * MBIT, rel=0.01)
    assert found.rate_bps is None


@pytest.mark.parametrize("loss", [0.02, 0.08])
def test_loss_at_any_rate_is_no_policer(buckets: ModuleType, loss: float) -> None:
    found, _ = buckets.measure(buckets.MemoryLine(None, 1, loss=loss), BOUNDS)
    assert found.kind in {"none", "unknown"}
    if found.kind == "unknown":
        assert "not a limit" in found.because


def test_single_losses_before_a_policer_do_no_harm(buckets: ModuleType) -> None:
    line = buckets.MemoryLine(Rate(100 * MBIT, True, 120_000), 1, loss=1e-3)
    found, _ = buckets.measure(line, BOUNDS)
    assert found.kind == "policer"
    assert found.bucket_bytes[0] == pytest.approx(120_000, rel=0.1)


def test_few_bytes_are_kept_to_and_said(buckets: ModuleType) -> None:
    line = buckets.MemoryLine(Rate(100 * MBIT), 1)
    found, trains = buckets.measure(line, Bounds(2_000_000, 200 * MBIT, 100 * MBIT))
    assert (found.kind, trains.ended) == ("unknown", "bytes")
    assert "bytes allowed" in found.because
    assert sum(train.packets for train in found.trains) * 1500 < 2_000_000


@pytest.mark.parametrize("most_bytes", range(1_200_000, 12_000_000, 400_000))
def test_trains_that_lose_until_the_bytes_are_spent(most_bytes: int) -> None:
    """Loss without a limit: the search repeats its longest train, and the last ones would have no packets left."""
    trains = Trains(Bounds(most_bytes, 200 * MBIT, 100 * MBIT))
    while step := trains.next():
        count = step.train.packets
        trains.took(Train(step.train.name, 2e8, count, count - count // 10, count // 10), Idle(0, 0.0, 0.0))
    assert trains.ended in {"bytes", "short"}
    assert trains.spent_bytes <= most_bytes


def test_a_queue_too_deep_to_fill_has_a_least_depth(buckets: ModuleType) -> None:
    line = buckets.MemoryLine(Rate(100 * MBIT, buffer_bytes=50_000_000), 1)
    found, _ = buckets.measure(line, BOUNDS)
    assert found.kind == "shaper"
    assert found.buffer_ns is None
    assert found.buffer_at_least_ns > 200_000_000


def test_drops_of_the_receiving_host_are_not_the_lines() -> None:
    trains = Trains(BOUNDS)
    idle = Idle(0, 0.0, 0.0)
    while step := trains.next():
        void = "the receiving host itself dropped packets"
        trains.took(Train(step.train.name, 2e8, step.train.packets, 200, 200, host_lost=200, void=void), idle)
    found = outcome(trains)
    assert found.kind == "unknown"
    assert "host itself" in found.because


def test_rates_that_wander_are_unknown() -> None:
    trains = Trains(BOUNDS)
    rates = iter([100e6, 80e6, 60e6, 90e6, 70e6, 95e6, 60e6, 80e6, 100e6])
    while step := trains.next():
        taken = Train(step.train.name, 200e6, 1000, 500, 500, rate_bps=next(rates), steady_ns=NS, bucket_bytes=1e5, rise_ns=0, buffer_ns=0.0)  # fmt: skip
        trains.took(taken, Idle(0, 0.0, 0.0))
    assert outcome(trains).kind == "unknown"
    assert trains.ended == "disagree"


def test_nothing_asks_for_more_than_allowed() -> None:
    trains = Trains(Bounds(10_000_000, 30 * MBIT, 100 * MBIT, 1500, 38))
    step = trains.next()
    assert step.train.rate_bps == round(30 * MBIT * 1500 / 1538)
    assert step.idle.rate_bps <= 30 * MBIT / 8


def test_spread() -> None:
    assert spread([10.0, 10.0, 10.0], 0.5) == (10.0, 9.5, 10.5)
    value, low, high = spread([9.0, 10.0, 11.0], 0.5)
    assert (value, low, high) == (10.0, pytest.approx(7.516, abs=0.01), pytest.approx(12.484, abs=0.01))  # t = 4.303


def outcome(trains: Trains) -> TrainsResult:
    return result(
        Direction.FORWARD, trains.taken, trains.ended, counts="l1", packet_bytes=1500, overhead=38, idle=trains.idle, outlasted=trains.outlasted,
    )  # fmt: skip
