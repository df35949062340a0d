"""What prefix trains showed of each router, held against the whole way. Floor 2, pure.

A bucket that is not empty yet, behind a queue that is still full, lets more through than its rate: a prefix may seem too fast, never too slow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from linkqual.model import LinkSeen
from linkqual.session.prefix_train import PrefixTrain, Rung
from linkqual.session.topp import Point, Shared
from linkqual.session.train_result import POLICED, QUEUE_NS
from linkqual.units import NS_PER_S

HIT = 0.05
MOST_ERROR = 0.5
SLOWER = 0.9  # times the rate: a prefix below refutes it
SLOW = "the sending host did not keep the pace"
DEEPEST_BUCKET = 1_000_000  # bytes that are looked for
LONGEST_NS = 6 * NS_PER_S // 5  # of a prefix train that is sent a second time
TRIES, DOUBTED = 3, 2
BUCKETS = 1.3
TAIL_NS = 30_000_000
_LEAST_DRAINED = 0.8
_FREE = 0.97  # of what was offered came through: nothing held it up
_NEAR = 1.1  # times the rate of the whole way: what a rung shows that is not held up, at least
_EXACT = 0.01  # by which rates that were not counted from losses differ
_UNSURE, _MOST, _SURE = (
    9.0,
    5.0,
    10.0,
)  # squares of standard deviations between two links that may both be; deviations one train counts for at most
_HARDLY = 4.0
_COARSE = 0.065
_CERTAIN = 3.0  # standard deviations
_ALIKE, _UNCHANGED = 0.01, 6.0  # a link behind which as much comes through as before it is hardly the narrowest


@dataclass(frozen=True, slots=True)
class Whole:
    """What is known of the whole way. `bucket_bytes`: the deepest that trains showed; `lossy`: they lost packets, so it may be deeper."""

    rate_bps: float
    bucket_bytes: float = 0.0
    lossy: bool = False
    shared: Shared | None = None

    def at(self, offered_bps: float) -> float:
        """What it lets through of so much; without others, the rate."""
        return self.shared.at(offered_bps) if self.shared is not None and self.shared.busy else self.rate_bps

    @property
    def capacity_bps(self) -> float:
        """The rate, with what others take of it."""
        return self.shared.capacity_bps[0] if self.shared is not None and self.shared.busy else self.rate_bps


@dataclass(slots=True)
class Prefixes:
    """By router, what came of its trains."""

    taken: dict[int, list[PrefixTrain]] = field(default_factory=dict)
    ladder: dict[int, Rung] = field(default_factory=dict)
    own: bool = False  # the sending host's own queue is the limit
    outpaced: bool = False  # that host was held up while it sent faster than the rate: its own link is hardly the limit

    def add(self, train: PrefixTrain) -> None:
        """One more train."""
        self.taken.setdefault(train.router, []).append(train)

    def voids(self, router: int) -> int:
        """Trains to it that showed nothing."""
        return sum(not train.rate_bps for train in self.taken.get(router, ()))

    def unseen(self, router: int) -> bool:
        """Whether its prefix showed nothing yet, and may be sent."""
        taken = self.taken.get(router, [])
        return len(taken) < TRIES and not any(train.rate_bps for train in taken)

    def clear(self) -> None:
        """Nothing of it counts any more."""
        self.taken.clear()
        self.ladder.clear()
        self.own = False

    @property
    def tell(self) -> bool:
        """Whether they say anything of where the limit is."""
        return self.own or bool(self.ladder) or any(self._chosen(router) is not None for router in self.taken)

    def dropped(self, rate_bps: float) -> bool:
        """Whether one as slow as that lost packets, though none waited."""
        chosen = [self._chosen(router) for router in self.taken]
        return any(
            one is not None
            and one.error > 0
            and one.lost > POLICED
            and one.rise_ns < QUEUE_NS
            and (one.rate_bps or 0.0) < _NEAR * rate_bps
            for one in chosen
        )

    def points(self, rate_bps: float, about: float) -> list[Point]:
        """Trains held up at about this rate without loss, as points of the line of `session.topp`."""
        chosen = [self._chosen(router) for router in self.taken]
        return [
            Point(one.offered_bps, one.rate_bps)
            for one in chosen
            if one is not None and one.rate_bps and not one.error and abs(one.rate_bps / rate_bps - 1) < about
        ]

    def candidates(self, links: int, whole: Whole) -> list[int]:
        """Links that may be the narrowest, the likeliest first: what is held up behind it must be as slow as the whole way, what ends before it must not.

        Each train counts by how far it is from that, in its standard deviations.
        """
        costs = {link: self._cost(link, whole) for link in range(1, links + 1)}
        least = min(costs.values())
        return sorted((link for link in costs if costs[link] <= least + _UNSURE), key=lambda link: costs[link])

    def _cost(self, link: int, whole: Whole) -> float:
        """How badly what was seen fits this link."""
        cost = _SURE**2 if self.own and link > 1 else _HARDLY if self.outpaced and link == 1 else 0.0
        for rung in self.ladder.values():
            off = rung.times - 1 if rung.router >= link else max(0.0, _NEAR - rung.times)
            cost += min(_MOST, off / rung.error) ** 2
        for router in self.taken:
            chosen = self._chosen(router)
            if chosen is None:
                continue
            times, error = (
                (chosen.rate_bps or 0.0) / whole.at(chosen.offered_bps),
                max(chosen.error, chosen.spread, _EXACT),
            )
            if router < link:
                cost += min(_SURE, max(0.0, 1 + max(HIT, 2.5 * chosen.error) - times) / error) ** 2
            else:
                off = min(_MOST, max(0.0, times - 1 - HIT) / error) ** 2
                cost += (
                    off
                    if self.drained(router, whole)
                    else min(off, _UNSURE * chosen.span_ns / self.drains_ns(router, whole))
                )
        before, after = self._exact(link - 1), self._exact(link)
        alike = before and after and after > (1 + HIT) * whole.rate_bps and before < (1 + _ALIKE) * after
        return cost + (_UNCHANGED if alike else 0.0)

    def _exact(self, router: int) -> float:
        """What its prefix let through, to the thousandth; 0: not known so well."""
        chosen = self._chosen(router)
        return chosen.rate_bps or 0.0 if chosen is not None and not chosen.error else 0.0

    @property
    def coarse(self) -> bool:
        """Whether the ladder tells little: its load was far above the rate, or there was none."""
        return not self.ladder or max(rung.error for rung in self.ladder.values()) > _COARSE

    def level(self, router: int) -> bool:
        """Whether the ladder saw no more come through than all the way."""
        rung = self.ladder.get(router)
        return rung is not None and rung.times < 1 + HIT

    def unheld(self, router: int, whole: Whole) -> bool:
        """Whether load that expires there is certainly faster than the whole way: its bucket was empty."""
        rung = self.ladder.get(router)
        if rung is not None and rung.times - _CERTAIN * rung.error > 1 + HIT:
            return True
        return self._chosen(router) is not None and self.drained(router, whole)

    @property
    def slow(self) -> bool:
        """Whether the sending host was too slow for a prefix, so often that it was given up."""
        tried = self.taken.values()
        return any(len(taken) >= TRIES and all(train.void == SLOW for train in taken) for taken in tried)

    def slower(self, router: int, whole: Whole) -> float | None:
        """Of its trains the lowest rate that refutes that of the whole way; None: none does."""
        slow = [
            train.rate_bps
            for train in self.taken[router]
            if train.rate_bps
            and max(train.error, train.spread) < HIT
            and train.rate_bps < SLOWER * min(whole.rate_bps, whole.at(train.offered_bps))
        ]
        return min(slow, default=None)

    def _chosen(self, router: int) -> PrefixTrain | None:
        """The train that tells most: what a short one lets through may be a bucket's."""
        good = [train for train in self.taken.get(router, ()) if train.rate_bps]
        return max(good, key=lambda train: train.span_ns, default=None)

    def link_seen(self, router: int, whole: Whole) -> LinkSeen | None:
        """What its prefix shows; None: nothing was seen. With others on the way, as much more as these take of the whole way."""
        chosen = self._chosen(router)
        if chosen is None and router == 1 and self.own:
            return LinkSeen(1, whole.rate_bps, whole.capacity_bps, True)
        if chosen is None:
            return self._held_up(router, whole)
        rate, expected = chosen.rate_bps or 0.0, whole.at(chosen.offered_bps)
        allowed = max(HIT, min(2.5 * max(chosen.error, chosen.spread), MOST_ERROR))
        free = rate > _FREE * chosen.offered_bps
        return LinkSeen(
            router, chosen.offered_bps, None if free else float(rate * whole.capacity_bps / expected), bool(rate < (1 + allowed) * expected),
            chosen.rise_ns, chosen.lost, chosen.markers, chosen.error, len(self.taken[router]),
        )  # fmt: skip

    def _held_up(self, router: int, whole: Whole) -> LinkSeen | None:
        """What the ladder alone shows, to some per cent, where it was held up; what seems faster than what was sent is a queue that ran empty."""
        found = self.ladder.get(router)
        if found is None or found.times > _NEAR:
            return None
        return LinkSeen(router, found.offered_bps, float(found.times * whole.capacity_bps), True, error=found.error)

    def seen(self, whole: Whole) -> Mapping[int, LinkSeen]:
        """By router, those that were looked at."""
        found = (
            (router, self.link_seen(router, whole))
            for router in sorted({*self.taken, *self.ladder, *([1] if self.own else [])})
        )
        return {router: seen for router, seen in found if seen is not None}

    def drains_ns(self, router: int, whole: Whole) -> float:
        """For how long load must flow through what this prefix showed to empty the bucket of a narrower link in it: that drains only by the difference."""
        chosen = self._chosen(router)
        if chosen is None:
            return 0.0
        over = (chosen.rate_bps or 0.0) - whole.at(chosen.offered_bps)
        if over <= 0:
            return 0.0
        bucket = (
            max(whole.bucket_bytes, DEEPEST_BUCKET) if whole.lossy else whole.bucket_bytes
        )  # what was dropped has taken tokens before
        return min(LONGEST_NS, BUCKETS * bucket * 8 * NS_PER_S / over + 2 * TAIL_NS)

    def drained(self, router: int, whole: Whole) -> bool:
        """Whether its train was long enough for that."""
        chosen = self._chosen(router)
        return chosen is None or chosen.span_ns >= _LEAST_DRAINED * self.drains_ns(router, whole)

    def doubtful(self, router: int, whole: Whole) -> bool:
        """Whether a longer train may show a narrower link in a prefix that seemed faster."""
        return len(self.taken.get(router, [])) < DOUBTED and not self.drained(router, whole)
