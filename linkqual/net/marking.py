"""Marked packets out, replies with the TOS octet they arrived with in: one flow of a few hundred packets, nothing timed. Floor 3."""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from linkqual.session.marking import Echo, Mark, read_reply, request
from linkqual.wire import codepoints

_IP_RECVTOS, _IPV6_RECVTCLASS = 13, 66
_SLICE_NS = 10_000_000  # how long an interruption may go unnoticed
_ROOM = 2048
_GONE = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH)  # an ICMP error about an earlier packet


@dataclass(slots=True)
class Heard:
    """What was sent and what came back. `sent`: the marking of each packet that left, by its number."""

    sent: list[Mark] = field(default_factory=list)
    echoes: dict[int, Echo] = field(default_factory=dict)
    refused: str = ""  # why this host would not send some of the packets


def exchange(
    peer: str,
    port: int,
    ssid: int,
    in_turn: Sequence[Mark],
    *,
    source: str = "",
    family: int = socket.AF_INET,
    interval_ns: int,
    timeout_ns: int,
    interrupted: Callable[[], bool] = lambda: False,
) -> Heard:
    """Send one packet of each marking in the order given, one every `interval_ns`, and wait up to `timeout_ns` for the last replies.

    Raises OSError when the socket cannot be opened.
    """
    done = Heard()
    with _opened(peer, port, source, family) as sock:
        begin = time.monotonic_ns()
        for place, mark in enumerate(in_turn):
            _hear(sock, ssid, done, begin + place * interval_ns, interrupted)
            if interrupted():
                return done
            _send(sock, ssid, mark, done)
        until = time.monotonic_ns() + timeout_ns
        while time.monotonic_ns() < until and len(done.echoes) < len(done.sent) and not interrupted():
            _hear(sock, ssid, done, min(until, time.monotonic_ns() + _SLICE_NS), interrupted)
    return done


@contextlib.contextmanager
def _opened(peer: str, port: int, source: str, family: int) -> Iterator[socket.socket]:
    v6 = family == socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.bind((source, 0))
        sock.connect((peer, port))
        sock.setblocking(False)
        if v6:
            sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_RECVTCLASS, 1)
        else:
            sock.setsockopt(socket.IPPROTO_IP, _IP_RECVTOS, 1)
        yield sock


def _level(sock: socket.socket) -> tuple[int, int]:
    """Level and kind of the control message that carries the octet."""
    if sock.family == socket.AF_INET6:
        return socket.IPPROTO_IPV6, socket.IPV6_TCLASS
    return socket.IPPROTO_IP, socket.IP_TOS


def _send(sock: socket.socket, ssid: int, mark: Mark, done: Heard) -> None:
    payload = request(len(done.sent), ssid, mark, time.time_ns())
    extras = [(*_level(sock), struct.pack("=i", codepoints.octet(*mark)))]
    for _ in range(2):  # the first try may be told of an error about an earlier packet
        try:
            sock.sendmsg([payload], extras)
            done.sent.append(mark)
            return
        except OSError as error:
            if error.errno not in _GONE:
                done.refused = error.strerror or str(error)
                return


def _hear(sock: socket.socket, ssid: int, done: Heard, until_ns: int, interrupted: Callable[[], bool]) -> None:
    """Take what comes until an instant of the monotonic clock."""
    while (left := until_ns - time.monotonic_ns()) > 0 and not interrupted():
        if select.select([sock], [], [], min(left, _SLICE_NS) / 1e9)[0]:
            _take(sock, ssid, done)


def _take(sock: socket.socket, ssid: int, done: Heard) -> None:
    while True:
        try:
            data, extras, _flags, _sender = sock.recvmsg(_ROOM, 128)
        except BlockingIOError:
            return
        except OSError:  # an ICMP error about one of our packets; reading it clears it
            continue
        # one octet (IPv4) or an int (IPv6)
        octets = [int.from_bytes(value, sys.byteorder) & 0xFF for *kind, value in extras if tuple(kind) == _level(sock)]
        told = read_reply(data, ssid, octets[0]) if octets else None
        if told is not None and told[0] < len(done.sent):
            done.echoes.setdefault(*told)
