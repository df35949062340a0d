"""Further flows beside the one whose path is compared: are they shared over several ways, and what have all ways there and back in common? Floor 2, pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from linkqual.model import MemberTrace, PathResult, Trace
from linkqual.session import routes

_HOST_BITS = 2  # of a link's subnet: /30 and /126


@dataclass(frozen=True, slots=True)
class InCommon:
    """Jaccard index of the links there and back, by the /30 networks of all addresses that answered: of the one flow, and of all together."""

    single: float
    union: float


def of_port(trace: Trace, port: int) -> MemberTrace:
    """A trace as one of several flows; `port`: the near end's."""
    return MemberTrace(port, tuple(hop.address for hop in trace.hops if not hop.reached))


def there(path: PathResult) -> tuple[MemberTrace, ...]:
    """All flows forward, the compared one first."""
    return (of_port(path.forward, path.forward.source_port), *path.flows)


def back(path: PathResult) -> tuple[MemberTrace, ...]:
    """The same of the way back."""
    return (of_port(path.reverse, path.reverse.destination_port), *path.flows_back)


def wanted(path: PathResult, most: int) -> int:
    """Flows to trace in all, at most `most`: as many as another way would not be missed by, as far as is known by now."""
    return max(routes.wanted(there(path), most), routes.wanted(back(path), most))


def in_common(path: PathResult) -> InCommon | None:
    """None where no further flow was traced both ways, or no address was seen."""
    if not path.flows or not path.flows_back:
        return None
    ends = (path.forward.source, path.forward.destination)
    single = _jaccard(_links(there(path)[:1], ends), _links(back(path)[:1], ends))
    union = _jaccard(_links(there(path), ends), _links(back(path), ends))
    return InCommon(single, union) if single is not None and union is not None else None


def _links(traces: Sequence[MemberTrace], ends: Iterable[str]) -> set[int]:
    seen = {address for trace in traces for address in trace.hops if address is not None}
    return {int(ip_address(address)) >> _HOST_BITS for address in (*seen, *ends) if address}


def _jaccard(one: set[int], other: set[int]) -> float | None:
    return len(one & other) / len(one | other) if one | other else None
