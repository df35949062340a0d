"""What the runner adds to a measurement: clocks that drift are taken out of it, a translated address is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from linkqual import document, runner, store
from linkqual.errors import PeerError
from linkqual.model import (
    ClockState,
    Conditions,
    Direction,
    EndConditions,
    Link,
    Measurement,
    Objective,
    Outcome,
    Pacing,
    Plan,
    Profile,
    Qualification,
    Relation,
    Step,
    ThroughputResult,
)
from linkqual.net import host
from linkqual.probes.bench import Bench
from linkqual.recount import recounted
from linkqual.rejudge import rejudge
from linkqual.stats.pacing import Audit
from linkqual.stats.summary import Summarizer

from .rules.test_clocks import GOOD, JITTER, between_clocks, measured


class FarEnd:
    """An agent on another host, behind an address translator."""

    near_address, seen_as = "192.0.2.7", "203.0.113.9"

    def __init__(self, boot_id: str) -> None:
        self._boot_id = boot_id

    def call(self, name: str) -> dict[str, Any]:
        assert name == "host"
        return {"boot_id": self._boot_id, "drops": {}}


@pytest.mark.parametrize(("boot_id", "outcome"), [("another host's", Outcome.PASS), (host.boot_id(), Outcome.FAIL)])
def test_drifting_clocks_and_a_translator(
    boot_id: str, outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one clock for both ends the same packets are the line's doing."""
    step = Step("stamp", "stamp", {"rate_pps": 100})

    def measure(_step: Step, bench: Bench) -> Measurement:
        rows = between_clocks(GOOD, 2e-5)
        writer = bench.save_packets("stamp")
        writer.write(rows)
        writer.close()
        return measured(rows)

    monkeypatch.setattr(runner, "PROBES", {"stamp": SimpleNamespace(measure=measure)})
    run = store.Run(tmp_path / "run")
    bench = Bench("198.51.100.2", control=FarEnd(boot_id), save_packets=run.save_packets)  # type: ignore[arg-type]
    request = runner.Request(Profile("p", "", "", JITTER, {}), Plan("p", (step,), JITTER, Link()), "far")
    done = runner.qualify(request, bench, run, interrupted=lambda: "")
    assert done.verdict is not None
    assert done.verdict.outcome is outcome
    said = " ".join(note.sentence for note in done.verdict.notes)
    assert "sees 192.0.2.7 as 203.0.113.9" in said
    assert ("taken out of the one-way jitter" in said) is (outcome is Outcome.PASS)


class LateFarEnd(FarEnd):
    """An agent that could not be asked before the step, and says afterwards what its host dropped since it started."""

    _asked = False

    def call(self, name: str) -> dict[str, Any]:
        if not self._asked:
            self._asked = True
            raise PeerError("no answer", "", "silent")
        return super().call(name) | {"drops": {"UdpRcvbufErrors": 100_000}}


def test_drops_since_a_host_started_are_not_those_of_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step("path", "path")
    probe = SimpleNamespace(measure=lambda step, _bench: Measurement(step, 0, 1))
    monkeypatch.setattr(runner, "PROBES", {"path": probe})
    request = runner.Request(Profile("p", "", "", (), {}), Plan("p", (step,), (), Link()), "far")
    bench = Bench("198.51.100.2", control=LateFarEnd("another host's"))  # type: ignore[arg-type]
    done = runner.qualify(request, bench, store.Run(tmp_path / "run"), interrupted=lambda: "")
    assert done.measurements[0].conditions.far.drops == {}
    assert done.measurements[0].fault is None
    lossy = SimpleNamespace(measure=lambda *_: measured(between_clocks(GOOD, 0)))
    monkeypatch.setattr(runner, "PROBES", {"path": lossy})
    bench = Bench("198.51.100.2", control=LateFarEnd("another host's"))  # type: ignore[arg-type]
    done = runner.qualify(request, bench, store.Run(tmp_path / "later"), interrupted=lambda: "")
    assert done.measurements[0].fault is not None
    assert "its host had dropped" in done.measurements[0].fault.message


