"""The two paths of one flow: a trace from here, one by the agent back to here, and what comparing them says. Floor 4.

    near:source_port --- forward trace (scapy) ---> far:destination_port
    near:source_port <--- reverse trace (agent) --- far:destination_port

Both use one UDP 5-tuple, mirrored, so that load balancers treat them like the two directions of one real flow.
"""

from __future__ import annotations

import importlib.util
import json
import time
from dataclasses import replace
from typing import Any

from linkqual.errors import PeerError, WireError
from linkqual.model import Conditions, EndConditions, Fault, Json, Measurement, PathResult, Step, Trace
from linkqual.net.trace import DEFAULT_PORT, Target, trace
from linkqual.net.trace_sockets import PLAIN, Codec, raw_permitted
from linkqual.probes import far_trace, path_flows
from linkqual.probes.bench import Bench, Progress, fault_of
from linkqual.session.compared import measured
from linkqual.session.symmetry import UNDETERMINED, compare, longer_returns
from linkqual.wire import trace_json

_SAME_VERSION = "use the same linkqual version at both ends"
_NO_RAW = "hops were read from the socket's error queue, without the right to raw sockets: no TTLs of replies and quotes, nothing of routers that quote the UDP header alone"
_NO_AGENT = Fault(
    "no-agent",
    "without an agent at the far end there is no trace from there to here",
    "start `linkqual agent` at the far end and give its pairing line as the peer",
)
_FOREIGN = Fault(
    "no-way-back",
    "a reflector that is not ours traces nothing, so the way back is not known; the hops there are measured",
    "our agent at the far end traces back",
)


def measure(step: Step, bench: Bench) -> Measurement:
    """Trace there and back. `params`: max_hops, rounds, timeout_ns, flows, and source_port and destination_port if they are fixed."""
    started_ns, clock = time.time_ns(), time.monotonic_ns()
    port, refused = _target_port(step, bench)
    bench.progress(Progress("path", 0, 2, "traces", text="forward"))
    forward = _forward(step, bench, port)
    bench.progress(Progress("path", 1, 2, "traces", text="reverse"))
    reverse = _failed(forward, refused) if refused else _reverse(step, bench, forward)
    bench.progress(Progress("path", 2, 2, "traces"))
    bench.save_raw(f"{step.key}.json", _raw(forward, reverse))
    found = compare(forward, reverse)
    because = found.because
    if found.verdict == UNDETERMINED and not reverse.hops and (hint := longer_returns(forward)):
        because += f"; {hint}"
    near = EndConditions(notes=() if raw_permitted(bench.family) else (_NO_RAW,))
    far = EndConditions(notes=(_NO_RAW,) if _without_raw(reverse) else ())
    fault = forward.fault or reverse.fault
    path = PathResult(forward, reverse, found.verdict, because, found.pairs, measured(forward, reverse))
    if fault is None:
        path = path_flows.traced(bench, path, step.params.get("flows", 1), _settings(step)["max_hops"])
    return Measurement(
        step,
        started_ns,
        time.monotonic_ns() - clock,
        path=path if forward.hops or reverse.hops else None,
        conditions=Conditions(near=near, far=far),
        fault=replace(fault, message=f"path: {fault.message}") if fault else None,
    )


def _without_raw(trace: Trace) -> bool:
    """Whether routers answered and no TTL of theirs was read: the end that traced had no right to raw sockets."""
    routers = [hop for hop in trace.hops if hop.address is not None and not hop.reached]
    return bool(routers) and all(hop.quoted_ttl is None for hop in routers)


def _target_port(step: Step, bench: Bench) -> tuple[int, Fault | None]:
    """The UDP port at the far end the flow goes to, and why there can be no trace from there."""
    fixed = step.params.get("destination_port")
    if bench.control is None:
        return fixed or DEFAULT_PORT, _NO_AGENT if bench.reflector is None else _FOREIGN
    try:
        return int(bench.control.call("trace.target", **({"port": fixed} if fixed else {}))["port"]), None
    except PeerError as error:
        return fixed or DEFAULT_PORT, fault_of(error)
    except (KeyError, TypeError, ValueError):
        return fixed or DEFAULT_PORT, Fault("peer-lost", "the agent named no port for the trace", _SAME_VERSION)


def _settings(step: Step) -> dict[str, Any]:
    return {"max_hops": step.params.get("max_hops", 30), "rounds": step.params.get("rounds", 3)}


def _forward(step: Step, bench: Bench, port: int) -> Trace:
    return trace(
        bench.peer_address,
        step.params.get("source_port", 0),
        port,
        bench.family,
        bench.near_address,
        interrupted=bench.interrupted,
        timeout_ns=step.params.get("timeout_ns", 1_000_000_000),
        codec=codec(),
        **_settings(step),
    )


def codec() -> Codec:
    """Scapy's, where it is installed."""
    if importlib.util.find_spec("scapy") is None:
        return PLAIN
    from linkqual.net.trace_scapy import SCAPY

    return SCAPY


def _reverse(step: Step, bench: Bench, forward: Trace) -> Trace:
    """The agent's trace along the mirrored flow, to a port this end answers on meanwhile."""
    if bench.interrupted():
        return _failed(forward, Fault("interrupted", "the trace from the far end was not begun"))
    if not forward.source_port:
        return _failed(
            forward, Fault("failed", "no port is left here for the trace from the far end", "see the forward trace")
        )
    with Target(forward.source, forward.source_port, bench.peer_address, bench.family):
        try:
            return far_trace.ask(bench, forward.destination_port, forward.source_port, **_settings(step))
        except PeerError as error:
            return _failed(forward, fault_of(error))
        except WireError as error:
            return _failed(forward, replace(fault_of(error), hint=error.hint or _SAME_VERSION))


def _failed(forward: Trace, fault: Fault) -> Trace:
    """A reverse trace that was not made."""
    return Trace(forward.destination, forward.source, forward.destination_port, forward.source_port, fault=fault)


def _raw(forward: Trace, reverse: Trace) -> str:
    traces: dict[str, Json] = {"forward": trace_json.encode(forward), "reverse": trace_json.encode(reverse)}
    return json.dumps(traces, indent=1) + "\n"
