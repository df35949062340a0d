"""Minimum, maximum and mean of a delay, and what is judged by its interval alone. Floor 2, pure."""

from __future__ import annotations

import math

from linkqual.metrics import METRICS
from linkqual.model import Estimate, Finding, Histogram, Objective, Outcome, Relation, Rule
from linkqual.rules import words
from linkqual.stats import histogram
from linkqual.units import format_count, format_value


def estimate(objective: Objective, found: Histogram, burst: float) -> Estimate | None:
    """Of a histogram. Minimum and maximum are facts of the window and have no interval; the mean has a normal one.

    `burst`: neighbouring packets that count as one look.
    """
    unit, n, confidence = METRICS[objective.metric].unit, found.n, objective.confidence
    if objective.statistic in ("min", "max"):
        value = found.minimum if objective.statistic == "min" else found.maximum
        return Estimate(value, value, value, confidence, n, unit, "of this window, exact")
    middle = histogram.mean(found)
    if objective.statistic != "mean" or middle is None:
        return None
    return mean_estimate(middle, math.sqrt(_variance(found, middle)), n, max(n / burst, 1.0), unit, confidence)


def mean_estimate(middle: float, deviation: float, n: int, looks: float, unit: str, confidence: float) -> Estimate:
    """A mean with one-sided bounds from Student's t over `looks` independent values."""
    if looks < 2:
        return Estimate(middle, None, None, confidence, n, unit, "too few values for an interval")
    from scipy.special import stdtrit

    half = float(stdtrit(looks - 1, confidence)) * deviation / math.sqrt(looks)
    method = f"one-sided bounds, Student's t over {looks:,.0f} independent looks"
    return Estimate(middle, middle - half, middle + half, confidence, n, unit, method)


def _variance(found: Histogram, middle: float) -> float:
    total, seen = 0.0, 0
    for count in found.counts:
        value = histogram.value_at_rank(found, seen + (count + 1) // 2)
        seen += count
        if value is not None:
            total += count * (value - middle) ** 2
    return total / max(found.n - 1, 1)


def finding(objective: Objective, made: Estimate | None, step: str, strict: Estimate | None = None) -> Finding:
    """PASS when the whole interval keeps the limit, FAIL when none of it does, else INCONCLUSIVE.

    `strict`: the interval at the confidence a FAIL needs in a family of red lines.
    """
    assert objective.limit is not None
    if made is None or made.value is None:
        return Finding(
            objective, Outcome.NO_DATA, f"{words.name(objective)}: no value", None, "measure again", Rule.NONE, step
        )
    unit, limit = made.unit, objective.limit
    at_most = objective.relation is Relation.AT_MOST
    surest = strict or made
    worst, best = (made.high, surest.low) if at_most else (made.low, surest.high)

    def kept(value: float) -> bool:
        return value <= limit if at_most else value >= limit

    said = f"{words.name(objective)}: {format_value(made.value, unit)}"
    if made.low is not None and made.high is not None and made.low != made.high:
        said += (
            f" ({format_value(made.low, unit)} to {format_value(made.high, unit)} at {words.percent(made.confidence)})"
        )
    said += f" over {format_count(made.n)} {words.unit(objective)}"
    limit_said = f"{objective.relation} {format_value(limit, unit)} is asked"
    if worst is not None and kept(worst):
        return Finding(objective, Outcome.PASS, f"{said}; {limit_said}", made, "", Rule.EXACT, step)
    if best is not None and not kept(best):
        return Finding(objective, Outcome.FAIL, f"{said}; {limit_said}", made, "", Rule.EXACT, step)
    more = f"more {words.unit(objective)}: the interval has to leave the limit"
    return Finding(
        objective,
        Outcome.INCONCLUSIVE,
        f"{said}; {limit_said}, and the limit lies between",
        made,
        more,
        Rule.EXACT,
        step,
    )
