"""TCP goodput of one direction by iperf3, second by second as the receiver saw it. Floor 4.

The agent starts a server for one test; the client runs here as a child. Each block is a test of its own with a warm-up, whose
seconds are kept apart. A judged step adds blocks until its objectives are decided or the cap is reached. Going forward the
receiver's seconds come from the server's document, which the agent hands over when the test is closed; going back they are
the client's own.
"""

from __future__ import annotations

import math
import socket
import time
from dataclasses import dataclass, field

from linkqual.errors import HostError, PeerError, WireError
from linkqual.model import Conditions, Direction, EndConditions, Fault, Json, Measurement, Step, ThroughputResult
from linkqual.net import child
from linkqual.net.addresses import bare
from linkqual.net.control import Control
from linkqual.probes import iperf3_output
from linkqual.probes.bench import Bench, Progress, fault_of
from linkqual.probes.iperf3_output import Report
from linkqual.units import NS_PER_S
from linkqual.watch import Watch
from linkqual.wire.control import unpacked_text

GONE = ("peer-lost", "silent")  # how a far end leaves: `Control.lost`
CONNECT_MS = 5000
OVERTIME_S = 10.0  # for the connection before and the exchange of results after the measured seconds
CLOSE_S = 5.0  # for the far end to hand over its document, beyond what it may wait itself
PAYLOAD_SHARE = 0.96  # of the IP rate, at an MTU of 1500: a cap on the rate is kept with headers counted


@dataclass(slots=True)
class _Block:
    """One iperf3 test: what both ends wrote, and why it is not whole."""

    near: Report | None = None
    far: Report | None = None
    fault: Fault | None = None


@dataclass(slots=True)
class _Load:
    """A step under way."""

    step: Step
    bench: Bench
    control: Control
    blocks: list[_Block] = field(default_factory=list)
    warmup_bps: list[float] = field(default_factory=list)
    receiver_bps: list[float] = field(default_factory=list)

    @property
    def forward(self) -> bool:
        return self.step.direction is Direction.FORWARD

    @property
    def judged(self) -> bool:
        return bool(self.step.params.get("judged")) and not self.step.params.get("fixed")

    def receiver(self, block: _Block) -> Report | None:
        return block.far if self.forward else block.near

    def sender(self, block: _Block) -> Report | None:
        return block.near if self.forward else block.far


def measure(step: Step, bench: Bench) -> Measurement:
    """Load one direction and tell what arrived each second; what goes wrong is a Fault beside what was measured."""
    started_ns, clock = time.time_ns(), time.monotonic_ns()

    def measurement(result: ThroughputResult | None, fault: Fault | None, notes: tuple[str, ...] = ()) -> Measurement:
        conditions = Conditions(near=EndConditions(notes=notes))
        elapsed_ns = time.monotonic_ns() - clock
        return Measurement(step, started_ns, elapsed_ns, throughput=result, fault=fault, conditions=conditions)

    if bench.control is None:
        why = "throughput needs our agent at the far end"
        return measurement(None, Fault("no-agent", why, "start `linkqual agent` there"))
    try:
        child.find("iperf3")
    except HostError as error:
        return measurement(None, fault_of(error, "missing-program"))
    load = _Load(step, bench, bench.control)
    objectives = tuple(
        one for one in bench.objectives if one.metric == "throughput" and one.direction is step.direction
    )
    watch = Watch(objectives, family=bench.family_size)
    stopped_by, fault = _blocks(load, watch)
    if fault is None and not load.receiver_bps:
        fault = Fault("iperf3-no-result", "not one whole second was measured", "run again, for longer")
    result = _result(load, watch, stopped_by) if load.receiver_bps or load.warmup_bps else None
    return measurement(result, fault, _notes(load))


def _blocks(load: _Load, watch: Watch) -> tuple[str, Fault | None]:
    """Run blocks until there is a reason to stop; gives that reason, and the Fault where it is one."""
    params = load.step.params
    seconds = int(params["seconds"])
    cap = int(params.get("cap_seconds", seconds))
    while True:
        block = _block(load, seconds)
        load.blocks.append(block)
        measured = _take(load, block)
        if load.judged:
            watch.add_seconds(load.step.direction, measured)
        if block.fault is not None:
            return block.fault.kind, block.fault
        if not load.judged or watch.idle:
            return "fixed length", None
        if watch.decided:
            return "decided", None
        left = cap - len(load.receiver_bps)
        if left <= 0 or not measured:
            return "cap", None
        seconds = min(left, int(params.get("block_seconds", seconds)))


