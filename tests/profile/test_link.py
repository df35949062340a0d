"""Link files and the command line on top of them."""

from __future__ import annotations

import pytest

from linkqual.cli.options import LinkFile
from linkqual.errors import InputError
from linkqual.link import KEYS, override, parse
from linkqual.model import Link

FULL = """
link:
  name: 上海 — Zhōngwèi 2 (west)
  vendor: Example Carrier
  cir: 10 Gbit/s
  cir_reverse: 5G
  rate_counts: l2
  mtu: 9000
  rtt_budget: 12 ms
  near: Shanghai DC 1
  far: Zhongwei
  fibre: 1900.5 km
  in_service: true
  encapsulation: [gre, macsec]
"""


def test_every_field() -> None:
    assert parse(FULL, "link.yaml") == Link(
        name="上海 — Zhōngwèi 2 (west)",
        vendor="Example Carrier",
        cir_bps=10**10,
        cir_reverse_bps=5 * 10**9,
        rate_counts="l2",
        mtu=9000,
        rtt_budget_ns=12_000_000,
        near="Shanghai DC 1",
        far="Zhongwei",
        fibre_km=1900.5,
        in_service=True,
        encapsulation=("gre", "macsec"),
    )


def test_what_is_not_given_is_not_known() -> None:
    assert parse("link: {name: x}", "link.yaml") == Link(name="x")
    assert parse("link:", "link.yaml") == Link()


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        ("cir: 10G", ["1: cir: unknown key; allowed: link", "1: link: is missing: the facts of the line stand below this key; allowed: link:"]),
        ("link:\n  cir: 10", ["2: link.cir: '10': a rate needs its unit; allowed: values like 10 Gbit/s or 800 Mbit/s"]),
        ("link:\n  cir: 10 ms", ["2: link.cir: '10 ms': unknown unit 'ms' of a rate; allowed: values like 10 Gbit/s or 800 Mbit/s"]),
        ("link:\n  cir: 0G", ["2: link.cir: '0G' is no rate of a line; allowed: 1 kbit/s to 100 Tbit/s"]),
        ("link:\n  mtu: 150", ["2: link.mtu: '150' is no MTU of a line; allowed: 576 to 65535 bytes, IP header included"]),
        ("link:\n  rtt_budget: 0 ms", ["2: link.rtt_budget: '0 ms' is no round-trip budget; allowed: more than 0, at most 10 s"]),
        ("link:\n  fibre: 12", ["2: link.fibre: '12' is no length of a fibre; allowed: such as 1200 km, at most 50000 km"]),
        ("link:\n  rate_counts: l4", ["2: link.rate_counts: 'l4' is not known; allowed: l1, l2, l3"]),
        ("link:\n  cir_reverse: 1G", ["2: link.cir_reverse: stands without cir, the rate of the other direction; allowed: both, or cir alone"]),
        ("link:\n  name: x\n  name: y\n  nam: z", ["3: link.name: given twice, first in line 2; allowed: once",
            "4: link.nam: unknown key, did you mean 'name'?; allowed: name, vendor, cir, cir_reverse, rate_counts, mtu, rtt_budget, near, far, fibre, in_service, encapsulation, services, segments"]),
        ("link:\n  name: \"a\\u001bb\"", ["2: link.name: 'a\\x1bb' is no name for people; allowed: printable text of at most 200 characters"]),
        ("link:\n  encapsulation: l2tp", ["2: link.encapsulation: 'l2tp' is not known; allowed: vlan, qinq, mpls, pppoe, macsec, gre, vxlan, geneve, ipsec, ipsec-cbc, wireguard"]),
        ("link: 10G", ["1: link: is a single value; allowed: keys with values"]),
    ],
)  # fmt: skip
def test_complaints(text: str, complaints: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, "l.yaml")
    assert str(caught.value).splitlines() == [f"l.yaml:{complaint}" for complaint in complaints]


def test_whoever_asks_what_a_link_file_holds_is_told_every_key() -> None:
    """The complaint's hint and the help of --link, against what the reader asks for; help loads no reader."""
    with pytest.raises(InputError) as caught:
        parse("link:\n  nam: x", "l.yaml")
    asked = str(caught.value).partition("allowed: ")[2]
    assert tuple(asked.split(", ")) == KEYS
    assert asked in caught.value.hint
    assert asked in LinkFile.__metadata__[0].help  # type: ignore[attr-defined]


def test_the_command_line_wins() -> None:
    link = override(parse(FULL, "link.yaml"), cir="1 Gbit/s", rtt_budget=None, name="other name")
    assert link.cir_bps == 10**9
    assert link.rtt_budget_ns == 12_000_000
    assert link.name == "other name"
    assert link.mtu == 9000


def test_a_wrong_option_is_named() -> None:
    with pytest.raises(InputError) as caught:
        override(Link(), rtt_budget="12")
    assert str(caught.value) == "--rtt-budget: '12': a duration needs its unit"
    assert caught.value.hint == "write it like 12 ms or 1.5 s"
