"""The rules on summaries made by hand: faults, hosts, clocks, directions, notes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from linkqual import rules
from linkqual.model import (
    Conditions,
    Decision,
    EndConditions,
    Fault,
    Link,
    Measurement,
    Objective,
    Outcome,
    Plan,
    Relation,
    Rule,
    Step,
    Verdict,
)
from linkqual.records import Records
from linkqual.stats.histogram import LogLinear

from ..scenarios.streams import (
    FORWARD,
    MS,
    REVERSE,
    ROUND_TRIP,
    START,
    Truth,
    goodput,
    number_arrivals,
    one,
    records,
    said,
    spread,
    stamp,
    steady,
    summary,
)

G = 10**9
LOSS = Objective("loss_ratio", "ratio", FORWARD, 1e-3)
LOSS_BACK = replace(LOSS, direction=REVERSE)
LOST = spread(40, 10_000)
ROWS = records(Truth(10_000, 1000, lost_forward=LOST))


def plan_of(*objectives: Objective, **more: object) -> Plan:
    return Plan("by hand", (), objectives, Link(**more))  # type: ignore[arg-type]


def conditions(near: dict[str, int] | None = None, far: dict[str, int] | None = None, **more: object) -> Conditions:
    return Conditions(EndConditions(drops=near or {}), EndConditions(drops=far or {}), **more)  # type: ignore[arg-type]


def judge(
    *objectives: Objective, rows: Records = ROWS, where: Conditions | None = None, rate: float = 1000, **more: object
) -> Verdict:
    return rules.judge(plan_of(*objectives), (stamp(summary(rows, objectives), rate, where, **more),))


# ---- hosts


def test_loss_of_the_line_fails() -> None:
    assert judge(LOSS).outcome is Outcome.FAIL


_SHARED, _OWN = ("dropped inside a host", "hosts drop nothing"), ("socket, which had no room", "rmem_max")


@pytest.mark.parametrize(
    ("drops", "words"),
    [
        ({"UdpRcvbufErrors": 35, "UdpInErrors": 35}, _SHARED),
        ({"socket_drops": 35}, _OWN),
        ({"softnet_dropped": 35}, _SHARED),
        ({"eth0:rx_fifo": 40}, _SHARED),
        ({"eth0:nic/rx_out_of_buffer": 40}, _SHARED),
    ],
)
def test_loss_the_far_host_may_have_caused_is_no_fail(drops: dict[str, int], words: tuple[str, str]) -> None:
    verdict = judge(LOSS, where=conditions(far=drops))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    (finding,) = verdict.findings
    assert words[0] in finding.because
    assert words[1] in finding.decide
    assert any(note.kind == "host" and note.weight == "warn" and "far end" in note.sentence for note in verdict.notes)


@pytest.mark.parametrize(
    ("near", "far"),
    [
        ({"UdpRcvbufErrors": 40}, {}),
        ({}, {"UdpRcvbufErrors": 5}),
        ({}, {"eth0:rx_dropped": 500}),
        ({}, {"UdpSndbufErrors": 99}),
        ({"lo:tx_dropped": 9}, {}),
    ],
)
def test_drops_that_cannot_explain_it_do_not_excuse_it(near: dict[str, int], far: dict[str, int]) -> None:
    assert judge(LOSS, where=conditions(near, far)).outcome is Outcome.FAIL


def test_a_fail_found_while_measuring_is_asked_the_same() -> None:
    decision = Decision(LOSS.key, Outcome.FAIL, 500, 2, 2, 1.0, "", LOSS.limit)
    assert judge(LOSS, decisions=(decision,)).findings[0].rule is Rule.SEQUENTIAL
    assert judge(LOSS, decisions=(decision,)).outcome is Outcome.FAIL
    some = judge(LOSS, where=conditions(far={"socket_drops": 5}), decisions=(decision,))
    assert some.outcome is Outcome.FAIL  # 35 remain
    assert (
        judge(LOSS, where=conditions(far={"socket_drops": 35}), decisions=(decision,)).outcome is Outcome.INCONCLUSIVE
    )


def test_a_fail_of_a_smaller_family_is_judged_again() -> None:
    early = Decision(LOSS.key, Outcome.FAIL, 500, 2, 2, 1.0, "", LOSS.limit, family=1)
    others = [replace(LOSS_BACK, limit=0.5) for _ in range(7)]
    assert judge(LOSS, *others, decisions=(early,)).findings[0].rule is Rule.EXACT
    assert judge(LOSS, *others, decisions=(replace(early, family=8),)).findings[0].rule is Rule.SEQUENTIAL


def test_an_early_decision_is_told_with_the_whole_run() -> None:
    failed = Decision(LOSS.key, Outcome.FAIL, 500, 2, 2, 1.0, "", LOSS.limit)
    assert "40 of 10,000 packets were lost (0.4 %), proven after 500 with 2: at least" in said(
        judge(LOSS, decisions=(failed,))
    )
    loose = replace(LOSS, limit=0.01)
    kept = Decision(loose.key, Outcome.PASS, 900, 4, 4, 1.0, "", loose.limit)
    assert "proven after 900 with 4: at most" in said(judge(loose, decisions=(kept,)))
    clean = Decision(LOSS_BACK.key, Outcome.PASS, 3327, 0, 0, 1.0, "", LOSS_BACK.limit)
    assert "none of 9,960 packets was lost, proven after 3,327: at most 9e-4" in said(
        judge(LOSS_BACK, decisions=(clean,))
    )


def test_host_drops_never_help_to_pass() -> None:
    few = records(Truth(10_000, 1000, lost_forward=spread(6, 10_000)))
    for drops in ({}, {"socket_drops": 6}):
        assert judge(LOSS, rows=few, where=conditions(far=drops)).outcome is Outcome.INCONCLUSIVE


def test_loss_of_unknown_direction_convicts_neither_and_acquits_neither() -> None:
    rows = ROWS.copy()
    rows["fate"][list(LOST)] = 3
    verdict = judge(LOSS, LOSS_BACK, replace(LOSS, direction=ROUND_TRIP), rows=rows)
    assert [found.outcome for found in verdict.findings] == [Outcome.INCONCLUSIVE, Outcome.INCONCLUSIVE, Outcome.FAIL]
    assert "direction that is not known" in said(verdict)


# ---- faults and what is missing


def faulty(fault: Fault, probe: str = "stamp") -> Measurement:
    return Measurement(Step(probe, probe), START, 0, fault=fault)


def test_a_fault_is_no_data_with_its_reason_and_hint() -> None:
    verdict = rules.judge(plan_of(LOSS), (faulty(Fault("refused", "the far end refused", "start the agent")),))
    (finding,) = verdict.findings
    assert (finding.outcome, finding.because, finding.decide) == (
        Outcome.NO_DATA,
        "the far end refused",
        "start the agent",
    )
    assert verdict.outcome is Outcome.NO_DATA


def test_what_was_measured_until_an_interruption_counts() -> None:
    cut = replace(stamp(summary(ROWS, (LOSS,)), 1000), fault=Fault("interrupted", "ended by Ctrl-C"))
    assert rules.judge(plan_of(LOSS), (cut,)).outcome is Outcome.FAIL
    nothing = replace(stamp(summary(ROWS[:0], (LOSS,)), 1000), fault=Fault("interrupted", "ended by Ctrl-C"))
    assert rules.judge(plan_of(LOSS), (nothing,)).findings[0].because == "ended by Ctrl-C"


def test_nothing_coming_through_at_all_is_no_data() -> None:
    dead = records(Truth(1000, 1000, lost_forward=tuple(range(1000))))
    verdict = judge(LOSS, LOSS_BACK, Objective("round_trip_delay", "p99", ROUND_TRIP, 9 * MS), rows=dead)
    assert {found.outcome for found in verdict.findings} == {Outcome.NO_DATA}
    assert "none of 1,000 packets came through" in said(verdict)
    assert "filter" in said(verdict)
    mute = records(Truth(1000, 1000, lost_reverse=tuple(range(1000))))
    verdict = judge(LOSS, LOSS_BACK, rows=mute)
    assert [found.outcome for found in verdict.findings] == [Outcome.INCONCLUSIVE, Outcome.NO_DATA]


def test_without_a_limit_it_is_shown_and_decides_nothing() -> None:
    shown = Objective("round_trip_delay", "p50", ROUND_TRIP, None, limit_text="rtt_budget")
    verdict = judge(shown, replace(LOSS, limit=0.1))
    assert [found.outcome for found in verdict.findings] == [Outcome.NOT_JUDGED, Outcome.PASS]
    assert verdict.outcome is Outcome.PASS
    assert verdict.findings[0].estimate is not None
    assert judge(shown).outcome is Outcome.NO_DATA


def test_an_unknown_metric_is_no_data() -> None:
    assert judge(Objective("colour", "p50", FORWARD, 1.0)).outcome is Outcome.NO_DATA


# ---- delays


def test_a_quantile_is_judged_by_its_share_and_shown_by_its_value() -> None:
    rows = records(
        Truth(20_000, 1000, ((0, 5 * MS), (0.98, 5.1 * MS), (0.981, 9 * MS), (1, 9.1 * MS)), ((0, 5 * MS), (1, 5 * MS)))
    )
    p99, p95 = (Objective("round_trip_delay", at, ROUND_TRIP, 12 * MS) for at in ("p99", "p95"))
    verdict = judge(p99, p95, rows=rows)
    assert [found.outcome for found in verdict.findings] == [Outcome.FAIL, Outcome.PASS]
    first = verdict.findings[0]
    assert first.estimate is not None
    assert first.estimate.low is not None
    assert 12 * MS < first.estimate.low <= (first.estimate.value or 0) <= (first.estimate.high or 0)
    assert "round trip p99 of 14.0" in first.because
    assert "took longer than 12 ms" in first.because
    assert "above the 1 % allowed" in first.because


def test_lost_packets_are_later_than_any_limit() -> None:
    rows = records(Truth(10_000, 1000, lost_forward=spread(300, 10_000)))
    verdict = judge(Objective("round_trip_delay", "p99", ROUND_TRIP, 50 * MS), rows=rows)
    assert verdict.outcome is Outcome.FAIL
    (finding,) = verdict.findings
    assert "300 of 10,000 packets took longer than 50 ms or were lost (3 %, all of them lost)" in finding.because
    assert finding.estimate is not None
    assert finding.estimate.value is None  # the 99th of a hundred packets never came
    shown = judge(Objective("round_trip_delay", "p99", ROUND_TRIP, None), rows=rows).findings[0]
    assert "no upper bound, it falls among lost packets" in shown.because


@pytest.mark.parametrize(
    ("statistic", "limit", "outcome"),
    [
        ("max", 12 * MS, Outcome.PASS),
        ("max", 11 * MS, Outcome.FAIL),
        ("min", 11.1 * MS, Outcome.PASS),
        ("mean", 11.3 * MS, Outcome.PASS),
        ("mean", 11.1 * MS, Outcome.FAIL),
    ],
)
def test_extremes_and_mean(statistic: str, limit: float, outcome: Outcome) -> None:
    assert judge(Objective("round_trip_delay", statistic, ROUND_TRIP, limit)).outcome is outcome


def test_a_family_asks_more_of_a_mean_too() -> None:
    made = summary(ROWS)
    limit = made.round_trip_delay.total / made.round_trip_delay.n - 1_700  # some two standard errors under the mean
    mean = Objective("round_trip_delay", "mean", ROUND_TRIP, limit)
    assert judge(mean, rate=100).outcome is Outcome.FAIL
    assert (
        judge(mean, *(replace(LOSS, limit=0.5) for _ in range(9)), rate=100).findings[0].outcome is Outcome.INCONCLUSIVE
    )


def test_a_mean_on_its_limit_is_open() -> None:
    made = summary(ROWS)
    mean = made.round_trip_delay.total / made.round_trip_delay.n
    assert judge(Objective("round_trip_delay", "mean", ROUND_TRIP, mean)).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("error", "same", "limit", "outcome"),
    [
        (None, False, 9 * MS, Outcome.NO_DATA),
        (MS, False, 9 * MS, Outcome.PASS),
        (MS, False, 3 * MS, Outcome.FAIL),
        (8 * MS, False, 9 * MS, Outcome.INCONCLUSIVE),
        (None, True, 5.75 * MS, Outcome.PASS),
    ],
)
def test_one_way_delay_needs_the_clocks(error: int | None, same: bool, limit: float, outcome: Outcome) -> None:
    where = conditions(clock_error_ns=error, same_clock=same)
    verdict = judge(Objective("one_way_delay", "p50", FORWARD, limit), where=where)
    assert verdict.outcome is outcome
    if outcome is Outcome.NO_DATA:
        assert "offset between both clocks" in verdict.findings[0].because


@pytest.mark.parametrize(("size", "effect"), [(1, 1), (4, 6.84)])
def test_late_packets_that_come_together_widen_the_interval(size: int, effect: float) -> None:
    rows = records(Truth(40_000, 100, ((0, 5 * MS), (1, 5.1 * MS))))
    slow = (np.arange(200)[:, None] * 199 + np.arange(size)).ravel()
    for name in ("far_received_ns", "far_sent_ns", "received_ns"):
        rows[name][slow] += np.linspace(3 * MS, 5 * MS, len(slow)).astype(int)
    (finding,) = judge(
        Objective("round_trip_delay", "p99", ROUND_TRIP, 12 * MS), rows=number_arrivals(rows), rate=100
    ).findings
    assert finding.estimate is not None
    assert ("independent looks" in finding.estimate.method) == (size > 1)
    assert f"design effect {effect})" in finding.estimate.method or size == 1
    assert finding.outcome is (Outcome.PASS if size == 1 else Outcome.FAIL)


def test_delays_at_a_high_rate_are_not_independent_looks() -> None:
    """4,000 packets in 0.2 s prove no p99.9; the same packets over 40 s do."""
    objective = Objective("round_trip_delay", "p99.9", ROUND_TRIP, 20 * MS)
    made = summary(records(Truth(4000)), (objective,))
    fast, slow = (rules.judge(plan_of(objective), (stamp(made, rate),)) for rate in (20_000, 100))
    assert fast.outcome is Outcome.INCONCLUSIVE
    assert slow.outcome is Outcome.PASS


# ---- goodput

RATE = Objective("throughput", "p10", FORWARD, 0.9 * G, Relation.AT_LEAST)


def loads(*measurements: Measurement) -> Verdict:
    return rules.judge(plan_of(RATE), measurements)


def test_goodput_is_judged_on_the_load_with_the_most_streams() -> None:
    verdict = loads(
        goodput(FORWARD, steady(0.4 * G, 60), 1),
        goodput(FORWARD, steady(0.95 * G, 60), 8),
        goodput(REVERSE, steady(0.1 * G, 60), 16),
    )
    assert verdict.outcome is Outcome.PASS
    assert verdict.findings[0].step == "throughput/forward/8"
    assert "none of 60 seconds was below 900 Mbit/s" in verdict.findings[0].because
    assert "1 stream reaches 40" in said(verdict)


@pytest.mark.parametrize(
    ("slow", "seconds", "outcome"),
    [
        (0, 20, Outcome.INCONCLUSIVE),
        (0, 60, Outcome.PASS),
        (2, 120, Outcome.PASS),
        (40, 60, Outcome.FAIL),
        (4, 60, Outcome.INCONCLUSIVE),
    ],
)
def test_slow_seconds(slow: int, seconds: int, outcome: Outcome) -> None:
    bps = steady(0.95 * G, seconds)
    for place in spread(slow, seconds):
        bps[place] = 0.5 * G
    verdict = loads(goodput(FORWARD, bps))
    assert verdict.outcome is outcome
    if outcome is Outcome.INCONCLUSIVE:
        assert "more seconds" in verdict.findings[0].decide


@pytest.mark.parametrize(("seconds", "low", "high"), [(32, True, False), (60, True, True), (20, False, True)])
def test_an_interval_of_few_seconds_shows_the_side_that_proves(seconds: int, low: bool, high: bool) -> None:
    made = loads(goodput(FORWARD, steady(0.95 * G, seconds))).findings[0].estimate
    assert made is not None
    assert (made.low is not None, made.high is not None) == (low, high)


def test_goodput_that_failed_is_no_zero() -> None:
    busy = Measurement(
        Step("throughput/forward/8", "throughput", direction=FORWARD),
        START,
        0,
        fault=Fault("busy", "iperf3 is busy", "wait"),
    )
    verdict = loads(busy)
    assert verdict.outcome is Outcome.NO_DATA
    assert verdict.findings[0].estimate is None
    assert loads(goodput(FORWARD, [])).outcome is Outcome.NO_DATA
    assert loads(busy, goodput(FORWARD, steady(G, 60), 1)).outcome is Outcome.PASS  # less asked, still delivered


def test_a_decision_of_the_seconds_is_used() -> None:
    made = Decision(RATE.key, Outcome.INCONCLUSIVE, 25, 0, 0, 1.0, "", RATE.limit)
    verdict = loads(goodput(FORWARD, steady(G, 40), decisions=(made,)))
    assert (verdict.outcome, verdict.findings[0].rule) == (Outcome.INCONCLUSIVE, Rule.SEQUENTIAL)
    assert loads(goodput(FORWARD, steady(G, 40), decisions=(made,), stopped_by="fixed length")).outcome is Outcome.PASS


# ---- notes


def test_the_weaker_direction_is_named() -> None:
    text = said(
        rules.judge(plan_of(RATE), (goodput(FORWARD, steady(1.9 * G, 60)), goodput(REVERSE, steady(5.7 * G, 60))))
    )
    assert "1.9 Gbit/s forward and 5.7" in text
    assert "forward is the weaker direction by a factor of 3.0" in text


def test_a_pair_alike_is_called_alike() -> None:
    text = said(rules.judge(plan_of(RATE), (goodput(FORWARD, steady(410e6, 60)), goodput(REVERSE, steady(406e6, 60)))))
    assert "both directions are alike" in text
    assert "weaker" not in text


def test_jitter_of_one_direction_is_named() -> None:
    rough = records(Truth(20_000, 1000, reverse=((0, 5 * MS), (0.99, 5.2 * MS), (1, 9 * MS))))
    assert "reverse is the worse direction by a factor of" in said(judge(LOSS, rows=rough))
    assert "worse direction" not in said(judge(LOSS))


@pytest.mark.parametrize(
    ("error", "same", "word"),
    [
        (
            200_000,
            False,
            "-5.7 ms ± 400 µs by the clocks, asymmetric: reverse is longer by 5.3 ms at least, and it counts from 1.39 ms on",
        ),
        (8 * MS, False, "-5.7 ms ± 16 ms by the clocks, undetermined"),
        (0, True, "-5.7 ms by one clock, asymmetric: reverse is longer by 5.7 ms"),
        (None, False, "offset between both clocks is not known"),
    ],
)
def test_a_difference_of_one_way_delays_is_told_only_above_the_clocks(error: int | None, same: bool, word: str) -> None:
    rows = records(Truth(5000, 1000, ((0, 4.1 * MS), (1, 4.1 * MS)), ((0, 9.8 * MS), (1, 9.8 * MS))))
    text = said(judge(LOSS, rows=rows, where=conditions(clock_error_ns=error, same_clock=same)))
    assert word in text
    assert ("is longer" in text) == ("is longer" in word)


def test_odd_packets_are_mentioned() -> None:
    rows = records(Truth(5000, 1000, ((0, 5 * MS), (1, 9 * MS))))
    rows["forward_copies"][7] = 2
    rows["fate"][100:300] = 4
    made = replace(summary(number_arrivals(rows)), late=3)
    text = said(rules.judge(plan_of(LOSS), (stamp(made, 1000),)))
    assert "200 of 5,000 planned packets never left this host" in text
    assert "3 replies came after the timeout of 2 s" in text
    assert "came more than once: 2 forward, 0 reverse" in text
    assert "came out of order: " in text


def paced(rate: float, blocked_ns: int = 0, late_ns: int = 0, behind: int = 0) -> str:
    """Notes on a stream planned at 20 kpps; `behind`: packets that left late."""
    late = LogLinear()
    late.add(np.array([1_000] * (10_000 - behind) + [late_ns] * behind))
    (taken,) = (stamp(summary(ROWS), rate, lateness=late.data(), blocked_ns=blocked_ns),)
    taken = replace(taken, step=replace(taken.step, params={"rate_pps": 20_000}))
    return said(rules.judge(plan_of(LOSS), (taken,)))


def test_a_pace_that_was_not_kept_is_the_hosts() -> None:
    text = paced(5_000, late_ns=90 * G, behind=9_000)
    assert (
        "5 kpps were sent where 20 kpps were planned, the latest 90 s behind schedule; this host could not keep" in text
    )
    assert "not the line's" in text
    waited = paced(5_000, blocked_ns=G)
    assert "for 1 s as many packets were in flight as the receive buffers hold" in waited
    assert "this host could not" not in waited
    assert "30 ms or more behind schedule" in paced(20_000, late_ns=30 * MS, behind=200)
    kept = paced(19_900, late_ns=30 * MS, behind=20)
    assert "planned" not in kept
    assert "schedule" not in kept


def test_the_family_is_stated() -> None:
    assert judge(LOSS, LOSS_BACK).family.startswith("2 red lines")
    assert "Bonferroni" in judge(LOSS, LOSS_BACK).family
    assert judge(LOSS).family.startswith("one red line")


def test_a_family_asks_more_of_a_fail() -> None:
    rows = records(Truth(10_000, 1000, lost_forward=spread(17, 10_000)))
    alone, among = (
        judge(LOSS, rows=rows),
        judge(
            LOSS,
            *(replace(LOSS, confidence=0.95, limit=0.5, direction=REVERSE, statistic="ratio") for _ in range(7)),
            rows=rows,
        ),
    )
    assert alone.outcome is Outcome.FAIL
    assert among.findings[0].outcome is Outcome.INCONCLUSIVE
    assert "with 8 red lines a FAIL needs 99.38 %" in among.findings[0].because
    assert one(alone, LOSS.key) is alone.findings[0]


@pytest.mark.parametrize("word", ["may have possibly", "nan", "None", "  ", ".."])
def test_sentences_are_clean(word: str) -> None:
    verdict = judge(
        LOSS,
        LOSS_BACK,
        Objective("pdv", "p99.9", FORWARD, MS),
        Objective("ipdv", "p99", REVERSE, MS),
        Objective("duplicate_ratio", "ratio", FORWARD, 0.1),
        where=conditions(far={"socket_drops": 3}),
    )
    assert word not in said(verdict)