def _take(load: _Load, block: _Block) -> tuple[float, ...]:
    """The block's seconds at the receiver; when the far end vanished, silence before that is no evidence about the line."""
    report = load.receiver(block)
    if report is None:
        return ()
    warmup, measured = report.seconds(_warmup(load.step))
    if block.fault is not None and block.fault.kind in (*GONE, "timeout"):
        while measured and measured[-1] == 0:
            measured = measured[:-1]
    load.warmup_bps.extend(warmup)
    load.receiver_bps.extend(measured)
    return measured


def _block(load: _Load, seconds: int) -> _Block:
    """One test. The server at the far end is closed in any case, and its document kept."""
    whole = seconds + _warmup(load.step)
    try:
        opened = load.control.call("iperf3.open", seconds=whole, streams=load.step.params["streams"])
    except PeerError as error:
        return _Block(fault=fault_of(error))
    try:
        ended = child.run(
            _command(load, int(opened["port"]), whole),
            timeout_s=whole + OVERTIME_S,
            stop=lambda: _reason_to_stop(load),
            tick=_teller(load, whole),
        )
    except HostError as error:
        return _Block(fault=fault_of(error, "missing-program"))
    near = ended.output.decode("utf-8", "replace")
    far = _far_document(load, wait_ms=0 if ended.stopped else 3000)
    _keep(load, "near", near)
    block = _read(load, near, far)
    if ended.stopped:
        gone = far.kind if isinstance(far, Fault) and far.kind in GONE else ""
        block.fault = _stopped(gone if gone and ended.stopped == "timeout" else ended.stopped, block.fault)
    return block


def _command(load: _Load, port: int, seconds: int) -> list[str]:
    params, bench = load.step.params, load.bench
    command = ["iperf3", "-c", bench.peer_address, "-p", str(port), "-J", "-i", "1", "-t", str(seconds)]
    command += ["-P", str(params["streams"]), "--connect-timeout", str(CONNECT_MS)]
    command += ["-6" if bench.family == socket.AF_INET6 else "-4"]
    if bench.near_address:
        command += ["-B", bench.near_address]
    if not load.forward:
        command += ["-R"]
    if params.get("congestion_control", "default") != "default":
        command += ["-C", str(params["congestion_control"])]
    if params.get("max_rate_bps"):
        command += ["-b", str(max(1, math.floor(params["max_rate_bps"] * PAYLOAD_SHARE / params["streams"])))]
    return command


def _reason_to_stop(load: _Load) -> str:
    if load.bench.interrupted():
        return "interrupted"
    return load.control.lost()


def _teller(load: _Load, seconds: int) -> Json:
    phase, count = f"throughput {load.step.direction}", load.step.params["streams"]
    before = len(load.receiver_bps)

    def tell(elapsed_s: float) -> None:
        done = before + max(0, min(seconds, int(elapsed_s)) - _warmup(load.step))
        left_ns = max(0, round((seconds - elapsed_s) * NS_PER_S))
        total = before + seconds - _warmup(load.step)
        text = f"{count} stream{'s' * (count > 1)}"
        load.bench.progress(Progress(phase, done, total, unit="seconds", left_ns=left_ns, text=text))

    return tell


def _far_document(load: _Load, wait_ms: int) -> str | Fault:
    """What the server wrote, or why there is none."""
    try:
        closed = load.control.call("iperf3.close", timeout_s=wait_ms / 1000 + CLOSE_S, wait_ms=wait_ms)
        document = unpacked_text(str(closed.get("output", "")))
    except PeerError as error:
        return fault_of(error)
    except WireError as error:
        return Fault("iperf3-cut", f"the far end's iperf3 document is damaged: {error.message}")
    _keep(load, "far", document)
    if closed.get("killed") == "cap":
        return Fault("cap", "the agent's cap on bytes ended the test", "start the agent with a higher --max-bytes")
    if closed.get("error"):
        return Fault("iperf3-error", f"iperf3 at the far end: {closed['error']}") if not document.strip() else document
    return document


