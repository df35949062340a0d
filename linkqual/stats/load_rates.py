"""What one phase of UDP load carried once the buckets it met were empty, in all and of each flow; bit/s at the IP layer. Floor 1, pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from linkqual.model import LoadCount
from linkqual.units import NS_PER_S

_LEAST_INTERVALS = 4
HOST_SHARE = 0.005  # of the packets: with more dropped by the receiving socket a phase tells nothing of the line
UNEVEN = 0.07  # between the parts of two flows that arrived: beyond what jitter and the ends of a phase make
_Z = 5.0  # standard deviations beyond which flows that were sent alike did not fare alike by chance


def usable(count: LoadCount) -> bool:
    """Whether it tells of the line: something arrived, it was not cut short, and the receiving host lost next to nothing."""
    return (
        count.received > 1
        and count.short not in ("interrupted", "peer-lost")
        and count.host_lost <= HOST_SHARE * max(count.sent, 1)
    )


def offered_bps(count: LoadCount) -> float:
    """As it really left; what was asked for where that is not known."""
    return count.sent_bytes * 8 * NS_PER_S / count.sent_ns if count.sent_ns > 0 else float(count.asked_bps)


def loss_ratio(count: LoadCount) -> float:
    """Of the line: what the receiving socket dropped is left out."""
    return max(count.lost - count.host_lost, 0) / count.sent if count.sent else 0.0


def steady_bps(count: LoadCount) -> float:
    """Of the second half of the phase: in the first a full token bucket lets more through than its rate."""
    whole = count.intervals[:-1]  # the last one may be cut
    if count.interval_ns and len(whole) >= _LEAST_INTERVALS:
        late = whole[len(whole) // 2 :]
        return sum(octets for _, octets in late) * 8 * NS_PER_S / (len(late) * count.interval_ns)
    if count.rate_bps is not None:
        return count.rate_bps
    return count.received_bytes * 8 * NS_PER_S / count.received_ns if count.received_ns else 0.0


def flow_rates(count: LoadCount) -> tuple[float, ...]:
    """Of each flow that sent, such that together they make the steady rate."""
    arrived = [octets for sent, _, octets in count.by_flow if sent]
    total = sum(arrived)
    return tuple(octets / total * steady_bps(count) for octets in arrived) if total else tuple(0.0 for _ in arrived)


def shares(count: LoadCount) -> tuple[float, ...]:
    """Of each flow that sent: the part that arrived."""
    return tuple(received / sent for sent, received, _ in count.by_flow if sent)


def uneven(count: LoadCount) -> bool:
    """Whether flows sent alike fared differently: by more than UNEVEN between the best and the worst, and by more than chance."""
    found = shares(count)
    if len(found) < 2 or max(found) - min(found) < UNEVEN * max(found):
        return False
    sent = [flow[0] for flow in count.by_flow if flow[0]]
    mean = sum(flow[1] for flow in count.by_flow) / sum(sent)
    spread = [math.sqrt(max(mean * (1 - mean), 1 / n) / n) for n in sent]
    return any(abs(share - mean) > _Z * one for share, one in zip(found, spread, strict=True))


def chance_of_room(flows: int, members: int, most: int) -> float:
    """Probability that `flows` flows hashed at random over `members` put no more than `most` on any one."""
    ways: Sequence[float] = [1.0] + [
        0.0
    ] * flows  # exponential generating function, scaled by flows!/members^flows at the end
    for _ in range(members):
        ways = [math.fsum(ways[n - k] / math.factorial(k) for k in range(min(n, most) + 1)) for n in range(flows + 1)]
    return float(ways[flows] * math.exp(math.lgamma(flows + 1) - flows * math.log(members)))
