"""Goodput beside the contracted rate: what the headers leave of it, and what one stream reaches alone. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from linkqual.model import Direction, Link, Measurement, Note, Plan, ThroughputResult
from linkqual.stats import throughput
from linkqual.units import format_count, format_rate, format_ratio

WHOLE = 0.985  # of what the headers allow: all of it, TCP's own needs taken off
JUMBO = 9000
HIDES_LOSS = ("bbr",)  # it keeps its rate whatever is lost: shown beside, never judged in place of another
ALONE = 0.9  # one stream under this share of many is worth a note
TIMESTAMPS_IPV4 = 52  # IPv4 and TCP headers with time stamps around the segment iperf3 reports


def notes(plan: Plan, measurements: Sequence[Measurement]) -> Iterator[Note]:
    """Of both directions."""
    for direction in (Direction.FORWARD, Direction.REVERSE):
        loads = by_streams(measurements, direction)
        if loads:
            yield from _headers(plan.link, direction, loads[-1])
            yield from _alone(direction, loads[0], loads[-1])


def by_streams(measurements: Sequence[Measurement], direction: Direction) -> list[ThroughputResult]:
    """The loads of a direction alone that have seconds to show, the one with the most streams last.

    Those with a congestion control that hides loss are left out where there are others: a comparison is no rung of the ladder.
    """
    here = [
        one
        for one in measurements
        if one.step.direction is direction and one.throughput and one.throughput.receiver_bps
    ]
    rungs = [one for one in here if one.step.params.get("congestion_control") not in HIDES_LOSS] or here
    return sorted((one.throughput for one in rungs if one.throughput), key=lambda one: one.streams)


def median(result: ThroughputResult) -> float:
    """Of the receiver's seconds."""
    return throughput.seconds_quantile(result.receiver_bps, 0.5) or 0.0


def _headers(link: Link, direction: Direction, result: ThroughputResult) -> Iterator[Note]:
    rate = link.contracted_bps(direction)
    mtu = link.mtu or (result.mss + TIMESTAMPS_IPV4 if result.mss else None)
    if not rate or not mtu:
        return
    allowed = result.allowed_bps or throughput.header_goodput(rate, mtu, counts=link.rate_counts)
    got = median(result)
    said = (
        f"{direction} goodput of {format_rate(got)} is {format_ratio(got / rate)} of the contracted {format_rate(rate)}"
    )
    leave = f"at MTU {mtu} the headers leave {format_ratio(allowed / rate)} of it ({format_rate(allowed)})"
    if got >= WHOLE * allowed:
        said += f"; {leave}, so this is the whole of it"
        if mtu < JUMBO:
            jumbo = throughput.header_goodput(rate, JUMBO, counts=link.rate_counts) / rate
            said += f" (at MTU {JUMBO} they would leave {format_ratio(jumbo)})"
    else:
        said += f"; {leave}, of which {format_ratio(got / allowed)} came through"
    yield Note("throughput", said)


def slow_alone(one: ThroughputResult, most: ThroughputResult) -> bool:
    """Whether few streams stay well below what many reach."""
    return one.streams < most.streams and median(one) < ALONE * median(most)


def _alone(direction: Direction, one: ThroughputResult, most: ThroughputResult) -> Iterator[Note]:
    if slow_alone(one, most):
        alone, together = median(one), median(most)
        streams = f"{one.streams} stream{'s' if one.streams > 1 else ''}"
        yield Note(
            "throughput",
            f"{direction}, {streams} reach{'es' if one.streams == 1 else ''} {format_rate(alone)} and {format_count(most.streams)} streams "
            f"{format_rate(together)}: the line carries the larger figure, a single flow is bound by its window, its loss or a cap for each flow",
        )
