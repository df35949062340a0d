"""The probes of services and of the search, over a load in memory: what is sent, what is kept, what ends them in the middle."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from linkqual.impair import Bottleneck, Rate
from linkqual.model import Direction, EndConditions, Fault, Link, LoadCount, LoadedHop, LossEvent, Service, Step
from linkqual.plan import PlanOptions, make
from linkqual.probes import search, services
from linkqual.probes.bench import Bench
from linkqual.probes.loading import Loaded
from linkqual.profile import parse
from linkqual.rules import loaded_path
from linkqual.session.hop_watch import Known
from linkqual.session.load_phase import Phase
from linkqual.units import NS_PER_S

LINK = Link(
    cir_bps=50_000_000, mtu=1500, in_service=False,
    services=(Service("data", 20_000_000, eir_bps=10_000_000, dscp=26), Service("voice", 2_000_000, sizes=((200, 1),), dscp=46)),
)  # fmt: skip
PROFILE = """
name: p
title: p
purpose: p
objectives: [{metric: information_rate, direction: both, limit: agreed, source: the order}]
probes:
"""


@dataclass
class Line:
    """A policer in memory, and what was sent over it."""

    rate_bps: int
    sent: list[tuple[Direction, Phase]] = field(default_factory=list)
    marks: set[int] = field(default_factory=set)
    stop_at: int = 10**9
    fault: Fault | None = None
    allowed: int | None = None

    @contextlib.contextmanager
    def opened(
        self, _bench: Bench, direction: Direction, *, longest: int, dscp: int = 0, max_bytes: int | None = None
    ) -> Iterator[Any]:
        self.marks.add(dscp)
        self.allowed = max_bytes
        line, way = self, direction

        class Load:
            near = EndConditions(drops={"socket_drops": 0, "softnet_dropped": 1})
            far = EndConditions()

            def run(self, phase: Phase, _told: Any = None) -> Loaded:
                assert phase.longest <= longest
                line.sent.append((way, phase))
                count = line.count(way, phase)
                if len(line.sent) >= line.stop_at:
                    assert line.fault is not None
                    return Loaded(replace(count, short=line.fault.kind), fault=line.fault)
                return Loaded(count)

        yield Load()

    def count(self, way: Direction, phase: Phase) -> LoadCount:
        size = phase.sizes[0][0]
        number = max(1, min(4000, phase.rate_bps * phase.duration_ns // (8 * size * NS_PER_S)))
        times = np.arange(number, dtype=np.int64) * (size * 8 * NS_PER_S // phase.rate_bps)
        due, lost = Bottleneck(Rate(self.rate_bps, policer=True, counts="l3")).through(times, np.full(number, size))
        gone, span = int(lost.sum()), int(times[-1]) + size * 8 * NS_PER_S // phase.rate_bps
        got = number - gone
        return LoadCount(
            phase.name, way, phase.rate_bps, phase.duration_ns, phase.sizes, sent=number, sent_bytes=number * size,
            sent_ns=span, received=got, received_bytes=got * size, received_ns=int(due[-1]), rate_bps=got * size * 8 * NS_PER_S / span,
            lost=gone, loss_events=(LossEvent(way, 0, 0, 0, gone),) if gone else (),
        )  # fmt: skip


class _Stream:
    near = far = EndConditions()
    fault = None

    @contextlib.contextmanager
    def loaded(self, until_ns: int) -> Iterator[None]:
        yield

    def result(self) -> None:
        return None

    def added(self) -> dict[str, Any]:
        return {}


@contextlib.contextmanager
def _running(*_: Any, **__: Any) -> Iterator[_Stream]:
    yield _Stream()


@dataclass
class _Control:
    gone: str = ""

    def lost(self) -> str:
        return self.gone


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[[Line], Bench]:
    def put(line: Line) -> Bench:
        for probe in (services, search):
            monkeypatch.setattr(probe.loading, "opened", line.opened)
        monkeypatch.setattr(services.beside, "running", _running)
        return Bench("192.0.2.1", control=_Control(), link=LINK)  # type: ignore[arg-type]

    return put


def steps(probes: str, **options: Any) -> tuple[Step, ...]:
    return make(parse(PROFILE + probes, "p.yaml"), LINK, PlanOptions(**options)).steps


def test_every_service_is_stepped_and_all_are_loaded_together(on: Callable[[Line], Bench]) -> None:
    line = Line(10**9)
    bench = on(line)
    plan = steps("  services: {steps: [50 %, 100 %], step: 1 s, performance: 10 s}")
    assert [step.key for step in plan] == [
        "services/configuration/forward",
        "services/configuration/reverse",
        "services/performance",
    ]
    results = [services.measure(step, bench) for step in plan]
    assert all(taken.fault is None for taken in results)
    forward = results[0].services
    assert forward is not None
    assert [one.count.name for one in forward.steps] == [
        "data CIR 50 %", "data CIR 100 %", "data CIR + EIR", "data overshoot", "voice CIR 50 %", "voice CIR 100 %", "voice overshoot",
    ]  # fmt: skip
    assert {(way, phase.name) for way, phase in line.sent[-4:]} == {
        (way, f"{name} performance") for way in (Direction.FORWARD, Direction.REVERSE) for name in ("data", "voice")
    }
    assert line.marks == {26, 46}
    assert results[0].conditions.near.drops == {
        "softnet_dropped": 2
    }  # once for each service; what the socket of a load dropped is told with it


def test_both_directions_at_once_when_asked(on: Callable[[Line], Bench]) -> None:
    line = Line(10**9)
    bench = on(line)
    (step,) = steps("  services: {steps: [100 %], step: 1 s, performance: none, directions: both, overshoot: false}")
    taken = services.measure(step, bench).services
    assert taken is not None
    assert [(one.service, one.kind, one.direction) for one in taken.steps] == [
        (service, kind, way)
        for service, kind in (("data", "cir"), ("data", "eir"), ("voice", "cir"))
        for way in (Direction.FORWARD, Direction.REVERSE)
    ]


@pytest.mark.parametrize(("length", "asked"), [("6 s", [104, 184]), ("5 s", [])])
def test_hops_are_asked_beside_each_overshoot_that_is_long_enough(
    on: Callable[[Line], Bench], monkeypatch: pytest.MonkeyPatch, length: str, asked: list[int]
) -> None:
    """At the CIR and at CIR + EIR a policer would drop for the probes what is granted."""
    line, marks, meant = Line(10_000_000), [], []
    known = Known(40_000, 33_434, (LoadedHop(1, "10.0.1.1", 1, (1_000_000,)),))

    @contextlib.contextmanager
    def watching(_bench: Bench, way: Direction, *, seconds: float, tos: int) -> Iterator[services.Watching]:
        marks.append(tos)
        watch = services.Watching(way, known)
        before = len(line.sent)
        yield watch
        meant.extend(phase.name for _, phase in line.sent[before:])
        assert len(watch.spans) == 1
        assert seconds > 6

    monkeypatch.setattr(services.hops, "watching", watching)
    bench = on(line)
    done = services.measure(steps(f"  services: {{step: {length}, performance: none}}")[0], bench)
    assert marks == asked
    assert meant == (["data overshoot", "voice overshoot"] if asked else [])
    if asked:
        assert done.loaded_path is not None
        assert done.loaded_path.load.startswith("the overshoot of data (UDP at ")
        assert loaded_path.best([done], Direction.FORWARD) is None  # no fault: it is beyond the contract
        assert "under the overshoot of data" in loaded_path.told([done], Direction.FORWARD)[0]
    else:
        assert done.loaded_path is None


@pytest.mark.parametrize("kind", ["interrupted", "peer-lost", "cap"])
def test_what_ends_in_the_middle_keeps_what_was_measured(on: Callable[[Line], Bench], kind: str) -> None:
    line = Line(10**9, stop_at=3, fault=Fault(kind, "over"))
    bench = on(line)
    taken = services.measure(steps("  services: {step: 1 s, performance: none}")[0], bench)
    assert taken.services is not None
    assert (len(taken.services.steps), taken.fault) == (3, line.fault)
    assert taken.services.steps[-1].count.short == kind


def test_the_search_finds_each_size_by_itself(on: Callable[[Line], Bench]) -> None:
    line = Line(30_000_000)
    bench = on(line)
    forward, _ = steps("  services: {performance: none}\n  search: {frame_sizes: [512, mtu], settle: 0 s, final: 2 s}")[
        -2:
    ]
    taken = search.measure(forward, bench)
    assert taken.fault is None
    assert taken.search is not None
    assert [one.packet_bytes for one in taken.search.found] == [494, 1500]
    for one in taken.search.found:
        assert one.limited == ""
        assert one.rate_bps == pytest.approx(30_000_000, rel=0.02)
        assert one.maximum_bps == pytest.approx(50_000_000 * one.packet_bytes / (one.packet_bytes + 38), rel=1e-6)
    assert len(taken.search.trials) == len(line.sent)


def test_the_bytes_a_search_may_send_bind_its_load(on: Callable[[Line], Bench]) -> None:
    line = Line(30_000_000)
    bench = on(line)
    search_of = (
        "  services: {performance: none, step: 1 s}\n  search: {frame_sizes: [512, mtu], settle: 0 s, final: 2 s}"
    )
    least = 2 * 4 * 46_000_000 // 8 * 2  # both directions, a short and a long trial of each size
    services_bytes = sum(step.total_bytes for step in steps(search_of) if step.probe == "services")
    forward, reverse = steps(search_of, max_bytes=services_bytes + 2 * least)[-2:]
    assert forward.total_bytes + reverse.total_bytes <= 2 * least
    search.measure(forward, bench)
    assert line.allowed == forward.params["max_bytes"] == forward.total_bytes


def test_a_search_that_is_cut_keeps_what_it_found(on: Callable[[Line], Bench]) -> None:
    line = Line(30_000_000, stop_at=9, fault=Fault("peer-lost", "gone"))
    bench = on(line)
    forward = steps("  services: {performance: none}\n  search: {frame_sizes: [512, mtu], settle: 0 s, final: 2 s}")[-2]
    taken = search.measure(forward, bench)
    assert taken.fault == line.fault
    assert taken.search is not None
    assert taken.search.found[-1].limited == "peer-lost"
    assert len(taken.search.trials) == 9
