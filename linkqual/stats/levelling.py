"""One-way delays freed of what two clocks did to them: cut at every step of a clock, and the pace between them taken out.

Between two steps (a segment) the clocks stood still against each other but for their pace. Delay variation counts from a segment's
own smallest delay; so the segments are laid over each other by these, and a step is no delay. What was in flight over a step has one
delay by the old clock and one by the new one: each goes to its segment, and no round trip is known. Floor 1, pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from linkqual.model import ClockStep, Direction, Segment
from linkqual.records import ABSENT, Records
from linkqual.stats.histogram import LogLinear

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Columns = Mapping[Direction, Ints]
Lowest = Mapping[Direction, Sequence[int | None]]

FORWARD, REVERSE, ROUND_TRIP = Direction.FORWARD, Direction.REVERSE, Direction.ROUND_TRIP
_SIGN = {FORWARD: 1, REVERSE: -1}


@dataclass(frozen=True, slots=True)
class Levelled:
    """Columns of one chunk. `level`: steps taken out; `steady`: the pace too. `crossed`: no round trip is known of these."""

    level: Columns
    steady: Columns
    segments: Mapping[Direction, Ints]  # number of each row's segment
    crossed: Bools


class Levelling:
    """What is known of the clocks, applied to chunk after chunk in order of sequence number.

    `lowest`: smallest delays of every segment by direction (`Floors`); None: segments are laid over each other by the sizes of
    the steps.
    """

    def __init__(
        self,
        steps: Sequence[ClockStep] = (),
        pace: float = 0.0,
        lowest: Lowest | None = None,
    ) -> None:
        self.steps, self.pace = tuple(steps), pace
        raised = np.cumsum([0, *(step.step_ns for step in steps)])
        self._raised = {way: sign * raised for way, sign in _SIGN.items()}
        if lowest is not None:
            for way, known in lowest.items():
                self._raised[way] = _by_lowest(self._raised[way], known)
        self._first_ns: int | None = None

    def of(self, sent: Records, columns: Columns) -> Levelled:
        """The delay columns of these rows, levelled."""
        none = np.zeros(len(sent), np.int64)
        segments = dict.fromkeys(_SIGN, none) if not self.steps else self._segments(sent, columns)
        crossed: Bools = segments[FORWARD] != segments[REVERSE]
        level = dict(columns)
        if self.steps:
            level = {way: _less(columns[way], self._raised[way][segments[way]]) for way in _SIGN}
            level[ROUND_TRIP] = np.where(crossed, ABSENT, columns[ROUND_TRIP])
        return Levelled(level, self._steady(sent, level), segments, crossed & (columns[ROUND_TRIP] != ABSENT))

    def _segments(self, sent: Records, columns: Columns) -> dict[Direction, Ints]:
        """By sequence number; those in doubt by which side of the step their own delay lies on."""
        found = {way: np.zeros(len(sent), np.int64) for way in _SIGN}
        for step in self.steps:
            over = sent["seq"] >= step.first_after
            doubt = (sent["seq"] > step.last_before) & ~over
            lows = {
                FORWARD: (step.round_trip_before_ns + 2 * step.offset_before_ns) // 2,
                REVERSE: (step.round_trip_before_ns - 2 * step.offset_before_ns) // 2,
            }
            for way, sign in _SIGN.items():
                moved = sign * step.step_ns
                half = lows[way] + moved // 2
                new = columns[way] > half if moved > 0 else columns[way] < half
                found[way] += over | (doubt & new & (columns[way] != ABSENT))
        return found

    def _steady(self, sent: Records, level: Columns) -> Columns:
        """As if both clocks had kept the pace of the first packet's moment."""
        if not self.pace:
            return level
        known = sent["sent_ns"] != ABSENT
        if self._first_ns is None:
            if not known.any():
                return level
            self._first_ns = int(sent["sent_ns"][known].min())
        gained = np.round((np.where(known, sent["sent_ns"], self._first_ns) - self._first_ns) * self.pace).astype(
            np.int64
        )
        return {**level, **{way: _less(level[way], sign * gained) for way, sign in _SIGN.items()}}


def _less(column: Ints, by: Ints) -> Ints:
    return np.where(column == ABSENT, ABSENT, column - by)


def _by_lowest(raised: Ints, known: Sequence[int | None]) -> Ints:
    """A segment without a delay stays where the steps put it."""
    found = raised.copy()
    if known[0] is not None:
        for number, lowest in enumerate(known[1:], 1):
            if lowest is not None:
                found[number] += lowest - known[0]
    return found


def lowest(chunks: Iterable[tuple[Records, Columns]], levelling: Levelling) -> Lowest:
    """Smallest levelled delay of every segment, by direction; None where a segment has none."""
    found: dict[Direction, list[int | None]] = {way: [None] * (len(levelling.steps) + 1) for way in _SIGN}
    for sent, columns in chunks:
        seen = levelling.of(sent, columns)
        for way in _SIGN:
            for number in np.unique(seen.segments[way]).tolist():
                delays = seen.steady[way][(seen.segments[way] == number) & (columns[way] != ABSENT)]
                if delays.size:
                    smallest, before = int(delays.min()), found[way][number]
                    found[way][number] = smallest if before is None else min(before, smallest)
    return found


class Segments:
    """One-way delays of every segment as they were measured."""

    def __init__(self, count: int) -> None:
        self._delays = {way: [LogLinear() for _ in range(count)] for way in _SIGN}
        self._starts: list[int | None] = [None] * count

    def add(self, sent: Records, columns: Columns, seen: Levelled) -> None:
        """The rows of a chunk."""
        for way in _SIGN:
            for number in np.unique(seen.segments[way]).tolist():
                mine = seen.segments[way] == number
                self._delays[way][number].add(columns[way][mine])
                if way is FORWARD and self._starts[number] is None:
                    self._starts[number] = int(sent["sent_ns"][mine][0])

    def data(self) -> tuple[Segment, ...]:
        """In order."""
        rows = zip(self._starts, self._delays[FORWARD], self._delays[REVERSE], strict=True)
        return tuple(Segment(start, forward.data(), reverse.data()) for start, forward, reverse in rows)
