"""Findings on services: each load of each service is a check of its own, and the worst decides the red line. Floor 2, pure.

A line passes when every service keeps its criterion in every step (ITU-T Y.1564 section 8). All checks of a red line share its error of a
FAIL; a PASS asks the full confidence of each, since one bad service is enough to fail, and every load of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from linkqual.model import (
    SEVERITY,
    Direction,
    Finding,
    Link,
    Measurement,
    Objective,
    Outcome,
    Plan,
    Relation,
    Rule,
    Service,
    ServicesResult,
    ServiceStep,
    StampResult,
)
from linkqual.profile.agreed import criterion
from linkqual.rules import service_checks as checks
from linkqual.rules import words
from linkqual.rules.service_checks import Load
from linkqual.session import activation
from linkqual.session.activation import Rung
from linkqual.units import format_count, format_value

WHOLE = ("", "host")  # how a load ends that was sent for all its time, if not as fast as asked
_RATES = ("information_rate", "policing")  # of a load that lasted as long as planned only

_Check = Callable[[Objective, Load, float | None, int], Finding]
_CHECKS: dict[str, tuple[_Check, Callable[[ServiceStep | Rung], bool]]] = {
    "information_rate": (checks.rate, lambda step: step.share >= 1),
    "frame_loss_ratio": (checks.loss, lambda step: step.kind in checks.WITHIN_CIR),
    "frame_transfer_delay": (checks.delay, lambda step: step.kind in checks.WITHIN_CIR),
    "frame_delay_variation": (checks.variation, lambda step: step.kind in checks.WITHIN_CIR),
    "service_availability": (checks.availability, lambda step: step.kind == activation.PERFORMANCE),
    "policing": (checks.policing, lambda step: step.kind == activation.OVERSHOOT),
}


def finding(objective: Objective, plan: Plan, measurements: Sequence[Measurement], family: int) -> Finding | None:
    """Of all services in the objective's direction; None when no load of this kind was run."""
    found = of_loads(objective, measurements, family, plan.link)
    if not found:
        return None
    judged = [one for one in found if one[1].outcome is not Outcome.NOT_JUDGED] or found
    load, worst = max(judged, key=lambda one: (SEVERITY.index(one[1].outcome), _badness(objective, one[1])))
    because = f"{words.name(objective)}: {load.title}: {worst.because}"
    alike = sum(one.outcome is worst.outcome for _, one in judged)
    if len(judged) > 1 and worst.outcome is Outcome.PASS:
        because += f"; the least of {len(judged)} loads, all of which keep theirs"
    elif len(judged) > 1 and worst.outcome is not Outcome.NOT_JUDGED:
        because += (
            f"; as {alike} of {len(judged)} loads" if alike > 1 else f"; the other {len(judged) - 1} loads do better"
        )
    if worst.outcome is Outcome.NOT_JUDGED:
        because += f", {words.not_judged(objective)}"
    made = replace(worst, objective=objective, because=because)
    lacking = _lacking(objective, measurements) if made.outcome is Outcome.PASS else []
    if not lacking:
        return made
    others = f" and {format_count(len(lacking) - 1)} more loads" if len(lacking) > 1 else ""
    said = f"{because}; but {lacking[0]}{others} of the plan did not run to the end"
    return replace(
        made, outcome=Outcome.INCONCLUSIVE, because=said, decide="run the services again, to the end of all loads"
    )


def _lacking(objective: Objective, measurements: Sequence[Measurement]) -> list[str]:
    """Titles of the loads it speaks of that were planned and not sent to their end: of them nothing is known."""
    _, speaks_of = _CHECKS[objective.metric]
    rounds = [
        together
        for one in measurements
        if one.step.probe == "services"
        for together in one.step.params.get("rounds", ())
    ]
    planned = [rung for together in rounds for rung in map(activation.of_json, together)]
    taken = [step for one in measurements if one.services is not None for step in one.services.steps]
    whole = {_load_key(step) for step in taken if step.count.sent and step.count.short in WHOLE}
    return [
        f"{rung.service}, {rung.title}"
        for rung in planned
        if rung.direction is objective.direction and speaks_of(rung) and _load_key(rung) not in whole
    ]


