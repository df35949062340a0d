"""Steps of one clock against the other, found in the packets while they are counted.

A clock that is set moves every forward delay by as much as it moves every reverse delay the other way, at once, and no round trip.
A route or a queue moves what it moves, and the round trip with it. So a step is where, from one moment to the next,

* all forward delays of a window lie beyond those of the window before, and all reverse ones beyond on the other side, by twice what
  half of the packets scatter (with nothing changed, being beyond half of them alone has a chance of 1e-6 a direction);
* both moved alike: their sum, the round trip, moved by less than a quarter of it, or than it scatters;
* all that after what the clocks drift within each window is taken out.

Windows are of points, the smallest delays of 5 ms each (of one packet where packets are rarer), so that cost and memory do not
grow with the rate. Between both windows lies as much as a round trip: what was in flight then has one delay by the old clock and
one by the new one. Two queues or routes that change places within a round trip, with the same round trip before and after, look
the same from the packets; `rules.clocks` asks the hosts. Floor 1, pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from linkqual.model import ClockStep
from linkqual.records import ABSENT, Records

POINT_NS = 5_000_000
WINDOW = 32  # points
MOST_BETWEEN = 64  # points between two windows
LEAST_NS = 50_000  # a smaller step is left to the jitter
MOST_STEPS = 64
_CLEAR = 2.0  # half of the packets scatter by so much of a step at most
_ALIKE = 0.25
_UNKNOWN_PACE = 1e-4  # what any two clocks may drift apart by

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_BUCKET, _FIRST, _LAST, _AT, _FORWARD, _REVERSE = range(6)


@dataclass(slots=True)
class _Sighting:
    """Neighbouring places where a step fits. What lies between `before` of the first and `after` of the last is in doubt; the smallest
    delays are those of the windows closest to each other: before the last place, after the first one.
    """

    place: int
    before: Ints  # the first window's last point
    after: Ints  # the last window's first point
    lowest_before: Floats  # forward, reverse
    lowest_after: Floats

    @property
    def rises(self) -> bool:
        """The way forward seems longer afterwards."""
        return bool(self.lowest_after[0] > self.lowest_before[0])

    def step(self) -> ClockStep:
        (f0, r0), (f1, r1) = (np.round(low).astype(int).tolist() for low in (self.lowest_before, self.lowest_after))
        return ClockStep(
            last_before=int(self.before[_LAST]),
            first_after=int(self.after[_FIRST]),
            before_ns=int(self.before[_AT]),
            after_ns=int(self.after[_AT]),
            offset_before_ns=(f0 - r0) // 2,
            offset_after_ns=(f1 - r1) // 2,
            round_trip_before_ns=f0 + r0,
            round_trip_after_ns=f1 + r1,
        )


class ClockSteps:
    """Looks for steps in packets that come in order of sequence number, in chunks of any size."""

    def __init__(self) -> None:
        self._points = np.zeros((0, 6), np.int64)
        self._place = WINDOW  # the next one to look at, in self._points
        self._dropped = 0  # points before self._points
        self._seen: list[_Sighting] = []

    def add(self, sent: Records, forward: Ints, reverse: Ints) -> None:
        """Take rows that were sent, with their one-way delays; rows that lack one of them are left out."""
        known = (forward != ABSENT) & (reverse != ABSENT)
        if not known.any():
            return
        made = _points(sent["sent_ns"][known], sent["seq"][known], forward[known], reverse[known])
        self._points = np.concatenate([self._points, made])
        if len(self._points) > len(made) and self._points[-len(made) - 1, _BUCKET] == made[0, _BUCKET]:
            self._points = _joined(self._points, len(self._points) - len(made))
        last = len(self._points) - 1 - MOST_BETWEEN - WINDOW  # the newest point may still grow
        if last > self._place + 4 * WINDOW:
            self._look(last)
            keep = self._place - WINDOW
            self._points, self._place, self._dropped = self._points[keep:].copy(), WINDOW, self._dropped + keep

    def _look(self, stop: int) -> None:
        for place, between in _candidates(self._points, self._place, stop):
            before, after = self._points[place - WINDOW : place], self._points[place + between :][:WINDOW]
            found = _step_between(before, after)
            if found is not None:
                self._sight(self._dropped + place, before[-1], after[0], *found)
        self._place = max(self._place, stop)

    def _sight(self, place: int, before: Ints, after: Ints, low: Floats, high: Floats) -> None:
        last = self._seen[-1] if self._seen else None
        if last is not None and place - last.place <= MOST_BETWEEN and (high[0] > low[0]) == last.rises:
            last.place, last.after, last.lowest_before = place, after.copy(), low
        elif len(self._seen) < MOST_STEPS:
            self._seen.append(_Sighting(place, before.copy(), after.copy(), low, high))

    def data(self) -> tuple[ClockStep, ...]:
        """What was found so far, in order; looking may go on."""
        whole = ClockSteps()
        whole._points, whole._place, whole._dropped = self._points, self._place, self._dropped
        whole._seen = [replace(sighting) for sighting in self._seen]
        whole._look(len(self._points))
        return tuple(sighting.step() for sighting in whole._seen)


def _points(sent_ns: Ints, seq: Ints, forward: Ints, reverse: Ints) -> Ints:
    bucket = sent_ns // POINT_NS
    starts = np.flatnonzero(np.concatenate([[True], bucket[1:] != bucket[:-1]]))
    ends = np.concatenate([starts[1:], [len(bucket)]]) - 1
    smallest = (np.minimum.reduceat(column, starts) for column in (forward, reverse))
    return np.stack([bucket[starts], seq[starts], seq[ends], sent_ns[starts], *smallest], axis=1)


def _joined(points: Ints, at: int) -> Ints:
    """Two points of one 5 ms, before and after a cut between chunks, are one."""
    one = points[at - 1].copy()
    one[_LAST] = points[at, _LAST]
    one[_FORWARD:] = np.minimum(one[_FORWARD:], points[at, _FORWARD:])
    return np.concatenate([points[: at - 1], one[None], points[at + 1 :]])


def _candidates(points: Ints, first: int, stop: int) -> list[tuple[int, int]]:
    """Places where the smallest delays changed the way a step changes them, each with the points between both windows."""
    places = np.arange(first, min(stop, len(points) - WINDOW))
    if not places.size:
        return []
    lowest = np.lib.stride_tricks.sliding_window_view(points[:, _FORWARD:], WINDOW, axis=0).min(axis=2)
    before = lowest[places - WINDOW]
    spacing = np.abs(points[places - 1, _AT] - points[places - WINDOW, _AT]) // (WINDOW - 1)
    between = np.clip(-(-before.sum(axis=1) // np.maximum(spacing, 1)) + 1, 1, MOST_BETWEEN)
    fits = places + between + WINDOW <= len(points)
    places, between, before = places[fits], between[fits], before[fits]
    moved = lowest[places + between] - before
    opposite = (moved[:, 0] > 0) != (moved[:, 1] > 0)
    far = np.abs(moved).min(axis=1) >= LEAST_NS if len(moved) else np.zeros(0, np.bool_)
    chosen = opposite & far
    return list(zip(places[chosen].tolist(), between[chosen].tolist(), strict=True))


def _step_between(before: Ints, after: Ints) -> tuple[Floats, Floats] | None:
    """Smallest forward and reverse delay before and after a step between the two windows; None without one. See the module's head.

    Each window is freed of its own drift, as seen from its edge. What passed between the edges they may have drifted too.
    """
    (one, pace), (other, later_pace) = _freed(before, -1), _freed(after, 0)
    low, high = one.min(axis=0), other.min(axis=0)
    moved = high - low
    scatter = np.maximum(np.median(one, axis=0) - low, np.median(other, axis=0) - high)
    gap = float(after[0, _AT] - before[-1, _AT])
    elapsed = min(abs(gap), abs(gap + (moved[0] - moved[1]) / 2))  # the near clock may be the one that was set
    drifted = elapsed * max(_UNKNOWN_PACE, 1.5 * abs(pace), 1.5 * abs(later_pace))
    if moved[0] * moved[1] >= 0 or (np.abs(moved) < np.maximum(_CLEAR * scatter, LEAST_NS) + drifted).any():
        return None
    if abs(moved.sum()) > max(_ALIKE * np.abs(moved).min(), scatter.max()):
        return None
    return low, high


def _freed(part: Ints, edge: int) -> tuple[Floats, float]:
    """Forward and reverse delays, shape (n, 2), as if the offset had stood still since the edge, and the pace it had.

    The pace is that from one half of the window to the other.
    """
    delays = part[:, _FORWARD:].astype(np.float64)
    passed = (part[:, _AT] - part[edge, _AT]).astype(np.float64)
    first, second = slice(None, WINDOW // 2), slice(WINDOW // 2, None)
    span = passed[second].mean() - passed[first].mean()
    moved = delays[second].min(axis=0) - delays[first].min(axis=0)
    pace = float(moved[0] - moved[1]) / 2 / span if span > 0 else 0.0
    return delays - np.outer(passed * pace, [1.0, -1.0]), pace
