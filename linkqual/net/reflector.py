"""The Session-Reflector's process: one socket, one session, one peer.

    reflector = Reflector.start(ReflectorConfig(bind_address="192.0.2.2", peer_address="192.0.2.1", ssid=7, ...))
    ... the peer sends to reflector.port ...
    reflector.arrived(0, 1000)          which of the first 1000 packets arrived
    reflector.stop()["stamps"]          kernel TX stamps no reply could carry any more

The socket is not connected, so that what strangers send is seen and counted; nobody but the peer is ever answered.
"""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from linkqual.net.clock import cpu_ns, monotonic_ns, utc_ns
from linkqual.net.messages import MessageBlock, received_ancillary, runs
from linkqual.net.outlet import Outlet
from linkqual.net.process import ANSWER, BITMAP, READY, REPORT, ChildProcess, Inbox, Json, Outbox
from linkqual.net.sockets import StampedSocket, address_octets
from linkqual.records import ABSENT
from linkqual.session.reflector import ReflectorSession, ReflectorSettings
from linkqual.units import NS_PER_S
from linkqual.wire.timestamp import ErrorEstimate

_BATCH = 128
_LONGEST_PACKET = 9216  # jumbo frames
_ROUNDS = 64  # batches before the parent is listened to
_TICK_MS = 200


@dataclass(frozen=True, slots=True)
class ReflectorConfig:
    """`peer_port` 0: the port of the first valid packet. `max_packets` 0: what pps and seconds allow."""

    bind_address: str
    peer_address: str
    ssid: int
    peer_port: int = 0
    port: int = 0
    max_pps: int = 200_000
    max_seconds: int = 3600
    max_packets: int = 0
    max_bytes: int = 1 << 50
    receive_buffer_bytes: int = 16 << 20
    first_seq: int = 0
    clock_error_ns: int | None = None
    clock_synchronised: bool = False
    realtime: int = 0  # SCHED_FIFO priority, 0: ordinary

    def settings(self) -> ReflectorSettings:
        """What the session keeps to."""
        return ReflectorSettings(
            ssid=self.ssid,
            max_pps=self.max_pps,
            max_packets=self.max_packets or self.max_pps * self.max_seconds,
            max_bytes=self.max_bytes,
            error=ErrorEstimate.of(self.clock_error_ns, synchronised=self.clock_synchronised),
            first_seq=self.first_seq,
        )


class Reflector:
    """The parent's handle of a running reflector. Every call raises HostError when the process died."""

    def __init__(self, process: ChildProcess) -> None:
        self._process = process
        self._final: Json | None = None
        self.port: int = process.ready["port"]
        self.receive_buffer_bytes: int = process.ready["receive_buffer_bytes"]

    @classmethod
    def start(cls, config: ReflectorConfig, launcher: Sequence[str] = ()) -> Reflector:
        """Returns when it listens. Raises HostError (address in use, no such address)."""
        return cls(ChildProcess("reflector", asdict(config), launcher))

    @property
    def pid(self) -> int:
        """Process id, for those who watch over it."""
        return self._process.pid

    def counters(self) -> dict[str, int]:
        """Counters of the session and its socket: see `ReflectorCounters`, and socket_drops, receive_buffer_bytes, cpu_ns."""
        if self._final is not None:
            return dict(self._final["counters"])
        self._process.tell({"do": "counters"})
        answer: dict[str, int] = json.loads(self._process.expect(ANSWER))
        return answer

    def arrived(self, first_seq: int, count: int) -> bytes:
        """One bit a Session-Sender sequence number from `first_seq` on, lowest bit first: whether it reached the reflector."""
        self._process.tell({"do": "arrived", "first": first_seq, "count": count})
        return bytes(self._process.expect(BITMAP))

    def stop(self) -> Json:
        """End it: {"counters": ..., "stamps": [[far_seq, kernel TX stamp], ...]}, the stamps no later reply has carried.

        Idempotent. Ask `arrived` before.
        """
        if self._final is None:
            self._process.tell({"do": "stop"})
            try:
                self._final = json.loads(self._process.expect(REPORT))
            finally:
                self._process.close()
        return self._final

    def close(self) -> None:
        """End it without asking for anything; idempotent."""
        self._process.close()

    def __enter__(self) -> Reflector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def drive(config: Json, inbox: Inbox, outbox: Outbox) -> None:
    """The child: reflect until told to stop or left alone."""
    _Drive(ReflectorConfig(**config), inbox, outbox).run()


