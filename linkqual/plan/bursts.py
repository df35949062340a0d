"""Bursts of training traffic: how large, how often, at which pace, taken from the profile, the line, or a model's size. Floor 2, pure.

Both directions are loaded at once, as an all-reduce between two sites does: each sends and receives a whole gradient in one step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from linkqual.errors import UsageError
from linkqual.model import Direction, Json, Link, Step
from linkqual.plan.needs import needs
from linkqual.profile.limits import ASSUMED_MTU
from linkqual.session.bursts import INCAST, PIPELINE
from linkqual.stats import collectives
from linkqual.stats.confidence import most_bad, trials_to_prove
from linkqual.stats.throughput import IP_HEADER_BYTES, OVERHEAD_BYTES
from linkqual.units import NS_PER_S, format_count, format_duration, format_rate, format_ratio, format_size

if TYPE_CHECKING:
    from linkqual.plan import PlanOptions
    from linkqual.plan.steps import Builder

WAYS = (Direction.FORWARD, Direction.REVERSE)
AUTO_TRANSFER_NS = 3_000_000  # of a burst at the contracted rate
AUTO_BYTES, AUTO_PERIOD_NS = 125_000, 20_000_000  # where no rate is known
LEAST_PERIOD_NS = 8_000_000
SPARE = 1.1  # of the period, over a transfer and a round trip
PATIENCE = 4  # times what a burst takes, at least, before it is given up
REPEATS = 0.5  # of all packets, at most, are sent again
LEAST_BURSTS = 299  # prove a p99 at 95 %
QUICK_BURSTS = 628  # the same, though two of them are late
LONGEST_PACKET = 9188
UDP_BYTES = 8
SETUP_NS = 3 * NS_PER_S  # opening both ends, the smallest round trip, what still arrives
ASSUMED_RTT_NS = 20_000_000  # for the time it takes, where no budget is known


@dataclass(frozen=True, slots=True)
class Way:
    """The bursts of one direction. `ideal_ns`: of one burst at the contracted rate, without any round trip; None: no such rate."""

    packets: int
    ip_bytes: int  # of a packet
    payload_bytes: int
    pace_bps: int  # at the IP layer
    ideal_ns: int | None

    @property
    def gap_ns(self) -> float:
        """Between two departures."""
        return self.ip_bytes * 8 * NS_PER_S / self.pace_bps

    @property
    def transfer_ns(self) -> int:
        """Of one burst at the pace."""
        return round(self.packets * self.gap_ns)


def build(builder: Builder, settings: dict[str, Json]) -> tuple[list[Step], list[str]]:
    """One step that loads both directions at once, and why it looks as it does."""
    link, options = builder.link, builder.options
    _, period, source = _asked(settings, link, options)
    ways = {way: _way(settings, link, options, way) for way in WAYS}
    longest = max(way.transfer_ns for way in ways.values())
    rtt = link.rtt_budget_ns or ASSUMED_RTT_NS
    expected_period = max(period, auto_period_ns(longest, 0 if settings["pattern"] == PIPELINE else rtt))
    if period and settings["pattern"] != PIPELINE:
        expected_period = max(period, longest + rtt)
    count = settings["count"]
    if options.quick:
        count = min(count, QUICK_BURSTS)
    if options.duration_ns is not None:
        count = max(1, options.duration_ns // expected_period)
    first_copies = sum(way.packets * way.ip_bytes for way in ways.values())
    expected = count * expected_period + SETUP_NS
    params = settings | {
        "count": count,
        "period_ns": period,  # 0: from the round trip that is found, `auto_period_ns`
        "source": source,
        "patience_ns": max(settings["patience_ns"], PATIENCE * (longest + rtt)),
        "repeats": REPEATS,
        "assumed_period_ns": expected_period,
        **{
            str(way): {
                "packets": one.packets,
                "ip_bytes": one.ip_bytes,
                "payload_bytes": one.payload_bytes,
                "pace_bps": one.pace_bps,
            }
            for way, one in ways.items()
        },
    }
    step = Step(
        key="bursts",
        probe="bursts",
        params=params,
        direction=Direction.ROUND_TRIP,
        packets=count * sum(way.packets for way in ways.values()),
        duration_ns=2 * expected,
        expected_ns=expected,
        offered_bps=max(way.pace_bps for way in ways.values()),
        total_bytes=math.ceil(count * first_copies * (1 + REPEATS)),
        why=f"what a training job feels: bursts as a gradient synchronisation sends them ({settings['pattern']}), both ways at once",
    )
    return [step], _reasons(builder, settings, ways, count, period, source)


def auto_period_ns(transfer_ns: int, rtt_ns: int) -> int:
    """Between the starts of two bursts, where none is asked for: the one before is complete by then, and half of the time is silence."""
    return max(LEAST_PERIOD_NS, 2 * transfer_ns, round(SPARE * (transfer_ns + rtt_ns)))


def ideal_ns(settings: dict[str, Json], link: Link, options: PlanOptions, direction: Direction) -> int | None:
    """What one burst takes at the contracted rate, without any round trip; None: no rate is contracted."""
    return _way(settings, link, options, direction).ideal_ns


def shorten(step: Step, spare: int) -> Step:
    """The step with so many bursts fewer that up to `spare` bytes are saved; never fewer than prove a p99."""
    count = step.params["count"]
    each = step.total_bytes / count
    fewer = min(count, max(LEAST_BURSTS, count - math.ceil(spare / each)))
    if spare <= 0 or fewer >= count:
        return step
    saved_ns = (count - fewer) * step.params["assumed_period_ns"]
    return replace(
        step,
        params=step.params | {"count": fewer},
        packets=(step.packets or 0) * fewer // count,
        duration_ns=step.duration_ns - 2 * saved_ns,
        expected_ns=step.expected_ns - saved_ns,
        total_bytes=math.ceil(each * fewer),
    )


def pulsed(step: Step, duty: float) -> Step:
    """The step with so long a period that its bursts take only this share of the time."""
    ways = [step.params[str(way)] for way in WAYS]
    longest = max(one["packets"] * one["ip_bytes"] * 8 * NS_PER_S // one["pace_bps"] for one in ways)
    period = max(step.params["assumed_period_ns"], math.ceil(longest / duty))
    expected = step.params["count"] * period + SETUP_NS
    params = step.params | {"period_ns": period, "assumed_period_ns": period, "duty": duty}
    return replace(step, params=params, duration_ns=2 * expected, expected_ns=expected)


def ip_share(link: Link) -> float:
    """Of the contracted rate, what packets of the line's MTU leave to the IP layer."""
    size = _packet_bytes(link)
    return size / (size + OVERHEAD_BYTES[link.rate_counts])


