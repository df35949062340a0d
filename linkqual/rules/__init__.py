"""Measurements -> verdict. Pure: the same plan and measurements give the same verdict anywhere, with no network.

`judge` finds for each objective of the plan what was measured of it and says PASS when the limit is proven kept, FAIL when it
is proven broken, INCONCLUSIVE between (with what would decide), NO DATA when nothing was measured. A decision taken while
packets arrived (`watch`) holds for the limit and the confidence it was made for; anything else is judged by the exact bound.
Floor 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from linkqual.metrics import METRICS
from linkqual.model import Finding, Measurement, Objective, Outcome, Plan, Rule, Verdict, family_size, worst
from linkqual.rules import (
    asymmetry,
    bursts,
    demarcation,
    loaded,
    marking,
    members,
    mtu,
    notes,
    packets,
    places,
    route_symmetry,
    search,
    seconds,
    self_checks,
    services,
    why,
    words,
)

_NEED_AGENT = ("throughput", "marking", "mtu", "members", "services", "search", "bursts")


def judge(plan: Plan, measurements: Sequence[Measurement]) -> Verdict:
    """The verdict of the plan's objectives on these measurements.

    The worst required finding wins; an advisory one never turns it red, one without a limit cannot be judged at all.
    """
    family = family_size(plan.objectives)
    findings = tuple(_finding(objective, plan, measurements, family) for objective in plan.objectives)
    outcome = worst([one.outcome for one in findings if _decides(one.objective)])
    diagnoses = why.diagnose(plan, measurements)
    said = notes.of(plan, measurements, findings, diagnoses)
    return Verdict(
        outcome,
        findings,
        said,
        _family_words(family, findings),
        diagnoses,
        self_checks.of(plan, measurements, findings, diagnoses),
        places.rows(plan, measurements),
        demarcation.rows(plan, measurements, findings, diagnoses),
    )


def _decides(objective: Objective) -> bool:
    return objective.required and objective.limit is not None


def _finding(objective: Objective, plan: Plan, measurements: Sequence[Measurement], family: int) -> Finding:
    metric = METRICS.get(objective.metric)
    if metric is None:
        return _missing(
            objective,
            f"this linkqual does not know the metric {objective.metric!r}",
            "judge with the release that measured",
        )
    judged = _JUDGES.get(metric.name) or _JUDGES.get(metric.probe)
    found = judged(objective, plan, measurements, family) if judged is not None else None
    if found is not None:
        return found
    return _absent(objective, metric.probe, measurements)


def _absent(objective: Objective, probe: str, measurements: Sequence[Measurement]) -> Finding:
    """What to say where no step of the probe has a result."""
    for one in measurements:
        if one.step.probe == probe and one.fault is not None:
            return _missing(objective, one.fault.message, one.fault.hint, one.step.key)
        if one.step.probe == probe and one.not_needed:
            return Finding(objective, Outcome.NOT_JUDGED, f"not needed: {one.not_needed}", step=one.step.key)
    return _not_run(objective, probe, measurements)


def _throughput(objective: Objective, _plan: Plan, measurements: Sequence[Measurement], family: int) -> Finding | None:
    load = seconds.heaviest(measurements, objective.direction)
    return seconds.finding(objective, load, family) if load else None


def _under_load(objective: Objective, _plan: Plan, measurements: Sequence[Measurement], family: int) -> Finding | None:
    return loaded.finding(objective, measurements, family)


def _marking(objective: Objective, _plan: Plan, measurements: Sequence[Measurement], _family: int) -> Finding | None:
    marked = [one for one in measurements if one.marking is not None]
    return marking.finding(objective, marked[-1]) if marked else None


def _stream(objective: Objective, _plan: Plan, measurements: Sequence[Measurement], family: int) -> Finding | None:
    streams = [one for one in measurements if one.stamp is not None]
    return packets.finding(objective, max(streams, key=_packets), family) if streams else None


def _symmetry(objective: Objective, plan: Plan, measurements: Sequence[Measurement], family: int) -> Finding | None:
    return asymmetry.finding(objective, plan.link, measurements, family, why.diagnose(plan, measurements))


def _routes(objective: Objective, _plan: Plan, measurements: Sequence[Measurement], _family: int) -> Finding | None:
    return route_symmetry.routes_finding(objective, measurements)


def _delays(objective: Objective, plan: Plan, measurements: Sequence[Measurement], _family: int) -> Finding | None:
    return route_symmetry.delays_finding(objective, plan.link, measurements)


_Judge = Callable[[Objective, Plan, Sequence[Measurement], int], Finding | None]  # None: nothing was measured of it
_JUDGES: dict[str, _Judge] = {  # by metric, else by the probe that measures it
    **dict.fromkeys(loaded.METRICS, _under_load),
    "rate_symmetry": _symmetry,
    route_symmetry.ROUTES: _routes,
    route_symmetry.DELAYS: _delays,
    "throughput": _throughput,
    "marking": _marking,
    "mtu": mtu.finding,
    "members": members.finding,
    "stamp": _stream,
    "services": services.finding,
    "search": search.finding,
    "bursts": bursts.finding,
}


def _packets(measurement: Measurement) -> int:
    return measurement.stamp.summary.sent if measurement.stamp else 0


def _missing(objective: Objective, why: str, hint: str, step: str = "") -> Finding:
    return Finding(objective, Outcome.NO_DATA, why, None, hint, Rule.NONE, step)


def _not_run(objective: Objective, probe: str, measurements: Sequence[Measurement]) -> Finding:
    if probe in _NEED_AGENT and any(one.stamp and one.stamp.far_end != "agent" for one in measurements):
        why = f"{words.name(objective)}: needs our agent at the far end, and there was a reflector that is not ours"
        return _missing(objective, why, "start `linkqual agent` there and give its pairing line")
    return _missing(
        objective, f"{words.name(objective)}: the {probe} probe was not run", f"measure with the {probe} probe"
    )


def _family_words(family: int, findings: Sequence[Finding]) -> str:
    confidence = min((one.objective.confidence for one in findings), default=0.95)
    error = words.percent(1 - confidence)
    if family == 1:
        return f"one red line: it passes or fails wrongly with at most {error} each"
    return (
        f"{family} red lines: a line bad in any one respect passes with at most {error}; "
        f"a line good in all of them fails with at most {error}, shared by the {family} (Bonferroni)"
    )


__all__ = ["judge"]
