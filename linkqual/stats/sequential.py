"""Deciding a red line while packets arrive: has this stream proven it kept, or broken?

Every red line is a proportion: at most `limit` of the trials are bad (lost, over a delay, under a rate). Two boundaries may
be looked at after every trial, as often as one likes:

* PASS: the likelihood ratio of a line ten times better than asked against one at the limit reaches 1/a (Wald 1947);
* FAIL: the mean likelihood ratio of nine worse lines against one at the limit reaches m/a, with m red lines in the family
  (a mixture e-process; Ville's inequality).

Both are tested twice: on bad trials, and on *events* (runs of bad trials, and clusters closer than a gap) against the limit
divided by a bound of the mean event size, because bad trials that come together are one accident and not many. Only what
both forms say is a decision. `docs/decisions/010-sequential-decisions.md` gives the reasons and the simulated error rates.

Floor 1, pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from linkqual.model import Outcome
from linkqual.stats.boundaries import (
    BETTER,
    HORIZON,
    LONGEST_EVENT,
    WORSE,
    Floats,
    Side,
    Stage,
    expected_trials,
    mean_event_lower,
    mean_event_upper,
    pass_after,
)

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Crossing:
    """Where a boundary was crossed: after `n` trials, `bad` of them bad in `events` events. `burst`: the bound used."""

    outcome: Outcome
    n: int
    bad: int
    events: int
    burst: float


class SequentialTest:
    """At most `limit` of the trials are bad, tested while they come.

    `decision` is what was proven and at which trial; it is a function of the stream alone, however it is cut into chunks.
    After a PASS the FAIL boundary is still watched while trials come: a line that breaks later takes its PASS back. A FAIL
    stands.

    `limit` lies strictly between 0 and 1. `family`: red lines tested together (Bonferroni on the FAIL side). `assumed_burst`:
    mean event size taken for granted until five events were seen. `gap`: fewer good trials than this between two bad ones
    make them one event; one with more than `longest` bad trials is a state of the line and counts again after each so many.
    """

    def __init__(
        self,
        limit: float,
        confidence: float = 0.95,
        family: int = 1,
        assumed_burst: float = 1.0,
        gap: int = 1,
        longest: int = LONGEST_EVENT,
    ) -> None:
        if not 0 < limit < 1 or not 0 < confidence < 1 or family < 1 or assumed_burst < 1 or min(gap, longest) < 1:
            raise ValueError("limit and confidence lie between 0 and 1; the others are at least 1")
        self.limit, self.confidence, self.family = limit, confidence, family
        self.assumed_burst, self.gap, self.longest = assumed_burst, gap, longest
        self.pass_at = -math.log(1 - confidence)
        self.fail_at = math.log(family) - math.log(1 - confidence)
        self.n = self.bad = self.events = 0
        self.decision: Crossing | None = None
        self._since_bad: int | None = None  # good trials since the last bad one
        self._run = 0  # bad trials in the event still open
        self._closed: list[Stage] = []
        self._stage, self._stage_end = Stage(), math.ceil(HORIZON / limit)
        self._base = dict.fromkeys(Side, 0.0)  # evidence of the closed stages at the packet limit

    @property
    def decided(self) -> bool:
        """Whether a boundary was crossed."""
        return self.decision is not None

    @property
    def outcome(self) -> Outcome:
        """INCONCLUSIVE until a boundary is crossed."""
        return self.decision.outcome if self.decision else Outcome.INCONCLUSIVE

    def state(self) -> Crossing:
        """The decision, or where the undecided test stands now."""
        if self.decision:
            return self.decision
        burst = float(mean_event_upper(self.events, self.bad, self.assumed_burst))
        return Crossing(Outcome.INCONCLUSIVE, self.n, self.bad, self.events, burst)

    def update(self, bad: npt.NDArray[np.bool_]) -> None:
        """The next trials in order; True is a bad one."""
        self.update_at(np.flatnonzero(bad), len(bad))

    def update_at(self, positions: npt.NDArray[np.integer], trials: int) -> None:
        """The next `trials` trials, bad at the rising offsets `positions`."""
        where, start = np.asarray(positions, np.int64), 0
        while start < trials and self.outcome is not Outcome.FAIL:
            size = min(trials - start, self._stage_end - self.n)
            first, last = np.searchsorted(where, (start, start + size))
            self._take(where[first:last] - start, size)
            start += size
            if self.n == self._stage_end:
                self._next_stage()

    # ---- one piece of one stage

    def _take(self, offsets: Ints, trials: int) -> None:
        n = self.n + offsets + 1
        bad = self.bad + 1 + np.arange(len(offsets))
        events, run = self._number_events(offsets)
        failed = self._first_fail(n, bad, events)
        if self.decision is None:
            # the stretches of good trials before, between and after the bad ones, up to where it failed
            stop = len(n) if failed is None else failed
            ends = np.append(n - 1, self.n + trials)[: stop + 1]
            if failed is not None:
                ends[-1] = n[failed] - 1
            starts = np.append(self.n, n)[: stop + 1] + 1
            self._find_pass(
                starts, ends, np.append(self.bad, bad)[: stop + 1], np.append(self.events, events)[: stop + 1]
            )
        if failed is not None:
            burst = float(mean_event_lower(events[failed], bad[failed]))
            self.n, self.bad, self.events = int(n[failed]), int(bad[failed]), int(events[failed])
            self.decision = Crossing(Outcome.FAIL, self.n, self.bad, self.events, burst)
            return
        self.n += trials
        if len(n):
            self.bad, self.events, self._run = int(bad[-1]), int(events[-1]), run
            self._since_bad = int(self.n - n[-1])
        elif self._since_bad is not None:
            self._since_bad += trials

    def _number_events(self, offsets: Ints) -> tuple[Ints, int]:
        """Events so far at each bad trial, and the size of the one still open."""
        if not len(offsets):
            return np.zeros(0, np.int64), self._run
        between = np.diff(offsets, prepend=0) - 1
        between[0] = self.gap if self._since_bad is None else self._since_bad + offsets[0]
        index = np.arange(len(offsets))
        opened = np.maximum.accumulate(np.where(between >= self.gap, index, -1))
        inside = np.where(
            opened >= 0, index - opened, index + self._run
        )  # bad trials of the same event before this one
        return self.events + np.cumsum(inside % self.longest == 0), int(inside[-1]) + 1

    def _first_fail(self, n: Ints, bad: Ints, events: Ints) -> int | None:
        likely = np.flatnonzero(self._evidence(Side.WORSE, n, bad, None) >= self.fail_at)
        if not len(likely):
            return None
        n, bad, events = n[likely], bad[likely], events[likely]
        limit = self.limit / mean_event_lower(events, bad)
        agreed = np.flatnonzero(self._evidence(Side.WORSE, n, events, limit) >= self.fail_at)
        return int(likely[agreed[0]]) if len(agreed) else None

    def _find_pass(self, starts: Ints, ends: Ints, bad: Ints, events: Ints) -> None:
        likely = np.flatnonzero((self._evidence(Side.BETTER, ends, bad, None) >= self.pass_at) & (ends >= starts))
        if not len(likely):
            return
        burst = mean_event_upper(events[likely], bad[likely], self.assumed_burst)
        limit = self.limit / burst
        agreed = np.flatnonzero(self._evidence(Side.BETTER, ends[likely], events[likely], limit) >= self.pass_at)
        if not len(agreed):
            return
        at = int(likely[agreed[0]])
        by_trials = self._reached(int(starts[at]), int(bad[at]), None)
        by_events = self._reached(int(starts[at]), int(events[at]), float(limit[agreed[0]]))
        when = max(by_trials, by_events)
        self.decision = Crossing(Outcome.PASS, when, int(bad[at]), int(events[at]), float(burst[agreed[0]]))

    def _reached(self, start: int, bad: int, limit: float | None) -> int:
        """The first trial from `start` on at which the PASS evidence is reached, were all of them good."""

        def short(n: int) -> float:
            at = None if limit is None else np.array([limit])
            return self.pass_at - float(self._evidence(Side.BETTER, np.array([n]), np.array([bad]), at)[0])

        slope = float(self._stage.slope(np.array([limit or self.limit]))[0])
        n = max(start, start + math.ceil(short(start) / slope) - 2)
        while short(n) > 0:
            n += 1
        return n

    # ---- evidence over all stages

    def _evidence(self, side: Side, n: Ints, bad: Ints, limit: Floats | None) -> Floats:
        """Of all stages. Without a limit: trials against the limit itself; else events against the limits of their own."""
        closed = (sum(one.trials for one in self._closed), sum(one.bad for one in self._closed))
        if limit is None:
            return self._stage.evidence(side, n - closed[0], bad - closed[1], self.limit) + self._base[side]
        seen = sum(one.events for one in self._closed)
        evidence = self._stage.evidence(side, n - closed[0], bad - seen, limit)
        for stage in self._closed:
            evidence = evidence + stage.evidence(side, stage.trials, stage.events, limit)
        return evidence

    def _next_stage(self) -> None:
        """Close the stage; from here the alternatives are what was seen so far, kept apart from the limit."""
        n, bad, events = (sum(getattr(stage, name) for stage in self._closed) for name in ("trials", "bad", "events"))
        stage = self._stage
        done = Stage(stage.better, stage.worse, self.n - n, self.bad - bad, self.events - events)
        self._base = {
            side: self._base[side] + float(done.evidence(side, done.trials, done.bad, self.limit)[0]) for side in Side
        }
        self._closed.append(done)
        seen = self.bad / self.n / self.limit
        self._stage = Stage(min(max(seen, BETTER), 0.9), min(max(seen, 1.1), WORSE[-1]))
        self._stage_end = 2 * self.n


__all__ = ["Crossing", "SequentialTest", "expected_trials", "pass_after"]
