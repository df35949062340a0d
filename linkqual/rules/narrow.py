"""What the search for the narrowest hop says to people: where it is, how fast, how sure. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from linkqual.model import Hop, Measurement, NarrowResult, Note, Plan
from linkqual.rules import ways
from linkqual.units import format_duration, format_rate, format_ratio, format_size

FRAME_OVERHEAD = 14  # bytes of Ethernet without FCS: what a queue of a host or router counts
OTHERS = "whether others send over it too is not known; they would make it seem that much slower"
ALONE = "nothing else was on it"
UNTOLD = "a policer or a shaper with a short queue (not told apart)"
AS_CONTRACTED = 0.98  # of the contract: less is a warning


def notes(plan: Plan, measurements: Sequence[Measurement]) -> Iterator[Note]:
    """A sentence for each direction that was searched."""
    for one in measurements:
        if one.narrow is not None:
            yield Note("narrow", told(measurements, one.narrow) + _shorter(one), _weight(plan, one.narrow))
            if said := below_contract(plan, one.narrow):
                yield Note("narrow", f"{one.narrow.direction}, at the narrowest hop {said}", "warn")


def below_contract(plan: Plan, found: NarrowResult) -> str:
    """ "one flow gets 30.48 Mbit/s (L1) at most, 61 % of the 50 Mbit/s contracted"; "" unless the whole interval lies below."""
    contracted = plan.link.contracted_bps(found.direction)
    if not contracted or found.rate_bps is None or found.rate_bps[2] >= AS_CONTRACTED * contracted:
        return ""
    share = format_ratio(found.rate_bps[0] / contracted)
    sure = f" ({found.confidence} confidence)" if found.confidence != "high" else ""
    return f"one flow gets {carries(found)} at most, {share} of the {format_rate(contracted)} contracted{sure}"


def _shorter(one: Measurement) -> str:
    """That packets of the length planned do not arrive."""
    asked = int(one.step.params.get("packet_bytes", 0))
    if one.narrow is None or not one.narrow.links or one.narrow.packet_bytes >= asked:
        return ""
    return f"; packets of {asked:,} bytes do not arrive, so those sent had {one.narrow.packet_bytes:,}: --only mtu says how long they may be"


def told(measurements: Sequence[Measurement], found: NarrowResult) -> str:
    """The sentence, by what the traces of the same run show; where flows part there, the routers named may not be those of the load."""
    said = sentence(found, ways.hops(measurements, found.direction))
    if found.named and ways.shared(measurements, found.direction):
        said += "; flows are shared over several ways there, and the addresses are those of the traced flow, not of this load"
    return said


def sentence(found: NarrowResult, trace: Sequence[Hop]) -> str:
    """Where the narrowest hop is, what it does, how sure that is and why."""
    if found.kind == "none":
        return f"{found.direction}, no bottleneck below {_counted(found, found.at_least_bps or 0)}: {found.because}"
    if found.rate_bps is None:
        return f"{found.direction}, the narrowest hop is not known: {found.because}"
    limit = f"{_rates(found, found.rate_bps[0])}, {kind_of(found)}{_depths(found)}"
    if not found.named:
        return f"{found.direction}, the whole way seems to carry {limit}; which link limits it is not known ({found.confidence} confidence: {found.because})"
    where = where_is(found.named, found.links, trace)
    others = [number for number in found.narrow if number != found.named]
    near = f"; nearly as narrow: {', '.join(_other(found, number, trace) for number in others)}" if others else ""
    return f"{found.direction}, the narrowest hop is {where}: {limit}{near} ({found.confidence} confidence: {found.because}); {_shared(found)}"


def _shared(found: NarrowResult) -> str:
    """What others leave of it."""
    if found.free_bps is None:
        return OTHERS
    if not found.busy:
        return ALONE
    value, low, high = found.free_bps
    return f"of that {_counted(found, value)} were free, {format_rate(round(low))} to {format_rate(round(high))}: others took the rest"


def where_is(link: int, links: int, trace: Sequence[Hop]) -> str:
    """The link in words: between the nearest places that have an address on either side; a part that hides is said to be one."""
    end = ways.end(trace)
    if end not in (None, links):
        return f"link {link} of {links} (the trace crossed {end}: the route changed, or flows take several; which of its routers are beside that link is not known)"
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


def carries(found: NarrowResult) -> str:
    """The rate of the narrowest hop as the contract counts; "" where it is not known."""
    return _counted(found, found.rate_bps[0]) if found.rate_bps is not None else ""


def kind_of(found: NarrowResult) -> str:
    """What it is, as far as told."""
    return f"a {found.kind}" if found.kind in {"policer", "shaper"} else UNTOLD


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
