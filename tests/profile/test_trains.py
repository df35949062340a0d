"""What the plan says of trains: how fast, how much, and how little they can do with."""

from __future__ import annotations

import pytest

from linkqual import profiles as shipped
from linkqual.model import Direction, Link, Step
from linkqual.plan import PlanOptions, make
from linkqual.plan.trains import shorten
from linkqual.profile import parse

TRAINING = parse(shipped.text("training"), "training.yaml")


def trains(link: Link, **options: object) -> list[Step]:
    return list(make(TRAINING, link, PlanOptions(only=("trains",), **options)).steps)  # type: ignore[arg-type]


def test_twice_the_contract_is_fast_enough_and_two_seconds_of_it_are_enough() -> None:
    forward, reverse = trains(Link(cir_bps=10**9, cir_reverse_bps=10**8, mtu=9000))
    assert (forward.key, forward.direction, reverse.direction) == ("trains/forward", Direction.FORWARD, Direction.REVERSE)  # fmt: skip
    assert forward.params["fastest_bps"] == 2 * 10**9
    assert forward.total_bytes == forward.params["bytes"] == 250_000_000
    assert reverse.total_bytes == 60_000_000
    assert forward.params["packet_bytes"] == 1500
    assert forward.offered_bps == pytest.approx(2e9 * 1500 / 1538, abs=1)
    assert forward.params["when"] == "always"  # asked for by name


def test_the_rate_allowed_binds_them() -> None:
    forward, _ = trains(Link(cir_bps=10**9, rate_counts="l2"), max_rate_bps=10**8)
    assert forward.offered_bps == 10**8
    assert forward.params["fastest_bps"] == pytest.approx(1e8 * 1518 / 1500)
    assert forward.params["counts"] == "l2"


def test_without_a_rate_only_the_bytes_bind_them() -> None:
    forward, _ = trains(Link())
    assert (forward.offered_bps, forward.params["fastest_bps"], forward.params["contracted_bps"]) == (0, 0.0, 0)
    assert forward.total_bytes == 60_000_000


def test_few_bytes_shorten_them() -> None:
    forward, _ = trains(Link(cir_bps=10**8))
    shorter = shorten(forward, 40_000_000)
    assert shorter.total_bytes == shorter.params["bytes"] == 20_000_000
    assert shorten(forward, 10**9).total_bytes == 10_000_000
    assert shorten(shorter, 0) == shorter
    both = trains(Link(cir_bps=10**8), max_bytes=50_000_000)
    assert sum(step.total_bytes for step in both) <= 50_000_000


def test_beside_goodput_they_run_only_where_it_falls_short() -> None:
    plan = make(TRAINING, Link(cir_bps=10**8), PlanOptions())
    both = [step for step in plan.steps if step.probe == "trains"]
    assert [step.params["when"] for step in both] == ["short", "short"]
    assert [step.expected_ns for step in both] == [0, 0]
