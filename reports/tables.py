"""Rows of the page's tables, taken from the document: delays, red lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from linkqual.metrics import METRICS
from linkqual.model import Conditions, Direction, Objective, StampResult
from linkqual.reports import series, timekeeping, wording
from linkqual.rules import clocks
from linkqual.stats.histogram import mean, quantile
from linkqual.units import format_duration

QUANTILES = (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999))
ONE_WAY = (Direction.FORWARD, Direction.REVERSE)

# ---- delay


@dataclass(frozen=True, slots=True)
class DelayRow:
    """One line of the table of delays. `why_not`: why the row has no numbers."""

    title: str
    definition: str
    values: tuple[float | None, ...] = ()  # min, mean, p50, p99, p99.9, p99.99, max in ns
    n: int = 0
    why_not: str = ""


def delays(stamp: StampResult, state: Conditions) -> list[DelayRow]:
    """Round trip, one-way delay where the clocks allow it, and every kind of jitter beside its definition."""
    summary = stamp.summary
    rows = [_delay_row("round trip", METRICS["round_trip_delay"].definition, summary.round_trip_delay)]
    error, why = clocks.bound_ns(summary, state)
    bound = "one clock for both ends" if state.same_clock else f"± {format_duration(error)} of clock error"
    cut = timekeeping.parts(summary)
    for way in ONE_WAY:
        for part in cut:
            title = f"one-way delay {wording.ARROWS[way]} {way}" + (f", {part.span}" if part.span else "")
            histogram = part.forward if way is Direction.FORWARD else part.reverse
            if error is None:
                rows.append(DelayRow(title, "", why_not=why))
            else:
                rows.append(_delay_row(title, f"RFC 7679; {bound}", histogram))
    counted = "this run" if len(cut) == 1 else "its part of the run, cut where a clock was set"
    for way in ONE_WAY:
        title = f"jitter (PDV) {wording.ARROWS[way]} {way}"
        rows.append(_delay_row(title, f"RFC 5481: above the smallest delay of {counted}", series.variation(stamp, way)))
    for way in ONE_WAY:
        if str(way) in summary.ipdv:
            title = f"jitter (IPDV) {wording.ARROWS[way]} {way}"
            rows.append(_delay_row(title, "RFC 3393: between neighbouring packets", summary.ipdv[str(way)]))
    rows.append(_delay_row("inside the far end", "T3 − T2, taken out of the round trip", summary.residence))
    return rows


def _delay_row(title: str, definition: str, histogram: Any) -> DelayRow:
    if not histogram.n:
        return DelayRow(title, definition, why_not="no packet with both stamps")
    picked = (
        quantile(histogram, q) if q <= 1 - 1 / histogram.n or q == 0.5 else None  # beyond the sample: no number
        for _, q in QUANTILES
    )
    values = (histogram.minimum, mean(histogram), *picked, histogram.maximum)
    return DelayRow(title, definition, values, histogram.n)


# ---- profile


def grouped(objectives: Sequence[Objective]) -> list[tuple[Objective, tuple[Direction, ...]]]:
    """Red lines that differ in nothing but their direction, once, with all their directions."""
    groups: dict[Objective, list[Direction]] = {}
    for objective in objectives:
        groups.setdefault(replace(objective, direction=Direction.ROUND_TRIP), []).append(objective.direction)
    return [(objective, tuple(ways)) for objective, ways in groups.items()]
