"""What a reader should know that is no red line: directions, cross-checks, hosts, clocks. Each a sentence with its numbers.

Floor 2, pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from linkqual.metrics import METRICS
from linkqual.model import (
    Diagnosis,
    EndConditions,
    Finding,
    Link,
    Measurement,
    Note,
    Outcome,
    Pacing,
    Plan,
    StampResult,
    Step,
    Summary,
)
from linkqual.rules import (
    asymmetry,
    bloat,
    bursts,
    clocks,
    crosscheck,
    hosts,
    loaded_path,
    loads,
    marking,
    members,
    mtu,
    narrow,
)
from linkqual.rules.ledger import Address, ledger
from linkqual.stats import histogram
from linkqual.stats.pacing import longest
from linkqual.units import format_count, format_duration, format_instant, format_packet_rate

KEPT_PACE = 0.95  # of the planned rate
LATE_NS = 10_000_000  # one packet in a hundred that much behind schedule: caught up in bursts
ROUND_TRIPS_TO_FIRST_TOKEN = 3  # TCP, TLS 1.3, request


def of(
    plan: Plan, measurements: Sequence[Measurement], findings: Sequence[Finding], diagnoses: Sequence[Diagnosis] = ()
) -> tuple[Note, ...]:
    """All notes, what matters to the verdict first."""
    found = [
        *_advisory(findings),
        *_hosts(plan, measurements),
        *_streams(plan, measurements),
        *crosscheck.notes(measurements),
        *marking.notes(measurements),
        *mtu.notes(plan, measurements),
        *members.notes(measurements),
        *narrow.notes(plan, measurements),
        *loaded_path.notes(measurements),
        *asymmetry.notes(plan.link, measurements, diagnoses),
        *loads.notes(plan, measurements),
        *bloat.notes(plan, measurements),
        *bursts.notes(measurements),
        *clocks.notes(plan.objectives, measurements),
    ]
    return tuple(sorted(dict.fromkeys(found), key=lambda note: note.weight != "warn"))


def _advisory(findings: Sequence[Finding]) -> Iterator[Note]:
    """An advisory limit that is broken is a warning and no more."""
    for finding in findings:
        if not finding.objective.required and finding.outcome is Outcome.FAIL:
            unit = METRICS[finding.objective.metric].unit
            kind = {"ratio": "loss", "ns": "delay", "bit/s": "throughput"}.get(unit, finding.objective.metric)
            yield Note(kind, f"advisory: {finding.because}", "warn")


# ---- hosts


def _hosts(plan: Plan, measurements: Sequence[Measurement]) -> Iterator[Note]:
    for measurement in measurements:
        conditions = measurement.conditions
        if measurement.throughput is not None and (narrow := _narrow_slot(plan.link, measurement)):
            yield Note("host", narrow, "warn")
        for end, place in ((conditions.near, "near"), (conditions.far, "far")):
            yield from _drops(measurement, end, place)
            for said in end.notes:
                yield Note("host", f"{place} end: {said}")


def _narrow_slot(link: Link, measurement: Measurement) -> str:
    """A card's slot that cannot carry the contract in either direction of this load: host-limited, whatever the line does."""
    limit = hosts.slot_limit(measurement, link.contracted_bps(measurement.step.direction))
    return f"{limit}: no measurement from there can prove the contract" if limit else ""


def _drops(measurement: Measurement, end: EndConditions, place: str) -> Iterator[Note]:
    own = {hosts.OWN: sum(hosts.own_socket_drops(end))}
    dropped = {
        name: count for name, count in (hosts.received_drops(end) | hosts.sent_drops(end) | own).items() if count
    }
    if not dropped or measurement.stamp is None:
        return
    moved = ", ".join(f"{name} +{format_count(count)}" for name, count in sorted(end.drops.items()) if count)
    entries, address = ledger(measurement), Address.NEAR_HOST if place == "near" else Address.FAR_HOST
    proven = sum(entry.packets for entry in entries if entry.address is address)
    way = "reverse" if place == "near" else "forward"
    lost = measurement.stamp.summary.lost_reverse if place == "near" else measurement.stamp.summary.lost_forward
    said = f"the host of the {place} end dropped packets by itself during {measurement.step.key} ({moved}{_when(end)})"
    if proven:
        said += f": {format_count(proven)} of the lost packets were its own doing"
    elif lost:
        most = min(sum(dropped.values()), lost)
        said += f": up to {format_count(most)} of the {format_count(lost)} {way} losses may be its own"
    yield Note("host", said, "warn")


def _when(end: EndConditions) -> str:
    """When the counters were seen to rise, by that end's clock."""
    seen = [at_ns for at_ns, _, _ in end.drop_times]
    if not seen:
        return ""
    first, last = (format_instant(at_ns)[11:19] for at_ns in (min(seen), max(seen)))
    return f"; seen at {first} UTC" if first == last else f"; seen from {first} to {last} UTC"


# ---- the packet stream


