"""Forward beside reverse, quantity by quantity: delay, rate, loss, delay variation, and both loaded at once. Floor 2, pure.

Each says "symmetric", "minor", "asymmetric" or "undetermined" (of both at once: "shared", "host", "symmetric"), and what would settle it. A
difference that clocks or hosts may have made is undetermined: the line is not blamed for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from linkqual.model import (
    Conditions,
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
SYNC = "keep both clocks by one source with a bound far below the difference (PTP, or chrony on a near server), or give the fibre's length (fibre: in the link file)"


def of(link: Link, measurements: Sequence[Measurement]) -> tuple[Beside, ...]:
    """Every quantity that was measured in both directions."""
    streams = [one for one in measurements if one.stamp is not None and one.stamp.summary.sent]
    stream = max(streams, key=lambda one: one.stamp.summary.sent if one.stamp else 0, default=None)
    found: list[Beside] = []
    if stream is not None and stream.stamp is not None:
        found += _delay(link, stream, stream.stamp.summary)
        found += _variation(stream, stream.stamp.summary)
        found += _loss(stream, stream.stamp)
    return (*found, *rates_beside.alone(link, measurements), *rates_beside.at_once(link, measurements))


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
    settle = SYNC if found.verdict == UNDETERMINED else ""
    n = min(summary.forward_delay.n, summary.reverse_delay.n)
    yield Beside("one-way delay", found.verdict, said, "ns", forward, reverse, n, None, settle, stream.step.key)


def difference_words(found: DelayDifference, why: str = "") -> str:
    """ "-5.7 ms ± 400 µs, asymmetric: reverse is longer by 5.3 ms at least, and it counts from 1.39 ms on"."""
    apart = f"{'-' if found.measured_ns < 0 else ''}{format_duration(abs(found.measured_ns))}"
    counts = f"it counts from {format_duration(found.threshold_ns)} on"
    if found.by == "contradiction":
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


def _loss(stream: Measurement, result: StampResult) -> Iterator[Beside]:
    """Losses by event, since packets of one burst are no separate looks: which share of all events a direction has, exactly."""
    summary = result.summary
    found = {way: summary.loss.get(way) for way in WAYS}
    forward, reverse = found[FORWARD], found[REVERSE]
    if forward is None or reverse is None or not forward.n or not reverse.n:
        return
    lost = {FORWARD: forward, REVERSE: reverse}
    shares = {way: one.bad / one.n for way, one in lost.items()}
    said = " and ".join(
        f"{format_count(one.bad)} of {format_count(one.n)} {way} ({format_ratio(shares[way])})"
        for way, one in lost.items()
    )
    word, told, settle, ratio = _losses(stream, lost, shares)
    n = min(forward.n, reverse.n)
    yield Beside(
        "loss",
        word,
        f"lost {said}: {told}",
        "ratio",
        shares[FORWARD],
        shares[REVERSE],
        n,
        ratio,
        settle,
        stream.step.key,
    )


def _losses(
    stream: Measurement, lost: dict[Direction, Tally], shares: dict[Direction, float]
) -> tuple[str, str, str, tuple[float, float | None, float | None] | None]:
    worse, better = sorted(WAYS, key=lambda way: -shares[way])
    if not lost[worse].bad:
        most = format_ratio(max(ratio_upper(0, one.n, CONFIDENCE) for one in lost.values()))
        return SYMMETRIC, f"none either way, at most {most} each", "", None
    events = {way: tally.events(one) for way, one in lost.items()}
    low, high = ratio_interval(events[worse], sum(events.values()), LOSS_CONFIDENCE)
    looked = lost[better].n / lost[worse].n
    ratio = shares[worse] / shares[better] if shares[better] else None
    span = (low / (1 - low) * looked if low < 1 else None, high / (1 - high) * looked if high < 1 else None)
    made = (ratio, *span) if ratio is not None else None
    counted = f"by {events[FORWARD]} and {events[REVERSE]} events"
    if (span[0] is None or span[0] > 1) and (ratio is None or ratio > LOSS_FACTOR):
        doubts = ledger.doubts(stream, worse)
        if doubts:
            return (
                UNDETERMINED,
                f"{worse} loses more, but a host may have lost {format_count(sum(one.packets for one in doubts))} of them",
                doubts[0].remedy,
                made,
            )
        return ASYMMETRIC, f"{worse} loses more, {counted}, beyond chance (p < {1 - LOSS_CONFIDENCE:.2g})", "", made
    if span[1] is not None and span[1] <= LOSS_FACTOR:
        return SYMMETRIC, f"alike within a factor of {LOSS_FACTOR:g}, {counted}", "", made
    return UNDETERMINED, f"so few events ({counted}) do not tell both directions apart", "more packets", made
