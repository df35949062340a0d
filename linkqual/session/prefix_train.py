"""A train whose load expires on one router, and what its markers say of the links before that router. Floor 2, pure.

Packets of one size and one flow. Most are load: their TTL ends at router k, so they cross links 1 to k and nothing behind. The others, markers,
go all the way. Behind router k there are so few of them that they keep the distances which the links before it gave them. Which packets are
markers is drawn by chance: regular ones would keep step with what a policer drops; and they are as long as the load, since
small ones find room where that finds none. (Harfoush, Bestavros, Byers: Measuring Bottleneck Bandwidth of Targeted Path Segments.)

Nothing is asked of the routers, so their silence or their limits on ICMP change nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from linkqual.session.load_phase import Phase
from linkqual.stats.arrival_curve import HOST_SHARE, Idle, slope
from linkqual.units import NS_PER_S

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

FIRST = 3  # packets that are markers whatever chance says: they show the way before the load
FEWEST = 20  # markers that say anything
LOST = 0.01
BENT = 0.97  # of the rate before: the bucket was empty from there on
QUEUED_NS = 3_000_000
RISEN_NS = 300_000
SURE = 3.0  # standard deviations
EACH_TTL = 3  # packets of a climbing phase
FASTEST_SHARE = 1.12  # of the rate that a sender must reach
_LEAST_LOST = 0.05
_JITTERS = 3.0  # median deviations of the delay by which the ends of what is measured may be off
_BLOCK = 4096
_EDGE = 6  # markers on either side of a bend, at least


def expiring(phase: Phase, first: int, count: int) -> Flags:
    """Which of the packets `first` .. `first + count - 1` are load that expires on the way."""
    if not phase.expire_at:
        return np.zeros(count, bool)
    drawn: list[Floats] = []
    at, stop = first, first + count
    while at < stop:
        block, place = divmod(at, _BLOCK)
        part = np.random.default_rng((1, block)).random(_BLOCK)[place : place + stop - at]
        drawn.append(part)
        at += len(part)
    share = np.concatenate(drawn) if drawn else np.empty(0)
    return (share * phase.marker_in >= 1) & (np.arange(first, stop) >= max(FIRST, phase.lead))


def ttls(phase: Phase, first: int, count: int) -> Ints:
    """TTL or Hop Limit of these packets; 0: the host's own."""
    if phase.climbing:
        return np.arange(first, first + count) // EACH_TTL + 1
    earlier = np.maximum(0, np.arange(first, first + count) - phase.lead) // phase.rung if phase.rung else 0
    return np.where(expiring(phase, first, count), np.maximum(1, phase.expire_at - earlier), 0).astype(np.int64)


def links_of(numbers: Ints) -> int | None:
    """How many links the way has, from the packets of a climbing phase that arrived."""
    return int(numbers.min()) // EACH_TTL + 1 if len(numbers) else None


@dataclass(frozen=True, slots=True)
class Rung:
    """What came through while the load expired on one router, counted from the markers that arrived. `error`: relative, standard deviation, were it held up."""

    router: int
    offered_bps: float
    rate_bps: float
    error: float
    whole_bps: float  # what came through of the same train while it went all the way

    @property
    def times(self) -> float:
        """How much more came through than all the way."""
        return self.rate_bps / self.whole_bps


@dataclass(frozen=True, slots=True)
class PrefixTrain:
    """Rates as the contract counts them; None: too few markers arrived, or nothing was held up long enough to tell."""

    router: int
    offered_bps: float
    markers: int
    lost: float  # share of the markers, from the first lost one on
    rate_bps: float | None = None
    error: float = 0.0  # relative standard deviation, where the rate is counted from losses
    rise_ns: int = 0
    span_ns: int = 0  # of the part that tells the rate, from the first arrival on
    spread: float = 0.0  # the same by the line's own jitter
    void: str = ""


