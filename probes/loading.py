"""Our own UDP load between the two ends, either way, counted packet by packet. Floor 4.

    with loading.opened(bench, Direction.FORWARD, flows=4, longest=1500) as load:
        loaded = load.run(Phase("CIR 50 %", 50_000_000, duration_ns=10 * NS_PER_S))
        loaded.count, loaded.fault
    load.near, load.far                 what each end's own sockets dropped

While a phase runs the control channel is left alone, for it may be stuck behind the load: the receiver's own words and packets show
that both ends live. Only when those stop is the far end asked.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from linkqual.errors import AFTER_LOSS, HostError, LinkqualError, PeerError, WireError
from linkqual.model import Direction, EndConditions, Fault, LoadCount
from linkqual.net.load import LoadEnd
from linkqual.net.load_ends import LoadConfig
from linkqual.probes.bench import Bench, Progress, fault_of
from linkqual.probes.load_far import ROWS, FarLoad
from linkqual.session import load_result
from linkqual.session.load_caps import Caps, expected_ns
from linkqual.session.load_phase import Phase
from linkqual.units import NS_PER_S, format_count, format_rate
from linkqual.wire.load import ARRIVAL, HEADERS

Arrivals = npt.NDArray[np.void]

_LOOK_S, _LEAST_LOOK_S = 0.05, 0.005  # between two looks at what runs, at most and at least
_SILENCE_NS = 1_000_000_000  # without a word or a packet, the far end is asked
_QUIET_NS, _QUIET_TRIPS = 200_000_000, 4  # stragglers: so much silence, or so many round trips of it, ends a phase
_SOON_NS = 70_000_000
_MOST_QUIET_NS, _HURRY_NS = 5 * NS_PER_S, NS_PER_S  # at most; once interrupted
_OVERTIME_NS = 300_000_000  # after which a phase that should be over is asked for
_FULL = ("EAGAIN", "ENOBUFS")  # of a queue of the sending host
_NO_AGENT = PeerError("a UDP load needs our agent at the far end", "start `linkqual agent` there", "no-agent")
_GONE = {
    "peer-lost": "during the load the far end closed the connection",
    "silent": "during the load the far end fell silent: the line between or the host there broke",
}
_ENDED = {  # why a sender ended by itself: kind of fault, what happened, what to do
    "no-greeting": ("unreachable", "no UDP packet of ours reaches the agent", "let UDP 4863-4894 through the firewall there"),
    "silent": ("silent", "the sender heard nothing of the receiver any more", "look at the line, and run again"),
    "EMSGSIZE": ("host", "packets of this length do not fit the sending host's interface", "take shorter ones, or raise its MTU"),
    "ECONNREFUSED": ("peer-lost", "the far end's UDP port was closed under way", "see what the agent wrote, and run again"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Loaded:
    """One phase, carried out. `arrivals` (`wire.load.ARRIVAL`: seq, flow, sent_ns, received_ns; in the order they came) where it asked for them."""

    count: LoadCount
    arrivals: Arrivals | None = None
    fault: Fault | None = None  # why it did not go to its end; what was counted until then is in `count`
    full: int = 0  # times the sending host's own queue took no more


class Loading:
    """Load of one direction, opened at both ends. `ports`: of each flow at the near end: its source port going forward."""

    def __init__(self, bench: Bench, direction: Direction, near: LoadEnd, far: FarLoad, caps: Caps) -> None:
        assert bench.control is not None
        self.direction = direction
        self.ports = tuple(near.ports)
        self.near = self.far = EndConditions()
        self.far_port = 0  # UDP port at the far end that all flows share
        self._bench, self._control, self._caps = bench, bench.control, caps
        self._near, self._far = near, far
        self._sender: LoadEnd | FarLoad = near if self._forward else far
        self._receiver: LoadEnd | FarLoad = far if self._forward else near
        self._number = 0
        self._met = False  # packets have arrived in some phase
        self._lost: Fault | None = None  # after which nothing more can be sent

    @property
    def _forward(self) -> bool:
        return self.direction is Direction.FORWARD

    def run(self, phase: Phase, told: Callable[[Progress], None] | None = None, *, soon: bool = False) -> Loaded:
        """Send one phase, wait for its stragglers, rest. Never raises for what line or peer do.

        A rate above the step's cap is brought down to it, and the bytes that may still leave end it: `count.short` is "cap" then. `soon`: stragglers are
        waited for only a little, for what is missing is mostly meant to be.
        """
        if self._lost is not None:
            return Loaded(self._nothing(phase, self._lost.kind), fault=self._lost)
        allowed, less = self._caps.allow(phase)
        if allowed is None:
            spent = Fault("cap", "the bytes this step may send are spent", "allow more with --max-bytes")
            return Loaded(self._nothing(phase, "cap"), fault=spent)
        self._number += 1
        try:
            loaded = self._carry_out(allowed, told or self._bench.progress, soon)
        except LinkqualError as error:
            fault = fault_of(error)
            self._lost = None if fault.kind == "cap" else fault  # a smaller phase may be allowed
            loaded = Loaded(self._nothing(allowed, fault.kind), fault=fault)
        self._caps.used(loaded.count.sent_bytes)
        if less and not loaded.count.short:
            loaded = replace(loaded, count=replace(loaded.count, asked_bps=phase.rate_bps, short="cap"))
        self._rest(phase.rest_ns)
        return loaded

    def _nothing(self, phase: Phase, short: str) -> LoadCount:
        return load_result.told(phase, self.direction, dict.fromkeys(load_result.TOLD, 0), short)

    # ---- one phase

    def _carry_out(self, phase: Phase, tell: Callable[[Progress], None], soon: bool) -> Loaded:
        begun_ns = time.monotonic_ns()
        self._receiver.begin(self._number, phase)
        ready_ns = time.monotonic_ns()
        self._sender.begin(self._number, phase, self._receiver.buffer_bytes)
        trip_ns = ready_ns - begun_ns if self._forward else time.monotonic_ns() - ready_ns  # of the far end's answer
        fault = self._await_end(phase, tell, soon)
        if fault is not None and fault.kind != "interrupted":
            return self._broken(phase, fault)
        try:
            sent = self._sender.result()
            least_ns = _SOON_NS if soon else _QUIET_NS
            got = self._stragglers(int(sent["sent"]), max(least_ns, _QUIET_TRIPS * trip_ns), hurry=fault is not None)
            arrivals = self._arrivals(int(got["arrivals"])) if phase.arrivals else None
        except (PeerError, WireError) as error:
            return self._broken(phase, fault_of(error))
        count = load_result.together(phase, self.direction, sent, got, "interrupted" if fault else "")
        full = sum(int(times) for name, times in sent.get("refusals", {}).items() if name in _FULL)
        return Loaded(count, arrivals, fault or self._ended(sent) or self._deaf(count), full)

    def _await_end(self, phase: Phase, tell: Callable[[Progress], None], soon: bool) -> Fault | None:
        """Until the sender is done; the reason when it was not left to finish."""
        due_ns = time.monotonic_ns() + expected_ns(phase) + _OVERTIME_NS
        asked_ns = 0
        while True:
            left_s = (due_ns - _OVERTIME_NS - time.monotonic_ns()) / NS_PER_S
            time.sleep(
                min(_LOOK_S, left_s) if left_s > _LEAST_LOOK_S else _LEAST_LOOK_S if left_s > -_LOOK_S else _LOOK_S
            )
            if self._bench.interrupted():
                self._halt()
                return Fault(
                    "interrupted", f"the load {phase.name!r} was interrupted; what was counted until then is kept"
                )
            if kind := self._control.lost():
                return Fault(kind, _GONE[kind], AFTER_LOSS[kind])
            here, now = self._near.look(), time.monotonic_ns()
            if here.get("ended_by"):
                return None
            tell(self._progress(phase, here, due_ns - now))
            quiet_ns = int(here["silent_ns"] if self._forward else here["quiet_ns"])
            doubtful = quiet_ns > (_SILENCE_NS if self._forward else _QUIET_NS) or (not self._forward and now > due_ns)
            doubtful = doubtful or (soon and not self._forward and quiet_ns > _SOON_NS and now > due_ns - _OVERTIME_NS)
            if doubtful and now - asked_ns > min(quiet_ns, _SILENCE_NS):
                asked_ns = now
                try:
                    there = self._far.look()
                except PeerError as error:
                    return fault_of(error)
                if there.get("ended_by"):
                    return None

    def _halt(self) -> None:
        with contextlib.suppress(PeerError):
            self._sender.halt()

    def _progress(self, phase: Phase, here: dict[str, Any], left_ns: int) -> Progress:
        told = (here.get("told") or {}) if self._forward else here
        missing = max(
            0, int(told.get("next_seq", 0)) - int(told.get("received", 0))
        )  # some wait in sockets not yet read
        rate = format_rate(phase.rate_bps) if phase.rate_bps else "as fast as it goes"
        text = f"{phase.name}, {rate}" + (f", {format_count(missing)} not yet arrived" if missing else "")
        done = int(here["sent"] if self._forward else here["received"])
        return Progress(f"UDP load {self.direction}", done, left_ns=max(0, left_ns - _OVERTIME_NS) or None, text=text)

    def _stragglers(self, sent: int, quiet_ns: int, *, hurry: bool) -> dict[str, Any]:
        """The receiver's result once all is there, or nothing more comes."""
        until = time.monotonic_ns() + (_HURRY_NS if hurry else _MOST_QUIET_NS)
        while time.monotonic_ns() < until:
            here = self._receiver.look()
            if int(here["received"]) >= sent or int(here["quiet_ns"]) >= quiet_ns:
                break
            time.sleep(min(_LOOK_S / 2, max(_LEAST_LOOK_S, (quiet_ns - int(here["quiet_ns"])) / NS_PER_S)))
        return self._receiver.result()

    def _arrivals(self, count: int) -> Arrivals:
        parts = [self._receiver.arrivals(first, ROWS) for first in range(0, count, ROWS)]
        return np.concatenate(parts) if parts else np.empty(0, ARRIVAL)

    def _broken(self, phase: Phase, fault: Fault) -> Loaded:
        """The far end is gone: what this end knows of the phase."""
        self._lost = fault
        if not self._forward:
            return Loaded(load_result.heard(phase, self.direction, self._near.result(), fault.kind), fault=fault)
        self._near.halt()
        told = self._near.result()["told"] or dict.fromkeys(load_result.TOLD, 0)
        return Loaded(load_result.told(phase, self.direction, told, fault.kind), fault=fault)

    def _ended(self, sent: dict[str, Any]) -> Fault | None:
        """A sender that could not go on."""
        ended_by = str(sent["ended_by"])
        if ended_by in ("duration", "packets", "halt", "cap"):
            return None
        kind, message, hint = _ENDED.get(
            ended_by, ("host", f"the sending host refuses packets: {ended_by}", "look at its interface")
        )
        return Fault(kind, message, hint)

    def _deaf(self, count: LoadCount) -> Fault | None:
        """Nothing at all arrived: more likely a closed port than a line that loses everything."""
        if count.received or not count.sent or self._met:
            self._met = self._met or count.received > 0
            return None
        port = "UDP 4863-4894 at the far end" if self._forward else "UDP from the far end's ports 4863-4894"
        return Fault(
            "unreachable", f"none of {count.sent:,} packets of UDP load arrived", f"let {port} through the firewalls"
        )

    def _rest(self, rest_ns: int) -> None:
        until = time.monotonic_ns() + rest_ns
        while (left := until - time.monotonic_ns()) > 0 and not self._bench.interrupted():
            time.sleep(min(left / NS_PER_S, _LOOK_S))

    # ---- the end

    def finish(self) -> None:
        """Close both ends; `near` and `far` say what they dropped."""
        self.near = _conditions(self._near.stop, self._near.buffer_bytes)
        gone = self._lost is not None and self._lost.kind in _GONE
        if not gone and not self._control.lost():
            self.far = _conditions(self._far.stop, self._far.buffer_bytes)


