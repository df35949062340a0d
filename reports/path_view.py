"""The path as every report shows it: both directions place by place, what is known of each link, what is marked. No drawing here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from linkqual.model import Direction, Hop, Measurement, MemberTrace, NarrowResult, PathResult, Qualification, Trace
from linkqual.reports import path_marks, timekeeping
from linkqual.reports.path_marks import Capacity, Mark
from linkqual.rules import clocks
from linkqual.session import compared
from linkqual.session.symmetry import SYMMETRIC, routers_of
from linkqual.units import format_duration

FORWARD, REVERSE = Direction.FORWARD, Direction.REVERSE
SILENT, UNKNOWN = "silent", "not traced"


@dataclass(frozen=True, slots=True)
class Stop:
    """A place on one direction's way. `column`: counted from the near end, the same for both directions where they meet; `ttl` 0: the sender."""

    column: int
    kind: str  # "end", "router", "silent", "unknown"
    name: str
    ttl: int
    hop: Hop | None = None
    alone: bool = False  # the other direction does not come through here
    beside: tuple[str, ...] = ()  # routers that other flows meet here instead: equal routes

    @property
    def answer(self) -> str:
        """Least round trip of its answers, "" where none came."""
        return format_duration(min(self.hop.rtt_ns)) if self.hop is not None and self.hop.rtt_ns else ""

    @property
    def elsewhere(self) -> str:
        """Where other flows go, in few words; "" where none is known to go elsewhere."""
        one = self.beside[0] if len(self.beside) == 1 else f"{len(self.beside)} other routers"
        return f"other flows: {one}" if self.beside else ""

    @property
    def labels(self) -> tuple[str, ...]:
        """MPLS labels it quoted (RFC 4950), outermost first, without TC, S and TTL."""
        found = self.hop.labels if self.hop is not None else ()
        return tuple(text.removeprefix("label=").partition(" ")[0] for text in found)


@dataclass(frozen=True, slots=True)
class Link:
    """One link of one direction; `start` and `end` as a packet meets them. `traced` False: what lies between them is not known."""

    number: int  # 1 leaves the sending host
    start: Stop
    end: Stop
    traced: bool = True
    capacity: Capacity | None = None
    marks: tuple[Mark, ...] = ()

    @property
    def columns(self) -> tuple[int, int]:
        """Left and right, the near end being leftmost."""
        return min(self.start.column, self.end.column), max(self.start.column, self.end.column)

    def marked(self, kind: str) -> bool:
        """Whether it carries a mark of this kind."""
        return any(mark.kind == kind for mark in self.marks)


@dataclass(frozen=True, slots=True)
class Lane:
    """One direction. Stops and links in the order a packet meets them."""

    direction: Direction
    stops: tuple[Stop, ...]
    links: tuple[Link, ...]
    flow: str = ""  # addresses and ports of its trace
    delay: str = ""  # least one-way delay, where the clocks tell it
    fault: str = ""  # why its trace is not whole


@dataclass(frozen=True, slots=True)
class View:
    """Both directions side by side. `meets`: columns of routers of both, and whether each is proven to be one."""

    forward: Lane
    reverse: Lane
    columns: int  # of the last one, where the far end is
    meets: dict[int, bool]

    @property
    def lanes(self) -> tuple[Lane, Lane]:
        """Forward, then reverse."""
        return self.forward, self.reverse

    @property
    def measured(self) -> bool:
        """Whether anything is known of what a link carries."""
        return any(link.capacity is not None for lane in self.lanes for link in lane.links)

    def marked(self, kind: str) -> bool:
        """Whether any link carries such a mark."""
        return any(link.marked(kind) for lane in self.lanes for link in lane.links)


def view(q: Qualification) -> View | None:
    """None where no trace and no search for the narrowest hop told anything of the way."""
    taken = q.measurements
    path = next((m.path for m in taken if m.path), None)
    narrow = {way: path_marks.narrow_of(taken, way) for way in (FORWARD, REVERSE)}
    if path is None and not any(found is not None and found.links for found in narrow.values()):
        return None
    ends = (q.plan.link.near or "near end", q.plan.link.far or "far end")
    there = _stops(path.forward if path else None, narrow[FORWARD], ends, _flows(taken, FORWARD))
    back = _stops(path.reverse if path else None, narrow[REVERSE], ends[::-1], _flows(taken, REVERSE))
    alone = _alone(path)
    anchors = _anchors(path, there, back, alone)
    there_at, back_at, last = _columns(len(there), len(back), anchors)
    forward, reverse = _placed(there, there_at, alone[0]), _placed(back, back_at[::-1], alone[1])
    return View(
        _lane(FORWARD, forward, path.forward if path else None, taken, alone[0]),
        _lane(REVERSE, reverse, path.reverse if path else None, taken, alone[1]),
        last,
        _meets(path, anchors, there_at, len(back)),
    )


