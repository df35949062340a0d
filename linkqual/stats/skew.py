"""How fast two clocks drift apart, from one-way delays alone.

A difference in pace makes one-way delays rise in one direction and fall in the other while the round trip stays. Delay only ever adds
to the smallest one, so the drift is the slope of the line *under* all points that comes closest to them (Moon, Skelly and Towsley
1999); a line through their middle (least squares) would follow the queues instead. Floor 1, pure.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from linkqual.model import Summary

LEAST_SLICES = 10
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


def clock_drift(summary: Summary) -> float | None:
    """Pace of the far end's clock against the near end's, less one (1e-5: it gains 10 us a second); None: the run is too short to say.

    From the smallest delays of each slice. Half the difference of both directions' slopes: what they share is the path's doing.
    """
    forward = [(s.start_ns, s.forward_min_ns) for s in summary.slices if s.forward_min_ns is not None]
    reverse = [(s.start_ns, s.reverse_min_ns) for s in summary.slices if s.reverse_min_ns is not None]
    if min(len(forward), len(reverse)) < LEAST_SLICES:
        return None
    slopes = [_slope(points) for points in (forward, reverse)]
    return (slopes[0] - slopes[1]) / 2


def _slope(points: list[Point]) -> float:
    start, lowest = points[0][0], min(delay for _, delay in points)
    found = skew([time - start for time, _ in points], [delay - lowest for _, delay in points])
    return found[0] if found else 0.0


def drifted_ns(summary: Summary) -> int | None:
    """How far the clocks moved against each other during the run: what the drift adds to PDV at most. None: not known."""
    drift = clock_drift(summary)
    if drift is None or summary.first_sent_ns is None or summary.last_sent_ns is None:
        return None
    return round(abs(drift) * (summary.last_sent_ns - summary.first_sent_ns))
