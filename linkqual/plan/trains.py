"""The steps of the trains: how fast and how much at most, one direction after the other. Floor 2, pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkqual.model import Direction, Json, Link, Step
from linkqual.session.train import ABOVE
from linkqual.stats.throughput import OVERHEAD_BYTES
from linkqual.units import NS_PER_S

if TYPE_CHECKING:
    from linkqual.plan.steps import Builder

PACKET_BYTES = 1500  # of an IP packet at most: a bucket is told to within one of them
LEAST_BYTES = 60_000_000
LEAST_SHORTENED = 10_000_000
CONTRACT_NS = 2 * NS_PER_S  # of the contract: what deep queues of fast lines take
TWICE = 2.0  # the contract: what is faster needs no explanation
TRAINS, TRAIN_NS = 14, 2 * NS_PER_S  # at most; each with its rest, its look at the idle line and its stragglers
EXPECTED = 7


def build(builder: Builder, settings: dict[str, Json]) -> tuple[list[Step], list[str]]:
    """A step in each direction."""
    return [_step(builder, settings, way) for way in (Direction.FORWARD, Direction.REVERSE)], []


def _step(builder: Builder, settings: dict[str, Json], way: Direction) -> Step:
    contracted, most_bps = builder.link.contracted_bps(way), builder.options.max_rate_bps
    packet, overhead = packet_bytes(builder.link), OVERHEAD_BYTES[builder.link.rate_counts]
    share = packet / (packet + overhead)
    bounds = [most_bps / share] if most_bps else []
    if contracted:
        bounds.append(TWICE * contracted)
    fastest = min(bounds, default=0.0)
    spent = settings["bytes"] or max(LEAST_BYTES, (contracted or 0) * CONTRACT_NS // NS_PER_S // 8)
    sending_ns = spent * 8 * NS_PER_S // round(contracted or fastest) if contracted or fastest else 0
    return Step(
        key=f"trains/{way}",
        probe="trains",
        params={
            "when": settings["when"],
            "bytes": spent,
            "packet_bytes": packet,
            "counts": builder.link.rate_counts,
            "fastest_bps": fastest,
            "contracted_bps": contracted or 0,
            "max_rate_bps": most_bps,
        },
        direction=way,
        packets=spent // packet,
        duration_ns=TRAINS * TRAIN_NS + sending_ns,
        expected_ns=EXPECTED * TRAIN_NS,
        offered_bps=round(fastest * share),
        total_bytes=spent,
        why=f"trains of packets, up to {ABOVE:g} times what comes through: a policer or a shaper, its rate, its bucket and its queue",
    )


def packet_bytes(link: Link) -> int:
    """Of each IP packet."""
    return min(link.mtu or PACKET_BYTES, PACKET_BYTES)


def shorten(step: Step, spare: int) -> Step:
    """The step with up to `spare` bytes fewer; never below what a slow line takes."""
    kept = max(LEAST_SHORTENED, step.total_bytes - spare)
    if kept >= step.total_bytes:
        return step
    params = step.params | {"bytes": kept}
    return replace(step, params=params, packets=kept // step.params["packet_bytes"], total_bytes=kept)
