"""Two clocks that drift apart never fail a line, and where its packets were kept they do not keep it from passing either."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from linkqual import rules, store
from linkqual.model import Conditions, Measurement, Objective, Outcome, Verdict
from linkqual.records import Records
from linkqual.recount import recounted, steadied
from linkqual.watch import Watch

from ..scenarios.streams import FORWARD, MS, REVERSE, Truth, records, stamp, summary
from .test_judge import plan_of

Keep = Callable[[Records], Path]
APART = Conditions()
JITTER = (Objective("pdv", "p99", FORWARD, 1.0 * MS), Objective("pdv", "p99", REVERSE, 1.0 * MS))
QUEUES = ((0, 5.5 * MS), (0.9, 5.7 * MS), (0.95, 9 * MS), (1, 12 * MS))  # a twentieth of all packets waits over 3 ms
GOOD = Truth(20_000, 100)  # 200 s
BAD = replace(GOOD, forward=QUEUES, reverse=QUEUES)
PACES = (0.0, 2e-5, -2e-5)


def between_clocks(truth: Truth, pace: float) -> Records:
    """The far clock gains `pace` ns a ns."""
    rows = records(truth)
    ahead = np.round(pace * (rows["sent_ns"] - rows["sent_ns"][0])).astype(np.int64)
    for name in ("far_received_ns", "far_sent_ns"):
        rows[name] += ahead
    return rows


def measured(rows: Records, conditions: Conditions = APART) -> Measurement:
    return stamp(summary(rows, JITTER), 100, conditions, stopped_by="fixed length")


def watched(rows: Records) -> Measurement:
    """With what was decided while the packets came, two clocks apart."""
    watch = Watch(JITTER, family=2, rate_pps=100)
    watch.add(rows)
    decisions = watch.decisions(final=True)
    return stamp(summary(rows, JITTER), 100, APART, decisions=decisions, stopped_by="cap", family=2)


def judge(measurement: Measurement) -> Verdict:
    return rules.judge(plan_of(*JITTER), (measurement,))


def outcomes(measurement: Measurement) -> set[Outcome]:
    return {each.outcome for each in judge(measurement).findings}


def clock_notes(measurement: Measurement) -> str:
    return " ".join(note.sentence for note in judge(measurement).notes if note.kind == "clock")


@pytest.fixture
def kept(tmp_path: Path) -> Keep:
    def keep(rows: Records) -> Path:
        run = store.Run(tmp_path / "run")
        writer = run.save_packets("stamp")
        writer.write(rows)
        writer.close()
        return run.folder

    return keep


@pytest.mark.parametrize("pace", PACES)
def test_a_good_line_never_fails_for_its_clocks(pace: float) -> None:
    taken = measured(between_clocks(GOOD, pace))
    assert outcomes(taken) == ({Outcome.PASS} if not pace else {Outcome.INCONCLUSIVE})
    if pace:
        finding = judge(taken).findings[0]
        assert "both clocks moved by up to" in finding.because
        assert "NTP or PTP" in finding.decide
        assert f"{'gains' if pace > 0 else 'loses'} 20 ppm" in clock_notes(taken)
    else:
        assert "ppm" not in clock_notes(taken)


@pytest.mark.parametrize("pace", PACES)
def test_a_second_count_lets_it_pass(pace: float, kept: Keep) -> None:
    rows = between_clocks(GOOD, pace)
    first, folder = measured(rows), kept(rows)
    again = steadied(folder, first, JITTER)
    assert outcomes(again) == {Outcome.PASS}
    assert recounted(folder, first, JITTER) == again
    assert (again == first) is not bool(pace)
    assert ("taken out of the one-way jitter" in clock_notes(again)) is bool(pace)


def test_packets_a_full_disk_did_not_keep_are_still_judged(kept: Keep) -> None:
    rows = between_clocks(GOOD, 0.0)
    first = measured(rows)
    assert recounted(kept(rows[: len(rows) // 2]), first, JITTER) is first


@pytest.mark.parametrize("pace", PACES)
def test_a_bad_line_fails_all_the_same(pace: float, kept: Keep) -> None:
    rows = between_clocks(BAD, pace)
    folder = kept(rows)
    assert outcomes(steadied(folder, measured(rows), JITTER)) == {Outcome.FAIL}
    assert outcomes(steadied(folder, watched(rows), JITTER)) == {Outcome.FAIL}


@pytest.mark.parametrize("pace", [1e-4, -1e-4])
def test_what_was_decided_for_the_clocks_is_decided_anew(pace: float, kept: Keep) -> None:
    rows = between_clocks(GOOD, pace)
    first = watched(rows)
    assert first.stamp is not None
    assert Outcome.FAIL in {each.outcome for each in first.stamp.decisions}
    assert Outcome.FAIL not in outcomes(first)
    assert outcomes(steadied(kept(rows), first, JITTER)) == {Outcome.PASS}


def test_with_one_clock_jitter_is_the_lines() -> None:
    assert outcomes(measured(between_clocks(GOOD, 2e-5), Conditions(same_clock=True))) == {Outcome.FAIL}


def test_clocks_that_agree_cannot_have_moved_further() -> None:
    rows = between_clocks(GOOD, 2e-5)
    assert outcomes(measured(rows, Conditions(clock_error_ns=100_000))) == {Outcome.FAIL}
    assert outcomes(measured(rows, Conditions(clock_error_ns=5 * MS))) == {Outcome.INCONCLUSIVE}


@pytest.mark.parametrize("statistic", ["max", "mean"])
def test_the_largest_and_the_mean_do_not_fail_for_clocks_either(statistic: str) -> None:
    line = (Objective("pdv", statistic, FORWARD, 1.0 * MS),)
    verdict = rules.judge(plan_of(*line), (stamp(summary(between_clocks(GOOD, 2e-5)), 100, APART),))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    verdict = rules.judge(plan_of(*line), (stamp(summary(between_clocks(replace(GOOD, seed=2), 0)), 100, APART),))
    assert verdict.outcome is Outcome.PASS


def test_a_packet_file_that_is_not_whole_is_no_use(kept: Keep) -> None:
    rows = between_clocks(GOOD, 2e-5)
    first = measured(rows)
    assert steadied(kept(rows[:-1]), first, JITTER) == first
