"""Packet sizes and single paths on the page."""

from __future__ import annotations

import re
from dataclasses import replace

from linkqual.model import (
    Direction,
    Measurement,
    MemberFlow,
    MembersResult,
    MemberTrace,
    MtuHop,
    MtuResult,
    MtuTcp,
    MtuWay,
    Step,
)
from linkqual.reports import html
from linkqual.reports.sheet_facts import facts

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


RESULT = MembersResult(FORWARD, FLOWS, "192.0.2.1", "192.0.2.9", 4863, 128, 16_000_000)
MORE = (
    Measurement(Step("mtu", "mtu"), 0, 1, mtu=MtuResult((HOLE, TOLD), (STALL,))),
    Measurement(Step("members/forward", "members"), 0, 1, members=RESULT),
)


def words(page: str, name: str) -> str:
    found = page[page.index(f'<section id="{name}">') :].split("</section>", maxsplit=1)[0]
    return " ".join(re.sub(r"<[^>]+>", " ", found).split())


def test_the_page_shows_sizes_and_flows_where_they_were_measured() -> None:
    q = SAMPLES["few"]()
    page = html.render(replace(q, measurements=MORE))
    sizes, flows = words(page, "mtu"), words(page, "members")
    assert "forward 1400 B 1500 B longer ones vanish without a word hop 1 – hop 2 1460 1460 stalls after 0 B" in sizes
    assert "reverse 1492 B 1500 B longer ones are told of by ICMP hop 1, 192.0.2.8 — — —" in sizes
    assert "forward 16 16,000 0.425 %" in flows
    assert "2 of 16 flows lose 3.4 %, the others 0; consistent with 1 of 8 paths." in flows
    assert "UDP 192.0.2.1 ports 24064, 24065 to 192.0.2.9 port 4863" in flows
    assert "ways in all" not in flows
    bare = html.render(replace(q, measurements=()))
    assert 'id="mtu"' not in bare
    assert 'id="members"' not in bare


def test_the_sheet_has_a_row_for_each_number() -> None:
    q = SAMPLES["lossy"]()
    found = {(fact.metric, fact.statistic, fact.direction): fact for fact in facts(replace(q, measurements=MORE))}
    assert found["path_mtu", "black hole", FORWARD].value == 1400
    assert "hop 1 – hop 2" in found["path_mtu", "black hole", FORWARD].because
    assert found["path_mtu", "told", REVERSE].value == 1492
    assert found["tcp_mss", "told", FORWARD].value == 1460
    assert found["members", "loss, share", FORWARD].value == 2 / 16
    assert "ports 24064, 24065" in found["members", "loss, share", FORWARD].because
    assert found["members", "loss", FORWARD].value == 0.034


def test_flows_on_other_routers_are_a_table_and_rows() -> None:
    q = SAMPLES["few"]()
    traces = tuple(MemberTrace(24_064 + flow, ("10.0.0.1", f"10.0.3.{2 + 4 * (flow % 4 == 3)}")) for flow in range(12))
    one = Measurement(Step("members/forward", "members"), 0, 1, members=replace(RESULT, traces=traces))
    said = words(html.render(replace(q, measurements=(one,))), "members")
    assert "Forward: routers at hop 2 of 12 flows traced, 2 ways in all. Equal routes are no fault" in said
    assert "10.0.3.6 3 UDP 192.0.2.1 ports 24067, 24071, 24075 to 192.0.2.9 port 4863" in said
    (row,) = [fact for fact in facts(replace(q, measurements=(one,))) if fact.statistic == "flows by 10.0.3.6 at hop 2"]
    assert (row.value, row.n) == (3, 12)
