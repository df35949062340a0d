"""Findings on training bursts: every burst is a trial, one over the limit or never complete is a bad one. Floor 2, pure.

What a host did is no part of the line: a late burst whose sender was notably behind its own pace, and one that lost packets to a full socket, may
keep the line from passing and never make it fail. A limit written as a multiple of `ideal` is known in full
only here: it is that of the bursts that were sent, with the smallest round trip that was found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from linkqual.metrics import METRICS, quantile
from linkqual.model import (
    BurstsResult,
    Direction,
    Estimate,
    Finding,
    Link,
    Measurement,
    Note,
    Objective,
    Outcome,
    Plan,
    Rule,
)
from linkqual.profile.limits import IDEAL, parse
from linkqual.rules import whole, words
from linkqual.rules.proportion import Reason, Sample, allowed_share, more_trials, rule, sample_of
from linkqual.stats import bursts
from linkqual.stats.tally import tally
from linkqual.stats.throughput import frame_rate
from linkqual.units import NS_PER_S, format_count, format_duration, format_rate, format_ratio, format_value

_AGAIN = "measure again when both hosts are quiet, or from faster ones"
HELD = 0.05  # of the limit: a sender that was more behind than that was in trouble, and what came late then may be its own doing
PACED = 0.99  # of the contracted rate
_CROWDED = 2.0  # times its even share: so many of the losses in one part of the burst are worth a word
_ENOUGH = 20  # losses, to speak of where they are


def finding(objective: Objective, plan: Plan, measurements: Sequence[Measurement], family: int) -> Finding | None:
    """The finding of one objective; None: no bursts were measured in its direction."""
    found = _measured(measurements, objective.direction)
    if found is None:
        return None
    measurement, result = found
    key = measurement.step.key
    if not result.sent:
        return None
    objective = _on_this_line(objective, plan.link, result)
    if objective.metric == "burst_spread":
        return _spread(objective, result, key)
    made = _estimate(objective, result)
    if objective.limit is None:
        value = format_value(made.value, made.unit) if made.value is not None else "some were never complete"
        why = f"{words.name(objective)}: {value} over {_of(result)}, {words.not_judged(objective)}"
        return Finding(objective, Outcome.NOT_JUDGED, why, made, "", Rule.NONE, key)
    share = allowed_share(objective)
    if share is None:
        return _longest(objective, made, result, key)
    return _judged(objective, made, _sample(objective, result, share, family), result, key)


def notes(measurements: Sequence[Measurement]) -> Iterator[Note]:
    """What the bursts of each direction took, in a sentence, and what a reader should not miss."""
    for direction in (Direction.FORWARD, Direction.REVERSE):
        found = _measured(measurements, direction)
        if found is None or not found[1].sent:
            continue
        result = found[1]
        yield Note("bursts", f"{direction} bursts: {_described(result)}")
        if result.sent > result.completed:
            missing = result.sent - result.completed
            said = f"{direction}: {format_count(missing)} of {_of(result)} were not complete within the patience, and count as later than any"
            yield Note("bursts", said, "warn")
        if result.unsent:
            host = "near" if direction is Direction.FORWARD else "far"
            said = (
                f"{direction}: {format_count(result.unsent)} bursts did not leave the {host} host in time and count nowhere: "
                f"it was too busy to send {format_rate(result.pace_bps)}"
            )
            yield Note("host", said, "warn")
        yield from _places(direction, result)


# ---- the parts


def _measured(measurements: Sequence[Measurement], direction: Direction) -> tuple[Measurement, BurstsResult] | None:
    for one in measurements:
        result = one.bursts if direction is Direction.FORWARD else one.bursts_back
        if result is not None:
            return one, result
    return None


def _on_this_line(objective: Objective, link: Link, result: BurstsResult) -> Objective:
    """The objective with a limit in full: `ideal` is that of the bursts that were sent, on the line as it is contracted now.

    Bursts that were sent slower than the contract allows are not judged by it.
    """
    limit = parse(objective.limit_text or "none", METRICS[objective.metric].unit)
    rate = link.contracted_bps(objective.direction)
    if objective.limit is None or limit.fact != IDEAL or not rate:
        return objective
    frames = frame_rate(rate, result.packet_bytes, link.rate_counts)
    if result.pace_bps < PACED * frames * result.packet_bytes * 8:
        said = f"{limit.text}, but sent at {format_rate(result.pace_bps)} (IP) and so slower than contracted"
        return replace(objective, limit=None, limit_text=said)
    packets = round(result.transfer_ns * result.pace_bps / (8 * NS_PER_S * result.packet_bytes))
    ideal_ns = packets / frames * NS_PER_S + (result.base_rtt_ns or 0)
    return replace(objective, limit=limit.factor * ideal_ns)


def _sample(objective: Objective, result: BurstsResult, share: float, family: int) -> Sample:
    limit = objective.limit or 0.0
    late = [one is None or one > limit for one in result.completions_ns]
    excused = sum(bad and by > HELD * limit for bad, by in zip(late, _held(result), strict=True))
    dropped = min(result.host_lost, sum(late) - excused)
    said = [f"the sending host was behind its own pace in {format_count(excused)}"] if excused else []
    if dropped:
        said.append(_dropped(result))
    sample = sample_of(tally(late), share, objective, family, 0, doubt=excused + dropped)
    return replace(sample, suspicion="; ".join(said), remedy=_AGAIN, lost=0)


def _judged(objective: Objective, made: Estimate, sample: Sample, result: BurstsResult, key: str) -> Finding:
    ruling = rule(sample)
    if ruling.outcome is Outcome.PASS:
        return Finding(
            objective, ruling.outcome, words.passed(objective, sample, made.value), made, "", Rule.EXACT, key
        )
    if ruling.outcome is Outcome.FAIL:
        say = words.failed_in_bursts if ruling.reason is Reason.BURSTS else words.failed
        because = say(objective, sample, made.value) + _loss(result)
        return Finding(objective, ruling.outcome, because, made, "", Rule.EXACT, key)
    said = words.open_(objective, sample, made.value, ruling.reason)
    return Finding(objective, ruling.outcome, said, made, _decide(sample, ruling.reason), Rule.EXACT, key)


def _decide(sample: Sample, reason: Reason) -> str:
    if reason is Reason.HOST:
        return _AGAIN
    more = more_trials(sample)
    if more is None:
        return "the share of late bursts sits on the limit itself: as long as it stays there, no number decides"
    if sample.doubt:
        return f"about {format_count(more)} more bursts; or {_AGAIN}"
    return f"about {format_count(more)} more bursts (bursts.count), if the share of late ones stays as it is"


def _longest(objective: Objective, made: Estimate, result: BurstsResult, key: str) -> Finding:
    missing = result.sent - result.completed
    if missing and made.value is None:
        said = f"{words.name(objective)}: {format_count(missing)} of {_of(result)} were never complete"
        return _excused(Finding(objective, Outcome.FAIL, said + _loss(result), made, "", Rule.EXACT, key), result)
    return _excused(whole.finding(objective, made, key), result)


def _excused(found: Finding, result: BurstsResult) -> Finding:
    """One figure of all bursts fails no line where the receiving socket had no room: nobody knows which bursts that hit."""
    if found.outcome is not Outcome.FAIL or not result.host_lost:
        return found
    said = f"{found.because}; but {_dropped(result)}"
    return replace(found, outcome=Outcome.INCONCLUSIVE, because=said, decide=_AGAIN)


def _estimate(objective: Objective, result: BurstsResult) -> Estimate:
    unit, n, sure = METRICS[objective.metric].unit, len(result.completions_ns), objective.confidence
    q = quantile(objective.statistic)
    if q is not None:
        value, low, high = bursts.quantile(result.completions_ns, q, sure)
        method = "order statistics, any distribution"
        if result.completed < result.sent:
            method += "; bursts never complete count as later than any"
        return Estimate(value, low, high, sure, n, unit, method)
    known = [one for one in result.completions_ns if one is not None]
    if len(known) < n or not known:
        return Estimate(None, None, None, sure, n, unit, "of this window, exact")
    least = max(one - by for one, by in zip(known, _held(result), strict=True))
    method = "of this window; low end without what the sender was behind"
    return Estimate(max(known), least, max(known), sure, n, unit, method)


def _spread(objective: Objective, result: BurstsResult, key: str) -> Finding:
    value, low, high = bursts.variation(result.completions_ns, objective.confidence)
    missing = result.sent - result.completed
    method = f"jackknife over {bursts.BLOCKS} blocks of neighbours, Student's t"
    if missing:
        method += f"; {format_count(missing)} never complete are left out"
    made = Estimate(value, low, high, objective.confidence, result.completed, "ratio", method)
    if value is None or low is None or high is None:
        said = f"{words.name(objective)}: {_of(result)} are too few"
        return Finding(objective, Outcome.NO_DATA, said, None, f"at least {bursts.LEAST} bursts", Rule.NONE, key)
    said = f"{words.name(objective)}: {format_ratio(value)} ({format_ratio(low)} to {format_ratio(high)} at {words.percent(objective.confidence)}) over {_of(result)}"
    if objective.limit is None:
        return Finding(
            objective, Outcome.NOT_JUDGED, f"{said}, {words.not_judged(objective)}", made, "", Rule.NONE, key
        )
    said += f"; at most {format_ratio(objective.limit)} is asked"
    if high <= objective.limit and not missing:
        return Finding(objective, Outcome.PASS, said, made, "", Rule.EXACT, key)
    calm, calm_low, _ = bursts.variation(_calm(result), objective.confidence)
    if low > objective.limit and calm_low is not None and calm_low > objective.limit:
        return _excused(Finding(objective, Outcome.FAIL, said, made, "", Rule.EXACT, key), result)
    if low > objective.limit:
        alone = f"it is {format_ratio(calm)}" if calm is not None else "they are too few"
        said += f"; over those whose sender kept its pace {alone}: the host may be what varies"
        return Finding(objective, Outcome.INCONCLUSIVE, said, made, _AGAIN, Rule.EXACT, key)
    more = "more bursts: the interval has to leave the limit" if not missing else "bursts that are all complete"
    return Finding(objective, Outcome.INCONCLUSIVE, said, made, more, Rule.EXACT, key)


def _calm(result: BurstsResult) -> list[int | None]:
    """Completions of the bursts whose sender kept its pace."""
    pairs = zip(result.completions_ns, _held(result), strict=True)
    return [None if one is None or by > HELD * one else one for one, by in pairs]


def _held(result: BurstsResult) -> tuple[int, ...]:
    return result.held_ns or (0,) * len(result.completions_ns)


# ---- words


def _of(result: BurstsResult) -> str:
    return f"{format_count(len(result.completions_ns))} bursts"


def _dropped(result: BurstsResult) -> str:
    return f"the receiving socket dropped {format_count(result.host_lost)} packets, which had no room"


def _loss(result: BurstsResult) -> str:
    if not result.lost:
        return "; no packet of theirs was lost on the way"
    return (
        f"; {format_count(result.lost)} of {format_count(result.packets)} packets were lost on the way and sent again"
    )


def _described(result: BurstsResult) -> str:
    parts = []
    for q, title in ((0.5, "p50"), (0.99, "p99")):
        value, low, high = bursts.quantile(result.completions_ns, q)
        between = (
            f" ({format_duration(low)} to {format_duration(high)})" if low is not None and high is not None else ""
        )
        parts.append(
            f"{title} {format_duration(value)}{between}"
            if value is not None
            else f"{title} none, among those never complete"
        )
    known = [one for one in result.completions_ns if one is not None]
    if known:
        parts.append(f"longest {format_duration(max(known))}")
    spread, _, _ = bursts.variation(result.completions_ns)
    if spread is not None:
        parts.append(f"coefficient of variation {format_ratio(spread)}")
    change, low, high = bursts.drift(result.completions_ns)
    if change is not None and low is not None and high is not None:
        steady = low <= 0 <= high
        parts.append(
            "no drift from first to last"
            if steady
            else f"drift of {format_duration(round(change))} from first to last ({format_duration(round(low))} to {format_duration(round(high))})"
        )
    parts.append(f"the smallest round trip of {format_duration(result.base_rtt_ns)} is in each")
    if result.late_starts:
        parts.append(f"{format_count(result.late_starts)} began late, the one before was not complete")
    return f"{_of(result)} of {format_count(result.burst_bytes)} B, " + ", ".join(parts)


def _places(direction: Direction, result: BurstsResult) -> Iterator[Note]:
    """Where in the burst packets are lost: towards its end, a queue too short for it."""
    lost = _lost(result)
    if not lost or not result.positions:
        return
    quarter = max(result.positions // 4, 1)
    last = sum(result.lost_by_position[-quarter:])
    said = f"{direction}: {format_count(lost)} of {format_count(result.packets)} packets of bursts were lost on the way"
    if lost >= _ENOUGH and last / result.lost > _CROWDED * quarter / result.positions:
        said += (
            f", {format_ratio(last / result.lost)} of them in the last quarter of their burst: a queue on the way is too short for it, "
            "or a policer's bucket empty by then"
        )
    elif lost >= _ENOUGH:
        said += ", spread over the burst"
    yield Note("bursts", said, "warn")


def _lost(result: BurstsResult) -> int:
    """First copies, without those the receiving socket had no room for."""
    return max(result.lost - result.host_lost, 0)
