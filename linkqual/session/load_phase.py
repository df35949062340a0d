"""What our own UDP load is asked to send: one phase at one rate, in one direction. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from linkqual.errors import UsageError
from linkqual.units import NS_PER_S

SHORTEST, LONGEST = 46, 9216  # bytes of an IPv4 packet: what a 64-octet Ethernet frame holds; a jumbo frame
MOST_FLOWS = 256
MOST_TTL = 255


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of load. It ends after `duration_ns` or after `packets`, whichever is given or comes first.

    `segmented`: one buffer a packet, so that the line, virtual or not, meets single packets; otherwise trains of up to 64 KB are handed
    to the host at once: faster, but on a virtual line such a train shares one fate and one stamp.
    """

    name: str
    rate_bps: int  # IP layer; 0: as fast as the host can, within the caps
    duration_ns: int = 0
    packets: int = 0
    sizes: tuple[tuple[int, int], ...] = ((1500, 1),)  # (bytes of an IP packet, weight)
    flows: int = 1  # source ports in turn, at most those opened
    segmented: bool = True
    rest_ns: int = 0  # silence afterwards
    arrivals: bool = False  # hand over every arrival, packet by packet
    jitter: float = 0.0  # each departure is moved by up to this share of the gap
    interval_ns: int = NS_PER_S  # of the counts an interval
    expire_at: int = 0  # TTL of the load of a prefix train (`session.prefix_train`); 0: every packet goes all the way
    marker_in: int = 1  # one of so many of its packets goes all the way
    lead: int = 0  # packets that go all the way before the first load expires
    rung: int = 0  # packets after which the load expires one router earlier; 0: it never does
    climbing: bool = False  # TTL 1, 1, 1, 2, 2, 2, ...: the first to arrive tells how many links the way has

    def __post_init__(self) -> None:
        """Refuse what cannot be sent."""
        if self.duration_ns <= 0 and self.packets <= 0:
            raise UsageError(f"load phase {self.name!r} has no end", "give it a duration or a number of packets")
        if self.rate_bps < 0 or self.rest_ns < 0 or self.interval_ns <= 0 or not 0 <= self.jitter <= 1:
            raise UsageError(f"load phase {self.name!r} has a negative rate, rest or jitter", "give 0 or more")
        if not 0 <= self.expire_at <= MOST_TTL or self.marker_in < 1 or self.lead < 0 or self.rung < 0:
            raise UsageError(
                f"load phase {self.name!r} expires at no possible router", f"give a TTL of up to {MOST_TTL}"
            )
        if not self.sizes or any(not SHORTEST <= size <= LONGEST or weight < 1 for size, weight in self.sizes):
            raise UsageError(
                f"load phase {self.name!r}: a packet has {SHORTEST} to {LONGEST} bytes and a weight of at least 1",
                "state the bytes of whole IP packets",
            )
        if not 1 <= self.flows <= MOST_FLOWS:
            raise UsageError(f"{self.flows} flows of load", f"between 1 and {MOST_FLOWS} are possible")

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Phase:
        """From `dataclasses.asdict`, also when it went through JSON; what is no field of a phase is left out."""
        known = {each.name: plain[each.name] for each in fields(cls) if each.name in plain}
        return cls(**known | {"sizes": tuple((int(size), int(weight)) for size, weight in plain["sizes"])})

    @property
    def mean_bytes(self) -> float:
        """Mean size of its packets, bytes at the IP layer."""
        return sum(size * weight for size, weight in self.sizes) / sum(weight for _, weight in self.sizes)

    @property
    def longest(self) -> int:
        """Its longest packet, bytes at the IP layer."""
        return max(size for size, _ in self.sizes)
