"""Bursts of training traffic, both directions at once: what each took until all of it had arrived. Floor 4.

Each direction has a sender at one end and a receiver at the other, in processes of their own. Before the load both senders measure the
smallest round trip; then both begin. What was settled is fetched all the time, so that whatever ends first takes little away.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from linkqual.errors import HostError, LinkqualError, WireError
from linkqual.model import BurstsResult, Conditions, Direction, EndConditions, Fault, Measurement, Step
from linkqual.net.bursts import BurstEnd
from linkqual.net.bursts_ends import BurstConfig
from linkqual.net.control import Control
from linkqual.plan.bursts import WAYS, auto_period_ns
from linkqual.probes.bench import Bench, Progress, fault_of
from linkqual.probes.streams import far_fault
from linkqual.session.bursts import PIPELINE, SENT, Shape, arrived
from linkqual.session.bursts_result import Told, result
from linkqual.units import NS_PER_S
from linkqual.wire.control import text_bytes

GREET_NS = 5 * NS_PER_S  # until a first answer must have come back
SILENCE_NS = 3 * NS_PER_S  # without any answer to a burst under way
LOOK_S = 0.2
STRAGGLERS_S = 0.3
UNHEARD = ("silent", "peer-lost")

Rows = npt.NDArray[np.void]


@dataclass(slots=True)
class _Way:
    """One direction: this end's process, the far end's by name, and what both told so far."""

    direction: Direction
    shape: Shape
    near: BurstEnd
    session: str  # of the far end
    rows: dict[bool, list[Rows]] = field(default_factory=lambda: {True: [], False: []})  # by end: True is the near one
    looks: dict[bool, dict[str, Any]] = field(default_factory=lambda: {True: {}, False: {}})
    closed: set[bool] = field(default_factory=set)  # ends that have told everything

    @property
    def near_sends(self) -> bool:
        return self.direction is Direction.FORWARD

    @property
    def sender(self) -> dict[str, Any]:
        return self.looks[self.near_sends]

    @property
    def receiver(self) -> dict[str, Any]:
        return self.looks[not self.near_sends]

    def told(self) -> Told:
        """What is known of the direction."""
        kinds = {self.near_sends: SENT, not self.near_sends: arrived(self.shape.positions)}
        joined = {end: np.concatenate([np.zeros(0, kinds[end]), *self.rows[end]]) for end in (True, False)}
        return Told(
            joined[self.near_sends],
            joined[not self.near_sends],
            self.sender.get("base_rtt_ns"),
            int(self.receiver.get("dropped", 0)),
            len(self.closed) == 2,
        )


def measure(step: Step, bench: Bench) -> Measurement:
    """Send the bursts of the step. What goes wrong is a Fault beside what was measured."""
    started_ns, clock = time.time_ns(), time.monotonic_ns()
    results: dict[Direction, BurstsResult] = {}
    fault, conditions = None, Conditions()
    if bench.control is None:
        fault = Fault("no-agent", "bursts need our agent at the far end", "start `linkqual agent` there")
    else:
        try:
            with _opened(step, bench, bench.control) as ways:
                stopped_by, fault = _run(step, bench, bench.control, ways)
                fault = _finish(bench, bench.control, ways, fault)
                silent = fault is not None and fault.kind in UNHEARD
                results = {
                    way.direction: result(way.direction, way.shape, step.params, way.told(), stopped_by, silent=silent)
                    for way in ways
                }
                conditions = _conditions(ways)
        except LinkqualError as error:
            fault = fault_of(error)
    found = {way: one for way, one in results.items() if one.sent}
    return Measurement(
        step,
        started_ns,
        time.monotonic_ns() - clock,
        bursts=found.get(Direction.FORWARD),
        bursts_back=found.get(Direction.REVERSE),
        conditions=conditions,
        fault=fault,
    )


# ---- both ends


@contextmanager
def _opened(step: Step, bench: Bench, control: Control) -> Iterator[list[_Way]]:
    """Both directions, ready at both ends. Whatever happens, nothing is left here."""
    with ExitStack() as stack:
        ways, sessions = [], []
        try:
            for direction in WAYS:
                shape = _shape(step, direction)
                asked = asdict(shape)
                opened = control.call("bursts.open", hurried=bench.interrupted, direction=str(direction), **asked)
                sessions.append(str(opened["session"]))
                config = BurstConfig(
                    session=int(str(opened["token"]), 16),
                    peer_address=bench.peer_address,
                    shape=asked,
                    bind_address=bench.near_address,
                    peer_port=int(opened["port"]),
                )
                near = BurstEnd("burst-sender" if direction is Direction.FORWARD else "burst-receiver", config)
                stack.callback(near.close)
                ways.append(_Way(direction, shape, near, sessions[-1]))
        except LinkqualError:
            for session in sessions:
                with suppress(LinkqualError):
                    control.call("bursts.close", hurried=bench.interrupted, session=session)
            raise
        yield ways


def _shape(step: Step, direction: Direction) -> Shape:
    params, way = step.params, step.params[str(direction)]
    return Shape(
        bursts=params["count"],
        packets=way["packets"],
        packet_bytes=way["payload_bytes"],
        flows=params["flows"],
        gap_ns=way["ip_bytes"] * 8 * NS_PER_S / way["pace_bps"],
        period_ns=params["period_ns"] or params["assumed_period_ns"],
        quiet_ns=params["quiet_ns"],
        patience_ns=params["patience_ns"],
        overlap=params["pattern"] == PIPELINE,
        most_repeats=int(params["count"] * way["packets"] * params["repeats"]),
    )


def _run(step: Step, bench: Bench, control: Control, ways: list[_Way]) -> tuple[str, Fault | None]:
    """Greet, start, and look until both directions are done; gives why it ended, and the Fault where it is one."""
    until = time.monotonic_ns() + GREET_NS
    while any(way.sender.get("base_rtt_ns") is None for way in ways):
        if fault := _look(bench, control, ways):
            return fault.kind, fault
        if time.monotonic_ns() > until:
            return "unanswered", _unanswered(ways)
        time.sleep(LOOK_S / 4)
    _start(step, control, ways)
    until = time.monotonic_ns() + step.duration_ns
    while True:
        time.sleep(LOOK_S)
        if fault := _look(bench, control, ways):
            return fault.kind, fault
        bench.progress(_progress(step, ways))
        if all(way.sender["done"] for way in ways):
            return _why_done(ways), None
        if time.monotonic_ns() > until:
            return "time", None
        patience = SILENCE_NS + max(way.shape.transfer_ns + way.shape.period_ns for way in ways)
        if all(way.sender["silent_ns"] > patience or way.sender["done"] for way in ways):
            said = "no burst is answered any more, though the control channel still is: UDP does not get through"
            return "silent", Fault("silent", said, "look at the line and at filters on it, and run the test again")


def _start(step: Step, control: Control, ways: list[_Way]) -> None:
    for way in ways:
        period = step.params["period_ns"]
        if not period:
            rtt = 0 if way.shape.overlap else way.sender["base_rtt_ns"]
            period = auto_period_ns(way.shape.transfer_ns, rtt)
        way.shape = Shape(**asdict(way.shape) | {"period_ns": period})
    for way in ways:
        if not way.near_sends:
            control.call("bursts.start", session=way.session, period_ns=way.shape.period_ns)
        else:
            way.near.start(way.shape.period_ns)


def _look(bench: Bench, control: Control, ways: list[_Way]) -> Fault | None:
    """Fetch what both ends have settled. The Fault when there is no sense in going on."""
    if bench.interrupted():
        return Fault("interrupted", "the bursts were interrupted; what was measured until then is kept")
    try:
        for way in ways:
            way.looks[True] = way.near.look()
            way.rows[True].append(way.near.rows())
    except LinkqualError as error:
        return fault_of(error)
    try:
        for way in ways:
            _take(way, control.call("bursts.look", hurried=bench.interrupted, session=way.session))
    except LinkqualError as error:
        return far_fault(error)
    return None


def _take(way: _Way, said: dict[str, Any]) -> None:
    kind = arrived(way.shape.positions) if way.near_sends else SENT
    try:
        rows = np.frombuffer(zlib.decompress(text_bytes(str(said.pop("rows", "")))), kind)
    except (zlib.error, ValueError) as error:
        raise WireError(f"the far end's bursts are damaged: {error}") from error
    way.looks[False] = said
    way.rows[False].append(rows)


def _finish(bench: Bench, control: Control, ways: list[_Way], fault: Fault | None) -> Fault | None:
    """End both ends, and fetch the rest; a far end that is gone takes its last bursts with it."""
    if fault is None:
        time.sleep(STRAGGLERS_S)
    gone = fault is not None and fault.kind in UNHEARD
    for way in sorted(ways, key=lambda one: not one.near_sends):  # senders of this end first: then nothing more leaves
        with suppress(HostError):
            way.looks[True] = way.near.stop()
            way.rows[True].append(way.near.rows())
            way.closed.add(True)
    for way in ways if not gone else ():
        try:
            _take(way, control.call("bursts.close", hurried=bench.interrupted, session=way.session))
            way.closed.add(False)
        except LinkqualError as error:
            found = far_fault(error)
            fault = fault or found
            if found.kind in UNHEARD:
                break
    return fault


# ---- words


def _unanswered(ways: list[_Way]) -> Fault:
    silent = " and ".join(str(way.direction) for way in ways if way.sender.get("base_rtt_ns") is None)
    said = f"no UDP packet of the bursts was answered ({silent})"
    return Fault("unanswered", said, "look for a filter on the way: UDP must pass between both ends, both ways")


def _why_done(ways: list[_Way]) -> str:
    """The reason when a direction ended before its last burst."""
    for way in ways:
        if way.sender["started"] < way.shape.bursts:
            if way.sender["repeats_left"] <= 0:
                return "repeats"  # so much was lost that all that may be sent again was
            return "cap" if way.sender["capped"] else "silent"
    return "count"


def _progress(step: Step, ways: list[_Way]) -> Progress:
    done = min(int(way.sender["started"]) for way in ways)
    left_ns = (step.params["count"] - done) * max(way.shape.period_ns for way in ways)
    lost = sum(int(rows["lost"].sum()) for way in ways for rows in way.rows[not way.near_sends])
    return Progress("bursts", done, step.params["count"], unit="bursts", lost=lost, left_ns=left_ns)


def _conditions(ways: list[_Way]) -> Conditions:
    """What the sockets of each end dropped, and what its host refused to take."""
    ends = []
    for near in (True, False):
        dropped = sum(int(way.looks[near].get("dropped", 0)) for way in ways if way.near_sends is not near)
        refused: dict[str, int] = {}
        for way in ways:
            for name, count in (way.looks[near].get("refusals") or {}).items():
                refused[str(name)] = refused.get(str(name), 0) + int(count)
        counters = {"refusals": sum(refused.values()), "queue_refusals": refused.get("ENOBUFS", 0)} if refused else {}
        ends.append(EndConditions(drops={"socket_drops": dropped}, counters=counters))
    return Conditions(near=ends[0], far=ends[1])
