"""Findings and notes on the path MTU, in sentences an operator can act on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from linkqual.model import (
    Direction,
    Finding,
    Link,
    Measurement,
    MtuHop,
    MtuResult,
    MtuTcp,
    MtuTried,
    MtuWay,
    Objective,
    Outcome,
    Plan,
    Relation,
    Step,
)
from linkqual.rules import mtu
from linkqual.stats.mtu_counting import explained

FORWARD, REVERSE = Direction.FORWARD, Direction.REVERSE
SIZE = Objective("path_mtu", "size", FORWARD, 1500, Relation.AT_LEAST, limit_text="mtu")
HOLE = Objective("mtu_black_hole", "size", FORWARD, 0, limit_text="0 B")
HOPS = tuple(MtuHop(ttl, f"10.0.{ttl}.1", short=True, long=ttl <= 4) for ttl in range(1, 7))


def way(passes: int | None, kind: str = "black hole", **more: Any) -> MtuWay:
    fails = passes + 1 if passes and kind in ("told", "black hole") else None
    tried = tuple(MtuTried(size, 10, 10 if size == passes else 0) for size in (passes, fails) if size)
    told = {"interface_bytes": 1500, "longest_bytes": 1500, "hops": HOPS, "tried": tried}
    return MtuWay(**{"direction": FORWARD, "kind": kind, "passes": passes, "fails": fails} | told | more)


def measured(*ways: MtuWay, tcp: tuple[MtuTcp, ...] = (), version: int = 4) -> Measurement:
    return Measurement(Step("mtu", "mtu"), 0, 1, mtu=MtuResult(ways, tcp, version))


def found(objective: Objective, measurement: Measurement, link_mtu: int | None = 1500) -> Finding:
    plan = Plan("training", (measurement.step,), (objective,), Link(mtu=link_mtu))
    finding = mtu.finding(objective, plan, [measurement], 1)
    assert finding is not None
    return finding


def said(*ways: MtuWay, tcp: tuple[MtuTcp, ...] = (), link_mtu: int | None = 1500) -> list[str]:
    one = measured(*ways, tcp=tcp)
    return [note.sentence for note in mtu.notes(Plan("training", (one.step,), (), Link(mtu=link_mtu)), [one])]


def test_a_black_hole_is_named_with_its_place_and_the_remedy() -> None:
    stalled = MtuTcp(FORWARD, 1460, 1460, 100_000, 0, 0, stalled=True)
    got = found(HOLE, measured(way(1400), tcp=(stalled,)))
    assert got.outcome is Outcome.FAIL
    for part in (
        "1400 bytes pass (10 of 10 arrived), 1401 do not (0 of 10 arrived)", "vanish without a word between hop 4 (10.0.4.1) and hop 5 (10.0.5.1)",
        "TCP connects and its data stall: 0 B of 100 kB arrived", "MSS set to 1360 (IPv4; 1340 for IPv6)", "repair the ICMP",
    ):  # fmt: skip
        assert part in got.because
    assert got.estimate is not None
    assert got.estimate.value == 100
    assert found(SIZE, measured(way(1400))).outcome is Outcome.FAIL


def test_proper_icmp_is_a_smaller_mtu_and_no_black_hole() -> None:
    told = way(1400, "told", told_by="10.0.4.1", told_bytes=1400)
    assert found(HOLE, measured(told)).outcome is Outcome.PASS
    size = found(SIZE, measured(told))
    assert size.outcome is Outcome.FAIL
    assert "hop 4 (10.0.4.1) says so by ICMP, the next hop takes 1400" in size.because
    assert found(replace(SIZE, limit=1400), measured(told), 1400).outcome is Outcome.PASS


def test_a_host_set_above_the_contract_is_no_fault_of_the_line() -> None:
    jumbo = way(1500, interface_bytes=9000, longest_bytes=9000)
    assert found(HOLE, measured(jumbo)).outcome is Outcome.PASS
    assert found(HOLE, measured(jumbo), None).outcome is Outcome.PASS
    assert found(SIZE, measured(jumbo)).outcome is Outcome.PASS
    assert "set that interface to 1500" in said(jumbo)[0]
    assert found(HOLE, measured(jumbo), 9000).outcome is Outcome.FAIL


def test_a_host_that_cannot_send_as_much_leaves_it_open() -> None:
    whole = way(1500, "whole")
    got = found(replace(SIZE, limit=9000), measured(whole), 9000)
    assert got.outcome is Outcome.INCONCLUSIVE
    assert "an interface at this end that takes packets of 9000 bytes" in got.decide
    assert found(SIZE, measured(whole)).outcome is Outcome.PASS
    shown = found(replace(SIZE, limit=None), measured(whole), None)
    assert shown.outcome is Outcome.NOT_JUDGED


@pytest.mark.parametrize("objective", [SIZE, HOLE])
def test_what_is_not_known_is_never_a_pass(objective: Objective) -> None:
    silent = way(None, "unknown", because="not even packets of 576 bytes were answered")
    assert found(objective, measured(silent)).outcome is Outcome.NO_DATA
    lossy = way(1400, "unknown", because="so much is lost")
    assert found(objective, measured(lossy)).outcome in (Outcome.NO_DATA, Outcome.INCONCLUSIVE)
    plan = Plan("training", (), (objective,), Link())
    assert mtu.finding(objective, plan, [measured(replace(silent, direction=REVERSE))], 1) is None
    assert mtu.finding(objective, plan, [], 1) is None


def test_directions_that_count_differently_are_explained() -> None:
    apart = said(way(1500, "whole"), way(1496, "told", direction=REVERSE, told_by="10.0.4.1", told_bytes=1496))
    assert any("4 apart: as if one side counted an 802.1Q tag or an MPLS label within the MTU" in one for one in apart)
    assert not said(way(1500, "whole"), way(1500, "whole", direction=REVERSE))
    odd = said(way(1500), way(1487, direction=REVERSE))
    assert any(one.endswith("13 apart") for one in odd)
    hosts = said(way(9000, "whole", interface_bytes=9000), way(1500, "whole", direction=REVERSE))
    assert any("the hosts' own interfaces differ" in one for one in hosts)


def test_differences_have_the_names_of_headers() -> None:
    assert explained(4) == "an 802.1Q tag or an MPLS label"
    assert explained(24) == "GRE over IPv4"
    assert explained(50) == "VXLAN over IPv4"
    assert "IPsec" in explained(62)
    assert explained(1) == explained(13) == explained(500) == ""


def test_a_rewritten_mss_shows() -> None:
    """Told 1460, heard 1300 on a path that carries 1500; a rewriting that fits the path is a remedy and said as one."""
    small = said(way(1500, "whole"), tcp=(MtuTcp(FORWARD, 1460, 1300, 100_000, 100_000, 10**8),))
    assert any("rewrites TCP's MSS: 1460 was told, 1300 arrived, 1460 would fit" in one for one in small)
    fitting = said(way(1400), tcp=(MtuTcp(FORWARD, 1460, 1360, 100_000, 100_000, 10**8),))
    assert any("arrives as 1360 where 1460 was told, so its segments fit" in one for one in fitting)
    plain = said(
        way(1500, "whole"), tcp=(MtuTcp(FORWARD, 8960, 1460, 100_000, 100_000, 10**8),)
    )  # the sender's own limit
    assert not any("rewrites" in one or "arrives as" in one for one in plain)


def test_icmp_that_names_another_size_than_what_fits_is_a_warning() -> None:
    assert "packets that vanish" in said(way(1380, "told", told_by="10.0.9.9", told_bytes=1400))[0]
    assert "shorter ones than they need" in said(way(1400, "told", told_by="10.0.4.1", told_bytes=1300))[0]
    assert not said(way(1400, "told", told_by="10.0.4.1", told_bytes=1400))
    assert "in pieces" in said(way(1500, "whole", fragmented=True))[0]
