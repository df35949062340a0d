"""Seconds below what is asked, where no cause holds the direction down all the time: which they were, for a reader to see. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from linkqual.model import Diagnosis, Direction, Measurement, Outcome, Plan, Relation
from linkqual.rules import loads, seconds, short, words
from linkqual.rules.why import bucket_loads
from linkqual.units import format_rate

MOST = 8  # slow seconds named one by one


def diagnosis(plan: Plan, measurements: Sequence[Measurement], direction: Direction) -> list[Diagnosis]:
    """One where goodput is not proven to keep its limit and seconds lie below it; else none."""
    load = seconds.heaviest(measurements, direction)
    asked = [
        one.objective.limit
        for one in short.findings(direction, plan, measurements)
        if one.outcome in (Outcome.FAIL, Outcome.INCONCLUSIVE) and one.objective.relation is Relation.AT_LEAST
    ]
    limit = max((one for one in asked if one is not None), default=None)
    result = load.throughput if load is not None else None
    if limit is None or result is None:
        return []
    rates = result.receiver_bps
    slow = [second for second, rate in enumerate(rates, 1) if rate < limit]
    if not slow:
        return []
    middle = f"median {format_rate(loads.median(result))}, {format_rate(limit)} is asked"
    head = f"{direction}, {words.streams(result.streams)}"
    where = f"slow seconds at {_listed(slow)} of {len(rates)}, down to {format_rate(min(rates))}: see the seconds"
    most = "most seconds carry all of it" if 2 * len(slow) < len(rates) else f"{len(slow)} seconds carry less"
    known = plan.link.contracted_bps(direction) is not None
    if loads.median(result) >= limit:
        because = "nothing holds all seconds down"
    else:
        because = (
            "the load does not show what the line as contracted carries"
            if known
            else "without a contracted rate no cause is looked for"
        )
    sent = any(one.step.probe == "trains" and not one.not_needed for one in measurements)
    decide = (
        "" if known else "give the contracted rate with --cir",
        "" if sent else bucket_loads.LOOK,
        "see what else both hosts and the line did in those seconds, and measure again for longer and at another hour",
    )
    said = f"{head}: {most} ({middle}); {where}"
    return [Diagnosis(direction, "none", "low", said, decide="; ".join(filter(None, decide)), because=because)]


def _listed(slow: Sequence[int]) -> str:
    shown = ", ".join(str(second) for second in slow[:MOST])
    return f"{shown} and {len(slow) - MOST} more" if len(slow) > MOST else shown