def _placed(stops: Sequence[Stop], columns: Sequence[int], alone: frozenset[int]) -> list[Stop]:
    """A router between two links that one direction alone takes is that direction's own."""
    return [
        replace(stop, column=column, alone=_own(at, alone))
        for at, (stop, column) in enumerate(zip(stops, columns, strict=True))
    ]


# ---- places


def _flows(taken: Sequence[Measurement], way: Direction) -> list[MemberTrace]:
    """Further flows of this direction that were traced."""
    found: list[MemberTrace] = []
    for one in taken:
        if one.path is not None:
            found += one.path.flows if way is FORWARD else one.path.flows_back
        if one.members is not None and one.members.direction is way:
            found += one.members.traces
    return found


def _stops(
    trace: Trace | None, narrow: NarrowResult | None, ends: tuple[str, str], flows: Sequence[MemberTrace]
) -> list[Stop]:
    """Sender, routers, receiver. Routers that only the search for the narrowest hop counted are added where no trace shows them."""
    hops = list(trace.hops) if trace is not None else []
    last = hops.pop() if hops and hops[-1].reached else None
    beyond = narrow.links - 1 if last is None and narrow is not None and narrow.links else len(hops)
    while (
        len(hops) > beyond and hops[-1].address is None
    ):  # the load reached its end before: nothing is there to be silent
        hops.pop()
    routers = [
        Stop(0, "router" if hop.address else "silent", hop.address or SILENT, hop.ttl, hop, beside=_beside(hop, flows))
        for hop in hops
    ]
    if last is None and narrow is not None:
        known = routers[-1].ttl if routers else 0
        routers += [Stop(0, "unknown", UNKNOWN, ttl) for ttl in range(known + 1, narrow.links)]
    ttl = last.ttl if last is not None else routers[-1].ttl + 1 if routers else 1
    if last is None and (narrow is None or not narrow.links):
        routers = _folded(routers)
    receiver = last or Hop(ttl, trace.destination if trace is not None and trace.hops else None)
    sender = Hop(0, trace.source if trace is not None else None)
    return [Stop(0, "end", ends[0], 0, sender), *routers, Stop(0, "end", ends[1], ttl, receiver)]


def _folded(routers: list[Stop]) -> list[Stop]:
    """Silence to the last TTL that was tried is one stop: how many routers are there nobody knows."""
    heard = max((at for at, stop in enumerate(routers) if stop.kind != "silent"), default=-1)
    silent = routers[heard + 1 :]
    if len(silent) < 2:
        return routers
    return [*routers[: heard + 1], replace(silent[0], name=f"{SILENT} to hop {silent[-1].ttl}")]


def _beside(hop: Hop, flows: Sequence[MemberTrace]) -> tuple[str, ...]:
    met = {trace.hops[hop.ttl - 1] for trace in flows if len(trace.hops) >= hop.ttl}
    return tuple(
        sorted(address for address in met if address is not None and address not in (hop.address, *hop.others))
    )


def _anchors(
    path: PathResult | None, there: Sequence[Stop], back: Sequence[Stop], alone: tuple[frozenset[int], frozenset[int]]
) -> list[tuple[int, int]]:
    """Places (index from the near end) of routers that both directions come through, as the comparison paired them.

    A silent hop is paired by its place alone, which says nothing unless the whole way is proven to be one.
    """
    found: list[tuple[int, int]] = []
    for i, j in path.pairs if path is not None else ():
        if i is None or j is None:
            continue
        at, other = i, len(back) - 1 - j
        before = found[-1] if found else (0, 0)
        if not (before[0] < at < len(there) - 1 and before[1] < other < len(back) - 1):
            continue
        seen = there[at].kind == back[j].kind == "router" or (path is not None and path.symmetry == SYMMETRIC)
        if seen and not _own(at, alone[0]) and not _own(j, alone[1]):
            found.append((at, other))
    return found


