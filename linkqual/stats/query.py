"""What a `Summary` says of one metric or one red line. Floor 1, pure."""

from __future__ import annotations

from linkqual import metrics
from linkqual.model import Direction, Histogram, Objective, Summary
from linkqual.stats import histogram


def distribution(summary: Summary, metric: str, direction: Direction) -> Histogram | None:
    """The histogram behind a delay metric; None for a metric that has none or when nothing was measured.

    `one_way_delay` includes the clock offset. `pdv` counts from the smallest delay of this summary (RFC 5481).
    """
    found: Histogram | None = None
    if metric == "round_trip_delay":
        found = summary.round_trip_delay
    elif metric in ("one_way_delay", "added_delay"):
        found = summary.forward_delay if direction is Direction.FORWARD else summary.reverse_delay
    elif metric == "ipdv":
        found = summary.ipdv.get(direction)
    elif metric == "pdv":
        found = summary.variation.get(direction)
        if found is not None and found.minimum is not None:
            found = histogram.shifted(found, -found.minimum)
    return found if found is not None and found.n else None


def proportion(summary: Summary, objective: Objective) -> tuple[int, int] | None:
    """(bad, trials) of an objective that is a proportion; None when it is none or nothing was tried.

    Delay quantiles are counted packet by packet when the summary was made for this very objective (its `over` tally, exact);
    else from the histogram, where a bucket across the limit counts by its midpoint, and lost packets count as over.
    """
    if objective.metric in ("reordered_ratio", "duplicate_ratio"):
        return _of_arrivals(summary, objective)
    if objective.metric == "loss_ratio":
        tally = summary.loss.get(objective.direction)
        return (tally.bad, tally.n) if tally is not None and tally.n else None
    if objective.limit is None or metrics.quantile(objective.statistic) is None:
        return None
    return _of_delays(summary, objective, objective.limit)


def _of_delays(summary: Summary, objective: Objective, limit: float) -> tuple[int, int] | None:
    tally = summary.over.get(objective.key)
    if tally is not None and tally.n:
        return tally.bad, tally.n
    found = distribution(summary, objective.metric, objective.direction)
    lost = losses(summary, objective.direction)
    if found is None:
        return (lost, lost) if lost else None
    return histogram.count_above(found, limit) + lost, found.n + lost


def arrived(summary: Summary, direction: Direction) -> int:
    """Distinct packets that got through this direction (forward: to the far end)."""
    return summary.received + (summary.lost_reverse if direction is Direction.FORWARD else 0)


def _of_arrivals(summary: Summary, objective: Objective) -> tuple[int, int] | None:
    kind = "reordered" if objective.metric == "reordered_ratio" else "duplicates"
    n = arrived(summary, objective.direction)
    bad = int(getattr(summary, f"{kind}_{objective.direction}"))
    return (min(bad, n), n) if n else None


def losses(summary: Summary, direction: Direction) -> int:
    """Lost packets that count against a direction: its own, and those of unknown direction."""
    forward = summary.lost_forward if direction is not Direction.REVERSE else 0
    reverse = summary.lost_reverse if direction is not Direction.FORWARD else 0
    return summary.lost + forward + reverse
