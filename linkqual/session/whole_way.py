"""What trains all the way say of the limit, and of others that share it. Floor 2, pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from linkqual.model import Train
from linkqual.session import topp
from linkqual.session.load_phase import Phase
from linkqual.session.prefix_train import Ints
from linkqual.session.prefixes import HIT, Prefixes, Whole
from linkqual.session.topp import Point, Shared, Spacing
from linkqual.session.train import Bounds, Trains
from linkqual.session.train_result import (
    HELD,
    HELD_UP,
    QUEUE_NS,
    QUEUE_PACKETS,
    agreeing,
    congested,
    is_policed,
    takes_ns,
)  # fmt: skip
from linkqual.stats.arrival_curve import Idle
from linkqual.units import NS_PER_S

FASTER = 1.04  # times the rate: what trains much faster than it showed is more, so others may share it
_ABOUT, _FAR = 0.12, 0.35  # of the rate: how far trains without loss may be from it
_OWN, _MOST_OWN = 1.003, 1.025  # times what came through: as much as a full queue of the host itself takes
_OWN_DEEP_NS = 20_000_000
_STRAY = 2  # packets that a line may lose by itself
_BEFORE = 10  # packets that tell how fast they came while the bucket was not empty
_UNKNOWN = 1.3  # times the rate, where so few came
_FULL = 5  # times that a queue took no more: it held the sender up, not want of CPU time
_OWN_LOST = 0.002  # once that queue is full


@dataclass(frozen=True, slots=True)
class Told:
    """A train all the way, and what it says of others."""

    train: Train
    spaced: Spacing | None
    points: tuple[Point, ...]
    queued_ns: float = (
        0.0  # what waited before the limit itself, at least: came after its bucket was empty, and was not dropped
    )


@dataclass(slots=True)
class WholeWay:
    """`trains`: those that find and outlast the rate; `told`: what each of them and of those at other paces says of others."""

    bounds: Bounds
    trains: Trains
    prefixes: Prefixes
    base: Idle | None = None
    told: list[Told] = field(default_factory=list)
    own_bps: list[float] = field(
        default_factory=list
    )  # what came through where this host's own queue was full, and nothing else held it up
    passed_bps: list[float] = field(default_factory=list)  # what that queue let out where something else did

    def add(self, phase: Phase, packets: int, train: Train, numbers: Ints, departed: Ints, arrived: Ints, full: int = 0) -> None:  # fmt: skip
        """A train of so many packets that left; columns of what arrived, ascending by number. `full`: times this host's own queue took no more."""
        if full >= _FULL and train.steady_ns:
            self._held_up(phase, train, numbers, departed)
        self.prefixes.own = any(self.reaches(bps) for bps in self.own_bps)
        self.prefixes.outpaced = any(bps > (1 + HIT) * self.rate_bps for bps in self.passed_bps)
        if phase.name == "search" or train.void:
            return
        each = self.bounds.each
        spaced = topp.spacing(numbers, arrived, each, train.steady_ns) if train.steady_ns else None
        if spaced is not None:  # pauses of the host do not count
            spaced = replace(spaced, rate_bps=train.rate_bps or spaced.rate_bps)
        paced = topp.points(numbers, departed, arrived, each, packets) if phase.name == "pace" else []
        self.told.append(Told(train, spaced, tuple(paced), _queued_ns(packets, train, numbers, arrived)))

    def reaches(self, bps: float) -> bool:
        """Whether this is the rate found: of a train that found another, another link was the limit."""
        return self.rate_bps > 0 and abs(bps / self.rate_bps - 1) <= HELD_UP

    def _held_up(self, phase: Phase, train: Train, numbers: Ints, departed: Ints) -> None:
        """Of a train that this host's own queue held up: what left it, and whether no more came out at the other end."""
        half = len(numbers) // 2  # later on a bucket of its own is empty
        numbers, departed = numbers[half:], departed[half:]
        span_ns, count = int(departed[-1] - departed[0]), int(numbers[-1] - numbers[0])
        if span_ns <= 0:
            return
        offered = count * self.bounds.each * 8 * NS_PER_S / span_ns
        if offered > HELD * phase.rate_bps * self.bounds.each / self.bounds.packet_bytes:
            return
        pause = int(np.diff(departed).max()) / span_ns  # a full queue takes many packets at once, then none for a while
        rate, lost = train.rate_bps or 0.0, count + 1 - len(numbers)
        if lost <= _OWN_LOST * count and offered < min(_MOST_OWN, _OWN + pause) * rate:
            self.own_bps.append(rate)
        elif phase.name != "search":
            self.passed_bps.append(offered)

    @property
    def rate_bps(self) -> float:
        """What the whole way let through, as the contract counts; 0: not known yet."""
        return self.trains.rate_bps

    @property
    def held_bps(self) -> float:
        """What the sending host reached at least, where it did not keep the pace for long; infinite where it did."""
        long = [train for train in self.trains.taken if train.purpose != "search" and train.offered_bps > 0]
        return min(
            (train.offered_bps for train in long if train.offered_bps < HELD * train.asked_bps), default=math.inf
        )

    @property
    def known(self) -> list[Train]:
        """The trains all the way that found this rate."""
        return agreeing(self.trains.taken, self.rate_bps) if self.rate_bps else []

    @property
    def policed(self) -> bool:
        """Whether what exceeds the rate is dropped without waiting. Slow trains know better: fast ones waited for wider links too."""
        slowest = min(self.reached, key=lambda train: train.offered_bps, default=None)
        dropped = any(told.spaced is not None and told.spaced.behind for told in self.told)
        return (
            dropped
            or (slowest is not None and is_policed(slowest, self.bounds.each))
            or self.prefixes.dropped(self.rate_bps)
        )

    @property
    def queues(self) -> bool:
        """Whether packets certainly wait before the limit itself, and not only before a wider link ahead."""
        if self.prefixes.own:
            risen = max((train.rise_ns or 0 for train in self.known), default=0)
            return risen > _OWN_DEEP_NS  # what refuses packets at once holds a sender up a little too
        takes = takes_ns(self.known[0], self.bounds.each) if self.known else 0.0
        reached = [told for told in self.told if abs((told.train.rate_bps or 0.0) / self.rate_bps - 1) <= HELD_UP]
        return any(told.queued_ns > QUEUE_NS + QUEUE_PACKETS * takes for told in reached)

    @property
    def reached(self) -> list[Train]:
        """All trains all the way that found this rate."""
        more = [told.train for told in self.told if told.train.purpose in {"ladder", "pace"}]
        return [*self.known, *agreeing(more, self.rate_bps)] if self.rate_bps else []

    @property
    def bucket_bytes(self) -> float:
        """The deepest that trains all the way showed."""
        return max((train.bucket_bytes or 0.0 for train in self.known), default=0.0)

    @property
    def whole(self) -> Whole:
        """What prefixes are held against."""
        return Whole(self.rate_bps, self.bucket_bytes, any(train.lost for train in self.known), self.shared)

    @property
    def spaced(self) -> Spacing | None:
        """Of the longest train of this rate; a policer leaves the distances that the sender gave."""
        if self.policed:
            return None
        told = [
            told
            for told in self.told
            if told.spaced is not None and abs((told.train.rate_bps or 0.0) / self.rate_bps - 1) <= HELD_UP
        ]
        return max(told, key=lambda one: one.train.steady_ns).spaced if told else None

    @property
    def shared(self) -> Shared | None:
        """Capacity, and what others send; None: not known."""
        if not self.rate_bps:
            return None
        points = [point for told in self.told for point in told.points]
        points += self.prefixes.points(self.rate_bps, _FAR if self.doubtful else _ABOUT)
        return topp.together(
            self.rate_bps,
            self.spaced,
            points,
            own=self.prefixes.own,
            faster_bps=self.faster_bps if self.doubtful else 0.0,
        )

    @property
    def suspected(self) -> bool:
        """Whether others may share the limit: packets of others lie between ours, or much faster trains showed more."""
        spaced = self.spaced
        if spaced is not None and spaced.rate_bps < topp.ALONE * spaced.capacity_bps:
            return True
        return self.doubtful and not self.policed

    @property
    def doubtful(self) -> bool:
        """Whether faster trains showed more, and no slow one as much as all others: behind a full queue ours and others' may take strict turns."""
        slow = [told.train.rate_bps or 0.0 for told in self.told if told.train.purpose == "pace"]
        return (
            self.unsteady
            and not self.prefixes.own
            and not any(abs(rate / self.rate_bps - 1) <= HELD_UP for rate in slow)
        )

    @property
    def unresolved(self) -> bool:
        """Whether others may share the limit, and how much they take is not known."""
        return self.shared is None and self.suspected

    @property
    def perhaps_bps(self) -> float:
        """What the limit may be, where others may share it; 0: nothing hints at them."""
        spaced = self.spaced
        return spaced.capacity_bps if spaced is not None and self.unresolved else 0.0

    @property
    def faster_bps(self) -> float:
        """What the last of the trains far above the rate showed; 0: none was held up."""
        fast = [train for train in self.trains.taken if train.purpose == "search" and congested(train, self.base)]
        return fast[-1].rate_bps or 0.0 if fast else 0.0

    @property
    def unsteady(self) -> bool:
        """Whether it is more than those a little above the rate showed."""
        return self.faster_bps > FASTER * self.rate_bps


def _queued_ns(packets: int, train: Train, numbers: Ints, arrived: Ints) -> float:
    """What a train shows of the queue before its limit: packets came out at the rate, though more came, and none was dropped yet."""
    if not train.steady_ns or not train.rate_bps:
        return 0.0
    since = np.sort(arrived) - arrived.min()
    begin = int(since[-1]) - train.steady_ns
    first = int(np.searchsorted(since, begin))
    missing = np.setdiff1d(np.arange(numbers[min(first, len(numbers) - 1)], packets), numbers)[: _STRAY + 1]
    place = int(np.searchsorted(numbers, missing[-1])) if len(missing) > _STRAY else len(since) - 1
    until = int(since[min(place, len(since) - 1)])
    before = since[since <= begin]
    filled = len(before) > _BEFORE and before[-1] > 0
    times = len(before) / float(before[-1]) / (len(since) - len(before)) * train.steady_ns if filled else _UNKNOWN
    return max(0.0, until - begin) * (times - 1)
