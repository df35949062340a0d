"""What each section of the page shows, taken from the document: no markup here, no arithmetic in the templates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from linkqual.reports import charts, series, wording

from linkqual.metrics import METRICS
from linkqual.model import (
    Conditions,
    Decision,
    Direction,
    EndConditions,
    Hop,
    Outcome,
    PathResult,
    PingResult,
    Qualification,
    StampResult,
    ThroughputResult,
    Trace,
)
from linkqual.stats.histogram import mean, quantile

QUANTILES = (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999))
LARGEST = 10  # loss events in the table
BUSY = 0.9  # of one core: beyond it the host may be what limits
ONE_WAY = (Direction.FORWARD, Direction.REVERSE)


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
        "deciding": wording.remarks(q, {wording.outcome_of(q)} - {Outcome.PASS, Outcome.NOT_JUDGED}),
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


def _delay_charts(q: Qualification, stamp: StampResult | None) -> dict[str, charts.Picture | None]:
    if stamp is None:
        return {}
    objectives = q.plan.objectives
    budget = next((o for o in objectives if o.metric == "round_trip_delay" and o.limit is not None), None)
    return {
        "rtt_time": charts.round_trip_over_time(stamp, budget),
        "pdv_time": charts.variation_over_time(stamp),
        "pdv_tail": charts.variation_tail(stamp, objectives),
        "rtt_tail": charts.round_trip_tail(stamp, objectives),
    }


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
    known = state.same_clock or state.clock_error_ns is not None
    for way, histogram in zip(ONE_WAY, (summary.forward_delay, summary.reverse_delay), strict=True):
        title = f"one-way delay {wording.ARROWS[way]} {way}"
        if known:
            bound = (
                "one clock for both ends"
                if state.same_clock
                else f"± {wording.number(state.clock_error_ns, 'ns')} of clock error"
            )
            rows.append(_delay_row(title, f"RFC 7679; {bound}", histogram))
        else:
            rows.append(DelayRow(title, "", why_not="no bound of the clock error between the two ends is known"))
    for way in ONE_WAY:
        title = f"jitter (PDV) {wording.ARROWS[way]} {way}"
        rows.append(_delay_row(title, "RFC 5481: above the smallest delay of this run", series.variation(stamp, way)))
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
        "pictures": {way: charts.loss_over_time(events, way, start, end) for way in ONE_WAY} if end > start else {},
        "largest": sorted(events, key=lambda event: (-event.packets, event.start_ns))[:LARGEST],
        "events": len(events),
        "start_ns": start,
    }


# ---- throughput


@dataclass(frozen=True, slots=True)
class GoodputRow:
    """One direction and number of streams in numbers (bit/s)."""

    direction: Direction
    streams: int
    result: ThroughputResult

    @property
    def seconds(self) -> int:
        """Whole ones after the warm-up."""
        return len(self.result.receiver_bps)

    @property
    def mean(self) -> float:
        """Of the seconds."""
        return sum(self.result.receiver_bps) / self.seconds

    @property
    def p10(self) -> float:
        """RFC 2330: rank ceil(0.1 n)."""
        return sorted(self.result.receiver_bps)[-(-self.seconds // 10) - 1]

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
        shares = {"near end": self.result.cpu_near, "far end": self.result.cpu_far}
        return ", ".join(f"{share:.0%} at the {end}" for end, share in shares.items() if share and share > BUSY)


def goodput(q: Qualification) -> dict[str, Any]:
    """Rows of the table, and one picture a direction with its key."""
    measured = [m for m in q.measurements if m.throughput]
    rows = [GoodputRow(m.step.direction, m.throughput.streams, m.throughput) for m in measured if m.throughput]
    return {
        "measured": measured,
        "rows": rows,
        "pictures": {way: charts.throughput_over_time(measured, way, q.plan.objectives) for way in ONE_WAY},
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


# ---- path


@dataclass(frozen=True, slots=True)
class HopRow:
    """Forward and reverse hop of the same place on the line, client side first."""

    forward: Hop | None
    reverse: Hop | None

    @property
    def differs(self) -> bool:
        """One of the two directions does not come through here."""
        return self.forward is None or self.reverse is None

    @property
    def mark(self) -> str:
        """What the pair says, in words."""
        if self.forward is None:
            return "only on the way back"
        if self.reverse is None:
            return "only on the way there"
        if self.forward.address is None or self.reverse.address is None:
            return "silent"
        return "paired"


def hops(path: PathResult | None) -> list[HopRow]:
    """Rows aligned by the pairs of the comparison; without pairs, by position from the client's side."""
    if path is None:
        return []
    there = {hop.ttl: hop for hop in path.forward.hops}
    back = {hop.ttl: hop for hop in path.reverse.hops}
    pairs = path.pairs or _by_place(path.forward, path.reverse)
    rows = [HopRow(there.get(a) if a is not None else None, back.get(b) if b is not None else None) for a, b in pairs]
    return [row for row in rows if row.forward or row.reverse]


def _by_place(forward: Trace, reverse: Trace) -> tuple[tuple[int | None, int | None], ...]:
    a = [hop.ttl for hop in forward.hops]
    b = [hop.ttl for hop in reversed(reverse.hops)]
    length = max(len(a), len(b))
    return tuple((a[at] if at < len(a) else None, b[at] if at < len(b) else None) for at in range(length))


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
