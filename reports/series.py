"""Numbers of the document made ready for a chart: elapsed time, a unit for an axis, fewer points, quantiles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log10

from linkqual.model import Direction, Histogram, Slice, StampResult
from linkqual.stats.histogram import quantile, shifted

MAX_POINTS = 240  # of a line over time
TAIL = 0.9999  # the last percentile shown


@dataclass(frozen=True, slots=True)
class Axis:
    """A unit that keeps the numbers of an axis short."""

    unit: str
    factor: float  # base units in one

    def of(self, value: float | None) -> float | None:
        """The value in this unit, rounded to what a picture can show; None stays None."""
        return None if value is None else float(f"{value / self.factor:.6g}")


_DURATIONS = (Axis("ns", 1), Axis("µs", 1e3), Axis("ms", 1e6), Axis("s", 1e9))
_TIMES = (Axis("s", 1e9), Axis("min", 60e9), Axis("h", 3600e9), Axis("d", 86400e9))
_SIZES = (Axis("B", 1), Axis("kB", 1e3), Axis("MB", 1e6), Axis("GB", 1e9))
_RATES = (Axis("bit/s", 1), Axis("kbit/s", 1e3), Axis("Mbit/s", 1e6), Axis("Gbit/s", 1e9), Axis("Tbit/s", 1e12))


def _largest(axes: Sequence[Axis], values: Iterable[float | None], least: float) -> Axis:
    top = max((abs(value) for value in values if value is not None), default=0)
    return next((axis for axis in reversed(axes) if top >= least * axis.factor), axes[0])


def duration_axis(values: Iterable[float | None]) -> Axis:
    """For delays."""
    return _largest(_DURATIONS, values, 1)


def time_axis(span_ns: float) -> Axis:
    """For the time since the start: minutes from two minutes on, hours from two hours on."""
    return _largest(_TIMES, [span_ns], 2)


def rate_axis(values: Iterable[float | None]) -> Axis:
    """For throughput."""
    return _largest(_RATES, values, 1)


def size_axis(values: Iterable[float | None]) -> Axis:
    """For bytes."""
    return _largest(_SIZES, values, 1)


def thinned(slices: Sequence[Slice], limit: int = MAX_POINTS) -> list[Slice]:
    """At most `limit` slices; joined ones keep the smallest minimum and the largest p99 and maximum, never a milder one."""
    size = -(-len(slices) // limit)
    if size <= 1:
        return list(slices)
    return [_joined(slices[at : at + size]) for at in range(0, len(slices), size)]


def _joined(part: Sequence[Slice]) -> Slice:
    medians = sorted(s.rtt_p50_ns for s in part if s.rtt_p50_ns is not None)
    return Slice(
        start_ns=part[0].start_ns,
        sent=sum(s.sent for s in part),
        lost_forward=sum(s.lost_forward for s in part),
        lost_reverse=sum(s.lost_reverse for s in part),
        lost=sum(s.lost for s in part),
        rtt_min_ns=min((s.rtt_min_ns for s in part if s.rtt_min_ns is not None), default=None),
        rtt_p50_ns=medians[len(medians) // 2] if medians else None,
        rtt_p99_ns=_most(s.rtt_p99_ns for s in part),
        rtt_max_ns=_most(s.rtt_max_ns for s in part),
        forward_pdv_p99_ns=_most(s.forward_pdv_p99_ns for s in part),
        reverse_pdv_p99_ns=_most(s.reverse_pdv_p99_ns for s in part),
    )


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def variation(stamp: StampResult, direction: Direction) -> Histogram:
    """PDV of one direction (RFC 5481): its delays above the smallest one. The clock offset cancels."""
    summary = stamp.summary
    coarse = {
        Direction.FORWARD: summary.forward_delay,
        Direction.REVERSE: summary.reverse_delay,
        Direction.ROUND_TRIP: summary.round_trip_delay,
    }[direction]
    delays = summary.variation.get(str(direction), coarse)
    return shifted(delays, -delays.minimum) if delays.minimum is not None else delays


def nines(q: float) -> float:
    """Where a quantile stands on the axis: 0 at the minimum, 1 at p90, 2 at p99, 4 at p99.99."""
    return -log10(1 - q)


def tail(histogram: Histogram, points: int = 90) -> list[tuple[float, int]]:
    """(place on the axis, value) from the minimum up to p99.99, or as far as the number of packets carries."""
    if not histogram.n:
        return []
    end = min(nines(TAIL), log10(histogram.n)) if histogram.n > 1 else 0.0
    places = [end * step / points for step in range(points + 1)]
    values = [(place, quantile(histogram, 1 - 10**-place) if place else histogram.minimum) for place in places]
    return [(place, value) for place, value in values if value is not None]
