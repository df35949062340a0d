"""What comes besides the first reply to a packet in time: copies, late replies, replies to nothing. Floor 2, pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from linkqual.records import Fate
from linkqual.session.ring import Ring

_RECEIVED = int(Fate.RECEIVED)  # an IntEnum is slow in a loop
_MOST_COPIES = 255
_MOST_WAITING = 4096  # late replies whose own TX stamp may still be told

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
        self._waiting: dict[
            int, int
        ] = {}  # far_seq of late replies -> when they must have left for the line to be in time

    def count(self, valid: Mask, back: Longs, fars: Longs, over: Longs, answered: Longs) -> None:
        """Replies that are not to a packet in flight; `back`: 1 for the packet sent last, `valid`: of this session.

        `over`, `answered`: see `_late`.
        """
        self.counters.malformed += int((~valid).sum())
        told = (column[valid].tolist() for column in (back, fars, over, answered))
        for distance, far, excess, t3 in zip(*told, strict=True):
            if distance > self._ring.next - self._first_seq:
                self.counters.unknown += 1
            elif self._ring.was_heard(self._ring.next - distance):
                self.counters.late_copies += 1
            else:
                self._late(far, excess, t3)

    def _late(self, far: int, over_ns: int, answered_ns: int) -> None:
        """By `over_ns` beyond the timeout, its stay at the far end (until T3, `answered_ns`) taken out.

        The T3 in a reply is from before it was let go: its own TX stamp, told later, may show that it stayed longer.
        """
        self.counters.late += 1
        if over_ns <= 0:
            self.counters.held += 1
            return
        self._waiting[far] = answered_ns + over_ns
        if len(self._waiting) > _MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]

    def followed(self, fars: Longs, sent_ns: Longs) -> None:
        """TX stamps of replies: late ones that left so late were kept by the far end."""
        if not self._waiting:
            return
        for far, left in zip(fars.tolist(), sent_ns.tolist(), strict=True):
            enough = self._waiting.pop(far, None)
            self.counters.held += enough is not None and left >= enough

    def count_copies(self, seqs: Longs, fars: Longs, over: Longs, answered: Longs) -> None:
        """Further or late replies to packets in flight.

        Same far_seq: copied on the way back; another: copied on the way there, and answered twice by the far end.
        """
        column = self._ring.columns
        told = (each.tolist() for each in (seqs, fars, over, answered))
        for seq, far, excess, t3 in zip(*told, strict=True):
            row = self._ring.row(seq)
            if column["fate"][row] != _RECEIVED:
                self._late(far, excess, t3)
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
