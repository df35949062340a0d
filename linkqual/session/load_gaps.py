"""Which packets of a phase were lost together: jumps of the sequence number, looked at again once late packets had their time. Floor 2, pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from linkqual.session.arrivals import Arrivals
from linkqual.stats.loss_events import MAX_EVENTS

_SETTLED = 1 << 16  # packets: where gaps are many, one so far behind the newest packet is filled no more
_MOST_OPEN = 4 * MAX_EVENTS

Longs = npt.NDArray[np.int64]
Event = list[int]  # first, packets, instants between which the first and the last of them left


class Gaps:
    """At most MAX_EVENTS of them are kept, the first ones."""

    def __init__(self) -> None:
        self._open: list[tuple[int, int, int, int]] = []  # first, last, departures of the neighbours
        self._found: list[Event] = []
        self._settle_at = 0  # number of the newest packet
        self._last_ns: int | None = None  # departure of the newest packet

    def none(self, sent_ns: int) -> None:
        """The next packets came as they left, the last of them at this instant."""
        self._last_ns = sent_ns

    def look(self, seqs: Longs, sent_ns: Longs, seen: Arrivals) -> None:
        """Packets that have just come, before `seen` notes them."""
        if len(self._found) >= MAX_EVENTS:
            return
        newest = np.maximum.accumulate(np.concatenate([[seen.next_seq - 1], seqs]))
        jumps = np.flatnonzero(seqs > newest[:-1] + 1)
        for at in jumps[: _MOST_OPEN - len(self._open)].tolist():
            first = int(newest[at]) + 1
            before = self._left(seqs, sent_ns, at, first - 1)
            self._open.append((first, int(seqs[at]) - 1, before, int(sent_ns[at])))
        top = int(seqs.argmax())
        if seqs[top] >= seen.next_seq:
            self._last_ns = int(sent_ns[top])
        if len(self._open) > MAX_EVENTS and seen.next_seq >= self._settle_at:
            self._settle(seen, seen.next_seq - _SETTLED)
            self._settle_at = seen.next_seq + _SETTLED

    def _left(self, seqs: Longs, sent_ns: Longs, at: int, neighbour: int) -> int:
        here = np.flatnonzero(seqs[:at] == neighbour)
        if len(here):
            return int(sent_ns[here[0]])
        return self._last_ns if self._last_ns is not None else int(sent_ns[at])

    def _settle(self, seen: Arrivals, before: int) -> None:
        waiting = []
        for gap in self._open:
            if gap[1] < before:
                self._found += _missing(gap, seen)
            else:
                waiting.append(gap)
        self._open = waiting
        del self._found[MAX_EVENTS:]

    def events(self, seen: Arrivals) -> list[Event]:
        """Of all gaps as they are now: [first number, packets, from, to]; the first ones, in order."""
        found = [*self._found, *(event for gap in self._open for event in _missing(gap, seen))]
        return sorted(found)[:MAX_EVENTS]


def _missing(gap: tuple[int, int, int, int], seen: Arrivals) -> list[Event]:
    """What of a gap was never filled, one event for each run; its instants lie evenly between those of its neighbours."""
    first, last, before_ns, after_ns = gap
    begin = max(first, seen.oldest)
    if begin > last:  # so long ago that nobody knows
        return [[first, last - first + 1, before_ns, after_ns]]
    count = last - begin + 1
    bits = np.unpackbits(np.frombuffer(seen.bitmap(begin, count), np.uint8), bitorder="little")[:count]
    edges = np.flatnonzero(np.diff(np.concatenate([[1], bits, [1]]))).reshape(-1, 2)
    step = (after_ns - before_ns) / (last - first + 2)

    def left(seq: int) -> int:
        return before_ns + round(step * (seq - first + 1))

    return [[begin + a, b - a, left(begin + a), left(begin + b - 1)] for a, b in edges[:MAX_EVENTS].tolist()]