def _load_key(one: ServiceStep | Rung) -> tuple[str, Direction, str, float]:
    return one.service, one.direction, one.kind, one.share


def of_loads(
    objective: Objective, measurements: Sequence[Measurement], family: int, link: Link
) -> list[tuple[Load, Finding]]:
    """Every load it speaks of with what it says: what a table of the services shows."""
    check, speaks_of = _CHECKS[objective.metric]
    there = [
        load
        for load in loads(measurements, link)
        if speaks_of(load.step) and load.step.direction is objective.direction
    ]
    limits = [criterion(objective, load.service) for load in there]
    shared = family * max(1, sum(limit is not None for limit in limits))
    return [(load, _checked(check, objective, load, limit, shared)) for load, limit in zip(there, limits, strict=True)]


def loads(measurements: Sequence[Measurement], link: Link) -> list[Load]:
    """Every load of every service, in the order they were run; criteria are those of the line as it is now known."""
    now = {one.name: one for one in activation.services_of(link)}
    found = []
    for taken in measurements:
        if taken.services is None:
            continue
        then = {one.name: one for one in taken.services.services}
        for step in taken.services.steps:
            service = _criteria(then[step.service], now.get(step.service))
            found.append(Load(taken, service, step, beside(taken.services, step)))
    return found


def _criteria(measured: Service, now: Service | None) -> Service:
    """Rates and sizes as they were offered, acceptance criteria as they stand."""
    if now is None:
        return measured
    return replace(measured, flr=now.flr, ftd_ns=now.ftd_ns, fdv_ns=now.fdv_ns, availability=now.availability)


def beside(result: ServicesResult, step: ServiceStep) -> StampResult | None:
    """The stream beside a load: with the load itself, or with the one of the other direction that ran at the same time."""
    if step.beside is not None:
        return step.beside
    if not step.stream_bps:
        return None
    other = (
        one
        for one in result.steps
        if one.beside and (one.service, one.kind, one.share) == (step.service, step.kind, step.share)
    )
    return next((one.beside for one in other), None)


def _checked(check: _Check, objective: Objective, load: Load, limit: float | None, family: int) -> Finding:
    if not load.step.count.sent:
        fault = load.measurement.fault
        why = fault.message if fault else "not a frame was sent"
        return Finding(
            objective,
            Outcome.NO_DATA,
            why,
            None,
            fault.hint if fault else "run again",
            Rule.NONE,
            load.measurement.step.key,
        )
    if objective.metric in _RATES and cut_short(load.step):
        return _cut(objective, load)
    found = check(objective, load, limit, family)
    if found.outcome is not Outcome.FAIL or not load.behind or objective.metric == "policing":
        return found
    said = f"{found.because}; but the sending host fell behind its schedule, and what it sends in lumps may be lost or late by its own doing"
    return replace(found, outcome=Outcome.INCONCLUSIVE, because=said, decide=checks.FASTER)


def cut_short(step: ServiceStep) -> bool:
    """Whether it ended before its time: by an interrupt, a lost peer or a host that could not go on; a cap only makes it smaller."""
    return step.count.short not in (*WHOLE, "cap")


def _cut(objective: Objective, load: Load) -> Finding:
    fault = load.measurement.fault
    why = "this load was not run to its end, so no rate is taken from it" + (f": {fault.message}" if fault else "")
    key = load.measurement.step.key
    return Finding(
        objective, Outcome.NO_DATA, why, None, "run the services again, to the end of all loads", Rule.NONE, key
    )


def _badness(objective: Objective, found: Finding) -> float:
    value = found.estimate.value if found.estimate and found.estimate.value is not None else 0.0
    return -value if objective.relation is Relation.AT_LEAST else value


def limit_words(objective: Objective, service: Service, unit: str) -> str:
    """What is agreed, as a table shows it; "—" where nothing is."""
    limit = criterion(objective, service)
    return "—" if limit is None else format_value(limit, unit)
