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
from linkqual.net.messages import NAME_BYTES, Longs, MessageBlock, received_joined, runs
from linkqual.net.sockets import errno_name
from linkqual.records import ABSENT
from linkqual.session.bursts import Shape
from linkqual.session.bursts_sending import Departures
from linkqual.units import NS_PER_S
from linkqual.wire import bursts as wire
from linkqual.wire.bursts import Kind, Reply

ROWS = 64  # packets moved by one call
STRIDE = 44  # of them by one flow, at most: a train of 1500 octets each
_REST_NS = 250_000  # packets due within it leave together, with the last of them
_REPLY_BYTES = 1280
_TRAIN_FROM = 16  # packets due at once, from which on they leave as one (UDP_SEGMENT), and are read as one (UDP_GRO)
_TRAIN_BYTES = 65_000
_JOINED_ROWS, _JOINED_BYTES = 32, 65_536
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


def together(shape: Shape) -> int:
    """Packets that may leave at once: those of a quarter of a millisecond, or of a twentieth of the burst."""
    rest_ns = min(_REST_NS, shape.transfer_ns // 20)
    return max(1, min(int(rest_ns / shape.gap_ns), ROWS))


class Mouth:
    """Sends data in batches and single answers. Refusals of the host are waited for and counted."""

    def __init__(self, ends: Ends, config: BurstConfig, shape: Shape, stride: int = 1) -> None:
        """`stride`: neighbouring packets that leave on one flow's way before the next has its turn."""
        self._ends, self._config, self._shape, self._stride = ends, config, shape, stride
        self.refusals: dict[str, int] = {}
        self._reply = MessageBlock(1, _REPLY_BYTES, named=ends.far)
        size = shape.packet_bytes
        self._train = min(stride, _TRAIN_BYTES // size) if stride >= _TRAIN_FROM else 1
        if self._train > 1 and not all(each.cut_trains(size) for each in ends.sockets):
            self._train = 1
        rows = ROWS if self._train == 1 else 1
        self._data = MessageBlock(rows, size * self._train, named=ends.far)
        self._heads = wire.heads(self._data.payload, self._train, size)
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
        most = self._train if self._train > 1 else ROWS
        for begin, end in runs(flows):
            for first in range(begin, end, most):
                stop = min(first + most, end)
                rows = self._fill(taken, first, stop, int(flows[begin]))
                packets = self._push(self._ends.socket_of(int(flows[begin])).descriptor, rows)
                done += packets if self._train == 1 else packets * (stop - first)
        return done

    def _fill(self, taken: Departures, first: int, stop: int, flow: int) -> int:
        """Packets of one flow, single ones in a row each or all in one; the rows they take."""
        count, size = stop - first, self._shape.packet_bytes
        single = self._train == 1
        heads = self._heads[:count, 0] if single else self._heads[0, :count]
        heads["copy"], heads["flow"], heads["burst"] = np.minimum(taken.copies[first:stop], 255), flow, taken.burst
        heads["index"] = taken.indices[first:stop]
        rows = count if single else 1
        self._data.sizes[:rows] = size if single else size * count
        name = self._ends.names[flow]
        if self._ends.far and name is not None:
            for row in range(rows):
                self._address(self._data, row, name)
        self._data.without_numbers(0, rows)
        return rows

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
        rows, width = 4 * ROWS, max(shape.packet_bytes, _REPLY_BYTES)
        if together(shape) >= _TRAIN_FROM and all(each.join_trains(joined=True) for each in ends.sockets):
            rows, width = _JOINED_ROWS, _JOINED_BYTES
        self._block = MessageBlock(rows, -(-width // 64) * 64, named=True)
        self.strangers = 0

    def listen(self, ready: set[int]) -> Iterator[Heard | tuple[Reply, int, bytes]]:
        """Batches of data; answers with their arrival on the monotonic clock and the sender's address. `ready`: descriptors to read."""
        block, filled = self._block, 0
        for each in self._ends.sockets:
            more = each.descriptor in ready
            while more:  # what several sockets have is looked at in one go
                count = each.receive(block, filled)
                if not count:
                    each.sent_stamps()  # an ICMP error that waits would be all that is ever read
                filled += count
                more = filled == block.count
                if more:
                    yield from self._sorted(filled)
                    filled = 0
        if filled:
            yield from self._sorted(filled)

    def _sorted(self, count: int) -> Iterator[Heard | tuple[Reply, int, bytes]]:
        block, size = self._block, self._shape.packet_bytes
        lengths = block.lengths[:count].astype(np.int64)
        stamps, octets = received_joined(block, count)
        utc, now = utc_ns(), monotonic_ns()
        stamps = np.where(stamps == ABSENT, utc, stamps)
        known = self._ends.from_peer(block.names[:count]) if self._ends.far else np.ones(count, np.bool_)
        known &= ~block.truncated(count)
        trains = lengths // size
        data = known & (np.where(octets > 0, octets, lengths) == size) & (trains * size == lengths)
        data &= wire.data_heads(wire.heads(block.payload[:count])[:, 0], self._session)
        if data.any():
            yield self._heard(np.flatnonzero(data), trains, stamps, utc)
        for row in np.flatnonzero(~data).tolist():
            reply = self._reply(row, int(lengths[row])) if known[row] else None
            if reply is None:
                self.strangers += 1
            else:
                yield reply, now - max(int(utc - stamps[row]), 0), bytes(block.names[row])

    def _heard(self, rows: Longs, trains: Longs, stamps: Longs, utc: int) -> Heard:
        """Packets in these rows, several in a row where the kernel joined them: its stamp is that of the first."""
        block, most = self._block, int(trains[rows].max())
        heads = wire.heads(block.payload[: int(rows[-1]) + 1], most, self._shape.packet_bytes)[rows]
        within = np.arange(most)[None, :] < trains[rows, None]
        within &= wire.data_heads(heads, self._session)
        came = np.minimum(stamps[rows, None] + (np.arange(most) * self._shape.gap_ns).astype(np.int64), utc)
        names = [bytes(block.names[row]) for row in rows] if self._ends.far else []
        return Heard(
            heads["burst"][within].astype(np.int64),
            heads["index"][within].astype(np.int64),
            heads["copy"][within].astype(np.int64),
            came[within],
            [name for name, packets in zip(names, within.sum(axis=1).tolist(), strict=True) for _ in range(packets)]
            if names
            else [],
        )

    def _reply(self, row: int, length: int) -> Reply | None:
        try:
            return wire.decode(self._block.payload[row, :length].tobytes(), self._session)
        except WireError:
            return None
