"""How well trains find a token bucket: lines in memory whose bucket is known, hundreds of them, with noisy stamps, jitter and stalled hosts.

.venv/bin/python benchmarks/buckets.py [--lines 400] [--seed 1]: a table; shares within 1 % (rate), 15 % (bucket), 15 % (buffer), and of the right kind.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field, replace

import numpy as np

from linkqual.bottleneck import OVERHEAD, Bottleneck, Rate
from linkqual.impair import Impairer, Impairment, Jitter
from linkqual.model import Direction, TrainsResult
from linkqual.session.load_phase import Phase
from linkqual.session.train import Bounds, Trains
from linkqual.session.train_result import result
from linkqual.stats.arrival_curve import Sent, idle, read

MBIT, NS = 1_000_000, 10**9
WITHIN = {"rate": 0.01, "bucket": 0.15, "buffer": 0.15}


@dataclass
class MemoryLine:
    """A line in memory that carries phases one after the other; `fastest_bps` is what its sender can at most (IP layer)."""

    rate: Rate | None
    seed: int = 0
    fastest_bps: float = 1e9
    delay_ns: int = 4_000_000
    jitter_ns: int = 0
    noise_ns: int = 20_000  # of each stamp
    stalls: float = 0.0  # a second, of the sender, 1 to 4 ms each
    loss: float = 0.0
    drift: float = 30e-6
    now: float = 0.0
    ahead: Rate | None = None  # a wider choke point before it
    queues: list[Bottleneck] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = np.random.default_rng(self.seed)
        self.queues = [Bottleneck(rate) for rate in (self.ahead, self.rate) if rate]
        self.impairer = Impairer(Impairment(self.delay_ns, Jitter(spread_ns=self.jitter_ns)), self.seed)

    def run(self, phase: Phase) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Numbers, departures and arrivals of what came through, by the clocks of both ends."""
        size = phase.sizes[0][0]
        pace = min(phase.rate_bps or self.fastest_bps, self.fastest_bps)
        gap = size * 8 * NS / pace
        number = np.arange(phase.packets)
        due = self.now + (number + self.chance.uniform(-phase.jitter, phase.jitter, phase.packets)) * gap
        for _ in range(self.chance.poisson(self.stalls * phase.packets * gap / NS)):
            begin = self.chance.uniform(due[0], due[-1])
            due[due > begin] += self.chance.uniform(1e6, 4e6)  # never made good
        left = np.maximum.accumulate(due).astype(np.int64)
        self.now = float(left[-1]) + NS / 2
        kept = self.chance.random(phase.packets) >= self.loss
        number, at = number[kept], left[kept]
        at = self.impairer.through(at).due_ns
        for queue in self.queues:
            out, lost = queue.through(at, np.full(len(at), size))
            number, at = number[~lost], out[~lost]
        noisy = np.abs(self.chance.normal(0, self.noise_ns, (2, len(at)))).astype(np.int64)
        departed = left[number] - noisy[0]
        return (
            number,
            departed,
            np.maximum.accumulate(np.round(at * (1 + self.drift)).astype(np.int64) + noisy[1]) + 10**15,
        )


def measure(line: MemoryLine, bounds: Bounds, counts: str = "l1") -> tuple[TrainsResult, Trains]:
    """All trains it takes on a line."""
    trains = Trains(bounds)
    while step := trains.next():
        line.now += step.wait_ns
        _, departed, arrived = line.run(step.idle)
        base = idle(arrived - departed)
        number, departed, arrived = line.run(step.train)
        sent = Sent(step.train.name, step.train.packets, bounds.each)
        trains.took(read(sent, number, departed, arrived, base), base)
    found = result(
        Direction.FORWARD, trains.taken, trains.ended, counts=counts, packet_bytes=bounds.packet_bytes,
        overhead=bounds.overhead_bytes, idle=trains.idle, outlasted=trains.outlasted,
    )  # fmt: skip
    return found, trains


