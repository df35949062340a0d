"""One load of a service held against what was agreed: rate, loss, delay, its variation, availability, policing. Floor 2, pure.

Colour-blind, as ITU-T Y.1564 has it: nothing marks frames as within or beyond the CIR, so above the CIR only the rate is judged.
A rate or a loss that a host may have caused fails no line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from linkqual.metrics import quantile
from linkqual.model import (
    Direction,
    Estimate,
    Finding,
    Measurement,
    Objective,
    Outcome,
    Rule,
    Service,
    ServiceStep,
    StampResult,
)
from linkqual.rules import hosts, packets, words
from linkqual.rules.proportion import Reason, Sample, longest_event, rule
from linkqual.session import activation
from linkqual.stats.error_performance import error_seconds
from linkqual.units import NS_PER_S, format_count, format_duration, format_rate, format_ratio

RATE_ERROR = 2e-3  # of a rate by the receiver's stamps against one by the sender's: two free clocks, and what is in flight at both edges
PUNCTUAL = 0.99  # of the rate asked for: under it the sender was behind (`model.LoadCount.short`)
WITHIN_CIR = (activation.CIR, activation.PERFORMANCE)
UNAVAILABLE_NS = 10 * NS_PER_S  # so long must severely errored seconds follow each other
FASTER = "offer the service from hosts that can: more cores, larger frames, or a share of the rate by --max-rate"
_ROOM = "measure with hosts that have room: longer receive rings and buffers (`linkqual doctor`), then run again"


@dataclass(frozen=True, slots=True)
class Load:
    """A step with all that judging it takes. `beside`: the stream that ran with it."""

    measurement: Measurement
    service: Service
    step: ServiceStep
    beside: StampResult | None

    @property
    def title(self) -> str:
        """ "storage, CIR 75 %"."""
        return f"{self.service.name}, {activation.title(self.step.kind, self.step.share)}"

    @property
    def cir_bps(self) -> int:
        """Committed in its direction."""
        return self.service.committed_bps(self.step.direction)

    @property
    def offered_bps(self) -> float:
        """What left, the stream included, as the service counts it."""
        return self._counted(self._left_bps)

    @property
    def behind(self) -> bool:
        """Whether the sender fell behind its schedule, whatever ended it: what it held up may have left in lumps."""
        count = self.step.count
        return count.short == "host" or (count.short != "cap" and self._left_bps < PUNCTUAL * count.asked_bps)

    @property
    def _left_bps(self) -> float:
        """Of the load alone, IP layer: what followed the first packet until the last one left."""
        count = self.step.count
        return count.sent_bytes * (1 - 1 / count.sent) * 8 * NS_PER_S / count.sent_ns if count.sent_ns else 0.0

    @property
    def ir_bps(self) -> float:
        """Information rate: what arrived, as the service counts it; the stream taken to arrive as its load does."""
        count = self.step.count
        share = count.received / count.sent if count.sent else 0.0
        return self._counted(count.rate_bps or 0.0, share)

    def _counted(self, load_bps: float, share: float = 1.0) -> float:
        count, stream = self.step.count, self.step.stream_bps * share
        return activation.counted_bps(load_bps, count.sizes, stream, _ip_bytes(self.beside), self.service.counts)

    @property
    def host_lost(self) -> int:
        """Of its lost frames at most so many may have been dropped by a host: the receiving one, or the sending one unheard."""
        count = self.step.count
        return min(
            count.lost, count.host_lost + hosts.dropped_unheard(self.measurement.conditions, self.step.direction)
        )


def _ip_bytes(beside: StampResult | None) -> int:
    """Of the stream's packets; without one any size does, since its rate is 0 then."""
    return (beside.packet_bytes if beside else 64) + 28


def _made(
    load: Load, objective: Objective, outcome: Outcome, because: str, made: Estimate | None, decide: str = ""
) -> Finding:
    rule_ = Rule.NONE if outcome in (Outcome.NO_DATA, Outcome.NOT_JUDGED) else Rule.EXACT
    return Finding(objective, outcome, because, made, decide, rule_, load.measurement.step.key)


# ---- information rate


