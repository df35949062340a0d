"""The steps of one flow against many: what they send, and how they are bounded."""

from __future__ import annotations

import pytest

from linkqual.errors import UsageError
from linkqual.model import Direction, Link, Plan, Profile, Step
from linkqual.plan import PlanOptions, make
from linkqual.plan.flows import shorten
from linkqual.profile.probe_settings import SETTINGS

DEFAULTS = {setting.name: setting.default for setting in SETTINGS["flows"]}


def plan(link: Link, options: PlanOptions | None = None) -> Plan:
    profile = Profile("p", "", "", (), {"ping": {one.name: one.default for one in SETTINGS["ping"]}, "flows": DEFAULTS})
    return make(profile, link, options or PlanOptions())


def steps(link: Link, **options: object) -> list[Step]:
    made = plan(link, PlanOptions(only=("flows",), **options))  # type: ignore[arg-type]
    return [step for step in made.steps if step.probe == "flows"]


def test_the_contracted_rate_at_the_ip_layer_each_way() -> None:
    forward, reverse = steps(Link(cir_bps=100_000_000, cir_reverse_bps=20_000_000, mtu=1500))
    assert (forward.direction, reverse.direction) == (Direction.FORWARD, Direction.REVERSE)
    assert forward.params["rate_bps"] == forward.offered_bps == 100_000_000 * 1500 // 1538
    assert reverse.params["rate_bps"] == 20_000_000 * 1500 // 1538
    assert forward.params["flows"] == [1, 4, 16, 64]
    assert forward.params["phase_ns"] == 3_000_000_000
    assert forward.total_bytes == pytest.approx(4 * 3 * 97.5e6 / 8, rel=1e-3)


def test_max_rate_binds_and_is_enough_where_no_rate_is_contracted() -> None:
    assert steps(Link(cir_bps=10**9), max_rate_bps=30_000_000)[0].offered_bps == 30_000_000
    assert steps(Link(), max_rate_bps=30_000_000)[0].params["rate_bps"] == 30_000_000


def test_a_fast_line_takes_fewer_seconds() -> None:
    (forward, _) = steps(Link(cir_bps=400 * 10**9, rate_counts="l3"))
    assert forward.params["phase_ns"] == 10**9
    assert forward.total_bytes == 4 * 50 * 10**9


def test_without_a_rate_nothing_is_sent() -> None:
    made = plan(Link())
    assert not [step for step in made.steps if step.probe == "flows"]
    with pytest.raises(UsageError, match="no rate to send"):
        steps(Link())


def test_bytes_allowed_shorten_the_phases_and_never_below_a_second() -> None:
    (forward, _) = steps(Link(cir_bps=100_000_000))
    shorter = shorten(forward, forward.total_bytes // 3)
    assert shorter.total_bytes == pytest.approx(forward.total_bytes * 2 / 3, rel=1e-3)
    assert shorter.total_bytes <= forward.total_bytes * 2 // 3
    assert shorter.duration_ns < forward.duration_ns
    assert shorten(forward, forward.total_bytes).params["phase_ns"] == 10**9


def test_a_small_mtu_makes_smaller_packets() -> None:
    assert steps(Link(cir_bps=10**8, mtu=1400))[0].params["packet_bytes"] == 1400
    assert steps(Link(cir_bps=10**8, mtu=9000))[0].params["packet_bytes"] == 1500
