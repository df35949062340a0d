"""How steadily a rate was kept: drift over the run, the longest dip, and the figures of RFC 6349. Floor 1, pure.

Rates in bit/s, one a second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from linkqual.stats.slope import theil_sen

DIP = 0.9  # of the median: seconds under it are a dip
BLOCKS = 60  # at most, for the slope: neighbours that share one slow wave are one look
HOUR_S = 3600
LEAST_S = 50  # seconds: a slope of fewer says nothing of an hour


@dataclass(frozen=True, slots=True)
class Dip:
    """Seconds in a row under DIP of the median."""

    start_s: int  # after the first measured second began
    seconds: int
    lowest_bps: float


def longest_dip(bps: Sequence[float]) -> Dip | None:
    """The longest one, the deeper of two alike; None when every second reaches DIP of the median."""
    if not bps:
        return None
    floor = DIP * float(np.median(bps))
    found, start = None, None
    for at, rate in enumerate([*bps, math.inf]):
        if rate < floor:
            start = at if start is None else start
        elif start is not None:
            dip = Dip(start, at - start, min(bps[start:at]))
            if found is None or (dip.seconds, -dip.lowest_bps) > (found.seconds, -found.lowest_bps):
                found = dip
            start = None
    return found


def drift_per_hour(bps: Sequence[float], confidence: float = 0.95) -> tuple[float, float, float] | None:
    """(slope, low, high) in bit/s an hour: Theil-Sen over at most BLOCKS means of neighbouring seconds; None under LEAST_S seconds."""
    if len(bps) < LEAST_S:
        return None
    blocks = np.array_split(np.asarray(bps, np.float64), min(BLOCKS, len(bps)))
    found = theil_sen([float(block.mean()) for block in blocks], confidence)
    assert found is not None
    scale = HOUR_S * len(blocks) / len(bps)
    value, low, high = (each * scale for each in found)
    return value, low, high


# ---- RFC 6349 section 4


def transfer_time_ratio(goodput_bps: float, ideal_bps: float) -> float | None:
    """Section 4.1: how many times as long a transfer takes as it would at the ideal goodput; None when nothing came through."""
    return ideal_bps / goodput_bps if goodput_bps else None


def tcp_efficiency(transmitted: float, retransmitted: float) -> float | None:
    """Section 4.2: share of the bytes sent, repetitions counted in, that were no repetition; None when none were."""
    return (transmitted - retransmitted) / transmitted if transmitted else None


def buffer_delay(mean_rtt_ns: float, baseline_rtt_ns: float) -> float:
    """Section 4.3: how much longer the round trip takes under load, as a share of the one without."""
    return (mean_rtt_ns - baseline_rtt_ns) / baseline_rtt_ns
