"""Do both directions of a flow cross the same routers and links? Two hop lists in, a verdict with its reason out. Floor 2.

A router answers a trace from the interface that faces the sender. So the two traces of one symmetric path never show the
same address of a router, but the two ends of each link meet: link k lies between router k, whose far-facing address the
reverse trace shows, and router k + 1, whose near-facing address the forward trace shows.

    near ----- r1 ----- r2 ----- far        forward trace shows f1 f2 and the far end
       link 0    link 1    link 2           reverse trace, turned round, shows the near end, then g1 g2
      near  f1  g1    f2  g2  far           link k is proven when its two addresses are mates: /31 or /30 partners

Many routers (Linux by default, as RFC 1812 s4.3.2.4 asks) answer from the interface of their own way back instead, and one path may have
both kinds. Then links can look proven although one direction takes another router of the same rank, or another link between the same two; and
where routers share flows over equal ways, their answers may leave by one that the flow does not take. What is certain is what the probes
themselves met: their number of hops, and, by Record Route (RFC 791), from which address each router really sent them onward. A host and its
gateway on a LAN look like mates as often as not, and a second gateway stands beside the first. `symmetric` therefore needs Record Route of both
ways, or one router that shows one name; without it, a single link that differs is no proof of `asymmetric` either. What
cannot be seen (silent routers, a LAN with room for a second gateway) leaves it undetermined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import groupby, pairwise

from linkqual.model import Trace
from linkqual.session import tunnels
from linkqual.session.alignment import Hops, Routers, align, mates, same_router
from linkqual.session.link_states import Link, links
from linkqual.session.tunnels import return_hops

SYMMETRIC, ASYMMETRIC, UNDETERMINED = "symmetric", "asymmetric", "undetermined"


@dataclass(frozen=True, slots=True)
class Symmetry:
    """What comparing two traces says. `pairs` are aligned TTLs (forward, reverse), near end first, routers only."""

    verdict: str
    because: str
    pairs: tuple[tuple[int | None, int | None], ...] = ()


def compare(forward: Trace, reverse: Trace) -> Symmetry:
    """The verdict on two traces of one flow; `reverse` runs from the far end to the near one."""
    routers = routers_of(forward, reverse)
    pairs = tuple(
        (None if i is None else i + 1, None if j is None else len(routers.back) - j) for i, j in align(routers)
    )
    for trace, name in ((forward, "forward"), (reverse, "reverse")):
        if not trace.hops or not trace.hops[-1].reached:
            why = trace.fault.message if trace.fault else "it did not get to its end"
            return Symmetry(UNDETERMINED, f"the {name} trace is not whole: {why}", pairs)
    if feigned := _feigned(forward, reverse):
        return Symmetry(UNDETERMINED, feigned, pairs)
    return Symmetry(*judge(routers), pairs)


def _feigned(forward: Trace, reverse: Trace) -> str:
    """Why other hop counts may be no other way: a tunnel shows its routers to one direction alone. Empty where that explains nothing."""
    more = len(forward.hops) - len(reverse.hops)
    inside = len(tunnels.inside(forward.hops)) - len(tunnels.inside(reverse.hops))
    if not more or (inside if more > 0 else -inside) < abs(more):
        return ""
    longer, shorter = ("forward", "the return") if more > 0 else ("the return", "forward")
    return (
        f"forward crosses {_routers_text(len(forward.hops) - 1)}, the return {len(reverse.hops) - 1}; but {abs(inside)} of those of {longer} stand in an "
        f"MPLS tunnel, and {shorter} may cross the same ones without showing them, where its end of the tunnel does not propagate TTLs"
    )


def routers_of(forward: Trace, reverse: Trace) -> Routers:
    """What two traces show of the routers; `reverse` is turned round."""
    there = [hop for hop in forward.hops if not hop.reached]
    back = [hop for hop in reversed(reverse.hops) if not hop.reached]
    return Routers(
        there=[hop.address for hop in there],
        back=[hop.address for hop in back],
        there_egress=[hop.egress for hop in there],
        back_egress=[hop.egress for hop in back],
        # behind address translation an end's own address is not the one its peer traces to, and proves nothing
        near=forward.source if _same_address(forward.source, reverse.destination) else None,
        far=forward.destination if _same_address(forward.destination, reverse.source) else None,
    )


def judge(routers: Routers) -> tuple[str, str]:
    """The verdict and its reason for the routers of two whole traces."""
    count = len(routers.there)
    if count != len(routers.back):
        return _unequal(routers)
    if not count:
        return SYMMETRIC, "no router lies between the two ends"
    different = contradiction(routers)
    if different is not None:
        return ASYMMETRIC, _difference(routers, different)
    doubt = _unproven(routers)
    return (
        (UNDETERMINED, doubt)
        if doubt
        else (SYMMETRIC, f"both directions cross the same {_routers_text(count)}{_how(count)}")
    )


def _how(count: int) -> str:
    return ", as Record Route shows" if count > 1 else ""


def _unproven(routers: Routers) -> str:
    """What keeps as many routers each way that show no contradiction from being proven the same; empty when nothing does."""
    there, back, near, far = routers.there, routers.back, routers.near, routers.far
    plain = links(there, back, near, far)
    if len(there) == 1:
        named = there[0] is not None and there == back  # it has links of its own to either end, whatever its name
        return "" if named else _doubt(there, back, plain) or ("" if any(one_gateway(routers)) else _SECOND_GATEWAY)
    if not recorded(routers):
        return _doubt(there, back, plain) or (
            f"all {len(plain)} links look the same in both directions, but Record Route did not come through (IPv6 has none), and without it "
            "another router of equal rank, or a second link between two routers, could not be told apart"
        )
    sent_there, sent_back = routers.there_egress, routers.back_egress
    doubt = _doubt(sent_back, sent_there, links(sent_back, sent_there, near, far))
    if not doubt and {Link.DIFFERENT, Link.LAN} & {plain[0], plain[-1]}:
        return "an end seems to have more than one link: the first router that answers there is not on the link of its address"
    if not doubt and any(
        at is Link.PROVEN and not one for at, one in zip((plain[0], plain[-1]), one_gateway(routers), strict=True)
    ):
        return "an end seems to have two gateways on one LAN: packets come in and go out by other addresses there"
    return doubt


def one_gateway(routers: Routers) -> tuple[bool, bool]:
    """Whether what answers beside the near end, and beside the far end, surely is what sends the other direction's packets to that end."""
    there, back = routers.there, routers.back
    near = bool(there and routers.back_egress) and there[0] is not None and there[0] == routers.back_egress[0]
    far = bool(back and routers.there_egress) and back[-1] is not None and back[-1] == routers.there_egress[-1]
    return near, far


