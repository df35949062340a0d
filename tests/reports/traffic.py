"""Seeded packets of an imagined line, reduced to the Summary a measurement would have stored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from linkqual.model import Direction, Histogram, LossEvent, Slice, Summary, Tally
from linkqual.stats.histogram import Even, LogLinear

MS = 1_000_000
SECOND = 1_000_000_000
Delays = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Traffic:
    """What became of each packet: one-way delays (ns, as the clocks would show them) and where it was lost."""

    start_ns: int
    rate_pps: float
    forward: Delays
    reverse: Delays
    lost_forward: Mask
    lost_reverse: Mask

    @property
    def seconds(self) -> float:
        return len(self.forward) / self.rate_pps


def traffic(
    seed: int,
    packets: int,
    rate_pps: float,
    *,
    start_ns: int,
    forward_ns: int = 5_400_000,
    reverse_ns: int = 5_600_000,
    jitter_ns: float = 18_000,
    spikes: float = 2e-4,
    bursts: tuple[tuple[float, int, str], ...] = (),
    clock_offset_ns: int = 0,
) -> Traffic:
    """`bursts`: (where in the run 0..1, packets lost together, "forward" or "reverse")."""
    rng = np.random.default_rng(seed)

    def delays(base: int) -> Delays:
        busy = 1 + 0.6 * np.sin(np.linspace(0, 9, packets))
        values = base + rng.gamma(1.6, jitter_ns, packets) * busy
        spiky = np.flatnonzero(rng.random(packets) < spikes)
        values[spiky] += rng.gamma(2.0, jitter_ns * 6, len(spiky))
        return values.astype(np.int64)

    lost = {"forward": np.zeros(packets, bool), "reverse": np.zeros(packets, bool)}
    for where, size, direction in bursts:
        first = int(where * (packets - size))
        lost[direction][first : first + size] = True
    lost["reverse"] &= ~lost["forward"]
    return Traffic(
        start_ns,
        rate_pps,
        delays(forward_ns) + clock_offset_ns,
        delays(reverse_ns) - clock_offset_ns,
        lost["forward"],
        lost["reverse"],
    )


def histogram(values: Delays) -> Histogram:
    counter = LogLinear()
    counter.add(values)
    return counter.data()


def even(values: Delays) -> Histogram:
    counter = Even()
    counter.add(values)
    return counter.data()


def tally(bad: Mask) -> Tally:
    """Runs of bad trials, gap 1."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], bad.view(np.int8), [0]))))
    runs = [int(end - start) for start, end in edges.reshape(-1, 2)]
    where = np.flatnonzero(bad)
    inner: dict[int, int] = {}
    for size in runs[1:-1]:
        inner[size] = inner.get(size, 0) + 1
    return Tally(
        n=len(bad),
        bad=int(bad.sum()),
        gap=1,
        head=int(where[0]) if len(where) else len(bad),
        tail=len(bad) - 1 - int(where[-1]) if len(where) else 0,
        first=runs[0] if runs else 0,
        last=runs[-1] if len(runs) > 1 else 0,
        sizes=tuple(sorted(inner.items())),
    )


def summary(t: Traffic, slices: int = 240) -> Summary:
    back = ~t.lost_forward & ~t.lost_reverse
    step = SECOND / t.rate_pps
    ipdv = {
        str(Direction.FORWARD): histogram(np.abs(np.diff(t.forward[~t.lost_forward]))),
        str(Direction.REVERSE): histogram(np.abs(np.diff(t.reverse[back]))),
    }
    return Summary(
        sent=len(back),
        received=int(back.sum()),
        lost_forward=int(t.lost_forward.sum()),
        lost_reverse=int(t.lost_reverse.sum()),
        first_sent_ns=t.start_ns,
        last_sent_ns=t.start_ns + int(step * (len(back) - 1)),
        round_trip_delay=histogram((t.forward + t.reverse)[back]),
        forward_delay=histogram(t.forward[~t.lost_forward]),
        reverse_delay=histogram(t.reverse[back]),
        residence=histogram(np.full(int(back.sum()), 6_200, np.int64)),
        variation={
            "forward": even(t.forward[~t.lost_forward]),
            "reverse": even(t.reverse[back]),
            "round-trip": even((t.forward + t.reverse)[back]),
        },
        ipdv=ipdv,
        jitter_rfc3550_ns={"forward": 21_340.0, "reverse": 22_180.0},
        loss={"forward": tally(t.lost_forward), "reverse": tally(t.lost_reverse[~t.lost_forward])},
        loss_events=tuple(
            event
            for direction, lost in ((Direction.FORWARD, t.lost_forward), (Direction.REVERSE, t.lost_reverse))
            for event in _events(t, direction, lost)
        ),
        slices=tuple(_slice(t, part) for part in np.array_split(np.arange(len(back)), slices)),
        slice_ns=int(len(back) / slices * step),
        forward_hops={"61": len(back)},
        reverse_hops={"60": int(back.sum())},
    )


def _events(t: Traffic, direction: Direction, lost: Mask) -> list[LossEvent]:
    edges = np.flatnonzero(np.diff(np.concatenate(([0], lost.view(np.int8), [0])))).reshape(-1, 2)
    step = SECOND / t.rate_pps
    return [
        LossEvent(direction, t.start_ns + int(first * step), int((end - first) * step), int(first), int(end - first))
        for first, end in edges
    ]


def _slice(t: Traffic, part: npt.NDArray[np.intp]) -> Slice:
    start_ns = t.start_ns + int(part[0] * SECOND / t.rate_pps)
    forward_lost, reverse_lost = t.lost_forward[part], t.lost_reverse[part]
    back = ~forward_lost & ~reverse_lost
    counts = (len(part), int(forward_lost.sum()), int(reverse_lost.sum()), 0)
    if not back.any():
        return Slice(start_ns, *counts)
    rtt = np.sort((t.forward[part] + t.reverse[part])[back])
    forward, reverse = np.sort(t.forward[part][back]), np.sort(t.reverse[part][back])
    p99 = int(np.ceil(0.99 * len(rtt))) - 1
    return Slice(
        start_ns,
        *counts,
        int(rtt[0]),
        int(rtt[len(rtt) // 2]),
        int(rtt[p99]),
        int(rtt[-1]),
        int(forward[p99] - t.forward.min()),
        int(reverse[p99] - t.reverse.min()),
    )
