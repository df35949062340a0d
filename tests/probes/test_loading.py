"""Our own UDP load through a real agent on the loopback: both directions, their ends, and what is kept when one of them goes."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linkqual.errors import PeerError, WireError
from linkqual.model import Direction
from linkqual.net import control
from linkqual.net.load_ends import Ends, LoadConfig
from linkqual.probes import load_far, loading
from linkqual.probes.bench import Bench
from linkqual.session.load_phase import Phase
from linkqual.units import NS_PER_S
from linkqual.wire.load import Told

pytestmark = pytest.mark.loopback

S, MS = NS_PER_S, 1_000_000
DIRECTIONS = (Direction.FORWARD, Direction.REVERSE)
LONG = Phase("long", 5_000_000, duration_ns=60 * S, sizes=((500, 1),))


@pytest.mark.parametrize(("end", "direction"), [("far_end", Direction.FORWARD), ("far_end_ipv6", Direction.REVERSE)])
def test_every_packet_is_accounted_for(request: pytest.FixtureRequest, end: str, direction: Direction) -> None:
    bench = request.getfixturevalue(end).bench()
    with loading.opened(bench, direction, flows=3, longest=1500, dscp=10) as load:
        sizes = ((70, 7), (576, 4), (1500, 1))
        mixed = load.run(Phase("mix", 20_000_000, packets=804, sizes=sizes, flows=3, arrivals=True, jitter=1.0))
        trains = load.run(Phase("trains", 0, packets=3001, segmented=False, flows=2))
    for loaded in (mixed, trains):
        count = loaded.count
        assert loaded.fault is None
        assert (count.direction, count.received, count.lost, count.duplicates, count.damaged) == (
            direction, count.sent, 0, 0, 0,
        )  # fmt: skip
        assert count.sent_bytes == count.received_bytes == sum(octets for _, _, octets in count.by_flow)
        assert sum(sent for sent, _ in count.by_departure) == count.sent
        assert all(sent == received for sent, received, _ in count.by_flow)
    assert (mixed.count.sent, mixed.count.segmented) == (804, True)
    assert mixed.count.sent_bytes == 804 // 12 * (7 * 70 + 4 * 576 + 1500)
    assert [sent > 0 for sent, _, _ in mixed.count.by_flow] == [True] * 3
    assert (trains.count.sent, trains.count.segmented, len(trains.count.by_flow)) == (3001, False, 2)
    rows = mixed.arrivals
    assert rows is not None
    assert sorted(rows["seq"].tolist()) == list(range(804))
    assert (rows["received_ns"] > rows["sent_ns"]).all()  # one clock
    assert np.bincount(rows["flow"]).tolist() == [sent for sent, _, _ in mixed.count.by_flow]
    assert (load.near.drops, load.far.drops) == ({"socket_drops": 0}, {"socket_drops": 0})
    assert len(set(load.ports)) == 3


def test_a_killed_agent_ends_the_load_and_what_was_counted_is_kept(far_end: Any) -> None:
    with loading.opened(far_end.bench(), Direction.FORWARD, longest=500) as load:
        threading.Timer(0.6, far_end.process.kill).start()
        begun = time.monotonic()
        loaded = load.run(LONG)
        again = load.run(LONG)
    assert time.monotonic() - begun < 0.6 + 5
    assert loaded.fault is not None
    assert loaded.fault.kind == "peer-lost"
    count = loaded.count
    assert count.short == "peer-lost"
    assert 0 < count.received <= count.sent
    assert count.lost == count.sent - count.received
    assert again.count.sent == 0


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_far_end_that_falls_silent_ends_the_load_too(
    far_end: Any, direction: Direction, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "QUIET_S", 0.3)
    monkeypatch.setattr(control, "CALL_TIMEOUT_S", 0.8)
    with loading.opened(far_end.bench(), direction, longest=500) as load:
        pids = [far_end.process.pid, *children(far_end.process.pid)]
        threading.Timer(0.4, lambda: [os.kill(pid, signal.SIGSTOP) for pid in pids]).start()
        begun = time.monotonic()
        loaded = load.run(LONG)
        taken = time.monotonic() - begun
        for pid in pids[1:]:
            os.kill(pid, signal.SIGKILL)
    assert taken < 0.4 + 5
    assert loaded.fault is not None
    assert (loaded.fault.kind, loaded.count.short) == ("silent", "silent")
    assert 0 < loaded.count.received <= loaded.count.sent


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_far_end_that_gets_no_time_for_a_while_ends_no_load(
    far_end: Any, direction: Direction, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "QUIET_S", 0.1)
    with loading.opened(far_end.bench(), direction, longest=500) as load:
        pids = [far_end.process.pid, *children(far_end.process.pid)]
        threading.Timer(0.2, lambda: [os.kill(pid, signal.SIGSTOP) for pid in pids]).start()
        threading.Timer(1.7, lambda: [os.kill(pid, signal.SIGCONT) for pid in pids]).start()
        loaded = load.run(Phase("x", 2_000_000, duration_ns=S // 2, sizes=((500, 1),)))
    assert loaded.fault is None
    assert loaded.count.received > 0


def test_what_is_under_way_is_not_told_as_lost(far_end: Any) -> None:
    with loading.opened(far_end.bench(), Direction.REVERSE) as load:
        here = {"sent": 9, "next_seq": 16_966, "received": 7846}
        told = load._progress(LONG, here, S)
    assert (told.lost, told.done) == (None, 7846)
    assert "9,120 not yet arrived" in told.text


def children(pid: int) -> list[int]:
    """Processes a process has started."""
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for each in found for child in each.read_text().split()]


def test_an_interrupt_ends_the_load_with_its_counts_whole(far_end: Any) -> None:
    for direction in DIRECTIONS:
        ended = threading.Event()
        with loading.opened(far_end.bench(interrupted=ended.is_set), direction, longest=500) as load:
            threading.Timer(0.4, ended.set).start()
            begun = time.monotonic()
            loaded = load.run(LONG)
        assert time.monotonic() - begun < 0.4 + 5
        assert loaded.fault is not None
        assert (loaded.fault.kind, loaded.count.short, loaded.count.lost) == ("interrupted", "interrupted", 0)
        assert loaded.count.sent == loaded.count.received > 0


def test_damaged_counts_of_the_far_end_leave_what_is_known_here(far_end: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(_load: load_far.FarLoad) -> dict[str, Any]:
        raise WireError("the far end's counts are damaged")

    monkeypatch.setattr(load_far.FarLoad, "result", damaged)
    with loading.opened(far_end.bench(), Direction.REVERSE, longest=500) as load:
        loaded = load.run(Phase("x", 5_000_000, packets=200, sizes=((500, 1),)))
    assert loaded.fault is not None
    assert "damaged" in loaded.fault.message
    assert 0 < loaded.count.received <= 200


def test_the_steps_own_caps_hold(far_end: Any) -> None:
    with loading.opened(far_end.bench(), Direction.FORWARD, max_bytes=300_000) as load:
        cut = load.run(Phase("too much", 10**9, duration_ns=S, sizes=((1500, 1),)))
        spent = load.run(Phase("more", 10**9, duration_ns=S))
    assert (cut.count.sent, cut.fault) == (200, None)
    assert cut.count.short in ("cap", "host")  # a busy host may have been slower than that besides
    assert (spent.count.sent, spent.fault and spent.fault.kind) == (0, "cap")


def test_without_an_agent_there_is_no_load() -> None:
    with pytest.raises(PeerError, match="needs our agent"), loading.opened(Bench("127.0.0.1"), Direction.FORWARD):
        pass


def test_a_far_end_learns_its_peer_from_the_peers_own_words_only() -> None:
    ends = Ends(LoadConfig(token=7, peer_address="127.0.0.1", flows=2, longest=100, bind_address="127.0.0.1"))
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other,
    ):
        other.bind(("127.0.0.2", 0))
        target = ("127.0.0.1", ends.sockets[0].port)
        other.sendto(Told(7, 0, 0).encode(), target)  # another address
        peer.sendto(Told(8, 0, 0).encode(), target)  # another session
        peer.sendto(b"nothing", target)
        peer.sendto(Told(7, 0, 9).encode(), target)  # no such flow
        time.sleep(0.01)
        assert [told.flow for told in ends.hear()] == [9]
        assert not ends.ready
        for flow in (0, 1):
            peer.sendto(Told(7, 0, flow).encode(), target)
        time.sleep(0.01)
        assert [told.flow for told in ends.hear()] == [0, 1]
        assert ends.ready
        ends.tell(Told(7, 3, 1, received=5), 1)
        peer.settimeout(2)
        assert Told.decode(peer.recv(100)).received == 5
    ends.close()
