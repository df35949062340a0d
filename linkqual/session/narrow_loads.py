"""The trains of the search for the narrowest hop: how fast, how long, and where they expire. Floor 2, pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from linkqual.session.load_phase import Phase
from linkqual.session.prefix_train import EACH_TTL
from linkqual.session.prefixes import BUCKETS, DEEPEST_BUCKET, TAIL_NS
from linkqual.session.train import ABOVE, JITTER
from linkqual.session.whole_way import WholeWay
from linkqual.units import NS_PER_S

MOST_LINKS = 32
LADDER_NS = 8 * NS_PER_S // 10
MARKER_IN = (
    3  # packets of a prefix train: at ABOVE times the rate they fill little more than half of what is behind the router
)
LADDER_MARKER_IN = 2  # of a ladder, whose markers are lost like load: more of them are left to count
LEAST_PACE = 1.3  # asked of a sender, though it never went so fast
GENTLE = 1.06  # times what the first one showed
_LEAST_TOLD = 1.15  # times the rate: slower, it would not count
_LEAST_OVER = 0.05  # of the pace: by so much a bucket drains at least
_CLIMB_GAP_NS = 2_000_000
_TAIL_PACKETS = 300
_LEAST_PASSED, _MOST_PASSED = 150, 600  # packets of a rung that the narrowest link lets through
_PACE_NS, _PACE_TAIL_NS = 600_000_000, 120_000_000


@dataclass(slots=True)
class Loads:
    """Rates as the contract counts them; a `Phase` has them at the IP layer."""

    way: WholeWay

    @property
    def fastest_bps(self) -> float:
        """What may be asked of the sender: what it reached, or a little above the rate."""
        reached = max((train.offered_bps for train in self.way.trains.taken), default=0.0)
        return min(max(reached, LEAST_PACE * self.way.rate_bps), self.way.bounds.fastest_bps)

    def climb(self) -> Phase:
        """Packets of ascending TTL: so many at least arrive as tell the delay of the idle line."""
        size = self.way.bounds.packet_bytes
        slow = 8 * size * NS_PER_S // _CLIMB_GAP_NS
        packets = (MOST_LINKS + 4) * EACH_TTL
        return Phase("climb", slow, packets=packets, sizes=((size, 1),), arrivals=True, climbing=True)

    def with_ladder(self, train: Phase, rungs: int) -> Phase:
        """The train goes on with load that expires on the last router, then on the one before it, while the buckets are empty."""
        pace = train.rate_bps * self.way.bounds.each / self.way.bounds.packet_bytes
        passed = self._packets(self.way.rate_bps, LADDER_NS / max(1, rungs))
        each = math.ceil(min(max(passed, _LEAST_PASSED), _MOST_PASSED) * max(1.0, pace / self.way.rate_bps))
        packets = train.packets + rungs * each
        return replace(
            train, packets=packets, expire_at=rungs, lead=train.packets, rung=each, marker_in=LADDER_MARKER_IN
        )

    def ladder(self, rungs: int) -> Phase:
        """One of its own, which empties the deepest bucket first."""
        pace = min(ABOVE * self.way.rate_bps, self.fastest_bps)
        lead = self._phase("ladder", pace, self._packets(pace, self._drains_ns(pace, DEEPEST_BUCKET)))
        return self.with_ladder(lead, rungs)

    def paced(self, pace: float) -> Phase:
        """All the way, long enough for the bucket and a little more."""
        lasts_ns = min(self._drains_ns(pace, self.way.bucket_bytes), _PACE_NS) + _PACE_TAIL_NS
        return self._phase("pace", pace, max(_TAIL_PACKETS, self._packets(pace, lasts_ns)))

    def prefix(self, router: int) -> Phase:
        """A train whose load expires there: long enough for the bucket known, then for the deepest in what the first one showed."""
        whole, prefixes = self.way.whole, self.way.prefixes
        seen = prefixes.link_seen(router, whole)
        pace = min(ABOVE * whole.rate_bps, self.fastest_bps)
        emptied_ns = self._drains_ns(pace, whole.bucket_bytes)
        packets = max(_TAIL_PACKETS + self._packets(pace, emptied_ns), self._packets(pace, emptied_ns + TAIL_NS))
        packets *= 2 ** prefixes.voids(router)
        if seen is not None and not prefixes.drained(router, whole):
            lasts_ns = prefixes.drains_ns(router, whole)
            if prefixes.level(router):  # what came through was a bucket's, not a wider link's
                lasts_ns = self._drains_ns(pace, DEEPEST_BUCKET) + 2 * TAIL_NS
            elif (
                seen.rate_bps is not None and not seen.error
            ):  # faster, its queue would fill before the bucket behind it is empty
                gentle = GENTLE * whole.at(pace) * seen.rate_bps / whole.capacity_bps
                pace = min(pace, max(gentle, _LEAST_TOLD * whole.rate_bps))
            packets = self._packets(pace, lasts_ns)
        return self._phase("prefix", pace, packets, router)

    def _drains_ns(self, pace: float, bucket_bytes: float) -> float:
        """For how long load of this pace must last to empty the bucket, with some to spare. A wider link ahead lets only its own rate reach that."""
        wider = self.way.faster_bps if self.way.unsteady else math.inf
        over = min(pace, wider, self.way.held_bps) - self.way.rate_bps
        return BUCKETS * bucket_bytes * 8 * NS_PER_S / max(over, _LEAST_OVER * pace)

    def _packets(self, pace: float, lasts_ns: float) -> int:
        return math.ceil(min(pace, self.way.held_bps) * lasts_ns / NS_PER_S / 8 / self.way.bounds.each)

    def _phase(self, name: str, pace: float, packets: int, router: int = 0) -> Phase:
        bounds = self.way.bounds
        return Phase(
            name, round(pace * bounds.packet_bytes / bounds.each), packets=packets, sizes=((bounds.packet_bytes, 1),),
            arrivals=True, jitter=JITTER, expire_at=router, marker_in=MARKER_IN if router else 1,
        )  # fmt: skip
