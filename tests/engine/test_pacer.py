"""When packets are due."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual.errors import UsageError
from linkqual.session.pacer import Periodic, pacer

S = 1_000_000_000


@pytest.mark.parametrize(
    ("rate", "elapsed_ns", "sent", "limit", "due"),
    [
        (1000, -1, 0, 64, 0),
        (1000, 0, 0, 64, 1),
        (1000, 999_999, 0, 64, 1),
        (1000, 1_000_000, 0, 64, 2),
        (1000, 1_000_000, 1, 64, 1),
        (1000, 1_000_000, 2, 64, 0),
        (1000, S, 0, 64, 64),  # never more than asked for
        (1000, S, 2000, 64, 0),  # ahead of the schedule
        (0.5, 2 * S - 1, 0, 64, 1),
        (0.5, 2 * S, 0, 64, 2),
        (3, S, 0, 64, 4),  # 0, 333 333 333, 666 666 666, 1 000 000 000
        (100_000, 72 * 3600 * S, 72 * 3600 * 100_000, 64, 1),  # three days at 100 kpps: no overflow, no drift
        (100_000, 10**18, 0, 2**62, 10**14 + 1),
    ],
)
def test_what_is_due_on_a_periodic_schedule(rate: float, elapsed_ns: int, sent: int, limit: int, due: int) -> None:
    assert pacer("periodic", rate, 0).due(elapsed_ns, sent, limit) == due


@pytest.mark.parametrize("first", [0, 1, 2**32, 72 * 3600 * 100_000])
def test_offsets_are_exact_however_far_into_the_run(first: int) -> None:
    offsets = Periodic(300_000).offsets_ns(first, 3)
    assert offsets.tolist() == [int(Fraction(i * S, 300_000)) for i in range(first, first + 3)]


@given(st.integers(1, 10**6), st.integers(0, 10**7))
@settings(max_examples=200)
def test_due_and_offsets_say_the_same(rate: int, sent: int) -> None:
    schedule = Periodic(rate)
    this, following = schedule.offsets_ns(sent, 2).tolist()
    assert schedule.due(this, sent, 1) == 1
    assert schedule.due(this - 1, sent, 1) == 0
    assert schedule.due(following - 1, sent, 2) == 1


@pytest.mark.parametrize("name", ["poisson", "dithered"])
def test_drawn_schedules_keep_the_rate_repeat_with_the_seed_and_stay_flat(name: str) -> None:
    def offsets(seed: int) -> np.ndarray:
        schedule = pacer(name, 1000, seed)
        return np.concatenate([schedule.offsets_ns(i, 64).copy() for i in range(0, 64 * 400, 64)])

    drawn = offsets(7)
    assert (np.diff(drawn) >= 0).all()
    assert drawn[-1] == pytest.approx(25.6 * S, rel=0.03)
    assert (offsets(7) == drawn).all()
    assert (offsets(8) != drawn).any()


@pytest.mark.parametrize("name", ["poisson", "dithered"])
def test_drawn_schedules_are_due_when_their_offsets_say(name: str) -> None:
    schedule = pacer(name, 1000, 3)
    sent = 0
    while sent < 10_000:  # across the edges of three blocks
        offsets = schedule.offsets_ns(sent, 65).copy()
        count = schedule.due(int(offsets[40]), sent, 64)
        assert count == np.searchsorted(offsets[:64], offsets[40], side="right")
        sent += count


def test_poisson_gaps_are_exponential_and_dithered_places_uniform() -> None:
    schedule = pacer("poisson", 1000, 1)
    gaps = np.diff(np.concatenate([schedule.offsets_ns(i, 4096).copy() for i in range(0, 40_960, 4096)]))
    assert np.std(gaps) == pytest.approx(np.mean(gaps), rel=0.03)  # their deviation is their mean
    places = pacer("dithered", 1000, 1).offsets_ns(0, 4096) / 1e6 - np.arange(4096)
    assert places.min() >= 0
    assert places.max() <= 1
    assert np.mean(places) == pytest.approx(0.5, abs=0.02)


def test_the_closed_loop_is_always_due() -> None:
    assert pacer("periodic", 0, 0).due(0, 10**9, 64) == 64


@pytest.mark.parametrize(("name", "rate"), [("fibonacci", 10), ("periodic", -1), ("poisson", 2e9)])
def test_what_cannot_be_paced_is_refused_with_a_hint(name: str, rate: float) -> None:
    with pytest.raises(UsageError) as caught:
        pacer(name, rate, 0)
    assert caught.value.hint
