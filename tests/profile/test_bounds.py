"""What bounds a plan's loads: bytes, rate, rests, and steps that run only when needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

import linkqual.profiles as shipped
from linkqual.errors import UsageError
from linkqual.model import Direction, Link, Plan, Step
from linkqual.plan import PlanOptions, make
from linkqual.plan.bounds import bounded, bytes_of, is_load, peak
from linkqual.profile import parse

TRAINING = parse(shipped.text("training"), "training.yaml")
LINE = Link(cir_bps=10**8, mtu=1500, rtt_budget_ns=20_000_000, in_service=False)
LOAD = Step("throughput/forward/4", "throughput", direction=Direction.FORWARD, offered_bps=10**8, total_bytes=10**9)
WHY = Step("services/configuration/forward", "services", {"when": "short"}, Direction.FORWARD, expected_ns=9, total_bytes=10**7, offered_bps=10**8)  # fmt: skip


def plan_of(*steps: Step) -> Plan:
    return Plan("p", steps, (), LINE)


def test_what_explains_costs_a_good_line_nothing() -> None:
    plan = bounded(plan_of(LOAD, WHY), PlanOptions())
    assert [step.key for step in plan.steps] == [LOAD.key, WHY.key]
    assert plan.steps[1].expected_ns == 0
    assert plan.total_bytes == 10**9 + 10**7  # at most
    assert any("runs only when the goodput falls short" in reason for reason in plan.reasons)


def test_asked_for_by_name_it_runs_always() -> None:
    plan = bounded(plan_of(WHY), PlanOptions(only=("services",)))
    assert plan.steps[0].params["when"] == "always"
    assert plan.steps[0].expected_ns == 9


def test_with_nothing_to_explain_it_is_left_out() -> None:
    plan = bounded(plan_of(WHY), PlanOptions())
    assert plan.steps == ()
    assert "--only services" in plan.reasons[0]


def test_no_step_offers_more_than_allowed() -> None:
    with pytest.raises(UsageError) as caught:
        bounded(plan_of(LOAD), PlanOptions(max_rate_bps=10**7))
    assert "offers 100 Mbit/s" in caught.value.message
    assert "--skip throughput" in caught.value.hint


@pytest.mark.parametrize("rate", [10**6, 3 * 10**6, 5 * 10**7])
@pytest.mark.parametrize("name", shipped.names())
def test_every_shipped_profile_stays_within_a_rate(name: str, rate: int) -> None:
    profile = parse(shipped.text(name), f"{name}.yaml")
    options, refused = PlanOptions(max_rate_bps=rate), None
    try:
        plan = make(profile, LINE, options)
    except UsageError as error:
        refused = error
    if refused is None:
        assert all(step.offered_bps <= rate for step in plan.steps)
    else:
        assert "--max-rate" in refused.hint  # a service of a contracted rate is not tested below it


def test_at_a_low_duty_tcp_comes_in_pulses_and_proves_as_much() -> None:
    free, slow = make(TRAINING, LINE), make(TRAINING, LINE, PlanOptions(duty=0.1))
    for one, pulsed in zip(free.steps, slow.steps, strict=True):
        assert one.key == pulsed.key
        if one.key == "stamp":
            assert pulsed.offered_bps <= 0.1 * (LINE.cir_bps or 0) < one.offered_bps  # all the time, so at that share
            continue
        if not is_load(one):
            assert one == pulsed
            continue
        assert pulsed.params["duty"] == 0.1
        longer = 1 if one.probe == "bursts" else 10  # bursts have silence between them anyway: only their period grows
        assert pulsed.duration_ns >= longer * one.duration_ns
        if one.probe == "throughput":
            assert pulsed.params["seconds"] <= 5 >= pulsed.params["block_seconds"]
            assert pulsed.params["least_seconds"] == one.params["seconds"]
            assert pulsed.params["cap_seconds"] == one.params["cap_seconds"]
    assert any("duty of 10 %" in reason for reason in slow.reasons)
    assert make(TRAINING, LINE, PlanOptions(duty=1.0)) == free


def test_the_probe_stream_keeps_to_a_duty_below_a_tenth() -> None:
    plan = make(TRAINING, LINE, PlanOptions(duty=0.02))
    stream = next(step for step in plan.steps if step.probe == "stamp")
    assert stream.offered_bps <= 0.02 * 10**8
    assert any("2 %, the duty, of the contracted" in reason for reason in plan.reasons)


def test_bytes_are_cut_from_the_extensions_then_from_what_only_explains() -> None:
    stream = Step("stamp", "stamp", {"enough": 1000, "rate_pps": 1000}, packets=5000, duration_ns=5 * 10**9, total_bytes=5000 * 200, offered_bps=800_000)  # fmt: skip
    whole = plan_of(stream, replace(LOAD, params={"cap_seconds": 10, "seconds": 10}), WHY)
    assert bounded(whole, PlanOptions(max_bytes=2 * 10**9)).total_bytes == whole.total_bytes
    tight = bounded(whole, PlanOptions(max_bytes=10**9 + 10**7 + 400_000))
    assert tight.steps[0].packets == 2000
    assert tight.steps[0].duration_ns == 2 * 10**9
    assert len(tight.steps) == 3
    tighter = bounded(whole, PlanOptions(max_bytes=10**9 + 200_000))
    assert [step.key for step in tighter.steps] == ["stamp", LOAD.key]
    assert any("left out to stay within" in reason for reason in tighter.reasons)
    with pytest.raises(UsageError) as caught:
        bounded(whole, PlanOptions(max_bytes=10**9))
    assert "the shortest form of this plan sends" in caught.value.message
    assert "--skip throughput" in caught.value.hint


def test_with_bytes_bounded_tcp_is_held_to_the_rate_they_were_reckoned_with() -> None:
    plan = bounded(plan_of(LOAD), PlanOptions(max_bytes=10**10))
    assert plan.steps[0].params["max_rate_bps"] == 10**8
    assert "max_rate_bps" not in bounded(plan_of(LOAD), PlanOptions()).steps[0].params


def test_bytes_cannot_be_bounded_without_a_rate() -> None:
    with pytest.raises(UsageError) as caught:
        bounded(plan_of(replace(LOAD, offered_bps=0)), PlanOptions(max_bytes=10**12))
    assert "not known without a rate" in caught.value.message
    assert "--cir or --max-rate" in caught.value.hint


def test_bytes_and_peaks_of_each_direction() -> None:
    both = Step("stamp", "stamp", total_bytes=1000, offered_bps=10**6)
    plan = plan_of(both, LOAD)
    assert [bytes_of(step, Direction.FORWARD) for step in plan.steps] == [500, 10**9]
    assert [bytes_of(step, Direction.REVERSE) for step in plan.steps] == [500, 0]
    assert peak(plan, Direction.FORWARD) == LOAD
    assert peak(plan, Direction.REVERSE) == both
    unknown = replace(LOAD, offered_bps=0)
    assert peak(plan_of(both, unknown), Direction.FORWARD) == unknown
    assert peak(plan_of(), Direction.FORWARD) is None
