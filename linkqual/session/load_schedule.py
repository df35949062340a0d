"""When each packet of a phase is due and how long it is: exact functions of its number. Floor 2, pure.

Sizes come in a fixed cycle in which each is spread as evenly as its weight allows (as the repeated patterns of RFC 6985), so that the
rate is that of the phase in every stretch, and the bytes of the first n packets are known without asking.
"""

from __future__ import annotations

from math import gcd

import numpy as np
import numpy.typing as npt

from linkqual.session.load_phase import Phase
from linkqual.units import NS_PER_S

_LONGEST_CYCLE = 1024
_BLOCK = 4096
_BITS_NS = 8 * NS_PER_S
_GOLDEN = 0x9E3779B1  # 2^32 by the golden ratio: its multiples fill the range evenly and never in step with anything

Longs = npt.NDArray[np.int64]


def cycle(sizes: tuple[tuple[int, int], ...]) -> Longs:
    """Bytes of the packets of one round; weights that need a longer round than 1024 packets are rounded."""
    common = gcd(*(weight for _, weight in sizes))
    weights = [weight // common for _, weight in sizes]
    total = sum(weights)
    if total > _LONGEST_CYCLE:
        weights = [max(1, round(weight * _LONGEST_CYCLE / total)) for weight in weights]
    places = np.concatenate([(np.arange(weight) + 0.5) / weight for weight in weights])
    each = np.repeat([size for size, _ in sizes], weights).astype(np.int64)
    return each[np.argsort(places, kind="stable")]


def flow_of(turn: int, flows: int) -> int:
    """Which flow the packet or train of this turn belongs to: each once in every round, beginning elsewhere in each.

    Always in the same order, flows that share a full queue would meet it at the same point of every round, and one of them get nothing.
    """
    round_, place = divmod(turn, flows)
    return (place + ((round_ * _GOLDEN & 0xFFFF_FFFF) * flows >> 32)) % flows


class Schedule:
    """Times are ns since the phase began."""

    def __init__(self, phase: Phase, seed: int = 0) -> None:
        self._rate, self._jitter, self._seed = phase.rate_bps, phase.jitter, seed
        self._cycle = cycle(phase.sizes)
        self._before = np.concatenate([[0], np.cumsum(self._cycle)])  # bytes before each packet of a round
        self._round = len(self._cycle)
        self._round_bytes = int(self._before[-1])
        self.alike = int(self._cycle[0]) if self._round == 1 else 0  # bytes of every packet, where they are all alike
        self._drawn: dict[int, npt.NDArray[np.float64]] = {}

    def sizes(self, first: int, count: int) -> Longs:
        """Bytes of the IP packets first .. first + count - 1."""
        return self._cycle[np.arange(first, first + count) % self._round]

    def bytes_before(self, number: int) -> int:
        """IP bytes of the first `number` packets."""
        if self.alike:
            return number * self.alike
        rounds, at = divmod(number, self._round)
        return rounds * self._round_bytes + int(self._before[at])

    def offsets_ns(self, first: int, count: int) -> Longs:
        """When these packets are due, never decreasing; without a rate all at once."""
        if not self._rate:
            return np.zeros(count, np.int64)
        whole, rest = divmod(self.bytes_before(first) * _BITS_NS, self._rate)
        sizes = self.sizes(first, count)
        within = np.cumsum(sizes) - sizes  # bytes: small enough for floats to be exact to the ns
        offsets = whole + np.floor((rest + within * float(_BITS_NS)) / self._rate).astype(np.int64)
        if self._jitter:
            offsets += (self._moves(first, count) * self._jitter * sizes * (_BITS_NS / self._rate)).astype(np.int64)
        return offsets

    def offset_ns(self, number: int) -> int:
        """When one packet is due."""
        if self._jitter:
            return int(self.offsets_ns(number, 1)[0])
        return self.bytes_before(number) * _BITS_NS // self._rate if self._rate else 0

    def due(self, elapsed_ns: int, sent: int, limit: int) -> int:
        """How many packets beyond the `sent` first ones are due by now, at most `limit`."""
        if not self._rate:
            return limit
        allowed = elapsed_ns * self._rate // _BITS_NS
        rounds, rest = divmod(allowed, self._round_bytes)
        within = 1 if self.alike else int(np.searchsorted(self._before[:-1], rest, side="right"))
        number = rounds * self._round + within
        count = min(max(0, number - sent), limit)
        if self._jitter and count:
            count = int(np.searchsorted(self.offsets_ns(sent, count), elapsed_ns, side="right"))
        return count

    def _moves(self, first: int, count: int) -> npt.NDArray[np.float64]:
        """Shares of the gap, from the seed and the packets' numbers alone."""
        parts = []
        while count:
            block, at = divmod(first, _BLOCK)
            if block not in self._drawn:
                self._drawn = {block: np.random.default_rng((self._seed, block)).random(_BLOCK)}
            part = self._drawn[block][at : at + count]
            parts.append(part)
            first, count = first + len(part), count - len(part)
        return np.concatenate(parts)


def planned(phase: Phase) -> int | None:
    """Packets of the whole phase; None: as many as the host sends in its time."""
    if not phase.rate_bps or not phase.duration_ns:
        return phase.packets or None
    number = Schedule(Phase("", phase.rate_bps, phase.duration_ns, sizes=phase.sizes)).due(
        phase.duration_ns - 1, 0, 1 << 62
    )
    return min(number, phase.packets) if phase.packets else number
