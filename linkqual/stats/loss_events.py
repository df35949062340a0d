"""Which packets were lost together: the first MAX_EVENTS loss events of a run, by direction.

An event is a run of lost packets, or a cluster whose sequence numbers lie at most `gap` apart. Floor 1, pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from linkqual.model import Direction, LossEvent
from linkqual.records import ABSENT, Fate, Records

MAX_EVENTS = 1000
_FATES: tuple[tuple[Fate, Direction | None], ...] = (
    (Fate.LOST_FORWARD, Direction.FORWARD),
    (Fate.LOST_REVERSE, Direction.REVERSE),
    (Fate.LOST, None),
)


class LossEvents:
    """Collects events from chunks in order of sequence number."""

    def __init__(self, gap: int = 1) -> None:
        """`gap`: lost packets at most this far apart in sequence number belong together; 1: only neighbours."""
        self._gap = gap
        self._found: dict[Direction | None, list[LossEvent]] = {direction: [] for _, direction in _FATES}

    def add(self, sent: Records) -> None:
        """Take rows that were sent."""
        for fate, direction in _FATES:
            lost = sent[sent["fate"] == fate]
            if lost.size:
                known = self._found[direction]
                self._found[direction] = _chained(known, _clusters(lost, direction, self._gap), self._gap)

    def data(self) -> tuple[LossEvent, ...]:
        """In order of sequence number."""
        return _first(event for found in self._found.values() for event in found)


def _clusters(lost: Records, direction: Direction | None, gap: int) -> list[LossEvent]:
    seq = lost["seq"]
    when = np.where(lost["sent_ns"] == ABSENT, lost["intended_ns"], lost["sent_ns"])
    begins = np.flatnonzero(np.concatenate([[True], np.diff(seq) > gap]))
    ends = np.concatenate([begins[1:], [seq.size]]) - 1
    kept = slice(0, MAX_EVENTS + 1)
    return [
        LossEvent(direction, int(when[a]), int(when[b] - when[a]), int(seq[a]), int(b - a + 1), int(seq[b]))
        for a, b in zip(begins[kept].tolist(), ends[kept].tolist(), strict=True)
    ]


def _chained(a: Sequence[LossEvent], b: Sequence[LossEvent], gap: int) -> list[LossEvent]:
    """Events of one direction, a's before b's: an event across the cut becomes one."""
    if a and b and b[0].first_seq - a[-1].last_seq <= gap:
        bridge = replace(
            a[-1],
            duration_ns=b[0].start_ns + b[0].duration_ns - a[-1].start_ns,
            packets=a[-1].packets + b[0].packets,
            last_seq=b[0].last_seq,
        )
        return [*a[:-1], bridge, *b[1:]][:MAX_EVENTS]
    return [*a, *b][:MAX_EVENTS]


def _first(events: Iterable[LossEvent]) -> tuple[LossEvent, ...]:
    return tuple(sorted(events, key=lambda event: (event.first_seq, str(event.direction)))[:MAX_EVENTS])


def merged(a: Sequence[LossEvent], b: Sequence[LossEvent], gap: int) -> tuple[LossEvent, ...]:
    """The first events of two streams, the second following the first."""
    return _first(
        event
        for _, direction in _FATES
        for event in _chained(
            [event for event in a if event.direction == direction],
            [event for event in b if event.direction == direction],
            gap,
        )
    )
