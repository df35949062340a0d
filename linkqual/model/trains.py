"""What trains of packets say of the token bucket they meet. Floor 0."""

from __future__ import annotations

from dataclasses import dataclass

from linkqual.model.asking import Direction

Range = tuple[float, float, float]  # value, lower and upper end of its interval


@dataclass(frozen=True, slots=True)
class Train:
    """One train, as its packets arrived. Rates and bytes as `TrainsResult.counts` says, of packets that all have one size."""

    purpose: str  # "search", "long", "again", "below"
    offered_bps: float  # by the sender's own stamps
    packets: int
    received: int
    lost: int = 0
    host_lost: int = 0  # of the lost: dropped by the receiving socket itself
    rate_bps: float | None = None  # of what arrived, after the bucket was empty
    steady_ns: int = 0  # for how long it was seen empty
    bucket_bytes: float | None = None
    rise_ns: int | None = None  # by which the delay grew in the end
    buffer_ns: float | None = None  # delay of the last packets that still found room while others were dropped
    lost_from: int | None = None  # number of the first packet lost
    curve: tuple[tuple[int, int], ...] = ()  # (ns since the first arrival, bytes arrived until then), thinned out
    void: str = ""  # why it counts for nothing
    asked_bps: float = 0.0  # pace between pauses of the sending host; `offered_bps` is the mean


@dataclass(frozen=True, slots=True)
class TrainsResult:
    """The bucket of one direction. Rates and bytes are those the contract counts, headers of the frame included; None: not seen.

    `kind` "policer": what exceeds the rate is dropped at once; "shaper": it waits; "none": nothing slower than the sender was met,
    `at_least_bps` says how fast that was; "unknown": `because` says why.
    """

    direction: Direction
    trains: tuple[Train, ...]
    kind: str = "unknown"
    rate_bps: Range | None = None
    bucket_bytes: Range | None = None
    buffer_ns: Range | None = None  # depth of a shaper's queue
    buffer_at_least_ns: int | None = None  # the deepest queue that lost nothing, where its end was not seen
    at_least_bps: float | None = None
    outlasted: bool = False  # one train stayed above the rate for half a second: no deeper bucket hides behind it
    slow_too: bool = (
        False  # a train just above the rate showed the same: packets did not wait at a wider choke point ahead
    )
    counts: str = "l1"  # what rates and bytes count beside the IP packet (`stats.throughput.OVERHEAD_BYTES`)
    packet_bytes: int = 1500  # of each IP packet
    overhead_bytes: int = 38  # counted with each
    idle_ns: int | None = None  # median one-way delay before the trains, clock offset included
    noise_ns: int | None = None  # median deviation from it
    because: str = ""

    @property
    def ip_share(self) -> float:
        """Of a rate as counted here: what the IP packets alone have."""
        return self.packet_bytes / (self.packet_bytes + self.overhead_bytes)
