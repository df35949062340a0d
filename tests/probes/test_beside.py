"""A STAMP stream beside a load, over loopback: what counts as idle, as loaded, as neither."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from linkqual.model import Direction, Objective, StampResult, Step, Summary
from linkqual.probes import beside
from linkqual.units import NS_PER_S

pytestmark = pytest.mark.loopback

STEP = Step("throughput/forward/1", "throughput", {}, Direction.FORWARD, duration_ns=5 * NS_PER_S)
LIMITS = (
    Objective("loaded_round_trip_delay", "p99", Direction.ROUND_TRIP, 1.0),  # nothing is that quick
    Objective("added_delay", "p99", Direction.FORWARD, 60e9),
)


def test_only_packets_under_load_are_counted(far_end: Any) -> None:
    with beside.running(far_end.bench(objectives=LIMITS), STEP, rate_pps=500, idle_ns=200_000_000) as stream:
        assert stream.result() is None
        with stream.loaded(after_ns=100_000_000):
            time.sleep(0.4)
    result = stream.result()
    assert result is not None
    assert stream.fault is None
    assert 75 <= result.summary.sent <= 160  # 0.3 s of 500 a second
    assert result.summary.received == result.summary.sent
    over = result.summary.over["round_trip_delay/round-trip/p99"]
    assert over.bad == over.n == result.summary.sent - result.summary.unstamped > 0
    added = stream.added()
    assert set(added) == {"forward", "reverse"}
    assert added["forward"].idle_n >= 50
    assert added["forward"].delay.n == over.n
    assert added["forward"].over["added_delay/forward/p99"].bad == 0
    assert stream.idle_round_trip().n == added["forward"].idle_n
    assert (stream.lost(Direction.FORWARD) is None) == (result.summary.sent < 100)
    assert stream.far.counters["answered"] >= result.summary.sent


def test_two_ask_the_agent_at_once_and_unmarked_every_packet_counts(far_end: Any) -> None:
    answers: list[Any] = []
    with beside.running(far_end.bench(), STEP, rate_pps=1000) as stream:
        asking = [threading.Thread(target=lambda: answers.append(far_end.control.call("host"))) for _ in range(4)]
        for one in asking:
            one.start()
        assert far_end.control.lost() == ""
        for one in asking:
            one.join(10)
        time.sleep(0.1)
    assert len(answers) == 4
    assert stream.fault is None
    result = stream.result()
    assert result is not None
    assert result.summary.sent >= 50
    assert stream.added() == {}


def test_without_a_stream_the_reason_is_told(far_end: Any) -> None:
    with beside.running(far_end.bench(), STEP, rate_pps=10**6, idle_ns=NS_PER_S) as refused:
        assert refused.fault is not None
        assert refused.fault.kind == "cap"
    assert refused.result() is None
    with beside.running(far_end.bench(), STEP, rate_pps=0) as none:
        assert none.fault is None
    assert none.result() is None


def test_an_agent_killed_is_told_at_once(far_end: Any) -> None:
    with beside.running(far_end.bench(), STEP, rate_pps=500) as stream:
        time.sleep(0.2)
        far_end.process.kill()
        begun = time.monotonic()
        while stream.fault is None:
            time.sleep(0.01)
            assert time.monotonic() - begun < 5
    assert stream.fault.kind == "peer-lost"
    result = stream.result()
    assert result is not None  # what came before is kept
    assert result.summary.received > 0


@pytest.mark.parametrize(("sent", "share"), [(99, None), (200, 0.06)])
def test_the_share_that_was_lost_needs_packets_and_counts_those_of_unknown_direction(
    sent: int, share: float | None
) -> None:
    stream = beside.Beside()
    assert stream.lost(Direction.FORWARD) is None
    summary = Summary(sent=sent, received=sent - 20, lost_forward=10, lost_reverse=8, lost=2)
    stream._made = StampResult(summary, 100.0, 64, "agent", NS_PER_S)
    assert stream.lost(Direction.FORWARD) == share
    assert stream.lost(Direction.REVERSE) == (share and 0.05)
