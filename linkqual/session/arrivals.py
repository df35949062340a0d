"""Which Session-Sender sequence numbers have arrived: one bit a number in a window that slides, so that memory does not grow
with the session. Sequence numbers are unwrapped here (RFC 8762 s4.2.1: 32 bits, modulo 2^32). Floor 2, pure.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from linkqual.errors import InputError
from linkqual.wire.stamp import SEQUENCE_MODULUS

WINDOW = 1 << 24  # packets remembered: 2 MiB, 33 s at 500,000 packets a second
_CLEARED = 1 << 16  # how far ahead of the newest number the ring is made ready at once
_LOW_32, _HALF = SEQUENCE_MODULUS - 1, SEQUENCE_MODULUS // 2
_BITS = np.left_shift(1, np.arange(8)).astype(np.uint8)

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Arrivals:
    """`first_seq`: the session's first number. `window`: a power of two, at least 2^17."""

    def __init__(self, first_seq: int = 0, window: int = WINDOW) -> None:
        self.first_seq = first_seq
        self.next_seq = first_seq  # one beyond the newest that arrived; also the reference for unwrapping
        self._size = window
        self._bits = np.zeros(window // 8, np.uint8)  # untouched pages take no memory
        self._ready = (
            first_seq - first_seq % _CLEARED + window
        )  # every number below has a place that holds no older one

    @property
    def oldest(self) -> int:
        """The smallest number still remembered."""
        return max(self.first_seq, self._ready - self._size)

    def unwrap(self, sequence: npt.NDArray[np.unsignedinteger]) -> Longs:
        """The numbers nearest the newest one that have these low 32 bits."""
        lowest = self.next_seq - _HALF
        return (sequence.astype(np.int64) - lowest & _LOW_32) + lowest

    def seen(self, seqs: Longs) -> Mask:
        """Which of these numbers, none older than `oldest`, arrived before, or earlier in this very batch."""
        at, bit = self._places(seqs)
        known: Mask = (self._bits[at] & bit != 0) & (seqs < self._ready)
        if len(seqs) > 1 and not (seqs[1:] > seqs[:-1]).all():
            again = np.ones(len(seqs), np.bool_)
            again[np.unique(seqs, return_index=True)[1]] = False
            known |= again
        return known

    def note(self, seqs: Longs) -> None:
        """These arrived. Those that the newest of them pushes out of the window are forgotten at once."""
        newest = int(seqs.max())
        if newest >= self.next_seq:
            self.next_seq = newest + 1
            if newest >= self._ready:
                self._slide(newest)
                seqs = seqs[seqs >= self.oldest]
        at, bit = self._places(seqs)
        np.bitwise_or.at(self._bits, at, bit)

    def bitmap(self, first_seq: int, count: int) -> bytes:
        """One bit a number from `first_seq` on, lowest bit first: whether it arrived.

        Raises InputError when the session's numbers in that stretch are no longer all remembered.
        """
        begin, end = max(first_seq, self.first_seq), min(first_seq + count, self.next_seq)
        bits = np.zeros(count, np.uint8)
        if begin < end:
            if begin < self.oldest:
                raise InputError(
                    f"packets before {self.oldest:,} are no longer remembered, {begin:,} was asked for",
                    "ask for arrivals soon after they happened",
                )
            octets = self._octets(begin, end)  # not numbers one by one: meanwhile no packet is answered
            skipped = begin & 7
            known = np.unpackbits(octets, bitorder="little")[skipped : skipped + end - begin]
            bits[begin - first_seq : end - first_seq] = known
        return np.packbits(bits, bitorder="little").tobytes()

    def _octets(self, begin: int, end: int) -> npt.NDArray[np.uint8]:
        first, count = (begin & self._size - 1) >> 3, (end + 7 >> 3) - (begin >> 3)
        head = self._bits[first : first + count]
        return head if len(head) == count else np.concatenate([head, self._bits[: count - len(head)]])

    def _places(self, seqs: Longs) -> tuple[Longs, npt.NDArray[np.uint8]]:
        at = (seqs & self._size - 1) >> 3
        return at, _BITS[seqs & 7]

    def _slide(self, newest: int) -> None:
        """Make room up to `newest` and a little beyond."""
        until = newest - newest % _CLEARED + 2 * _CLEARED
        begin = max(self._ready, until - self._size)
        first, count = (begin & self._size - 1) >> 3, until - begin >> 3
        self._bits[first : first + count] = 0
        self._bits[: max(0, first + count - len(self._bits))] = 0
        self._ready = until
