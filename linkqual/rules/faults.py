"""Faults of one direction that lie somewhere on its way: what was found, what showed it, and between which hops. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from linkqual.model import (
    Diagnosis,
    Direction,
    Evidence,
    Finding,
    LoadedPath,
    Measurement,
    MembersResult,
    MtuWay,
    NarrowResult,
    Outcome,
    PathResult,
    Plan,
)
from linkqual.profile.limits import ASSUMED_MTU
from linkqual.rules import ends, loaded_path, loads, narrow, seconds, ways
from linkqual.session import compared, hop_loss, members, mtu, routes
from linkqual.session.members import Group
from linkqual.session.segments import Way
from linkqual.units import format_count, format_ratio

NARROWEST, SHORT, LOSS, SIZE, ROUTERS = "narrowest hop", "throughput", "loss", "path MTU", "other routers"
MEMBERS = {"loss": "lossy member", "path": "slow member", "queue": "slow member"}


@dataclass(frozen=True, slots=True)
class Fault:
    """What was found, and between which hops (`Located.after`, `before`; None: anywhere between both ends)."""

    name: str
    what: str  # the fault in words, without its place
    evidence: Evidence
    after: int | None = None
    before: int | None = None
    confidence: str = "low"
    sender_side: bool = True  # may be in the router `after`, which sends onto the link
    receiver_side: bool = False  # may be in the router `before`
    settle: str = ""
    joint: str = ", "  # between the words and the place


def of(
    plan: Plan,
    measurements: Sequence[Measurement],
    findings: Sequence[Finding],
    diagnoses: Sequence[Diagnosis],
    way: Way,
) -> list[Fault]:
    """All faults of one direction, in the order of what costs most."""
    found = list(_narrow(plan, measurements, way)) or list(_short(findings, diagnoses, way.direction))
    found += [*_losses(measurements, findings, way), *_sizes(plan, measurements, way)]
    return [*found, *_members(measurements, way), *_routers(measurements, way)]


def _narrow(plan: Plan, measurements: Sequence[Measurement], way: Way) -> Iterator[Fault]:
    """The narrowest hop: as load that expires tells it, else where the queue of a load begins. None is a fault that carries the contract."""
    contracted = plan.link.contracted_bps(way.direction)
    loaded = _loaded(measurements, way.direction)
    queue = loaded if loaded is not None and loaded.by != LOSS else None
    for one in measurements:
        if one.narrow is not None and one.narrow.direction is way.direction and one.narrow.named:
            carried = one.narrow.rate_bps[0] if one.narrow.rate_bps is not None else None
            if contracted and carried is not None and carried >= narrow.AS_CONTRACTED * contracted:
                return
            pinned = _pinned(one.step.key, one.narrow, way, queue)
            yield pinned if one.narrow.links in (0, way.last) else _elsewhere(pinned, one.narrow.links, way)
            return
    if queue is not None and not (contracted and _all_allowed(measurements, way.direction)):
        settle = "load that expires hop by hop (--allow-expiring-load) names one link"
        what = f"{_begins(queue)} lies" if queue.by != "queue" else _begins(queue)
        yield Fault(
            NARROWEST,
            what,
            _seen_under(queue, way),
            queue.after,
            queue.before,
            queue.confidence,
            settle=settle,
            joint=" ",
        )


def _all_allowed(measurements: Sequence[Measurement], way: Direction) -> bool:
    """Whether TCP brought what the headers leave of the contract: its queue then begins where the contract is kept."""
    load = seconds.heaviest(measurements, way)
    result = load.throughput if load is not None else None
    if result is None or not result.receiver_bps or not result.allowed_bps:
        return False
    return loads.median(result) >= narrow.AS_CONTRACTED * result.allowed_bps


def _pinned(key: str, found: NarrowResult, way: Way, queue: LoadedPath | None) -> Fault:
    ties = [number for number in found.narrow if number != found.named]
    near = f"; nearly as narrow: {', '.join(ways.between(way, number - 1, number) for number in ties)}" if ties else ""
    pinned = f"link {found.named} of {found.links or way.last}, {found.confidence} confidence: {found.because}{near}"
    return Fault(
        NARROWEST,
        f"{narrow.carries(found)}, {narrow.kind_of(found)}",
        ((key, pinned), *(_seen_under(queue, way) if queue is not None else ())),
        found.named - 1,
        found.named,
        found.confidence,
        receiver_side=found.kind == "policer",  # what arrives may be policed too, what leaves is shaped
        settle="which of the nearly equal links it is matters only after the narrowest was widened" if ties else "",
    )


def _elsewhere(pinned: Fault, links: int, way: Way) -> Fault:
    """The load met another number of links than the traces: which of the traced hops its link is, nobody knows."""
    settle = f"all of it again: the load crossed {links} links and the trace {way.last}, so the route changed, or flows take several"
    return replace(pinned, after=None, before=None, confidence="low", settle=settle)


def _short(findings: Sequence[Finding], diagnoses: Sequence[Diagnosis], way: Direction) -> Iterator[Fault]:
    """A goodput below its limit where nothing showed a place, and no cause was found that is none of a hop."""
    failed = _failed(findings, "throughput", way)
    cause = next((one for one in diagnoses if one.direction is way and one.subject == "line"), None)
    if failed is None or (cause is not None and cause.cause in ends.NOT_OF_A_HOP):
        return
    seen: Evidence = ((failed.step or "throughput", failed.because),)
    if cause is not None:
        seen += (("cause", f"{cause.cause}, {cause.confidence} confidence"),)
    settle = "load that expires hop by hop (--only narrow --allow-expiring-load) names one link"
    yield Fault(SHORT, "the goodput keeps below its limit", seen, settle=settle)


def _failed(findings: Sequence[Finding], metric: str, way: Direction) -> Finding | None:
    of = (one for one in findings if one.objective.metric == metric and one.objective.direction is way)
    return next((one for one in of if one.outcome is Outcome.FAIL), None)


def _loaded(measurements: Sequence[Measurement], way: Direction) -> LoadedPath | None:
    """The surest one that shows a place."""
    found = loaded_path.best(measurements, way)
    return found if found is not None and found.by and found.after is not None and found.before is not None else None


def _begins(found: LoadedPath) -> str:
    what = {"queue": "the queue of {} begins", LOSS: "loss under {} begins"}.get(
        found.by, "the narrowest place under {}"
    )
    return what.format(found.load)


def _seen_under(found: LoadedPath, way: Way) -> Evidence:
    said = f"{_begins(found)} {ways.between(way, found.after, found.before)}, {found.confidence} confidence: {found.because}"
    return (("hops under load", said),)


def _losses(measurements: Sequence[Measurement], findings: Sequence[Finding], way: Way) -> Iterator[Fault]:
    """Loss of the line that broke its limit, from the hop on at which replies are missing to the end."""
    failed = _failed(findings, "loss_ratio", way.direction)
    under = _loaded(measurements, way.direction)
    if under is not None and under.by == LOSS:
        yield Fault(
            LOSS,
            _begins(under),
            _seen_under(under, way),
            under.after,
            under.before,
            under.confidence,
            receiver_side=True,
            joint=" ",
        )
    if failed is None:
        return
    seen = _first_lossy(measurements, way)
    evidence: Evidence = ((failed.step or "stamp", failed.because),)
    again = "test each part by itself, from an agent at each hand-over"
    if seen is None or seen.first_ttl is None:
        why = seen.because if seen is not None else "no trace of this direction"
        yield Fault(LOSS, "packets are lost", (*evidence, ("trace", why)), settle=again)
        return
    yield Fault(
        LOSS,
        "packets are lost",
        (*evidence, ("trace", seen.because)),
        0,
        seen.first_ttl,
        "medium",
        receiver_side=True,
        settle=again,
    )


def _first_lossy(measurements: Sequence[Measurement], way: Way) -> hop_loss.HopLoss | None:
    """What the trace of this direction says beside the data packets that were lost in it."""
    hops = ways.hops(measurements, way.direction)
    stream = next((one.stamp.summary for one in measurements if one.stamp is not None), None)
    if not hops or stream is None:
        return None
    lost = stream.lost_forward if way.direction is Direction.FORWARD else stream.lost_reverse
    return hop_loss.explain(hops, hop_loss.Data(stream.sent, lost))


def _sizes(plan: Plan, measurements: Sequence[Measurement], way: Way) -> Iterator[Fault]:
    """Packets that the line promises, or every host takes for granted, and that do not pass."""
    for one, size in (
        (one, mtu.of_direction(one.mtu.ways, way.direction)) for one in measurements if one.mtu is not None
    ):
        if size is None or size.passes is None or size.kind not in ("told", "black hole"):
            continue
        promised = min(plan.link.mtu or ASSUMED_MTU, size.interface_bytes or ASSUMED_MTU)
        if size.passes >= promised:
            continue
        yield _size(one.step.key, size, promised, way)


def _size(key: str, size: MtuWay, promised: int, way: Way) -> Fault:
    what = f"packets of {size.passes} bytes pass, {promised} are asked for"
    if size.kind == "told":
        at = way.names.get(size.told_by or "") or next(
            (hop.ttl for hop in size.hops if hop.address == size.told_by), None
        )
        told = ((key, f"{size.told_by} says by ICMP that longer packets do not fit onto its next link"),)
        if at is None:
            return Fault(SIZE, what, told, settle=f"a trace that shows which hop {size.told_by} is")
        return Fault(SIZE, what, told, at, at + 1, "high")
    found = mtu.place(size.hops)
    silent = (
        "routers that send no ICMP time exceeded, or quote the UDP header alone, tell nothing: let them send it whole"
    )
    if found is None:
        return Fault(SIZE, f"{what}, longer ones vanish without a word", ((key, "no hop tells where"),), settle=silent)
    after, before = found.before.ttl if found.before else 0, found.after.ttl if found.after else way.last
    reach = f"long packets get as far as {ways.point(way, after)}, {ways.point(way, before)} sees only short ones"
    return Fault(
        SIZE, f"{what}, longer ones vanish without a word", ((key, reach),), after, before,
        "high" if before == after + 1 else "medium", receiver_side=True, settle=silent if before > after + 1 else "",
    )  # fmt: skip


def _members(measurements: Sequence[Measurement], way: Way) -> Iterator[Fault]:
    for one in measurements:
        if one.members is not None and one.members.direction is way.direction:
            for group in members.read(one.members).groups:
                if group.kind in MEMBERS:
                    yield _member(one.step.key, one.members, group, way)


def _member(key: str, result: MembersResult, group: Group, way: Way) -> Fault:
    lost = f" lose {format_ratio(group.loss[0])}" if group.loss else " take longer"
    what = f"{len(group.ports)} of {group.flows} flows{lost}"
    counted = (key, f"{what}, {format_count(len(result.flows))} flows compared")
    again = "the carriers' own counters of the members that carry the flows named"
    parts = routes.apart(result.traces, group.ports, group.unclear)
    if parts is None:
        evidence = (counted, ("traces", _unparted(result, group)))
        return Fault(MEMBERS[group.kind], what, evidence, settle=again)
    seen = (
        f"at hop {parts.hop} they meet {', '.join(sorted(parts.theirs))}, the others {', '.join(sorted(parts.others))}"
    )
    return Fault(
        MEMBERS[group.kind],
        what,
        (counted, ("traces", seen)),
        parts.after,
        parts.before or way.last,
        "medium",
        receiver_side=True,
        settle=again,
    )


def _unparted(result: MembersResult, group: Group) -> str:
    traced = {trace.near_port for trace in result.traces}
    if traced & set(group.ports) and traced - {*group.ports, *group.unclear}:
        return "these flows and the others meet the same routers, as far as these answer"
    return "these flows were not traced beside others"


def _routers(measurements: Sequence[Measurement], way: Way) -> Iterator[Fault]:
    """Links that this direction alone takes."""
    path: PathResult | None = next((one.path for one in measurements if one.path is not None), None)
    if path is None:
        return
    found = compared.of(path)
    own = found.forward_only if way.direction is Direction.FORWARD else found.reverse_only
    if own:
        which = f"{format_count(len(own))} of its links" if len(own) > 1 else "one of its links"
        if found.forward_routers != found.reverse_routers and len(own) > 1:  # their number proves that, not which
            which = f"some or all of {format_count(len(own))} links"
        yield Fault(
            ROUTERS,
            f"{which} the other direction does not take",
            (("path", path.because),),
            min(own) - 1,
            max(own),
            "high",
            sender_side=False,
        )
