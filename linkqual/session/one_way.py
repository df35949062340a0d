"""One-way measurement (RFC 7679, RFC 7680): what one end sent, joined with what arrived at the other. Floor 2, pure.

A sender of a one-way session settles a row as soon as its packet has left; the far end logs every arrival. Here rows wait for
the timeout and then leave in order, each packet sent exactly once: RECEIVED with T1, T2, TTL and TOS, or LOST_FORWARD. A row waits from the
moment it is handed in, which is after it was sent: nothing is called lost too early. Memory is that of the packets sent within the timeout.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from linkqual.records import Fate, Records, Stamp, empty_records

_MOST_COPIES = 255
_T2 = int(Stamp.T2_KERNEL)

Longs = npt.NDArray[np.int64]
Arrivals = npt.NDArray[np.void]  # rows of session.reflector.ARRIVAL


@dataclass(slots=True)
class OneWayCounters:
    """What arrived besides first copies in time."""

    late: int = 0  # after the timeout: its packet is lost
    copies: int = 0  # of packets whose row has not left yet
    unknown: int = 0  # numbers never sent


class OneWay:
    """`timeout_ns`: how long a packet may be under way."""

    def __init__(self, timeout_ns: int, first_seq: int = 0) -> None:
        self.counters = OneWayCounters()
        self._timeout_ns = timeout_ns
        self._rows: deque[tuple[int, Records]] = deque()  # (when handed in, monotonic; rows)
        self._head = self._next = first_seq
        self._came: list[tuple[Longs, Arrivals]] = []  # (order of arrival, rows) not joined yet
        self._next_arrival = 0

    @property
    def pending(self) -> int:
        """Rows that wait."""
        return self._next - self._head

    @property
    def complete(self) -> bool:
        """Whether no row that waits is still lacking its arrival."""
        return not any((rows["fate"] == Fate.LOST).any() for _, rows in self._rows)

    def sent(self, records: Records, now_ns: int) -> None:
        """Rows the sender settled, in sequence order; `now_ns` monotonic."""
        if len(records):
            self._rows.append((now_ns, records.copy()))
            self._next = int(records["seq"][-1]) + 1

    def arrived(self, rows: Arrivals) -> None:
        """What the far end logged, in order of arrival."""
        if len(rows):
            self._came.append((np.arange(self._next_arrival, self._next_arrival + len(rows)), rows))
            self._next_arrival += len(rows)

    def settle(self, now_ns: int) -> Records:
        """Rows that have waited for the timeout; every arrival logged before `now_ns` must be in."""
        self._join()
        done = []
        while self._rows and self._rows[0][0] <= now_ns - self._timeout_ns:
            done.append(self._leave())
        return np.concatenate(done) if done else empty_records(0)

    def close(self) -> Records:
        """All rows: nothing more can arrive."""
        self._join()
        self.counters.unknown += sum(len(rows) for _, rows in self._came)
        self._came.clear()
        return np.concatenate([empty_records(0), *(self._leave() for _ in range(len(self._rows)))])

    def _leave(self) -> Records:
        _, rows = self._rows.popleft()
        rows["fate"][rows["fate"] == Fate.LOST] = Fate.LOST_FORWARD
        self._head = int(rows["seq"][-1]) + 1
        return rows

    def _join(self) -> None:
        """Arrivals into their rows; those of packets whose rows are not here yet stay."""
        if not self._came:
            return
        order, arrivals = (np.concatenate(parts) for parts in zip(*self._came, strict=True))
        seqs = arrivals["seq"]
        self.counters.late += int((seqs < self._head).sum())
        for _, rows in self._rows:
            first = int(rows["seq"][0])
            here = np.flatnonzero((seqs >= first) & (seqs < first + len(rows)))
            if len(here):
                self._enter(rows, seqs[here] - first, arrivals[here], order[here])
        early = seqs >= self._next
        self._came = [(order[early], arrivals[early])] if early.any() else []

    def _enter(self, rows: Records, at: Longs, arrivals: Arrivals, order: Longs) -> None:
        firsts = np.unique(at, return_index=True)[1]
        new = firsts[rows["fate"][at[firsts]] == Fate.LOST]
        to = at[new]
        rows["far_received_ns"][to] = arrivals["received_ns"][new]
        rows["forward_ttl"][to] = arrivals["ttl"][new]
        rows["forward_tos"][to] = arrivals["tos"][new]
        rows["far_seq"][to] = order[new]
        rows["stamps"][to] |= _T2
        rows["fate"][to] = Fate.RECEIVED
        extra = np.bincount(np.delete(at, new), minlength=len(rows))
        rows["forward_copies"] = np.minimum(rows["forward_copies"] + extra, _MOST_COPIES)
        self.counters.copies += int(extra.sum())
