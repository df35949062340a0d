"""The path as a table: every link of both directions, with the picture's marks in full."""

from __future__ import annotations

from dataclasses import dataclass

from linkqual.reports.path_view import Lane, Link, Stop, View


@dataclass(frozen=True, slots=True)
class Row:
    """One link."""

    link: Link
    start: str
    capacity: str
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """One direction."""

    lane: Lane
    rows: tuple[Row, ...]


def sides(view: View) -> tuple[Side, ...]:
    """Forward, then reverse; links in the order a packet meets them."""
    return tuple(Side(lane, tuple(_row(link, view.measured) for link in lane.links)) for lane in view.lanes)


def _row(link: Link, measured: bool) -> Row:
    capacity = link.capacity.words if link.capacity is not None else "not measured" if measured else "—"
    return Row(link, where(link.start), capacity, tuple(remarks(link)))


def where(stop: Stop) -> str:
    """ "near end", "192.0.2.5", "hop 3, silent"."""
    return stop.name if stop.kind in ("end", "router") else f"hop {stop.ttl}, {stop.name}"


def remarks(link: Link) -> list[str]:
    """Marks, and what the hop behind the link is known for beside its address."""
    found = [mark.said for mark in link.marks]
    if not link.traced:
        found.append("what lies between is not known")
    hop = link.end.hop
    if link.end.beside:
        found.append(f"other flows meet {', '.join(link.end.beside)}")
    if hop is not None and hop.others:
        found.append(f"also answers as {', '.join(hop.others)}")
    if hop is not None and hop.address is not None and hop.received < hop.sent:
        found.append(f"{hop.received} of {hop.sent} probes answered")
    return found
