"""The narrowest place toward a far end that is not ours: one end alone sends and hears. Best effort, low confidence always. Floor 4."""

from __future__ import annotations

import time

from linkqual.model import Conditions, EndConditions, Fault, LoadedHop, Measurement, Step
from linkqual.net import recursive_train
from linkqual.net.trace import DEFAULT_PORT, trace
from linkqual.net.trace_sockets import TraceSockets
from linkqual.probes.bench import Bench, Progress, duty_of, silent
from linkqual.session.hop_watch import Known, of_trace
from linkqual.session.recursive_train import APART_NS, PACKET_BYTES, Recursive
from linkqual.units import NS_PER_S

_HALF = 0.5  # of the time: as long as a load lasts, so long is the silence
_LIMIT = "without our agent at the far end only the way there is seen, up to its last router, and the load goes to a closed UDP port of that host"


def measure(step: Step, bench: Bench) -> Measurement:
    """Trains until one is drawn out, then as many as agree. What was found is kept when a fault ends it."""
    started_ns, clock = time.time_ns(), time.monotonic_ns()
    known, fault = _known(step, bench)
    found = None
    if known is not None:
        trains = Recursive.over(_routers(known))
        fault = _run(trains, step, bench, known)
        found = trains.result(step.direction) if any(one.load for one in trains.taken) else None
    return Measurement(
        step,
        started_ns,
        time.monotonic_ns() - clock,
        loaded_path=found,
        conditions=Conditions(near=EndConditions(notes=(_LIMIT,))),
        fault=fault,
    )


def _known(step: Step, bench: Bench) -> tuple[Known | None, Fault | None]:
    """The hops of the path step, or of a trace made now."""
    if step.direction in bench.hops:
        found, fault = bench.hops[step.direction], None
    else:
        traced = trace(
            bench.peer_address,
            0,
            DEFAULT_PORT,
            bench.family,
            bench.near_address,
            rounds=1,
            interrupted=bench.interrupted,
        )
        found, fault = of_trace(traced), traced.fault
    if any(hop.address for hop in _routers(found)):
        return found, None
    why = "no router answers on the way, so trains have nobody to ask"
    return None, fault or Fault("unreachable", f"narrow: {why}", "see whether ICMP errors reach this host")


def _routers(known: Known) -> tuple[LoadedHop, ...]:
    """Without the host itself."""
    return known.hops[:-1] if known.reached else known.hops


def _run(trains: Recursive, step: Step, bench: Bench, known: Known) -> Fault | None:
    ttls = [hop.ttl for hop in trains.hops if hop.address is not None]
    most = step.params["max_rate_bps"]
    gap_ns = round(PACKET_BYTES * 8 * NS_PER_S / most) if most else 0
    duty, silence_ns = min(_HALF, duty_of(step)), 0
    try:
        with TraceSockets(
            bench.family, bench.near_address, known.source_port, bench.peer_address, known.destination_port
        ) as sockets:
            while (size := trains.next()) is not None:
                bench.progress(
                    Progress(
                        "narrowest hop",
                        len(trains.taken),
                        unit="trains",
                        text=f"{size or 'no'} packets of load, from this end alone",
                    )
                )
                rested = silent(bench, max(APART_NS, silence_ns))
                heard = recursive_train.send(sockets, ttls, size, gap_ns, bench.interrupted) if rested else None
                if heard is None:
                    return Fault("interrupted", "the trains were interrupted; what was found is kept")
                silence_ns = round(heard.sending_ns * (1 / duty - 1))
                trains.taken.append(heard)
    except OSError as error:
        return Fault(
            "host",
            f"narrow: this host does not send the trains: {error.strerror or error}",
            "see its firewall and interface",
        )
    return None
