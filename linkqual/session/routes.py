"""Do flows that differ by a port alone meet other routers? Which to trace, when enough were traced, and where they part. Floor 2, pure.

Load balancers hash ports (ECMP), so each flow is traced by itself. Of a next hop that carries as many flows as the others a trace of six
flows misses one with 3 %: the stopping rule of the multipath detection algorithm (Augustin, Friedman, Teixeira 2007), at 95 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb
from typing import NamedTuple

from linkqual.model import MemberTrace

SURE = 0.05  # chance that one more router, as often met as the others, was not met
SAMPLES = 2  # flows of each kind that are traced first


@dataclass(frozen=True, slots=True)
class Parting:
    """The first hop at which flows meet different routers. `ways`: (router's address, ports of the near end), most flows first."""

    hop: int  # as the TTL counts: 1 is the first router
    ways: tuple[tuple[str, tuple[int, ...]], ...]
    paths: int  # different rows of routers that were seen, at least

    @property
    def flows(self) -> int:
        """That were seen to pass one of them."""
        return sum(len(ports) for _, ports in self.ways)


def enough(known: int) -> int:
    """Flows that meet one more router beside `known` ones, all of them equally often met, but for a chance of SURE: 6, 11, 16, 21, 27, 33 ..."""
    every = known + 1
    flows = every
    while sum((-1) ** (i + 1) * comb(every, i) * (1 - i / every) ** flows for i in range(1, every + 1)) > SURE:
        flows += 1
    return flows


def order(ports: Sequence[int], groups: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """All ports, first SAMPLES of each group and of the flows in none."""
    groups = list(groups)
    differing = {port for group in groups for port in group}
    others = [port for port in ports if port not in differing]
    first = [port for group in (*groups, others) for port in group[:SAMPLES]]
    return tuple(dict.fromkeys([*first, *ports]))


def following(ordered: Sequence[int], traces: Sequence[MemberTrace], most: int) -> int | None:
    """The port of the flow to trace next, None when it is enough. At most `most` flows are traced; then one of each router's again."""
    traced = [trace.near_port for trace in traces]
    once = list(dict.fromkeys(traced))
    if len(once) < wanted(traces, most):
        return next((port for port in ordered if port not in once), None)
    found = parting(traces)
    again = [ports[0] for _, ports in found.ways] if found is not None else []
    return next(
        (port for port in again if traced.count(port) < 2), None
    )  # a route that changed meanwhile parts nothing


def wanted(traces: Sequence[MemberTrace], most: int) -> int:
    """Flows to trace, as far as is known by now."""
    return min(most, enough(_widest(traces)))


def short(traces: Sequence[MemberTrace]) -> bool:
    """Whether fewer flows were traced than a further router would need to be met."""
    return len({trace.near_port for trace in traces}) < enough(_widest(traces))


def _widest(traces: Sequence[MemberTrace]) -> int:
    """Most routers that were met at one hop, at least 1."""
    return max((len(_met(traces, at)) for at in range(_longest(traces))), default=1) or 1


def _longest(traces: Sequence[MemberTrace]) -> int:
    return max((len(trace.hops) for trace in traces), default=0)


def _met(traces: Iterable[MemberTrace], at: int) -> set[str]:
    """Routers met at hop at + 1."""
    return {address for trace in traces if at < len(trace.hops) and (address := trace.hops[at]) is not None}


def moved(traces: Sequence[MemberTrace]) -> tuple[int, ...]:
    """Ports of flows that met other routers when traced again: the route changed, or single packets are spread and not flows."""
    ports = dict.fromkeys(trace.near_port for trace in traces)
    mine = {port: [trace for trace in traces if trace.near_port == port] for port in ports}
    return tuple(port for port, own in mine.items() if any(len(_met(own, at)) > 1 for at in range(_longest(own))))


def parting(traces: Sequence[MemberTrace]) -> Parting | None:
    """None where all flows meet the same routers as far as these answer, or one flow did not stay on its way."""
    if moved(traces):
        return None
    for at in range(_longest(traces)):
        ways: dict[str, list[int]] = {}
        for trace in traces:
            if (
                at < len(trace.hops)
                and (address := trace.hops[at]) is not None
                and trace.near_port not in ways.setdefault(address, [])
            ):
                ways[address].append(trace.near_port)
        if len(ways) > 1:
            ordered = sorted(ways.items(), key=lambda way: (-len(way[1]), way[0]))
            return Parting(at + 1, tuple((address, tuple(sorted(ports))) for address, ports in ordered), _paths(traces))
    return None


def _paths(traces: Sequence[MemberTrace]) -> int:
    """Rows of routers of which no two can be one, where a silent hop fits anything."""
    seen: list[tuple[str | None, ...]] = []
    for hops in sorted({trace.hops for trace in traces}, key=lambda hops: sum(hop is None for hop in hops)):
        if not any(_fits(hops, other) for other in seen):
            seen.append(hops)
    return len(seen)


def _fits(one: Sequence[str | None], other: Sequence[str | None]) -> bool:
    return all(a is None or b is None or a == b for a, b in zip(one, other, strict=False))


class Apart(NamedTuple):
    """Where some flows meet other routers than all others. Hop 0 is the sending host."""

    after: int  # last hop they share
    hop: int  # first one at which both answer, and differ
    before: int | None  # next hop they share again, if any
    theirs: frozenset[str]  # routers at `hop`
    others: frozenset[str]


def apart(traces: Sequence[MemberTrace], ports: Sequence[int], unclear: Sequence[int] = ()) -> Apart | None:
    """Where the flows of `ports` leave the way of all others; None where they were not traced, or share all routers that answer."""
    inside = [trace for trace in traces if trace.near_port in ports]
    outside = [trace for trace in traces if trace.near_port not in (*ports, *unclear)]
    if not inside or not outside:
        return None
    met = [(_met(inside, at), _met(outside, at)) for at in range(_longest(traces))]
    for hop, (theirs, others) in enumerate(met, 1):
        if theirs and others and not theirs & others:
            shared = [number for number, (mine, rest) in enumerate(met, 1) if mine & rest]
            after = max((number for number in shared if number < hop), default=0)
            before = min((number for number in shared if number > hop), default=None)
            return Apart(after, hop, before, frozenset(theirs), frozenset(others))
    return None
