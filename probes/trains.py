"""Trains of packets through whatever limits one direction: its rate, its bucket, its queue. Floor 4."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager

import numpy as np

from linkqual.errors import LinkqualError
from linkqual.model import Conditions, Fault, Measurement, Step, TrainsResult
from linkqual.probes import loading
from linkqual.probes.bench import Bench, Progress, ended, fault_of, rest, silent
from linkqual.probes.loading import Loaded, Loading
from linkqual.session.train import Bounds, Next, Trains
from linkqual.session.train_result import result
from linkqual.stats.arrival_curve import Sent, idle, read
from linkqual.stats.throughput import OVERHEAD_BYTES

_ENDED = "the trains were interrupted; those that ran are kept", "trains"
_NOTHING_CAME = "none of a train's packets arrived"


def bounds_of(step: Step) -> Bounds:
    """What the trains of a step are bound by."""
    params = step.params
    return Bounds(
        most_bytes=params["bytes"],
        contracted_bps=params["contracted_bps"],
        packet_bytes=params["packet_bytes"],
        overhead_bytes=OVERHEAD_BYTES[params["counts"]],
        **({"fastest_bps": params["fastest_bps"]} if params["fastest_bps"] else {}),
    )


def opened(step: Step, bench: Bench, bounds: Bounds) -> AbstractContextManager[Loading]:
    """The load that sends them: one flow, within the step's bounds."""
    return loading.opened(
        bench,
        step.direction,
        longest=bounds.packet_bytes,
        max_rate_bps=step.params["max_rate_bps"],
        max_bytes=bounds.most_bytes,
    )


def measure(step: Step, bench: Bench) -> Measurement:
    """Train after train until three agree. What was found is kept when a fault ends it."""
    started_ns, clock = time.time_ns(), time.monotonic_ns()
    bounds = bounds_of(step)
    trains = Trains(bounds)
    conditions, fault = Conditions(), None
    try:
        with opened(step, bench, bounds) as load:
            fault = _run(trains, load, bench, step.params.get("duty", 1.0))
        conditions = Conditions(load.near, load.far, same_clock=bench.one_clock)
    except LinkqualError as error:
        fault = fault_of(error)
    found = _result(trains, step, fault) if trains.taken else None
    return Measurement(step, started_ns, time.monotonic_ns() - clock, trains=found, conditions=conditions, fault=fault)


def _run(trains: Trains, load: Loading, bench: Bench, duty: float) -> Fault | None:
    while step := trains.next():
        bench.progress(Progress("trains", len(trains.taken), unit="trains", text=step.train.name))
        if not silent(bench, step.wait_ns):
            return ended(bench, *_ENDED)
        before = load.run(step.idle)
        loaded = before if before.fault else load.run(step.train)
        if loaded.fault:
            return loaded.fault
        if fault := _take(trains, step, before, loaded):
            return fault
        if not rest(bench, loaded.count.sent_ns, duty):
            return ended(bench, *_ENDED)
    return None


def _take(trains: Trains, step: Next, before: Loaded, loaded: Loaded) -> Fault | None:
    quiet, came = before.arrivals, loaded.arrivals
    base = None if quiet is None else idle(quiet["received_ns"] - quiet["sent_ns"])
    if base is None or came is None or not len(came):
        return Fault(
            "unreachable", _NOTHING_CAME, "see whether the stamp step got through; firewalls may drop other ports"
        )
    sent = Sent(step.train.name, loaded.count.sent, trains.bounds.each, loaded.count.host_lost)
    numbers, departed, arrived = (came[name].astype(np.int64) for name in ("seq", "sent_ns", "received_ns"))
    trains.took(read(sent, numbers, departed, arrived, base), base)
    return None


def _result(trains: Trains, step: Step, fault: Fault | None) -> TrainsResult:
    bounds = trains.bounds
    return result(
        step.direction,
        trains.taken,
        "interrupted" if fault else trains.ended,
        counts=step.params["counts"],
        packet_bytes=bounds.packet_bytes,
        overhead=bounds.overhead_bytes,
        idle=trains.idle,
        outlasted=trains.outlasted,
    )