def _streams(plan: Plan, measurements: Sequence[Measurement]) -> Iterator[Note]:
    for measurement in measurements:
        if measurement.stamp is not None and measurement.stamp.summary.sent:
            yield from _loss(measurement.stamp.summary)
            yield from _schedule(measurement.step, measurement.stamp)
            yield from _bursts(measurement.stamp.summary.pacing)
            yield from _odd_packets(measurement.stamp)
            yield from _first_token(plan, measurement.stamp.summary)


def _loss(summary: Summary) -> Iterator[Note]:
    forward, reverse, unknown = summary.lost_forward, summary.lost_reverse, summary.lost
    total = forward + reverse + unknown
    if not total:
        return
    reached = summary.sent - forward
    parts = [
        f"{format_count(forward)} of {format_count(summary.sent)} on the way there",
        f"{format_count(reverse)} of {format_count(reached)} on the way back",
    ]
    if unknown:
        parts.append(f"{format_count(unknown)} in a direction that is not known, counted against both")
    said = f"loss by direction: {', '.join(parts)}"
    events = summary.loss_events
    longest = max(events, key=lambda event: event.packets, default=None)
    if longest is not None and longest.packets > 1:
        said += f"; the longest event took {format_count(longest.packets)} packets in {format_duration(longest.duration_ns)}"
    yield Note("loss", said)


def _schedule(step: Step, result: StampResult) -> Iterator[Note]:
    """A rate that was planned and not sent, or kept only by catching up: the hosts' doing."""
    planned, sent = step.params.get("rate_pps") or 0, result.summary.sent
    pacing = result.summary.pacing
    lateness = pacing.late if pacing.late.n else result.lateness
    late = histogram.quantile(lateness, 0.99) or 0
    if result.rate_pps and result.rate_pps < KEPT_PACE * planned:
        behind = f", the latest {format_duration(lateness.maximum)} behind schedule" if lateness.n else ""
        said = (
            f"{format_packet_rate(result.rate_pps)} were sent where {format_packet_rate(planned)} were planned{behind}"
        )
        lacking_ns = sent / result.rate_pps * 1e9 - sent / planned * 1e9
        if result.blocked_ns > lacking_ns / 2:
            why = (
                f"for {format_duration(result.blocked_ns)} as many packets were in flight as the receive buffers hold, and no reply came: "
                "the far host was busy, the buffers are small, or the line was silent"
            )
        else:
            why = "this host could not keep the schedule: that is its limit and not the line's"
        yield Note("host", f"{said}; {why}. What was found holds for the packets that were sent", "warn")
    elif late > LATE_NS:
        yield Note(
            "host",
            f"one packet in a hundred left this host {format_duration(late)} or more behind schedule and was caught up in a burst: "
            "a queue behind such a burst is this host's doing",
        )


def _bursts(pacing: Pacing) -> Iterator[Note]:
    """The sender fell behind its schedule and caught up in more packets at once than it sends by design."""
    if not pacing.beyond:
        return
    lost, most = pacing.lost_forward + pacing.lost_reverse + pacing.lost, longest(pacing)
    said = (
        f"the sender stood still and caught up in {format_count(pacing.beyond)} burst{'s' if pacing.beyond > 1 else ''} of more than "
        f"{format_count(pacing.most)} packets, the longest {format_count(most.packets)} in {format_duration(most.end_ns - most.start_ns)}"
    )
    if lost:
        said += f"; the {format_count(lost)} packet{'s' if lost > 1 else ''} lost of those cannot be laid to the line"
    yield Note("host", said, "warn" if lost else "info")


def _odd_packets(result: StampResult) -> Iterator[Note]:
    summary = result.summary
    if summary.unsent:
        planned = summary.sent + summary.unsent
        heavy = summary.unsent > planned / 100
        yield Note(
            "host",
            f"{format_count(summary.unsent)} of {format_count(planned)} planned packets never left this host; they are not counted as lost",
            "warn" if heavy else "info",
        )
    if summary.late:
        yield Note(
            "loss",
            f"{format_count(summary.late)} replies came after the timeout of {format_duration(result.timeout_ns)} and count as lost",
        )
    if summary.unstamped:
        yield Note(
            "host",
            f"{format_count(summary.unstamped)} packets came with a stamp of user space and are left out of the delays",
        )
    for kind, what in (("duplicates", "came more than once"), ("reordered", "came out of order")):
        forward, reverse = getattr(summary, f"{kind}_forward"), getattr(summary, f"{kind}_reverse")
        if forward or reverse:
            yield Note("loss", f"packets that {what}: {format_count(forward)} forward, {format_count(reverse)} reverse")


def _first_token(plan: Plan, summary: Summary) -> Iterator[Note]:
    """Network share of the time to first token, for a profile of inference."""
    median = histogram.quantile(summary.round_trip_delay, 0.5)
    if median is None or "inference" not in plan.profile.lower():
        return
    tail = histogram.quantile(summary.round_trip_delay, 0.99)
    trips = ROUND_TRIPS_TO_FIRST_TOKEN
    yield Note(
        "delay",
        f"time to first token: {trips} round trips (TCP, TLS 1.3, the request) are the network's share of it, "
        f"{format_duration(trips * median)} at p50 and {format_duration(trips * (tail or median))} when each takes its p99; "
        "the model's own time comes on top",
    )
