"""Real iperf3 over loopback: both directions, and every way it can end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from linkqual.model import Direction, Measurement, Objective, Outcome, Relation, Step
from linkqual.probes import throughput
from linkqual.probes.bench import Bench

pytestmark = pytest.mark.loopback

FORWARD, REVERSE = Direction.FORWARD, Direction.REVERSE


RATE_BPS = 100_000_000  # what a loopback bears would take both cores from the tests beside it


def step(direction: Direction = FORWARD, **params: Any) -> Step:
    known = {"streams": 1, "seconds": 2, "warmup_seconds": 1, "cap_seconds": 2, "congestion_control": "cubic"}
    known["max_rate_bps"] = RATE_BPS
    return Step(f"throughput/{direction}/1", "throughput", known | params, direction)


def fault_kind(measurement: Measurement) -> str:
    assert measurement.fault is not None
    assert measurement.fault.message
    return measurement.fault.kind


@pytest.mark.parametrize(("direction", "streams", "rate_bps"), [(FORWARD, 2, None), (REVERSE, 1, RATE_BPS)])
def test_seconds_are_the_receivers(far_end: Any, direction: Direction, streams: int, rate_bps: int | None) -> None:
    asked = step(direction, streams=streams, max_rate_bps=rate_bps, allowed_bps=1e9)
    measured = throughput.measure(asked, far_end.bench())
    assert measured.fault is None
    result = measured.throughput
    assert result is not None
    assert (len(result.warmup_bps), len(result.receiver_bps), result.streams) == (1, 2, streams)
    receiver = "far" if direction is FORWARD else "near"
    document = json.loads(far_end.raw[f"throughput-{direction}-1-1.{receiver}.json"])
    told = [sum(one["bits_per_second"] for one in second["streams"]) for second in document["intervals"]]
    assert not any(one["sender"] for second in document["intervals"] for one in second["streams"])
    assert [*result.warmup_bps, *result.receiver_bps] == pytest.approx(told[:3])
    assert result.sent_bytes is not None
    assert result.received_bytes is not None
    assert 0 < result.received_bytes <= result.sent_bytes
    assert result.congestion_control == "cubic"
    assert result.mss is not None
    assert result.rtt_min_ns is not None
    assert result.rtt_mean_ns is not None
    assert result.rtt_mean_ns >= result.rtt_min_ns > 0
    assert result.retransmits is not None
    assert result.cpu_near is not None
    assert result.cpu_far is not None
    assert result.version
    assert result.allowed_bps == 1e9
    assert far_end.told[-1].phase == f"throughput {direction}"


def test_both_directions_at_once_with_a_stream_beside(far_end: Any) -> None:
    asked = step(Direction.ROUND_TRIP, streams=2, seconds=1, beside_pps=500, max_rate_bps=40_000_000)
    measured = throughput.measure(asked, far_end.bench(family_size=3))
    assert measured.fault is None
    there, back = measured.throughput, measured.throughput_back
    assert there is not None
    assert back is not None
    assert len(there.receiver_bps) == len(back.receiver_bps) == 1
    for result in (there, back):
        assert all(10e6 < rate < 41e6 for rate in result.receiver_bps)
        assert len(result.flows_bps) == result.streams == 2
        assert sum(result.flows_bps) == pytest.approx(sum(result.receiver_bps), rel=0.01)
        assert len(result.seconds_rtt_ns) == len(result.seconds_retransmits) == 1
        assert all(result.seconds_rtt_ns)
        assert result.window_bytes
        assert result.receive_window_bytes
    names = {f"throughput-round-trip-1-{way}-1.{end}.json" for way in ("forward", "reverse") for end in ("near", "far")}
    assert names <= far_end.raw.keys()
    assert there.beside is not None
    assert 100 < there.beside.summary.sent < 600  # of half a second: the start is left out
    assert there.beside.family == 3
    assert set(there.added) == {"forward", "reverse"}
    assert there.idle_round_trip.n > 100
    assert back.beside is None
    assert measured.conditions.far.counters["answered"] > there.beside.summary.sent


def test_the_kernel_of_the_sending_end_has_the_word_on_its_congestion_control(
    far_end: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("linkqual.net.host.socket.TCP_CONGESTION", -1)  # of this end; the agent is another process
    shown = throughput.measure(step(congestion_control="bbr", judged=False), far_end.bench())
    assert shown.fault is None
    assert "bbr" in shown.not_needed
    assert fault_kind(throughput.measure(step(), far_end.bench())) == "no-capability"
    measured = throughput.measure(step(REVERSE, seconds=1, warmup_seconds=0), far_end.bench())
    assert measured.fault is None


def test_pulses_add_up_to_the_least_that_was_planned(far_end: Any) -> None:
    asked = step(seconds=1, block_seconds=1, least_seconds=2, cap_seconds=2, warmup_seconds=0, duty=0.9)
    result = throughput.measure(asked, far_end.bench()).throughput
    assert result is not None
    assert (len(result.receiver_bps), result.stopped_by) == (2, "fixed length")


def test_ipv6(far_end_ipv6: Any) -> None:
    measured = throughput.measure(step(REVERSE, seconds=1, warmup_seconds=0), far_end_ipv6.bench())
    assert measured.fault is None
    assert measured.throughput is not None
    assert len(measured.throughput.receiver_bps) == 1


def test_a_rate_cap_is_kept(far_end: Any) -> None:
    asked = step(streams=2, seconds=1, warmup_seconds=0, max_rate_bps=20_000_000)
    result = throughput.measure(asked, far_end.bench()).throughput
    assert result is not None
    assert result.received_bytes is not None
    assert result.received_bytes * 8 < 1.5 * 20_000_000


def judged(statistic: str, **params: Any) -> tuple[Step, Objective]:
    objective = Objective("throughput", statistic, FORWARD, 1.0, Relation.AT_LEAST)
    return step(judged=True, warmup_seconds=0, seconds=1, block_seconds=1, **params), objective


def test_a_judged_step_goes_on_until_it_is_decided(far_end: Any) -> None:
    asked, objective = judged("p90", cap_seconds=8)
    result = throughput.measure(asked, far_end.bench(objectives=(objective,))).throughput
    assert result is not None
    assert result.stopped_by == "decided"
    assert [one.outcome for one in result.decisions] == [Outcome.PASS]
    assert result.decisions[0].n == len(result.receiver_bps) < 8
    assert {f"throughput-forward-1-{block}.near.json" for block in (1, 2)} <= far_end.raw.keys()


def test_a_judged_step_ends_at_its_cap(far_end: Any) -> None:
    asked, objective = judged("p10", cap_seconds=2)
    result = throughput.measure(asked, far_end.bench(objectives=(objective,))).throughput
    assert result is not None
    assert (result.stopped_by, len(result.receiver_bps)) == ("cap", 2)
    assert [one.outcome for one in result.decisions] == [Outcome.INCONCLUSIVE]


def test_without_a_limit_the_plans_length_holds(far_end: Any) -> None:
    objective = Objective("throughput", "p10", FORWARD, None, Relation.AT_LEAST)
    asked = step(judged=True, warmup_seconds=0, seconds=1, cap_seconds=60)
    result = throughput.measure(asked, far_end.bench(objectives=(objective,))).throughput
    assert result is not None
    assert (result.stopped_by, len(result.receiver_bps), result.decisions) == ("fixed length", 1, ())


@pytest.mark.parametrize("direction", [FORWARD, REVERSE, Direction.ROUND_TRIP])
def test_an_interrupt_keeps_the_seconds_before_it(far_end: Any, direction: Direction) -> None:
    begun = time.monotonic()
    bench = far_end.bench(interrupted=lambda: time.monotonic() - begun > 1.8)
    measured = throughput.measure(step(direction, seconds=20, warmup_seconds=0), bench)
    assert fault_kind(measured) == "interrupted"
    assert measured.throughput is not None
    assert 1 <= len(measured.throughput.receiver_bps) <= 3
    assert measured.throughput.stopped_by == "interrupted"
    assert (measured.throughput_back is not None) is (direction is Direction.ROUND_TRIP)
    assert "port" in far_end.control.call("trace.target")


@pytest.mark.parametrize("direction", [FORWARD, REVERSE])
def test_an_agent_killed_in_the_middle_is_a_lost_peer(far_end: Any, direction: Direction) -> None:
    def watch(progress: Any) -> None:
        if progress.left_ns is not None and progress.left_ns < 8.5e9:
            far_end.process.kill()

    bench = far_end.bench()
    bench = Bench(bench.peer_address, bench.near_address, control=bench.control, progress=watch)
    measured = throughput.measure(step(direction, seconds=10, warmup_seconds=0), bench)
    assert fault_kind(measured) == "peer-lost"
    if measured.throughput is not None:
        assert 0 not in measured.throughput.receiver_bps


def programs_of(parent: int) -> list[int]:
    """The iperf3 processes that are children of this one."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            lines = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
            if lines["Name"] == "iperf3" and int(lines["PPid"]) == parent:
                found.append(int(status.parent.name))
    return found


