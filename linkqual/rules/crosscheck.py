"""ICMP and the traces beside the data packets: where they differ, the difference is named. Floor 2, pure.

Routers answer ICMP in their slow path and limit it; echo loss, or a hop that answers seldom, is no loss of data packets. Real loss
shows at every hop behind the one where it begins, and in the data packets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from linkqual.model import Direction, Hop, Measurement, Note, PingResult, StampResult, Summary, Trace
from linkqual.rules import route_symmetry, shared_ways
from linkqual.session import hop_delay, hop_loss, tunnels
from linkqual.stats import histogram, query
from linkqual.stats.confidence import ratio_lower, ratio_upper
from linkqual.units import format_count, format_duration, format_ratio

CONFIDENCE = 0.95
DELAY_APART = 0.2  # of the round trip
DELAY_APART_NS = 300_000  # and at least: user space at the near end, the far host's time to answer


def notes(measurements: Sequence[Measurement]) -> Iterator[Note]:
    """Of ping and of the traces, each beside the packet stream."""
    streams = [one.stamp for one in measurements if one.stamp is not None and one.stamp.summary.sent]
    stream = max(streams, key=lambda one: one.summary.sent, default=None)
    data = stream.summary if stream is not None else None
    for measurement in measurements:
        if measurement.ping is not None and stream is not None:
            yield from _ping_loss(measurement.ping, stream.summary)
            yield from _ping_delay(measurement.ping, stream)
        if measurement.path is not None:
            path = measurement.path
            if path.because:
                yield Note("path", route_symmetry.sentence(path), "warn" if path.symmetry == "asymmetric" else "info")
            yield from shared_ways.notes(path)
            for trace, way in ((path.forward, "forward"), (path.reverse, "reverse")):
                yield from _hops(trace, way, data)
                yield from _tunnels(trace, way, alike=len(path.forward.hops) == len(path.reverse.hops))
    for direction in (Direction.FORWARD, Direction.REVERSE):
        yield from _asked_often(measurements, direction)


def _lost(summary: Summary) -> int:
    return query.losses(summary, Direction.ROUND_TRIP)


def _data_words(data: Summary) -> str:
    lost, sent = _lost(data), data.sent
    if not lost:
        return f"none of {format_count(sent)} data packets was lost (at most {format_ratio(ratio_upper(0, sent, CONFIDENCE))} at 95 %)"
    return f"{format_count(lost)} of {format_count(sent)} data packets were lost ({format_ratio(lost / sent)})"


def _ping_loss(ping: PingResult, data: Summary) -> Iterator[Note]:
    lost = ping.sent - ping.received
    if not ping.sent or lost <= 0:
        return
    said = f"ICMP echo: {format_count(lost)} of {format_count(ping.sent)} unanswered ({format_ratio(lost / ping.sent)})"
    if not data.received:
        yield Note("ping", f"{said}, and no data packet came back either", "warn")
    elif ratio_lower(lost, ping.sent, CONFIDENCE) > ratio_upper(_lost(data), data.sent, CONFIDENCE):
        what = "ICMP echo is filtered" if not ping.received else "ICMP is limited or comes second somewhere"
        yield Note("ping", f"{said}, while {_data_words(data)}: {what}, which is not loss of the line")
    elif _lost(data):
        yield Note("ping", f"{said}, which does not contradict the data packets: {_data_words(data)}")
    else:
        yield Note("ping", f"{said}: too few to differ from the data packets, of which {_data_words(data)}")


def _ping_delay(ping: PingResult, stream: StampResult) -> Iterator[Note]:
    ours = histogram.quantile(stream.summary.round_trip_delay, 0.5)
    if not ping.rtt_ns or ours is None:
        return
    theirs = sorted(ping.rtt_ns)[(len(ping.rtt_ns) - 1) // 2]
    said = f"ping's median round trip is {format_duration(theirs)}, that of the data packets {format_duration(ours)}"
    apart = theirs - ours
    if abs(apart) <= max(DELAY_APART * ours, DELAY_APART_NS):
        yield Note("ping", f"{said}: they agree")
    elif apart > 0:
        yield Note(
            "ping",
            f"{said}: ping also counts the far host's time to answer and its own program's, {format_duration(apart)} here",
        )
    else:
        where = "so they meet a queue or a path that ICMP does not"
        if stream.far_end != "agent":
            where = "in the reflector's host, or in a queue or on a path that ICMP does not meet"
        yield Note("ping", f"{said}: data packets wait {format_duration(-apart)} longer than ICMP, {where}")


def _hops(trace: Trace, way: str, data: Summary | None) -> Iterator[Note]:
    """Hops that leave probes unanswered or answer late: their own habit, or loss or delay of the line from there on."""
    yield from _loss_note(f"{way} trace", trace.hops, data)
    late = hop_delay.explain(trace.hops, _round_trips(data))
    if late.because:
        yield Note("path", f"{way} trace: {late.because}")


def _tunnels(trace: Trace, way: str, *, alike: bool) -> Iterator[Note]:
    """`alike`: as many hops both ways; else a longer way back needs no tunnel."""
    hidden = tunnels.hidden(trace.hops) if alike else ""
    for said in (*tunnels.hints(trace.hops), *([hidden] if hidden else [])):
        yield Note("path", f"{way} trace: {said}")


def _loss_note(asked: str, hops: Sequence[Hop], data: Summary | None) -> Iterator[Note]:
    told = hop_loss.explain(hops, hop_loss.Data(data.sent, _lost(data)) if data is not None else None)
    if told.kind in ("limited", "undetermined") or told.first_ttl is not None:
        yield Note("path", f"{asked}: {told.because}", "warn" if told.kind == "real" else "info")


def _round_trips(data: Summary | None) -> hop_delay.Data | None:
    found = data.round_trip_delay if data is not None else None
    if found is None or found.minimum is None:
        return None
    return hop_delay.Data(found.minimum, histogram.quantile(found, 0.99) or found.minimum)


def _asked_often(measurements: Sequence[Measurement], direction: Direction) -> Iterator[Note]:
    """Hops asked all through a load tell of limits and loss what a trace's few probes cannot: beside the packets under the same load."""
    found = [
        (path, measurement.throughput.beside.summary)
        for measurement in measurements
        for path in (measurement.loaded_path, measurement.loaded_path_back)
        if path is not None
        and path.direction is direction
        and measurement.throughput is not None
        and measurement.throughput.beside is not None
        and measurement.throughput.beside.summary.sent
    ]
    if found:
        path, data = max(found, key=lambda one: sum(hop.loaded_sent for hop in one[0].hops))
        hops = [Hop(hop.ttl, hop.address, sent=hop.loaded_sent, received=len(hop.loaded_ns)) for hop in path.hops]
        yield from _loss_note(f"hops asked {direction} under {path.load}", hops, data)
