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

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np

from linkqual.model import LinkSeen
from linkqual.session import prefix_train
from linkqual.session.load_phase import Phase
from linkqual.session.narrow_loads import LADDER_NS, Loads
from linkqual.session.narrow_time import ROUND_NS, Budget
from linkqual.session.prefix_train import EACH_TTL, FASTEST_SHARE, Ints
from linkqual.session.prefixes import SLOW, Prefixes
from linkqual.session.train import ABOVE, Bounds, Trains
from linkqual.session.train_result import lossy
from linkqual.session.whole_way import WholeWay
from linkqual.stats.arrival_curve import Idle, Sent, idle, read
from linkqual.units import NS_PER_S

MOST_NS = 53 * NS_PER_S // 10  # of the whole search
WHOLE_SHARE = 0.6  # of the bytes, for the trains all the way
DEEP_BYTES = 20_000_000  # that one train carries above the rate, as far as its time allows: a bucket of 1 MB is then seen behind a link 5 % wider
PACES = (
    1.5,
    1.2,
)  # times the capacity: slow enough to be seen before the queue is full, and apart from those to single routers
REFUTED = 2
SHORTEST_NS = 2 * NS_PER_S // 5  # of a train that shall outlast the bucket
_KIND_PACE, _LEAST_KIND = 1.5, 1.08  # times the rate, at most and at least
_BELOW = 0.9  # of what a wider link carries: nothing waits there
_REST_NS = 20_000_000
SHORTER_BYTES = (1400, 1280, 576)  # of an IP packet: behind most tunnels, the least of IPv6 and of IPv4
_LADDER_SPARE_NS = 50_000_000  # a host held up has no use for the ladder
_SLOWLY = 1.1  # times as long as it should may a train last
_KEPT = 2  # trains to single routers for which time is kept
_MORE = 1.1  # times what left cannot arrive
_SHORTER = 0.5  # of what it should last: a train to one router still tells something


