"""The same UDP load over one flow and over many: what each flow got of it. Floor 4."""

from __future__ import annotations

import time

from linkqual.errors import LinkqualError
from linkqual.model import Conditions, Fault, FlowsResult, LoadCount, Measurement, Step
from linkqual.plan.flows import REST_NS
from linkqual.probes import hops, loading
from linkqual.probes.bench import Bench, duty_of, ended, fault_of, rest
from linkqual.probes.beside import MARGIN_S
from linkqual.probes.hops import Watching
from linkqual.probes.loading import Loading
from linkqual.session import flow_sharing
from linkqual.session.gentle import lost, told
from linkqual.session.load_phase import Phase
from linkqual.units import NS_PER_S, format_count

INTERVAL_NS = NS_PER_S // 5  # the second half of a phase is told from the first
SINGLE_PACKETS_BPS = 2_000_000_000  # up to here a host sends packets one by one
JITTER = 0.3  # of a gap: flows that come in turn must not keep step with a policer that drops every other packet


def measure(step: Step, bench: Bench) -> Measurement:
    """Phase after phase; it ends where one flow carries the whole load. What was counted is kept when a fault ends it."""
    started_ns, clock = time.time_ns(), time.monotonic_ns()
    counts: list[LoadCount] = []
    ports: tuple[int, ...] = ()
    conditions, fault, queue = Conditions(), None, None
    try:
        with (
            loading.opened(
                bench,
                step.direction,
                flows=max(step.params["flows"]),
                longest=step.params["packet_bytes"],
                max_rate_bps=step.params["max_rate_bps"],
                max_bytes=step.total_bytes,
            ) as load,
            hops.watching(bench, step.direction, seconds=step.duration_ns / NS_PER_S + MARGIN_S) as watch,
        ):
            ports = load.ports
            fault = _run(step, bench, load, watch, counts)
        if counts:
            queue = watch.result(told(step.params["rate_bps"]), lost=lost(counts), cut=fault is not None)
        conditions = Conditions(load.near, load.far)
    except LinkqualError as error:
        fault = fault_of(error)
    found = FlowsResult(tuple(counts), ports) if counts else None
    return Measurement(
        step,
        started_ns,
        time.monotonic_ns() - clock,
        flows=found,
        loaded_path=queue,
        conditions=conditions,
        fault=fault,
    )


def _run(step: Step, bench: Bench, load: Loading, watch: Watching, counts: list[LoadCount]) -> Fault | None:
    for flows in step.params["flows"]:
        phase = _phase(step, flows)
        with watch.loaded(until_ns=phase.duration_ns):
            loaded = load.run(phase)
        if loaded.count.sent:
            counts.append(loaded.count)
        if loaded.fault is not None:
            return loaded.fault
        if flow_sharing.read(counts).kind == "whole":
            return None
        if not rest(bench, loaded.count.sent_ns, duty_of(step)):
            return ended(bench, "the flows were interrupted; the phases that ran are kept", "phases")
    return None


def _phase(step: Step, flows: int) -> Phase:
    rate, packet = step.params["rate_bps"], step.params["packet_bytes"]
    return Phase(
        f"{format_count(flows)} flow{'s' * (flows > 1)}",
        rate,
        duration_ns=step.params["phase_ns"],
        sizes=((packet, 1),),
        flows=flows,
        segmented=rate <= SINGLE_PACKETS_BPS,
        rest_ns=REST_NS,
        jitter=JITTER,
        interval_ns=INTERVAL_NS,
    )
