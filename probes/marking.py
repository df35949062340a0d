"""Which DSCP and ECN values arrive, in both directions, by the Class of Service TLV of STAMP (RFC 8972 s4.4). Floor 4.

One session of the far end's reflector carries all of them. An ECN code point that does not reach the far end is put on replies
there in a further one. Where a value does not arrive as it was sent, a trace whose probes carry it shows at which hop it is another.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkqual.errors import LinkqualError, WireError
from linkqual.model import Direction, Fault, Json, MarkingResult, MarkingRow, MarkingTrace, Measurement, Step, Trace
from linkqual.net.marking import exchange
from linkqual.net.trace import Target, trace
from linkqual.probes import far_trace
from linkqual.probes.bench import Bench, Progress, fault_of
from linkqual.probes.path import codec
from linkqual.session import marking
from linkqual.session.marking import Exchange, Mark
from linkqual.units import NS_PER_S
from linkqual.wire import codepoints
from linkqual.wire.control import text_bytes

if TYPE_CHECKING:
    from linkqual.net.control import Control

_NO_AGENT = Fault(
    "no-agent", "which markings arrive is told by our agent at the far end", "start `linkqual agent` there"
)
_SILENT = Fault(
    "unreachable",
    "no reply tells how a packet arrived: nothing came back, or the far end does not know the Class of Service TLV",
    "let UDP to the agent's reflector ports through, and use the same linkqual version at both ends",
)
_HOPS, _ASKED = 30, 1  # of a trace: one probe a hop, silent ones are not worth the wait here


@dataclass(slots=True)
class _Taken:
    """What has come of the step so far."""

    exchanges: list[Exchange] = field(default_factory=list)
    rows: tuple[MarkingRow, ...] = ()
    traces: list[MarkingTrace] = field(default_factory=list)
    refused: str = ""  # why this host would not send some of the packets
    fault: Fault | None = None


def measure(step: Step, bench: Bench) -> Measurement:
    """`params`: dscp, ecn, packets, interval_ns, timeout_ns. Never raises for what line or peer do."""
    started, clock = time.time_ns(), time.monotonic_ns()
    taken = _Taken()
    if bench.control is None:
        taken.fault = _NO_AGENT
    else:
        _take(step, bench, bench.control, taken)
    bench.save_raw(f"{step.key}.json", json.dumps([one.raw() for one in taken.exchanges]) + "\n")
    heard = any(row.arrived or row.unmarked for row in taken.rows)
    if not heard and taken.fault is None:
        taken.fault = Fault("host", f"this host did not send: {taken.refused}", "") if taken.refused else _SILENT
    result = MarkingResult(taken.rows, marking.PACKET_BYTES, step.params["timeout_ns"], tuple(taken.traces))
    return Measurement(
        step,
        started,
        time.monotonic_ns() - clock,
        marking=result if taken.rows else None,
        fault=taken.fault,
    )


def _take(step: Step, bench: Bench, control: Control, taken: _Taken) -> None:
    bench.progress(Progress("marking", 0, step.packets))
    try:
        _session(step, bench, control, taken, marking.marks(step.params["dscp"], step.params["ecn"]))
        for ecn in marking.never_sent_back(taken.rows, step.params["ecn"]):
            if any(row.arrived for row in taken.rows) and not bench.interrupted():
                _session(step, bench, control, taken, (Mark(0, 0),), ecn)
    except LinkqualError as error:
        taken.fault = fault_of(error)
    except OSError as error:
        taken.fault = Fault("host", f"marking: {error.strerror or error}", "check this host's network")
    bench.progress(Progress("marking", step.packets or 0, step.packets))
    for direction in (Direction.FORWARD, Direction.REVERSE):
        if bench.interrupted():
            taken.fault = taken.fault or Fault("interrupted", "stopped before every marking was sent and followed")
        elif taken.fault is None and (mark := marking.to_trace(taken.rows, direction)) is not None:
            bench.progress(Progress("marking", step.packets or 0, step.packets, text=f"trace {direction}"))
            follow = _trace_there if direction is Direction.FORWARD else _trace_back
            taken.traces.append(MarkingTrace(direction, *mark, follow(bench, control, mark)))


def _session(
    step: Step, bench: Bench, control: Control, taken: _Taken, marks: tuple[Mark, ...], reply_ecn: int | None = None
) -> None:
    """Send packets of each marking and add what came of them. `reply_ecn`: of all replies, instead of their requests'."""
    params = step.params
    in_turn = marks * params["packets"]
    opened = control.call("stamp.open", **_request(params, len(in_turn), reply_ecn))
    try:
        found = exchange(
            bench.peer_address,
            opened["port"],
            opened["ssid"],
            in_turn,
            source=bench.near_address,
            family=bench.family,
            interval_ns=params["interval_ns"],
            timeout_ns=params["timeout_ns"],
            interrupted=bench.interrupted,
        )
        reached = _reached(control, opened["session"], len(found.sent))
    finally:
        control.call("stamp.close", session=opened["session"])
    taken.refused = taken.refused or found.refused
    taken.exchanges.append(Exchange(tuple(found.sent), found.echoes, reached, reply_ecn))
    taken.rows = marking.matrix(taken.exchanges)


def _request(params: dict[str, Json], packets: int, reply_ecn: int | None) -> dict[str, Json]:
    rate = max(1, NS_PER_S // params["interval_ns"])
    asked = {
        "rate_pps": rate,
        "packet_bytes": marking.PACKET_BYTES,
        "packets": packets,
        "seconds": 2 * packets / rate + params["timeout_ns"] / NS_PER_S + 60,
    }
    return asked if reply_ecn is None else asked | {"reply_ecn": reply_ecn}


def _reached(control: Control, session: str, count: int) -> tuple[bool, ...]:
    """Which packets the far end's reflector got."""
    if not count:
        return ()
    answer = control.call("stamp.arrived", session=session, first=0, count=count)
    bits = text_bytes(str(answer.get("arrived", "")))
    if 8 * len(bits) < count:
        raise WireError("the far end told of fewer packets than it was asked about")
    return tuple(bool(bits[number >> 3] >> (number & 7) & 1) for number in range(count))


# ---- traces


def _trace_there(bench: Bench, control: Control, mark: Mark) -> Trace:
    try:
        port = int(control.call("trace.target")["port"])
    except LinkqualError as error:
        return Trace(bench.near_address, bench.peer_address, 0, 0, fault=fault_of(error))
    return trace(
        bench.peer_address,
        0,
        port,
        bench.family,
        bench.near_address,
        _HOPS,
        _ASKED,
        bench.interrupted,
        codec=codec(),
        tos=codepoints.octet(*mark),
    )


def _trace_back(bench: Bench, control: Control, mark: Mark) -> Trace:
    with Target(bench.near_address, 0, bench.peer_address, bench.family) as target:
        try:
            port = int(control.call("trace.target")["port"])
            return far_trace.ask(bench, port, target.port, max_hops=_HOPS, rounds=_ASKED, tos=codepoints.octet(*mark))
        except LinkqualError as error:
            return Trace(bench.peer_address, bench.near_address, 0, target.port, fault=fault_of(error))
