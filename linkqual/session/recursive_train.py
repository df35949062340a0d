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

IDLE = 0  # packets of load of the first one, and of the last where some hops fell silent: which hops answer two packets at once
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
        """Packets of load of the next train, first of all none; None: enough."""
        if not self.taken:
            return IDLE
        size = self._settled()
        if size is None:
            tried = {one.load for one in self.taken}
            return next(one for one in SIZES if one not in tried)
        if sum(one.load == size for one in self.taken) < REPEATS:
            return size
        again = sum(one.load == IDLE for one in self.taken) < 2 and self._cut(self._mute(size)) is not None
        return IDLE if again else None

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
        """The place, always with low confidence. A trial without load alone names none."""
        size = self._settled() or max(one.load for one in self.taken)
        trains = [one for one in self.taken if one.load == size]
        load = f"trains of {format_count(size)} packets ({len(trains)})"
        blank = LoadedPath(direction, load, tuple(self._hop(hop, trains) for hop in self.hops))
        gaps = self._gaps(size)
        if not gaps or not size:
            return replace(blank, because="no hop answered both before and behind a train")
        last = max(gaps)
        mute = self._mute(size)
        cut = self._cut(mute)
        drawn = self._drawn_out(size)
        if cut is None and not drawn:
            return replace(blank, because=self._as_they_left(size, last) + _unheard(cut, mute))
        monotone = {ttl: min(gap for other, gap in gaps.items() if other >= ttl) for ttl in sorted(gaps)}
        first = next(ttl for ttl, gap in monotone.items() if gap >= ALIKE * gaps[last])
        after = max((ttl for ttl in monotone if ttl < first), default=0) if drawn else last
        why = self._drawn(size, first, gaps) if drawn else self._as_they_left(size, last)
        return replace(
            blank, after=after, before=cut or first, by="train", confidence="low", because=why + _unheard(cut, mute)
        )

    def _as_they_left(self, size: int, last: int) -> str:
        rate = format_rate(self._rate(size, self._left(size, last)))
        return f"up to hop {last} the trains came as they left, {rate}: nothing there is narrower, or its bucket lets them through"

    def _drawn(self, size: int, first: int, gaps: dict[int, float]) -> str:
        return (
            f"a recursive train from one end alone: hop {first} answers its two packets {format_duration(round(gaps[first]))} apart, they left "
            f"{format_duration(round(self._left(size, first)))} apart; some {format_rate(self._rate(size, gaps[max(gaps)]))}, which a bucket makes seem "
            "faster"
        )

    def _mute(self, size: int) -> list[int]:
        """Hops behind the last one that answered both that answered the packet before the load."""
        last = max(self._gaps(size), default=0)
        heard = {
            ttl for one in self.taken if one.load == size for ttl, (first, _) in one.came.items() if first is not None
        }
        return sorted(ttl for ttl in heard if ttl > last)

    def _cut(self, mute: Sequence[int]) -> int | None:
        """The first of them that answers two packets at once without load, before the trains and after them: its limit is not used up."""
        able = [{ttl for ttl, both in one.came.items() if None not in both} for one in self.taken if one.load == IDLE]
        return next((ttl for ttl in mute if able and all(ttl in each for each in able)), None)

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


def _unheard(cut: int | None, mute: Sequence[int]) -> str:
    """What the hops say that answered before the trains and not behind them: from `cut` on they answer two packets without load."""
    if cut is not None:
        said = f"; hop {cut} answers none of the packets behind the trains, and without load both: they are dropped before it"
    elif mute:
        which = f"hop {mute[0]} answers" if len(mute) == 1 else f"hops {mute[0]} to {mute[-1]} answer"
        said = f"; {which} one packet at a time, with and without load, so what reaches there is not seen"
    else:
        said = ""
    return f"{said}; the last link is not seen from one end"


def numbers(ttls: Sequence[int]) -> dict[int, tuple[int, int]]:
    """By TTL the numbers of its first and its last probe: the largest there are, so that these packets are nearly as long as the load's."""
    count = len(ttls)
    first = MAX_NUMBER - 2 * count
    return {ttl: (first + place, first + count + place) for place, ttl in enumerate(ttls)}
