"""Three questions on the topology that every line is asked: the same at both sites, non-blocking for RoCE, symmetric routes. Floor 2, pure.

A check that fails names what was seen. PASS needs everything it rests on to be seen; what was not looked at, or cannot be told, leaves it
UNKNOWN, which is no PASS. None of them turns a verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from linkqual.model import Diagnosis, Finding, Measurement, Plan, SelfCheck
from linkqual.rules import directions, non_blocking, route_symmetry, sites
from linkqual.rules.beside import Beside
from linkqual.rules.looks import BESIDE, FAIL, NOT_MEASURED, PASS, UNKNOWN, Look, unseen
from linkqual.session import compared
from linkqual.session.symmetry import ASYMMETRIC, SYMMETRIC, UNDETERMINED

SITES, NON_BLOCKING, ROUTES = "same topology across sites", "non-blocking for RoCE", "symmetric routes"
_INSIDE = "the inside of a site does not show from its hosts: compare what both sites tell of cards, switches and their links (nvidia-smi topo -m, lldpctl)"
_COUNTERS = "pause and ECN counters of the cards and switches at both sites show what blocks inside them"


def of(
    plan: Plan, measurements: Sequence[Measurement], findings: Sequence[Finding], diagnoses: Sequence[Diagnosis] = ()
) -> tuple[SelfCheck, ...]:
    """The three, in the order people ask them."""
    besides = {one.what: one for one in directions.of(plan.link, measurements, diagnoses)}
    return (
        _combined(SITES, list(sites.looks(plan, measurements)), _INSIDE),
        _combined(NON_BLOCKING, list(non_blocking.looks(plan, measurements, besides, findings, diagnoses)), _COUNTERS),
        _combined(ROUTES, list(_routes(measurements, besides)), ""),
    )


def _combined(name: str, looks: Sequence[Look], beyond: str) -> SelfCheck:
    """FAIL by any that fails, PASS by all. `beyond`: what would show what no look can."""
    by = {outcome: [one for one in looks if one.outcome == outcome] for outcome in (FAIL, UNKNOWN, PASS)}
    outcome = next(each for each in (FAIL, UNKNOWN, PASS) if by[each])
    telling = by[outcome]
    said = "; ".join(_by_words(telling))
    settle = [one.settle for one in telling if one.settle]
    if probes := list(dict.fromkeys(one.probe for one in telling if one.probe)):
        settle.append(
            f"measure with {'probe' if len(probes) == 1 else 'probes'} {', '.join(probes)}, and our agent at the far end"
        )
    if outcome == PASS and beyond:
        said, settle = f"as far as both ends see: {said}", [beyond]
    evidence = tuple((one.what, one.shown or one.said) for one in looks)
    return SelfCheck(name, outcome, said, evidence, "; ".join(dict.fromkeys(settle)))


def _by_words(looks: Sequence[Look]) -> Iterator[str]:
    """ "not measured: marking, packet size"; "routers: 3 forward, 5 back"."""
    by = {said: [one.what for one in looks if one.said == said] for said in dict.fromkeys(one.said for one in looks)}
    for said, names in by.items():
        yield f"{said}: {', '.join(names)}" if said == NOT_MEASURED else f"{', '.join(names)}: {said}"


# ---- symmetric routes


def _routes(measurements: Sequence[Measurement], besides: Mapping[str, Beside]) -> Iterator[Look]:
    """The routers of both ways, and whether both are equally long; rate, loss and delay variation stand beside."""
    traced = _traced(measurements)
    yield traced
    delay = besides.get("one-way delay")
    if delay is not None:
        # what no router shows: a carrier's own network may take two ways below one IP link
        outcome = FAIL if delay.word == ASYMMETRIC else UNKNOWN if delay.clash else BESIDE
        settle = "ask the carrier for the routes of both directions below IP" if outcome == FAIL else ""
        yield Look(
            "delay", outcome, delay.said, delay.settle if delay.clash else settle if traced.outcome == PASS else ""
        )
    for what in ("goodput", "loss", "delay variation"):
        if what in besides:
            yield Look(what, BESIDE, besides[what].said)


def _traced(measurements: Sequence[Measurement]) -> Look:
    path = next((one.path for one in measurements if one.path is not None), None)
    if path is None:
        return unseen("traces", "path", NOT_MEASURED, measurements)
    found = compared.of(path)
    outcome = {SYMMETRIC: PASS, UNDETERMINED: UNKNOWN}.get(found.word, FAIL)
    said = (
        path.because
        if outcome == UNKNOWN
        else f"{found.word}, routers: {found.forward_routers} forward and {found.reverse_routers} back"
    )
    return Look("traces", outcome, said, found.settle, route_symmetry.sentence(path))
