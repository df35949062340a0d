"""How long a packet may be: held against the contract, and whether longer ones are told of or vanish. Floor 2, pure.

A size of which a packet arrived passes: that is a fact. That another one does not is proven by counting (`session.mtu`). What a host's
own interface takes and the contract does not promise is no fault of the line, and what the interface does not take is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from linkqual.model import (
    Direction,
    Estimate,
    Finding,
    Measurement,
    MtuHop,
    MtuResult,
    MtuTcp,
    MtuWay,
    Note,
    Objective,
    Outcome,
    Plan,
    Rule,
)
from linkqual.profile.limits import ASSUMED_MTU
from linkqual.rules import words
from linkqual.session import mtu
from linkqual.stats.mtu_counting import explained
from linkqual.units import format_duration, format_size

PATH_MTU, BLACK_HOLE = "path_mtu", "mtu_black_hole"
TCP_HEADERS = {4: 40, 6: 60}  # IP and TCP, without options
_WAYS = (Direction.FORWARD, Direction.REVERSE)


def finding(objective: Objective, plan: Plan, measurements: Sequence[Measurement], _family: int) -> Finding | None:
    """Of one direction; None when it was not searched."""
    taken = next((one for one in measurements if one.mtu is not None), None)
    way = mtu.of_direction(taken.mtu.ways, objective.direction) if taken is not None and taken.mtu is not None else None
    if taken is None or taken.mtu is None or way is None:
        return None
    judged = _size if objective.metric == PATH_MTU else _hole
    return judged(objective, plan, taken, way)


# ---- the size


def _size(objective: Objective, plan: Plan, taken: Measurement, way: MtuWay) -> Finding:
    head, limit, step = words.name(objective), objective.limit, taken.step.key
    if way.passes is None:
        return _unknown(objective, way, step)
    low, high = way.passes, way.fails - 1 if way.fails is not None and way.kind != "unknown" else None
    estimate = Estimate(way.passes, low, high, objective.confidence, _packets(way), "B", "counted, size by size")
    said = f"{head}: {_found(way)}"
    if limit is None:
        return Finding(
            objective,
            Outcome.NOT_JUDGED,
            f"{said}, {words.not_judged(objective)}",
            estimate,
            "",
            Rule.NONE,
            step,
        )
    said += f"; {limit:g} bytes are asked for"
    if way.passes >= limit:
        return Finding(objective, Outcome.PASS, said, estimate, "", Rule.EXACT, step)
    if way.kind in ("told", "black hole") and way.fails is not None and way.fails <= limit:
        said += _explained(f"{limit - way.passes:g} bytes less", int(limit) - way.passes)
        return Finding(objective, Outcome.FAIL, said, estimate, "", Rule.EXACT, step)
    return Finding(objective, Outcome.INCONCLUSIVE, said, estimate, _more(way, plan), Rule.NONE, step)


def _more(way: MtuWay, plan: Plan) -> str:
    if way.kind == "whole" and way.interface_bytes is not None and way.passes == way.interface_bytes:
        end = "this" if way.direction is Direction.FORWARD else "the far"
        return f"an interface at {end} end that takes packets of {plan.link.mtu or ASSUMED_MTU} bytes: its MTU is {way.interface_bytes}"
    return "a line that loses less, or a search up to a larger size (mtu: largest)"


def _found(way: MtuWay) -> str:
    """ "1400 bytes pass, 1401 vanish without a word between hop 2 (10.0.0.1) and hop 3 (10.0.1.1)"."""
    if way.kind == "whole":
        limit = (
            " and its interface takes no more"
            if way.passes == way.interface_bytes
            else " and no longer ones were tried"
        )
        return f"packets of {way.passes} bytes arrive ({_counted(way, way.passes)}){limit}"
    if way.kind == "unknown":
        return f"packets of {way.passes} bytes arrive; how much longer they may be is not known: {way.because}"
    sizes = f"{way.passes} bytes pass ({_counted(way, way.passes)}), {way.fails} do not ({_counted(way, way.fails)})"
    if way.kind == "told":
        named = f"the next hop takes {way.told_bytes}" if way.told_bytes else "without naming what fits"
        return f"{sizes}, and {_router(way)} says so by ICMP, {named}"
    return f"{sizes}: they vanish without a word{_place(way)}"


def _counted(way: MtuWay, size: int | None) -> str:
    tried = next((one for one in way.tried if one.packet_bytes == size), None)
    return f"{tried.arrived} of {tried.sent} arrived" if tried else "none sent"


def _router(way: MtuWay) -> str:
    hop = next((hop for hop in way.hops if hop.address == way.told_by), None)
    return f"hop {hop.ttl} ({way.told_by})" if hop else f"the router {way.told_by}"


def _place(way: MtuWay) -> str:
    """ " between hop 4 (10.0.0.1) and hop 5 (10.0.1.1)"; "" where no hop tells."""
    found = mtu.place(way.hops)
    if found is None:
        return ", and no hop tells where: routers that send no ICMP time exceeded, or quote the UDP header alone, stay unseen"
    here, there = ("this end", "the far end") if way.direction is Direction.FORWARD else ("the far end", "this end")
    before = _hop(found.before) if found.before else here
    after = _hop(found.after) if found.after else there
    silent = f" (hop {', '.join(map(str, found.silent))} in between is silent)" if found.silent else ""
    return f" between {before} and {after}{silent}"


def _hop(hop: MtuHop) -> str:
    return f"hop {hop.ttl} ({hop.address})"


def _explained(said: str, fewer: int) -> str:
    found = explained(fewer)
    return f"; {said}: as {found} would take" if found else ""


def _packets(way: MtuWay) -> int:
    return sum(one.sent for one in way.tried)


def _unknown(objective: Objective, way: MtuWay, step: str) -> Finding:
    said = f"{words.name(objective)}: not known, {way.because or 'nothing was answered'}"
    return Finding(objective, Outcome.NO_DATA, said, None, "see whether UDP passes in this direction", Rule.NONE, step)


# ---- the black hole


def _hole(objective: Objective, plan: Plan, taken: Measurement, way: MtuWay) -> Finding:
    """Sizes that the line promises, or every host takes for granted, and that vanish although the sender cannot know."""
    assert taken.mtu is not None
    head, step = words.name(objective), taken.step.key
    if way.kind == "unknown" or way.passes is None:
        return _unknown(objective, way, step)
    asked = min(plan.link.mtu or ASSUMED_MTU, way.interface_bytes or ASSUMED_MTU, way.longest_bytes)
    missing = max(0, asked - way.passes) if way.kind == "black hole" else 0
    estimate = Estimate(missing, missing, missing, objective.confidence, _packets(way), "B", "counted, size by size")
    if not missing:
        return Finding(
            objective,
            _passed(objective),
            f"{head}: none up to {asked} bytes; {_found(way)}",
            estimate,
            "",
            Rule.EXACT,
            step,
        )
    said = f"{head}: {_found(way)}{_tcp_words(taken.mtu, way.direction)}; {advice(way.passes, taken.mtu.ip_version)}"
    outcome = Outcome.FAIL if objective.limit is not None and missing > objective.limit else _passed(objective)
    return Finding(objective, outcome, said, estimate, "", Rule.EXACT, step)


def _passed(objective: Objective) -> Outcome:
    return Outcome.PASS if objective.limit is not None else Outcome.NOT_JUDGED


def advice(passes: int, ip_version: int) -> str:
    """What to do about a black hole."""
    ours = passes - TCP_HEADERS[ip_version]
    other = 6 if ip_version == 4 else 4
    message = "ICMP type 3 code 4, fragmentation needed" if ip_version == 4 else "ICMPv6 type 2, packet too big"
    return (
        f"have TCP's MSS set to {ours} (IPv{ip_version}; {passes - TCP_HEADERS[other]} for IPv{other}) at the hand-over, or the interfaces' "
        f"MTU to {passes}, or repair the ICMP that must come back ({message})"
    )


def _tcp_words(result: MtuResult, direction: Direction) -> str:
    tcp = _of_tcp(result, direction)
    if tcp is None:
        return ""
    if tcp.stalled:
        return f"; TCP connects and its data stall: {_arrived(tcp)}"
    return f"; TCP gets through with segments of {tcp.mss_heard} bytes, other protocols do not"


def _arrived(tcp: MtuTcp) -> str:
    return f"{format_size(tcp.arrived_bytes)} of {format_size(tcp.asked_bytes)} arrived"


def _of_tcp(result: MtuResult, direction: Direction) -> MtuTcp | None:
    return next((one for one in result.tcp if one.direction is direction), None)


# ---- what a reader should know beside


def notes(plan: Plan, measurements: Sequence[Measurement]) -> Iterator[Note]:
    """Rewritten MSS, directions that count differently, wrong ICMP, hosts whose interface takes more than the line."""
    for measurement in measurements:
        if measurement.mtu is not None:
            for way in measurement.mtu.ways:
                yield from _of_way(plan, way)
            for tcp in measurement.mtu.tcp:
                yield from _segments(measurement.mtu, tcp)
            yield from _directions(measurement.mtu)
            if measurement.mtu.tcp_because:
                yield Note("mtu", f"MTU by TCP: {measurement.mtu.tcp_because}")


def _of_way(plan: Plan, way: MtuWay) -> Iterator[Note]:
    if way.passes is None:
        return
    if way.kind == "told" and way.told_bytes and way.told_bytes != way.passes:
        yield Note(
            "mtu",
            f"{way.direction}: {_router(way)} says that the next hop takes {way.told_bytes} bytes, but {way.passes} is what arrives: "
            "hosts that believe it send "
            + ("packets that vanish" if way.told_bytes > way.passes else "shorter ones than they need"),
            "warn",
        )
    if way.fragmented:
        yield Note(
            "mtu",
            f"{way.direction}: packets with Don't Fragment arrived in pieces: something on the way cuts them in spite of it, which costs "
            "rate and loses whole packets where one piece is lost",
            "warn",
        )
    promised = plan.link.mtu or ASSUMED_MTU
    if way.kind == "black hole" and way.interface_bytes and way.interface_bytes > promised <= way.passes:
        yield Note(
            "mtu",
            f"{way.direction}: the sending host's interface takes {way.interface_bytes} bytes, the line {way.passes}, and longer packets "
            f"vanish without a word{_place(way)}: set that interface to {way.passes}; the line carries the {promised} asked of it",
            "warn",
        )


def _segments(result: MtuResult, tcp: MtuTcp) -> Iterator[Note]:
    way = mtu.of_direction(result.ways, tcp.direction)
    fits = way.passes - TCP_HEADERS[result.ip_version] if way is not None and way.passes is not None else None
    own = way.interface_bytes - TCP_HEADERS[result.ip_version] if way is not None and way.interface_bytes else None
    told, heard = tcp.mss_told, tcp.mss_heard
    if told and heard and heard < min(told, own or told, fits or told):
        yield Note(
            "mtu",
            f"{tcp.direction}: something on the way rewrites TCP's MSS: {told} was told, {heard} arrived, {fits} would fit; "
            "tunnels do that, and each segment carries less than it could",
        )
    elif told and heard and heard < min(told, own or told):
        yield Note(
            "mtu", f"{tcp.direction}: TCP's MSS arrives as {heard} where {told} was told, so its segments fit the path"
        )
    if tcp.stalled:
        yield Note(
            "mtu",
            f"{tcp.direction}: TCP connected and then stalled, {_arrived(tcp)} in segments of up to {heard or '?'} bytes",
            "warn",
        )
    elif tcp.asked_bytes:
        yield Note(
            "mtu",
            f"{tcp.direction}: TCP carried {format_size(tcp.arrived_bytes)} in {format_duration(tcp.elapsed_ns)} with an MSS of {heard or '?'}",
        )


def _directions(result: MtuResult) -> Iterator[Note]:
    ways = [mtu.of_direction(result.ways, way) for way in _WAYS]
    sizes = [way.passes for way in ways if way is not None and way.passes is not None and way.kind != "unknown"]
    if len(sizes) < 2 or sizes[0] == sizes[1]:
        return
    fewer = abs(sizes[0] - sizes[1])
    said = f"forward carries packets of {sizes[0]} bytes, reverse of {sizes[1]}, {fewer} apart"
    if any(way is not None and way.kind == "whole" for way in ways) and _interfaces_differ(ways):
        said += ": the hosts' own interfaces differ"
    elif why := explained(fewer):
        said += f": as if one side counted {why} within the MTU and the other did not; agree with the carrier whether the MTU counts the IP packet (layer 3) or the frame (layer 2)"
    yield Note("mtu", said, "warn")


def _interfaces_differ(ways: Sequence[MtuWay | None]) -> bool:
    whole = [way for way in ways if way is not None and way.kind == "whole"]
    return (
        any(way.passes == way.interface_bytes for way in whole)
        and len({way.interface_bytes for way in ways if way}) > 1
    )
