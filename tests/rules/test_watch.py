"""The watch: decisions while packets and seconds arrive."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual.model import Objective, Outcome, Relation
from linkqual.watch import Watch

from ..scenarios.streams import FORWARD, MS, REVERSE, ROUND_TRIP, Truth, plan_of, records, spread

G = 10**9
LOSS = Objective("loss_ratio", "ratio", FORWARD, 1e-3)
P99 = Objective("round_trip_delay", "p99", ROUND_TRIP, 12 * MS)
RATE = Objective("throughput", "p10", FORWARD, 0.9 * G, Relation.AT_LEAST)


def test_a_good_line_is_decided_at_the_packet_of_its_strictest_limit() -> None:
    watch = Watch((LOSS, P99), rate_pps=100)
    watch.add(records(Truth(3326)))
    assert not watch.decided
    assert len(watch.decisions()) == 1
    watch.add(records(Truth(1)))
    assert watch.decided
    loss, delay = watch.decisions()
    assert (loss.n, loss.bad, loss.outcome, loss.limit, loss.confidence) == (3327, 0, Outcome.PASS, 1e-3, 0.95)
    assert (delay.outcome, delay.n) == (Outcome.PASS, 332)


@pytest.mark.parametrize("one_clock", [True, False])
def test_jitter_between_two_clocks_ends_no_run(one_clock: bool) -> None:
    """What looks like jitter may be a clock that was set; with one clock the line is known to be bad."""
    jitter = Objective("pdv", "p99", FORWARD, 1.0 * MS)
    rows = records(Truth(3000))
    for name in ("far_received_ns", "far_sent_ns"):
        rows[name][1000:] += 48 * MS
    watch = Watch((jitter, LOSS), rate_pps=100, one_clock=one_clock)
    watch.add(rows)
    assert watch.decisions()[0].outcome is Outcome.FAIL
    assert watch.failed is one_clock


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 6000), max_size=6), st.sampled_from([0, 3, 40, 300]))
def test_chunks_change_no_decision(seed: int, cuts: list[int], lost: int) -> None:
    objectives = (
        LOSS,
        replace(LOSS, direction=REVERSE),
        P99,
        Objective("pdv", "p99.9", FORWARD, 0.19 * MS),
        Objective("ipdv", "p50", REVERSE, 0.05 * MS),
    )
    gone = np.random.default_rng(seed).choice(6000, lost, replace=False)
    rows = records(Truth(6000, lost_forward=tuple(gone), seed=seed))
    whole, parts = Watch(objectives, 3), Watch(objectives, 3)
    whole.add(rows)
    for part in np.split(rows, sorted(cuts)):
        parts.add(part)
    assert parts.decisions(final=True) == whole.decisions(final=True)


def test_what_cannot_be_decided_packet_by_packet_is_left_to_the_rules() -> None:
    others = (
        Objective("round_trip_delay", "max", ROUND_TRIP, 12 * MS), Objective("round_trip_delay", "mean", ROUND_TRIP, 12 * MS),
        Objective("one_way_delay", "p99", FORWARD, 12 * MS), Objective("reordered_ratio", "ratio", FORWARD, 1e-4),
        replace(P99, limit=None), replace(LOSS, limit=0.0), replace(LOSS, limit=1.0), Objective("colour", "p50", FORWARD, 1.0),
    )  # fmt: skip
    watch = Watch(others)
    watch.add(records(Truth(50)))
    assert not watch.decided
    assert watch.decisions(final=True) == ()
    assert watch.idle


def test_an_open_end_is_told_only_when_it_is_the_end() -> None:
    watch = Watch((LOSS, RATE))
    watch.add(records(Truth(100)))
    assert watch.decisions() == ()
    (open_,) = watch.decisions(final=True)
    assert open_.outcome is Outcome.INCONCLUSIVE
    assert "could still be up to" in open_.because


def test_seconds_of_goodput() -> None:
    watch = Watch((RATE, replace(RATE, direction=REVERSE)))
    watch.add_seconds(FORWARD, [G] * 31)
    assert not watch.decided
    watch.add_seconds(FORWARD, [G])
    watch.add_seconds(REVERSE, [0.5 * G] * 10)
    assert watch.decided
    forward, reverse = watch.decisions()
    assert (forward.outcome, forward.n) == (Outcome.PASS, 32)
    assert (reverse.outcome, reverse.n) == (Outcome.FAIL, 3)
    assert "were below 900 Mbit/s" in reverse.because


def test_fast_packets_share_a_queue() -> None:
    """At 20 kpps 100 packets are late together until seen otherwise: the p99.9 asks for as many as a loss ratio of 1e-5."""
    objective = Objective("pdv", "p99.9", FORWARD, 3 * MS)
    watch = Watch((objective,), rate_pps=20_000)
    rows = records(Truth(200_000))
    watch.add(rows)
    assert not watch.decided
    watch.add(rows)
    (decision,) = watch.decisions()
    assert (decision.n, decision.burst) == (332_858, 100.0)
    assert "100 packets go wrong together" in decision.because


def test_a_line_that_is_always_late_is_not_one_event() -> None:
    for rate, most in ((100, 1_000), (20_000, 100_000)):
        watch = Watch(
            (Objective("round_trip_delay", "p50", ROUND_TRIP, 10 * MS), replace(P99, limit=10 * MS)), 8, rate_pps=rate
        )
        watch.add(records(Truth(most)))
        assert [one.outcome for one in watch.decisions()] == [Outcome.FAIL, Outcome.FAIL], rate


def test_the_training_profile_is_decided_by_its_loss_limit() -> None:
    watch = Watch(plan_of("training").objectives, 6, rate_pps=20_000)
    lost = spread(60, 40_000)
    watch.add(records(Truth(40_000, 20_000, lost_reverse=lost)))
    outcomes = {one.objective: one.outcome for one in watch.decisions()}
    assert outcomes == {"loss_ratio/reverse/ratio": Outcome.FAIL}
