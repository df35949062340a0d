"""How long a packet may be, in each direction, and what becomes of longer ones. Sizes are those of whole IP packets. Floor 0."""

from __future__ import annotations

from dataclasses import dataclass

from linkqual.model.asking import Direction


@dataclass(frozen=True, slots=True)
class MtuTried:
    """Packets of one size, sent with Don't Fragment."""

    packet_bytes: int
    sent: int
    arrived: int


@dataclass(frozen=True, slots=True)
class MtuHop:
    """One TTL: whether packets whose TTL ran out there were answered, short ones and ones that are too long for the path."""

    ttl: int
    address: str | None = None
    short: bool = False
    long: bool = False


@dataclass(frozen=True, slots=True)
class MtuWay:
    """One direction, by UDP.

    `kind` "whole": the longest packet tried arrives; "told": a router says that longer ones do not fit; "black hole": they vanish and
    nobody says so; "unknown": `because` says why.
    """

    direction: Direction
    kind: str
    interface_bytes: int | None = None  # MTU of the interface of the host that sends
    longest_bytes: int = 0  # that was to be tried
    passes: int | None = None  # longest packet that arrived
    fails: int | None = None  # shortest one above it of which none did; None: none was found
    told_by: str | None = None  # address of the router whose ICMP said that a packet is too big
    told_bytes: int | None = None  # next-hop MTU as it said it (RFC 1191, RFC 8201); None: it named none
    fragmented: bool = False  # a packet arrived in pieces in spite of Don't Fragment
    tried: tuple[MtuTried, ...] = ()  # ascending by size
    hops: tuple[MtuHop, ...] = ()
    reached_ttl: int | None = None  # at which short packets reached the other end
    because: str = ""


@dataclass(frozen=True, slots=True)
class MtuTcp:
    """One direction of a TCP connection that carried data both ways, one after the other."""

    direction: Direction  # of the data
    mss_told: int | None = None  # in the SYN of the end that receives the data (RFC 9293 s3.7.1)
    mss_heard: int | None = None  # as it reached the end that sends them, no more than that end's own MTU allows
    asked_bytes: int = 0
    arrived_bytes: int = 0
    elapsed_ns: int = 0
    stalled: bool = False  # for seconds nothing more arrived, and not all of it had


@dataclass(frozen=True, slots=True)
class MtuResult:
    """Both directions; `tcp` is empty where no connection came about, `tcp_because` says why."""

    ways: tuple[MtuWay, ...]
    tcp: tuple[MtuTcp, ...] = ()
    ip_version: int = 4
    tcp_because: str = ""
