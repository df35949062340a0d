"""What synchronised bursts, as a training job sends them, took to complete. Floor 0."""

from __future__ import annotations

from dataclasses import dataclass, field

from linkqual.model.asking import Direction
from linkqual.model.packets import Histogram


@dataclass(frozen=True, slots=True)
class BurstsResult:
    """Bursts of one direction. A burst is complete when its last packet's arrival is confirmed, repairs included."""

    direction: Direction
    pattern: str  # "sync", "incast", "pipeline"
    burst_bytes: int  # payload of one burst, all flows together
    period_ns: int
    flows: int
    packet_bytes: int  # of an IP packet
    source: str = ""  # where size and period come from: "given", or the model's arithmetic in words
    sent: int = 0  # bursts
    completed: int = 0
    completion: Histogram = field(default_factory=Histogram)  # first departure to confirmation of the last arrival, ns
    completions_ns: tuple[int | None, ...] = ()  # of each burst in order; None: not complete within the patience
    base_rtt_ns: int | None = None  # smallest round trip beside it, part of every completion
    late_starts: int = 0  # bursts that began late because the one before was not complete
    packets: int = 0
    lost: int = 0  # first copies lost
    host_lost: int = 0
    positions: int = 0  # parts a burst is cut into for `lost_by_position`
    lost_by_position: tuple[int, ...] = ()
    repaired: int = 0  # packets sent again
    stopped_by: str = ""
