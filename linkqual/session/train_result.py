"""What the trains of one direction say together: what kind of limit, how fast, how deep, and how sure. Floor 2, pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from scipy import special

from linkqual.model import Direction, Range, Train, TrainsResult
from linkqual.stats.arrival_curve import Idle
from linkqual.units import NS_PER_S, format_duration, format_rate, format_ratio, format_size

SLOWER = 0.97  # of what was offered: less came through
HELD = 0.9  # of what was asked for left: less, and the sender did not keep the pace
HELD_UP = 0.03  # by which rates of one limit differ at most
LOST = 0.01
RISEN_NS = 1_000_000
QUEUE_NS = 3_000_000  # a queue shorter than that cannot be told from none
QUEUE_PACKETS = 2.5
POLICED = 0.03  # share lost
SLOWLY = 1.45  # times the rate
FEWEST = 3
CLOSE = 0.1  # of a value: wide enough an interval
_UNNAMED = {
    "bytes": "the bytes allowed were spent before three trains agreed",
    "short": "the trains allowed were too short for what holds them back",
    "disagree": "the rate changed from train to train",
    "interrupted": "it was ended before three trains agreed",
}


# ---- of one train


def congested(train: Train, idle: Idle | None) -> bool:
    """Whether less came out than went in, for want of room: packets were dropped or waited.

    Or the sender itself was held up: a full queue of its own takes no more than goes out of it, and all its packets wait there.
    """
    noise_ns = 5 * idle.noise_ns if idle else 0
    waited = train.rise_ns or 0
    slower = train.rate_bps is not None and train.rate_bps < SLOWER * train.offered_bps
    held = (
        train.rate_bps is not None and train.offered_bps < HELD * train.asked_bps and waited > max(RISEN_NS, noise_ns)
    )
    return held or (slower and (train.lost > LOST * train.packets or waited > max(RISEN_NS, noise_ns)))


def lossy(train: Train) -> bool:
    """Whether so much was lost that something limits it, if it is not a bad line."""
    return train.lost > POLICED * train.packets


def takes_ns(train: Train, each: int) -> float:
    """One packet at the rate found."""
    return each * 8 * NS_PER_S / train.rate_bps if train.rate_bps else math.inf


def is_policed(train: Train, each: int) -> bool:
    """Dropped without waiting."""
    waited = train.buffer_ns if train.buffer_ns is not None else train.rise_ns or 0
    return lossy(train) and waited < max(QUEUE_NS, QUEUE_PACKETS * takes_ns(train, each))


def is_gentle(train: Train) -> bool:
    """Not much faster than what came through, at any time."""
    return max(train.asked_bps, train.offered_bps) < SLOWLY * (train.rate_bps or 0.0)


# ---- of several


def alike(good: Sequence[Train], each: int) -> list[Train]:
    """The slow ones alone, where they show another limit or a far shorter queue: the fast ones waited elsewhere too. Else all."""
    slow = [train for train in good if is_gentle(train)]
    fast = [train for train in good if not is_gentle(train)]
    if not slow or not fast:
        return list(good)
    if policed(slow, each) != policed(fast, each):
        return slow
    short = [train.buffer_ns for train in slow if train.buffer_ns is not None]
    deep = [train.buffer_ns for train in fast if train.buffer_ns is not None]
    shorter = short and deep and max(short) < (1 - CLOSE) * min(deep) - takes_ns(slow[0], each)
    return slow if shorter else list(good)


def began_late(good: Sequence[Train]) -> bool:
    """Whether most trains lost nothing for so long that loss spread over all of them would not do it once in a thousand: a bucket had to be emptied."""
    late = [
        (train.lost_from or 0) * math.log1p(-min(0.99, train.lost / train.packets)) < math.log(1e-3) for train in good
    ]
    return sum(late) > len(good) / 2


def agreeing(trains: Sequence[Train], rate_bps: float) -> list[Train]:
    """Those that found this rate, and a bucket."""
    return [
        train
        for train in trains
        if not train.void
        and train.rate_bps
        and train.bucket_bytes is not None
        and abs(train.rate_bps / rate_bps - 1) <= HELD_UP
    ]


def policed(good: Sequence[Train], each: int) -> bool:
    """Most of them were."""
    return sum(is_policed(train, each) for train in good) > len(good) / 2


def spread(values: Sequence[float], resolution: float) -> Range:
    """Median of at least two, with Student's interval of 95 %, never narrower than what can be told apart."""
    ordered = sorted(values)
    middle, n = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2, len(ordered)
    mean = math.fsum(ordered) / n
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in ordered) / (n - 1))
    half = max(resolution, float(special.stdtrit(n - 1, 0.975)) * deviation / math.sqrt(n))
    return middle, max(0.0, middle - half), middle + half


def rate_of(good: Sequence[Train], each: int) -> Range:
    """Within a packet of the time it was seen."""
    longest = max(train.steady_ns for train in good)
    return spread([train.rate_bps or 0.0 for train in good], each * 8 * NS_PER_S / longest)


