"""Delay, jitter and loss in both directions by STAMP (RFC 8762) against our agent. Floor 4.

The sender runs in a process of its own and hands over settled packets in order. Here each lost one gets its direction
(the far end tells which sequence numbers reached it), every packet is kept, counted and shown to the rules, and
sending stops as soon as every red line is decided.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from linkqual.errors import LinkqualError, PeerError
from linkqual.metrics import METRICS
from linkqual.model import Conditions, EndConditions, Fault, Histogram, Measurement, StampResult, Step
from linkqual.net.sender import Sender, SenderConfig
from linkqual.probes.backlog import Backlog
from linkqual.probes.bench import Bench, PacketWriter, Progress, fault_of
from linkqual.records import Fate, Stamp
from linkqual.session.attribution import apply_far_stamps, attribute
from linkqual.stats.pacing import Audit
from linkqual.stats.summary import Summarizer
from linkqual.units import NS_PER_S
from linkqual.watch import Watch
from linkqual.wire.control import MAX_ARRIVED, text_bytes

if TYPE_CHECKING:
    from linkqual.net.control import Control
    from linkqual.records import Records

SILENT = "silent"  # kind of fault: nothing is heard any more, and nobody hung up
_PROGRESS_NS = 100_000_000
_SILENCE_NS = 2_000_000_000  # without any reply: ask the far end whether it is still there
_GONE = {
    "refused": Fault(
        "peer-lost", "the far end's port was closed while packets were under way", "start the agent again"
    ),
    "died": Fault("host", "the sending process of this host ended by itself", "see what it wrote, and report it"),
}
_LOST = {
    "peer-lost": "the agent at the far end has gone away",
    SILENT: "the line went silent: neither probes nor the control channel get through",
}
_RESTART = "see what the agent wrote, start it again, and run the test again"


@dataclass(slots=True)
class _Stream:
    """The settled packets of one run on their way to file, summary and rules.

    `held` are the chunks from the last one with a reply on: should the far end go away, what follows its last reply is
    no evidence about the line, and the last replies wait for the stamps the far end hands over when it closes.
    """

    bench: Bench
    step: Step
    control: Control
    session: str
    writer: PacketWriter
    summarizer: Summarizer
    watch: Watch
    fault: Fault | None = None
    held: list[Records] = field(default_factory=list)
    done: int = 0
    lost: int = 0
    far_stamped: bool = False  # the far kernel's stamps of its replies came
    told_ns: int = 0
    heard_ns: int = field(default_factory=time.monotonic_ns)

    def take(self, rows: Records) -> None:
        """The next settled packets, in order."""
        now = time.monotonic_ns()
        if (rows["fate"] == Fate.RECEIVED).any():
            self.settle()
            self.heard_ns = now
        elif kind := self.control.lost():
            self.fault = Fault(kind, _LOST[kind], _RESTART)
        elif now - self.heard_ns > _SILENCE_NS:
            self._ask_whether_alive()
            self.heard_ns = now
        self.held.append(rows)
        if now - self.told_ns > _PROGRESS_NS:
            self.told_ns = now
            self._tell()

    def settle(self) -> None:
        """Count everything held."""
        for rows in self.held:
            self._settle(rows)
        self.held.clear()

    def discard(self) -> int:
        """Count what is held up to the last reply and forget the rest; returns how many packets are forgotten."""
        held, self.held = self.held, []
        if not held:
            return 0
        replies = (held[0]["fate"] == Fate.RECEIVED).nonzero()[0]
        cut = int(replies[-1]) + 1 if len(replies) else 0
        self._settle(held[0][:cut])
        return sum(len(rows) for rows in held) - cut

    def _settle(self, rows: Records) -> None:
        if len(rows) == 0:
            return
        self.attribute(rows)
        self.lost += int(((rows["fate"] != Fate.RECEIVED) & (rows["fate"] != Fate.UNSENT)).sum())
        self.done += len(rows)
        self.far_stamped |= bool((rows["stamps"] & Stamp.T3_KERNEL).any())
        self.writer.write(rows)
        self.summarizer.add(rows)
        self.watch.add(rows)

    def attribute(self, rows: Records) -> None:
        """Ask the far end which of the lost packets reached it."""
        lost = rows["seq"][rows["fate"] == Fate.LOST]
        if len(lost) == 0 or self.fault is not None:
            return
        first, count = int(lost[0]), int(lost[-1] - lost[0]) + 1
        try:
            for start in range(first, first + count, MAX_ARRIVED):
                end = min(start + MAX_ARRIVED, first + count)
                answer = self.control.call("stamp.arrived", session=self.session, first=start, count=end - start)
                within = (rows["seq"] >= start) & (rows["seq"] < end)
                part = rows[within]
                attribute(part, start, text_bytes(str(answer.get("arrived", ""))))
                rows["fate"][within] = part["fate"]
        except LinkqualError as error:
            self.fault = _fault(error)

    def _ask_whether_alive(self) -> None:
        """Nothing has come back for a while: does the far end still answer on the control channel?"""
        try:
            self.control.call("stamp.counters", session=self.session)
        except LinkqualError as error:
            self.fault = _fault(error)
        else:
            self.settle()

    def _tell(self) -> None:
        expected = self.step.expected_ns - self.done * NS_PER_S // self.step.params["rate_pps"]
        self.bench.progress(
            Progress("delay and loss", self.done, self.step.packets, lost=self.lost, left_ns=max(0, expected) or None)
        )


def measure(step: Step, bench: Bench) -> Measurement:
    """Measure until decided, until the cap, or until interrupted; never raises for what line or peer do."""
    started, clock = time.time_ns(), time.monotonic_ns()

    def failed(fault: Fault) -> Measurement:
        return Measurement(step, started, time.monotonic_ns() - clock, fault=fault)

    if bench.control is None:
        return failed(Fault("no-agent", "delay and loss need our agent at the far end", "start `linkqual agent` there"))
    objectives = tuple(o for o in bench.objectives if METRICS[o.metric].probe == "stamp")
    try:
        opened = bench.control.call("stamp.open", **_request(step))
    except LinkqualError as error:
        return failed(_fault(error))
    stream = _Stream(
        bench, step, bench.control, opened["session"], bench.save_packets(step.key),
        Summarizer(objectives, audit=Audit.of(step.params)), Watch(objectives, family=bench.family_size, rate_pps=step.params["rate_pps"]),
    )  # fmt: skip
    try:
        sender = Sender.start(_settings(step, bench, opened))
    except LinkqualError as error:
        _finish(stream)
        stream.writer.close()
        return failed(_fault(error))
    with sender:
        stopped_by = _consume(sender, stream, step, bench)
        report = sender.report()
    if report["ended_by"] in _GONE and stream.fault is None:
        stream.fault = _GONE[report["ended_by"]]
        stopped_by = stream.fault.kind
    far = _finish(stream)
    stream.writer.close()
    result = StampResult(
        summary=replace(stream.summarizer.summary(), late=report.get("late", 0)),
        rate_pps=report.get("rate_pps") or float(step.params["rate_pps"]),  # none stated: at most what was planned
        packet_bytes=step.params["packet_bytes"],
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
        step, started, time.monotonic_ns() - clock, stamp=result, fault=stream.fault, conditions=_conditions(report, far, stream.far_stamped)
    )  # fmt: skip


def _request(step: Step) -> dict[str, Any]:
    chosen = {key: step.params[key] for key in ("rate_pps", "packet_bytes") if step.params.get(key) is not None}
    return chosen | {"seconds": step.duration_ns / NS_PER_S * 1.5 + 60, "packets": step.packets}


def _settings(step: Step, bench: Bench, opened: dict[str, Any]) -> SenderConfig:
    known = ("packet_bytes", "rate_pps", "timeout_ns", "window", "dscp", "ecn", "schedule", "seed")
    chosen = {key: step.params[key] for key in known if step.params.get(key) is not None}
    return SenderConfig(
        address=bench.peer_address,
        port=opened["port"],
        ssid=opened["ssid"],
        source_address=bench.near_address,
        packets=step.packets,
        far_buffer_bytes=opened.get("receive_buffer_bytes", 0),
        **chosen,
    )


def _consume(sender: Sender, stream: _Stream, step: Step, bench: Bench) -> str:
    """Take what the sender settles until it ends; returns why it ended."""
    stopped_by = ""
    for rows in Backlog(sender.chunks()):
        stream.take(rows)
        if not stopped_by:
            stopped_by = _reason(stream, step, bench)
            if stopped_by:
                sender.stop()
    return stopped_by or ("fixed length" if step.params.get("fixed") else "cap")


def _reason(stream: _Stream, step: Step, bench: Bench) -> str:
    if bench.interrupted():
        return "interrupted"
    if stream.fault is not None:
        return "peer-lost"
    if step.params.get("fixed"):
        return ""
    known = stream.watch.decided or (stream.watch.failed and stream.done >= step.params["enough"])
    return "decided" if known else ""


def _finish(stream: _Stream) -> dict[str, Any]:
    """Close the session at the far end and settle what is held; returns the far end's counters."""
    far: dict[str, Any] = {}
    if stream.fault is None:
        for rows in stream.held:
            stream.attribute(rows)
        try:
            far = stream.control.call("stamp.close", session=stream.session)
        except LinkqualError as error:
            stream.fault = _fault(error)
    if stream.fault is None or stream.fault.kind == SILENT:
        for rows in stream.held:
            apply_far_stamps(rows, far.get("stamps", ()))
        stream.settle()
    else:
        forgotten = stream.discard()
        if forgotten:
            stream.fault = replace(
                stream.fault,
                message=f"{stream.fault.message}; the {forgotten:,} packets after its last reply are not counted",
            )
    return far


