"""Findings on what the stamp probe measures: loss, delays and their variation, reordering, duplicates. Floor 2, pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from linkqual.metrics import METRICS, quantile
from linkqual.model import (
    Decision,
    Direction,
    Estimate,
    Finding,
    Histogram,
    Measurement,
    Objective,
    Outcome,
    Rule,
    StampResult,
    Summary,
    Tally,
)
from linkqual.rules import hosts, whole, words
from linkqual.rules.proportion import Reason, Sample, allowed_share, assumed_burst, rule, sample_of
from linkqual.stats import histogram, query
from linkqual.stats import tally as tallies
from linkqual.stats.confidence import quantile_ranks
from linkqual.units import format_count

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


def finding(objective: Objective, measurement: Measurement, family: int) -> Finding:
    """The finding of one stamp objective. `family`: red lines that share the error of a FAIL."""
    assert measurement.stamp is not None
    stream = Stream(measurement, measurement.stamp, family)
    if silent := _silent(objective, stream):
        return silent
    estimate = _estimate(objective, stream)
    if objective.metric == "one_way_delay":
        return _with_clock(objective, stream, estimate)
    if estimate is None and objective.statistic not in ("ratio",) and quantile(objective.statistic) is None:
        return _nothing(objective, stream)
    if objective.limit is None:
        return _shown(objective, stream, estimate)
    share = allowed_share(objective)
    if share is None:
        return whole.finding(objective, estimate, measurement.step.key)
    return _judged(objective, stream, estimate, share)


def _judged(objective: Objective, stream: Stream, estimate: Estimate | None, share: float) -> Finding:
    found = _tally(objective, stream)
    if found is None or not found.n:
        return _nothing(objective, stream)
    sample = sample_of(found, share, objective, stream.family, stream.result.rate_pps, _doubt(objective, stream))
    sample = replace(sample, lost=min(_lost(stream.summary, objective.direction), sample.bad))
    key = stream.measurement.step.key
    decision = _decision(objective, stream, sample)
    if decision is not None:
        lost = sample.lost if decision.n == sample.n else None
        then = replace(sample, n=decision.n, bad=decision.bad, events=decision.events, lost=lost)
        return _sequential(objective, stream, decision, then, estimate)
    ruling, value = rule(sample), estimate.value if estimate else None
    if ruling.outcome is Outcome.PASS:
        return Finding(objective, Outcome.PASS, words.passed(objective, sample, value), estimate, "", Rule.EXACT, key)
    if ruling.outcome is Outcome.FAIL:
        said = words.failed(objective, sample, value, ruling.reason) + _span(objective, stream, sample)
        return Finding(objective, Outcome.FAIL, said, estimate, "", Rule.EXACT, key)
    said = words.open_(objective, sample, value, ruling.reason)
    more = _decide(objective, sample, ruling.reason, stream.result.rate_pps)
    return Finding(objective, Outcome.INCONCLUSIVE, said, estimate, more, Rule.EXACT, key)


def _decide(objective: Objective, sample: Sample, reason: Reason, rate: float, sequential: bool = False) -> str:
    if reason is Reason.HOST:
        return "measure again where the hosts drop nothing (see the note on host drops): a lower rate or larger socket buffers"
    return words.decide(objective, sample, rate, sequential)


# ---- decisions taken while measuring


def _decision(objective: Objective, stream: Stream, sample: Sample) -> Decision | None:
    """The one made for this very limit and confidence, if there is one."""
    if stream.result.stopped_by == "fixed length":
        return None
    for made in stream.result.decisions:
        same = made.objective == objective.key and made.limit == objective.limit
        if same and made.confidence == objective.confidence and 0 < made.n <= sample.n and made.bad <= sample.bad:
            weak = made.outcome is Outcome.FAIL and made.family < stream.family
            return None if weak else made
    return None


def _sequential(
    objective: Objective, stream: Stream, made: Decision, sample: Sample, estimate: Estimate | None
) -> Finding:
    """The decision as it was taken, unless a FAIL rests on losses that may not be the line's."""
    key, outcome, value = stream.measurement.step.key, made.outcome, estimate.value if estimate else None
    rate, doubt = stream.result.rate_pps, min(_doubt(objective, stream), sample.bad)
    if outcome is Outcome.PASS:
        return Finding(objective, outcome, words.passed(objective, sample, value), estimate, "", Rule.SEQUENTIAL, key)
    if outcome is Outcome.FAIL:
        certain = replace(sample, bad=sample.bad - doubt, events=min(sample.events, sample.bad - doubt))
        if not doubt or rule(certain).outcome is Outcome.FAIL:
            return Finding(
                objective, outcome, words.failed(objective, sample, value), estimate, "", Rule.SEQUENTIAL, key
            )
        said = words.open_(objective, replace(sample, doubt=doubt), value, Reason.HOST)
        more = _decide(objective, sample, Reason.HOST, rate)
        return Finding(objective, Outcome.INCONCLUSIVE, said, estimate, more, Rule.SEQUENTIAL, key)
    said, more = words.open_(objective, sample, value), _decide(objective, sample, Reason.PLAIN, rate, sequential=True)
    return Finding(objective, Outcome.INCONCLUSIVE, said, estimate, more, Rule.SEQUENTIAL, key)


# ---- counts


def _tally(objective: Objective, stream: Stream) -> Tally | None:
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


