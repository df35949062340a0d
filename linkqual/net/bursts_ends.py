"""The sockets of training bursts at one end: batches of data, single answers, and when they came by the kernel's stamps. Floor 3.

The sockets are those of any UDP load (`net.load_ends`): one a flow at the near end, a single one at the far end.
"""

from __future__ import annotations

import errno
import select
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from linkqual.errors import HostError, WireError
from linkqual.net.clock import monotonic_ns, utc_ns
from linkqual.net.load_ends import Ends, LoadConfig
from linkqual.net.messages import NAME_BYTES, Longs, MessageBlock, received_ancillary, runs
from linkqual.net.sockets import errno_name
from linkqual.records import ABSENT
from linkqual.session.bursts import Shape
from linkqual.session.bursts_sending import Departures
from linkqual.units import NS_PER_S
from linkqual.wire import bursts as wire
from linkqual.wire.bursts import Kind, Reply

ROWS = 64  # packets moved by one call
_REPLY_BYTES = 1280
_FULL = (errno.EAGAIN, errno.ENOBUFS)
_FULL_MS = 1
_PATIENCE_NS = NS_PER_S  # of a socket that takes nothing

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BurstConfig:
    """One end of one direction. `peer_port` 0: the far end, which learns where the flows are."""

    session: int
    peer_address: str
    shape: Json  # a session.bursts.Shape
    bind_address: str = ""
    port: int = 0
    peer_port: int = 0
    max_packets: int = 1 << 40  # that may leave
    receive_buffer_bytes: int = 64 << 20

    def opened(self) -> Ends:
        """Its sockets. HostError or PeerError."""
        shape = Shape(**self.shape)
        return Ends(
            LoadConfig(
                token=0,
                peer_address=self.peer_address,
                flows=shape.flows,
                longest=shape.packet_bytes,
                bind_address=self.bind_address,
                port=self.port,
                peer_port=self.peer_port,
                receive_buffer_bytes=self.receive_buffer_bytes,
            )
        )


