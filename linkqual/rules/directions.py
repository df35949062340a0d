"""Forward beside reverse, quantity by quantity: delay, rate, loss, delay variation, and both loaded at once. Floor 2, pure.

Each says "symmetric", "minor", "asymmetric" or "undetermined" (of both at once: "shared", "host", "symmetric"), and what would settle it. A
difference that clocks or hosts may have made is undetermined: the line is not blamed for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from linkqual.model import (
    Conditions,
    Diagnosis,
    Direction,
    Link,
    Measurement,
    Objective,
    StampResult,
    Summary,
    Tally,
)
from linkqual.rules import clocks, ledger, rates_beside
from linkqual.rules.beside import CONFIDENCE, FORWARD, REVERSE, WAYS, Beside
from linkqual.session import delay_symmetry
from linkqual.session.delay_symmetry import DelayDifference
from linkqual.session.symmetry import ASYMMETRIC, SYMMETRIC, UNDETERMINED
from linkqual.stats import histogram, query, tally
from linkqual.stats.confidence import quantile_interval, ratio_interval, ratio_upper
from linkqual.units import format_count, format_duration, format_ratio

LOSS_FACTOR, LOSS_CONFIDENCE = 2.0, 0.99
VARIATION_FACTOR, VARIATION_NS, VARIATION = 2.0, 1_000_000, 0.95
CONTRADICTION = "contradiction"
WHICH = "look up the length of the fibre again, and see what keeps both clocks: one of both is wrong"
SYNC = "keep both clocks by one source with a bound far below the difference (PTP, or chrony on a near server), or give the fibre's length (fibre: in the link file)"


def of(link: Link, measurements: Sequence[Measurement], diagnoses: Sequence[Diagnosis] = ()) -> tuple[Beside, ...]:
    """Every quantity that was measured in both directions. `diagnoses`: why a goodput is short, so that no end is taken for the line."""
    streams = [one for one in measurements if one.stamp is not None and one.stamp.summary.sent]
    stream = max(streams, key=lambda one: one.stamp.summary.sent if one.stamp else 0, default=None)
    found: list[Beside] = []
    if stream is not None and stream.stamp is not None:
        found += _delay(link, stream, stream.stamp.summary)
        found += _variation(stream, stream.stamp.summary)
        found += _loss(stream, stream.stamp)
    return (*found, *rates_beside.alone(link, measurements, diagnoses), *rates_beside.at_once(link, measurements))


# ---- delay


def difference(link: Link, summary: Summary, conditions: Conditions) -> tuple[DelayDifference | None, str]:
    """How far both directions differ in delay, and why no bound of the clocks holds; None where a direction has no delay."""
    delays = (summary.forward_delay.minimum, summary.reverse_delay.minimum, summary.round_trip_delay.minimum)
    if None in delays:
        return None, ""
    forward, reverse, trip = (delay or 0 for delay in delays)
    error, why = clocks.bound_ns(summary, conditions)
    return delay_symmetry.judge(forward, reverse, trip, error, link.fibre_km), why


def _delay(link: Link, stream: Measurement, summary: Summary) -> Iterator[Beside]:
    found, why = difference(link, summary, stream.conditions)
    if found is None:
        return
    forward, reverse = summary.forward_delay.minimum, summary.reverse_delay.minimum
    said = f"smallest one-way delay {format_duration(forward)} forward and {format_duration(reverse)} reverse: {difference_words(found, why)}"
    clash = found.by == CONTRADICTION
    settle = WHICH if clash else SYNC if found.verdict == UNDETERMINED else ""
    n = min(summary.forward_delay.n, summary.reverse_delay.n)
    yield Beside("one-way delay", found.verdict, said, "ns", forward, reverse, n, None, settle, stream.step.key, clash)


def difference_words(found: DelayDifference, why: str = "") -> str:
    """What is known, and whether the length of the fibre that was given cannot be true."""
    untrue = f"; the length of the fibre cannot be true and is not used: {found.untrue}" if found.untrue else ""
    return f"{_difference_words(found, why)}{untrue}"


def _difference_words(found: DelayDifference, why: str) -> str:
    """ "-5.7 ms ± 400 µs, asymmetric: reverse is longer by 5.3 ms at least, and it counts from 1.39 ms on"."""
    apart = f"{'-' if found.measured_ns < 0 else ''}{format_duration(abs(found.measured_ns))}"
    counts = f"it counts from {format_duration(found.threshold_ns)} on"
    if found.by == CONTRADICTION:
        return f"{apart}, undetermined: the clocks' bound and the length of the fibre exclude each other"
    if found.low_ns is None or found.high_ns is None:
        return f"{apart}, undetermined: {why or 'the offset between both clocks is not known'}"
    within = f"within {_signed(found.low_ns)} to {_signed(found.high_ns)} by the length of the fibre"
    if found.low_ns == found.high_ns:
        within = "by one clock"
    elif found.by == "clocks":
        within = f"± {format_duration((found.high_ns - found.low_ns) // 2)} by the clocks"
    said = f"{apart} {within}, {found.verdict}"
    if found.verdict == ASYMMETRIC:
        slower, least = (FORWARD, found.low_ns) if found.low_ns > 0 else (REVERSE, -found.high_ns)
        return f"{said}: {slower} is longer by {format_duration(least)} at least, and {counts}"
    return f"{said}: {counts}"


def _signed(ns: int) -> str:
    return f"{'-' if ns < 0 else '+'}{format_duration(abs(ns))}"


# ---- delay variation


def _variation(stream: Measurement, summary: Summary) -> Iterator[Beside]:
    """What packets wait above the smallest delay, p95: the offset of the clocks cancels, their drift is a doubt."""
    found = {way: query.distribution(summary, "pdv", way) for way in WAYS}
    forward, reverse = found[FORWARD], found[REVERSE]
    if forward is None or reverse is None:
        return
    values = {
        way: float(histogram.quantile(one, VARIATION) or 0) for way, one in ((FORWARD, forward), (REVERSE, reverse))
    }
    spans = {
        way: quantile_interval(one, VARIATION, CONFIDENCE) for way, one in ((FORWARD, forward), (REVERSE, reverse))
    }
    worse, better = sorted(WAYS, key=lambda way: -values[way])
    feigned = clocks.added_ns(Objective("pdv", "p95", worse, None), summary, stream.conditions)
    apart = values[worse] - values[better] > VARIATION_NS and values[worse] > VARIATION_FACTOR * values[better]
    low, high = spans[worse][0], spans[better][1]
    proven = low is not None and high is not None and low - feigned > high
    word = ASYMMETRIC if apart and proven else UNDETERMINED if apart else SYMMETRIC
    said = f"delay variation (PDV p95) {format_duration(values[FORWARD])} forward and {format_duration(values[REVERSE])} reverse"
    said += (
        f": {worse} varies more"
        if word == ASYMMETRIC
        else ": too few packets, or clocks that drift, to tell"
        if apart
        else ""
    )
    settle = "more packets, and clocks kept by one source" if word == UNDETERMINED else ""
    ratio = (values[worse] / values[better], None, None) if values[better] else None
    n = min(forward.n, reverse.n)
    yield Beside(
        "delay variation", word, said, "ns", values[FORWARD], values[REVERSE], n, ratio, settle, stream.step.key
    )


# ---- loss


_Ratio = tuple[float, float | None, float | None]


def _loss(stream: Measurement, result: StampResult) -> Iterator[Beside]:
    """Losses by event, since packets of one burst are no separate looks: which share of all events a direction has, exactly."""
    found = {way: result.summary.loss.get(way) for way in WAYS}
    lost = {way: one for way, one in found.items() if one is not None and one.n}
    if len(lost) < len(WAYS):
        return
    shares = {way: one.bad / one.n for way, one in lost.items()}
    worse, better = sorted(WAYS, key=lambda way: -shares[way])
    ratio = _ratio(lost[worse], lost[better])
    word, told, settle = _losses(stream, result.summary.lost, lost, worse, ratio)
    said = " and ".join(
        f"{format_count(one.bad)} of {format_count(one.n)} {way} ({format_ratio(shares[way])})"
        for way, one in lost.items()
    )
    yield Beside(
        "loss", word, f"lost {said}: {told}", "ratio", shares[FORWARD], shares[REVERSE], min(one.n for one in lost.values()),
        ratio if ratio is not None and ratio[0] < math.inf else None, settle, stream.step.key,
    )  # fmt: skip


def _ratio(worse: Tally, better: Tally) -> _Ratio | None:
    """Of both loss ratios, with the interval of the ratio of events (Clopper-Pearson of the share one has of all); None without a loss."""
    events = tally.events(worse), tally.events(better)
    if not events[0]:
        return None
    low, high = ratio_interval(events[0], sum(events), LOSS_CONFIDENCE)
    looked = better.n / worse.n
    least, most = (end / (1 - end) * looked if end < 1 else None for end in (low, high))
    return (worse.bad / worse.n / (better.bad / better.n) if better.bad else math.inf), least, most


def _losses(
    stream: Measurement, undirected: int, lost: Mapping[Direction, Tally], worse: Direction, ratio: _Ratio | None
) -> tuple[str, str, str]:
    """The word, why, what would settle it. `undirected`: lost packets that count in both directions, since nobody knows which it was."""
    if ratio is None:
        most = format_ratio(max(ratio_upper(0, one.n, CONFIDENCE) for one in lost.values()))
        return SYMMETRIC, f"none either way, at most {most} each", ""
    if undirected:
        said = f"{format_count(undirected)} were lost in a direction that is not known, and count in both"
        return UNDETERMINED, said, "our agent at the far end, alive to the end of the run"
    value, least, highest = ratio
    events = f"by {' and '.join(str(tally.events(lost[way])) for way in WAYS)} events"
    if (least is None or least > 1) and value > LOSS_FACTOR:
        if doubts := ledger.doubts(stream, worse):
            packets = format_count(sum(one.packets for one in doubts))
            return UNDETERMINED, f"{worse} loses more, but a host may have lost {packets} of them", doubts[0].remedy
        return ASYMMETRIC, f"{worse} loses more, {events}, beyond chance (p < {1 - LOSS_CONFIDENCE:.2g})", ""
    if highest is not None and highest <= LOSS_FACTOR:
        return SYMMETRIC, f"alike within a factor of {LOSS_FACTOR:g}, {events}", ""
    return UNDETERMINED, f"so few events ({events}) do not tell both directions apart", "more packets"
