"""Where a queue begins in one direction, without load that expires on routers: UDP a little above the rate, hops asked beside it. Floor 4."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np

from linkqual.errors import LinkqualError
from linkqual.model import Conditions, Fault, LoadCount, LoadedPath, Measurement, Step
from linkqual.probes import hops, loading, path
from linkqual.probes.bench import Bench, Progress, duty_of, ended, fault_of, rest, silent
from linkqual.probes.beside import MARGIN_S
from linkqual.probes.loading import Loading
from linkqual.session import gentle, hop_watch
from linkqual.session.load_phase import Phase
from linkqual.units import NS_PER_S

_ENDED = "the look for where a queue begins was interrupted; what was seen is kept", "loads"


@dataclass(slots=True)
class _Run:
    """A step under way."""

    step: Step
    bench: Bench
    load: Loading
    counts: list[LoadCount] = field(default_factory=list)
    fault: Fault | None = None

    def send(self, phase: Phase) -> LoadCount | None:
        """Its count; None when it was not carried out, or not to its end (`fault`)."""
        loaded = self.load.run(phase)
        if loaded.fault is not None:
            self.fault = loaded.fault
            return None
        self.counts.append(loaded.count)
        return loaded.count


def measure(step: Step, bench: Bench) -> Measurement:
    """Idle rounds, then the load. What was seen is kept when a fault ends it."""
    started_ns, clock = time.time_ns(), time.monotonic_ns()
    found: LoadedPath | None = None
    conditions = Conditions()
    bench, fault = _traced(step, bench)
    if fault is None:
        try:
            with loading.opened(
                bench,
                step.direction,
                longest=step.params["packet_bytes"],
                max_rate_bps=step.params["max_rate_bps"],
                max_bytes=step.params["bytes"] or None,
            ) as load:
                run = _Run(step, bench, load)
                found = _found(run)
                fault = run.fault
            conditions = Conditions(load.near, load.far, same_clock=bench.one_clock)
        except LinkqualError as error:
            fault = fault_of(error)
    return Measurement(
        step, started_ns, time.monotonic_ns() - clock, loaded_path=found, conditions=conditions, fault=fault
    )


def _traced(step: Step, bench: Bench) -> tuple[Bench, Fault | None]:
    """With the hops of this direction: those of the path step, or of a trace made now."""
    if bench.control is None or step.direction in bench.hops:
        return bench, None
    traced = path.measure(Step("path", "path", {"rounds": 2}), replace(bench, save_raw=lambda _name, _data: None))
    known = hop_watch.known([traced])
    if step.direction in known:
        return replace(bench, hops=known), None
    return bench, traced.fault or Fault(
        "unreachable", f"no hop answers {step.direction}", "see whether ICMP errors reach both hosts"
    )


def _found(run: _Run) -> LoadedPath | None:
    params, bench, way = run.step.params, run.bench, run.step.direction
    packet, most = params["packet_bytes"], params["max_rate_bps"]
    quiet = run.send(gentle.idle(packet))
    rate = (params["rate_bps"] or _rate(run)) if quiet is not None else None
    if quiet is None or not rate:
        return None
    phase = gentle.load(rate, packet, params["rounds"], times=gentle.ABOVE, most_bps=most)
    count, found = _watched(run, phase, quiet)
    if count is None or found is None or found.by == "queue":
        return found
    if why := gentle.carried(count):
        return replace(found, because=f"{why}; {found.because}")
    if found.confidence == "medium" or not gentle.policed(count):
        return found
    known = replace(bench.hops[way], hops=tuple(replace(hop, loaded_sent=0, loaded_ns=()) for hop in found.hops))
    run.bench = replace(bench, hops={**bench.hops, way: known})
    phase = gentle.load(rate, packet, gentle.POLICED_ROUNDS, times=gentle.POLICED, most_bps=most)
    _, policed = _watched(run, phase, quiet, base=gentle.LONG_BYTES)
    if run.fault is not None and run.fault.kind == "cap":
        run.fault = None
        return replace(found, because=f"{found.because}; --max-bytes leaves nothing for the load that a policer needs")
    return policed if policed is not None and policed.by else found


def _watched(run: _Run, phase: Phase, quiet: LoadCount, base: int = 0) -> tuple[LoadCount | None, LoadedPath | None]:
    """A load with its idle rounds before it, and what the hops showed."""
    bench, way = run.bench, run.step.direction
    seconds = (gentle.idle_ns() + phase.duration_ns) / NS_PER_S + MARGIN_S
    with hops.watching(bench, way, seconds=seconds, base=base) as watch:
        if watch.problem:  # a load that nobody looks at is sent in vain
            run.fault = None if rest(bench, 0, 1) else ended(bench, *_ENDED)
            return None, watch.result(gentle.told(phase.rate_bps))
        bench.progress(Progress(f"where a queue begins {way}", text="on the idle line"))
        if not silent(bench, gentle.idle_ns()):
            run.fault = ended(bench, *_ENDED)
            return None, None
        with watch.loaded(until_ns=phase.duration_ns):
            count = run.send(phase)
    if count is None and not watch.asked:
        return None, None
    added = gentle.added_ns(count, quiet) if count is not None else None
    lost = gentle.lost([count]) if count is not None else None
    found = watch.result(
        gentle.told(phase.rate_bps), added_ns=added, lost=lost, lost_only=bool(base), cut=count is None
    )
    if count is not None and not rest(bench, count.sent_ns, duty_of(run.step)):
        run.fault = ended(bench, *_ENDED)
    return count, found


def _rate(run: _Run) -> float | None:
    """What the line carries, where no contract says it: a burst, then a second above what that showed."""
    packet, most = run.step.params["packet_bytes"], run.step.params["max_rate_bps"]
    loaded = run.load.run(gentle.burst(packet, most))
    if loaded.fault is not None:
        run.fault = loaded.fault
        return None
    assert loaded.arrivals is not None
    first = gentle.burst_bps(loaded.arrivals["received_ns"].astype(np.int64), packet)
    if first is None:
        run.fault = Fault("unreachable", "too few packets of a burst arrived", "see whether the stamp step got through")
        return None
    count = run.send(gentle.look(first, packet, most))
    return None if count is None else gentle.looked_bps(count)