def _own(stop: int, alone: frozenset[int]) -> bool:
    """Whether a stop lies between two links that one direction alone takes."""
    return {stop, stop + 1} <= alone


def _columns(there: int, back: int, anchors: Sequence[tuple[int, int]]) -> tuple[list[int], list[int], int]:
    """Column of each stop of both directions, from the near end; what is not paired stands in columns beside each other."""
    at: tuple[list[int], list[int]] = ([0], [0])
    column = 0
    for pair in (*anchors, (there - 1, back - 1)):
        runs = [end - len(places) for end, places in zip(pair, at, strict=True)]
        for run, places in zip(runs, at, strict=True):
            places += [column + 1 + step * max(runs) // run for step in range(run)]
        column += max(runs) + 1
        for places in at:
            places.append(column)
    return at[0], at[1], column


def _meets(
    path: PathResult | None, anchors: Sequence[tuple[int, int]], columns: Sequence[int], stops_back: int
) -> dict[int, bool]:
    if path is None or not anchors:
        return {}
    routers, whole = routers_of(path.forward, path.reverse), path.symmetry == SYMMETRIC
    surely = compared.certain(routers)
    untraced = stops_back - 2 - len(routers.back)  # stand before the near end, and the comparison knows none of them
    return {columns[i]: whole or (i - 1, j - 1 - untraced) in surely for i, j in anchors}


def _alone(path: PathResult | None) -> tuple[frozenset[int], frozenset[int]]:
    """Links that one direction alone takes."""
    if path is None:
        return frozenset(), frozenset()
    found = compared.of(path)
    return frozenset(found.forward_only), frozenset(found.reverse_only)


# ---- links


def _lane(
    way: Direction, stops: Sequence[Stop], trace: Trace | None, taken: Sequence[Measurement], alone: frozenset[int]
) -> Lane:
    narrow = path_marks.crossing(taken, way, len(stops) - 1)
    capacities = path_marks.capacities(narrow) if narrow is not None else {}
    marks = path_marks.marks(taken, way, len(stops) - 1, alone)
    whole = bool(trace is not None and trace.hops and trace.hops[-1].reached)
    links = tuple(
        Link(
            number,
            start,
            end,
            whole or (end.hop is not None and end.kind != "end"),
            capacities.get(number),
            marks.get(number, ()),
        )
        for number, (start, end) in enumerate(pairwise(stops), start=1)
    )
    fault = trace.fault if trace is not None else None
    why = f"{fault.message}{f' ({fault.hint})' if fault.hint else ''}" if fault else ""
    if not why and trace is not None and trace.hops and not whole:
        why = "it did not get to its end"
    return Lane(way, tuple(stops), links, _flow(trace) if trace is not None else "", _delay(taken, way), why)


def _delay(taken: Sequence[Measurement], way: Direction) -> str:
    """ "3.01 ms one way", with the clock error where there is one; "" where the clocks were set meanwhile or have no bound."""
    for one in taken:
        cut = timekeeping.parts(one.stamp.summary) if one.stamp is not None else ()
        if one.stamp is None or len(cut) != 1:
            continue
        error, _ = clocks.bound_ns(one.stamp.summary, one.conditions)
        found = (cut[0].forward if way is FORWARD else cut[0].reverse).minimum
        if error is not None and found is not None:
            return f"{format_duration(found)} one way{f' ± {format_duration(error)}' if error else ''}"
    return ""


def _flow(trace: Trace) -> str:
    return f"{trace.source} port {trace.source_port} to {trace.destination} port {trace.destination_port}"


def runs(lane: Lane, kind: str) -> Iterator[tuple[Link, ...]]:
    """Neighbouring links that carry the same kind of mark."""
    for marked, group in groupby(lane.links, key=lambda link: link.marked(kind)):
        if marked:
            yield tuple(group)


def spoken(lane: Lane, link: Link) -> list[str]:
    """The marks of a link in two words each; of neighbours that one direction alone takes, the middle one says so for all."""
    once = any(run[(len(run) - 1) // 2] is link for run in runs(lane, path_marks.ALONE))
    return [mark.short for mark in link.marks if once or mark.kind != path_marks.ALONE]
