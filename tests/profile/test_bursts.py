"""The plan of training bursts: sizes from the line, from the profile, from a model; what bounds them; the limit in full."""

from __future__ import annotations

import re
from typing import Any

import pytest

from linkqual import plan, profile
from linkqual.errors import InputError, UsageError
from linkqual.model import Direction, Link, Plan
from linkqual.stats.confidence import trials_to_prove

MS, S = 1_000_000, 1_000_000_000
LINE = Link(cir_bps=10**9, mtu=1500, rtt_budget_ns=10 * MS)
TEXT = """
name: bursts
title: t
purpose: t
objectives: [{{metric: {}, statistic: {}, direction: both, limit: {}, source: test}}]
probes: {{bursts: {{{}}}}}
"""


def made(settings: str = "", link: Link = LINE, limit: str = "1.5 x ideal", **options: Any) -> Plan:
    text = TEXT.format("burst_completion", "p99", limit, settings)
    return plan.make(profile.parse(text, "test"), link, plan.PlanOptions(**options))


def way(of: Plan, direction: str = "forward") -> dict[str, Any]:
    found: dict[str, Any] = of.steps[0].params[direction]
    return found


def test_by_default_a_burst_is_three_milliseconds_of_the_contract() -> None:
    one = made()
    step, there = one.steps[0], way(one)
    assert there["ip_bytes"] * 8 * S * there["packets"] / there["pace_bps"] == pytest.approx(3 * MS, rel=0.05)
    assert there["pace_bps"] == int(1e9 * 1500 / 1538)
    assert there["payload_bytes"] == 1472
    assert step.direction is Direction.ROUND_TRIP
    assert step.offered_bps == there["pace_bps"]
    assert step.total_bytes == 1000 * 2 * there["packets"] * 1500 * 1.5
    assert step.expected_ns == pytest.approx(1000 * 1.1 * (3 * MS + 10 * MS), rel=0.3)
    assert any("299 without a late one prove p99 at 95%; of 1,000, 4 may be late" in why for why in one.reasons)


def test_each_direction_has_the_burst_of_its_own_rate() -> None:
    one = made(link=Link(cir_bps=10**9, cir_reverse_bps=10**8, mtu=9000))
    assert way(one)["packets"] > 5 * way(one, "reverse")["packets"]
    assert way(one)["ip_bytes"] == 9000


def test_the_limit_is_what_the_contract_lets_a_burst_take() -> None:
    objective = made("size: 2 MB").objectives[0]
    packets = -(-2_000_000 // 1472)
    assert objective.limit == pytest.approx(
        1.5 * packets * 1538 * 8, rel=1e-6
    )  # ns at 1 Gbit/s, counted with preamble and gap
    l3 = made("size: 2 MB", Link(cir_bps=10**9, rate_counts="l3")).objectives[0]
    assert l3.limit == pytest.approx(1.5 * packets * 1500 * 8, rel=1e-6)


def test_a_model_says_how_much_crosses_and_what_it_was_divided_by() -> None:
    line = Link(cir_bps=400 * 10**9, mtu=9000, rtt_budget_ns=10 * MS)
    one = made("params: 70e9, step: 30 s, sites: 2, ranks: 512, within: 5 min", line)
    said = next(why for why in one.reasons if "parameters" in why)
    assert "gradient of 140 GB" in said
    assert "2(2-1)/2 of it: 140 GB each way" in said
    assert "512 ranks" in said
    factor = float(re.search(r"divided by ([\d.]+)", said)[1])  # type: ignore[index]
    assert factor == 1000 * 30 / 300
    size = way(one)["packets"] * way(one)["payload_bytes"]
    assert size == pytest.approx(140e9 / factor, rel=1e-3)
    assert one.steps[0].params["period_ns"] == 30 * S / factor
    assert one.steps[0].params["source"] in said


def test_ten_billion_parameters_are_twenty_gigabytes_and_a_ring_sends_nearly_twice() -> None:
    line = Link(cir_bps=100 * 10**9)
    said = " ".join(made("params: 10e9, step: 5 s, collective: ring, ranks: 64", line).reasons)
    assert "gradient of 20 GB" in said
    assert "2(64-1)/64 of it: 39.38 GB each way" in said
    assert "a few hundred" not in said


def test_a_model_too_large_for_the_line_is_said_to_be() -> None:
    one = made("params: 7e9, step: 5 s")
    said = " ".join(one.reasons)
    assert "needs 114.8 s to send that, more than the step has" in said
    assert "every next one starts late" in said
    assert one.steps[0].expected_ns < 90 * S


def test_without_any_rate_a_given_burst_takes_half_of_its_period() -> None:
    one = made("size: 1 MB, period: 100 ms", Link())
    assert way(one)["packets"] * 1500 * 8 * S / way(one)["pace_bps"] == pytest.approx(50 * MS, rel=1e-6)
    assert one.objectives[0].limit is None
    with pytest.raises(UsageError, match="how fast the bursts of a model"):
        made("params: 7e9, step: 5 s", Link())


def test_a_cap_on_the_rate_holds_and_leaves_the_limit_unjudged() -> None:
    for settings in ("", "pattern: incast, flows: 16"):
        one = made(settings, max_rate_bps=200_000_000)
        assert way(one)["pace_bps"] == one.steps[0].offered_bps == 200_000_000
        assert one.objectives[0].limit is None
    assert way(made("pattern: incast, flows: 16"))["pace_bps"] == pytest.approx(16e9 * 1500 / 1538, rel=1e-6)


def test_a_cap_on_the_bytes_takes_bursts_but_never_those_that_prove() -> None:
    whole = made()
    each = whole.steps[0].total_bytes // 1000
    fewer = made(max_bytes=500 * each)
    assert fewer.steps[0].params["count"] == 500
    assert fewer.total_bytes <= 500 * each
    assert fewer.steps[0].expected_ns < whole.steps[0].expected_ns
    with pytest.raises(UsageError, match="shortest form"):
        made(max_bytes=100 * each)
    assert made(quick=True).steps[0].params["count"] == trials_to_prove(0.01, 2, 0.95)


def test_at_a_low_duty_the_period_is_longer() -> None:
    one = made(duty=0.05)
    assert one.steps[0].params["period_ns"] >= 19 * 3 * MS
    assert one.steps[0].expected_ns >= 1000 * 19 * 3 * MS


def test_a_fixed_length_is_filled_with_bursts() -> None:
    one = made("period: 20 ms", duration_ns=10 * S)
    assert one.steps[0].params["count"] == 500


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("params: 7e9", "bursts.step: is missing"),
        ("params: 7e9, step: 5 s, size: 1 MB", "bursts.size: stands beside params"),
        ("ranks: 64", "bursts.ranks: stands without params"),
        ("params: 7e9, step: 5 s, collective: ring", "bursts.ranks: is missing"),
        ("params: many, step: 5 s", "no number of a model's parameters"),
        ("pattern: tree", "allowed: sync, incast, pipeline"),
    ],
)
def test_contradictions_are_said(settings: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        made(settings)
    assert said in str(error.value)


def test_only_bursts_have_an_ideal() -> None:
    text = TEXT.format("burst_completion", "p99", "1.2 x ideal", "").replace("burst_completion", "pdv")
    with pytest.raises(InputError, match="pdv has no ideal"):
        profile.parse(text, "test")
