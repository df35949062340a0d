"""Forward beside reverse: delay, its variation and goodput. The weaker direction is named, with its factor. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from linkqual.model import Conditions, Direction, Measurement, Note, Objective, Summary, ThroughputResult
from linkqual.rules import clocks, loads
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
    middle = {FORWARD: loads.median(forward), REVERSE: loads.median(reverse)}
    weaker, stronger = sorted((FORWARD, REVERSE), key=lambda way: middle[way])
    results = {FORWARD: forward, REVERSE: reverse}
    said = f"goodput (receiver's median second) is {format_rate(middle[FORWARD])} forward and {format_rate(middle[REVERSE])} reverse"
    if not middle[weaker]:
        yield Note("asymmetry", f"{said}: nothing came through {weaker}", "warn")
        return
    factor = middle[stronger] / middle[weaker]
    above = throughput.seconds_interval(results[weaker].receiver_bps, 0.5, CONFIDENCE)[1]
    below = throughput.seconds_interval(results[stronger].receiver_bps, 0.5, CONFIDENCE)[0]
    apart = above is None or below is None or below > above
    if factor >= RATE_FACTOR and apart:
        yield Note("asymmetry", f"{said}: {weaker} is the weaker direction by a factor of {factor:.1f}", "warn")
    else:
        yield Note("throughput", f"{said}: both directions are alike")
