"""A stored run against a capture of it, packet by packet: does another's eye see what the engine counted? Floor 2, pure.

Both come as records in order of sequence number. What a capture must show depends on where it was taken (`Place`): at the
sender's end everything the engine saw, at the reflector's what arrived there and what left, between them no contradiction. A
packet that the run calls lost and whose reply was captured at the sender was lost by that host, not by the line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from linkqual.model import Histogram, Summary
from linkqual.records import ABSENT, Fate, Records, empty_records
from linkqual.session.captured_numbers import Attribution
from linkqual.stats import delay
from linkqual.stats.histogram import LogLinear
from linkqual.stats.summary import Summarizer

Bools = npt.NDArray[np.bool_]


class Place(StrEnum):
    """Where a capture was taken."""

    NEAR = "near"  # at the sender
    FAR = "far"  # at the reflector
    BETWEEN = "between"


@dataclass(frozen=True, slots=True)
class Coverage:
    """The run's packets `first` to `last` (sequence numbers) are covered, of those up to `highest`; last < first: none."""

    first: int
    last: int
    highest: int

    def rows(self, records: Records) -> Records:
        """Those that are covered."""
        seq = records["seq"]
        kept: Records = records[(seq >= self.first) & (seq <= self.last)]
        return kept


@dataclass(frozen=True, slots=True)
class Row:
    """One count of both sides. `judged`: they must be equal."""

    what: str
    run: int
    capture: int | None
    judged: bool = True

    @property
    def differs(self) -> bool:
        """Whether a count that must be equal is not."""
        return self.judged and self.run != self.capture


@dataclass(frozen=True, slots=True)
class Comparison:
    """`contradictions`: packets by what is wrong with them. `difference`: capture less run, ns, of the delay `compared` names.

    `run`, `capture`: that delay by either side, ns, of the same packets: those in the run's delays.
    """

    rows: tuple[Row, ...]
    contradictions: dict[str, int]
    compared: str
    difference: Histogram
    size: Histogram  # of the differences, without sign
    run: Histogram
    capture: Histogram
    coverage: Coverage | None = None  # None: of the whole run

    @property
    def agrees(self) -> bool:
        """Whether the capture confirms what it covers of the run."""
        return not any(row.differs for row in self.rows) and not any(self.contradictions.values())


