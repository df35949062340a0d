"""What each judged load did to the delay, and where its queue stands; what the loads shown beside it add. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from linkqual.model import AddedDelay, Direction, Histogram, Link, Measurement, Note, Plan, ThroughputResult
from linkqual.rules import ladder, loaded, loads, seconds, words
from linkqual.rules.ladder import Figures
from linkqual.stats import histogram
from linkqual.units import format_count, format_duration, format_rate, format_ratio, format_size

QUEUE_NS = 2_000_000  # of added delay at p50: less is what a burst of packets takes to leave
QUEUE_SHARE = 0.25  # of the idle round trip
ONE_SIDED = 4  # times as much in one direction as in the other
DRIFT_NS = 100_000  # of two clocks: worth a word
BETTER = 1.15  # of a congestion control that does not slow down for loss
WAYS = (Direction.FORWARD, Direction.REVERSE)


def notes(plan: Plan, measurements: Sequence[Measurement]) -> Iterator[Note]:
    """Of both directions."""
    figures = ladder.of_all(plan.link, measurements)
    judged = {way: load for way in WAYS if (load := seconds.heaviest(measurements, way)) is not None}
    for way, load in judged.items():
        if load.throughput is not None and load.throughput.receiver_bps:
            yield from _delay(plan.link, way, load, load.throughput)
            yield from _kept(next(one for one in figures if one.key == load.step.key))
    yield from _beside(figures, {way: load.step.key for way, load in judged.items()})


# ---- delay


def _delay(link: Link, way: Direction, load: Measurement, result: ThroughputResult) -> Iterator[Note]:
    if result.beside is None:
        return
    said = [f"{words.streams(result.streams)} {way}: {_round_trip(result, result.beside.summary.round_trip_delay)}"]
    own, other = (result.added.get(one) for one in (way, _back(way)))
    if own is not None:
        said.append(f"{_added(way, own)}, {_added(_back(way), other)}" if other is not None else _added(way, own))
        drift = loaded.drift_ns(own, load)
        if drift > DRIFT_NS:
            said.append(f"both clocks may have moved by {format_duration(drift)} against each other meanwhile")
    stands = _queue(own, other, result)
    if stands:
        said.append(_where(link, way, stands, result))
    yield Note("delay", "; ".join(said), "warn" if stands else "info")


def _round_trip(result: ThroughputResult, under: Histogram) -> str:
    if not under.n:
        return "no packet of the stream beside it came back with a round trip"
    idle = result.idle_round_trip
    before = f" (idle {_of(idle, 0.5)} and {_of(idle, 0.99)})" if idle.n else ""
    return f"round trip {_of(under, 0.5)} at p50 and {_of(under, 0.99)} at p99 under load{before}"


def _added(way: Direction, added: AddedDelay) -> str:
    delay = added.delay
    return (
        f"added to the {way} delay {_of(delay, 0.5)} at p50, {_of(delay, 0.95)} at p95, {_of(delay, 0.99)} at p99, "
        f"{format_duration(delay.maximum)} at most ({format_count(delay.n)} packets)"
    )


def _of(found: Histogram, q: float) -> str:
    return format_duration(histogram.quantile(found, q))


def _queue(own: AddedDelay | None, other: AddedDelay | None, result: ThroughputResult) -> int:
    """Median delay (ns) of a queue that stands in the load's own direction alone; 0 for none."""
    if own is None:
        return 0
    mine = histogram.quantile(own.delay, 0.5) or 0
    theirs = (histogram.quantile(other.delay, 0.5) or 0) if other is not None else 0
    idle = histogram.quantile(result.idle_round_trip, 0.5) or 0
    return mine if mine > max(QUEUE_NS, QUEUE_SHARE * idle, ONE_SIDED * theirs) else 0


def _where(link: Link, way: Direction, stands_ns: int, result: ThroughputResult) -> str:
    rate = loads.median(result)
    held = format_size(round(rate * stands_ns / 8e9))
    site = (link.near or "the near site") if way is Direction.FORWARD else (link.far or "the far site")
    return (
        f"{format_duration(stands_ns)} are added {way} only: a queue of about {format_duration(stands_ns)} x {format_rate(rate)} = {held} "
        f"stands there while somebody sends. Shaping a little below the line's rate, or active queue management (CAKE, FQ-CoDel), at the "
        f"egress of {site} keeps it short"
    )


# ---- how steady, and what RFC 6349 asks


def _kept(figures: Figures) -> Iterator[Note]:
    said = [
        f"{figures.direction}, sustained over {figures.seconds} s: p5 {format_rate(figures.p5_bps)}, median {format_rate(figures.median_bps)}, "
        f"slowest second {format_rate(figures.least_bps)}"
    ]
    if figures.variation is not None:
        said.append(f"coefficient of variation {format_ratio(figures.variation)}")
    if figures.drift is not None and figures.median_bps:
        slope, low, high = (_percent(one / figures.median_bps) for one in figures.drift)
        said.append(f"drift {slope} % an hour (95 %: {low} to {high})")
    if figures.dip is not None and figures.median_bps:
        lowest = format_ratio(figures.dip.lowest_bps / figures.median_bps)
        said.append(
            f"longest dip {figures.dip.seconds} s from second {figures.dip.start_s + 1} on, down to {lowest} of the median"
        )
    else:
        said.append("no second under 90 % of the median")
    yield Note("throughput", "; ".join(said))
    asked = [
        figures.efficiency is not None and f"TCP efficiency {format_ratio(figures.efficiency)}",
        figures.transfer_time_ratio is not None and f"transfer time ratio {figures.transfer_time_ratio:.3f}",
        figures.buffer_delay is not None and f"buffer delay {_percent(figures.buffer_delay)} %",
        figures.bdp_bytes is not None and f"bandwidth-delay product {format_size(round(figures.bdp_bytes))}",
    ]
    if known := [one for one in asked if one]:
        yield Note("throughput", f"{figures.direction}, RFC 6349: {', '.join(known)}")


def _percent(share: float) -> str:
    """ "+0.3", "-12", "+3,070": signed, two digits or whole."""
    return f"{100 * share:+,.0f}" if abs(share) >= 0.1 else f"{100 * share:+.2g}"


# ---- what is shown beside


def _beside(figures: Sequence[Figures], judged: dict[Direction, str]) -> Iterator[Note]:
    for one in figures:
        if one.congestion_control not in loads.HIDES_LOSS or one.at_once:
            continue
        mine = next((each for each in figures if each.key == judged.get(one.direction)), None)
        if mine is None or not one.median_bps or not mine.median_bps or mine.key == one.key:
            continue
        said = (
            f"{one.direction}, {words.streams(one.streams)} of {one.congestion_control} reach {format_rate(one.median_bps)} where "
            f"{mine.congestion_control} reaches {format_rate(mine.median_bps)}"
        )
        if one.median_bps > BETTER * mine.median_bps:
            said += f": packets are lost that {mine.congestion_control} slows down for; {one.congestion_control} keeps its rate and hides that"
        yield Note("throughput", f"{said}; it is shown beside and judges nothing")


def _back(way: Direction) -> Direction:
    return Direction.REVERSE if way is Direction.FORWARD else Direction.FORWARD
