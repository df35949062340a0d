"""What others send over the narrowest link meanwhile: its capacity apart from what is free. Floor 2, pure.

Two ways, which know nothing of each other:

regression   A queue gives each its share of what comes: offered / rate = offered / capacity + others / capacity, a straight line over trains of different
             pace (TOPP; Melander, Björkman, Gunningberg: A New End-to-End Probing and Analysis Method). It needs trains of several paces.
spacing      Two packets that leave a queue one behind the other are one packet at the capacity apart; where another's lies between them, more. The
             shortest distance that comes often is the capacity. It needs one train, stamps finer than a packet, and packets of others that are not tiny.

Both hold only where the bucket is empty and a queue stands. What others take is told before that queue is full: behind, short packets find room where ours
find none. And it must be the same at every pace: a link behind the queue that drops without one of its own looks like others too. Instants ns, rates bit/s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np
import numpy.typing as npt
from scipy import special

from linkqual.model.trains import Range
from linkqual.session.prefix_train import flowing
from linkqual.stats.arrival_curve import onset
from linkqual.units import NS_PER_S

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

IDLE = 0.03  # of the capacity: less is taken for none
ALONE = 0.985  # of what the spacing shows: a rate above is not shared
PARTS = 4  # of a train, each a point
APART = 1.15  # times as fast must the fastest point be as the slowest
MOST = 3.0  # times what came through: a capacity above is no queue's, but of packets that were let go several at once
AGREE = 0.05  # of the capacity, by which both ways may differ
LOST = 0.01  # of a train: fewer may be the line's
_HELD = 0.97  # of what was offered came through: less was held up
_PASSED = 0.9  # of what others got through, they sent at least
_VARY = 0.5  # of the capacity: what others seem to send in different parts of trains
_SAME = 0.02  # of the rate
_MOST = 0.9  # of the capacity: what others take at most, or something else held us up
_NOBODY = 0.01  # of the capacity: others send more for certain
_PART = 20  # packets of a part at least
_POINTS = 4
_FEWEST = 60  # distances that say anything
_WITHIN = 0.25  # of the shortest distance: a packet of 400 bytes between makes it longer
_CLEAN = 0.125  # their deviation: evenly spread ones have 0.144
_OFTEN = 0.2  # of all distances
_EMPTY = 0.3
_EXACT = 0.002  # of the capacity: what the choice of the shortest may be wrong by
_CONFIDENCE = 0.975


@dataclass(frozen=True, slots=True)
class Point:
    """A part of a train: what went in, what came out."""

    offered_bps: float
    rate_bps: float

    def others(self, capacity_bps: float) -> float:
        """What others sent meanwhile."""
        return capacity_bps * self.offered_bps / self.rate_bps - self.offered_bps


@dataclass(frozen=True, slots=True)
class Spacing:
    """What the shortest distances show. `error`: of the capacity, relative, 95 %. `rate_bps`: of the same packets.

    `empty`: of the distances over one lost packet the share that is twice as long. Then the lost ones left their places empty: they had
    passed that queue already, and another link drops them without one.
    """

    capacity_bps: float
    error: float
    rate_bps: float
    empty: float = 0.0

    @property
    def behind(self) -> bool:
        """Whether what limits the rate lies behind the queue, and has none."""
        return self.empty > _EMPTY


@dataclass(frozen=True, slots=True)
class Shared:
    """Capacity and what others send, each with its lowest and highest. `by`: "spacing", "regression", "both"."""

    capacity_bps: Range
    others_bps: Range
    by: str

    @property
    def busy(self) -> bool:
        """Whether others send so much that it counts."""
        return self.others_bps[0] > IDLE * self.capacity_bps[0]

    @property
    def free_bps(self) -> Range:
        """What others leave."""
        (capacity, low, high), (others, least, most) = self.capacity_bps, self.others_bps
        return max(0.0, capacity - others), max(0.0, low - most), max(0.0, high - least)

    def at(self, offered_bps: float) -> float:
        """What the whole way lets through of so much."""
        return self.capacity_bps[0] * offered_bps / (offered_bps + self.others_bps[0])


def points(numbers: Ints, departed: Ints, arrived: Ints, each: int, packets: int) -> list[Point]:
    """What a train of so many packets shows while the bucket is empty and nothing is lost, cut into up to PARTS; columns of what arrived, ascending by number.

    `each`: bytes that count. None where nothing is held up so long.
    """
    begin = onset(numbers, packets) if packets - len(numbers) > LOST * packets else packets
    clean = numbers < (begin or 0)
    numbers, departed, arrived = numbers[clean], departed[clean], arrived[clean]
    if len(numbers) < 2 * _PART:
        return []
    _, bent = flowing((arrived - arrived[0]).astype(np.float64), numbers.astype(np.float64))
    here = np.flatnonzero(numbers >= bent)
    parts = min(PARTS, len(here) // _PART)
    edges = here[np.linspace(0, len(here) - 1, parts + 1).astype(int)] if parts else here[:0]
    found, bits = [], each * 8 * NS_PER_S
    for one, other in pairwise(edges.tolist()):
        sent_ns, came_ns = int(departed[other] - departed[one]), int(arrived[other] - arrived[one])
        if sent_ns > 0 and came_ns > 0:
            found.append(
                Point(float(numbers[other] - numbers[one]) * bits / sent_ns, float(other - one) * bits / came_ns)
            )
    offered, rate = (sum(getattr(point, name) for point in found) for name in ("offered_bps", "rate_bps"))
    return found if rate < _HELD * offered else []


def regression(taken: Sequence[Point]) -> Shared | None:
    """The line through these points; None where they lie too close for one, or tell nothing."""
    offered, rate = np.array([point.offered_bps for point in taken]), np.array([point.rate_bps for point in taken])
    if len(taken) < _POINTS or offered.max() < APART * offered.min():
        return None
    scale = float(np.median(rate))
    x, y = offered / scale, offered / rate
    off = x - x.mean()
    slope = float(off @ y / (off @ off))
    begin = float(y.mean() - slope * x.mean())
    if slope <= 0:
        return None
    rest = y - begin - slope * x
    deviation = float(np.sqrt(rest @ rest / (len(y) - 2)))
    wide = float(special.stdtrit(len(y) - 2, _CONFIDENCE)) * deviation
    on_slope = min(wide / float(np.sqrt(off @ off)), 0.9 * slope)
    on_begin = wide * float(np.sqrt(1 / len(y) + x.mean() ** 2 / (off @ off)))
    capacity = scale / slope, scale / (slope + on_slope), scale / (slope - on_slope)
    others = (
        max(0.0, begin) * capacity[0],
        max(0.0, begin - on_begin) * capacity[0],
        max(0.0, begin + on_begin) * capacity[0],
    )
    return Shared(capacity, others, "regression")


def spacing(numbers: Ints, arrived: Ints, each: int, steady_ns: int) -> Spacing | None:
    """The shortest distance that comes often in a train's steady part (columns ascending by number); None where none stands out."""
    steady = arrived >= arrived.max() - steady_ns
    numbers, arrived = numbers[steady], np.maximum.accumulate(arrived[steady])
    gaps, step = np.diff(arrived).astype(np.float64), np.diff(numbers)
    if len(gaps) < _FEWEST:
        return None
    found = _shortest(gaps)
    if found is None:
        return None
    middle, near = found
    over = gaps[step == 2]
    empty = float((np.abs(over / middle - 2) < _WITHIN).mean()) if len(over) else 0.0
    bits = each * 8 * NS_PER_S
    error = _EXACT + 1.96 * float(near.std()) / middle / float(np.sqrt(len(near)))
    return Spacing(bits / middle, error, bits * len(gaps) / float(arrived[-1] - arrived[0]), empty)


