"""What the service activation test (after ITU-T Y.1564) and the throughput search (after RFC 2544) measured. Floor 0."""

from __future__ import annotations

from dataclasses import dataclass

from linkqual.model.asking import Direction, Service
from linkqual.model.load import LoadCount
from linkqual.model.probes import StampResult


@dataclass(frozen=True, slots=True)
class ServiceStep:
    """One load step of one service in one direction, and the delays of a STAMP stream beside it.

    The stream belongs to the load: both together are what was offered. Its result stands with one of the steps it ran beside, since
    it measures both directions.
    """

    service: str
    direction: Direction
    kind: str  # "cir", "eir", "overshoot", "performance"
    share: float  # of the CIR
    count: LoadCount
    beside: StampResult | None = None
    stream_bps: int = 0  # of that stream in this direction, at the IP layer


@dataclass(frozen=True, slots=True)
class ServicesResult:
    """All steps in the order they were run."""

    services: tuple[Service, ...]
    steps: tuple[ServiceStep, ...]


@dataclass(frozen=True, slots=True)
class FoundRate:
    """The outcome of the search for one packet size; rates in bit/s at the IP layer."""

    packet_bytes: int  # of an IP packet
    maximum_bps: int  # the theoretical one: what the contracted rate leaves at this size, or --max-rate
    rate_bps: float | None  # the highest at which the goal was kept; None: not even the lowest
    limited: str = ""  # why the search ended before the line did: "host", "cap", "interrupted", "peer-lost"; then rate_bps is "at least"


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The highest rate at which the loss goal was kept, per packet size (RFC 2544 section 26.1, with a loss goal)."""

    direction: Direction
    goal: float  # loss ratio still accepted
    trials: tuple[LoadCount, ...]
    found: tuple[FoundRate, ...] = ()
    resolution: float = 0.0  # of the maximum: how close two neighbouring trials come
