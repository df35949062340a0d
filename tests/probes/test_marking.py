"""Markings: the counts of what was sent and what arrived, real packets on loopback, and lines of real packets that change them."""

from __future__ import annotations

import json
import random
import socket
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkqual.lab import line as lines
from linkqual.lab.isolate import available
from linkqual.lab.network import VirtualLine
from linkqual.model import Direction, MarkingRow, Step
from linkqual.net.marking import exchange
from linkqual.net.reflector import Reflector, ReflectorConfig
from linkqual.net.trace import Target, trace
from linkqual.probes import marking as probe
from linkqual.probes.bench import Bench
from linkqual.session.marking import (
    Echo,
    Exchange,
    Mark,
    from_raw,
    marks,
    matrix,
    never_sent_back,
    survivals,
    to_trace,
    wanted_values,
)
from linkqual.wire.codepoints import octet

from ..lab.isolated import isolated
from .conftest import FarEnd

FORWARD, REVERSE = Direction.FORWARD, Direction.REVERSE
PARAMS = {"dscp": [0, 26, 46, 5], "ecn": [0, 1, 2, 3], "packets": 6, "interval_ns": 2_000_000, "timeout_ns": 10**9}
STEP = Step("marking", "marking", PARAMS, packets=42)


# ---- counts


MARK = st.builds(Mark, st.integers(0, 63), st.integers(0, 3))
PACKET = st.tuples(MARK, MARK, MARK, st.sampled_from(("heard", "refused", "lost there", "lost back")))


def told(packets: list[tuple[Mark, Mark, Mark, str]], reply_ecn: int | None = None) -> Exchange:
    """(sent, as it arrived, as the reply arrived, fate) of each packet."""
    echoes = {
        number: Echo(there, back, fate == "heard")
        for number, (_, there, back, fate) in enumerate(packets)
        if fate in {"heard", "refused"}
    }
    return Exchange(
        tuple(sent for sent, *_ in packets), echoes, tuple(fate != "lost there" for *_, fate in packets), reply_ecn
    )


@given(st.lists(PACKET, max_size=60))
def test_every_packet_is_in_one_cell_of_its_row(packets: list[tuple[Mark, Mark, Mark, str]]) -> None:
    rows = matrix([told(packets)])
    for row in rows:
        assert row.sent == row.lost + row.unseen + row.unmarked + sum(count for *_, count in row.arrived)
    forward = {(row.dscp, row.ecn): row for row in rows if row.direction is FORWARD}
    assert {key: row.sent for key, row in forward.items()} == Counter(sent for sent, *_ in packets)
    for sent, row in forward.items():
        mine = [(there, fate) for mark, there, _, fate in packets if mark == sent]
        assert row.lost == sum(fate == "lost there" for _, fate in mine)
        assert row.unseen == sum(fate == "lost back" for _, fate in mine)
        assert {cell[:2]: cell[2] for cell in row.arrived} == Counter(
            there for there, fate in mine if fate in {"heard", "refused"}
        )
    back = [row for row in rows if row.direction is REVERSE]
    assert sum(row.sent for row in back) == sum(fate != "lost there" for *_, fate in packets)
    assert sum(row.lost for row in back) == sum(fate == "lost back" for *_, fate in packets)
    assert sum(row.unmarked for row in back) == sum(fate == "refused" for *_, fate in packets)
    for row in back:  # a reply leaves with the DSCP it was asked for and the ECN its request arrived with
        mine_back = [
            answer for sent, there, answer, fate in packets
            if fate == "heard" and (sent.dscp, there.ecn) == (row.dscp, row.ecn)
        ]  # fmt: skip
        assert {cell[:2]: cell[2] for cell in row.arrived} == Counter(mine_back)


@given(st.lists(PACKET, max_size=30), st.none() | st.integers(0, 3))
def test_what_is_kept_gives_the_same_rows_again(packets: list[tuple[Mark, Mark, Mark, str]], ecn: int | None) -> None:
    one = told(packets, ecn)
    assert matrix([from_raw(json.loads(json.dumps(one.raw())))]) == matrix([one])


def test_a_code_point_that_does_not_get_there_is_put_on_replies_there() -> None:
    bleached = [(Mark(0, ecn), Mark(0, 0), Mark(0, 0), "heard") for ecn in (0, 2, 3)]
    first = matrix([told(bleached)])
    assert never_sent_back(first, (0, 2, 3)) == (2, 3)
    again = told([(Mark(0, 0), Mark(0, 0), Mark(0, 2), "heard")] * 4, reply_ecn=2)
    rows = matrix([told(bleached), again])
    assert [row for row in rows if row.direction is FORWARD] == [row for row in first if row.direction is FORWARD]
    assert MarkingRow(REVERSE, 0, 2, 4, arrived=((0, 2, 4),)) in rows
    assert never_sent_back(rows, (0, 2, 3)) == (3,)


