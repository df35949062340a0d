"""Many flows in turn that differ by a port alone: lossy, slow or differently routed members of a bundle (ECMP, LAG). Floor 4.

The first round tells a clean line. Where packets are lost, further rounds follow until it is clear by whom, or the packets are spent. The
near end's ports are the same in every run, so that flows meet the same members again.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

from linkqual.errors import HostError, LinkqualError
from linkqual.model import Conditions, Fault, Measurement, MemberFlow, MembersResult, Step
from linkqual.probes import loading, member_traces
from linkqual.probes.bench import Bench, fault_of
from linkqual.probes.loading import Arrivals, Loading
from linkqual.session import members
from linkqual.session.load_phase import Phase
from linkqual.units import NS_PER_S

FIRST_PORT, ELSEWHERE = 24_064, 256  # of the near end's; where one is taken, so many further up
ATTEMPTS = 4
QUARTERS = 4
TRACING_NS = 60 * NS_PER_S
JITTER = 0.3  # of a gap: flows that come in turn must not keep step with whatever drops every other packet


@dataclass(slots=True)
class _Taken:
    """What each flow has so far."""

    rounds: list[list[tuple[int, int]]]
    least: list[list[int | None]]
    median: list[list[int | None]]
    ports: tuple[int, ...] = ()
    far_port: int = 0
    host_lost: int = 0
    short: str = ""
    conditions: Conditions = field(default_factory=Conditions)


def measure(step: Step, bench: Bench) -> Measurement:
    """Round after round. What was counted is kept when a fault ends it."""
    started_ns, clock = time.time_ns(), time.monotonic_ns()
    flows = step.params["flows"]
    taken = _Taken([[] for _ in range(flows)], [[] for _ in range(flows)], [[] for _ in range(flows)])
    fault: Fault | None = None
    try:
        with ExitStack() as stack:
            load = _opened(step, bench, stack)
            taken.ports, taken.far_port = load.ports, load.far_port
            fault = _run(step, bench, load, taken)
        taken.conditions = Conditions(load.near, load.far)
    except LinkqualError as error:
        fault = fault_of(error)
    found = _result(step, bench, taken) if any(taken.rounds) else None
    if found is not None and fault is None:
        found = member_traces.traced(bench, found, step.params["traces"], TRACING_NS)
    return Measurement(
        step, started_ns, time.monotonic_ns() - clock, members=found, conditions=taken.conditions, fault=fault
    )


def _opened(step: Step, bench: Bench, stack: ExitStack) -> Loading:
    params = step.params
    for attempt in range(ATTEMPTS):
        try:
            return stack.enter_context(
                loading.opened(
                    bench,
                    step.direction,
                    flows=params["flows"],
                    longest=params["packet_bytes"],
                    max_rate_bps=params["max_rate_bps"],
                    max_bytes=step.total_bytes,
                    near_port=FIRST_PORT + attempt * ELSEWHERE,
                )
            )
        except HostError:  # a port is taken
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError


def _run(step: Step, bench: Bench, load: Loading, taken: _Taken) -> Fault | None:
    each, spent = step.params["first"], 0
    asked = (one.limit for one in bench.objectives if one.metric == members.METRIC and one.direction is step.direction)
    limit = min((one for one in asked if one is not None), default=None)
    while each > 0:
        loaded = load.run(_phase(step, each, len(taken.rounds[0]) + 1))
        count = loaded.count
        for flow, (sent, received, _) in enumerate(count.by_flow):
            taken.rounds[flow].append((sent, received))
        taken.host_lost += count.host_lost
        if loaded.arrivals is not None:
            _delays(loaded.arrivals, taken)
        taken.short = taken.short or count.short
        if loaded.fault is not None:
            return loaded.fault
        if count.short not in ("", "host") or not members.unsettled(_result(step, bench, taken), limit):
            return None
        spent += each
        each = min(step.params["next"], step.params["packets"] - spent)
    return None


def _phase(step: Step, each: int, number: int) -> Phase:
    flows, size = step.params["flows"], step.params["packet_bytes"]
    return Phase(
        f"round {number}",
        step.params["rate_bps"],
        packets=flows * each,
        sizes=((size, 1),),
        flows=flows,
        arrivals=True,
        jitter=JITTER,
    )


def _delays(arrivals: Arrivals, taken: _Taken) -> None:
    """The least and the median delay of each flow in each quarter of the round, by the order of departure."""
    delay = arrivals["received_ns"].astype(np.int64) - arrivals["sent_ns"].astype(np.int64)
    quarter = (
        arrivals["seq"].astype(np.int64) * QUARTERS // (int(arrivals["seq"].max()) + 1) if len(arrivals) else delay
    )
    for flow in range(len(taken.rounds)):
        mine = arrivals["flow"] == flow
        for number in range(QUARTERS):
            some = delay[mine & (quarter == number)]
            taken.least[flow].append(int(some.min()) if len(some) else None)
            taken.median[flow].append(int(np.median(some)) if len(some) else None)


def _result(step: Step, bench: Bench, taken: _Taken) -> MembersResult:
    flows = zip(taken.ports, taken.rounds, taken.least, taken.median, strict=False)
    return MembersResult(
        direction=step.direction,
        flows=tuple(
            MemberFlow(port, tuple(rounds), tuple(least), tuple(median)) for port, rounds, least, median in flows
        ),
        near_address=bench.near_address,
        far_address=bench.peer_address,
        far_port=taken.far_port,
        packet_bytes=step.params["packet_bytes"],
        rate_bps=step.params["rate_bps"],
        host_lost=taken.host_lost,
        short=taken.short,
    )
