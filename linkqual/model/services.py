"""What the service activation test (after ITU-T Y.1564) and the throughput search (after RFC 2544) measured. Floor 0."""

from __future__ import annotations

from dataclasses import dataclass

from linkqual.model.asking import Direction
from linkqual.model.load import LoadCount
from linkqual.model.probes import StampResult


@dataclass(frozen=True, slots=True)
class Service:
    """One service as contracted, with its acceptance criteria. None: not agreed, so measured and not judged."""

    name: str
    cir_bps: int  # as `counts` counts
    eir_bps: int = 0
    counts: str = "l1"  # l1, l2 or l3, as `Link.rate_counts`
    sizes: tuple[tuple[int, int], ...] = ((1500, 1),)  # (bytes of an IP packet, weight)
    dscp: int = 0
    flr: float | None = None  # frame loss ratio
    ftd_ns: int | None = None  # frame transfer delay
    fdv_ns: int | None = None  # frame delay variation
    availability: float | None = None  # ratio, of the performance test


@dataclass(frozen=True, slots=True)
class ServiceStep:
    """One load step of one service in one direction, and the delays of a STAMP stream beside it."""

    service: str
    direction: Direction
    kind: str  # "cir", "eir", "overshoot", "performance"
    share: float  # of the CIR (cir), or of CIR + EIR
    count: LoadCount
    beside: StampResult | None = None


@dataclass(frozen=True, slots=True)
class ServicesResult:
    """All steps in the order they were run."""

    services: tuple[Service, ...]
    steps: tuple[ServiceStep, ...]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The highest rate at which the loss goal was kept, per packet size (RFC 2544 section 26.1, with a loss goal)."""

    direction: Direction
    goal: float  # loss ratio still accepted
    trials: tuple[LoadCount, ...]
    found: tuple[tuple[int, float | None], ...] = ()  # (bytes of an IP packet, IP bit/s; None: not even the lowest)
    resolution: float = 0.0  # of the highest rate: how close two neighbouring trials came
