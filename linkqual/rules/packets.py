"""Findings on what the stamp probe measures: loss, delays and their variation, reordering, duplicates. Floor 2, pure."""

from __future__ import annotations

from dataclasses import replace

from linkqual.metrics import METRICS, quantile
from linkqual.model import Decision, Direction, Estimate, Finding, Measurement, Objective, Outcome, Rule
from linkqual.rules import clocks, decisions, estimates, foreign, whole, words
from linkqual.rules.proportion import Reason, Sample, allowed_share, rule, sample_of, strict_confidence
from linkqual.rules.stream import Stream, doubted, drifted, tally
from linkqual.stats import query
from linkqual.units import format_count, format_duration, format_value


def finding(objective: Objective, measurement: Measurement, family: int) -> Finding:
    """The finding of one stamp objective. `family`: red lines that share the error of a FAIL."""
    assert measurement.stamp is not None
    stream = Stream(measurement, measurement.stamp, family)
    found = _silent(objective, stream) or foreign.missing(objective, stream)
    return found or foreign.weighed(_finding(objective, stream), stream)


def _finding(objective: Objective, stream: Stream) -> Finding:
    estimate = estimates.of(objective, stream)
    if objective.metric == "one_way_delay":
        return _with_clock(objective, stream, estimate)
    if estimate is None and objective.statistic not in ("ratio",) and quantile(objective.statistic) is None:
        return _nothing(objective, stream)
    if objective.limit is None:
        return _shown(objective, stream, estimate)
    share = allowed_share(objective)
    if share is None:
        strict = estimates.of(_stricter(objective, stream.family), stream)
        return whole.finding(
            objective,
            _of_line(objective, stream, estimate),
            stream.measurement.step.key,
            _of_line(objective, stream, strict),
        )
    return _judged(objective, stream, estimate, share)


def _of_line(objective: Objective, stream: Stream, made: Estimate | None) -> Estimate | None:
    """With a lower end that leaves out what drifting clocks may have added."""
    added = clocks.added_ns(objective, stream.summary, stream.measurement.conditions)
    if made is None or made.low is None or not added:
        return made
    return replace(made, low=made.low - added, method=f"{made.method}; up to {format_duration(added)} of the clocks'")


def _stricter(objective: Objective, family: int) -> Objective:
    return replace(objective, confidence=strict_confidence(objective.confidence, family))


def _judged(objective: Objective, stream: Stream, estimate: Estimate | None, share: float) -> Finding:
    found = tally(objective, stream)
    if found is None or not found.n:
        return _nothing(objective, stream)
    late, drift_ns = drifted(objective, stream, found)
    doubts = doubted(objective, stream)
    doubt = sum(entry.packets for entry in doubts) + late
    sample = sample_of(found, share, objective, stream.family, stream.result.rate_pps, doubt)
    sample = replace(
        sample,
        lost=min(query.losses(stream.summary, objective.direction), sample.bad),
        drift_ns=drift_ns,
        suspicion=words.suspicion(doubts),
        remedy=max(doubts, key=lambda entry: entry.packets).remedy if doubts else "",
    )
    key = stream.measurement.step.key
    decision = decisions.taken(objective, stream.result, stream.family, sample.n, sample.bad)
    if decision is not None:
        lost = sample.lost if decision.n == sample.n else None
        then = replace(sample, n=decision.n, bad=decision.bad, events=decision.events, lost=lost)
        return _sequential(objective, stream, decision, (then, sample), estimate)
    ruling, value = rule(sample), estimate.value if estimate else None
    if ruling.outcome is Outcome.PASS:
        return Finding(objective, Outcome.PASS, words.passed(objective, sample, value), estimate, "", Rule.EXACT, key)
    if ruling.outcome is Outcome.FAIL:
        said = _failed(objective, sample, value, ruling.reason) + _span(objective, stream, sample)
        return Finding(objective, Outcome.FAIL, said, estimate, "", Rule.EXACT, key)
    said = words.open_(objective, sample, value, ruling.reason)
    more = _decide(objective, sample, ruling.reason, stream.result.rate_pps)
    return Finding(objective, Outcome.INCONCLUSIVE, said, estimate, more, Rule.EXACT, key)


