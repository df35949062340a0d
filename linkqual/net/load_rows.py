"""Packets of one phase of load laid out to be sent: single ones, or trains that the kernel cuts up (UDP_SEGMENT). Floor 3."""

from __future__ import annotations

import struct

import numpy as np

from linkqual.net.load_ends import Ends
from linkqual.net.messages import Longs, MessageBlock
from linkqual.session.load_phase import Phase
from linkqual.session.prefix_train import ttls
from linkqual.units import NS_PER_S
from linkqual.wire import load

_ROWS, _TRAINS = 64, 16  # handed over in one call
_TRAIN_PACKETS, _TRAIN_BYTES = 64, 65_000  # what the kernel takes as one
_TRAIN_NS = 100_000  # of the phase's rate in one train
_AFTER_TOKEN = struct.Struct(">BBIq")


class Rows:
    """`train`: packets in a row. `room`: packets in all rows."""

    def __init__(self, token: int, number: int, phase: Phase, ends: Ends) -> None:
        self._headers = load.HEADERS[ends.ip_version]
        self._octets = phase.longest - self._headers
        self.train = _train(phase, self._octets)
        cut = [each.cut_trains(self._octets if self.train > 1 else 0) for each in ends.sockets]
        if not all(cut):
            self.train = 1
        self.train_ns = int(self.train * phase.longest * 8 * NS_PER_S / phase.rate_bps) if phase.rate_bps else 0
        count = _TRAINS if self.train > 1 else _ROWS
        self.room = count * self.train
        self._number = load.phase_octet(number)
        self._expiring = phase if phase.expire_at or phase.climbing else None
        self._ip_version = ends.ip_version
        self._block = MessageBlock(count, self._octets * self.train, named=ends.far, control=self._expiring is not None)
        self._block.payload[:] = np.tile(load.template(token, self._octets), self.train)
        self._block.sizes[:] = self._octets * self.train
        self._heads = load.heads(self._block.payload, 0, count, self.train, self._octets)
        self._heads["phase"] = self._number
        self._named: bytes | None = None  # whose address the rows bear

    def fill(self, first: int, flow: int, count: int, utc_ns: int, octets: Longs | None, name: bytes | None) -> int:
        """`count` packets from number `first` on; how many rows they take. `octets`: of each IP packet, None: all alike."""
        rows = -(-count // self.train)
        if rows == 1 and self.train == 1:
            number = first & 0xFFFF_FFFF
            _AFTER_TOKEN.pack_into(self._block.payload[0], 4, self._number, flow, number, utc_ns)
        else:
            heads = self._heads[:rows]
            numbers = np.arange(first, first + rows * self.train).reshape(rows, self.train)
            heads["flow"], heads["sequence"], heads["sent_ns"] = flow, numbers & 0xFFFF_FFFF, utc_ns
        if octets is not None:
            self._block.sizes[:rows] = octets - self._headers
        elif self.train > 1:
            self._block.sizes[:rows] = self._octets * self.train
            self._block.sizes[rows - 1] = self._octets * (count - (rows - 1) * self.train)
        if self._expiring is not None:
            self._block.expire(ttls(self._expiring, first, rows), self._ip_version)
        if name is not None and name != self._named:
            self._block.names[:, : len(name)] = np.frombuffer(name, np.uint8)
            self._block.name_lengths[:] = len(name)
            self._named = name
        return rows

    def send(self, descriptor: int, first: int, stop: int) -> tuple[int, int]:
        """Rows the kernel took, and the errno of the one it refused."""
        return self._block.send(descriptor, first, stop)


def _train(phase: Phase, octets: int) -> int:
    """Packets of a train: short enough not to be a burst at the phase's rate; 1: single packets."""
    if phase.segmented or len(phase.sizes) > 1 or phase.expire_at or phase.climbing:
        return 1
    most = min(_TRAIN_PACKETS, _TRAIN_BYTES // octets)
    if phase.rate_bps:
        most = min(most, int(phase.rate_bps * _TRAIN_NS / (8 * NS_PER_S * phase.longest)))
    return max(1, most)
