"""Throughput as the page tells it: every load a row, the judged one second by second, and delay with the line full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from linkqual.model import Direction, Histogram, Link, Measurement, Qualification, ThroughputResult
from linkqual.reports import charts_load, charts_tail, series
from linkqual.reports.charts_tail import Curve
from linkqual.reports.drawing import Ink
from linkqual.reports.marks import Picture
from linkqual.rules import hosts, ladder
from linkqual.rules.ladder import Figures
from linkqual.rules.loads import HIDES_LOSS
from linkqual.stats import throughput
from linkqual.stats.histogram import quantile

ONE_WAY = (Direction.FORWARD, Direction.REVERSE)


@dataclass(frozen=True, slots=True)
class Row:
    """One load in one direction, in numbers (bit/s, ns). `beside`: what else loads the line or what its sender does differently."""

    direction: Direction
    result: ThroughputResult
    judged: bool = False
    beside: str = ""  # "", "both ways at once", "bbr"
    figures: Figures | None = None  # None without a whole second

    @property
    def streams(self) -> int:
        """Of TCP, in this direction."""
        return self.result.streams

    @property
    def label(self) -> str:
        """ "4 streams, bbr"."""
        streams = f"{self.streams} stream{'s' if self.streams != 1 else ''}"
        return f"{streams}, {self.beside}" if self.beside else streams

    @property
    def short(self) -> str:
        """For the axis of a picture: "16, both at once"."""
        return f"{self.streams}{', ' if self.beside else ''}{self.beside.replace('ways ', '')}"

    @property
    def seconds(self) -> int:
        """Whole ones after the warm-up."""
        return len(self.result.receiver_bps)

    @property
    def mean(self) -> float | None:
        """Of the seconds."""
        return throughput.mean_rate(self.result.receiver_bps)

    @property
    def p5(self) -> float | None:
        """What 95 % of the seconds reach (RFC 2330)."""
        return self.figures.p5_bps if self.figures else None

    @property
    def least(self) -> float:
        """The slowest second."""
        return min(self.result.receiver_bps)

    @property
    def most(self) -> float:
        """The fastest second."""
        return max(self.result.receiver_bps)

    @property
    def allowed(self) -> float | None:
        """By the headers at the contracted rate."""
        return self.result.allowed_bps

    @property
    def busy(self) -> str:
        """The core share of an end that was nearly out of processor; "" when neither was."""
        return hosts.busy(self.result)


def rows(q: Qualification) -> list[Row]:
    """By direction: few streams before many, each direction alone before both at once, other congestion controls last."""
    found = [row for one in q.measurements for row in _rows(q.plan.link, one)]
    return sorted(found, key=lambda row: (row.direction, row.beside == "bbr", bool(row.beside), row.streams))


def _rows(link: Link, one: Measurement) -> list[Row]:
    params, control = one.step.params, one.step.params.get("congestion_control", "")
    way, at_once = one.step.direction, one.step.direction is Direction.ROUND_TRIP
    pair = ((Direction.FORWARD if at_once else way, one.throughput), (Direction.REVERSE, one.throughput_back))
    figures = {figures.direction: figures for figures in ladder.of(link, one)}
    beside = "both ways at once" if at_once else control if control in HIDES_LOSS else ""
    return [
        Row(there, result, bool(params.get("judged")), beside, figures.get(there))
        for there, result in pair
        if result is not None
    ]


def judged(found: Sequence[Row], way: Direction) -> Row | None:
    """The load a direction is judged on: that with the most streams where no step says so."""
    here = [row for row in found if row.direction is way and not row.beside and row.seconds]
    return max(here, key=lambda row: (row.judged, row.streams), default=None)


def section(q: Qualification) -> dict[str, Any]:
    """What the template throughput.html asks for."""
    found = rows(q)
    chosen = {way: row for way in ONE_WAY if (row := judged(found, way)) is not None}
    failed = [
        one for one in q.measurements if one.step.probe == "throughput" and not one.measured and not one.not_needed
    ]
    return {
        "rows": found,
        "ladder": charts_load.ladder([row for row in found if row.seconds], q.plan.objectives),
        "seconds": {way: charts_load.seconds(chosen[way], q.plan.objectives) for way in chosen},
        "legends": {way: charts_load.seconds_key(chosen[way], q.plan.objectives) for way in chosen},
        "chosen": chosen,
        "steady": [(row, row.figures) for row in chosen.values() if row.figures],
        "allowed": any(row.allowed for row in found),
        "delays": [line for row in found if (line := loaded(row)) is not None],
        "round_trip": _round_trip(chosen, q),
        "added": _added(chosen, q),
        "unmeasured": failed,
    }


# ---- delay with the line full


@dataclass(frozen=True, slots=True)
class LoadedRow:
    """What a probe stream met beside one load (ns). `added`: p50, p95, p99, max above the idle median of that direction."""

    load: Row
    idle: float | None  # median round trip just before
    round_trip: tuple[float | None, float | None]  # p50, p99
    added: tuple[float | None, ...]
    n: int
    lost: int  # in the direction of the load


def loaded(row: Row) -> LoadedRow | None:
    """None where no probe stream ran beside it."""
    beside, added = row.result.beside, row.result.added.get(str(row.direction))
    if beside is None or not beside.summary.sent:
        return None
    summary, idle = beside.summary, row.result.idle_round_trip
    p50, _, p99, _ = _spread(summary.round_trip_delay)
    lost = summary.lost_forward if row.direction is Direction.FORWARD else summary.lost_reverse
    over = _spread(added.delay) if added is not None else (None,) * 4
    return LoadedRow(row, quantile(idle, 0.5) if idle.n else None, (p50, p99), over, summary.sent, lost)


def _spread(histogram: Histogram) -> tuple[float | None, ...]:
    """p50, p95, p99, max, each as far as the number of packets carries it."""
    if not histogram.n:
        return (None,) * 4
    picked = (quantile(histogram, q) if q <= 1 - 1 / histogram.n or q == 0.5 else None for q in (0.5, 0.95, 0.99))
    return (*picked, histogram.maximum)


def _added(chosen: dict[Direction, Row], q: Qualification) -> Picture | None:
    curves = [
        charts_tail.of_way(way, row.result.added[str(way)].delay) for way, row in chosen.items() if str(way) in row.result.added
    ]  # fmt: skip
    limits = [one for one in q.plan.objectives if one.metric == "added_delay"]
    return charts_tail.tails(curves, limits, "added-delay", "Delay added by load", zero=True)


def _round_trip(chosen: dict[Direction, Row], q: Qualification) -> Picture | None:
    curves = []
    for way, row in chosen.items():
        if row.result.beside is not None:
            curve = charts_tail.of_way(way, row.result.beside.summary.round_trip_delay)
            curves.append(Curve(f"loaded {way}", curve.points, curve.ink, curve.dash))
    idle = next((row.result.idle_round_trip for row in chosen.values() if row.result.idle_round_trip.n), None)
    if idle is not None and curves:
        curves.insert(0, Curve("idle", tuple(series.tail(idle)), Ink.MUTED, (2, 2)))
    limits = [one for one in q.plan.objectives if one.metric == "loaded_round_trip_delay"]
    return charts_tail.tails(curves, limits, "loaded-rtt", "Round trip, idle and loaded", zero=True)
