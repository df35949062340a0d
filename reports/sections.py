"""What each section of the page shows, taken from the document: no markup here, no arithmetic in the templates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from linkqual.metrics import METRICS
from linkqual.metrics import quantile as quantile_of
from linkqual.model import (
    Decision,
    Direction,
    Outcome,
    PingResult,
    Qualification,
    StampResult,
)
from linkqual.reports import (
    accounts,
    bursts,
    charts_delay,
    charts_loss,
    checks,
    demarcation,
    ladder,
    markings,
    path_picture,
    path_table,
    path_view,
    path_words,
    paths,
    services,
    surroundings,
    timekeeping,
    why,
    wording,
)
from linkqual.reports.marks import Picture
from linkqual.reports.tables import ONE_WAY, delays, grouped
from linkqual.reports.truth import truth
from linkqual.stats import tally
from linkqual.stats.histogram import quantile

ALWAYS = ("stamp", "ping", "throughput", "path", "marking")  # probes whose absence is said
LARGEST = 10  # loss events in the table


def sections(q: Qualification) -> dict[str, Any]:
    """Everything the template asks for beside the document itself."""
    stamped = next((m for m in q.measurements if m.stamp), None)
    stamp = stamped.stamp if stamped else None
    shown: dict[str, Any] = {
        "ends": wording.ends_words(q),
        "zone": wording.zone_of(q),
        "reality": wording.reality(q),
        "outcome": wording.outcome_of(q),
        "headline": wording.headline(q),
        "findings": wording.shown_of(q),
        "apart": wording.apart_words(q),
        "confidence": confidence(q),
        "deciding": wording.remarks(q, {wording.outcome_of(q)} - {Outcome.PASS, Outcome.NOT_JUDGED}, required=True),
        "judged": sum(finding.objective.required for finding in wording.shown_of(q)),
        "troubles": wording.troubles(q),
        "stamped": stamped,
        "stamp": stamp,
        "delay_charts": _delay_charts(q, stamp),
        "delays": delays(stamp, stamped.conditions) if stamp and stamped else [],
        "loss": loss(stamp) if stamp else None,
        "goodput": ladder.section(q),
        "why": why.section(q),
        "bursts": bursts.section(q),
        "services": services.section(q),
        "path": path(q),
        "paths": paths.section(q),
        "checks": checks.section(q),
        "demarcation": demarcation.section(q),
        "marking": markings.result_of(q),
        "marking_tables": markings.tables(q),
        "marking_traces": markings.traces(q),
        "pings": pings(q, stamp),
        "conditions": {
            "groups": surroundings.groups(q),
            "drops": surroundings.drops(q),
        },
        "decided": {d.objective: d for d in decisions(q)},
        "accounts": accounts.accounts(q),
        "floors": timekeeping.floors(q),
        "exactness": timekeeping.facts(stamped) if stamped else [],
        "pacing": accounts.pacing_words(stamp) if stamp else "",
        "used_metrics": [METRICS[n] for n in dict.fromkeys(o.metric for o in q.plan.objectives) if n in METRICS],
        "objectives": grouped(q.plan.objectives or q.profile.objectives),
        "truth": truth(q) if q.truth else None,
        "missing_reason": {probe: missing(q, probe) for probe in ALWAYS},
        "unasked": unasked(q),
    }
    return shown | {"contents": contents(shown)}


def unasked(q: Qualification) -> list[str]:
    """Probes every page has a section for and this run was not asked for; of a run that measured nothing none is left out."""
    asked = {step.probe for step in q.plan.steps} | {m.step.probe for m in q.measurements}
    return [probe for probe in ALWAYS if asked and probe not in asked]


def contents(shown: dict[str, Any]) -> list[tuple[str, str]]:
    """(id, name) of every section the page has, in its order."""
    asked = {probe: probe not in shown["unasked"] for probe in ALWAYS}
    every = (
        ("why", "Why", shown["why"]["cards"]),
        ("findings", "Findings", True),
        ("checks", "Topology", shown["checks"]["shown"]),
        ("delay", "Delay", asked["stamp"]),
        ("loss", "Loss", asked["stamp"]),
        ("throughput", "Throughput", asked["throughput"]),
        ("loaded", "Under load", shown["goodput"]["delays"]),
        ("limits", "Limits", shown["why"]["shown"]),
        ("bursts", "Bursts", shown["bursts"]["rows"]),
        ("services", "Services", shown["services"]["tables"]),
        ("search", "Search", shown["services"]["search"]),
        ("path", "Path", asked["path"] or shown["path"]["view"]),
        ("mtu", "Packet size", shown["paths"]["sizes"]),
        ("members", "Single paths", shown["paths"]["flows"]),
        ("demarcation", "Whose part", shown["demarcation"]["shown"]),
        ("marking", "Markings", asked["marking"]),
        ("ping", "Ping", asked["ping"]),
        ("conditions", "Conditions", True),
        ("method", "Method", True),
        ("profile", "Profile", True),
        ("plan", "Plan", True),
        ("truth", "Truth", shown["truth"]),
    )
    found = [(name, title) for name, title, there in every if there]
    return sorted(found, key=lambda one: one[0] != "path") if shown["path"]["first"] else found


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
    budgets = [o for o in objectives if o.metric == "round_trip_delay" and o.limit is not None]
    budget = max(budgets, key=lambda o: quantile_of(o.statistic) or 0, default=None)  # the band is drawn up to p99
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
        "pictures": {way: charts_loss.loss_over_time(events, way, start, end) for way in ONE_WAY}
        if end > start
        else {},
        "largest": sorted(events, key=lambda event: (-event.packets, event.start_ns))[:LARGEST],
        "events": max(len(events), sum(tally.events(summary.loss[way]) for way in ONE_WAY if way in summary.loss)),
        "kept": len(events),
        "start_ns": start,
    }


# ---- path


def path(q: Qualification) -> dict[str, Any]:
    """The picture, the same as a table, and in sentences; `view` None: nothing is known of the way."""
    view = path_view.view(q)
    if view is None:
        return {"view": None, "first": False}
    return {
        "view": view,
        "first": path_words.about_path(q),  # of a run that looked at nothing else it is what a reader wants
        "sentences": path_words.course(q),
        "picture": path_picture.picture(view),
        "legend": path_picture.keys(view),
        "sides": path_table.sides(view),
    }


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


def decisions(q: Qualification) -> Iterator[Decision]:
    """Every decision taken while measuring."""
    for m in q.measurements:
        result = m.stamp or m.throughput
        yield from result.decisions if result else ()
