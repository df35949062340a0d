"""What the stamp probe says of both ends, and what it leaves behind when it cannot begin."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from typing import Any

import pytest

from linkqual.errors import PeerError
from linkqual.model import Step
from linkqual.net.sender import Sender, SenderConfig
from linkqual.probes import stamp
from linkqual.probes.streams import AgentStream, Stream, counted, socket_drops
from linkqual.records import Fate, empty_records
from linkqual.wire.control import FORGOTTEN, MAX_ARRIVED, bytes_text

STEP = Step(
    "stamp",
    "stamp",
    {"rate_pps": 1000, "packet_bytes": 64, "timeout_ns": 2_000_000_000, "enough": 50, "fixed": True},
    packets=50,
    duration_ns=1_000_000_000,
    expected_ns=1_000_000_000,
)


@pytest.mark.loopback
def test_a_sender_that_cannot_begin_leaves_no_reflector_behind(far_end: Any) -> None:
    refused = stamp.measure(STEP, replace(far_end.bench(), near_address="192.0.2.99"))
    assert refused.fault is not None
    assert refused.fault.kind == "host"
    measured = stamp.measure(STEP, far_end.bench())
    assert measured.fault is None
    assert measured.stamp is not None
    assert measured.stamp.summary.received == 50
    assert measured.conditions.near.stamps == {"T1": "kernel", "T4": "kernel"}
    assert measured.conditions.far.stamps["T2"] == "kernel"
    assert measured.conditions.far.stamps["T3"].startswith("kernel")  # on a busy host some are lost with the burst


@pytest.mark.loopback
def test_an_end_that_left_no_word_is_not_said_to_have_stamped_in_its_kernel(far_end: Any) -> None:
    near = stamp.near_conditions({"ended_by": "died", "sent": 7})
    assert (near.stamps, near.drops) == ({}, {})
    assert stamp.near_conditions({"t1_source": "user"}).stamps == {"T1": "user"}
    stream = AgentStream(**Stream.common(STEP, far_end.bench()), control=far_end.control, opened={})
    assert stream.far_conditions({}, {}).stamps == {}
    said = stream.far_conditions({"counters": {"answered": 10, "unstamped": 10, "socket_drops": 3}}, {})
    assert said.stamps == {"T2": "user", "T3": "user"}
    assert said.drops == {"socket_drops": 3}


@pytest.mark.loopback
def test_a_sender_that_died_ended_the_run_and_not_its_length(far_end: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    start = Sender.start

    def doomed(config: SenderConfig) -> Sender:
        sender = start(config)
        os.kill(sender.pid, signal.SIGKILL)
        return sender

    monkeypatch.setattr(Sender, "start", doomed)
    measured = stamp.measure(STEP, far_end.bench())
    assert measured.fault is not None
    assert measured.stamp is not None
    assert (measured.stamp.stopped_by, measured.fault.kind) == ("host", "host")
    assert measured.stamp.rate_pps == 1000
    assert measured.conditions.near.stamps == {}


@pytest.mark.loopback
def test_an_authenticated_step_has_a_key_of_its_own(far_end: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    start, keys = Sender.start, []

    def noted(config: SenderConfig) -> Sender:
        keys.append(config.key)
        return start(config)

    monkeypatch.setattr(Sender, "start", noted)
    step = replace(STEP, params=STEP.params | {"authenticated": True, "packet_bytes": 152})
    for _ in range(2):
        measured = stamp.measure(step, far_end.bench())
        assert measured.fault is None
        assert measured.stamp is not None
        assert measured.stamp.summary.received == 50
        assert measured.conditions.far.stamps["T2"] == "kernel"
        assert measured.conditions.near.counters["wrong_key"] == 0
    assert len({*keys}) == 2
    assert all(len(key) == 64 for key in keys)


@pytest.mark.loopback
def test_losses_the_far_end_no_longer_knows_keep_no_direction(far_end: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage longer than its window: lost they are, on which way nobody can tell, and that ends no run."""
    stream = AgentStream(**Stream.common(STEP, far_end.bench()), control=far_end.control, opened={})
    asked = []

    def ask(_stream: AgentStream, what: str, first: int, count: int) -> dict[str, str]:
        asked.append((what, first, count))
        if first < MAX_ARRIVED:
            raise PeerError("no longer remembered", "ask sooner", FORGOTTEN)
        return {"arrived": bytes_text(b"\1")}

    monkeypatch.setattr(AgentStream, "_ask", ask)
    rows = empty_records(3)
    rows["seq"], rows["fate"] = [0, MAX_ARRIVED, MAX_ARRIVED + 1], Fate.LOST
    stream._attribute(rows)
    assert stream.fault is None
    assert rows["fate"].tolist() == [Fate.LOST, Fate.LOST_REVERSE, Fate.LOST_FORWARD]
    assert asked == [("stamp.arrived", 0, MAX_ARRIVED), ("stamp.arrived", MAX_ARRIVED, 2)]


def test_counters_are_kept_and_what_is_no_count_is_not() -> None:
    report = {"sent": 90, "unsent": 7, "refusals": {"ENOBUFS": 11, "EAGAIN": 2}, "started_ns": 5, "late": "many"}
    assert counted(report) == {"sent": 90, "unsent": 7, "queue_refusals": 11, "refusals": 13}
    assert counted({"answered": 3, "queue_refusals": 4, "cpu_ns": 9}) == {"answered": 3, "queue_refusals": 4}
    assert socket_drops({"socket_drops": 0, "drops_before_peer": 2}) == {"socket_drops": 0, "drops_before_peer": 2}
    assert socket_drops({"socket_drops": None}) == {}
