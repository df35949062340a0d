"""Carries out a plan step by step, keeps what comes, and makes the document. Floor 5.

What was measured is written after every step, so that whatever ends the run later takes nothing away.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from linkqual import __version__, document, rules
from linkqual.errors import LinkqualError
from linkqual.model import (
    SCHEMA,
    ClockState,
    Conditions,
    Direction,
    EndConditions,
    Fault,
    Json,
    Measurement,
    Note,
    Plan,
    Profile,
    Qualification,
    Step,
)
from linkqual.net import clock_state, drops, host
from linkqual.probes import PROBES
from linkqual.probes.bench import Bench
from linkqual.recount import steadied
from linkqual.rules import short
from linkqual.session import hop_watch

if TYPE_CHECKING:
    from linkqual.net.control import Control
    from linkqual.store import Run


_READ_APART = {"clock", "clock_before", "clock_stepped_ns", "floor", "drops", "drop_times", "notes"}
_UNTOLD = Fault(
    "peer-lost",
    "the far end did not tell before and after this step what its host had dropped: losses may be that host's",
    "see what the agent wrote, and run the test again",
)
_LATE_SHARE = 1e-2  # of all packets; those of a loaded line are late more easily than the few of a probe


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for, as the document will say it."""

    profile: Profile
    plan: Plan
    peer: str
    embedded_line: str | None = None
    zone: str = "UTC"
    judged: bool = True  # False: measure only


def qualify(
    request: Request,
    bench: Bench,
    run: Run,
    *,
    interrupted: Callable[[], str],
    begin: Callable[[Step], None] = lambda _step: None,
    truth: Callable[[], dict[str, Json]] = dict,
) -> Qualification:
    """Run every step of the plan and judge what came. `interrupted` says why the run is to end ("" while it is not)."""
    started_ns = time.time_ns()
    taken: list[Measurement] = []

    def so_far(measurements: list[Measurement]) -> Qualification:
        return Qualification(
            schema=SCHEMA,
            linkqual_version=__version__,
            run=run.folder.name,
            started_ns=started_ns,
            ended_ns=time.time_ns(),
            profile=request.profile,
            plan=request.plan,
            peer=request.peer,
            measurements=tuple(measurements),
            embedded_line=request.embedded_line,
            interrupted=interrupted(),
            zone=request.zone,
        )

    for step in request.plan.steps:
        if interrupted():
            taken.append(_skipped(step, Fault("interrupted", f"not measured: the run was ended ({interrupted()})")))
            continue
        if why := short.not_needed(step, request.plan, taken):
            taken.append(Measurement(step, time.time_ns(), 0, not_needed=why))
            continue
        begin(step)
        known = replace(bench, hops=hop_watch.known(taken))
        taken.append(steadied(run.folder, _measure(step, known), request.plan.objectives))
        run.write_document(document.dump(so_far(taken)))
    done = replace(so_far(taken), truth=truth())
    return judged(done, run) if request.judged else done


def judged(done: Qualification, run: Run | None = None) -> Qualification:
    """The document with its verdict, and with a note for every file that could not be kept."""
    verdict = rules.judge(done.plan, done.measurements)
    lost = run.lost_files.items() if run is not None else ()
    notes = tuple(Note("host", f"{name} could not be kept: {why}", "warn") for name, why in lost)
    notes += tuple(_late_line(done.truth))
    return replace(done, verdict=replace(verdict, notes=verdict.notes + notes))


def _late_line(truth: dict[str, Json]) -> Iterator[Note]:
    """The embedded line is made by this host: where it could not keep its own times, the report shows the host."""
    for direction in Direction:
        way = truth.get(direction, {})
        late, seen = way.get("late", 0), way.get("seen") or 0
        if late > seen * _LATE_SHARE:
            yield Note(
                "host",
                f"this host was too busy to be the described line: {late:,} of {seen:,} packets left it {direction} more than "
                "1 ms late, so delay and jitter are the host's; run it again when the host is quiet, or as root",
                "warn",
            )


def _skipped(step: Step, fault: Fault) -> Measurement:
    return Measurement(step, time.time_ns(), 0, fault=fault)


