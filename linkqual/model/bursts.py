"""What synchronised bursts, as a training job sends them, took to complete. Floor 0."""

from __future__ import annotations

from dataclasses import dataclass, field

from linkqual.model.asking import Direction
from linkqual.model.packets import Histogram


@dataclass(frozen=True, slots=True)
class BurstsResult:
    """Bursts of one direction. A burst is complete when its last packet's arrival is confirmed, repairs included.

    The tuples by burst are in order of the bursts and as long as `sent`, unless the far end went away before it told of the last ones.
    """

    direction: Direction
    pattern: str  # "sync", "incast", "pipeline"
    burst_bytes: int  # payload of one burst, all flows together
    period_ns: int
    flows: int
    packet_bytes: int  # of an IP packet
    source: str = ""  # where size and period come from: "given", or the model's arithmetic in words
    pace_bps: int = 0  # at the IP layer, of the packets inside a burst
    transfer_ns: int = 0  # of one burst at that pace, without any round trip
    quiet_ns: int = 0  # silence after which the receiver asks for what is missing
    sent: int = 0  # bursts
    unsent: int = (
        0  # bursts whose packets did not all leave the sending host within the patience: no bursts of the line
    )
    completed: int = 0
    completion: Histogram = field(default_factory=Histogram)  # first departure to confirmation of the last arrival, ns
    completions_ns: tuple[int | None, ...] = ()  # of each burst in order; None: not complete within the patience
    held_ns: tuple[
        int, ...
    ] = ()  # of each burst: by how much the sending host was behind its own pace, part of its completion
    base_rtt_ns: int | None = None  # smallest round trip before the load, part of every completion
    late_starts: int = 0  # bursts that began late because the one before was not complete
    packets: int = 0  # first copies, of the bursts whose arrivals are known
    lost: int = 0  # first copies lost, of `packets`
    host_lost: int = 0  # packets the receiving socket itself dropped, at most
    lost_by_burst: tuple[int, ...] = ()
    positions: int = 0  # parts a burst is cut into for `lost_by_position`
    lost_by_position: tuple[int, ...] = ()
    repaired: int = 0  # packets sent again
    stopped_by: str = ""
