"""The probe of one flow against many, over a load in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from linkqual.bottleneck import Rate
from linkqual.errors import PeerError
from linkqual.model import Direction, EndConditions, Fault, LoadedHop, Step
from linkqual.probes import flows
from linkqual.probes.bench import Bench
from linkqual.probes.loading import Loaded
from linkqual.session.flow_sharing import read
from linkqual.session.hop_watch import Known
from linkqual.session.load_phase import Phase

from ..rules.seeded_lines import flow_count

RATE = 20_000_000
STEP = Step(
    "flows/forward", "flows",
    {"flows": [1, 4, 16], "phase_ns": 10**9, "packet_bytes": 1500, "rate_bps": RATE, "max_rate_bps": None}, Direction.FORWARD, total_bytes=10**8,
)  # fmt: skip


@dataclass
class Line:
    """What the load meets, and what was sent over it."""

    limit: Rate | None = None
    fault_at: int = 10**9
    sent: list[Phase] = field(default_factory=list)
    asked: dict[str, Any] = field(default_factory=dict)

    @contextlib.contextmanager
    def opened(self, _bench: Bench, _way: Direction, **asked: Any) -> Iterator[Any]:
        self.asked = asked
        line = self

        class Load:
            ports = tuple(range(40_000, 40_000 + asked["flows"]))
            near, far = EndConditions(), EndConditions(drops={"socket_drops": 0})

            def run(self, phase: Phase) -> Loaded:
                line.sent.append(phase)
                count = flow_count(
                    line.limit, phase.flows, phase.rate_bps, len(line.sent), seconds=phase.duration_ns / 1e9
                )
                if len(line.sent) >= line.fault_at:
                    return Loaded(replace(count, short="interrupted"), fault=Fault("interrupted", "was interrupted"))
                return Loaded(count)

        yield Load()


def measured(line: Line, monkeypatch: pytest.MonkeyPatch, **bench: Any) -> Any:
    monkeypatch.setattr(flows.loading, "opened", line.opened)
    return flows.measure(STEP, Bench("192.0.2.1", **bench))


def test_phases_of_one_load_over_more_and_more_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(Rate(30_000_000, per_flow_bps=6_000_000))
    got = measured(line, monkeypatch)
    assert got.fault is None
    assert [one.flows for one in got.flows.counts] == [one.flows for one in line.sent] == [1, 4, 16]
    assert {(one.rate_bps, one.sizes, one.segmented) for one in line.sent} == {(RATE, ((1500, 1),), True)}
    assert line.asked["flows"] == len(got.flows.ports) == 16
    assert line.asked["max_bytes"] == STEP.total_bytes
    assert got.conditions.far.drops == {"socket_drops": 0}
    assert read(got.flows.counts).kind == "cap"


def test_one_flow_that_carries_all_of_it_ends_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line()
    assert len(measured(line, monkeypatch).flows.counts) == 1
    assert len(line.sent) == 1


def test_what_was_counted_before_the_end_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    got = measured(Line(Rate(10_000_000), fault_at=2), monkeypatch)
    assert got.fault.kind == "interrupted"
    assert [one.short for one in got.flows.counts] == ["", "interrupted"]
    halted = measured(Line(Rate(10_000_000)), monkeypatch, interrupted=lambda: True)
    assert halted.fault.kind == "interrupted"
    assert len(halted.flows.counts) == 1


def test_an_end_that_cannot_be_opened_is_a_fault_and_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    got = flows.measure(STEP, Bench("192.0.2.1"))
    assert (got.fault.kind, got.flows) == ("no-agent", None)

    def refusing(*_given: Any, **_named: Any) -> Any:
        raise PeerError("the agent allows no load", "start it with a higher --max-bytes", "cap")

    monkeypatch.setattr(flows.loading, "opened", refusing)
    assert flows.measure(STEP, Bench("192.0.2.1")).fault.kind == "cap"


def test_the_hops_are_asked_while_each_phase_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Known(40_000, 33_434, (LoadedHop(1, "10.0.1.1", 1, (1_000_000,)),))
    line, spans = Line(Rate(30_000_000, per_flow_bps=6_000_000)), []

    @contextlib.contextmanager
    def watching(_bench: Bench, _way: Direction, *, seconds: float) -> Iterator[flows.Watching]:
        assert seconds > 1
        watch = flows.Watching(Direction.FORWARD, known)
        yield watch
        spans.extend(watch.spans)

    asked, locate = [], flows.hops.locate

    def locating(*given: Any, **named: Any) -> Any:
        asked.append(named["lost"])
        return locate(*given, **named)

    monkeypatch.setattr(flows.hops, "watching", watching)
    monkeypatch.setattr(flows.hops, "locate", locating)
    got = measured(line, monkeypatch)
    assert len(spans) == len(line.sent) == 3
    assert asked[0] == pytest.approx(
        sum(one.lost for one in got.flows.counts) / sum(one.sent for one in got.flows.counts)
    )
    assert asked[0] > 0.1
    assert (got.loaded_path.load, got.loaded_path.by) == ("UDP at 20 Mbit/s", "")
    assert measured(Line(fault_at=1), monkeypatch, interrupted=lambda: True).loaded_path is not None
