"""Findings on the throughput search: of all frame sizes the one that carries least, as the contracted rate counts. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Sequence

from linkqual.model import Estimate, Finding, FoundRate, Measurement, Objective, Outcome, Plan, Rule, SearchResult, Step
from linkqual.rules import hosts, words
from linkqual.session.activation import ip_share
from linkqual.stats.throughput import OVERHEAD_BYTES
from linkqual.units import format_count, format_rate, format_ratio

LIMITED = {
    "host": "the hosts could do no more",
    "cap": "a cap on bytes or rate ended it",
    "interrupted": "it was interrupted",
    "peer-lost": "the far end went away",
    "trials": "the line changed its answer too often",
}
_AGAIN = "search again, to the end"
_FASTER = "search from hosts that can send and receive more at this size"


def counted(one: FoundRate, bps: float, counts: str) -> float:
    """A rate of the search (IP layer) as `counts` counts it."""
    return bps / ip_share(((one.packet_bytes, 1),), counts)


def finding(objective: Objective, plan: Plan, measurements: Sequence[Measurement], _family: int) -> Finding | None:
    """Of the direction; None when nothing was searched there."""
    link = plan.link
    taken = next(
        (one for one in measurements if one.search is not None and one.search.direction is objective.direction), None
    )
    if taken is None or taken.search is None or not taken.search.found:
        return None
    result, key = taken.search, taken.step.key
    least = min(result.found, key=lambda one: counted(one, one.rate_bps or 0.0, link.rate_counts))
    value = counted(least, least.rate_bps or 0.0, link.rate_counts)
    step = counted(least, least.maximum_bps, link.rate_counts) * result.resolution
    reached = value >= counted(least, least.maximum_bps, link.rate_counts) * (1 - 1e-9)
    high = None if least.limited or reached else value + step
    method = f"binary search, failed trials repeated, to {format_ratio(result.resolution)} of the maximum"
    made = Estimate(value, value, high, objective.confidence, len(result.trials), "bit/s", method)
    said = f"{words.name(objective)}: {_carried(result, least, value)}"
    if objective.limit is None:
        said += f", {words.not_judged(objective)}"
        return Finding(objective, Outcome.NOT_JUDGED, said, made, "", Rule.NONE, key)
    said += f"; at least {format_rate(objective.limit)} is asked"
    unknown = _unknown(taken.step, result)
    outcome, why, more = _ruling(least, value, step, objective.limit, unknown)
    dropped = hosts.dropped_unheard(taken.conditions, result.direction)
    if outcome is Outcome.FAIL and dropped:
        outcome, why = Outcome.INCONCLUSIVE, f"; but a host may have dropped {format_count(dropped)} packets meanwhile"
        more = _FASTER
    return Finding(objective, outcome, said + why, made, more, Rule.EXACT, key)


def _ruling(least: FoundRate, value: float, step: float, limit: float, unknown: str) -> tuple[Outcome, str, str]:
    """(outcome, what the sentence has to add, what would decide)."""
    if value >= limit and unknown:
        return Outcome.INCONCLUSIVE, f"; but frames of {unknown} octets were not searched to the end", _AGAIN
    if value >= limit:
        return Outcome.PASS, "", ""
    if least.limited:
        return Outcome.INCONCLUSIVE, "", _FASTER if least.limited == "host" else _AGAIN
    if value + step < limit:
        return Outcome.FAIL, "", ""
    return Outcome.INCONCLUSIVE, ", and it lies within the resolution", "search with a finer resolution"


def _unknown(step: Step, result: SearchResult) -> str:
    """Sizes of the step that no trial of the full length has confirmed: there the line may carry less than any other size shows."""
    told = {one.packet_bytes for one in result.found if one.limited in ("", "host")}
    asked = {size for size, _ in step.params.get("sizes", ())} | {one.packet_bytes for one in result.found}
    return " and ".join(str(size + OVERHEAD_BYTES["l2"]) for size in sorted(asked - told))


def _carried(result: SearchResult, one: FoundRate, value: float) -> str:
    goal = f"a loss of at most {format_ratio(result.goal)}" if result.goal else "no loss"
    frame = one.packet_bytes + OVERHEAD_BYTES["l2"]
    if one.rate_bps is None and not one.limited:
        return f"frames of {frame} octets: at no rate tried {goal}"
    if one.limited:
        known = f"at least {format_rate(value)} with {goal}" if one.rate_bps is not None else "nothing"
        return f"frames of {frame} octets: {known} is known, since {LIMITED.get(one.limited, one.limited)}"
    return f"frames of {frame} octets: {format_rate(value)} with {goal}"