class Mouth:
    """Sends data in batches and single answers. Refusals of the host are waited for and counted."""

    def __init__(self, ends: Ends, config: BurstConfig, shape: Shape, stride: int = 1) -> None:
        """`stride`: neighbouring packets that leave on one flow's way before the next has its turn."""
        self._ends, self._config, self._shape, self._stride = ends, config, shape, stride
        self.refusals: dict[str, int] = {}
        self._reply = MessageBlock(1, _REPLY_BYTES, named=ends.far)
        width = -(-shape.packet_bytes // 64) * 64
        self._data = MessageBlock(ROWS, width, named=ends.far)
        self._heads = wire.heads(self._data.payload)
        self._heads["session"], self._heads["kind"] = config.session, Kind.DATA
        self._heads["packets"] = shape.packets

    def say(self, reply: Reply, flow: int = 0, name: bytes | None = None) -> None:
        """One answer, on a flow's way or to the address `name`; nothing happens where neither is known."""
        octets = wire.encode(self._config.session, reply)
        block = self._reply
        block.payload[0, : len(octets)] = np.frombuffer(octets, np.uint8)
        block.sizes[0] = len(octets)
        if self._ends.far:
            name = name or self._ends.names[flow]
            if name is None:
                return
            self._address(block, 0, name)
        block.without_numbers(0, 1)
        _, refusal = block.send(self._ends.socket_of(flow).descriptor, 0, 1)
        self._count(refusal)

    def send(self, taken: Departures) -> int:
        """At most ROWS packets, each on its flow's way; gives how many the host took."""
        shape, done = self._shape, 0
        flows = taken.indices // self._stride % shape.flows
        for first, stop in runs(flows):
            flow, count = int(flows[first]), stop - first
            heads = self._heads[:count]
            heads["copy"], heads["flow"], heads["burst"] = np.minimum(taken.copies[first:stop], 255), flow, taken.burst
            heads["index"] = taken.indices[first:stop]
            self._data.sizes[:count] = shape.packet_bytes
            name = self._ends.names[flow]
            if self._ends.far and name is not None:
                for row in range(count):
                    self._address(self._data, row, name)
            self._data.without_numbers(0, count)
            done += self._push(self._ends.socket_of(flow).descriptor, count)
        return done

    def _push(self, descriptor: int, count: int) -> int:
        at, until = 0, monotonic_ns() + _PATIENCE_NS
        while at < count:
            taken, refusal = self._data.send(descriptor, at, count)
            at += taken
            self._count(refusal)
            if refusal == errno.EMSGSIZE:
                raise HostError(
                    f"this host cannot send packets of {self._shape.packet_bytes} B of UDP payload: its MTU, or one it has learned, is smaller",
                    hint="give the line's MTU in the link file, or packet_bytes of the bursts in the profile",
                )
            if refusal in _FULL:
                poll = select.poll()
                poll.register(descriptor, select.POLLOUT)
                poll.poll(_FULL_MS)
            elif refusal:
                at += 1  # an ICMP error of an earlier packet, or no way: this one is gone
            if monotonic_ns() > until:
                break
        return at

    def _address(self, block: MessageBlock, row: int, name: bytes) -> None:
        block.names[row, : len(name)] = np.frombuffer(name, np.uint8)
        block.name_lengths[row] = 16 if self._ends.ip_version == 4 else NAME_BYTES

    def _count(self, refusal: int) -> None:
        if refusal:
            name = errno_name(refusal)
            self.refusals[name] = self.refusals.get(name, 0) + 1


@dataclass(frozen=True, slots=True)
class Heard:
    """Data packets read in one go. `stamps`: kernel arrival stamps, UTC ns; `names`: addresses at the far end."""

    bursts: Longs
    indices: Longs
    copies: Longs
    stamps: Longs
    names: list[bytes]


class Ear:
    """Reads what is there: data as columns, answers one by one. What is not the peer's or not the session's is counted and dropped."""

    def __init__(self, ends: Ends, config: BurstConfig, shape: Shape) -> None:
        self._ends, self._session, self._shape = ends, config.session, shape
        width = max(shape.packet_bytes, _REPLY_BYTES)
        self._block = MessageBlock(4 * ROWS, -(-width // 64) * 64, named=True)
        self.strangers = 0

    def listen(self) -> Iterator[Heard | tuple[Reply, int, bytes]]:
        """Batches of data; answers with their arrival on the monotonic clock and the sender's address."""
        block = self._block
        for each in self._ends.sockets:
            count = block.count
            while count == block.count:
                count = each.receive(block)
                if count:
                    yield from self._sorted(count)
                else:
                    each.sent_stamps()  # an ICMP error that waits would be all that is ever read

    def _sorted(self, count: int) -> Iterator[Heard | tuple[Reply, int, bytes]]:
        block = self._block
        lengths = block.lengths[:count].astype(np.int64)
        stamps, _, _ = received_ancillary(block, count)
        utc, now = utc_ns(), monotonic_ns()
        stamps = np.where(stamps == ABSENT, utc, stamps)
        known = self._ends.from_peer(block.names[:count]) if self._ends.far else np.ones(count, np.bool_)
        known &= ~block.truncated(count)
        data = known & wire.data_rows(block.payload[:count], lengths, self._session, self._shape.packet_bytes)
        if data.any():
            heads = wire.heads(block.payload[:count])[data]
            names = [bytes(name) for name in block.names[:count][data]] if self._ends.far else []
            columns = (heads[name].astype(np.int64) for name in ("burst", "index", "copy"))
            yield Heard(*columns, stamps[data], names)
        for row in np.flatnonzero(~data).tolist():
            reply = self._reply(row, int(lengths[row])) if known[row] else None
            if reply is None:
                self.strangers += 1
            else:
                yield reply, now - max(int(utc - stamps[row]), 0), bytes(block.names[row])

    def _reply(self, row: int, length: int) -> Reply | None:
        try:
            return wire.decode(self._block.payload[row, :length].tobytes(), self._session)
        except WireError:
            return None
