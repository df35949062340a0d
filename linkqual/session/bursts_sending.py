"""The sender of training bursts: what leaves when, what is sent again, which burst is complete. Floor 2, pure.

Instants are monotonic ns of the sender. `departures` says what may leave now; the driver sends it and tells when the host had
taken it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from linkqual.session.bursts import INCOMPLETE, SENT, Shape
from linkqual.wire.bursts import Complete, Missing

Longs = npt.NDArray[np.int64]
CATCH_UP_NS = 500_000  # a sender that was held makes up for at most so much: more would be a burst of the host's own
_LEAST_PROBE_NS = 10_000_000
_NEVER = 2**62


class Departures(NamedTuple):
    """Packets of one burst that leave now, in order."""

    burst: int
    indices: Longs
    copies: Longs


@dataclass(slots=True)
class _Open:
    """A burst under way. `start_ns`: its first departure. `left_ns`: when each packet left last, 0: not yet."""

    burst: int
    start_ns: int
    late: bool
    left_ns: Longs
    copies: Longs
    unsent: int = 0  # index of the first packet not sent yet
    repeats: deque[int] = field(default_factory=deque)
    repeated: int = 0
    held_ns: int = 0
    probe_ns: int = _NEVER  # when its last packet is sent again because nothing was heard
    probes: int = 0


class Sending:
    """The bursts of one direction. `base_rtt_ns`: no report can speak of a packet that left later than that before it came."""

    def __init__(self, shape: Shape, base_rtt_ns: int, now_ns: int) -> None:
        self.shape = shape
        self.repeats_left = shape.most_repeats
        self.started = 0  # bursts begun
        self._rtt_ns = base_rtt_ns
        self._open: dict[int, _Open] = {}
        self._due_ns = now_ns  # start of the next burst
        self._blocked = False  # it is due, and the one before is not complete
        self._pace_ns = float(now_ns)  # before this nothing leaves
        self._rows: list[tuple[int, ...]] = []

    @property
    def done(self) -> bool:
        """Every burst is complete or given up, or too much had to be sent again."""
        return not self._open and (self.started >= self.shape.bursts or self.repeats_left <= 0)

    def rows(self) -> npt.NDArray[np.void]:
        """What became of bursts since the last call, in the order they were settled; dtype SENT."""
        rows, self._rows = self._rows, []
        return np.array(rows, SENT)

    # ---- what leaves

    def departures(self, now_ns: int, most: int) -> Departures | None:
        """Up to `most` packets of one burst that may leave now; None: nothing may."""
        self._give_up(now_ns)
        self._begin(now_ns)
        self._probe(now_ns)
        if now_ns < self._pace_ns:
            return None
        gap = self.shape.gap_ns
        pace: float = max(self._pace_ns, now_ns - max(CATCH_UP_NS, 2 * gap))
        most = min(most, int((now_ns - pace) / gap) + 1)
        again = [one for one in self._open.values() if one.repeats]
        if again and self.repeats_left > 0:
            one, indices = again[0], self._again(again[0], most)
        else:
            fresh = [one for one in self._open.values() if one.unsent < self.shape.packets]
            if not fresh:
                return None
            one = fresh[0]
            if not one.unsent:  # it may have waited for those before it, and makes up for none of their delay
                one.start_ns, pace, most = now_ns, now_ns, 1
            indices = np.arange(one.unsent, min(one.unsent + most, self.shape.packets))
            one.unsent += len(indices)
        one.left_ns[indices] = now_ns
        one.copies[indices] += 1
        self._await(one, now_ns)
        self._pace_ns = pace + len(indices) * gap
        return Departures(one.burst, indices, one.copies[indices])

    def sent(self, taken: Departures, now_ns: int) -> None:
        """The host took these only now."""
        one = self._open.get(taken.burst)
        if one is None:
            return
        one.left_ns[taken.indices] = now_ns
        if one.unsent == self.shape.packets and taken.copies[-1] == 0:
            planned = one.start_ns + (self.shape.packets - 1) * self.shape.gap_ns
            one.held_ns = max(round(now_ns - planned), 0)

    def next_ns(self, together: int = 1) -> float:
        """When there may be something to do next: when so many packets, or all that are left of a burst, may leave at once."""
        waiting = [float(one.start_ns + self.shape.patience_ns) for one in self._open.values()]
        waiting += [float(one.probe_ns) for one in self._open.values()]
        if self._may_begin():
            waiting.append(float(self._due_ns))
        again = self.repeats_left > 0
        left = max(
            (len(one.repeats) * again + self.shape.packets - one.unsent for one in self._open.values()), default=0
        )
        if left:
            waiting.append(self._pace_ns + (min(left, together) - 1) * self.shape.gap_ns)
        return min(waiting, default=float(_NEVER))

    # ---- what is heard

    def complete(self, reply: Complete, now_ns: int) -> None:
        """The burst has arrived; `now_ns`: when its confirmation did. The time the receiver took to write it is no part."""
        one = self._open.pop(reply.burst, None)
        if one is not None:
            self._settle(one, max(now_ns - one.start_ns - reply.hold_ns, 0))

    def missing(self, reply: Missing, now_ns: int) -> None:
        """Send again what is missing, once in a round trip: a packet that left later may still be on its way."""
        one = self._open.get(reply.burst)
        if one is None:
            return
        waiting = set(one.repeats)
        for first, number in reply.ranges:
            wanted = np.arange(first, min(first + number, one.unsent))
            old = now_ns - one.left_ns[wanted] >= self._rtt_ns
            one.repeats.extend(index for index in wanted[old].tolist() if index not in waiting)
        one.probes = 0
        self._await(one, now_ns)

    # ---- inside

    def _may_begin(self) -> bool:
        free = self.shape.overlap or not self._open
        return free and self.started < self.shape.bursts and self.repeats_left > 0

    def _begin(self, now_ns: int) -> None:
        if now_ns < self._due_ns or self.started >= self.shape.bursts:
            return
        if not self._may_begin():
            self._blocked = True
            return
        packets = self.shape.packets
        self._open[self.started] = _Open(
            self.started, now_ns, self._blocked, np.zeros(packets, np.int64), np.full(packets, -1)
        )
        self.started += 1
        self._due_ns = (now_ns if self._blocked else self._due_ns) + self.shape.period_ns
        self._blocked = False
        self._pace_ns = max(self._pace_ns, float(now_ns))

    def _again(self, one: _Open, most: int) -> Longs:
        count = min(most, len(one.repeats), self.repeats_left)
        one.repeated += count
        self.repeats_left -= count
        return np.array([one.repeats.popleft() for _ in range(count)], np.int64)

    def _await(self, one: _Open, now_ns: int) -> None:
        """When its last packet is sent again, should nothing be heard: the burst, or the answer, may be lost as a whole."""
        if one.repeats or one.unsent < self.shape.packets:
            one.probe_ns = _NEVER
        else:
            patience = _LEAST_PROBE_NS + 2 * (self._rtt_ns + self.shape.quiet_ns)
            one.probe_ns = now_ns + (patience << min(one.probes, 10))

    def _probe(self, now_ns: int) -> None:
        for one in self._open.values():
            if now_ns >= one.probe_ns:
                one.probes, one.probe_ns = one.probes + 1, _NEVER
                one.repeats.append(self.shape.packets - 1)

    def _give_up(self, now_ns: int) -> None:
        for one in [each for each in self._open.values() if now_ns - each.start_ns >= self.shape.patience_ns]:
            del self._open[one.burst]
            self._settle(one, INCOMPLETE)

    def _settle(self, one: _Open, completion_ns: int) -> None:
        self._rows.append((one.burst, completion_ns, one.held_ns, one.repeated, int(one.late), one.unsent))
