"""A load that lets a queue grow, and no more: how fast it is, how long, and what its own count says of the line. Pure. Floor 2.

rate known    idle rounds, load at 1.2 times the rate ............. a queue grows: where it begins
not known     a short burst tells about it, a second of load at 1.2 times that tells it better; then the same
no queue      and packets were lost: a policer. Load at twice the rate, hops asked with long packets, and their loss tells
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from linkqual.model import LoadCount
from linkqual.session.hop_watch import FILLING_NS, PATIENCE_NS, ROUND_NS
from linkqual.session.load_phase import Phase
from linkqual.stats.histogram import quantile
from linkqual.units import NS_PER_S, format_rate, format_ratio

ABOVE, POLICED = 1.2, 2.0  # times the rate
IDLE_ROUNDS, POLICED_ROUNDS = 3, 11
LONG_BYTES = 1000  # more than the least in each probe that is to be lost as the load's packets are: short ones slip through a bucket
BURST, LOOK_NS = 2000, NS_PER_S  # packets as fast as they go; how long the load lasts that tells the rate better
POLICED_LOSS = 0.03  # of the load's packets, without a queue
CARRIED = 0.98  # of what was offered: nothing on the way is slower

Ints = npt.NDArray[np.int64]


def span_ns(rounds: int) -> int:
    """Of a load under which each hop is asked so often, the time in which its queue fills before and the last answers after included."""
    return FILLING_NS + rounds * ROUND_NS + PATIENCE_NS


def idle_ns() -> int:
    """Before the load."""
    return IDLE_ROUNDS * ROUND_NS


def load(rate_bps: float, packet_bytes: int, rounds: int, *, times: float, most_bps: int | None) -> Phase:
    """At so many times the rate (of IP packets), within the cap."""
    asked = round(min(times * rate_bps, most_bps or times * rate_bps))
    return Phase(f"{times:g} times the rate", asked, span_ns(rounds), sizes=((packet_bytes, 1),), jitter=0.5)


def idle(packet_bytes: int) -> Phase:
    """A few packets on the idle line: what their one-way delay is, offset of both clocks included."""
    return Phase("idle", 400 * packet_bytes, packets=20, sizes=((packet_bytes, 1),))


def burst(packet_bytes: int, most_bps: int | None) -> Phase:
    """As fast as they go."""
    return Phase("burst", most_bps or 0, packets=BURST, sizes=((packet_bytes, 1),), arrivals=True)


def burst_bps(arrived_ns: Ints, packet_bytes: int) -> float | None:
    """The rate at which the last half of them came, bit/s of IP packets; None when too few did."""
    half = np.sort(arrived_ns)[len(arrived_ns) // 2 :]
    if len(half) < 10 or half[-1] <= half[0]:
        return None
    return float((len(half) - 1) * packet_bytes * 8 * NS_PER_S / (half[-1] - half[0]))


def look(rate_bps: float, packet_bytes: int, most_bps: int | None) -> Phase:
    """A load that empties what bucket there may be."""
    asked = round(min(ABOVE * rate_bps, most_bps or ABOVE * rate_bps))
    return Phase("look", asked, LOOK_NS, sizes=((packet_bytes, 1),), jitter=0.5, interval_ns=LOOK_NS // 10)


def looked_bps(count: LoadCount) -> float | None:
    """What came in the last half of it, without the interval that was cut."""
    whole = count.intervals[:-1]
    last = [octets for _, octets in whole[len(whole) // 2 :]]
    if not last or not count.interval_ns:
        return count.rate_bps
    return sum(last) * 8 * NS_PER_S / (len(last) * count.interval_ns)


def added_ns(count: LoadCount, quiet: LoadCount) -> int | None:
    """How much later the load's own packets came than those on the idle line, by both kernels' stamps: median against the least."""
    under, base = quantile(count.one_way, 0.5), quiet.one_way.minimum
    return None if under is None or base is None else under - base


def lost(counts: Sequence[LoadCount]) -> float | None:
    """The share of the packets that the line lost, 0 to 1; None: none were sent."""
    sent = sum(count.sent for count in counts)
    return sum(count.lost - count.host_lost for count in counts) / sent if sent else None


def policed(count: LoadCount) -> bool:
    """Whether so many packets were lost that something takes them away."""
    return (lost([count]) or 0.0) > POLICED_LOSS


def carried(count: LoadCount) -> str:
    """Why no queue was to be expected: all of it came through; "" else."""
    if not count.sent or count.received < CARRIED * count.sent:
        return ""
    offered = count.sent_bytes * 8 * NS_PER_S / count.sent_ns if count.sent_ns else float(count.asked_bps)
    return f"the line carries {format_ratio(count.received / count.sent)} of {format_rate(round(offered))} offered: nothing on the way is that slow"


def told(rate_bps: int) -> str:
    """What loads the line, in words."""
    return f"UDP at {format_rate(rate_bps)}"
