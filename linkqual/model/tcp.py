"""What TCP carried. Floor 0."""

from __future__ import annotations

from dataclasses import dataclass

from linkqual.model.probes import Decision, StampResult


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
    ] = ()  # TCP's own estimate at the sender, mean of the streams, of each measured second
    seconds_retransmits: tuple[int, ...] = ()  # of each measured second
    window_bytes: int | None = None  # largest congestion window of a stream
    receive_window_bytes: int | None = None  # largest window a receiver offered
    flows_bps: tuple[float, ...] = ()  # mean goodput of each stream at the receiver, warm-up left out
    beside: StampResult | None = None  # a STAMP stream while the load ran
