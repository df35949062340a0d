"""Forward beside reverse: delay, its variation and goodput. The weaker direction is named, with its factor. Floor 2, pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from linkqual.model import (
    Conditions,
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
    ThroughputResult,
)
from linkqual.rules import clocks, hosts, loads, seconds, words
from linkqual.rules.proportion import strict_confidence
from linkqual.stats import histogram, query, throughput
from linkqual.stats.confidence import quantile_interval
from linkqual.units import format_duration, format_rate

JITTER_FACTOR, JITTER_NS = 2.0, 100_000  # what is worth a note
MEASURABLE_NS = 1_000
RATE_FACTOR = 1.1
DELAY_NS = 100_000
CONFIDENCE = 0.95

FORWARD, REVERSE = Direction.FORWARD, Direction.REVERSE


def notes(measurements: Sequence[Measurement]) -> Iterator[Note]:
    """Of each stream, and of the heaviest load in each direction."""
    for measurement in measurements:
        if measurement.stamp is not None:
            yield from _jitter(measurement.stamp.summary, measurement.conditions)
            yield from _delay(measurement.stamp.summary, measurement.conditions)
    forward, reverse = (loads.by_streams(measurements, way) for way in (FORWARD, REVERSE))
    if forward and reverse:
        yield from _rate(forward[-1], reverse[-1])


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


def _delay(summary: Summary, conditions: Conditions) -> Iterator[Note]:
    """Half the truth without clocks: the difference of both directions contains twice their offset."""
    forward = histogram.quantile(summary.forward_delay, 0.5)
    reverse = histogram.quantile(summary.reverse_delay, 0.5)
    error, _ = clocks.bound_ns(summary, conditions)
    if forward is None or reverse is None or error is None:
        return
    apart = abs(forward - reverse)
    slower = FORWARD if forward > reverse else REVERSE
    said = f"one-way delay at p50 is {format_duration(forward)} forward and {format_duration(reverse)} reverse"
    if apart > 2 * error + DELAY_NS:
        known = f", beyond the {format_duration(2 * error)} the clocks could feign" if error else ""
        yield Note("asymmetry", f"{said}: {slower} is slower by {format_duration(apart)}{known}")
    elif apart > DELAY_NS:
        yield Note(
            "clock",
            f"{said}: the difference is within what the clocks could feign ({format_duration(2 * error)}) and says nothing",
        )


def _rate(forward: ThroughputResult, reverse: ThroughputResult) -> Iterator[Note]:
    compared = _compared({FORWARD: forward, REVERSE: reverse}, CONFIDENCE)
    if not compared.of(compared.weaker):
        yield Note("asymmetry", f"{compared.said}: nothing came through {compared.weaker}", "warn")
    elif compared.factor >= RATE_FACTOR and (compared.low is None or compared.low > 1):
        yield Note("asymmetry", f"{compared.said}: {compared.weaker_words}", "warn")
    else:
        yield Note("throughput", f"{compared.said}: both directions are alike")


@dataclass(frozen=True, slots=True)
class _Compared:
    """Goodput of both directions: the receivers' median seconds, and by what factor one is above the other."""

    middle: dict[Direction, float]
    weaker: Direction
    factor: float
    low: float | None  # of the factor
    high: float | None
    n: int  # seconds of the shorter load

    def of(self, way: Direction) -> float:
        """Its median second, bit/s."""
        return self.middle[way]

    @property
    def said(self) -> str:
        """Both figures."""
        forward, reverse = format_rate(self.of(FORWARD)), format_rate(self.of(REVERSE))
        return f"goodput (receiver's median second) is {forward} forward and {reverse} reverse"

    @property
    def weaker_words(self) -> str:
        """Which one, and by how much."""
        return f"{self.weaker} is the weaker direction by a factor of {self.factor:.1f}"


def _compared(
    results: dict[Direction, ThroughputResult], confidence: float, shares: dict[Direction, float] | None = None
) -> _Compared:
    """`shares`: what each direction's rate is divided by, where the contract allows them different rates."""
    shares = shares or dict.fromkeys(results, 1.0)
    middle = {way: loads.median(result) for way, result in results.items()}
    weaker, stronger = sorted(results, key=lambda way: middle[way] / shares[way])
    spans = {way: throughput.seconds_interval(result.receiver_bps, 0.5, confidence) for way, result in results.items()}

    def factor(above: float | None, below: float | None) -> float | None:
        return above / shares[stronger] / (below / shares[weaker]) if above is not None and below else None

    return _Compared(
        middle,
        weaker,
        factor(middle[stronger], middle[weaker]) or math.inf,
        factor(spans[stronger][0], spans[weaker][1]),
        factor(spans[stronger][1], spans[weaker][0]),
        min(len(result.receiver_bps) for result in results.values()),
    )


def finding(objective: Objective, link: Link, measurements: Sequence[Measurement], family: int) -> Finding:
    """How alike both directions are, each against its own contracted rate where those differ. A host's own limit fails no line."""
    taken = {way: load for way in (FORWARD, REVERSE) if (load := seconds.heaviest(measurements, way)) is not None}
    results = {way: load.throughput for way, load in taken.items() if load.throughput and load.throughput.receiver_bps}
    if len(results) < 2:
        lacking = next(way for way in (FORWARD, REVERSE) if way not in results)
        fault = taken[lacking].fault if lacking in taken else None
        why = f"{words.name(objective)}: no second was measured {lacking}" + (f" ({fault.message})" if fault else "")
        return Finding(objective, Outcome.NO_DATA, why, None, "measure both directions with the throughput probe")
    rates = {way: float(link.contracted_bps(way) or 1) for way in results}
    compared = _compared(results, objective.confidence, rates)
    strict = _compared(results, strict_confidence(objective.confidence, family), rates)
    key, weaker = taken[compared.weaker].step.key, compared.weaker
    unequal = rates[FORWARD] != rates[REVERSE]
    said = f"{compared.said}: {compared.weaker_words}" + (", each against its contracted rate" if unequal else "")
    made = Estimate(
        compared.factor,
        compared.low,
        compared.high,
        objective.confidence,
        compared.n,
        "times",
        "medians of the seconds, each by its order statistics",
    )
    if objective.limit is None:
        return Finding(
            objective, Outcome.NOT_JUDGED, f"{said}, {words.not_judged(objective)}", made, "", Rule.NONE, key
        )
    asked = f"a factor of at most {objective.limit:g} is asked"
    if compared.high is not None and compared.high <= objective.limit:
        return Finding(objective, Outcome.PASS, f"{compared.said}: symmetric; {asked}", made, "", Rule.EXACT, key)
    if (strict.low or 0) <= objective.limit and compared.factor < math.inf:
        said = f"{said}; {asked}, and the limit lies within what so few seconds show"
        return Finding(
            objective, Outcome.INCONCLUSIVE, said, made, "measure more seconds of both directions", Rule.EXACT, key
        )
    limited = hosts.limiting(taken[weaker])
    if limited:
        said = f"{said}; but {limited}: the host may be the limit and not the line"
        return Finding(objective, Outcome.INCONCLUSIVE, said, made, seconds.FASTER, Rule.EXACT, key)
    site = (link.near or "the near site") if weaker is FORWARD else (link.far or "the far site")
    said = f"{said}; {asked}. What limits it may be the egress of {site}: suspected, not proven"
    more = f"run the same test between two hosts inside {site}: if they are no faster, the site is the limit and not the line"
    return Finding(objective, Outcome.FAIL, said, made, more, Rule.EXACT, key)
