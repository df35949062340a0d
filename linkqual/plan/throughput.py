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
    """The step with up to `spare` bytes of its extensions cut off; never below the seconds that prove a good line."""
    least = step.params.get("least_seconds", step.params["seconds"])
    if spare <= 0 or step.params["cap_seconds"] <= least:
        return step
    per_second = max(1, step.offered_bps // 8)
    cap = max(least, step.params["cap_seconds"] - math.ceil(spare / per_second))
    return _spanned(step, {"cap_seconds": cap})


def pulsed(step: Step, pulse_s: int) -> Step:
    """The step in blocks of at most `pulse_s` measured seconds; it still measures what its first block would have at least."""
    least = step.params["seconds"]
    first = min(least, pulse_s)
    shorter = {
        "seconds": first,
        "block_seconds": min(step.params["block_seconds"], pulse_s),
        "least_seconds": least,
    }
    blocks = math.ceil(least / first)
    expected = (least + blocks * step.params["warmup_seconds"]) * NS_PER_S + blocks * SETUP_NS
    return replace(_spanned(step, shorter), expected_ns=expected)


def _spanned(step: Step, changed: dict[str, Json]) -> Step:
    """The step with other seconds, and the time and bytes that follow from them."""
    params = step.params | changed
    blocks = _blocks(params)
    most = params["cap_seconds"] + blocks * params["warmup_seconds"]
    before = step.params["cap_seconds"] + _blocks(step.params) * step.params["warmup_seconds"]
    return replace(
        step,
        params=params,
        duration_ns=most * NS_PER_S + blocks * SETUP_NS,
        total_bytes=step.total_bytes * most // before,  # whichever directions the step loads
    )


def _blocks(params: dict[str, Json]) -> int:
    return 1 + math.ceil(max(0, params["cap_seconds"] - params["seconds"]) / params["block_seconds"])
