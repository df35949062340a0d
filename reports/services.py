"""Services and the throughput search as the page tells them: a table for each service, one for the search."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from linkqual.metrics import METRICS
from linkqual.model import (
    SEVERITY,
    Direction,
    Finding,
    FoundRate,
    Histogram,
    Outcome,
    Qualification,
    SearchResult,
    Service,
    family_size,
)
from linkqual.profile.agreed import criterion
from linkqual.rules import search, services
from linkqual.rules.service_checks import Load
from linkqual.session.activation import PERFORMANCE
from linkqual.stats import query
from linkqual.stats.histogram import mean, quantile
from linkqual.stats.throughput import OVERHEAD_BYTES
from linkqual.units import format_count, format_duration, format_rate, format_ratio, format_value

COLUMNS = {  # of a service's table: metric -> head
    "information_rate": "IR",
    "frame_loss_ratio": "FLR",
    "frame_transfer_delay": "FTD",
    "frame_delay_variation": "FDV",
    "service_availability": "AVAIL",
}
_COUNTS = {"l1": "preamble and gap counted", "l2": "frames with FCS counted", "l3": "IP packets counted"}
_Judged = dict[tuple[str, Direction, str, str], Finding]  # by metric, direction, service, title of the load


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure of one load, and what was said of it; None: it was not judged."""

    head: str
    value: str
    beneath: str = ""
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One load of a service. `offered`, `rate` (what arrived): bit/s as the service counts them, its stream included."""

    direction: Direction
    title: str
    offered: float | None  # None: nobody knows for how long it was sent
    rate: float
    frames: int
    lost: int
    length_ns: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """One service: what is ordered, what is accepted, and every load of it."""

    service: Service
    ordered: str
    accepted: str
    heads: tuple[str, ...]
    rows: tuple[Row, ...]


def section(q: Qualification) -> dict[str, Any]:
    """What the template services.html asks for."""
    return {"tables": tables(q), "search": searched(q)}


def tables(q: Qualification) -> list[Table]:
    """In the order the services were tested."""
    every = services.loads(q.measurements, q.plan.link)
    judged = _judged(q)
    found = []
    for name in dict.fromkeys(load.service.name for load in every):
        mine = [load for load in every if load.service.name == name]
        rows = tuple(_row(load, judged) for load in mine)
        heads = tuple(dict.fromkeys(cell.head for row in rows for cell in row.cells))
        found.append(Table(mine[0].service, _ordered(mine[0].service), _accepted(mine[0].service, q), heads, rows))
    return found


def _judged(q: Qualification) -> _Judged:
    family = family_size(q.plan.objectives)
    return {
        (objective.metric, load.step.direction, load.service.name, load.title): finding
        for objective in q.plan.objectives
        if METRICS[objective.metric].probe == "services"
        for load, finding in services.of_loads(objective, q.measurements, family, q.plan.link)
    }


def _row(load: Load, judged: _Judged) -> Row:
    count = load.step.count
    cells = (_rate(load), _loss(load), _delay(load), _variation(load), *_availability(load, judged))
    marked = tuple(_marked(cell, load, judged) for cell in cells)
    return Row(
        direction=load.step.direction,
        title=load.title.partition(", ")[2] + (", cut short" if services.cut_short(load.step) else ""),
        offered=load.offered_bps if count.sent_ns else None,
        rate=load.ir_bps,
        frames=count.sent,
        lost=count.lost,
        length_ns=count.sent_ns or count.received_ns,
        cells=marked,
    )


def _marked(cell: Cell, load: Load, judged: _Judged) -> Cell:
    """With the outcome of the objective behind its column; an overshoot is judged by the policing alone."""
    metrics = [metric for metric, head in COLUMNS.items() if head == cell.head]
    metrics += ["policing"] if cell.head == "IR" else []
    there = [
        found for one in metrics if (found := judged.get((one, load.step.direction, load.service.name, load.title)))
    ]
    said = [one.outcome for one in there if one.outcome is not Outcome.NOT_JUDGED]
    worst = max(said, key=SEVERITY.index, default=None)
    return Cell(cell.head, cell.value, cell.beneath, worst)


def _rate(load: Load) -> Cell:
    return Cell("IR", format_rate(load.ir_bps), f"{format_ratio(load.ir_bps / load.cir_bps)} of the CIR")


def _loss(load: Load) -> Cell:
    count = load.step.count
    ratio = count.lost / count.sent if count.sent else None
    host = f", {format_count(count.host_lost)} by the receiving host" if count.host_lost else ""
    return Cell("FLR", format_ratio(ratio), f"{format_count(count.lost)} lost{host}")


def _delay(load: Load) -> Cell:
    found = _histogram(load, "one_way_delay")
    if found is None:
        return Cell("FTD", "—")
    if not load.measurement.conditions.same_clock and load.measurement.conditions.clock_error_ns is None:
        return Cell("FTD", "—", "offset of the clocks not known")
    return Cell("FTD", f"p99 {format_duration(quantile(found, 0.99))}", _span(found))


def _variation(load: Load) -> Cell:
    found = _histogram(load, "pdv")
    return (
        Cell("FDV", "—")
        if found is None
        else Cell("FDV", f"p99 {format_duration(quantile(found, 0.99))}", _span(found))
    )


def _histogram(load: Load, metric: str) -> Histogram | None:
    return query.distribution(load.beside.summary, metric, load.step.direction) if load.beside is not None else None


def _span(found: Histogram) -> str:
    return f"{format_duration(found.minimum)} – {format_duration(found.maximum)}, mean {format_duration(mean(found))}"


def _availability(load: Load, judged: _Judged) -> Iterable[Cell]:
    if load.step.kind != PERFORMANCE:
        return
    found = judged.get(("service_availability", load.step.direction, load.service.name, load.title))
    value = found.estimate.value if found is not None and found.estimate is not None else None
    yield Cell("AVAIL", format_ratio(value), f"of {format_duration(load.step.count.sent_ns)}")


# ---- in words


def _ordered(service: Service) -> str:
    """ "CIR 14 Mbit/s (reverse 7 Mbit/s), EIR 4 Mbit/s, frames with FCS counted; frames of 64 and 1518 octets as 3:1, DSCP 26"."""
    back = service.cir_reverse_bps
    rate = f"CIR {format_rate(service.cir_bps)}{f' (reverse {format_rate(back)})' if back is not None else ''}"
    excess = f", EIR {format_rate(service.eir_bps)}" if service.eir_bps else ""
    sizes = [format_count(size + OVERHEAD_BYTES["l2"]) for size, _ in service.sizes]
    frames = f"{', '.join(sizes[:-1])} and {sizes[-1]}" if len(sizes) > 1 else sizes[0] if sizes else "full size"
    weights = {weight for _, weight in service.sizes}
    mixed = f" as {':'.join(str(weight) for _, weight in service.sizes)}" if len(weights) > 1 else ""
    return f"{rate}{excess}, {_COUNTS[service.counts]}; frames of {frames} octets{mixed}, DSCP {service.dscp}"


def _accepted(service: Service, q: Qualification) -> str:
    """ "FLR at most 1e-3, FTD p99 at most 12 ms"; what neither the order nor the profile limits is left out."""
    said = []
    for one in {(each.metric, each.statistic): each for each in q.plan.objectives}.values():
        metric = METRICS[one.metric]
        limit = criterion(one, service) if metric.name in COLUMNS else None
        if limit is not None:
            statistic = "" if one.statistic == "ratio" else f" {one.statistic}"
            said.append(f"{COLUMNS[one.metric]}{statistic} {one.relation} {format_value(limit, metric.unit)}")
    return ", ".join(said)


# ---- search


@dataclass(frozen=True, slots=True)
class Searched:
    """One frame size in one direction; rates in bit/s as the contracted rate counts, `fps` frames a second."""

    direction: Direction
    frame: int
    maximum: float
    found: float | None
    share: float | None
    fps: float | None
    limited: str
    goal: float


def searched(q: Qualification) -> list[Searched]:
    """Every size of every direction, in the order of the search."""
    every = [m.search for m in q.measurements if m.search is not None]
    return [_searched(result, one, q.plan.link.rate_counts) for result in every for one in result.found]


def _searched(result: SearchResult, one: FoundRate, counts: str) -> Searched:
    rate = one.rate_bps
    return Searched(
        direction=result.direction,
        frame=one.packet_bytes + OVERHEAD_BYTES["l2"],
        maximum=search.counted(one, one.maximum_bps, counts),
        found=None if rate is None else search.counted(one, rate, counts),
        share=None if rate is None else rate / one.maximum_bps,
        fps=None if rate is None else rate / (8 * one.packet_bytes),
        limited=search.LIMITED.get(one.limited, one.limited),
        goal=result.goal,
    )
