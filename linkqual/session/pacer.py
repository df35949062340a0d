"""When packets are due: schedules as exact functions of the packet's number, in nanoseconds since the start of the session.

periodic   every 1/rate (RFC 3432)
poisson    gaps drawn from the exponential distribution of the same mean (RFC 2330 s11.1.1): sees what periodic probes may be in step with
dithered   one packet an interval, at a uniform place within it: as unpredictable in phase as Poisson, without its clumps

Floor 2, pure: randomness comes from the seed, time is an argument.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

from linkqual.errors import UsageError
from linkqual.units import NS_PER_S

SCHEDULES = ("periodic", "poisson", "dithered")
_BLOCK = 4096
_MAX_DENOMINATOR = 10**6

Offsets = npt.NDArray[np.int64]


class Pacer(Protocol):
    """Calls go forward: `first` and `sent` never decrease by more than a block of 4096."""

    def offsets_ns(self, first: int, count: int) -> Offsets:
        """When packets first .. first + count - 1 are due, ns since the start, never decreasing."""

    def due(self, elapsed_ns: int, sent: int, limit: int) -> int:
        """How many packets beyond the `sent` first ones are due after `elapsed_ns`, at most `limit`."""


class Periodic:
    """Packet i is due at floor(i * interval), exact for any rational interval and any i: no drift in a run of days."""

    def __init__(self, rate_pps: float) -> None:
        interval = _interval(rate_pps)
        self._numerator, self._denominator = interval.numerator, interval.denominator
        self._whole, self._rest = divmod(self._numerator, self._denominator)

    def offsets_ns(self, first: int, count: int) -> Offsets:
        """See Pacer. Products stay below 2^63 up to 9e12 packets."""
        index = np.arange(first, first + count, dtype=np.int64)
        return index * self._whole + index * self._rest // self._denominator if self._rest else index * self._whole

    def due(self, elapsed_ns: int, sent: int, limit: int) -> int:
        """See Pacer: the number of i with floor(i * interval) <= elapsed is ceil((elapsed + 1) / interval)."""
        if elapsed_ns < 0:
            return 0
        total = -(-(elapsed_ns + 1) * self._denominator // self._numerator)
        return max(0, min(limit, total - sent))


class _Drawn(ABC):
    """A schedule drawn block by block, so that memory stays flat; the draws of block k depend on the seed and k alone."""

    def __init__(self, rate_pps: float, seed: int) -> None:
        self._interval = float(_interval(rate_pps))
        self._seed = seed
        self._first = 0
        self._next_block = 0
        self._offsets = np.empty(0, np.int64)
        self._grow()
        self._grow()

    @abstractmethod
    def _draw(self, generator: np.random.Generator, block: int) -> npt.NDArray[np.float64]:
        """The departures of a block, ns from the start, ascending."""

    def _grow(self) -> None:
        drawn = self._draw(np.random.default_rng((self._seed, self._next_block)), self._next_block)
        if len(self._offsets) >= 2 * _BLOCK:
            self._offsets = self._offsets[_BLOCK:]
            self._first += _BLOCK
        self._offsets = np.concatenate([self._offsets, drawn.astype(np.int64)])
        self._next_block += 1

    def offsets_ns(self, first: int, count: int) -> Offsets:
        """See Pacer; `count` is at most 4096."""
        while first + count > self._first + len(self._offsets):
            self._grow()
        at = first - self._first
        return self._offsets[at : at + count]

    def due(self, elapsed_ns: int, sent: int, limit: int) -> int:
        """See Pacer; `limit` is at most 4096."""
        offsets = self.offsets_ns(sent, limit)
        return int(np.searchsorted(offsets, elapsed_ns, side="right"))


class Poisson(_Drawn):
    """Exponential gaps; the first packet is due after the first of them."""

    def __init__(self, rate_pps: float, seed: int) -> None:
        self._end = 0.0
        super().__init__(rate_pps, seed)

    def _draw(self, generator: np.random.Generator, block: int) -> npt.NDArray[np.float64]:
        times = self._end + np.cumsum(generator.exponential(self._interval, _BLOCK))
        self._end = float(times[-1])
        return times


class Dithered(_Drawn):
    """Packet i is due at (i + U_i) * interval, U_i uniform in [0, 1)."""

    def _draw(self, generator: np.random.Generator, block: int) -> npt.NDArray[np.float64]:
        places: npt.NDArray[np.float64] = np.arange(block * _BLOCK, (block + 1) * _BLOCK) + generator.random(_BLOCK)
        return places * self._interval


class Unpaced:
    """Everything is due at once: the cap on packets in flight alone sets the speed (closed loop)."""

    def offsets_ns(self, first: int, count: int) -> Offsets:
        """See Pacer."""
        return np.zeros(count, np.int64)

    def due(self, elapsed_ns: int, sent: int, limit: int) -> int:
        """See Pacer."""
        return limit if elapsed_ns >= 0 else 0


def pacer(schedule: str, rate_pps: float, seed: int) -> Pacer:
    """A schedule by name; rate 0 is the closed loop. Raises UsageError."""
    if rate_pps == 0:
        return Unpaced()
    if schedule == "poisson":
        return Poisson(rate_pps, seed)
    if schedule == "dithered":
        return Dithered(rate_pps, seed)
    if schedule == "periodic":
        return Periodic(rate_pps)
    raise UsageError(f"there is no schedule {schedule!r}", hint=f"choose one of {', '.join(SCHEDULES)}")


def _interval(rate_pps: float) -> Fraction:
    """Nanoseconds between two packets, to a millionth of a nanosecond."""
    if not 0 < rate_pps <= NS_PER_S:
        raise UsageError(f"{rate_pps} packets a second cannot be paced", hint="choose a rate above 0, at most 1e9")
    return (NS_PER_S / Fraction(rate_pps)).limit_denominator(_MAX_DENOMINATOR)
