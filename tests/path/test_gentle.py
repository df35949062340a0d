"""Where a queue begins without load that expires on routers: how fast, how long, what is planned, what ends it; and between real routers."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linkqual import profiles as shipped
from linkqual.bottleneck import Rate
from linkqual.errors import UsageError
from linkqual.lab.isolate import available, run_isolated
from linkqual.lab.network import VirtualLine
from linkqual.model import Direction, EndConditions, Fault, Link, LoadCount, LoadedHop, LoadedPath, Step
from linkqual.net.control import Control
from linkqual.plan import PlanOptions, make
from linkqual.plan.gentle import shorten
from linkqual.probes import gentle as probe
from linkqual.probes import hops, loading, path
from linkqual.probes.bench import Bench
from linkqual.probes.loading import Loaded
from linkqual.profile import parse
from linkqual.session import gentle, hop_watch
from linkqual.session.load_phase import Phase
from linkqual.stats.histogram import LogLinear
from linkqual.wire.load import ARRIVAL
from linkqual.wire.pairing import Peer

MBIT, MS = 1_000_000, 1_000_000
TRAINING = parse(shipped.text("training"), "training.yaml")
HOPS = tuple(LoadedHop(ttl, f"10.0.{ttl}.1", 4, (MS,) * 4) for ttl in (1, 2, 3))
KNOWN = hop_watch.Known(40_000, 33_434, HOPS)
PARAMS = {"rounds": 7, "packet_bytes": 1500, "rate_bps": 30 * MBIT, "bytes": 0, "max_rate_bps": None}
STEP = Step("gentle/forward", "gentle", PARAMS, Direction.FORWARD)


# ---- what is planned


def planned(link: Link, **options: Any) -> tuple[Step, ...]:
    return make(TRAINING, link, PlanOptions(only=("gentle",), **options)).steps


def test_a_little_above_the_contract_and_twice_for_a_policer() -> None:
    forward, reverse = planned(Link(cir_bps=100 * MBIT, cir_reverse_bps=20 * MBIT, rate_counts="l3"))
    assert (forward.key, reverse.key) == ("gentle/forward", "gentle/reverse")
    assert (forward.offered_bps, reverse.offered_bps) == (200 * MBIT, 40 * MBIT)
    seconds = [gentle.span_ns(rounds) / 1e9 for rounds in (7, gentle.POLICED_ROUNDS)]
    assert forward.total_bytes == pytest.approx((1.2 * seconds[0] + 2 * seconds[1]) * 100 * MBIT / 8, rel=1e-6)
    assert (forward.params["rate_bps"], forward.params["bytes"]) == (100 * MBIT, forward.total_bytes)


def test_the_rate_allowed_binds_it_and_must_let_a_queue_grow() -> None:
    forward, _ = planned(Link(cir_bps=100 * MBIT, rate_counts="l3"), max_rate_bps=110 * MBIT)
    assert forward.offered_bps == 110 * MBIT
    with pytest.raises(UsageError, match="no queue grows forward at the 90 Mbit/s allowed"):
        planned(Link(cir_bps=100 * MBIT, rate_counts="l3"), max_rate_bps=90 * MBIT)


def test_bytes_that_are_short_cost_what_a_policer_needs() -> None:
    forward, _ = planned(Link(cir_bps=100 * MBIT, rate_counts="l3"))
    least = shorten(forward, 10**12)
    assert least.total_bytes == least.params["bytes"] == pytest.approx(1.2 * gentle.span_ns(7) / 8e9 * 100 * MBIT, rel=1e-6)  # fmt: skip
    assert shorten(forward, 0) == forward


def test_no_profile_runs_it_unasked_and_who_lacks_consent_is_told_of_it() -> None:
    plan = make(TRAINING, Link(cir_bps=100 * MBIT), PlanOptions())
    assert all(step.probe != "gentle" for step in plan.steps)
    with_narrow = replace(TRAINING, probes=TRAINING.probes | {"narrow": {"bytes": 0}})
    assert any("--only gentle" in why for why in make(with_narrow, Link(cir_bps=100 * MBIT), PlanOptions()).reasons)


# ---- what its own count says


def test_the_rate_of_a_burst_is_that_of_its_last_half() -> None:
    bucket_first = np.concatenate((np.arange(500) * 10_000, 5_000_000 + np.arange(500) * 400_000))
    assert gentle.burst_bps(bucket_first, 1500) == pytest.approx(30 * MBIT, rel=0.01)
    assert gentle.burst_bps(bucket_first[:5], 1500) is None


def test_a_bucket_does_not_count_in_the_second_that_tells_the_rate() -> None:
    rows = ((100, 4_000_000),) * 3 + ((10, 375_000),) * 6 + ((1, 100),)
    count = LoadCount("look", Direction.FORWARD, 0, 0, (), interval_ns=10**8, intervals=rows)
    assert gentle.looked_bps(count) == pytest.approx(30 * MBIT, rel=0.02)


# ---- the probe


def counted(phase: Phase, *, lost: float = 0.0, late_ns: int = 0) -> LoadCount:
    sent = phase.packets or 10_000
    gone = round(sent * lost)
    delays = LogLinear()
    delays.add([1000 + late_ns] * 3)
    return LoadCount(phase.name, Direction.FORWARD, phase.rate_bps, phase.duration_ns, phase.sizes, sent=sent, sent_bytes=sent * 1500, sent_ns=10**9, received=sent - gone, lost=gone, rate_bps=30.0 * MBIT, one_way=delays.data())  # fmt: skip


@dataclass
class Line:
    """Says what each phase of load meets."""

    meets: Callable[[Phase], Loaded]
    sent: list[Phase] = field(default_factory=list)
    bases: list[int] = field(default_factory=list)
    lost: list[float | None] = field(default_factory=list)  # as the search for the place was told
    near: EndConditions = field(default_factory=lambda: EndConditions(host="near"))
    far: EndConditions = field(default_factory=lambda: EndConditions(host="far"))

    def run(self, phase: Phase) -> Loaded:
        self.sent.append(phase)
        return self.meets(phase)


def measured(
    monkeypatch: pytest.MonkeyPatch,
    meets: Callable[[Phase], Loaded],
    shows: Callable[[int], LoadedPath],
    step: Step = STEP,
    problem: str = "",
) -> tuple[Line, Any]:
    line = Line(meets)

    @contextlib.contextmanager
    def opened(*_: Any, **__: Any) -> Iterator[Line]:
        yield line

    @contextlib.contextmanager
    def watching(_bench: Bench, _way: Direction, *, seconds: float, base: int) -> Iterator[hops.Watching]:
        line.bases.append(base)
        watch = hops.Watching(Direction.FORWARD, KNOWN, problem, asked=[hop_watch.Asked(1, 0)])

        def result(*_: Any, **told: Any) -> LoadedPath:
            line.lost.append(told.get("lost"))
            return shows(base)

        monkeypatch.setattr(hops.Watching, "result", result)
        yield watch

    monkeypatch.setattr(loading, "opened", opened)
    monkeypatch.setattr(hops, "watching", watching)
    monkeypatch.setattr(probe, "rest", lambda *_: True)
    monkeypatch.setattr(probe, "silent", lambda *_: True)
    return line, probe.measure(step, Bench("192.0.2.1", hops={Direction.FORWARD: KNOWN}))


def queue(_base: int) -> LoadedPath:
    return LoadedPath(Direction.FORWARD, "UDP", HOPS, 1, 2, "queue", "high", "it persists")


def nothing(base: int) -> LoadedPath:
    return LoadedPath(Direction.FORWARD, "UDP", HOPS, 1, 2, "loss", "medium", "lost") if base else LoadedPath(Direction.FORWARD, "UDP", HOPS, because="none")  # fmt: skip


def test_a_queue_needs_one_load(monkeypatch: pytest.MonkeyPatch) -> None:
    line, done = measured(monkeypatch, lambda phase: Loaded(counted(phase, lost=0.17, late_ns=30 * MS)), queue)
    assert [phase.rate_bps for phase in line.sent][1:] == [36 * MBIT]
    assert line.sent[1].duration_ns == gentle.span_ns(7)
    assert (done.fault, done.loaded_path.by, done.conditions.near.host) == (None, "queue", "near")


def test_loss_without_a_queue_asks_for_twice_the_rate_and_long_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    line, done = measured(monkeypatch, lambda phase: Loaded(counted(phase, lost=0.17)), nothing)
    assert [phase.rate_bps for phase in line.sent][1:] == [36 * MBIT, 60 * MBIT]
    assert (line.bases, line.lost) == ([0, gentle.LONG_BYTES], [0.17, 0.17])
    assert (done.loaded_path.by, done.fault) == ("loss", None)


def test_a_line_that_carries_all_of_it_is_not_loaded_more(monkeypatch: pytest.MonkeyPatch) -> None:
    line, done = measured(monkeypatch, lambda phase: Loaded(counted(phase)), nothing)
    assert len(line.sent) == 2
    assert "nothing on the way is that slow" in done.loaded_path.because


def test_without_a_contract_a_burst_and_a_second_tell_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    def meets(phase: Phase) -> Loaded:
        came = np.zeros(phase.packets, ARRIVAL)
        came["received_ns"] = np.arange(phase.packets) * 300_000  # 40 Mbit/s
        return Loaded(counted(phase, lost=0.2), came if phase.arrivals else None)

    line, done = measured(monkeypatch, meets, queue, replace(STEP, params=PARAMS | {"rate_bps": 0}))
    assert [round(phase.rate_bps / MBIT) for phase in line.sent][1:] == [0, 48, 36]
    assert done.loaded_path.by == "queue"


@pytest.mark.parametrize("kind", ["peer-lost", "interrupted"])
def test_a_fault_under_way_keeps_what_was_seen(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    def meets(phase: Phase) -> Loaded:
        return Loaded(counted(phase), fault=Fault(kind, "gone") if phase.duration_ns else None)

    _, done = measured(monkeypatch, meets, queue)
    assert done.fault == Fault(kind, "gone")
    assert done.loaded_path.by == "queue"


def test_a_far_end_that_asks_no_hops_is_not_loaded_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent of an earlier version knows no `hops.open`."""
    line, done = measured(monkeypatch, lambda phase: Loaded(counted(phase, lost=0.2)), nothing, problem="no request")
    assert [phase.name for phase in line.sent] == ["idle"]
    assert (done.fault, done.loaded_path.by) == (None, "")


