"""Charts of what did not arrive: loss events over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from linkqual.model import Direction, LossEvent
from linkqual.reports import series
from linkqual.reports.drawing import ROWS, figure
from linkqual.reports.marks import COLOURS, Picture, layered, x_axis
from linkqual.units import format_count


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
