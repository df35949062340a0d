"""What TCP may carry: the headers' share, windows and delay, loss; and what seconds of goodput say.

Rates in bit/s, sizes in bytes, delays in ns. RFC 6349 gives the method, RFC 9438 CUBIC. Floor 1, pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from linkqual.stats.confidence import quantile_rank_lower, quantile_ranks
from linkqual.stats.histogram import quantile_rank
from linkqual.units import NS_PER_S

OVERHEAD_BYTES = {
    "l1": 38,  # Ethernet 14 + FCS 4 + preamble 7 + delimiter 1 + gap 12 (RFC 6349 section 4.1.1)
    "l2": 18,  # Ethernet 14 + FCS 4
    "l3": 0,
}
VLAN_TAG_BYTES = 4
IP_HEADER_BYTES = {4: 20, 6: 40}
TCP_HEADER_BYTES = 20
TIMESTAMPS_BYTES = 12  # the option with its padding, RFC 7323

RENO = math.sqrt(1.5)  # Mathis et al. 1997: one ACK a packet
CUBIC_C, CUBIC_BETA = 0.4, 0.7


# ---- what the headers allow


def tcp_payload(mtu: int, ip_version: int = 4, timestamps: bool = True) -> int:
    """TCP payload of a full packet (the MSS less its options)."""
    return mtu - IP_HEADER_BYTES[ip_version] - TCP_HEADER_BYTES - (TIMESTAMPS_BYTES if timestamps else 0)


def frame_rate(rate_bps: float, mtu: int, counts: str = "l1", vlan_tags: int = 0) -> float:
    """Full frames a second at a rate that counts preamble and gap (l1), frames with FCS (l2) or IP packets (l3)."""
    tags = vlan_tags * VLAN_TAG_BYTES if counts != "l3" else 0
    return rate_bps / (8 * (mtu + OVERHEAD_BYTES[counts] + tags))


def header_goodput(
    rate_bps: float, mtu: int, ip_version: int = 4, timestamps: bool = True, counts: str = "l1", vlan_tags: int = 0
) -> float:
    """Largest TCP goodput the headers allow (RFC 6349 section 4.1.1): 9.4148 Gbit/s of 10 at MTU 1500 with time stamps."""
    return frame_rate(rate_bps, mtu, counts, vlan_tags) * 8 * tcp_payload(mtu, ip_version, timestamps)


# ---- windows


def bdp_bytes(rate_bps: float, rtt_ns: float) -> float:
    """Bandwidth-delay product (RFC 6349 section 3.3.1): bytes in flight that fill the line."""
    return rate_bps * rtt_ns / NS_PER_S / 8


def window_limit(window_bytes: float, rtt_ns: float) -> float:
    """Rate one connection reaches with this window: window / RTT."""
    return window_bytes * 8 * NS_PER_S / rtt_ns


# ---- loss


def reno_window(loss: float) -> float:
    """Average congestion window in segments of a Reno flow; `loss` is the rate of loss *events*."""
    return RENO / math.sqrt(loss)


def mathis(mss: int, rtt_ns: float, loss: float) -> float:
    """Rate of one Reno flow that loss alone limits (Mathis et al. 1997)."""
    return window_limit(mss * reno_window(loss), rtt_ns)


def cubic_window(loss: float, rtt_ns: float) -> float:
    """Average window in segments of a CUBIC flow (RFC 9438 section 5.1), never under Reno's."""
    grow = CUBIC_C * (3 + CUBIC_BETA) / (4 * (1 - CUBIC_BETA))
    return float(max(grow**0.25 * (rtt_ns / NS_PER_S / loss) ** 0.75, reno_window(loss)))


def cubic(mss: int, rtt_ns: float, loss: float) -> float:
    """Rate of one CUBIC flow that loss alone limits."""
    return window_limit(mss * cubic_window(loss, rtt_ns), rtt_ns)


# ---- seconds of goodput


def seconds_quantile(bps: Sequence[float], q: float) -> float | None:
    """RFC 2330 percentile of the seconds' rates: p5 is what 95 % of the seconds reach."""
    return sorted(bps)[quantile_rank(len(bps), q) - 1] if bps else None


def seconds_interval(bps: Sequence[float], q: float, confidence: float = 0.95) -> tuple[float | None, float | None]:
    """Order-statistic interval of that percentile; None where there are too few seconds."""
    low, high = quantile_ranks(len(bps), q, confidence) if bps else (None, None)
    ordered = sorted(bps)
    return (None if low is None else ordered[low - 1]), (None if high is None else ordered[high - 1])


def seconds_lower(bps: Sequence[float], q: float, confidence: float = 0.95) -> float | None:
    """One-sided lower bound of that percentile; None where there are too few seconds."""
    rank = quantile_rank_lower(len(bps), q, confidence) if bps else None
    return None if rank is None else sorted(bps)[rank - 1]


def mean_rate(bps: Sequence[float]) -> float | None:
    """Mean of the seconds."""
    return math.fsum(bps) / len(bps) if bps else None


def variation_coefficient(bps: Sequence[float]) -> float | None:
    """Sample standard deviation over mean: how unsteady the seconds are. None under two seconds or at mean 0."""
    mean = mean_rate(bps)
    if len(bps) < 2 or not mean:
        return None
    variance = math.fsum((rate - mean) ** 2 for rate in bps) / (len(bps) - 1)
    return math.sqrt(variance) / mean
