"""What TCP carried. Floor 0."""

from __future__ import annotations

from dataclasses import dataclass, field

from linkqual.model.packets import Histogram, Tally
from linkqual.model.probes import Decision, StampResult


@dataclass(frozen=True, slots=True)
class AddedDelay:
    """How much longer packets took under load than just before it, in one direction. The offset of both clocks cancels."""

    idle_ns: int  # median one-way delay before the load, clock offset included
    idle_n: int
    after_ns: int | None = None  # the same after the load; what it moved by is the clocks' drift, or a queue that stays
    delay: Histogram = field(default_factory=Histogram)  # above `idle_ns`; 0 for packets that were quicker
    over: dict[str, Tally] = field(default_factory=dict)  # by objective key: lost, or over that objective's limit


@dataclass(frozen=True, slots=True)
class ThroughputResult:
    """One direction, one number of streams; goodput of each whole second seen by the receiver, warm-up left out."""

    streams: int
    receiver_bps: tuple[float, ...]  # per second
    warmup_bps: tuple[float, ...] = ()
    sent_bytes: int | None = None  # warm-up included; None: that end's own count is missing
    received_bytes: int | None = None
    retransmits: int | None = None
    congestion_control: str = ""
    mss: int | None = None
    rtt_min_ns: int | None = None
    rtt_mean_ns: int | None = None
    allowed_bps: float | None = None  # goodput the headers allow at the contracted rate
    version: str = ""
    cpu_near: float | None = None  # 0..1 of one core, iperf3's own figure
    cpu_far: float | None = None
    decisions: tuple[Decision, ...] = ()
    stopped_by: str = ""
    seconds_rtt_ns: tuple[
        int, ...
    ] = ()  # of each measured second: TCP's smoothed estimate, mean of the streams; 0: none
    seconds_retransmits: tuple[int, ...] = ()  # of each measured second
    window_bytes: int | None = None  # largest congestion window of a stream
    receive_window_bytes: int | None = None  # largest window a receiver offered
    flows_bps: tuple[float, ...] = ()  # mean goodput of each stream at the receiver, warm-up left out
    beside: StampResult | None = None  # of a STAMP stream: its packets that left under load, warm-up left out
    idle_round_trip: Histogram = field(default_factory=Histogram)  # of the same stream just before the load
    added: dict[str, AddedDelay] = field(default_factory=dict)  # by direction
