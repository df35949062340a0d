"""The rows of packets in flight, by sequence number: opened at one end, taken out in order at the other.

    head            next                                 row of packet `seq`: seq modulo the capacity
     |  in flight    |        free                       capacity: a power of two that doubles when a loss holds up the head,
     v               v                                   at most `most`
    [###############................................]

Columns are reserved for `most` rows and touched only as far as the capacity has grown: a session without losses lives in a few
hundred kilobytes that stay in the processor's cache. Floor 2, pure.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from linkqual.errors import UsageError
from linkqual.records import ABSENT, RECORD, Fate, Records

_FIRST_ROWS = 4096
_RECEIVED = int(Fate.RECEIVED)

Longs = npt.NDArray[np.int64]
Rows = slice | Longs  # what picks rows out of a column


class Ring:
    """`blank`: one record, shape (1,), every row begins as; `most`: rows at most, a power of two."""

    def __init__(self, blank: Records, first_seq: int, most: int) -> None:
        if most & (most - 1) or most < 2:
            raise UsageError(f"a ring of {most} rows", hint="take a power of two")
        self.head = self.next = first_seq  # rows [head, next) are in flight
        self.most = most
        self._blank = blank
        self._records: Records = np.empty(most, RECORD)
        self.columns = {name: self._records[name] for name in RECORD.names or ()}
        self.since = np.empty(most, np.int64)  # monotonic: when it departed, once answered: when that was
        self._follow_seq = np.empty(most, np.int64)  # far_seq whose TX stamp lies beside it
        self._follow_ns = np.empty(most, np.int64)
        self._heard = np.zeros(most, np.bool_)  # of rows taken out: whether a reply had come
        self._added: list[Longs] = []
        self.capacity = 0
        self._reserve(min(_FIRST_ROWS, most))

    def _reserve(self, capacity: int) -> None:
        fresh = slice(self.capacity, capacity)
        self._clear(fresh)
        self._follow_seq[fresh] = ABSENT
        self.capacity, self._mask = capacity, capacity - 1

    @property
    def pending(self) -> int:
        """Rows in flight."""
        return self.next - self.head

    def add_column(self) -> Longs:
        """One more column, ABSENT in every row that is opened; index it by rows."""
        column = np.empty(self.most, np.int64)
        column[: self.capacity] = ABSENT
        self._added.append(column)
        return column

    # ---- which rows

    def span(self, first: int, count: int) -> Rows:
        """The rows of packets first .. first + count - 1: a slice unless they go around the end."""
        at = first & self._mask
        if at + count <= self.capacity:
            return slice(at, at + count)
        return np.arange(first, first + count) & self._mask

    def at(self, seqs: Longs) -> Rows:
        """The rows of these packets: a slice where they follow one another."""
        count = len(seqs)
        first = int(seqs[0]) if count else 0
        if count and int(seqs[-1]) - first == count - 1 and (seqs[1:] > seqs[:-1]).all():
            return self.span(first, count)
        return seqs & self._mask

    def row(self, seq: int) -> int:
        """The row of one packet."""
        return seq & self._mask

    # ---- life of a row

    def open(self, count: int) -> Rows:
        """The next `count` rows, blank but for their number; there must be room for them."""
        while self.pending + count > self.capacity:
            self._grow()
        rows = self.span(self.next, count)
        self.columns["seq"][rows] = np.arange(self.next, self.next + count)
        self.next += count
        return rows

    def _grow(self) -> None:
        """Rows whose number has the new bit move into the new half; the others stay where they are."""
        former = self.capacity
        if former >= self.most:
            raise UsageError(f"more than {self.most} packets in flight", hint="lower the rate or the timeout")
        self._reserve(2 * former)
        moving = [seq for seq in (self.head, (self.head | (former - 1)) + 1) if seq & former and seq < self.next]
        for first in moving:
            count = min(self.next, (first | (former - 1)) + 1) - first
            low, high = first & (former - 1), first & self._mask
            for column in (self._records, self.since, *self._added):
                column[high : high + count] = column[low : low + count]
            self._clear(slice(low, low + count))
        told = self._follow_seq[:former]
        up = np.flatnonzero((told != ABSENT) & (told & former != 0))
        self._follow_seq[up + former], self._follow_ns[up + former] = told[up], self._follow_ns[up]
        told[up] = ABSENT

    def _clear(self, rows: slice) -> None:
        self._records[rows] = self._blank
        for column in self._added:
            column[rows] = ABSENT

    def take(self, stop: int) -> Records:
        """Rows from the head up to packet `stop`, as a copy; the ring has them back."""
        parts = []
        while self.head < stop:
            at = self.head & self._mask
            count = min(stop - self.head, self.capacity - at)
            rows = slice(at, at + count)
            part = self._records[rows].copy()
            parts.append(part)
            self._note_heard(part["fate"] == _RECEIVED)
            self._clear(rows)
            self.head += count
        return parts[0] if len(parts) == 1 else np.concatenate([self._records[:0], *parts])

    def _note_heard(self, received: npt.NDArray[np.bool_]) -> None:
        at = self.head & (self.most - 1)
        fits = min(len(received), self.most - at)
        self._heard[at : at + fits] = received[:fits]
        self._heard[: len(received) - fits] = received[fits:]

    def was_heard(self, seq: int) -> bool:
        """Whether a row no longer in flight had its reply; False for one so old that nobody knows."""
        return 0 < self.head - seq <= self.most and bool(self._heard[seq & (self.most - 1)])

    # ---- the far end's own TX stamps, by its own counter

    def note_follow_ups(self, far_seqs: Longs, sent_ns: Longs) -> None:
        """The far end sent its replies of these numbers at these instants (UTC)."""
        rows = self.at(far_seqs)
        self._follow_seq[rows] = far_seqs
        self._follow_ns[rows] = sent_ns

    def followed(self, far_seqs: Longs) -> npt.NDArray[np.bool_]:
        """Of which replies the far end's TX stamp is known."""
        known: npt.NDArray[np.bool_] = self._follow_seq[self.at(far_seqs)] == far_seqs
        return known

    def follow_ups(self, far_seqs: Longs) -> Longs:
        """Those stamps, UTC ns."""
        stamps: Longs = self._follow_ns[self.at(far_seqs)]
        return stamps
