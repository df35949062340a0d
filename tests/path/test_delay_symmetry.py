"""Are both directions equally long: only as far as the bound of the clocks, or the length of the fibre, allows to say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkqual.session.delay_symmetry import FIBRE_NS_PER_KM, judge, most_ns

MS = 1_000_000


@pytest.mark.parametrize(
    ("forward", "reverse", "error", "verdict", "interval"),
    [
        (4.1, 9.8, 0.2, "asymmetric", (-6.1, -5.3)),
        (4.1, 9.8, 8, "undetermined", (-21.7, 10.3)),
        (10.085, 25.05, 0.1, "asymmetric", (-15.165, -14.765)),
        (10, 10.5, 0.2, "symmetric", (-0.9, -0.1)),
        (10, 12.2, 0.1, "undetermined", (-2.4, -2.0)),  # a tenth of the round trip lies within
        (0.2, 0.4, 0.1, "symmetric", (-0.4, 0)),  # at least a millisecond
        (12, 5, 0, "asymmetric", (7, 7)),
    ],
)
def test_a_difference_counts_beyond_twice_the_bound_alone(
    forward: float, reverse: float, error: float, verdict: str, interval: tuple[float, float]
) -> None:
    found = judge(round(forward * MS), round(reverse * MS), round((forward + reverse) * MS), round(error * MS))
    assert found.verdict == verdict
    assert (found.low_ns, found.high_ns) == tuple(round(end * MS) for end in interval)
    assert found.by == "clocks"


def test_without_a_bound_nothing_is_known() -> None:
    found = judge(4 * MS, 40 * MS, 44 * MS, None)
    assert (found.verdict, found.low_ns, found.high_ns, found.measured_ns) == ("undetermined", None, None, -36 * MS)
    assert not found.within(10**12)
    assert not found.beyond(0)


def test_the_length_of_the_fibre_alone_can_prove_that_both_are_alike() -> None:
    trip = round(2 * FIBRE_NS_PER_KM * 1000 + 0.9 * MS)
    found = judge(70 * MS, trip - 70 * MS, trip, None, 1000)
    assert (found.verdict, found.by) == ("symmetric", "fibre")
    assert judge(70 * MS, trip - 70 * MS, trip, None, 100).verdict == "undetermined"
    both = judge(
        5 * MS, trip - 5 * MS, trip, 2 * MS, 700
    )  # 3.822 ms either way by the fibre, 3.36 ms more forward by the clocks
    assert both.by == "both"
    assert (both.low_ns, both.high_ns) == (-round(3.822 * MS), round(3.36 * MS))


def test_bounds_that_exclude_each_other_are_none() -> None:
    found = judge(1 * MS, 11 * MS, 12 * MS, 100_000, 1000)
    assert (found.verdict, found.by, found.low_ns) == ("undetermined", "contradiction", None)
    assert most_ns(9 * MS, 1000) is None  # shorter than light takes: the length is not true


def test_a_length_that_cannot_be_true_is_not_used_and_says_so() -> None:
    one_clock = judge(4 * MS, 9 * MS, 13 * MS, 0, 1300)
    assert (one_clock.verdict, one_clock.by, one_clock.low_ns) == ("asymmetric", "clocks", -5 * MS)
    assert one_clock.untrue.endswith("one clock shows 5 ms")
    for error in (0, None):
        long = judge(4 * MS, 9 * MS, 13 * MS, error, 2000)
        assert long == replace(judge(4 * MS, 9 * MS, 13 * MS, error), untrue=long.untrue)
        assert long.untrue.startswith("light takes 19.48 ms")
    assert not judge(4 * MS, 9 * MS, 13 * MS, 0, 800).untrue


@given(st.integers(0, 50 * MS), st.integers(0, 50 * MS), st.integers(0, 20 * MS), st.floats(-1, 1), st.booleans())
def test_the_interval_always_holds_the_truth(forward: int, reverse: int, error: int, off: float, fibre: bool) -> None:
    offset = round(off * error)
    length = min(forward, reverse) / FIBRE_NS_PER_KM if fibre else None
    found = judge(forward + offset, reverse - offset, forward + reverse, error, length)
    truth = forward - reverse
    assert found.by != "contradiction"
    assert found.low_ns is not None
    assert found.high_ns is not None
    assert found.low_ns - 2 <= truth <= found.high_ns + 2
    if found.verdict == "asymmetric":
        assert abs(truth) > found.threshold_ns - 2
    if found.verdict == "symmetric":
        assert abs(truth) <= found.threshold_ns + 2
