"""Both directions of one flow in numbers: routers and links in common, where they part, what would settle it. Floor 2.

Jaccard indices (what both have over what either has) are intervals. In common counts what is certain: a router that shows one name
each way, by its answers or by Record Route, a link whose two ends such routers are, everything once symmetry is proven. The upper end
leaves out what is certain not to be: addresses alone never prove two routers to be two, the numbers of routers do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from linkqual.model import Compared, Measurement, PathResult, Share, Trace
from linkqual.session.alignment import Hops, Routers, align, mates, same_router
from linkqual.session.link_states import Link, links
from linkqual.session.symmetry import (
    ASYMMETRIC,
    SYMMETRIC,
    UNDETERMINED,
    compare,
    contradiction,
    one_gateway,
    routers_of,
)

LINK_BESIDE = "link beside"
_SETTLE = {
    Link.DIFFERENT: "ask the carrier for the routers of both ways, or trace over IPv4 (Record Route)",
    Link.UNSEEN: "have the silent routers answer (ICMP time exceeded), or trace over IPv4: Record Route shows routers that keep silent",
    Link.LAN: "ask who else forwards on that subnet, or trace over IPv4 (Record Route)",
    Link.ONE_NAME: "ask the carrier which links join these routers: their one address hides them",
}
_UNNAMED = "trace over IPv4 on a path that lets IP options through (Record Route names the routers), or ask the carrier for both routes"
_BESIDE = "ask the carrier whether parallel links or another router of the same rank lie there"


def of(path: PathResult) -> Compared:
    """What is stored, else the same from the traces: documents of earlier versions hold those alone."""
    return path.compared or measured(path.forward, path.reverse)


def filled(measurement: Measurement) -> Measurement:
    """A stored measurement with what its traces say by today's rules."""
    path = measurement.path
    if path is None or not (path.forward.hops and path.reverse.hops):
        return measurement
    found = compare(path.forward, path.reverse)
    now = measured(path.forward, path.reverse)
    return replace(
        measurement, path=replace(path, symmetry=found.verdict, because=found.because, pairs=found.pairs, compared=now)
    )


def measured(forward: Trace, reverse: Trace) -> Compared:
    """Of two traces of one flow; `reverse` runs from the far end to the near one."""
    routers = routers_of(forward, reverse)
    there, back = (
        len(found) if trace.hops and trace.hops[-1].reached else None
        for trace, found in ((forward, routers.there), (reverse, routers.back))
    )
    if there is None or back is None:
        broken = (forward if there is None else reverse).fault
        hint = broken.hint if broken else ""
        return Compared(UNDETERMINED, there, back, settle=hint or "a trace that reaches its end, from both ends")
    verdict = compare(forward, reverse).verdict
    forward_only, reverse_only = parted(routers) if verdict == ASYMMETRIC else ((), ())
    in_common = shares(verdict, routers)
    return Compared(
        word(verdict, routers), there, back, *in_common, forward_only, reverse_only, settle(verdict, routers)
    )


def word(verdict: str, routers: Routers) -> str:
    """The verdict refined: where as many routers differ by no more than single links, "link beside"."""
    found = contradiction(routers) if verdict == ASYMMETRIC else None
    if found is None:
        return verdict
    surely = certain(routers)
    # links k and k + 1 meet in router k (0 is the first one)
    other = any(after - k == 1 and (k, k) not in surely for k, after in pairwise(found.places))
    return ASYMMETRIC if other else LINK_BESIDE


# ---- in common


def shares(verdict: str, routers: Routers) -> tuple[Share | None, Share | None]:
    """Jaccard indices of routers and of links, lowest and highest; None where the length of a way is open."""
    n, m = len(routers.there), len(routers.back)
    if verdict == SYMMETRIC:
        return (1.0, 1.0), (1.0, 1.0)
    if verdict == UNDETERMINED and n != m:
        return None, None
    # two different ways share no more links than the shorter one has, less one
    most = min(n, m) if verdict == ASYMMETRIC else n + 1
    surely = certain(routers)
    return (
        (_jaccard(len(surely), n, m), _jaccard(min(n, m), n, m)),
        (_jaccard(len(_certain_links(routers, surely)), n + 1, m + 1), _jaccard(most, n + 1, m + 1)),
    )


def _jaccard(common: int, n: int, m: int) -> float:
    common = min(common, n, m)  # an address that stands at two hops of a way pairs more than once
    return common / (n + m - common) if n + m else 1.0


def certain(routers: Routers) -> set[tuple[int, int]]:
    """Places (there, back) that are surely one router: one name each way. A neighbour of an end on a LAN need not be its only one."""
    n, m = len(routers.there), len(routers.back)
    return {
        (i, j)
        for i in range(n)
        for j in range(m)
        if {routers.there[i], _at(routers.there_egress, i)} & {routers.back[j], _at(routers.back_egress, j)} - {None}
    }


def _at(egress: Hops, place: int) -> str | None:
    return egress[place] if egress else None


def _certain_links(routers: Routers, surely: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Links (there, back) that surely are one: those of an end, and those by which Record Route of both ways joins two routers."""
    n, m = len(routers.there), len(routers.back)
    near, far = one_gateway(routers)
    found = {*([(0, 0)] if near else []), *([(n, m)] if far else [])}
    for i, j in surely:
        if (i + 1, j + 1) in surely:
            near_side, far_side = _at(routers.there_egress, i), _at(routers.back_egress, j + 1)
            if near_side and far_side and mates(near_side, far_side):
                found.add((i + 1, j + 1))
    return found


# ---- apart


def parted(routers: Routers) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Links that one direction alone takes, as far as addresses tell: of forward (1 leaves the near end), of the return (1 leaves the far end)."""
    m = len(routers.back)
    found = contradiction(routers)
    if found is not None:
        return tuple(k + 1 for k in found.places), tuple(sorted(m + 1 - k for k in found.places))
    there, back = [], []
    for forward, reverse in _between(routers):
        if len(forward) != len(reverse):
            there += [k + 1 for k in forward]
            back += [m + 1 - k for k in reverse]
    return tuple(there), tuple(sorted(back))


def _between(routers: Routers) -> Iterator[tuple[range, range]]:
    """Links (there, back; 0 at the near end) between each two routers that both ways cross."""
    same = [(i, j) for i, j in align(routers) if i is not None and j is not None and same_router(routers, i, j)]
    for (i, j), (following_i, following_j) in pairwise([(-1, -1), *same, (len(routers.there), len(routers.back))]):
        yield range(i + 1, following_i + 1), range(j + 1, following_j + 1)


# ---- what would settle it


def settle(verdict: str, routers: Routers) -> str:
    """What would settle what is open; nothing where all is settled."""
    if verdict == ASYMMETRIC:
        return _BESIDE if word(verdict, routers) == LINK_BESIDE else ""
    if verdict == SYMMETRIC:
        return ""
    if len(routers.there) != len(routers.back):
        return "trace again, with more rounds: the last hop before the end kept silent"
    states = links(routers.there, routers.back, routers.near, routers.far)
    return next((said for state, said in _SETTLE.items() if state in states), _UNNAMED)