def test_a_stored_run_judged_again_still_says_that_this_host_was_too_busy(tmp_path: Path) -> None:
    profile = Profile("p", "", "", (), {})
    truth = {"forward": {"late": 50, "seen": 1000}}
    stored = Qualification(1, "", "run", 0, 1, profile, Plan("p", (), (), Link()), "", (), truth=truth)
    done = rejudge(tmp_path, stored, profile, stored.plan.link)
    assert done.verdict is not None
    assert any("too busy" in note.sentence for note in done.verdict.notes)


class DroppingFarEnd(FarEnd):
    """An agent whose host drops packets while the step runs, and says when it saw that."""

    asked = 0

    def call(self, name: str) -> dict[str, Any]:
        self.asked += 1
        later = {"drop_times": [[17, "UdpRcvbufErrors", 30], [19, "softnet_dropped", 2]]} if self.asked > 1 else {}
        risen = {"UdpRcvbufErrors": 30, "softnet_dropped": 2} if self.asked > 1 else {}
        before = {"UdpRcvbufErrors": 100, "softnet_dropped": 0, "eth0:rx_fifo": 4}
        drops = {key: count + risen.get(key, 0) for key, count in before.items()}
        return super().call(name) | {"drops": drops, "of_a_later_version": 1} | later


def test_both_hosts_are_watched_while_a_step_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counters = iter([{"UdpRcvbufErrors": 5, "lo:tx_dropped": 1}, {"UdpRcvbufErrors": 12, "lo:tx_dropped": 1}])
    monkeypatch.setattr("linkqual.net.drops.counters", lambda _interfaces: next(counters))
    step = Step("stamp", "stamp")
    mine = Conditions(
        near=EndConditions(drops={"socket_drops": 7}, counters={"sent": 9}),
        far=EndConditions(drops={"socket_drops": 30}, drop_times=((18, "socket_drops", 30),)),
    )
    probe = SimpleNamespace(measure=lambda step, _bench: Measurement(step, 0, 1, conditions=mine))
    monkeypatch.setattr(runner, "PROBES", {"stamp": probe})
    request = runner.Request(Profile("p", "", "", (), {}), Plan("p", (step,), (), Link()), "far")
    bench = Bench("198.51.100.2", control=DroppingFarEnd("another host's"))  # type: ignore[arg-type]
    done = runner.qualify(request, bench, store.Run(tmp_path / "run"), interrupted=lambda: "")
    near, far = done.measurements[0].conditions.near, done.measurements[0].conditions.far
    assert near.drops == {"UdpRcvbufErrors": 7, "socket_drops": 7}
    assert [(name, by) for _, name, by in near.drop_times] == [("UdpRcvbufErrors", 7)]
    assert near.counters == {"sent": 9}
    assert far.drops == {"UdpRcvbufErrors": 30, "softnet_dropped": 2, "socket_drops": 30}
    assert far.drop_times == ((17, "UdpRcvbufErrors", 30), (18, "socket_drops", 30), (19, "softnet_dropped", 2))
    assert document.load(document.dump(done)) == done


def test_the_audit_of_the_pacing_is_found_again_in_the_stored_packets(tmp_path: Path) -> None:
    rows = between_clocks(GOOD, 0.0)
    rows["intended_ns"] = rows["sent_ns"] - 30_000
    rows["sent_ns"][400:600] = rows["sent_ns"][600] + 2_000 * np.arange(200)
    rows["sent_ns"][600:603] = rows["sent_ns"][599] + 2_000 * np.arange(1, 4)
    step = Step("stamp", "stamp", {"rate_pps": 100, "max_burst": 150})
    summarizer = Summarizer(JITTER, audit=Audit.of(step.params))
    summarizer.add(rows)
    run = store.Run(tmp_path / "run")
    writer = run.save_packets("stamp")
    writer.write(rows)
    writer.close()
    taken = measured(rows)
    assert taken.stamp is not None
    stored = replace(
        taken, step=step, stamp=replace(taken.stamp, summary=replace(taken.stamp.summary, pacing=Pacing()))
    )
    again = recounted(tmp_path / "run", stored, JITTER)
    assert again.stamp is not None
    assert again.stamp.summary.pacing == summarizer.summary().pacing
    assert again.stamp.summary.pacing.beyond == 1


