"""The sentences of findings: numbers, sample size, direction, and what would decide. Plain words an engineer reads to a vendor.

Floor 2, pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from linkqual.metrics import METRICS
from linkqual.model import Direction, Objective
from linkqual.profile.limits import NONE
from linkqual.rules.ledger import Entry
from linkqual.rules.proportion import Reason, Sample, more_trials
from linkqual.stats.boundaries import ENOUGH_EVENTS
from linkqual.units import (
    NS_PER_S,
    format_count,
    format_duration,
    format_packet_rate,
    format_ratio,
    format_value,
)

_HINDSIGHT = "if looked at once, but while measuring it is looked at after every trial, which asks for more"
NOTICEABLE = 1.05  # mean size of an event worth a word
_READABLE_NS = (60 * NS_PER_S, 12 * 3600 * NS_PER_S)
_RATES = (10, 100, 1_000, 10_000, 100_000)


def name(objective: Objective) -> str:
    """ "forward loss", "round trip p99", "reverse jitter (PDV) p99.9"."""
    metric = METRICS[objective.metric]
    direction = "" if objective.direction is Direction.ROUND_TRIP else f"{objective.direction} "
    if objective.direction is Direction.ROUND_TRIP and not metric.title.startswith("round trip"):
        direction = "round-trip "
    statistic = "" if objective.statistic in ("ratio", "size", "own", "difference") else f" {objective.statistic}"
    return f"{direction}{metric.title}{statistic}"


def unit(objective: Objective) -> str:
    """What is counted: packets, seconds or bursts."""
    return {"throughput": "seconds", "bursts": "bursts"}.get(METRICS[objective.metric].probe, "packets")


def streams(count: int) -> str:
    """ "1 stream", "16 streams"."""
    return f"{count} stream{'s' if count != 1 else ''}"


def percent(share: float) -> str:
    """ "95 %", "99.38 %"."""
    return f"{share * 100:.4g} %"


def _did(objective: Objective) -> tuple[str, str]:
    """What a bad trial did, of one and of many."""
    limit = format_value(objective.limit, METRICS[objective.metric].unit)
    return {
        "loss_ratio": ("was lost", "were lost"),
        "reordered_ratio": ("came out of order", "came out of order"),
        "duplicate_ratio": ("came more than once", "came more than once"),
        "added_delay": (f"took over {limit} longer than before the load",) * 2,
        "pdv": (f"was more than {limit} above the smallest delay", f"were more than {limit} above the smallest delay"),
        "ipdv": (f"differed by more than {limit} from the one before",) * 2,
        "throughput": (f"was below {limit}", f"were below {limit}"),
    }.get(objective.metric, (f"took longer than {limit}",) * 2)


def counted(objective: Objective, sample: Sample, value: float | None = None) -> str:
    """ "forward loss: 3 of 1,100,382 packets were lost (2.73e-6) in 3 events"."""
    one, many = _did(objective)
    of = f"of {format_count(sample.n)} {unit(objective)}"
    measured = METRICS[objective.metric].unit
    head = name(objective) + (
        f" of {format_value(value, measured)}" if value is not None and measured != "ratio" else ""
    )
    if not sample.bad:
        return f"{head}: none {of} {one}"
    count = f"{format_count(sample.bad)} {of} {one if sample.bad == 1 else many}"
    if measured == "ns" and sample.lost != 0:
        count += " or was lost" if sample.bad == 1 else " or were lost"
    share = format_ratio(sample.ratio)
    if measured == "ns" and sample.lost:
        share += f", {format_count(sample.lost)} of them lost" if sample.lost < sample.bad else ", all of them lost"
    return f"{head}: {count} ({share}){_events(sample)}"


def _events(sample: Sample) -> str:
    if sample.bad < 2 or sample.size < NOTICEABLE:
        return ""
    return ", all in one event" if sample.events == 1 else f" in {format_count(sample.events)} events"


def _mean(size: float) -> str:
    return f"{size:.3g} {'packet' if size == 1 else 'packets'}"


def _proven(objective: Objective, sample: Sample, whole: Sample | None, value: float | None) -> str:
    """What was counted; of a decision taken early, in the whole run and up to the decision."""
    if whole is None or whole.n <= sample.n:
        return counted(objective, sample, value)
    when = f"proven after {format_count(sample.n)}" + (f" with {format_count(sample.bad)}" if whole.bad else "")
    return f"{counted(objective, whole, value)}, {when}"


def passed(objective: Objective, sample: Sample, value: float | None = None, whole: Sample | None = None) -> str:
    """Why the limit is kept. `whole`: the run, of which `sample` is what the decision was taken on."""
    said, at = _proven(objective, sample, whole, value), percent(sample.confidence)
    allowed = f"within the {format_ratio(sample.limit)} allowed"
    if objective.metric == "loss_ratio" and not sample.bad:
        return (
            f"{said}: at most {format_ratio(sample.event_upper)} loss events a packet at {at}, {allowed}; "
            f"as a packet loss ratio this holds for bursts of up to {_mean(sample.burst)} on average"
        )
    said = f"{said}: at most {format_ratio(sample.high)} at {at}, {allowed}"
    if objective.metric == "throughput" or sample.burst < NOTICEABLE:
        return said
    if sample.size >= NOTICEABLE:
        return f"{said}; an event counts once, with up to {_mean(sample.burst)} on average"
    return (
        f"{said}, also if {_mean(sample.burst)} go wrong together each time" if sample.events < ENOUGH_EVENTS else said
    )


def failed(objective: Objective, sample: Sample, value: float | None = None, whole: Sample | None = None) -> str:
    """Why it is broken."""
    lower = min(sample.lower, sample.low) if sample.low > sample.limit else sample.lower
    return (
        f"{_proven(objective, sample, whole, value)}: at least {format_ratio(lower)} at {percent(sample.confidence)}, "
        f"above the {format_ratio(sample.limit)} allowed"
    )


def failed_in_bursts(objective: Objective, sample: Sample, value: float | None = None) -> str:
    """Why it is broken in this window, by so few events that they are no rate yet."""
    accident = "that is one event and not a rate" if sample.events == 1 else "these few events are not yet a rate"
    return (
        f"{counted(objective, sample, value)}: above the {format_ratio(sample.limit)} allowed in this window; {accident}: by events "
        f"the ratio lies between {format_ratio(sample.low)} and {format_ratio(sample.high)} at {percent(sample.confidence)}"
    )


def open_(objective: Objective, sample: Sample, value: float | None = None, reason: Reason = Reason.PLAIN) -> str:
    """Why it is neither."""
    said, at, limit = counted(objective, sample, value), percent(sample.confidence), format_ratio(sample.limit)
    low, high = format_ratio(sample.low), format_ratio(sample.high)
    if reason in (Reason.HOST, Reason.CLOCKS):
        return f"{said}, above the {limit} allowed; but {_doubted(sample)}, and without those it is not proven broken"
    if reason is Reason.FAMILY:
        return (
            f"{said}: at least {format_ratio(sample.lower)} at {at}, above the {limit} allowed, "
            f"but with {sample.family} red lines a FAIL needs {percent(sample.strict)}"
        )
    if sample.low <= sample.limit < sample.lower:
        return (
            f"{said}: by {unit(objective)} at least {format_ratio(sample.lower)} at {at}, above the {limit} allowed; "
            f"by events it lies between {low} and {high}: the two do not agree"
        )
    if not sample.low <= sample.limit < sample.upper:
        return _contested(objective, sample, value)
    if not sample.bad:
        return f"{said}, but with so few it could still be up to {high} at {at}, and {limit} is allowed"
    return f"{said}: between {low} and {high} at {at}, and the {limit} allowed lies between"


def _doubted(sample: Sample) -> str:
    """Who else may have caused bad trials."""
    if sample.drift_ns:
        return (
            f"both clocks moved by up to {format_duration(sample.drift_ns)} against each other, so up to {format_count(sample.doubt)} "
            "of them may only seem late"
        )
    what = "not be this line's doing" if sample.lost == 0 else "be no loss of this line in this direction"
    return f"up to {format_count(sample.doubt)} of them may {what}: {sample.suspicion}"


def suspicion(doubts: Sequence[Entry]) -> str:
    """ "18,220 dropped by the far end's receive socket, which had no room; 3 may have been dropped inside a host"."""
    ordered = sorted(doubts, key=lambda entry: -entry.packets)
    return "; ".join(f"{format_count(entry.packets)} {entry.because}" for entry in ordered)


def _contested(objective: Objective, sample: Sample, value: float | None) -> str:
    """By one form or at one look it would be decided, by the other or at many looks it is not."""
    said, at, limit = counted(objective, sample, value), percent(sample.confidence), format_ratio(sample.limit)
    low, high = format_ratio(sample.low), format_ratio(sample.high)
    if sample.upper <= sample.limit < sample.high:
        return (
            f"{said}: by {unit(objective)} at most {format_ratio(sample.upper)} at {at}, within the {limit} allowed; "
            f"by events of up to {_mean(sample.burst)} on average it could be {high}: the two do not agree"
        )
    side = f"at most {high}" if sample.high <= sample.limit else f"at least {low}"
    return f"{said}: {side} at {at} {_HINDSIGHT}"


def decide(objective: Objective, sample: Sample, rate: float, sequential: bool = False) -> str:
    """What would decide it: how many more trials, and how long they take at the rate of the run and at others."""
    more = more_trials(sample, sequential)
    if more is None:
        return "the ratio seen sits on the limit itself: as long as it stays there, no number of trials decides"
    if objective.metric == "throughput":
        return f"about {format_count(more)} more seconds, if the share of slow ones stays as it is"
    if sample.bad:
        more = _rounded(more)
        return f"about {format_count(more)} more packets, if the ratio stays as it is: {times(more, rate)}"
    return f"{format_count(more)} more packets without a bad one: {times(more, rate)}"


def _rounded(count: int) -> int:
    """To three digits: what follows them is not known of an estimate."""
    return round(count, 3 - len(str(count))) if count >= 1000 else count


def times(packets: int, rate: float) -> str:
    """ "48 min 16 s at 100 pps, 8 h 03 min at 10 pps": the rate of the run first."""
    mine = [rate] if rate > 0 else []
    others = [each for each in _RATES if not rate or abs(each - rate) > rate / 10]
    low, high = _READABLE_NS
    readable = [each for each in others if low <= packets * NS_PER_S / each <= high]
    chosen = mine + sorted(readable, key=lambda each: abs(each - (rate or each)))[: 3 - len(mine)]
    said = ", ".join(f"{format_duration(packets * NS_PER_S / each)} at {format_packet_rate(each)}" for each in chosen)
    return said or f"{format_duration(packets * NS_PER_S / 1000)} at {format_packet_rate(1000)}"


def not_judged(objective: Objective) -> str:
    """The end of a sentence on what has no limit: "shown and not judged (no limit given)"."""
    why = objective.limit_text if objective.limit_text not in {"", NONE} else "no limit given"
    return f"shown and not judged ({why})"
