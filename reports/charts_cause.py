"""Charts that show why: the arrival curve of a train with its two slopes, and what each flow got."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from linkqual.model import LoadCount, Train, TrainsResult
from linkqual.reports import series
from linkqual.reports.drawing import NARROW, ROWS, Ink, figure
from linkqual.reports.marks import COLOURS, Picture, few, layered, level, line, scale, x_axis
from linkqual.session.flow_sharing import SUFFERS, Sharing
from linkqual.stats.load_rates import flow_rates, shares
from linkqual.units import NS_PER_S, format_duration, format_rate, format_size

_KNEE = 12  # times the life of the bucket are drawn
_LEAST_POINTS = 12
MOST_BARS = 32  # flows drawn one by one; of more the slowest, the fastest and those between at even steps


def clearest(result: TrainsResult) -> Train | None:
    """The train to show: of those that count the one nearest to what all of them say together, else the longest."""
    able = [one for one in result.trains if len(one.curve) > 2 and not one.void]
    alike = [one for one in able if one.rate_bps is not None and one.bucket_bytes is not None]
    if result.rate_bps is None or result.bucket_bytes is None or not alike:
        return max(able, key=lambda one: (one.steady_ns, len(one.curve)), default=None)
    rate, bucket = result.rate_bps[0], result.bucket_bytes[0]
    return min(alike, key=lambda one: abs((one.rate_bps or 0) / rate - 1) + abs((one.bucket_bytes or 0) / bucket - 1))


def arrival_curve(result: TrainsResult) -> Picture | None:
    """Bytes arrived over time: steep while the bucket lasts, then at its rate, which meets the left edge at the bucket's size."""
    train = clearest(result)
    if train is None:
        return None
    curve = _around_the_knee(result, train)
    end_ns, end_bytes = curve[-1]
    time, size = series.duration_axis([end_ns]), series.size_axis([end_bytes])
    rows = [{"t": time.of(at), "arrived": size.of(octets)} for at, octets in curve]
    rate, bucket = (one[0] if one else None for one in (result.rate_bps, result.bucket_bytes))
    ink = COLOURS[result.direction]
    on = scale([0.0, size.of(end_bytes)], zero=True)

    def draw(width: int) -> Any:
        arrived = line("arrived", size.unit, on, ink, strokeWidth=2.4)
        layers = [arrived]
        if rate and bucket is not None:
            layers.append(_slope(bucket, rate, end_ns, time, size))
            layers += _knee(bucket, rate, _spent_ns(result, train), time, size)
        return layered(layers, width, 240, x_axis("t", f"{time.unit} since the first arrival", width))

    words = (
        f"Arrivals of one {result.direction} train sent at {format_rate(train.offered_bps)}: {_said(result, train)}."
    )
    return Picture(figure(draw, rows, f"arrivals-{result.direction}", words), words)


def _slope(bucket: float, rate: float, end_ns: float, time: series.Axis, size: series.Axis) -> Any:
    ends = [(0.0, bucket), (end_ns, bucket + rate / 8 * end_ns / NS_PER_S)]
    rows = [{"t": time.of(at), "v": size.of(octets)} for at, octets in ends]
    chart = alt.Chart(few(rows)).mark_line(color=str(Ink.LIMIT), strokeDash=[6, 4], strokeWidth=1.6, clip=True)
    return chart.encode(x="t:Q", y="v:Q")


def _spent_ns(result: TrainsResult, train: Train) -> float | None:
    """When a full bucket was empty; None where that is not known."""
    if not (result.rate_bps and result.bucket_bytes) or train.offered_bps <= result.rate_bps[0]:
        return None
    return result.bucket_bytes[0] * 8 / (train.offered_bps - result.rate_bps[0]) * NS_PER_S


def _around_the_knee(result: TrainsResult, train: Train) -> tuple[tuple[int, int], ...]:
    """A long train shows its bucket only in its beginning."""
    spent = _spent_ns(result, train)
    near = tuple(point for point in train.curve if spent is None or point[0] <= _KNEE * spent)
    return near if len(near) >= _LEAST_POINTS else train.curve


def _knee(bucket: float, rate: float, spent_ns: float | None, time: series.Axis, size: series.Axis) -> list[Any]:
    """Where the two slopes meet: all of the bucket is spent there."""
    if spent_ns is None:
        return []
    at = [{"t": time.of(spent_ns), "v": size.of(bucket + rate / 8 * spent_ns / NS_PER_S), "w": "bucket empty"}]
    base = alt.Chart(few(at)).encode(x="t:Q", y="v:Q")
    point = base.mark_point(color=str(Ink.LIMIT), filled=True, size=60, opacity=1)
    return [point, base.mark_text(align="left", dx=9, dy=8, baseline="top", color=str(Ink.TEXT)).encode(text="w:N")]


def _said(result: TrainsResult, train: Train) -> str:
    parts = [f"{format_size(train.curve[-1][1])} in {format_duration(train.curve[-1][0])}"]
    if result.bucket_bytes:
        parts.append(f"{format_size(result.bucket_bytes[0])} at once")
    if result.rate_bps:
        parts.append(f"then {format_rate(result.rate_bps[0])} ({result.counts})")
    return ", ".join(parts)


# ---- flows


def rates_of_flows(count: LoadCount, sharing: Sharing) -> Picture | None:
    """One bar a flow, the slowest first; flows that share a full member of a bundle, or all are held alike, show the same height."""
    rates, arrived = flow_rates(count), shares(count)
    if len(rates) < 2 or not max(rates):
        return None
    ordered = sorted(zip(rates, arrived, strict=True))
    shown = _spread(ordered)
    axis = series.rate_axis([ordered[-1][0]])
    rows = [
        {"x": str(at + 1), "v": axis.of(rate), "k": "lost" if share < 1 - SUFFERS else "whole"}
        for at, (rate, share) in enumerate(shown)
    ]
    ink = COLOURS[count.direction]
    top = sharing.bps if sharing.kind in ("cap", "members") else None

    def draw(width: int) -> Any:
        x = alt.X("x:N", sort=None, title=f"flows, the slowest first ({len(shown)} of {len(rates)})" if len(shown) < len(rates) else "flows, the slowest first",
                  axis=alt.Axis(labels=len(shown) <= (16 if width > NARROW else 8), ticks=False, labelAngle=0))  # fmt: skip
        base = alt.Chart(ROWS).encode(x=x, y=alt.Y("v:Q", title=axis.unit, axis=alt.Axis(tickCount=5)))
        layers = [
            base.mark_bar(color=str(ink), opacity=0.85).transform_filter("datum.k == 'lost'"),
            base.mark_bar(color=str(ink), opacity=0.25, stroke=str(ink), strokeWidth=1.5).transform_filter("datum.k == 'whole'"),
        ]  # fmt: skip
        if top is not None:
            what = "a flow alone" if sharing.kind == "cap" else "a member"
            layers += level(axis.of(top) or 0.0, f"{what} {format_rate(top)}")
        return layered(layers, width, 180)

    words = (
        f"Rate of each of {len(rates)} {count.direction} flows sent alike: {format_rate(ordered[0][0])} to "
        f"{format_rate(ordered[-1][0])}; {sum(share < 1 - SUFFERS for share in arrived)} lost packets."
    )
    return Picture(figure(draw, rows, f"flows-{count.direction}", words), words)


def _spread(ordered: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    if len(ordered) <= MOST_BARS:
        return list(ordered)
    last = len(ordered) - 1
    return [ordered[round(at * last / (MOST_BARS - 1))] for at in range(MOST_BARS)]
