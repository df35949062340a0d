"""Charts of delay: round trip and jitter over time, and their distributions out to the far tail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from linkqual.model import Direction, Objective, Slice, StampResult
from linkqual.reports import charts_tail, series
from linkqual.reports.drawing import Ink, Rows, figure
from linkqual.reports.marks import COLOURS, DASHES, Picture, layered, level, line, scale, x_axis, y_axis
from linkqual.units import format_duration

# ---- delay over time


def round_trip_over_time(stamp: StampResult, limit: Objective | None) -> Picture | None:
    """Band from the smallest to p99, the median, a thin line for the largest delay of each slice."""
    slices = series.thinned(stamp.summary.slices)
    known = [s for s in slices if s.rtt_p50_ns is not None]
    if not known:
        return None
    axis = series.duration_axis([s.rtt_max_ns for s in known])
    time, rows = _over_time(slices, stamp.summary.slice_ns)
    for row, s in zip(rows, slices, strict=True):
        row |= {
            "min": axis.of(s.rtt_min_ns),
            "p50": axis.of(s.rtt_p50_ns),
            "p99": axis.of(s.rtt_p99_ns),
            "max": axis.of(s.rtt_max_ns),
        }
    ceiling = limit.limit if limit and limit.limit else None
    low, high = _least(s.rtt_min_ns for s in known), _largest(s.rtt_max_ns for s in known)
    shown = ceiling is not None and ceiling <= high + 3 * (high - low)
    on = scale([axis.of(low), axis.of(high)])

    def draw(width: int) -> Any:
        band = (
            alt.Chart().mark_area(color=str(Ink.ROUND), opacity=0.28).encode(y=y_axis("min", axis.unit, on), y2="p99:Q")
        )
        median = line("p50", axis.unit, on, Ink.ROUND)
        most = line("max", axis.unit, on, Ink.ROUND, strokeWidth=0.8, opacity=0.75)
        layers = [band, median, most]
        if shown and limit and ceiling is not None:
            layers += level(axis.of(ceiling) or 0.0, f"limit {limit.statistic} {format_duration(ceiling)}")
        return layered(layers, width, 230, x_axis("t", f"{time.unit} since start", width))

    medians = [s.rtt_p50_ns for s in known if s.rtt_p50_ns is not None]
    words = (
        f"Round trip over time in {len(slices)} slices: medians between {format_duration(min(medians))} and "
        f"{format_duration(max(medians))}, smallest {format_duration(low)}, largest {format_duration(high)}."
    )
    return Picture(figure(draw, rows, "rtt-time", words), words)


def variation_over_time(stamp: StampResult) -> Picture | None:
    """PDV p99 of each slice, both directions."""
    slices = series.thinned(stamp.summary.slices)
    ways = {
        Direction.FORWARD: [s.forward_pdv_p99_ns for s in slices],
        Direction.REVERSE: [s.reverse_pdv_p99_ns for s in slices],
    }
    tops = {way: [v for v in values if v is not None] for way, values in ways.items()}
    if not any(tops.values()):
        return None
    axis = series.duration_axis(v for values in tops.values() for v in values)
    time, rows = _over_time(slices, stamp.summary.slice_ns)
    for way, values in ways.items():
        for row, value in zip(rows, values, strict=True):
            row[str(way)] = axis.of(value)
    on = scale([axis.of(v) for top in tops.values() for v in top], zero=True)

    def draw(width: int) -> Any:
        lines = [
            line(str(way), axis.unit, on, COLOURS[way], strokeDash=DASHES[way]) for way, top in tops.items() if top
        ]
        return layered(lines, width, 170, x_axis("t", f"{time.unit} since start", width))

    said = [
        f"{way} between {format_duration(min(top))} and {format_duration(max(top))}" for way, top in tops.items() if top
    ]
    words = f"Jitter (PDV p99 of each slice) over time: {'; '.join(said)}."
    return Picture(figure(draw, rows, "pdv-time", words), words)


def _over_time(slices: Sequence[Slice], slice_ns: int) -> tuple[series.Axis, Rows]:
    start = slices[0].start_ns
    time = series.time_axis(slices[-1].start_ns - start + slice_ns)
    return time, [{"t": time.of(s.start_ns - start)} for s in slices]


def _least(values: Any) -> int:
    return min((v for v in values if v is not None), default=0)


def _largest(values: Any) -> int:
    return max((v for v in values if v is not None), default=0)


# ---- distribution


def variation_tail(stamp: StampResult, objectives: Sequence[Objective]) -> Picture | None:
    """PDV per direction from the minimum to p99.99, with the limits as marks the lines must stay under."""
    ways = [charts_tail.of_way(way, series.variation(stamp, way)) for way in (Direction.FORWARD, Direction.REVERSE)]
    return charts_tail.tails(ways, [o for o in objectives if o.metric == "pdv"], "pdv-tail", "Jitter (PDV)", zero=True)


def round_trip_tail(stamp: StampResult, objectives: Sequence[Objective]) -> Picture | None:
    """Round trip from the minimum to p99.99."""
    curves = [charts_tail.of_way(Direction.ROUND_TRIP, stamp.summary.round_trip_delay)]
    limits = [o for o in objectives if o.metric == "round_trip_delay"]
    return charts_tail.tails(curves, limits, "rtt-tail", "Round trip", zero=False)
