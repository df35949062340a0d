"""The engine's two processes over real sockets of the loopback interface."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from linkqual.errors import HostError, PeerError, UsageError
from linkqual.net.messages import MessageBlock
from linkqual.net.reflector import Reflector, ReflectorConfig
from linkqual.net.sender import Sender, SenderConfig
from linkqual.net.sockets import StampedSocket, truesize
from linkqual.records import Fate, Records, Stamp
from linkqual.session.attribution import apply_far_stamps, attribute
from linkqual.wire.stamp import request_template
from linkqual.wire.stamp_packet import ReflectorPacket, SenderPacket
from linkqual.wire.timestamp import ErrorEstimate
from linkqual.wire.tlv import Tlv

pytestmark = pytest.mark.loopback
MS = 1_000_000


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.005)


def ipv6_works() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.fixture
def reflector() -> Iterator[Reflector]:
    with Reflector.start(ReflectorConfig("127.0.0.1", "127.0.0.1", ssid=7, max_pps=10**6)) as running:
        yield running


def everything(sender: Sender) -> Records:
    return np.concatenate(list(sender.chunks()))


@pytest.mark.parametrize(
    ("address", "rate", "schedule"),
    [
        ("127.0.0.1", 1000, "periodic"),
        ("127.0.0.1", 1500, "poisson"),
        ("127.0.0.1", 8000, "periodic"),
        ("::1", 8000, "periodic"),
    ],
)
def test_a_session_is_complete_and_stamped_by_the_kernel(address: str, rate: int, schedule: str) -> None:
    if address == "::1" and not ipv6_works():
        pytest.skip("this host has no IPv6")
    count = rate // 2
    with Reflector.start(ReflectorConfig(address, address, ssid=7)) as reflector:
        config = SenderConfig(
            address, reflector.port, ssid=7, rate_pps=rate, packets=count, schedule=schedule, dscp=46, packet_bytes=200
        )
        with Sender.start(config) as sender:
            records = everything(sender)
            report = sender.report()
        assert reflector.arrived(0, count) == np.packbits(np.ones(count, bool), bitorder="little").tobytes()
        final = reflector.stop()
    apply_far_stamps(records, final["stamps"])
    assert records["seq"].tolist() == list(range(count))
    assert (records["fate"] == Fate.RECEIVED).all()
    assert (records["stamps"] == Stamp.ALL_KERNEL).all()
    assert (records["far_seq"] == np.arange(count)).all()
    for name, value in {
        "forward_ttl": 255,
        "reverse_ttl": 255,
        "dscp": 46,
        "tos": 46 << 2,
        "packet_bytes": 200,
    }.items():
        assert set(records[name]) == {value}, name
    instants = [records[name] for name in ("sent_ns", "far_received_ns", "far_sent_ns", "received_ns")]
    assert all((later >= earlier).all() for earlier, later in itertools.pairwise(instants))
    assert (np.diff(records["intended_ns"]) >= -MS).all()
    assert report["ended_by"] == "count"
    assert (report["sent"], report["unsent"], report["late"], report["socket_drops"]) == (count, 0, 0, 0)
    assert report["lateness"].n == count
    assert final["counters"]["answered"] == count
    assert final["counters"]["socket_drops"] == 0


def test_the_closed_loop_keeps_to_its_window(reflector: Reflector) -> None:
    config = SenderConfig("127.0.0.1", reflector.port, ssid=7, rate_pps=0, window=128, packets=6000)
    with Sender.start(config) as sender:
        records = everything(sender)
        report = sender.report()
    assert (records["fate"] == Fate.RECEIVED).all()
    assert report["most_in_flight"] <= 128


@pytest.mark.parametrize("packet_bytes", [44, 1400])
def test_small_buffers_make_a_small_window_and_never_overflow(packet_bytes: int) -> None:
    """What a user without rights gets: the window adapts to the buffers, so that our own sockets lose nothing."""
    small = 128 << 10
    with Reflector.start(ReflectorConfig("127.0.0.1", "127.0.0.1", ssid=7, receive_buffer_bytes=small)) as reflector:
        config = SenderConfig(
            "127.0.0.1",
            reflector.port,
            ssid=7,
            rate_pps=50_000,
            packets=4000,
            packet_bytes=packet_bytes,
            receive_buffer_bytes=small,
            far_buffer_bytes=reflector.receive_buffer_bytes,
        )
        with Sender.start(config) as sender:
            assert sender.window < 260
            records = everything(sender)
            report = sender.report()
        counters = reflector.counters()
    assert (records["fate"] == Fate.RECEIVED).all()
    assert (report["socket_drops"], counters["socket_drops"]) == (0, 0)


@pytest.mark.parametrize("size", [44, 64, 128, 600, 1472, 3000, 8972])
def test_a_buffer_holds_what_its_window_allows(size: int) -> None:
    far = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    far.bind(("127.0.0.1", 0))
    near = StampedSocket("127.0.0.1", peer=far.getsockname(), buffer_bytes=200_000)
    count = int(near.receive_buffer_bytes * 0.9 / (truesize(size) + truesize(0)))
    for _ in range(count):  # nothing is read here until all is sent: every packet leaves a stamp and gets a reply
        assert near.send(bytes(size)) == 0
        far.sendto(*far.recvfrom(size))
    assert near.dropped() == 0
    block = MessageBlock(count + 1, 64)
    assert near.receive(block) == count
    assert len(near.sent_stamps()[0]) == count
    for _ in range(4 * count):  # and beyond it, the socket says how many it lost
        far.sendto(bytes(size), ("127.0.0.1", near.port))
    kept = sum(iter(lambda: near.receive(block), 0))
    assert kept + near.dropped() == 4 * count
    assert near.dropped() > 0
    near.close()
    far.close()


def test_stopping_in_the_middle_settles_what_is_in_flight(reflector: Reflector) -> None:
    with Sender.start(SenderConfig("127.0.0.1", reflector.port, ssid=7, rate_pps=5000)) as sender:
        chunks = []
        for records in sender.chunks():
            chunks.append(records)
            if sender.sent > 1000:
                sender.stop()
        report = sender.report()
    records = np.concatenate(chunks)
    assert report["ended_by"] == "stop"
    assert records["seq"].tolist() == list(range(report["sent"]))
    assert (records["fate"] == Fate.RECEIVED).all()


def test_a_closed_port_is_a_fact_in_the_report_and_no_hang() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
    with Sender.start(SenderConfig("127.0.0.1", port, rate_pps=500, timeout_ns=100 * MS)) as sender:
        records = everything(sender)
        report = sender.report()
    assert report["ended_by"] == "refused"
    assert report["icmp_errors"]["ECONNREFUSED"] > 0
    assert len(records) == report["sent"] > 0  # an ICMP error met while sending costs no packet
    assert (records["fate"] == Fate.LOST).all()


def test_a_reflector_that_dies_is_lost_packets_and_then_a_refusal() -> None:
    reflector = Reflector.start(ReflectorConfig("127.0.0.1", "127.0.0.1", ssid=7))
    config = SenderConfig("127.0.0.1", reflector.port, ssid=7, rate_pps=500, timeout_ns=100 * MS)
    with Sender.start(config) as sender:
        chunks = []
        for records in sender.chunks():
            chunks.append(records)
            if sender.sent > 100:
                reflector.close()
        report = sender.report()
    records = np.concatenate(chunks)
    assert report["ended_by"] == "refused"
    heard = records["fate"] == Fate.RECEIVED
    assert heard.any()
    assert not heard[np.argmin(heard) :].any()  # to the first loss everything, from there on nothing
    with pytest.raises(HostError):
        reflector.counters()


def test_a_sender_that_dies_is_a_fact_in_the_report(reflector: Reflector) -> None:
    with Sender.start(SenderConfig("127.0.0.1", reflector.port, ssid=7, rate_pps=500)) as sender:
        for _ in sender.chunks():
            os.kill(sender.pid, signal.SIGKILL)
        assert sender.report()["ended_by"] == "died"


def test_ctrl_c_is_left_to_the_parent(reflector: Reflector) -> None:
    with Sender.start(SenderConfig("127.0.0.1", reflector.port, ssid=7, rate_pps=2000, packets=1000)) as sender:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(sender.pid, number)
            os.kill(reflector.pid, number)
        assert (everything(sender)["fate"] == Fate.RECEIVED).all()


def test_ctrl_c_is_left_to_the_parent_from_the_first_moment(
    reflector: Reflector, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = subprocess.Popen

    def start_and_press(*arguments: Any, **settings: Any) -> subprocess.Popen[bytes]:
        child = start(*arguments, **settings)
        child.send_signal(signal.SIGINT)  # Python is not even loaded there
        return child

    monkeypatch.setattr(subprocess, "Popen", start_and_press)
    with Sender.start(SenderConfig("127.0.0.1", reflector.port, ssid=7, rate_pps=2000, packets=100)) as sender:
        assert (everything(sender)["fate"] == Fate.RECEIVED).all()


ORPHANS = """
import json, sys, threading
from linkqual.net.reflector import Reflector, ReflectorConfig
from linkqual.net.sender import Sender, SenderConfig
started = []
def start():
    started.append(Reflector.start(ReflectorConfig("127.0.0.1", "127.0.0.1", ssid=7)))
    started.append(Sender.start(SenderConfig("127.0.0.1", started[0].port, ssid=7, rate_pps=100)))
