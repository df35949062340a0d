"""Good and bad trials in order, and the events the bad ones form; two halves merge to exactly what the whole gives.

Losses come in bursts, and a burst is one accident, not many. So beside the ratio of bad trials we keep the *events*: runs of bad
trials, or clusters with fewer than `gap` good ones between two bad ones. From the sizes L of the events follow the design effect
E[L^2] / E[L] (by how much fewer independent trials there were); `stats.boundaries` bounds the mean size. Floor 1, pure.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from linkqual.model import Tally
from linkqual.stats.confidence import outage_rate_bounds, ratio_interval

FEW_EVENTS = 5  # below, the sizes seen say too little about the sizes to come

Bools = npt.NDArray[np.bool_]


def tally(bad: npt.ArrayLike, gap: int = 1) -> Tally:
    """Reduce trials in order (True: bad). `gap`: good trials that end an event; 1: an event is a run."""
    if gap < 1:
        raise ValueError(f"gap {gap}: at least one good trial ends an event")
    column = np.asarray(bad, dtype=np.bool_)
    n = int(column.size)
    where = np.flatnonzero(column)
    if not where.size:
        return Tally(n=n, gap=gap, head=n, tail=n)
    ends = np.flatnonzero(np.diff(where) > gap)  # diff - 1 good ones lie between
    sizes = np.diff(np.concatenate([[0], ends + 1, [where.size]])).tolist()
    return Tally(
        n=n,
        bad=int(where.size),
        gap=gap,
        head=int(where[0]),
        tail=n - 1 - int(where[-1]),
        first=sizes[0],
        last=sizes[-1] if len(sizes) > 1 else 0,
        sizes=_counted(Counter(sizes[1:-1])),
    )


def _counted(sizes: Counter[int]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(sizes.items()))


def merge(a: Tally, b: Tally) -> Tally:
    """The tally of a's trials followed by b's. Associative; an empty tally changes nothing."""
    if not a.n or not b.n:
        return a if a.n else b
    if a.gap != b.gap:
        raise ValueError(f"tallies with gaps {a.gap} and {b.gap} speak of different events")
    n = a.n + b.n
    if not a.bad and not b.bad:
        return Tally(n=n, gap=a.gap, head=n, tail=n)
    if not a.bad:
        return replace(b, n=n, head=a.n + b.head)
    if not b.bad:
        return replace(a, n=n, tail=a.tail + b.n)
    first, last, inner = _joined(a, b)
    return Tally(n, a.bad + b.bad, a.gap, a.head, b.tail, first, last, _counted(inner))


def _joined(a: Tally, b: Tally) -> tuple[int, int, Counter[int]]:
    """First, last and inner events of two halves that both have some."""
    left = [a.first, a.last] if a.last else [a.first]
    right = [b.first, b.last] if b.last else [b.first]
    row = [*left[:-1], left[-1] + right[0], *right[1:]] if a.tail + b.head < a.gap else left + right
    inner = Counter(dict(a.sizes))
    inner.update(dict(b.sizes))
    inner.update(row[1:-1])
    return row[0], row[-1] if len(row) > 1 else 0, inner


def events(t: Tally) -> int:
    """How many events the bad trials form."""
    return sum(count for _, count in t.sizes) + (t.first > 0) + (t.last > 0)


def event_sizes(t: Tally) -> dict[int, int]:
    """Bad trials in an event -> how many such events, ascending."""
    sizes = Counter(dict(t.sizes))
    sizes.update(size for size in (t.first, t.last) if size)
    return dict(sorted(sizes.items()))


def mean_event(t: Tally) -> float | None:
    """Mean size of an event; None without any."""
    return t.bad / events(t) if t.bad else None


def design_effect(t: Tally) -> float:
    """E[L^2] / E[L] over the events, at least 1: trials divided by it are worth that many independent ones.

    Right while losses are rare; nothing bad seen says nothing, and gives 1.
    """
    if not t.bad:
        return 1.0
    return sum(size * size * count for size, count in event_sizes(t).items()) / t.bad


def effective(t: Tally, assumed: float = 1.0) -> tuple[float, float]:
    """(k, n) of the independent trials this sample is worth: both divided by the design effect, or by `assumed` if that is more."""
    divisor = max(design_effect(t), assumed)
    return t.bad / divisor, t.n / divisor


@dataclass(frozen=True, slots=True)
class LossInterval:
    """A two-sided interval of the ratio of bad trials, and how it was made: "exact", "effective sample" or "events"."""

    low: float
    high: float
    method: str
    divisor: float = 1.0  # design effect, or the mean event size


def concentrated(t: Tally) -> bool:
    """Whether all loss sits in a few bursts: fewer than FEW_EVENTS events, some of them with more than one bad trial."""
    return 0 < events(t) < FEW_EVENTS and t.bad > events(t)


def interval(t: Tally, confidence: float = 0.95, assumed: float = 1.0) -> LossInterval:
    """Interval of the ratio of bad trials that knows of bursts.

    Single losses: Clopper-Pearson as it is. Bursts, many: Clopper-Pearson on the effective sample. Bursts, fewer than FEW_EVENTS:
    the interval of the event rate (chi-square) times the mean size seen; the sizes themselves are then too few to bound.
    """
    if concentrated(t):
        size = max(t.bad / events(t), assumed)
        tail = (1 + confidence) / 2
        low, high = outage_rate_bounds(events(t), t.n, tail)
        return LossInterval(low * size, min(high * size, 1.0), "events", size)
    divisor = max(design_effect(t), assumed)
    if divisor == 1.0:
        return LossInterval(*ratio_interval(t.bad, t.n, confidence), "exact")
    return LossInterval(*ratio_interval(t.bad / divisor, t.n / divisor, confidence), "effective sample", divisor)
