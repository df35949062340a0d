"""Packets in the order they arrived, from chunks in the order they were sent; what is counted in that order, and its edges.

Reordering (RFC 4737) and interarrival jitter (RFC 3550) are defined on arrivals, while the packet table comes in sending order.
`Arrivals` holds back the newest HOLD packets until later ones can no longer slip in before them, and so gives the same answer
however the stream was cut. `joined` merges the edges of two streams: packets that crossed the cut. Floor 1, pure.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from linkqual.model import Edge
from linkqual.records import ABSENT
from linkqual.stats.delay import rfc3550
from linkqual.stats.reorder import reordered

Ints = npt.NDArray[np.int64]
Point = tuple[int, int, int]  # order sent, order arrived, 1 if reordered

HOLD = 16_384  # packets a packet may be displaced by
BATCH = 4 * HOLD
EDGE = 32  # arrivals kept of each end
DECAY = 15 / 16  # RFC 3550 section 6.4.1
MEMORY = 1024  # delays J depends on: what came before weighs (15/16)**1024 = 2e-29


class Arrivals:
    """Counts one direction in order of arrival."""

    def __init__(self, delay_columns: int = 1) -> None:
        """`delay_columns`: how many kinds of delay come along; each has its own RFC 3550 jitter."""
        self._waiting: list[Ints] = []
        self._waiting_rows = 0
        self._newest: int | None = None  # NextExp
        self.count = 0
        self.reordered = 0
        self._first = [ABSENT] * delay_columns  # delay of the first arrival that has one
        self._newest_delays = [np.zeros(0, np.int64)] * delay_columns
        self._head: list[Point] = []
        self._tail: list[Point] = []

    def add(self, sent_order: Ints, arrived_order: Ints, *delays: Ints) -> None:
        """Take packets that arrived; rows whose order is ABSENT are left out."""
        known = (sent_order != ABSENT) & (arrived_order != ABSENT)
        rows = np.stack([arrived_order[known], sent_order[known], *(column[known] for column in delays)])
        self._waiting.append(rows)
        self._waiting_rows += rows.shape[1]
        if self._waiting_rows >= BATCH:
            ready = self._sorted()
            self._waiting = [ready[:, -HOLD:]]
            self._waiting_rows = HOLD
            self._count(ready[:, :-HOLD])

    def closed(self) -> Arrivals:
        """A copy that has counted what is still held back."""
        done = copy.copy(self)
        for name in ("_first", "_newest_delays", "_head", "_tail"):
            setattr(done, name, list(getattr(self, name)))
        if self._waiting:
            done._count(self._sorted())
        done._waiting = []
        return done

    def _sorted(self) -> Ints:
        rows = np.concatenate(self._waiting, axis=1)
        if np.all(rows[0, 1:] >= rows[0, :-1]):
            return rows
        return rows[:, np.argsort(rows[0], kind="stable")]

    def _count(self, rows: Ints) -> None:
        if not rows.shape[1]:
            return
        flags = reordered(rows[1], self._newest)
        newest = int(rows[1].max()) + 1
        self._newest = newest if self._newest is None else max(self._newest, newest)
        self.count += rows.shape[1]
        self.reordered += int(flags.sum())
        for kind, column in enumerate(rows[2:]):
            self._remember(kind, column[column != ABSENT])
        if len(self._head) < EDGE:
            self._head += _points(rows[:, :EDGE], flags[:EDGE])
            del self._head[EDGE:]
        self._tail = (self._tail + _points(rows[:, -EDGE:], flags[-EDGE:]))[-EDGE:]

    def _remember(self, kind: int, delays: Ints) -> None:
        if delays.size and self._first[kind] == ABSENT:
            self._first[kind] = int(delays[0])
        self._newest_delays[kind] = np.concatenate([self._newest_delays[kind], delays[-MEMORY:]])[-MEMORY:]

    def jitter(self, kind: int = 0) -> float:
        """RFC 3550 J after the last arrival; 0.0 before the second."""
        values = rfc3550(self._newest_delays[kind])
        return float(values[-1]) if values.size else 0.0

    def edge(self, kind: int, first_sent_ns: int, last_sent_ns: int, *, points: bool = True) -> Edge:
        """The edge of one kind of delay; delays of the first and last packet *sent* are the caller's to know."""
        return Edge(
            first_sent_ns=_known(first_sent_ns),
            last_sent_ns=_known(last_sent_ns),
            first_arrived_ns=_known(self._first[kind]),
            last_arrived_ns=int(self._newest_delays[kind][-1]) if self._newest_delays[kind].size else None,
            head=tuple(self._head) if points else (),
            tail=tuple(self._tail) if points else (),
        )


def _known(delay_ns: int) -> int | None:
    return None if delay_ns == ABSENT else delay_ns


def _points(rows: Ints, flags: npt.NDArray[np.bool_]) -> list[Point]:
    return list(zip(rows[1].tolist(), rows[0].tolist(), flags.astype(int).tolist(), strict=True))


# ---- two streams, one after the other


def joined(a: Edge, b: Edge) -> tuple[Edge, int]:
    """The edge of both streams, and how many more packets are reordered once the two are seen as one."""
    ours, theirs = {*a.head, *a.tail}, {*b.head, *b.tail}
    crossed = _overtaken(ours, theirs) | _overtaken(theirs, ours)
    edge = Edge(
        a.first_sent_ns,
        b.last_sent_ns,
        b.first_arrived_ns if a.first_arrived_ns is None else a.first_arrived_ns,
        a.last_arrived_ns if b.last_arrived_ns is None else b.last_arrived_ns,
        tuple(_by_arrival([*a.head, *b.head], crossed)[:EDGE]),
        tuple(_by_arrival([*a.tail, *b.tail], crossed)[-EDGE:]),
    )
    return edge, len(crossed)


def _overtaken(points: set[Point], others: set[Point]) -> set[Point]:
    """Points in order within their own stream that arrived after a later-sent one of the other stream."""
    if not points or not others:
        return set()
    if max(point[1] for point in points) < min(other[1] for other in others):
        return set()
    return {p for p in points if not p[2] and any(o[0] > p[0] and o[1] < p[1] for o in others)}


def _by_arrival(points: Iterable[Point], crossed: set[Point]) -> list[Point]:
    marked = (
        (sent, arrived, 1) if (sent, arrived, flag) in crossed else (sent, arrived, flag)
        for sent, arrived, flag in points
    )
    return sorted(marked, key=lambda point: point[1])


def joined_jitter(a: float, b: float, a_edge: Edge, b_edge: Edge, b_count: int) -> float:
    """RFC 3550 J after both streams: a's J, the pair across the cut, and the fading of both over b's arrivals."""
    if b_edge.first_arrived_ns is None:
        return a
    if a_edge.last_arrived_ns is None:
        return b
    across = abs(b_edge.first_arrived_ns - a_edge.last_arrived_ns)
    return float((a * DECAY + across / 16) * DECAY ** max(b_count - 1, 0)) + b
