"""A16: a clock is set while packets fly. One-way results are cut there, and the line is judged as if nothing had happened."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from linkqual import rules, store
from linkqual.model import ClockState, Conditions, EndConditions, Measurement, Objective, Outcome, Verdict
from linkqual.records import Records
from linkqual.recount import recounted, steadied

from .streams import FORWARD, MS, REVERSE, ROUND_TRIP, START, said, stamp, summary
from .two_clocks import World

LINES = (
    Objective("loss_ratio", "ratio", FORWARD, 0.05),
    Objective("loss_ratio", "ratio", REVERSE, 0.05),
    Objective("round_trip_delay", "p99", ROUND_TRIP, 10.6 * MS),
    Objective("pdv", "p99", FORWARD, 0.4 * MS),
    Objective("pdv", "p99", REVERSE, 0.4 * MS),
    Objective("ipdv", "p99", FORWARD, 0.4 * MS),
)
NIGHT = World(packets=6000, step_ns=48 * MS, slew=1e-4, jitter_ns=40_000, at=3000)


def ends(near: int | None = None, far: int | None = None, **more: object) -> Conditions:
    """What both hosts say of their clocks: by how much each was set."""
    return Conditions(
        near=EndConditions(clock_stepped_ns=near), far=EndConditions(clock_stepped_ns=far), **more  # type: ignore[arg-type]
    )  # fmt: skip


def kept(folder: Path, rows: Records) -> Path:
    run = store.Run(folder / "run")
    writer = run.save_packets("stamp")
    writer.write(rows)
    writer.close()
    return run.folder


def measured(rows: Records, folder: Path, conditions: Conditions) -> Measurement:
    first = stamp(summary(rows, LINES), 1000, conditions, stopped_by="fixed length")
    return steadied(kept(folder, rows), first, LINES)


def judge(measurement: Measurement) -> Verdict:
    from ..rules.test_judge import plan_of

    return rules.judge(plan_of(*LINES), (measurement,))


def test_the_far_clock_steps_by_48_ms_and_slews_back(tmp_path: Path) -> None:
    lost = ends(0, 48 * MS, clock_error_ns=None)
    lost = replace(
        lost, far=replace(lost.far, clock_before=ClockState("chrony", True, 10**6), clock=ClockState("chrony", False))
    )
    taken = measured(NIGHT.records(), tmp_path, lost)
    verdict = judge(taken)
    assert verdict.outcome is Outcome.PASS
    text = said(verdict)
    assert "the far end's clock was set by +48 ms, as its host confirms" in text
    assert f"{np.datetime64(START // 10**9 + 2, 's')}".replace("T", " ") in text  # when, to the second
    assert "which no network event does" in text
    assert (
        "the far end's clock lost its source during the measurement: chrony, in step before, chrony, not in step after"
        in text
    )
    assert "Offset of the far clock before" in text
    assert "route" not in text
    assert not [note for note in verdict.notes if note.kind == "asymmetry"]
    assert recounted(tmp_path / "run", taken, LINES) == taken


def test_an_end_that_could_not_be_asked_afterwards_has_no_other_clock(tmp_path: Path) -> None:
    gone = ends(0, 0, clock_error_ns=None)
    gone = replace(gone, far=replace(gone.far, clock_before=ClockState("none", False), clock=ClockState()))
    text = said(judge(measured(NIGHT.records(), tmp_path, gone)))
    assert "far end's clock changed" not in text
    changed = replace(gone, far=replace(gone.far, clock=ClockState("chrony", False)))
    assert "far end's clock changed" in said(judge(measured(NIGHT.records(), tmp_path / "b", changed)))


def test_without_the_packets_nothing_is_failed_for_it() -> None:
    verdict = judge(stamp(summary(NIGHT.records(), LINES), 1000, ends(0, 48 * MS), stopped_by="fixed length"))
    by_key = {finding.objective.key: finding.outcome for finding in verdict.findings}
    assert Outcome.FAIL not in by_key.values()
    assert by_key["pdv/forward/p99"] is Outcome.INCONCLUSIVE
    assert by_key["round_trip_delay/round-trip/p99"] is Outcome.PASS


def test_the_same_in_one_direction_is_the_network(tmp_path: Path) -> None:
    world = replace(NIGHT, step_ns=0, route_ns=48.0 * MS)
    verdict = judge(measured(world.records(), tmp_path, ends(0, 0)))
    by_key = {finding.objective.key: finding.outcome for finding in verdict.findings}
    assert by_key["round_trip_delay/round-trip/p99"] is Outcome.FAIL
    assert by_key["pdv/forward/p99"] is Outcome.FAIL
    assert by_key["pdv/reverse/p99"] is Outcome.PASS
    assert "clock was set" not in said(verdict)


@pytest.mark.parametrize("told", [(None, None), (0, None), (None, 48 * MS)])
def test_a_host_that_does_not_tell(told: tuple[int | None, int | None], tmp_path: Path) -> None:
    verdict = judge(measured(NIGHT.records(), tmp_path, ends(*told)))
    assert verdict.outcome is Outcome.PASS
    confirmed = "as its host confirms" in said(verdict)
    assert confirmed is (told[1] is not None)
    assert confirmed or "stepped by +48 ms against the near end's, or the near end's the other way" in said(verdict)


def test_a_clock_that_leaps_without_being_set(tmp_path: Path) -> None:
    """Both clocks of a virtual machine leap together when it is moved: its own two clocks agree, and it is a step all the same."""
    verdict = judge(measured(NIGHT.records(), tmp_path, ends(0, 0)))
    assert verdict.outcome is Outcome.PASS
    assert "no program set either of them" in said(verdict)


def test_two_standing_queues_that_change_places_are_not_taken_for_a_clock(tmp_path: Path) -> None:
    """A queue of 20 ms moves from one direction to the other from one packet to the next; the line was empty before."""
    rows = World(packets=8000).records()
    for name in ("far_received_ns", "far_sent_ns", "received_ns"):
        rows[name][2000:5000] += 20 * MS
    rows["received_ns"][5000:] += 20 * MS
    assert summary(rows).clock_steps
    taken = measured(rows, tmp_path, Conditions())
    assert taken.stamp is not None
    assert taken.stamp.summary.segments == ()


def test_a_bound_that_the_step_breaks_is_no_bound(tmp_path: Path) -> None:
    one_way = (Objective("one_way_delay", "p99", FORWARD, 60.0 * MS),)
    from ..rules.test_judge import plan_of

    for error, outcome in ((20 * MS, Outcome.NO_DATA), (50 * MS, Outcome.INCONCLUSIVE)):
        taken = measured(NIGHT.records(), tmp_path / str(error), ends(0, 48 * MS, clock_error_ns=error))
        (finding,) = rules.judge(plan_of(*one_way), (taken,)).findings
        assert finding.outcome is outcome
        assert ("a clock was set by" in finding.because) is (outcome is Outcome.NO_DATA)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(-(10**10), 10**10), st.sampled_from([None, 0, 10 * MS]), st.integers(0, 10**6))
def test_a_constant_offset_changes_no_verdict_and_claims_no_asymmetry(
    offset: int, error: int | None, seed: int
) -> None:
    world = World(packets=1500, at=700, seed=seed, lost=0.01)
    plain = judge(stamp(summary(world.records(), LINES), 1000, ends(0, 0), stopped_by="fixed length"))
    rows = replace(world, offset_ns=offset).records()
    moved = judge(stamp(summary(rows, LINES), 1000, ends(0, 0, clock_error_ns=error), stopped_by="fixed length"))
    assert [finding.outcome for finding in moved.findings] == [finding.outcome for finding in plain.findings]
    claims = [note.sentence for note in moved.notes if note.kind == "asymmetry" and "one-way delay" in note.sentence]
    carried = error is not None and 2 * error < 2 * abs(offset) < 2 * (
        5 * MS + error
    )  # the bound's word against the packets'
    assert not claims or carried


@pytest.mark.parametrize("offset", [-40 * MS, -3 * MS, 0, 3 * MS, 40 * MS])
def test_negative_one_way_delays_are_explained(offset: int) -> None:
    rows = World(packets=1500, at=700, offset_ns=offset).records()
    taken = stamp(summary(rows), 1000, ends(0, 0, clock_error_ns=10 * MS), stopped_by="fixed length")
    text = said(judge(taken))
    assert ("Negative means: the clocks differ by more than the delay" in text) is (abs(offset) > 5 * MS)
    assert ("further than they claim" in text) is (abs(offset) > 5 * MS + 10 * MS)
