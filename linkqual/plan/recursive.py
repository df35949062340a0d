"""The step that looks for the narrowest place toward a far end that is not ours. Floor 2, pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkqual.model import Direction, Step
from linkqual.session.recursive_train import APART_NS, LISTEN_NS, PACKET_BYTES, REPEATS, SIZES
from linkqual.units import NS_PER_S, format_count, format_rate, format_size

if TYPE_CHECKING:
    from linkqual.plan.steps import Builder

TRACE_NS = 5 * NS_PER_S  # where no trace was made before
MOST_HOPS = 30


def build(builder: Builder) -> tuple[list[Step], list[str]]:
    """One step, there only: nobody sends from that end."""
    most_bps = builder.options.max_rate_bps
    packets = sum(SIZES[:-1]) + REPEATS * SIZES[-1]
    trains = 1 + len(SIZES) - 1 + REPEATS + 1  # the first and the last one carry no load
    spent = (packets + 2 * MOST_HOPS * trains) * PACKET_BYTES
    sending_ns = spent * 8 * NS_PER_S // most_bps if most_bps else NS_PER_S
    step = Step(
        key="narrow/forward",
        probe="narrow",
        params={"far_end": "reflector", "bytes": spent, "packet_bytes": PACKET_BYTES, "max_rate_bps": most_bps},
        direction=Direction.FORWARD,
        packets=packets + 2 * MOST_HOPS * trains,
        duration_ns=TRACE_NS + trains * (APART_NS + LISTEN_NS) + 2 * sending_ns,  # silence as long as each load
        expected_ns=(REPEATS + 2) * (APART_NS + LISTEN_NS),
        offered_bps=most_bps or 0,
        total_bytes=spent,
        why="the narrowest place as one end alone can tell it: trains whose first and last packets expire on the routers; low confidence",
    )
    pace = f"at {format_rate(most_bps)}" if most_bps else "as fast as they go"
    said = (
        f"narrow: up to {format_count(packets)} packets ({format_size(spent)}) go to a closed UDP port of the far host, {pace}; "
        f"two expire on each router with each of up to {trains} trains"
    )
    return [step], [said]
