"""Findings on delay and loss under load: what a STAMP stream met beside the judged TCP load. Floor 2, pure.

Each is judged as the same red line of an idle line is (`rules.packets`), on the packets that left while the load ran. A round
trip under load is judged beside the load of either direction and has to hold beside both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from linkqual.model import (
    SEVERITY,
    AddedDelay,
    Direction,
    Finding,
    Measurement,
    Objective,
    Outcome,
    Rule,
    StampResult,
    ThroughputResult,
)
from linkqual.rules import packets, seconds, words
from linkqual.units import format_duration

STREAM = {
    "loaded_round_trip_delay": "round_trip_delay",
    "loaded_loss_ratio": "loss_ratio",
}  # judged on the packets as they are
ADDED = "added_delay"
METRICS = (*STREAM, ADDED)
FREE_PACE = 1e-4  # two clocks that nobody holds drift apart by no more than this
_AGAIN = "measure the throughput probe with our agent at the far end: it needs both"
_HOLD = "measure again with both clocks held by NTP or PTP, or for a shorter time: the drift counts with the length of the run"


def on_stream(objective: Objective) -> Objective:
    """The same red line as of a packet stream alone, where there is one: "loaded_loss_ratio" as "loss_ratio"."""
    return replace(objective, metric=STREAM.get(objective.metric, objective.metric))


def finding(objective: Objective, measurements: Sequence[Measurement], family: int) -> Finding:
    """Of the judged load in the objective's direction; of a round trip the worse of both."""
    ways = (
        (objective.direction,)
        if objective.direction is not Direction.ROUND_TRIP
        else (Direction.FORWARD, Direction.REVERSE)
    )
    loads = [load for way in ways if (load := seconds.heaviest(measurements, way)) is not None]
    found = [made for load in loads if (made := _beside(objective, load, family * len(loads))) is not None]
    if not found:
        return _missing(objective, loads)
    worst = max(found, key=lambda one: (SEVERITY.index(one.outcome), one.estimate.value or 0 if one.estimate else 0))
    if worst.outcome is not Outcome.PASS or len(found) == len(ways):
        return worst
    said = f"{worst.because}; but beside a load of the other direction nothing was seen"
    return replace(worst, outcome=Outcome.INCONCLUSIVE, because=said, decide=_AGAIN)


def _beside(objective: Objective, load: Measurement, family: int) -> Finding | None:
    result = load.throughput
    if result is None or result.beside is None:
        return None
    if objective.metric == ADDED:
        found = _added(objective, load, result, result.beside, family)
        if found is None:
            return None
    else:
        found = packets.finding(on_stream(objective), replace(load, stamp=result.beside), family)
    said = f"{words.streams(result.streams)} {load.step.direction}, meanwhile {found.because}"
    return replace(found, objective=objective, because=said)


def _added(
    objective: Objective, load: Measurement, result: ThroughputResult, beside: StampResult, family: int
) -> Finding | None:
    added = result.added.get(objective.direction)
    if added is None:
        return None
    summary = replace(beside.summary, over=added.over)
    if objective.direction is Direction.FORWARD:
        summary = replace(summary, forward_delay=added.delay)
    else:
        summary = replace(summary, reverse_delay=added.delay)
    found = packets.finding(objective, replace(load, stamp=replace(beside, summary=summary)), family)
    if found.outcome is not Outcome.FAIL or load.conditions.same_clock:
        return found
    drift = drift_ns(added, load)
    low = found.estimate.low if found.estimate else None
    assert objective.limit is not None
    if low is not None and low - drift > objective.limit:
        return found
    said = f"{found.because}; but both clocks moved by up to {format_duration(drift)} against each other meanwhile"
    return replace(found, outcome=Outcome.INCONCLUSIVE, because=said, decide=_HOLD)


def drift_ns(added: AddedDelay, load: Measurement) -> int:
    """What two clocks may have added to a one-way delay between the look before the load and its end, at most; 0 with one clock."""
    if load.conditions.same_clock:
        return 0
    if added.after_ns is None:
        return round(FREE_PACE * load.elapsed_ns)
    return abs(added.after_ns - added.idle_ns)


def _missing(objective: Objective, loads: Sequence[Measurement]) -> Finding:
    load = next((one for one in loads if one.fault is not None), loads[0] if loads else None)
    if load is not None and load.fault is not None and load.throughput is None:
        return Finding(objective, Outcome.NO_DATA, load.fault.message, None, load.fault.hint, Rule.NONE, load.step.key)
    why = "no STAMP stream ran beside the load" if loads else "no load was run"
    return Finding(
        objective,
        Outcome.NO_DATA,
        f"{words.name(objective)}: {why}",
        None,
        _AGAIN,
        Rule.NONE,
        load.step.key if load else "",
    )