def test_bytes_that_ran_out_before_the_second_load_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def meets(phase: Phase) -> Loaded:
        spent = Fault("cap", "the bytes this step may send are spent")
        return Loaded(counted(phase, lost=0.2), fault=spent if phase.rate_bps == 60 * MBIT else None)

    shown = LoadedPath(Direction.FORWARD, "UDP", HOPS, because="none")
    _, done = measured(monkeypatch, meets, lambda _base: shown)
    assert done.fault is None
    assert "--max-bytes leaves nothing" in done.loaded_path.because


# ---- between real routers


@pytest.mark.lab
@pytest.mark.skipif(available() != "", reason="needs namespaces")
def test_the_hop_before_a_queue_is_on_time_and_the_one_behind_it_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lab's routers do not limit their answers, so they are asked more often than on a line."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    monkeypatch.setattr(hop_watch, "ROUND_NS", 200 * MS)
    monkeypatch.setattr(hops, "FILLING_NS", 400 * MS)
    import bottleneck

    rates = tuple(Rate(mbit * MBIT, False, 16_000, mbit * MBIT // 160, "l2") for mbit in (90, 30, 60))
    hear, say = os.pipe()

    def inside() -> int:
        line = bottleneck.described(rates, "plain", 1)
        with contextlib.ExitStack() as stack:
            virtual = stack.enter_context(VirtualLine(line))
            with virtual.inside(virtual.far):
                command = [sys.executable, "-m", "linkqual", "agent", "--ephemeral", "--quiet", "--bind", virtual.address(virtual.far)]  # fmt: skip
                agent = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(agent.kill)
            assert agent.stdout is not None
            said = agent.stdout.readline().strip()
            stack.enter_context(virtual.inside(virtual.near))
            control = stack.enter_context(Control.connect(Peer.parse(said)))
            bench = Bench(control.peer_address, control.near_address, control=control)
            bench = replace(bench, hops=hop_watch.known([path.measure(Step("path", "path", {"rounds": 1}), bench)]))
            load = stack.enter_context(loading.opened(bench, Direction.FORWARD))
            with hops.watching(bench, Direction.FORWARD, seconds=20) as watch:
                probe.rest(bench, 200 * MS, 0.5)
                with watch.loaded(0, 1_600 * MS):
                    load.run(Phase("load", 40 * MBIT, 1_800 * MS))
            found = watch.result("UDP")
            os.write(say, json.dumps([found.after, found.before, found.by, found.because] if found else []).encode())
        return 0

    run_isolated(inside)
    os.close(say)
    with os.fdopen(hear) as answer:
        after, before, by, because = json.loads(answer.read())
    assert (after, before, by) == (1, 2, "queue"), because
