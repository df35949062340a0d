"""Delay, jitter and loss in both directions by STAMP (RFC 8762), against our agent or a reflector of others. Floor 4.

The sender runs in a process of its own and hands over settled packets in order. Each lost one gets its direction as far as the
far end tells it (`streams`, `foreign`), every packet is kept, counted and shown to the rules, and sending stops as soon as
every red line is decided.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from linkqual.errors import LinkqualError
from linkqual.model import Conditions, EndConditions, Fault, Histogram, Measurement, StampResult, Step
from linkqual.net.sender import Sender
from linkqual.probes.backlog import Backlog
from linkqual.probes.bench import Bench, fault_of
from linkqual.probes.foreign import ReflectorStream
from linkqual.probes.streams import AgentStream, Stream, counted, far_fault, socket_drops
from linkqual.units import NS_PER_S

_DIED = Fault("host", "the sending process of this host ended by itself", "see what it wrote, and report it")
_NO_AGENT = Fault("no-agent", "delay and loss need our agent at the far end", "start `linkqual agent` there")


def measure(step: Step, bench: Bench) -> Measurement:
    """Measure until decided, until the cap, or until interrupted; never raises for what line or peer do."""
    started, clock = time.time_ns(), time.monotonic_ns()
    stream = _open(step, bench)
    if isinstance(stream, Fault):
        return Measurement(step, started, time.monotonic_ns() - clock, fault=stream)
    try:
        sender = Sender.start(stream.settings())
    except LinkqualError as error:
        stream.finish()
        stream.writer.close()
        return Measurement(step, started, time.monotonic_ns() - clock, fault=fault_of(error))
    with sender:
        stopped_by = _consume(sender, stream, step, bench)
        report = sender.report()
    gone = {"refused": stream.refused(), "died": _DIED}.get(report["ended_by"])
    if gone and stream.fault is None:
        stream.fault, stopped_by = gone, gone.kind
    far = stream.finish()
    stream.writer.close()
    result = StampResult(
        summary=replace(stream.summarizer.summary(), late=report.get("late", 0)),
        rate_pps=report.get("rate_pps") or float(step.params["rate_pps"]),  # none stated: at most what was planned
        packet_bytes=step.params["packet_bytes"],
        mix=tuple((size, weight) for size, weight in step.params.get("mix") or ()),
        far_end=stream.kind,
        timeout_ns=step.params["timeout_ns"],
        schedule=step.params.get("schedule", "periodic"),
        dscp=step.params.get("dscp", 0),
        lateness=report.get("lateness", Histogram()),
        blocked_ns=report.get("blocked_ns", 0),
        decisions=() if step.params.get("fixed") else stream.watch.decisions(final=True),
        stopped_by=stopped_by,
        family=bench.family_size,
    )
    return Measurement(
        step,
        started,
        time.monotonic_ns() - clock,
        stamp=result,
        fault=stream.explained(report),
        conditions=Conditions(near=near_conditions(report), far=stream.far_conditions(far, report)),
    )


def _open(step: Step, bench: Bench) -> Stream | Fault:
    if bench.reflector is not None:
        return ReflectorStream(**Stream.common(step, bench), reflector=bench.reflector)
    if bench.control is None:
        return _NO_AGENT
    try:
        opened = bench.control.call("stamp.open", **_request(step))
    except LinkqualError as error:
        return far_fault(error)
    return AgentStream(**Stream.common(step, bench), control=bench.control, opened=opened)


def _request(step: Step) -> dict[str, Any]:
    chosen = {key: step.params[key] for key in ("rate_pps", "packet_bytes") if step.params.get(key) is not None}
    if step.params.get("authenticated"):
        chosen["authenticated"] = True
    return chosen | {"seconds": step.duration_ns / NS_PER_S * 1.5 + 60, "packets": step.packets}


def _consume(sender: Sender, stream: Stream, step: Step, bench: Bench) -> str:
    """Take what the sender settles until it ends; returns why it ended."""
    stopped_by = ""
    for rows in Backlog(sender.chunks()):
        stream.take(rows)
        if not stopped_by:
            stopped_by = _reason(stream, step, bench)
            if stopped_by:
                sender.stop()
    return stopped_by or ("fixed length" if step.params.get("fixed") else "cap")


def _reason(stream: Stream, step: Step, bench: Bench) -> str:
    if bench.interrupted():
        return "interrupted"
    if stream.fault is not None:
        return "peer-lost"
    if step.params.get("fixed"):
        return ""
    known = stream.watch.decided or (stream.watch.failed and stream.done >= step.params["enough"])
    return "decided" if known else ""


def near_conditions(report: dict[str, Any]) -> EndConditions:
    """What only the engine knows of this end: where stamps came from, buffers granted, what its own socket dropped."""
    stamps = {"T1": report.get("t1_source"), "T4": report.get("t4_source")}
    return EndConditions(
        stamps={stamp: source for stamp, source in stamps.items() if source},
        receive_buffer_bytes=report.get("receive_buffer_bytes"),
        drops=socket_drops(report),
        counters=counted(report),
        notes=(*_unsent(report), *_card(report)),
    )


def _card(report: dict[str, Any]) -> tuple[str, ...]:
    """A network card that could stamp, and does not."""
    card = report.get("card") or {}
    return (f"the network card of {card['interface']} could stamp packets: {card['hint']}",) if card.get("hint") else ()


def _unsent(report: dict[str, Any]) -> tuple[str, ...]:
    because = report.get("unsent_because") or {}
    return tuple(f"{count:,} packets never left this host: {reason}" for reason, count in because.items())
