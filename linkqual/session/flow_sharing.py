"""One flow against many: does each flow have a limit of its own, do flows share members of a bundle, or does the line limit them all?

UDP flows are sent alike, in turn. A limit of each flow holds every one down alike and lets twice as many carry twice as much. A bundle
(LAG, ECMP) lays each flow on one member by a hash of its addresses and ports: members that got many flows are full while others
have room, so some flows lose packets while others lose none, and those that do fill whole members between them (how they divide a member is
chance: a full queue that is fed in turn may shut one of them out). Floor 2, pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from linkqual.model import LoadCount
from linkqual.stats.load_rates import (
    UNEVEN,
    chance_of_room,
    flow_rates,
    loss_ratio,
    offered_bps,
    shares,
    steady_bps,
    uneven,
    usable,
)

CARRIED = 0.97  # of the load: all of it, what jitter and stragglers take off
GROWS = 1.06  # many flows carry that much more than one: it is flows that are limited
AGREES = 0.06  # two rates are the same
EXACT = 0.03  # TCP streams fill a member to within that
SUFFERS = 0.03  # loss of a flow on a member that is full
DOUBTFUL = 0.5  # with more chance than that a bundle would have looked the same: nothing is learnt
_MOST_MEMBERS = 64


@dataclass(frozen=True, slots=True)
class Sharing:
    """What the flows of one direction say; rates in bit/s at the IP layer.

    `kind`: "whole" (one flow carries all of the load), "line" (many carry no more than one), "cap" (each has a limit), "members" (of a
    bundle), "unknown". `bps`: of the one flow, the line, the cap, a member. With `flows` flows, `crowded` of them filled `full` members.
    `chance`: probability that a bundle would have looked like this cap.
    """

    kind: str
    because: str
    bps: float | None = None
    members: int | None = None
    flows: int = 0
    crowded: int = 0
    full: int = 0
    whole_members: bool = False  # what the crowded flows carried is a whole number of members
    best_bps: float | None = None  # the most that any number of flows carried
    best_flows: int = 0
    chance: float | None = None


def read(counts: Sequence[LoadCount]) -> Sharing:
    """From phases of one direction with different numbers of flows, all of the same load."""
    good = [one for one in counts if usable(one) and one.by_flow]
    single = next((one for one in good if one.flows == 1), None)
    if single is None:
        return Sharing("unknown", "no load of one flow that tells of the line")
    alone = steady_bps(single)
    load = max(single.asked_bps, offered_bps(single))
    if alone >= CARRIED * load:
        return Sharing("whole", "one flow carries all of the load", alone, best_bps=alone, best_flows=1)
    if loss_ratio(single) < SUFFERS and offered_bps(single) < CARRIED * load:
        return Sharing("unknown", "the sending host could not load one flow with more than came through", alone)
    many = sorted((one for one in good if one.flows >= 4), key=lambda one: one.flows)
    if not many:
        return Sharing("unknown", "no load of four flows or more that tells of the line", alone)
    return _against(many, alone, load)


def _against(many: Sequence[LoadCount], alone: float, load: float) -> Sharing:
    """One flow alone got less than the `load`: what did many get of it?"""
    best = max(many, key=steady_bps)
    most, count = steady_bps(best), best.flows
    if most <= GROWS * alone:
        because = f"{many[-1].flows} flows carry no more than one"
        return Sharing("line", because, max(most, alone), best_bps=most, best_flows=count)
    differing = [one for one in many if uneven(one)]
    if differing:
        return _members(differing, alone, load, most, count)
    if any(_held_alike(one, alone) for one in many):
        chance = _chance(many, alone, load)
        if chance > DOUBTFUL:
            because = "many flows carry more than one, but the sending host could not load them enough to show why"
            return Sharing("unknown", because, alone, best_bps=most, best_flows=count)
        because = "every flow is held down alike, and more flows carry more"
        return Sharing("cap", because, alone, best_bps=most, best_flows=count, chance=chance)
    because = "many flows carry more than one, but neither alike nor as members would share"
    return Sharing("unknown", because, alone, best_bps=most, best_flows=count)


def _held_alike(count: LoadCount, cap: float) -> bool:
    expected = min(offered_bps(count), count.flows * cap)
    return abs(steady_bps(count) / expected - 1) <= AGREES


def _members(differing: Sequence[LoadCount], member: float, load: float, most: float, best_flows: int) -> Sharing:
    """As seen with the fewest flows, where a full member has the fewest on it."""
    total = load / member
    members = round(total) if abs(total - round(total)) <= AGREES * total else None
    first = differing[0]
    held = [rate for rate, share in zip(flow_rates(first), shares(first), strict=True) if 1 - share >= SUFFERS]
    filled = math.fsum(held) / member
    return Sharing(
        "members",
        f"{len(held)} of {first.flows} flows sent alike lost packets and the others none",
        member,
        members,
        first.flows,
        len(held),
        round(filled),
        round(filled) > 0 and abs(filled - round(filled)) <= AGREES * filled,
        most,
        best_flows,
    )


def _chance(many: Sequence[LoadCount], member: float, load: float) -> float:
    """That as many members as the load needs would have shown no full one, in all of these phases together."""
    members = min(_MOST_MEMBERS, max(2, math.ceil(load / member * (1 - AGREES))))
    result = 1.0
    for one in many:
        each = max(offered_bps(one) / one.flows, 1.0)
        room = max(1, math.floor(member / each / (1 - UNEVEN)))
        if room < one.flows:
            result *= chance_of_room(one.flows, members, room)
    return result


# ---- TCP streams, which are not sent alike


def groups(rates: Sequence[float], tolerance: float = AGREES) -> tuple[float, tuple[int, ...]] | None:
    """(rate of a member, flows on each full member) that explain streams of different rates; None where no member does.

    Every stream must belong: k streams of about the same rate whose sum is the member's. Streams that are all alike say nothing.
    """
    ordered = sorted((rate for rate in rates if rate > 0), reverse=True)
    if len(ordered) < 3 or ordered[-1] > 0.8 * ordered[0]:
        return None
    for first in range(1, len(ordered)):
        found = _grouped(ordered, math.fsum(ordered[:first]), tolerance)
        if found and len(set(found)) > 1:
            return math.fsum(ordered) / len(found), found
    return None


def _grouped(ordered: Sequence[float], member: float, tolerance: float) -> tuple[int, ...] | None:
    at, found = 0, []
    while at < len(ordered):
        size = max(1, round(member / ordered[at]))
        group = ordered[at : at + size]
        alike = len(group) == size and group[-1] >= (1 - tolerance) * group[0]
        if not alike or abs(math.fsum(group) / member - 1) > tolerance:
            return None
        found.append(size)
        at += size
    return tuple(found)


def shared(rates: Sequence[float], member: float) -> int | None:
    """How many members these streams fill, where the rate of one is known: some streams have a member for themselves, and the others whole
    members between them, however they divide those. None where that does not explain them.
    """
    alone = [rate for rate in rates if abs(rate / member - 1) <= EXACT]
    others = [rate for rate in rates if rate < (1 - 2 * EXACT) * member]
    if not alone or not others or len(alone) + len(others) < len(rates):
        return None
    filled = math.fsum(others) / member
    whole = round(filled)
    if whole < 1 or abs(filled / whole - 1) > EXACT or len(others) < 2 * whole:
        return None
    return len(alone) + whole
