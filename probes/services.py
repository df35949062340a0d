"""Services at their rates, as the plan laid them out: our UDP load, and a STAMP stream of the same DSCP beside it. Floor 4.

A round is what is sent at the same time: one load of the configuration test, every load of the performance test. All its sockets are
open before the first packet leaves. What a round brought is kept whatever happens in the next one.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from linkqual.errors import AFTER_LOSS, LinkqualError
from linkqual.model import (
    Conditions,
    Direction,
    EndConditions,
    Fault,
    LoadedPath,
    Measurement,
    ServicesResult,
    ServiceStep,
    Step,
)
from linkqual.plan.services import Round, rounds_of
from linkqual.probes import beside, hops, loading
from linkqual.probes.bench import Bench, Progress, duty_of, fault_of, rest
from linkqual.probes.beside import Beside
from linkqual.probes.hops import Watching
from linkqual.probes.loading import Loaded, Loading
from linkqual.rules import loaded_path
from linkqual.session import gentle
from linkqual.session.activation import OVERSHOOT, Rung, services_of
from linkqual.session.gentle import span_ns
from linkqual.session.loaded_path import LEAST_LATE
from linkqual.stats.histogram import quantile
from linkqual.units import NS_PER_S
from linkqual.wire import codepoints

IDLE_NS = NS_PER_S // 5  # of a stream, before its load
TICK_S = 1.0  # between two words about progress
_NO_AGENT = Fault("no-agent", "services are tested against our agent at the far end", "start `linkqual agent` there")
_CUT = Fault("interrupted", "the test of the services was interrupted; the steps measured until then are kept")


_Key = tuple[str, Direction]


@dataclass(slots=True)
class _Test:
    """A step under way. `loads`: open now, by service and direction; a service keeps its sockets from step to step."""

    step: Step
    bench: Bench
    rounds: list[Round]
    taken: list[ServiceStep] = field(default_factory=list)
    loads: dict[_Key, tuple[ExitStack, Loading]] = field(default_factory=dict)
    paths: list[LoadedPath] = field(default_factory=list)  # what hops showed beside each overshoot
    near: EndConditions = field(default_factory=EndConditions)
    far: EndConditions = field(default_factory=EndConditions)
    fault: Fault | None = None


def measure(step: Step, bench: Bench) -> Measurement:
    """Every round of the plan until one cannot be carried out; never raises for what line or peer do."""
    started, clock = time.time_ns(), time.monotonic_ns()
    test = _Test(step, bench, rounds_of(step), fault=_NO_AGENT if bench.control is None else None)
    try:
        _rounds(test)
    finally:
        _keep_open(test, set())
    named = {rung.service for together in test.rounds for rung in together}
    services = tuple(one for one in services_of(bench.link) if one.name in named)
    result = ServicesResult(services, tuple(test.taken)) if test.taken else None
    conditions = Conditions(near=test.near, far=test.far)
    return Measurement(
        step,
        started,
        time.monotonic_ns() - clock,
        services=result,
        loaded_path=loaded_path.surest(test.paths),
        fault=test.fault,
        conditions=conditions,
    )


def _rounds(test: _Test) -> None:
    for number, together in enumerate(test.rounds, 1):
        if test.fault is not None:
            return
        _round(test, together, f"{number} of {len(test.rounds)}: {_title(together)}")
        loaded_ns = max(rung.duration_ns for rung in together)
        if test.fault is None and number < len(test.rounds) and not rest(test.bench, loaded_ns, duty_of(test.step)):
            test.fault = _CUT if test.bench.interrupted() else _gone(test.bench)


def _title(together: Round) -> str:
    first = together[0]
    return (
        f"{first.service} {first.title}"
        if len({rung.service for rung in together}) == 1
        else "all services at their CIR"
    )


def _gone(bench: Bench) -> Fault:
    why = (bench.control.lost() if bench.control else "") or "peer-lost"
    return Fault(why, "the far end went away between two steps of the services", AFTER_LOSS[why])


def _round(test: _Test, together: Round, title: str) -> None:
    """Open everything, load, keep what came of each load; the first fault of a load is the step's."""
    streams: dict[str, Beside] = {}
    try:
        with ExitStack() as stack:
            _keep_open(test, {_key(rung) for rung in together})
            loads = [_load(test, rung) for rung in together]
            watch = stack.enter_context(_watching(test, together))
            for rung in together:
                if rung.service not in streams:
                    streams[rung.service] = stack.enter_context(_stream(test, rung))
            carried = _carry_out(test, together, loads, [*streams.values(), watch], title)
    except LinkqualError as error:
        test.fault = fault_of(error)
        return
    _locate(test, together[0], carried[0], streams[together[0].service], watch)
    for rung, loaded in zip(together, carried, strict=True):
        stream = streams.pop(rung.service, None)  # its result stands with one of the loads
        test.taken.append(_taken(rung, loaded, stream))
        test.fault = test.fault or loaded.fault
        if stream is not None:
            test.near, test.far = added(test.near, stream.near), added(test.far, stream.far)