def answers(ahead_ns: object, boot_id: str = "far") -> dict[str, Any]:
    return {"boot_id": boot_id, "realtime_ahead_ns": ahead_ns}


@pytest.mark.parametrize(
    ("before", "after", "stepped"),
    [
        (answers(10**18), answers(10**18 + 48_000_000), 48_000_000),
        (answers(10**18), answers(10**18), 0),
        (answers(10**18), answers(10**18 - 5, "started anew"), None),
        ({"boot_id": "far"}, answers(10**18), None),  # of an older version
        ({}, {}, None),
        (answers("soon"), answers(1), None),
    ],
)
def test_by_how_much_the_far_clock_was_set(before: dict[str, Any], after: dict[str, Any], stepped: int | None) -> None:
    assert runner._stepped(before, after) == stepped


GOOD_CLOCK, WORSE, LOST = ClockState("chrony", True, 100), ClockState("chrony", True, 900), ClockState("chrony", False)


@pytest.mark.parametrize(
    ("near", "far", "bound"),
    [
        ((GOOD_CLOCK, GOOD_CLOCK), (GOOD_CLOCK, GOOD_CLOCK), 200),
        ((GOOD_CLOCK, WORSE), (WORSE, GOOD_CLOCK), 1800),
        ((None, GOOD_CLOCK), (None, WORSE), 1000),
        ((LOST, GOOD_CLOCK), (GOOD_CLOCK, GOOD_CLOCK), None),
        ((GOOD_CLOCK, GOOD_CLOCK), (GOOD_CLOCK, LOST), None),
        ((GOOD_CLOCK, ClockState("ptp4l", True)), (GOOD_CLOCK, GOOD_CLOCK), None),
    ],
)
def test_a_bound_holds_before_and_after(
    near: tuple[ClockState | None, ClockState], far: tuple[ClockState | None, ClockState], bound: int | None
) -> None:
    ends = [EndConditions(clock=after, clock_before=before) for before, after in (near, far)]
    assert runner._clock_error(*ends) == bound


def test_a_step_that_explains_is_spared_where_nothing_fell_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = Step("trains", "trains", {"when": "short"}, Direction.FORWARD)
    load = Step("throughput/forward/4", "throughput", {}, Direction.FORWARD)
    limit = Objective("throughput", "mean", Direction.FORWARD, 9e7, Relation.AT_LEAST)
    begun: list[str] = []
    request = runner.Request(Profile("p", "", "", (limit,), {}), Plan("p", (load, why), (limit,), Link()), "far")
    bench = Bench("198.51.100.2", control=FarEnd("another host's"))  # type: ignore[arg-type]
    for rate, ran in ((9.4e7, []), (5e7, ["trains"])):
        result = ThroughputResult(4, (rate,) * 30)
        probes = {
            "throughput": SimpleNamespace(measure=lambda step, _bench, r=result: Measurement(step, 0, 1, throughput=r)),
            "trains": SimpleNamespace(measure=lambda step, _bench: Measurement(step, 0, 1)),
        }
        monkeypatch.setattr(runner, "PROBES", probes)
        begun.clear()
        run = store.Run(tmp_path / f"{rate}")
        done = runner.qualify(
            request, bench, run, interrupted=lambda: "", begin=lambda step, keys=begun: keys.append(step.key)
        )
        assert begun == [load.key, *ran]
        assert bool(done.measurements[1].not_needed) is (not ran)
        assert document.load(document.dump(done)) == done
