"""The narrowest hop of a direction, and what each link before it lets through. Floor 0."""

from __future__ import annotations

from dataclasses import dataclass

from linkqual.model.asking import Direction
from linkqual.model.trains import Range

BUSY = 0.97  # of the capacity is free: more, and what others send is taken for nothing


@dataclass(frozen=True, slots=True)
class LinkSeen:
    """Links 1 to `number` together, by load that expired on router `number` (at the end: that went all the way). Link 1 leaves the sending host.

    `rate_bps` is what the narrowest of them let through, as `NarrowResult.counts` says; None: all that was offered (`offered_bps`).
    """

    number: int
    offered_bps: float
    rate_bps: float | None = None
    narrow: bool = False  # as slow as the whole way
    rise_ns: int = 0  # by which the delay of what crossed them grew
    lost: float = 0.0  # share of the packets sent all the way
    markers: int = 0  # packets sent all the way in the train that counts
    error: float = 0.0  # of the rate, relative, standard deviation where it was counted from losses
    trains: int = 1


@dataclass(frozen=True, slots=True)
class NarrowResult:
    """What load that expires hop by hop says of one direction. Rates and bytes as `counts` says, headers of the frame included.

    Where others send over the narrowest link too (`busy`), rates are capacities: `seen` as if the same of them crossed each link.

    `kind`: "shaper", "policer", "limit" (one of them; they were not told apart), "none" (nothing slower than the sender: `at_least_bps`), "unknown" (`because` says why).
    """

    direction: Direction
    links: int = 0  # of the way, 0: not known
    kind: str = "unknown"
    rate_bps: Range | None = None  # of the narrowest; value, lowest and highest of the trains that agree
    trains: int = 0  # that agree
    bucket_bytes: float | None = None
    buffer_ns: float | None = None
    narrow: tuple[int, ...] = ()  # the narrowest link and those within NEAR of it that can be seen, in order
    named: int = 0  # the narrowest; 0: none
    seen: tuple[LinkSeen, ...] = ()
    confidence: str = ""  # "high", "medium", "low"
    because: str = ""  # why the confidence, or why nothing is known
    outlasted: bool = False  # a train stayed above the rate so long that no deeper bucket hides
    at_least_bps: float | None = None
    expired: tuple[int, ...] = ()  # packets that expired on each router, the first one first
    sent_bytes: int = 0  # of IP packets
    counts: str = "l1"
    packet_bytes: int = 1500
    overhead_bytes: int = 38
    free_bps: Range | None = None  # of the narrowest: what others left, lowest and highest; None: not known

    @property
    def busy(self) -> bool:
        """Whether others sent so much over the narrowest link that it counts."""
        return self.free_bps is not None and self.rate_bps is not None and self.free_bps[0] < BUSY * self.rate_bps[0]

    @property
    def ip_share(self) -> float:
        """Of a rate as counted here: what the IP packets alone have."""
        return self.packet_bytes / (self.packet_bytes + self.overhead_bytes)
