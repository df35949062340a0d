"""The steps of one flow against many: the same UDP load over one source port, then over more. Floor 2, pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkqual.errors import UsageError
from linkqual.model import Direction, Json, Step
from linkqual.stats.throughput import OVERHEAD_BYTES
from linkqual.units import NS_PER_S, format_count, format_rate

if TYPE_CHECKING:
    from linkqual.plan.steps import Builder

PACKET_BYTES = 1500  # of an IP packet at most: what every line carries whole
LEAST_NS = NS_PER_S  # of a phase: a bucket of 1 MB is empty by then on a line fast enough to be cut to it
ENOUGH_BYTES = 40_000_000  # of a phase: on a fast line fewer seconds tell as much
REST_NS = NS_PER_S // 2  # between two phases: the queue drains and the bucket fills
SETUP_NS = NS_PER_S


def build(builder: Builder, settings: dict[str, Json]) -> tuple[list[Step], list[str]]:
    """A step in each direction whose rate is known."""
    steps, reasons = [], []
    for way in (Direction.FORWARD, Direction.REVERSE):
        rate = _rate(builder, way)
        if rate is None:
            reasons = ["flows is left out: how much to send is not known without a rate (--cir or --max-rate)"]
            continue
        steps.append(_step(settings, way, rate, _packet_bytes(builder), builder.options.max_rate_bps))
    if not steps and "flows" in builder.options.only:
        raise UsageError("flows has no rate to send", "give --cir or --max-rate")
    return steps, reasons


def _packet_bytes(builder: Builder) -> int:
    return min(builder.link.mtu or PACKET_BYTES, PACKET_BYTES)


def _rate(builder: Builder, way: Direction) -> int | None:
    """What the contract leaves to IP packets of this size, within --max-rate."""
    contracted, size = builder.link.contracted_bps(way), _packet_bytes(builder)
    found = [builder.options.max_rate_bps] if builder.options.max_rate_bps else []
    if contracted:
        found.append(contracted * size // (size + OVERHEAD_BYTES[builder.link.rate_counts]))
    return min(found, default=None)


def _step(settings: dict[str, Json], way: Direction, rate: int, packet: int, most: int | None) -> Step:
    phase_ns = max(LEAST_NS, min(settings["phase_ns"], ENOUGH_BYTES * 8 * NS_PER_S // rate))
    flows = sorted({1, *settings["flows"]})
    step = Step(
        key=f"flows/{way}",
        probe="flows",
        params={
            "when": settings["when"],
            "flows": flows,
            "packet_bytes": packet,
            "rate_bps": rate,
            "max_rate_bps": most,
        },
        direction=way,
        offered_bps=rate,
        why=f"{format_rate(rate)} of UDP over {', '.join(map(format_count, flows))} source ports in turn: a limit of each flow, or members of a bundle, would show",
    )
    return _of_length(step, phase_ns)


def _of_length(step: Step, phase_ns: int) -> Step:
    phases = len(step.params["flows"])
    octets = step.offered_bps * phase_ns // (8 * NS_PER_S)
    span = phase_ns + REST_NS + SETUP_NS
    return replace(
        step,
        params=step.params | {"phase_ns": phase_ns},
        packets=phases * octets // step.params["packet_bytes"],
        duration_ns=phases * span + SETUP_NS,
        expected_ns=phases * span + SETUP_NS,
        total_bytes=phases * octets,
    )


def shorten(step: Step, spare: int) -> Step:
    """The step with up to `spare` bytes fewer: shorter phases, none below a second."""
    phases = len(step.params["flows"])
    fewer_ns = spare * 8 * NS_PER_S // (phases * step.offered_bps) + 1
    phase_ns = max(min(LEAST_NS, step.params["phase_ns"]), step.params["phase_ns"] - fewer_ns)
    return _of_length(step, phase_ns)
