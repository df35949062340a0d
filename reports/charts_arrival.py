"""Charts of what arrived: loss events over time, goodput each second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from linkqual.model import Direction, LossEvent, Measurement, Objective
from linkqual.reports import series
from linkqual.reports.drawing import ROWS, Ink, figure
from linkqual.reports.marks import COLOURS, Picture, few, layered, level, line, scale, x_axis
from linkqual.units import format_count, format_rate

# ---- loss


def loss_over_time(events: Sequence[LossEvent], way: Direction, start_ns: int, end_ns: int) -> Picture | None:
    """Every loss event of one direction as a spike as tall as the packets it took."""
    mine = [event for event in events if event.direction is way]
    if not mine:
        return None
    time = series.time_axis(end_ns - start_ns)
    rows = [{"t": time.of(event.start_ns - start_ns), "n": event.packets, "zero": 0.7} for event in mine]
    top = max(event.packets for event in mine)
    on = alt.Scale(type="log", domain=[0.7, max(10, top * 1.3)], nice=False)
    ticks = [10**power for power in range(len(str(max(10, top))))]

    def draw(width: int) -> Any:
        base = alt.Chart(ROWS).encode(
            x=x_axis("t", f"{time.unit} since start", width, [0, time.of(end_ns - start_ns) or 1]),
            y=alt.Y("n:Q", title="packets", scale=on, axis=alt.Axis(values=ticks, format=",d")),
        )
        stem = base.mark_rule(color=str(COLOURS[way]), strokeWidth=1.5).encode(y2="zero:Q")
        head = base.mark_point(color=str(COLOURS[way]), filled=True, size=26, opacity=1)
        return layered([stem, head], width, 130)

    lost = sum(event.packets for event in mine)
    words = (
        f"Loss {way} over time: {format_count(len(mine))} events, {format_count(lost)} packets, "
        f"the largest event {format_count(top)} packets."
    )
    return Picture(figure(draw, rows, f"loss-{way}", words), words)


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
    on = scale([0.0, axis.of(top)], zero=True)

    def draw(width: int) -> Any:
        layers = [
            line(
                str(r.streams),
                axis.unit,
                on,
                COLOURS[way],
                strokeWidth=2.4 if many else 1.4,
                strokeDash=[] if many else [4, 2],
                point={"color": str(COLOURS[way]), "size": 14},
            ).transform_filter(f"isValid(datum['{r.streams}'])")
            for r in results
            for many in (r is results[-1],)
        ]
        for value, words, ink in rules:
            layers += level(axis.of(value) or 0.0, f"{words} {format_rate(value)}", ink, above=ink is Ink.MUTED)
        if any(r.warmup_bps for r in results):
            zero = alt.Chart(few([{"t": 0}])).mark_rule(color=str(Ink.MUTED), strokeDash=[1, 3])
            layers.append(zero.encode(x="t:Q"))
        return layered(layers, width, 200, x_axis("t", "s after warm-up", width))

    said = [
        f"{r.streams} stream{'s' if r.streams > 1 else ''} between {format_rate(min(r.receiver_bps))} and "
        f"{format_rate(max(r.receiver_bps))}"
        for r in results
    ]
    words = f"Goodput {way} each second: {'; '.join(said)}."
    return Picture(figure(draw, rows, f"goodput-{way}", words), words)
