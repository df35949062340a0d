"""What trains of packets say of the token bucket they meet. Floor 0."""

from __future__ import annotations

from dataclasses import dataclass

from linkqual.model.asking import Direction


@dataclass(frozen=True, slots=True)
class Train:
    """One train, as its packets arrived. `curve`: (ns since the first arrival, IP bytes arrived until then), thinned out."""

    offered_bps: float
    packets: int
    packet_bytes: int  # of an IP packet
    received: int
    host_lost: int = 0
    rate_bps: float | None = None  # after the bucket was empty
    rise_ns: int | None = None  # by which the delay grew to its plateau
    curve: tuple[tuple[int, int], ...] = ()
    lost_from: int | None = None  # number of the first packet lost


@dataclass(frozen=True, slots=True)
class TrainsResult:
    """The bucket of one direction: rates at the IP layer, sizes in IP bytes; (value, low, high), None: not seen."""

    direction: Direction
    trains: tuple[Train, ...]
    kind: str = "unknown"  # "shaper", "policer", "none" (nothing narrower than the sender), "unknown"
    rate_bps: tuple[float, float, float] | None = None
    bucket_bytes: tuple[float, float, float] | None = None
    buffer_ns: tuple[float, float, float] | None = None  # depth of a shaper's queue
    at_least_bps: float | None = None  # "none": no limit below this
    because: str = ""
