"""The network card's stamps as a stopwatch: its clock tells how long a packet was away, not when (decisions/065). Floor 2, pure.

A card stamps both T1 and T4 with its own clock, which may run minutes beside UTC and need not be set by anybody. Only the difference is used:
T4 becomes T1 of the kernel plus T4 - T1 of the card. The round trip is then the card's, T1 stays the kernel's in UTC.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from linkqual.records import ABSENT, Fate, Records, Stamp
from linkqual.session.ring import Ring, Rows

_BOTH = np.uint8(Stamp.T1_HARDWARE | Stamp.T4_HARDWARE)
_KERNEL = int(Stamp.T1_KERNEL | Stamp.T4_KERNEL)
_DRIFT = 5000  # 1/200 ppm: more than two oscillators run apart
_MOST_HOST_NS = 20_000_000  # kernel stamps lie outside the card's by what the host took, hardly longer than this

Longs = npt.NDArray[np.int64]


class Stopwatch:
    """T1 and T4 of packets in flight on the clock of the network card."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._left, self._came = ring.add_column(), ring.add_column()

    def left(self, seqs: Longs, stamps_ns: Longs) -> None:
        """Packets the card sent; those no longer in flight are left out."""
        mine = (seqs >= self._ring.head) & (seqs < self._ring.next)
        self._left[self._ring.at(seqs[mine])] = stamps_ns[mine]

    def came(self, seqs: Longs, stamps_ns: Longs) -> None:
        """Replies to packets in flight that the card received; ABSENT: without its stamp."""
        self._came[self._ring.at(seqs)] = stamps_ns

    def intervals(self, rows: Rows) -> Longs:
        """T4 - T1, ABSENT without both."""
        left, came = self._left[rows], self._came[rows]
        return np.where((left != ABSENT) & (came != ABSENT), came - left, ABSENT)


def apply(records: Records, intervals_ns: Longs) -> int:
    """Replace T4 by T1 plus the card's interval where it is plausible; how many rows.

    A card stamps later than the kernel on the way out and earlier on the way in. An interval that does not lie just inside the
    kernel's was taken across a step of the card's clock, or by two cards: then the kernel's stamps stand.
    """
    timed = (intervals_ns != ABSENT) & (records["fate"] == Fate.RECEIVED) & (records["stamps"] & _KERNEL == _KERNEL)
    rows = np.flatnonzero(timed)
    kernel, card = (records["received_ns"] - records["sent_ns"])[rows], intervals_ns[rows]
    drift = kernel // _DRIFT
    sound = (card > 0) & (kernel - card >= -drift) & (kernel - card <= _MOST_HOST_NS + drift)
    rows, card = rows[sound], card[sound]
    records["received_ns"][rows] = records["sent_ns"][rows] + card
    records["stamps"][rows] |= _BOTH
    return len(rows)


def source(packets: int, kernel: int, card: int = 0) -> str:
    """Where the stamps of `packets` came from: "kernel", or the shares "hardware 98.2 %, kernel 1.8 %".

    `kernel`: those stamped by the kernel, `card`: those among them whose round trip the network card timed.
    """
    counts = {"hardware": card, "kernel": kernel - card, "user": packets - kernel}
    present = {name: count for name, count in counts.items() if count > 0}
    if len(present) < 2:
        return next(iter(present), "user")
    return ", ".join(f"{name} {_percent(count / packets)}" for name, count in present.items())


def _percent(share: float) -> str:
    """A share that is neither nothing nor all, and does not look so."""
    digits = 1
    while round(100 * share, digits) in (0, 100):
        digits += 1
    return f"{100 * share:.{digits}f} %"
