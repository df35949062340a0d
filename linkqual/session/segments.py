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
    links: Mapping[str, int] = field(default_factory=dict)  # such an address -> the link it is an end of
    numbers: Mapping[int, int] = field(default_factory=dict)

    def place(self, text: str) -> Between | None:
        """The hop that a place of a link file is, None when no trace shows it.

        A prefix is the subnet of a link as a rule, with an address of it at either end, of which a trace shows one: the place is either router.
        """
        forward = self.direction is Direction.FORWARD
        if text in ("near", "far"):
            return _at(0 if (text == "near") is forward else self.last)
        if text.isdigit():
            return _at(self.numbers.get(int(text)))
        inside = ip_network(text)
        if inside.num_addresses == 1:
            return _at(self.names.get(str(inside.network_address)))
        nearest = (min if forward else max)(
            (link for address, link in self.links.items() if ip_address(address) in inside), default=None
        )
        return None if nearest is None else (nearest - 1, nearest)


def _at(hop: int | None) -> Between | None:
    return None if hop is None else (hop, hop)


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
    found = [(one, start, end) for one, start, end in found if start is None or end is None or start[0] < end[1]]
    places = [span for _, start, end in found for span in (start, end)]
    texts = [text for one, _, _ in found for text in _names(one, way)]
    exact = _narrowed(places, texts)
    bounds = [_bounds(exact or places, at, way.last, exact is not None) for at in range(len(places))]
    return tuple(
        Placed(one, bounds[2 * at], bounds[2 * at + 1], *_names(one, way)) for at, (one, _, _) in enumerate(found)
    )


def _narrowed(places: Sequence[Between | None], texts: Sequence[str]) -> list[Between | None] | None:
    """Places seen, as narrow as their order makes them: a segment has one link at least. None: the order of the file is not that of the way."""
    spans = {text: span for text, span in zip(texts, places, strict=True) if span is not None}
    seen = [(at, text) for at, text in enumerate(texts) if text in spans]
    steps = [(one, other, int(at // 2 == then // 2)) for (at, one), (then, other) in pairwise(seen)]
    for _ in spans:
        for one, other, links in steps:
            spans[other] = max(spans[other][0], spans[one][0] + links), spans[other][1]
        for one, other, links in reversed(steps):
            spans[one] = spans[one][0], min(spans[one][1], spans[other][1] - links)
    return None if any(low > high for low, high in spans.values()) else [spans.get(text) for text in texts]


def _names(one: LineSegment, way: Way) -> tuple[str, str]:
    return (one.start, one.end) if way.direction is Direction.FORWARD else (one.end, one.start)


def _ends(one: LineSegment, way: Way) -> tuple[Between | None, Between | None]:
    enters, leaves = _names(one, way)
    return way.place(enters), way.place(leaves)


def _bounds(places: Sequence[Between | None], at: int, last: int, steady: bool) -> Between:
    here = places[at]
    if here is not None:
        return here
    if not steady:
        return 0, last
    before = [span[0] for span in places[:at] if span is not None]
    behind = [span[1] for span in places[at + 1 :] if span is not None]
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
