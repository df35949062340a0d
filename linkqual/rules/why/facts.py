"""All that was measured of one direction and bears on its goodput. Rates are at the IP layer unless they are called goodput. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from linkqual.metrics import quantile
from linkqual.model import (
    Direction,
    Fault,
    FoundRate,
    Link,
    LoadCount,
    Measurement,
    Plan,
    Relation,
    ThroughputResult,
    TrainsResult,
)
from linkqual.rules import loads
from linkqual.session import flow_sharing
from linkqual.stats import load_rates, throughput
from linkqual.stats.confidence import outage_rate_bounds
from linkqual.stats.tally import events

NEARLY = 0.95  # of what the headers allow: TCP seldom fills a line to the last percent
KEPT = 0.9  # of what was asked of it: a host that sends less is busy
MANY = 4  # flows from which on a limit of single flows would show
THIN_S = 5  # seconds of goodput under which nothing is held for certain
LONG = 0.9  # of the MTU: shorter packets leave the IP layer less of the same line
_ASSUMED_MTU = 1500


@dataclass(frozen=True, slots=True)
class Idle:
    """Packets of the STAMP stream, which does not load the line: what is lost of them the line loses by itself."""

    sent: int
    lost: int
    rate: tuple[float, float, float]  # loss events a packet: value, low, high (95 %)
    events: int
    rtt_min_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """One direction. `load` is what falls short: the heaviest load, or (subject "flow") the one with the fewest streams."""

    direction: Direction
    link: Link
    subject: str
    load: ThroughputResult
    measurement: Measurement  # of `load`
    heaviest: ThroughputResult
    ladder: tuple[ThroughputResult, ...]  # by number of streams
    bbr: ThroughputResult | None
    allowed: float  # goodput the headers allow, or what many streams reach (subject "flow")
    idle: Idle | None
    trains: TrainsResult | None
    counts: tuple[LoadCount, ...]  # UDP loads that tell of the line
    host_counts: tuple[LoadCount, ...]  # UDP loads that the receiving host lost too much of to tell of it
    found: tuple[FoundRate, ...]  # by the search, per packet size
    sharing: flow_sharing.Sharing
    tried: dict[str, Fault | None]  # probes that ran in this direction, and what ended them

    def in_vain(self, probe: str, because: str = "") -> str:
        """What came of a probe that ran and told nothing of a cause; "" when it did not run."""
        if probe not in self.tried:
            return because
        fault = self.tried[probe]
        said = "; ".join(part for part in (because, fault.message if fault else "") if part)
        return f"{probe} ran and told nothing" + (f": {said}" if said else "")

    def look(self, probe: str, advice: str) -> str:
        """`advice` to run a probe that did not run; of one that did, what its fault asks for."""
        if probe not in self.tried:
            return advice
        fault = self.tried[probe]
        return fault.hint if fault else ""

    @property
    def got(self) -> float:
        """Goodput, median of the receiver's seconds."""
        return loads.median(self.load)

    @property
    def each(self) -> float:
        """Goodput of one stream of the load, on average."""
        return self.got / max(self.load.streams, 1)

    @property
    def mtu(self) -> int:
        """Bytes of a full IP packet: as TCP really sent them, else as contracted."""
        sent = self.load.mss + loads.TIMESTAMPS_IPV4 if self.load.mss else None
        return sent or self.link.mtu or _ASSUMED_MTU

    @property
    def contract(self) -> float | None:
        """What the contracted rate leaves to IP packets of the size that TCP sent, bit/s."""
        rate = self.link.contracted_bps(self.direction)
        return None if rate is None else rate * self.mtu / (self.mtu + throughput.OVERHEAD_BYTES[self.link.rate_counts])

    @property
    def nearly(self) -> bool:
        """Whether so little is missing that TCP's own ways explain it as well."""
        return self.subject == "line" and self.got >= NEARLY * self.allowed

    @property
    def rtt_ns(self) -> int | None:
        """Of the load, as TCP saw it."""
        return self.load.rtt_mean_ns or self.load.rtt_min_ns

    @property
    def base_rtt_ns(self) -> int | None:
        """The smallest any packet took, of the stream beside idle too: TCP's own smallest is one with its queue already filled."""
        seen = [one.rtt_min_ns for one in (*self.ladder, self.bbr) if one is not None and one.rtt_min_ns]
        idle = [self.idle.rtt_min_ns] if self.idle is not None and self.idle.rtt_min_ns else []
        return min((*seen, *idle), default=None)

    @property
    def starved(self) -> LoadCount | None:
        """The UDP load of which its sending host could send least; None where it kept up."""
        behind = [
            one
            for one in (*self.counts, *self.host_counts)
            if one.short == "host" and load_rates.offered_bps(one) < KEPT * one.asked_bps
        ]
        return min(behind, key=lambda one: load_rates.offered_bps(one) / one.asked_bps, default=None)

    @property
    def resent(self) -> float | None:
        """Retransmits of the load per packet sent."""
        return _resent(self.load)

    @property
    def most_resent(self) -> float | None:
        """The same of the load that resent most."""
        return max((share for one in self.ladder if (share := _resent(one)) is not None), default=None)

    def goodput(self, ip_bps: float) -> float:
        """TCP goodput that full packets leave of an IP rate."""
        return ip_bps * throughput.tcp_payload(self.mtu) / self.mtu

    def ip(self, goodput_bps: float) -> float:
        """The IP rate of a goodput."""
        return goodput_bps * self.mtu / throughput.tcp_payload(self.mtu)

    def carried(self, least_flows: int = 1) -> tuple[float, int, str]:
        """The highest IP rate that went through in this direction with so many flows or more: (bit/s, flows, which load)."""
        tcp = [(self.ip(loads.median(one)), one.streams, "TCP") for one in self.ladder if one.streams >= least_flows]
        udp = [(load_rates.steady_bps(one), one.flows, "UDP") for one in self.counts if one.flows >= least_flows]
        return max((*tcp, *udp), default=(0.0, 0, ""))

    @property
    def one_flow_udp(self) -> float | None:
        """The highest IP rate that one UDP flow got through; trains that met no limit tell it too."""
        found = [load_rates.steady_bps(one) for one in self.counts if one.flows == 1]
        trains = self.trains
        if trains is not None and trains.kind == "none" and trains.at_least_bps:
            found.append(trains.at_least_bps * trains.ip_share)
        elif trains is not None and trains.rate_bps is not None:
            found.append(trains.rate_bps[0] * trains.ip_share)
        return max(found, default=None)


