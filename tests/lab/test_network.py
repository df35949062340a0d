from __future__ import annotations

import json
import socket
import subprocess
from typing import Any

import numpy as np
import pytest

from linkqual.lab.description import DIRECTIONS, Line
from linkqual.lab.line import load, names, parse
from linkqual.lab.network import VirtualLine
from linkqual.model import Direction
from linkqual.net.reflector import Reflector, ReflectorConfig
from linkqual.net.sender import Sender, SenderConfig
from linkqual.records import Fate

from .isolated import isolated, require_isolation, until

pytestmark = [pytest.mark.lab, pytest.mark.quiet]

HEAD = "sites: [near, far]\nforward: [r1, r2, r3]\n"
BUSY = ("seen", "dropped", "duplicated")


@pytest.fixture(autouse=True)
def isolation() -> None:
    require_isolation()


def pinging(virtual: VirtualLine, start: str, address: str, *more: str) -> subprocess.Popen[str]:
    argv = ["ping", "-n", "-c", "2", "-i", "0.05", "-W", "1", *more, address]
    return virtual.popen(start, argv, stdout=subprocess.PIPE, text=True)


def ping(virtual: VirtualLine, start: str, address: str, *more: str) -> str:
    return pinging(virtual, start, address, *more).communicate()[0]


def measure(virtual: VirtualLine, version: int, rate: int, packets: int) -> dict[str, Any]:
    """STAMP over the line: losses by direction from the far end's own list, medians, hops."""
    near, far = (virtual.address(node, version) for node in (virtual.near, virtual.far))
    with virtual.inside(virtual.far):
        reflector = Reflector.start(ReflectorConfig(far, near, ssid=7))
    config = SenderConfig(
        far, reflector.port, 7, near, packet_bytes=100, rate_pps=rate, packets=packets, timeout_ns=300_000_000
    )
    with virtual.inside(virtual.near):
        sender = Sender.start(config)
    records = np.concatenate(list(sender.chunks()))
    arrived = np.unpackbits(np.frombuffer(reflector.arrived(0, packets), np.uint8), bitorder="little")[:packets]
    reflector.stop()
    here = records[records["fate"] == Fate.RECEIVED]
    forward, reverse = here["far_received_ns"] - here["sent_ns"], here["received_ns"] - here["far_sent_ns"]
    return {
        "sent": len(records),
        "lost": {"forward": int(packets - arrived.sum()), "reverse": int(arrived.sum()) - len(here)},
        "median_ns": {"forward": float(np.median(forward)), "reverse": float(np.median(reverse))},
        "min_ns": {"forward": int(forward.min()), "reverse": int(reverse.min())},
        "hops": [sorted({255 - int(ttl) for ttl in here[name]}) for name in ("forward_ttl", "reverse_ttl")],
        "truth": virtual.truth(),
    }


@pytest.mark.parametrize("name", names())
def test_a_shipped_line_is_what_it_describes(name: str) -> None:
    line = load(name)

    def run() -> dict[str, Any]:
        with VirtualLine(line) as virtual:
            ends = ((virtual.near, virtual.far), (virtual.far, virtual.near))
            under_way = [
                pinging(virtual, start, virtual.address(end, version)) for version in (4, 6) for start, end in ends
            ]
            pings = [one.communicate()[0] for one in under_way]
            return {"pings": pings, **measure(virtual, 4, 10_000, 2000)}

    seen = isolated(run)
    check(line, seen, 2000)
    if not any(line.loss(way) for way in DIRECTIONS):
        assert [text for text in seen["pings"] if "2 packets transmitted, 2 received" not in text] == []


def check(line: Line, seen: dict[str, Any], packets: int) -> None:
    for way in DIRECTIONS:
        truth = seen["truth"][way]
        assert seen["lost"][way] == truth["udp"]["dropped"] + truth["over_rate"]
        assert truth["own"] == 0
        if line.loss(way) == 0:
            assert truth["udp"]["dropped"] == 0
        assert seen["min_ns"][way] >= line.delay_ns(way, 0)
        if not any(what.jitter.spread_ns for what in line.impairments(way)):
            assert abs(seen["median_ns"][way] - line.delay_ns(way)) < 300_000
    assert seen["sent"] == packets
    assert seen["truth"]["forward"]["udp"]["seen"] == packets
    assert seen["hops"] == [[len(line.forward) - 2], [len(line.reverse) - 2]]


