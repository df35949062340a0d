"""The steps that look for members of a bundle that lose more or take longer: many flows in turn, each direction. Floor 2, pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkqual.model import Direction, Json, Step
from linkqual.session.members import METRIC, proving
from linkqual.session.routes import enough
from linkqual.units import NS_PER_S, format_count

if TYPE_CHECKING:
    from linkqual.plan.steps import Builder

PACKET_BYTES = 128  # of an IP packet
RATE_BPS = 16_000_000  # all flows together
SHARE = 0.1  # of the contract: a queue of its own making would be seen as loss and delay of members
FIRST, NEXT = 250, 750  # packets of a flow in the first round, and in each one after it
_ROUND_NS, _SETUP_NS = NS_PER_S // 2, NS_PER_S // 2  # stragglers; sockets at both ends
TRACES = 33  # flows of a direction: as many as five next hops ask for (`session.routes`)
_TRACE_NS, _SAMPLES_NS = 1_200_000_000, 8 * NS_PER_S  # one where every hop answers; four samples where some do not
_TRACING_NS = 60 * NS_PER_S


def build(builder: Builder, settings: dict[str, Json]) -> tuple[list[Step], list[str]]:
    """A step in each direction. Asked for by name it has the time to trace flows that fare alike too."""
    if "members" in builder.options.only and not settings["traces"]:
        settings = settings | {"traces": min(TRACES, settings["flows"])}
    return [_step(builder, settings, way) for way in (Direction.FORWARD, Direction.REVERSE)], []


def _step(builder: Builder, settings: dict[str, Json], way: Direction) -> Step:
    contracted, most = builder.link.contracted_bps(way), builder.options.max_rate_bps
    rates = [RATE_BPS, *([int(SHARE * contracted)] if contracted else []), *([most] if most else [])]
    return _of_packets(
        Step(
            key=f"members/{way}",
            probe="members",
            params={
                "flows": settings["flows"],
                "packet_bytes": PACKET_BYTES,
                "rate_bps": min(rates),
                "max_rate_bps": most,
                "first": min(max(FIRST, _proving(builder, way, settings["flows"])), settings["packets"]),
                "next": NEXT,
                "traces": settings["traces"],
            },
            direction=way,
            offered_bps=min(rates),
            why=f"{format_count(settings['flows'])} flows that differ by a port alone: a lossy or slow member of a bundle shows in some of them",
        ),
        settings["packets"],
    )


def _proving(builder: Builder, way: Direction, flows: int) -> int:
    """Packets of each flow that prove the tightest limit of this direction where nothing is lost."""
    limits = [one.limit for one in builder.objectives if one.metric == METRIC and one.direction is way and one.limit]
    return max((proving(flows, limit) for limit in limits), default=0)


def _of_packets(step: Step, each: int) -> Step:
    """With so many packets of each flow at most."""
    flows, first, size = step.params["flows"], step.params["first"], step.params["packet_bytes"]
    rounds = 1 + max(0, -(-(each - first) // NEXT))
    total = flows * each * size

    traces = step.params["traces"]

    def spent_ns(packets: int) -> int:
        return int(flows * packets * size * 8 * NS_PER_S // step.offered_bps)

    return replace(
        step,
        params=step.params | {"packets": each},
        packets=flows * each,
        duration_ns=spent_ns(each) + rounds * _ROUND_NS + _SETUP_NS + (_TRACING_NS if traces else _SAMPLES_NS),
        expected_ns=spent_ns(first) + _ROUND_NS + _SETUP_NS + min(traces, enough(1)) * _TRACE_NS,
        total_bytes=total,
    )


def shorten(step: Step, spare: int) -> Step:
    """The step with up to `spare` bytes fewer, never less than its first round."""
    flow_bytes = step.params["flows"] * step.params["packet_bytes"]
    return _of_packets(step, max(step.params["first"], step.params["packets"] - -(-spare // flow_bytes)))
