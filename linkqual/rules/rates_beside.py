"""Rates of both directions beside each other, each alone and both at once. Floor 2, pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from linkqual.model import Diagnosis, Direction, Link, Measurement, ThroughputResult
from linkqual.rules import ends, goodput_pair, hosts, ladder, seconds
from linkqual.rules.beside import CONFIDENCE, FORWARD, REVERSE, WAYS, Beside
from linkqual.session.symmetry import ASYMMETRIC, SYMMETRIC, UNDETERMINED
from linkqual.stats import throughput
from linkqual.units import format_rate, format_ratio

MINOR, SHARED, HOST = "minor", "shared", "host"
ALIKE, LESS = 0.95, 0.90  # of the weaker rate over the stronger one
_LONGER = "a longer load of both at once (short: in the profile)"
TOGETHER = 0.9  # of what a direction carries alone
FEW = 0.9  # confidence: five seconds, as both directions are loaded at once for, have no interval at more


def alone(link: Link, measurements: Sequence[Measurement], diagnoses: Sequence[Diagnosis] = ()) -> Iterator[Beside]:
    """The weaker direction's share q of the stronger one's rate, each against its contracted rate where those differ."""
    taken = {way: load for way in WAYS if (load := seconds.heaviest(measurements, way)) is not None}
    results = {way: load.throughput for way, load in taken.items() if load.throughput and load.throughput.receiver_bps}
    if len(results) < 2:
        return
    pair = goodput_pair.of(results, CONFIDENCE, goodput_pair.contracted(link))
    q, low, high = pair.share
    word = UNDETERMINED if pair.nothing else rate_word(q, low, high)
    apart = word in (ASYMMETRIC, MINOR)
    held, faster = ends.holding(taken[pair.weaker], pair.weaker, diagnoses) if apart else ("", "")
    said, settle = f"{pair.said}: {pair.weaker_words}{f', {_share_words(q, low, high)}' if q else ''}", ""
    if word == SYMMETRIC:
        said = f"{pair.said}: both directions are alike, {_share_words(q, low, high)}"
    elif held:
        said, word, settle = f"{said}; but {held}", UNDETERMINED, faster
    elif word == UNDETERMINED and not pair.nothing:
        settle = "measure more seconds of both directions"
    rates = {way: pair.of(way) for way in WAYS}
    yield Beside(
        "goodput",
        word,
        said,
        "bit/s",
        rates[FORWARD],
        rates[REVERSE],
        pair.n,
        None if pair.nothing else (q, low, high),
        settle,
        taken[pair.weaker].step.key,
    )


def rate_word(q: float, low: float | None, high: float | None) -> str:
    """Of the weaker rate over the stronger one: from 95 % on alike, below 90 % not; what the interval leaves open is open."""
    if low is None or high is None:
        return UNDETERMINED
    if low >= ALIKE:
        return SYMMETRIC
    if high < LESS:
        return ASYMMETRIC
    return MINOR if low >= LESS and high < ALIKE else UNDETERMINED


def _share_words(q: float, low: float | None, high: float | None) -> str:
    span = f" ({format_ratio(low)} to {format_ratio(min(high, 1.0))})" if low is not None and high is not None else ""
    return f"{format_ratio(q)}{span} of the stronger one"


# ---- both at once


def at_once(link: Link, measurements: Sequence[Measurement]) -> Iterator[Beside]:
    """What each direction carries while the other is loaded too, of what it carries alone."""
    load = next((one for one in measurements if one.throughput_back is not None and one.throughput is not None), None)
    if load is None or load.throughput is None or load.throughput_back is None:
        return
    figures = ladder.of_all(link, measurements)
    judged = {way: one.step.key for way in WAYS if (one := seconds.heaviest(measurements, way)) is not None}
    both = {one.direction: one for one in figures if one.at_once}
    by_itself = {one.direction: one for one in figures if judged.get(one.direction) == one.key}
    if set(both) != set(WAYS) or set(by_itself) != set(WAYS):
        return
    shares = {way: (both[way].median_bps or 0) / (by_itself[way].median_bps or 1) for way in WAYS}
    said = " and ".join(
        f"{format_rate(both[way].median_bps)} {way} ({format_ratio(min(shares[way], 1))} of alone)" for way in WAYS
    )
    results = dict(zip(WAYS, (load.throughput, load.throughput_back), strict=True))
    less = [way for way in WAYS if shares[way] < TOGETHER]
    sure = {way: _share_proven(results[way], seconds.heaviest(measurements, way)) for way in WAYS}
    proven = [way for way in less if sure[way][1] < TOGETHER]
    alike = all(least >= TOGETHER for least, _ in sure.values())
    word, more, settle = _shared(less, proven, alike, _limits(load, load.throughput, load.throughput_back))
    yield Beside(
        "both at once", word, f"both directions at once: {said}: {more}", "bit/s", both[FORWARD].median_bps, both[REVERSE].median_bps,
        min(both[way].seconds for way in WAYS), (min(shares.values()), None, None), settle, load.step.key,
    )  # fmt: skip


def _share_proven(together: ThroughputResult, alone: Measurement | None) -> tuple[float, float]:
    """Of the median second alone, at least and at most, wherever both medians may lie; 0 and infinite where too few seconds tell."""
    by_itself = alone.throughput.receiver_bps if alone is not None and alone.throughput is not None else ()
    low, high = throughput.seconds_interval(together.receiver_bps, 0.5, FEW)
    least, most = throughput.seconds_interval(by_itself, 0.5, FEW)
    return low / most if low and most else 0.0, math.inf if high is None or not least else high / least


def _shared(less: Sequence[Direction], proven: Sequence[Direction], alike: bool, limited: str) -> tuple[str, str, str]:
    """The word, why, what would settle it."""
    if alike:
        return SYMMETRIC, "each carries its own", ""
    if not less:
        return UNDETERMINED, "about as much as alone, in seconds too few or too uneven to tell", _LONGER
    if limited:
        return HOST, f"{limited}: the hosts may be the limit and not the line", seconds.FASTER
    if not proven:
        return (
            UNDETERMINED,
            "less than alone, in seconds too few or too uneven to tell",
            _LONGER,
        )
    settle = "the same between two hosts of one site: if they carry both at once, the line is what is shared"
    return SHARED, "the two directions take from each other, or a host cannot do both", settle


def _limits(load: Measurement, there: ThroughputResult, back: ThroughputResult) -> str:
    used = [f"iperf3 used {said}" for said in dict.fromkeys((hosts.busy(there), hosts.busy(back))) if said]
    dropped = ", ".join(
        filter(None, (hosts.early(load.conditions.near, "near"), hosts.early(load.conditions.far, "far")))
    )
    return ", and ".join([*used, *([f"a receiving host had no room for packets ({dropped})"] if dropped else [])])
