"""What each section of the page shows, taken from the document: no markup here, no arithmetic in the templates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from linkqual.reports import charts_arrival, charts_delay, wording
from linkqual.reports.marks import Picture
from linkqual.reports.tables import ONE_WAY, GoodputRow, delays, grouped, hops

from linkqual.metrics import METRICS
from linkqual.model import (
    Conditions,
    Decision,
    Direction,
    EndConditions,
    Outcome,
    PingResult,
    Qualification,
    StampResult,
)
from linkqual.stats import tally
from linkqual.stats.histogram import quantile

LARGEST = 10  # loss events in the table


def sections(q: Qualification) -> dict[str, Any]:
    """Everything the template asks for beside the document itself."""
    stamped = next((m for m in q.measurements if m.stamp), None)
    stamp = stamped.stamp if stamped else None
    return {
        "ends": wording.ends_words(q),
        "zone": wording.zone_of(q),
        "reality": wording.reality(q),
        "outcome": wording.outcome_of(q),
        "headline": wording.headline(q),
        "findings": wording.findings_of(q),
        "confidence": confidence(q),
        "deciding": wording.remarks(q, {wording.outcome_of(q)} - {Outcome.PASS, Outcome.NOT_JUDGED}, required=True),
        "judged": sum(finding.objective.required for finding in wording.findings_of(q)),
        "troubles": wording.troubles(q),
        "stamped": stamped,
        "stamp": stamp,
        "delay_charts": _delay_charts(q, stamp),
        "delays": delays(stamp, stamped.conditions) if stamp and stamped else [],
        "loss": loss(stamp) if stamp else None,
        "goodput": goodput(q),
        "path": next((m.path for m in q.measurements if m.path), None),
        "hops": hops(next((m.path for m in q.measurements if m.path), None)),
        "pings": pings(q, stamp),
        "conditions": conditions(q),
        "decided": {d.objective: d for d in decisions(q)},
        "lateness": lateness(stamp),
        "used_metrics": [METRICS[n] for n in dict.fromkeys(o.metric for o in q.plan.objectives) if n in METRICS],
        "objectives": grouped(q.plan.objectives or q.profile.objectives),
        "truth": list(flat(q.truth)),
        "missing_reason": {probe: missing(q, probe) for probe in ("stamp", "ping", "throughput", "path")},
    }


def missing(q: Qualification, probe: str) -> str:
    """Why nothing of this probe is in the document: the fault in words, or that it was not planned."""
    faults = [m.fault for m in q.measurements if m.step.probe == probe and m.fault]
    if faults:
        return faults[0].message + (f" ({faults[0].hint})" if faults[0].hint else "")
    if any(m.step.probe == probe for m in q.measurements):
        return "the step gave no result"
    if any(step.probe == probe for step in q.plan.steps):
        return "the run ended before this step"
    return "not part of the plan"


def confidence(q: Qualification) -> str:
    """ "95 % " when every interval has the same confidence, else ""."""
    levels = {f.estimate.confidence for f in wording.findings_of(q) if f.estimate}
    return f"{levels.pop() * 100:.4g} % " if len(levels) == 1 else ""


# ---- delay


def _delay_charts(q: Qualification, stamp: StampResult | None) -> dict[str, Picture | None]:
    if stamp is None:
        return {}
    objectives = q.plan.objectives
    budget = next((o for o in objectives if o.metric == "round_trip_delay" and o.limit is not None), None)
    return {
        "rtt_time": charts_delay.round_trip_over_time(stamp, budget),
        "pdv_time": charts_delay.variation_over_time(stamp),
        "pdv_tail": charts_delay.variation_tail(stamp, objectives),
        "rtt_tail": charts_delay.round_trip_tail(stamp, objectives),
    }


# ---- loss


def loss(stamp: StampResult) -> dict[str, Any]:
    """Counts per direction, spikes over time, the largest events."""
    summary = stamp.summary
    start, end = summary.first_sent_ns or 0, summary.last_sent_ns or 0
    events = summary.loss_events
    reached = summary.sent - summary.lost_forward - summary.lost
    return {
        "rows": (
            (
                Direction.FORWARD,
                summary.sent,
                summary.lost_forward,
                summary.duplicates_forward,
                summary.reordered_forward,
            ),
            (Direction.REVERSE, reached, summary.lost_reverse, summary.duplicates_reverse, summary.reordered_reverse),
        ),
        "pictures": {way: charts_arrival.loss_over_time(events, way, start, end) for way in ONE_WAY}
        if end > start
        else {},
        "largest": sorted(events, key=lambda event: (-event.packets, event.start_ns))[:LARGEST],
        "events": max(len(events), sum(tally.events(summary.loss[way]) for way in ONE_WAY if way in summary.loss)),
        "kept": len(events),
        "start_ns": start,
    }


# ---- throughput


def goodput(q: Qualification) -> dict[str, Any]:
    """Rows of the table, and one picture a direction with its key."""
    measured = [m for m in q.measurements if m.throughput]
    rows = [GoodputRow(m.step.direction, m.throughput.streams, m.throughput) for m in measured if m.throughput]
    return {
        "measured": measured,
        "rows": rows,
        "pictures": {way: charts_arrival.throughput_over_time(measured, way, q.plan.objectives) for way in ONE_WAY},
        "legends": {way: _goodput_keys([row.streams for row in rows if row.direction is way], way) for way in ONE_WAY},
        "unmeasured": [m for m in q.measurements if m.step.probe == "throughput" and m.throughput is None],
    }


def _goodput_keys(streams: list[int], way: Direction) -> list[tuple[str, str]]:
    ordered = sorted(streams)
    kinds = ["dash"] * (len(ordered) - 1) + ["line"]
    return [
        (f"{kind} {way}", f"{count} stream{'s' if count != 1 else ''}")
        for kind, count in zip(kinds, ordered, strict=False)
    ]


# ---- the rest


def pings(q: Qualification, stamp: StampResult | None) -> dict[str, Any] | None:
    """Ping beside STAMP, and their difference in the median."""
    ping = next((m.ping for m in q.measurements if m.ping), None)
    if ping is None:
        return None
    median = _median(ping)
    reference = quantile(stamp.summary.round_trip_delay, 0.5) if stamp and stamp.summary.round_trip_delay.n else None
    apart = None if median is None or reference is None else median - reference
    return {"ping": ping, "median": median, "reference": reference, "apart": apart}


def _median(ping: PingResult) -> int | None:
    return sorted(ping.rtt_ns)[(len(ping.rtt_ns) - 1) // 2] if ping.rtt_ns else None


@dataclass(frozen=True, slots=True)
class ConditionsGroup:
    """Steps measured under the same conditions at both ends, host drops aside."""

    steps: tuple[str, ...]
    state: Conditions


def conditions(q: Qualification) -> dict[str, Any]:
    """Each distinct set of conditions once, and the host drops of every step that had any."""
    groups: dict[str, tuple[list[str], Conditions]] = {}
    drops = []
    for m in q.measurements:
        if m.conditions == Conditions():
            continue
        groups.setdefault(_without_drops(m.conditions), ([], m.conditions))[0].append(m.step.key)
        for name, end in (("near", m.conditions.near), ("far", m.conditions.far)):
            drops += [(m.step.key, name, counter, count) for counter, count in end.drops.items() if count]
    return {
        "groups": [ConditionsGroup(tuple(steps), state) for steps, state in groups.values()],
        "drops": drops,
        "watched": any(end.drops for m in q.measurements for end in (m.conditions.near, m.conditions.far)),
    }


def _without_drops(state: Conditions) -> str:
    def end(conditions: EndConditions) -> tuple[object, ...]:
        clock = (conditions.clock.source, conditions.clock.synchronised)
        return (conditions.host, conditions.platform, conditions.versions, clock, conditions.stamps, conditions.notes)

    return repr((end(state.near), end(state.far), state.same_clock))


def decisions(q: Qualification) -> Iterator[Decision]:
    """Every decision taken while measuring."""
    for m in q.measurements:
        result = m.stamp or m.throughput
        yield from result.decisions if result else ()


def lateness(stamp: StampResult | None) -> dict[str, int | None]:
    """How far departures lagged behind the schedule."""
    if stamp is None or not stamp.lateness.n:
        return {}
    return {"p50": quantile(stamp.lateness, 0.5), "p99": quantile(stamp.lateness, 0.99)}


def flat(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves of nested counters as (path, value)."""
    for key, value in tree.items():
        name = f"{prefix} › {key}" if prefix else key
        if isinstance(value, dict):
            yield from flat(value, name)
        else:
            yield name, value
