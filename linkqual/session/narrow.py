"""Which train comes next in the search for the narrowest hop of a direction. Floor 2, pure.

1. climb: packets of ascending TTL, slowly: how many links the way has, and what packets take on it while nothing waits.
2. whole: trains all the way until one outlasts the bucket (`session.train`): what limits the way.
3. pace: where others seem to share that limit, two more of other paces tell them from it (`session.topp`).
4. prefix: trains whose load expires on one router, faster than that limit. Where what they let through is as slow, the limit lies before that router.
   The narrowest link is found by halving, then the other links are looked at as far as bytes and time allow.

A prefix that is slower than the whole way seemed to be refutes it: a deep bucket was still full. Then stage 2 begins again with longer trains.
The search keeps to a time: what comes later gets what is left of it, and is left out where that is too short.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np

from linkqual.model import LinkSeen, Train
from linkqual.session import prefix_train, topp
from linkqual.session.load_phase import Phase
from linkqual.session.prefix_train import EACH_TTL, FASTEST_SHARE, Ints
from linkqual.session.prefixes import BUCKETS, DEEPEST_BUCKET, SLOW, TAIL_NS, Prefixes, Whole
from linkqual.session.topp import Point, Shared, Spacing
from linkqual.session.train import ABOVE, JITTER, Bounds, Trains
from linkqual.session.train_result import HELD, HELD_UP, RISEN_NS, agreeing, congested, is_policed, lossy
from linkqual.stats.arrival_curve import Idle, Sent, idle, read
from linkqual.units import NS_PER_S

MOST_LINKS = 32
MOST_NS = 53 * NS_PER_S // 10  # of the whole search
WHOLE_SHARE = 0.6  # of the bytes, for the trains all the way
DEEP_BYTES = 20_000_000  # that one train carries above the rate, as far as its time allows: a bucket of 1 MB is then seen behind a link 5 % wider
MARKER_IN = (
    3  # packets of a prefix train: at ABOVE times the rate they fill little more than half of what is behind the router
)
PACES = (
    1.5,
    1.2,
)  # times the capacity: far enough apart for a line, and slow enough to be seen before the queue is full
_KIND_PACE, _BELOW, LEAST_ABOVE = (
    1.5,
    0.9,
    1.08,
)  # times the rate at most; of what a wider link carries; times the rate at least
LEAST_PACE = 1.3  # asked of a sender, though it never went so fast
FASTER = 1.04  # times the rate: what trains much faster than it showed is more, so others may share it
REFUTED = 2
GENTLE = 1.06  # times what the first one showed
SHORTEST_NS = 2 * NS_PER_S // 5  # of a train that shall outlast the bucket
_CLIMB_GAP_NS = 2_000_000
_TAIL_PACKETS = 300
_LADDER_NS = 8 * NS_PER_S // 10
_LEAST_PASSED, _MOST_PASSED = 150, 600  # packets of a rung that the narrowest link lets through
_REST_NS = 20_000_000
_PACE_NS, _PACE_TAIL_NS = 600_000_000, 120_000_000
_ROUND_NS = 250_000_000  # what each train takes besides its sending, until that is known
_OWN = 1.01  # times what came through: as much as a full queue of the host itself takes
_SLOWLY = 1.1  # times as long as it should may a train last
_KEPT = 2  # trains to single routers for which time is kept
_PREFIX_NS = 150_000_000  # of a train to one router, mostly
_PROFILE = 0.8  # of the time, after which only the search itself goes on


@dataclass(frozen=True, slots=True)
class Ask:
    """Be silent for so long, then send the train."""

    wait_ns: int
    train: Phase


@dataclass(frozen=True, slots=True)
class _Told:
    """A train all the way, and what it says of others."""

    train: Train
    spaced: Spacing | None
    points: tuple[Point, ...]


@dataclass(slots=True)
class Narrow:
    """The state of the search: `next` says what to send, `took` what came of it. `ended`: why no more come."""

    bounds: Bounds
    most_ns: int = MOST_NS
    links: int = 0
    base: Idle | None = None
    ended: str = ""  # "done", "none", "no-way", "time", or as `session.train.Trains.ended`
    refuted: int = 0
    expired: dict[int, int] = field(default_factory=dict)  # packets sent to expire, by router
    sent_bytes: int = 0
    prefixes: Prefixes = field(default_factory=Prefixes)
    trains: Trains = field(init=False)
    _told: list[_Told] = field(default_factory=list)
    _paced: int = 0
    _laddered: bool = False
    _kinds: int = 0
    _now_ns: int = 0
    _round_ns: int = _ROUND_NS
    _due_ns: int = 0  # of what was asked for last, sending and rest
    _asked: Phase | None = None

    def __post_init__(self) -> None:
        whole = replace(self.bounds, most_bytes=round(WHOLE_SHARE * self.bounds.most_bytes), outlast_bytes=DEEP_BYTES)
        self.trains = Trains(whole)

    # ---- asking

    def next(self, now_ns: int = 0) -> Ask | None:
        """The next train; None when all that can be known is known, or allowed. `now_ns`: since the search was begun; 0: as reckoned."""
        if now_ns:
            if self._due_ns:
                self._round_ns = (self._round_ns + max(0, now_ns - self._now_ns - self._due_ns)) // 2
            self._now_ns = now_ns
        elif self._due_ns:
            self._now_ns += self._due_ns + self._round_ns
        ask = self._next()
        self._due_ns = 0
        if ask is not None:
            lasts_ns = self._lasts_ns(ask) - ask.wait_ns
            train = replace(
                ask.train, duration_ns=round(_SLOWLY * lasts_ns) + _ROUND_NS
            )  # a queue of the host itself may hold it up
            ask, self._asked, self._due_ns = replace(ask, train=train), train, ask.wait_ns + lasts_ns
        return ask

    def _lasts_ns(self, ask: Ask) -> int:
        bits = ask.train.packets * self.bounds.packet_bytes * 8
        return ask.wait_ns + bits * NS_PER_S // max(1, ask.train.rate_bps)

    def _left_ns(self, reserve: bool = False) -> int:
        """For sending, and rest before it; without what halving takes, where that is to be kept."""
        trains = min((self.links - 1).bit_length(), _KEPT if self.prefixes.coarse else 1) if reserve else 0
        return self.most_ns - self._now_ns - self._round_ns - trains * (self._round_ns + _PREFIX_NS)

    def _next(self) -> Ask | None:
        if self.ended:
            return None
        if self.base is None:
            return self._climb()
        ask = self._ask_whole()
        if ask is not None:
            return ask
        if not self.trains.rate_bps:
            self.ended = self.trains.ended or ("time" if self.trains.searching else "short")
            return None
        ask = self._ask_pace() or self._ask_ladder() or self._ask_prefix(self._wanted()) or self._ask_kind()
        if ask is None and not self.ended:
            ask = self._ask_prefix(self._others())
        if ask is None:
            self.ended = self.ended or "done"
        return ask

    def _climb(self) -> Ask:
        slow = 8 * self.bounds.packet_bytes * NS_PER_S // _CLIMB_GAP_NS
        packets = (MOST_LINKS + 4) * EACH_TTL  # so many at least arrive as tell the delay of the idle line
        sizes = ((self.bounds.packet_bytes, 1),)
        return Ask(0, Phase("climb", slow, packets=packets, sizes=sizes, arrivals=True, climbing=True))

    def _ask_whole(self) -> Ask | None:
        """A train all the way, while the rate is still to be found or to be outlasted."""
        if not self.trains.searching:
            return None
        left_ns = self._left_ns(reserve=bool(self.trains.rate_bps))
        if self.trains.rate_bps:
            left_ns -= _LADDER_NS if self.links > 1 else 0
            if left_ns < SHORTEST_NS:
                return None
        self.trains.time_ns = left_ns
        step = self.trains.next()
        if step is None:
            return None
        whole = Ask(step.wait_ns, step.train)
        if step.train.name == "long":
            ladder = Ask(step.wait_ns, self._with_ladder(step.train))
            whole = ladder if self._lasts_ns(ladder) <= self._left_ns() else whole
        return whole if self._lasts_ns(whole) <= self._left_ns() else None

    def _ask_ladder(self) -> Ask | None:
        """Another ladder, where that of the train before was sent far above the rate. It empties the deepest bucket first."""
        if self.links < 2 or self._laddered or self.prefixes.own or not self.prefixes.coarse:
            return None
        pace = min(ABOVE * self.rate_bps, self._fastest())
        lead = self._packets(pace, BUCKETS * DEEPEST_BUCKET * 8 * NS_PER_S / (pace - self.rate_bps))
        ask = Ask(_REST_NS, self._with_ladder(self._phase("ladder", pace, lead)))
        self._laddered = True
        return ask if ask.train.lead and self._lasts_ns(ask) <= self._left_ns() - self._round_ns - _PREFIX_NS else None

    def _with_ladder(self, train: Phase) -> Phase:
        """The train goes on with load that expires on the last router, then on the one before it, while the buckets are empty."""
        rungs = self.links - 1
        if not rungs:
            return train
        pace = train.rate_bps * self.bounds.each / self.bounds.packet_bytes
        passed = self._packets(self.rate_bps, _LADDER_NS / rungs)
        each = math.ceil(min(max(passed, _LEAST_PASSED), _MOST_PASSED) * max(1.0, pace / self.rate_bps))
        ladder = replace(
            train, packets=train.packets + rungs * each, expire_at=rungs, lead=train.packets, rung=each, marker_in=2
        )
        return ladder if self._affordable(Ask(0, ladder)) else train

    def _ask_pace(self) -> Ask | None:
        """A train of another pace, where others may share the limit."""
        if self._paced >= len(PACES) or not self._suspected():
            return None
        spaced = self._spaced()
        if self.prefixes.own or (spaced is not None and any(told.points for told in self._told)):
            return None  # nothing is sent faster; trains to single routers have another pace
        rate = spaced.capacity_bps if spaced is not None else self.rate_bps
        pace = min(PACES[self._paced] * rate, self._fastest())
        ask = self._paced_train(pace)
        if self._lasts_ns(ask) > self._left_ns(reserve=True) or not self._affordable(ask):
            return None
        self._paced += 1
        return ask

    def _ask_prefix(self, router: int | None) -> Ask | None:
        if router is None or self.ended:
            return None
        ask = Ask(_REST_NS, self._prefix(router))
        if not self._affordable(ask):
            self.ended = "bytes"
        elif self._lasts_ns(ask) > self._left_ns():
            self.ended = "time"
        return None if self.ended else ask

    def _ask_kind(self) -> Ask | None:
        """A train so slow that it waits nowhere but before the narrowest link, where all others waited before a wider one too."""
        rate, known = self.rate_bps, self._reached()
        if self.ended or self._kinds or self.policed or self.prefixes.own or not known:
            return None
        slowest = min(known, key=lambda train: train.offered_bps)
        wider = min(
            (one.rate_bps or one.offered_bps for one in self.seen().values() if not one.narrow), default=ABOVE * rate
        )
        pace = min(_KIND_PACE * rate, _BELOW * wider)
        if not lossy(slowest) or slowest.offered_bps < wider or pace < LEAST_ABOVE * rate:
            return None
        self._kinds += 1
        ask = self._paced_train(pace)
        return ask if self._lasts_ns(ask) <= self._left_ns() and self._affordable(ask) else None

    def _paced_train(self, pace: float) -> Ask:
        """All the way, long enough for the bucket and a little more."""
        drains_ns = BUCKETS * self.bucket_bytes * 8 * NS_PER_S / max(pace - self.rate_bps, 0.05 * pace)
        lasts_ns = min(drains_ns, _PACE_NS) + _PACE_TAIL_NS
        return Ask(_REST_NS, self._phase("pace", pace, max(_TAIL_PACKETS, self._packets(pace, lasts_ns))))

    def _affordable(self, ask: Ask) -> bool:
        return self.sent_bytes + ask.train.packets * self.bounds.packet_bytes <= self.bounds.most_bytes

    def _packets(self, pace: float, lasts_ns: float) -> int:
        return math.ceil(pace * lasts_ns / NS_PER_S / 8 / self.bounds.each)

    def _phase(self, name: str, pace: float, packets: int, router: int = 0) -> Phase:
        return Phase(
            name, round(pace * self.bounds.packet_bytes / self.bounds.each), packets=packets, sizes=((self.bounds.packet_bytes, 1),),
            arrivals=True, jitter=JITTER, expire_at=router, marker_in=MARKER_IN if router else 1,
        )  # fmt: skip

    def _prefix(self, router: int) -> Phase:
        rate, whole, seen = self.rate_bps, self.whole, self.link_seen(router)
        pace = min(ABOVE * rate, self._fastest())
        emptied_ns = BUCKETS * self.bucket_bytes * 8 * NS_PER_S / (pace - rate)
        packets = max(
            _TAIL_PACKETS + self._packets(pace, emptied_ns), self._packets(pace, emptied_ns + TAIL_NS)
        ) * 2 ** self.prefixes.voids(router)
        if seen is not None and not self.prefixes.drained(router, whole):
            lasts_ns = self.prefixes.drains_ns(router, whole)
            if self.prefixes.level(router):  # what came through was a bucket's, not a wider link's
                lasts_ns = BUCKETS * DEEPEST_BUCKET * 8 * NS_PER_S / (pace - rate) + 2 * TAIL_NS
            elif seen.rate_bps is not None:  # faster, its queue would fill before the bucket behind it is empty
                pace = min(pace, GENTLE * whole.at(pace) * seen.rate_bps / whole.capacity_bps)
            packets = self._packets(pace, lasts_ns)
        return self._phase("prefix", pace, packets, router)

    def _wanted(self) -> int | None:
        """The router whose prefix comes next: one between links that may both be the narrowest, then those beside it."""
        whole, prefixes = self.whole, self.prefixes
        if prefixes.own:
            return None
        found = prefixes.candidates(self.links, whole)
        between = sorted(sorted(found)[:-1], key=lambda router: abs(router - median(found) + 0.5))
        for router in (*between, found[0], found[0] - 1):
            if 0 < router < self.links and prefixes.unseen(router):
                return router
        doubted = between or ([found[0] - 1] if found[0] > 1 and not prefixes.unheld(found[0] - 1, whole) else [])
        for router in doubted:
            if prefixes.doubtful(router, whole):
                return router
        return None

    def _others(self) -> int | None:
        """Of the other routers the one nearest to the narrowest link, while there is time."""
        left = [router for router in range(1, self.links) if self.prefixes.unseen(router)]
        if not left or self.prefixes.own or self._now_ns > _PROFILE * self.most_ns:
            return None
        named = self.prefixes.candidates(self.links, self.whole)[0]
        return min(left, key=lambda router: abs(router - named + 0.5))

    # ---- taking

    def took(self, packets: int, numbers: Ints, departed: Ints, arrived: Ints, host_lost: int = 0) -> None:
        """What came of the train asked for last: how many packets left, and those that arrived."""
        phase = self._asked
        assert phase is not None
        self.sent_bytes += packets * self.bounds.packet_bytes
        numbers, first = np.unique(numbers, return_index=True)
        departed, arrived = departed[first], arrived[first]
        if phase.climbing:
            self._climbed(numbers, departed, arrived)
        elif phase.expire_at and not phase.lead:
            self._took_prefix(replace(phase, packets=packets), numbers, departed, arrived, host_lost)
        elif len(numbers):
            self._took_whole(phase, packets, numbers, departed, arrived, host_lost)
        else:
            self.ended = "no-way"

    def _climbed(self, numbers: Ints, departed: Ints, arrived: Ints) -> None:
        links = prefix_train.links_of(numbers)
        self.base = idle(arrived - departed)
        if links is None or self.base is None:
            self.ended = "no-way"
            return
        self.links = links
        for router in range(1, links):
            self.expired[router] = self.expired.get(router, 0) + EACH_TTL

    def _took_whole(self, phase: Phase, packets: int, numbers: Ints, departed: Ints, arrived: Ints, host_lost: int) -> None:  # fmt: skip
        assert self.base is not None
        each = self.bounds.each
        along = None
        if phase.lead:
            phase = replace(phase, packets=packets)
            dies = prefix_train.ttls(phase, 0, packets)
            for router in range(1, phase.expire_at + 1):
                self.expired[router] += int((dies == router).sum())
            along = phase, each, numbers, departed, arrived
            here = numbers < phase.lead
            packets, numbers, departed, arrived = min(packets, phase.lead), numbers[here], departed[here], arrived[here]
            if not len(numbers):
                self.ended = "no-way"
                return
        train = read(Sent(phase.name, packets, each, host_lost), numbers, departed, arrived, self.base)
        self.prefixes.own = self.prefixes.own or self._own_queue(phase, train, numbers, departed)
        if along is not None and train.rate_bps and not train.void:
            self.prefixes.ladder = {rung.router: rung for rung in prefix_train.rungs(*along, train.rate_bps)}
        if phase.name not in {"pace", "ladder"}:
            self.trains.took(train, self.base)
        if phase.name == "search" or train.void:
            return
        spaced = topp.spacing(numbers, arrived, each, train.steady_ns) if train.steady_ns else None
        paced = topp.points(numbers, departed, arrived, each, packets) if phase.name == "pace" else []
        self._told.append(_Told(train, spaced, tuple(paced)))

    def _own_queue(self, phase: Phase, train: Train, numbers: Ints, departed: Ints) -> bool:
        """Whether this host's own queue was full: it sent no faster than packets came out at the other end, and all of them waited."""
        assert self.base is not None
        half = len(numbers) // 2
        span_ns = int(departed[-1] - departed[half])
        if train.void or not train.steady_ns or span_ns <= 0 or train.lost > topp.LOST * train.packets:
            return False
        offered = float(numbers[-1] - numbers[half]) * self.bounds.each * 8 * NS_PER_S / span_ns
        asked = phase.rate_bps * self.bounds.each / self.bounds.packet_bytes
        return offered < min(HELD * asked, _OWN * (train.rate_bps or 0.0)) and (train.rise_ns or 0) > max(
            RISEN_NS, 6 * self.base.noise_ns
        )

    def _took_prefix(self, phase: Phase, numbers: Ints, departed: Ints, arrived: Ints, host_lost: int) -> None:
        assert self.base is not None
        router = phase.expire_at
        load = int(prefix_train.expiring(phase, 0, phase.packets).sum())
        self.expired[router] = self.expired.get(router, 0) + load
        train = prefix_train.read(phase, self.bounds.each, numbers, departed, arrived, self.base, host_lost)
        if train.offered_bps < FASTEST_SHARE * self.rate_bps:
            train = replace(train, rate_bps=None, void=SLOW)
        self.prefixes.add(train)
        slower = self.prefixes.slower(router, self.whole)
        if slower is not None and self.refuted < REFUTED:
            self.refuted += 1
            self.trains.refute(slower)
            self.prefixes.clear()
            self._told.clear()
            self._paced, self._laddered = 0, False

    # ---- what is known

    @property
    def rate_bps(self) -> float:
        """What the whole way let through, as the contract counts; 0: not known yet."""
        return self.trains.rate_bps

    @property
    def known(self) -> list[Train]:
        """The trains all the way that found this rate."""
        return agreeing(self.trains.taken, self.rate_bps) if self.rate_bps else []

    @property
    def policed(self) -> bool:
        """Whether what exceeds the rate is dropped without waiting. Slow trains know better: fast ones waited for wider links too."""
        slowest = min(self._reached(), key=lambda train: train.offered_bps, default=None)
        dropped = any(told.spaced is not None and told.spaced.behind for told in self._told)
        return (
            dropped
            or (slowest is not None and is_policed(slowest, self.bounds.each))
            or self.prefixes.dropped(self.rate_bps)
        )

    def _reached(self) -> list[Train]:
        """All trains all the way that found this rate."""
        more = [told.train for told in self._told if told.train.purpose in {"ladder", "pace"}]
        return [*self.known, *agreeing(more, self.rate_bps)] if self.rate_bps else []

    @property
    def bucket_bytes(self) -> float:
        """The deepest that trains all the way showed."""
        return max((train.bucket_bytes or 0.0 for train in self.known), default=0.0)

    @property
    def whole(self) -> Whole:
        """What prefixes are held against."""
        return Whole(self.rate_bps, self.bucket_bytes, any(train.lost for train in self.known), self.shared)

    def _spaced(self) -> Spacing | None:
        """Of the longest train of this rate; a policer leaves the distances that the sender gave."""
        if self.policed:
            return None
        told = [
            told
            for told in self._told
            if told.spaced is not None and abs((told.train.rate_bps or 0.0) / self.rate_bps - 1) <= HELD_UP
        ]
        return max(told, key=lambda one: one.train.steady_ns).spaced if told else None

    @property
    def shared(self) -> Shared | None:
        """Capacity, and what others send; None: not known."""
        points = [point for told in self._told for point in told.points] + self.prefixes.points(self.rate_bps)
        return topp.together(self.rate_bps, self._spaced(), points, own=self.prefixes.own) if self.rate_bps else None

    def _suspected(self) -> bool:
        """Whether others may share the limit: packets of others lie between ours, or much faster trains showed more."""
        spaced = self._spaced()
        if spaced is not None:
            return spaced.rate_bps < topp.ALONE * spaced.capacity_bps
        return not self.policed and self.unsteady

    @property
    def unresolved(self) -> bool:
        """Whether others may share the limit, and how much they take is not known."""
        return self.shared is None and self._suspected()

    @property
    def perhaps_bps(self) -> float:
        """What the limit may be, where others may share it; 0: nothing hints at them."""
        spaced = self._spaced()
        return spaced.capacity_bps if spaced is not None and self.unresolved else 0.0

    @property
    def unsteady(self) -> bool:
        """Whether a train far above the rate showed more than those a little above it."""
        fast = [
            train.rate_bps or 0.0
            for train in self.trains.taken
            if train.purpose == "search" and congested(train, self.base)
        ]
        return bool(fast) and fast[-1] > FASTER * self.rate_bps

    def _fastest(self) -> float:
        reached = max((train.offered_bps for train in self.trains.taken), default=0.0)
        return min(max(reached, LEAST_PACE * self.rate_bps), self.bounds.fastest_bps)

    def link_seen(self, router: int) -> LinkSeen | None:
        """What its prefix shows; None: nothing was seen."""
        return self.prefixes.link_seen(router, self.whole)

    def drained(self, router: int) -> bool:
        """Whether its train was long enough for the bucket of a narrower link in it."""
        return self.prefixes.drained(router, self.whole)

    def seen(self) -> Mapping[int, LinkSeen]:
        """By router, those that were looked at."""
        return self.prefixes.seen(self.whole)
