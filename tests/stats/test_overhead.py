"""What wrappings add, against their standards' layouts."""

from __future__ import annotations

from pathlib import Path

import pytest

from linkqual.stats.overhead import KINDS, added_bytes, words, wrapped_goodput
from linkqual.stats.throughput import header_goodput


@pytest.mark.parametrize(
    ("kinds", "ip_bytes", "added"),
    [
        (("vlan",), 1500, 4),
        (("macsec",), 64, 32),
        (("gre",), 1476, 24),
        (("vxlan",), 1450, 50),
        (("ipsec-cbc",), 1438, 62),  # an MTU of 1438 inside fills 1500 outside, and 1439 no longer does
        (("ipsec-cbc",), 1439, 77),
        (("ipsec",), 1446, 54),
        (("ipsec",), 1447, 57),
        (("wireguard",), 1440, 60),  # as its author breaks it down
        (("wireguard",), 1441, 75),
        (("gre", "ipsec"), 1422, 78),
        ((), 1500, 0),
    ],
)
def test_bytes_added(kinds: tuple[str, ...], ip_bytes: int, added: int) -> None:
    assert added_bytes(ip_bytes, kinds) == added


@pytest.mark.parametrize(("mtu", "less"), [(1500, 0.0204), (9000, 0.0035)])
def test_macsec_takes_two_percent_of_short_packets_and_a_third_of_one_of_long_ones(mtu: int, less: float) -> None:
    left = wrapped_goodput(10e9, mtu, ("macsec",)) / header_goodput(10e9, mtu)
    assert 1 - left == pytest.approx(less, abs=5e-5)


def test_nothing_wrapped_is_what_the_headers_allow() -> None:
    for counts in ("l1", "l2", "l3"):
        assert wrapped_goodput(1e9, 1500, (), counts) == pytest.approx(header_goodput(1e9, 1500, counts=counts))


def test_every_kind_says_its_name_and_adds_something() -> None:
    for kind in KINDS:
        assert added_bytes(1000, (kind,)) > 0
        assert words((kind,))


def test_the_table_of_the_manual_says_what_the_code_does() -> None:
    text = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    names = {"MPLS label": "mpls", "PPPoE": "pppoe", "GRE": "gre", "MACsec": "macsec", "VXLAN": "vxlan", "AES-GCM": "ipsec",
             "WireGuard": "wireguard", "AES-CBC": "ipsec-cbc"}  # fmt: skip
    for name, kind in names.items():
        row = next(line for line in text.splitlines() if line.startswith("| ") and name in line and " %, -" in line)
        for mtu in (1500, 9000):
            assert f"-{100 * (1 - wrapped_goodput(1e9, mtu, (kind,)) / header_goodput(1e9, mtu)):.2f} %" in row
