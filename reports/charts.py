"""The charts, as altair specifications. Each function gives the SVGs and a sentence that says what they show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
from linkqual.reports import series
from linkqual.reports.drawing import NARROW, Ink, figure
from linkqual.reports.wording import number
from markupsafe import Markup

from linkqual.metrics import quantile as quantile_of
from linkqual.model import Direction, LossEvent, Measurement, Objective, Slice, StampResult
from linkqual.units import format_count, format_duration, format_rate

COLOURS = {Direction.FORWARD: Ink.FORWARD, Direction.REVERSE: Ink.REVERSE, Direction.ROUND_TRIP: Ink.ROUND}
DASHES: dict[Direction, list[int]] = {Direction.FORWARD: [], Direction.REVERSE: [7, 3], Direction.ROUND_TRIP: []}
_PLACES = (0.0, series.nines(0.5), 1.0, 2.0, 3.0, 4.0)
_PLACE_NAMES = ("min", "p50", "p90", "p99", "p99.9", "p99.99")


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart ready for the page."""

    svg: Markup
    alternative: str  # what a reader who cannot see it is told


def _rows(rows: list[dict[str, Any]]) -> Any:
    return alt.Data(values=rows)


def _x(field: str, title: str, width: int, domain: Sequence[float] | None = None) -> Any:
    scale = alt.Scale(domain=list(domain), nice=False) if domain else alt.Scale(nice=False)
    return alt.X(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(tickCount=4 if width <= NARROW else 9))


def _y(field: str, title: str, scale: Any) -> Any:
    return alt.Y(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(tickCount=5))


def _line(field: str, title: str, scale: Any, ink: Ink, **mark: Any) -> Any:
    style = {"strokeWidth": 1.6, "strokeJoin": "round"} | mark
    return alt.Chart().mark_line(color=str(ink), **style).encode(y=_y(field, title, scale))


def _rule(value: float, words: str, ink: Ink = Ink.LIMIT, *, above: bool = True) -> Any:
    """A level line with its words at the right end."""
    rule = alt.Chart(_rows([{"v": value, "w": words}])).encode(y=alt.Y("v:Q"))
    line = rule.mark_rule(color=str(ink), strokeDash=[2, 3], strokeWidth=1.5)
    side: dict[str, Any] = {"baseline": "bottom", "dy": -3} if above else {"baseline": "top", "dy": 4}
    text = rule.mark_text(align="right", color=str(ink), **side)
    return line + text.encode(x=alt.value(alt.ExprRef("width")), text="w:N")


def _sized(chart: Any, width: int, height: int) -> Any:
    return chart.properties(width=width, height=height)


# ---- delay over time


def round_trip_over_time(stamp: StampResult, limit: Objective | None) -> Picture | None:
    """Band from the smallest to p99, the median, and dots for the largest delay of each slice."""
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
    scale = alt.Scale(zero=False, nice=True)

    def draw(width: int) -> Any:
        band = (
            alt.Chart().mark_area(color=str(Ink.ROUND), opacity=0.28).encode(y=_y("min", axis.unit, scale), y2="p99:Q")
        )
        median = _line("p50", axis.unit, scale, Ink.ROUND)
        most = _line("max", axis.unit, scale, Ink.ROUND, strokeWidth=0.8, opacity=0.75)
        chart = alt.layer(band, median, most, data=_rows(rows)).encode(x=_x("t", f"{time.unit} since start", width))
        if shown and limit and ceiling is not None:
            words = f"limit {limit.statistic} {number(ceiling, 'ns')}"
            chart += _rule(axis.of(ceiling) or 0.0, words)
        return _sized(chart, width, 230)

    medians = [s.rtt_p50_ns for s in known if s.rtt_p50_ns is not None]
    words = (
        f"Round trip over time in {len(slices)} slices: medians between {format_duration(min(medians))} and "
        f"{format_duration(max(medians))}, smallest {format_duration(low)}, largest {format_duration(high)}."
    )
    return Picture(figure(draw, "rtt-time", words), words)


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
    scale = alt.Scale(zero=True)

    def draw(width: int) -> Any:
        lines = [
            _line(str(way), axis.unit, scale, COLOURS[way], strokeDash=DASHES[way]) for way, top in tops.items() if top
        ]
        chart = alt.layer(*lines, data=_rows(rows)).encode(x=_x("t", f"{time.unit} since start", width))
        return _sized(chart, width, 170)

    said = [
        f"{way} between {format_duration(min(top))} and {format_duration(max(top))}" for way, top in tops.items() if top
    ]
    words = f"Jitter (PDV p99 of each slice) over time: {'; '.join(said)}."
    return Picture(figure(draw, "pdv-time", words), words)


