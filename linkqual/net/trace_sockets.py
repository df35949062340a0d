"""The sockets of a trace: probes of one flow go out, what the routers and the destination say comes in, kernel-stamped.

A UDP socket sends them, with or without privilege: a host with several equal ways out chooses by what kind of socket a packet comes
from, and the probes are to go where the flow's own packets go. With the right to raw sockets (CAP_NET_RAW) ICMP errors are read whole: their own TTL, the quoted TTL, MPLS labels. Without
it the kernel still hands over who sent an error and of what kind, on the error queue of the UDP socket, with what was quoted behind the
UDP header and the labels after it. Floor 3.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from types import TracebackType
from typing import ClassVar

from linkqual.errors import WireError
from linkqual.session.trace import Answer, Reply
from linkqual.units import NS_PER_S
from linkqual.wire import icmp, trace_probe
from linkqual.wire.icmp import Cause, IcmpError

Address = tuple[str, int] | tuple[str, int, int, int]

_SO_TIMESTAMPNS = 35
_SOL_RAW, _ICMP_FILTER, _ICMP6_FILTER = 255, 1, 1
_IP_RETOPTS, _IP_RECVERR, _IP_RECVTTL, _IPV6_RECVERR, _IPV6_RECVHOPLIMIT, _IPV6_HOPLIMIT = 7, 11, 12, 25, 51, 52
_MSG_ERRQUEUE = 0x2000
_ORIGIN_ICMP, _ORIGIN_ICMP6 = 2, 3  # of struct sock_extended_err
_ROOM = 2048
_BIND_TRIES = 20
_TRAIN_TRIES = 50  # each answer that comes meanwhile stops one
_READ_TRIES, _READ_NS = 10, 10_000
_SEND_TRIES = 5  # an error still pending on the socket is reported by the next send


@dataclass(frozen=True, slots=True)
class Codec:
    """How ICMP errors are read."""

    parse: Callable[[int, bytes], IcmpError]


def _parse(family: int, message: bytes) -> IcmpError:
    return icmp.parse_v6(message) if family == socket.AF_INET6 else icmp.parse_v4(message)


PLAIN = Codec(_parse)  # needs the standard library only


def raw_permitted(family: int) -> bool:
    """Whether this process may read ICMP errors whole."""
    raw = _raw_icmp(family)
    if raw is None:
        return False
    raw.close()
    return True


class TraceSockets:
    """One flow's sockets. Use it in a `with` statement. Raises OSError where the system refuses address or port."""

    latest_ns: ClassVar[dict[str, int]] = {}  # by source address: when a trace, watch or train last sent from it

    def __init__(
        self,
        family: int,
        source: str,
        source_port: int,
        destination: str,
        destination_port: int,
        codec: Codec = PLAIN,
        tos: int = 0,
    ) -> None:
        self.family, self._codec = family, codec
        self._level = socket.IPPROTO_IPV6 if family == socket.AF_INET6 else socket.IPPROTO_IP
        self._to = _resolve(family, destination, destination_port)
        self.destination = _plain(self._to[0])
        with contextlib.ExitStack() as opened:
            self._udp = opened.enter_context(socket.socket(family, socket.SOCK_DGRAM))
            _bind(self._udp, _resolve(family, source or _source_toward(family, self._to), source_port))
            self.source, self.source_port = _plain(self._udp.getsockname()[0]), self._udp.getsockname()[1]
            self._udp.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            ttl = _IPV6_RECVHOPLIMIT if family == socket.AF_INET6 else _IP_RECVTTL
            self._udp.setsockopt(self._level, ttl, 1)
            self._udp.setsockopt(self._level, socket.IPV6_TCLASS if family == socket.AF_INET6 else socket.IP_TOS, tos)
            self._icmp = _raw_icmp(family)
            if self._icmp is None:
                recverr = _IPV6_RECVERR if family == socket.AF_INET6 else _IP_RECVERR
                self._udp.setsockopt(self._level, recverr, 1)
            else:
                opened.enter_context(self._icmp)
                self._icmp.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
                if family == socket.AF_INET6:
                    self._icmp.setsockopt(self._level, ttl, 1)
            self._poll = select.poll()
            self._poll.register(self._udp, select.POLLIN | select.POLLERR)
            if self._icmp is not None:
                self._poll.register(self._icmp, select.POLLIN)
            self._opened = opened.pop_all()

    def __enter__(self) -> TraceSockets:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._opened.close()

    def send(self, number: int, ttl: int, record_route: bool = False) -> Iterator[Reply]:
        """Send one probe. Yields what was already waiting, when that stood in the way. Raises OSError when it cannot be sent."""
        self.latest_ns[self.source] = time.monotonic_ns()
        payload = trace_probe.encode(number, trace_probe.ROOM if record_route else 0)
        hops = _IPV6_HOPLIMIT if self.family == socket.AF_INET6 else socket.IP_TTL
        extras = [(self._level, hops, struct.pack("i", ttl))]
        if record_route:
            extras.append((socket.IPPROTO_IP, _IP_RETOPTS, icmp.RECORD_ROUTE))
        for attempt in range(1, _SEND_TRIES + 1):
            try:
                self._udp.sendmsg([payload], extras, 0, self._to)
                return
            except OSError as error:
                if attempt == _SEND_TRIES or error.errno in {errno.EPERM, errno.EMSGSIZE}:
                    raise
            yield from self._error_queue()

    def send_octets(self, octets: bytes, ttl: int) -> None:
        """Send one packet of the flow, whatever errors others of it have met: they wait for `receive`. Raises OSError when it cannot be sent."""
        self.latest_ns[self.source] = time.monotonic_ns()
        hops = _IPV6_HOPLIMIT if self.family == socket.AF_INET6 else socket.IP_TTL
        for attempt in range(1, _TRAIN_TRIES + 1):
            try:
                self._udp.sendmsg([octets], [(self._level, hops, struct.pack("i", ttl))], 0, self._to)
                return
            except OSError as error:
                if attempt == _TRAIN_TRIES or error.errno in {errno.EPERM, errno.EMSGSIZE}:
                    raise

    def receive(self, timeout_ns: int) -> Iterator[Reply]:
        """What comes within the time; ends with the first bundle. Foreign and damaged packets are passed over."""
        if self._poll.poll(max(0, -(-timeout_ns // 1_000_000))):
            yield from self._datagrams()
            yield from self._errors() if self._icmp is not None else self._error_queue()

    def _datagrams(self) -> Iterator[Reply]:
        """Answers of a target that expects us."""
        for data, extras, _flags, sender in _messages(self._udp):
            if (_plain(sender[0]), sender[1]) != (self.destination, self._to[1]):
                continue
            with contextlib.suppress(WireError):
                yield Reply(
                    trace_probe.number_of_reply(data),
                    self.destination,
                    _instant(extras),
                    Answer.ARRIVED,
                    reply_ttl=self._ttl(extras),
                    by_target=True,
                    recorded=trace_probe.recorded_of_reply(data),
                )

    def _errors(self) -> Iterator[Reply]:
        """ICMP errors about our flow, read whole."""
        assert self._icmp is not None
        for data, extras, _flags, sender in _messages(self._icmp):
            with contextlib.suppress(WireError):
                ttl = self._ttl(extras)
                message = data
                if self.family == socket.AF_INET:  # comes with its IP header
                    message, ttl = data[4 * (data[0] & 0x0F) :], data[8]
                found = self._codec.parse(self.family, message)
                if (found.quote.source_port, found.quote.destination_port) != (self.source_port, self._to[1]):
                    continue
                if _plain(found.quote.destination) != self.destination:
                    continue
                yield Reply(
                    number=trace_probe.number_of_length(found.quote.udp_bytes),
                    address=_plain(sender[0]),
                    received_ns=_instant(extras),
                    answer=_answer(found.cause),
                    labels=tuple(map(str, found.labels)),
                    reply_ttl=ttl,
                    quoted_ttl=found.quote.ttl,
                    quoted_tos=found.quote.tos,
                )

    def _error_queue(self) -> Iterator[Reply]:
        """ICMP errors as the kernel tells them to a UDP socket; the data is the quoted payload."""
        for data, extras, _flags, _sender in _messages(self._udp, _MSG_ERRQUEUE):
            with contextlib.suppress(WireError):
                told = _offender(extras)
                if told is not None:
                    address, cause = told
                    found = icmp.labels_behind_payload(6 if self.family == socket.AF_INET6 else 4, data)
                    yield Reply(
                        trace_probe.number_of_quote(data),
                        address,
                        _instant(extras),
                        _answer(cause),
                        labels=tuple(map(str, found)),
                    )

    def _ttl(self, extras: list[tuple[int, int, bytes]]) -> int | None:
        wanted = (self._level, _IPV6_HOPLIMIT if self.family == socket.AF_INET6 else socket.IP_TTL)
        return next((int(struct.unpack_from("i", data)[0]) for *kind, data in extras if tuple(kind) == wanted), None)


def _answer(cause: Cause) -> Answer:
    return {
        Cause.TTL: Answer.ON_THE_WAY,
        Cause.PORT: Answer.ARRIVED,
        Cause.REFUSED: Answer.STOPPED,
        Cause.NO_ROUTE: Answer.NO_WAY,
    }[cause]


def _messages(
    sock: socket.socket, flags: int = 0
) -> Iterator[tuple[bytes, list[tuple[int, int, bytes]], int, Address]]:
    while True:
        try:
            yield sock.recvmsg(_ROOM, 512, flags | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:  # a pending error of the socket; reading it clears it, and the queue has told it already
            continue


def _instant(extras: list[tuple[int, int, bytes]]) -> int:
    """When the kernel received it, on the monotonic clock."""
    for level, kind, data in extras:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
            seconds, rest = map(int, struct.unpack_from("qq", data))
            wall_ns, now_ns = _at_once()
            return now_ns - max(0, wall_ns - seconds * NS_PER_S - rest)
    return time.monotonic_ns()


def _at_once() -> tuple[int, int]:
    """Wall and monotonic clock at one instant: interrupted between the two, an answer would seem older than it is."""
    for _ in range(_READ_TRIES):
        before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        if after - before <= _READ_NS:
            break
    return wall, after


def _offender(extras: list[tuple[int, int, bytes]]) -> tuple[str, Cause] | None:
    """Who sent an ICMP error and why, of struct sock_extended_err and the address behind it."""
    for level, kind, data in extras:
        if (level, kind) not in {(socket.IPPROTO_IP, _IP_RECVERR), (socket.IPPROTO_IPV6, _IPV6_RECVERR)}:
            continue
        _errno, origin, icmp_type, code = struct.unpack_from("=IBBB", data)
        if origin == _ORIGIN_ICMP:
            return socket.inet_ntop(socket.AF_INET, data[20:24]), icmp.cause(4, icmp_type, code)
        if origin == _ORIGIN_ICMP6:
            return socket.inet_ntop(socket.AF_INET6, data[24:40]), icmp.cause(6, icmp_type, code)
    return None


def _raw_icmp(family: int) -> socket.socket | None:
    """A raw socket that receives unreachable and time exceeded only; None without the right to it."""
    try:
        if family == socket.AF_INET6:
            raw = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
            blocked = bytearray(b"\xff" * 32)
            blocked[:4] = struct.pack("=I", ~(1 << 1 | 1 << 3) & 0xFFFF_FFFF)
            raw.setsockopt(socket.IPPROTO_ICMPV6, _ICMP6_FILTER, bytes(blocked))
        else:
            raw = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_ICMP)
            raw.setsockopt(_SOL_RAW, _ICMP_FILTER, struct.pack("=I", ~(1 << 3 | 1 << 11) & 0xFFFF_FFFF))
    except PermissionError:
        return None
    return raw


def _resolve(family: int, address: str, port: int) -> Address:
    kind = socket.SOCK_DGRAM
    found = socket.getaddrinfo(address, port, socket.AddressFamily(family), kind, 0, socket.AI_NUMERICHOST)
    return found[0][4]  # type: ignore[return-value]


def _bind(sock: socket.socket, address: Address) -> None:
    """A program that another thread starts just now holds, for some milliseconds, also the port this process has let go."""
    for left in reversed(range(_BIND_TRIES)):
        try:
            sock.bind(address)
            break
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not left:
                raise
        time.sleep(0.01)


def _source_toward(family: int, destination: Address) -> str:
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.connect((destination[0], destination[1] or 1, *destination[2:]))
        return str(asking.getsockname()[0])


def _plain(address: str) -> str:
    """One spelling for each address, without a zone."""
    return str(ip_address(address.split("%", maxsplit=1)[0]))
