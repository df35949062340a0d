"""How far two clocks are apart and how fast they drift, from one-way delays alone.

A difference in pace makes one-way delays rise in one direction and fall in the other while the round trip stays. Delay only ever adds
to the smallest one, so the drift is the slope of the line *under* all points that comes closest to them (Moon, Skelly and Towsley
1999); a line through their middle (least squares) would follow the queues instead. Floor 1, pure.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from linkqual.model import Direction, Histogram, Summary

LEAST_SLICES = 10
BLOCKS = 20
Point = tuple[int, int]


def lower_hull(points: list[Point]) -> list[Point]:
    """Corners of the lower convex hull, by time; of points at one time the lowest."""
    hull: list[Point] = []
    for point in sorted(points):
        if hull and hull[-1][0] == point[0]:
            continue
        while len(hull) > 1 and _turn(hull[-2], hull[-1], point) <= 0:
            hull.pop()
        hull.append(point)
    return hull


def _turn(a: Point, b: Point, c: Point) -> int:
    """Over 0 when b lies below the line from a to c."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def skew(times: npt.ArrayLike, delays: npt.ArrayLike) -> tuple[float, float] | None:
    """(slope, intercept) of the line under all points with the least sum of distances; None with fewer than two times.

    Integers of one unit. The optimum of the linear program is the edge of the lower hull above the mean time.
    """
    pairs = zip(np.asarray(times).tolist(), np.asarray(delays).tolist(), strict=True)
    hull = lower_hull(list(pairs))
    if len(hull) < 2:
        return None
    mean = float(np.mean(np.asarray(times) - hull[0][0])) + hull[0][0]
    edge = next((i for i in range(1, len(hull)) if hull[i][0] >= mean), len(hull) - 1)
    (t0, d0), (t1, d1) = hull[edge - 1], hull[edge]
    slope = (d1 - d0) / (t1 - t0)
    return slope, d0 - slope * t0


def offset(forward: Histogram, reverse: Histogram) -> tuple[int, int] | None:
    """(estimate, bound) of the far clock's offset against the near one, ns: (F - R) / 2 to within half a round trip; None without delays.

    Delays are not negative, so the offset is at most the smallest forward one and at least minus the smallest reverse one. Where
    between, no exchange of packets can tell: half of the difference between the two directions of the line is in it.
    """
    if forward.minimum is None or reverse.minimum is None:
        return None
    return (forward.minimum - reverse.minimum) // 2, max(0, -(-(forward.minimum + reverse.minimum) // 2))


def clock_drift(summary: Summary) -> float | None:
    """Pace of the far end's clock against the near end's, less one (1e-5: it gains 10 us a second); None: the run is too short to say.

    From the smallest delays of each slice: the slope both directions have, one upward and one downward. What only one of them has,
    or both have alike, is the path's doing. A pace taken out of the summary's PDV is counted in.
    """
    found = drift_range(summary)
    if found is None:
        return None
    low, high = (pace - summary.clock_pace for pace in found)
    agreed = min(low, high, key=abs) if low * high > 0 else 0.0
    return agreed + summary.clock_pace


def drift_range(summary: Summary) -> tuple[float, float] | None:
    """What each direction by itself says of that pace, the smaller first: between them lies the clocks' as long as the path only slows."""
    forward = [(s.start_ns, s.forward_min_ns) for s in summary.slices if s.forward_min_ns is not None]
    reverse = [(s.start_ns, s.reverse_min_ns) for s in summary.slices if s.reverse_min_ns is not None]
    if min(len(forward), len(reverse)) < LEAST_SLICES:
        return None
    low, high = sorted((_slope(forward), -_slope(reverse)))
    return low + summary.clock_pace, high + summary.clock_pace


def _slope(points: list[Point]) -> float:
    start, lowest = points[0][0], min(delay for _, delay in points)
    found = skew([time - start for time, _ in points], [delay - lowest for _, delay in points])
    return found[0] if found else 0.0


def exchanged_ns(summary: Summary, direction: Direction) -> int:
    """By how much this direction got slower, from its smallest delay on, while the other got faster by as much: at most, 0 at least.

    That is what a clock does, be it by drift, by wander or by a step: what it adds to one direction it takes from the other. A queue
    or another route adds to one and takes nothing from the other. From the smallest delays of at most BLOCKS parts of the run, the
    steady movement inside a part made good. 0 for a run of fewer than LEAST_SLICES slices.
    """
    both = [(s.forward_min_ns, s.reverse_min_ns) for s in summary.slices]
    known = [(f, r) for f, r in both if f is not None and r is not None]
    if direction is Direction.ROUND_TRIP or len(known) < LEAST_SLICES:
        return 0
    smallest = [part.min(axis=0) for part in np.array_split(np.array(known), min(BLOCKS, len(known)))]
    own, other = np.array(smallest).T if direction is Direction.FORWARD else np.array(smallest).T[::-1]
    lowest = int(np.argmin(own))
    exchanged = int(np.minimum(own - own[lowest], other[lowest] - other).max())
    return round(exchanged * len(own) / (len(own) - 1))