@pytest.mark.parametrize("direction", [FORWARD, REVERSE])
def test_an_iperf3_that_is_killed_leaves_the_seconds_the_kernel_counted(far_end: Any, direction: Direction) -> None:
    """The receiving one, which writes its document only at the end."""
    parent = far_end.process.pid if direction is FORWARD else os.getpid()

    def watch(progress: Any) -> None:
        if progress.left_ns is not None and progress.left_ns < 6.5e9:
            for program in programs_of(parent):
                os.kill(program, signal.SIGKILL)

    bench = far_end.bench()
    bench = Bench(bench.peer_address, bench.near_address, control=bench.control, progress=watch)
    begun = time.monotonic()
    measured = throughput.measure(step(direction, seconds=10, warmup_seconds=0, beside_pps=0), bench)
    assert time.monotonic() - begun < 9
    assert measured.fault is not None
    assert "its kernel counted" in measured.fault.message
    assert measured.throughput is not None
    assert 2 <= len(measured.throughput.receiver_bps) <= 4
    assert min(measured.throughput.receiver_bps) > 1e6


def test_no_agent() -> None:
    assert fault_kind(throughput.measure(step(), Bench("127.0.0.1"))) == "no-agent"


def test_no_iperf3_here(far_end: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    measured = throughput.measure(step(), far_end.bench())
    assert fault_kind(measured) == "missing-program"
    assert measured.fault is not None
    assert "install" in measured.fault.hint


class Refusing:
    """A control connection whose agent refuses, or hands over an odd document."""

    near_address = "127.0.0.1"

    def __init__(self, control: Any, **answers: Any) -> None:
        self._control, self._answers = control, answers

    def call(self, name: str, **args: Any) -> dict[str, Any]:
        answer = self._control.call(name, **args)
        return {**answer, **self._answers} if name == "iperf3.close" else answer

    def lost(self) -> str:
        return ""


def test_a_receivers_document_that_is_damaged_is_no_zero(far_end: Any) -> None:
    bench = far_end.bench()
    damaged = Refusing(far_end.control, output="not base64!")
    bench = Bench(bench.peer_address, bench.near_address, control=damaged)  # type: ignore[arg-type]
    measured = throughput.measure(step(seconds=1, warmup_seconds=0), bench)
    assert fault_kind(measured) == "iperf3-cut"
    assert measured.throughput is None


def test_a_busy_far_end_is_told(far_end: Any) -> None:
    for _ in range(2):
        far_end.control.call("iperf3.open", seconds=5)
    assert fault_kind(throughput.measure(step(), far_end.bench())) == "state"


def test_the_agents_cap_is_told(capped_far_end: Any) -> None:
    measured = throughput.measure(step(seconds=2, warmup_seconds=0), capped_far_end.bench())
    assert fault_kind(measured) == "cap"


def test_an_unknown_congestion_control_is_told(far_end: Any) -> None:
    measured = throughput.measure(step(seconds=1, congestion_control="nosuch"), far_end.bench())
    assert fault_kind(measured) == "no-capability"
    assert measured.throughput is None