def of(plan: Plan, measurements: Sequence[Measurement], direction: Direction) -> Facts | None:
    """The facts of a direction that falls short; None where nothing does, or nothing is known."""
    taken = [one for one in measurements if one.throughput is not None and one.step.direction is direction]
    alone = [one for one in taken if one.throughput and one.throughput.receiver_bps and one.throughput_back is None]
    judged = [one for one in alone if one.throughput and not _bbr(one.throughput)]
    judged.sort(key=lambda one: one.throughput.streams if one.throughput else 0)
    if not judged:
        return None
    ladder = tuple(one.throughput for one in judged if one.throughput)
    bbr = max(
        (one.throughput for one in alone if one.throughput and _bbr(one.throughput)), key=loads.median, default=None
    )
    allowed = _allowed(plan.link, direction, judged[-1])
    most, subject, measurement = loads.median(ladder[-1]), "line", judged[-1]
    broken = _breaks_a_limit(plan, direction, ladder[-1])
    if not broken and (allowed is None or most >= NEARLY * allowed) and loads.slow_alone(ladder[0], ladder[-1]):
        subject, measurement, allowed = "flow", judged[0], most
    elif allowed is None or (not broken and (_has_a_limit(plan, direction) or most >= loads.WHOLE * allowed)):
        return None
    load, counts = measurement.throughput, _counts(plan.link, measurements, direction)
    assert load is not None
    assert allowed is not None
    return Facts(
        direction, plan.link, subject, load, measurement, ladder[-1], ladder, bbr, allowed,
        _idle(measurements, direction), _trains(measurements, direction),
        tuple(one for one in counts if load_rates.usable(one)), tuple(one for one in counts if not load_rates.usable(one)),
        _found(measurements, direction), _sharing(measurements, direction), _tried(measurements, direction),
    )  # fmt: skip


