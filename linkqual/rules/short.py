"""Whether a load fell short so far, so that steps which explain it are worth their bytes. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from linkqual.model import Direction, Finding, Measurement, Outcome, Plan, Step, family_size
from linkqual.rules import loads, seconds

_DOUBTFUL = (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.NO_DATA)


def not_needed(step: Step, plan: Plan, measurements: Sequence[Measurement]) -> str:
    """Why `step` need not be carried out after `measurements`; "" when it must.

    Only a step with `when` "short" is ever not needed: when each goodput of its direction is proven to keep its limit (without a
    limit: carries what the headers allow), and a single stream reaches about as much as many.
    """
    if step.params.get("when") != "short":
        return ""
    ways = [way for way in (Direction.FORWARD, Direction.REVERSE) if step.direction in (way, Direction.ROUND_TRIP)]
    if any(_short(way, plan, measurements) for way in ways):
        return ""
    return f"nothing to explain: the {' and '.join(ways)} goodput did not fall short"


def _short(way: Direction, plan: Plan, measurements: Sequence[Measurement]) -> bool:
    found = list(findings(way, plan, measurements))
    if any(one.outcome in _DOUBTFUL for one in found):
        return True
    carried = loads.by_streams(measurements, way)
    if not carried:
        return not found  # nobody measured it
    most = carried[-1]
    if loads.slow_alone(carried[0], most):
        return True
    judged = any(one.outcome is Outcome.PASS for one in found)
    return not judged and most.allowed_bps is not None and loads.median(most) < loads.WHOLE * most.allowed_bps


def findings(way: Direction, plan: Plan, measurements: Sequence[Measurement]) -> Iterator[Finding]:
    """Of the goodput of one direction that was measured."""
    family = family_size(plan.objectives)
    for objective in plan.objectives:
        if objective.metric == "throughput" and objective.direction is way:
            load = seconds.heaviest(measurements, objective.direction)
            if load is not None:
                yield seconds.finding(objective, load, family)