# ---- inside


def _packet_bytes(link: Link) -> int:
    return min(link.mtu or ASSUMED_MTU, LONGEST_PACKET)


def _way(settings: dict[str, Json], link: Link, options: PlanOptions, direction: Direction) -> Way:
    ip_bytes = _packet_bytes(link)
    payload = ip_bytes - IP_HEADER_BYTES[options.ip_version] - UDP_BYTES
    size, period, _ = _asked(settings, link, options)
    ip_rate, most = _rates(link, options, direction)
    if not size:
        size = round(most * AUTO_TRANSFER_NS / (8 * NS_PER_S)) if most else AUTO_BYTES
    packets = max(1, math.ceil(size / payload))
    pace = most or packets * ip_bytes * 8 * NS_PER_S / ((period or AUTO_PERIOD_NS) / 2)
    if settings["pattern"] == INCAST and ip_rate:
        pace = min([settings["flows"] * ip_rate, *([options.max_rate_bps] if options.max_rate_bps else [])])
    ideal = round(packets * ip_bytes * 8 * NS_PER_S / ip_rate) if ip_rate else None
    return Way(packets, ip_bytes, payload, max(1, int(pace)), ideal)


def _rates(link: Link, options: PlanOptions, direction: Direction) -> tuple[float | None, float | None]:
    """At the IP layer: what is contracted, and the most that may be sent."""
    contracted = link.contracted_bps(direction)
    ip_rate = contracted * ip_share(link) if contracted is not None else None
    return ip_rate, min((rate for rate in (ip_rate, options.max_rate_bps) if rate), default=None)