def _over_time(slices: Sequence[Slice], slice_ns: int) -> tuple[series.Axis, list[dict[str, Any]]]:
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
    ways = {way: series.tail(series.variation(stamp, way)) for way in (Direction.FORWARD, Direction.REVERSE)}
    return _tails(ways, [o for o in objectives if o.metric == "pdv"], "pdv-tail", "Jitter (PDV)", zero=True)


def round_trip_tail(stamp: StampResult, objectives: Sequence[Objective]) -> Picture | None:
    """Round trip from the minimum to p99.99."""
    ways = {Direction.ROUND_TRIP: series.tail(stamp.summary.round_trip_delay)}
    limits = [o for o in objectives if o.metric == "round_trip_delay"]
    return _tails(ways, limits, "rtt-tail", "Round trip", zero=False)


def _tails(
    ways: dict[Direction, list[tuple[float, int]]], objectives: list[Objective], name: str, title: str, *, zero: bool
) -> Picture | None:
    ways = {way: points for way, points in ways.items() if points}
    if not ways:
        return None
    top = max(points[-1][1] for points in ways.values())
    marks = [
        (series.nines(q), o)
        for o in objectives
        if o.limit is not None and (q := quantile_of(o.statistic)) is not None and o.limit <= 3 * top
    ]
    axis = series.duration_axis([top, *(o.limit for _, o in marks)])
    rows = [{"x": round(x, 4), str(way): axis.of(value)} for way, points in ways.items() for x, value in points]
    flags = [
        {"x": x, "v": axis.of(o.limit), "w": f"limit {number(o.limit, 'ns')}"}
        for x, o in {(x, o.limit): (x, o) for x, o in marks}.values()
    ]
    scale = alt.Scale(zero=zero, nice=True)
    labels = " : ".join(
        f"datum.value == {place:.6g} ? '{label}'" for place, label in zip(_PLACES, _PLACE_NAMES, strict=True)
    )

    def draw(width: int) -> Any:
        places = [p for p in _PLACES if width > NARROW or p != _PLACES[0]]
        x = alt.X(
            "x:Q",
            title=None,
            scale=alt.Scale(domain=[0, 4], nice=False),
            axis=alt.Axis(values=[float(f"{p:.6g}") for p in places], labelExpr=f"{labels} : ''", grid=True),
        )
        lines = [_line(str(way), axis.unit, scale, COLOURS[way], strokeDash=DASHES[way], strokeWidth=2) for way in ways]
        chart = alt.layer(
            *(line.transform_filter(f"isValid(datum['{way}'])") for line, way in zip(lines, ways, strict=True)),
            data=_rows(rows),
        ).encode(x=x)
        if flags:
            base = alt.Chart(_rows(flags)).encode(x=x, y=alt.Y("v:Q"))
            tick = base.mark_tick(color=str(Ink.LIMIT), thickness=3, size=34, orient="horizontal")
            text = base.mark_text(color=str(Ink.LIMIT), dy=-9, align="center", baseline="bottom").encode(text="w:N")
            chart = chart + tick + text
        return _sized(chart, width, 230)

    words = f"{title}, distribution: " + "; ".join(_said(way, points) for way, points in ways.items()) + "."
    return Picture(figure(draw, name, words), words)


def _said(way: Direction, points: list[tuple[float, int]]) -> str:
    parts = []
    for place, label in zip(_PLACES, _PLACE_NAMES, strict=True):
        if place <= points[-1][0] + 1e-9:
            nearest = min(points, key=lambda point: abs(point[0] - place))
            parts.append(f"{label} {format_duration(nearest[1])}")
    return f"{way} {', '.join(parts)}"


# ---- loss


