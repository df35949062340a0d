"""Where the segments of a line lie on the hops of one direction, and which of them a stretch of hops may belong to. Floor 2, pure.

Hops are numbered as packets of the direction meet them: 0 is the sending host, `Way.last` the receiving one. Link k leads from hop k - 1 to
hop k. A place that no trace shows lies somewhere between its neighbours: whatever follows from it is then only possible, not certain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from itertools import pairwise

from linkqual.model import Direction, LineSegment

Between = tuple[int, int]  # lowest and highest hop that a place can be


@dataclass(frozen=True, slots=True)
class Way:
    """One direction as far as it was seen. `numbers`: the hop of this direction that is the router which packets from the near end meet as hop k."""

    direction: Direction
    last: int  # hop that is the receiving host, at least
    shown: Mapping[int, str] = field(default_factory=dict)  # hop -> the address that this direction's trace shows
    names: Mapping[str, int] = field(default_factory=dict)  # every address known of a router -> its hop
    numbers: Mapping[int, int] = field(default_factory=dict)

    def place(self, text: str) -> int | None:
        """The hop that a place of a link file is, None when no trace shows it."""
        forward = self.direction is Direction.FORWARD
        if text in ("near", "far"):
            return 0 if (text == "near") is forward else self.last
        if text.isdigit():
            return self.numbers.get(int(text))
        if "/" not in text:
            return self.names.get(str(ip_address(text)))
        inside = [hop for address, hop in self.names.items() if ip_address(address) in ip_network(text)]
        return (min if forward else max)(inside, default=None)


@dataclass(frozen=True, slots=True)
class Placed:
    """A segment on the hops of one direction."""

    segment: LineSegment
    start: Between  # where packets of the direction enter it
    end: Between
    enters: str  # that place as the link file names it
    leaves: str

    def has(self, link: int) -> bool:
        """Whether the link is certainly part of it."""
        return self.start[1] < link <= self.end[0]

    def may_have(self, link: int) -> bool:
        """Whether the link can be part of it."""
        return self.start[0] < link <= self.end[1]


def placed(segments: Sequence[LineSegment], way: Way) -> tuple[Placed, ...]:
    """The segments in the order packets of this direction meet them. One whose places are met the other way round is left out."""
    ordered = segments if way.direction is Direction.FORWARD else segments[::-1]
    found = [(one, *_ends(one, way)) for one in ordered]
    found = [(one, start, end) for one, start, end in found if start is None or end is None or start < end]
    seen = [hop for _, start, end in found for hop in (start, end) if hop is not None]
    steady = all(before <= after for before, after in pairwise(seen))  # else the order of the file tells nothing
    places: list[int | None] = [hop for _, start, end in found for hop in (start, end)]
    bounds = [_bounds(places, at, way.last, steady) for at in range(len(places))]
    return tuple(
        Placed(one, bounds[2 * at], bounds[2 * at + 1], *_names(one, way)) for at, (one, _, _) in enumerate(found)
    )


def _names(one: LineSegment, way: Way) -> tuple[str, str]:
    return (one.start, one.end) if way.direction is Direction.FORWARD else (one.end, one.start)


def _ends(one: LineSegment, way: Way) -> tuple[int | None, int | None]:
    enters, leaves = _names(one, way)
    return way.place(enters), way.place(leaves)


def _bounds(places: Sequence[int | None], at: int, last: int, steady: bool) -> Between:
    here = places[at]
    if here is not None:
        return here, here
    if not steady:
        return 0, last
    before = [hop for hop in places[:at] if hop is not None]
    behind = [hop for hop in places[at + 1 :] if hop is not None]
    return max(before, default=0), min(behind, default=last)


@dataclass(frozen=True, slots=True)
class Owners:
    """The segments a stretch may belong to. `certain`: it lies in the only one of them, and nowhere else. `beside`: also in a part nobody declared."""

    segments: tuple[Placed, ...]
    certain: bool
    beside: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Of the segments."""
        return tuple(one.segment.name for one in self.segments)

    @property
    def suppliers(self) -> tuple[str, ...]:
        """Each once."""
        return tuple(dict.fromkeys(one.segment.supplier for one in self.segments if one.segment.supplier))


def owners(
    all_placed: Sequence[Placed], after: int, before: int, *, device_before: bool = False, device_behind: bool = False
) -> Owners:
    """Of the links from hop `after` to hop `before`.

    `device_before`: the fault may be in the router `after`, which sends onto the first of them; `device_behind`: in the router `before`. A router
    in which two segments meet belongs to either.
    """
    links = range(after + 1, before + 1)
    first = max(after, 1) if device_before else after + 1
    reach = range(first, before + 2 if device_behind else before + 1)
    found = tuple(one for one in all_placed if any(map(one.may_have, reach)))
    runs = _runs(all_placed)
    beside = not all(any(start < link <= end for start, end in runs) for link in links)
    certain = len(found) == 1 and not beside and all(map(found[0].has, links))
    return Owners(found, certain, beside)


def _runs(all_placed: Sequence[Placed]) -> list[Between]:
    """Stretches that segments cover for certain: those that meet in one place leave nothing between them, wherever that is."""
    found: list[Between] = []
    leaves = ""
    for one in all_placed:
        if one.enters == leaves:
            found[-1] = found[-1][0], max(found[-1][1], one.end[0])
        else:
            found.append((one.start[1], one.end[0]))
        leaves = one.leaves
    return found
