"""A30: an inference line whose one packet in a thousand is slow: a warning, and another yardstick than training."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from linkqual import rules
from linkqual.model import Measurement, Outcome, Plan, Verdict

from .streams import (
    FORWARD,
    MS,
    REVERSE,
    Truth,
    number_arrivals,
    one,
    plan_of,
    records,
    said,
    stamp,
    steady,
    summary,
    under_load,
)

N = 200_000


def loaded(p50: float, plan: Plan) -> list[Measurement]:
    """Both directions, which no load makes slower."""
    even = ((0, (p50 - 0.1) / 2 * MS), (1, (p50 + 0.1) / 2 * MS))
    beside = Truth(500, 500, even, even), Truth(5_000, 500, even, even)
    return [under_load(way, steady(1e9, 60), *beside, plan.objectives, streams=4) for way in (FORWARD, REVERSE)]


@cache
def line(p50: float, p99: float, p999: float, profile: str = "inference", lost: int = 1, rate: float = 5000) -> Verdict:
    """Round-trip quantiles in ms, all of the variation on the way there; slow packets apart from each other."""
    rows = records(Truth(N, rate))
    rng = np.random.default_rng(4)
    curve = np.array(
        [(0, p50 - 0.1), (0.5, p50), (0.99, p99), (0.9979, p99 + 0.001), (0.998, p999), (0.9995, p999), (1, p999 * 1.1)]
    )
    round_trip = (np.interp(rng.random(N), *curve.T) * MS).astype(np.int64)
    back = int((p50 - 0.1) / 2 * MS)
    rows["far_received_ns"] = rows["sent_ns"] + round_trip - back
    rows["far_sent_ns"] = rows["far_received_ns"] + 20_000
    rows["received_ns"] = rows["far_sent_ns"] + back
    gone = rng.choice(N, lost, replace=False)
    for name in ("far_received_ns", "far_sent_ns", "received_ns"):
        rows[name][gone] = -(2**63)
    rows["fate"][gone] = 1
    plan = plan_of(profile)
    loads = loaded(p50, plan)
    return rules.judge(plan, (stamp(summary(number_arrivals(rows), plan.objectives), rate), *loads))


def test_a30_p999_is_a_warning() -> None:
    verdict = line(4.1, 4.8, 22)
    outcomes = {at: one(verdict, f"round_trip_delay/round-trip/{at}") for at in ("p50", "p99", "p99.9")}
    assert outcomes["p50"].outcome is Outcome.PASS
    assert outcomes["p99"].outcome is Outcome.PASS
    assert outcomes["p99.9"].outcome is Outcome.FAIL
    assert not outcomes["p99.9"].objective.required
    assert verdict.outcome is Outcome.PASS
    warned = [note for note in verdict.notes if note.weight == "warn" and "p99.9" in note.sentence]
    assert any("advisory: round trip p99.9 of 2" in note.sentence for note in warned)
    for at, value in (("p50", 4.1), ("p99", 4.8), ("p99.9", 22)):
        estimate = outcomes[at].estimate
        assert estimate is not None
        assert estimate.value == pytest.approx(value * MS, rel=0.01)
    loss = one(verdict, "loss_ratio/forward/ratio")
    assert loss.outcome is Outcome.PASS
    assert "1 of 200,000 packets was lost (5e-6)" in loss.because


@pytest.mark.parametrize(("p50", "p99", "first"), [(4.1, 4.8, "12.3 ms"), (2.0, 2.5, "6 ms"), (4.5, 4.9, "13.5 ms")])
def test_a30_time_to_first_token(p50: float, p99: float, first: str) -> None:
    sentence = next(note.sentence for note in line(p50, p99, 22).notes if "first token" in note.sentence)
    digits = float(sentence.split(" ms at p50")[0].rsplit(" ", 1)[1])
    assert digits == pytest.approx(float(first.split(maxsplit=1)[0]), rel=0.002)
    assert "3 round trips" in sentence


def test_a30_training_is_a_different_yardstick() -> None:
    verdict = line(4.1, 4.8, 22, profile="training")
    assert "first token" not in said(verdict)
    assert one(verdict, "pdv/forward/p99.9").outcome is Outcome.FAIL  # 3 ms is asked, and required
    assert one(verdict, "round_trip_delay/round-trip/p50").outcome is Outcome.NOT_JUDGED  # no budget was given
    assert one(verdict, "loss_ratio/forward/ratio").outcome is Outcome.INCONCLUSIVE  # 1 of 200,000 says little of 1e-5
    assert verdict.outcome is Outcome.FAIL


@pytest.mark.parametrize(("p99", "outcome"), [(4.9, Outcome.PASS), (5.6, Outcome.FAIL)])
def test_a30_the_tail_that_is_required(p99: float, outcome: Outcome) -> None:
    verdict = line(4.1, p99, 9)
    assert one(verdict, "round_trip_delay/round-trip/p99").outcome is outcome
    assert one(verdict, "round_trip_delay/round-trip/p99.9").outcome is Outcome.PASS
    assert verdict.outcome is outcome


def test_an_advisory_limit_never_turns_it_red_and_a_required_one_does() -> None:
    verdict = line(4.1, 4.8, 22)
    objectives = tuple(replace(found.objective, required=True) for found in verdict.findings)
    plan = replace(plan_of("inference"), objectives=objectives)
    loads = loaded(4.1, plan)
    made = summary(records(Truth(N, 5000, ((0, 2 * MS), (0.99, 2.3 * MS), (0.998, 20 * MS), (1, 21 * MS)))), objectives)
    assert rules.judge(plan, (stamp(made, 5000), *loads)).outcome is Outcome.FAIL