def _read(load: _Load, near_text: str, far_text: str | Fault) -> _Block:
    """Both documents judged: the near end's complaint first, then that of whoever received."""
    near = iperf3_output.read(near_text)
    far = far_text if isinstance(far_text, Fault) else iperf3_output.read(far_text)
    block = _Block(
        near=near if isinstance(near, Report) else None,
        far=far if isinstance(far, Report) else None,
    )
    if isinstance(far, Fault) and far.kind == "cap":
        block.fault = far
    elif isinstance(near, Fault):
        block.fault = near
    elif near.error:
        block.fault = iperf3_output.fault_of(near.error)
    elif isinstance(far, Fault):
        block.fault = far if load.forward or far.kind in GONE else None
    elif load.forward and far.error:
        block.fault = iperf3_output.fault_of(far.error)
    if block.far is not None and _stranger(block.far.accepted_from, load.control.near_address):
        block.far = None
        block.fault = Fault("busy", "another host took the iperf3 server meant for this test", "run again")
    receiver = load.receiver(block)
    if block.fault is None and (receiver is None or receiver.sending):
        block.fault = Fault("iperf3-no-receiver", "what the receiver saw is missing from iperf3's document")
    return block


def _stranger(came: str, expected: str) -> bool:
    return bool(came) and bare(came) != bare(expected)


def _stopped(why: str, found: Fault | None) -> Fault:
    """We ended the child: that, and not what it said while dying, is the fault."""
    if why == "interrupted":
        return Fault("interrupted", "the throughput test was interrupted; the seconds measured until then are kept")
    if why in GONE:
        said = (
            "closed the connection" if why == "peer-lost" else "fell silent: the line between or the host there broke"
        )
        return Fault(why, f"during the throughput test the far end {said}", "see what the agent wrote, and run again")
    hint = "the line may have broken under load; run again, and look at the packets of the stamp step"
    message = "iperf3 did not end in time and was ended"
    return Fault("timeout", message + (f" ({found.message})" if found is not None else ""), hint)


def _result(load: _Load, watch: Watch, stopped_by: str) -> ThroughputResult:
    near = [block.near for block in load.blocks if block.near is not None]
    senders = [one for block in load.blocks if (one := load.sender(block)) is not None]
    receivers = [one for block in load.blocks if (one := load.receiver(block)) is not None]
    rtts = [one.rtt_min_ns for one in senders if one.rtt_min_ns is not None]
    means = [one.rtt_mean_ns for one in senders if one.rtt_mean_ns is not None]
    retransmits = [one.retransmits for one in near]
    return ThroughputResult(
        streams=load.step.params["streams"],
        receiver_bps=tuple(load.receiver_bps),
        warmup_bps=tuple(load.warmup_bps),
        sent_bytes=sum(map(_moved, senders)) if senders else None,
        received_bytes=sum(map(_moved, receivers)) if receivers else None,
        retransmits=sum(count for count in retransmits if count is not None)
        if near and None not in retransmits
        else None,
        congestion_control=next((one.congestion_control for one in (*near, *senders) if one.congestion_control), ""),
        mss=next((one.mss for one in near if one.mss), None),
        rtt_min_ns=min(rtts, default=None),
        rtt_mean_ns=round(sum(means) / len(means)) if means else None,
        allowed_bps=load.step.params.get("allowed_bps"),
        version=_version(load),
        cpu_near=max((one.cpu_here for one in near if one.cpu_here is not None), default=None),
        cpu_far=max((one.cpu_there for one in near if one.cpu_there is not None), default=None),
        decisions=watch.decisions(final=True) if load.judged else (),
        stopped_by=stopped_by,
    )


def _moved(report: Report) -> int:
    """Octets of the whole test as this end counted them; of its intervals where the test did not end properly."""
    total = report.sent_bytes if report.sending else report.received_bytes
    return total if total is not None else sum(one.bytes for one in report.intervals)


def _version(load: _Load) -> str:
    near = next((block.near.version for block in load.blocks if block.near), "")
    far = next((block.far.version for block in load.blocks if block.far), "")
    return near if near == far or not far else f"{near} near, {far} far"


def _notes(load: _Load) -> tuple[str, ...]:
    versions = {report.version for block in load.blocks for report in (block.near, block.far) if report is not None}
    return tuple(note for version in sorted(versions) for note in iperf3_output.known_wrong(version))


def _keep(load: _Load, end: str, document: str) -> None:
    load.bench.save_raw(f"{load.step.key.replace('/', '-')}-{len(load.blocks) + 1}.{end}.json", document)


def _warmup(step: Step) -> int:
    return int(step.params.get("warmup_seconds", 0))
