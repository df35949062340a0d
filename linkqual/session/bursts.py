"""Training bursts: their shape, and what became of each at either end. Floor 2, pure.

A burst is a fixed number of packets, each told from the others by (burst, index). The receiver confirms a complete burst at once; after a short silence it
reports what is missing, and the sender sends that again (selective repeat): loss so costs what it costs a job, a round trip and more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SYNC, INCAST, PIPELINE = PATTERNS = ("sync", "incast", "pipeline")
POSITIONS = 20  # parts a burst is cut into for losses by position
INCOMPLETE = -1  # completion of a burst that was not complete within the patience

SENT = np.dtype(
    [
        ("burst", "<i8"),
        ("completion_ns", "<i8"),  # INCOMPLETE: not within the patience
        ("held_ns", "<i8"),  # by how much its last first copy left later than the pace wanted
        ("repeats", "<i8"),
        ("late", "<i8"),  # 1: it began late, the one before was not complete
        ("first", "<i8"),  # first copies that left
    ]
)


def arrived(positions: int) -> np.dtype[np.void]:
    """A burst as it arrived: first copies that did, and those that did not by their position in the burst."""
    return np.dtype([("burst", "<i8"), ("received", "<i8"), ("lost", "<i8", (positions,))])


@dataclass(frozen=True, slots=True)
class Shape:
    """How the bursts of one direction look. The last packet is as long as the others."""

    bursts: int
    packets: int  # of one burst
    packet_bytes: int  # UDP payload
    flows: int  # source ports, taken in turn
    gap_ns: float  # between two departures inside a burst
    period_ns: int  # between the starts of two bursts
    quiet_ns: int  # silence after which the receiver reports what is missing
    patience_ns: int  # from a burst's start, after which it is given up
    overlap: bool  # a burst starts in time though the one before is not complete
    most_repeats: int  # packets sent again, in all

    @property
    def positions(self) -> int:
        """Parts of a burst for losses by position."""
        return min(POSITIONS, self.packets)

    @property
    def transfer_ns(self) -> int:
        """Of one burst at its pace: its last packet has passed the first narrow link then."""
        return round(self.packets * self.gap_ns)

    def position(self, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Part of the burst, 0 first, in which these packets are."""
        return indices * self.positions // self.packets
