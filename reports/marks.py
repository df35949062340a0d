"""The pieces every chart is built of: axes, lines, level rules, colours of the directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
from markupsafe import Markup

from linkqual.model import Direction
from linkqual.reports.drawing import NARROW, ROWS, Ink, Rows

COLOURS = {Direction.FORWARD: Ink.FORWARD, Direction.REVERSE: Ink.REVERSE, Direction.ROUND_TRIP: Ink.ROUND}
DASHES: dict[Direction, list[int]] = {Direction.FORWARD: [], Direction.REVERSE: [7, 3], Direction.ROUND_TRIP: []}


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart ready for the page."""

    svg: Markup
    alternative: str  # what a reader who cannot see it is told
    limit: str = ""  # "drawn", "beyond" (so far off that it would flatten the picture), "" (none given)


def few(rows: Rows) -> Any:
    """Data of a layer of its own."""
    return alt.Data(values=rows)


def x_axis(field: str, title: str, width: int, domain: Sequence[float] | None = None) -> Any:
    """A level axis of numbers, with fewer ticks on a phone."""
    on = alt.Scale(domain=list(domain), nice=False) if domain else alt.Scale(nice=False)
    return alt.X(f"{field}:Q", title=title, scale=on, axis=alt.Axis(tickCount=4 if width <= NARROW else 9))


def y_axis(field: str, title: str, on: Any) -> Any:
    """An upright axis; its title (the unit) stands above it."""
    return alt.Y(f"{field}:Q", title=title, scale=on, axis=alt.Axis(tickCount=5))


def scale(values: Sequence[float | None], *, zero: bool = False) -> Any:
    """From zero or from the least value; a flat line gets room of its own instead of an axis without numbers."""
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    if low < high or (zero and high > 0):
        return alt.Scale(zero=zero, nice=True)
    if high == 0:
        return alt.Scale(domain=[0, 1])
    return alt.Scale(domain=[0.9 * high, 1.1 * high], nice=True)


def line(field: str, title: str, on: Any, ink: Ink, **mark: Any) -> Any:
    """A line of one field of the rows, broken where it has no value."""
    style = {"strokeWidth": 1.6, "strokeJoin": "round"} | mark
    return alt.Chart().mark_line(color=str(ink), **style).encode(y=y_axis(field, title, on))


def level(value: float, words: str, ink: Ink = Ink.LIMIT, *, above: bool = True) -> list[Any]:
    """A level line with its words at the right end."""
    base = alt.Chart(few([{"v": value, "w": words}])).encode(y=alt.Y("v:Q"))
    side: dict[str, Any] = {"baseline": "bottom", "dy": -3} if above else {"baseline": "top", "dy": 4}
    text = base.mark_text(align="right", color=str(ink), **side)
    return [
        base.mark_rule(color=str(ink), strokeDash=[2, 3], strokeWidth=1.5),
        text.encode(x=alt.value(alt.ExprRef("width")), text="w:N"),
    ]


def layered(layers: Sequence[Any], width: int, height: int, x: Any = None) -> Any:
    """All layers over one another. `x` belongs to those that draw the rows of the chart, and to no other."""
    shared = [layer.encode(x=x) if x is not None and layer.data is alt.Undefined else layer for layer in layers]
    return alt.layer(*shared, data=ROWS).properties(width=width, height=height)