def _fault(error: LinkqualError) -> Fault:
    if isinstance(error, PeerError) and error.kind == SILENT:
        return Fault(SILENT, _LOST[SILENT], _RESTART)
    return fault_of(error)


def _conditions(report: dict[str, Any], far: dict[str, Any], far_stamped: bool) -> Conditions:
    """What only the engine knows of both ends: where stamps came from, buffers granted, what its own sockets dropped.

    An end whose process left no word says nothing here. `far_stamped`: T3s of the far kernel came.
    """
    counters = far.get("counters", {})
    near_stamps = {"T1": report.get("t1_source"), "T4": report.get("t4_source")}
    far_stamps: dict[str, str] = {}
    if counters:
        late_read = counters.get("unstamped", 0) >= max(1, counters.get("answered", 0))
        far_stamps = {"T2": "user" if late_read else "kernel", "T3": "kernel" if far_stamped else "user"}
    return Conditions(
        near=EndConditions(
            stamps={stamp: source for stamp, source in near_stamps.items() if source},
            receive_buffer_bytes=report.get("receive_buffer_bytes"),
            drops=_socket_drops(report),
            notes=_unsent(report),
        ),
        far=EndConditions(
            stamps=far_stamps,
            receive_buffer_bytes=counters.get("receive_buffer_bytes"),
            drops=_socket_drops(counters),
        ),
    )


def _socket_drops(said: dict[str, Any]) -> dict[str, int]:
    """By the name `rules.hosts` looks for."""
    return {"socket_drops": said["socket_drops"]} if said.get("socket_drops") else {}


def _unsent(report: dict[str, Any]) -> tuple[str, ...]:
    because = report.get("unsent_because") or {}
    return tuple(f"{count:,} packets never left this host: {reason}" for reason, count in because.items())
