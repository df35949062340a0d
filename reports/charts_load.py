"""Charts of throughput: every load of the ladder as a bar, and the judged load second by second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import altair as alt

from linkqual.model import Direction, Objective, ThroughputResult
from linkqual.reports import series
from linkqual.reports.drawing import ROWS, Ink, figure
from linkqual.reports.marks import COLOURS, Picture, few, layered, line, scale, x_axis
from linkqual.stats import throughput
from linkqual.units import format_rate

if TYPE_CHECKING:
    from linkqual.reports.ladder import Row

_BAR = 13  # pixels


# ---- the ladder


def ladder(rows: Sequence[Row], objectives: Sequence[Objective]) -> Picture | None:
    """Mean goodput of every load, forward above reverse; a notch where 95 % of the seconds lie above, a rule at the limit."""
    if not rows:
        return None
    labels = list(dict.fromkeys(row.short for row in rows))
    limits = {one.limit for one in objectives if one.metric == "throughput" and one.limit is not None}
    allowed = {row.allowed for row in rows if row.allowed}
    top = max(row.mean or 0.0 for row in rows)
    ceiling = max([top, *(value for value in (*limits, *allowed) if value <= 4 * top)])
    axis = series.rate_axis([ceiling])
    drawn = [
        {"load": row.short, "way": str(row.direction), "v": axis.of(row.mean), "p5": axis.of(row.p5), "w": format_rate(row.mean)}
        for row in rows
    ]  # fmt: skip
    rules = [(value, "limit", Ink.LIMIT) for value in limits if value <= 4 * top]
    rules += [(value, "headers allow", Ink.MUTED) for value in allowed if value <= 4 * top]
    ways = [str(way) for way in (Direction.FORWARD, Direction.REVERSE) if any(row.direction is way for row in rows)]

    def draw(width: int) -> Any:
        x = alt.X("v:Q", title=axis.unit, scale=alt.Scale(domain=[0, axis.of(ceiling * 1.02)], nice=False), axis=alt.Axis(grid=True, tickCount=5))  # fmt: skip
        upright = alt.Axis(grid=False, titleY=-6, titleAnchor="start", titleAlign="right")
        y = alt.Y("load:N", sort=labels, title="streams", axis=upright)
        base = alt.Chart(ROWS).encode(y=y, yOffset=alt.YOffset("way:N", sort=ways, scale=alt.Scale(paddingInner=0.1)))
        layers = [
            base.mark_bar(color=str(COLOURS[Direction(way)]), opacity=0.85 if way == "forward" else 0.45, size=_BAR)
            .encode(x=x)
            .transform_filter(f"datum.way == '{way}'")
            for way in ways
        ]
        layers.append(base.mark_tick(color=str(Ink.TEXT), thickness=2, size=_BAR).encode(x="p5:Q"))
        for value, _, ink in rules:
            rule = alt.Chart(few([{"v": axis.of(value)}])).mark_rule(color=str(ink), strokeDash=[2, 3], strokeWidth=1.5)
            layers.append(rule.encode(x="v:Q"))
        return layered(layers, width, len(labels) * (_BAR + 3) * len(ways) + 14 * len(labels))

    said = [f"{row.label} {row.direction} {format_rate(row.mean)}" for row in rows]
    words = f"Mean goodput of every load: {'; '.join(said)}."
    return Picture(figure(draw, drawn, "ladder", words), words, "drawn" if any(word == "limit" for _, word, _ in rules) else "beyond" if limits else "")  # fmt: skip


# ---- seconds


def seconds(result: ThroughputResult, way: Direction, objectives: Sequence[Objective]) -> Picture | None:
    """Goodput of each second; the level that 95 % of them reach, their median, the limit. Seconds before zero are warm-up."""
    if not result.receiver_bps:
        return None
    limit = _limit(objectives, way)
    values = (*result.warmup_bps, *result.receiver_bps)
    top = max(values)
    p5 = throughput.seconds_quantile(result.receiver_bps, 0.05) or 0.0
    median = throughput.seconds_quantile(result.receiver_bps, 0.5) or 0.0
    shown = limit is not None and limit <= 4 * top
    axis = series.rate_axis([top, limit if shown else None])
    rows = [{"t": at - len(result.warmup_bps) + 0.5, "v": axis.of(value)} for at, value in enumerate(values)]
    on = scale([0.0, axis.of(top), axis.of(limit) if shown else None], zero=True)

    def draw(width: int) -> Any:
        point = {"color": str(COLOURS[way]), "size": 14}
        layers = [line("v", axis.unit, on, COLOURS[way], strokeWidth=1.8, point=point)]
        for value, ink, dash in (
            (median, Ink.MUTED, [1, 2]),
            (p5, Ink.TEXT, [6, 3]),
            (limit if shown else None, Ink.LIMIT, [2, 3]),
        ):
            if value is not None:
                rule = alt.Chart(few([{"v": axis.of(value)}])).mark_rule(
                    color=str(ink), strokeDash=dash, strokeWidth=1.4
                )
                layers.append(rule.encode(y="v:Q"))
        if result.warmup_bps:
            zero = alt.Chart(few([{"t": 0}])).mark_rule(color=str(Ink.MUTED), strokeDash=[1, 3])
            layers.append(zero.encode(x="t:Q"))
        return layered(layers, width, 200, x_axis("t", "s after warm-up", width))

    words = (
        f"Goodput {way} of each second with {result.streams} streams: median {format_rate(median)}, p5 {format_rate(p5)}, "
        f"between {format_rate(min(result.receiver_bps))} and {format_rate(max(result.receiver_bps))}."
    )
    return Picture(figure(draw, rows, f"goodput-{way}", words), words, "drawn" if shown else "beyond" if limit else "")


def seconds_key(result: ThroughputResult, way: Direction, objectives: Sequence[Objective]) -> list[tuple[str, str]]:
    """What the lines of `seconds` are, with their values."""
    p5, median = (throughput.seconds_quantile(result.receiver_bps, q) for q in (0.05, 0.5))
    keys = [
        (f"line {way}", "goodput"),
        ("dots", f"median {format_rate(median)}"),
        ("dash ink", f"p5 {format_rate(p5)}"),
    ]
    limit = _limit(objectives, way)
    return [*keys, ("dots limit", f"limit {format_rate(limit)}")] if limit else keys


def _limit(objectives: Sequence[Objective], way: Direction) -> float | None:
    return next(
        (one.limit for one in objectives if one.metric == "throughput" and one.direction is way and one.limit), None
    )
