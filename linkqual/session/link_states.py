"""What the two addresses say that two traces show at one link: of the router before it by one direction, behind it by the other. Floor 2."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from ipaddress import IPv4Address, ip_address

from linkqual.session.alignment import Hops, mates


class Link(Enum):
    """What the two addresses of one link position say."""

    PROVEN = "mates on a point-to-point subnet"
    ONE_NAME = "a router beside it answers from one address, whatever the direction"
    LAN = "perhaps one larger subnet"
    DIFFERENT = "two different links"
    UNSEEN = "a router beside it is silent, or answers from an address that any link may have"


def links(
    there: Hops, back: Hops, near: str | None, far: str | None, point_to_point: Sequence[tuple[str, str]] = ()
) -> list[Link]:
    """The state of every link, 0 (at the near end) to n (at the far end), of two lists of n routers each.

    `point_to_point`: further pairs of addresses that are the two ends of a link each.
    """
    left, right = [near, *back], [*there, far]
    one_name = [False, *(a is not None and a == b for a, b in zip(there, back, strict=True)), False]
    proven = [*point_to_point, *((a, b) for a, b in zip(left, right, strict=True) if a and b and mates(a, b))]
    states = []
    for k, (a, b) in enumerate(zip(left, right, strict=True)):
        if a and b and mates(a, b):
            states.append(Link.PROVEN)
        elif one_name[k] or one_name[k + 1]:
            states.append(Link.ONE_NAME)
        elif not a or not b or _of_one_link(a) or _of_one_link(b):
            states.append(Link.UNSEEN)
        else:
            states.append(Link.LAN if _may_share_subnet(a, b, proven) else Link.DIFFERENT)
    return states


def _of_one_link(address: str) -> bool:
    """fe80::/10 and 169.254.0.0/16 stand on every link and tell none from another."""
    return ip_address(address).is_link_local


def _may_share_subnet(a: str, b: str, proven: Sequence[tuple[str, str]]) -> bool:
    """Whether both could be hosts of one LAN: a common /16 (IPv6: /64) in whose part they span no proven link lies."""
    x, y = ip_address(a), ip_address(b)
    if x.version != y.version:
        return False
    span = (int(x) ^ int(y)).bit_length()
    if span > (16 if isinstance(x, IPv4Address) else 64):
        return False
    return not any(int(ip_address(end)) >> span == int(x) >> span for pair in proven for end in pair)
