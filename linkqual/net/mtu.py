"""One end of a search for the path MTU: it asks, and it answers the other end, on one UDP socket for both. Floor 3.

    end                                        other end
    question of n bytes, Don't Fragment  --->            its answer is short, so that only one direction is asked about
                                         <---  answer
            <--- ICMP: too big, the next hop takes m     (RFC 1191, RFC 8201), if a router says so and nothing drops it

Needs no privilege: the kernel is told to send whatever fits the interface (PROBE), and hands over ICMP on the error queue.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType

from linkqual.errors import WireError
from linkqual.model import Direction, MtuHop, MtuWay
from linkqual.net.addresses import bare
from linkqual.net.netlink import outgoing_interface
from linkqual.session import mtu
from linkqual.session.mtu import Search
from linkqual.units import NS_PER_S
from linkqual.wire import mtu as wire

ASSUMED_BYTES = 1500  # where the interface does not tell its MTU
MOST_HOPS = 30
_IP_MTU_DISCOVER, _IP_RECVERR, _IP_RECVFRAGSIZE = 10, 11, 25
_IPV6_MTU_DISCOVER, _IPV6_RECVERR, _IPV6_DONTFRAG, _IPV6_RECVFRAGSIZE, _IPV6_HOPLIMIT = 23, 25, 62, 77, 52
_PROBE = 3  # of *_MTU_DISCOVER: Don't Fragment is set, and the path MTU the kernel believes in is not looked at
_MSG_ERRQUEUE = 0x2000
_SIOCGIFMTU = 0x8921
_ORIGIN_ICMP, _ORIGIN_ICMP6 = 2, 3  # of struct sock_extended_err
_TOO_BIG, _TTL = {(4, 3, 4), (6, 2, 0)}, {(4, 11, 0), (6, 3, 0)}  # version, type, code
_SLICE_NS = 50_000_000  # how long an interruption may go unnoticed
_LEAST_WAIT_NS = 100_000_000
_BLOCK = 8  # hops asked at once
_GAP_NS = 5_000_000
_AGAIN_NS = (
    _LEAST_WAIT_NS,
    1_050_000_000,
)  # before a hop that said nothing is asked once more; Linux answers one address once a second
_SHORT_BYTES = 100  # of an IP packet
_ROOM = 65_535


@dataclass(slots=True)
class _Heard:
    """What came, until the search takes it."""

    answered: dict[int, int] = field(default_factory=dict)  # number -> ns since it left
    pieces: bool = False
    too_big: list[tuple[str, int]] = field(default_factory=list)  # (router, next-hop MTU or 0)
    expired: dict[int, str] = field(default_factory=dict)  # number -> router


class MtuEnd:
    """Use it in a `with` statement. Raises OSError where address or port cannot be had. `port` 0: any free one."""

    def __init__(self, address: str, peer: str, token: bytes, family: int = socket.AF_INET, port: int = 0) -> None:
        self._family, self._token, self._peer = family, token, peer
        self._version = 6 if family == socket.AF_INET6 else 4
        self._to: tuple[str, int] | None = None
        self._heard, self._number, self._left = _Heard(), 0, dict[int, int]()
        self._ended, self._resting = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._prepare()
            self._socket.bind((address, port))
        except BaseException:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN | select.POLLERR)

    def _prepare(self) -> None:
        self._level = socket.IPPROTO_IPV6 if self._version == 6 else socket.IPPROTO_IP
        options = (
            ((_IPV6_MTU_DISCOVER, _PROBE), (_IPV6_RECVERR, 1), (_IPV6_DONTFRAG, 1), (_IPV6_RECVFRAGSIZE, 1))
            if self._version == 6
            else ((_IP_MTU_DISCOVER, _PROBE), (_IP_RECVERR, 1), (_IP_RECVFRAGSIZE, 1))
        )
        for option, value in options:
            self._socket.setsockopt(self._level, option, value)
        self._socket.setblocking(False)

    def __enter__(self) -> MtuEnd:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def halt(self) -> None:
        """End a search under way; it returns what it knows by then."""
        self._ended.set()

    def close(self) -> None:
        """Answer no more. Safe to call twice."""
        self.halt()
        self.rest()
        self._socket.close()

    # ---- answering

    def serve(self) -> None:
        """Answer the other end in a thread, until `rest` or `close`."""
        if self._ended.is_set():
            return
        self._resting.clear()
        self._thread = threading.Thread(target=self._serve, name="mtu", daemon=True)
        self._thread.start()

    def rest(self) -> None:
        """Answer no more for now."""
        self._resting.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _serve(self) -> None:
        while not self._resting.is_set():
            self._listen(_SLICE_NS)

    # ---- asking

    def search(
        self,
        direction: Direction,
        port: int,
        longest_bytes: int,
        *,
        timeout_ns: int = NS_PER_S,
        pace_bps: int = 10_000_000,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> MtuWay:
        """How long packets from here to the other end may be, up to `longest_bytes` or what the interface takes.

        `port`: the other end's, unless its packets came from another one (a translator's). Not while `serve` runs. Never raises
        for what network or system do.
        """
        self._to = self._to or (self._peer, port)
        interface = interface_bytes(self._peer)
        most = max(mtu.LEAST[self._version], min(longest_bytes, interface or ASSUMED_BYTES))
        search = Search(mtu.LEAST[self._version], most)
        self._heard = _Heard()
        asking = _Asking(self, search, timeout_ns, pace_bps, lambda: self._ended.is_set() or interrupted())
        because = ""
        try:
            asking.run()
            told = self._told(search)
            hops, reached = asking.locate() if search.fails is not None and not search.trouble else ((), None)
        except OSError as error:
            told, hops, reached = None, (), None
            because = f"this host does not send such packets: {error.strerror or error}"
        because = because or ("it was interrupted" if asking.ended() else search.trouble)
        told = told or self._told(search)
        return MtuWay(
            direction=direction,
            kind="unknown" if because else mtu.kind(search, told[0] if told else None),
            interface_bytes=interface,
            longest_bytes=most,
            passes=search.passes,
            fails=search.fails,
            told_by=told[0] if told else None,
            told_bytes=(told[1] or None) if told else None,
            fragmented=self._heard.pieces,
            tried=search.tried,
            hops=hops,
            reached_ttl=reached,
            because=because,
        )

    def _told(self, search: Search) -> tuple[str, int] | None:
        """The router whose word is the strictest."""
        told = [one for one in self._heard.too_big if search.fails is not None]
        return min(told, key=lambda one: one[1] or _ROOM, default=None)

    def send(self, ip_bytes: int, ttl: int | None = None) -> int:
        """One question; its number. Raises OSError when the host refuses to send it."""
        assert self._to is not None
        number, self._number = self._number, self._number + 1
        payload = wire.question(self._token, number, ip_bytes - mtu.HEADERS[self._version])
        limit = _IPV6_HOPLIMIT if self._version == 6 else socket.IP_TTL
        extras = [(self._level, limit, struct.pack("i", ttl))] if ttl is not None else []
        self._left[number] = time.monotonic_ns()
        for attempt in range(5):  # an error that ICMP left on the socket is reported by the next send
            try:
                self._socket.sendmsg([payload], extras, 0, self._to)
                break
            except BlockingIOError:
                time.sleep(_GAP_NS / NS_PER_S)
            except OSError as error:
                if error.errno not in _LEFT_BY_ICMP or attempt == 4:
                    raise
                self._take()
        return number

    def listen(self, timeout_ns: int) -> _Heard:
        """Wait so long at most for something to come, and take it; everything heard so far."""
        self._listen(timeout_ns)
        return self._heard

    # ---- the socket

    def _listen(self, timeout_ns: int) -> None:
        if timeout_ns > 0 and self._poll.poll(max(1, timeout_ns // 1_000_000)):
            self._take()

    def _take(self) -> None:
        for data, extras, sender in _messages(self._socket, 0):
            if bare(sender[0]) == bare(self._peer):
                with contextlib.suppress(WireError):
                    self._datagram(data, extras, sender)
        for data, extras, _ in _messages(self._socket, _MSG_ERRQUEUE):
            self._icmp(data, extras)

    def _datagram(self, data: bytes, extras: _Extras, sender: tuple[str, int]) -> None:
        if len(data) == wire.SHORTEST:
            with contextlib.suppress(WireError):
                got = wire.got(data, self._token)
                if got.number in self._left:
                    self._heard.answered.setdefault(got.number, time.monotonic_ns() - self._left[got.number])
                    self._heard.pieces |= bool(got.piece_bytes)
                return
        number = wire.asked(data, self._token)
        self._to = sender
        with contextlib.suppress(OSError):
            self._socket.sendto(wire.answer(self._token, number, len(data), self._piece(extras)), sender)

    def _piece(self, extras: _Extras) -> int:
        kind = _IPV6_RECVFRAGSIZE if self._version == 6 else _IP_RECVFRAGSIZE
        return next(
            (struct.unpack("i", data)[0] for level, found, data in extras if (level, found) == (self._level, kind)), 0
        )

    def _icmp(self, quoted: bytes, extras: _Extras) -> None:
        for level, kind, data in extras:
            if (level, kind) not in {(socket.IPPROTO_IP, _IP_RECVERR), (socket.IPPROTO_IPV6, _IPV6_RECVERR)}:
                continue
            _number, origin, icmp_type, code, _pad, info = struct.unpack_from("=IBBBBI", data)
            if origin not in (_ORIGIN_ICMP, _ORIGIN_ICMP6):
                continue
            said = (self._version, icmp_type, code)
            offender = (
                socket.inet_ntop(socket.AF_INET, data[20:24])
                if origin == _ORIGIN_ICMP
                else socket.inet_ntop(socket.AF_INET6, data[24:40])
            )
            if said in _TOO_BIG:
                self._heard.too_big.append((offender, info))
            elif said in _TTL:
                with contextlib.suppress(WireError):
                    self._heard.expired.setdefault(wire.asked(quoted, self._token), offender)


_LEFT_BY_ICMP = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EMSGSIZE, errno.EPROTO)
_Extras = list[tuple[int, int, bytes]]


def _messages(sock: socket.socket, flags: int) -> Iterator[tuple[bytes, _Extras, tuple[str, int]]]:
    while True:
        try:
            data, extras, _flags, sender = sock.recvmsg(_ROOM, 512, flags)
            yield data, extras, sender
        except BlockingIOError:
            return
        except OSError:  # what ICMP left on the socket; reading clears it
            continue


def interface_bytes(peer: str) -> int | None:
    """MTU of the interface on the way to an address; None when it cannot be told."""
    name = outgoing_interface(peer)
    if name is None:
        return None
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        answer = fcntl.ioctl(asking, _SIOCGIFMTU, struct.pack("16si12x", name.encode(), 0))
        return int(struct.unpack_from("16si", answer)[1])
    return None


class _Asking:
    """One search under way: rounds of questions, each awaited."""

    def __init__(self, end: MtuEnd, search: Search, timeout_ns: int, pace_bps: int, ended: Callable[[], bool]) -> None:
        self._end, self._search, self._timeout_ns, self._pace_bps, self.ended = end, search, timeout_ns, pace_bps, ended
        self._sizes: dict[int, int] = {}  # number -> size, of questions not yet known to have arrived
        self._hinted = 0

    def run(self) -> None:
        """Until the search is done, or it is to end."""
        while not self.ended() and (sizes := self._search.next()):
            for size in sizes:
                self._sizes[self._end.send(size)] = size
                self._search.took(size, 1, 0)
                self._hear(size * 8 * NS_PER_S // self._pace_bps)
            self._hear(self._patience_ns(), self._sizes)

    def _patience_ns(self) -> int:
        slowest = max(self._end.listen(0).answered.values(), default=0)
        return max(_LEAST_WAIT_NS, min(3 * slowest, self._timeout_ns)) if slowest else self._timeout_ns

    def _hear(self, for_ns: int, awaited: dict[int, int] | None = None) -> None:
        """Take what comes for so long, or until nothing is awaited any more."""
        until = time.monotonic_ns() + for_ns
        while (left := until - time.monotonic_ns()) > 0 and not self.ended() and awaited != {}:
            heard = self._end.listen(min(left, _SLICE_NS))
            for number in heard.answered.keys() & self._sizes.keys():
                self._search.took(self._sizes.pop(number), 0, 1)
            for _, size in heard.too_big[self._hinted :]:
                self._search.told(size)
            self._hinted = len(heard.too_big)

    # ---- where

    def locate(self) -> tuple[tuple[MtuHop, ...], int | None]:
        """Which hops short packets and ones that are too long get to, and the TTL at which short ones arrive."""
        long = self._search.fails
        assert long is not None
        asked: dict[int, tuple[int, bool]] = {}  # number -> TTL, whether long
        reached, last = None, 0
        while reached is None and last < MOST_HOPS and not self.ended():
            block = range(last + 1, last + _BLOCK + 1)
            self._ask(asked, [(ttl, kind) for ttl in block for kind in (False, True)], long)
            reached, last = self._reached(asked), block[-1]
        ttls = range(1, reached or last + 1)
        for rest_ns in _AGAIN_NS:
            hops = self._hops(asked, ttls)
            missing = [
                (hop.ttl, kind) for hop in hops for kind in (False, True) if not (hop.long if kind else hop.short)
            ]
            if not missing or self.ended():
                break
            self._wait(rest_ns)
            self._ask(asked, missing, long)
        return self._hops(asked, ttls), reached

    def _ask(self, asked: dict[int, tuple[int, bool]], what: list[tuple[int, bool]], long: int) -> None:
        for ttl, kind in what:
            size = long if kind else _SHORT_BYTES
            asked[self._end.send(size, ttl)] = ttl, kind
            self._wait(max(_GAP_NS, size * 8 * NS_PER_S // self._pace_bps))
        self._wait(self._patience_ns())

    def _wait(self, for_ns: int) -> None:
        until = time.monotonic_ns() + for_ns
        while (left := until - time.monotonic_ns()) > 0 and not self.ended():
            self._end.listen(min(left, _SLICE_NS))

    def _reached(self, asked: dict[int, tuple[int, bool]]) -> int | None:
        answered = self._end.listen(0).answered
        return min((ttl for number, (ttl, long) in asked.items() if number in answered and not long), default=None)

    def _hops(self, asked: dict[int, tuple[int, bool]], ttls: range) -> tuple[MtuHop, ...]:
        expired = self._end.listen(0).expired
        found: dict[int, dict[bool, str]] = {ttl: {} for ttl in ttls}
        for number, (ttl, long) in asked.items():
            if number in expired and ttl in found:
                found[ttl][long] = expired[number]
        return tuple(
            MtuHop(ttl, next(iter(told.values()), None), False in told, True in told) for ttl, told in found.items()
        )
