"""What both directions beside each other say to people, and the red line on their rates. Floor 2, pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from linkqual.model import (
    Conditions,
    Diagnosis,
    Direction,
    Estimate,
    Finding,
    Link,
    Measurement,
    Note,
    Objective,
    Outcome,
    Rule,
    Summary,
)
from linkqual.rules import clocks, directions, ends, goodput_pair, seconds, words
from linkqual.rules.beside import Beside
from linkqual.rules.proportion import strict_confidence
from linkqual.rules.rates_beside import HOST, MINOR, SHARED
from linkqual.session.symmetry import ASYMMETRIC, SYMMETRIC, UNDETERMINED
from linkqual.stats import histogram, query
from linkqual.stats.confidence import quantile_interval
from linkqual.units import format_duration

JITTER_FACTOR, JITTER_NS = 2.0, 100_000  # what is worth a note
MEASURABLE_NS = 1_000
CONFIDENCE = 0.95

FORWARD, REVERSE = Direction.FORWARD, Direction.REVERSE


def notes(link: Link, measurements: Sequence[Measurement], diagnoses: Sequence[Diagnosis] = ()) -> Iterator[Note]:
    """Of everything measured in both directions, and of the tail of each stream's delay variation."""
    found = directions.of(link, measurements, diagnoses)
    for one in found:
        if one.word != SYMMETRIC or one.what not in ("loss", "delay variation"):
            yield _note(one)
    if any(one.what == "delay variation" and one.word == ASYMMETRIC for one in found):
        return
    for measurement in measurements:
        if measurement.stamp is not None:
            yield from _jitter(measurement.stamp.summary, measurement.conditions)


_KINDS = {
    "goodput": "throughput",
    "both at once": "throughput",
    "one-way delay": "delay",
    "delay variation": "delay",
    "loss": "loss",
}


def _note(one: Beside) -> Note:
    apart = one.word in (ASYMMETRIC, MINOR, SHARED, HOST)
    kind = _KINDS[one.what]
    if one.word in (ASYMMETRIC, MINOR):
        kind = "asymmetry"
    elif one.word == UNDETERMINED and one.what == "one-way delay":
        kind = "clock"
    said = f"{one.said}. To settle it: {one.settle}" if one.settle else one.said
    return Note(kind, said, "warn" if apart else "info")


def _jitter(summary: Summary, conditions: Conditions) -> Iterator[Note]:
    """Beyond what the clocks may have added to the worse direction."""
    found = {way: query.distribution(summary, "pdv", way) for way in (FORWARD, REVERSE)}
    forward, reverse = found[FORWARD], found[REVERSE]
    if forward is None or reverse is None:
        return
    values = {way: histogram.quantile(one, 0.999) or 0 for way, one in ((FORWARD, forward), (REVERSE, reverse))}
    worse, better = sorted((FORWARD, REVERSE), key=lambda way: -values[way])
    apart = values[worse] - values[better]
    low = quantile_interval(forward if worse is FORWARD else reverse, 0.999, CONFIDENCE)[0]
    high = quantile_interval(forward if better is FORWARD else reverse, 0.999, CONFIDENCE)[1]
    feigned = clocks.added_ns(Objective("pdv", "p99.9", worse, None), summary, conditions)
    if (
        values[worse] < JITTER_FACTOR * values[better]
        or apart < JITTER_NS
        or low is None
        or high is None
        or low - feigned <= high
    ):
        return
    yield Note(
        "asymmetry",
        f"jitter (PDV p99.9) is {format_duration(values[worse])} {worse} and {format_duration(values[better])} {better}: "
        f"{worse} is the worse direction{_factor(values[worse], values[better])}",
    )


def _factor(larger: int, smaller: int) -> str:
    """Of nothing there is no multiple."""
    return f" by a factor of {larger / smaller:.1f}" if smaller >= MEASURABLE_NS else ""


def finding(
    objective: Objective,
    link: Link,
    measurements: Sequence[Measurement],
    family: int,
    diagnoses: Sequence[Diagnosis] = (),
) -> Finding:
    """How alike both directions are, each against its own contracted rate where those differ. What an end limits fails no line."""
    taken = {way: load for way in (FORWARD, REVERSE) if (load := seconds.heaviest(measurements, way)) is not None}
    results = {way: load.throughput for way, load in taken.items() if load.throughput and load.throughput.receiver_bps}
    if len(results) < 2:
        lacking = next(way for way in (FORWARD, REVERSE) if way not in results)
        fault = taken[lacking].fault if lacking in taken else None
        why = f"{words.name(objective)}: no second was measured {lacking}" + (f" ({fault.message})" if fault else "")
        return Finding(objective, Outcome.NO_DATA, why, None, "measure both directions with the throughput probe")
    rates = goodput_pair.contracted(link)
    compared = goodput_pair.of(results, objective.confidence, rates)
    strict = goodput_pair.of(results, strict_confidence(objective.confidence, family), rates)
    key, weaker = taken[compared.weaker].step.key, compared.weaker
    unequal = rates[FORWARD] != rates[REVERSE]
    said = f"{compared.said}: {compared.weaker_words}" + (", each against its contracted rate" if unequal else "")
    made = (
        None
        if compared.nothing
        else Estimate(
            _known(compared.factor),
            _known(compared.low),
            _known(compared.high),
            objective.confidence,
            compared.n,
            "times",
            "medians of the seconds, each by its order statistics",
        )
    )
    if objective.limit is None:
        return Finding(
            objective, Outcome.NOT_JUDGED, f"{said}, {words.not_judged(objective)}", made, "", Rule.NONE, key
        )
    asked = f"a factor of at most {objective.limit:g} is asked"
    if compared.high is not None and compared.high <= objective.limit:
        return Finding(objective, Outcome.PASS, f"{compared.said}: symmetric; {asked}", made, "", Rule.EXACT, key)
    if (strict.low or 0) <= objective.limit:
        why = "nothing has no ratio" if compared.nothing else "the limit lies within what so few seconds show"
        said = f"{said}; {asked}, and {why}"
        return Finding(
            objective, Outcome.INCONCLUSIVE, said, made, "measure more seconds of both directions", Rule.EXACT, key
        )
    held, faster = ends.holding(taken[weaker], weaker, diagnoses)
    if held:
        return Finding(objective, Outcome.INCONCLUSIVE, f"{said}; but {held}", made, faster, Rule.EXACT, key)
    site = (link.near or "the near site") if weaker is FORWARD else (link.far or "the far site")
    said = f"{said}; {asked}. What limits it may be the egress of {site}: suspected, not proven"
    more = f"run the same test between two hosts inside {site}: if they are no faster, the site is the limit and not the line"
    return Finding(objective, Outcome.FAIL, said, made, more, Rule.EXACT, key)


def _known(factor: float | None) -> float | None:
    """Of nothing there is no multiple."""
    return None if factor is None or math.isinf(factor) else factor
