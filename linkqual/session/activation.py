"""What a service activation test sends: each service's steps and its full load, as ITU-T Y.1564 lays them out. Floor 2, pure.

Configuration test, one service at a time: shares of the CIR, the CIR with the EIR, and an overshoot that a policer has to cut.
Performance test: every service at its CIR at once. A service's own STAMP stream, in the same DSCP, is part of what it offers: the
load leaves room for it. Rates are in bit/s as the service counts them, unless a name says IP.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from linkqual.model import Direction, Json, Link, Service
from linkqual.session.load_phase import Phase
from linkqual.stats.throughput import OVERHEAD_BYTES

CIR, EIR, OVERSHOOT, PERFORMANCE = "cir", "eir", "overshoot", "performance"
ASSUMED_MTU = 1500
SMALL_EIR = 0.2  # of the CIR: under it the overshoot is a quarter of everything, else a quarter of the EIR
EXCESS = 1.25
SINGLES_PPS = (
    100_000  # up to here packets leave one by one; beyond, trains that the host or its card cuts up, as one core needs
)
LINE = "line"  # name of the service that is the line itself

Sizes = tuple[tuple[int, int], ...]


def phase(name: str, load_bps: int, duration_ns: int, sizes: Sizes) -> Phase:
    """Of the load engine: single packets as long as hosts can be expected to keep up with them."""
    made = Phase(name, load_bps, duration_ns=duration_ns, sizes=sizes)
    return replace(made, segmented=load_bps <= SINGLES_PPS * 8 * made.mean_bytes)


def title(kind: str, share: float) -> str:
    """ "CIR 50 %", "CIR + EIR", "overshoot", "performance": what a load of this share of the CIR is called."""
    return {EIR: "CIR + EIR", OVERSHOOT: "overshoot", PERFORMANCE: "performance"}.get(kind, f"CIR {share * 100:.4g} %")


@dataclass(frozen=True, slots=True)
class Stream:
    """The STAMP packets beside a load. `payload_bytes`: of UDP; `ip_bytes` with its headers."""

    rate_pps: int
    payload_bytes: int
    ip_bytes: int

    @property
    def ip_bps(self) -> int:
        """Each way."""
        return self.rate_pps * self.ip_bytes * 8


@dataclass(frozen=True, slots=True)
class Rung:
    """One load of one service in one direction, and the stream beside it. `share`: of the CIR."""

    service: str
    direction: Direction
    kind: str
    share: float
    load_bps: int  # of the load alone, IP layer
    duration_ns: int
    sizes: Sizes
    dscp: int
    stream: Stream

    @property
    def title(self) -> str:
        """See `title`."""
        return title(self.kind, self.share)

    @property
    def phase(self) -> Phase:
        """Of the load engine; its name tells service and step."""
        return phase(f"{self.service} {self.title}", self.load_bps, self.duration_ns, self.sizes)

    @property
    def ip_bps(self) -> int:
        """Load and stream together, IP layer."""
        return self.load_bps + self.stream.ip_bps

    @property
    def total_bytes(self) -> int:
        """Of load and stream in this direction, IP layer."""
        return self.ip_bps * self.duration_ns // (8 * 10**9)

    def as_json(self) -> Json:
        """As a step's parameters carry it."""
        stream = self.stream
        return {
            "service": self.service,
            "direction": str(self.direction),
            "kind": self.kind,
            "share": self.share,
            "load_bps": self.load_bps,
            "duration_ns": self.duration_ns,
            "sizes": [list(one) for one in self.sizes],
            "dscp": self.dscp,
            "stream": [stream.rate_pps, stream.payload_bytes, stream.ip_bytes],
        }


def of_json(given: Json) -> Rung:
    """The rung a step's parameters carry."""
    return Rung(
        service=given["service"],
        direction=Direction(given["direction"]),
        kind=given["kind"],
        share=float(given["share"]),
        load_bps=int(given["load_bps"]),
        duration_ns=int(given["duration_ns"]),
        sizes=tuple((int(size), int(weight)) for size, weight in given["sizes"]),
        dscp=int(given["dscp"]),
        stream=Stream(*map(int, given["stream"])),
    )


def services_of(link: Link) -> tuple[Service, ...]:
    """The services contracted on the line; without any the line is one, at its CIR. Empty when no rate is known either."""
    sizes = ((link.mtu or ASSUMED_MTU, 1),)
    if link.services:
        return tuple(one if one.sizes else replace(one, sizes=sizes) for one in link.services)
    if link.cir_bps is None:
        return ()
    return (Service(LINE, link.cir_bps, link.cir_reverse_bps, counts=link.rate_counts, sizes=sizes),)


# ---- rates


def ip_share(sizes: Sizes, counts: str) -> float:
    """IP octets in each octet that a rate in `counts` counts, over this mix of packets."""
    weights = sum(weight for _, weight in sizes)
    mean = sum(size * weight for size, weight in sizes) / weights
    return mean / (mean + OVERHEAD_BYTES[counts])


def counted_bps(load_bps: float, sizes: Sizes, stream_bps: float, stream_bytes: int, counts: str) -> float:
    """A load and its stream (IP layer) as a rate in `counts` counts them."""
    return load_bps / ip_share(sizes, counts) + stream_bps / ip_share(((stream_bytes, 1),), counts)


def overshoot_bps(cir_bps: float, eir_bps: float) -> float:
    """What a policer at CIR + EIR has to cut: CIR + 125 % of EIR; with no or a small EIR 125 % of both."""
    if eir_bps < SMALL_EIR * cir_bps:
        return EXCESS * (cir_bps + eir_bps)
    return cir_bps + EXCESS * eir_bps


def _rung(service: Service, direction: Direction, kind: str, bps: float, duration_ns: int, stream: Stream) -> Rung:
    """A rung that offers `bps` in all."""
    beside = stream.ip_bps / ip_share(((stream.ip_bytes, 1),), service.counts)
    return Rung(
        service=service.name,
        direction=direction,
        kind=kind,
        share=bps / service.committed_bps(direction),
        load_bps=max(1, round((bps - beside) * ip_share(service.sizes, service.counts))),
        duration_ns=duration_ns,
        sizes=service.sizes,
        dscp=service.dscp,
        stream=stream,
    )


def configuration(
    service: Service,
    direction: Direction,
    shares: Sequence[float],
    stream: Stream,
    lengths_ns: dict[float, int],
    *,
    overshoot: bool = True,
) -> tuple[Rung, ...]:
    """The steps of one service in one direction, lowest first. `lengths_ns`: of each share; those above the CIR last as the full CIR."""
    cir, eir = service.committed_bps(direction), service.eir_bps
    full_ns = lengths_ns[max(lengths_ns)]
    found = [_rung(service, direction, CIR, share * cir, lengths_ns[share], stream) for share in sorted(shares)]
    if eir:
        found.append(_rung(service, direction, EIR, cir + eir, full_ns, stream))
    if overshoot:
        found.append(_rung(service, direction, OVERSHOOT, overshoot_bps(cir, eir), full_ns, stream))
    return tuple(found)


def performance(service: Service, direction: Direction, stream: Stream, duration_ns: int) -> Rung:
    """The service at its CIR."""
    return _rung(service, direction, PERFORMANCE, service.committed_bps(direction), duration_ns, stream)