def _asked(settings: dict[str, Json], link: Link, options: PlanOptions) -> tuple[int, int, str]:
    """(payload of a burst or 0, period or 0, where both come from)."""
    if settings["parameters"]:
        rates = [most for way in WAYS if (most := _rates(link, options, way)[1])]
        if not rates:
            raise UsageError(
                "how fast the bursts of a model may be sent is not known",
                "give --cir or --max-rate, or leave them out with --skip bursts",
            )
        return _of_model(settings, min(rates))
    given = [key for key, name in (("size", "size_bytes"), ("period", "period_ns")) if settings[name]]
    words = f"{' and '.join(given)} as the profile says" if given else "chosen from the line's rate and round trip"
    return settings["size_bytes"], settings["period_ns"], words


def _of_model(settings: dict[str, Json], ip_rate: float) -> tuple[int, int, str]:
    gradient = collectives.gradient_bytes(settings["parameters"], settings["dtype"])
    flat = settings["ranks"] if settings["collective"] == "ring" else 0
    crossing = collectives.between_sites(gradient, settings["sites"], flat) * settings["share"]
    step_ns, count = settings["step_ns"], settings["count"]
    sending_ns = crossing * 8 * NS_PER_S / ip_rate
    factor = max(1.0, count * max(step_ns, sending_ns) / settings["within_ns"])
    members, many = ("ranks", flat) if flat else ("sites", settings["sites"])
    share = f" x {format_ratio(settings['share'])} by this line" if settings["share"] < 1 else ""
    words = (
        f"{settings['parameters']:,.0f} parameters in {settings['dtype']} are a gradient of {format_size(gradient)}; all-reduce over {many} {members}, "
        f"2({many}-1)/{many} of it{share}: {format_size(crossing)} each way in every step of {format_duration(step_ns)}"
    )
    if settings["ranks"] and not flat:
        words += f", however many of the {format_count(settings['ranks'])} ranks are at each site (hierarchical)"
    if sending_ns > step_ns:
        words += f"; the line needs {format_duration(sending_ns)} to send that, more than the step has"
    if factor > 1:
        words += (
            f"; size and period both divided by {factor:,.4g}, so that {format_count(count)} of them fit into "
            f"{format_duration(settings['within_ns'])}: {format_size(crossing / factor)} every {format_duration(step_ns / factor)}"
        )
    return max(1, round(crossing / factor)), max(1, round(step_ns / factor)), words


def _reasons(
    builder: Builder, settings: dict[str, Json], ways: dict[Direction, Way], count: int, period: int, source: str
) -> list[str]:
    reasons = [f"bursts: {source}"]
    for way, one in ways.items():
        size = one.packets * one.payload_bytes
        reasons.append(
            f"bursts {way}: {format_size(size)} in {format_count(one.packets)} packets over {settings['flows']} source ports at "
            f"{format_rate(one.pace_bps)}, {format_duration(one.transfer_ns)} of sending each"
        )
    wanted = needs(builder.objectives, "bursts", builder.family)
    for need in wanted:
        least = trials_to_prove(need.share, 0, need.objective.confidence)
        said = f"bursts: {format_count(least)} without a late one prove {need.objective.statistic} at {need.objective.confidence:.0%}"
        allowed = most_bad(need.share, count, need.objective.confidence)
        if allowed is not None:
            said += f"; of {format_count(count)}, {format_count(allowed)} may be late"
        else:
            said += f", and only {format_count(count)} are sent: it can only be refuted"
        reasons.append(said)
    if period and max(one.transfer_ns for one in ways.values()) > period:
        reasons.append("bursts: one takes longer to send than the period: every next one starts late")
    return list(dict.fromkeys(reasons))
