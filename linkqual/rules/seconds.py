"""Findings on goodput: every second of the judged load is a trial, a slow one is a bad one. Floor 2, pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from linkqual.metrics import METRICS, quantile
from linkqual.model import (
    Direction,
    Estimate,
    Finding,
    Measurement,
    Objective,
    Outcome,
    Relation,
    Rule,
    ThroughputResult,
)
from linkqual.rules import decisions, hosts, loads, whole, words
from linkqual.rules.proportion import Reason, allowed_share, rule, sample_of, strict_confidence
from linkqual.stats import throughput
from linkqual.stats.tally import tally
from linkqual.units import format_value

FASTER = (
    "measure from hosts that can fill the line: more cores (iperf3 from 3.16 on uses one a stream), larger packets (MTU 9000), longer receive rings "
    "(ethtool -G), interrupts spread over cores, and a slot wide enough for the card"
)


def heaviest(measurements: Sequence[Measurement], direction: Direction) -> Measurement | None:
    """The load of this direction that is judged: as planned, else the one with the most streams; with seconds to show.

    Without any, the one that says why it has none. What is shown beside it (another congestion control) never takes its place.
    """
    here = [
        one for one in measurements
        if one.step.direction is direction and (one.throughput is not None or one.step.probe == "throughput")
    ]  # fmt: skip
    measured = [one for one in here if one.throughput is not None and one.throughput.receiver_bps]
    if measured:
        return max(measured, key=_rank)
    faulty = [one for one in here if one.fault is not None]
    return max(faulty or here, key=_rank, default=None)


def _rank(load: Measurement) -> tuple[bool, bool, int]:
    params, result = load.step.params, load.throughput
    streams = result.streams if result is not None else params.get("streams", 0)
    return bool(params.get("judged")), params.get("congestion_control") not in loads.HIDES_LOSS, streams


def finding(objective: Objective, measurement: Measurement, family: int) -> Finding:
    """The finding of one throughput objective. A rate that a host may have held down fails no line."""
    found, limited = _found(objective, measurement, family), hosts.limiting(measurement)
    if found.outcome is not Outcome.FAIL or not limited:
        return found
    said = f"{found.because}; but {limited}: the host may be the limit and not the line"
    return replace(found, outcome=Outcome.INCONCLUSIVE, because=said, decide=FASTER)


def _found(objective: Objective, measurement: Measurement, family: int) -> Finding:
    result, key = measurement.throughput, measurement.step.key
    if result is None or not result.receiver_bps:
        fault = measurement.fault
        why = fault.message if fault else "the receiver counted no whole second"
        return Finding(objective, Outcome.NO_DATA, why, None, fault.hint if fault else "measure longer", Rule.NONE, key)
    made = _estimate(objective, result.receiver_bps)
    share = allowed_share(objective)
    if objective.limit is None:
        value = format_value(made.value, made.unit) if made else "no value"
        said = f"{words.name(objective)}: {value} over {_load(result)}, {words.not_judged(objective)}"
        return Finding(objective, Outcome.NOT_JUDGED, said, made, "", Rule.NONE, key)
    if share is None:
        stricter = replace(objective, confidence=strict_confidence(objective.confidence, family))
        return whole.finding(objective, made, key, _estimate(stricter, result.receiver_bps))
    return _judged(objective, measurement, result, made, share, family)


def _judged(
    objective: Objective,
    measurement: Measurement,
    result: ThroughputResult,
    made: Estimate | None,
    share: float,
    family: int,
) -> Finding:
    limit, key = objective.limit, measurement.step.key
    assert limit is not None
    slow = [
        (rate < limit) if objective.relation is Relation.AT_LEAST else (rate > limit) for rate in result.receiver_bps
    ]
    sample = sample_of(tally(slow), share, objective, family, 0)
    value, run, by, reason = made.value if made else None, sample, Rule.EXACT, Reason.PLAIN
    decision = decisions.taken(objective, result, family, sample.n, sample.bad)
    if decision is not None:
        sample = replace(sample, n=decision.n, bad=decision.bad, events=decision.events)
        outcome, by = decision.outcome, Rule.SEQUENTIAL
    else:
        outcome, reason = rule(sample).outcome, rule(sample).reason
    if outcome is Outcome.PASS:
        return Finding(objective, outcome, words.passed(objective, sample, value, run), made, "", by, key)
    if outcome is Outcome.FAIL:
        return Finding(objective, outcome, words.failed(objective, sample, value, run), made, "", by, key)
    more = words.decide(objective, sample, 1, sequential=by is Rule.SEQUENTIAL)
    return Finding(objective, outcome, words.open_(objective, sample, value, reason), made, more, by, key)


def _estimate(objective: Objective, bps: Sequence[float]) -> Estimate | None:
    unit, n, confidence = METRICS[objective.metric].unit, len(bps), objective.confidence
    q = quantile(objective.statistic)
    if q is not None:
        low, high = throughput.seconds_interval(bps, q, confidence)
        method = "order statistics of the seconds"
        if low is None and objective.relation is Relation.AT_LEAST:
            proven = throughput.seconds_lower(bps, q, confidence)
            if proven is not None:  # too few seconds for both sides: the side that proves
                low, high, method = proven, None, f"{method}, lower bound alone"
        return Estimate(throughput.seconds_quantile(bps, q), low, high, confidence, n, unit, method)
    if objective.statistic in ("min", "max"):
        value = min(bps) if objective.statistic == "min" else max(bps)
        return Estimate(value, value, value, confidence, n, unit, "of this window, exact")
    middle = throughput.mean_rate(bps)
    if middle is None:
        return None
    spread = math.sqrt(math.fsum((rate - middle) ** 2 for rate in bps) / max(n - 1, 1))
    return whole.mean_estimate(middle, spread, n, n, unit, confidence)


def _load(result: ThroughputResult) -> str:
    return f"{len(result.receiver_bps)} s with {words.streams(result.streams)}"
