"""Packet sizes and single paths on the page."""

from __future__ import annotations

import re
from dataclasses import replace

from linkqual.model import (
    Direction,
    Measurement,
    MemberFlow,
    MembersResult,
    MtuHop,
    MtuResult,
    MtuTcp,
    MtuWay,
    Step,
)
from linkqual.reports import html

from .samples import SAMPLES

FORWARD, REVERSE = Direction.FORWARD, Direction.REVERSE
HOLE = MtuWay(
    FORWARD, "black hole", 1500, 1500, 1400, 1401, hops=(MtuHop(1, "192.0.2.7", short=True, long=True), MtuHop(2, "192.0.2.8", short=True))
)  # fmt: skip
TOLD = MtuWay(
    REVERSE,
    "told",
    1500,
    1500,
    1492,
    1493,
    told_by="192.0.2.8",
    told_bytes=1492,
    hops=(MtuHop(1, "192.0.2.8", short=True),),
)
STALL = MtuTcp(FORWARD, 1460, 1460, 100_000, 0, 0, stalled=True)
FLOWS = tuple(
    MemberFlow(24_064 + flow, ((250, 250 - 9 * (flow < 2)), (750, 750 - 25 * (flow < 2)))) for flow in range(16)
)


def section(name: str, *more: Measurement) -> str:
    q = SAMPLES["lossy"]()
    page = html.render(replace(q, measurements=(*q.measurements, *more)))
    found = page[page.index(f'<section id="{name}">') :].split("</section>")[0]
    return " ".join(re.sub(r"<[^>]+>", " ", found).split())


def test_sizes_with_their_place_and_what_tcp_makes_of_it() -> None:
    said = section("mtu", Measurement(Step("mtu", "mtu"), 0, 1, mtu=MtuResult((HOLE, TOLD), (STALL,))))
    assert "forward 1400 B 1500 B longer ones vanish without a word hop 1 – hop 2 1460 1460 stalls after 0 B" in said
    assert "reverse 1492 B 1500 B longer ones are told of by ICMP hop 1, 192.0.2.8 — — —" in said


def test_flows_that_lose_more_with_their_ports() -> None:
    result = MembersResult(FORWARD, FLOWS, "192.0.2.1", "192.0.2.9", 4863, 128, 16_000_000)
    said = section("members", Measurement(Step("members/forward", "members"), 0, 1, members=result))
    assert "forward 16 16,000 0.425 %" in said
    assert "2 of 16 flows lose 3.4 %, the others 0; consistent with 1 of 8 paths." in said
    assert "UDP 192.0.2.1 ports 24064, 24065 to 192.0.2.9 port 4863" in said


def test_a_run_without_them_has_no_such_section() -> None:
    page = html.render(SAMPLES["lossy"]())
    assert 'id="mtu"' not in page
    assert 'id="members"' not in page
