"""Watches every red line that is a proportion while packets (or seconds of throughput) arrive, and says when all are decided.

A loss ratio is a proportion; "p99.9 at most X" is one too (at most one packet in a thousand over X), and so is "p10 of the
seconds at least R". Minimum, maximum, mean and one-way delay (which needs the clock error of both ends) are judged at the end.
Floor 2, pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from linkqual.model import Decision, Direction, Objective, Outcome, Relation
from linkqual.records import Records
from linkqual.rules import words
from linkqual.rules.proportion import Sample, allowed_share, assumed_burst, longest_event
from linkqual.stats import trials
from linkqual.stats.sequential import SequentialTest

_LATER = ("one_way_delay",)


@dataclass(slots=True)
class _Watched:
    objective: Objective
    test: SequentialTest
    state: trials.State = field(default_factory=dict)


class Watch:
    """Sequential tests of all objectives with a limit; the others are left to the rules.

    `family`: red lines that share the error of a FAIL. `gap`: see `SequentialTest`. `rate_pps`: packets closer than the
    time a queue takes to drain are not independent looks at it (`rules.proportion.assumed_burst`); 0: not known. `one_clock`: both
    ends read the same.
    """

    def __init__(
        self,
        objectives: Iterable[Objective],
        family: int = 1,
        gap: int = 1,
        rate_pps: float = 0,
        *,
        one_clock: bool = True,
    ) -> None:
        self._one_clock = one_clock
        self._packets: list[_Watched] = []
        self._seconds: list[_Watched] = []
        for objective in objectives:
            share = allowed_share(objective)
            if share is None or not 0 < share < 1 or objective.metric in _LATER:
                continue
            burst = assumed_burst(objective, rate_pps)
            longest = longest_event(objective, rate_pps)
            watched = _Watched(objective, SequentialTest(share, objective.confidence, family, burst, gap, longest))
            if objective.metric == "throughput":
                self._seconds.append(watched)
            elif trials.supported(objective):
                self._packets.append(watched)

    def add(self, records: Records) -> None:
        """The next settled packets, in order of sequence number."""
        for watched in self._packets:
            watched.test.update(trials.trials(records, watched.objective, watched.state))

    def add_seconds(self, direction: Direction, bps: Iterable[float]) -> None:
        """Goodput of the next whole seconds of one direction, bit/s."""
        values = np.fromiter(bps, np.float64)
        for watched in self._seconds:
            limit = watched.objective.limit
            if watched.objective.direction is direction and limit is not None:
                below = values < limit if watched.objective.relation is Relation.AT_LEAST else values > limit
                watched.test.update(below)

    @property
    def _every(self) -> list[_Watched]:
        return [*self._packets, *self._seconds]

    @property
    def idle(self) -> bool:
        """Whether there is nothing to decide: the plan's length then holds."""
        return not self._every

    @property
    def decided(self) -> bool:
        """Whether everything watched is decided; False when nothing is."""
        return not self.idle and all(watched.test.decided for watched in self._every)

    @property
    def failed(self) -> bool:
        """Whether a required red line is proven broken: the verdict is known, whatever else is measured.

        One-way jitter between two clocks is never known before the end: a clock may have been set.
        """
        return any(
            watched.test.outcome is Outcome.FAIL
            and watched.objective.required
            and not self._of_clocks(watched.objective)
            for watched in self._every
        )

    def _of_clocks(self, objective: Objective) -> bool:
        one_way = objective.direction is not Direction.ROUND_TRIP
        return not self._one_clock and one_way and objective.metric in ("pdv", "ipdv")

    def decisions(self, final: bool = False) -> tuple[Decision, ...]:
        """What was decided so far; `final`: with an INCONCLUSIVE for each that was looked at and not decided."""
        return tuple(_decision(one) for one in self._every if one.test.decided or (final and one.test.n))


def _decision(watched: _Watched) -> Decision:
    objective, test = watched.objective, watched.test
    state = test.state()
    made = Decision(
        objective=objective.key,
        outcome=state.outcome,
        n=state.n,
        bad=state.bad,
        events=state.events,
        burst=state.burst,
        limit=objective.limit,
        confidence=test.confidence,
        family=test.family,
    )
    sample = Sample(state.n, state.bad, state.events, test.limit, test.confidence, test.family, test.assumed_burst)
    said = (
        words.passed
        if state.outcome is Outcome.PASS
        else words.failed
        if state.outcome is Outcome.FAIL
        else words.open_
    )
    return replace(made, because=said(objective, sample))
