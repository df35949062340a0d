"""One flow against many: caps and bundles told from a limit of all, on buckets in memory."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from linkqual.bottleneck import Rate
from linkqual.session.flow_sharing import Sharing, groups, read, shared
from linkqual.session.load_schedule import flow_of
from linkqual.stats.load_rates import chance_of_room, flow_rates, steady_bps

from ..rules.seeded_lines import SHARE, flow_count

LOAD = 50e6 * SHARE


def phases(rate: Rate | None, seed: int, flows: tuple[int, ...] = (1, 4, 16, 64)) -> Sharing:
    return read([flow_count(rate, count, LOAD, seed + count, seconds=1, bundle=seed) for count in flows])


def test_one_flow_that_carries_all_of_it_needs_no_second() -> None:
    found = phases(None, 1)
    assert found.kind == "whole"
    assert phases(Rate(60_000_000), 2).kind == "whole"


@pytest.mark.parametrize("policer", [False, True])
def test_a_limit_of_all_flows_is_no_limit_of_each(policer: bool) -> None:
    found = phases(Rate(30_000_000, policer, 60_000, 200_000), 3)
    assert found.kind == "line"
    assert found.bps == pytest.approx(30e6 * SHARE, rel=0.02)


@pytest.mark.parametrize(("policer", "share"), [(False, 0.15), (True, 0.15), (False, 0.6), (True, 0.33)])
def test_a_cap_holds_every_flow_alike(policer: bool, share: float) -> None:
    found = phases(Rate(50_000_000, policer, 60_000, 60_000, per_flow_bps=round(share * 50e6)), 4)
    assert found.kind == "cap"
    assert found.bps == pytest.approx(share * LOAD, rel=0.02)
    assert found.best_bps == pytest.approx(LOAD, rel=0.03)


@pytest.mark.parametrize("seed", range(6))
def test_members_of_a_bundle_are_counted_by_their_size(seed: int) -> None:
    found = phases(Rate(50_000_000, False, 16_000, 30_000, members=4), seed)
    assert found.kind == "members"
    assert found.members == 4
    assert found.bps == pytest.approx(LOAD / 4, rel=0.02)


def test_crowded_flows_fill_whole_members() -> None:
    """Of four flows two, three or four share a member, or each has one of its own, as the hash would have it."""
    rate = Rate(50_000_000, False, 16_000, 30_000, members=4)
    for seed in range(30):
        found = read([flow_count(rate, flows, LOAD, seed + flows, seconds=1, bundle=seed) for flows in (1, 4)])
        if found.kind == "members":
            assert found.whole_members
            assert 1 <= found.full <= 2
            assert 2 * found.full <= found.crowded <= 4
        else:
            assert found.kind in ("cap", "line", "unknown")  # one on each, all on one, two on each of two
            assert found.chance is None or found.chance > 0.05  # four flows prove no cap


def test_a_host_that_drops_or_cannot_send_tells_nothing() -> None:
    one, many = (flow_count(Rate(20_000_000), flows, LOAD, 5) for flows in (1, 4))
    assert read([replace(one, host_lost=one.lost), many]).kind == "unknown"
    assert read([replace(one, short="interrupted"), many]).kind == "unknown"
    assert read([many]).kind == "unknown"
    assert read([one]).because.startswith("no load of four flows")
    weak = replace(flow_count(None, 1, LOAD / 2, 6), asked_bps=round(LOAD))
    assert "the sending host could not load" in read([weak, many]).because


def test_rates_of_flows_are_those_after_the_bucket_was_empty() -> None:
    count = flow_count(Rate(30_000_000, True, 500_000), 4, LOAD, 7)
    assert count.rate_bps is not None
    assert count.rate_bps > 1.05 * 30e6 * SHARE  # the whole phase has the bucket in it
    assert steady_bps(count) == pytest.approx(30e6 * SHARE, rel=0.01)
    assert sum(flow_rates(count)) == pytest.approx(steady_bps(count))


@pytest.mark.parametrize(
    ("flows", "members", "most", "chance"), [(4, 4, 1, 24 / 256), (2, 2, 1, 0.5), (3, 3, 3, 1.0), (16, 4, 4, 0.014683)]
)
def test_chance_of_an_even_hash(flows: int, members: int, most: int, chance: float) -> None:
    assert chance_of_room(flows, members, most) == pytest.approx(chance, rel=1e-3)


@pytest.mark.parametrize(
    ("rates", "filled"),
    [
        ([9.4, 3.1, 3.1, 3.1, 2.35, 2.35, 2.35, 2.35], (1, 3, 4)),
        ([11.6, 6.0, 5.7, 3.9, 3.8, 3.95], (1, 2, 3)),
        ([5.0, 4.9, 5.1, 5.0], None),  # all alike: nothing to see
        ([9.0, 3.0, 1.0], None),
        ([6.0, 3.0], None),
    ],
)
def test_streams_grouped_by_the_member_they_share(rates: list[float], filled: tuple[int, ...] | None) -> None:
    found = groups(rates)
    assert (found[1] if found else None) == filled


def test_rates_at_random_are_hardly_ever_a_bundle() -> None:
    chance = random.Random(1)
    taken = [groups([chance.uniform(0.3, 1.7) for _ in range(8)]) for _ in range(2000)]
    assert sum(one is not None for one in taken) <= 2


@pytest.mark.parametrize("flows", [1, 2, 7, 16, 64])
def test_every_flow_sends_once_a_round_and_none_always_first(flows: int) -> None:
    turns = [flow_of(turn, flows) for turn in range(400 * flows)]
    rounds = [turns[at : at + flows] for at in range(0, len(turns), flows)]
    assert all(sorted(one) == list(range(flows)) for one in rounds)
    first = [one[0] for one in rounds]
    assert max(first.count(flow) for flow in range(flows)) <= 1.3 * 400 / flows + 1


def test_flows_that_share_a_member_divide_it_about_evenly() -> None:
    """Two flows in turn through a policer of half their rate: in fixed order one of them would get all of it."""
    count = flow_count(Rate(25_000_000, True, 3100), 2, LOAD, 8)
    (_, one, _), (_, other, _) = count.by_flow
    assert min(one, other) > 0.8 * max(one, other)


@pytest.mark.parametrize(
    ("rates", "member", "full"),
    [
        ([27.2, 27.2, 12.7, 14.6], 27.2, 3),  # as four streams were seen on four members
        ([27.2, 6.0, 6.8, 7.5, 3.8, 6.5, 3.7, 5.2, 4.0, 4.2, 6.0, 5.6, 6.6, 5.4, 6.3, 4.2], 27.2, 4),
        ([10.0, 10.0, 10.0, 10.0], 10.0, None),  # a cap, or one each: nobody shares
        ([6.3] * 16, 9.9, None),  # a cap, and the line full
        ([9.9, 9.9, 6.0, 6.0], 9.9, None),  # 1.2 members
        ([10.0, 5.0], 10.0, None),  # one alone cannot fill half
        ([10.0, 10.0], 20.0, None),  # two share the line
    ],
)
def test_streams_that_have_a_member_for_themselves_and_those_that_share(
    rates: list[float], member: float, full: int | None
) -> None:
    assert shared(rates, member) == full
