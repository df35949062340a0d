"""The run in intervals, for pictures: at most MAX_SLICES of them, each twice as long whenever the run has outgrown them.

Slices lie on multiples of their length, so two runs merge. Counts, smallest and largest delay merge exactly; the two quantiles of
a slice come from small histograms while measuring, and of merged slices are the packet-weighted mean (p50) and the larger (p99):
good for a chart, never for a verdict. Floor 1, pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from linkqual.model import Slice
from linkqual.records import ABSENT, Fate, Records
from linkqual.stats.histogram import Even, quantile

Ints = npt.NDArray[np.int64]

MAX_SLICES = 600
FINENESS = 256  # occupied buckets of a slice's histograms


class _Cell:
    """One slice being filled."""

    __slots__ = ("forward", "lost", "lost_forward", "lost_reverse", "reverse", "round_trip", "sent")

    def __init__(self) -> None:
        self.sent = self.lost = self.lost_forward = self.lost_reverse = 0
        self.round_trip, self.forward, self.reverse = (Even(FINENESS) for _ in range(3))

    def add(self, fate: npt.NDArray[np.uint8], round_trip: Ints, forward: Ints, reverse: Ints) -> None:
        counts = np.bincount(fate, minlength=len(Fate)).tolist()
        self.sent += len(fate)
        self.lost += counts[Fate.LOST]
        self.lost_forward += counts[Fate.LOST_FORWARD]
        self.lost_reverse += counts[Fate.LOST_REVERSE]
        self.round_trip.add(round_trip)
        self.forward.add(forward)
        self.reverse.add(reverse)

    def merge(self, other: _Cell) -> None:
        self.sent += other.sent
        self.lost += other.lost
        self.lost_forward += other.lost_forward
        self.lost_reverse += other.lost_reverse
        self.round_trip.merge(other.round_trip)
        self.forward.merge(other.forward)
        self.reverse.merge(other.reverse)

    def data(self, start_ns: int, forward_floor: int | None, reverse_floor: int | None) -> Slice:
        delays = self.round_trip.data()
        forward, reverse = self.forward.data(), self.reverse.data()
        return Slice(
            start_ns=start_ns,
            sent=self.sent,
            lost_forward=self.lost_forward,
            lost_reverse=self.lost_reverse,
            lost=self.lost,
            rtt_min_ns=delays.minimum,
            rtt_p50_ns=quantile(delays, 0.5),
            rtt_p99_ns=quantile(delays, 0.99),
            rtt_max_ns=delays.maximum,
            forward_pdv_p99_ns=_above(quantile(forward, 0.99), forward_floor),
            reverse_pdv_p99_ns=_above(quantile(reverse, 0.99), reverse_floor),
            forward_min_ns=forward.minimum,
            reverse_min_ns=reverse.minimum,
        )


def _above(value: int | None, floor: int | None) -> int | None:
    return None if value is None or floor is None else value - floor


class Slices:
    """The slices of a run while it is measured."""

    def __init__(self, length_ns: int) -> None:
        """`length_ns`: of a slice at the start of the run; it only ever doubles."""
        self.length_ns = length_ns
        self._cells: dict[int, _Cell] = {}

    def add(self, sent: Records, round_trip: Ints, forward: Ints, reverse: Ints) -> None:
        """Count rows that were sent, with their delay columns."""
        when = np.where(sent["sent_ns"] == ABSENT, sent["intended_ns"], sent["sent_ns"])
        self._fit(int(when.min()), int(when.max()))
        place = when // self.length_ns
        if np.any(place[1:] < place[:-1]):  # the clock was set back
            order = np.argsort(place, kind="stable")
            place, sent = place[order], sent[order]
            round_trip, forward, reverse = round_trip[order], forward[order], reverse[order]
        starts = np.flatnonzero(np.concatenate([[True], place[1:] != place[:-1]])).tolist()
        for begin, end in zip(starts, [*starts[1:], len(place)], strict=True):
            cell = self._cells.setdefault(int(place[begin]), _Cell())
            cut = slice(begin, end)
            cell.add(sent["fate"][cut], round_trip[cut], forward[cut], reverse[cut])

    def _fit(self, first_ns: int, last_ns: int) -> None:
        """Double the length until the whole run fits, these instants included."""
        length = self.length_ns
        if self._cells:
            first_ns = min(first_ns, min(self._cells) * length)
            last_ns = max(last_ns, max(self._cells) * length)
        self.length_ns = fitting(length, first_ns, last_ns)
        if self.length_ns != length:
            cells, self._cells = self._cells, {}
            for place, cell in cells.items():
                target = place * length // self.length_ns
                if target in self._cells:
                    self._cells[target].merge(cell)
                else:
                    self._cells[target] = cell

    def data(self, forward_floor: int | None, reverse_floor: int | None) -> tuple[Slice, ...]:
        """In order of time. The floors are the smallest one-way delays of the run, from which PDV counts."""
        return tuple(
            cell.data(place * self.length_ns, forward_floor, reverse_floor)
            for place, cell in sorted(self._cells.items())
        )


def fitting(length_ns: int, first_ns: int, last_ns: int) -> int:
    """The length, doubled until slices from the first to the last instant number at most MAX_SLICES."""
    while last_ns // length_ns - first_ns // length_ns >= MAX_SLICES:
        length_ns *= 2
    return length_ns


# ---- stored slices


def lifted(slices: Iterable[Slice], forward_by: int, reverse_by: int) -> list[Slice]:
    """The slices with their PDV counted from floors that lie lower by so much."""
    return [
        replace(
            piece,
            forward_pdv_p99_ns=_above(piece.forward_pdv_p99_ns, -forward_by),
            reverse_pdv_p99_ns=_above(piece.reverse_pdv_p99_ns, -reverse_by),
        )
        for piece in slices
    ]


def merged(a: list[Slice], a_ns: int, b: list[Slice], b_ns: int) -> tuple[tuple[Slice, ...], int]:
    """Slices of both runs and their length. The lengths must be one start length times powers of two."""
    length = max(a_ns, b_ns)
    pieces = sorted([*a, *b], key=lambda piece: piece.start_ns)
    if pieces:
        length = fitting(length, pieces[0].start_ns, pieces[-1].start_ns)
    cells: dict[int, Slice] = {}
    for piece in pieces:
        start = piece.start_ns // length * length
        known = cells.get(start)
        cells[start] = replace(piece, start_ns=start) if known is None else _together(known, piece)
    return tuple(cells.values()), length


def _together(a: Slice, b: Slice) -> Slice:
    return Slice(
        start_ns=a.start_ns,
        sent=a.sent + b.sent,
        lost_forward=a.lost_forward + b.lost_forward,
        lost_reverse=a.lost_reverse + b.lost_reverse,
        lost=a.lost + b.lost,
        rtt_min_ns=least(a.rtt_min_ns, b.rtt_min_ns),
        rtt_p50_ns=_weighted(a, b),
        rtt_p99_ns=most(a.rtt_p99_ns, b.rtt_p99_ns),
        rtt_max_ns=most(a.rtt_max_ns, b.rtt_max_ns),
        forward_pdv_p99_ns=most(a.forward_pdv_p99_ns, b.forward_pdv_p99_ns),
        reverse_pdv_p99_ns=most(a.reverse_pdv_p99_ns, b.reverse_pdv_p99_ns),
        forward_min_ns=least(a.forward_min_ns, b.forward_min_ns),
        reverse_min_ns=least(a.reverse_min_ns, b.reverse_min_ns),
    )


def least(a: int | None, b: int | None) -> int | None:
    """The smaller of what is known."""
    return min((each for each in (a, b) if each is not None), default=None)


def most(a: int | None, b: int | None) -> int | None:
    """The larger of what is known."""
    return max((each for each in (a, b) if each is not None), default=None)


def _weighted(a: Slice, b: Slice) -> int | None:
    if a.rtt_p50_ns is None or b.rtt_p50_ns is None:
        return a.rtt_p50_ns if b.rtt_p50_ns is None else b.rtt_p50_ns
    return (a.rtt_p50_ns * a.sent + b.rtt_p50_ns * b.sent) // (a.sent + b.sent)
