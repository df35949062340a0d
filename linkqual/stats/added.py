"""What a load adds to one-way delay: each packet sent beside it against the median of those sent just before it.

An offset between both clocks is in both and cancels; that the clocks drifted meanwhile shows in the packets sent after the load.
Floor 1, pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from linkqual.model import AddedDelay, Direction, Histogram, Objective, Tally
from linkqual.records import ABSENT, Fate, Records
from linkqual.stats import delay, tally, trials
from linkqual.stats.histogram import LogLinear

METRIC = "added_delay"
_WAYS = (Direction.FORWARD, Direction.REVERSE)

Ints = npt.NDArray[np.int64]


class Added:
    """Takes rows in order of sequence number: first the idle ones, then those under load, then perhaps idle ones again."""

    def __init__(self, objectives: Sequence[Objective] = ()) -> None:
        """`objectives`: of the metric `added_delay`; others are passed over."""
        self._objectives = [one for one in objectives if one.metric == METRIC and one.limit is not None]
        self._before: dict[Direction, list[Ints]] = {way: [] for way in Direction}
        self._after: dict[Direction, list[Ints]] = {way: [] for way in Direction}
        self._idle: dict[Direction, tuple[int, int]] = {}  # median, n
        self._delay = {way: LogLinear() for way in _WAYS}
        self._over = {one.key: Tally() for one in self._objectives}

    def before(self, rows: Records) -> None:
        """Sent before the load began."""
        _gather(self._before, rows)

    def after(self, rows: Records) -> None:
        """Sent after it ended and the queues had time to drain."""
        _gather(self._after, rows)

    def loaded(self, rows: Records) -> None:
        """Sent under load. Without an idle packet of a direction there is nothing to compare with."""
        rows = trials.departed(rows)
        if not rows.size:
            return
        self._idle = self._idle or {way: found for way in _WAYS if (found := _median(self._before[way]))}
        for way, (idle_ns, _) in self._idle.items():
            delays = delay.delays(rows, way)
            above = np.where(delays == ABSENT, ABSENT, delays - idle_ns)
            self._delay[way].add(np.where(above == ABSENT, ABSENT, np.maximum(above, 0)))
            self._count(way, rows, above)

    def _count(self, way: Direction, rows: Records, above: Ints) -> None:
        for one in self._objectives:
            if one.direction is way:
                bad = trials.of_sent(rows["fate"], replace(one, metric="one_way_delay"), {}, above)
                self._over[one.key] = tally.merge(self._over[one.key], tally.tally(bad))

    def data(self) -> dict[str, AddedDelay]:
        """By direction; what was not seen idle, or not under load, is left out."""
        found = {}
        for way, (idle_ns, n) in self._idle.items():
            later = _median(self._after[way])
            over = {one.key: self._over[one.key] for one in self._objectives if one.direction is way}
            data = self._delay[way].data()
            if data.n:
                found[str(way)] = AddedDelay(idle_ns, n, later[0] if later else None, data, over)
        return found

    def idle_round_trip(self) -> Histogram:
        """Of the packets sent before the load."""
        found = LogLinear()
        for values in self._before[Direction.ROUND_TRIP]:
            found.add(values)
        return found.data()


def _gather(into: dict[Direction, list[Ints]], rows: Records) -> None:
    arrived = rows[rows["fate"] != Fate.UNSENT]
    for way, kept in into.items():
        values = delay.delays(arrived, way)
        kept.append(values[values != ABSENT])


def _median(kept: list[Ints]) -> tuple[int, int] | None:
    values = np.concatenate(kept) if kept else np.zeros(0, np.int64)
    return (int(np.median(values)), int(values.size)) if values.size else None
