"""The packet stream behind a finding, and its trials: how many, how many bad, in how many events. Floor 2, pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from linkqual.metrics import METRICS
from linkqual.model import Measurement, Objective, StampResult, Summary, Tally
from linkqual.rules import clocks, ledger
from linkqual.stats import query
from linkqual.stats import tally as tallies

BUCKET = 1.001  # a histogram knows its values to within 0.1 %: what may count as the same limit


@dataclass(frozen=True, slots=True)
class Stream:
    """What one finding is made from."""

    measurement: Measurement
    result: StampResult
    family: int

    @property
    def summary(self) -> Summary:
        """Of the whole stream."""
        return self.result.summary


def tally(objective: Objective, stream: Stream) -> Tally | None:
    """Trials and bad ones, with their events where they are known."""
    summary = stream.summary
    if objective.metric == "loss_ratio":
        return summary.loss.get(objective.direction)
    counts = query.proportion(replace(summary, over={}), objective)
    if counts is None:
        return None
    kept = summary.over.get(objective.key)
    if kept is not None and _same_limit(objective, summary, kept):
        return kept
    bad, n = counts
    return _spread(bad, n, (tallies.mean_event(kept) if kept is not None else None) or 1.0)


def _same_limit(objective: Objective, summary: Summary, kept: Tally) -> bool:
    """Whether a tally was counted against this limit, as far as the histogram can tell.

    Where it was not (the limit has changed since; or PDV against a smallest delay that fell later), the packets are counted
    anew from the histogram.
    """
    assert objective.limit is not None
    bare = replace(summary, over={})
    fewer = query.proportion(bare, replace(objective, limit=objective.limit * BUCKET))
    more = query.proportion(bare, replace(objective, limit=objective.limit / BUCKET))
    return fewer is not None and more is not None and fewer[0] <= kept.bad <= more[0]


def _spread(bad: int, n: int, size: float) -> Tally:
    """A tally whose order is not known: events of one mean size, as they were under the limit of the measurement."""
    if not bad:
        return Tally(n=n, head=n, tail=n)
    count = max(1, round(bad / max(size, 1.0)))
    small, larger = divmod(bad, count)  # `larger` events of small + 1
    sizes = [small] * (count - larger) + [small + 1] * larger
    inner = ((one, found) for one in (small, small + 1) if (found := sizes[1:-1].count(one)))
    return Tally(n=n, bad=bad, first=sizes[0], last=sizes[-1] if count > 1 else 0, sizes=tuple(inner))


def doubted(objective: Objective, stream: Stream) -> list[ledger.Entry]:
    """The losses among its bad trials that may not be the line's in this direction."""
    if METRICS[objective.metric].unit == "ratio" and objective.metric != "loss_ratio":
        return []
    return ledger.doubts(stream.measurement, objective.direction)


def drifted(objective: Objective, stream: Stream, found: Tally) -> tuple[int, int]:
    """(bad trials that would be none, were it not for clocks that drift apart; what those may have added, ns); (0, 0) without."""
    added = clocks.added_ns(objective, stream.summary, stream.measurement.conditions)
    if not added or objective.limit is None:
        return 0, 0
    certain = query.proportion(replace(stream.summary, over={}), replace(objective, limit=objective.limit + added))
    doubtful = max(found.bad - certain[0], 0) if certain is not None else 0
    return doubtful, added if doubtful else 0
