"""A line that writes down what it does to every single STAMP packet, in arrays the measuring side never sees.

Counts alone cannot show that the right packet was called lost once packets come twice: of two replies to one packet one may
vanish unnoticed. So each direction notes by Session-Sender sequence number how often the packet got through and in which order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from mmap import mmap

import numpy as np
import numpy.typing as npt

from linkqual.impair import Impairer
from linkqual.lab import pump
from linkqual.records import Fate
from linkqual.stats.reorder import reordered

_IP_UDP = 28  # no IP options on this line
_UDP = 17
_SEQUENCE = {"forward": _IP_UDP, "reverse": _IP_UDP + 24}  # RFC 8762 s4.2.1 and s4.3.1: where the sender's number lies

Counts = npt.NDArray[np.unsignedinteger]


@dataclass(slots=True)
class Way:
    """One direction: by sequence number, in memory shared with the process that carries the packets.

    `came`: packets with that number the line let through, `copies`: made of them here; `entered` and `left`: place (from 1) among
    all packets coming in and going out, of the one that left first; 0: none did.
    """

    name: str
    packets: int
    _memory: mmap = field(init=False)
    came: memoryview = field(init=False)
    copies: memoryview = field(init=False)
    entered: memoryview = field(init=False)
    left: memoryview = field(init=False)

    def __post_init__(self) -> None:
        n = self.packets
        room = (n + 7) & ~7
        self._memory = mmap(-1, 10 * room)
        whole = memoryview(self._memory)
        self.came, self.copies = whole[:n], whole[room : room + n]
        self.entered = whole[2 * room : 6 * room].cast("I")[:n]
        self.left = whole[6 * room : 10 * room].cast("I")[:n]

    def columns(self, count: int) -> dict[str, Counts]:
        """The first `count` packets, as arrays."""
        return {key: np.asarray(getattr(self, key))[:count] for key in ("came", "copies", "entered", "left")}


class _Watched:
    """A pump's queue that writes down what goes in and out."""

    def __init__(self, queue: pump.Queue, way: Way, size: int) -> None:
        self._queue, self._way, self._size = queue, way, _IP_UDP + size
        self._at = _SEQUENCE[way.name]
        self._last = self._out = 0
        self.first_due = queue.first_due

    def _number(self, packet: bytes) -> int:
        """The sequence number of a STAMP packet of the session, -1 for any other packet."""
        if len(packet) != self._size or packet[9] != _UDP:
            return -1
        return int.from_bytes(packet[self._at : self._at + 4], "big")

    def put(self, item: tuple[int, int, bytes]) -> None:
        _, number, packet = item
        seq = self._number(packet)
        if 0 <= seq < self._way.packets:
            column = self._way.copies if number == self._last else self._way.came
            column[seq] += 1
        self._last = number
        self._queue.put(item)

    def take(self) -> tuple[int, int, bytes]:
        item = self._queue.take()
        seq = self._number(item[2])
        self._out += 1
        if 0 <= seq < self._way.packets and not self._way.left[seq]:
            self._way.left[seq] = self._out
            self._way.entered[seq] = item[1]
        return item


class WatchedLane(pump.Lane):
    """A lane of the virtual line with a witness."""

    def __init__(
        self, source: int, target: int, impairer: Impairer, counters: memoryview, *, way: Way, size: int
    ) -> None:
        """`size`: octets of UDP payload of the session's packets."""
        super().__init__(source, target, impairer, counters)
        self.queue = _Watched(self.queue, way, size)


@dataclass(frozen=True, slots=True)
class Truth:
    """What must be measured, packet by packet: fate, copies that reached the sender by where they were made; and in total."""

    fate: npt.NDArray[np.uint8]
    forward_copies: Counts
    reverse_copies: Counts
    reordered_forward: int
    reordered_reverse: int


def truth(forward: Way, reverse: Way, count: int) -> Truth:
    """From the notes of both directions about the first `count` packets, all sent and all settled."""
    there, back = forward.columns(count), reverse.columns(count)
    reached, returned = there["came"] > 0, back["came"] > 0
    fate = np.full(count, Fate.LOST_FORWARD, np.uint8)
    fate[reached] = Fate.LOST_REVERSE
    fate[returned] = Fate.RECEIVED
    seqs = np.flatnonzero(returned)
    return Truth(
        fate=fate,
        forward_copies=np.where(returned, back["came"].astype(np.int64) - 1, 0),
        reverse_copies=back["copies"].astype(np.int64),
        reordered_forward=_overtaken(seqs, there["left"][seqs]),
        reordered_reverse=_overtaken(back["entered"][seqs], back["left"][seqs]),
    )


def _overtaken(sent_order: npt.NDArray[np.integer], arrived_order: Counts) -> int:
    """RFC 4737: packets that came after one sent later, of those whose round trip is known."""
    return int(reordered(sent_order[np.argsort(arrived_order, kind="stable")]).sum())