def test_twenty_kpps_pass_both_ways_and_the_line_loses_what_it_says() -> None:
    text = (
        HEAD
        + "links:\n  - between: [r1, r2]\n    both: {delay: 3 ms}\n    forward: {loss: {every: 1000}}\n    reverse: {loss: {ratio: 1e-3, burst: 4}}\n"
    )
    line = parse(text, "x.yaml")

    def run() -> dict[str, Any]:
        with VirtualLine(line) as virtual:
            return measure(virtual, 6, 20_000, 40_000)

    seen = isolated(run)
    check(line, seen, 40_000)
    assert seen["lost"]["forward"] == 40
    assert seen["lost"]["reverse"] > 0


def test_copies_and_reordering_are_counted() -> None:
    text = (
        HEAD
        + "links:\n  - between: [r1, r2]\n    forward: {delay: 1 ms, duplicate: 25 %, loss: {positions: [0, 10]}, reorder: {ratio: 10 %, by: 5 ms}}\n"
    )
    line = parse(text, "x.yaml")

    def run() -> dict[str, Any]:
        with VirtualLine(line) as virtual:
            with virtual.inside(virtual.far):
                far = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                far.bind((virtual.address(virtual.far), 9000))
            with virtual.inside(virtual.near):
                near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            near.connect((virtual.address(virtual.far), 9000))
            for i in range(120):
                near.send(i.to_bytes(4, "big"))
            far.settimeout(1)
            got = []
            while True:
                try:
                    got.append(int.from_bytes(far.recv(100), "big"))
                except TimeoutError:
                    return {"got": got, "truth": virtual.truth()["forward"]}

    seen = isolated(run)
    got, truth = seen["got"], seen["truth"]
    assert {key: truth["udp"][key] for key in BUSY} == {"seen": 120, "dropped": 2, "duplicated": len(got) - 118}
    assert sorted(set(got)) == [i for i in range(120) if i not in {0, 10}]
    assert len(got) - 118 == pytest.approx(30, abs=20)
    newest = np.maximum.accumulate(got)
    assert int((np.array(got[1:]) < newest[:-1]).sum()) == truth["reordered"] > 2


def test_a_silent_router_and_a_limited_one() -> None:
    text = HEAD + "routers:\n  r2: {icmp: never}\n  r3: {icmp: one in 10 s}\n"
    line = parse(text, "x.yaml")

    def run() -> list[str]:
        with VirtualLine(line) as virtual:
            target, target_six = (virtual.address(virtual.far, version) for version in (4, 6))
            asked = (("-t", "1", target), ("-t", "2", target), ("-t", "3", "-c", "12", target), ("-t", "1", target_six))
            under_way = [pinging(virtual, virtual.near, address, *options) for *options, address in asked]
            return [one.communicate()[0] for one in under_way]

    first, silent, limited, six = isolated(run)
    assert "From 10.77.1.2 icmp_seq=2 Time to live exceeded" in first
    assert "exceeded" not in silent
    assert 1 <= limited.count("Time to live exceeded") < 12
    assert "From fd77:0:0:1::2 icmp_seq=1 Time exceeded" in six


def test_a_small_mtu_is_told_to_the_sender() -> None:
    line = parse(HEAD + "links:\n  - between: [r2, r3]\n    mtu: 1400\n    both: {delay: 1 ms}\n", "x.yaml")

    def run() -> list[str]:
        with VirtualLine(line) as virtual:
            return [
                ping(virtual, virtual.near, virtual.address(virtual.far), "-M", "do", "-s", str(size - 28))
                for size in (1400, 1401)
            ]

    fits, too_long = isolated(run)
    assert "2 received" in fits
    assert "mtu = 1400" in too_long


def test_tcp_gets_what_the_headers_leave_of_the_rate() -> None:
    line, way = load("slow-reverse"), Direction.REVERSE

    def run() -> dict[str, Any]:
        with VirtualLine(line) as virtual:
            server = virtual.popen(
                virtual.far, ["iperf3", "-s", "-1", "--forceflush"], stdout=subprocess.PIPE, text=True
            )
            until(lambda: "Server listening" in (server.stdout.readline() if server.stdout else ""), "iperf3 listening")
            argv = ["iperf3", "-c", virtual.address(virtual.far), "-C", "cubic", "-t", "3", "-O", "1", "-J", "-R"]
            client = virtual.popen(virtual.near, argv, stdout=subprocess.PIPE, text=True)
            said = json.loads(client.communicate()[0])
            return {"bps": said["end"]["sum_received"]["bits_per_second"], "own": virtual.truth()[way]["own"]}

    seen = isolated(run)
    assert seen["bps"] == pytest.approx(line.expect.goodput_bps[way], rel=0.03)
    assert seen["own"] == 0
