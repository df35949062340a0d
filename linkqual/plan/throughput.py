"""The steps of the throughput probe: how many streams, which way, for how long. Floor 2, pure."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from linkqual.model import Direction, Json, Step
from linkqual.plan.needs import needs
from linkqual.profile.limits import allowed_goodput_bps
from linkqual.units import NS_PER_S

if TYPE_CHECKING:
    from linkqual.plan.steps import Builder

SETUP_NS = NS_PER_S  # opening a server, handing over its document


def build(builder: Builder, settings: dict[str, Json]) -> tuple[list[Step], list[str]]:
    """The loads of both directions and why they take so long."""
    options = builder.options
    streams = sorted(set(options.streams or settings["streams"]))
    wanted = needs(builder.objectives, "throughput", builder.family)
    good = max((need.good for need in wanted), default=settings["block_seconds"])
    fixed = options.duration_ns is not None
    first = max(1, options.duration_ns // NS_PER_S) if options.duration_ns is not None else good
    cap = first if fixed else settings["cap_seconds"]
    reasons = []
    if wanted and first > cap:
        reasons.append(
            f"throughput: {good} good seconds would prove the limit, the cap is {cap} s: it can only be refuted; raise throughput.cap"
        )
        first = cap
    elif wanted and not fixed:
        reasons.append(
            f"throughput with {streams[-1]} streams: {good} s without a slow one prove {wanted[0].objective.statistic} "
            f"at {wanted[0].objective.confidence:.0%}; at most {cap} s"
        )
    steps = []
    for count in streams:
        judged = count == streams[-1]
        spans = (first, cap) if judged else (settings["short_seconds"], settings["short_seconds"])
        steps += [
            _load(builder, settings, direction, count, judged=judged, fixed=fixed, spans=spans)
            for direction in (Direction.FORWARD, Direction.REVERSE)
        ]
    return steps, reasons


def _load(
    builder: Builder,
    settings: dict[str, Json],
    direction: Direction,
    streams: int,
    *,
    judged: bool,
    fixed: bool,
    spans: tuple[int, int],
) -> Step:
    first, cap = spans
    blocks = 1 + math.ceil(max(0, cap - first) / settings["block_seconds"])
    most = cap + blocks * settings["warmup_seconds"]
    offered = min(
        (bps for bps in (builder.link.contracted_bps(direction), builder.options.max_rate_bps) if bps), default=0
    )
    params = {
        "streams": streams,
        "seconds": first,
        "block_seconds": settings["block_seconds"],
        "cap_seconds": cap,
        "warmup_seconds": settings["warmup_seconds"],
        "congestion_control": builder.options.congestion_control or settings["congestion_control"],
        "judged": judged,
        "fixed": fixed,
        "allowed_bps": allowed_goodput_bps(builder.link, direction, builder.options.ip_version),
        "max_rate_bps": builder.options.max_rate_bps,
    }
    return Step(
        key=f"throughput/{direction}/{streams}",
        probe="throughput",
        params=params,
        direction=direction,
        duration_ns=most * NS_PER_S + blocks * SETUP_NS,
        expected_ns=(first + settings["warmup_seconds"]) * NS_PER_S + SETUP_NS,
        offered_bps=offered,
        total_bytes=offered * most // 8,
        why="judged"
        if judged
        else "shown beside the judged one: what a single flow gets, and whether the line or the flow is the limit",
    )


def shorten(step: Step, spare: int) -> Step:
    """The step with up to `spare` bytes of its extensions cut off; never below its first block."""
    if step.probe != "throughput" or spare <= 0 or step.params["cap_seconds"] <= step.params["seconds"]:
        return step
    per_second = max(1, step.offered_bps // 8)
    warmup, block = step.params["warmup_seconds"], step.params["block_seconds"]
    cap = max(step.params["seconds"], step.params["cap_seconds"] - math.ceil(spare / per_second))
    blocks = 1 + math.ceil((cap - step.params["seconds"]) / block)
    most = cap + blocks * warmup
    return replace(
        step,
        params=step.params | {"cap_seconds": cap},
        duration_ns=most * NS_PER_S + blocks * SETUP_NS,
        total_bytes=step.offered_bps * most // 8,
    )