def _conditions(stop: Callable[[], dict[str, Any]], buffer_bytes: int) -> EndConditions:
    try:
        final = stop()
    except LinkqualError:
        return EndConditions()
    return EndConditions(receive_buffer_bytes=buffer_bytes, drops={"socket_drops": int(final["dropped"])})


@contextlib.contextmanager
def opened(
    bench: Bench,
    direction: Direction,
    *,
    flows: int = 1,
    longest: int = 1500,
    dscp: int = 0,
    max_rate_bps: int | None = None,
    max_bytes: int | None = None,
    near_port: int = 0,
) -> Iterator[Loading]:
    """Both ends ready for load in this direction. `longest`: bytes of the longest IP packet; caps are those of the step.

    `near_port`: UDP port of the first flow here, the others have the next ones; 0: any free ones.

    Raises PeerError and HostError (`bench.fault_of` makes them a Fault) when an end cannot be opened.
    """
    if bench.control is None:
        raise _NO_AGENT
    payload = longest - HEADERS[6 if ":" in bench.peer_address else 4]
    if payload < 18:
        raise HostError(f"a packet of load has no room in {longest} bytes over this IP version", "take longer ones")
    answer = bench.control.call(
        "load.open", hurried=bench.interrupted, direction=str(direction), flows=flows, longest=payload, dscp=dscp
    )
    far = FarLoad(bench.control, answer, bench.interrupted)
    forward = direction is Direction.FORWARD
    config = LoadConfig(
        token=int(answer["token"]),
        peer_address=bench.peer_address,
        flows=flows,
        longest=payload,
        bind_address=bench.near_address,
        port=near_port,
        peer_port=int(answer["port"]),
        dscp=dscp,
    )
    try:
        near = LoadEnd.start("load-sender" if forward else "load-receiver", config)
    except LinkqualError:
        with contextlib.suppress(PeerError):
            far.stop()
        raise
    with near:
        loading = Loading(bench, direction, near, far, Caps(max_rate_bps, max_bytes))
        loading.far_port = config.peer_port
        try:
            yield loading
        finally:
            loading.finish()
