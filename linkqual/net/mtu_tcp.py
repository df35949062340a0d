"""One TCP connection that carries data there, then back: which MSS each end told, which one arrived, and whether the data got through.

The end that is connected to keeps the SYN as it arrived (TCP_SAVE_SYN), so an MSS that something on the way has changed shows. Floor 3.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from linkqual.net.addresses import bare
from linkqual.units import NS_PER_S

STALL_NS = 2_500_000_000  # without anything new: by then a lost segment was sent again three times
CONNECT_NS = 5 * NS_PER_S
_SAVE_SYN, _SAVED_SYN = 27, 28
_SO_MAX_PACING_RATE = 47
_INFO = struct.Struct("8B20I")
_OPTIONS, _SND_MSS, _PMTU, _ADVMSS = 5, 10, 21, 27  # places in struct tcp_info
_TIMESTAMPS, _TIMESTAMP_BYTES = 1, 12
_HEADERS = {socket.AF_INET: 40, socket.AF_INET6: 60}
_CHUNK = 65_536
_SLICE_S = 0.05


@dataclass(slots=True)
class Side:
    """What one end saw of the connection."""

    mss_told: int | None = None  # in its own SYN
    mss_heard: int | None = None  # of the other end, as it arrived
    arrived_bytes: int = 0
    elapsed_ns: int = 0  # from the first wait for data to the last that came
    connected: bool = False
    trouble: str = ""


class Listener:
    """The far side: waits for one connection from `peer`, counts what comes, sends as much back. Raises OSError."""

    def __init__(self, address: str, port: int, peer: str, family: int, data_bytes: int, pace_bps: int) -> None:
        self.side = Side()
        self._peer, self._bytes, self._pace_bps = peer, data_bytes, pace_bps
        self._ended = threading.Event()
        self._listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):  # older kernels: what was told is not known then
                self._listening.setsockopt(socket.IPPROTO_TCP, _SAVE_SYN, 1)
            self._listening.bind((address, port))
            self._listening.listen(4)
            self._listening.settimeout(_SLICE_S)
        except BaseException:
            self._listening.close()
            raise
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, name="mtu tcp", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> Side:
        """What it saw, when it is through or after so long."""
        self._thread.join(seconds)
        return self.side

    def halt(self) -> None:
        """End it soon."""
        self._ended.set()

    def close(self) -> None:
        """End it. Safe to call twice."""
        self.halt()
        self._thread.join()

    def _serve(self) -> None:
        with self._listening:
            connection = self._accept()
        if connection is not None:
            with connection:
                _prepare(connection, self._pace_bps)
                self.side.connected = True
                with contextlib.suppress(OSError):
                    self.side.mss_told, _ = _segments(connection)
                    self.side.mss_heard = mss_of_syn(connection.getsockopt(socket.IPPROTO_TCP, _SAVED_SYN, 512))
                _receive(connection, self._bytes, self.side, self._ended.is_set)
                _send(connection, self._bytes, self._ended.is_set)
                _until_closed(connection, self._ended.is_set)

    def _accept(self) -> socket.socket | None:
        until = time.monotonic_ns() + CONNECT_NS + 2 * STALL_NS
        while time.monotonic_ns() < until and not self._ended.is_set():
            with contextlib.suppress(TimeoutError, ConnectionError):
                connection, address = self._listening.accept()
                if bare(address[0]) == bare(self._peer):
                    return connection
                connection.close()
        return None


def converse(
    address: str,
    port: int,
    source: str,
    family: int,
    data_bytes: int,
    pace_bps: int,
    interrupted: Callable[[], bool] = lambda: False,
) -> Side:
    """The near side: connect, send `data_bytes`, then take as many. Never raises for what network or system do."""
    side = Side()
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        try:
            connection.bind((source, 0))
            connection.settimeout(CONNECT_NS / NS_PER_S)
            _prepare(connection, pace_bps)
            connection.connect((address, port))
        except OSError as error:
            side.trouble = error.strerror or str(error)
            return side
        side.connected = True
        with contextlib.suppress(OSError):
            side.mss_told, side.mss_heard = _segments(connection)
        _send(connection, data_bytes, interrupted)
        _receive(connection, data_bytes, side, interrupted, first_ns=2 * STALL_NS)
        _give_up(connection)
    return side


def mss_of_syn(headers: bytes) -> int | None:
    """The MSS in a SYN as the kernel kept it: IP and TCP headers. None without that option (RFC 9293 s3.7.1) or when cut short."""
    if not headers:
        return None
    at = 40 if headers[0] >> 4 == 6 else 4 * (headers[0] & 0x0F)
    if len(headers) < at + 20:
        return None
    options = headers[at + 20 : at + 4 * (headers[at + 12] >> 4)]
    place = 0
    while place < len(options) and options[place] != 0:
        if options[place] == 1:  # no operation
            place += 1
            continue
        length = options[place + 1] if place + 1 < len(options) else 0
        if options[place] == 2 and length == 4 and place + 4 <= len(options):
            return int.from_bytes(options[place + 2 : place + 4])
        if length < 2:
            return None
        place += length
    return None


def _segments(connection: socket.socket) -> tuple[int, int]:
    """(MSS that this end told, MSS of the other end as it arrived: no more than this end's own path MTU allows)."""
    info = _INFO.unpack(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size))
    stamped = _TIMESTAMP_BYTES if info[_OPTIONS] & _TIMESTAMPS else 0
    return info[_ADVMSS] + stamped, info[_SND_MSS] + stamped  # the kernel has taken them off both


def _prepare(connection: socket.socket, pace_bps: int) -> None:
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("I", min(pace_bps // 8, 2**32 - 1)))


def _receive(
    connection: socket.socket, wanted: int, side: Side, ended: Callable[[], bool], first_ns: int = STALL_NS
) -> None:
    """Until all of it came, or nothing for STALL_NS (`first_ns` before the first octet)."""
    begin = latest = time.monotonic_ns()
    connection.settimeout(_SLICE_S)
    while side.arrived_bytes < wanted and not ended():
        if time.monotonic_ns() - latest > (STALL_NS if side.arrived_bytes else first_ns):
            return
        try:
            got = len(connection.recv(_CHUNK))
        except TimeoutError:
            continue
        except OSError:
            return
        if not got:
            return
        side.arrived_bytes += got
        latest = time.monotonic_ns()
        side.elapsed_ns = latest - begin


def _until_closed(connection: socket.socket, ended: Callable[[], bool]) -> None:
    """The other end closes when it has all of it, or gives up."""
    connection.settimeout(_SLICE_S)
    until = time.monotonic_ns() + 3 * STALL_NS
    while time.monotonic_ns() < until and not ended():
        with contextlib.suppress(TimeoutError):
            try:
                if not connection.recv(_CHUNK):
                    return
            except ConnectionError:
                return
    _give_up(connection)


def _give_up(connection: socket.socket) -> None:
    """What is stuck is not sent any more once it is closed."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _send(connection: socket.socket, count: int, ended: Callable[[], bool]) -> None:
    """Hand the kernel that many octets, until it takes no more for STALL_NS; the other end counts what arrives."""
    connection.setblocking(False)
    left, latest = count, time.monotonic_ns()
    while left and not ended() and time.monotonic_ns() - latest < STALL_NS:
        if not select.select([], [connection], [], _SLICE_S)[1]:
            continue
        try:
            left -= connection.send(bytes(min(left, _CHUNK)))
            latest = time.monotonic_ns()
        except BlockingIOError:
            continue
        except OSError:
            return
