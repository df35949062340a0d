"""Charts of training bursts: how long each took, the distribution, and where in a burst packets were lost."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import altair as alt

from linkqual.model import BurstsResult, Direction, Objective
from linkqual.reports import charts_tail, series
from linkqual.reports.drawing import ROWS, Ink, Rows, figure
from linkqual.reports.marks import COLOURS, DASHES, Picture, few, layered, line, scale, x_axis
from linkqual.units import format_count, format_duration


def completion_over_time(results: Sequence[BurstsResult]) -> Picture | None:
    """Median and longest completion of neighbouring bursts; a cross at the top for those never complete."""
    shown = [one for one in results if any(value is not None for value in one.completions_ns)]
    if not shown:
        return None
    axis = series.duration_axis([value for one in shown for value in one.completions_ns])
    longest = max(value for one in shown for value in one.completions_ns if value is not None)
    rows: Rows = []
    never: Rows = []
    for one in shown:
        size = -(-len(one.completions_ns) // series.MAX_POINTS)
        for at in range(0, len(one.completions_ns), size):
            part = [value for value in one.completions_ns[at : at + size] if value is not None]
            place = at + size / 2
            if part:
                rows.append({"n": place, f"{one.direction}": axis.of(median(part)), f"{one.direction}-most": axis.of(max(part))})  # fmt: skip
            if len(part) < len(one.completions_ns[at : at + size]):
                never.append({"n": place, "v": axis.of(longest)})
    on = scale([0.0, axis.of(longest)], zero=True)
    ways = [one.direction for one in shown]

    def draw(width: int) -> Any:
        layers = []
        for way in ways:
            for name, thick, solid in ((f"{way}-most", 0.8, 0.75), (str(way), 2.0, 1.0)):
                mark = line(name, axis.unit, on, COLOURS[way], strokeWidth=thick, opacity=solid, strokeDash=DASHES[way] if name == str(way) else [])  # fmt: skip
                layers.append(mark.transform_filter(f"isValid(datum['{name}'])"))
        if never:
            base = alt.Chart(few(never)).encode(x="n:Q", y="v:Q")
            layers.append(base.mark_point(shape="cross", color=str(Ink.LIMIT), filled=True, size=60, opacity=1))
        return layered(layers, width, 210, x_axis("n", "burst", width))

    said = [f"{one.direction} {_said(one)}" for one in shown]
    words = f"Completion of each burst: {'; '.join(said)}."
    return Picture(figure(draw, rows, "bursts-time", words), words, "never" if never else "")


def _said(one: BurstsResult) -> str:
    known = [value for value in one.completions_ns if value is not None]
    return (
        f"{format_count(one.completed)} of {format_count(one.sent)} complete, median {format_duration(median(known))}, "
        f"longest {format_duration(max(known))}"
    )


def completion_tail(results: Sequence[BurstsResult], objectives: Sequence[Objective]) -> Picture | None:
    """Completion from the shortest out to the tail."""
    curves = [charts_tail.of_way(one.direction, one.completion) for one in results]
    limits = [one for one in objectives if one.metric == "burst_completion"]
    return charts_tail.tails(curves, limits, "bursts-tail", "Completion of a burst", zero=True)


def loss_by_position(results: Sequence[BurstsResult]) -> Picture | None:
    """Share of the first copies lost in each part of a burst; a queue too small for a burst loses its end."""
    shown = [one for one in results if sum(one.lost_by_position) and one.packets]
    if not shown:
        return None
    rows = [
        {"x": f"{(at + 1) / one.positions:.0%}", "v": lost / (one.packets / one.positions) * 100, "way": str(one.direction)}
        for one in shown
        for at, lost in enumerate(one.lost_by_position)
    ]  # fmt: skip
    ways = [str(one.direction) for one in shown]
    order = [f"{(at + 1) / shown[0].positions:.0%}" for at in range(shown[0].positions)]

    def draw(width: int) -> Any:
        labels = alt.Axis(labelAngle=0, ticks=False, values=order[3::4] or order)
        base = alt.Chart(ROWS).encode(
            x=alt.X("x:N", sort=order, title="of the burst sent before", axis=labels),
            xOffset=alt.XOffset("way:N", sort=ways),
            y=alt.Y("v:Q", title="% lost", axis=alt.Axis(tickCount=4)),
        )
        bars = [
            base.mark_bar(color=str(COLOURS[Direction(way)]), opacity=0.9 if way == "forward" else 0.5).transform_filter(f"datum.way == '{way}'")
            for way in ways
        ]  # fmt: skip
        return layered(bars, width, 150)

    said = [f"{one.direction} {format_count(one.lost)} of {format_count(one.packets)}" for one in shown]
    words = f"First copies lost by their place in the burst: {'; '.join(said)}."
    return Picture(figure(draw, rows, "bursts-loss", words), words)
