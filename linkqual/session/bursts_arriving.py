"""The receiver of training bursts: what has arrived, what to answer, which first copies never came. Floor 2, pure.

Instants are monotonic ns of the receiver.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from linkqual.session.bursts import Shape, arrived
from linkqual.wire.bursts import MAX_RANGES, Missing

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_MOST_WAITS = 6  # doublings of the silence between two reports
_MOST_KEPT = 4096  # bursts looked after at a time
_MOST_NOTED, _LEAST_KEPT = 1 << 26, 4  # packets noted of all of them, two octets each; but so many bursts at least
_NEVER = 2**62


@dataclass(slots=True)
class _Open:
    """A burst of which packets have come. `due_ns`: when what is missing is reported."""

    burst: int
    began_ns: int
    here: Bools
    firsts: Bools  # whose first copy came
    left: int  # packets still missing
    due_ns: int = _NEVER
    reports: int = 0


class Arriving:
    """The bursts of one direction."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.counters = {"received": 0, "repeats": 0, "duplicates": 0, "strangers": 0}
        self._open: dict[int, _Open] = {}
        overlapping = 2 * (1 + shape.patience_ns // shape.period_ns) if shape.overlap else 0
        self._keep = min(_LEAST_KEPT + overlapping, _MOST_KEPT, max(_LEAST_KEPT, _MOST_NOTED // shape.packets))
        self._newest = -1
        self._settled = -1  # the newest burst whose row was given
        self._rows: list[tuple[int, int, list[int]]] = []

    def add(self, bursts: Longs, indices: Longs, copies: Longs, now_ns: int) -> list[int]:
        """Packets that came, in order; gives the bursts to confirm: complete now, or complete before and sent again."""
        sound = (bursts >= 0) & (bursts < self.shape.bursts) & (indices >= 0) & (indices < self.shape.packets)
        self.counters["strangers"] += int((~sound).sum())
        done = []
        for burst in np.unique(bursts[sound]).tolist():
            one = self._find(burst, now_ns)
            if one is None:
                self.counters["duplicates"] += int((bursts[sound] == burst).sum())
                continue
            mine = sound & (bursts == burst)
            self._enter(one, indices[mine], copies[mine])
            if not one.left:
                one.due_ns = _NEVER
                done.append(burst)
            else:
                one.due_ns = now_ns + (self.shape.quiet_ns << one.reports)
        return done

    def due(self, now_ns: int) -> list[Missing]:
        """What is to be reported now: bursts whose packets have stopped coming, for as long as anyone may wait for them."""
        found = []
        for one in self._open.values():
            if now_ns < one.due_ns:
                continue
            if now_ns - one.began_ns > self.shape.patience_ns:
                one.due_ns = _NEVER
                continue
            one.reports = min(one.reports + 1, _MOST_WAITS)
            one.due_ns = now_ns + (self.shape.quiet_ns << one.reports)
            found.append(Missing(one.burst, _ranges(~one.here)))
        return found

    def next_ns(self) -> int:
        """When `due` may have something."""
        return min((one.due_ns for one in self._open.values()), default=_NEVER)

    def rows(self, *, final: bool = False) -> npt.NDArray[np.void]:
        """Bursts settled since the last call (`final`: all), dtype `arrived`: no first copy of theirs is waited for any more."""
        oldest = self._newest + 1 if final else self._newest - self._keep + 1
        for burst in sorted(burst for burst in self._open if burst < oldest):
            self._settle(self._open.pop(burst))
        rows, self._rows = self._rows, []
        return np.array(rows, arrived(self.shape.positions))

    # ---- inside

    def _find(self, burst: int, now_ns: int) -> _Open | None:
        """The burst, begun now if it is new; None: settled long ago."""
        one = self._open.get(burst)
        if one is not None or burst <= self._newest - self._keep or burst <= self._settled:
            return one
        packets = self.shape.packets
        one = _Open(burst, now_ns, np.zeros(packets, np.bool_), np.zeros(packets, np.bool_), packets)
        self._open[burst] = one
        self._newest = max(self._newest, burst)
        while len(self._open) > self._keep:
            self._settle(self._open.pop(min(self._open)))
        return one

    def _enter(self, one: _Open, indices: Longs, copies: Longs) -> None:
        new = np.unique(indices[~one.here[indices]])
        one.here[new] = True
        one.left -= len(new)
        one.firsts[indices[copies == 0]] = True
        if len(new):
            one.reports = 0
        self.counters["received"] += len(indices)
        self.counters["repeats"] += int((copies > 0).sum())
        self.counters["duplicates"] += len(indices) - len(new)

    def _settle(self, one: _Open) -> None:
        lost = self.shape.position(np.flatnonzero(~one.firsts))
        by_position = np.bincount(lost, minlength=self.shape.positions)
        self._rows.append((one.burst, int(one.firsts.sum()), by_position.tolist()))
        self._settled = max(self._settled, one.burst)


def _ranges(absent: Bools) -> tuple[tuple[int, int], ...]:
    """Stretches of packets that are not here, the first MAX_RANGES of them."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], absent, [False])).astype(np.int8)))
    starts, stops = edges[::2][:MAX_RANGES].tolist(), edges[1::2][:MAX_RANGES].tolist()
    return tuple((start, stop - start) for start, stop in zip(starts, stops, strict=True))
