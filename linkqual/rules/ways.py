"""The hops of one direction, from whatever saw them: traces of both ends, the search for the MTU, a load's own trace. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from linkqual.model import Direction, Hop, Measurement, PathResult
from linkqual.session import routes, shared_ways
from linkqual.session.alignment import same_router
from linkqual.session.segments import Way
from linkqual.session.symmetry import SYMMETRIC, routers_of

ENDS = {Direction.FORWARD: ("the near end", "the far end"), Direction.REVERSE: ("the far end", "the near end")}


def of(measurements: Sequence[Measurement], direction: Direction) -> Way:
    """A router that both traces show is known by the addresses of both."""
    path = next((one.path for one in measurements if one.path is not None), None)
    shown = {hop.ttl: hop.address for hop in hops(measurements, direction) if hop.address is not None}
    if not shown:
        shown = dict(_without_trace(measurements, direction))
    last = _last(measurements, direction) or max([0, *shown, *_mentioned(measurements, direction)]) + 1
    names = {address: ttl for ttl, address in shown.items()}
    links = dict(names)
    for hop in hops(measurements, direction):
        _add(names, hop, hop.ttl)
        _add_links(links, hop, hop.ttl, hop.ttl + 1)
    numbers = {number: number for number in range(1, last)} if direction is Direction.FORWARD else {}
    for here, there in _pairs(path, direction):
        for hop in hops(measurements, _other(direction)):
            if hop.ttl == there:
                _add(names, hop, here)
                _add_links(links, hop, here + 1, here)
        if direction is Direction.REVERSE:
            numbers[there] = here
    return Way(direction, last, shown, names, links, numbers)


def hops(measurements: Sequence[Measurement], direction: Direction) -> tuple[Hop, ...]:
    """What the trace of this direction saw; none without one."""
    for one in measurements:
        if one.path is not None:
            return (one.path.forward if direction is Direction.FORWARD else one.path.reverse).hops
    return ()


def end(trace: Sequence[Hop]) -> int | None:
    """Links a trace crossed to its end; None where it did not get there."""
    return next((hop.ttl for hop in trace if hop.reached), None)


def shared(measurements: Sequence[Measurement], direction: Direction) -> bool:
    """Whether flows that differ by a port alone were seen to meet other routers."""
    forward = direction is Direction.FORWARD
    sets = [shared_ways.there(one.path) if forward else shared_ways.back(one.path) for one in measurements if one.path]
    sets += [one.members.traces for one in measurements if one.members and one.members.direction is direction]
    return any(routes.parting(flows) is not None for flows in sets)


def between(way: Way, after: int | None, before: int | None) -> str:
    """ "between hop 2 (192.0.2.1) and the far end", silent hops in between said; None: "anywhere between both ends"."""
    if after is None or before is None:
        return "anywhere between both ends"
    silent = [str(hop) for hop in range(after + 1, before) if hop not in way.shown]
    within = f", hop{'s' * (len(silent) > 1)} {', '.join(silent)} in between silent" if silent and way.shown else ""
    return f"between {point(way, after)} and {point(way, before)}{within}"


def point(way: Way, hop: int) -> str:
    """ "hop 2 (192.0.2.1)", "hop 3 (silent)", "hop 3 (192.0.2.9, silent itself)", "the far end"."""
    first, last = ENDS[way.direction]
    if hop <= 0:
        return first
    if hop >= way.last:
        return last
    if not way.shown or hop in way.shown:
        return f"hop {hop} ({way.shown[hop]})" if way.shown else f"hop {hop}"
    told = next(
        (address for address, at in way.names.items() if at == hop), ""
    )  # by other routers, or the other direction
    return f"hop {hop} ({told}, silent itself)" if told else f"hop {hop} (silent)"


def _other(direction: Direction) -> Direction:
    return Direction.REVERSE if direction is Direction.FORWARD else Direction.FORWARD


def _pairs(path: PathResult | None, direction: Direction) -> Iterable[tuple[int, int]]:
    """(hop of this direction, the same router's hop in the other one), where that is proven."""
    if path is None:
        return
    routers = routers_of(path.forward, path.reverse)
    for forward, reverse in path.pairs:
        if forward is None or reverse is None:
            continue
        i, j = forward - 1, len(routers.back) - reverse
        inside = i in range(len(routers.there)) and j in range(len(routers.back))
        if path.symmetry == SYMMETRIC or (inside and same_router(routers, i, j)):
            yield (forward, reverse) if direction is Direction.FORWARD else (reverse, forward)


def _add(names: dict[str, int], hop: Hop, at: int) -> None:
    for address in (hop.address, *hop.others, hop.egress):
        if address is not None:
            names.setdefault(address, at)


def _add_links(links: dict[str, int], hop: Hop, towards_asking: int, onward: int) -> None:
    """A router answers from the link a probe came by, and records the address of the one it left by."""
    for address, link in (
        (hop.address, towards_asking),
        *((other, towards_asking) for other in hop.others),
        (hop.egress, onward),
    ):
        if address is not None:
            links.setdefault(address, link)


def _last(measurements: Sequence[Measurement], direction: Direction) -> int | None:
    """The hop that is the receiving host, by whatever reached it."""
    reached = end(hops(measurements, direction))
    for one in measurements:
        if reached is None and one.narrow is not None and one.narrow.direction is direction and one.narrow.links:
            reached = one.narrow.links
        for way in one.mtu.ways if one.mtu is not None else ():
            if reached is None and way.direction is direction:
                reached = way.reached_ttl
    return reached


def _mentioned(measurements: Sequence[Measurement], direction: Direction) -> Iterable[int]:
    """Hops that something was seen at: the receiving host lies behind them."""
    yield from (hop.ttl for hop in hops(measurements, direction))
    for one in measurements:
        for loaded in (one.loaded_path, one.loaded_path_back):
            if loaded is not None and loaded.direction is direction:
                yield from (hop.ttl for hop in loaded.hops)
                yield loaded.before or 0
        if one.members is not None and one.members.direction is direction:
            for trace in one.members.traces:
                yield from (number for number, address in enumerate(trace.hops, 1) if address is not None)


def _without_trace(measurements: Sequence[Measurement], direction: Direction) -> Iterable[tuple[int, str]]:
    for one in measurements:
        for way in one.mtu.ways if one.mtu is not None else ():
            if way.direction is direction:
                yield from ((hop.ttl, hop.address) for hop in way.hops if hop.address is not None)
        for loaded in (one.loaded_path, one.loaded_path_back):
            if loaded is not None and loaded.direction is direction:
                yield from ((hop.ttl, hop.address) for hop in loaded.hops if hop.address is not None)
