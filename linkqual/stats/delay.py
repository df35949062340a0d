"""Delays from the four stamps of every packet: T1 sent, T2 reached the far end, T3 reply sent, T4 reply received.

Columns are int64 nanoseconds aligned with the rows of the packet table, ABSENT where a delay is undefined. Nothing is clipped: a
negative one-way delay is evidence about two clocks, not about a line. Floor 1, pure.

Stamps of unequal quality. A stamp taken in user space sits some microseconds (on a busy host: milliseconds) beside the kernel's.
In a stream of kernel stamps the far end's T3 may fall back to user space when its Follow-Up was lost with the next reply; the
residence T3 - T2 would then be short and the line would be charged for the far host. Such rows (`unfit`) stay received, and are
left out of every delay. The rule looks at one row alone, so it does not depend on how a stream is cut: T1, T2 and T4 are the
kernel's or the NIC's and T3 is not. A caller who knows which stamps to expect passes them instead.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from linkqual.model import Direction
from linkqual.records import ABSENT, Fate, Records, Stamp

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_WITHOUT_T3 = Stamp.T1_KERNEL | Stamp.T2_KERNEL | Stamp.T4_KERNEL


def _good_stamps(records: Records) -> npt.NDArray[np.uint8]:
    """Bits 0..3: T1..T4 are the kernel's or better."""
    stamps = records["stamps"]
    good: npt.NDArray[np.uint8] = (stamps | (stamps >> 4)) & 15
    return good


def unfit(records: Records, expected: Stamp | None = None) -> Bools:
    """Received rows whose stamps are of unequal quality: no delay is taken from them (see the module's head).

    `expected`: stamps every row must have from kernel or NIC (low or high half alike); None: the default rule.
    """
    good = _good_stamps(records)
    received: Bools = records["fate"] == Fate.RECEIVED
    if expected is None:
        lacking: Bools = ((good & int(_WITHOUT_T3)) == int(_WITHOUT_T3)) & ((good & int(Stamp.T3_KERNEL)) == 0)
    else:
        wanted = (int(expected) | int(expected) >> 4) & 15
        lacking = (good & wanted) != wanted
    return received & lacking


def _difference(later: Ints, earlier: Ints, defined: Bools) -> Ints:
    """Difference where both are stamps and `defined` holds."""
    defined = defined & (later != ABSENT) & (earlier != ABSENT)
    with np.errstate(over="ignore"):
        return np.where(defined, later - earlier, ABSENT)


def forward(records: Records, expected: Stamp | None = None) -> Ints:
    """One-way delay T2 - T1 (RFC 7679), clock offset included; of every packet that reached the far end and has its stamp."""
    fate = records["fate"]
    arrived = (fate == Fate.RECEIVED) | (fate == Fate.LOST_REVERSE)
    return _difference(records["far_received_ns"], records["sent_ns"], arrived & ~unfit(records, expected))


def reverse(records: Records, expected: Stamp | None = None) -> Ints:
    """One-way delay T4 - T3 (RFC 7679), minus the clock offset."""
    fit = (records["fate"] == Fate.RECEIVED) & ~unfit(records, expected)
    return _difference(records["received_ns"], records["far_sent_ns"], fit)


def residence(records: Records, expected: Stamp | None = None) -> Ints:
    """T3 - T2: the far host's own time, one clock."""
    fit = (records["fate"] == Fate.RECEIVED) & ~unfit(records, expected)
    return _difference(records["far_sent_ns"], records["far_received_ns"], fit)


def round_trip(records: Records, expected: Stamp | None = None) -> Ints:
    """(T4 - T1) - (T3 - T2), RFC 2681 less the far host's own time; needs no common clock.

    T4 - T1, the far host's time included, where the far end gave no stamps at all: an upper bound.
    """
    fit = (records["fate"] == Fate.RECEIVED) & ~unfit(records, expected)
    whole = _difference(records["received_ns"], records["sent_ns"], fit)
    blind = (records["far_received_ns"] == ABSENT) & (records["far_sent_ns"] == ABSENT)
    return np.where(blind, whole, _difference(whole, residence(records, expected), fit))


_COLUMN = {Direction.FORWARD: forward, Direction.REVERSE: reverse, Direction.ROUND_TRIP: round_trip}


def delays(records: Records, direction: Direction, expected: Stamp | None = None) -> Ints:
    """The delay column of one direction."""
    return _COLUMN[direction](records, expected)


def pdv(delay: Ints, smallest: int | None = None) -> Ints:
    """Packet delay variation D(i) - D_min (RFC 5481 section 4.2), D_min of this column or the one given. A clock offset cancels."""
    defined = delay != ABSENT
    if not defined.any():
        return np.full(delay.shape, ABSENT)
    floor = int(delay[defined].min()) if smallest is None else smallest
    return np.where(defined, delay - floor, ABSENT)


def ipdv(delay: Ints, before: int = ABSENT) -> Ints:
    """Signed D(i) - D(i-1) of packets sent one after the other (RFC 3393); ABSENT where either has no delay.

    `delay`: in sending order, packets that were never sent left out. `before`: the delay of the packet ahead of the first.
    """
    previous = np.concatenate([np.array([before], np.int64), delay[:-1]]) if delay.size else delay
    return _difference(delay, previous, np.ones(delay.shape, np.bool_))


def rfc3550(transit: npt.ArrayLike, jitter: float = 0.0) -> npt.NDArray[np.float64]:
    """Interarrival jitter J after each packet but the first (RFC 3550 section 6.4.1): J += (|D(i-1, i)| - J) / 16.

    `transit`: R - S of the packets in order of arrival, any unit; a clock offset cancels. `jitter`: J before the first pair.
    """
    steps = np.abs(np.diff(np.asarray(transit)))
    return _smoothed(steps.astype(np.float64), jitter)


def _smoothed(steps: npt.NDArray[np.float64], start: float) -> npt.NDArray[np.float64]:
    """J += (x - J) / 16 over a column, in blocks: J(i) = r^(i+1) J(0) + (1/16) sum of r^(i-j) x(j) with r = 15/16."""
    block = 256
    decay = (15 / 16) ** np.arange(1, block + 1)
    kernel = np.tril((15 / 16) ** np.maximum(np.subtract.outer(np.arange(block), np.arange(block)), 0)) / 16
    out = np.empty_like(steps)
    for at in range(0, steps.size, block):
        part = steps[at : at + block]
        out[at : at + part.size] = kernel[: part.size, : part.size] @ part + decay[: part.size] * start
        start = float(out[at + part.size - 1])
    return out