def test_what_is_sent_and_what_is_traced() -> None:
    assert marks((46, 0, 46), (2, 0)) == ((0, 0), (46, 0), (0, 2))
    rows = matrix([told([
        (Mark(46, 0), Mark(46, 0), Mark(0, 0), "heard"), (Mark(34, 0), Mark(0, 0), Mark(34, 0), "heard"),
        (Mark(0, 2), Mark(0, 3), Mark(0, 3), "heard"), (Mark(0, 3), Mark(0, 2), Mark(0, 2), "heard"),
    ])])  # fmt: skip
    assert to_trace(rows, FORWARD) == (34, 3)
    assert to_trace(rows, REVERSE) == (46, 0)
    assert to_trace(matrix([told([(Mark(46, 0), Mark(46, 0), Mark(46, 0), "heard")])]), FORWARD) is None


def test_names_in_a_limit() -> None:
    assert wanted_values("keep all", "DSCP") is None
    assert wanted_values("keep EF,AF41, ef, 7", "DSCP") == (46, 34, 7)
    assert wanted_values("keep ECT(0), CE", "ECN") == (2, 3)


# ---- loopback


@pytest.mark.loopback
@pytest.mark.parametrize("end", ["far_end", "far_end_ipv6"])
def test_loopback_keeps_every_marking(end: str, request: pytest.FixtureRequest) -> None:
    far: FarEnd = request.getfixturevalue(end)
    taken = probe.measure(STEP, far.bench())
    assert taken.fault is None, taken.fault
    assert taken.marking is not None
    sent = marks(PARAMS["dscp"], PARAMS["ecn"])
    expected = {(way, *mark, 6, ((*mark, 6),)) for way in (FORWARD, REVERSE) for mark in sent}
    assert {(row.direction, row.dscp, row.ecn, row.sent, row.arrived) for row in taken.marking.rows} == expected
    assert taken.marking.traces == ()
    kept = json.loads(far.raw["marking.json"])
    assert matrix([from_raw(one) for one in kept]) == taken.marking.rows
    assert far.told[-1].done == STEP.packets


@pytest.mark.loopback
def test_a_far_host_that_may_not_mark_says_so() -> None:
    with Reflector.start(ReflectorConfig("127.0.0.1", "127.0.0.1", 7, mark=False)) as reflector:
        heard = exchange("127.0.0.1", reflector.port, 7, marks((46,), ()) * 3, interval_ns=1_000_000, timeout_ns=10**9)
    assert len(heard.echoes) == 6
    rows = matrix([Exchange(tuple(heard.sent), heard.echoes, (True,) * 6)])
    assert [(row.sent, row.unmarked, row.arrived) for row in rows if row.direction is REVERSE] == [(3, 3, ())] * 2


@pytest.mark.loopback
def test_a_far_end_that_is_silent_or_gone_is_a_fault(far_end: FarEnd) -> None:
    short = replace(STEP, params=PARAMS | {"timeout_ns": 50_000_000, "packets": 1})
    closed = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    closed.bind(("127.0.0.1", 0))
    port = closed.getsockname()[1]
    closed.close()

    class Elsewhere:
        """Names a port where nobody listens."""

        def call(self, name: str, **_: Any) -> dict[str, Any]:
            return {
                "stamp.open": {"port": port, "ssid": 1, "session": "x"},
                "stamp.arrived": {"arrived": "AAA="},
            }.get(name, {})

    lost = probe.measure(short, replace(far_end.bench(), control=Elsewhere()))  # type: ignore[arg-type]
    assert lost.fault is not None
    assert "no reply tells" in lost.fault.message
    assert lost.marking is not None
    assert {(row.sent, row.lost, row.arrived) for row in lost.marking.rows} == {(1, 1, ())}
    far_end.process.kill()
    far_end.process.wait()
    gone = probe.measure(short, far_end.bench())
    assert gone.fault is not None
    assert gone.marking is None
    alone = probe.measure(short, Bench("127.0.0.1"))
    assert alone.fault is not None
    assert alone.fault.kind == "no-agent"


# ---- lines


def described(mapping: dict[int, int], link: int, bleach: bool, way: Direction) -> str:
    """Four routers; link `link` of the five changes markings in one direction."""
    nodes = ["near", "r1", "r2", "r3", "r4", "far"]
    remark = ", ".join(f"{a}: {b}" for a, b in mapping.items())
    return (
        "sites: [near, far]\nforward: [r1, r2, r3, r4]\nlinks:\n"
        f"  - between: [{nodes[link]}, {nodes[link + 1]}]\n"
        f"    {way}: {{remark: {{{remark}}}, ecn: {'bleach' if bleach else 'keep'}}}\n"
    )


