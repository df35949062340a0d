"""Delay seen hop by hop: routers that answer slowly, and delay that persists to the end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkqual.model import Hop
from linkqual.session.hop_delay import Data, HopDelay, explain

MS = 1_000_000


def hops(*rtts: float | None) -> list[Hop]:
    """By their round trips in ms; None: silent. The last one is the far end."""
    return [
        Hop(ttl, f"10.0.{ttl}.1" if rtt is not None else None, (round(rtt * MS),) if rtt is not None else (), 1, 1)
        if ttl < len(rtts)
        else Hop(ttl, f"10.0.{ttl}.1", (round((rtt or 0) * MS),), 1, 1, reached=True)
        for ttl, rtt in enumerate(rtts, 1)
    ]


def test_a_hop_that_alone_is_slow() -> None:
    found = explain(hops(1, 2, 3, 33, 4, 5, 6), Data(6 * MS, 7 * MS))
    assert found.slow == (4,)
    assert "hop 4 takes 33 ms to answer, data packets and hops behind it no more than 4 ms" in found.because
    assert found.before is None


def test_delay_that_persists_is_the_lines() -> None:
    found = explain(hops(1, 2, 32, 33, 33.5), Data(33 * MS, 34 * MS))
    assert (found.slow, found.after, found.before) == ((), 2, 3)
    assert "30 ms of the round trip of 33 ms arise between hop 2 and hop 3 and persist to the end" in found.because


def test_both_at_once() -> None:
    found = explain(hops(1, 90, 2, 32, 33))
    assert (found.slow, found.after, found.before) == ((2,), 3, 4)


def test_an_end_that_answers_slowly_is_shown_by_the_data() -> None:
    """Its own ICMP, or the program that answers there."""
    rtts = hops(1, 2, 3, 40)
    assert explain(rtts).slow == ()
    assert explain(rtts).because.endswith("hop 3 and hop 4: delay of the line there, or an end that answers slowly")
    assert explain(rtts, Data(4 * MS, 5 * MS)).slow == (4,)


def test_silent_hops_widen_the_interval() -> None:
    found = explain(hops(1, None, None, 31, 32))
    assert (found.after, found.before) == (1, 4)


@pytest.mark.parametrize(
    ("rtts", "data"),
    [((5, 1, 2), Data(2 * MS, 8 * MS)), ((1, 2.5, 2, 3), None), ((None,), None), ((20, 20.5, 21), None)],
)
def test_what_varies_or_is_little_is_not_named(rtts: tuple[float | None, ...], data: Data | None) -> None:
    assert explain(hops(*rtts), data).slow == ()


def test_most_of_the_way_before_the_first_hop() -> None:
    found = explain(hops(20, 20.5, 21))
    assert (found.after, found.before) == (0, 1)
    assert "between this end and hop 1" in found.because


def test_a_trace_without_its_end_tells_of_no_line() -> None:
    assert explain(hops(1, 2, 32, 33)[:3]) == HopDelay()
    assert explain([]) == HopDelay()


@given(
    st.lists(st.floats(0.1, 20), min_size=2, max_size=12),
    st.dictionaries(st.integers(1, 11), st.floats(0, 500), max_size=5),
)
def test_the_way_is_never_called_slower_than_it_is(steps: list[float], late: dict[int, float]) -> None:
    """Links with delays of their own, and routers late by anything: named are only those that are."""
    way = [sum(steps[: k + 1]) for k in range(len(steps))]
    rtts = [delay + (late.get(ttl, 0) if ttl < len(steps) else 0) for ttl, delay in enumerate(way, 1)]
    found = explain(hops(*rtts), Data(round(way[-1] * MS), round(way[-1] * MS)))
    assert set(found.slow) <= {ttl for ttl, more in late.items() if more > 0}
    if found.before is not None:
        assert way[found.before - 1] - (way[found.after - 1] if found.after else 0) > 0
