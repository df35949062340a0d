"""What our own UDP load carried, counted packet by packet. Floor 0."""

from __future__ import annotations

from dataclasses import dataclass, field

from linkqual.model.asking import Direction
from linkqual.model.packets import Histogram, LossEvent


@dataclass(frozen=True, slots=True)
class LoadCount:
    """One phase of load in one direction: what left, and what of it arrived, by sequence number. Bytes are those of IP packets.

    `sent` = `received` + `lost`; copies are counted apart and in nothing else.
    """

    name: str  # "CIR 50 %", "trial 3", ...
    direction: Direction
    asked_bps: int  # at the IP layer; 0: as fast as the host can
    asked_ns: int
    sizes: tuple[tuple[int, int], ...]  # (bytes of an IP packet, weight)
    flows: int = 1  # source ports used in turn
    segmented: bool = True  # the line met single packets; False: trains that one buffer holds may share one fate
    sent: int = 0
    sent_bytes: int = 0
    sent_ns: int = 0  # first to last departure
    received: int = 0  # distinct packets
    received_bytes: int = 0
    received_ns: int = 0  # first to last arrival, by the receiver's stamps
    rate_bps: float | None = None  # received, by the receiver's stamps: bytes after the first packet over `received_ns`
    lost: int = 0
    host_lost: int = 0  # of the lost: dropped by the receiving socket itself
    duplicates: int = 0
    reordered: int = 0
    damaged: int = 0  # arrived, but with other octets than were sent
    interval_ns: int = 0
    intervals: tuple[tuple[int, int], ...] = ()  # (packets, bytes) in each interval since the first arrival
    by_departure: tuple[
        tuple[int, int], ...
    ] = ()  # (sent, received of them) in each interval of the sender's UTC, from the first departure's on
    by_flow: tuple[tuple[int, int, int], ...] = ()  # (sent, received, received bytes)
    one_way: Histogram = field(
        default_factory=Histogram
    )  # arrival after departure, clock offset included; of a train one value
    loss_events: tuple[LossEvent, ...] = ()
    short: str = ""  # why less left than was asked for: "host", "cap", "interrupted", "peer-lost"; "" when all did
    cpu_sender: float | None = None  # 0..1 of one core
    cpu_receiver: float | None = None


@dataclass(frozen=True, slots=True)
class FlowsResult:
    """The same load over one flow and over many: what a limit on flows, or members of a bundle, would show."""

    counts: tuple[LoadCount, ...]
    ports: tuple[int, ...] = ()  # source port of each flow
