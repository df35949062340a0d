"""A link that others use too: its capacity and what they leave, by the line through trains of different pace and by the distances of packets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from linkqual.bottleneck import Rate
from linkqual.session import topp
from linkqual.session.topp import Point, Spacing
from linkqual.session.train import Bounds

MBIT = 1_000_000
EACH = 1518
BOUNDS = Bounds(60_000_000, packet_bytes=1500, overhead_bytes=18)


def shaper(mbit: float, bucket: int = 16_000, queue_ms: float = 50) -> Rate:
    return Rate(round(mbit * MBIT), False, bucket, round(mbit * MBIT * queue_ms / 8000), "l2")


def held_up(capacity: float, others: float, *paces: float) -> list[Point]:
    """What a queue lets through: each gets its share of what comes."""
    return [Point(pace, capacity * pace / (pace + others)) for pace in paces for _ in range(2)]


# ---- the line through trains of different pace


@pytest.mark.parametrize("others", [20e6, 40e6])
def test_the_line_tells_the_capacity_from_what_others_take(others: float) -> None:
    found = topp.regression(held_up(100e6, others, 110e6, 140e6, 180e6, 240e6))
    assert found is not None
    assert found.capacity_bps[0] == pytest.approx(100e6, rel=1e-6)
    assert found.free_bps[0] == pytest.approx(100e6 - others, rel=1e-6)
    assert found.busy


def test_an_idle_link_has_a_line_through_the_origin() -> None:
    found = topp.regression(held_up(100e6, 0, 110e6, 240e6))
    assert found is not None
    assert found.capacity_bps[0] == pytest.approx(100e6)
    assert found.others_bps[0] == pytest.approx(0, abs=1)
    assert not found.busy


def test_noise_makes_the_interval_wide_and_it_holds_the_truth() -> None:
    chance = np.random.default_rng(4)
    inside = 0
    for _ in range(50):
        taken = [
            Point(point.offered_bps, point.rate_bps * chance.normal(1, 0.005))
            for point in held_up(100e6, 30e6, 110e6, 140e6, 180e6, 240e6)
        ]
        found = topp.regression(taken)
        assert found is not None
        value, low, high = found.capacity_bps
        assert low < value < high
        inside += low <= 100e6 <= high
    assert inside >= 43  # of 50 at 95 %


@pytest.mark.parametrize(
    "taken", [[], held_up(100e6, 20e6, 150e6), held_up(100e6, 20e6, 150e6, 160e6), held_up(100e6, 20e6, 150e6)[:3]]
)
def test_points_too_close_to_each_other_are_no_line(taken: list[Point]) -> None:
    assert topp.regression(taken) is None


# ---- distances


def arrivals(capacity: float, others: float, count: int = 1500, noise_ns: float = 10_000, size: int = 1018, seed: int = 1) -> np.ndarray:  # fmt: skip
    """Of a queue that others' packets of `size` bytes share, by chance, so many bit/s of them."""
    chance = np.random.default_rng(seed)
    ours = capacity - others
    between = chance.poisson(others / size / (ours / EACH), count)
    came = np.cumsum((EACH + between * size) * 8e9 / capacity)
    return (came + np.abs(chance.normal(0, noise_ns, count))).astype(np.int64)


@pytest.mark.parametrize(("mbit", "share"), [(25, 0.2), (25, 0.4), (80, 0.3)])
def test_the_shortest_distance_that_comes_often_is_the_capacity(mbit: float, share: float) -> None:
    came = arrivals(mbit * 1e6, share * mbit * 1e6)
    found = topp.spacing(np.arange(len(came)), came, EACH, int(came[-1]))
    assert found is not None
    assert found.capacity_bps == pytest.approx(mbit * 1e6, rel=found.error)
    assert found.error < 0.01
    assert found.rate_bps == pytest.approx((1 - share) * mbit * 1e6, rel=0.05)
    assert not found.behind


def test_where_lost_packets_leave_their_places_empty_another_link_drops_them() -> None:
    came = arrivals(36e6, 0)
    kept = np.sort(np.random.default_rng(2).permutation(len(came))[: int(0.7 * len(came))])
    found = topp.spacing(kept, came[kept], EACH, int(came[-1]))
    assert found is not None
    assert found.behind


def test_distances_all_over_the_place_say_nothing() -> None:
    came = np.sort(np.random.default_rng(3).uniform(0, 1e9, 1500)).astype(np.int64)
    assert topp.spacing(np.arange(1500), came, EACH, 10**9) is None
    assert topp.spacing(np.arange(1500), np.repeat(came[::5], 5), EACH, 10**9) is None  # stamps of five at once
    assert topp.spacing(np.arange(20), came[:20], EACH, 10**9) is None


