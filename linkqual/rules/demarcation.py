"""In whose part of the line a fault lies: each fault that was found, the hops it lies between, the segments and suppliers of a link file. Floor 2, pure.

Nobody is blamed beyond the evidence. A fault that was pinned to one link lies in the segment that link is part of; the router it begins at
belongs to either segment that meets there; one that was only bounded may lie in any segment it spans, and the row says what would settle it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from linkqual.model import (
    Diagnosis,
    Direction,
    Evidence,
    Finding,
    LoadedPath,
    Located,
    Measurement,
    MembersResult,
    MtuWay,
    NarrowResult,
    Outcome,
    PathResult,
    Plan,
)
from linkqual.profile.limits import ASSUMED_MTU
from linkqual.rules import loaded_path, narrow, ways
from linkqual.session import hop_loss, members, mtu, routes, segments
from linkqual.session.members import Group
from linkqual.session.segments import Owners, Placed, Way
from linkqual.units import format_count, format_ratio

BOTH = (Direction.FORWARD, Direction.REVERSE)
NARROWEST, SHORT, LOSS, SIZE, ROUTERS = "narrowest hop", "throughput", "loss", "path MTU", "other routers"
NOT_OF_A_HOP = ("window", "host", "loss", "overhead")  # causes of a short goodput (`Diagnosis.cause`)
MEMBERS = {"loss": "lossy member", "path": "slow member", "queue": "slow member"}


@dataclass(frozen=True, slots=True)
class _Fault:
    """What was found, before segments are looked up. `after`, `before`: see `Located`; None: anywhere between both ends."""

    name: str
    what: str  # the fault in words, without its place
    evidence: Evidence
    after: int | None = None
    before: int | None = None
    confidence: str = "low"
    sender_side: bool = True  # may be in the router `after`, which sends onto the link
    receiver_side: bool = False  # may be in the router `before`
    settle: str = ""


def rows(
    plan: Plan, measurements: Sequence[Measurement], findings: Sequence[Finding], diagnoses: Sequence[Diagnosis] = ()
) -> tuple[Located, ...]:
    """A row for each fault, direction by direction, in the order of what costs most."""
    found: list[Located] = []
    for way in BOTH:
        hops = ways.of(measurements, way)
        faults = list(_narrow(measurements, hops)) or list(_short(findings, diagnoses, way))
        faults += [*_losses(measurements, findings, hops), *_sizes(plan, measurements, hops)]
        faults += [*_members(measurements, hops), *_routers(measurements, hops)]
        found += [_located(fault, hops, segments.placed(plan.link.segments, hops)) for fault in faults]
    return tuple(found)


# ---- faults


def _narrow(measurements: Sequence[Measurement], way: Way) -> Iterator[_Fault]:
    """The narrowest hop: as load that expires tells it, else where the queue of a load begins."""
    loaded = _loaded(measurements, way.direction)
    queue = loaded if loaded is not None and loaded.by != LOSS else None
    for one in measurements:
        if one.narrow is not None and one.narrow.direction is way.direction and one.narrow.named:
            yield _pinned(one.step.key, one.narrow, way, queue)
            return
    if queue is not None:
        settle = "load that expires hop by hop (--allow-expiring-load) names one link"
        what = f"{_begins(queue)} lies" if queue.by != "queue" else _begins(queue)
        yield _Fault(
            NARROWEST, what, _seen_under(queue, way), queue.after, queue.before, queue.confidence, settle=settle
        )


def _pinned(key: str, found: NarrowResult, way: Way, queue: LoadedPath | None) -> _Fault:
    ties = [number for number in found.narrow if number != found.named]
    near = f"; nearly as narrow: {', '.join(ways.between(way, number - 1, number) for number in ties)}" if ties else ""
    pinned = f"link {found.named} of {found.links or way.last}, {found.confidence} confidence: {found.because}{near}"
    return _Fault(
        NARROWEST,
        f"{narrow.carries(found)}, a {found.kind}",
        ((key, pinned), *(_seen_under(queue, way) if queue is not None else ())),
        found.named - 1,
        found.named,
        found.confidence,
        receiver_side=found.kind == "policer",  # what arrives may be policed too, what leaves is shaped
        settle="which of the nearly equal links it is matters only after the narrowest was widened" if ties else "",
    )


def _short(findings: Sequence[Finding], diagnoses: Sequence[Diagnosis], way: Direction) -> Iterator[_Fault]:
    """A goodput below its limit where nothing showed a place, and no cause was found that is none of a hop."""
    failed = _failed(findings, "throughput", way)
    cause = next((one for one in diagnoses if one.direction is way), None)
    if failed is None or (cause is not None and cause.cause in NOT_OF_A_HOP):
        return
    seen: Evidence = ((failed.step or "throughput", failed.because),)
    if cause is not None:
        seen += (("cause", f"{cause.cause}, {cause.confidence} confidence"),)
    settle = "load that expires hop by hop (--only narrow --allow-expiring-load) names one link"
    yield _Fault(SHORT, "the goodput keeps below its limit", seen, settle=settle)


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
    said = (
        f"{_begins(found)} {_between(way, found.after, found.before)}, {found.confidence} confidence: {found.because}"
    )
    return (("hops under load", said),)


def _losses(measurements: Sequence[Measurement], findings: Sequence[Finding], way: Way) -> Iterator[_Fault]:
    """Loss of the line that broke its limit, from the hop on at which replies are missing to the end."""
    failed = _failed(findings, "loss_ratio", way.direction)
    under = _loaded(measurements, way.direction)
    if under is not None and under.by == LOSS:
        yield _Fault(
            LOSS,
            _begins(under),
            _seen_under(under, way),
            under.after,
            under.before,
            under.confidence,
            receiver_side=True,
        )
    if failed is None:
        return
    seen = _first_lossy(measurements, way)
    evidence: Evidence = ((failed.step or "stamp", failed.because),)
    again = "test each part by itself, from an agent at each hand-over"
    if seen is None or seen.first_ttl is None:
        why = seen.because if seen is not None else "no trace of this direction"
        yield _Fault(LOSS, "packets are lost", (*evidence, ("trace", why)), settle=again)
        return
    yield _Fault(
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


def _sizes(plan: Plan, measurements: Sequence[Measurement], way: Way) -> Iterator[_Fault]:
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


def _size(key: str, size: MtuWay, promised: int, way: Way) -> _Fault:
    what = f"packets of {size.passes} bytes pass, {promised} are asked for"
    if size.kind == "told":
        at = way.names.get(size.told_by or "") or next(
            (hop.ttl for hop in size.hops if hop.address == size.told_by), None
        )
        told = ((key, f"{size.told_by} says by ICMP that longer packets do not fit onto its next link"),)
        if at is None:
            return _Fault(SIZE, what, told, settle=f"a trace that shows which hop {size.told_by} is")
        return _Fault(SIZE, what, told, at, at + 1, "high")
    found = mtu.place(size.hops)
    silent = (
        "routers that send no ICMP time exceeded, or quote the UDP header alone, tell nothing: let them send it whole"
    )
    if found is None:
        return _Fault(SIZE, f"{what}, longer ones vanish without a word", ((key, "no hop tells where"),), settle=silent)
    after, before = found.before.ttl if found.before else 0, found.after.ttl if found.after else way.last
    reach = f"long packets get as far as {ways.point(way, after)}, {ways.point(way, before)} sees only short ones"
    return _Fault(
        SIZE, f"{what}, longer ones vanish without a word", ((key, reach),), after, before,
        "high" if before == after + 1 else "medium", receiver_side=True, settle=silent if before > after + 1 else "",
    )  # fmt: skip


def _members(measurements: Sequence[Measurement], way: Way) -> Iterator[_Fault]:
    for one in measurements:
        if one.members is not None and one.members.direction is way.direction:
            for group in members.read(one.members).groups:
                if group.kind in MEMBERS:
                    yield _member(one.step.key, one.members, group, way)


def _member(key: str, result: MembersResult, group: Group, way: Way) -> _Fault:
    lost = f" lose {format_ratio(group.loss[0])}" if group.loss else " take longer"
    what = f"{len(group.ports)} of {group.flows} flows{lost}"
    counted = (key, f"{what}, {format_count(len(result.flows))} flows compared")
    again = "the carriers' own counters of the members that carry the flows named"
    parts = routes.apart(result.traces, group.ports, group.unclear)
    if parts is None:
        return _Fault(
            MEMBERS[group.kind],
            what,
            (counted, ("traces", "the flows meet the same routers, or were not traced")),
            settle=again,
        )
    after, before, theirs, others = parts
    seen = f"at hop {after + 1} they meet {', '.join(sorted(theirs))}, the others {', '.join(sorted(others))}"
    return _Fault(
        MEMBERS[group.kind],
        what,
        (counted, ("traces", seen)),
        after,
        before or way.last,
        "medium",
        receiver_side=True,
        settle=again,
    )


def _routers(measurements: Sequence[Measurement], way: Way) -> Iterator[_Fault]:
    """Links that this direction alone takes."""
    path: PathResult | None = next((one.path for one in measurements if one.path is not None), None)
    if path is None or path.compared is None:
        return
    own = path.compared.forward_only if way.direction is Direction.FORWARD else path.compared.reverse_only
    if own:
        which = f"{format_count(len(own))} of its links" if len(own) > 1 else "one of its links"
        yield _Fault(
            ROUTERS,
            f"{which} the other direction does not take",
            (("path", path.because),),
            min(own) - 1,
            max(own),
            "high",
            sender_side=False,
        )


# ---- the segments


def _located(fault: _Fault, way: Way, placed: Sequence[Placed]) -> Located:
    after, before = (0, way.last) if fault.after is None or fault.before is None else (fault.after, fault.before)
    found = segments.owners(placed, after, before, device_before=fault.sender_side, device_behind=fault.receiver_side)
    where = _between(way, fault.after, fault.before)
    row = Located(
        fault.name, way.direction, where, fault.after, fault.before, found.names if placed else (), found.suppliers if placed else (),
        fault.confidence, fault.evidence,
    )  # fmt: skip
    if not placed:
        return replace(row, sentence=f"{way.direction}, {fault.name}: {fault.what}, {where}", settle=fault.settle)
    pins = (("link file", "; ".join(_runs(one, way) for one in found.segments)),) if found.segments else ()
    return replace(
        row,
        confidence=row.confidence if found.certain else _less(row.confidence),
        evidence=(*fault.evidence, *pins),
        sentence=f"{way.direction}, {fault.name}: {fault.what}, {where}: {_in_words(found)}",
        settle="; ".join(filter(None, (_settle(fault, found, after, before, way), fault.settle))),
    )


def _between(way: Way, after: int | None, before: int | None) -> str:
    return "anywhere between both ends" if after is None or before is None else ways.between(way, after, before)


def _in_words(found: Owners) -> str:
    """ "in access (Carrier A)", "in access (Carrier A) or core (Carrier B)"."""
    names = [
        f"{one.segment.name}{f' ({one.segment.supplier})' if one.segment.supplier else ''}" for one in found.segments
    ]
    if not names:
        return "in a part that no segment is declared for"
    rest = ["a part that no segment is declared for"] if found.beside else []
    return f"in {' or '.join([*names, *rest])}"


def _runs(one: Placed, way: Way) -> str:
    """ "core runs from 192.0.2.1 (hop 2) to hop 4 from the near end (hop 1, 192.0.2.9)"."""
    said = [_seen(text, span, way) for text, span in ((one.enters, one.start), (one.leaves, one.end))]
    return f"{one.segment.name} runs from {said[0]} to {said[1]}"


def _seen(text: str, span: segments.Between, way: Way) -> str:
    hop, last = span
    named = (
        f"hop {text} from the near end" if text.isdigit() else f"the {text} end" if text in ("near", "far") else text
    )
    if hop != last:
        return f"{named} (which no trace of this direction shows)"
    if text in ("near", "far"):
        return named
    address = way.shown.get(hop, "")
    return f"{named} (hop {hop}{f', {address}' if address and address != text else ''})"


def _settle(fault: _Fault, found: Owners, after: int, before: int, way: Way) -> str:
    """What would tell the segments apart; "" where there is one."""
    if found.certain:
        return ""
    places = [place for one in found.segments for place in ((one.enters, one.start), (one.leaves, one.end))]
    unseen = [text for text, (first, last) in places if first != last]
    if unseen:
        return (
            f"an address or hop number for {' and '.join(dict.fromkeys(unseen))} that a trace of this direction shows"
        )
    meeting = [
        one.end[0] for one, other in zip(found.segments, found.segments[1:], strict=False) if one.end == other.start
    ]
    if fault.sender_side and after in meeting and before == after + 1:
        return f"who runs the router at {ways.point(way, after)}, in which both meet and which sends onto that link"
    if meeting:
        return f"the same test from an agent at {' and at '.join(ways.point(way, hop) for hop in meeting)}, where they meet"
    return "segments for the whole way" if found.beside else ""


def _less(confidence: str) -> str:
    """That of the fault's place is not that of its segment, where several are possible."""
    return {"high": "medium"}.get(confidence, "low")
