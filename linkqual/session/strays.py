"""What comes besides the first reply to a packet in time: copies, late replies, replies to nothing. Floor 2, pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from linkqual.records import Fate
from linkqual.session.ring import Ring

_RECEIVED = int(Fate.RECEIVED)  # an IntEnum is slow in a loop
_MOST_COPIES = 255

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class SenderCounters:
    """What came besides the replies that became records."""

    received: int = 0
    card_timed: int = 0  # of those: the network card's clock timed the round trip
    late: int = 0  # replies after their packet's timeout
    held: int = 0  # of those: in time, had the far end not kept the packet waiting
    late_copies: int = 0  # copies of a reply whose record was settled already
    forward_copies: int = 0
    reverse_copies: int = 0
    malformed: int = 0  # too short, corrupt, or of another session
    wrong_key: int = 0  # not signed with the session's key: nothing in them was read
    unmarked: int = 0  # replies whose far end says that it could not mark them as asked (RP of Class of Service)
    unknown: int = 0  # replies to packets never sent


class Strays:
    """Counts them; copies of packets in flight go into their rows too."""

    def __init__(self, ring: Ring, counters: SenderCounters, first_seq: int) -> None:
        self._ring, self.counters, self._first_seq = ring, counters, first_seq
        self._copies: dict[int, set[int]] = {}  # seq -> far_seq of its further replies

    def count(self, valid: Mask, back: Longs, held: Mask) -> None:
        """Replies that are not to a packet in flight; `back`: 1 for the packet sent last, `valid`: of this session."""
        self.counters.malformed += int((~valid).sum())
        for distance, kept in zip(back[valid].tolist(), held[valid].tolist(), strict=True):
            if distance > self._ring.next - self._first_seq:
                self.counters.unknown += 1
            elif self._ring.was_heard(self._ring.next - distance):
                self.counters.late_copies += 1
            else:
                self._late(kept)

    def _late(self, held: bool) -> None:
        self.counters.late += 1
        self.counters.held += held

    def count_copies(self, seqs: Longs, fars: Longs, held: Mask) -> None:
        """Further or late replies to packets in flight.

        Same far_seq: copied on the way back; another: copied on the way there, and answered twice by the far end.
        """
        column = self._ring.columns
        for seq, far, kept in zip(seqs.tolist(), fars.tolist(), held.tolist(), strict=True):
            row = self._ring.row(seq)
            if column["fate"][row] != _RECEIVED:
                self._late(kept)
                continue
            known = self._copies.setdefault(seq, {int(column["far_seq"][row])})
            way = "reverse_copies" if far in known else "forward_copies"
            known.add(far)
            column[way][row] = min(_MOST_COPIES, int(column[way][row]) + 1)
            setattr(self.counters, way, getattr(self.counters, way) + 1)

    def forget_settled(self) -> None:
        """Nothing more is told apart for packets no longer in flight."""
        for seq in [seq for seq in self._copies if seq < self._ring.head]:
            del self._copies[seq]
