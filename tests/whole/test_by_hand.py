"""Two hosts and a line made by hand, not by our lab: it works the same way, and whatever breaks is told and leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from linkqual import profiles
from linkqual.errors import ExitCode

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes namespaces with `ip netns`: needs root"),
]
NEAR, FAR = "10.98.6.1", "10.98.6.2"
LOADS = ("--only", "stamp", "--only", "throughput")
LINKQUAL = [sys.executable, "-m", "linkqual"]
IMPATIENT = "from linkqual.cli import main; from linkqual.net import control; control.CALL_TIMEOUT_S = 3.0; raise SystemExit(main())"


@dataclass
class Hosts:
    near: str
    far: str
    folder: Path
    agents: list[subprocess.Popen[str]] = field(default_factory=list)

    def agent(self, *options: str, **environment: str) -> str:
        """Start an agent at the far host; its pairing line."""
        agent = subprocess.Popen(
            ["ip", "netns", "exec", self.far, *LINKQUAL, "agent", "--ephemeral", "--bind", FAR, "--quiet", *options],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ | environment,
        )  # fmt: skip
        self.agents.append(agent)
        assert agent.stdout is not None
        return agent.stdout.readline().strip()

    def start(self, *arguments: str, program: list[str] = LINKQUAL) -> subprocess.Popen[str]:
        command = ["ip", "netns", "exec", self.near, *program, "test", *arguments, "-o", str(self.folder / "run")]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.folder / "run" / "run.json").read_text())
        return document

    def until_packets_flow(self) -> None:
        path = self.folder / "run" / "packets" / "stamp.arrow"
        deadline = time.monotonic() + 30
        while not (path.exists() and path.stat().st_size > 20_000):
            assert time.monotonic() < deadline, "no packets were kept"
            time.sleep(0.05)

    def left(self) -> list[str]:
        """Processes that still live in one of the two hosts."""
        found: list[str] = []
        for host in (self.near, self.far):
            found += subprocess.run(
                ["ip", "netns", "pids", host], capture_output=True, text=True, check=True
            ).stdout.split()
        return found


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    near, far = f"lqhand{os.getpid()}n", f"lqhand{os.getpid()}f"
    two = Hosts(near, far, tmp_path)
    try:
        for host in (near, far):
            ip("netns", "add", host)
            ip("-n", host, "link", "set", "dev", "lo", "up")
        ip("-n", near, "link", "add", "line", "type", "veth", "peer", "name", "line", "netns", far)
        for host, address in ((near, NEAR), (far, FAR)):
            ip("-n", host, "addr", "add", f"{address}/30", "dev", "line")
            ip("-n", host, "link", "set", "dev", "line", "up")
        yield two
    finally:
        for agent in two.agents:
            agent.terminate()
            agent.wait(10)
        for host in (near, far):
            with suppress(subprocess.CalledProcessError):
                ip("netns", "del", host)


BRIEF = {  # every probe, with fewer packets
    "members: {flows: 64, packets: 2500}": "members: {flows: 8, packets: 250}",
    "marking: {packets: 20}": "marking: {packets: 4}",
    "ping: {count: 20,": "ping: {count: 4,",
    "warmup: 2 s ": "warmup: 1 s ",
    "count: 1000 ": "count: 20 ",
}


def brief() -> str:
    """The training profile, for a run that proves nothing but that all of it works."""
    text = profiles.text("training")
    for shipped, shorter in BRIEF.items():
        assert text.count(shipped) == 1, shipped
        text = text.replace(shipped, shorter)
    return text


def test_a_line_between_two_hosts(hosts: Hosts, tmp_path: Path) -> None:
    profile = tmp_path / "brief.yaml"
    profile.write_text(brief())
    asked = ("--quick", "--duration", "1s", "--streams", "2", "--rate", "5k", "--name", "Süd → 北 1")
    told = hosts.test(hosts.agent(), "--profile", str(profile), *asked)
    assert told.returncode == ExitCode.INCONCLUSIVE, told.stderr  # one second proves no 1e-5
    measured = {taken["step"]["probe"]: taken for taken in hosts.document["measurements"]}
    assert all(taken["fault"] is None for taken in measured.values()), measured
    assert measured["stamp"]["stamp"]["summary"]["received"] == measured["stamp"]["stamp"]["summary"]["sent"] == 5_000
    assert measured["throughput"]["throughput"]["receiver_bps"]
    assert [hop["address"] for hop in measured["path"]["path"]["forward"]["hops"]] == [FAR]
    assert hosts.document["plan"]["link"]["name"] == "Süd → 北 1"
    assert hosts.document["embedded_line"] is None


def test_a_wrong_token_is_refused_and_the_agent_serves_on(hosts: Hosts) -> None:
    line = hosts.agent()
    refused = hosts.test(line, "--token", "not-the-token-at-all", "--only", "ping")
    assert refused.returncode == ExitCode.NO_DATA
    assert "token" in refused.stderr
    assert hosts.test(line, "--only", "stamp", "--duration", "300ms", "--rate", "1k").returncode != ExitCode.USAGE
    assert hosts.document["measurements"][0]["fault"] is None


def test_the_far_end_killed_in_the_middle_is_not_laid_to_the_line(hosts: Hosts) -> None:
    running = hosts.start(hosts.agent(), "--only", "stamp", "--duration", "60s", "--rate", "2k")
    hosts.until_packets_flow()
    hosts.agents[0].kill()
    out, err = running.communicate(timeout=60)
    assert running.returncode in (ExitCode.NO_DATA, ExitCode.INCONCLUSIVE), out + err
    (taken,) = hosts.document["measurements"]
    assert taken["fault"]["kind"] == "peer-lost"
    summary = taken["stamp"]["summary"]
    assert summary["received"] == summary["sent"] > 0
    assert hosts.left() == []


def test_a_line_cut_in_the_middle_is_told_as_silence(hosts: Hosts) -> None:
    asked = ("--only", "stamp", "--duration", "60s", "--rate", "2k")
    running = hosts.start(hosts.agent(), *asked, program=[sys.executable, "-c", IMPATIENT])
    hosts.until_packets_flow()
    ip("-n", hosts.far, "link", "set", "dev", "line", "down")
    out, err = running.communicate(timeout=90)
    assert running.returncode in (ExitCode.NO_DATA, ExitCode.INCONCLUSIVE, ExitCode.FAIL), out + err
    (taken,) = hosts.document["measurements"]
    assert taken["fault"]["kind"] == "silent"
    assert taken["stamp"]["summary"]["received"] > 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_what_was_measured(hosts: Hosts, number: signal.Signals) -> None:
    running = hosts.start(hosts.agent(), "--quick", "--duration", "60s", "--rate", "2k", *LOADS)
    hosts.until_packets_flow()
    running.send_signal(number)
    out, err = running.communicate(timeout=30)
    assert running.returncode == 128 + number, out + err
    assert hosts.document["interrupted"] == number.name
    measured = {taken["step"]["probe"]: taken for taken in hosts.document["measurements"]}
    assert measured["stamp"]["stamp"]["summary"]["received"] > 0
    assert measured["stamp"]["stamp"]["stopped_by"] == measured["throughput"]["fault"]["kind"] == "interrupted"
    assert hosts.document["verdict"] is not None
    assert (hosts.folder / "run" / "report.html").exists()
    hosts.agents[0].terminate()
    hosts.agents[0].wait(10)
    assert hosts.left() == []


def test_a_far_end_without_iperf3_says_so_and_the_rest_is_measured(hosts: Hosts, tmp_path: Path) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()
    for program in ("ip", "python3"):
        (bare / program).symlink_to(f"/usr/sbin/{program}" if program == "ip" else sys.executable)
    line = hosts.agent(PATH=str(bare))
    hosts.test(line, "--duration", "1s", "--rate", "1k", "--streams", "1", "--quick", *LOADS)
    measured = {taken["step"]["probe"]: taken for taken in hosts.document["measurements"]}
    assert measured["throughput"]["fault"]["kind"] == "missing-program"
    assert "iperf3" in measured["throughput"]["fault"]["message"]
    assert measured["stamp"]["fault"] is None
