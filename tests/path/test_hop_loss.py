"""Loss seen hop by hop: routers that limit their replies, and loss that is real."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkqual.model import Hop
from linkqual.session.hop_loss import Data, explain


def hops(sent: int, lost: dict[int, float], count: int, reached: bool = True) -> list[Hop]:
    """`count` hops asked `sent` times; `lost`: TTL -> ratio missing."""
    return [
        Hop(
            ttl,
            f"10.0.{ttl}.1",
            sent=sent,
            received=sent - round(sent * lost.get(ttl, 0)),
            reached=reached and ttl == count,
        )
        for ttl in range(1, count + 1)
    ]


def test_a_router_that_limits_its_replies_and_a_destination_that_does() -> None:
    found = explain(hops(500, {4: 0.38, 10: 0.012}, 10), Data(600_000, 0))
    assert found.kind == "limited"
    assert found.limited == (4, 10)
    assert "hop 4 (38 % missing) limits its replies" in found.because
    assert "1.2 % of ICMP replies missing from the destination are no loss of data" in found.because
    assert "0 of 600,000 data packets were lost" in found.because


def test_loss_from_one_hop_to_the_end_that_the_data_share_is_real() -> None:
    found = explain(hops(400, dict.fromkeys(range(4, 10), 0.03), 9), Data(600_000, 18_000))
    assert found.kind == "real"
    assert found.first_ttl == 4
    assert "real loss begins at or before hop 4" in found.because


@pytest.mark.parametrize(("first", "ratio"), [(2, 0.01), (6, 0.08), (7, 0.3), (1, 0.02)])
def test_where_real_loss_begins(first: int, ratio: float) -> None:
    found = explain(hops(3000, dict.fromkeys(range(first, 9), ratio), 8), Data(100_000, round(100_000 * ratio)))
    assert (found.kind, found.first_ttl) == ("real", first)


@pytest.mark.parametrize(("limiter", "ratio"), [(3, 0.6), (5, 0.9)])
def test_a_limiter_inside_real_loss_hides_neither(limiter: int, ratio: float) -> None:
    lost = dict.fromkeys(range(4, 9), 0.05) | {limiter: ratio}
    found = explain(hops(2000, lost, 8), Data(50_000, 2_500))
    assert (found.kind, found.first_ttl, found.limited) == ("real", 4, (limiter,))


def test_several_limiters() -> None:
    found = explain(hops(300, {2: 0.5, 5: 0.2, 6: 0.2}, 8), Data(10_000, 0))
    assert (found.kind, found.limited) == ("limited", (2, 5, 6))
    assert "limit their replies" in found.because


def test_without_data_loss_to_the_end_stays_open() -> None:
    found = explain(hops(400, dict.fromkeys(range(4, 10), 0.03), 9))
    assert found.kind == "undetermined"
    assert "only data packets decide" in found.because
    assert explain(hops(400, {4: 0.4}, 9)).kind == "limited"


def test_loss_of_data_that_no_hop_shows() -> None:
    found = explain(hops(30, {}, 6), Data(1_000_000, 40))
    assert (found.kind, found.first_ttl) == ("real", None)
    assert "do not show where" in found.because


def test_few_lost_replies_prove_nothing() -> None:
    assert explain(hops(10, {3: 0.1}, 5), Data(1000, 0)).kind != "real"
    assert explain(hops(100, {}, 5), Data(1000, 0)).kind == "none"
    assert explain([Hop(1, None, sent=3)], None).kind == "none"


# ---- any figures


def drawn(seed: int, asked: int, limits: dict[int, float], real: dict[int, float], count: int) -> list[Hop]:
    """Hops as a tool that asks each `asked` times would see them: data lost before a hop is missing there and behind it."""
    generator = np.random.default_rng(seed)
    found, alive = [], 1.0
    for ttl in range(1, count + 1):
        alive *= 1 - real.get(ttl, 0.0)
        received = int(generator.binomial(asked, alive * (1 - limits.get(ttl, 0.0))))
        found.append(Hop(ttl, f"10.0.{ttl}.1", sent=asked, received=received, reached=ttl == count))
    return found


LIMITS = st.dictionaries(st.integers(1, 12), st.floats(0.02, 0.98), max_size=8)


@given(seed=st.integers(0, 2**31), asked=st.integers(2, 3000), limits=LIMITS, data=st.integers(20_000, 10**7))
def test_routers_that_answer_less_never_make_loss_of_a_line_that_loses_nothing(
    seed: int, asked: int, limits: dict[int, float], data: int
) -> None:
    """The destination's own limit among them."""
    found = explain(drawn(seed, asked, limits, {}, 12), Data(data, 0))
    assert found.kind in {"none", "limited", "undetermined"}
    assert found.first_ttl is None
    assert set(found.limited) <= set(limits)
    assert "real loss" not in found.because


@given(
    seed=st.integers(0, 2**31),
    first=st.integers(1, 12),
    ratio=st.floats(0.02, 0.4),
    limits=st.dictionaries(st.integers(1, 12), st.floats(0.5, 0.9), max_size=4),
)
def test_loss_that_persists_to_the_end_is_real_and_not_laid_to_a_hop_behind_it(
    seed: int, first: int, ratio: float, limits: dict[int, float]
) -> None:
    """Whatever some of the routers limit besides. Each bound holds at 99.9 %, so a hop may be off by what chance does."""
    sent = 200_000
    lost = int(np.random.default_rng(seed).binomial(sent, ratio))
    hops_seen = drawn(seed, 2000, limits, {first: ratio}, 12)
    found = explain(hops_seen, Data(sent, lost))
    assert found.kind == "real"
    told = [ttl for ttl in range(first, 13) if ttl not in limits]
    if told and found.first_ttl is not None:
        assert set(range(found.first_ttl, first)) <= set(limits), (
            "it begins at or before that hop, never sooner than it does"
        )


def test_real_loss_begins_where_it_does_nearly_always() -> None:
    """400 lines, loss from a hop on and limiters at random; at most what the bounds allow is laid elsewhere."""
    generator = np.random.default_rng(19)
    missed = 0
    for seed in range(400):
        first = int(generator.integers(1, 10))
        ratio = float(generator.uniform(0.02, 0.3))
        limits = {int(ttl): 0.8 for ttl in generator.integers(1, 13, 2) if ttl != first}
        found = explain(drawn(seed, 3000, limits, {first: ratio}, 12), Data(400_000, round(400_000 * ratio)))
        assert found.kind == "real"
        missed += found.first_ttl != first
    assert missed <= 8
