"""How steadily a rate was kept, the figures of RFC 6349, and the delay a load adds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from linkqual.model import Direction, Histogram, Link, Measurement, Objective, Step, ThroughputResult
from linkqual.records import ABSENT, Fate, Records, Stamp, empty_records
from linkqual.rules import ladder
from linkqual.stats import sustained, throughput
from linkqual.stats.added import Added
from linkqual.stats.slope import theil_sen
from linkqual.stats.sustained import Dip

MS = 1_000_000


def test_the_longest_dip_is_found_with_its_depth() -> None:
    assert sustained.longest_dip([100, 95, 80, 70, 99, 50, 100, 100, 100]) == Dip(2, 2, 70)
    assert sustained.longest_dip([100, 60, 100, 40, 100, 100]) == Dip(3, 1, 40)  # of two alike the deeper
    assert sustained.longest_dip([50, 100, 100, 100, 60, 50]) == Dip(4, 2, 50)  # up to the last second
    assert sustained.longest_dip([100, 91, 110]) is None
    assert sustained.longest_dip([]) is None


def test_a_slope_is_that_of_most_values_and_not_of_the_outliers() -> None:
    values = [float(2 * at) for at in range(40)]
    values[7], values[30] = 1e6, -1e6
    found = theil_sen(values)
    assert found is not None
    assert found[0] == pytest.approx(2)
    assert found[1] <= 2 <= found[2]
    assert theil_sen(values[:9]) is None


def test_the_interval_of_a_slope_holds_as_often_as_it_says() -> None:
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(300):
        found = theil_sen((0.05 * np.arange(60) + rng.standard_t(3, 60)).tolist())
        assert found is not None
        held += found[1] <= 0.05 <= found[2]
    assert held >= 276  # of 95 %, four deviations below


def test_drift_is_told_in_an_hour() -> None:
    rng = np.random.default_rng(1)
    for seconds in (60, 600, 3601):
        rates = 1e9 - 2e4 * np.arange(seconds) + rng.normal(0, 1e4, seconds)
        found = sustained.drift_per_hour(rates.tolist())
        assert found is not None
        assert found[0] == pytest.approx(-7.2e7, rel=0.03)
        assert found[1] < found[0] < found[2] < 0
    assert sustained.drift_per_hour([1e9] * 49) is None


def test_rfc_6349_figures() -> None:
    assert sustained.transfer_time_ratio(8.0, 12.0) == 1.5
    assert sustained.transfer_time_ratio(0.0, 12.0) is None
    assert sustained.tcp_efficiency(102_000, 2_000) == pytest.approx(0.98039216)
    assert sustained.tcp_efficiency(0, 0) is None
    assert sustained.buffer_delay(32 * MS, 25 * MS) == pytest.approx(0.28)
    assert throughput.bdp_bytes(100e9, 5 * MS) == 62_500_000


def test_a_load_in_figures() -> None:
    rates = [90e6] * 57 + [70e6, 80e6, 95e6]
    result = ThroughputResult(
        16, tuple(rates), sent_bytes=102_000_000 - 2_000 * 1_000, retransmits=2_000, mss=1_000, allowed_bps=94.15e6,
        congestion_control="cubic", seconds_rtt_ns=(32 * MS,) * 59 + (0,), idle_round_trip=_histogram(25 * MS),
    )  # fmt: skip
    step = Step("throughput/forward/16", "throughput", {"judged": True}, Direction.FORWARD)
    (found,) = ladder.of_all(Link(cir_bps=100_000_000), [Measurement(step, 0, 0, throughput=result)])
    assert (found.p5_bps, found.median_bps, found.least_bps, found.seconds) == (90e6, 90e6, 70e6, 60)
    assert found.dip == Dip(57, 2, 70e6)
    assert found.efficiency == pytest.approx(0.98039216)
    assert found.transfer_time_ratio == pytest.approx(94.15e6 / (sum(rates) / 60))
    assert found.buffer_delay == pytest.approx(0.28, rel=1e-3)
    assert found.bdp_bytes == pytest.approx(312_500, rel=1e-3)
    assert found.judged
    assert found.drift is not None
    pulses = replace(step, params={"judged": True, "duty": 0.1})  # with nine times as much silence between its seconds
    assert ladder.of_all(Link(), [Measurement(pulses, 0, 0, throughput=result)])[0].drift is None
    both = Measurement(step, 0, 0, throughput=result, throughput_back=result)
    assert [(one.direction, one.at_once) for one in ladder.of(Link(), both)] == [
        (Direction.FORWARD, True), (Direction.REVERSE, True),
    ]  # fmt: skip


def _histogram(value: int) -> Histogram:
    added = Added()
    added.before(rows(value // 2, value // 2))
    return added.idle_round_trip()


def rows(forward: int, reverse: int, count: int = 200, offset: int = 0, lost: int = 0) -> Records:
    """Packets of these delays (ns), the far clock `offset` ahead; the last `lost` never arrive."""
    made = empty_records(count)
    made["sent_ns"] = made["intended_ns"] = 10**18 + np.arange(count) * 2 * MS
    made["far_received_ns"] = made["sent_ns"] + forward + offset
    made["far_sent_ns"] = made["far_received_ns"] + 1000
    made["received_ns"] = made["far_sent_ns"] - offset + reverse
    made["fate"] = Fate.RECEIVED
    made["stamps"] = int(Stamp.ALL_KERNEL)
    for name in ("far_received_ns", "far_sent_ns", "received_ns"):
        made[name][count - lost :] = ABSENT
    made["fate"][count - lost :] = Fate.LOST_FORWARD
    return made


@pytest.mark.parametrize("offset", [0, 40 * MS, -3600 * 10**9])
def test_added_delay_needs_no_common_clock(offset: int) -> None:
    limit = Objective("added_delay", "p99", Direction.FORWARD, 50.0 * MS)
    added = Added([limit, Objective("added_delay", "p99", Direction.REVERSE, None)])
    added.before(rows(4 * MS, 4 * MS, 101, offset))
    added.loaded(rows(90 * MS, 4 * MS - 500, 200, offset, lost=3))
    added.after(rows(4 * MS + 200, 4 * MS - 200, 50, offset))
    found = added.data()
    forward, reverse = found["forward"], found["reverse"]
    assert (forward.idle_ns, forward.idle_n) == (4 * MS + offset, 101)
    assert forward.after_ns == 4 * MS + 200 + offset
    assert (forward.delay.n, forward.delay.minimum, forward.delay.maximum) == (197, 86 * MS, 86 * MS)
    assert forward.over[limit.key].bad == forward.over[limit.key].n == 200  # a lost one is slower than any
    assert (reverse.delay.minimum, reverse.delay.maximum, reverse.over) == (0, 0, {})


def test_without_an_idle_packet_there_is_nothing_to_compare_with() -> None:
    added = Added([Objective("added_delay", "p99", Direction.FORWARD, 1.0)])
    added.loaded(rows(4 * MS, 4 * MS))
    assert added.data() == {}
    added = Added()
    added.before(rows(4 * MS, 4 * MS))
    assert added.data() == {}
    assert added.idle_round_trip().n == 200