def _measure(step: Step, bench: Bench) -> Measurement:
    """One step with what both hosts say of themselves before, during and after it."""
    far_before = _far_host(bench.control)
    clock_before, ahead_ns = clock_state.clock_state(), clock_state.realtime_ahead_ns()
    with drops.Sampler(bench.peer_address) as sampler:
        measurement = PROBES[step.probe].measure(step, replace(bench, one_clock=_here(far_before)))
    far_after = _far_host(bench.control)
    near = host.conditions(bench.peer_address)
    near = replace(
        near,
        drops=sampler.increase,
        drop_times=sampler.times,
        notes=near.notes + _translated(bench.control),
        clock_before=clock_before,
        clock_stepped_ns=clock_state.realtime_ahead_ns() - ahead_ns,
        floor=bench.near_floor,
    )
    far = replace(
        _end(far_after),
        drops=_increase(far_before.get("drops", {}), far_after.get("drops", {})),
        clock_before=_end(far_before).clock if far_before else None,
        clock_stepped_ns=_stepped(far_before, far_after),
        floor=bench.far_floor,
    )
    same_clock = _here(far_after or far_before)
    known = measurement.conditions
    conditions = Conditions(
        near=_joined(near, known.near),
        far=_joined(far, known.far),
        clock_error_ns=0 if same_clock else _clock_error(near, far),
        same_clock=same_clock,
    )
    fault = measurement.fault
    if fault is None and measurement.stamp and bench.control is not None and not (far_before and far_after):
        fault = _UNTOLD
    return replace(measurement, conditions=conditions, fault=fault)


def _here(said: dict[str, Json]) -> bool:
    """Whether the far end runs on this very host."""
    return bool(said.get("boot_id", "") == host.boot_id() != "")


def _translated(control: Control | None) -> tuple[str, ...]:
    if control is None or not control.seen_as:
        return ()
    return (
        f"the far end sees {control.near_address} as {control.seen_as}: an address translator (NAT) is on the way, part of what "
        "was measured, and the trace from there ends at it",
    )


def _far_host(control: Control | None) -> dict[str, Json]:
    """What the far end says of its host; empty when there is no agent or it is gone."""
    if control is None:
        return {}
    try:
        return control.call("host")
    except LinkqualError:
        return {}


def _end(said: dict[str, Json]) -> EndConditions:
    """The far end's own words as conditions. It may be of another version: what is not known here is left out."""
    clock = {key: value for key, value in said.get("clock", {}).items() if key in _names(ClockState)}
    given = {key: value for key, value in said.items() if key in _names(EndConditions) - _READ_APART}
    times = tuple((int(at_ns), str(name), int(by)) for at_ns, name, by in said.get("drop_times", ()))
    return EndConditions(**given, clock=ClockState(**clock), notes=tuple(said.get("notes", ())), drop_times=times)


def _names(kind: type) -> set[str]:
    return {field.name for field in fields(kind)}


def _joined(host_said: EndConditions, probe_said: EndConditions) -> EndConditions:
    """The host's description with what only the probe knows: stamps, granted buffers, its own sockets' drops."""
    return replace(
        host_said,
        stamps=probe_said.stamps or host_said.stamps,
        receive_buffer_bytes=probe_said.receive_buffer_bytes or host_said.receive_buffer_bytes,
        counters=probe_said.counters,
        drops=host_said.drops | probe_said.drops,
        drop_times=drops.thinned(sorted(host_said.drop_times + probe_said.drop_times)),
        notes=host_said.notes + probe_said.notes,
    )


def _stepped(before: dict[str, Json], after: dict[str, Json]) -> int | None:
    """By how much the far end's clock was set between its two answers; None when it does not tell, or was started anew."""
    one, other = before.get("realtime_ahead_ns"), after.get("realtime_ahead_ns")
    if not isinstance(one, int) or not isinstance(other, int) or before.get("boot_id") != after.get("boot_id"):
        return None
    return other - one


def _clock_error(near: EndConditions, far: EndConditions) -> int | None:
    """Bound of the offset between both clocks: the sum of both bounds to UTC (RFC 7679 section 3.7), each the worse of before and after.

    None when one of them is unknown.
    """
    states = [state for end in (near, far) for state in (end.clock, end.clock_before) if state is not None]
    if any(state.error_ns is None or not state.synchronised for state in states):
        return None
    return sum(max(_bound(end.clock), _bound(end.clock_before)) for end in (near, far))


def _bound(state: ClockState | None) -> int:
    return (state.error_ns or 0) if state is not None else 0


def _increase(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """How much each counter rose; interfaces that dropped nothing left out.

    Nothing when nobody could be asked before: what was dropped since the host started is not the step's.
    """
    return {name: by for name, by in drops.rise(before, after).items() if by or ":" not in name} if before else {}
