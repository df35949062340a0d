"""Delay beside a real TCP load: a shaper's buffer, known, is what the load adds to the delay of its own direction and no other."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from linkqual.lab.line import parse
from linkqual.lab.network import VirtualLine
from linkqual.model import Direction, Step
from linkqual.net.control import Control, Peer
from linkqual.probes import throughput
from linkqual.probes.bench import Bench
from linkqual.stats.histogram import quantile
from linkqual.units import NS_PER_S

from .isolated import isolated, require_isolation

pytestmark = [pytest.mark.lab, pytest.mark.quiet]

LINE = """
title: A shaper one way
about: 40 Mbit/s and a queue of 60 ms on the way there.
sites: [near, far]
forward: [a, b]
link: {name: shaped, cir: 40 Mbit/s, mtu: 1500}
links:
  - between: [a, b]
    forward: {rate: {limit: 40 Mbit/s, kind: shaper, bucket: 16 kB, buffer: 60 ms}}
expect: {rtt: 0.1 ms}
"""
PARAMS = {"streams": 2, "seconds": 3, "warmup_seconds": 1, "congestion_control": "cubic", "beside_pps": 250}
MS = 1_000_000


def measured() -> dict[str, Any]:
    with VirtualLine(parse(LINE, "shaped.yaml")) as network:
        command = [
            sys.executable,
            "-P",
            "-m",
            "linkqual",
            "agent",
            "--ephemeral",
            "--bind",
            network.address(network.far),
            "--quiet",
        ]
        agent = network.popen(network.far, command, stdout=subprocess.PIPE, text=True)
        assert agent.stdout is not None
        pairing = agent.stdout.readline()
        network.enter(network.near)
        with Control.connect(Peer.parse(pairing)) as control:
            bench = Bench(control.peer_address, control.near_address, control.family, control)
            step = Step("load", "throughput", PARAMS, Direction.FORWARD, duration_ns=10 * NS_PER_S)
            result = throughput.measure(step, bench).throughput
        agent.kill()
        assert result is not None
        return {
            "goodput": result.receiver_bps,
            "idle": result.idle_round_trip.n,
            "added": {way: [quantile(one.delay, q) for q in (0.5, 0.95)] for way, one in result.added.items()},
            "rtt": result.seconds_rtt_ns,
            "sent": result.beside.summary.sent if result.beside else 0,
        }


def test_a_load_adds_what_the_buffer_holds() -> None:
    require_isolation()
    seen = isolated(measured)
    assert seen["sent"] > 300
    assert seen["idle"] > 50
    (middle, high), (back, _) = seen["added"]["forward"], seen["added"]["reverse"]
    assert 15 * MS < middle < high
    assert 45 * MS < high < 75 * MS  # TCP fills 60 ms of buffer until it drops
    assert back < 8 * MS
    assert max(seen["rtt"]) > 30 * MS  # TCP's own estimate knows of the queue too
    assert sum(seen["goodput"]) / 3 == pytest.approx(37.6e6, rel=0.05)