def _shortest(gaps: Floats) -> tuple[float, Floats] | None:
    """The shortest distance that comes often, and those that are it; None where it is not clear-cut."""
    found, below = None, gaps
    while len(below) >= max(_FEWEST, _OFTEN * len(gaps)):
        middle = _densest(below)
        for _ in range(20):
            near = gaps[np.abs(gaps - middle) <= _WITHIN * middle]
            if not len(near) or middle <= 0:  # stamps of several packets at once
                return found
            before, middle = middle, float(near.mean())
            if abs(middle - before) <= 1e-6 * middle:
                break
        if len(near) < max(_FEWEST, _OFTEN * len(gaps)) or near.std() > _CLEAN * middle:
            return found
        if found is not None and middle > (1 - _WITHIN) * found[0]:  # the same once more
            return found
        found, below = (middle, near), gaps[gaps < (1 - _WITHIN) * middle]
    return found


def _densest(values: Floats) -> float:
    """The mode: the half of the values that lies closest, its closest half, and so on."""
    left = np.sort(values)
    while len(left) > 3:
        half = (len(left) + 1) // 2
        begin = int(np.argmin(left[half - 1 :] - left[: len(left) - half + 1]))
        left = left[begin : begin + half]
    return float(left.mean())


def together(
    rate_bps: float, spaced: Spacing | None, taken: Sequence[Point], *, own: bool = False, faster_bps: float = 0.0
) -> Shared | None:
    """What both ways say; None: nothing, or they contradict each other. `rate_bps`: what the whole way let through.

    `own`: the queue is the sending host's own. Others get through it what they send, for it takes no more from us than the rest. `faster_bps`: what much
    faster trains showed; 0: no more. Then nobody else seems to be there, yet somebody may, and the line alone says who, where it fits both.
    """
    if spaced is not None and spaced.capacity_bps > MOST * rate_bps:
        spaced = None
    line = regression(taken)
    if (
        line is not None and line.busy and (spaced is None or faster_bps)
    ):  # a bucket that was not empty bends a line too
        value, (_, least, _) = line.capacity_bps[0], line.others_bps
        likely = rate_bps < value < (1 + AGREE) * faster_bps and line.free_bps[0] < (1 + AGREE) * rate_bps
        line = line if likely and least > _NOBODY * value else None
    if spaced is None:
        return line
    if spaced.rate_bps >= ALONE * spaced.capacity_bps and faster_bps:
        return line if line is not None and line.busy else None
    if spaced.rate_bps >= ALONE * spaced.capacity_bps:
        most = max(0.0, spaced.capacity_bps * (1 + spaced.error) - rate_bps)
        return Shared((rate_bps, rate_bps, rate_bps), (0.0, 0.0, most), "spacing")
    if own:
        rest = max(0.0, spaced.capacity_bps - rate_bps)
        wide = spaced.error * spaced.capacity_bps
        capacity = spaced.capacity_bps, spaced.capacity_bps - wide, spaced.capacity_bps + wide
        return Shared(capacity, (rest, max(0.0, rest - wide), rest + wide), "spacing")
    if line is not None and not line.busy and abs(line.capacity_bps[0] / rate_bps - 1) <= _SAME:
        return Shared(
            (rate_bps, rate_bps, rate_bps), line.others_bps, "regression"
        )  # stamps in batches look like others
    return _divided(spaced, taken, line)


def _divided(spaced: Spacing, taken: Sequence[Point], line: Shared | None) -> Shared | None:
    """Capacity by the spacing, what others take of it by what was held up; None where that differs from train to train, or a line of both says otherwise."""
    capacity, wide = spaced.capacity_bps, spaced.error * spaced.capacity_bps
    told = [point.others(capacity) for point in taken]
    others = max(0.0, median(told)) if told else 0.0
    passed = capacity - spaced.rate_bps  # of others, behind a full queue
    if (
        not max(IDLE * capacity, _PASSED * passed) <= others <= _MOST * capacity
        or max(told) - min(told) > _VARY * capacity
    ):
        return None
    by = "spacing"
    if line is not None:
        value, low, high = line.capacity_bps
        if not low <= capacity <= high and abs(value / capacity - 1) > AGREE:
            return None
        by = "both"
    return Shared(
        (capacity, capacity - wide, capacity + wide), (others, max(0.0, min(told) - wide), max(told) + wide), by
    )
