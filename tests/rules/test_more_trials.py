"""How many more trials are said to decide an open line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from linkqual.rules.proportion import Sample, more_trials
from linkqual.stats.boundaries import pass_after


@given(
    n=st.integers(10_000, 2_000_000),
    events=st.integers(0, 4),
    size=st.integers(1, 20),
    limit=st.sampled_from([1e-3, 1e-4, 1e-5]),
    assumed=st.sampled_from([1.0, 10.0, 100.0]),
)
def test_so_many_good_ones_prove_a_limit_while_measuring(
    n: int, events: int, size: int, limit: float, assumed: float
) -> None:
    sample = Sample(n, events * size, events, limit, assumed=assumed)
    share = max(sample.ratio, events / n * sample.burst)
    more = more_trials(sample, sequential=True)
    if more is not None and share < limit:
        assert n + more >= pass_after(limit, events, burst=sample.burst)


def test_a_late_event_asks_for_more_than_one_packet() -> None:
    more = more_trials(Sample(575_771, 6, 1, 1e-3, assumed=100), sequential=True)
    assert more is not None
    assert more > 10_000