class Witness:
    """Takes both sides and compares."""

    def __init__(self, place: Place, coverage: Coverage | None = None) -> None:
        """`coverage`: None, of the whole run."""
        self.place, self.coverage = place, coverage
        self._run, self._capture = Summarizer(), Summarizer()
        self._signed, self._size = LogLinear(), LogLinear()
        self._ours, self._theirs = LogLinear(), LogLinear()
        self._contradictions: dict[str, int] = {}
        self._requests = self._replies = self._arrived = 0

    def compare(self, run: Iterable[Records], capture: Iterable[Records]) -> None:
        """Both streams to their ends."""
        for both in paired(run, capture):
            ours, theirs = both if self.coverage is None else map(self.coverage.rows, both)
            self._run.add(ours)
            self._capture.add(theirs)
            self._look(ours, theirs)

    def _look(self, run: Records, seen: Records) -> None:
        fate = run["fate"]
        request, reply = seen["sent_ns"] != ABSENT, seen["received_ns"] != ABSENT
        sent, received = fate != Fate.UNSENT, fate == Fate.RECEIVED
        reached = received | (fate == Fate.LOST_REVERSE)
        self._requests += int(request.sum())
        self._replies += int(reply.sum())
        self._arrived += int(reached.sum())
        found: dict[str, Bools] = {"captured, never sent by the run": request & ~sent}
        if self.place is Place.NEAR:
            found |= {
                "sent by the run, not captured": sent & ~request,
                "answered by the run's count, no reply captured": received & ~reply,
                "reply captured in time, lost by the run's count": (seen["fate"] == Fate.RECEIVED) & sent & ~received,
            }
        elif self.place is Place.FAR:
            found |= {
                "reached the far end by the run's count, not captured": reached & ~request,
                "answered by the run's count, no reply captured": received & ~reply,
                "captured at the far end, lost on the way there by the run's count": request
                & (fate == Fate.LOST_FORWARD),
            }
        else:
            found |= {
                "answered by the run's count, not captured": received & ~(request & reply),
                "reply captured, lost on the way there by the run's count": reply & (fate == Fate.LOST_FORWARD),
            }
        for what, rows in found.items():
            self._contradictions[what] = self._contradictions.get(what, 0) + int(rows.sum())
        self._time(run, seen)

    def _time(self, run: Records, seen: Records) -> None:
        if self.place is Place.BETWEEN:
            return
        ours = delay.round_trip(run) if self.place is Place.NEAR else delay.residence(run)
        theirs = delay.round_trip(seen)
        if self.place is Place.FAR:
            both = (seen["sent_ns"] != ABSENT) & (seen["received_ns"] != ABSENT)
            theirs = np.where(both, seen["received_ns"] - seen["sent_ns"], ABSENT)
        known = (ours != ABSENT) & (theirs != ABSENT)
        difference = theirs[known] - ours[known]
        self._signed.add(difference)
        self._size.add(np.abs(difference))
        self._ours.add(ours[known])
        self._theirs.add(theirs[known])

    def result(self, attribution: Attribution) -> Comparison:
        """What came of it; `attribution`: of the capture's losses."""
        run, capture = self._run.summary(), self._capture.summary()
        contradictions = dict(self._contradictions)
        if self.place is Place.NEAR and run.lost == 0 and self.coverage is None:
            beyond = max(0, (attribution.forward or 0) - run.lost_forward)
            beyond += max(0, (attribution.reverse or 0) - run.lost_reverse)
            contradictions["lost the other way by the reflector's numbers"] = beyond
        compared = {Place.NEAR: "round trip", Place.FAR: "time at the far end", Place.BETWEEN: ""}[self.place]
        return Comparison(
            self._rows(run, capture, attribution),
            contradictions,
            compared,
            self._signed.data(),
            self._size.data(),
            self._ours.data(),
            self._theirs.data(),
            self.coverage,
        )

    def _rows(self, run: Summary, capture: Summary, attribution: Attribution) -> tuple[Row, ...]:
        if self.place is Place.BETWEEN:
            return (
                Row("requests", run.sent, self._requests, False),
                Row("replies", run.received, self._replies, False),
            )
        if self.place is Place.FAR:
            unknown = run.lost > 0
            return (
                Row("reached the far end", self._arrived, self._requests, not unknown),
                Row("answered there", self._arrived, self._replies, not unknown),
                Row("copied on the way there", run.duplicates_forward, capture.duplicates_forward, False),
            )
        whole = (
            self.coverage is None
        )  # else the capture's totals are of other packets, and a copy may come after its end
        lost = run.lost_forward + run.lost_reverse + run.lost
        return (
            Row("sent", run.sent, self._requests),
            Row("answered", run.received, capture.received),
            Row("lost", lost, self._requests - capture.received),
            *(_directions(run, attribution) if whole else ()),
            Row("copied on the way there", run.duplicates_forward, capture.duplicates_forward, whole),
            Row("copied on the way back", run.duplicates_reverse, capture.duplicates_reverse, whole),
            Row("reordered on the way there", run.reordered_forward, capture.reordered_forward, False),
            Row("reordered on the way back", run.reordered_reverse, capture.reordered_reverse, False),
        )


def _directions(run: Summary, found: Attribution) -> Iterator[Row]:
    """Judged where both sides know every direction."""
    sure = found.tail == found.head == 0 and run.lost == 0 and found.forward is not None
    yield Row("lost on the way there", run.lost_forward, found.forward, sure)
    yield Row("lost on the way back", run.lost_reverse, found.reverse, sure)


def paired(run: Iterable[Records], capture: Iterable[Records]) -> Iterator[tuple[Records, Records]]:
    """Both streams cut alike: same numbers row by row, with UNSENT rows for what one side does not have."""
    ours, theirs = _Side(run), _Side(capture)
    while ours.rows.size or theirs.rows.size:
        ends = [int(side.rows["seq"][-1]) for side in (ours, theirs) if side.rows.size]
        stop = min(ends) + 1 if ours.rows.size and theirs.rows.size else ends[0] + 1
        left, right = ours.below(stop), theirs.below(stop)
        seqs = np.union1d(left["seq"], right["seq"])
        yield _spread(left, seqs), _spread(right, seqs)


class _Side:
    def __init__(self, batches: Iterable[Records]) -> None:
        self._batches = iter(batches)
        self.rows = empty_records(0)
        self._next()

    def _next(self) -> None:
        for batch in self._batches:
            if batch.size:
                self.rows = batch
                return
        self.rows = empty_records(0)

    def below(self, stop: int) -> Records:
        """The rows of the batch at hand with smaller numbers; they are taken."""
        cut = int(np.searchsorted(self.rows["seq"], stop))
        taken, self.rows = self.rows[:cut], self.rows[cut:]
        if not self.rows.size:
            self._next()
        return taken


def _spread(rows: Records, seqs: npt.NDArray[np.int64]) -> Records:
    if len(rows) == len(seqs):
        return rows
    spread = empty_records(len(seqs))
    spread["seq"] = seqs
    spread[np.searchsorted(seqs, rows["seq"])] = rows
    return spread