def read(phase: Phase, each: int, numbers: Ints, departed: Ints, arrived: Ints, base: Idle, host_lost: int = 0) -> PrefixTrain:  # fmt: skip
    """`numbers` (of the markers that arrived), departures by the sender's clock and arrivals by the receiver's; `each`: bytes that count."""
    numbers, first = np.unique(numbers, return_index=True)
    departed, arrived = departed[first], np.maximum.accumulate(arrived[first])
    sent = np.flatnonzero(~expiring(phase, 0, phase.packets))
    markers, router = len(sent), phase.expire_at
    if len(numbers) < FEWEST:
        return PrefixTrain(router, 0.0, markers, 1 - len(numbers) / markers, void="too few packets arrived")
    span = int(departed[-1] - departed[0])
    offered = float(numbers[-1] - numbers[0]) * each * 8 * NS_PER_S / span if span > 0 else 0.0
    if host_lost > HOST_SHARE * phase.packets:
        return PrefixTrain(router, offered, markers, 0.0, void="the receiving host itself dropped packets")
    late = arrived - departed - base.delay_ns
    missing = np.setdiff1d(sent, numbers)
    since = (arrived - arrived[0]).astype(np.float64)
    lossy = len(missing) > LOST * markers
    onset = int(missing[0]) if lossy else phase.packets
    clean = numbers < onset
    rise = int(np.median(late[-max(5, len(late) // 10) :]))
    rate, bent = flowing(since[clean], numbers[clean].astype(np.float64))
    lost = len(missing) / max(1, int((sent >= onset).sum())) if lossy else 0.0
    queued = clean.any() and int(late[clean].max()) > QUEUED_NS + 6 * base.noise_ns
    error, span_ns = 0.0, int(since[clean][-1]) if clean.any() else 0
    if not lossy and rise < RISEN_NS + 6 * base.noise_ns:  # nothing waited: what was slow was the sender
        rate = float(np.ptp(numbers)) / span if span > 0 else 0.0
    if lossy:
        counted, by = _surviving(sent[sent >= onset], numbers, since, lost)
        told = queued and rate > 0 and int((numbers[clean] >= bent).sum()) >= FEWEST
        if not told or 0 < counted < rate * (1 - SURE * by):  # a limit further on that showed itself later
            rate, error, span_ns = counted, by, int(since[-1])
    bps = rate * each * 8 * NS_PER_S if rate else None
    steady_ns = span_ns - (since[numbers >= bent].min(initial=span_ns) if not error else 0)
    spread = _JITTERS * base.noise_ns / max(1.0, steady_ns)
    return PrefixTrain(router, offered, markers, lost, bps, error, rise, span_ns, float(min(1.0, spread)))


def rungs(phase: Phase, each: int, numbers: Ints, departed: Ints, arrived: Ints, whole_bps: float) -> list[Rung]:
    """What each rung of a ladder shows: load that goes all the way, then expires on router `expire_at`, then on the one before it, without a pause.

    So a bucket that was empty before stays empty as long as load crosses it, and a queue stays full: markers are dropped like load, and those that
    remain are counted. Which ones is chance; how many packets the queue lets out is not. Behind a rung that ends before that queue, the queue runs
    empty and lets markers out faster than the load came: the rung seems faster than it is, but never as slow as the queue's link. A rung
    that the sender hardly sent faster than `whole_bps`, what came through all the way, is left out. Columns ascending by number.
    """
    found, bits = [], each * 8 * NS_PER_S
    goes = ~expiring(phase, 0, phase.packets)
    for router in range(phase.expire_at, 0, -1):
        begin = phase.lead + (phase.expire_at - router) * phase.rung
        end = min(begin + phase.rung, phase.packets)
        sent, here = int(goes[begin:end].sum()), (numbers >= begin) & (numbers < end)
        count = int(here.sum())
        if sent < FEWEST or count < FEWEST:
            continue
        came, left, number = np.sort(arrived[here]), departed[here], numbers[here]
        offered = float(number[-1] - number[0]) * bits / max(1, int(left[-1] - left[0]))
        if offered < FASTEST_SHARE * whole_bps:
            continue
        share, lost = sent / (end - begin), 1 - count / sent
        rate = (
            (count - 1) / share * bits / max(1, int(came[-1] - came[0]))
        )  # the ends: what is dropped between adds up like a walk
        found.append(Rung(router, offered, rate, math.sqrt((1 - share) * max(lost, _LEAST_LOST) / count), whole_bps))
    return found


def flowing(since: Floats, numbers: Floats) -> tuple[float, float]:
    """Packets per ns once the bucket was empty, where nothing is lost; the number from which that is so. `since` ns, ascending."""
    count = len(since)
    if count < 2 * _EDGE:
        return 0.0, 0.0
    at = _bend(since, numbers)
    before, after = slope(since[:at], numbers[:at]), slope(since[at:], numbers[at:])
    if at and after < BENT * before:
        return after, float(numbers[at])
    return slope(since, numbers), float(numbers[0])


def _bend(since: Floats, numbers: Floats) -> int:
    """Where two straight lines fit best: the sums of squares of both parts for every place, from running sums."""
    x, y = since / since[-1] if since[-1] else since, numbers / numbers[-1]

    def running(values: Floats) -> Floats:
        return np.concatenate([[0.0], np.cumsum(values)])

    sums = [running(values) for values in (np.ones(len(x)), x, y, x * x, x * y, y * y)]
    at = np.arange(_EDGE, len(x) - _EDGE + 1)

    def rest(low: Ints | int, high: Ints | int) -> Floats:
        n, sx, sy, sxx, sxy, syy = (total[high] - total[low] for total in sums)
        vx, vy, both = sxx - sx * sx / n, syy - sy * sy / n, sxy - sx * sy / n
        found: Floats = vy - both * both / np.maximum(vx, 1e-18)
        return found

    return int(at[np.argmin(rest(0, at) + rest(at, len(x)))])


def _surviving(sent: Ints, numbers: Ints, since: Floats, lost: float) -> tuple[float, float]:
    """Packets per ns, counted from the markers that got through among those `sent` while others were dropped; its relative error."""
    here = numbers >= sent[0] if len(sent) else np.zeros(len(numbers), bool)
    if int(here.sum()) < FEWEST:
        return 0.0, 0.0
    times = since[here]
    share = len(sent) / (sent[-1] - sent[0] + 1)  # of markers among the packets
    error = math.sqrt(lost * (1 - lost) / len(sent)) / max(1 - lost, 0.05)
    return (len(times) - 1) / share / max(1.0, float(times[-1] - times[0])), error