def _tried(measurements: Sequence[Measurement], direction: Direction) -> dict[str, Fault | None]:
    ways = (direction, Direction.ROUND_TRIP)
    return {one.step.probe: one.fault for one in measurements if one.step.direction in ways and not one.not_needed}


def _resent(result: ThroughputResult) -> float | None:
    if result.retransmits is None or not result.sent_bytes or not result.mss:
        return None
    return result.retransmits * result.mss / result.sent_bytes


def _bbr(result: ThroughputResult) -> bool:
    return result.congestion_control in loads.HIDES_LOSS


def _allowed(link: Link, direction: Direction, measurement: Measurement) -> float | None:
    """Goodput the headers allow at the contracted rate, or at the rate the load was held to."""
    result, rate = measurement.throughput, link.contracted_bps(direction)
    held = measurement.step.params.get("max_rate_bps")
    if rate is None or result is None or (held and held < rate):
        return None
    return result.allowed_bps or throughput.header_goodput(rate, link.mtu or _ASSUMED_MTU, counts=link.rate_counts)


def _has_a_limit(plan: Plan, direction: Direction) -> bool:
    """Whether the profile says how much is enough: what keeps that needs no reason for the rest, unless a wrapping is declared."""
    return not plan.link.encapsulation and any(
        one.metric == "throughput" and one.direction is direction and one.limit is not None for one in plan.objectives
    )


def _breaks_a_limit(plan: Plan, direction: Direction, result: ThroughputResult) -> bool:
    """Whether a quantile of its seconds lies below what the profile asks, whatever their median."""
    for one in plan.objectives:
        q = quantile(one.statistic)
        if one.metric == "throughput" and one.direction is direction and one.limit and q is not None:
            seen = throughput.seconds_quantile(result.receiver_bps, q)
            if one.relation is Relation.AT_LEAST and seen is not None and seen < one.limit:
                return True
    return False


def _idle(measurements: Sequence[Measurement], direction: Direction) -> Idle | None:
    streams = [one.stamp.summary for one in measurements if one.stamp is not None and one.stamp.summary.sent]
    if not streams:
        return None
    summary = max(streams, key=lambda one: one.sent)
    forward = direction is Direction.FORWARD
    lost = summary.lost_forward if forward else summary.lost_reverse
    sent = summary.sent if forward else summary.sent - summary.lost_forward
    tally = summary.loss.get(direction.value)
    count = events(tally) if tally is not None and tally.bad else lost
    low, high = outage_rate_bounds(count, sent)
    return Idle(sent, lost, (count / sent, low, high), count, summary.round_trip_delay.minimum)


def _trains(measurements: Sequence[Measurement], direction: Direction) -> TrainsResult | None:
    found = [one.trains for one in measurements if one.trains is not None and one.trains.direction is direction]
    told = [one for one in found if one.kind != "unknown"]
    return told[-1] if told else found[-1] if found else None


def _counts(link: Link, measurements: Sequence[Measurement], direction: Direction) -> tuple[LoadCount, ...]:
    """UDP loads of long packets that the whole line may carry; those of one service among several meet that service's own policer."""
    found: list[LoadCount] = []
    for one in measurements:
        found += one.flows.counts if one.flows else ()
        found += one.search.trials if one.search else ()
        if one.services is not None and len(one.services.services) == 1:
            whole = one.services.services[0].cir_bps >= NEARLY * (link.contracted_bps(direction) or 0)
            found += [step.count for step in one.services.steps if whole]
    least = LONG * min(link.mtu or _ASSUMED_MTU, _ASSUMED_MTU)
    return tuple(one for one in found if one.direction is direction and min(one.sizes, default=(0, 0))[0] >= least)


def _found(measurements: Sequence[Measurement], direction: Direction) -> tuple[FoundRate, ...]:
    return tuple(
        rate for one in measurements if one.search and one.search.direction is direction for rate in one.search.found
    )


def _sharing(measurements: Sequence[Measurement], direction: Direction) -> flow_sharing.Sharing:
    found = [one.flows.counts for one in measurements if one.flows is not None]
    here = [[count for count in counts if count.direction is direction] for counts in found]
    return flow_sharing.read(next((counts for counts in reversed(here) if counts), ()))
