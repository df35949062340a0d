"""Chains of links in memory, each with its token bucket, which load enters with a TTL: what the search for the narrowest hop meets."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from linkqual.bottleneck import Bottleneck, Rate
from linkqual.model import Direction, NarrowResult
from linkqual.session.load_phase import Phase
from linkqual.session.narrow import MOST_NS, Narrow
from linkqual.session.narrow_result import result
from linkqual.session.prefix_train import ttls
from linkqual.session.train import Bounds

MBIT, NS = 1_000_000, 10**9
KINDS = ("plain", "policer", "delay", "cross")  # that chains in memory have
_OPENING_NS, _HANDLING_NS = (
    NS // 4,
    NS // 8,
)  # until the first train may leave; what each takes besides: silence behind it, and what both ends say
_TRIPS = 5  # of the control channel, for each train
_OTHERS_BYTES = 1000
OTHERS = (0.2, 0.4)  # of the narrowest link, used by others


@dataclass
class MemoryChain:
    """`links` in order; between them routers that drop what has no TTL left. `fastest_bps`: of its sender (IP layer)."""

    links: tuple[Rate, ...]
    seed: int = 0
    fastest_bps: float = 7.5e8
    delay_ns: int = 300_000
    jitter_ns: int = 0  # of the whole way
    noise_ns: int = 15_000  # of each stamp
    stalls: float = 0.0  # a second, of the sender, 1 to 4 ms each
    loss: float = 0.0
    others_bps: float = 0.0  # sent by others all the way, in packets of 1000 bytes (as the links count)
    now: float = 0.0
    queues: list[Bottleneck] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = np.random.default_rng(self.seed)
        self.queues = [Bottleneck(rate) for rate in self.links]

    def run(self, phase: Phase) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Numbers, departures and arrivals of what came through, by the clocks of both ends."""
        size = phase.sizes[0][0]
        gap = size * 8 * NS / min(phase.rate_bps or self.fastest_bps, self.fastest_bps)
        number, size_of = np.arange(phase.packets), np.full(phase.packets, size)
        due = self.now + (number + self.chance.uniform(-phase.jitter, phase.jitter, phase.packets)) * gap
        for _ in range(self.chance.poisson(self.stalls * phase.packets * gap / NS)):
            begin = self.chance.uniform(due[0], due[-1])
            due[due > begin] += self.chance.uniform(1e6, 4e6)
        left = np.maximum.accumulate(due).astype(np.int64)
        begun, self.now = self.now, float(left[-1])
        at, left_ttl = left, ttls(phase, 0, phase.packets)
        left_ttl = np.where(left_ttl == 0, 64, left_ttl)
        kept = self.chance.random(len(at)) >= self.loss
        if self.others_bps:
            theirs = self._others(begun, float(left[-1]))
            at, number = np.concatenate([at, theirs]), np.concatenate([number, np.full(len(theirs), -1)])
            order = np.argsort(at, kind="stable")
            at, number = at[order], number[order]
            size_of, kept = (
                np.where(number < 0, _OTHERS_BYTES, size),
                np.concatenate([kept, np.ones(len(theirs), bool)])[order],
            )
            left_ttl = np.append(left_ttl, 64)  # theirs has the number -1
        for hop, queue in enumerate(self.queues, 1):
            number, at, size_of = number[kept], at[kept], size_of[kept]
            out, lost = queue.through(at, size_of)
            at, kept = out, ~lost & ((left_ttl[number] > hop) | (hop == len(self.queues)))
        kept &= number >= 0
        number, at = number[kept], at[kept]
        noise = np.abs(self.chance.normal(0, self.noise_ns, (2, len(at)))).astype(np.int64)
        late = self.chance.uniform(0, self.jitter_ns, len(at)).astype(np.int64)
        came = np.maximum.accumulate(at + self.delay_ns + late) + noise[1] + 10**15
        self.now = max(self.now, float(at.max(initial=0))) + _HANDLING_NS + (2 * _TRIPS + 1) * self.delay_ns
        return number, left[number] - noise[0], came

    def _others(self, begun: float, ended: float) -> np.ndarray:
        """When packets of others set out meanwhile."""
        gap = (_OTHERS_BYTES + 18) * 8 * NS / self.others_bps
        count = int((ended - begun) / gap)
        return np.sort(begun + (np.arange(count) + self.chance.uniform(-0.5, 0.5, count)) * gap).astype(np.int64)


def measure(chain: MemoryChain, bounds: Bounds, most_ns: int = MOST_NS) -> tuple[NarrowResult, Narrow]:
    """The whole search on a chain; `chain.now` has moved on by the time it took."""
    search, begun = Narrow(bounds, most_ns), chain.now
    chain.now += _OPENING_NS
    while ask := search.next(round(chain.now - begun)):
        chain.now += ask.wait_ns
        search.took(ask.train.packets, *chain.run(ask.train))
    return result(Direction.FORWARD, search, counts="l2"), search


def chain_of(rates: tuple[Rate, ...], kind: str, seed: int) -> MemoryChain:
    """A chain of this kind, whose sender stalls now and then."""
    least = min(rate.bps for rate in rates)
    others = OTHERS[seed % 2] * least if kind == "cross" else 0.0
    delay = {"delay_ns": 12_500_000, "jitter_ns": 1_000_000} if kind == "delay" else {}
    return MemoryChain(rates, seed, stalls=0.5, others_bps=others, **delay)


def random_rates(seed: int, policer: bool = False) -> tuple[Rate, ...]:
    """2 to 6 routers, 20 to 400 Mbit/s, buckets of 8 KB to 1 MB, queues of 20 to 100 ms; a policer (50 KB to 1 MB) is the narrowest link."""
    chance = np.random.default_rng(seed)

    def between(low: float, high: float) -> float:
        return float(np.exp(chance.uniform(np.log(low), np.log(high))))

    bps = [round(between(20, 400) * MBIT) for _ in range(int(chance.integers(3, 8)))]
    made = [
        Rate(each, False, round(between(8e3, 1e6)), round(chance.uniform(0.02, 0.1) * each / 8), "l2") for each in bps
    ]
    if policer:
        at = int(np.argmin(bps))
        made[at] = Rate(bps[at], True, round(between(50e3, 1e6)), 0, "l2")
    return tuple(made)


def right(rates: tuple[Rate, ...], found: NarrowResult, near: float = 0.15) -> bool:
    """Whether the link named is the narrowest, or within `near` of it."""
    least = min(rate.bps for rate in rates)
    return 0 < found.named <= len(rates) and rates[found.named - 1].bps <= (1 + near) * least