def _doubt(objective: Objective, stream: Stream) -> int:
    """Losses that hosts may have caused or whose direction is not known."""
    if METRICS[objective.metric].unit == "ratio" and objective.metric != "loss_ratio":
        return 0
    lost = _lost(stream.summary, objective.direction)
    unknown = stream.summary.lost if objective.direction is not Direction.ROUND_TRIP else 0
    return min(hosts.in_doubt(stream.measurement.conditions, objective.direction) + unknown, lost)


def _lost(summary: Summary, direction: Direction) -> int:
    forward = summary.lost_forward if direction is not Direction.REVERSE else 0
    reverse = summary.lost_reverse if direction is not Direction.FORWARD else 0
    return summary.lost + forward + reverse


# ---- estimates


def _estimate(objective: Objective, stream: Stream) -> Estimate | None:
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
    found = _tally(replace(objective, limit=objective.limit or 0.0), stream)
    if found is None or not found.n:
        return None
    sample = sample_of(found, 0.5, objective, 1, stream.result.rate_pps)
    plain = not sample.in_bursts and sample.burst == 1
    method = "exact one-sided bounds (Clopper-Pearson)"
    if not plain:
        method = f"exact one-sided bounds by loss event, {sample.burst:.3g} packets an event on average at most"
    return Estimate(sample.ratio, sample.low, sample.high, objective.confidence, sample.n, "ratio", method)


def _quantile(objective: Objective, stream: Stream, found: Histogram, q: float) -> Estimate:
    """The quantile over all packets of the direction: a lost one took longer than any; ranks of independent looks."""
    counted = quantile(objective.statistic) is not None and objective.metric != "ipdv"
    lost = _lost(stream.summary, objective.direction) if counted else 0
    n = found.n + lost
    kept = stream.summary.over.get(objective.key)
    divisor = sample_of(kept, 0.5, objective, 1, stream.result.rate_pps).design_effect if kept is not None else 1.0
    low, high = quantile_ranks(max(int(n / divisor), 1), q, objective.confidence)
    below = histogram.edges_at_rank(found, max(int(low * divisor), 1)) if low is not None else None
    above = histogram.edges_at_rank(found, min(-int(-high * divisor // 1), n)) if high is not None else None
    method = "order statistics, any distribution"
    if divisor > 1.005:
        method += f", {n / divisor:,.0f} independent looks (design effect {divisor:.3g})"
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


# ---- what cannot be judged


def _silent(objective: Objective, stream: Stream) -> Finding | None:
    """NO DATA when nothing at all got through: a filter on the way looks the same as a dead line."""
    summary, key = stream.summary, stream.measurement.step.key
    if not summary.sent:
        fault = stream.measurement.fault
        why = fault.message if fault else "no packet was sent"
        return Finding(objective, Outcome.NO_DATA, why, None, fault.hint if fault else "", Rule.NONE, key)
    reached = query.arrived(summary, Direction.FORWARD)
    if summary.received or (objective.direction is Direction.FORWARD and reached):
        return None
    count = format_count(summary.sent)
    if objective.direction is not Direction.FORWARD and reached:
        what = f"all {format_count(reached)} packets that reached the far end were answered, and no answer came back"
    else:
        what = f"none of {count} packets came through"
    return Finding(
        objective, Outcome.NO_DATA, f"{what}: nothing can be said of the line", None,
        "look for a filter on the way: UDP must pass between both ends, both ways", Rule.NONE, key,
    )  # fmt: skip


def _nothing(objective: Objective, stream: Stream) -> Finding:
    unstamped = stream.summary.unstamped
    why = f"{words.name(objective)}: no packet gave a value"
    if unstamped:
        why += f" ({format_count(unstamped)} came without usable stamps)"
    return Finding(
        objective, Outcome.NO_DATA, why, None, "measure again with more packets", Rule.NONE, stream.measurement.step.key
    )


def _shown(objective: Objective, stream: Stream, estimate: Estimate | None) -> Finding:
    value = words.number(estimate.value, METRICS[objective.metric].unit) if estimate else "no value"
    why = f"{words.name(objective)}: {value}, shown and not judged ({objective.limit_text or 'no limit given'})"
    return Finding(objective, Outcome.NOT_JUDGED, why, estimate, "", Rule.NONE, stream.measurement.step.key)


def _with_clock(objective: Objective, stream: Stream, estimate: Estimate | None) -> Finding:
    """One-way delay is known to the clock error of both ends together (RFC 7679 section 3.7)."""
    conditions, key = stream.measurement.conditions, stream.measurement.step.key
    error = 0 if conditions.same_clock else conditions.clock_error_ns
    if estimate is None:
        return _nothing(objective, stream)
    if error is None:
        return Finding(
            objective, Outcome.NO_DATA,
            f"{words.name(objective)}: the offset between both clocks is not known, so a one-way delay is not",
            None, "synchronise both ends (chrony, PTP) so that they state a bound of their error", Rule.NONE, key,
        )  # fmt: skip
    widened = replace(
        estimate,
        low=None if estimate.low is None else estimate.low - error,
        high=None if estimate.high is None else estimate.high + error,
        method=f"{estimate.method}; ± {words.number(error, 'ns')} of the clocks",
    )
    return whole.finding(objective, widened, key) if objective.limit is not None else _shown(objective, stream, widened)


def _span(objective: Objective, stream: Stream, sample: Sample) -> str:
    """Where in time a single loss event lies."""
    if objective.metric != "loss_ratio" or sample.events != 1:
        return ""
    for event in stream.summary.loss_events:
        if event.packets == sample.bad and event.duration_ns:
            return f"; it lasted {words.number(event.duration_ns, 'ns')}"
    return ""
