"""What of a phase of load has arrived: every packet by its sequence number, in memory that does not grow with time. Floor 2, pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from linkqual.session.arrivals import Arrivals
from linkqual.session.load_gaps import Gaps
from linkqual.stats.histogram import LogLinear
from linkqual.units import NS_PER_S
from linkqual.wire.load import ARRIVAL

MOST_ARRIVALS = 2_000_000  # rows kept for whoever asked for them
MOST_BINS = 100_000  # a day of seconds; beyond, two intervals become one
_WINDOW = 1 << 23  # packets remembered, for copies and late ones
_FARTHEST = 1 << 28  # packets that may be missing at once: a number farther ahead is damaged
_STRANGEST_NS = (
    3600 * NS_PER_S
)  # between two differences of arrival and departure: beyond, the time in the packet is damaged
_BEYOND = 1 << 40  # of flow numbers above sequence numbers

Longs = npt.NDArray[np.int64]


class Bins:
    """Sums of two quantities by interval of a clock; few intervals are kept, longer ones when there would be too many."""

    def __init__(self, interval_ns: int) -> None:
        self.interval_ns = interval_ns
        self.first = 0  # number of the first interval since the clock's zero
        self._sums: Longs = np.zeros((0, 2), np.int64)

    def add(self, when_ns: Longs, values: Longs) -> None:
        """`values`, shape (n, 2), at these instants."""
        if not len(when_ns):
            return
        at = when_ns // self.interval_ns
        low, high = int(at.min()), int(at.max())
        if not len(self._sums):
            self.first = low
        while max(high, self.first + len(self._sums) - 1) - min(low, self.first) >= MOST_BINS:
            self._double()
            at = when_ns // self.interval_ns
            low, high = int(at.min()), int(at.max())
        before, after = max(0, self.first - low), max(0, high + 1 - self.first - len(self._sums))
        if before or after:
            room = after if before or after > 64 else 64  # grown ahead, cut off again in `data`
            self._sums = np.pad(self._sums, ((before, room), (0, 0)))
            self.first -= before
        if low == high:
            self._sums[low - self.first] += values.sum(axis=0)
        else:
            np.add.at(self._sums, at - self.first, values)

    def _double(self) -> None:
        odd = self.first % 2
        sums = np.pad(self._sums, ((odd, (len(self._sums) + odd) % 2), (0, 0)))
        self._sums = sums.reshape(-1, 2, 2).sum(axis=1)
        self.first, self.interval_ns = (self.first - odd) // 2, 2 * self.interval_ns

    def data(self) -> dict[str, Any]:
        """{"interval_ns", "first", "sums": [[a, b], ...]} up to the last interval with anything in it."""
        filled = np.flatnonzero(self._sums.any(axis=1))
        last = int(filled[-1]) + 1 if len(filled) else 0
        return {"interval_ns": self.interval_ns, "first": self.first, "sums": self._sums[:last].tolist()}


class LoadCounter:
    """One phase. `most`: packets that may have been sent at most: a number beyond was damaged on the way."""

    def __init__(self, flows: int, interval_ns: int, *, most: int | None = None, arrivals: bool = False) -> None:
        self.received = self.received_bytes = self.duplicates = self.reordered = self.damaged = self.forgotten = 0
        self.first_ns: int | None = None  # receiver's stamps
        self.last_ns = 0
        self._apart_ns: int | None = None  # arrival less departure of the first packet
        self._first_bytes = 0  # of all packets with the first stamp
        self._most = most
        self._seen = Arrivals(0, _WINDOW)
        self._gaps = Gaps()
        self._newest = np.full(flows, -1, np.int64)
        self._by_flow = np.zeros((flows, 2), np.int64)
        self._arrived: Bins | None = None
        self._departed = Bins(interval_ns)
        self._interval_ns = interval_ns
        self._one_way = LogLinear()
        self._rows: list[npt.NDArray[np.void]] | None = [] if arrivals else None
        self._kept = 0

    @property
    def next_seq(self) -> int:
        """One beyond the newest packet."""
        return self._seen.next_seq

    def take(self, raw: Longs, flows: Longs, sent_ns: Longs, received_ns: Longs, octets: Longs) -> None:
        """Packets in the order they came: sequence numbers as in the packets, flow, departure, arrival, IP bytes; each shape (n,)."""
        seqs = self._seen.unwrap(raw.astype(np.uint32))
        limit = self.next_seq + _FARTHEST if self._most is None else self._most
        sound = (seqs >= 0) & (seqs < limit) & (flows < len(self._newest))
        apart = received_ns - sent_ns
        if self._apart_ns is None and len(apart):
            self._apart_ns = int(apart[0])
        sound &= np.abs(apart - (self._apart_ns or 0)) < _STRANGEST_NS
        if not sound.all():
            self.damaged += int((~sound).sum())
            seqs, flows, sent_ns, received_ns, octets = (
                each[sound] for each in (seqs, flows, sent_ns, received_ns, octets)
            )
        remembered = seqs >= self._seen.oldest
        known = np.ones(len(seqs), np.bool_)
        known[remembered] = self._seen.seen(seqs[remembered])
        self.forgotten += int((~remembered).sum())  # too old to tell a copy from a late one
        self.duplicates += int((known & remembered).sum())
        if known.any():
            fresh = ~known
            seqs, flows, sent_ns, received_ns, octets = (
                each[fresh] for each in (seqs, flows, sent_ns, received_ns, octets)
            )
        if len(seqs):
            self._count(seqs, flows, sent_ns, received_ns, octets)

    def _count(self, seqs: Longs, flows: Longs, sent_ns: Longs, received_ns: Longs, octets: Longs) -> None:
        self._gaps.look(seqs, sent_ns, self._seen)
        self._seen.note(seqs)
        self.received += len(seqs)
        self.received_bytes += int(octets.sum())
        self._order(seqs, flows)
        self._by_flow[:, 0] += np.bincount(flows, minlength=len(self._by_flow))
        self._by_flow[:, 1] += np.bincount(flows, octets, len(self._by_flow)).astype(np.int64)
        first, last = int(received_ns.min()), int(received_ns.max())
        if self.first_ns is None:
            self.first_ns = first
            self._first_bytes = int(octets[received_ns == first].sum())
            self._arrived = Bins(self._interval_ns)
        self.last_ns = max(self.last_ns, last)
        assert self._arrived is not None
        ones = np.ones(len(seqs), np.int64)
        self._arrived.add(received_ns - self.first_ns, np.column_stack([ones, octets]))
        self._departed.add(sent_ns, np.column_stack([ones, octets]))
        self._one_way.add(received_ns - sent_ns)
        if self._rows is not None and self._kept < MOST_ARRIVALS:
            rows = np.empty(len(seqs), ARRIVAL)
            rows["seq"], rows["flow"], rows["sent_ns"], rows["received_ns"] = seqs, flows, sent_ns, received_ns
            self._rows.append(rows)
            self._kept += len(rows)

    def _order(self, seqs: Longs, flows: Longs) -> None:
        """Reordered: a smaller number than one that came before in the same flow (RFC 4737 s3.3)."""
        several = len(self._newest) > 1
        order = np.argsort(flows, kind="stable") if several else slice(None)
        base = flows[order] * _BEYOND
        keys = seqs[order] + base
        newest = np.maximum.accumulate(np.maximum(keys, self._newest[flows[order]] + base))
        before = np.maximum(np.concatenate([[-1], newest[:-1]]), self._newest[flows[order]] + base)
        self.reordered += int((keys < before).sum())
        np.maximum.at(self._newest, flows, seqs)

    @property
    def span_ns(self) -> int:
        """First to last arrival."""
        return 0 if self.first_ns is None else self.last_ns - self.first_ns

    def rows(self) -> npt.NDArray[np.void]:
        """Every arrival, in the order they came, where they are kept."""
        return np.concatenate(self._rows) if self._rows else np.empty(0, ARRIVAL)

    def small(self) -> dict[str, Any]:
        """What is told while it runs."""
        return {
            "received": self.received,
            "received_bytes": self.received_bytes,
            "next_seq": self.next_seq,
            "received_ns": self.span_ns,
            "duplicates": self.duplicates,
            "reordered": self.reordered,
            "damaged": self.damaged,
        }

    def data(self) -> dict[str, Any]:
        """All of it as plain values, for the other end."""
        arrived = self._arrived.data() if self._arrived is not None else {"interval_ns": self._interval_ns, "sums": []}
        return self.small() | {
            "first_bytes": self._first_bytes,
            "by_flow": self._by_flow.tolist(),
            "arrived": arrived,
            "departed": self._departed.data(),
            "one_way": asdict(self._one_way.data()),
            "gaps": self._gaps.events(self._seen),
            "arrivals": self._kept,
        }
