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
_AHEAD = 64  # intervals made ready at once
_WINDOW = 1 << 23  # packets remembered, for copies and late ones
_FARTHEST = 1 << 28  # packets that may be missing at once: a number farther ahead is damaged
_STRANGEST_NS = (
    3600 * NS_PER_S
)  # between two differences of arrival and departure: beyond, the time in the packet is damaged
_BEYOND = 1 << 40  # of flow numbers above sequence numbers

Longs = npt.NDArray[np.int64]
Rows = slice | Longs


class Bins:
    """Sums of two quantities by interval of a clock; few intervals are kept, longer ones when there would be too many."""

    def __init__(self, interval_ns: int) -> None:
        self.interval_ns = interval_ns
        self.first = 0  # number of the first interval since the clock's zero
        self._sums: Longs = np.zeros((0, 2), np.int64)

    def add(self, when_ns: Longs, counts: Longs | None, octets: Longs) -> None:
        """What happened at these instants; `counts` None: one each."""
        if not len(when_ns):
            return
        earliest, latest = int(when_ns.min()), int(when_ns.max())
        low, high = self._room(earliest, latest)
        if low == high:
            self._sums[low - self.first] += (len(when_ns) if counts is None else int(counts.sum()), int(octets.sum()))
            return
        at = when_ns // self.interval_ns - self.first
        np.add.at(self._sums[:, 0], at, 1 if counts is None else counts)
        np.add.at(self._sums[:, 1], at, octets)

    def _room(self, earliest_ns: int, latest_ns: int) -> tuple[int, int]:
        """Make room for these instants; the intervals they lie in."""
        low, high = earliest_ns // self.interval_ns, latest_ns // self.interval_ns
        if not len(self._sums):
            self.first = low
        while max(high, self.first + len(self._sums) - 1) - min(low, self.first) >= MOST_BINS:
            self._double()
            low, high = earliest_ns // self.interval_ns, latest_ns // self.interval_ns
        before, after = max(0, self.first - low), max(0, high + 1 - self.first - len(self._sums))
        if before or after:
            self._sums = np.pad(self._sums, ((before, max(after, _AHEAD)), (0, 0)))  # cut off again in `data`
            self.first -= before
        return low, high

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

    def take(
        self, raw: Longs, flows: Longs, sent_ns: Longs, received_ns: Longs, octets: Longs, stamped: Rows = slice(None)
    ) -> None:
        """Packets in the order they came: sequence numbers as in the packets, flow, departure, arrival, IP bytes; each shape (n,).

        `stamped`: those that have an arrival stamp of their own; the others came in a train with the one before.
        """
        if not len(raw):
            return
        apart = received_ns - sent_ns
        if self._apart_ns is None:
            self._apart_ns = int(apart[0])
        timely = max(abs(int(apart.max()) - self._apart_ns), abs(int(apart.min()) - self._apart_ns)) < _STRANGEST_NS
        if timely and self._in_step(raw, flows):
            seqs = np.arange(self.next_seq, self.next_seq + len(raw))
            self._gaps.none(int(sent_ns[-1]))
            self._one_way.add(apart[stamped])
            self._count(seqs, flows, sent_ns, received_ns, octets)
            return
        fresh = self._fresh(raw, flows, apart)
        seqs = self._seen.unwrap(raw.astype(np.uint32))[fresh]
        if len(seqs):
            flows, sent_ns, received_ns, octets = (each[fresh] for each in (flows, sent_ns, received_ns, octets))
            self._gaps.look(seqs, sent_ns, self._seen)
            self._order(seqs, flows)
            own = np.zeros(len(raw), np.bool_)
            own[stamped] = True
            self._one_way.add(apart[own & fresh])
            self._count(seqs, flows, sent_ns, received_ns, octets)

    def _in_step(self, raw: Longs, flows: Longs) -> bool:
        """Whether these are just the next packets, all of one flow: nothing lost, copied or out of order."""
        count = len(raw)
        return bool(
            int(raw[0]) == self.next_seq & 0xFFFF_FFFF
            and int(raw[-1]) - int(raw[0]) == count - 1
            and self.next_seq + count <= self._limit
            and int(flows[0]) < len(self._newest)
            and (raw[1:] - raw[:-1] == 1).all()
            and (flows == flows[0]).all()
        )

    @property
    def _limit(self) -> int:
        return self.next_seq + _FARTHEST if self._most is None else self._most

    def _fresh(self, raw: Longs, flows: Longs, apart: Longs) -> npt.NDArray[np.bool_]:
        """Which are sound packets that had not come before; the others are counted as what they are."""
        seqs = self._seen.unwrap(raw.astype(np.uint32))
        sound = (seqs >= 0) & (seqs < self._limit) & (flows < len(self._newest))
        sound &= np.abs(apart - (self._apart_ns or 0)) < _STRANGEST_NS
        remembered = sound & (seqs >= self._seen.oldest)
        known = np.zeros(len(seqs), np.bool_)
        known[remembered] = self._seen.seen(seqs[remembered])
        self.damaged += int((~sound).sum())
        self.forgotten += int((sound & ~remembered).sum())  # too old to tell a copy from a late one
        self.duplicates += int(known.sum())
        return remembered & ~known

    def _count(self, seqs: Longs, flows: Longs, sent_ns: Longs, received_ns: Longs, octets: Longs) -> None:
        self._seen.note(seqs)
        total = int(octets.sum())
        self.received += len(seqs)
        self.received_bytes += total
        if int(flows[0]) == int(flows[-1]) and (flows == flows[0]).all():
            self._by_flow[flows[0]] += (len(seqs), total)
            self._newest[flows[0]] = max(self._newest[flows[0]], int(seqs.max()))
        else:
            self._by_flow[:, 0] += np.bincount(flows, minlength=len(self._by_flow))
            self._by_flow[:, 1] += np.bincount(flows, octets, len(self._by_flow)).astype(np.int64)
            np.maximum.at(self._newest, flows, seqs)
        first = int(received_ns.min())
        if self.first_ns is None:
            self.first_ns = first
            self._first_bytes = int(octets[received_ns == first].sum())
            self._arrived = Bins(self._interval_ns)
        self.last_ns = max(self.last_ns, int(received_ns.max()))
        assert self._arrived is not None
        self._arrived.add(received_ns - self.first_ns, None, octets)
        self._departed.add(sent_ns, None, octets)
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

    @property
    def span_ns(self) -> int:
        """First to last arrival."""
        return 0 if self.first_ns is None else self.last_ns - self.first_ns

    def rows(self) -> npt.NDArray[np.void]:
        """Every arrival, in the order they came, where they are kept."""
        if not self._rows:
            return np.empty(0, ARRIVAL)
        self._rows = [np.concatenate(self._rows)]  # whoever fetches them does so part by part
        return self._rows[0]

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
