"""How much of a run a capture covers, and whether it is a capture of that run at all. Floor 2, pure.

A capture may begin or end inside the run: what passed before and after says nothing about the run. Where it begins and ends is told by
the run's own instants of the packets that were captured, so no two clocks are compared; a capture that demonstrably went on (other
traffic was captured later) covers as far as that.

Whose capture it is shows in T1, which the sender wrote into every request and the reflector copied into every reply: the sender's
clock at every place.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from linkqual.records import ABSENT, Fate, Records
from linkqual.session.witness import Coverage, Place
from linkqual.units import NS_PER_S

T1_TOLERANCE_NS = NS_PER_S  # of the T1 written before a packet is queued, against the kernel's stamp of its departure
_SLACK_NS = 10_000_000  # between a stamp of the run's and the capture's of one event

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def events(run: Records, place: Place) -> tuple[Ints, Ints]:
    """When the request and the reply of each packet passed, by the run and its clock, where a capture must show them; else ABSENT."""
    fate = run["fate"]
    received = fate == Fate.RECEIVED
    shown = {
        Place.NEAR: fate != Fate.UNSENT,
        Place.FAR: received | (fate == Fate.LOST_REVERSE),
        Place.BETWEEN: received,
    }[place]
    return np.where(shown, run["sent_ns"], ABSENT), np.where(received, run["received_ns"], ABSENT)


class Survey:
    """First look at both sides, paired by number (`witness.paired`): from which instant to which did the capture see the run?"""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._start: tuple[int, int] | None = None  # (the run's instant, the capture's)
        self._end: tuple[int, int] | None = None
        self._fit = self._compared = 0

    def add(self, run: Records, seen: Records) -> None:
        """Rows of the same numbers."""
        both = (run["sent_ns"] != ABSENT) & (seen["intended_ns"] != ABSENT)
        apart = np.abs(run["sent_ns"][both] - seen["intended_ns"][both])
        self._compared += int(both.sum())
        self._fit += int((apart <= T1_TOLERANCE_NS).sum())
        for passed, column in zip(events(run, self._place), ("sent_ns", "received_ns"), strict=True):
            matched = (passed != ABSENT) & (seen[column] != ABSENT)
            if matched.any():
                ours, theirs = passed[matched], seen[column][matched]
                low, high = int(np.argmin(ours)), int(np.argmax(ours))
                first, last = (int(ours[low]), int(theirs[low])), (int(ours[high]), int(theirs[high]))
                self._start = first if self._start is None else min(self._start, first)
                self._end = last if self._end is None else max(self._end, last)

    @property
    def fits(self) -> bool:
        """Whether most of what was captured are packets of this run: the same number, sent at the same time."""
        return self._fit > 0 and 2 * self._fit > self._compared

    def window(self, first_ns: int, last_ns: int) -> tuple[int, int] | None:
        """From when to when, by the run's clock; `first_ns`, `last_ns`: of everything captured, by the capture's."""
        if self._start is None or self._end is None:
            return None
        start = self._start[0] + (first_ns - self._start[1]) + _SLACK_NS
        end = self._end[0] + (last_ns - self._end[1]) - _SLACK_NS
        return min(self._start[0], start), max(self._end[0], end)


class Extent:
    """Second look, at the run alone: which of its numbers passed within the window."""

    def __init__(self, place: Place, window: tuple[int, int]) -> None:
        self._place, (self._start, self._end) = place, window
        self._first: int | None = None
        self._highest = -1
        self._before = -1  # the largest number that passed before the window
        self._after: int | None = None  # the smallest that passed after it

    def add(self, run: Records) -> None:
        """Rows in order of sequence number."""
        if not run.size:
            return
        seq = run["seq"]
        self._first = int(seq[0]) if self._first is None else self._first
        self._highest = int(seq[-1])
        before = np.zeros(len(run), np.bool_)
        after = np.zeros(len(run), np.bool_)
        for when in events(run, self._place):
            before |= (when != ABSENT) & (when < self._start)
            after |= (when != ABSENT) & (when > self._end)
        if before.any():
            self._before = int(seq[before][-1])
        if after.any() and self._after is None:
            self._after = int(seq[after][0])

    def coverage(self) -> Coverage | None:
        """None: the whole run."""
        if self._first is None or (self._before < 0 and self._after is None):
            return None
        first = max(self._first, self._before + 1)
        return Coverage(first, self._highest if self._after is None else self._after - 1, self._highest)