class _Drive:
    def __init__(self, config: ReflectorConfig, inbox: Inbox, outbox: Outbox) -> None:
        self._config, self._inbox, self._outbox = config, inbox, outbox
        self._session = ReflectorSession(config.settings())
        self._socket = StampedSocket(config.bind_address, config.port, buffer_bytes=config.receive_buffer_bytes)
        self._block = MessageBlock(_BATCH, _LONGEST_PACKET, named=True)
        self._outlet = Outlet(self._socket, 0, self._session.transmitted)
        self._tos = 0
        peer = np.frombuffer(address_octets(config.peer_address), np.uint8)
        at = 8 if self._socket.family == socket.AF_INET6 else 4
        self._peer = peer
        self._peer_columns = slice(at, at + len(peer))
        self._peer_port = config.peer_port
        self._over_ns = monotonic_ns() + config.max_seconds * NS_PER_S

    def run(self) -> None:
        self._outbox.put_json(
            READY, {"port": self._socket.port, "receive_buffer_bytes": self._socket.receive_buffer_bytes}
        )
        poll = select.poll()
        poll.register(self._socket.descriptor, select.POLLIN)
        poll.register(self._inbox.descriptor, select.POLLIN)
        while not self._inbox.ended:
            ready = {descriptor for descriptor, _ in poll.poll(_TICK_MS)}
            if self._socket.descriptor in ready:
                for _ in range(_ROUNDS):
                    if not self._serve_batch():
                        break
            if self._inbox.descriptor in ready:
                for message in self._inbox.take():
                    if not self._obey(message):
                        return
            self._outbox.flush()

    def _obey(self, message: Json) -> bool:
        match message:
            case {"do": "counters"}:
                self._outbox.put_json(ANSWER, self._counters())
            case {"do": "arrived", "first": int(first), "count": int(count)}:
                self._outbox.put(BITMAP, self._session.arrived(first, count))
            case {"do": "stop"}:
                self._outlet.collect()
                self._outbox.put_json(REPORT, {"counters": self._counters(), "stamps": self._session.stamps_left()})
                return False
        return True

    def _counters(self) -> dict[str, int]:
        return self._session.figures() | {
            "socket_drops": self._socket.dropped(),
            "receive_buffer_bytes": self._socket.receive_buffer_bytes,
            "cpu_ns": cpu_ns(),
        }

    # ---- packets

    def _serve_batch(self) -> bool:
        """Whether there may be more."""
        block = self._block
        count = self._socket.receive(block)
        if count:
            stamps, ttl, tos = received_ancillary(block, count)
            missing = stamps == ABSENT
            if missing.any():
                stamps[missing] = utc_ns()
                self._session.counters.unstamped += int(missing.sum())
            start = 0
            if not self._peer_port:  # until the peer is known, one by one
                while start < count and not self._peer_port:
                    self._serve(start, start + 1, stamps, ttl, tos)
                    start += 1
            for first, stop in runs(block.lengths[start:count]):
                self._serve(start + first, start + stop, stamps, ttl, tos)
        self._outlet.collect()
        return count == block.count

    def _serve(
        self, first: int, stop: int, stamps: npt.NDArray[np.int64], ttl: npt.NDArray[Any], tos: npt.NDArray[Any]
    ) -> None:
        """Messages [first, stop), all of one length."""
        block, now = self._block, monotonic_ns()
        length = int(block.lengths[first])
        packets = block.payload[first:stop, :length]
        if now > self._over_ns:
            self._session.counters.over_cap += stop - first
            return
        if bool(block.truncated(stop)[first:].any()):
            self._session.counters.malformed += stop - first
            return
        admitted = self._session.admit(packets, self._from_peer(first, stop), now)
        for begin, end in runs(admitted):
            if admitted[begin]:
                self._peer_port = self._peer_port or self._port_of(first + begin)
                here = slice(first + begin, first + end)
                self._mark(int(tos[here][0]))
                number = self._session.answer(packets[begin:end], stamps[here], ttl[here], utc_ns())
                block.prepare_replies(here.start, here.stop)
                self._session.not_sent(len(self._outlet.push(block, here.start, here.stop, number)))

    def _from_peer(self, first: int, stop: int) -> npt.NDArray[np.bool_]:
        names = self._block.names[first:stop]
        mine: npt.NDArray[np.bool_] = (names[:, self._peer_columns] == self._peer).all(axis=1)
        ports = names[:, 2:4].copy().view(">u2")[:, 0]
        if self._peer_port:
            mine &= ports == self._peer_port
        return mine

    def _port_of(self, row: int) -> int:
        return int.from_bytes(self._block.names[row, 2:4].tobytes(), "big")

    def _mark(self, tos: int) -> None:
        """Replies carry the DSCP of the request as it arrived."""
        if tos & 0xFC != self._tos:
            self._tos = tos & 0xFC
            self._socket.set_tos(self._tos)
