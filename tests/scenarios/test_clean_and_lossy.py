"""A1, A2, A3: a clean hand-over, too few samples, loss just above the limit; with the given and with other figures."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from linkqual import rules
from linkqual.metrics import METRICS
from linkqual.model import Link, Outcome, Relation, Rule

from .streams import (
    FORWARD,
    MS,
    REVERSE,
    Truth,
    goodput,
    judge_line,
    one,
    plan_of,
    records,
    said,
    spread,
    stamp,
    steady,
    summary,
    under_load,
)

G = 10**9
LINK = Link("Frankfurt - Paris", cir_bps=10 * G, mtu=1500, rtt_budget_ns=12 * MS)
EVEN = ((0, 5.55 * MS), (0.5, 5.6 * MS), (0.99, 5.68 * MS), (1, 5.75 * MS))  # round trip p50 11.2, p99 11.4
QUIET, BUSY = Truth(500, 500, EVEN, EVEN), Truth(10_000, 500, EVEN, EVEN, seed=2)  # beside a load
FULL = [
    under_load(way, steady(9.41 * G, 1800, seed=seed), QUIET, BUSY, plan_of("training", LINK).objectives)
    for seed, way in ((1, FORWARD), (2, REVERSE))
]
MILLION = 1_000_000


def test_a1_clean_hand_over() -> None:
    verdict = judge_line(Truth(400_000, 100, EVEN, EVEN), link=LINK, loads=FULL)
    assert verdict.outcome is Outcome.PASS
    measured = [
        found
        for found in verdict.findings
        if METRICS[found.objective.metric].probe in ("stamp", "throughput") and found.objective.limit is not None
    ]
    assert len(measured) == 12
    assert {found.outcome for found in measured} == {Outcome.PASS}
    for way in (FORWARD, REVERSE):
        loss = one(verdict, f"loss_ratio/{way}/ratio")
        assert loss.estimate is not None
        assert loss.estimate.high == pytest.approx(7.489e-6, rel=1e-3)
        assert (loss.estimate.value, loss.estimate.n, loss.rule) == (0.0, 400_000, Rule.EXACT)
        assert "at most 7.49e-6 loss events a packet at 95 %" in loss.because
        assert "bursts of up to 1 packet on average" in loss.because
    middle, tail = (one(verdict, f"round_trip_delay/round-trip/{at}").estimate for at in ("p50", "p99"))
    assert middle is not None
    assert tail is not None
    assert middle.value == pytest.approx(11.2 * MS, rel=0.005)
    assert tail.value == pytest.approx(11.4 * MS, rel=0.01)
    assert middle.low is not None
    assert middle.low <= middle.value <= (middle.high or 0)


def test_a1_the_headers_take_their_share_and_no_more() -> None:
    verdict = judge_line(Truth(400_000, 100, EVEN, EVEN), link=LINK, loads=FULL)
    (note,) = [each.sentence for each in verdict.notes if each.sentence.startswith("forward goodput")]
    assert "9.41 Gbit/s is 94.1 % of the contracted 10 Gbit/s" in note
    assert "at MTU 1500 the headers leave 94.15 % of it" in note
    assert "this is the whole of it" in note
    assert "at MTU 9000 they would leave 99" in note
    assert not re.search(r"shortfall|short of|missing|only 94|loses? 6|\b6 %", said(verdict))


@pytest.mark.parametrize(
    ("rate", "mtu", "share"),
    [(1 * G, 1500, 0.9415), (10 * G, 9000, 0.9900), (100 * G, 9000, 0.99), (25 * G, 1438, 0.9390)],
)
def test_a1_other_rates_and_mtus(rate: int, mtu: int, share: float) -> None:
    loads = [goodput(way, steady(0.998 * share * rate, 120)) for way in (FORWARD, REVERSE)]
    verdict = judge_line(Truth(400_000, 1000, EVEN, EVEN), link=replace(LINK, cir_bps=rate, mtu=mtu), loads=loads)
    assert verdict.outcome is Outcome.PASS
    assert said(verdict).count("this is the whole of it") == 2


def test_a1_what_is_less_is_told_against_what_the_headers_allow() -> None:
    loads = [goodput(FORWARD, steady(7.6 * G, 120)), FULL[1]]
    verdict = judge_line(Truth(400_000, 1000, EVEN, EVEN), link=LINK, loads=loads)
    assert verdict.outcome is Outcome.FAIL
    assert "of which 80.7" in said(verdict)
    assert one(verdict, "throughput/reverse/p5").outcome is Outcome.PASS
    assert one(verdict, "throughput/forward/p5").outcome is Outcome.FAIL
    assert one(verdict, "throughput/forward/p5").objective.relation is Relation.AT_LEAST


# ---- A2


def test_a2_too_few_samples() -> None:
    verdict = judge_line(Truth(10_000, 100, EVEN, EVEN), link=LINK, loads=FULL)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    required = [found for found in verdict.findings if found.objective.required and found.objective.limit is not None]
    for found in required:
        expected = Outcome.INCONCLUSIVE if found.objective.metric == "loss_ratio" else Outcome.PASS
        assert found.outcome is expected, found
    loss = one(verdict, "loss_ratio/forward/ratio")
    assert "could still be up to 3e-4 at 95 %" in loss.because
    assert "289,572 more packets" in loss.decide
    assert "48 min" in loss.decide
    assert "at 100 pps" in loss.decide
    assert "8 h 02 min at 10 pps" in loss.decide
    assert "0 %" not in loss.because.replace("100 %", "")


@pytest.mark.parametrize(
    ("packets", "rate", "more", "time"),
    [(100_000, 1000, 199_572, "3 min 20 s at 1 kpps"), (299_571, 100, 1, "10 ms at 100 pps")],
)
def test_a2_other_figures(packets: int, rate: float, more: int, time: str) -> None:
    loss = one(judge_line(Truth(packets, rate, EVEN, EVEN), link=LINK, loads=FULL), "loss_ratio/reverse/ratio")
    assert loss.outcome is Outcome.INCONCLUSIVE
    assert f"{more:,} more packets" in loss.decide
    assert time in loss.decide


def test_a2_one_packet_more_decides() -> None:
    plan = plan_of("training", LINK)
    for packets, outcome in ((299_571, Outcome.INCONCLUSIVE), (299_572, Outcome.PASS)):
        verdict = rules.judge(plan, (stamp(summary(records(Truth(packets)), plan.objectives)), *FULL))
        assert one(verdict, "loss_ratio/forward/ratio").outcome is outcome


# ---- A3


def test_a3_loss_just_above() -> None:
    verdict = judge_line(Truth(MILLION, 1000, EVEN, EVEN, spread(22, MILLION)), link=LINK, loads=FULL)
    assert verdict.outcome is Outcome.FAIL
    loss = one(verdict, "loss_ratio/forward/ratio")
    assert "forward loss: 22 of 1,000,000 packets were lost (2.2e-5): at least 1.49e-5 at 95 %" in loss.because
    assert loss.estimate is not None
    assert loss.estimate.low is not None
    assert loss.estimate.low > 1e-5
    assert one(verdict, "loss_ratio/reverse/ratio").outcome is Outcome.PASS
    assert "22 of 1,000,000 on the way there, 0 of 999,978 on the way back" in said(verdict)


def test_a3_twelve_is_above_and_proves_nothing() -> None:
    verdict = judge_line(Truth(MILLION, 1000, EVEN, EVEN, spread(12, MILLION)), link=LINK, loads=FULL)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    loss = one(verdict, "loss_ratio/forward/ratio")
    assert loss.estimate is not None
    assert loss.estimate.value == 1.2e-5
    assert (loss.estimate.low or 1) < 1e-5 < (loss.estimate.high or 0)
    assert re.search(r"about 6,520,000 more packets, if the ratio stays as it is: 1 h 4\d min at 1 kpps", loss.decide)


@pytest.mark.parametrize(
    ("n", "rate", "size", "seconds"), [(MILLION, 110, 22, "190.9 ms"), (400_000, 1000, 40, "39 ms")]
)
def test_a3_one_burst_is_one_event(n: int, rate: float, size: int, seconds: str) -> None:
    verdict = judge_line(Truth(n, rate, EVEN, EVEN, tuple(range(200_000, 200_000 + size))), link=LINK, loads=FULL)
    assert verdict.outcome is Outcome.FAIL
    loss = one(verdict, "loss_ratio/forward/ratio")
    assert "all in one event" in loss.because
    assert "in this window" in loss.because
    assert "one event and not a rate" in loss.because
    assert f"it lasted {seconds}" in loss.because
    assert loss.estimate is not None
    assert "by loss event" in loss.estimate.method
    assert (loss.estimate.low or 0) < 1e-6  # one event in a million, not 22 packets
    assert (loss.estimate.high or 0) > 9e-5
    assert f"the longest event took {size} packets" in said(verdict)


def test_a3_on_the_way_back() -> None:
    lost = spread(30, 400_000)
    verdict = judge_line(Truth(400_000, 1000, EVEN, EVEN, lost_reverse=lost), link=LINK, loads=FULL)
    assert one(verdict, "loss_ratio/forward/ratio").outcome is Outcome.PASS
    assert one(verdict, "loss_ratio/reverse/ratio").outcome is Outcome.FAIL
    assert "reverse loss: 30 of 400,000" in one(verdict, "loss_ratio/reverse/ratio").because
