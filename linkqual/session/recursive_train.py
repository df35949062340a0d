"""The narrowest place as one end alone can tell it: a train of load between two rows of packets that expire hop by hop. Pure. Floor 2.

    sent    1 2 3 | load load load ... load | 3 2 1        each number is a packet that expires at that hop
    answers hop k hears its first packet before and its last one behind the load, as long as the load is on the link to it

A narrow link draws the train out, and no later one pushes it together again (Hu and others 2004, Pathneck). A token bucket lets a short
train pass at once, so the train grows until it is drawn out. It tells no more than a place and a rate that may be far too high: low, always.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from linkqual.model import Direction, LoadedHop, LoadedPath
from linkqual.units import NS_PER_S, format_count, format_duration, format_rate
from linkqual.wire.trace_probe import MAX_NUMBER

SIZES = (60, 400, 1600)  # packets of load; the next one where a train was not drawn out
REPEATS = 3  # trains of the size that was
APART_NS = 2_100_000_000  # routers make about one ICMP error a second, and each train wants two
LISTEN_NS = 700_000_000
DRAWN_OUT, ALIKE = 1.3, 0.85  # against what the sender made of it; of the last gap
PACKET_BYTES = 1500  # of the load, IP


@dataclass(frozen=True, slots=True)
class Heard:
    """One train: when each hop's first and last packet left and when its answer came, ns of one clock; None: no answer."""

    load: int  # packets
    sent: dict[int, tuple[int, int]]
    came: dict[int, tuple[int | None, int | None]]

    @property
    def sending_ns(self) -> int:
        """From the first packet to the last one."""
        return max(last for _, last in self.sent.values()) - min(first for first, _ in self.sent.values())


@dataclass(slots=True)
class Recursive:
    """Which train is next, and what all say together. `hops`: those of the trace, the host itself left out."""

    hops: Sequence[LoadedHop]
    taken: list[Heard]

    @classmethod
    def over(cls, hops: Sequence[LoadedHop]) -> Recursive:
        """A host answers what reaches it no more often than a router, and the load has used that up: it tells nothing."""
        return cls(tuple(hops), [])

    def next(self) -> int | None:
        """Packets of load of the next train; None: enough."""
        size = self._settled()
        if size is None:
            tried = {one.load for one in self.taken}
            return next(one for one in SIZES if one not in tried)
        return size if sum(one.load == size for one in self.taken) < REPEATS else None

    def _settled(self) -> int | None:
        """The size to go by, once it is known: a longer train loses its end in a queue, or is no slower, so no bucket let this one through."""
        for size, larger in pairwise(SIZES):
            here, there = self._gaps(size), self._gaps(larger)
            if not any(one.load == larger for one in self.taken):
                return None
            last = max(here, default=0)
            if last not in there:
                return size
            if self._drawn_out(size) and self._rate(larger, there[last]) >= ALIKE * self._rate(size, here[last]):
                return size
        return SIZES[-1]

    def _drawn_out(self, size: int) -> bool:
        """Whether the last hop that answered found trains of this size longer than they left."""
        gaps = self._gaps(size)
        return bool(gaps) and gaps[max(gaps)] >= DRAWN_OUT * self._left(size, max(gaps))

    def result(self, direction: Direction) -> LoadedPath:
        """The place, always with low confidence."""
        size = self._settled() or (self.taken[-1].load if self.taken else 0)
        trains = [one for one in self.taken if one.load == size]
        load = f"trains of {format_count(size)} packets ({len(trains)})"
        blank = LoadedPath(direction, load, tuple(self._hop(hop, trains) for hop in self.hops))
        gaps = self._gaps(size)
        if not gaps:
            return replace(blank, because="no hop answered both before and behind a train")
        last = max(gaps)
        mute = [hop.ttl for hop in blank.hops if hop.ttl > last and hop.idle_ns]  # they answered before the load
        cut = mute[0] if mute else None
        able = any(cut in self._gaps(one) for one in SIZES)  # to answer both; else it may be its habit
        doubt = "" if able else ", or it answers one packet at a time"
        lost = (
            f"; hop {cut} answers none of the packets behind the trains: they are dropped before it{doubt}"
            if cut
            else ""
        )
        if not self._drawn_out(size) and not (able or len(mute) > 1):
            rate = format_rate(self._rate(size, self._left(size, last)))
            why = f"up to hop {last} the trains came as they left, {rate}: nothing there is narrower, or its bucket lets them through"
            return replace(blank, because=f"{why}{lost}; the last link is not seen from one end")
        monotone = {ttl: min(gap for other, gap in gaps.items() if other >= ttl) for ttl in sorted(gaps)}
        first = next(ttl for ttl, gap in monotone.items() if gap >= ALIKE * gaps[last])
        why = (
            f"a recursive train from one end alone: hop {first} answers its two packets {format_duration(round(gaps[first]))} apart, they left "
            f"{format_duration(round(self._left(size, first)))} apart; some {format_rate(self._rate(size, gaps[last]))}, which a bucket makes seem "
            f"faster{lost}; the last link is not seen"
        )
        after = max((ttl for ttl in monotone if ttl < first), default=0)
        return replace(blank, after=after, before=cut or first, by="train", confidence="low", because=why)

    def _gaps(self, size: int) -> dict[int, float]:
        """Between both answers of each hop that gave them, median over the trains, ns."""
        found: dict[int, list[int]] = {}
        for one in self.taken:
            for ttl, (first, last) in one.came.items():
                if one.load == size and first is not None and last is not None:
                    found.setdefault(ttl, []).append(last - first)
        return {ttl: statistics.median(gaps) for ttl, gaps in found.items()}

    def _left(self, size: int, ttl: int) -> float:
        return statistics.median(one.sent[ttl][1] - one.sent[ttl][0] for one in self.taken if one.load == size)

    def _rate(self, size: int, during_ns: float) -> int:
        return round(size * PACKET_BYTES * 8 * NS_PER_S / max(1.0, during_ns))

    def _hop(self, hop: LoadedHop, trains: Sequence[Heard]) -> LoadedHop:
        """Its first packets met an idle line, its last ones the queue of the train."""
        there = [one for one in trains if hop.ttl in one.sent]
        idle, loaded = (
            tuple(came - one.sent[hop.ttl][place] for one in there if (came := one.came[hop.ttl][place]) is not None)
            for place in (0, 1)
        )
        return LoadedHop(hop.ttl, hop.address, len(there), idle, len(there), loaded)


def numbers(ttls: Sequence[int]) -> dict[int, tuple[int, int]]:
    """By TTL the numbers of its first and its last probe: the largest there are, so that these packets are nearly as long as the load's."""
    count = len(ttls)
    first = MAX_NUMBER - 2 * count
    return {ttl: (first + place, first + count + place) for place, ttl in enumerate(ttls)}
