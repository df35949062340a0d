"""Verdicts against a reflector that is not ours: no loss and no delay of its own fails the line, nothing it cannot tell passes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkqual import plan as planner
from linkqual import rules
from linkqual.model import Conditions, Direction, EndConditions, Finding, Link, Objective, Outcome, Plan
from linkqual.plan import PlanOptions
from linkqual.records import ABSENT, Fate
from linkqual.reports import wording
from linkqual.rules.ledger import Address, ledger

from ..scenarios.streams import FORWARD, MS, REVERSE, ROUND_TRIP, Truth, load, records, spread, stamp, summary

PACKETS = 4_000
LOSS = {way: Objective("loss_ratio", "ratio", way, 1e-3) for way in Direction}


def judged(truth: Truth, objective: Objective, far_end: str, **far: str) -> Finding:
    rows = records(truth)
    if far_end == "stateless":
        lost = (rows["fate"] == Fate.LOST_FORWARD) | (rows["fate"] == Fate.LOST_REVERSE)
        rows["fate"][lost] = Fate.LOST
        rows["far_seq"] = ABSENT
    conditions = Conditions(far=EndConditions(stamps=far))
    taken = stamp(summary(rows, (objective,)), conditions=conditions, far_end=far_end)
    return rules.judge(Plan("test", (), (objective,), Link()), [taken]).findings[0]


@pytest.mark.parametrize(
    ("lost", "way", "far_end"), [(40, FORWARD, "stateful"), (300, ROUND_TRIP, "stateful"), (77, FORWARD, "stateless")]
)
def test_what_its_host_may_have_dropped_fails_no_line(lost: int, way: Direction, far_end: str) -> None:
    truth = Truth(PACKETS, lost_forward=spread(lost, PACKETS))
    assert judged(truth, LOSS[way], "agent").outcome is Outcome.FAIL
    found = judged(truth, LOSS[way], far_end)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "does not tell what it dropped itself" in found.because
    assert "with our agent" in found.decide


@pytest.mark.parametrize("far_end", ["stateful", "stateless"])
def test_what_it_numbered_and_never_came_back_may_lie_in_its_own_queue(far_end: str) -> None:
    truth = Truth(PACKETS, lost_reverse=spread(100, PACKETS))
    assert judged(truth, LOSS[REVERSE], far_end).outcome is Outcome.INCONCLUSIVE
    assert judged(truth, LOSS[REVERSE], "agent").outcome is Outcome.FAIL


@pytest.mark.parametrize("far_end", ["stateful", "stateless"])
def test_a_line_that_loses_nothing_passes_in_both_directions(far_end: str) -> None:
    for way in Direction:
        assert judged(Truth(PACKETS), LOSS[way], far_end).outcome is Outcome.PASS


def test_losses_without_a_direction_are_the_most_each_can_have_and_none_at_least() -> None:
    truth = Truth(PACKETS, lost_forward=spread(100, PACKETS))
    for way in (FORWARD, REVERSE):
        found = judged(truth, LOSS[way], "stateless")
        assert found.estimate is not None
        assert (found.estimate.low, found.estimate.value) == (0, 0.025)
        assert wording.value_words(found) == "≤ 2.5 %"
        assert wording.interval_words(found.estimate).startswith("≤ ")
    assert wording.value_words(judged(truth, LOSS[FORWARD], "stateful")) == "2.5 %"
    both = judged(truth, LOSS[ROUND_TRIP], "stateless").estimate
    assert both is not None
    assert (both.low or 0) > 0


@pytest.mark.parametrize("metric", ["reordered_ratio", "duplicate_ratio"])
@pytest.mark.parametrize("way", [FORWARD, REVERSE])
def test_copied_numbers_show_no_order_of_one_direction(metric: str, way: Direction) -> None:
    objective = Objective(metric, "ratio", way, 1e-3)
    found = judged(Truth(PACKETS), objective, "stateless")
    assert found.outcome is Outcome.NO_DATA
    assert "copies our numbers" in found.because
    assert judged(Truth(PACKETS), objective, "stateful").outcome is Outcome.PASS


def test_waiting_in_its_host_fails_no_delay() -> None:
    """The round trip of the truth is 11.0 to 11.4 ms."""
    near = Objective("round_trip_delay", "p50", ROUND_TRIP, 10.9 * MS)
    assert judged(Truth(PACKETS), near, "agent").outcome is Outcome.FAIL
    assert judged(Truth(PACKETS), near, "stateful", T2="hardware", T3="hardware").outcome is Outcome.FAIL
    found = judged(Truth(PACKETS), near, "stateful", T2="user", T3="kernel")
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "waited in its host" in found.because
    late = Truth(PACKETS, forward=((0, 5.5 * MS), (0.5, 5.7 * MS), (1, 90 * MS)))
    tail = replace(near, statistic="p99", limit=12.0 * MS)
    assert judged(late, tail, "agent").outcome is Outcome.FAIL
    assert judged(late, tail, "stateful").outcome is Outcome.INCONCLUSIVE


def test_a_line_whose_quickest_packet_is_too_slow_fails_all_the_same() -> None:
    for statistic in ("p50", "p99"):
        limit = Objective("round_trip_delay", statistic, ROUND_TRIP, 9.5 * MS)
        assert judged(Truth(PACKETS), limit, "stateful").outcome is Outcome.FAIL
        assert judged(Truth(PACKETS), replace(limit, limit=12.0 * MS), "stateful").outcome is Outcome.PASS


def test_every_loss_keeps_an_address() -> None:
    truth = Truth(PACKETS, lost_forward=spread(7, PACKETS), lost_reverse=(3, 4, 3_001))
    entries = ledger(stamp(summary(records(truth)), conditions=Conditions(), far_end="stateful"))
    assert [(entry.address, entry.way, entry.packets) for entry in entries] == [
        (Address.UNATTRIBUTED, FORWARD, 7),
        (Address.UNATTRIBUTED, REVERSE, 3),
    ]


def test_what_needs_our_agent_has_no_data_and_says_so() -> None:
    plan = planner.make(load("training"), Link(cir_bps=10**10, rtt_budget_ns=12 * MS), PlanOptions(reflector=True))
    verdict = rules.judge(plan, [stamp(summary(records(Truth(PACKETS)), plan.objectives), far_end="stateful")])
    missing = [one for one in verdict.findings if one.objective.metric in ("throughput", "marking")]
    assert missing
    for finding in missing:
        assert finding.outcome is Outcome.NO_DATA
        assert "needs our agent at the far end" in finding.because
    assert verdict.outcome is Outcome.NO_DATA
