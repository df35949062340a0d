"""Further flows of a path, each traced there and back: where routers share flows over several ways, these meet other ones. Floor 4.

One probe a hop and flow, and no two flows within a second: no router is asked more often than a careful one answers.
"""

from __future__ import annotations

import time
from dataclasses import replace

from linkqual.errors import PeerError, WireError
from linkqual.model import PathResult, Trace
from linkqual.net.trace import Target, trace
from linkqual.probes import far_trace
from linkqual.probes.bench import Bench, Progress
from linkqual.session import shared_ways
from linkqual.units import NS_PER_S

GAP_NS = 1_050_000_000  # from one flow's first probe to the next one's
_LOOK_NS = NS_PER_S // 20


def traced(bench: Bench, path: PathResult, most: int, max_hops: int) -> PathResult:
    """The path with as many further flows as exclude another way, at most `most` flows in all; fewer when the far end is gone."""
    while 1 + len(path.flows) < shared_ways.wanted(path, most) and _rest(bench):
        bench.progress(Progress("path", 1 + len(path.flows), shared_ways.wanted(path, most), "flows"))
        try:
            forward, reverse = _flow(bench, path.forward, max_hops)
        except (PeerError, WireError):
            break
        if not (forward.hops and forward.hops[-1].reached and reverse.hops and reverse.hops[-1].reached):
            break  # interrupted, or the line is gone
        port = forward.source_port
        path = replace(
            path,
            flows=(*path.flows, shared_ways.of_port(forward, port)),
            flows_back=(*path.flows_back, shared_ways.of_port(reverse, port)),
        )
    return path


def _flow(bench: Bench, first: Trace, max_hops: int) -> tuple[Trace, Trace]:
    assert bench.control is not None
    bench.control.call("trace.target", port=first.destination_port)
    forward = trace(
        bench.peer_address,
        0,
        first.destination_port,
        bench.family,
        bench.near_address,
        max_hops,
        1,
        bench.interrupted,
    )
    if not forward.source_port:
        return forward, Trace(first.destination, first.source, first.destination_port, 0)
    with Target(forward.source, forward.source_port, bench.peer_address, bench.family):
        return forward, far_trace.ask(bench, first.destination_port, forward.source_port, max_hops=max_hops, rounds=1)


def _rest(bench: Bench) -> bool:
    """Silence of a second; False when the run is to end."""
    until = time.monotonic_ns() + GAP_NS
    while (left := until - time.monotonic_ns()) > 0:
        if bench.interrupted() or (bench.control is not None and bench.control.lost()):
            return False
        time.sleep(min(left, _LOOK_NS) / NS_PER_S)
    return True
