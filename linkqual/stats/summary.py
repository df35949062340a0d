"""From packets to a `Summary`: one pass over chunks in order of sequence number, in flat memory.

`Summarizer` counts while packets arrive; `merge` joins two summaries (`stats.merging`). Floor 1, pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from linkqual.model import Direction, Edge, Histogram, Objective, Summary, Tally
from linkqual.records import ABSENT, RECORD, Fate, Records, Stamp
from linkqual.stats import delay, loss_events, pacing, slices, tally, trials
from linkqual.stats.arrivals import Arrivals
from linkqual.stats.clock_steps import ClockSteps
from linkqual.stats.histogram import Even, LogLinear
from linkqual.stats.levelling import Levelling, Segments
from linkqual.stats.merging import COUNTS, merge
from linkqual.stats.slices import least, most

__all__ = ["BLOCK", "START_SLICE_NS", "Summarizer", "merge"]

START_SLICE_NS = 100_000_000
_UNNUMBERED = 1 << 40  # from where a reflector began counting anew: after all that has its numbers, in the order sent
BLOCK = 8192  # rows worked on at a time: small chunks are gathered first

FORWARD, REVERSE, ROUND_TRIP = Direction.FORWARD, Direction.REVERSE, Direction.ROUND_TRIP
_LOSS = {each: Objective("loss_ratio", "ratio", each, 0.0) for each in Direction}

Ints = npt.NDArray[np.int64]


class Summarizer:
    """Summarises one packet stream."""

    def __init__(
        self,
        objectives: Sequence[Objective] = (),
        gap: int = 1,
        start_slice_ns: int = START_SLICE_NS,
        expected: Stamp | None = None,
        levelling: Levelling | None = None,
        audit: pacing.Audit | None = None,
    ) -> None:
        """`gap`: good packets that end a loss event. `expected`: stamps a row must have to count in delays (`delay.unfit`).

        `levelling`: steps and pace of the clocks, known from a first pass, to be taken out of what the delays vary by; with None
        steps are looked for.
        `audit`: of the sender's schedule; None: there is none to keep.
        """
        self._objectives = tuple(each for each in objectives if trials.supported(each))
        self._gap = gap
        self._expected = expected
        self._levelling = levelling or Levelling()
        self._clock_steps = ClockSteps() if levelling is None else None
        self._segments = Segments(len(self._levelling.steps) + 1)
        self._gathered: list[Records] = []
        self._gathered_rows = 0
        self._counts = dict.fromkeys(COUNTS, 0)
        self._first_ns: int | None = None
        self._last_ns: int | None = None
        self._delays = {each: LogLinear() for each in Direction}
        self._variation = {each: Even() for each in Direction}
        self._ipdv = {each: Even() for each in Direction}
        self._residence = LogLinear()
        self._ends: dict[Direction, list[int]] = {each: [] for each in Direction}  # delay of first and last packet sent
        self._far = Arrivals()
        self._near = Arrivals(delay_columns=2)  # reverse, round trip
        self._loss = {each: Tally(gap=gap) for each in Direction}
        self._over = {each.key: Tally(gap=gap) for each in self._objectives}
        self._states: dict[str, trials.State] = {each.key: {} for each in self._objectives}
        self._events = loss_events.LossEvents(gap)
        self._slices = slices.Slices(start_slice_ns)
        self._audit = audit or pacing.Audit()
        self._hops = {each: np.zeros(256, np.int64) for each in ("forward_ttl", "reverse_ttl")}

    def add(self, records: Records) -> None:
        """Take the next rows; chunks come in order of sequence number and may be of any size. The rows are copied."""
        if records.size:
            self._gathered.append(records.copy())
            self._gathered_rows += records.size
        if self._gathered_rows >= BLOCK:
            self._settle()

    def _settle(self) -> None:
        if self._gathered:
            rows = np.concatenate(self._gathered) if len(self._gathered) > 1 else self._gathered[0]
            self._gathered, self._gathered_rows = [], 0
            self._count(rows.astype(RECORD, copy=False))

    def _count(self, records: Records) -> None:
        sent = trials.departed(records)
        self._counts["unsent"] += records.size - sent.size
        if not sent.size:
            return
        columns = {each: delay.delays(sent, each, self._expected) for each in Direction}
        self._count_fates(sent)
        if self._clock_steps is not None:
            self._clock_steps.add(sent, columns[FORWARD], columns[REVERSE])
        seen = self._levelling.of(sent, columns)
        level, steady = seen.level, seen.steady
        self._count_trials(sent, level, steady)
        self._events.add(sent)
        self._count_delays({**columns, ROUND_TRIP: level[ROUND_TRIP]}, level, steady)
        self._residence.add(delay.residence(sent, self._expected)[~seen.crossed])
        if self._levelling.steps:
            self._segments.add(sent, columns, seen)
            self._counts["crossed"] += int(seen.crossed.sum())
        self._count_arrivals(sent, level)
        self._audit.add(sent)
        self._slices.add(sent, steady[ROUND_TRIP], steady[FORWARD], steady[REVERSE])

    def _count_trials(self, sent: Records, columns: Mapping[Direction, Ints], steady: Mapping[Direction, Ints]) -> None:
        fate = sent["fate"]
        for direction, objective in _LOSS.items():
            bad = trials.of_sent(fate, objective, {})
            self._loss[direction] = tally.merge(self._loss[direction], tally.tally(bad, self._gap))
        for objective in self._objectives:
            delays = (steady if objective.metric == "pdv" else columns)[objective.direction]
            bad = trials.of_sent(fate, objective, self._states[objective.key], delays)
            self._over[objective.key] = tally.merge(self._over[objective.key], tally.tally(bad, self._gap))

    def _count_fates(self, sent: Records) -> None:
        fates = np.bincount(sent["fate"], minlength=len(Fate)).tolist()
        counts = self._counts
        counts["sent"] += sent.size
        counts["received"] += fates[Fate.RECEIVED]
        counts["lost_forward"] += fates[Fate.LOST_FORWARD]
        counts["lost_reverse"] += fates[Fate.LOST_REVERSE]
        counts["lost"] += fates[Fate.LOST]
        received = sent["fate"] == Fate.RECEIVED
        counts["late"] += int((~received & (sent["received_ns"] != ABSENT)).sum())
        counts["unstamped"] += int(delay.unfit(sent, self._expected).sum())
        counts["duplicates_forward"] += int(sent["forward_copies"].sum(dtype=np.int64))
        counts["duplicates_reverse"] += int(sent["reverse_copies"].sum(dtype=np.int64))
        for name in self._hops:
            self._hops[name] += np.bincount(sent[name][received], minlength=256)
        stamps = sent["sent_ns"][sent["sent_ns"] != ABSENT]
        if stamps.size:
            self._first_ns = least(self._first_ns, int(stamps.min()))
            self._last_ns = most(self._last_ns, int(stamps.max()))

    def _count_delays(
        self, columns: Mapping[Direction, Ints], level: Mapping[Direction, Ints], steady: Mapping[Direction, Ints]
    ) -> None:
        for direction, column in level.items():
            self._delays[direction].add(columns[direction])
            self._variation[direction].add(steady[direction])
            ends = self._ends[direction]
            steps = delay.ipdv(column, ends[1] if ends else ABSENT)
            self._ipdv[direction].add(np.where(steps == ABSENT, ABSENT, np.abs(steps)))
            self._ends[direction] = [ends[0] if ends else int(column[0]), int(column[-1])]

    def _count_arrivals(self, sent: Records, columns: Mapping[Direction, Ints]) -> None:
        fate = sent["fate"]
        reached = (fate == Fate.RECEIVED) | (fate == Fate.LOST_REVERSE)
        self._far.add(sent["seq"][reached], sent["far_seq"][reached], columns[FORWARD][reached])
        came = fate == Fate.RECEIVED
        unnumbered = sent["seq"] + _UNNUMBERED
        order = np.where(sent["far_seq"] == ABSENT, unnumbered, sent["far_seq"])[came]
        self._near.add(order, sent["arrival"][came], columns[REVERSE][came], columns[ROUND_TRIP][came])

    def summary(self) -> Summary:
        """What was counted so far; counting may go on."""
        self._settle()
        far, near = self._far.closed(), self._near.closed()
        variation = {each: found.data() for each, found in self._variation.items()}
        delays = {each: found.data() for each, found in self._delays.items()}
        return Summary(
            **self._counts,
            reordered_forward=far.reordered,
            reordered_reverse=near.reordered,
            first_sent_ns=self._first_ns,
            last_sent_ns=self._last_ns,
            round_trip_delay=delays[ROUND_TRIP],
            forward_delay=delays[FORWARD],
            reverse_delay=delays[REVERSE],
            residence=self._residence.data(),
            variation=_present(variation),
            ipdv=_present({each: found.data() for each, found in self._ipdv.items()}),
            jitter_rfc3550_ns=self._jitter(far, near, delays),
            loss={str(each): found for each, found in self._loss.items()},
            over=dict(self._over),
            loss_events=self._events.data(),
            slices=self._slices.data(variation[FORWARD].minimum, variation[REVERSE].minimum),
            slice_ns=self._slices.length_ns,
            edges=self._edges(far, near),
            clock_pace=self._levelling.pace,
            clock_steps=self._levelling.steps if self._clock_steps is None else self._clock_steps.data(),
            segments=self._segments.data() if self._levelling.steps else (),
            forward_hops=_hops(self._hops["forward_ttl"]),
            reverse_hops=_hops(self._hops["reverse_ttl"]),
            pacing=self._audit.data(),
        )

    def _jitter(self, far: Arrivals, near: Arrivals, delays: Mapping[Direction, Histogram]) -> dict[str, float]:
        values = {FORWARD: far.jitter(), REVERSE: near.jitter(0), ROUND_TRIP: near.jitter(1)}
        return {str(each): value for each, value in values.items() if delays[each].n > 1}

    def _edges(self, far: Arrivals, near: Arrivals) -> dict[str, Edge]:
        if not self._counts["sent"]:
            return {}
        kinds: dict[Direction, tuple[Arrivals, int, bool]] = {
            FORWARD: (far, 0, True),
            REVERSE: (near, 0, True),
            ROUND_TRIP: (near, 1, False),
        }
        return {
            str(each): order.edge(kind, *self._ends[each], points=points)
            for each, (order, kind, points) in kinds.items()
        }


def _present(found: Mapping[Direction, Histogram]) -> dict[str, Histogram]:
    return {str(each): data for each, data in found.items() if data.n}


def _hops(counts: Ints) -> dict[str, int]:
    return {str(ttl): int(counts[ttl]) for ttl in np.flatnonzero(counts) if ttl}
