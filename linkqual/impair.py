"""What one direction of a line does to packets: delay, jitter, loss, duplication, reordering, rate. Seeded, exact. Floor 2, pure.

The same description works on columns (`through`: millions of packets a second, for the line in memory) and packet by packet
(`one`: for the lab's pump). Loss, duplication, reordering and jitter that may reorder are decided by the order of arrival
alone; jitter that keeps the order is decided by the time since the first packet. Each is drawn from a stream of its own, in
blocks of fixed size: with one seed the decisions are the same however the packets are cut into calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from math import log
from statistics import NormalDist

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng

from linkqual.bottleneck import OVERHEAD, Bottleneck, Flags, Ints, Rate

__all__ = [
    "LOST",
    "OVERHEAD",
    "Bottleneck",
    "Distribution",
    "Flags",
    "Impairer",
    "Impairment",
    "Ints",
    "Jitter",
    "Loss",
    "Passage",
    "Rate",
    "Reordering",
]

BLOCK = 8192  # decisions drawn at once
LOST = -1  # `Impairer.one` instead of an instant
_NEVER = -(2**62)


class Distribution(StrEnum):
    """Of the delay that jitter adds. All start at zero: a line is never faster than its constant delay."""

    UNIFORM = "uniform"  # between 0 and the spread
    NORMAL = "normal"  # around half the spread, sigma a sixth of it, nothing outside 0 .. spread
    EXPONENTIAL = "exponential"  # with the spread as its mean, no upper end


@dataclass(frozen=True, slots=True)
class Jitter:
    """Delay added to the constant one.

    `keep_order`: a value holds for `hold_ns` (a queue somewhere fills and empties), and nobody overtakes. Otherwise every
    packet draws its own value, and packets closer together than the spread change places.
    """

    distribution: Distribution = Distribution.UNIFORM
    spread_ns: int = 0
    keep_order: bool = True
    hold_ns: int = 0  # 0: twenty times the spread

    @property
    def holds_ns(self) -> int:
        """For how long one value holds when the order is kept."""
        return max(1, self.hold_ns or 20 * self.spread_ns)

    def draw(self, generator: Generator, count: int) -> Ints:
        """`count` values in ns."""
        if self.distribution is Distribution.UNIFORM:
            return (generator.random(count) * self.spread_ns).astype(np.int64)
        if self.distribution is Distribution.EXPONENTIAL:
            return generator.exponential(self.spread_ns, count).astype(np.int64)
        values = generator.normal(self.spread_ns / 2, self.spread_ns / 6, count)
        while (outside := (values < 0) | (values > self.spread_ns)).any():
            values[outside] = generator.normal(self.spread_ns / 2, self.spread_ns / 6, int(outside.sum()))
        return values.astype(np.int64)

    def quantile(self, q: float) -> float:
        """The value in ns that the share `q` of the draws does not exceed."""
        if self.distribution is Distribution.UNIFORM or self.spread_ns == 0:
            return q * self.spread_ns
        if self.distribution is Distribution.EXPONENTIAL:
            return -self.spread_ns * log(1 - q)
        normal = NormalDist(self.spread_ns / 2, self.spread_ns / 6)
        low, high = normal.cdf(0), normal.cdf(self.spread_ns)
        return normal.inv_cdf(low + q * (high - low))


@dataclass(frozen=True, slots=True)
class Loss:
    """Which packets vanish: a ratio (bursts of 1: independent; else a simple Gilbert model with that mean run), or exact places.

    Gilbert 1960 with loss 1 in the bad state: leaving bad has probability 1/burst, entering it ratio / (burst (1 - ratio)).
    """

    ratio: float = 0.0
    burst: float = 1.0  # mean number of packets lost in a row
    every: int = 0  # every Nth packet, exactly
    positions: tuple[int, ...] = ()  # these packets, counted from 0 in the order of arrival, exactly
    member: int = 0  # only what this member of the link's bundle carries, counted from 1, is lost; 0: of all

    @property
    def expected(self) -> float:
        """The ratio in the long run of what it concerns (exact places: 0)."""
        return 1 / self.every if self.every else self.ratio

    @property
    def happens(self) -> bool:
        """Whether any packet can be lost."""
        return bool(self.ratio or self.every or self.positions)


@dataclass(frozen=True, slots=True)
class Reordering:
    """A packet held back by `by_ns` while the others pass it."""

    ratio: float = 0.0
    by_ns: int = 0


@dataclass(frozen=True, slots=True)
class Impairment:
    """Everything one direction of one link does. The default does nothing."""

    delay_ns: int = 0
    jitter: Jitter = field(default_factory=Jitter)
    loss: Loss = field(default_factory=Loss)
    duplicate: float = 0.0  # share of the packets that arrive twice
    reordering: Reordering = field(default_factory=Reordering)
    rate: Rate | None = None
    remark: tuple[tuple[int, int], ...] = ()  # (DSCP, the one it is changed to)
    bleach: bool = False  # every packet arrives as Not-ECT

    @property
    def pumped(self) -> bool:
        """Whether anything but the rate and markings happens here."""
        return bool(
            self.delay_ns or self.jitter.spread_ns or self.loss.happens or self.duplicate or self.reordering.ratio
        )

    @property
    def loss_ratio(self) -> float:
        """Of all its packets, in the long run, where every member of a bundle carries as many."""
        share = self.rate.members if self.loss.member and self.rate else 1
        return self.loss.expected / share

    @property
    def keeps_order(self) -> bool:
        """Whether no packet can overtake another."""
        return not self.reordering.ratio and (self.jitter.keep_order or not self.jitter.spread_ns)

    def delay_quantile(self, q: float) -> float:
        """Delay in ns that the share `q` of the packets does not exceed, without queueing."""
        return self.delay_ns + self.jitter.quantile(q)


class _LossStream:
    """Blocks of loss decisions in the order of arrival."""

    def __init__(self, loss: Loss, generator: Generator) -> None:
        self.loss, self._generator, self._drawn = loss, generator, 0
        self._positions = np.array(sorted(loss.positions), np.int64)
        self._bad = loss.burst > 1 and bool(generator.random() < loss.ratio)
        self._left = self._sojourn() if loss.burst > 1 and loss.ratio else 0

    def _sojourn(self) -> int:
        ratio, burst = self.loss.ratio, self.loss.burst
        leave = 1 / burst if self._bad else min(1.0, ratio / (burst * (1 - ratio)))
        return int(self._generator.geometric(leave))

    def _gilbert(self) -> Flags:
        lost = np.zeros(BLOCK, bool)
        at = 0
        while at < BLOCK:
            if self._left == 0:
                self._bad = not self._bad
                self._left = self._sojourn()
            run = min(self._left, BLOCK - at)
            lost[at : at + run] = self._bad
            at, self._left = at + run, self._left - run
        return lost

    def block(self) -> Flags:
        first, self._drawn = self._drawn, self._drawn + BLOCK
        if self.loss.every:
            return np.equal(np.arange(first + 1, first + BLOCK + 1) % self.loss.every, 0)
        if self.loss.positions:
            lost = np.zeros(BLOCK, bool)
            low, high = np.searchsorted(self._positions, (first, first + BLOCK))
            lost[self._positions[low:high] - first] = True
            return lost
        if not self.loss.ratio:
            return np.zeros(BLOCK, bool)
        if self.loss.burst > 1:
            return self._gilbert()
        return np.less(self._generator.random(BLOCK), self.loss.ratio)


class _HeldJitter:
    """Jitter that keeps the order: the k-th draw holds during the k-th interval since the first packet."""

    def __init__(self, jitter: Jitter, generator: Generator) -> None:
        self._jitter, self._generator = jitter, generator
        self._start: int | None = None
        self._base = 0  # interval of the first value kept
        self._values = jitter.draw(generator, BLOCK)

    def at(self, times: Ints) -> Ints:
        """Values for ascending instants."""
        if self._start is None:
            self._start = int(times[0])
        k = (times - self._start) // self._jitter.holds_ns
        while k[-1] >= self._base + len(self._values):
            keep = max(0, min(int(k[0]) - self._base, len(self._values)))
            self._values = np.concatenate((self._values[keep:], self._jitter.draw(self._generator, BLOCK)))
            self._base += keep
        return self._values[k - self._base]

    def current(self, now: int) -> tuple[int, int]:
        """The value at `now` and the instant it ends."""
        value = int(self.at(np.array([now], np.int64))[0])
        assert self._start is not None
        hold = self._jitter.holds_ns
        return value, self._start + ((now - self._start) // hold + 1) * hold


@dataclass(frozen=True, slots=True)
class Passage:
    """What became of n packets, in the order they arrived. `due_ns` of a lost one is undefined."""

    due_ns: Ints
    lost: Flags
    copied: Flags


class Impairer:
    """The state of an `Impairment` under way. Counts: `seen`, `dropped`, `duplicated`."""

    def __init__(self, impairment: Impairment, seed: int | SeedSequence) -> None:
        seeds = seed if isinstance(seed, SeedSequence) else SeedSequence(seed)
        loss, self._jitter_draws, self._copy_draws, self._hold_draws = map(default_rng, seeds.spawn(4))
        self.impairment = impairment
        self.seen = self.dropped = self.duplicated = 0
        jitter = impairment.jitter
        self._loss = _LossStream(impairment.loss, loss)
        self._held = _HeldJitter(jitter, self._jitter_draws) if jitter.spread_ns and jitter.keep_order else None
        self._clamps = jitter.keep_order or not jitter.spread_ns
        self._last_due = _NEVER
        self._block: tuple[Flags, Ints, Flags, Ints] = self._draw()
        self._at = 0
        self._lists: tuple[list[bool], list[int], list[bool], list[int]] | None = None
        self._value, self._value_ends = 0, _NEVER

    def _draw(self) -> tuple[Flags, Ints, Flags, Ints]:
        """The next BLOCK decisions: lost, own jitter, copied, held back by (ns)."""
        what = self.impairment
        own = np.zeros(BLOCK, np.int64)
        if what.jitter.spread_ns and not what.jitter.keep_order:
            own = what.jitter.draw(self._jitter_draws, BLOCK)
        copied = self._copy_draws.random(BLOCK) < what.duplicate if what.duplicate else np.zeros(BLOCK, bool)
        back = np.zeros(BLOCK, np.int64)
        if what.reordering.ratio:
            back[self._hold_draws.random(BLOCK) < what.reordering.ratio] = what.reordering.by_ns
        return self._loss.block(), own, copied, back

    def _take(self, count: int) -> tuple[Flags, Ints, Flags, Ints]:
        parts = []
        while count:
            if self._at == BLOCK:
                self._block, self._at, self._lists = self._draw(), 0, None
            step = min(count, BLOCK - self._at)
            parts.append([column[self._at : self._at + step] for column in self._block])
            self._at, count = self._at + step, count - step
        lost, own, copied, back = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return lost, own, copied, back

    def through(self, times: Ints, members: Ints | None = None) -> Passage:
        """`times`: instants of arrival in ns, ascending; `members`: those that carry them, from 0, where a loss is of one member's.
        Returns when each leaves, in the same order.
        """
        if len(times) == 0:
            return Passage(times, np.zeros(0, bool), np.zeros(0, bool))
        lost, own, copied, back = self._take(len(times))
        if members is not None and self.impairment.loss.member:
            lost = lost & (members == self.impairment.loss.member - 1)
        due = times + self.impairment.delay_ns + own
        if self._held:
            due = due + self._held.at(times)
        if self._clamps:
            bound = np.where(lost | (back > 0), _NEVER, due)
            bound[0] = max(int(bound[0]), self._last_due)
            due = np.maximum(due, np.maximum.accumulate(bound))
            self._last_due = max(self._last_due, int(bound.max()))
        copied = copied & ~lost
        self.seen += len(times)
        self.dropped += int(lost.sum())
        self.duplicated += int(copied.sum())
        return Passage(due + back, lost, copied)

    def one(self, now: int, safe: bool = False) -> tuple[int, bool]:
        """One packet arriving at `now`: (instant it leaves or LOST, whether a copy follows). The same decisions as `through`;
        `safe`: another member carries it than the one that loses.
        """
        if self._at == BLOCK:
            self._block, self._at, self._lists = self._draw(), 0, None
        if self._lists is None:
            lost_, own_, copied_, back_ = self._block
            self._lists = (lost_.tolist(), own_.tolist(), copied_.tolist(), back_.tolist())
        lost, own, copied, back = self._lists
        at = self._at
        self._at = at + 1
        self.seen += 1
        if lost[at] and not safe:
            self.dropped += 1
            return LOST, False
        due = now + self.impairment.delay_ns + own[at]
        if self._held:
            if now >= self._value_ends:
                self._value, self._value_ends = self._held.current(now)
            due += self._value
        if self._clamps:
            if due < self._last_due:
                due = self._last_due
            elif not back[at]:
                self._last_due = due
        if copied[at]:
            self.duplicated += 1
        return due + back[at], copied[at]
