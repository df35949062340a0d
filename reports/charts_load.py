"""Charts of throughput: every load of the ladder as a bar, and the judged load second by second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import altair as alt

from linkqual.model import Direction, Objective
from linkqual.reports import series
from linkqual.reports.drawing import ROWS, Ink, figure
from linkqual.reports.marks import COLOURS, Picture, few, layered, line, scale, x_axis
from linkqual.units import format_rate

if TYPE_CHECKING:
    from linkqual.reports.ladder import Row

_BAR = 13  # pixels
_AXIS = 64  # pixels that an axis and its title take of a picture's height
_POINTS = 120  # seconds that are dots too


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
        return layered(layers, width, _AXIS + len(labels) * ((_BAR + 3) * len(ways) + 6))

    said = [f"{row.label} {row.direction} {format_rate(row.mean)}" for row in rows]
    words = f"Mean goodput of every load: {'; '.join(said)}."
    return Picture(figure(draw, drawn, "ladder", words), words, "drawn" if any(word == "limit" for _, word, _ in rules) else "beyond" if limits else "")  # fmt: skip


# ---- seconds


def seconds(row: Row, objectives: Sequence[Objective]) -> Picture | None:
    """Goodput of each second; the level that 95 % of them reach, their median, the limit, the longest dip. Before zero is warm-up."""
    result, way, figures = row.result, row.direction, row.figures
    if figures is None:
        return None
    limit = _limit(objectives, way)
    values, each = _slowest([*result.warmup_bps, *result.receiver_bps])
    top = max(values)
    shown = limit is not None and limit <= 4 * top
    axis = series.rate_axis([top, limit if shown else None])
    rows = [{"t": (at + 0.5) * each - len(result.warmup_bps), "v": axis.of(value)} for at, value in enumerate(values)]
    on = scale([0.0, axis.of(top), axis.of(limit) if shown else None], zero=True)
    levels = ((figures.median_bps, Ink.MUTED, [1, 2]), (figures.p5_bps, Ink.TEXT, [6, 3]), (limit if shown else None, Ink.LIMIT, [2, 3]))  # fmt: skip

    def draw(width: int) -> Any:
        layers = []
        if figures.dip:
            ends = [{"from": figures.dip.start_s, "to": figures.dip.start_s + figures.dip.seconds}]
            layers.append(
                alt.Chart(few(ends)).mark_rect(color=str(Ink.MUTED), opacity=0.2).encode(x="from:Q", x2="to:Q")
            )
        point = {"color": str(COLOURS[way]), "size": 14} if len(values) <= _POINTS else False
        layers.append(line("v", axis.unit, on, COLOURS[way], strokeWidth=1.8, point=point))
        for value, ink, dash in levels:
            if value is not None:
                base = alt.Chart(few([{"v": axis.of(value)}]))
                layers.append(base.mark_rule(color=str(ink), strokeDash=dash, strokeWidth=1.4).encode(y="v:Q"))
        if result.warmup_bps:
            zero = alt.Chart(few([{"t": 0}])).mark_rule(color=str(Ink.MUTED), strokeDash=[1, 3])
            layers.append(zero.encode(x="t:Q"))
        return layered(layers, width, 200, x_axis("t", "s after warm-up", width))

    words = (
        f"Goodput {way} of each second, {row.label}: median {format_rate(figures.median_bps)}, p5 {format_rate(figures.p5_bps)}, "
        f"between {format_rate(row.least)} and {format_rate(row.most)}."
    )
    return Picture(figure(draw, rows, f"goodput-{way}", words), words, "drawn" if shown else "beyond" if limit else "")


def _slowest(values: Sequence[float]) -> tuple[list[float], int]:
    """Seconds, or the slowest of so many neighbours: a long run shows its worst seconds and never a milder mean."""
    each = -(-len(values) // series.MAX_POINTS)
    return [min(values[at : at + each]) for at in range(0, len(values), each)], each


def seconds_key(row: Row, objectives: Sequence[Objective]) -> list[tuple[str, str]]:
    """What the lines of `seconds` are, with their values."""
    if row.figures is None:
        return []
    _, each = _slowest([*row.result.warmup_bps, *row.result.receiver_bps])
    keys = [
        (f"line {row.direction}", "goodput" if each == 1 else f"goodput, the slowest of each {each} s"),
        ("dots", f"median {format_rate(row.figures.median_bps)}"),
        ("dash ink", f"p5 {format_rate(row.figures.p5_bps)}"),
    ]
    if limit := _limit(objectives, row.direction):
        keys.append(("dots limit", f"limit {format_rate(limit)}"))
    return [*keys, ("area ink", "longest dip")] if row.figures.dip else keys


def _limit(objectives: Sequence[Objective], way: Direction) -> float | None:
    asked = (one.limit for one in objectives if one.metric == "throughput" and one.direction is way and one.limit)
    return next(asked, None)
