"""The search for the narrowest hop over chains in memory (benchmarks/narrow_chain.py makes them): the right link and rate, or honestly less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from linkqual.bottleneck import Rate
from linkqual.errors import UsageError
from linkqual.model import Direction, NarrowResult
from linkqual.session import prefix_train
from linkqual.session.load_phase import Phase
from linkqual.session.narrow import Narrow
from linkqual.session.narrow_result import result
from linkqual.session.train import Bounds
from linkqual.stats.arrival_curve import Idle

MBIT = 1_000_000
BOUNDS = Bounds(60_000_000, packet_bytes=1500, overhead_bytes=18)


def shaper(mbit: float, bucket: int = 16_000, queue_ms: float = 50) -> Rate:
    return Rate(round(mbit * MBIT), False, bucket, round(mbit * MBIT * queue_ms / 8000), "l2")


def test_random_chains(chains: Any) -> None:
    errors, named = [], 0
    for seed in range(1, 21):
        rates = chains.random_rates(seed)
        found, _ = chains.measure(chains.MemoryChain(rates, seed, stalls=0.5), BOUNDS)
        named += chains.right(rates, found)
        assert found.sent_bytes <= BOUNDS.most_bytes
        assert sum(found.expired) <= 10_667 + 3 * len(found.expired)  # what the plan says of 60 MB, and the climb
        errors.append(abs(found.rate_bps[0] / min(rate.bps for rate in rates) - 1))
    assert named >= 19  # one in sixty: a deep bucket behind a wider link, not yet empty when its prefix ended
    assert np.median(errors) < 0.001
    assert sum(error > 0.01 for error in errors) <= 2  # a deep bucket hidden by a link hardly wider


def test_random_policers(chains: Any) -> None:
    named = 0
    for seed in range(1, 21):
        rates = chains.random_rates(seed, True)
        found, _ = chains.measure(chains.MemoryChain(rates, seed), BOUNDS)
        named += chains.right(rates, found)
    assert named >= 19


def test_a_deep_bucket_behind_a_wider_link_is_outlasted(chains: Any) -> None:
    """Two short trains would agree on the 100 of link 1: that is where a method without a least duration ends, at five times the rate."""
    found, search = chains.measure(chains.MemoryChain((shaper(100), shaper(150), shaper(20, 1_000_000))), BOUNDS)
    assert found.named == 3
    assert found.rate_bps[0] == pytest.approx(20 * MBIT, rel=0.001)
    assert found.outlasted
    assert found.confidence == "high"
    assert found.bucket_bytes == pytest.approx(1_000_000, rel=0.05)
    assert search.trains.taken[-1].steady_ns >= 500_000_000


def test_each_link_before_the_narrowest_has_its_capacity(chains: Any) -> None:
    rates = (shaper(90), shaper(200), shaper(70), shaper(60), shaper(300))
    found, _ = chains.measure(chains.MemoryChain(rates), BOUNDS, 10**10)
    seen = {one.number: one for one in found.seen}
    assert [round((seen[number].rate_bps or 0) / MBIT) for number in (1, 2, 3, 4)] == [90, 90, 70, 60]
    assert [seen[number].narrow for number in (1, 2, 3, 4)] == [False, False, False, True]
    assert (found.named, found.narrow, found.kind) == (4, (4,), "shaper")
    assert len(found.expired) == 4
    assert min(found.expired) > 100


def test_links_nearly_as_narrow_are_all_named(chains: Any) -> None:
    found, _ = chains.measure(chains.MemoryChain((shaper(200), shaper(66), shaper(200), shaper(60))), BOUNDS)
    assert (found.named, found.narrow) == (4, (2, 4))


def test_the_first_of_equal_links_is_named(chains: Any) -> None:
    found, _ = chains.measure(chains.MemoryChain((shaper(200), shaper(60), shaper(200), shaper(60))), BOUNDS)
    assert (found.named, found.narrow) == (2, (2,))


def test_a_policer_is_counted_from_losses_and_never_sure(chains: Any) -> None:
    policer = Rate(50 * MBIT, True, 125_000, 0, "l2")
    found, _ = chains.measure(chains.MemoryChain((shaper(200), policer, shaper(200))), BOUNDS)
    assert (found.named, found.kind, found.confidence, found.buffer_ns) == (2, "policer", "medium", None)
    assert found.rate_bps[0] == pytest.approx(50 * MBIT, rel=0.001)


def test_a_sender_that_is_the_limit_says_so(chains: Any) -> None:
    found, _ = chains.measure(chains.MemoryChain((shaper(400), shaper(400)), fastest_bps=100e6), BOUNDS)
    assert (found.kind, found.named, found.rate_bps) == ("none", 0, None)
    assert 90 * MBIT < found.at_least_bps < 100 * MBIT * 1518 / 1500  # the rest may hide behind a bucket of 1 MB
    assert "the sender was the limit" in found.because


def test_too_few_bytes_name_no_link(chains: Any) -> None:
    bounds = Bounds(2_000_000, packet_bytes=1500, overhead_bytes=18)
    found, _ = chains.measure(chains.MemoryChain((shaper(200), shaper(60, 400_000), shaper(200))), bounds)
    assert found.sent_bytes <= 2_000_000
    assert found.confidence in ("", "low")
    assert not found.outlasted


NONE = np.empty(0, np.int64)


def test_nothing_that_arrives_ends_the_search() -> None:
    search, lengths = Narrow(BOUNDS), []
    while (ask := search.next()) is not None:
        lengths.append(ask.train.longest)
        search.took(96, NONE, NONE, NONE)
    assert lengths == [1500, 1400, 1280, 576]
    found = result(Direction.FORWARD, search, counts="l2")
    assert (found.kind, found.links, found.because) == (
        "unknown",
        0,
        "no packets of ours reach the far end, so nothing was measured",
    )


def test_a_train_of_which_nothing_arrives_says_what_stood_still(chains: Any) -> None:
    search, chain = Narrow(BOUNDS), chains.MemoryChain((shaper(50),))
    ask = search.next()
    assert ask is not None
    search.took(ask.train.packets, *chain.run(ask.train))
    while (ask := search.next()) is not None:
        search.took(ask.train.packets, NONE, NONE, NONE)
    found = result(Direction.FORWARD, search, counts="l2")
    assert (found.kind, found.links) == ("unknown", 1)
    assert "stood still" in found.because


def test_shorter_packets_where_longer_ones_do_not_fit() -> None:
    search = Narrow(BOUNDS)
    assert search.next() is not None
    search.took(108, NONE, NONE, NONE)
    ask = search.next()
    assert ask is not None
    assert ask.train.longest == 1400
    numbers = np.arange(2 * prefix_train.EACH_TTL, ask.train.packets)
    search.took(ask.train.packets, numbers, numbers * 2_000_000, numbers * 2_000_000 + 1_000_000)
    assert (search.links, search.expired) == (3, {1: 6, 2: 6})
    ask = search.next()
    assert ask is not None
    assert (ask.train.name, ask.train.longest) == ("search", 1400)
    assert result(Direction.FORWARD, search, counts="l2").packet_bytes == 1400


def climbed(links: int) -> Narrow:
    """A search that knows how many links there are."""
    search = Narrow(BOUNDS)
    ask = search.next()
    assert ask is not None
    numbers = np.arange((links - 1) * prefix_train.EACH_TTL, ask.train.packets)
    search.took(ask.train.packets, numbers, numbers * 2_000_000, numbers * 2_000_000 + 1_000_000)
    return search


@pytest.mark.parametrize("links", [1, 2, 7, 31])
def test_the_first_ttl_that_arrives_counts_the_links(links: int) -> None:
    search = climbed(links)
    assert search.links == links
    assert sorted(search.expired) == list(range(1, links))


def test_a_slower_prefix_refutes_the_rate(chains: Any) -> None:
    chain = chains.MemoryChain((shaper(100), shaper(60)))
    search = Narrow(BOUNDS)
    while (ask := search.next()) and ask.train.name != "prefix":
        search.took(ask.train.packets, *chain.run(ask.train))
    assert ask is not None
    assert search.rate_bps == pytest.approx(60 * MBIT, rel=0.001)
    markers = np.flatnonzero(~prefix_train.expiring(ask.train, 0, ask.train.packets))
    gap = 1518 * 8 * 1000 / 40  # ns at 40 Mbit/s: slower than the whole way
    assert search.base is not None
    came = (markers * gap).astype(np.int64) + search.base.delay_ns
    search.took(ask.train.packets, markers, markers * int(gap / 3), came)
    assert search.refuted == 1
    assert search.rate_bps == pytest.approx(40 * MBIT, rel=0.01)
    again = search.next()
    assert again is not None
    assert (again.train.name, again.train.expire_at) == ("long", 1)
    assert result(Direction.FORWARD, search, counts="l2", interrupted=True).named == 0


def test_a_host_that_slows_down_names_no_link(chains: Any) -> None:
    chain = chains.MemoryChain((shaper(100), shaper(60), shaper(80)))
    search = Narrow(BOUNDS)
    while ask := search.next():
        chain.fastest_bps = 62e6 if ask.train.expire_at else 7e8
        chain.now += ask.wait_ns + 50_000_000
        search.took(ask.train.packets, *chain.run(ask.train))
    found = result(Direction.FORWARD, search, counts="l2")
    assert found.rate_bps is not None
    assert found.rate_bps[0] == pytest.approx(60 * MBIT, rel=0.001)
    assert (found.named, found.confidence) == (0, "low")
    assert "the sending host is hardly faster than the line" in found.because


def test_an_interrupted_search_says_what_it_knows(chains: Any) -> None:
    chain = chains.MemoryChain((shaper(200), shaper(60), shaper(200)))
    search = Narrow(BOUNDS)
    while (ask := search.next()) and not ask.train.expire_at:
        search.took(ask.train.packets, *chain.run(ask.train))
    found = result(Direction.FORWARD, search, counts="l2", interrupted=True)
    assert found.rate_bps is not None
    assert (found.named, found.narrow, found.confidence) == (0, (), "low")
    assert found.because == "it was ended before a limit was seen for certain"


def test_bytes_or_time_that_were_spent_say_what_to_do(chains: Any) -> None:
    chain = chains.MemoryChain((shaper(200), shaper(60), shaper(200)))
    search = Narrow(BOUNDS)
    while (ask := search.next()) and not search.trains.outlasted:
        search.took(ask.train.packets, *chain.run(ask.train))
    search.prefixes.clear()
    for why, advice in (("bytes", "allow more (bytes of narrow in the profile"), ("time", "run it again")):
        search.ended = why
        said = result(Direction.FORWARD, search, counts="l2").because
        assert advice in said
        assert "routers were looked at" in said


def test_no_search_takes_longer_than_it_may(chains: Any) -> None:
    for seed in (2, 16, 28, 89, 127):  # deep buckets, near ties, seven links
        chain = chains.MemoryChain(chains.random_rates(seed), seed, delay_ns=12_500_000)
        chains.measure(chain, BOUNDS)
        assert chain.now < 5.5e9, seed


def test_what_the_time_did_not_allow_lowers_the_confidence(chains: Any) -> None:
    rates = chains.random_rates(2)
    found, search = chains.measure(chains.MemoryChain(rates, 2), BOUNDS, 2_200_000_000)
    assert search.ended in ("time", "done")
    assert found.confidence == "low"


def test_a_deep_bucket_behind_a_short_queue_is_found_by_the_ladder(chains: Any) -> None:
    """What the last link drops has taken tokens of the second, whose bucket so seems a third as deep: prefixes sent one by one find it full."""
    rates = (shaper(336, 15_000, 85), shaper(24, 750_000, 62), shaper(376, 15_000, 82), shaper(29, 13_000, 28))
    found, search = chains.measure(chains.MemoryChain(rates, 126), BOUNDS)
    assert found.named == 2
    assert set(search.prefixes.ladder) == {1, 2, 3}
    assert search.prefixes.ladder[1].times > 1.5


def held_up(at_once: int, waiting: int, loses: bool = False, full: int = 80) -> Narrow:
    """A search whose sender goes no faster than packets come out at the other end, at 40 Mbit/s; its queue takes so many at once, and so many wait there."""
    search = climbed(3)
    takes = 1518 * 8 * 1000 / 40  # ns of a packet
    while (ask := search.next()) is not None and ask.train.expire_at != 2:
        count = ask.train.packets  # of the search
        assert ask.train.name == "search"
        number = np.arange(count)
        left = np.maximum(number * 1000, (number - (count if loses else waiting)) * takes).astype(np.int64)
        search.took(count, number, left, (number * takes).astype(np.int64) + 1_000_000, 0, full)
    assert ask is not None
    count = round(ask.train.packets * 0.6)  # its time ends it
    number = np.arange(count)
    left = np.maximum(0, (number // at_once * at_once - waiting) * takes).astype(np.int64) + number % at_once
    came = (number * takes).astype(np.int64) + 1_000_000
    here = (number < count * 0.6) | (number % 50 > 0) if loses else number >= 0
    search.took(count, number[here], left[here], came[here], 0, full)
    return search


@pytest.mark.parametrize("at_once", [1, 33])
def test_the_hosts_own_queue_is_link_1_without_more_trains(at_once: int) -> None:
    """A sender held up by its own queue leaves no faster than packets come out at the other end, and all of them waited."""
    search = held_up(at_once, 130)
    assert search.prefixes.own
    assert search.next() is None
    found = result(Direction.FORWARD, search, counts="l2")
    assert (found.named, found.kind, found.confidence) == (1, "shaper", "high")
    assert found.rate_bps[0] == pytest.approx(40 * MBIT, rel=0.001)
    assert "its own queue" in found.because
    assert [one.number for one in found.seen] == [1]


def test_more_cannot_arrive_than_left() -> None:
    """What held packets up let them go in bunches: the distances between those say nothing of the line."""
    search = climbed(3)
    ask = search.next()
    assert ask is not None
    number = np.arange(ask.train.packets)
    search.took(len(number), number, number * 500_000, number[-1] * 500_000 + number * 1000 + 10**9)
    assert search.trains.taken[0].void
    assert not search.rate_bps


def test_where_packets_hardly_wait_the_hosts_own_limit_may_refuse_them() -> None:
    search = held_up(1, 20)
    assert search.prefixes.own
    assert result(Direction.FORWARD, search, counts="l2").kind == "limit"


def test_a_host_held_up_while_packets_are_lost_further_on_is_not_the_limit() -> None:
    assert not held_up(33, 130, loses=True).prefixes.own


def test_a_host_that_is_as_slow_as_the_line_by_chance_is_not_held_up() -> None:
    """Its own queue never was full: for want of CPU time it sent no faster."""
    assert not held_up(33, 130, full=0).prefixes.own


@pytest.mark.parametrize("share", [0.8, 1.05])
def test_a_starved_sender_gives_no_link_and_no_wrong_number(chains: Any, share: float) -> None:
    for seed in range(1, 9):
        rates = chains.random_rates(seed)
        least = min(rate.bps for rate in rates)
        found, _ = chains.measure(chains.MemoryChain(rates, seed, fastest_bps=share * least), BOUNDS)
        if found.kind == "none":
            assert found.at_least_bps <= least
        elif found.confidence != "low":
            assert chains.right(rates, found)
            assert found.rate_bps[0] == pytest.approx(least, rel=0.05)


def test_a_policer_behind_a_wider_shaper_is_one(chains: Any) -> None:
    policer = Rate(21 * MBIT, True, 73_000, 0, "l2")
    found, _ = chains.measure(chains.MemoryChain((shaper(179), shaper(31), shaper(193), policer)), BOUNDS)
    assert (found.named, found.kind) == (4, "policer")
    assert found.rate_bps[0] == pytest.approx(21 * MBIT, rel=0.002)


def test_what_does_not_wait_before_the_limit_itself_is_no_shaper(chains: Any) -> None:
    """A policer, or a shaper with a queue of a packet or two, behind a wider link that queues."""
    for last in (Rate(23 * MBIT, True, 104_000, 0, "l2"), Rate(23 * MBIT, False, 104_000, 3_000, "l2")):
        found, _ = chains.measure(chains.MemoryChain((shaper(60), shaper(28, 200_000, 100), last)), BOUNDS)
        assert found.rate_bps[0] == pytest.approx(23 * MBIT, rel=0.01)
        assert found.kind in {"policer", "limit"}


# ---- ladders


def test_a_ladder_goes_all_the_way_then_expires_one_router_earlier_each_rung() -> None:
    phase = Phase("long", 100 * MBIT, packets=1000, expire_at=3, lead=400, rung=200, marker_in=2)
    ttls = prefix_train.ttls(phase, 0, 1000)
    assert not ttls[:400].any()
    for rung, router in enumerate((3, 2, 1)):
        part = ttls[400 + 200 * rung : 600 + 200 * rung]
        assert set(part.tolist()) == {0, router}
        assert (part > 0).mean() == pytest.approx(0.5, abs=0.12)
    parts = [prefix_train.ttls(phase, first, 50) for first in range(0, 1000, 50)]
    assert (np.concatenate(parts) == ttls).all()


def test_rungs_are_counted_from_what_a_full_queue_let_through() -> None:
    phase = Phase("long", 90 * MBIT, packets=3000, expire_at=2, lead=1000, rung=1000, marker_in=2)
    chance = np.random.default_rng(7)
    goes = ~prefix_train.expiring(phase, 0, 3000)
    sent = np.arange(3000) * 1500 * 8 * 1000 // 90  # ns
    kept = goes & (chance.random(3000) < 50 / 91)  # 50 of the 91 Mbit/s that were offered
    kept[2000:] = goes[2000:]  # behind the last router nothing is slow
    number = np.flatnonzero(kept)
    two, one = prefix_train.rungs(phase, 1518, number, sent[kept], sent[kept] + 20_000_000, 50e6)
    assert (two.router, one.router) == (2, 1)
    assert two.times == pytest.approx(1, abs=3 * two.error)
    assert one.times == pytest.approx(91 / 50, abs=0.1)
    slow = (sent[kept] * 1.7).astype(np.int64)  # a sender that paused says nothing
    assert prefix_train.rungs(phase, 1518, number, slow, slow + 20_000_000, 50e6) == []


# ---- one train


def load(router: int = 2, packets: int = 1200) -> Phase:
    return Phase("prefix", 100 * MBIT, packets=packets, expire_at=router, marker_in=3)


def test_markers_are_drawn_by_chance_and_the_first_are_markers() -> None:
    dies = prefix_train.expiring(load(packets=10_000), 0, 10_000)
    assert not dies[: prefix_train.FIRST].any()
    assert dies.mean() == pytest.approx(2 / 3, abs=0.02)
    parts = [prefix_train.expiring(load(), first, 7) for first in range(0, 9_996, 7)]
    assert (np.concatenate(parts) == dies[: 7 * 1428]).all()  # however they are asked for
    assert set(prefix_train.ttls(load(5), 0, 100).tolist()) == {0, 5}
    assert not prefix_train.ttls(Phase("whole", MBIT, packets=10), 0, 10).any()


def test_ttls_climb() -> None:
    phase = Phase("climb", MBIT, packets=9, climbing=True)
    assert prefix_train.ttls(phase, 2, 5).tolist() == [1, 2, 2, 2, 3]


@pytest.mark.parametrize("bad", [{"expire_at": 256}, {"expire_at": -1}, {"marker_in": 0}])
def test_a_phase_that_cannot_be_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        Phase("bad", MBIT, packets=1, **bad)  # type: ignore[arg-type]


def test_too_few_markers_say_nothing() -> None:
    numbers = np.arange(0, 30, 3)
    train = prefix_train.read(load(), 1518, numbers, numbers * 1000, numbers * 1000, Idle(0, 0, 0))
    assert (train.rate_bps, train.void) == (None, "too few packets arrived")


def test_what_the_receiving_host_drops_is_not_the_lines() -> None:
    markers = np.flatnonzero(~prefix_train.expiring(load(), 0, 1200))
    train = prefix_train.read(load(), 1518, markers, markers * 1000, markers * 3000, Idle(0, 0, 0), host_lost=20)
    assert (train.rate_bps, train.void) == (None, "the receiving host itself dropped packets")


def test_confidence_falls_when_a_longer_part_carries_more(chains: Any) -> None:
    """Another's load on the first link while its prefix was measured: its rate is no capacity."""
    found, search = chains.measure(chains.MemoryChain((shaper(200), shaper(60), shaper(200))), BOUNDS)
    assert found.confidence == "high"
    taken = search.prefixes.taken
    taken[1] = [prefix_train.PrefixTrain(1, 100e6, 300, 0.0, 62e6, span_ns=10**9, rise_ns=10**7)]
    taken[2] = [prefix_train.PrefixTrain(2, 100e6, 300, 0.0, 75e6, span_ns=10**8, rise_ns=10**7)]
    doubted: NarrowResult = result(Direction.FORWARD, search, counts="l2")
    assert doubted.confidence == "low"
    assert "a longer part of the way carried more" in doubted.because
