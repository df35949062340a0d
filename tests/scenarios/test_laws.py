"""Laws that hold for every report, on seeded streams of packets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual import rules
from linkqual.model import Direction, Objective, Outcome, Plan, StampResult, Verdict
from linkqual.records import ABSENT, Fate, Records
from linkqual.stats.summary import merge
from linkqual.watch import Watch

from .streams import FORWARD, MS, REVERSE, ROUND_TRIP, Truth, number_arrivals, one, plan_of, records, stamp, summary

OBJECTIVES = (
    Objective("loss_ratio", "ratio", FORWARD, 0.01),
    Objective("loss_ratio", "ratio", REVERSE, 0.01),
    Objective("round_trip_delay", "p50", ROUND_TRIP, 11.3 * MS),
    Objective("round_trip_delay", "p99", ROUND_TRIP, 12.4 * MS),
    Objective("pdv", "p99.9", FORWARD, 1.5 * MS),
    Objective("reordered_ratio", "ratio", FORWARD, 0.05, required=False),
)
PLAN = replace(plan_of(), objectives=OBJECTIVES, profile="laws")
CURVE = ((0, 5.2 * MS), (0.9, 5.7 * MS), (0.995, 6.1 * MS), (1, 7 * MS))
SEVERITY = {Outcome.PASS: 0, Outcome.INCONCLUSIVE: 1, Outcome.FAIL: 2}

few = settings(max_examples=15, deadline=None)


@st.composite
def lines(draw: st.DrawFn, most: int = 3000) -> Records:
    """A line with any loss, in singles or in bursts, both ways."""
    n = draw(st.integers(200, most))
    seed = draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    lost = []
    for _ in range(2):
        starts = rng.choice(n, draw(st.sampled_from([0, 1, 3, n // 50, n // 10])), replace=False)
        size = draw(st.integers(1, 6))
        where = np.unique((starts[:, None] + np.arange(size)).ravel())
        lost.append(where[where < n])
    both = np.setdiff1d(lost[1], lost[0])
    return records(Truth(n, 1000, CURVE, CURVE, tuple(lost[0]), tuple(both), seed=seed))


def verdict_of(rows: Records, plan: Plan = PLAN) -> Verdict:
    return rules.judge(plan, (stamp(summary(rows, plan.objectives), 1000),))


def outcomes(verdict: Verdict) -> list[tuple[str, Outcome]]:
    return [(found.objective.key, found.outcome) for found in verdict.findings]


@few
@given(lines(), st.sampled_from([-3_600 * 10**9, -48 * MS, 7, 1_500 * MS]))
def test_a_constant_clock_offset_changes_no_verdict(rows: Records, offset: int) -> None:
    shifted = rows.copy()
    for name in ("far_received_ns", "far_sent_ns"):
        shifted[name] = np.where(rows[name] == ABSENT, ABSENT, rows[name] + offset)
    assert outcomes(verdict_of(shifted)) == outcomes(verdict_of(rows))
    made, moved = summary(rows), summary(shifted)
    assert moved.round_trip_delay == made.round_trip_delay
    assert moved.loss == made.loss


@few
@given(lines(), st.floats(0, 1))
def test_split_and_merged_gives_the_same(rows: Records, at: float) -> None:
    cut = int(at * len(rows))
    joined = merge(summary(rows[:cut], OBJECTIVES), summary(rows[cut:], OBJECTIVES))
    whole = summary(rows, OBJECTIVES)
    assert (joined.sent, joined.received, joined.loss) == (whole.sent, whole.received, whole.loss)
    assert joined.round_trip_delay == whole.round_trip_delay  # extremes and quantiles
    plain = replace(
        PLAN, objectives=tuple(each for each in OBJECTIVES if each.metric != "pdv")
    )  # judged against its own minimum
    assert outcomes(rules.judge(plain, (stamp(joined, 1000),))) == outcomes(rules.judge(plain, (stamp(whole, 1000),)))


@few
@given(lines(), st.integers(1, 5))
def test_duplicates_never_lower_loss(rows: Records, copies: int) -> None:
    twice = rows.copy()
    came = twice["fate"] == Fate.RECEIVED
    twice["forward_copies"][came] = copies
    twice["reverse_copies"][came] = copies
    assert summary(twice).loss == summary(rows).loss
    assert outcomes(verdict_of(twice)) == outcomes(verdict_of(rows))


@few
@given(lines(), st.integers(0, 2**32))
def test_reordering_never_raises_loss(rows: Records, seed: int) -> None:
    late = rows.copy()
    came = np.flatnonzero(late["fate"] == Fate.RECEIVED)
    chosen = np.random.default_rng(seed).choice(came, len(came) // 5, replace=False)
    for name in ("far_received_ns", "far_sent_ns", "received_ns"):
        late[name][chosen] += 5 * MS
    late = number_arrivals(late)
    assert summary(late).reordered_forward > 0
    assert summary(late).loss == summary(rows).loss


@few
@given(lines(), st.floats(0.2, 5))
def test_another_limit_needs_no_other_measurement(rows: Records, factor: float) -> None:
    """The stored summary judged against new limits says what a summary made for them says, to within a bucket."""
    stored = summary(rows, OBJECTIVES)
    changed = replace(
        PLAN,
        objectives=tuple(
            replace(each, limit=(each.limit or 0) * factor) for each in OBJECTIVES if each.metric != "pdv"
        ),
    )
    again = rules.judge(changed, (stamp(stored, 1000),))
    fresh = rules.judge(changed, (stamp(summary(rows, changed.objectives), 1000),))
    for old, new in zip(again.findings, fresh.findings, strict=True):
        assert abs(SEVERITY[old.outcome] - SEVERITY[new.outcome]) <= 1, (old, new)
        if old.objective.metric == "loss_ratio":
            assert old == new


def test_a_changed_limit_changes_the_verdict() -> None:
    rows = records(Truth(3000, 1000, CURVE, CURVE))
    stored = summary(rows, OBJECTIVES)
    strict = replace(PLAN, objectives=(replace(OBJECTIVES[2], limit=10.5 * MS), replace(OBJECTIVES[0], limit=1e-6)))
    assert outcomes(verdict_of(rows))[2][1] is Outcome.PASS
    assert [found.outcome for found in rules.judge(strict, (stamp(stored, 1000),)).findings] == [
        Outcome.FAIL,
        Outcome.INCONCLUSIVE,
    ]


def test_a_decision_made_for_another_limit_is_not_used() -> None:
    rows = records(Truth(400, 1000, CURVE, CURVE))
    watch = Watch(OBJECTIVES, 1, rate_pps=1000)
    watch.add(rows)
    decisions = watch.decisions(final=True)
    assert {one.objective: one.outcome for one in decisions}["loss_ratio/forward/ratio"] is Outcome.PASS
    measured = stamp(summary(rows, OBJECTIVES), 1000, decisions=decisions)
    mine, stricter, surer = (
        replace(PLAN, objectives=(replace(OBJECTIVES[0], **change),))
        for change in ({}, {"limit": 1e-3}, {"confidence": 0.999})
    )
    assert rules.judge(mine, (measured,)).outcome is Outcome.PASS
    assert rules.judge(stricter, (measured,)).outcome is Outcome.INCONCLUSIVE
    assert rules.judge(surer, (measured,)).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("profile", ["training", "inference"])
def test_a_missing_metric_is_never_a_pass(profile: str) -> None:
    plan = plan_of(profile)
    verdict = rules.judge(plan, ())
    assert verdict.outcome is Outcome.NO_DATA
    assert {found.outcome for found in verdict.findings} == {Outcome.NO_DATA}
    assert all(found.because and found.decide for found in verdict.findings)


@few
@given(lines(), st.integers(0, 2**32), st.sampled_from([1, 10, 200]))
def test_more_loss_never_turns_a_fail_into_a_pass(rows: Records, seed: int, more: int) -> None:
    worse = rows.copy()
    came = np.flatnonzero(worse["fate"] == Fate.RECEIVED)
    gone = np.random.default_rng(seed).choice(came, min(more, len(came) - 1), replace=False)
    worse["fate"][gone] = Fate.LOST_FORWARD
    for name in ("far_received_ns", "far_sent_ns", "received_ns"):
        worse[name][gone] = ABSENT
    before, after = verdict_of(rows), verdict_of(number_arrivals(worse))
    for key in ("loss_ratio/forward/ratio", "round_trip_delay/round-trip/p50", "round_trip_delay/round-trip/p99"):
        if one(before, key).outcome is Outcome.FAIL:
            assert one(after, key).outcome is not Outcome.PASS
    fewer = summary(rows).loss["forward"]
    assert summary(worse).loss["forward"].bad > fewer.bad


@pytest.mark.parametrize("burst", [1, 4])
def test_a_stored_run_never_contradicts_its_own_pass(burst: int) -> None:
    """Stopped at its PASS and judged again by the exact bound, from the summary alone."""
    rng = np.random.default_rng(8)
    objective = Objective("loss_ratio", "ratio", FORWARD, 0.005, assumed_burst=float(burst))
    plan = replace(PLAN, objectives=(objective,))
    passes = 0
    for run in range(40):
        n = 30_000
        starts = np.flatnonzero(rng.random(n) < rng.choice([0.0003, 0.001, 0.003]) / burst)
        where = np.unique((starts[:, None] + np.arange(burst)).ravel())
        rows = records(Truth(n, 1000, lost_forward=tuple(where[where < n]), seed=run))
        watch = Watch((objective,), rate_pps=1000)
        watch.add(rows)
        (decision,) = watch.decisions(final=True)
        if decision.outcome is Outcome.PASS:
            passes += 1
            kept = summary(rows[: decision.n], (objective,))
            assert kept.loss["forward"].bad == decision.bad
            again = rules.judge(plan, (stamp(kept, 1000),))
            assert again.outcome is Outcome.PASS, (decision, again)
    assert passes > 15


def test_offline_and_again_it_is_the_same_verdict() -> None:
    rows = records(Truth(2000, 1000, CURVE, CURVE, tuple(range(0, 2000, 97))))
    assert verdict_of(rows) == verdict_of(rows.copy())
    assert isinstance(stamp(summary(rows)).stamp, StampResult)
    assert Direction.FORWARD is FORWARD
