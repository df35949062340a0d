"""How many packets of a session are answered: its rate, its totals, and apart from them what copies and replays may have. Floor 2, pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from linkqual.units import NS_PER_S

_BURST_S = 0.25  # a caller catching up after a stall may send this much of a second at once
_LEAST_BURST = 64
_COPIES_BURST = 4096  # answers to copies that may have been saved up
_FIRST_COPIES = 64

Longs = npt.NDArray[np.int64]


class Allowance:
    """A token bucket of `max_pps`; of packets with new sequence numbers `max_packets`, of all of them `max_bytes` of UDP payload.

    Each new packet allows for one copy, so that replays use up nothing of the session's and bring forth no more than it.
    """

    def __init__(self, max_pps: int, max_packets: int, max_bytes: int) -> None:
        self._pps, self._packets_left, self._bytes_left = max_pps, max_packets, max_bytes
        self._tokens = self._burst = max(_LEAST_BURST, max_pps * _BURST_S)
        self._copies = _FIRST_COPIES
        self._filled_ns: int | None = None

    def new(self, lengths: Longs, now_ns: int) -> int:
        """How many of the first of these packets, none seen before, are answered; `now_ns` monotonic."""
        elapsed = 0 if self._filled_ns is None else max(0, now_ns - self._filled_ns)
        self._filled_ns = now_ns
        self._tokens = min(self._burst, self._tokens + elapsed * self._pps / NS_PER_S)
        allowed = self._fitting(lengths, min(int(self._tokens), self._packets_left))
        self._tokens -= allowed
        self._packets_left -= allowed
        self._copies = min(_COPIES_BURST, self._copies + allowed)
        return allowed

    def copies(self, lengths: Longs) -> int:
        """How many of the first of these, each seen before, are answered."""
        allowed = self._fitting(lengths, self._copies)
        self._copies -= allowed
        return allowed

    def _fitting(self, lengths: Longs, most: int) -> int:
        lengths = lengths[:most]
        total = int(lengths.sum())
        if total > self._bytes_left:
            lengths = lengths[: np.searchsorted(np.cumsum(lengths), self._bytes_left, side="right")]
            total = int(lengths.sum())
        self._bytes_left -= total
        return len(lengths)