def rate(objective: Objective, load: Load, limit: float | None, _family: int) -> Finding:
    """At least the CIR less the frame loss agreed arrives, while at least the CIR is offered."""
    cir, got, offered = load.cir_bps, load.ir_bps, load.offered_bps
    value = got / cir
    made = _within_error(value, load.step.count.received, "by the receiver's stamps", objective)
    said = f"{format_rate(got)} of {format_rate(offered)} offered arrived, {format_ratio(value)} of the CIR of {format_rate(cir)}"
    if limit is None:
        return _made(load, objective, Outcome.NOT_JUDGED, said, made)
    asked = f"at least {format_ratio(limit)} is agreed"
    if value >= limit * (1 - RATE_ERROR):
        return _made(load, objective, Outcome.PASS, f"{said}; {asked}", made)
    if offered < limit * cir * (1 - RATE_ERROR):
        short = f"only {format_rate(offered)} of the CIR of {format_rate(cir)} left this host, so {format_rate(got)} that arrived say nothing of it"
        return _made(load, objective, Outcome.INCONCLUSIVE, short, made, FASTER)
    if host := load.host_lost:
        back = offered * host / load.step.count.sent
        if got + back >= limit * cir * (1 - RATE_ERROR):
            why = f"{said}; {asked}, but a host may have dropped {format_count(host)} frames"
            return _made(load, objective, Outcome.INCONCLUSIVE, why, made, _ROOM)
    return _made(load, objective, Outcome.FAIL, f"{said}; {asked}", made)


def _within_error(value: float, n: int, how: str, objective: Objective) -> Estimate:
    method = f"{how}, to within {format_ratio(RATE_ERROR)}"
    return Estimate(value, value * (1 - RATE_ERROR), value * (1 + RATE_ERROR), objective.confidence, n, "ratio", method)


# ---- frame loss


def loss(objective: Objective, load: Load, limit: float | None, family: int) -> Finding:
    """Of the frames offered within the CIR, by sequence number."""
    count = load.step.count
    as_loss = replace(objective, metric="loss_ratio", limit=limit)
    sample = _sample(as_loss, load, family)
    method = "exact one-sided bounds, by frames and by loss events"
    made = Estimate(sample.ratio, sample.low, sample.high, objective.confidence, sample.n, "ratio", method)

    def found(outcome: Outcome, said: str, decide: str = "") -> Finding:
        return _made(load, objective, outcome, _unnamed(as_loss, said), made, decide)

    if limit is None:
        lost, share = format_count(count.lost), format_ratio(sample.ratio)
        return found(Outcome.NOT_JUDGED, f"{lost} of {format_count(count.sent)} frames were lost ({share})")
    ruling = rule(sample)
    if ruling.outcome is Outcome.PASS:
        return found(Outcome.PASS, words.passed(as_loss, sample))
    if ruling.outcome is Outcome.FAIL:
        in_bursts = ruling.reason is Reason.BURSTS
        return found(Outcome.FAIL, (words.failed_in_bursts if in_bursts else words.failed)(as_loss, sample))
    said = words.open_(as_loss, sample, reason=ruling.reason)
    if ruling.reason is Reason.HOST:
        return found(Outcome.INCONCLUSIVE, said, sample.remedy)
    pps = count.sent * NS_PER_S / count.sent_ns if count.sent_ns else 0
    more = f"{words.decide(as_loss, sample, pps)}; step: auto makes the steps as long as the proof takes"
    return found(Outcome.INCONCLUSIVE, said, more)


def _sample(as_loss: Objective, load: Load, family: int) -> Sample:
    count, longest, doubt = load.step.count, longest_event(as_loss, 0), load.host_lost
    events = sum(math.ceil(one.packets / longest) for one in count.loss_events)
    return Sample(
        n=count.sent,
        bad=count.lost,
        events=min(max(events, 1), count.lost),
        limit=as_loss.limit or 0.5,
        confidence=as_loss.confidence,
        family=family,
        assumed=as_loss.assumed_burst,
        doubt=doubt,
        suspicion=f"{format_count(doubt)} may have been dropped inside a host, which had no room",
        remedy=_ROOM,
    )


def _unnamed(objective: Objective, said: str) -> str:
    """A sentence of `rules.words` without the name it begins with: ours has another."""
    return said.removeprefix(words.name(objective)).removeprefix(": ").removeprefix(" of ")


# ---- delay and its variation


