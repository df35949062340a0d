"""Distributions drawn out to the far tail: from the minimum over p50 and p99 to p99.99, a step for each nine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from linkqual.metrics import quantile as quantile_of
from linkqual.model import Direction, Histogram, Objective
from linkqual.reports import series
from linkqual.reports.drawing import NARROW, Ink, figure
from linkqual.reports.marks import COLOURS, DASHES, Picture, few, layered, line, scale
from linkqual.units import format_duration

_PLACES = (0.0, series.nines(0.5), 1.0, 2.0, 3.0, 4.0)
_PLACE_NAMES = ("min", "p50", "p90", "p99", "p99.9", "p99.99")


@dataclass(frozen=True, slots=True)
class Curve:
    """One line. `points`: (place, value in ns) as `series.tail` gives them."""

    name: str
    points: tuple[tuple[float, int], ...]
    ink: Ink
    dash: tuple[int, ...] = ()


def of_way(way: Direction, values: Histogram) -> Curve:
    """A direction in its own colour."""
    return Curve(str(way), tuple(series.tail(values)), COLOURS[way], tuple(DASHES[way]))


def tails(
    curves: Sequence[Curve], objectives: Sequence[Objective], name: str, title: str, *, zero: bool
) -> Picture | None:
    """All curves that have points over one another; limits on quantiles are marks the lines must stay under."""
    curves = [curve for curve in curves if curve.points]
    if not curves:
        return None
    top = max(curve.points[-1][1] for curve in curves)
    asked = [(series.nines(q), o) for o in objectives if o.limit and (q := quantile_of(o.statistic)) is not None]
    marks = [(x, o) for x, o in asked if o.limit is not None and o.limit <= 3 * top]
    axis = series.duration_axis([top, *(o.limit for _, o in marks)])
    rows = [{"x": round(x, 4), curve.name: axis.of(value)} for curve in curves for x, value in curve.points]
    flags = [
        {"x": x, "v": axis.of(o.limit), "w": f"limit {format_duration(o.limit)}"}
        for x, o in {(x, o.limit): (x, o) for x, o in marks}.values()
    ]
    shown = [axis.of(value) for curve in curves for _, value in curve.points]
    on = scale([*shown, *(axis.of(o.limit) for _, o in marks)], zero=zero)

    def draw(width: int) -> Any:
        x = _places(width)
        layers = [
            line(curve.name, axis.unit, on, curve.ink, strokeDash=list(curve.dash), strokeWidth=2).transform_filter(
                f"isValid(datum['{curve.name}'])"
            )
            for curve in curves
        ]
        if flags:
            base = alt.Chart(few(flags)).encode(x=x, y=alt.Y("v:Q"))
            layers.append(base.mark_tick(color=str(Ink.LIMIT), thickness=3, size=34, orient="horizontal"))
            layers.append(
                base.mark_text(color=str(Ink.LIMIT), dy=-9, align="center", baseline="bottom").encode(text="w:N")
            )
        return layered(layers, width, 230, x)

    words = f"{title}, distribution: " + "; ".join(_said(curve) for curve in curves) + "."
    return Picture(figure(draw, rows, name, words), words, "drawn" if marks else "beyond" if asked else "")


def _places(width: int) -> Any:
    places = [p for p in _PLACES if width > NARROW or p != _PLACES[0]]
    labels = " : ".join(
        f"datum.value == {place:.6g} ? '{label}'" for place, label in zip(_PLACES, _PLACE_NAMES, strict=True)
    )
    return alt.X(
        "x:Q",
        title=None,
        scale=alt.Scale(domain=[0, 4], nice=False),
        axis=alt.Axis(values=[float(f"{p:.6g}") for p in places], labelExpr=f"{labels} : ''", grid=True),
    )


def _said(curve: Curve) -> str:
    parts = []
    for place, label in zip(_PLACES, _PLACE_NAMES, strict=True):
        if place <= curve.points[-1][0] + 1e-9:
            nearest = min(curve.points, key=lambda point: abs(point[0] - place))
            parts.append(f"{label} {format_duration(nearest[1])}")
    return f"{curve.name} {', '.join(parts)}"
