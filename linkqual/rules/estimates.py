"""The number a finding shows, with its interval, sample size and method. Floor 2, pure."""

from __future__ import annotations

from dataclasses import replace

from linkqual.metrics import METRICS, quantile
from linkqual.model import Direction, Estimate, Histogram, Objective
from linkqual.rules import whole
from linkqual.rules.proportion import assumed_burst, sample_of
from linkqual.rules.stream import Stream, tally
from linkqual.stats import histogram, query
from linkqual.stats.confidence import quantile_ranks, ratio_lower

UNDIRECTED = "losses of unknown direction count in full"  # of a method: the value is the most it can be


def of(objective: Objective, stream: Stream) -> Estimate | None:
    """The estimate of any stamp objective; None when nothing was measured of it."""
    if METRICS[objective.metric].unit == "ratio":
        return _ratio(objective, stream)
    found = query.distribution(stream.summary, objective.metric, objective.direction)
    if found is None:
        return None
    q = quantile(objective.statistic)
    if q is not None:
        return _quantile(objective, stream, found, q)
    return whole.estimate(objective, found, assumed_burst(objective, stream.result.rate_pps))


def _ratio(objective: Objective, stream: Stream) -> Estimate | None:
    found = tally(replace(objective, limit=objective.limit or 0.0), stream)
    if found is None or not found.n:
        return None
    sample = sample_of(found, 0.5, objective, 1, stream.result.rate_pps)
    plain = not sample.in_bursts and sample.burst == 1
    method = "exact one-sided bounds (Clopper-Pearson)"
    if not plain:
        method = f"exact one-sided bounds by loss event, {sample.burst:.3g} packets an event on average at most"
    low, lost = sample.low, stream.summary.lost
    if objective.metric == "loss_ratio" and objective.direction is not Direction.ROUND_TRIP and lost:
        low = min(low, ratio_lower(max(found.bad - lost, 0), found.n, objective.confidence))
        method += f"; {UNDIRECTED}, in the low end not at all"
    return Estimate(sample.ratio, low, sample.high, objective.confidence, sample.n, "ratio", method)


def _quantile(objective: Objective, stream: Stream, found: Histogram, q: float) -> Estimate:
    """The quantile over all packets of the direction: a lost one took longer than any; ranks of independent looks."""
    counted = quantile(objective.statistic) is not None and objective.metric != "ipdv"
    lost = query.losses(stream.summary, objective.direction) if counted else 0
    n = found.n + lost
    divisor = _design_effect(objective, stream, q)
    low, high = quantile_ranks(max(int(n / divisor), 1), q, objective.confidence)
    below = histogram.edges_at_rank(found, max(int(low * divisor), 1)) if low is not None else None
    above = histogram.edges_at_rank(found, min(-int(-high * divisor // 1), n)) if high is not None else None
    method = "order statistics, any distribution"
    if divisor > 1.005:
        effect = f"{divisor:.3g}" if divisor < 1000 else f"{divisor:,.0f}"
        method += f", {n / divisor:,.0f} independent looks (design effect {effect})"
    if lost:
        method += "; lost packets count as later than any"
    return Estimate(
        histogram.value_at_rank(found, histogram.quantile_rank(n, q)),
        below[0] if below else None,
        above[1] if above else None,
        objective.confidence,
        n,
        METRICS[objective.metric].unit,
        method,
    )


def _design_effect(objective: Objective, stream: Stream, q: float) -> float:
    """By how much late packets come together, as seen at the limit.

    A limit far inside the distribution makes long runs that the tail does not have: there no more than one queue is taken.
    """
    kept = stream.summary.over.get(objective.key)
    if kept is None or not kept.bad:
        return 1.0
    sample = sample_of(kept, 1 - q, objective, 1, stream.result.rate_pps)
    near = sample.ratio <= 3 * (1 - q)
    return sample.design_effect if near else min(sample.design_effect, max(sample.assumed, 1.0))
