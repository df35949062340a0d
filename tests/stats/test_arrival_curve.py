"""One train through a token bucket made in memory: what was put in is what is read."""

from __future__ import annotations

import numpy as np
import pytest

from linkqual.bottleneck import Bottleneck, Rate
from linkqual.model import Train
from linkqual.stats.arrival_curve import Idle, Sent, idle, onset, read, slope

MBIT, NS = 1_000_000, 10**9
SIZE, EACH = 1500, 1538
FAR = 10**18  # the receiver's clock is decades away
IDLE = Idle(FAR, 0.0, 0.0)


def train(rate: Rate | None, offered_bps: float, packets: int, *, seed: int = 1, pause: tuple[int, int] = (0, 0), loss: float = 0.0) -> Train:  # fmt: skip
    """A jittered train; `pause`: (before this packet, ns)."""
    chance = np.random.default_rng(seed)
    gap = EACH * 8 * NS / offered_bps
    left = ((np.arange(packets) + chance.uniform(-0.45, 0.45, packets)) * gap).astype(np.int64) + NS
    left[pause[0] :] += pause[1]
    kept = chance.random(packets) >= loss
    numbers, out = np.arange(packets)[kept], left[kept]
    if rate:
        out, lost = Bottleneck(rate).through(out, np.full(len(out), SIZE))
        numbers, out = numbers[~lost], out[~lost]
    return read(Sent("again", packets, EACH), numbers, left[numbers], out + FAR, IDLE)


@pytest.mark.parametrize("bucket", [16_000, 130_000, 1_000_000])
def test_a_shaper(bucket: int) -> None:
    found = train(Rate(70 * MBIT, bucket_bytes=bucket, buffer_bytes=350_000), 130 * MBIT, 4000)
    assert found.rate_bps == pytest.approx(70 * MBIT, rel=1e-3)
    assert found.bucket_bytes == pytest.approx(bucket, abs=EACH)
    assert found.buffer_ns == pytest.approx(40_000_000, abs=EACH * 8 * NS / (70 * MBIT))


@pytest.mark.parametrize("bucket", [50_000, 400_000])
def test_a_policer(bucket: int) -> None:
    found = train(Rate(120 * MBIT, policer=True, bucket_bytes=bucket), 210 * MBIT, 3000)
    assert found.rate_bps == pytest.approx(120 * MBIT, rel=2e-3)
    assert found.bucket_bytes == pytest.approx(bucket, abs=1.5 * EACH)
    assert found.rise_ns == pytest.approx(0, abs=1000)
    assert found.lost_from is not None
    assert found.lost_from * EACH * (1 - 120 / 210) == pytest.approx(bucket, rel=0.05)  # bytes until the first loss


def test_a_train_too_short_for_the_bucket_has_none() -> None:
    inside = train(Rate(50 * MBIT, bucket_bytes=900_000), 100 * MBIT, 800)
    assert inside.rate_bps == pytest.approx(100 * MBIT, rel=0.01)  # its own pace: the bucket was never empty
    assert (
        train(Rate(50 * MBIT, bucket_bytes=900_000), 100 * MBIT, 1370).bucket_bytes is None
    )  # bends in what is measured


def test_a_pause_of_the_sender_refills_the_bucket() -> None:
    """11 ms of silence in a 3 ms queue: what was not sent then is no slower line."""
    rate = Rate(80 * MBIT, bucket_bytes=60_000, buffer_bytes=30_000)
    found = train(rate, 150 * MBIT, 3000, pause=(1500, 11_000_000))
    assert found.rate_bps == pytest.approx(80 * MBIT, rel=2e-3)
    assert found.bucket_bytes == pytest.approx(60_000, abs=1.5 * EACH)


def test_loss_that_no_bucket_makes_has_no_onset() -> None:
    assert train(None, 100 * MBIT, 4000, loss=0.1).buffer_ns is None
    numbers = np.flatnonzero(np.random.default_rng(5).random(5000) >= 0.1)
    assert onset(numbers, 5000) is None


def test_single_losses_do_not_move_the_onset() -> None:
    kept = np.ones(2000, bool)
    kept[[7, 300]] = False
    kept[1000::2] = False
    assert onset(np.flatnonzero(kept), 2000) == pytest.approx(1000, abs=2)
    assert onset(np.arange(2000), 2000) is None


def test_copies_and_other_orders_change_nothing() -> None:
    left = np.arange(400) * 100_000
    numbers = np.arange(400)
    once = read(Sent("long", 400, EACH), numbers, left, left + FAR, IDLE)
    order = np.r_[numbers[::-1], numbers]
    again = read(
        Sent("long", 400, EACH), order, np.r_[left[::-1], left], np.r_[(left + FAR)[::-1], left + FAR + 5_000_000], IDLE
    )
    assert again == once


def test_a_clock_set_meanwhile_voids_the_train() -> None:
    left = np.arange(200) * 100_000
    found = read(Sent("long", 200, EACH), np.arange(200), left, left + FAR - 4_000_000, IDLE)
    assert found.rate_bps is None
    assert "clock" in found.void


def test_too_few_arrivals_say_nothing() -> None:
    found = read(Sent("search", 500, EACH), np.arange(12), np.arange(12) * 1000, np.arange(12) * 1000 + FAR, IDLE)
    assert (found.received, found.lost, found.lost_from, found.rate_bps) == (12, 488, 12, None)
    assert found.void


def test_a_late_stamp_does_not_move_the_slope() -> None:
    x = np.arange(90, dtype=float)
    y = 3 * x
    y[[0, 85, 89]] += 1e6
    assert slope(x, y) == 3


def test_idle_delays() -> None:
    found = idle(np.array([5, 1, 3, 2, 4] * 4) * 1000 + FAR)
    assert found == Idle(FAR + 3000, 1000.0, pytest.approx(2000, abs=300), 2000.0)
    assert idle(np.arange(9)) is None
