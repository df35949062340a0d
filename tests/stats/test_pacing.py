"""The audit of the sender's pacing: bursts against the schedule that was meant, in chunks of any size and merged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkqual.model import Pacing
from linkqual.records import ABSENT, Fate, Records, empty_records
from linkqual.session.pacer import pacer
from linkqual.stats import pacing
from linkqual.stats.histogram import quantile
from linkqual.stats.pacing import Audit, longest

US = 1_000
START = 1_700_000_000_000_000_000


def sent(rate: float, left: np.ndarray, wanted: np.ndarray | None = None) -> Records:
    """Rows that left at these instants, ns since the start; wanted: as a periodic schedule has it."""
    rows = empty_records(len(left))
    meant = pacer("periodic", rate, 0).offsets_ns(0, len(left)) if wanted is None else wanted
    rows["intended_ns"], rows["sent_ns"] = START + meant, START + left
    rows["fate"] = Fate.RECEIVED
    return rows


def audited(rows: Records, rate: float, most: int = 0, cuts: tuple[int, ...] = ()) -> Pacing:
    audit = Audit(rate, most)
    for part in np.split(rows, list(cuts)):
        audit.add(part)
    return audit.data()


def schedule(kind: str, rate: float, count: int, seed: int = 4) -> np.ndarray:
    made = pacer(kind, rate, seed)
    return np.concatenate([made.offsets_ns(first, min(4096, count - first)) for first in range(0, count, 4096)])


def woken(meant: np.ndarray, every_ns: int, cost_ns: int = 2 * US) -> np.ndarray:
    """Departures of a sender that wakes now and then and sends what is due, one after the other."""
    wake = -(-meant // every_ns) * every_ns + 5 * US
    left, now = np.empty_like(meant), 0
    for at, instant in enumerate(wake.tolist()):
        now = max(instant, now + cost_ns)
        left[at] = now
    return left


@pytest.mark.parametrize("kind", ["periodic", "poisson", "dithered"])
def test_a_schedule_that_is_kept_has_no_burst_whatever_its_gaps(kind: str) -> None:
    meant = schedule(kind, 1000, 10_000)
    found = audited(sent(1000, meant, meant), 1000)
    assert (longest(found).packets, found.bursts, found.beyond) == (1, 10_000, 0)
    assert (found.late.minimum, found.late.maximum, found.gaps.n) == (0, 0, 9_999)


@pytest.mark.parametrize("kind", ["periodic", "poisson", "dithered"])
def test_what_a_stall_held_back_leaves_as_one_burst(kind: str) -> None:
    meant = schedule(kind, 1000, 5_000)
    stall, end = 2_000_000_000, 2_100_000_000  # stood still for 100 ms
    left = meant + 20 * US
    held = (meant > stall) & (meant <= end)
    left[held] = end + 3 * US * (1 + np.arange(held.sum()))
    left = np.maximum.accumulate(left)
    rows = sent(1000, left, meant)
    found = audited(rows, 1000)
    count = int(held.sum())
    assert count <= longest(found).packets <= count + 2  # a neighbour may have been due meanwhile
    assert longest(found).start_ns == START + end + 3 * US
    assert longest(found).end_ns - longest(found).start_ns >= 3 * US * (count - 1)
    assert found.beyond == (count > pacing.DESIGNED)
    assert quantile(found.late, 0.5) == pytest.approx(20 * US, rel=1e-3)
    assert (found.late.maximum or 0) > 95_000_000


def test_batches_by_design_are_bursts_of_their_size() -> None:
    meant = schedule("periodic", 20_000, 20_000)
    found = audited(sent(20_000, woken(meant, 400 * US), meant), 20_000)
    assert longest(found).packets == 8
    assert found.bursts == pytest.approx(2_500, abs=2)
    assert found.beyond == 0
    assert found.most == 100  # 5 ms of the rate
    assert pacing.longest_designed(1000) == 64


def test_a_stall_caught_up_with_pauses_is_one_burst() -> None:
    """64 at a time with a rest between, as the sender does it above 2 kpps."""
    meant = schedule("periodic", 20_000, 20_000)
    left = woken(meant, 400 * US)
    held = np.flatnonzero((meant > 500_000_000) & (meant <= 800_000_000))
    again = 800_000_000 + (np.arange(8_000) // 64) * 400 * US + (np.arange(8_000) % 64) * 2 * US
    late = again > meant[held[0] : held[0] + 8_000]
    count = int(late.argmin())
    left[held[0] : held[0] + count] = again[:count]
    found = audited(sent(20_000, np.maximum.accumulate(left), meant), 20_000)
    assert longest(found).packets == pytest.approx(count, abs=70)
    assert longest(found).start_ns == START + 800_000_000
    assert found.beyond == 1


@pytest.mark.parametrize("gap_us", [50, 60, 45])
def test_a_sender_that_is_late_and_even_makes_no_burst(gap_us: int) -> None:
    """Late by 5 ms all the time; too slow for its schedule; a little faster than it."""
    meant = schedule("periodic", 20_000, 20_000)
    left = 5_000_000 + np.arange(20_000) * gap_us * US
    found = audited(sent(20_000, left, meant), 20_000)
    assert found.beyond == 0
    assert longest(found).packets <= 1


def test_losses_inside_and_outside_of_long_bursts_are_told_apart() -> None:
    meant = schedule("periodic", 1000, 3_000)
    left = meant.copy()
    left[1000:1300] = meant[1300] + 2 * US * np.arange(300)
    left[1300:1303] = left[1299] + 2 * US * np.arange(1, 4)
    rows = sent(1000, left, meant)
    rows["fate"][[5, 1100, 1101, 1290, 2_000]] = Fate.LOST_FORWARD
    rows["fate"][[6, 1200]] = Fate.LOST_REVERSE
    rows["fate"][[1201, 2_500]] = Fate.LOST
    found = audited(rows, 1000, most=64)
    assert (found.beyond, found.lost_forward, found.lost_reverse, found.lost) == (1, 3, 1, 1)
    assert (longest(found).lost_forward, longest(found).lost_reverse, longest(found).lost) == (3, 1, 1)
    patient = audited(rows, 1000, most=400)
    assert (patient.beyond, patient.lost_forward, longest(patient).packets) == (0, 0, longest(found).packets)


def test_without_a_schedule_nothing_is_audited() -> None:
    rows = sent(1000, np.arange(100))
    assert audited(rows, 0) == Pacing()
    assert Audit.of({}).data() == Pacing()
    assert Audit.of({"rate_pps": 500, "max_burst": 7}).data() == Pacing(2_000_000.0, 7)


def test_rows_without_a_departure_are_left_out() -> None:
    rows = sent(1000, schedule("periodic", 1000, 10))
    rows["sent_ns"][[0, 4, 5]] = ABSENT
    found = audited(rows, 1000)
    assert (found.late.n, found.bursts, found.gaps.n) == (7, 7, 6)
    assert found.gaps.maximum == 3_000_000


@given(st.integers(0, 2**32), st.integers(1, 40), st.lists(st.integers(0, 400), max_size=6))
def test_chunks_and_merges_give_the_whole(seed: int, most: int, cuts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    meant = schedule(str(rng.choice(["periodic", "poisson", "dithered"])), 20_000, 400, seed)
    left = woken(meant, int(rng.choice([1, 300, 3_000, 30_000])) * US)
    rows = sent(20_000, left, meant)
    rows["fate"] = rng.choice([0, 1, 2, 3], 400, p=[0.7, 0.1, 0.1, 0.1])
    cuts = sorted(cuts)
    whole = audited(rows, 20_000, most)
    assert audited(rows, 20_000, most, tuple(cuts)) == whole
    merged = Pacing()
    for part in np.split(rows, cuts):
        merged = pacing.merge(merged, audited(part, 20_000, most))
    assert merged == whole
    assert whole.late.n == 400
