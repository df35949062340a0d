"""Which train comes next in the search for the narrowest hop of a direction. Floor 2, pure.

1. climb: packets of ascending TTL, slowly: how many links the way has, and what packets take on it while nothing waits.
2. whole: trains all the way until one outlasts the bucket (`session.train`): what limits the way.
3. prefix: trains whose load expires on one router, faster than that limit. Where what they let through is as slow, the limit lies before that router.
   The narrowest link is found by halving, then the other links are looked at as far as bytes and time allow.

A prefix that is slower than the whole way seemed to be refutes it: a deep bucket was still full. Then stage 2 begins again with longer trains.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from linkqual.model import LinkSeen
from linkqual.session import prefix_train
from linkqual.session.load_phase import Phase
from linkqual.session.prefix_train import EACH_TTL, Ints, PrefixTrain
from linkqual.session.train import ABOVE, JITTER, Bounds, Trains
from linkqual.session.train_result import agreeing, is_policed
from linkqual.stats.arrival_curve import Idle, Sent, idle, read
from linkqual.units import NS_PER_S

MOST_LINKS = 32
WHOLE_SHARE = 0.6  # of the bytes, for the trains all the way
DEEP_BYTES = 20_000_000  # that one train carries above the rate, as far as its time allows: a bucket of 1 MB is then seen behind a link 5 % wider
MARKER_IN = (
    3  # packets of a prefix train: at ABOVE times the rate they fill little more than half of what is behind the router
)
HIT = 0.05
MOST_ERROR = 0.5
NEAR = 0.15
SLOWER = 0.9  # times the rate: a prefix below refutes it
FASTEST_SHARE = 1.12  # of the rate that a sender must reach
LEAST_PACE = 1.3  # asked of it, though it never went so fast
SLOW = "the sending host did not keep the pace"
WHOLE_NS = 3 * NS_PER_S  # after which a rate that outlasted the bucket is good enough
DEEPEST_BUCKET = 1_000_000  # bytes that are looked for
PREFIX_TRIES, DOUBTED, REFUTED = 3, 2, 2
LONGEST_NS = 6 * NS_PER_S // 5  # of a prefix train that is sent a second time
GENTLE = 1.06  # times what the first one showed
_CLIMB_GAP_NS = 2_000_000
_TAIL_PACKETS, _TAIL_NS = 300, 30_000_000
_BUCKETS = 1.3
_REST_NS = 20_000_000
_ROUND_NS = 250_000_000  # what each train takes besides its sending


@dataclass(frozen=True, slots=True)
class Ask:
    """Be silent for so long, then send the train."""

    wait_ns: int
    train: Phase


@dataclass(slots=True)
class Narrow:
    """The state of the search: `next` says what to send, `took` what came of it. `ended`: why no more come."""

    bounds: Bounds
    most_ns: int = 4 * NS_PER_S  # after which only the search itself goes on
    links: int = 0
    base: Idle | None = None
    ended: str = ""  # "done", "none", "no-way", or as `session.train.Trains.ended`
    refuted: int = 0
    expired: dict[int, int] = field(default_factory=dict)  # packets sent to expire, by router
    sent_bytes: int = 0
    trains: Trains = field(init=False)
    _prefixes: dict[int, list[PrefixTrain]] = field(default_factory=dict)
    _spent_ns: int = 0
    _asked: Phase | None = None

    def __post_init__(self) -> None:
        whole = replace(self.bounds, most_bytes=round(WHOLE_SHARE * self.bounds.most_bytes), outlast_bytes=DEEP_BYTES)
        self.trains = Trains(whole)

    # ---- asking

    def next(self) -> Ask | None:
        """The next train; None when all that can be known is known, or allowed."""
        ask = self._next()
        if ask is not None:
            self._asked = ask.train
            sending_ns = ask.train.packets * self.bounds.packet_bytes * 8 * NS_PER_S // max(1, ask.train.rate_bps)
            self._spent_ns += ask.wait_ns + sending_ns + _ROUND_NS
        return ask

    def _next(self) -> Ask | None:
        if self.ended:
            return None
        if self.base is None:
            return self._climb()
        late = self.trains.outlasted and self._spent_ns > WHOLE_NS
        if self.trains.searching and not late and (step := self.trains.next()) is not None:
            return Ask(step.wait_ns, step.train)
        if not self.trains.rate_bps:
            self.ended = self.trains.ended or "short"
        router = self._wanted() if not self.ended else None
        return self._ask_prefix(router) if router is not None else None

    def _ask_prefix(self, router: int) -> Ask | None:
        train = self._prefix(router)
        if self.sent_bytes + train.packets * self.bounds.packet_bytes > self.bounds.most_bytes:
            self.ended = "bytes"
            return None
        return Ask(_REST_NS, train)

    def _climb(self) -> Ask:
        slow = 8 * self.bounds.packet_bytes * NS_PER_S // _CLIMB_GAP_NS
        packets = (MOST_LINKS + 4) * EACH_TTL  # so many at least arrive as tell the delay of the idle line
        sizes = ((self.bounds.packet_bytes, 1),)
        return Ask(0, Phase("climb", slow, packets=packets, sizes=sizes, arrivals=True, climbing=True))

    def _prefix(self, router: int) -> Phase:
        each, rate, seen = self.bounds.each, self.rate_bps, self.link_seen(router)
        pace = min(ABOVE * rate, self._fastest())
        emptied = _BUCKETS * self.bucket_bytes * pace / (pace - rate) / each
        packets = (emptied + max(_TAIL_PACKETS, pace * _TAIL_NS / NS_PER_S / 8 / each)) * 2 ** self._voids(router)
        if seen is not None and seen.rate_bps is not None and not self.drained(router):
            pace = min(
                pace, GENTLE * seen.rate_bps
            )  # faster, its queue would fill before the bucket behind it is empty
            packets = min(self._drains_ns(seen), LONGEST_NS) * pace / NS_PER_S / 8 / each
        return Phase(
            "prefix",
            round(pace * self.bounds.packet_bytes / each),
            packets=math.ceil(packets),
            sizes=((self.bounds.packet_bytes, 1),),
            arrivals=True,
            jitter=JITTER,
            expire_at=router,
            marker_in=MARKER_IN,
        )

    def _voids(self, router: int) -> int:
        return sum(not train.rate_bps for train in self._prefixes.get(router, ()))

    def _drains_ns(self, seen: LinkSeen) -> float:
        """For how long load must flow through what this prefix showed to empty the bucket of a narrower link in it: that drains only by the difference."""
        over = (seen.rate_bps or seen.offered_bps) - self.rate_bps
        if over <= 0:
            return 0.0
        known, bucket = agreeing(self.trains.taken, self.rate_bps), self.bucket_bytes
        if any(train.lost for train in known):  # what another link dropped may have taken tokens before
            fast = max(train.offered_bps for train in known) - self.rate_bps
            bucket = min(bucket * max(1.0, fast / over), max(bucket, DEEPEST_BUCKET))
        return min(LONGEST_NS, _BUCKETS * bucket * 8 * NS_PER_S / over + 2 * _TAIL_NS)

    def drained(self, router: int) -> bool:
        """Whether its train was long enough for that."""
        seen, chosen = self.link_seen(router), self._chosen(router)
        return seen is None or chosen is None or chosen.span_ns >= 0.8 * self._drains_ns(seen)

    def _wanted(self) -> int | None:
        """The router whose prefix comes next: by halving, then those nearest to the narrowest link."""
        low, high = 0, self.links
        while high - low > 1:
            middle = (low + high) // 2
            if self._unseen(middle):
                return middle
            low, high = (low, middle) if self.hit(middle) else (middle, high)
        if low and self._doubtful(low):  # those before it let no less through
            return low
        left = [router for router in range(1, self.links) if self._unseen(router)]
        if left and self._spent_ns <= self.most_ns:
            return min(left, key=lambda router: abs(router - high + 0.5))
        self.ended = "done"
        return None

    def _unseen(self, router: int) -> bool:
        """Whether its prefix showed nothing yet, and may be sent."""
        taken = self._prefixes.get(router, [])
        return len(taken) < PREFIX_TRIES and not any(train.rate_bps for train in taken)

    def _doubtful(self, router: int) -> bool:
        """Whether a longer train may show a narrower link in a prefix that seemed faster."""
        return len(self._prefixes.get(router, [])) < DOUBTED and not self.drained(router)

    # ---- taking

    def took(self, packets: int, numbers: Ints, departed: Ints, arrived: Ints, host_lost: int = 0) -> None:
        """What came of the train asked for last: how many packets left, and those that arrived."""
        phase = self._asked
        assert phase is not None
        self.sent_bytes += packets * self.bounds.packet_bytes
        if phase.climbing:
            self._climbed(numbers, departed, arrived)
            return
        assert self.base is not None
        if not phase.expire_at:
            if len(numbers):
                sent = Sent(phase.name, packets, self.bounds.each, host_lost)
                self.trains.took(read(sent, numbers, departed, arrived, self.base), self.base)
            else:
                self.ended = "no-way"
            return
        phase = replace(phase, packets=packets)
        router = phase.expire_at
        load = int(prefix_train.expiring(phase, 0, packets).sum())
        self.expired[router] = self.expired.get(router, 0) + load
        train = prefix_train.read(phase, self.bounds.each, numbers, departed, arrived, self.base, host_lost)
        if train.offered_bps < FASTEST_SHARE * self.rate_bps:
            train = replace(train, rate_bps=None, void=SLOW)
        self._prefixes.setdefault(router, []).append(train)
        self._refute(router)

    def _climbed(self, numbers: Ints, departed: Ints, arrived: Ints) -> None:
        links = prefix_train.links_of(numbers)
        self.base = idle(arrived - departed)
        if links is None or self.base is None:
            self.ended = "no-way"
            return
        self.links = links
        for router in range(1, links):
            self.expired[router] = self.expired.get(router, 0) + EACH_TTL

    def _refute(self, router: int) -> None:
        slow = [train.rate_bps for train in self._prefixes[router] if train.rate_bps and train.error < HIT]
        if slow and min(slow) < SLOWER * self.rate_bps and self.refuted < REFUTED:
            self.refuted += 1
            self.trains.refute(min(slow))
            self._prefixes.clear()

    # ---- what is known

    @property
    def slow(self) -> bool:
        """Whether the sending host was too slow for a prefix, so often that it was given up."""
        tried = self._prefixes.values()
        return any(len(taken) >= PREFIX_TRIES and all(train.void == SLOW for train in taken) for taken in tried)

    @property
    def rate_bps(self) -> float:
        """Of the whole way, as the contract counts; 0: not known yet."""
        return self.trains.rate_bps

    @property
    def policed(self) -> bool:
        """Whether what exceeds the rate is dropped without waiting."""
        known = agreeing(self.trains.taken, self.rate_bps) if self.rate_bps else []
        return sum(is_policed(train, self.bounds.each) for train in known) > len(known) / 2

    @property
    def bucket_bytes(self) -> float:
        """The deepest that trains all the way showed."""
        known = agreeing(self.trains.taken, self.rate_bps) if self.rate_bps else []
        return max((train.bucket_bytes or 0.0 for train in known), default=0.0)

    def _fastest(self) -> float:
        reached = max((train.offered_bps for train in self.trains.taken), default=0.0)
        return min(max(reached, LEAST_PACE * self.rate_bps), self.bounds.fastest_bps)

    def hit(self, router: int) -> bool:
        """Whether the links before this router let no more through than the whole way."""
        seen = self.link_seen(router)
        return seen is not None and seen.narrow

    def _chosen(self, router: int) -> PrefixTrain | None:
        """The train that tells most: what a short one lets through may be a bucket's."""
        good = [train for train in self._prefixes.get(router, ()) if train.rate_bps]
        return max(good, key=lambda train: train.span_ns, default=None)

    def link_seen(self, router: int) -> LinkSeen | None:
        """What its prefix shows; None: nothing was seen."""
        chosen = self._chosen(router)
        if chosen is None:
            return None
        rate = chosen.rate_bps or 0.0
        allowed = max(HIT, min(2.5 * chosen.error, MOST_ERROR))
        free = rate > 0.97 * chosen.offered_bps
        return LinkSeen(
            router, chosen.offered_bps, None if free else rate, rate < (1 + allowed) * self.rate_bps,
            chosen.rise_ns, chosen.lost, chosen.markers, chosen.error, len(self._prefixes[router]),
        )  # fmt: skip

    def seen(self) -> Mapping[int, LinkSeen]:
        """By router, those that were looked at."""
        found = ((router, self.link_seen(router)) for router in range(1, self.links))
        return {router: seen for router, seen in found if seen is not None}
