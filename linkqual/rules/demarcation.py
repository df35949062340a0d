"""In whose part of the line a fault lies: the hops it lies between, the segments and suppliers of a link file. Floor 2, pure.

Nobody is blamed beyond the evidence. A fault that was pinned to one link lies in the segment that link is part of; the router it begins at
belongs to either segment that meets there; one that was only bounded may lie in any segment it spans, and the row says what would settle it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from linkqual.model import Diagnosis, Direction, Finding, Located, Measurement, Plan
from linkqual.rules import faults, ways
from linkqual.rules.faults import Fault
from linkqual.session import segments
from linkqual.session.segments import Owners, Placed, Way


def rows(
    plan: Plan, measurements: Sequence[Measurement], findings: Sequence[Finding], diagnoses: Sequence[Diagnosis] = ()
) -> tuple[Located, ...]:
    """A row for each fault, direction by direction."""
    found: list[Located] = []
    for direction in (Direction.FORWARD, Direction.REVERSE):
        way = ways.of(measurements, direction)
        placed = segments.placed(plan.link.segments, way)
        met = {one.segment for one in placed}
        missing = tuple(one.name for one in plan.link.segments if one not in met)
        found += [
            _located(one, way, placed, missing) for one in faults.of(plan, measurements, findings, diagnoses, way)
        ]
    return tuple(found)


def _located(fault: Fault, way: Way, placed: Sequence[Placed], missing: Sequence[str] = ()) -> Located:
    """`missing`: segments whose places packets of this direction do not meet in the file's order; what they were meant to hold is open."""
    after, before = (0, way.last) if fault.after is None or fault.before is None else (fault.after, fault.before)
    found = segments.owners(placed, after, before, device_before=fault.sender_side, device_behind=fault.receiver_side)
    if missing:
        found = replace(found, certain=False)
    where = ways.between(way, fault.after, fault.before)
    row = Located(
        fault.name, way.direction, where, fault.after, fault.before, found.names if placed else (), found.suppliers if placed else (),
        fault.confidence, fault.evidence,
    )  # fmt: skip
    if not placed:
        return replace(
            row, sentence=f"{way.direction}, {fault.name}: {fault.what}{fault.joint}{where}", settle=fault.settle
        )
    pins = (("link file", "; ".join(_runs(one, way) for one in found.segments)),) if found.segments else ()
    return replace(
        row,
        confidence=row.confidence if found.certain else _less(row.confidence),
        evidence=(*fault.evidence, *pins),
        sentence=f"{way.direction}, {fault.name}: {fault.what}{fault.joint}{where}: {_in_words(found)}",
        settle="; ".join(filter(None, (_order(missing), _settle(fault, found, after, before, way), fault.settle))),
    )


def _in_words(found: Owners) -> str:
    """ "in access (Carrier A)", "in access (Carrier A) or core (Carrier B)"."""
    names = [
        f"{one.segment.name}{f' ({one.segment.supplier})' if one.segment.supplier else ''}" for one in found.segments
    ]
    if not names:
        return "in a part that no segment is declared for"
    rest = ["a part that no segment is declared for"] if found.beside else []
    return f"in {' or '.join([*names, *rest])}"


def _order(missing: Sequence[str]) -> str:
    """What to mend in the link file."""
    return (
        f"places of {' and '.join(missing)} that packets of this direction meet one behind the other" if missing else ""
    )


def _runs(one: Placed, way: Way) -> str:
    """ "core runs from 192.0.2.1 (hop 2) to hop 4 from the near end (hop 1, 192.0.2.9)"."""
    said = [_seen(text, span, way) for text, span in ((one.enters, one.start), (one.leaves, one.end))]
    return f"{one.segment.name} runs from {said[0]} to {said[1]}"


def _seen(text: str, span: segments.Between, way: Way) -> str:
    hop, last = span
    named = (
        f"hop {text} from the near end" if text.isdigit() else f"the {text} end" if text in ("near", "far") else text
    )
    if hop != last and way.place(text) is not None:
        return f"{named} (which is {ways.point(way, hop)} or {ways.point(way, last)})"
    if hop != last:
        return f"{named} (which no trace of this direction shows)"
    if text in ("near", "far"):
        return named
    address = way.shown.get(hop, "")
    return f"{named} (hop {hop}{f', {address}' if address and address != text else ''})"


def _settle(fault: Fault, found: Owners, after: int, before: int, way: Way) -> str:
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
