"""What further flows of the path probe tell, in words. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from linkqual.model import MemberTrace, Note, PathResult
from linkqual.session import routes, shared_ways
from linkqual.units import format_ratio


def notes(path: PathResult) -> Iterator[Note]:
    """Nothing where one flow was traced alone."""
    for way, flows in (("forward", shared_ways.there(path)), ("reverse", shared_ways.back(path))):
        if len(flows) > 1:
            yield Note("path", f"{way}, {_way(flows)}")
    found = shared_ways.in_common(path)
    if found is not None:
        count = 1 + min(len(path.flows), len(path.flows_back))
        yield Note(
            "path",
            f"links in common there and back, by the networks of all addresses that answered: {format_ratio(found.single)} of this flow's, "
            f"{format_ratio(found.union)} of those of all {count} flows; the verdict on symmetry is about the flow between ports "
            f"{path.forward.source_port} and {path.forward.destination_port} alone",
        )


def _way(flows: Sequence[MemberTrace]) -> str:
    count = len({flow.near_port for flow in flows})
    found = routes.parting(flows)
    if routes.moved(flows):
        return f"one of {count} flows did not stay on its way: the route changed meanwhile, or packets are spread and not flows"
    if found is None:
        sure = (
            "too few to exclude another next hop"
            if routes.short(flows)
            else f"another next hop that takes as many would have been missed with {format_ratio(routes.SURE)} at most"
        )
        return f"{count} flows that differ by a port alone meet the same routers, as far as these answer: {sure}"
    ways = ", ".join(f"{address} ({len(ports)})" for address, ports in found.ways)
    own = next(address for address, ports in found.ways if flows[0].near_port in ports) if _own(flows, found) else ""
    mine = f"; the compared flow meets {own}" if own else ""
    more = "; further ways may exist" if routes.short(flows) else ""
    return f"{count} flows that differ by a port alone are shared from hop {found.hop} on: {ways}, at least {found.paths} ways in all{mine}{more}"


def _own(flows: Sequence[MemberTrace], found: routes.Parting) -> bool:
    return any(flows[0].near_port in ports for _, ports in found.ways)
