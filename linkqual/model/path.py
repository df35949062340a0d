"""The hops of a flow in both directions, what these have in common, and where a queue grows when the line is loaded. Floor 0."""

from __future__ import annotations

from dataclasses import dataclass

from linkqual.model.asking import Direction
from linkqual.model.conditions import Fault
from linkqual.model.members import MemberTrace

Share = tuple[float, float]  # lowest and highest: what is proven, and what silent routers could add


@dataclass(frozen=True, slots=True)
class Hop:
    """One TTL of a trace. `address` None: silent."""

    ttl: int
    address: str | None = None
    rtt_ns: tuple[int, ...] = ()
    sent: int = 0
    received: int = 0
    labels: tuple[str, ...] = ()  # MPLS, RFC 4950: "label=24001 tc=0 s=1 ttl=1"
    reply_ttl: int | None = None
    quoted_ttl: int | None = None
    reached: bool = False  # this hop is the far end
    others: tuple[str, ...] = ()  # further addresses that answered at this TTL
    egress: str | None = None  # the address it sent the probes onward from (Record Route, RFC 791 s3.1); None: not told
    quoted_tos: int | None = None  # TOS / Traffic Class of the probe as its ICMP error quotes it; None: not told


@dataclass(frozen=True, slots=True)
class Trace:
    """Hops in the order a packet of this direction meets them."""

    source: str
    destination: str
    source_port: int
    destination_port: int
    hops: tuple[Hop, ...] = ()
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """Both directions of one flow in numbers.

    `word`: "symmetric"; "asymmetric" (more routers one way, or a router none of whose links the other way shows); "link beside" (as many
    routers, and a single link that differs: a parallel link, or a detour of equal length); "undetermined".
    """

    word: str
    forward_routers: int | None = None  # None: that trace did not reach its end
    reverse_routers: int | None = None
    routers: Share | None = None  # Jaccard index of both sets of routers
    links: Share | None = None  # and of both sets of links (/30 and /31 networks, both ends' own included)
    forward_only: tuple[int, ...] = ()  # links that forward alone takes; link 1 leaves the near end
    reverse_only: tuple[int, ...] = ()  # links that the return alone takes; link 1 leaves the far end
    settle: str = ""  # what would settle it


@dataclass(frozen=True, slots=True)
class PathResult:
    """Both traces of one flow and what comparing them says."""

    forward: Trace
    reverse: Trace
    symmetry: str = "undetermined"  # symmetric | asymmetric | undetermined
    because: str = ""
    pairs: tuple[tuple[int | None, int | None], ...] = ()  # aligned TTLs (forward, reverse), client side first
    compared: Compared | None = None  # None in documents of earlier versions
    flows: tuple[MemberTrace, ...] = ()  # further flows to the same port, forward
    flows_back: tuple[MemberTrace, ...] = ()  # and the same ones back


@dataclass(frozen=True, slots=True)
class LoadedHop:
    """Round trips to one hop on the idle line and on the loaded one, each probe's."""

    ttl: int
    address: str | None = None  # None: silent
    idle_sent: int = 0
    idle_ns: tuple[int, ...] = ()
    loaded_sent: int = 0
    loaded_ns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadedPath:
    """Where the queue (or the loss) of a load begins. The narrow place lies between hop `after` (0: the sending host) and hop `before`.

    `by`: "queue", "loss", "train" (a recursive one, from one end alone), or "" when nothing is known (`because` says why).
    """

    direction: Direction
    load: str  # what loaded the line, in words
    hops: tuple[LoadedHop, ...] = ()
    after: int | None = None
    before: int | None = None
    by: str = ""
    confidence: str = ""  # "high", "medium", "low"
    because: str = ""
