"""The MTU probe against an agent, over the loopback; and over a line with a black hole."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from linkqual.errors import PeerError
from linkqual.lab import line as lines
from linkqual.lab.network import VirtualLine
from linkqual.model import Direction, Measurement, Step
from linkqual.net.control import SEGMENT_BYTES, Control
from linkqual.probes import mtu
from linkqual.probes.bench import Bench
from linkqual.wire.pairing import Peer

from ..lab.isolated import isolated, require_isolation
from .conftest import SCRIPT

PARAMS = {"longest_bytes": 9216, "tcp_bytes": 100_000, "timeout_ns": 10**9, "pace_bps": 50_000_000}
STEP = Step("mtu", "mtu", PARAMS)


def test_without_an_agent_it_is_a_fault() -> None:
    got = mtu.measure(STEP, Bench("192.0.2.1"))
    assert got.fault is not None
    assert (got.fault.kind, got.mtu) == ("no-agent", None)


@pytest.mark.loopback
@pytest.mark.parametrize("end", ["far_end", "far_end_ipv6"])
def test_both_directions_udp_and_tcp(end: str, request: pytest.FixtureRequest) -> None:
    far_end = request.getfixturevalue(end)
    got = mtu.measure(STEP, far_end.bench())
    assert got.fault is None
    assert got.mtu is not None
    assert [(way.direction, way.kind, way.passes) for way in got.mtu.ways] == [
        (Direction.FORWARD, "whole", 9216),
        (Direction.REVERSE, "whole", 9216),
    ]
    assert all(one.arrived == one.sent == 10 for way in got.mtu.ways for one in way.tried)
    headers = 40 if end == "far_end" else 60
    for tcp in got.mtu.tcp:
        assert (tcp.arrived_bytes, tcp.stalled) == (100_000, False)
        assert tcp.mss_told is not None
        assert tcp.mss_told >= 32768 - headers
    assert got.mtu.ip_version == (4 if end == "far_end" else 6)
    assert "mtu.json" in far_end.raw


@pytest.mark.loopback
def test_the_agent_refuses_what_makes_no_sense_and_is_free_again(far_end: Any) -> None:
    for verb, args in (("search", {**PARAMS_FAR, "port": 9}), ("heard", {})):
        with pytest.raises(PeerError) as caught:
            far_end.control.call(f"mtu.{verb}", **args)
        assert caught.value.kind == "state"
    with pytest.raises(PeerError):
        far_end.control.call("mtu.search", **PARAMS_FAR | {"port": 9, "longest": 70_000})
    first = far_end.control.call("mtu.open")["port"]
    assert far_end.control.call("mtu.open")["port"] == first  # the one before is closed
    assert far_end.control.call("mtu.listen", data_bytes=1000, pace_bps=10**6)["port"]
    assert far_end.control.call("mtu.heard")["connected"] is False
    assert far_end.control.call("mtu.close") == {}


PARAMS_FAR = {"longest": 1500, "timeout_ns": 10**8, "pace_bps": 10**7}


@pytest.mark.loopback
def test_an_interruption_keeps_what_was_found_and_ends_at_once(far_end: Any) -> None:
    calls = iter([False] * 30)
    begin = time.monotonic()
    got = mtu.measure(STEP, far_end.bench(interrupted=lambda: next(calls, True)))
    assert got.fault is not None
    assert got.fault.kind == "interrupted"
    assert time.monotonic() - begin < 5


@pytest.mark.loopback
def test_a_far_end_that_dies_is_a_fault(far_end: Any) -> None:
    far_end.process.kill()
    far_end.process.wait()
    got = mtu.measure(STEP, far_end.bench())
    assert got.fault is not None
    assert got.mtu is None


LINE = """
title: Two ways to be too small
about: There 1400 bytes and nobody tells, back 1492 and the router tells.
sites: [here, there]
forward: [r1, r2, r3]
reverse: [r3, q2, r1]
routers:
  r1: {too_big: hide}
  r2: {too_big: hide}
links:
  - between: [r2, r3]
    mtu: 1400
  - between: [q2, r1]
    mtu: 1492
"""


def _measure() -> Any:
    """Inside an isolation: the agent in a process of its own, the probe in this one."""
    with VirtualLine(lines.parse(LINE, "test")) as virtual:
        command = [sys.executable, "-c", SCRIPT, virtual.address("there"), str(10**9)]
        agent = virtual.popen("there", command, stdout=subprocess.PIPE, text=True)
        assert agent.stdout is not None
        virtual.enter("here")
        with Control.connect(Peer.parse(agent.stdout.readline())) as control:
            bench = Bench(control.peer_address, control.near_address, control=control)
            got: Measurement = mtu.measure(STEP, bench)
        assert got.fault is None, got.fault
        assert got.mtu is not None
        return asdict(got.mtu)


@pytest.mark.lab
def test_a_black_hole_there_and_a_router_that_tells_back() -> None:
    require_isolation()
    got = isolated(_measure)
    there, back = got["ways"]
    assert (there["kind"], there["passes"], there["fails"], there["told_by"]) == ("black hole", 1400, 1401, None)
    assert [hop["long"] for hop in there["hops"]] == [True, True, False]
    assert all(hop["short"] for hop in there["hops"])
    assert (back["kind"], back["passes"], back["fails"], back["told_bytes"]) == ("told", 1492, 1493, 1492)
    assert back["told_by"] in [hop["address"] for hop in back["hops"]]
    tcp = {one["direction"]: one for one in got["tcp"]}
    assert tcp["forward"]["stalled"]
    assert tcp["forward"]["mss_told"] > 1400 > SEGMENT_BYTES  # the control channel came through all the same
    assert not tcp["reverse"]["stalled"]


def test_the_shipped_lab_knows_how_to_hide() -> None:
    assert lines.parse(LINE, "test").node("r2").hides_mtu
    assert not lines.parse(LINE, "test").node("r3").hides_mtu
    assert "too_big" in (Path(__file__).parents[2] / "docs" / "lines.md").read_text("utf-8")
