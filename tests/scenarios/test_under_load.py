"""A11 and A4: a queue that a load fills in one direction, and directions that differ; with the given and with other figures."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from linkqual import rules
from linkqual.model import ClockState, Conditions, EndConditions, Link, Objective, Outcome, Verdict

from .streams import (
    FORWARD,
    MS,
    REVERSE,
    ROUND_TRIP,
    Truth,
    goodput,
    one,
    plan_of,
    records,
    said,
    stamp,
    steady,
    summary,
    under_load,
)

G, M = 10**9, 10**6
LINK = Link("Berlin - Oslo", cir_bps=100 * M, mtu=1500, rtt_budget_ns=12 * MS, near="Berlin", far="Oslo")
IDLE = ((0, 3.95 * MS), (0.5, 4.0 * MS), (0.985, 4.2 * MS), (1, 4.5 * MS))  # round trip p50 8.0, p99 8.6


def queue(p50: float, p99: float) -> tuple[tuple[float, float], ...]:
    """One-way delays (ns) with a standing queue of `p50` ms, at times `p99` ms, on top of 4 ms."""
    return (
        (0, 4 * MS),
        (0.2, (4 + p50 * 0.9) * MS),
        (0.5, (4 + p50) * MS),
        (0.99, (4 + p99) * MS),
        (1, (4 + p99 * 1.1) * MS),
    )


@cache
def bloated(profile: str, p50: float = 84, p99: float = 132, way: str = "forward", rate: float = 94e6) -> Verdict:
    """A line whose queue fills `way`; the other direction stays as it is, but for a millisecond."""
    plan = plan_of(profile, LINK)
    idle = Truth(500, 500, IDLE, IDLE)
    full, quiet = queue(p50, p99), tuple((q, at + 0.75 * MS) for q, at in IDLE)
    curves = (
        {FORWARD: (full, IDLE), REVERSE: (quiet, IDLE)}
        if way == "forward"
        else {FORWARD: (IDLE, quiet), REVERSE: (IDLE, full)}
    )
    loads = [
        under_load(each, steady(rate, 65), idle, Truth(5_000, 500, *curves[each], seed=3), plan.objectives, allowed_bps=94.15e6)
        for each in (FORWARD, REVERSE)
    ]  # fmt: skip
    line = records(Truth(50_000, 1000, IDLE, IDLE))
    return rules.judge(plan, (stamp(summary(line, plan.objectives), 1000), *loads))


def test_a11_delay_under_load_fails_inference_and_warns_of_training() -> None:
    verdict = bloated("inference")
    found = one(verdict, "loaded_round_trip_delay/round-trip/p99")
    assert found.outcome is Outcome.FAIL
    assert found.step == "throughput/forward/16"
    assert found.estimate is not None
    assert found.estimate.value == pytest.approx(140 * MS, rel=0.03)
    assert "16 streams forward, meanwhile round trip p99 of 1" in found.because
    assert one(verdict, "round_trip_delay/round-trip/p99").outcome is Outcome.PASS  # idle, it looks well
    assert verdict.outcome is Outcome.FAIL
    training = bloated("training")
    assert one(training, "loaded_round_trip_delay/round-trip/p99").outcome is Outcome.FAIL
    assert training.outcome is not Outcome.FAIL
    assert any(note.weight == "warn" and "advisory: 16 streams forward" in note.sentence for note in training.notes)


@pytest.mark.parametrize(
    ("p50", "p99", "way", "rate", "size", "site"),
    [(84, 132, "forward", 94e6, "987", "Berlin"), (200, 260, "forward", 47e6, "1.175 M", "Berlin"), (30, 45, "reverse", 94e6, "352", "Oslo")],
)  # fmt: skip
def test_a11_the_queue_is_named_with_its_place_and_size(
    p50: float, p99: float, way: str, rate: float, size: str, site: str
) -> None:
    (note,) = [each for each in bloated("inference", p50, p99, way, rate).notes if "a queue of about" in each.sentence]
    assert note.weight == "warn"
    assert f"are added {way} only" in note.sentence
    added = float(note.sentence.partition("only: a queue of about ")[2].split()[0])
    assert added == pytest.approx(p50, rel=0.02)
    held = float(note.sentence.partition(" = ")[2].split()[0])
    assert held == pytest.approx(float(size.split(maxsplit=1)[0]), rel=0.02)
    assert f"at the egress of {site}" in note.sentence
    assert "active queue management" in note.sentence
    assert "round trip" in note.sentence
    assert "(idle 8" in note.sentence


def test_a11_without_a_queue_nothing_is_said_of_one() -> None:
    verdict = bloated("inference", 0.5, 1.0)
    assert one(verdict, "loaded_round_trip_delay/round-trip/p99").outcome is Outcome.PASS
    assert "a queue of about" not in said(verdict)


def test_without_a_stream_beside_there_is_no_data() -> None:
    plan = plan_of("inference", LINK)
    verdict = rules.judge(plan, [goodput(way, steady(94e6, 65)) for way in (FORWARD, REVERSE)])
    found = one(verdict, "loaded_round_trip_delay/round-trip/p99")
    assert (found.outcome, found.step) == (Outcome.NO_DATA, "throughput/forward/16")
    assert "no STAMP stream ran beside the load" in found.because


def test_a_round_trip_under_load_is_proven_only_beside_both_directions() -> None:
    plan = plan_of("inference", LINK)
    seen = [
        under_load(
            way, steady(94e6, 65), Truth(500, 500, IDLE, IDLE), Truth(5_000, 500, IDLE, IDLE, seed=3), plan.objectives
        )
        for way in (FORWARD, REVERSE)
    ]
    key = "loaded_round_trip_delay/round-trip/p99"
    assert one(rules.judge(plan, seen), key).outcome is Outcome.PASS
    for others in ([], [goodput(REVERSE, steady(94e6, 65))]):
        found = one(rules.judge(plan, [seen[0], *others]), key)
        assert found.outcome is Outcome.INCONCLUSIVE
        assert "beside a load of the other direction nothing was seen" in found.because


ADDED = Objective("added_delay", "p99", FORWARD, 50 * MS)


def added_finding(conditions: Conditions, after_ms: float | None) -> Outcome:
    """Of 60 ms added, asked for at most 50, by clocks that moved so much meanwhile."""
    load = under_load(
        FORWARD, steady(94e6, 65), Truth(500, 500, IDLE, IDLE), Truth(5_000, 500, queue(40, 60), IDLE), (ADDED,), conditions=conditions
    )  # fmt: skip
    assert load.throughput is not None
    added = load.throughput.added["forward"]
    moved = None if after_ms is None else added.idle_ns + round(after_ms * MS)
    result = replace(load.throughput, added={"forward": replace(added, after_ns=moved)})
    plan = replace(plan_of("inference", LINK), objectives=(ADDED,))
    (found,) = rules.judge(plan, (replace(load, throughput=result, elapsed_ns=70 * G),)).findings
    assert found.estimate is not None
    assert found.estimate.value == pytest.approx(60 * MS, rel=0.02)
    return found.outcome


def test_clocks_that_drift_fail_no_line() -> None:
    apart = Conditions(near=EndConditions(clock=ClockState()), clock_error_ns=None)
    assert added_finding(Conditions(same_clock=True), 20) is Outcome.FAIL  # one clock: what stays is a queue
    assert added_finding(apart, 0.1) is Outcome.FAIL
    assert added_finding(apart, -12) is Outcome.INCONCLUSIVE
    assert added_finding(apart, None) is Outcome.FAIL  # 100 ppm of 70 s are 7 ms


# ---- A4


def both_ways(forward: float, reverse: float, link: Link, seconds: int = 65, **more: object) -> Verdict:
    plan = plan_of("training", link)
    rates = {FORWARD: forward, REVERSE: reverse}
    return rules.judge(plan, [goodput(way, steady(rates[way], seconds, ripple=0.01), **more) for way in rates])


CLOUDS = Link("cloud A - cloud B", near="cloud A", far="cloud B")


@pytest.mark.parametrize(
    ("forward", "reverse", "weaker", "factor", "site"),
    [(1.9e9, 5.7e9, "forward", "3.0", "cloud A"), (8e8, 5e8, "reverse", "1.6", "cloud B")],
)
def test_a4_the_weaker_direction_fails_with_its_factor(
    forward: float, reverse: float, weaker: str, factor: str, site: str
) -> None:
    verdict = both_ways(forward, reverse, CLOUDS)
    found = one(verdict, "rate_symmetry/round-trip/factor")
    assert found.outcome is Outcome.FAIL
    assert f"{weaker} is the weaker direction by a factor of {factor}" in found.because
    assert "receiver's median second" in found.because
    assert f"the egress of {site}: suspected, not proven" in found.because
    assert f"two hosts inside {site}" in found.decide
    assert verdict.outcome is Outcome.FAIL


def test_a4_the_control_pair_is_symmetric() -> None:
    found = one(both_ways(410e6, 406e6, CLOUDS), "rate_symmetry/round-trip/factor")
    assert found.outcome is Outcome.PASS
    assert "symmetric" in found.because


def test_a4_what_the_contract_allows_to_differ_is_no_asymmetry() -> None:
    unequal = Link("access", cir_bps=100 * M, cir_reverse_bps=20 * M, mtu=1500)
    found = one(both_ways(94e6, 18.8e6, unequal), "rate_symmetry/round-trip/factor")
    assert found.outcome is Outcome.PASS
    short = one(both_ways(94e6, 9.4e6, unequal), "rate_symmetry/round-trip/factor")
    assert short.outcome is Outcome.FAIL
    assert "each against its contracted rate" in short.because


def test_a4_few_seconds_or_a_busy_host_decide_nothing() -> None:
    assert (
        one(both_ways(1e9, 2e9, CLOUDS, seconds=4), "rate_symmetry/round-trip/factor").outcome is Outcome.INCONCLUSIVE
    )
    busy = one(both_ways(1e9, 2e9, CLOUDS, cpu_far=0.99, version="3.12"), "rate_symmetry/round-trip/factor")
    assert busy.outcome is Outcome.INCONCLUSIVE
    assert "the host may be the limit" in busy.because
    alone = rules.judge(plan_of("training", CLOUDS), [goodput(FORWARD, steady(1e9, 65))])
    assert one(alone, "rate_symmetry/round-trip/factor").outcome is Outcome.NO_DATA


def test_a4_a_direction_that_brings_nothing_fails_by_its_seconds_and_two_of_them_have_no_ratio() -> None:
    dead = one(both_ways(1e9, 0.0, CLOUDS), "rate_symmetry/round-trip/factor")
    assert dead.outcome is Outcome.FAIL
    assert "nothing came through reverse" in dead.because
    assert dead.estimate is not None
    assert dead.estimate.value is None  # a document holds no infinity
    few = one(both_ways(1e9, 0.0, CLOUDS, seconds=2), "rate_symmetry/round-trip/factor")
    assert few.outcome is Outcome.INCONCLUSIVE
    both = one(both_ways(0.0, 0.0, CLOUDS), "rate_symmetry/round-trip/factor")
    assert both.outcome is Outcome.INCONCLUSIVE
    assert "nothing came through either way" in both.because


# ---- which load is judged, what is shown beside


def test_the_judged_load_is_the_planned_one_and_never_bbr() -> None:
    plan = plan_of("training", LINK)
    loads = []
    for way in (FORWARD, REVERSE):
        for streams, cc, rate, judged in (
            (1, "cubic", 20e6, False),
            (16, "cubic", 60e6, True),
            (16, "bbr", 94e6, False),
        ):
            made = goodput(way, steady(rate, 65), streams, congestion_control=cc, allowed_bps=94.15e6)
            key = f"throughput/{way}/{streams}" + ("/bbr" if cc == "bbr" else "")
            params = {"judged": judged, "congestion_control": cc, "streams": streams}
            loads.append(replace(made, step=replace(made.step, key=key, params=params)))
    for order in (loads, loads[::-1]):
        verdict = rules.judge(plan, order)
        found = one(verdict, "throughput/forward/p5")
        assert (found.outcome, found.step) == (Outcome.FAIL, "throughput/forward/16")
        text = said(verdict)
        assert "forward, 16 streams of bbr reach 94 Mbit/s where cubic reaches 6" in text
        assert "bbr keeps its rate and hides that" in text


def test_both_directions_at_once_are_compared_with_each_alone() -> None:
    alone = [goodput(way, steady(94e6, 65)) for way in (FORWARD, REVERSE)]
    made = goodput(ROUND_TRIP, steady(94e6, 5))
    for back, sentence in ((steady(93e6, 5), "each carries its own"), (steady(50e6, 5), "take from each other")):
        assert made.throughput is not None
        both = replace(made, throughput_back=replace(made.throughput, receiver_bps=tuple(back)))
        verdict = rules.judge(plan_of("training", LINK), [*alone, both])
        (note,) = [each.sentence for each in verdict.notes if each.sentence.startswith("both directions at once")]
        assert sentence in note
        assert one(verdict, "throughput/forward/p5").step == "throughput/forward/16"
