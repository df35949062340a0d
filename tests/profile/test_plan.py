"""What a plan says would be sent, and why."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import linkqual.profiles as shipped
from linkqual.errors import InputError, UsageError
from linkqual.metrics import METRICS
from linkqual.model import FACTS, Direction, Link, Objective, Plan, Profile, Step, family_size
from linkqual.plan import ORDER, PlanOptions, as_json, describe, make
from linkqual.profile import parse

LINE = Link(name="上海 — 2", vendor="Example", cir_bps=10**10, mtu=1500, rtt_budget_ns=12_000_000)
TRAINING = parse(shipped.text("training"), "training.yaml")
INFERENCE = parse(shipped.text("inference"), "inference.yaml")


def step(plan: Plan, key: str) -> Step:
    return next(one for one in plan.steps if one.key == key)


def limits(plan: Plan) -> dict[str, float | None]:
    return {one.key: one.limit for one in plan.objectives}


def with_objectives(lines: str, probes: str = "") -> Profile:
    return parse(f"name: test\nobjectives:\n{lines}{probes}", "test.yaml")


def test_the_order_of_the_steps() -> None:
    keys = [one.key for one in make(TRAINING, LINE).steps if one.probe not in ("trains", "flows", "bursts")]
    ways = ("forward", "reverse")
    loads = [f"throughput/{direction}/{streams}" for streams in (1, 4, 16) for direction in ways]
    beside = ["throughput/both/16", *(f"throughput/{direction}/16/bbr" for direction in ways)]
    assert keys == ["path", "mtu", "members/forward", "members/reverse", "marking", "ping", "stamp", *loads, *beside]


def test_limits_are_those_of_the_line() -> None:
    found = limits(make(TRAINING, LINE))
    assert found["round_trip_delay/round-trip/p99"] == 12_000_000
    assert found["throughput/forward/p5"] == pytest.approx(0.95 * 9.414824447e9)
    assert found["loss_ratio/reverse/ratio"] == 1e-5


def test_what_is_not_known_is_measured_and_not_judged() -> None:
    plan = make(TRAINING, Link())
    unknown = {key for key, limit in limits(plan).items() if limit is None and "burst" not in key}
    assert unknown == {
        "round_trip_delay/round-trip/p50",
        "round_trip_delay/round-trip/p99",
        "throughput/forward/p5",
        "throughput/reverse/p5",
        "loaded_round_trip_delay/round-trip/p99",
        *(f"path_mtu/{way}/size" for way in ("forward", "reverse")),
        *(f"added_delay/{way}/p99" for way in ("forward", "reverse")),
        *(f"loaded_loss_ratio/{way}/ratio" for way in ("forward", "reverse")),
    }
    assert step(plan, "throughput/forward/16").offered_bps == 0
    assert any("--rtt-budget" in reason for reason in plan.reasons)
    assert any("--cir" in reason for reason in plan.reasons)


def test_the_good_line_is_decided_after_332858_packets() -> None:
    plan = make(TRAINING, LINE)
    stamp = step(plan, "stamp")
    assert stamp.packets == 2_000_000
    assert stamp.params["rate_pps"] == 20_000
    assert stamp.expected_ns == pytest.approx(332_858 / 20_000 * 1e9 + 3e9, rel=1e-3)
    assert stamp.offered_bps == 20_000 * 92 * 8
    assert stamp.total_bytes == 2 * 2_000_000 * 92
    assert any("332,858 packets" in reason for reason in plan.reasons)


def test_assumed_bursts_cost_as_many_packets_more() -> None:
    loss = "- {metric: loss_ratio, direction: both, limit: 1e-4, assumed_burst: 5, source: c}\n"
    plan = make(with_objectives(loss), Link())
    needs = {need["objective"]: need for need in as_json(plan)["red_lines"]}
    assert needs["loss_ratio/forward/ratio"]["good_line"] == pytest.approx(5 * 33_285, rel=1e-3)


def test_65_good_seconds_prove_p5() -> None:
    plan = make(TRAINING, LINE)
    for direction in ("forward", "reverse"):
        judged, shown = step(plan, f"throughput/{direction}/16"), step(plan, f"throughput/{direction}/1")
        assert judged.params["seconds"] == 65
        assert judged.params["cap_seconds"] == 218
        assert judged.params["judged"]
        assert judged.direction is Direction(direction)
        assert judged.duration_ns == (218 + 4 * 2 + 4 + 1) * 10**9  # four blocks, each with its warm-up and set-up
        assert shown.params["seconds"] == shown.params["cap_seconds"] == 5
        assert not shown.params["judged"]
        assert judged.params["beside_pps"] == shown.params["beside_pps"] == 500


def test_both_ways_at_once_load_each_at_its_own_rate() -> None:
    line = Link(cir_bps=100_000_000, cir_reverse_bps=20_000_000, mtu=1500)
    both = step(make(TRAINING, line), "throughput/both/16")
    assert both.direction is Direction.ROUND_TRIP
    assert both.offered_bps == 100_000_000
    assert both.total_bytes == (5 + 2) * 120_000_000 // 8
    assert set(both.params["allowed_bps"]) == {"forward", "reverse"}
    assert both.params["allowed_bps"]["forward"] == 5 * both.params["allowed_bps"]["reverse"]
    assert both.params["beside_pps"] == 271  # 92 octets each, a hundredth of the slower direction


def test_what_runs_beside_is_within_the_rate_allowed() -> None:
    for rate in (10**6, 10**7, 10**9):
        held = step(make(TRAINING, LINE, PlanOptions(max_rate_bps=rate)), "throughput/forward/16").params
        assert held["max_rate_bps"] + held["beside_pps"] * 92 * 8 <= rate
        assert held["max_rate_bps"] >= 0.98 * rate


def test_a_quick_plan_has_the_judged_loads_alone_as_short_as_proves_them() -> None:
    plan = make(TRAINING, LINE, PlanOptions(quick=True))
    loads = [one for one in plan.steps if one.probe == "throughput"]
    assert [one.key for one in loads] == ["throughput/forward/16", "throughput/reverse/16"]
    assert {(one.params["seconds"], one.params["cap_seconds"], one.params["fixed"]) for one in loads} == {
        (59, 59, True)
    }
    assert any("59 s without a slow one prove p5 at 95%, looked at once" in reason for reason in plan.reasons)
    assert any("quick: the judged loads alone" in reason for reason in plan.reasons)


def test_a_profile_may_leave_out_what_is_shown_beside() -> None:
    alone = with_objectives(
        "- {metric: throughput, statistic: p5, direction: both, limit: 1G, source: c}\n",
        "probes: {throughput: {streams: 8, both: false, compare: none}}",
    )
    assert [one.key for one in make(alone, LINE).steps] == ["throughput/forward/8", "throughput/reverse/8"]


def test_delay_under_load_may_need_a_longer_load() -> None:
    strict = with_objectives(
        "- {metric: loaded_round_trip_delay, statistic: p99.9, limit: 20 ms, source: c}\n"
        "- {metric: loaded_loss_ratio, direction: forward, limit: 1e-6, source: c}\n",
        "probes: {throughput: {block: 4 s, short: 4 s, cap: 30 s}}",
    )
    plan = make(strict, LINE)
    assert step(plan, "throughput/forward/16").params["seconds"] == 30
    assert any("would prove loaded_loss_ratio under load, and 15,000 are sent in 30 s" in one for one in plan.reasons)
    short = with_objectives(
        "- {metric: loaded_round_trip_delay, statistic: p99, limit: 20 ms, source: c}\n",
        "probes: {throughput: {block: 1 s, short: 4 s, warmup: 0 s}}",
    )
    assert 1 < step(make(short, LINE), "throughput/forward/16").params["seconds"] <= 4


def test_the_slower_direction_has_its_own_rate() -> None:
    plan = make(TRAINING, Link(cir_bps=10**9, cir_reverse_bps=10**8))
    assert step(plan, "throughput/forward/4").offered_bps == 10**9
    assert step(plan, "throughput/reverse/4").offered_bps == 10**8
    assert step(plan, "throughput/reverse/4").params["allowed_bps"] == pytest.approx(0.9414824e8)


def test_the_stamp_stream_takes_a_small_share_of_a_narrow_line() -> None:
    plan = make(TRAINING, Link(cir_bps=10**8, cir_reverse_bps=10**7))
    stamp = step(plan, "stamp")
    assert stamp.offered_bps <= 1.5e6
    assert stamp.offered_bps > 0.99 * 1.5e6
    assert any("15 % of the contracted 10 Mbit/s" in reason for reason in plan.reasons)
    asked = make(TRAINING, Link(cir_bps=10**8), PlanOptions(rate_pps=20_000))
    assert step(asked, "stamp").params["rate_pps"] == 20_000  # who asks for a rate gets it


def test_a_fixed_length_is_judged_once() -> None:
    plan = make(TRAINING, LINE, PlanOptions(duration_ns=60 * 10**9))
    stamp, load = step(plan, "stamp"), step(plan, "throughput/forward/16")
    assert stamp.packets == 60 * 20_000
    assert stamp.params["fixed"]
    assert (load.params["seconds"], load.params["cap_seconds"]) == (60, 60)
    assert any("fixed length" in reason for reason in plan.reasons)


def test_packets_in_flight_are_left_to_the_engine_unless_the_profile_says() -> None:
    assert not step(make(TRAINING, LINE), "stamp").params["window"]


def test_the_timeout_is_well_above_the_round_trip() -> None:
    plan = make(TRAINING, Link(rtt_budget_ns=800_000_000))
    assert step(plan, "stamp").params["timeout_ns"] == 3_200_000_000
    assert any("timeout raised" in reason for reason in plan.reasons)


def test_a_cap_too_low_to_prove_the_limit_is_said() -> None:
    plan = make(TRAINING, LINE, PlanOptions(packets=100_000))
    assert step(plan, "stamp").packets == 100_000
    assert any("too low to prove loss_ratio" in reason for reason in plan.reasons)
    slow = with_objectives(
        "- {metric: throughput, statistic: p10, direction: both, limit: 1G, source: c}\n",
        "probes: {throughput: {cap: 20 s, block: 10 s}}",
    )
    plan = make(slow, LINE)
    assert step(plan, "throughput/forward/16").params["seconds"] == 20
    assert any("it can only be refuted" in reason for reason in plan.reasons)


def test_a_packet_larger_than_the_mtu_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        make(TRAINING, LINE, PlanOptions(packet_bytes=1473))
    assert "does not fit the MTU of 1500 B" in caught.value.message
    assert caught.value.hint == "packet_bytes of at most 1472"
    make(TRAINING, LINE, PlanOptions(packet_bytes=1472))
    with pytest.raises(InputError):
        make(TRAINING, LINE, PlanOptions(packet_bytes=1472, ip_version=6))


def test_a_rate_cap_below_the_limit_takes_the_judgement_away() -> None:
    plan = make(TRAINING, LINE, PlanOptions(max_rate_bps=10**9))
    assert limits(plan)["throughput/forward/p5"] is None
    assert step(plan, "throughput/forward/16").params["max_rate_bps"] == 10**9 - 500 * 92 * 8
    assert any("capped below" in reason for reason in plan.reasons)
    plan = make(TRAINING, Link(cir_bps=10**8), PlanOptions(max_rate_bps=10**9))
    assert limits(plan)["throughput/forward/p5"] is not None


def test_bytes_allowed_cut_the_extensions_and_nothing_else() -> None:
    line = Link(cir_bps=10**9, mtu=1500)
    free = make(TRAINING, line)
    tight = make(TRAINING, line, PlanOptions(max_bytes=26 * 10**9))
    assert free.total_bytes > 26 * 10**9 >= tight.total_bytes
    assert step(tight, "throughput/forward/16").params["seconds"] == 65
    assert step(tight, "stamp") == step(free, "stamp")
    assert any("may stay undecided" in reason for reason in tight.reasons)
    with pytest.raises(UsageError) as caught:
        make(TRAINING, line, PlanOptions(max_bytes=10**9))
    assert "--skip throughput" in caught.value.hint
    with pytest.raises(UsageError) as caught:
        make(TRAINING, Link(), PlanOptions(max_bytes=10**12))
    assert "--cir" in caught.value.hint


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (PlanOptions(only=("stmp",)), "no probe is called 'stmp'"),
        (PlanOptions(packets=10, duration_ns=10**9), "a number of packets and a fixed length contradict each other"),
        (PlanOptions(skip=("iperf3",)), "no probe is called 'iperf3'"),
        (PlanOptions(only=("stamp",), skip=("stamp",)), "stamp is both asked for and skipped"),
        (PlanOptions(skip=ORDER), "nothing is left to measure"),
    ],
)
def test_contradictory_options(options: PlanOptions, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        make(TRAINING, LINE, options)
    assert caught.value.message == said
    assert caught.value.hint


def test_a_skipped_probe_leaves_its_red_lines_without_data() -> None:
    plan = make(TRAINING, LINE, PlanOptions(skip=("throughput",)))
    assert [one.key for one in plan.steps if one.probe not in ("bursts", "members")] == [
        *("path", "mtu", "marking", "ping", "stamp")
    ]
    assert any("throughput is not run, so there will be no data" in reason for reason in plan.reasons)
    assert limits(plan)["throughput/forward/p5"] is not None  # still asked: NO DATA, never a pass


def test_limits_that_cross_on_this_line_are_remarked() -> None:
    profile = with_objectives(
        "- {metric: round_trip_delay, statistic: p50, limit: rtt_budget, source: c}\n"
        "- {metric: round_trip_delay, statistic: p99, limit: 5 ms, source: c}\n"
    )
    assert any("lies below that of p50" in reason for reason in make(profile, LINE).reasons)
    assert not any("lies below" in reason for reason in make(profile, Link(rtt_budget_ns=4_000_000)).reasons)


def test_the_inference_budget_replaces_the_reference() -> None:
    key = "round_trip_delay/round-trip/p99"
    assert limits(make(INFERENCE, Link()))[key] == 5_000_000
    assert limits(make(INFERENCE, Link(rtt_budget_ns=8_000_000)))[key] == 8_000_000
    assert not any("lies below" in reason for reason in make(INFERENCE, LINE).reasons)


def test_the_family_counts_required_limits_only() -> None:
    known, unknown = (make(TRAINING, line).objectives for line in (LINE, Link()))
    required = [one.key for one in known if one.required and one.limit is not None and one.metric not in FACTS]
    assert family_size(known) == len(required)
    assert len(required) - family_size(unknown) == len(
        [key for key in required if "throughput" in key or "trip_delay" in key or "burst" in key]
    )
    assert family_size(()) == 1


def test_a_required_marking_takes_no_share_of_the_error() -> None:
    """One changed packet is a fact: no chance makes a line that keeps its markings fail."""
    marking = Objective("marking", "DSCP", Direction.FORWARD, 0, limit_text="keep all")
    size = Objective("path_mtu", "size", Direction.FORWARD, 1500, limit_text="mtu")
    loss = Objective("loss_ratio", "ratio", Direction.FORWARD, 1e-5)
    assert family_size((loss, marking, size)) == family_size((loss,)) == 1


@pytest.mark.parametrize("profile", [TRAINING, INFERENCE], ids=lambda profile: profile.name)
@pytest.mark.parametrize("line", [LINE, Link()], ids=["known", "unknown"])
def test_words_and_numbers(profile: Profile, line: Link) -> None:
    plan = make(profile, line)
    text = "\n".join(describe(plan))
    assert text.startswith(f"{profile.name} on {line.name}")
    for objective in plan.objectives:
        assert str(objective.direction) in text or "round trip" in text
    assert all(reason in text for reason in plan.reasons)
    said = as_json(plan)
    assert json.loads(json.dumps(said, allow_nan=False)) == said
    assert said["bad_line_ns"] < said["good_line_ns"] < said["at_most_ns"]
    told = {need["objective"] for need in said["red_lines"]} | {*said["compared_at_end"], *said["not_judged"]}
    assert told == set(limits(plan))


def test_a_plan_sends_what_its_steps_send() -> None:
    plan = make(TRAINING, LINE)
    assert plan.total_bytes == sum(one.total_bytes for one in plan.steps)
    assert plan.expected_ns < plan.total_ns
    assert all(one.expected_ns <= one.duration_ns for one in plan.steps)


def test_a_mix_of_sizes_counts_with_its_mean_and_must_fit_with_its_largest() -> None:
    mix = {"packet_bytes": 1400, "mix": [[64, 7], [594, 4], [1400, 1]]}
    profile = replace(TRAINING, probes={"stamp": TRAINING.probes["stamp"] | mix})
    mean = (7 * 64 + 4 * 594 + 1400) / 12 + 28
    (step,) = make(profile, LINE, PlanOptions(rate_pps=1000)).steps
    assert step.offered_bps == round(1000 * mean * 8)
    assert step.total_bytes == round(2 * (step.packets or 0) * mean)
    assert (step.params["packet_bytes"], step.params["mix"]) == (1400, mix["mix"])
    assert any("64, 594 and 1,400 B as 7:4:1 (352 B on average)" in line for line in describe(make(profile, LINE)))
    with pytest.raises(InputError, match="1400 B is 1428 B"):
        make(profile, replace(LINE, mtu=1300))
    (single,) = make(profile, LINE, PlanOptions(packet_bytes=100)).steps
    assert "mix" not in single.params


def test_signed_packets_need_room() -> None:
    profile = replace(TRAINING, probes={"stamp": TRAINING.probes["stamp"] | {"authenticated": True}})
    plan = make(profile, LINE)
    assert plan.steps[0].params["packet_bytes"] == 112 + 20 + 20
    assert "have no room for the signatures" in " ".join(plan.reasons)
    with pytest.raises(InputError, match="153 B"):
        make(profile, LINE, PlanOptions(packet_bytes=153))


def test_a_reflector_answers_probes_and_nothing_else() -> None:
    plan = make(TRAINING, LINE, PlanOptions(reflector=True))
    assert {step.probe for step in plan.steps} <= {"path", "ping", "stamp"}
    (step,) = (step for step in plan.steps if step.probe == "stamp")
    assert (step.params["far_end"], step.params["packet_bytes"]) == ("reflector", 44 + 20 + 16 + 8)
    assert step.params["rate_pps"] == 1000
    (asked,) = make(TRAINING, LINE, PlanOptions(reflector=True, rate_pps=5000, only=("stamp",))).steps
    assert asked.params["rate_pps"] == 5000
    assert "throughput is left out" in " ".join(plan.reasons)
    with pytest.raises(UsageError, match="throughput needs our agent"):
        make(TRAINING, LINE, PlanOptions(reflector=True, only=("throughput",)))
    signed = replace(TRAINING, probes={"stamp": TRAINING.probes["stamp"] | {"authenticated": True}})
    with pytest.raises(UsageError, match="authenticated"):
        make(signed, LINE, PlanOptions(reflector=True))
    keyed = make(signed, LINE, PlanOptions(reflector=True, reflector_key=True))
    assert keyed.steps[0].params["packet_bytes"] == 112 + 20 + 20 + 16 + 8


def test_what_is_judged_is_not_compared_with_itself() -> None:
    keys = [one.key for one in make(TRAINING, LINE, PlanOptions(congestion_control="bbr")).steps]
    assert "throughput/forward/16" in keys
    assert "throughput/forward/16/bbr" not in keys


def test_a_day_of_load_is_cut_into_tests_whose_documents_stay_readable() -> None:
    day = 86_400
    load = step(make(TRAINING, LINE, PlanOptions(duration_ns=day * 10**9)), "throughput/forward/16")
    assert (load.params["seconds"], load.params["least_seconds"], load.params["cap_seconds"]) == (3600, day, day)
    assert load.duration_ns == (day + 24 * 2 + 24 + 1) * 10**9
    assert load.total_bytes == (day + 24 * 2) * 10**10 // 8
    slow = step(make(TRAINING, LINE, PlanOptions(duration_ns=day * 10**9, duty=0.5)), "throughput/forward/16")
    assert slow.params["seconds"] < 3600
    assert slow.params["least_seconds"] == day


def test_a_plan_of_some_probes_lists_their_red_lines_and_counts_the_others() -> None:
    plan = make(TRAINING, LINE, PlanOptions(only=("throughput",)))
    text = describe(plan)
    assert not any("loss, forward" in line or "good packets" in line for line in text if "under load" not in line)
    assert any("goodput p5, forward" in line for line in text)
    others = sum(METRICS[one.metric].probe != "throughput" for one in plan.objectives)
    (said,) = [line for line in text if "that this run leaves out" in line]
    assert said.strip().startswith(f"{others} red lines belong to probes")
    told = as_json(plan)
    assert len(told["not_run"]) == others
    assert {one["objective"].split("/")[0] for one in told["red_lines"]} <= {
        one.metric for one in plan.objectives if METRICS[one.metric].probe == "throughput"
    }
    assert len(plan.objectives) == len(make(TRAINING, LINE).objectives)  # NO DATA, never left out of the verdict
    assert not any("that this run leaves out" in line for line in describe(make(TRAINING, LINE)))
