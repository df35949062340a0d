"""What one train of equal packets says of the token bucket it met: its rate, the bucket, the delay it grew to, where loss began.

A bucket that was full when the train began lets Y bytes out by the instant t after that, Y = bucket + rate (t - start), as long as more wait
or are refused: the arrival curve (Le Boudec and Thiran, Network Calculus, section 1.2), whatever the sender's pace was. So both come from a line through what
arrived, and neither needs the place where the train bends. Only packets that arrived count; a refused one takes no tokens. A pause of the sender
refills the bucket, and a virtual server that empties at the rate accounts for that.

Instants are ns, bytes those the contract counts, rates bit/s. Clocks may differ by a constant. Floor 1, pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from linkqual.model import Train
from linkqual.units import NS_PER_S

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

FEWEST = 30  # arrivals of a train that say anything
HOST_SHARE = 0.002  # of a train: more dropped by the receiving host itself, and what is missing is not the line's
FEWEST_IDLE = 10
START_NS = 50_000  # by which the first packet may be late
CLOCK_NS = 1_000_000  # a train cannot be faster than the fastest on the idle line by more
LAST = 0.25  # of the arrivals: behind the bend, or the train was too short
POINTS = 120  # of the curve kept for people
STEADY = 0.03  # by which both halves of what was measured may differ
DROPPING = 0.01  # share lost from which a queue counts as full
CLIMBED = 0.1  # of its depth: a full queue does not grow
FULL = 0.9  # quantile of the delays behind a full queue: what found the last room, with a few late stamps left out
CLOSE, APART = 1 / 8, 1 / 4  # of what is measured: fewer than half of the pairs span one stall
_ROUNDS = 6  # of making the virtual server run flat


@dataclass(frozen=True, slots=True)
class Idle:
    """Median one-way delay with nothing queued, clock offset included; its median deviation; by how much the quantile FULL lies above it, and
    the fastest below it.
    """

    delay_ns: int
    noise_ns: float
    full_ns: float
    least_ns: float = 0.0


@dataclass(frozen=True, slots=True)
class Sent:
    """A train as it left: how many packets, and the bytes of each that the contract counts."""

    purpose: str
    packets: int
    each: int
    host_lost: int = 0


def idle(delays: Ints) -> Idle | None:
    """What packets with room between them took; None of fewer than ten."""
    if len(delays) < FEWEST_IDLE:
        return None
    off = delays - delays[0]  # small numbers: clocks of two hosts may be far apart
    middle = np.median(off)
    noise, full = float(np.median(np.abs(off - middle))), float(np.quantile(off, FULL) - middle)
    return Idle(int(delays[0]) + round(float(middle)), noise, full, float(middle - off.min()))


def read(sent: Sent, numbers: Ints, departed: Ints, arrived: Ints, base: Idle) -> Train:
    """The train whose packets `numbers` (from 0) arrived, with their departures by the sender's clock, arrivals by the receiver's. At least one.

    The first copy of a packet counts. `Train.rate_bps` is None of fewer than FEWEST arrivals, the bucket where the rate was not steady.
    """
    _, first = np.unique(numbers, return_index=True)
    numbers, departed, arrived = (column[first] for column in (numbers, departed, arrived))
    lost = sent.packets - len(numbers)
    missing = np.flatnonzero(numbers != np.arange(len(numbers)))
    train = Train(
        purpose=sent.purpose,
        offered_bps=_offered(numbers, departed, sent.each),
        packets=sent.packets,
        received=len(numbers),
        lost=lost,
        host_lost=sent.host_lost,
        lost_from=(int(missing[0]) if len(missing) else len(numbers)) if lost else None,
    )
    if sent.host_lost > HOST_SHARE * sent.packets:
        return replace(train, void="the receiving host itself dropped packets")
    if len(numbers) < FEWEST:
        return replace(train, void="too few packets arrived")
    late = arrived - departed - base.delay_ns  # behind the idle line
    if late.min() < -(CLOCK_NS + base.least_ns):
        return replace(train, void="packets were faster than on the idle line: a clock was set or the path changed")
    came = np.sort(arrived)
    since = (came - came[0]).astype(np.float64)
    reached = departed + base.delay_ns - came[0]
    if late[0] > START_NS + 6 * base.noise_ns:  # the sender was held up between its stamp and the first packet
        reached = np.maximum(reached, 0)  # none came to the bucket before the first came out of it
    empty = np.append(np.diff(numbers) > 1, False)  # the next one was refused
    found = _fit(reached.astype(np.float64), since, empty, sent.each)
    return replace(
        train,
        rate_bps=found.rate_bps or None,
        steady_ns=found.steady_ns,
        bucket_bytes=found.bucket_bytes,
        rise_ns=round(float(np.median(late[-max(5, len(late) // 20) :]))),
        buffer_ns=_buffer(numbers, late, sent, found, base),
        curve=_curve(since, sent.each),
    )


def _offered(numbers: Ints, departed: Ints, each: int) -> float:
    span = int(departed[-1] - departed[0]) if len(numbers) > 1 else 0
    return float(numbers[-1] - numbers[0]) * each * 8 * NS_PER_S / span if span > 0 else 0.0


def slope(x: Floats, y: Floats, apart: float = APART) -> float:
    """Of y over ascending x: the median over all pairs so far apart, as a share of all. A late stamp does no harm.

    Far apart they are exact; close to each other only few of them span a stall.
    """
    lag = max(1, math.ceil(len(x) * apart)) if len(x) > 1 else 0
    across = x[lag:] - x[: len(x) - lag]
    return (
        float(np.median((y[lag:] - y[: len(y) - lag])[across > 0] / across[across > 0])) if (across > 0).any() else 0.0
    )


@dataclass(frozen=True, slots=True)
class _Fit:
    rate_bps: float
    steady_ns: int = 0
    bucket_bytes: float | None = None


def _fit(reached: Floats, since: Floats, empty: Flags, each: int) -> _Fit:
    """Rate and bucket from the instants packets reached the bucket and those at which they came out of it.

    `empty`: after which of them the bucket was empty for certain; only those tell of it.
    """
    order = np.arange(len(since), dtype=np.float64)
    last = len(since) - max(FEWEST // 2, round(len(since) * LAST))
    told = _told(empty, last)
    takes = 1 / (slope(since[told], order[told], CLOSE) or math.inf)
    if takes <= 0:
        return _Fit(0.0)
    begin = last
    for _ in range(_ROUNDS):  # at the right rate the server keeps its lead over what comes out: the bucket
        lead = _served(reached, takes) - since
        level = float(np.median(lead[_told(empty, begin)]))
        begin = min(last, int(np.argmax(lead >= level - 2 * takes)))
        told = _told(empty, begin)
        takes /= 1 + slope(since[told], lead[told])
    lead = _served(reached, takes) - since
    rate = each * 8 * NS_PER_S / takes
    told = _told(empty, begin)
    if not _steady(since[told], order[told]):
        return _Fit(rate)
    return _Fit(rate, round(since[-1] - since[begin]), max(0.0, float(np.median(lead[told]))) / takes * each)


def _told(empty: Flags, begin: int) -> Ints:
    """Places from `begin` on after which the bucket was empty; all of them where that is not known of enough."""
    found = np.flatnonzero(empty[begin:]) + begin
    return found if len(found) >= FEWEST else np.arange(begin, len(empty))


def _served(reached: Floats, takes: float) -> Floats:
    """When a server that takes so long for each packet is done with it."""
    place = np.arange(len(reached)) * takes
    waited: Floats = np.maximum.accumulate(reached - place)
    return waited + place + takes


def _steady(since: Floats, order: Floats) -> bool:
    """Whether both halves of these arrivals came at one rate."""
    half = len(since) // 2
    if half < FEWEST // 2:
        return False
    one, other = slope(since[:half], order[:half]), slope(since[-half:], order[-half:])
    return one > 0 and abs(other / one - 1) <= STEADY + 2 / half


def _buffer(numbers: Ints, late: Ints, sent: Sent, found: _Fit, base: Idle) -> float | None:
    """Delay behind a full queue: of what found room from the onset of the dropping on, and half a packet, since the next found none.

    None where the delay still climbs then: packets wait elsewhere too.
    """
    begin = onset(numbers, sent.packets)
    if begin is None or found.rate_bps <= 0:
        return None
    behind = late[numbers >= begin]
    if len(behind) < FEWEST_IDLE:
        return None
    takes = sent.each * 8 * NS_PER_S / found.rate_bps
    depth = max(0.0, float(np.quantile(behind, FULL)) - base.full_ns + takes / 2)
    half = len(behind) // 2
    climbed = float(np.median(behind[half:]) - np.median(behind[:half]))
    return depth if climbed <= CLIMBED * depth + takes + 8 * base.noise_ns else None


def onset(numbers: Ints, packets: int) -> int | None:
    """Number of the packet from which packets were lost in earnest; None when the loss before it is not far less, or there is hardly any.

    The place where the count of the lost is farthest below its chord: single losses before it, by the line, do not move it.
    """
    kept = np.zeros(packets, bool)
    kept[numbers[numbers < packets]] = True
    lost = np.cumsum(~kept)
    if lost[-1] < 3 or lost[-1] / packets < DROPPING:
        return None
    place = np.arange(1, packets + 1)
    begin = int(np.argmax(place * (lost[-1] / packets) - lost))
    behind = packets - begin - 1
    if behind < 1:
        return None
    before, after = lost[begin] / (begin + 1), (lost[-1] - lost[begin]) / behind
    return begin if before < after / 2 else None


def _curve(since: Floats, each: int) -> tuple[tuple[int, int], ...]:
    chosen = np.unique(np.linspace(0, len(since) - 1, POINTS).astype(int))
    return tuple((round(since[i]), (int(i) + 1) * each) for i in chosen)
