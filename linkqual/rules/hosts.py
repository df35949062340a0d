"""What the two hosts may have dropped themselves: never charged to the line.

Floor 2, pure.
"""

from __future__ import annotations

from linkqual.model import Conditions, Direction, EndConditions

_UDP = ("RcvbufErrors", "InErrors", "MemErrors")


def received_drops(end: EndConditions) -> int:
    """Packets this end may have dropped after the line delivered them.

    The probe's own socket counter when there is one, else the UDP counters of the host; and what the host dropped before
    any socket saw it (softnet, receive FIFO). `rx_dropped` is left out: it also counts frames of unknown protocols.
    """
    drops = end.drops
    sockets = drops.get("socket_drops", 0) or sum(
        max((drops.get(f"{kind}{name}", 0) for name in _UDP), default=0) for kind in ("Udp", "Udp6")
    )
    return sockets + drops.get("softnet_dropped", 0) + _named(drops, ":rx_fifo")


def sent_drops(end: EndConditions) -> int:
    """Packets this end may have dropped after the sender handed them over. A failed send is known and is not lost."""
    return _named(end.drops, ":tx_dropped")


def _named(drops: dict[str, int], ending: str) -> int:
    return sum(count for name, count in drops.items() if name.endswith(ending) and not name.startswith("lo:"))


def in_doubt(conditions: Conditions, direction: Direction) -> int:
    """Lost packets of a direction that the hosts may have caused."""
    near, far = conditions.near, conditions.far
    forward = sent_drops(near) + received_drops(far)
    reverse = sent_drops(far) + received_drops(near)
    return {Direction.FORWARD: forward, Direction.REVERSE: reverse}.get(direction, forward + reverse)