if sys.argv[1] == "thread":
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    started[0].counters()  # its thread has ended, it has not
else:
    start()
print(json.dumps([each.pid for each in started]), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("where", ["main", "thread"])
def test_no_process_outlives_its_parent(where: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHANS, where], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pids = json.loads(parent.stdout.readline())
    assert all(os.path.exists(f"/proc/{pid}") for pid in pids)
    parent.kill()
    parent.communicate()
    wait_until(lambda: not any(_alive(pid) for pid in pids))


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# ---- what is asked for and cannot be had


def test_wrong_requests_are_told_with_a_hint() -> None:
    for error, start in (
        (HostError, lambda: Reflector.start(ReflectorConfig("192.0.2.77", "127.0.0.1", ssid=1))),
        (HostError, lambda: Reflector.start(ReflectorConfig("127.0.0.1", "nobody", ssid=1))),
        (UsageError, lambda: Sender.start(SenderConfig("127.0.0.1", 9, schedule="monthly"))),
        (UsageError, lambda: Sender.start(SenderConfig("127.0.0.1", 9, rate_pps=10**6, timeout_ns=10**11))),
        (UsageError, lambda: Sender.start(SenderConfig("127.0.0.1", 9, packets=0))),
        (PeerError, lambda: Sender.start(SenderConfig("host.invalid", 9))),
    ):
        with pytest.raises(error) as caught:
            start()
        assert caught.value.hint


def test_a_port_in_use_is_told(reflector: Reflector) -> None:
    with pytest.raises(HostError, match=str(reflector.port)):
        Reflector.start(ReflectorConfig("127.0.0.1", "127.0.0.1", ssid=7, port=reflector.port))


# ---- a reflector under attack


def peer(source: str = "127.0.0.1") -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((source, 0))
    sock.settimeout(10)
    return sock


def request(seq: int, *, ssid: int = 7, size: int = 64) -> bytes:
    packet = request_template(size, ssid=ssid).copy()
    packet[:4] = np.frombuffer(seq.to_bytes(4, "big"), np.uint8)
    return packet.tobytes()


def test_only_the_peers_session_is_answered_whatever_else_arrives(reflector: Reflector) -> None:
    target = ("127.0.0.1", reflector.port)
    attackers = [peer(), peer("127.0.0.2")]
    config = SenderConfig("127.0.0.1", reflector.port, ssid=7, rate_pps=2000, packets=2000)
    garbage = [b"", b"\0", os.urandom(40), os.urandom(44), os.urandom(64), os.urandom(1400), os.urandom(20_000)]

    def throw() -> int:
        thrown = (*garbage, request(99, ssid=8), request(2**31))
        for attacker in attackers:
            for data in thrown:
                attacker.sendto(data, target)
        return len(thrown) * len(attackers)

    before = throw()
    attackers[1].sendto(request(0), target)  # from another address, and the session's first packet in all else
    wait_until(lambda: sum(reflector.counters()[kind] for kind in ("foreign", "malformed", "wrong_ssid")) == before + 1)
    with Sender.start(config) as sender:
        wait_until(lambda: reflector.counters()["answered"] > 0)
        chunks = []
        for records in sender.chunks():
            chunks.append(records)
            throw()
            for attacker in attackers:
                attacker.sendto(request(0), target)
    records = np.concatenate(chunks)
    assert (records["fate"] == Fate.RECEIVED).all()
    assert (records["forward_copies"] == 0).all()
    for attacker in attackers:  # now that the peer is known the kernel tells them that nobody is there for them
        attacker.setblocking(False)
        with pytest.raises(BlockingIOError):
            attacker.recv(1)
        attacker.close()
    counters = reflector.counters()
    assert (counters["answered"], counters["duplicates"], counters["socket_drops"]) == (2000, 0, 0)


def test_the_peers_own_scraps_are_counted_each_by_its_kind(reflector: Reflector) -> None:
    near = peer()
    target = ("127.0.0.1", reflector.port)
    near.sendto(request(0), target)
    near.recv(100)
    for data in (b"", bytes(40), bytes(64), os.urandom(12_000), request(0, ssid=8), request(3, ssid=0)):
        near.sendto(data, target)
    near.sendto(request(1), target)
    assert len(near.recv(20_000)) == 64  # the next thing that comes is the answer to the next request
    counters = reflector.counters()
    assert (counters["answered"], counters["wrong_ssid"], counters["malformed"]) == (2, 3, 3)
    assert counters["foreign"] == 0


@pytest.mark.parametrize("size", [44, 64, 68, 100, 1472, 9000])
def test_a_reply_is_as_long_as_its_request(reflector: Reflector, size: int) -> None:
    near = peer()
    near.sendto(request(5, size=size), ("127.0.0.1", reflector.port))
    reply = near.recv(20_000)
    assert len(reply) == size
    packet = ReflectorPacket.decode(reply)
    assert (packet.sender_sequence, packet.sequence, packet.ssid, packet.sender_ttl) == (5, 0, 7, 64)


def test_requests_of_mixed_length_and_foreign_tlvs_are_served(reflector: Reflector) -> None:
    near = peer()
    unknown = SenderPacket(2, 0, ErrorEstimate(), 7, Tlv(200, b"abcd").encode()).encode()
    sent = [request(0, size=44), request(1, size=100), unknown, request(3), request(4, size=44)]
    for data in sent:
        near.sendto(data, ("127.0.0.1", reflector.port))
    replies = [near.recv(2000) for _ in sent]
    assert [len(reply) for reply in replies] == [len(data) for data in sent]
    assert [ReflectorPacket.decode(reply).sender_sequence for reply in replies] == [0, 1, 2, 3, 4]
    assert replies[2][44:] == bytes([0x80, 200, 0, 4]) + b"abcd"  # U: not understood, given back


def test_a_duplicate_from_the_net_is_reflected_and_counted(reflector: Reflector) -> None:
    near = peer()
    for seq in (0, 1, 1):
        near.sendto(request(seq), ("127.0.0.1", reflector.port))
    replies = [ReflectorPacket.decode(near.recv(100)) for _ in range(3)]
    assert [(reply.sender_sequence, reply.sequence) for reply in replies] == [(0, 0), (1, 1), (1, 2)]
    assert reflector.counters()["duplicates"] == 1


def test_losses_are_attributed_by_what_the_far_end_saw() -> None:
    """A sender whose session the far end does not know loses everything on the way there, as far as anyone can tell."""
    with Reflector.start(ReflectorConfig("127.0.0.1", "127.0.0.1", ssid=7)) as reflector:
        config = SenderConfig("127.0.0.1", reflector.port, ssid=8, rate_pps=1000, packets=100, timeout_ns=50 * MS)
        with Sender.start(config) as sender:
            records = everything(sender)
        attribute(records, 0, reflector.arrived(0, 100))
        assert reflector.counters()["wrong_ssid"] == 100
    assert (records["fate"] == Fate.LOST_FORWARD).all()
