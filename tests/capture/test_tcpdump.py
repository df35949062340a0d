"""A session over a router that loses packets, with tcpdump at both ends: its eyes and the engine's must see the same."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from linkqual.cli import main
from linkqual.net.reflector import Reflector, ReflectorConfig
from linkqual.net.sender import Sender, SenderConfig
from linkqual.records import Fate
from linkqual.session.attribution import apply_far_stamps, attribute
from tests.capture.made import stored

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        os.geteuid() != 0 or not all(map(shutil.which, ("ip", "nft", "tcpdump"))),
        reason="needs root, ip, nft and tcpdump",
    ),
]
MS = 1_000_000
TIMEOUT = 300 * MS
PACKETS = 2000


NEAR, FAR = "10.92.1.1", "10.92.2.1"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def ends() -> Iterator[tuple[str, str]]:
    """Names of two namespaces with a router between them that loses some of what it forwards."""
    near, router, far = (f"lqcap{os.getpid()}{end}" for end in ("n", "r", "f"))
    try:
        for name in (near, router, far):
            ip("netns", "add", name)
        for name, device, net in ((near, "near", "10.92.1"), (far, "far", "10.92.2")):
            ip("link", "add", device, "netns", name, "type", "veth", "peer", "name", device, "netns", router)
            for where, last in ((name, 1), (router, 2)):
                ip("-n", where, "address", "add", f"{net}.{last}/24", "dev", device)
                ip("-n", where, "link", "set", device, "up")
            ip("-n", name, "route", "add", "default", "via", f"{net}.2")
        inside = ["ip", "netns", "exec", router]
        subprocess.run([*inside, "sysctl", "-qw", "net.ipv4.ip_forward=1"], check=True)
        rules = "".join(
            f'add rule ip t c iifname "{device}" meta l4proto udp numgen random mod 1000 < {share} drop\n'
            for device, share in (("near", 20), ("far", 30))
        )
        chain = "add table ip t\nadd chain ip t c { type filter hook forward priority 0; }\n"
        subprocess.run([*inside, "nft", "-f", "-"], input=chain + rules, text=True, check=True)
        subprocess.run(["ip", "netns", "exec", near, "ping", "-nqc1", "-w5", FAR], check=True, capture_output=True)
        yield near, far
    finally:
        for name in (near, router, far):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


class Tcpdump:
    """A capture of one end."""

    def __init__(self, namespace: str, device: str, file: Path) -> None:
        command = f"tcpdump -i {device} -w {file} -B 16384 -U --immediate-mode --time-stamp-precision=nano udp"
        self._process = subprocess.Popen(
            ["ip", "netns", "exec", namespace, *command.split(), "-Z", "root"], stderr=subprocess.PIPE, text=True
        )
        assert self._process.stderr is not None
        assert "listening" in self._process.stderr.readline()
        self.file = file

    def stop(self) -> str:
        time.sleep(0.3)  # until it has read what is in its ring
        self._process.send_signal(signal.SIGINT)
        return self._process.communicate(timeout=20)[1]


def test_tcpdump_confirms_the_engine(ends: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    near, far = ends
    dumps = [Tcpdump(near, "near", tmp_path / "near.pcap"), Tcpdump(far, "far", tmp_path / "far.pcap")]
    try:
        at = [("ip", "netns", "exec", name) for name in ends]
        with Reflector.start(ReflectorConfig(FAR, NEAR, ssid=3), launcher=at[1]) as reflector:
            config = SenderConfig(FAR, reflector.port, ssid=3, rate_pps=2000, packets=PACKETS, timeout_ns=TIMEOUT)
            with Sender.start(config, launcher=at[0]) as sender:
                records = np.concatenate(list(sender.chunks()))
                sender.report()
            attribute(records, 0, reflector.arrived(0, PACKETS))
            apply_far_stamps(records, reflector.stop()["stamps"])
    finally:
        said = [dump.stop() for dump in dumps]
    assert all("\n0 packets dropped by kernel" in each for each in said), said
    run = stored(tmp_path / "run", records, TIMEOUT)
    lost = {fate: int((records["fate"] == fate).sum()) for fate in Fate}
    assert lost[Fate.LOST_FORWARD] > 10
    assert lost[Fate.LOST_REVERSE] > 10

    code = main(["import", str(dumps[0].file), "--against", str(run), "--json"])
    answer = json.loads(capsys.readouterr().out)
    (session,) = answer["sessions"]
    assert (code, answer["against"]["agrees"], answer["damage"]) == (0, True, None), answer
    assert (session["sent"], session["received"]) == (PACKETS, lost[Fate.RECEIVED])
    found = session["attribution"]
    assert lost[Fate.LOST_FORWARD] - found["tail"] <= found["forward"] <= lost[Fate.LOST_FORWARD]
    assert lost[Fate.LOST_REVERSE] - found["tail"] <= found["reverse"] <= lost[Fate.LOST_REVERSE]
    assert answer["against"]["difference_size_ns"]["p50"] < 20_000  # two stamps of one kernel, not two clocks

    code = main(["import", str(dumps[1].file), "--against", str(run), "--at", "far", "--json"])
    answer = json.loads(capsys.readouterr().out)
    (session,) = answer["sessions"]
    assert (code, answer["against"]["agrees"]) == (0, True), answer
    came = np.flatnonzero(
        records["fate"] != Fate.LOST_FORWARD
    )  # beyond the first and the last of them no number is missed
    assert session["missing"] == came[-1] + 1 - came[0] - len(came)
    assert session["received"] == PACKETS - lost[Fate.LOST_FORWARD]