def _keep_open(test: _Test, keys: set[_Key]) -> None:
    """Close what these do not need; what its sockets saw is told then."""
    for key in [key for key in test.loads if key not in keys]:
        stack, load = test.loads.pop(key)
        stack.close()
        test.near, test.far = added(test.near, _not_its_socket(load.near)), added(test.far, _not_its_socket(load.far))


def _key(rung: Rung) -> _Key:
    return rung.service, rung.direction


def _load(test: _Test, rung: Rung) -> Loading:
    key = _key(rung)
    if key not in test.loads:
        stack = ExitStack()
        load = stack.enter_context(
            loading.opened(test.bench, rung.direction, longest=rung.phase.longest, dscp=rung.dscp)
        )
        test.loads[key] = stack, load
    return test.loads[key][1]


def _stream(test: _Test, rung: Rung) -> contextlib.AbstractContextManager[Beside]:
    of = rung.stream
    return beside.running(
        test.bench, test.step, rate_pps=of.rate_pps, packet_bytes=of.payload_bytes, dscp=rung.dscp, idle_ns=IDLE_NS
    )


def _watching(test: _Test, together: Round) -> contextlib.AbstractContextManager[Watching]:
    """Hops are asked beside an overshoot alone: at the CIR or at CIR + EIR a policer would drop for the probes what is granted."""
    first = together[0]
    if first.kind != OVERSHOOT or len(together) > 1 or first.duration_ns < span_ns(LEAST_LATE):
        return contextlib.nullcontext(Watching(first.direction))
    seconds = first.duration_ns / NS_PER_S + beside.MARGIN_S
    return hops.watching(test.bench, first.direction, seconds=seconds, tos=codepoints.octet(first.dscp, 0))


def _locate(test: _Test, rung: Rung, loaded: Loaded, stream: Beside, watch: Watching) -> None:
    """Where the overshoot is held."""
    seen = stream.added().get(rung.direction)
    found = watch.result(
        f"the overshoot of {rung.service} ({gentle.told(rung.load_bps)})",
        added_ns=quantile(seen.delay, 0.5) if seen is not None else None,
        lost=gentle.lost([loaded.count]),
        cut=loaded.fault is not None,
    )
    test.paths += [found] if found is not None else []


def _carry_out(
    test: _Test, together: Round, loads: list[Loading], beside_it: list[Beside | Watching], title: str
) -> list[Loaded]:
    length = max(rung.duration_ns for rung in together)
    with ExitStack() as stack, ThreadPoolExecutor(len(together)) as threads:
        for one in beside_it:
            stack.enter_context(one.loaded(until_ns=length))
        under_way = [threads.submit(load.run, rung.phase, _quietly) for load, rung in zip(loads, together, strict=True)]
        _tell(test.bench, title, length, lambda: all(one.done() for one in under_way))
        return [one.result() for one in under_way]


def _tell(bench: Bench, title: str, length_ns: int, over: Callable[[], bool]) -> None:
    """Once a second how far it is, until it is over."""
    begun, told = time.monotonic_ns(), 0
    while not over():
        passed = time.monotonic_ns() - begun
        if passed - told >= TICK_S * NS_PER_S:
            told = passed
            left = max(length_ns - passed, 0)
            bench.progress(
                Progress("services", passed // NS_PER_S, length_ns // NS_PER_S, "seconds", left_ns=left, text=title)
            )
        time.sleep(0.02)


def _quietly(_progress: Progress) -> None:
    """Several loads at once would talk over each other: the round tells for all of them."""


def _taken(rung: Rung, loaded: Loaded, stream: Beside | None) -> ServiceStep:
    return ServiceStep(
        service=rung.service,
        direction=rung.direction,
        kind=rung.kind,
        share=rung.share,
        count=loaded.count,
        beside=stream.result() if stream is not None else None,
        stream_bps=rung.stream.ip_bps,
    )


# ---- conditions


def _not_its_socket(end: EndConditions) -> EndConditions:
    """What the load's own socket dropped is told with each load; here it would be taken for the stream's."""
    return replace(end, drops={name: count for name, count in end.drops.items() if name != "socket_drops"})


def added(one: EndConditions, other: EndConditions) -> EndConditions:
    """What two looks at the same end, one after the other, say together."""
    drops = {name: one.drops.get(name, 0) + other.drops.get(name, 0) for name in one.drops | other.drops}
    counters = {name: one.counters.get(name, 0) + other.counters.get(name, 0) for name in one.counters | other.counters}
    return replace(
        other,
        stamps=one.stamps | other.stamps,
        receive_buffer_bytes=other.receive_buffer_bytes or one.receive_buffer_bytes,
        drops=drops,
        counters=counters,
        drop_times=(*one.drop_times, *other.drop_times),
        notes=tuple(dict.fromkeys((*one.notes, *other.notes))),
    )
