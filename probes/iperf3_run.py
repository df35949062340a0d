"""One iperf3 test between both ends: a server for it at the far end, the client a child here, both documents judged. Floor 4.

Whatever hangs, is refused or breaks off ends here as a Fault beside what was measured; the server at the far end is closed in any
case and its document kept. Success is read from the documents, never from the exit code.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from linkqual.errors import AFTER_LOSS, HostError, PeerError, WireError
from linkqual.model import Direction, Fault, Json, Step
from linkqual.net import child
from linkqual.net.addresses import bare
from linkqual.net.control import Control
from linkqual.net.reads import Reads, moved
from linkqual.probes import iperf3_output
from linkqual.probes.bench import Bench, fault_of
from linkqual.probes.iperf3_output import Interval, Report
from linkqual.wire.control import unpacked_text

GONE = ("peer-lost", "silent")  # how a far end leaves: `Control.lost`
OTHER = "other-ended"  # the test of the other direction, run at the same time, is over before its time
CONNECT_MS = 5000
OVERTIME_S = 10.0  # for the connection before and the exchange of results after the measured seconds
CLOSE_S = 5.0  # for the far end to hand over its document, beyond what it may wait itself
PAYLOAD_SHARE = 0.96  # of the IP rate, at an MTU of 1500: a cap on the rate is kept with headers counted


@dataclass(slots=True)
class Block:
    """One test: what both ends wrote, and why it is not whole."""

    direction: Direction
    near: Report | None = None
    far: Report | None = None
    fault: Fault | None = None

    @property
    def receiver(self) -> Report | None:
        """The end that counted arrivals."""
        return self.far if self.direction is Direction.FORWARD else self.near

    @property
    def sender(self) -> Report | None:
        """The end whose kernel knows retransmits, round trips and windows."""
        return self.near if self.direction is Direction.FORWARD else self.far

    def measured(self, warmup_s: float) -> tuple[Interval, ...]:
        """The receiver's seconds after the warm-up.

        When the far end vanished, silence before that is no evidence about the line.
        """
        found = self.receiver.measured(warmup_s) if self.receiver is not None else ()
        if self.fault is not None and self.fault.kind in (*GONE, "timeout"):
            while found and found[-1].bps == 0:
                found = found[:-1]
        return found

    def of_a_killed(self, counted: Sequence[tuple[int, int]]) -> None:
        """The receiver left no document: its seconds are those the kernel counted, without the one in which it ended."""
        report = iperf3_output.of_reads(counted)
        if report is None or self.fault is None:
            return
        if self.direction is Direction.FORWARD:
            self.far = report
        else:
            self.near = report
        said = "; its seconds until then are those its kernel counted"
        self.fault = replace(self.fault, message=self.fault.message + said)


@dataclass(frozen=True, slots=True)
class Test:
    """What is to be run: a step's parameters in one direction. `number`: of the block, for the names of the documents kept."""

    __test__ = False  # no test of pytest's

    bench: Bench
    control: Control
    step: Step
    direction: Direction
    number: int = 1

    @property
    def forward(self) -> bool:
        """The near end sends."""
        return self.direction is Direction.FORWARD

    def run(self, seconds: int, stop: Callable[[], str], tick: Callable[[float], None] = lambda _s: None) -> Block:
        """Load for `seconds`, warm-up included, until `stop` gives a reason; `tick` is told the seconds since the start."""
        params = self.step.params
        asked = {"seconds": seconds, "streams": params["streams"]}
        if not self.forward and params.get("congestion_control", "default") != "default":
            asked["congestion_control"] = params["congestion_control"]
        try:
            port = int(self.control.call("iperf3.open", **asked)["port"])
        except PeerError as error:
            return Block(self.direction, fault=fault_of(error))
        reads = Reads()
        try:
            ended = child.run(
                self._command(port, seconds),
                timeout_s=seconds + OVERTIME_S,
                stop=stop,
                tick=tick,
                look=lambda process: reads.saw(time.monotonic_ns(), moved(process)[0]),
            )
        except HostError as error:
            self._far_document(port, wait_ms=0)
            return Block(self.direction, fault=fault_of(error, "missing-program"))
        near = ended.output.decode("utf-8", "replace")
        far, counted = self._far_document(port, wait_ms=0 if ended.stopped else 3000)
        self._keep("near", near)
        block = self._read(near, far)
        if block.receiver is None and block.fault is not None:
            block.of_a_killed(counted if self.forward else reads.seconds)
        if ended.stopped:
            gone = far.kind if isinstance(far, Fault) and far.kind in GONE else ""
            block.fault = _stopped(gone if gone and ended.stopped == "timeout" else ended.stopped, block.fault)
        return block

    def _command(self, port: int, seconds: int) -> list[str]:
        params, bench = self.step.params, self.bench
        command = ["iperf3", "-c", bench.peer_address, "-p", str(port), "-J", "-i", "1", "-t", str(seconds)]
        command += ["-P", str(params["streams"]), "--connect-timeout", str(CONNECT_MS)]
        command += ["-6" if bench.family == socket.AF_INET6 else "-4"]
        if bench.near_address:
            command += ["-B", bench.near_address]
        if not self.forward:
            command += ["-R"]
        if params.get("congestion_control", "default") != "default":
            command += ["-C", str(params["congestion_control"])]
        if params.get("max_rate_bps"):
            command += ["-b", str(max(1, math.floor(params["max_rate_bps"] * PAYLOAD_SHARE / params["streams"])))]
        return command

    def _far_document(self, port: int, wait_ms: int) -> tuple[str | Fault, list[tuple[int, int]]]:
        """What the server wrote, or why there is none; and its seconds as the kernel there counted them, if it was killed."""
        try:
            patience_s = wait_ms / 1000 + CLOSE_S
            closed = self.control.call("iperf3.close", timeout_s=patience_s, port=port, wait_ms=wait_ms)
            document = unpacked_text(str(closed.get("output", "")))
            counted = [(int(length_ns), int(read)) for length_ns, read in closed.get("seconds", ())]
        except PeerError as error:
            return fault_of(error), []
        except WireError as error:
            return Fault("iperf3-cut", f"the far end's iperf3 document is damaged: {error.message}"), []
        self._keep("far", document)
        if closed.get("killed") == "cap":
            hint = "start the agent with a higher --max-bytes"
            return Fault("cap", "the agent's cap on bytes ended the test", hint), counted
        if closed.get("error") and not document.strip():
            return Fault("iperf3-error", f"iperf3 at the far end: {closed['error']}"), counted
        return document, counted

    def _read(self, near_text: str, far_text: str | Fault) -> Block:
        """Both documents judged: the near end's complaint first, then that of whoever received."""
        near = iperf3_output.read(near_text)
        far = far_text if isinstance(far_text, Fault) else iperf3_output.read(far_text)
        block = Block(
            self.direction,
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
            block.fault = far if self.forward or far.kind in GONE else None
        elif self.forward and far.error:
            block.fault = iperf3_output.fault_of(far.error)
        if block.far is not None and _stranger(block.far.accepted_from, self.control.near_address):
            block.far = None
            block.fault = Fault("busy", "another host took the iperf3 server meant for this test", "run again")
        if block.fault is None and (block.receiver is None or block.receiver.sending):
            block.fault = Fault("iperf3-no-receiver", "what the receiver saw is missing from iperf3's document")
        return block

    def _keep(self, end: str, document: Json) -> None:
        way = f"-{self.direction}" if self.step.direction is Direction.ROUND_TRIP else ""
        self.bench.save_raw(f"{self.step.key.replace('/', '-')}{way}-{self.number}.{end}.json", document)


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
        return Fault(why, f"during the throughput test the far end {said}", AFTER_LOSS[why])
    if why == OTHER:
        return Fault(why, "the test of the other direction, run at the same time, ended before its time")
    hint = "the line may have broken under load; run again, and look at the packets of the stamp step"
    message = "iperf3 did not end in time and was ended"
    return Fault("timeout", message + (f" ({found.message})" if found is not None else ""), hint)