# ---- both


def test_both_ways_together() -> None:
    spaced = Spacing(100e6, 0.004, 70e6)
    points = held_up(100e6, 30e6, 120e6, 150e6)
    both = topp.together(70e6, spaced, points)
    assert both is not None
    assert (both.by, both.busy) == ("both", True)
    assert both.free_bps[0] == pytest.approx(70e6, rel=0.01)
    alone = topp.together(70e6, spaced, points[:2])
    assert alone is not None
    assert alone.by == "spacing"


def test_ways_that_contradict_each_other_say_nothing() -> None:
    spaced = Spacing(100e6, 0.004, 70e6)
    assert topp.together(70e6, spaced, held_up(80e6, 12e6, 120e6, 150e6)) is None
    assert topp.together(70e6, spaced, []) is None  # nothing says what others take
    assert (
        topp.together(70e6, spaced, [Point(100e6, 99e6), Point(130e6, 99e6)]) is None
    )  # a policer's: less than got through


def test_others_that_would_leave_nothing_are_not_believed() -> None:
    """A host that paused made the train so slow."""
    assert topp.together(70e6, Spacing(100e6, 0.004, 70e6), held_up(100e6, 150e6, 120e6)) is None


def test_nobody_between_ours_is_nobody_unless_faster_trains_showed_more() -> None:
    spaced = Spacing(100.5e6, 0.004, 100e6)
    alone = topp.together(100e6, spaced, [])
    assert alone is not None
    assert not alone.busy
    assert alone.free_bps[0] == 100e6
    assert topp.together(100e6, spaced, [], faster_bps=150e6) is None
    turns = topp.together(100e6, spaced, held_up(150e6, 60e6, 160e6, 200e6), faster_bps=150e6)
    assert turns is not None
    assert (turns.by, round(turns.capacity_bps[0] / 1e6)) == ("regression", 150)


def test_a_line_beyond_what_any_train_showed_is_not_believed() -> None:
    assert topp.together(100e6, None, held_up(300e6, 200e6, 160e6, 200e6), faster_bps=150e6) is None


def test_of_the_hosts_own_queue_others_take_the_rest() -> None:
    found = topp.together(70e6, Spacing(100e6, 0.004, 70e6), [], own=True)
    assert found is not None
    assert found.others_bps[0] == pytest.approx(30e6)


# ---- whole searches over chains in memory


def test_random_chains_that_others_use(chains: Any) -> None:
    errors, named, firm = [], 0, 0
    for seed in range(1, 13):
        rates = chains.random_rates(seed)
        found, _ = chains.measure(chains.chain_of(rates, "cross", seed), BOUNDS)
        least = min(rate.bps for rate in rates)
        good = chains.right(rates, found)
        named += good
        error = abs(found.rate_bps[0] / least - 1)
        errors.append(error)
        firm += found.confidence == "high"
        if found.confidence == "high":
            assert good, seed
            assert error < 0.05, seed
        if found.free_bps and error < 0.01:
            free = least - chains.OTHERS[seed % 2] * least
            assert found.free_bps[1] * 0.9 <= free <= found.free_bps[2] * 1.1, seed
    assert named >= 11
    assert firm >= 6
    assert np.median(errors) < 0.002


def test_capacity_and_what_is_free_are_two_numbers(chains: Any) -> None:
    chain = chains.MemoryChain((shaper(120), shaper(40), shaper(90)), others_bps=8e6)
    found, search = chains.measure(chain, BOUNDS)
    assert (found.named, found.confidence, found.busy) == (2, "high", True)
    assert found.rate_bps[0] == pytest.approx(40e6, rel=0.003)
    assert found.free_bps[0] == pytest.approx(32e6, rel=0.03)
    assert search.rate_bps < 37e6  # what came through


def test_what_cannot_be_told_from_others_is_never_sure(chains: Any) -> None:
    """Stamps too coarse for distances, time too short for other paces."""
    chain = chains.MemoryChain((shaper(120), shaper(40), shaper(90)), others_bps=12e6, noise_ns=3_000_000)
    found, _ = chains.measure(chain, BOUNDS, 3 * 10**9)
    assert found.confidence in ("low", "medium")


def test_packets_let_go_several_at_once_are_no_capacity() -> None:
    batched = topp.Spacing(5.1e9, 0.004, 100e6)
    assert topp.together(100e6, batched, (), own=True) is None
    shared = topp.together(100e6, topp.Spacing(150e6, 0.004, 100e6), (), own=True)
    assert shared is not None
    assert shared.others_bps[0] == pytest.approx(50e6)