def recorded(routers: Routers) -> bool:
    """Whether Record Route told of both ways from which address every router sent the probe onward."""
    told = (routers.there_egress, routers.back_egress)
    return all(bool(one) and None not in one for one in told)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Addresses of as many routers each way of which some cannot be ends of one link; `states` of links 0 (at the near end) to n."""

    there: Hops
    back: Hops
    states: tuple[Link, ...]

    @property
    def places(self) -> tuple[int, ...]:
        """Which links differ."""
        return tuple(k for k, state in enumerate(self.states) if state is Link.DIFFERENT)


def contradiction(routers: Routers) -> Contradiction | None:
    """Two lists of one length that show different links; None where they show none, or where none of their links can be told.

    By the addresses that sent the probes onward, where all are known. By those that answered only where two links in a row differ:
    a router that shares flows over parallel links may answer from another one than the flow takes.
    """
    there, back = routers.there, routers.back
    if len(there) != len(back):
        return None
    if recorded(routers):
        return _contradicted(routers, routers.back_egress, routers.there_egress, 1, _crossed(routers))
    sent_there, sent_back = _filled(routers.there_egress, back), _filled(routers.back_egress, there)
    for right, left in ((there, back), (there, sent_there), (sent_back, back)):
        if found := _contradicted(routers, right, left, 2):
            return found
    return None


def _crossed(routers: Routers) -> list[tuple[str, str]]:
    """Both ends of links as one trace alone shows them: sent onward from one, answered from the other."""
    there, back = (
        pairwise(zip(routers.there, routers.there_egress, strict=True)),
        pairwise(zip(routers.back[::-1], routers.back_egress[::-1], strict=True)),
    )
    pairs = [(sent, answered) for (_, sent), (answered, _) in (*there, *back)]
    return [(a, b) for a, b in pairs if a and b and mates(a, b)]


def _contradicted(
    routers: Routers, right: Hops, left: Hops, in_a_row: int, point_to_point: Sequence[tuple[str, str]] = ()
) -> Contradiction | None:
    states = links(right, left, routers.near, routers.far, point_to_point)
    longest = max((len(list(run)) for state, run in groupby(states) if state is Link.DIFFERENT), default=0)
    if longest >= in_a_row and (Link.PROVEN in states or Link.ONE_NAME in states):
        return Contradiction(right, left, tuple(states))
    return None


def _filled(egress: Hops, answered: Hops) -> Hops:
    """What Record Route told, and where it did not, the address of the same place in the other trace."""
    return [sent or address for sent, address in zip(egress or [None] * len(answered), answered, strict=True)]


_SECOND_GATEWAY = (
    "one router each way, but where an end stands on a LAN these may be two beside each other: Record Route, which tells them apart, did not "
    "come through (IPv6 has none)"
)
_NO_MATES = "no link shows both its ends on one /30 or /31 subnet: addresses cannot tell these routers apart"
_OTHERWISE = (
    "a link shows different addresses each way: another link in one direction, or routers that answer from another link than the probe took "
    "(as where flows are shared over parallel ones), which only Record Route of both ways tells apart (IPv6 has none)"
)


def _doubt(there: Hops, back: Hops, states: Sequence[Link]) -> str:
    """What keeps links without a contradiction from being proven; empty when nothing does."""
    for state, why in (
        (Link.DIFFERENT, _OTHERWISE if Link.PROVEN in states or Link.ONE_NAME in states else _NO_MATES),
        (Link.UNSEEN, "a silent router hides its links; all that is visible is the same in both directions"),
        (Link.LAN, "all else is the same in both directions, but a larger subnet has room for a second router"),
    ):
        places = [k for k, found in enumerate(states) if found is state]
        if places:
            return f"{why} ({_places(places, len(there))})"
    if Link.ONE_NAME in states:
        return "a router that shows one address in both directions hides the links beside it: another link between two routers would not show"
    return ""


def _same_address(a: str, b: str) -> bool:
    return bool(a and b) and ip_address(a) == ip_address(b)


def _unequal(routers: Routers) -> tuple[str, str]:
    there, back = routers.there, routers.back
    counts = f"forward crosses {_routers_text(len(there))}, the return {len(back)}"
    longer = there if len(there) > len(back) else back[::-1]
    if longer[-1] is None:
        return UNDETERMINED, (
            f"{counts}, but the last hop before the end of the longer trace is silent: it may be a lost answer of the end itself"
        )
    alone = [(i, j) for i, j in align(routers) if i is None or j is None or not same_router(routers, i, j)]
    parts = [
        f"{name} only: {', '.join(addresses)}"
        for name, addresses in (
            ("forward", [there[i] or "silent" for i, _ in alone if i is not None]),
            ("return", [back[j] or "silent" for _, j in alone if j is not None]),
        )
        if addresses
    ]
    return ASYMMETRIC, f"{counts}" + (f" ({'; '.join(parts)})" if parts else "")


def _difference(routers: Routers, found: Contradiction) -> str:
    left, right = [routers.near, *found.back], [*found.there, routers.far]
    places = found.places
    shown = f"{left[places[0]]} and {right[places[0]]} are not two ends of one link"
    in_a_row = any(b - a == 1 for a, b in pairwise(places))
    kind = (
        "a detour of equal length, or parallel links one behind the other"
        if in_a_row
        else "a parallel link or a detour of equal length"
    )
    count = len(found.there)
    return f"{_routers_text(count)} each way, but not the same links {_places(places, count)}: {shown} ({kind})"


def _places(positions: Sequence[int], routers: int) -> str:
    def name(k: int) -> str:
        before = "the near end" if k == 0 else f"hop {k}"
        after = "the far end" if k == routers else f"hop {k + 1}"
        return f"between {before} and {after}"

    if len(positions) > 2 and list(positions) == list(range(positions[0], positions[-1] + 1)):
        return name(positions[0]).split(" and ")[0] + " and " + name(positions[-1]).split(" and ")[1]
    return ", ".join(name(k) for k in positions)


def _routers_text(count: int) -> str:
    return f"{count} router{'s' * (count != 1)}"


# ---- one end alone


def longer_returns(trace: Trace) -> str:
    """A hint when there is no trace from the far end: from which hop on answers come back over more hops than lead there."""
    lengths = [(hop.ttl, back) for hop in trace.hops if (back := return_hops(hop)) is not None]
    grown = [
        (ttl, back) for (before, earlier), (ttl, back) in pairwise([(0, 0), *lengths]) if back - ttl > earlier - before
    ]
    if not grown:
        return ""
    ttl, back = grown[0]
    return f"answers of hop {ttl} come back over {back} hops: the return path may be longer than the forward one"
