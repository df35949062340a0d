"""What needs no routers: the target's manners, interruption, a trace to oneself."""

from __future__ import annotations

import contextlib
import socket

import pytest

from linkqual.net.trace import Target, trace
from linkqual.wire import trace_probe

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


def test_an_interruption_keeps_what_was_found() -> None:
    found = trace("127.0.0.1", 0, 9, interrupted=lambda: True)
    assert found.fault is not None
    assert found.fault.kind == "interrupted"


def test_names_are_no_addresses() -> None:
    found = trace("no such address", 0, 9)
    assert found.fault is not None
    assert "trace:" in found.fault.message
