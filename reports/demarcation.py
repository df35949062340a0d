"""The three places of a line, and faults by the part they lie in: as the page, the terminal and the sheet show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from linkqual.model import Direction, Located, Place, Qualification
from linkqual.reports.why import DOTS
from linkqual.reports.wording import ARROWS
from linkqual.rules.places import ALONE, EGRESS, MIDDLE


@dataclass(frozen=True, slots=True)
class Row:
    """One of the three places; the middle has a line for each direction."""

    title: str
    lines: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Card:
    """One fault with its segment, in words."""

    row: Located
    segment: str  # "access or core", "none declared", "—"
    supplier: str
    dots: str


def rows(q: Qualification) -> list[Row]:
    """End A's egress, the middle, end B's egress; none where nobody said or measured anything of them."""
    found = q.verdict.places if q.verdict else ()
    if all(place.state == "unknown" for place in found):
        return []
    ends = {EGRESS[Direction.FORWARD]: q.plan.link.near, EGRESS[Direction.REVERSE]: q.plan.link.far}
    names = (EGRESS[Direction.FORWARD], MIDDLE, EGRESS[Direction.REVERSE])
    return [
        Row(f"{name} ({ends[name]})" if ends.get(name) else name, tuple(one for one in found if one.name == name))
        for name in names
    ]


def cards(q: Qualification) -> list[Card]:
    """Faults in the order of the document."""
    declared = bool(q.plan.link.segments)
    return [
        Card(
            one,
            " or ".join(one.segments) or ("none declared there" if declared else "—"),
            " or ".join(one.suppliers) or "—",
            DOTS.get(one.confidence, ""),
        )
        for one in (q.verdict.demarcation if q.verdict else ())
    ]


def section(q: Qualification) -> dict[str, Any]:
    """What the template demarcation.html asks for."""
    found = cards(q)
    return {
        "rows": rows(q),
        "cards": found,
        "alone": ALONE,
        "declared": bool(q.plan.link.segments),
        "shown": bool(rows(q) or found),
    }


def brief(q: Qualification) -> list[tuple[str, str]]:
    """(head, text) for the terminal: the places where one of them was looked at by itself, faults where segments are declared."""
    lines = []
    if q.plan.link.segments or any(one.narrow is not None for one in q.measurements):
        said = [f"{row.title} {', '.join(map(_line, row.lines))}" for row in rows(q)]
        if said:
            lines.append(("places", f"{'; '.join(said)}. {ALONE.capitalize()}."))
    if q.plan.link.segments:
        lines += [(f"part {ARROWS[card.row.direction]}", _fault(card.row)) for card in cards(q)]
    return lines


def _line(place: Place) -> str:
    return (
        f"{ARROWS[place.direction]} {place.said} ({place.state})"
        if place.state != "unknown"
        else f"{ARROWS[place.direction]} unknown"
    )


def _fault(row: Located) -> str:
    said = row.sentence.removeprefix(f"{row.direction}, ")
    settle = f" To settle it: {row.settle}." if row.settle else ""
    return f"{said} ({row.confidence} confidence).{settle}"
