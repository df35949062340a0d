"""What trains all the way say of the limit, and of others that share it. Floor 2, pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from linkqual.model import Train
from linkqual.session import topp
from linkqual.session.load_phase import Phase
from linkqual.session.prefix_train import Ints
from linkqual.session.prefixes import Prefixes, Whole
from linkqual.session.topp import Point, Shared, Spacing
from linkqual.session.train import Bounds, Trains
from linkqual.session.train_result import HELD, HELD_UP, RISEN_NS, agreeing, congested, is_policed
from linkqual.stats.arrival_curve import Idle
from linkqual.units import NS_PER_S

FASTER = 1.04  # times the rate: what trains much faster than it showed is more, so others may share it
_ABOUT, _FAR = 0.12, 0.35  # of the rate: how far trains without loss may be from it
_OWN = 1.003  # times what came through: as much as a full queue of the host itself takes


@dataclass(frozen=True, slots=True)
class Told:
    """A train all the way, and what it says of others."""

    train: Train
    spaced: Spacing | None
    points: tuple[Point, ...]


@dataclass(slots=True)
class WholeWay:
    """`trains`: those that find and outlast the rate; `told`: what each of them and of those at other paces says of others."""

    bounds: Bounds
    trains: Trains
    prefixes: Prefixes
    base: Idle | None = None
    told: list[Told] = field(default_factory=list)
    own_bps: list[float] = field(default_factory=list)  # what came through where this host's own queue was full

    def add(self, phase: Phase, packets: int, train: Train, numbers: Ints, departed: Ints, arrived: Ints) -> None:
        """A train of so many packets that left; columns of what arrived, ascending by number."""
        if self.own_queue(phase, train, numbers, departed):
            self.own_bps.append(train.rate_bps or 0.0)
        self.prefixes.own = any(self.reaches(bps) for bps in self.own_bps)
        if phase.name == "search" or train.void:
            return
        each = self.bounds.each
        spaced = topp.spacing(numbers, arrived, each, train.steady_ns) if train.steady_ns else None
        if spaced is not None:  # pauses of the host do not count
            spaced = replace(spaced, rate_bps=train.rate_bps or spaced.rate_bps)
        paced = topp.points(numbers, departed, arrived, each, packets) if phase.name == "pace" else []
        self.told.append(Told(train, spaced, tuple(paced)))

    def reaches(self, bps: float) -> bool:
        """Whether this is the rate found: of a train that found another, another link was the limit."""
        return self.rate_bps > 0 and abs(bps / self.rate_bps - 1) <= HELD_UP

    def own_queue(self, phase: Phase, train: Train, numbers: Ints, departed: Ints) -> bool:
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
        slowest = min(self.reached, key=lambda train: train.offered_bps, default=None)
        dropped = any(told.spaced is not None and told.spaced.behind for told in self.told)
        return (
            dropped
            or (slowest is not None and is_policed(slowest, self.bounds.each))
            or self.prefixes.dropped(self.rate_bps)
        )

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
