"""Limits that depend on the line."""

from __future__ import annotations

import pytest

from linkqual.errors import InputError
from linkqual.model import Direction, Link
from linkqual.profile.limits import parse, resolve

FORWARD, REVERSE = Direction.FORWARD, Direction.REVERSE
LINE = Link(cir_bps=10**10, cir_reverse_bps=10**9, mtu=1500, rtt_budget_ns=12_000_000)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("rtt_budget", "ns", 12_000_000),
        ("1.2 x rtt_budget", "ns", 14_400_000),
        ("1.2x rtt_budget", "ns", 14_400_000),
        ("0.5 * rtt_budget", "ns", 6_000_000),
        ("2 × rtt_budget", "ns", 24_000_000),
        ("80 % of rtt_budget", "ns", 9_600_000),
        ("rtt_budget or 5 ms", "ns", 12_000_000),
        ("95 % of cir", "bit/s", 9.5e9),
        ("95% of goodput", "bit/s", 8_944_083_224.97),
        ("100 % of goodput", "bit/s", 9_414_824_447.3),
        ("5 ms", "ns", 5_000_000),
        ("1e-5", "ratio", 1e-5),
        ("none", "ratio", None),
    ],
)
def test_on_a_known_line(text: str, unit: str, value: float | None) -> None:
    found, _ = resolve(parse(text, unit), LINE, FORWARD)
    assert found == (None if value is None else pytest.approx(value, rel=1e-9))


def test_each_direction_has_its_own_rate() -> None:
    limit = parse("95 % of cir", "bit/s")
    assert resolve(limit, LINE, REVERSE)[0] == pytest.approx(9.5e8)
    assert resolve(limit, Link(cir_bps=10**10), REVERSE)[0] == pytest.approx(9.5e9)


def test_what_the_rate_counts_and_the_mtu_matter() -> None:
    limit = parse("100 % of goodput", "bit/s")
    jumbo = resolve(limit, Link(cir_bps=10**10, mtu=9000), FORWARD)[0]
    assert jumbo == pytest.approx(9.900420e9, rel=1e-6)
    ip_layer = resolve(limit, Link(cir_bps=10**10, mtu=1500, rate_counts="l3"), FORWARD)[0]
    assert ip_layer == pytest.approx(1e10 * 1448 / 1500)
    v6 = resolve(limit, LINE, FORWARD, ip_version=6)[0]
    assert v6 == pytest.approx(1e10 * 1428 / 1538)


def test_an_assumed_mtu_is_said() -> None:
    assert "(MTU 1500 assumed)" in resolve(parse("95 % of goodput", "bit/s"), Link(cir_bps=10**9), FORWARD)[1]
    assert "assumed" not in resolve(parse("95 % of goodput", "bit/s"), LINE, FORWARD)[1]


@pytest.mark.parametrize(
    ("text", "unit", "option"), [("rtt_budget", "ns", "--rtt-budget"), ("95 % of goodput", "bit/s", "--cir")]
)
def test_without_the_fact_it_is_not_judged_and_the_option_is_named(text: str, unit: str, option: str) -> None:
    value, why = resolve(parse(text, unit), Link(), FORWARD)
    assert value is None
    assert option in why
    assert "not judged" in why


def test_the_value_stands_in_for_an_unknown_fact() -> None:
    value, why = resolve(parse("rtt_budget or 5 ms", "ns"), Link(), Direction.ROUND_TRIP)
    assert value == 5_000_000
    assert "the value stands" in why


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("rtt_budget", "bit/s"), ("cir", "ns"), ("goodput", "ratio"), ("5 ms or rtt_budget", "ns"), ("rtt_budget or 0 ms", "ns"),
        ("rtt_budget or", "ns"), ("-1 x rtt_budget", "ns"), ("0 x rtt_budget", "ns"), ("101 % of goodput", "bit/s"), ("0", "ratio"),
        ("1", "ratio"), ("nan", "ns"), ("inf s", "ns"), ("rtt budget", "ns"), ("", "ns"), ("1e999 s", "ns"),
    ],
)  # fmt: skip
def test_refused(text: str, unit: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, unit)
    assert caught.value.hint
