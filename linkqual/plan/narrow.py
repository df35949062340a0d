"""The steps of the search for the narrowest hop: nothing unless load may expire on routers, and then how much of it. Floor 2, pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkqual.errors import UsageError
from linkqual.model import Direction, Json, Step
from linkqual.plan import recursive
from linkqual.plan.trains import packet_bytes
from linkqual.session.narrow import WHOLE_SHARE
from linkqual.session.narrow_loads import MARKER_IN
from linkqual.session.prefixes import LONGEST_NS
from linkqual.session.train import ABOVE
from linkqual.stats.throughput import OVERHEAD_BYTES
from linkqual.units import NS_PER_S, format_count

if TYPE_CHECKING:
    from linkqual.plan.steps import Builder

LEAST_BYTES, LEAST_SHORTENED = 60_000_000, 10_000_000
EXPECTED_NS, LONGEST_STEP_NS = 6 * NS_PER_S, 20 * NS_PER_S
SECONDS = 3  # of the contract
TWICE = 2.0  # the contract: what is faster needs no explanation


def build(builder: Builder, settings: dict[str, Json]) -> tuple[list[Step], list[str]]:
    """A step in each direction, with consent."""
    options = builder.options
    if not options.expiring_load:
        other = "" if options.reflector else "; --only gentle finds where a queue begins without it"
        why = "it sends load that expires on routers, and nobody has allowed that (--allow-expiring-load)"
        if "narrow" in options.only:
            raise UsageError(f"narrow: {why}", f"give --allow-expiring-load{other}")
        return [], [f"narrow is left out: {why}{other}"]
    if options.reflector:
        return recursive.build(builder)
    steps = [_step(builder, settings, way) for way in (Direction.FORWARD, Direction.REVERSE)]
    said = (
        f"narrow: in each direction up to {format_count(_expiring(steps[0].total_bytes, steps[0].params['packet_bytes']))} packets expire on "
        f"routers, all together, of them up to {format_count(_on_one(steps[0]))} on one router at {ABOVE:g} times the rate found; each router drops "
        "them and may answer some by ICMP"
    )
    return steps, [said]


def _expiring(most_bytes: int, packet: int) -> int:
    """Packets on all routers."""
    return round((1 - WHOLE_SHARE) * most_bytes / packet * (MARKER_IN - 1) / MARKER_IN)


def _on_one(step: Step) -> int:
    """Packets on one router in its longest train: no more than all."""
    most = _expiring(step.total_bytes, int(step.params["packet_bytes"]))
    contracted, packet = int(step.params["contracted_bps"]), int(step.params["packet_bytes"])
    if not contracted:
        return most
    longest = ABOVE * contracted * LONGEST_NS / NS_PER_S / 8 / packet
    return min(most, round(longest * (MARKER_IN - 1) / MARKER_IN))


def _step(builder: Builder, settings: dict[str, Json], way: Direction) -> Step:
    contracted, most_bps = builder.link.contracted_bps(way), builder.options.max_rate_bps
    packet, overhead = packet_bytes(builder.link), OVERHEAD_BYTES[builder.link.rate_counts]
    share = packet / (packet + overhead)
    bounds = [most_bps / share] if most_bps else []
    if contracted:
        bounds.append(TWICE * contracted)
    fastest = min(bounds, default=0.0)
    spent = settings["bytes"] or max(LEAST_BYTES, (contracted or 0) // 8 * SECONDS)
    return Step(
        key=f"narrow/{way}",
        probe="narrow",
        params={
            "bytes": spent,
            "packet_bytes": packet,
            "counts": builder.link.rate_counts,
            "fastest_bps": fastest,
            "contracted_bps": contracted or 0,
            "max_rate_bps": most_bps,
        },
        direction=way,
        packets=spent // packet,
        duration_ns=LONGEST_STEP_NS,
        expected_ns=EXPECTED_NS,
        offered_bps=round(fastest * share),
        total_bytes=spent,
        why="the narrowest hop, by trains whose load expires on one router after the other",
    )


def shorten(step: Step, spare: int) -> Step:
    """The step with up to `spare` bytes fewer; never below what a slow line takes."""
    kept = max(LEAST_SHORTENED, step.total_bytes - spare)
    if kept >= step.total_bytes:
        return step
    return replace(
        step, params=step.params | {"bytes": kept}, packets=kept // step.params["packet_bytes"], total_bytes=kept
    )
