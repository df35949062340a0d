"""The steps that find where a queue begins without load that expires on routers. Floor 2, pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkqual.errors import UsageError
from linkqual.model import Direction, Json, Step
from linkqual.plan.trains import packet_bytes
from linkqual.session.gentle import ABOVE, BURST, LOOK_NS, POLICED, POLICED_ROUNDS, idle_ns, span_ns
from linkqual.stats.throughput import OVERHEAD_BYTES
from linkqual.units import NS_PER_S, format_rate

if TYPE_CHECKING:
    from linkqual.plan.steps import Builder

TRACE_NS = 5 * NS_PER_S  # where no trace was made before
FULL = 1.02  # times the contract: less lets no queue grow


def build(builder: Builder, settings: dict[str, Json]) -> tuple[list[Step], list[str]]:
    """A step in each direction; none where the rate allowed lets no queue grow."""
    steps, reasons = [], []
    for way in (Direction.FORWARD, Direction.REVERSE):
        contracted, most_bps = builder.link.contracted_bps(way), builder.options.max_rate_bps
        packet = packet_bytes(builder.link)
        rate_bps = round((contracted or 0) * packet / (packet + OVERHEAD_BYTES[builder.link.rate_counts]))
        if most_bps is not None and most_bps < FULL * rate_bps:
            why = f"no queue grows {way} at the {format_rate(most_bps)} allowed, below the {format_rate(rate_bps)} contracted (IP)"
            if "gentle" in builder.options.only:
                raise UsageError(f"gentle: {why}", "allow more with --max-rate")
            reasons.append(f"gentle/{way} is left out: {why}")
            continue
        steps.append(_step(way, settings["rounds"], packet, rate_bps, most_bps))
    return steps, reasons


def _step(way: Direction, rounds: int, packet: int, rate_bps: int, most_bps: int | None) -> Step:
    peak = round(POLICED * rate_bps) or (most_bps or 0)
    peak = min(peak, most_bps or peak)
    loads_ns = span_ns(rounds) + span_ns(POLICED_ROUNDS) + (0 if rate_bps else LOOK_NS)
    spent = _bytes(min(round(ABOVE * rate_bps) or peak, peak), span_ns(rounds)) + _bytes(peak, span_ns(POLICED_ROUNDS))
    if not rate_bps and peak:
        spent += BURST * packet + _bytes(peak, LOOK_NS)
    return Step(
        key=f"gentle/{way}",
        probe="gentle",
        params={
            "rounds": rounds,
            "packet_bytes": packet,
            "rate_bps": rate_bps,
            "bytes": spent,
            "max_rate_bps": most_bps,
        },
        direction=way,
        packets=spent // packet,
        duration_ns=TRACE_NS + 2 * idle_ns() + loads_ns,
        expected_ns=idle_ns() + span_ns(rounds),
        offered_bps=peak,
        total_bytes=spent,
        why=f"where a queue begins: {ABOVE:g} times the contract, and one probe to each hop in 1.1 s; {POLICED:g} times where a policer drops",
    )


def _bytes(bps: int, during_ns: int) -> int:
    return bps * during_ns // 8 // NS_PER_S


def shorten(step: Step, spare: int) -> Step:
    """The step with up to `spare` bytes fewer: what is kept for a policer goes, never the load that lets a queue grow."""
    least = _bytes(round(ABOVE * step.params["rate_bps"]), span_ns(step.params["rounds"])) or step.total_bytes
    kept = max(least, step.total_bytes - spare)
    if kept >= step.total_bytes:
        return step
    return replace(
        step, params=step.params | {"bytes": kept}, packets=kept // step.params["packet_bytes"], total_bytes=kept
    )