def bucket_of(good: Sequence[Train], each: int) -> Range:
    """Within a packet."""
    return spread([train.bucket_bytes or 0.0 for train in good], each)


def buffer_of(good: Sequence[Train], each: int) -> Range | None:
    """Within a packet; None while fewer than FEWEST saw the end of the queue."""
    seen = [train for train in good if train.buffer_ns is not None]
    if len(seen) < FEWEST:
        return None
    return spread([train.buffer_ns or 0.0 for train in seen], takes_ns(seen[0], each))


def settled(good: Sequence[Train], each: int, deepest_ns: int) -> bool:
    """Whether more trains would hardly say more. Queues are looked for down to `deepest_ns`."""
    if len(good) < FEWEST:
        return False
    ranges = [(bucket_of(good, each), 1.5 * each)]
    takes = takes_ns(good[0], each)
    if not policed(good, each) and _ends(good, deepest_ns):
        buffer = buffer_of(good, each)
        if buffer is None:
            return False
        ranges.append((buffer, 1.5 * takes))
    return all(high - value <= max(CLOSE * value, least) for (value, _, high), least in ranges)


def _ends(good: Sequence[Train], deepest_ns: int) -> bool:
    """Whether the queue's end was seen, or still may be."""
    return any(train.buffer_ns is not None for train in good) or max(train.rise_ns or 0 for train in good) < deepest_ns


# ---- the whole


def result(
    direction: Direction, trains: Sequence[Train], ended: str, *, counts: str, packet_bytes: int, overhead: int,
    idle: Idle | None, outlasted: bool,
) -> TrainsResult:  # fmt: skip
    """What is known of the limit in this direction; `ended` as `session.train.Trains.ended`."""
    each = packet_bytes + overhead
    found = TrainsResult(
        direction,
        tuple(trains),
        counts=counts,
        packet_bytes=packet_bytes,
        overhead_bytes=overhead,
        idle_ns=idle.delay_ns if idle else None,
        noise_ns=round(idle.noise_ns) if idle else None,
    )
    if ended == "none":
        least = max(min(train.rate_bps or 0.0, train.offered_bps) for train in trains if not lossy(train))
        longest = max(train.received for train in trains) * each
        because = f"nothing slower than the {format_rate(round(least))} that were sent was met, in trains of up to {format_size(longest)}"
        return replace(found, kind="none", at_least_bps=least, because=because)
    limited = [train for train in trains if train.purpose in {"long", "again"} and train.rate_bps]
    good = alike(agreeing(limited, limited[-1].rate_bps or 0.0), each) if limited else []
    if len(good) < FEWEST:
        return replace(found, because=_unnamed(trains, ended))
    kind, because = _kind(good, each, [train for train in trains if train.purpose == "below" and not train.void])
    if kind == "unknown":
        return replace(found, because=because)
    buffer = buffer_of(good, each) if kind == "shaper" else None
    slow = [train for train in good if is_gentle(train)]
    risen = max(train.rise_ns or 0 for train in slow or good) if kind == "shaper" and buffer is None else None
    return replace(
        found,
        kind=kind,
        rate_bps=rate_of(good, each),
        bucket_bytes=bucket_of(good, each),
        buffer_ns=buffer,
        buffer_at_least_ns=risen,
        outlasted=outlasted,
        slow_too=bool(slow),
        because=because if outlasted else f"{because}; too short a train to rule out a deeper bucket behind it",
    )


def _unnamed(trains: Sequence[Train], ended: str) -> str:
    said = _UNNAMED.get(ended, "the trains did not agree")
    voids = [train.void for train in trains if train.void]
    if not voids:
        return said
    most = max(voids, key=voids.count)
    return f"{most} ({voids.count(most)} of {len(trains)} trains)" + ("" if ended == "void" else f"; {said}")


def _kind(good: Sequence[Train], each: int, below: Sequence[Train]) -> tuple[str, str]:
    n = len(good)
    lost = max(train.lost / train.packets for train in good)
    if not policed(good, each):
        if any(is_policed(train, each) for train in good):
            return "unknown", f"of {n} trains some lost packets at once and some only after waiting"
        risen = max(train.buffer_ns or train.rise_ns or 0 for train in good)
        then = ", then packets were dropped" if any(train.buffer_ns is not None for train in good) else ""
        return "shaper", f"the delay rose by {format_duration(round(risen))} in {n} trains{then}"
    flat = sorted(abs(train.rise_ns or 0) for train in good)[n // 2]
    said = f"up to {format_ratio(lost)} lost in {n} trains while the delay stayed within {format_duration(flat)}"
    if not below and began_late(good):
        return "policer", f"{said}, from the moment the bucket was empty"
    if not below:
        return "unknown", f"{said}; whether a train just below that rate loses too was not seen"
    under = below[-1].lost / below[-1].packets
    if under > max(LOST, lost / 4):
        return "unknown", f"{said}, but a train just below that rate lost {format_ratio(under)} too: loss, not a limit"
    return "policer", f"{said}, and {format_ratio(under)} just below that rate"
