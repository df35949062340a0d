"""The three places a line carries by: end A's egress, the middle each way, end B's egress. One of them alone says nothing of the line. Floor 2, pure.

What reached the other end passed all three, so every load bounds each of them from below; what one of them itself carries is told by load that
expires behind it (`narrow`), or by where a queue begins under load. Where nothing was sent, contract and link file say what is promised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from linkqual.model import Direction, Evidence, Link, Measurement, NarrowResult, Place, Plan
from linkqual.rules import loaded_path, words
from linkqual.stats.load_rates import steady_bps, usable
from linkqual.units import format_rate

EGRESS = {Direction.FORWARD: "end A's egress", Direction.REVERSE: "end B's egress"}
MIDDLE = "the middle"
SURELY_MORE = 1.1  # times a figure: what counts another layer, or a bucket that was full, is no contradiction
ALONE = "one end's figure alone says nothing of the line: what it carries is the least of the three"


@dataclass(frozen=True, slots=True)
class _Said:
    """A rate as it is shown. `bps` orders rates that count alike closely enough to say which bound is the tighter one."""

    bps: float
    words: str
    source: str
    exact: bool = False  # what the place carries; else it carries at least that


def rows(plan: Plan, measurements: Sequence[Measurement]) -> tuple[Place, ...]:
    """End A's egress, the middle there, the middle back, end B's egress."""
    there, back = Direction.FORWARD, Direction.REVERSE
    found = [
        _place(egress, way, plan.link, measurements)
        for way, egress in ((there, True), (there, False), (back, False), (back, True))
    ]
    return tuple(found)


def _place(egress: bool, way: Direction, link: Link, measurements: Sequence[Measurement]) -> Place:
    name = EGRESS[way] if egress else MIDDLE
    seen = [*_narrow(egress, way, measurements), *_loads(way, measurements)]
    begins = _queue(egress, way, measurements)
    evidence: Evidence = tuple((one.source, f"{'' if one.exact else 'at least '}{one.words}") for one in seen)
    declared = _declared(egress, way, link)
    told = (("declared", declared),) if declared else ()
    if seen:
        most = max(seen, key=lambda one: one.bps)
        best = next((one for one in seen if one.exact), most)
        if most.bps > SURELY_MORE * best.bps:
            return Place(name, way, "unknown", _contradiction(best, most), (*evidence, *begins, *told))
        said = best.words if best.exact else f"at least {best.words}"
        return Place(name, way, "measured", said, (*evidence, *begins, *told))
    if declared:
        return Place(name, way, "declared", declared, (*begins, *told))
    return Place(name, way, "unknown", "neither measured nor declared", begins)


def _contradiction(figure: _Said, carried: _Said) -> str:
    return (
        f"two measurements contradict each other: {figure.words} ({figure.source}), and at least {carried.words} ({carried.source}); "
        "their flows may have taken several paths, or the line changed meanwhile"
    )


def _narrow(egress: bool, way: Direction, measurements: Sequence[Measurement]) -> Iterator[_Said]:
    for one in measurements:
        found = one.narrow
        if found is None or found.direction is not way:
            continue
        first = next((seen for seen in found.seen if seen.number == 1 and seen.rate_bps is not None), None)
        if egress and first is not None and first.rate_bps is not None:
            yield _of(found, first.rate_bps, f"{one.step.key}, load that expired on router 1", exact=True)
        passed = [seen for seen in found.seen if seen.rate_bps is None]
        if egress and passed:  # whatever router it expired on, it had left the host
            most = max(passed, key=lambda seen: seen.offered_bps)
            yield _of(found, most.offered_bps, f"{one.step.key}, load that expired on router {most.number}")
        if found.rate_bps is not None:
            named = found.named == 1 if egress else found.named > 1
            yield _of(
                found,
                found.rate_bps[0],
                f"{one.step.key}, trains to the other end",
                exact=named or (egress and found.links == 1),
            )
        elif found.at_least_bps:
            yield _of(found, found.at_least_bps, f"{one.step.key}, trains to the other end")


def _of(found: NarrowResult, bps: float, source: str, exact: bool = False) -> _Said:
    return _Said(bps, f"{format_rate(round(bps))} ({found.counts.upper()})", source, exact)


def _loads(way: Direction, measurements: Sequence[Measurement]) -> Iterator[_Said]:
    """What reached the other end: no place on the way carries less."""
    for one in measurements:
        trains = one.trains
        if (
            trains is not None
            and trains.direction is way
            and (bps := trains.rate_bps[0] if trains.rate_bps else trains.at_least_bps)
        ):
            yield _Said(bps, f"{format_rate(round(bps))} ({trains.counts.upper()})", one.step.key)
        for count in one.flows.counts if one.flows is not None else ():
            if count.direction is way and usable(count):
                bps = steady_bps(count)
                flows = f"{count.flows} UDP flow{'s' * (count.flows != 1)}"
                yield _Said(bps, f"{format_rate(round(bps))} (L3)", f"{one.step.key}, {flows}")
    carried = [
        (fmean(result.receiver_bps), result, one.step.key)
        for one in measurements
        for result, direction in ((one.throughput, one.step.direction), (one.throughput_back, Direction.REVERSE))
        if result is not None
        and result.receiver_bps
        and (direction is way or (direction is Direction.ROUND_TRIP and way is Direction.FORWARD))
    ]
    if carried:
        bps, result, key = max(carried, key=lambda each: each[0])
        yield _Said(
            bps,
            f"{format_rate(round(bps))} of TCP payload",
            f"{key}, mean of {len(result.receiver_bps)} s over {words.streams(result.streams)}",
        )


def _queue(egress: bool, way: Direction, measurements: Sequence[Measurement]) -> Evidence:
    """Where a load's queue begins, if that is in this place for certain."""
    found = loaded_path.best(measurements, way)
    if found is None or not found.by or found.after is None or found.before is None:
        return ()
    inside = found.before <= 1 if egress else found.after >= 1
    said = f"the {found.by} of {found.load} begins between hop {found.after} and hop {found.before}"
    return (("hops under load", f"{said} ({found.confidence} confidence)"),) if inside else ()


def _declared(egress: bool, way: Direction, link: Link) -> str:
    counts = link.rate_counts.upper()
    if not egress:
        contracted = link.contracted_bps(way)
        return f"{format_rate(contracted)} ({counts}) by contract" if contracted else ""
    edge = next(
        (one for one in link.segments if (one.start == "near" if way is Direction.FORWARD else one.end == "far")), None
    )
    return (
        f"{format_rate(edge.rate_bps)} ({counts}) of {edge.name}, by link file"
        if edge is not None and edge.rate_bps
        else ""
    )
