"""The routers of two traces of one flow side by side: which hop of one is which hop of the other. Floor 2.

A forward trace shows a router's address toward the near end, a reverse trace the one toward the far end, so one router
hardly ever shows one address twice. What joins the lists are the links between (the two ends of a /30 or /31) and, where
Record Route told it, the address a router sent the probe onward from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address

Hops = Sequence[str | None]  # router addresses, near end first; None: silent
Aligned = list[
    tuple[int | None, int | None]
]  # places in both lists, near end first; None: the other one has no such router


@dataclass(frozen=True, slots=True)
class Routers:
    """The routers of both traces, near end first, and the two ends. Egress: from Record Route, None where not told."""

    there: Hops
    back: Hops
    there_egress: Hops = ()
    back_egress: Hops = ()
    near: str | None = None
    far: str | None = None


def mates(a: str, b: str) -> bool:
    """Whether two addresses are the two ends of a point-to-point subnet: /31 partners or the two hosts of a /30 (IPv6: /127, /126)."""
    x, y = ip_address(a), ip_address(b)
    if x.version != y.version or x == y:
        return False
    return int(x) ^ int(y) == 1 or (int(x) >> 2 == int(y) >> 2 and {int(x) & 3, int(y) & 3} == {1, 2})


_SAME, _BOTH_SIDES, _ONE_SIDE, _SILENT, _NOTHING, _GAP = 4.0, 4.0, 3.0, -0.4, -2.5, -1.0


def align(routers: Routers) -> Aligned:
    """The best pairing of both lists (Needleman-Wunsch)."""
    n, m = len(routers.there), len(routers.back)
    best = [[_GAP * (i + j) for j in range(m + 1)] for i in range(n + 1)]
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            pair = best[i - 1][j - 1] + _score(routers, i - 1, j - 1)
            best[i][j] = max(pair, best[i - 1][j] + _GAP, best[i][j - 1] + _GAP)
    aligned: Aligned = []
    i, j = n, m
    while i or j:
        if i and j and best[i][j] == best[i - 1][j - 1] + _score(routers, i - 1, j - 1):
            i, j = i - 1, j - 1
            aligned.append((i, j))
        elif i and best[i][j] == best[i - 1][j] + _GAP:
            i -= 1
            aligned.append((i, None))
        else:
            j -= 1
            aligned.append((None, j))
    return aligned[::-1]


def same_router(routers: Routers, i: int, j: int) -> bool:
    """Whether router i of the forward list and j of the other are one: named, joined on both sides, or alone beside an end."""
    if _score(routers, i, j) >= min(_SAME, _BOTH_SIDES):
        return True
    here, other = routers.there[i], routers.back[j]
    first = not i and not j and routers.near and here and mates(routers.near, here)
    last = (i, j) == (len(routers.there) - 1, len(routers.back) - 1)
    return bool(first or (last and routers.far and other and mates(other, routers.far)))


def _score(routers: Routers, i: int, j: int) -> float:
    here, other = routers.there[i], routers.back[j]
    sent_there = routers.there_egress[i] if routers.there_egress else None
    sent_back = routers.back_egress[j] if routers.back_egress else None
    if any(a and a == b for a, b in ((here, other), (sent_there, other), (sent_back, here))):
        return _SAME
    before = routers.back[j - 1] if j else routers.near
    after = routers.there[i + 1] if i + 1 < len(routers.there) else routers.far
    # a link on which one direction was recorded to leave elsewhere joins nothing
    near_side = here and before and mates(here, before) and sent_back in {None, here}
    far_side = other and after and mates(other, after) and sent_there in {None, other}
    if near_side or far_side:
        return _BOTH_SIDES if near_side and far_side else _ONE_SIDE
    return _NOTHING if here and other else _SILENT
