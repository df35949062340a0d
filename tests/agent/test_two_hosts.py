"""The agent across a real line between two namespaces, made by hand, and that line cut."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from linkqual.wire.pairing import Peer

pytestmark = [pytest.mark.lab, pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces")]

AGENT = """
import sys
from linkqual.agent.config import AgentConfig
from linkqual.agent.server import run
run(AgentConfig(port=4862, name="10.99.7.2", ephemeral=True), ready=lambda peer: print(peer.line, flush=True),
    log=lambda line: print(line, flush=True))
"""

# The near end cuts its own line while iperf3 runs, and tells what became of the step.
NEAR = """
import subprocess, sys
from linkqual.model import Direction, Step
from linkqual.net.control import Control, Peer
from linkqual.probes import throughput
from linkqual.probes.bench import Bench
control = Control.connect(Peer.parse(sys.argv[1]))
print(control.near_address, control.peer_address, flush=True)
params = {"streams": 2, "seconds": 60, "warmup_seconds": 0, "congestion_control": "cubic", "beside_pps": 200}
def cut(progress):
    if progress.done >= 1:
        subprocess.run(["ip", "link", "set", sys.argv[2], "down"], check=True)
bench = Bench(control.peer_address, control.near_address, control.family, control, progress=cut)
step = Step("t", "throughput", params, Direction(sys.argv[3]), duration_ns=70_000_000_000)
measured = throughput.measure(step, bench)
seconds = len(measured.throughput.receiver_bps) if measured.throughput else 0
print(measured.fault.kind, seconds, measured.elapsed_ns // 10**9, flush=True)
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class TwoHosts:
    def __init__(self) -> None:
        self.near, self.far = f"lqg-near-{os.getpid()}", f"lqg-far-{os.getpid()}"

    def make(self) -> None:
        for name in (self.near, self.far):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", "line0", "netns", self.near, "type", "veth", "peer", "name", "line0", "netns", self.far)
        for name, number in ((self.near, 1), (self.far, 2)):
            ip("-n", name, "address", "add", f"10.99.7.{number}/24", "dev", "line0")
            ip("-n", name, "address", "add", f"fd00:99:7::{number}/64", "dev", "line0", "nodad")
            ip("-n", name, "link", "set", "line0", "up")

    def remove(self) -> None:
        for name in (self.near, self.far):
            with suppress(subprocess.CalledProcessError):
                ip("netns", "delete", name)

    def start(self, where: str, script: str, *words: str) -> subprocess.Popen[str]:
        command = ["ip", "netns", "exec", where, sys.executable, "-u", "-c", script, *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def hosts() -> Iterator[TwoHosts]:
    made = TwoHosts()
    try:
        made.make()
        yield made
    finally:
        made.remove()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def line_with(process: subprocess.Popen[str], text: str) -> str:
    while text not in (line := line_of(process)):
        assert line, f"it ended without saying {text!r}"
    return line


@pytest.mark.parametrize(("direction", "host"), [("forward", "10.99.7.2"), ("reverse", "fd00:99:7::2")])
def test_a_line_cut_in_the_middle(hosts: TwoHosts, direction: str, host: str) -> None:
    with hosts.start(hosts.far, AGENT) as agent:
        try:
            pairing = Peer.parse(line_of(agent))
            line = pairing.line.replace(pairing.name, Peer(host).name)
            with hosts.start(hosts.near, NEAR, line, "line0", direction) as near:
                assert line_of(near).split()[1] == host
                kind, seconds, elapsed = line_of(near).split()
            assert kind == "silent"
            assert int(elapsed) < 30  # the stream beside it falls silent: nobody waits for iperf3 to notice
            assert int(seconds) >= (1 if direction == "reverse" else 0)
            assert near.returncode == 0
        finally:
            agent.kill()


# The line is cut before a load is opened.
OPENS = """
import subprocess, sys
from linkqual.errors import PeerError
from linkqual.model import Direction
from linkqual.net import control
from linkqual.probes import loading
from linkqual.probes.bench import Bench
control.QUIET_S = 0.5
channel = control.Control.connect(control.Peer.parse(sys.argv[1]))
subprocess.run(["ip", "link", "set", "line0", "down"], check=True)
for direction in (Direction.FORWARD, Direction.REVERSE):
    try:
        with loading.opened(Bench(channel.peer_address, channel.near_address, control=channel), direction):
            print("opened", flush=True)
    except PeerError as error:
        print(error.kind, error.message, flush=True)
"""


def test_no_load_is_opened_for_long_over_a_line_that_is_cut(hosts: TwoHosts) -> None:
    with hosts.start(hosts.far, AGENT) as agent:
        try:
            with hosts.start(hosts.near, OPENS, line_of(agent)) as near:
                first, second = line_of(near), line_of(near)
        finally:
            agent.kill()
    assert (first.split()[0], second.split()[0]) == ("silent", "silent")
    assert "no answer to load.open within 0.5 s" in first  # of the 30 a busy agent has
    assert "the connection is closed" in second


GUEST = """
import sys, time
from linkqual.errors import PeerError
from linkqual.net.control import Control, Peer
for _ in range(100):
    try:
        control = Control.connect(Peer.parse(sys.argv[1]))
        break
    except PeerError as error:
        print(error.kind, flush=True)
        time.sleep(0.2)
print("served", flush=True)
time.sleep(float(sys.argv[2]))
"""


def test_a_near_end_cut_off_makes_way_for_the_next(hosts: TwoHosts) -> None:
    """Its host has vanished without a word: nothing would be noticed for a minute, did not somebody else ask."""
    started: list[subprocess.Popen[Any]] = []
    try:
        started.append(agent := hosts.start(hosts.far, AGENT))
        line = line_of(agent)
        started.append(first := hosts.start(hosts.near, GUEST, line, "60"))
        assert line_of(first) == "served"
        ip("-n", hosts.near, "link", "set", "line0", "down")
        local = line.replace("10.99.7.2", "127.0.0.1")
        started.append(second := hosts.start(hosts.far, GUEST, local, "0"))
        assert line_of(second) == "busy"
        assert line_with(second, "served")
        assert line_with(agent, "ended:").startswith("10.99.7.1")
    finally:
        for process in started:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
