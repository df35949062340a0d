"""Every TCP load in figures: how steady it was, and what RFC 6349 asks of it. Recomputed from the stored measurement. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from linkqual.model import Direction, Link, Measurement, ThroughputResult
from linkqual.rules import loads
from linkqual.stats import sustained, throughput
from linkqual.stats.sustained import Dip

STATISTIC = 0.05  # of the seconds: the sustained rate


@dataclass(frozen=True, slots=True)
class Figures:
    """One direction of one load. None: what it takes is not known. Rates in bit/s, shares as ratios."""

    key: str  # of the step
    direction: Direction
    streams: int
    congestion_control: str
    judged: bool
    at_once: bool  # the other direction was loaded at the same time
    seconds: int
    p5_bps: float | None
    median_bps: float | None
    least_bps: float | None
    variation: float | None  # coefficient of variation of the seconds
    drift: tuple[float, float, float] | None  # bit/s an hour: slope, low, high (`stats.sustained`)
    dip: Dip | None
    efficiency: float | None  # RFC 6349 section 4.2
    transfer_time_ratio: float | None  # section 4.1, against the goodput the headers allow
    buffer_delay: float | None  # section 4.3: TCP's mean round trip above the idle one, as a share of that
    idle_rtt_ns: int | None  # median of the STAMP stream just before the load
    rtt_ns: int | None  # TCP's, mean of the seconds
    bdp_bytes: float | None  # of the contracted rate (else the median) and the idle round trip
    retransmits: int | None
    window_bytes: int | None
    receive_window_bytes: int | None


def of_all(link: Link, measurements: Sequence[Measurement]) -> tuple[Figures, ...]:
    """Of every load that has seconds to show, in the order measured; a load of both directions gives two."""
    return tuple(figures for one in measurements for figures in of(link, one))


def of(link: Link, measurement: Measurement) -> Iterator[Figures]:
    """Of one step."""
    at_once = measurement.throughput_back is not None
    way = measurement.step.direction
    forward = Direction.FORWARD if way is Direction.ROUND_TRIP else way
    if measurement.throughput is not None and measurement.throughput.receiver_bps:
        yield _figures(link, measurement, measurement.throughput, forward, at_once=at_once)
    if measurement.throughput_back is not None and measurement.throughput_back.receiver_bps:
        yield _figures(link, measurement, measurement.throughput_back, Direction.REVERSE, at_once=at_once)


def _figures(
    link: Link, measurement: Measurement, result: ThroughputResult, way: Direction, *, at_once: bool
) -> Figures:
    rates, step = result.receiver_bps, measurement.step
    in_pulses = step.params.get("duty", 1.0) < 1  # with silence between: its seconds do not follow each other
    idle = _idle_ns(measurement)
    mean = throughput.mean_rate(rates)
    rtts = [rtt for rtt in result.seconds_rtt_ns if rtt]
    rtt = round(sum(rtts) / len(rtts)) if rtts else result.rtt_mean_ns
    capacity = link.contracted_bps(way) or loads.median(result)
    return Figures(
        key=step.key,
        direction=way,
        streams=result.streams,
        congestion_control=result.congestion_control or step.params.get("congestion_control", ""),
        judged=bool(step.params.get("judged")),
        at_once=at_once,
        seconds=len(rates),
        p5_bps=throughput.seconds_quantile(rates, STATISTIC),
        median_bps=throughput.seconds_quantile(rates, 0.5),
        least_bps=min(rates),
        variation=throughput.variation_coefficient(rates),
        drift=None if in_pulses else sustained.drift_per_hour(rates),
        dip=sustained.longest_dip(rates),
        efficiency=_efficiency(result),
        transfer_time_ratio=sustained.transfer_time_ratio(mean, result.allowed_bps)
        if mean and result.allowed_bps
        else None,
        buffer_delay=sustained.buffer_delay(rtt, idle) if rtt and idle else None,
        idle_rtt_ns=idle,
        rtt_ns=rtt,
        bdp_bytes=throughput.bdp_bytes(capacity, idle) if idle else None,
        retransmits=result.retransmits,
        window_bytes=result.window_bytes,
        receive_window_bytes=result.receive_window_bytes,
    )


def _idle_ns(measurement: Measurement) -> int | None:
    """The baseline round trip: the smallest (RFC 6349 section 3.2)."""
    return measurement.throughput.idle_round_trip.minimum if measurement.throughput else None


def _efficiency(result: ThroughputResult) -> float | None:
    """iperf3 counts bytes handed over once; what TCP repeated comes on top, a segment each."""
    if result.sent_bytes is None or result.retransmits is None or not result.mss:
        return None
    repeated = result.retransmits * result.mss
    return sustained.tcp_efficiency(result.sent_bytes + repeated, repeated)
