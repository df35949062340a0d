"""The narrowest hop of one direction, by load that expires hop by hop. Floor 4."""

from __future__ import annotations

import time

import numpy as np

from linkqual.errors import LinkqualError
from linkqual.model import Conditions, Fault, Measurement, Step
from linkqual.probes import recursive
from linkqual.probes.bench import Bench, Progress, ended, fault_of, rest, silent
from linkqual.probes.loading import Loaded, Loading
from linkqual.probes.trains import bounds_of, opened
from linkqual.session.narrow import SHORTER_BYTES, Narrow
from linkqual.session.narrow_result import result
from linkqual.wire.load import ARRIVAL

_ENDED = "the search for the narrowest hop was interrupted; what was found is kept", "trains"


def measure(step: Step, bench: Bench) -> Measurement:
    """Train after train until the narrowest link is known. What was found is kept when a fault ends it."""
    if step.params.get("far_end") == "reflector":
        return recursive.measure(step, bench)
    started_ns, clock = time.time_ns(), time.monotonic_ns()
    params = step.params
    bounds = bounds_of(step)
    search = Narrow(bounds)
    conditions, fault = Conditions(), None
    try:
        with opened(step, bench, bounds) as load:
            fault = _run(search, load, bench, params.get("duty", 1.0), clock)
        conditions = Conditions(load.near, load.far, same_clock=bench.one_clock)
    except LinkqualError as error:
        fault = fault_of(error)
    found = None
    if search.links:
        found = result(step.direction, search, counts=params["counts"], interrupted=fault is not None)
    elif fault is None:
        fault = Fault(
            "unreachable",
            f"of packets of {SHORTER_BYTES[-1]} to {step.params['packet_bytes']:,} bytes none arrived",
            "let UDP 4863-4894 at the far end through the firewalls, both ways; --only mtu says how long packets may be",
        )
    return Measurement(step, started_ns, time.monotonic_ns() - clock, narrow=found, conditions=conditions, fault=fault)


def _run(search: Narrow, load: Loading, bench: Bench, duty: float, begun_ns: int) -> Fault | None:
    done = 0
    while ask := search.next(time.monotonic_ns() - begun_ns):
        where = f" to router {ask.train.expire_at}" if ask.train.expire_at else ""
        bench.progress(Progress("narrowest hop", done, unit="trains", text=ask.train.name + where))
        if not silent(bench, ask.wait_ns):
            return ended(bench, *_ENDED)
        loaded = load.run(ask.train, soon=True)
        if loaded.fault and not (ask.train.climbing and _too_long(loaded)):
            return loaded.fault
        came = loaded.arrivals if loaded.arrivals is not None else np.empty(0, ARRIVAL)
        numbers, departed, arrived = (came[name].astype(np.int64) for name in ("seq", "sent_ns", "received_ns"))
        search.took(loaded.count.sent, numbers, departed, arrived, loaded.count.host_lost, loaded.full)
        if search.ended == "no-way" and loaded.fault and loaded.fault.kind == "host":
            return loaded.fault
        done += 1
        silent_ns = time.monotonic_ns()
        if not rest(bench, loaded.count.sent_ns, duty):
            return ended(bench, *_ENDED)
        begun_ns += time.monotonic_ns() - silent_ns  # what the duty takes does not count
    return None


def _too_long(loaded: Loaded) -> bool:
    """Whether packets may only have been too long: nothing arrived though the ends heard each other, or the host's own interface refused them."""
    fault, count = loaded.fault, loaded.count
    return (
        fault is not None
        and not count.received
        and (fault.kind == "host" or (fault.kind == "unreachable" and count.sent > 0))
    )