def measured(virtual: VirtualLine, version: int, sent: tuple[Mark, ...], octets: dict[Direction, int]) -> Any:
    """What both directions make of the markings, and what a trace a direction quotes."""
    near, far = (virtual.address(node, version) for node in (virtual.near, virtual.far))
    family = socket.AF_INET6 if version == 6 else socket.AF_INET
    with virtual.inside(virtual.far):
        reflector = Reflector.start(ReflectorConfig(far, near, 7))
        target = Target(far, 33434, near, family)
    with reflector, target, virtual.inside(virtual.near):
        settings: dict[str, Any] = {"source": near, "family": family, "interval_ns": 10**6, "timeout_ns": 10**9}
        heard = exchange(far, reflector.port, 7, sent * 5, **settings)
        there = trace(far, 0, 33434, family, near, rounds=1, tos=octets[FORWARD])
    with virtual.inside(virtual.near):
        target = Target(near, 33434, far, family)
    with target, virtual.inside(virtual.far):
        back = trace(near, 0, 33434, family, far, rounds=1, tos=octets[REVERSE])
    raw = Exchange(tuple(heard.sent), heard.echoes, (True,) * len(heard.sent)).raw()
    return [raw, [hop.quoted_tos for hop in there.hops], [hop.quoted_tos for hop in back.hops]]


@pytest.mark.lab
@pytest.mark.skipif(available() != "", reason="needs namespaces")
@pytest.mark.parametrize("seed", [1, 2])
def test_a_line_with_any_mapping_is_read_as_it_is(seed: int) -> None:
    generator = random.Random(seed)
    way, link, bleach = generator.choice((FORWARD, REVERSE)), generator.randrange(1, 4), bool(seed % 2)
    mapping = dict(zip(generator.sample(range(1, 64), 5), generator.sample(range(64), 5), strict=True))
    line = lines.parse(described(mapping, link, bleach, way), "mapped.yaml")
    first = next(dscp for dscp, to in mapping.items() if dscp != to)
    sent = marks((*mapping, *generator.sample(range(1, 64), 3)), (0, 1, 2, 3))
    octets = {FORWARD: octet(first, 2), REVERSE: octet(first, 2)}

    def found() -> Any:
        with VirtualLine(line) as virtual:
            return [measured(virtual, version, sent, octets) for version in (4, 6)]

    for raw, there, back in isolated(found):
        rows = matrix([from_raw(raw)])
        for direction in (FORWARD, REVERSE):
            for one in survivals(rows, direction, "DSCP"):
                to = mapping.get(one.value, one.value) if direction is way else one.value
                if one.value:
                    assert (one.kept, one.changed) == ((5, ()) if to == one.value else (0, ((to, 5),)))
                else:  # replies to the ECN code points are among those on CS0
                    assert one.kept >= 5
                    assert one.changed == ()
        bleached = bleach and way is FORWARD
        for one in survivals(rows, FORWARD, "ECN"):
            assert one.changed == (((0, 5),) if bleached and one.value else ())
        quoted = there if way is FORWARD else back
        place = link if way is FORWARD else 5 - 1 - link  # routers before the change, from that end
        ecn = 0 if bleach else 2
        assert quoted == [octet(first, 2)] * place + [octet(mapping[first], ecn)] * (4 - place) + [None]
        assert (back if way is FORWARD else there) == [octet(first, 2)] * 4 + [None]


@pytest.mark.lab
@pytest.mark.skipif(available() != "", reason="needs namespaces")
def test_the_shipped_line_that_changes_markings_fails_who_asks_for_them(tmp_path: Path) -> None:
    """Through the command line: finding, cause, place and matrix."""
    import subprocess
    import sys

    profile = tmp_path / "asked.yaml"
    profile.write_text(
        "name: asked\nobjectives:\n"
        "  - {metric: marking, statistic: DSCP, direction: both, limit: keep all, source: the contract}\n"
        "  - {metric: marking, statistic: ECN, direction: both, limit: keep all, source: the contract}\n"
        "probes:\n  marking: {packets: 5, dscp: [EF, AF41, CS0], ecn: [ECT(0)]}\n"
    )
    command = [
        sys.executable,
        "-m",
        "linkqual",
        "test",
        "--line",
        "remarked",
        "-p",
        str(profile),
        "-o",
        str(tmp_path / "run"),
    ]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert told.returncode == 1, told.stderr
    said = " ".join(told.stdout.split())
    assert "forward marking DSCP: EF arrives as CS0 (5 of 5); CS0, AF41 kept" in said
    assert "ECT(0) arrives as Not-ECT (5 of 5)" in said
    assert "changed between hop 1 and hop 2: hop 2 (10.77.2.2) is the first that quotes it as CS0" in said
    assert "→ forward CS0 =" in said or "→ forward = CS0 =" in said or "→ forward = CS0" in said
    document = json.loads((tmp_path / "run" / "run.json").read_text())
    outcomes = [one["outcome"] for one in document["verdict"]["findings"]]
    assert outcomes == ["fail", "pass", "fail", "pass"]
    page = (tmp_path / "run" / "report.html").read_text()
    assert "5 as Not-ECT" in page
