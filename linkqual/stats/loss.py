"""Loss: ratios, patterns (RFC 3357), the Gilbert model, and which way packets were lost by the numbers in the replies alone.

Floor 1, pure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from linkqual.model import Direction, Summary

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def ratio(summary: Summary, direction: Direction) -> float | None:
    """Loss ratio (RFC 7680, RFC 6673) of packets whose direction of loss is known; None when nothing was tried.

    Forward: lost forward / sent. Reverse: lost on the way back / reached the far end (conditional, RFC 6673 section 7).
    """
    lost, n = {
        Direction.FORWARD: (summary.lost_forward, summary.sent),
        Direction.REVERSE: (summary.lost_reverse, summary.received + summary.lost_reverse),
        Direction.ROUND_TRIP: (summary.sent - summary.received, summary.sent),
    }[direction]
    return lost / n if n else None


# ---- patterns, RFC 3357


def loss_distances(lost_seq: npt.ArrayLike) -> Ints:
    """Distance in sequence number of each lost packet to the lost one before it; 0 for the first (section 4.1)."""
    seq = np.asarray(lost_seq, np.int64)
    return np.diff(seq, prepend=seq[:1])


def loss_periods(lost_seq: npt.ArrayLike) -> Ints:
    """Which loss period, 1, 2, ..., each lost packet belongs to: a period is a run of consecutive losses (section 4.2)."""
    distances = loss_distances(lost_seq)
    return np.cumsum((distances != 1).astype(np.int64)) if distances.size else distances


def noticeable_rate(lost_seq: npt.ArrayLike, delta: int) -> float | None:
    """Share of losses at most `delta` from the one before (section 5.1); the first, at distance 0, is none of them."""
    distances = loss_distances(lost_seq)
    if not distances.size:
        return None
    return float(((distances > 0) & (distances <= delta)).mean())


def period_lengths(lost_seq: npt.ArrayLike) -> Ints:
    """Lost packets in each loss period (section 5.3)."""
    periods = loss_periods(lost_seq)
    return np.bincount(periods)[1:].astype(np.int64) if periods.size else periods


def inter_period_lengths(lost_seq: npt.ArrayLike) -> Ints:
    """Distance from the end of each loss period to the start of the next; 0 for the first (section 5.4)."""
    distances = loss_distances(lost_seq)
    starts: Ints = distances[distances != 1]
    return starts


# ---- the Gilbert model


@dataclass(frozen=True, slots=True)
class Gilbert:
    """A chain of a good state, in which nothing is lost, and a bad one, in which all is. `p`: good to bad, `r`: bad to good."""

    p: float
    r: float

    @property
    def loss_ratio(self) -> float:
        """In the long run."""
        return self.p / (self.p + self.r)

    @property
    def mean_burst(self) -> float:
        """The mean loss period."""
        return 1 / self.r

    @property
    def design_effect(self) -> float:
        """Variance of the loss ratio against independent losses, (1 + rho) / (1 - rho) with rho = 1 - p - r."""
        return (2 - self.p - self.r) / (self.p + self.r)


def gilbert(bad: npt.ArrayLike) -> Gilbert | None:
    """The simple Gilbert model of trials in order, by counting transitions; None unless both states are left at least once."""
    column = np.asarray(bad, np.bool_)
    here, following = column[:-1], column[1:]
    broke, mended = int((~here & following).sum()), int((here & ~following).sum())
    if not broke or not mended:
        return None
    return Gilbert(p=broke / int((~here).sum()), r=mended / int(here.sum()))


# ---- direction of loss from the numbers in the replies


@dataclass(frozen=True, slots=True)
class DirectionalLoss:
    """Losses by direction. `unattributed`: after the last reply, where sequence numbers say nothing (0 with counters)."""

    sent: int
    received: int
    forward: int
    reverse: int
    unattributed: int
    gaps_forward: tuple[int, ...] = ()  # between two replies that follow each other in the reflector's count
    gaps_reverse: tuple[int, ...] = ()


def unwrapped(numbers: npt.ArrayLike, bits: int = 32) -> Ints:
    """Counters that wrap at 2**bits as a running number; neighbours must be less than half a turn apart."""
    column = np.asarray(numbers, np.int64)
    if not column.size:
        return column
    turn, half = 1 << bits, 1 << (bits - 1)
    steps = (np.diff(column) + half) % turn - half
    return np.concatenate([column[:1], column[0] + np.cumsum(steps)])


def directional(
    sender_seq: npt.ArrayLike,
    reflector_seq: npt.ArrayLike,
    sent: int,
    far_received: int | None = None,
    far_sent: int | None = None,
) -> DirectionalLoss:
    """Where packets were lost when all one has is the pairs (s, r) in the replies of a stateful reflector (RFC 8762 section 4).

    `sender_seq`, `reflector_seq`: as they came, duplicates and 32-bit wraps included; both counters start at 0. Between two replies
    consecutive in r, (s2 - s1) - (r2 - r1) were lost forward and (r2 - r1) - 1 on the way back; the totals rest on the largest
    numbers and so survive reordering. `far_received`, `far_sent`: the reflector's own counters at the end, if known; they
    settle what was lost after the last reply.
    """
    s, r = unwrapped(sender_seq), unwrapped(reflector_seq)
    r, once = np.unique(
        r, return_index=True
    )  # a reply copied on the way back has one r, a packet copied forward several
    s = s[once]
    kept = np.sort(np.unique(s, return_index=True)[1])
    received = int(kept.size)
    forward_gaps = tuple((np.diff(s[kept]) - np.diff(r[kept])).tolist())
    reverse_gaps = tuple((np.diff(r[kept]) - 1).tolist())
    if far_received is not None and far_sent is not None:
        return DirectionalLoss(sent, received, sent - far_received, far_sent - received, 0, forward_gaps, reverse_gaps)
    if not received:
        return DirectionalLoss(sent, 0, 0, 0, sent)
    last_s, last_r = int(s.max()) + 1, int(r.max()) + 1
    copies = int(s.size - kept.size)
    return DirectionalLoss(
        sent, received, last_s - last_r + copies, last_r - received - copies, sent - last_s, forward_gaps, reverse_gaps
    )
