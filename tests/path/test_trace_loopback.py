"""What needs no routers: the target's manners, interruption, a trace to oneself."""

from __future__ import annotations

import contextlib
import os
import socket
import struct

import pytest

from linkqual.net import trace_sockets
from linkqual.net.trace import Target, trace
from linkqual.net.trace_sockets import TraceSockets
from linkqual.session.trace import Answer
from linkqual.wire import icmp, trace_probe

pytestmark = pytest.mark.loopback

HERE = "127.0.0.1"


def ask(port: int, payload: bytes) -> bytes | None:
    """One datagram to the target, then a probe it must answer: what came for the first, None when only the second came."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((HERE, port))
        sock.settimeout(10)
        sock.send(payload)
        sock.send(trace_probe.encode(77))
        first = sock.recv(4096)
        return None if trace_probe.number_of_reply(first) == 77 else first


def _ask_on(peer: socket.socket) -> None:
    peer.settimeout(0.1)
    for number in range(1000):
        peer.send(trace_probe.encode(number))
        with contextlib.suppress(TimeoutError):  # taken in by a target that was just closing
            peer.recv(4096)


def test_the_target_answers_probes_in_kind_and_nothing_else() -> None:
    probe = trace_probe.encode(5)
    with Target(HERE, 0, HERE) as target:
        answer = ask(target.port, probe)
        assert answer is not None
        assert len(answer) == len(probe)
        assert trace_probe.number_of_reply(answer) == 5
        for other in (b"", b"hello", trace_probe.reply(probe), probe[:-20]):
            assert ask(target.port, other) is None


def test_the_target_answers_its_peer_only_and_not_for_ever() -> None:
    with Target(HERE, 0, "192.0.2.1") as target, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.connect((HERE, target.port))
        stranger.send(trace_probe.encode(1))
        target.close()
        stranger.setblocking(False)
        with pytest.raises((BlockingIOError, ConnectionRefusedError)):
            stranger.recv(100)
    with Target(HERE, 0, HERE, max_replies=3) as target, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.connect((HERE, target.port))
        peer.settimeout(10)
        for number in range(3):
            peer.send(trace_probe.encode(number))
            assert trace_probe.number_of_reply(peer.recv(100)) == number
        with pytest.raises(ConnectionRefusedError):
            _ask_on(peer)


def test_a_taken_port_leaves_the_target_closed() -> None:
    with Target(HERE, 0, HERE) as first, Target(HERE, first.port, HERE) as second:
        assert second.error is not None
        assert second.port == first.port


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, HERE), (socket.AF_INET6, "::1")])
def test_a_trace_to_oneself_is_one_hop(family: int, address: str) -> None:
    with Target(address, 0, address, family) as target:
        found = trace(address, 0, target.port, family)
    assert found.fault is None
    assert [(hop.address, hop.reached) for hop in found.hops] == [(address, True)]
    assert found.source == address
    assert found.source_port


LABELS = ("label=24001 tc=2 s=0 ttl=1", "label=16 tc=0 s=1 ttl=3")


@pytest.mark.skipif(os.geteuid() != 0, reason="forging an ICMP error needs raw sockets")
@pytest.mark.parametrize("stated", [True, False], ids=["length stated", "length not stated"])
@pytest.mark.parametrize("privileged", [True, False])
@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, HERE), (socket.AF_INET6, "::1")])
def test_labels_are_read_with_and_without_privilege(
    monkeypatch: pytest.MonkeyPatch, family: int, address: str, privileged: bool, stated: bool
) -> None:
    """An error as a router inside a tunnel makes it (RFC 4950), in both layouts of RFC 4884."""
    if not privileged:
        monkeypatch.setattr(trace_sockets, "_raw_icmp", lambda _family: None)
    with socket.socket(family, socket.SOCK_DGRAM) as far:
        far.bind((address, 0))
        port = far.getsockname()[1]
        with TraceSockets(family, address, 0, address, port) as sockets:
            assert not list(sockets.send(3, 9))
            payload = trace_probe.encode(3)
            udp = struct.pack("!HHHH", sockets.source_port, port, 8 + len(payload), 0) + payload
            stack = struct.pack("!HBBII", 12, 1, 1, 24001 << 12 | 2 << 9 | 1, 16 << 12 | 1 << 8 | 3)
            body = b"\x20\0\0\0" + stack
            extension = body[:2] + struct.pack("!H", icmp._checksum(body)) + body[4:]
            _forge(family, udp, extension, stated)
            heard = (reply for _ in range(50) for reply in sockets.receive(100_000_000))
            told = next(reply for reply in heard if reply.answer is Answer.ON_THE_WAY)
    assert (told.number, told.address, told.labels) == (3, address, LABELS)
    assert (told.quoted_ttl == 1) is privileged


def _forge(family: int, udp: bytes, extension: bytes, stated: bool) -> None:
    if family == socket.AF_INET6:
        here = socket.inet_pton(family, "::1")
        head = struct.pack("!IHBB", 6 << 28, len(udp), 17, 1) + here + here
        kind, length = 3, struct.pack("!BB", 16 * stated, 0)
    else:
        here = socket.inet_pton(family, HERE)
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 1, 17, 0) + here + here
        kind, length = 11, struct.pack("!BB", 0, 32 * stated)
    quote = (head + udp).ljust(128, b"\0") + extension
    message = bytes([kind, 0, 0, 0]) + length + b"\0\0" + quote
    if family == socket.AF_INET:
        message = message[:2] + struct.pack("!H", icmp._checksum(message)) + message[4:]
    protocol = socket.IPPROTO_ICMPV6 if family == socket.AF_INET6 else socket.IPPROTO_ICMP
    with socket.socket(family, socket.SOCK_RAW, protocol) as router:
        router.sendto(message, ("::1" if family == socket.AF_INET6 else HERE, 0))


def test_an_interruption_keeps_what_was_found() -> None:
    found = trace("127.0.0.1", 0, 9, interrupted=lambda: True)
    assert found.fault is not None
    assert found.fault.kind == "interrupted"


def test_names_are_no_addresses() -> None:
    found = trace("no such address", 0, 9)
    assert found.fault is not None
    assert "trace:" in found.fault.message


def test_an_arrival_is_not_dated_back_where_the_process_waits_between_two_clocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = {"mono": 10**9, "wall": 10**18}
    waits = iter([400_000, 0])

    def wall() -> int:
        waited = next(waits, 0)
        now["mono"] += waited
        now["wall"] += waited
        return now["wall"]

    monkeypatch.setattr(trace_sockets.time, "time_ns", wall)
    monkeypatch.setattr(trace_sockets.time, "monotonic_ns", lambda: now["mono"])
    stamp = struct.pack("qq", *divmod(10**18 - 50_000, 10**9))
    arrived = trace_sockets._instant([(socket.SOL_SOCKET, 35, stamp)])
    assert arrived == 10**9 - 50_000
