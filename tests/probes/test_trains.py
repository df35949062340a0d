"""The probe that sends trains: over a line in memory it finds the bucket, over the loopback it finds none, and what was seen is kept."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linkqual.bottleneck import Rate
from linkqual.model import Direction, EndConditions, Fault, LoadCount, Step
from linkqual.probes import loading, trains
from linkqual.probes.bench import Bench
from linkqual.probes.loading import Loaded
from linkqual.session.load_phase import Phase
from linkqual.wire.load import ARRIVAL

MBIT = 1_000_000
PARAMS = {
    "when": "always", "bytes": 20_000_000, "packet_bytes": 1500, "counts": "l1", "fastest_bps": 80e6, "contracted_bps": 40_000_000,
    "max_rate_bps": None,
}  # fmt: skip
STEP = Step("trains/forward", "trains", PARAMS, Direction.FORWARD)


@dataclass
class FakeLoading:
    """Carries phases over a line in memory; `spoil` may change what came of one."""

    line: Any
    spoil: Callable[[Phase, Loaded], Loaded] = lambda _phase, loaded: loaded
    near: EndConditions = field(default_factory=lambda: EndConditions(host="near"))
    far: EndConditions = field(default_factory=lambda: EndConditions(host="far"))

    def run(self, phase: Phase) -> Loaded:
        numbers, departed, arrived = self.line.run(phase)
        rows = np.zeros(len(numbers), ARRIVAL)
        rows["seq"], rows["sent_ns"], rows["received_ns"] = numbers, departed, arrived
        count = LoadCount(phase.name, Direction.FORWARD, phase.rate_bps, 0, phase.sizes, sent=phase.packets, received=len(numbers))  # fmt: skip
        return self.spoil(phase, Loaded(count, rows))


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A shaper of 30 Mbit/s, 100 KB and 20 ms; nobody sleeps."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import buckets

    monkeypatch.setattr(trains, "rest", lambda *_: True)
    monkeypatch.setattr(trains, "silent", lambda *_: True)
    return buckets.MemoryLine(Rate(30 * MBIT, bucket_bytes=100_000, buffer_bytes=75_000), 1)


def over(monkeypatch: pytest.MonkeyPatch, load: FakeLoading) -> None:
    @contextlib.contextmanager
    def opened(*_: Any, **__: Any) -> Iterator[FakeLoading]:
        yield load

    monkeypatch.setattr(loading, "opened", opened)


def test_what_is_found_and_under_which_conditions(monkeypatch: pytest.MonkeyPatch, line: Any) -> None:
    over(monkeypatch, FakeLoading(line))
    done = trains.measure(STEP, Bench("192.0.2.1"))
    assert done.fault is None
    assert done.trains is not None
    assert (done.trains.kind, done.trains.outlasted) == ("shaper", True)
    assert done.trains.rate_bps is not None
    assert done.trains.rate_bps[0] == pytest.approx(30 * MBIT, rel=0.01)
    assert (done.conditions.near.host, done.conditions.far.host) == ("near", "far")


@pytest.mark.parametrize("kind", ["peer-lost", "interrupted"])
def test_a_fault_under_way_keeps_the_trains_before_it(monkeypatch: pytest.MonkeyPatch, line: Any, kind: str) -> None:
    seen: list[str] = []

    def spoil(phase: Phase, loaded: Loaded) -> Loaded:
        seen.append(phase.name)
        return Loaded(loaded.count, None, Fault(kind, "gone")) if seen.count("idle") == 3 else loaded

    over(monkeypatch, FakeLoading(line, spoil))
    done = trains.measure(STEP, Bench("192.0.2.1"))
    assert done.fault == Fault(kind, "gone")
    assert done.trains is not None
    assert len(done.trains.trains) == 2
    assert done.trains.kind == "unknown"


def test_packets_that_vanish_altogether_are_said(monkeypatch: pytest.MonkeyPatch, line: Any) -> None:
    over(monkeypatch, FakeLoading(line, lambda _, loaded: Loaded(loaded.count, loaded.arrivals[:0])))  # type: ignore[index]
    done = trains.measure(STEP, Bench("192.0.2.1"))
    assert done.trains is None
    assert done.fault is not None
    assert done.fault.kind == "unreachable"


@pytest.mark.loopback
def test_the_loopback_has_no_limit(far_end: Any) -> None:
    params = PARAMS | {"bytes": 4_000_000, "fastest_bps": 30e6, "contracted_bps": 0}
    done = trains.measure(Step("trains/reverse", "trains", params, Direction.REVERSE), far_end.bench())
    assert done.fault is None
    assert done.trains is not None
    assert (done.trains.kind, done.trains.rate_bps) == ("none", None)
    assert done.trains.at_least_bps is not None
    assert done.trains.at_least_bps < 31e6
    assert sum(train.packets for train in done.trains.trains) * 1500 <= 4_000_000
    assert all(train.received == train.packets for train in done.trains.trains)