def random_line(seed: int) -> tuple[MemoryLine, Bounds]:
    """Of the ranges promised: 20 to 400 Mbit/s, buckets of 16 KB (policers: 50) to 1 MB, buffers of 5 to 200 ms."""
    chance = np.random.default_rng(seed)

    def between(low: float, high: float) -> float:
        return float(np.exp(chance.uniform(np.log(low), np.log(high))))

    bps = round(between(20, 400)) * MBIT
    policer = bool(chance.random() < 0.4)
    counts = str(chance.choice(list(OVERHEAD)))
    rate = Rate(
        bps, policer, round(between(50e3 if policer else 16e3, 1e6)), round(between(5e-3, 0.2) * bps / 8), counts
    )
    jitter = int(chance.choice([0, 0, 200_000, 1_000_000]))
    noise = int(between(5e3, 50e3))
    wider = Rate(round(bps * between(1.3, 4))) if chance.random() < 0.2 else None
    fastest = between(900e6, 4e9)
    line = MemoryLine(
        rate, seed, fastest, jitter_ns=jitter, noise_ns=noise, stalls=float(chance.choice([0, 2])), ahead=wider
    )
    contracted = bps * float(chance.choice([1, 1.5, 3]))
    known = bool(chance.random() < 0.7)
    bounds = Bounds(
        round(max(60e6, 2 * contracted / 8)),
        2 * contracted if known else 1e10,
        contracted if known else 0.0,
        1500,
        OVERHEAD[counts],
    )
    return line, bounds


@dataclass(frozen=True)
class Row:
    """One line: what was found, relative errors (None: not found, or nothing to find), whether the interval held the truth."""

    seed: int
    line: MemoryLine
    found: TrainsResult
    ended: str

    @property
    def wanted(self) -> str:
        """The right kind."""
        return "policer" if self.line.rate.policer else "shaper"

    def pairs(self) -> dict[str, tuple[tuple[float, float, float] | None, float]]:
        """What was found, and the truth, of everything this line has."""
        rate, found = self.line.rate, self.found
        pairs = {"rate": (found.rate_bps, rate.bps), "bucket": (found.bucket_bytes, rate.bucket_bytes)}
        if not rate.policer:
            pairs["buffer"] = (found.buffer_ns, rate.buffer_bytes * 8 * NS / rate.bps)
        return pairs

    def wrong(self) -> bool:
        """Whether anything found is off."""
        off = [name for name, (got, true) in self.pairs().items() if got and abs(got[0] / true - 1) > WITHIN[name]]
        return self.found.kind != self.wanted or bool(off)

    def __str__(self) -> str:
        """For a look at what went wrong."""
        errors = {name: got and round(got[0] / true - 1, 4) for name, (got, true) in self.pairs().items()}
        lines = [f"{self.seed}: {self.line}", f"   {self.found.kind} ({self.ended}): {self.found.because} {errors}"]
        lines.extend(f"   {replace(train, curve=())}" for train in self.found.trains)
        return "\n".join(lines)


def table(rows: list[Row]) -> str:
    """Shares by what was found."""
    right = [row for row in rows if row.found.kind == row.wanted]
    unknown = sum(row.found.kind == "unknown" for row in rows)
    said = [
        f"{len(rows)} lines: {len(right)} named rightly, {unknown} unknown, {len(rows) - len(right) - unknown} wrongly"
    ]
    for name, limit in WITHIN.items():
        pairs = [row.pairs()[name] for row in right if name in row.pairs()]
        errors = np.array([abs(got[0] / true - 1) for got, true in pairs if got])
        held = np.mean([got[1] <= true <= got[2] for got, true in pairs if got])
        said.append(
            f"{name:7} {len(errors)} of {len(pairs)} found, {np.mean(errors <= limit):6.1%} within {limit:.0%}; "
            f"error median {np.median(errors):.2%}, p95 {np.quantile(errors, 0.95):.2%}, max {errors.max():.2%}; the interval holds the truth in {held:.0%}"
        )
    spent = [sum(train.packets for train in row.found.trains) * 1.5e-3 for row in rows]
    said.append(f"sent: median {np.median(spent):.0f} MB, at most {max(spent):.0f} MB")
    return "\n".join(said)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="show every line with a wrong answer")
    options = parser.parse_args()
    rows = []
    for seed in range(options.seed, options.seed + options.lines):
        line, bounds = random_line(seed)
        found, trains = measure(line, bounds)
        rows.append(Row(seed, line, found, trains.ended))
        if options.verbose and rows[-1].wrong():
            print(rows[-1])
    steady = [row for row in rows if row.line.jitter_ns < 1_000_000]
    print(table(rows), "", "without jitter of 1 ms:", table(steady), sep="\n")


if __name__ == "__main__":
    main()