def _decide(objective: Objective, sample: Sample, reason: Reason, rate: float, sequential: bool = False) -> str:
    if reason is Reason.CLOCKS:
        return "measure again with both clocks held by NTP or PTP, or for a shorter time: the drift counts with the length of the run"
    if reason is Reason.HOST:
        return sample.remedy
    return words.decide(objective, sample, rate, sequential)


# ---- decisions taken while measuring


def _sequential(
    objective: Objective, stream: Stream, made: Decision, seen: tuple[Sample, Sample], estimate: Estimate | None
) -> Finding:
    """The decision as it was taken, unless a FAIL rests on losses that may not be the line's.

    `seen`: when it was taken, and in the whole run.
    """
    then, run = seen
    value, more, reason = estimate.value if estimate else None, "", Reason.PLAIN
    outcome = made.outcome
    if outcome is Outcome.FAIL and run.doubt and rule(run.certain).outcome is not Outcome.FAIL:
        outcome, reason, then = Outcome.INCONCLUSIVE, run.doubted, run
    if outcome is Outcome.PASS:
        said = words.passed(objective, then, value, run)
    elif outcome is Outcome.FAIL:
        said = words.failed(objective, then, value, run)
    else:
        said = words.open_(objective, then, value, reason)
        more = _decide(objective, then, reason, stream.result.rate_pps, sequential=True)
    return Finding(objective, outcome, said, estimate, more, Rule.SEQUENTIAL, stream.measurement.step.key)


def _failed(objective: Objective, sample: Sample, value: float | None, reason: Reason) -> str:
    return (words.failed_in_bursts if reason is Reason.BURSTS else words.failed)(objective, sample, value)


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
    value = format_value(estimate.value, METRICS[objective.metric].unit) if estimate else "no value"
    if estimate is not None and estimate.value is None:
        value = "no upper bound, it falls among lost packets"
    why = f"{words.name(objective)}: {value}, {words.not_judged(objective)}"
    return Finding(objective, Outcome.NOT_JUDGED, why, estimate, "", Rule.NONE, stream.measurement.step.key)


def _with_clock(objective: Objective, stream: Stream, estimate: Estimate | None) -> Finding:
    """One-way delay is known to the clock error of both ends together (RFC 7679 section 3.7)."""
    conditions, key = stream.measurement.conditions, stream.measurement.step.key
    error, why = clocks.bound_ns(stream.summary, conditions)
    if estimate is None:
        return _nothing(objective, stream)
    if error is None:
        return Finding(
            objective, Outcome.NO_DATA,
            f"{words.name(objective)}: {why}, so a one-way delay is not known",
            None, "synchronise both ends (chrony, PTP) so that they state a bound of their error", Rule.NONE, key,
        )  # fmt: skip
    widened, strict = _widened(estimate, error), estimates.of(_stricter(objective, stream.family), stream)
    if objective.limit is None:
        return _shown(objective, stream, widened)
    return whole.finding(objective, widened, key, _widened(strict, error) if strict else None)


def _widened(estimate: Estimate, error: int) -> Estimate:
    return replace(
        estimate,
        low=None if estimate.low is None else estimate.low - error,
        high=None if estimate.high is None else estimate.high + error,
        method=f"{estimate.method}; ± {format_duration(error)} of the clocks",
    )


def _span(objective: Objective, stream: Stream, sample: Sample) -> str:
    """Where in time a single loss event lies."""
    if objective.metric != "loss_ratio" or sample.events != 1:
        return ""
    for event in stream.summary.loss_events:
        if event.packets == sample.bad and event.duration_ns:
            return f"; it lasted {format_duration(event.duration_ns)}"
    return ""