@dataclass(frozen=True, slots=True)
class Ask:
    """Be silent for so long, then send the train."""

    wait_ns: int
    train: Phase


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
    climbs: int = 0  # one for each length of packets that was tried
    sent_bytes: int = 0
    prefixes: Prefixes = field(default_factory=Prefixes)
    trains: Trains = field(init=False)
    way: WholeWay = field(init=False)
    loads: Loads = field(init=False)
    _expiring: int = 0  # bytes of trains that expire, markers included
    _paced: int = 0
    _laddered: bool = False
    _kinds: int = 0
    _time: Budget = field(init=False)
    _asked: Phase | None = None
    _full: int = 0

    def __post_init__(self) -> None:
        self._time = Budget(self.most_ns)
        self._begin()

    def _begin(self) -> None:
        whole = replace(self.bounds, most_bytes=round(WHOLE_SHARE * self.bounds.most_bytes), outlast_bytes=DEEP_BYTES)
        self.trains = Trains(whole)
        self.way = WholeWay(whole, self.trains, self.prefixes)
        self.loads = Loads(self.way)

    # ---- asking

    def next(self, now_ns: int = 0) -> Ask | None:
        """The next train; None when all that can be known is known, or allowed. `now_ns`: since the search was begun; 0: as reckoned."""
        self._time.turn(now_ns)
        ask = self._next()
        if ask is not None:
            lasts_ns = self._lasts_ns(ask) - ask.wait_ns
            spare_ns = _LADDER_SPARE_NS if ask.train.lead else ROUND_NS  # its own queue may hold a host up
            train = replace(ask.train, duration_ns=round(_SLOWLY * lasts_ns) + spare_ns)
            self._time.ask(ask.wait_ns + lasts_ns)
            ask, self._asked = replace(ask, train=train), train
        return ask

    def _lasts_ns(self, ask: Ask) -> int:
        bits = ask.train.packets * self.bounds.packet_bytes * 8
        held_bps = self.way.held_bps * self.bounds.packet_bytes / self.bounds.each
        return ask.wait_ns + round(bits * NS_PER_S / max(1.0, min(ask.train.rate_bps, held_bps)))

    def _left_ns(self, reserve: bool = False) -> int:
        """For sending, and rest before it; without what halving takes, where that is to be kept."""
        return self._time.left_ns(
            min((self.links - 1).bit_length(), _KEPT if self.prefixes.coarse else 1) if reserve else 0
        )

    def _next(self) -> Ask | None:
        if self.ended:
            return None
        if self.base is None:
            return Ask(0, self.loads.climb())
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

    def _ask_whole(self) -> Ask | None:
        """A train all the way, while the rate is still to be found or to be outlasted."""
        if not self.trains.searching:
            return None
        left_ns = self._left_ns(reserve=bool(self.trains.rate_bps))
        if self.trains.rate_bps:
            left_ns -= LADDER_NS if self.links > 1 else 0
            if left_ns < SHORTEST_NS:
                return None
        self.trains.time_ns = left_ns
        step = self.trains.next()
        if step is None:
            return None
        whole = Ask(step.wait_ns, step.train)
        if step.train.name == "long" and self.links > 1:
            ladder = Ask(step.wait_ns, self.loads.with_ladder(step.train, self.links - 1))
            whole = ladder if self._lasts_ns(ladder) <= self._left_ns() and self._affordable(ladder) else whole
        return whole if self._lasts_ns(whole) <= self._left_ns() else None

    def _ask_ladder(self) -> Ask | None:
        """Another ladder, where that of the train before was sent far above the rate. It empties the deepest bucket first."""
        if self.links < 2 or self._laddered or self.prefixes.own or not self.prefixes.coarse:
            return None
        self._laddered = True
        if self.way.held_bps < FASTEST_SHARE * self.rate_bps:  # nor would a rung be faster
            return None
        ask = Ask(_REST_NS, self.loads.ladder(self.links - 1))
        fits = self._lasts_ns(ask) <= self._time.left_ns(kept=1)
        return ask if fits and self._affordable(ask) else None

    def _ask_pace(self) -> Ask | None:
        """A train of another pace, where others may share the limit."""
        if self._paced >= len(PACES) or not self.way.suspected:
            return None
        spaced = self.way.spaced
        if self.prefixes.own or (spaced is not None and any(told.points for told in self.way.told)):
            return None  # nothing is sent faster; trains to single routers have another pace
        rate = spaced.capacity_bps if spaced is not None else self.rate_bps
        ask = Ask(_REST_NS, self.loads.paced(min(PACES[self._paced] * rate, self.loads.fastest_bps)))
        if self._lasts_ns(ask) > self._left_ns(reserve=True) or not self._affordable(ask):
            return None
        self._paced += 1
        return ask

    def _ask_prefix(self, router: int | None) -> Ask | None:
        if router is None or self.ended:
            return None
        ask = Ask(_REST_NS, self.loads.prefix(router))
        fits = self._left_ns() / self._lasts_ns(ask)
        if _SHORTER < fits < 1:
            ask = replace(ask, train=replace(ask.train, packets=int(0.98 * fits * ask.train.packets)))
        if not self._affordable(ask):
            self.ended = "bytes"
        elif self._lasts_ns(ask) > self._left_ns():
            self.ended = "time"
        return None if self.ended else ask

    def _ask_kind(self) -> Ask | None:
        """A train so slow that it waits nowhere but before the narrowest link, where all others waited before a wider one too."""
        rate, known = self.rate_bps, self.way.reached
        if self.ended or self._kinds or self.way.policed or self.prefixes.own or not known:
            return None
        slowest = min(known, key=lambda train: train.offered_bps)
        wider = min(
            (one.rate_bps or one.offered_bps for one in self.seen().values() if not one.narrow), default=ABOVE * rate
        )
        pace = min(_KIND_PACE * rate, _BELOW * wider)
        if not lossy(slowest) or slowest.offered_bps < wider or pace < _LEAST_KIND * rate:
            return None
        self._kinds += 1
        ask = Ask(_REST_NS, self.loads.paced(pace))
        return ask if self._lasts_ns(ask) <= self._left_ns() and self._affordable(ask) else None

    def _affordable(self, ask: Ask) -> bool:
        """Within the bytes allowed, and of those within what may expire: the plan has said how much that is."""
        train, size = ask.train, self.bounds.packet_bytes
        expiring = (train.packets - train.lead) * size if train.expire_at else 0
        may_expire = (1 - WHOLE_SHARE) * self.bounds.most_bytes
        return (
            self.sent_bytes + train.packets * size <= self.bounds.most_bytes and self._expiring + expiring <= may_expire
        )

    def _wanted(self) -> int | None:
        """The router whose prefix comes next: one between links that may both be the narrowest, then those beside it."""
        whole, prefixes = self.way.whole, self.prefixes
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
        if not left or self.prefixes.own or self._time.late:
            return None
        named = self.prefixes.candidates(self.links, self.way.whole)[0]
        return min(left, key=lambda router: abs(router - named + 0.5))

    # ---- taking

    def took(self, packets: int, numbers: Ints, departed: Ints, arrived: Ints, host_lost: int = 0, full: int = 0) -> None:  # fmt: skip
        """What came of the train asked for last: how many packets left, and those that arrived. `full`: times this host's own queue took no more."""
        phase, self._full = self._asked, full
        assert phase is not None
        self.sent_bytes += packets * self.bounds.packet_bytes
        if phase.expire_at:
            self._expiring += max(0, packets - phase.lead) * self.bounds.packet_bytes
        numbers, first = np.unique(numbers, return_index=True)
        departed, arrived = departed[first], arrived[first]
        if phase.climbing:
            self.climbs += 1
            self._climbed(numbers, departed, arrived)
        elif phase.expire_at and not phase.lead:
            self._took_prefix(replace(phase, packets=packets), numbers, departed, arrived, host_lost)
        elif len(numbers):
            self._took_whole(phase, packets, numbers, departed, arrived, host_lost)
        else:
            self.ended = "no-way"

    def _climbed(self, numbers: Ints, departed: Ints, arrived: Ints) -> None:
        links = prefix_train.links_of(numbers)
        self.base = self.way.base = idle(arrived - departed)
        if links is None or self.base is None:
            self._shorten()
            return
        self.links = links
        for router in range(1, links):
            self.expired[router] = self.climbs * EACH_TTL

    def _shorten(self) -> None:
        """Nothing arrives: shorter packets may."""
        shorter = [size for size in SHORTER_BYTES if size < self.bounds.packet_bytes]
        if not shorter:
            self.ended = "no-way"
            return
        self.bounds, self.base = replace(self.bounds, packet_bytes=shorter[0]), None
        self._begin()

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
        if (train.rate_bps or 0.0) > _MORE * train.offered_bps:
            train = replace(
                train, void="packets arrived in bunches, faster than they left: something on the way was held up"
            )
        if phase.name not in {"pace", "ladder"}:
            self.trains.took(train, self.base)
        limited = train.rate_bps and not train.void
        if along is not None and limited and (self.way.reaches(train.rate_bps or 0.0) or not self.trains.outlasted):
            self.prefixes.ladder = {rung.router: rung for rung in prefix_train.rungs(*along, train.rate_bps or 0.0)}
        self.way.add(phase, packets, train, numbers, departed, arrived, self._full)

    def _took_prefix(self, phase: Phase, numbers: Ints, departed: Ints, arrived: Ints, host_lost: int) -> None:
        assert self.base is not None
        router = phase.expire_at
        load = int(prefix_train.expiring(phase, 0, phase.packets).sum())
        self.expired[router] = self.expired.get(router, 0) + load
        train = prefix_train.read(phase, self.bounds.each, numbers, departed, arrived, self.base, host_lost)
        if train.offered_bps < FASTEST_SHARE * self.rate_bps:
            train = replace(train, rate_bps=None, void=SLOW)
        self.prefixes.add(train)
        slower = self.prefixes.slower(router, self.way.whole)
        if slower is not None and self.refuted < REFUTED:
            self.refuted += 1
            self.trains.refute(slower)
            self.prefixes.clear()
            self.way.told.clear()
            self.way.own_bps.clear()
            self.way.passed_bps.clear()
            self._paced, self._laddered = 0, False

    # ---- what is known

    @property
    def rate_bps(self) -> float:
        """What the whole way let through, as the contract counts; 0: not known yet."""
        return self.trains.rate_bps

    def link_seen(self, router: int) -> LinkSeen | None:
        """What its prefix shows; None: nothing was seen."""
        return self.prefixes.link_seen(router, self.way.whole)

    def drained(self, router: int) -> bool:
        """Whether its train was long enough for the bucket of a narrower link in it."""
        return self.prefixes.drained(router, self.way.whole)

    def seen(self) -> Mapping[int, LinkSeen]:
        """By router, those that were looked at."""
        return self.prefixes.seen(self.way.whole)