def delay(objective: Objective, load: Load, limit: float | None, family: int) -> Finding:
    """One way; where nobody knows the offset of the clocks, a round trip within the limit proves it too.

    A lost packet took longer than any limit: where more are lost than may be late, that alone refutes it, whatever the clocks say.
    """
    found = _of_stream(objective, load, "one_way_delay", limit, family)
    if found.outcome is not Outcome.NO_DATA or limit is None or load.beside is None:
        return found
    q = quantile(objective.statistic)
    lost = (
        _of_stream(replace(objective, statistic="ratio"), load, "loss_ratio", 1 - q, family) if q is not None else found
    )
    if lost.outcome is Outcome.FAIL:
        n = lost.estimate.n if lost.estimate else 0
        made = Estimate(None, None, None, objective.confidence, n, "ns", "it falls among lost packets")
        return _made(load, objective, Outcome.FAIL, f"{lost.because}; a lost packet took longer than any limit", made)
    whole = replace(objective, direction=Direction.ROUND_TRIP)
    proven = _of_stream(whole, load, "round_trip_delay", limit, family)
    if proven.outcome is not Outcome.PASS:
        return found
    return replace(proven, objective=objective, because=f"{proven.because}; a single way takes no longer than both")


def variation(objective: Objective, load: Load, limit: float | None, family: int) -> Finding:
    """Above the smallest one-way delay of the step."""
    return _of_stream(objective, load, "pdv", limit, family)


def _of_stream(objective: Objective, load: Load, metric: str, limit: float | None, family: int) -> Finding:
    """The same red line as of a packet stream alone."""
    if load.beside is None:
        why = "no STAMP stream ran beside the load"
        return _made(load, objective, Outcome.NO_DATA, why, None, "run again: the agent has to answer it")
    as_stream = replace(objective, metric=metric, limit=limit)
    found = packets.finding(as_stream, replace(load.measurement, stamp=load.beside), family)
    return replace(found, objective=objective, because=_unnamed(as_stream, found.because))


# ---- availability


def availability(objective: Objective, load: Load, limit: float | None, _family: int) -> Finding:
    """Of the seconds of the performance test, by the rule of ten severely errored seconds; a fact of this window."""
    count = load.step.count
    if not count.by_departure:
        return _made(load, objective, Outcome.NO_DATA, "no second of it was counted", None, "run again, for longer")
    sent = [left for left, _ in count.by_departure]
    lost = [left - came for left, came in count.by_departure]
    found = error_seconds(sent, lost, run=max(1, round(UNAVAILABLE_NS / count.interval_ns)))
    if not found.observed:
        return _made(load, objective, Outcome.NO_DATA, "in no second of it a frame was sent", None, "run again")
    value = (found.observed - found.uas) / found.observed
    made = Estimate(value, value, value, objective.confidence, found.observed, "ratio", "of this window, exact")
    length = format_duration(len(sent) * count.interval_ns)
    said = f"{format_ratio(value)} of {length} was available, {format_count(found.uas)} s unavailable, {format_count(found.ses)} s more severely errored"
    if limit is None:
        return _made(load, objective, Outcome.NOT_JUDGED, said, made)
    said += f"; {format_ratio(limit)} is agreed, and this window is held against it, not a year"
    if value >= limit:
        return _made(load, objective, Outcome.PASS, said, made)
    if load.host_lost:
        return _made(load, objective, Outcome.INCONCLUSIVE, f"{said}; but a host dropped frames", made, _ROOM)
    return _made(load, objective, Outcome.FAIL, said, made)


# ---- policing


def policing(objective: Objective, load: Load, limit: float | None, _family: int) -> Finding:
    """Of an overshoot no more than CIR + EIR and the margin gets through."""
    full, got, offered = load.cir_bps + load.service.eir_bps, load.ir_bps, load.offered_bps
    value = max(got / full - 1, 0.0)
    made = Estimate(
        value, max(got * (1 - RATE_ERROR) / full - 1, 0.0), max(got * (1 + RATE_ERROR) / full - 1, 0.0), objective.confidence,
        load.step.count.received, "ratio", f"by the receiver's stamps, to within {format_ratio(RATE_ERROR)}",
    )  # fmt: skip
    said = f"{format_rate(got)} of {format_rate(offered)} offered got through"
    if limit is None:
        return _made(load, objective, Outcome.NOT_JUDGED, f"{said}; CIR + EIR is {format_rate(full)}", made)
    allowed = f"CIR + EIR of {format_rate(full)} and a margin of {format_ratio(limit)}"
    if offered <= full * (1 + limit) * (1 + RATE_ERROR):
        why = f"only {format_rate(offered)} was offered, no more than {allowed}: whether the line polices is not known"
        return _made(load, objective, Outcome.INCONCLUSIVE, why, made, FASTER)
    if got <= full * (1 + limit) * (1 + RATE_ERROR):
        return _made(load, objective, Outcome.PASS, f"{said}: cut to {allowed}", made)
    return _made(
        load, objective, Outcome.FAIL, f"the line does not police at CIR + EIR: {said}, more than {allowed}", made
    )
