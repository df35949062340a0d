"""How long a packet may be, there and back, by UDP and by TCP. Floor 4.

Both directions of UDP use one flow and its mirror: a socket here, one at the agent, and each end both asks and answers. TCP is one
connection that carries data there, then back.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from linkqual.errors import LinkqualError
from linkqual.model import Direction, Fault, Json, Measurement, MtuResult, MtuTcp, MtuWay, Step
from linkqual.net import mtu_tcp
from linkqual.net.mtu import MtuEnd
from linkqual.net.mtu_tcp import STALL_NS, Side
from linkqual.probes.bench import Bench, Progress, fault_of
from linkqual.wire import mtu_json

if TYPE_CHECKING:
    from linkqual.net.control import Control

_NO_AGENT = Fault(
    "no-agent", "how long a packet may be is told by our agent at the far end", "start `linkqual agent` there"
)
_UNANSWERED = Fault(
    "unreachable",
    "no question about the MTU was answered in either direction",
    "see whether the stamp step got through; firewalls may drop other UDP ports",
)


@dataclass(slots=True)
class _Taken:
    ways: list[MtuWay] = field(default_factory=list)
    tcp: tuple[MtuTcp, ...] = ()
    tcp_because: str = ""
    fault: Fault | None = None


def measure(step: Step, bench: Bench) -> Measurement:
    """`params`: longest_bytes, tcp_bytes (0: no TCP), timeout_ns, pace_bps. What was found before a fault is kept."""
    started_ns, clock = time.time_ns(), time.monotonic_ns()
    taken = _Taken()
    if bench.control is None:
        taken.fault = _NO_AGENT
    else:
        try:
            _take(step, bench, bench.control, taken)
        except LinkqualError as error:
            taken.fault = fault_of(error)
        except (OSError, KeyError, TypeError, ValueError) as error:
            said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            taken.fault = Fault(
                "host", f"mtu: {said}", "check this host's network, and use one linkqual version at both ends"
            )
    if taken.fault is None and bench.interrupted():
        taken.fault = Fault("interrupted", "the search for the path MTU was interrupted")
    if taken.fault is None and not any(way.passes for way in taken.ways):
        taken.fault = _UNANSWERED
    found = MtuResult(tuple(taken.ways), taken.tcp, 6 if ":" in bench.peer_address else 4, taken.tcp_because)
    bench.save_raw(f"{step.key}.json", json.dumps(asdict(found), indent=1) + "\n")
    return Measurement(
        step,
        started_ns,
        time.monotonic_ns() - clock,
        mtu=found if any(way.passes for way in taken.ways) else None,
        fault=taken.fault,
    )


def _take(step: Step, bench: Bench, control: Control, taken: _Taken) -> None:
    params = step.params
    opened = control.call("mtu.open")
    token = bytes.fromhex(opened["token"])
    asked = {"timeout_ns": params["timeout_ns"], "pace_bps": params["pace_bps"]}
    try:
        with MtuEnd(bench.near_address, bench.peer_address, token, bench.family) as end:
            bench.progress(Progress("mtu", 0, 3, "searches", text="forward"))
            longest, port = params["longest_bytes"], int(opened["port"])
            taken.ways.append(end.search(Direction.FORWARD, port, longest, interrupted=bench.interrupted, **asked))
            if not bench.interrupted():
                bench.progress(Progress("mtu", 1, 3, "searches", text="reverse"))
                end.serve()
                answer = control.call("mtu.search", port=end.port, longest=longest, **asked)
                taken.ways.append(mtu_json.decode(answer, Direction.REVERSE))
        if params["tcp_bytes"] and not bench.interrupted():
            bench.progress(Progress("mtu", 2, 3, "searches", text="TCP"))
            _tcp(step, bench, control, taken)
        bench.progress(Progress("mtu", 3, 3, "searches"))
    finally:
        if not control.lost():
            control.call("mtu.close")


def _tcp(step: Step, bench: Bench, control: Control, taken: _Taken) -> None:
    data, pace = step.params["tcp_bytes"], step.params["pace_bps"]
    port = int(control.call("mtu.listen", data_bytes=data, pace_bps=pace)["port"])
    here = mtu_tcp.converse(
        bench.peer_address, port, bench.near_address, bench.family, data, pace, interrupted=bench.interrupted
    )
    there = _side(control.call("mtu.heard", wait_ms=2 * STALL_NS // 1_000_000 if here.connected else 0))
    if not here.connected:
        taken.tcp_because = f"no TCP connection to port {port}: {here.trouble}"
        return
    if bench.interrupted():
        taken.tcp_because = "it was interrupted"
        return
    taken.tcp = (_way(Direction.FORWARD, here, there, data), _way(Direction.REVERSE, there, here, data))


def _side(answer: dict[str, Json]) -> Side:
    return Side(
        mtu_json.whole_or_none(answer, "mss_told"),
        mtu_json.whole_or_none(answer, "mss_heard"),
        mtu_json.whole_or_none(answer, "arrived_bytes") or 0,
        mtu_json.whole_or_none(answer, "elapsed_ns") or 0,
        bool(answer.get("connected")),
    )


def _way(direction: Direction, sender: Side, receiver: Side, data: int) -> MtuTcp:
    return MtuTcp(
        direction,
        receiver.mss_told,
        sender.mss_heard,
        data,
        receiver.arrived_bytes,
        receiver.elapsed_ns,
        receiver.arrived_bytes < data,
    )
