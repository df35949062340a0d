"""What the search for the narrowest hop says to people: where it is, how fast, how sure; and the three places a line is bought by. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from linkqual.model import Direction, Hop, LinkSeen, Measurement, NarrowResult, Note, Plan
from linkqual.units import format_duration, format_rate, format_size

FRAME_OVERHEAD = 14  # bytes of Ethernet without FCS: what a queue of a host or router counts
OTHERS = "what others send over it meanwhile would make it seem that much slower"
AS_CONTRACTED = 0.98  # of the contract: less is a warning


@dataclass(frozen=True, slots=True)
class Place:
    """One of the three that a line is made of, in one direction. `state`: "measured", "declared" or "unknown"."""

    name: str
    direction: Direction
    state: str
    said: str


def notes(plan: Plan, measurements: Sequence[Measurement]) -> Iterator[Note]:
    """A sentence for each direction that was searched, then the three places."""
    searched = [one for one in measurements if one.narrow is not None]
    for one in searched:
        assert one.narrow is not None
        yield Note("narrow", sentence(one.narrow, hops(measurements, one.step.direction)), _weight(plan, one.narrow))
    if searched:
        said = "; ".join(
            f"{place.name}, {place.direction}: {place.said} ({place.state})" for place in places(plan, measurements)
        )
        yield Note("narrow", f"the three places, of which one alone proves nothing: {said}")


def sentence(found: NarrowResult, trace: Sequence[Hop]) -> str:
    """Where the narrowest hop is, what it does, how sure that is and why."""
    if found.kind == "none":
        return f"{found.direction}, no bottleneck below {_counted(found, found.at_least_bps or 0)}: {found.because}"
    if found.rate_bps is None:
        return f"{found.direction}, the narrowest hop is not known: {found.because}"
    limit = f"{_rates(found, found.rate_bps[0])}, a {found.kind}{_depths(found)}"
    if not found.named:
        return f"{found.direction}, the whole way carries {limit}; which link limits it is not known: {found.because}"
    where = where_is(found.named, found.links, trace)
    others = [number for number in found.narrow if number != found.named]
    near = f"; nearly as narrow: {', '.join(_other(found, number, trace) for number in others)}" if others else ""
    return f"{found.direction}, the narrowest hop is {where}: {limit}{near} ({found.confidence} confidence: {found.because}); {OTHERS}"


def where_is(link: int, links: int, trace: Sequence[Hop]) -> str:
    """The link in words: between the nearest places that have an address on either side; a part that hides is said to be one."""
    known = {hop.ttl: hop.address for hop in trace if hop.address is not None}
    before = max((ttl for ttl in known if ttl < link), default=0)
    behind = min((ttl for ttl in known if link <= ttl < links), default=links)
    one = known[before] if before else "the sending host"
    other = known[behind] if behind < links else "the receiving host"
    hidden = behind - before - 1
    within = f", in a part with {hidden} hidden {'router' if hidden == 1 else 'routers'}" if hidden and known else ""
    return (
        f"link {link} of {links}, between {one} and {other}{within}"
        if known or links < 3
        else f"link {link} of {links}"
    )


def hops(measurements: Sequence[Measurement], direction: Direction) -> tuple[Hop, ...]:
    """What the trace of this direction saw; none without one."""
    for one in measurements:
        if one.path is not None:
            return (one.path.forward if direction is Direction.FORWARD else one.path.reverse).hops
    return ()


def places(plan: Plan, measurements: Sequence[Measurement]) -> tuple[Place, ...]:
    """End A's egress, the middle each way, end B's egress: what was measured of each, else what is contracted."""
    found = {one.step.direction: one.narrow for one in measurements if one.narrow is not None}
    rows = []
    for way, name in ((Direction.FORWARD, "end A's egress"), (Direction.REVERSE, "end B's egress")):
        result, contracted = found.get(way), plan.link.contracted_bps(way)
        first = next((one for one in result.seen if one.number == 1), None) if result else None
        if result is not None and first is not None:
            rows.append(Place(name, way, "measured", _carries(result, first)))
        elif result is not None and result.rate_bps is not None and result.links == 1:
            rows.append(Place(name, way, "measured", _counted(result, result.rate_bps[0])))
        else:
            rows.append(Place(name, way, "unknown", "not looked at"))
        rows.append(_middle(result, way, contracted, plan.link.rate_counts))
    return rows[0], rows[1], rows[3], rows[2]


def _middle(result: NarrowResult | None, way: Direction, contracted: int | None, counts: str) -> Place:
    name = "the middle"
    if result is not None and result.rate_bps is not None and result.named > 1:
        return Place(name, way, "measured", _counted(result, result.rate_bps[0]))
    if result is not None and result.rate_bps is not None and result.named == 1:
        return Place(
            name,
            way,
            "measured",
            f"at least {_counted(result, result.rate_bps[0])}, what the egress before it lets through",
        )
    if result is not None and result.at_least_bps:
        return Place(name, way, "measured", f"at least {_counted(result, result.at_least_bps)}")
    if contracted:
        return Place(name, way, "declared", f"{format_rate(contracted)} ({counts.upper()}) by contract")
    return Place(name, way, "unknown", "neither measured nor declared")


def _carries(found: NarrowResult, link: LinkSeen) -> str:
    if link.rate_bps is None:
        return f"at least {_counted(found, link.offered_bps)}"
    return _counted(found, link.rate_bps)


def _counted(found: NarrowResult, bps: float) -> str:
    """A rate with what it counts."""
    return f"{format_rate(round(bps))} ({found.counts.upper()})"


def _rates(found: NarrowResult, bps: float) -> str:
    """As the contract counts, and as frames."""
    frame = (found.packet_bytes + FRAME_OVERHEAD) / (found.packet_bytes + found.overhead_bytes)
    return f"{format_rate(round(bps))} as the contract counts ({found.counts.upper()}), {format_rate(round(bps * frame))} as frames"


def _depths(found: NarrowResult) -> str:
    bucket = f" with a bucket of {format_size(round(found.bucket_bytes))}" if found.bucket_bytes else ""
    queue = f" and a queue of {format_duration(round(found.buffer_ns))}" if found.buffer_ns else ""
    return f"{bucket}{queue}"


def _other(found: NarrowResult, number: int, trace: Sequence[Hop]) -> str:
    rate = next((one.rate_bps for one in found.seen if one.number == number), None)
    return f"{where_is(number, found.links, trace)}{f' at {_counted(found, rate)}' if rate else ''}"


def _weight(plan: Plan, found: NarrowResult) -> str:
    contracted = plan.link.contracted_bps(found.direction)
    low = contracted and found.rate_bps is not None and found.rate_bps[0] < AS_CONTRACTED * contracted
    return "warn" if low else "info"
