"""Traces of flows that differ by a port alone, from the end that sent them. Floor 4.

One flow after the other, one probe a hop, and no two flows within a second: no router is asked more often than a careful one answers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from linkqual.errors import PeerError, WireError
from linkqual.model import Direction, MembersResult, MemberTrace, Trace
from linkqual.net.trace import Target, trace
from linkqual.probes import far_trace
from linkqual.probes.bench import Bench, Progress
from linkqual.session import members, routes
from linkqual.units import NS_PER_S

_HOPS, _ASKED = 30, 1  # one probe a hop
GAP_NS = NS_PER_S  # from one flow's first probe to the next one's
_LOOK_NS = NS_PER_S // 20
SAMPLES = 4  # flows that are traced where the step asks for no more: only of flows that differ, and of others


@dataclass(slots=True)
class _Tracing:
    """Traces so far; `trouble`: why there will be no more."""

    bench: Bench
    result: MembersResult
    traces: list[MemberTrace]
    trouble: str = ""


def traced(bench: Bench, result: MembersResult, most: int, allowed_ns: int) -> MembersResult:
    """The result with traces of its flows. `most` 0: four samples where flows differ, none where they do not; begins none after `allowed_ns`."""
    groups = members.read(result).groups
    if not most and not groups:
        return result
    ordered = routes.order([flow.near_port for flow in result.flows], [group.ports for group in groups])
    work, begun = _Tracing(bench, result, []), time.monotonic_ns()
    while (port := routes.following(ordered, work.traces, most or SAMPLES)) is not None:
        if time.monotonic_ns() - begun > allowed_ns:
            work.trouble = "the time for traces is over"
        if work.trouble:
            break
        flows = len({trace.near_port for trace in work.traces})  # some are traced twice
        bench.progress(Progress("members", flows, routes.wanted(work.traces, most or SAMPLES), "traces"))
        started_ns = time.monotonic_ns()
        _one(work, port)
        _rest(work, started_ns + GAP_NS)
    few = routes.short(work.traces) if most else False
    why = work.trouble or (f"no more than {most} were to be traced" if few else "")
    return replace(result, traces=tuple(work.traces), traces_short=why)


def _one(work: _Tracing, port: int) -> None:
    try:
        got = _there(work, port) if work.result.direction is Direction.FORWARD else _back(work, port)
    except (PeerError, WireError) as error:
        work.trouble = error.message
        return
    if got.fault is not None and got.fault.kind in ("host", "interrupted") and not got.hops:
        work.trouble = got.fault.message
        return
    routers = tuple(hop.address for hop in got.hops if not hop.reached)
    work.traces.append(MemberTrace(port, routers))


def _there(work: _Tracing, port: int) -> Trace:
    """From here. No answer is asked for at the other end: its port must be free for the next load, which is to be of the same flows."""
    bench, result = work.bench, work.result
    return trace(
        result.far_address,
        port,
        result.far_port,
        bench.family,
        bench.near_address,
        _HOPS,
        _ASKED,
        bench.interrupted,
    )


def _back(work: _Tracing, port: int) -> Trace:
    """By the agent, along the flow as it came."""
    bench, result = work.bench, work.result
    with Target(bench.near_address, port, result.far_address, bench.family):
        return far_trace.ask(bench, result.far_port, port, max_hops=_HOPS, rounds=_ASKED)


def _rest(work: _Tracing, until_ns: int) -> None:
    """Silence until then; looked at twenty times a second whether the run is to end."""
    while not work.trouble and (left := until_ns - time.monotonic_ns()) > 0:
        if work.bench.interrupted():
            work.trouble = "it was interrupted"
        elif work.bench.control is not None and work.bench.control.lost():
            work.trouble = "the far end is gone"
        else:
            time.sleep(min(left, _LOOK_NS) / NS_PER_S)
