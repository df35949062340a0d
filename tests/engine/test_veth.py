"""The engine over a veth pair between two namespaces of its own, where the truth about losses is nftables' own counter."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pytest

from linkqual.model import Direction, LoadCount
from linkqual.net.bursts import BurstEnd
from linkqual.net.bursts_ends import BurstConfig
from linkqual.net.load import LoadEnd
from linkqual.net.load_ends import LoadConfig
from linkqual.net.one_way import one_way
from linkqual.net.reflector import Reflector, ReflectorConfig
from linkqual.net.sender import Sender, SenderConfig
from linkqual.records import Fate, Records, Stamp
from linkqual.session.attribution import apply_far_stamps, attribute
from linkqual.session.bursts import Shape
from linkqual.session.load_phase import Phase
from linkqual.session.load_result import together

pytestmark = [
    pytest.mark.lab,
    pytest.mark.quiet,
    pytest.mark.skipif(
        not all(map(shutil.which, ("ip", "unshare", "nsenter", "nft", "tc"))),
        reason="needs ip, tc, nft, unshare, nsenter",
    ),
]
MS = 1_000_000


@dataclass
class Pair:
    """Commands that run inside each end; near has .1, far .2, in 10.91.0.0/24 and fd91::/64."""

    near: tuple[str, ...]
    far: tuple[str, ...]

    def run(self, where: str, *command: str, stdin: str | None = None) -> str:
        done = subprocess.run(
            [*getattr(self, where), *command], input=stdin, check=True, capture_output=True, text=True, timeout=20
        )
        return done.stdout

    def drop(self, where: str, hook: str, rule: str) -> None:
        """A rule in its own chain; `counted` reads how many it dropped."""
        self.run(where, "nft", "-f", "-", stdin=f"add table inet t\nadd chain inet t c {{ type filter hook {hook} priority 0; }}\n"
                 f"add rule inet t c meta l4proto udp {rule} counter drop\n")  # fmt: skip

    def counted(self, where: str) -> int:
        listing = json.loads(self.run(where, "nft", "-j", "list", "ruleset"))
        return sum(
            part["counter"]["packets"]
            for item in listing["nftables"]
            for part in item.get("rule", {}).get("expr", [])
            if "counter" in part
        )


def _hold(enter: tuple[str, ...], *unshare: str) -> subprocess.Popen[bytes]:
    """A namespace that lasts as long as the process in it."""
    holder = subprocess.Popen([*enter, "unshare", *unshare, "-n", "sleep", "600"])
    before = os.readlink("/proc/self/ns/net")
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and holder.poll() is None:
        with open(f"/proc/{holder.pid}/comm") as comm:
            if comm.read().strip() == "sleep" and os.readlink(f"/proc/{holder.pid}/ns/net") != before:
                return holder
        time.sleep(0.005)
    holder.kill()
    holder.wait()
    pytest.skip("no namespaces here: run as root or allow user namespaces")


@pytest.fixture
def pair() -> Iterator[Pair]:
    root = os.geteuid() == 0
    first = _hold((), *(() if root else ("-Ur",)))
    user = () if root else ("-U", "--preserve-credentials")
    near = ("nsenter", "-t", str(first.pid), *user, "-n")
    second = _hold(near)
    far = ("nsenter", "-t", str(second.pid), *user, "-n")
    try:
        both = Pair(near, far)
        ends = {"near": (1, "02:91:00:00:00:01"), "far": (2, "02:91:00:00:00:02")}
        both.run("near", "ip", "link", "add", "near", "address", ends["near"][1], "type", "veth",
                 "peer", "name", "far", "address", ends["far"][1], "netns", str(second.pid))  # fmt: skip
        for where, other in (("near", "far"), ("far", "near")):
            (number, _), (others, mac) = ends[where], ends[other]
            both.run(where, "ip", "address", "add", f"10.91.0.{number}/24", "dev", where)
            both.run(where, "ip", "address", "add", f"fd91::{number}/64", "dev", where, "nodad")
            both.run(where, "ip", "link", "set", where, "up")
            # Told by hand: for a neighbour it asks for, the kernel waits a second when the first answer does not come.
            for address in (f"10.91.0.{others}", f"fd91::{others}"):
                both.run(where, "ip", "neighbour", "add", address, "lladdr", mac, "dev", where, "nud", "permanent")
        for address in ("10.91.0.2", "fd91::2"):
            both.run("near", "ping", "-n", "-c", "1", "-w", "5", address)
        yield both
    finally:
        for holder in (second, first):
            holder.kill()
            holder.wait()


def measure(pair: Pair, *, v6: bool = False, **settings: float) -> tuple[Records, dict, dict]:
    near, far = ("fd91::1", "fd91::2") if v6 else ("10.91.0.1", "10.91.0.2")
    with Reflector.start(ReflectorConfig(far, near, ssid=3, max_pps=10**6), launcher=pair.far) as reflector:
        config = SenderConfig(far, reflector.port, ssid=3, timeout_ns=300 * MS, **settings)
        with Sender.start(config, launcher=pair.near) as sender:
            records = np.concatenate(list(sender.chunks()))
            report = sender.report()
        bitmap = reflector.arrived(0, len(records))
        final = reflector.stop()
    attribute(records, 0, bitmap)
    apply_far_stamps(records, final["stamps"])
    return records, report, final["counters"]


@pytest.mark.parametrize("v6", [False, True], ids=["v4", "v6"])
def test_losses_of_each_direction_are_those_of_the_drop_counters_exactly(pair: Pair, v6: bool) -> None:
    pair.drop("far", "input", "numgen random mod 1000 < 15")
    pair.drop("near", "input", "numgen random mod 1000 < 25")
    records, report, counters = measure(pair, v6=v6, rate_pps=20_000, packets=20_000)
    assert records["seq"].tolist() == list(range(20_000))
    assert (records["fate"] == Fate.LOST_FORWARD).sum() == pair.counted("far") > 0
    assert (records["fate"] == Fate.LOST_REVERSE).sum() == pair.counted("near") > 0
    assert (records["fate"] == Fate.RECEIVED).sum() == report["received"]
    assert (report["socket_drops"], counters["socket_drops"], report["unsent"]) == (0, 0, 0)


def test_one_way_losses_are_those_of_the_drop_counter_exactly(pair: Pair) -> None:
    pair.drop("far", "input", "numgen random mod 1000 < 15")
    far = ReflectorConfig("10.91.0.2", "10.91.0.1", ssid=3, max_pps=10**6, answering=False)
    with Reflector.start(far, launcher=pair.far) as reflector:
        config = SenderConfig("10.91.0.2", reflector.port, ssid=3, rate_pps=20_000, packets=20_000, one_way=True)
        with Sender.start(config, launcher=pair.near) as sender:
            records = np.concatenate(list(one_way(sender, reflector, 200 * MS)))
            report = sender.report()
        counters = reflector.stop()["counters"]
    assert records["seq"].tolist() == list(range(20_000))
    assert (records["fate"] == Fate.LOST_FORWARD).sum() == pair.counted("far") > 0
    assert (records["fate"] == Fate.RECEIVED).sum() == 20_000 - pair.counted("far") == counters["logged"]
    assert (report["unsent"], counters["socket_drops"]) == (0, 0)


def load_over(pair: Pair, *, forward: bool, phase: Phase) -> LoadCount:
    far = LoadConfig(77, "10.91.0.1", phase.flows, phase.longest - 28, bind_address="10.91.0.2")
    near = LoadConfig(77, "10.91.0.2", phase.flows, phase.longest - 28)
    roles = ("load-receiver", "load-sender") if forward else ("load-sender", "load-receiver")
    with (
        LoadEnd.start(roles[0], far, pair.far) as there,
        LoadEnd.start(roles[1], replace(near, peer_port=there.ports[0]), pair.near) as here,
    ):
        sender, receiver = (here, there) if forward else (there, here)
        receiver.begin(1, phase)
        sender.begin(1, phase)
        deadline = time.monotonic() + 20
        while not sender.look()["ended_by"] and time.monotonic() < deadline:
            time.sleep(0.02)
        while receiver.look()["quiet_ns"] < 200 * MS:
            time.sleep(0.02)
        return together(phase, Direction.FORWARD, sender.result(), receiver.result())


@pytest.mark.parametrize("forward", [True, False], ids=["forward", "reverse"])
def test_losses_of_a_load_are_those_of_the_drop_counter_exactly(pair: Pair, forward: bool) -> None:
    receiver = "far" if forward else "near"
    pair.drop(receiver, "input", "udp length > 200 numgen random mod 1000 < 30")
    count = load_over(pair, forward=forward, phase=Phase("x", 60_000_000, packets=4000, sizes=((1000, 1),), flows=2))
    assert count.lost == pair.counted(receiver) > 0
    assert (count.sent, count.received, count.host_lost) == (4000, 4000 - count.lost, 0)
    assert sum(event.packets for event in count.loss_events) == count.lost
    assert sum(sent - received for sent, received, _ in count.by_flow) == count.lost
    assert (count.duplicates, count.reordered, count.damaged) == (0, 0, 0)


def test_all_four_stamps_are_the_kernels_and_in_order(pair: Pair) -> None:
    records, _, counters = measure(pair, rate_pps=1000, packets=500)
    assert (records["stamps"] == Stamp.ALL_KERNEL).all()
    assert counters["unstamped"] == 0
    there = records["far_received_ns"] - records["sent_ns"]
    back = records["received_ns"] - records["far_sent_ns"]
    assert there.min() > 0  # one clock
    assert back.min() > 0
    assert np.median(there + back) < np.median(
        records["far_sent_ns"] - records["far_received_ns"]
    )  # the line, not the host


def test_a_full_local_queue_is_no_loss_of_the_line(pair: Pair) -> None:
    """Without IP_RECVERR the kernel would call these packets sent."""
    pair.run(
        "near", "tc", "qdisc", "add", "dev", "near", "root", "tbf", "rate", "2mbit", "burst", "2000", "limit", "3000"
    )
    records, report, _ = measure(pair, rate_pps=20_000, packets=6000)
    unsent = (records["fate"] == Fate.UNSENT).sum()
    assert unsent == report["unsent"] == report["unsent_because"]["ENOBUFS"] > 0
    assert (records["fate"] == Fate.RECEIVED).sum() == 6000 - unsent
    answered = records[records["fate"] == Fate.RECEIVED]
    assert (answered["sent_ns"] <= answered["far_received_ns"]).all()  # each TX stamp found its own packet again


def test_a_local_filter_is_no_loss_of_the_line(pair: Pair) -> None:
    pair.drop("near", "output", "numgen random mod 10 < 6")
    records, report, _ = measure(pair, rate_pps=2000, packets=1000)
    assert report["unsent_because"]["EPERM"] == (records["fate"] == Fate.UNSENT).sum()
    received = records[records["fate"] == Fate.RECEIVED]
    assert len(received) + report["unsent"] == 1000
    assert (received["stamps"] & Stamp.T1_KERNEL).all()
    assert (received["sent_ns"] <= received["far_received_ns"]).all()


def test_a_cut_line_is_losses_from_then_on_and_no_hang(pair: Pair) -> None:
    with Reflector.start(ReflectorConfig("10.91.0.2", "10.91.0.1", ssid=3), launcher=pair.far) as reflector:
        config = SenderConfig("10.91.0.2", reflector.port, ssid=3, rate_pps=2000, packets=3000, timeout_ns=200 * MS)
        with Sender.start(config, launcher=pair.near) as sender:
            chunks, cut = [], False
            for records in sender.chunks():
                chunks.append(records)
                if sender.sent > 1000 and not cut:
                    pair.drop("far", "input", "")
                    cut = True
            report = sender.report()
        records = np.concatenate(chunks)
        attribute(records, 0, reflector.arrived(0, 3000))
    assert (report["sent"], len(records)) == (3000, 3000)
    lost = records["fate"] == Fate.LOST_FORWARD
    assert lost.sum() == pair.counted("far") > 0
    assert lost[np.argmax(lost) :].all()


BURSTS = Shape(
    bursts=30, packets=30, packet_bytes=972, flows=3, gap_ns=200_000.0, period_ns=10 * MS, quiet_ns=2 * MS,
    patience_ns=5000 * MS, overlap=False, most_repeats=10_000,
)  # fmt: skip


def bursts_over(pair: Pair, *, forward: bool) -> tuple[Any, Any, dict, dict]:
    """Rows and last words of the sender and of the receiver."""
    far = BurstConfig(99, "10.91.0.1", asdict(BURSTS), "10.91.0.2")
    near = BurstConfig(99, "10.91.0.2", asdict(BURSTS))
    roles = ("burst-receiver", "burst-sender") if forward else ("burst-sender", "burst-receiver")
    there = BurstEnd(roles[0], far, pair.far)
    here = BurstEnd(roles[1], replace(near, peer_port=there.ports[0]), pair.near)
    sender, receiver = (here, there) if forward else (there, here)
    try:
        deadline = time.monotonic() + 40
        while sender.look()["base_rtt_ns"] is None and time.monotonic() < deadline:
            time.sleep(0.02)
        sender.start(BURSTS.period_ns)
        while not sender.look()["done"] and time.monotonic() < deadline:
            time.sleep(0.02)
        said = sender.stop()
        time.sleep(0.1)
        heard = receiver.stop()
        return sender.rows(), receiver.rows(), said, heard
    finally:
        here.close()
        there.close()


@pytest.mark.parametrize("forward", [True, False], ids=["forward", "reverse"])
def test_what_bursts_lose_is_what_the_drop_counter_says_and_every_one_is_repaired(pair: Pair, forward: bool) -> None:
    receiver = "far" if forward else "near"
    pair.drop(receiver, "input", "udp length > 900 numgen random mod 1000 < 30")
    sent, arrived, said, heard = bursts_over(pair, forward=forward)
    assert len(sent) == len(arrived) == BURSTS.bursts
    assert (sent["completion_ns"] > 0).all()
    assert (sent["first"] == BURSTS.packets).all()
    assert said["packets"] - heard["received"] == pair.counted(receiver) > 0
    assert said["packets"] == BURSTS.bursts * BURSTS.packets + int(sent["repeats"].sum())
    first = int(arrived["lost"].sum())
    assert first == BURSTS.bursts * BURSTS.packets - int(arrived["received"].sum())
    assert 0 < first <= pair.counted(receiver)  # the others were lost when sent again
    assert (heard["dropped"], heard["strangers"], said["strangers"]) == (0, 0, 0)