def loss_over_time(events: Sequence[LossEvent], way: Direction, start_ns: int, end_ns: int) -> Picture | None:
    """Every loss event of one direction as a spike as tall as the packets it took."""
    mine = [event for event in events if event.direction is way]
    if not mine:
        return None
    time = series.time_axis(end_ns - start_ns)
    rows = [{"t": time.of(event.start_ns - start_ns), "n": event.packets, "zero": 0.7} for event in mine]
    top = max(event.packets for event in mine)
    scale = alt.Scale(type="log", domain=[0.7, max(10, top * 1.3)], nice=False)
    ticks = [10**power for power in range(len(str(max(10, top))))]

    def draw(width: int) -> Any:
        base = alt.Chart(_rows(rows)).encode(
            x=_x("t", f"{time.unit} since start", width, [0, time.of(end_ns - start_ns) or 1]),
            y=alt.Y("n:Q", title="packets", scale=scale, axis=alt.Axis(values=ticks, format=",d")),
        )
        stem = base.mark_rule(color=str(COLOURS[way]), strokeWidth=1.5).encode(y2="zero:Q")
        head = base.mark_point(color=str(COLOURS[way]), filled=True, size=26, opacity=1)
        return _sized(stem + head, width, 130)

    lost = sum(event.packets for event in mine)
    words = (
        f"Loss {way} over time: {format_count(len(mine))} events, {format_count(lost)} packets, "
        f"the largest event {format_count(top)} packets."
    )
    return Picture(figure(draw, f"loss-{way}", words), words)


# ---- throughput


def throughput_over_time(
    measurements: Sequence[Measurement], way: Direction, objectives: Sequence[Objective]
) -> Picture | None:
    """Goodput a second, one line a number of streams; seconds before zero are warm-up."""
    results = [m.throughput for m in measurements if m.throughput and m.step.direction is way]
    results = sorted((r for r in results if r.receiver_bps), key=lambda r: r.streams)
    if not results:
        return None
    limit = next(
        (o for o in objectives if o.metric == "throughput" and o.direction is way and o.limit is not None), None
    )
    allowed = next((r.allowed_bps for r in results if r.allowed_bps), None)
    top = max(v for r in results for v in (*r.receiver_bps, *r.warmup_bps))
    rules = [(allowed, "headers allow", Ink.MUTED)] if allowed and allowed <= 4 * top else []
    if limit and limit.limit and limit.limit <= 4 * top:
        rules.append((limit.limit, "limit", Ink.LIMIT))
    axis = series.rate_axis([top, *(value for value, _, _ in rules)])
    rows = [
        {"t": second - len(r.warmup_bps) + 0.5, str(r.streams): axis.of(value)}
        for r in results
        for second, value in enumerate((*r.warmup_bps, *r.receiver_bps))
    ]
    scale = alt.Scale(zero=True, nice=True)

    def draw(width: int) -> Any:
        lines = [
            _line(
                str(r.streams),
                axis.unit,
                scale,
                COLOURS[way],
                strokeWidth=2.4 if many else 1.4,
                strokeDash=[] if many else [4, 2],
                point={"color": str(COLOURS[way]), "size": 14},
            ).transform_filter(f"isValid(datum['{r.streams}'])")
            for r in results
            for many in (r is results[-1],)
        ]
        chart = alt.layer(*lines, data=_rows(rows)).encode(x=_x("t", "s after warm-up", width))
        for value, words, ink in rules:
            chart += _rule(axis.of(value) or 0.0, f"{words} {format_rate(value)}", ink, above=ink is Ink.MUTED)
        if any(r.warmup_bps for r in results):
            zero = alt.Chart(_rows([{"t": 0}])).mark_rule(color=str(Ink.MUTED), strokeDash=[1, 3])
            chart += zero.encode(x="t:Q")
        return _sized(chart, width, 200)

    said = [
        f"{r.streams} stream{'s' if r.streams > 1 else ''} between {format_rate(min(r.receiver_bps))} and "
        f"{format_rate(max(r.receiver_bps))}"
        for r in results
    ]
    words = f"Goodput {way} each second: {'; '.join(said)}."
    return Picture(figure(draw, f"goodput-{way}", words), words)
