"""Decisions taken while measuring, found again when the whole is judged. Floor 2, pure."""

from __future__ import annotations

from linkqual.model import Decision, Objective, Outcome, StampResult, ThroughputResult


def taken(
    objective: Objective, result: StampResult | ThroughputResult, family: int, n: int, bad: int
) -> Decision | None:
    """The decision made for this very limit and confidence, if there is one; `n`, `bad`: trials of the whole.

    A run of fixed length is looked at once, at its end. A FAIL needs to have been made for as many red lines.
    """
    if result.stopped_by == "fixed length":
        return None
    for made in result.decisions:
        same = made.objective == objective.key and made.limit == objective.limit
        if same and made.confidence == objective.confidence and 0 < made.n <= n and made.bad <= bad:
            return None if made.outcome is Outcome.FAIL and made.family < family else made
    return None
