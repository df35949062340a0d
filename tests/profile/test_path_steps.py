"""The steps of the path MTU and of the members: how much, how fast, and what gives way."""

from __future__ import annotations

import pytest

from linkqual import profiles as shipped
from linkqual.errors import UsageError
from linkqual.model import Link, Step
from linkqual.plan import PlanOptions, make, members
from linkqual.profile import parse
from linkqual.session.routes import enough

TRAINING = parse(shipped.text("training"), "training.yaml")
ONLY = ("mtu", "members")


def steps(link: Link, **options: object) -> dict[str, Step]:
    return {step.key: step for step in make(TRAINING, link, PlanOptions(only=ONLY, **options)).steps}  # type: ignore[arg-type]


def test_both_stay_far_below_the_contract_and_the_cap() -> None:
    fast, slow = steps(Link(cir_bps=10**10)), steps(Link(cir_bps=50_000_000))
    assert [fast[key].offered_bps for key in ("mtu", "members/forward")] == [10_000_000, 16_000_000]
    assert {step.offered_bps for step in slow.values()} == {5_000_000}
    capped = steps(Link(cir_bps=10**10), max_rate_bps=2_000_000)
    assert {step.offered_bps for step in capped.values()} == {2_000_000}
    uneven = steps(Link(cir_bps=10**9, cir_reverse_bps=20_000_000))
    assert uneven["members/forward"].offered_bps == 16_000_000
    assert uneven["members/reverse"].offered_bps == uneven["mtu"].offered_bps == 2_000_000


def test_a_good_line_is_spared_the_further_rounds() -> None:
    whole = {step.key: step for step in make(TRAINING, Link(cir_bps=10**9), PlanOptions()).steps}
    step = whole["members/forward"]
    assert step.packets == 64 * 2500
    assert (step.params["first"], step.params["traces"]) == (members.FIRST, 0)
    assert step.expected_ns < 4 * 10**9 < step.duration_ns
    assert sum(one.expected_ns for key, one in whole.items() if key.partition("/")[0] in ONLY) <= 8 * 10**9


def test_flows_that_fare_alike_are_traced_only_where_members_are_asked_for() -> None:
    step = steps(Link(cir_bps=10**9))["members/forward"]
    assert step.params["traces"] == members.TRACES == enough(6)
    assert step.expected_ns == pytest.approx(4 * 10**9 + enough(1) * 1_200_000_000, rel=0.2)
    few = parse(
        "name: t\nprobes: {members: {flows: 8, traces: 5}}\nobjectives: [{metric: member_loss, direction: forward, limit: 1 %, source: s}]",
        "t",
    )
    assert make(few, Link(), PlanOptions()).steps[0].params["traces"] == 5


def test_packets_give_way_to_a_cap_on_bytes_down_to_the_first_round() -> None:
    step = steps(Link(cir_bps=10**9))["members/forward"]
    less = members.shorten(step, 10_000_000)
    assert step.total_bytes - 10_000_000 - 64 * 128 <= less.total_bytes <= step.total_bytes - 10_000_000
    least = members.shorten(step, 10**12)
    assert least.params["packets"] == members.FIRST
    assert least.total_bytes == 64 * members.FIRST * 128
    with pytest.raises(UsageError, match="shortest form"):
        steps(Link(cir_bps=10**9), max_bytes=1_000_000)


def test_what_only_looks_is_no_faster_than_a_narrow_line() -> None:
    def planned(cir_bps: int, **options: object) -> tuple[dict[str, Step], tuple[str, ...]]:
        made = make(TRAINING, Link(cir_bps=cir_bps), PlanOptions(only=("marking", "ping", "mtu"), **options))  # type: ignore[arg-type]
        return {step.key: step for step in made.steps}, made.reasons

    usual, said = planned(10**9)
    assert not any("contracted: it cannot go slower" in reason for reason in said)
    narrow, said = planned(2_000)
    for key in ("marking", "ping"):
        assert usual[key].offered_bps > narrow[key].offered_bps
        assert narrow[key].offered_bps in (1999, 2000)
        assert narrow[key].params["interval_ns"] > usual[key].params["interval_ns"]
        assert narrow[key].expected_ns > usual[key].expected_ns
    (remark,) = [reason for reason in said if "contracted: it cannot go slower" in reason]
    assert remark.startswith("mtu offers 100 kbit/s, more than the 2 kbit/s contracted")
    capped, _ = planned(10**9, max_rate_bps=100_000)
    assert capped["marking"].offered_bps <= 100_000
