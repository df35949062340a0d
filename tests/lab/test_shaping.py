"""The kernel's buckets against the ones in memory: the same packets, sent by a real socket, meet the same fate."""

from __future__ import annotations

import socket
import struct
from collections import Counter
from time import monotonic_ns
from typing import Any

import numpy as np
import pytest

from linkqual.bottleneck import Bottleneck, Rate, flow_hash
from linkqual.lab.line import parse
from linkqual.lab.network import VirtualLine
from linkqual.lab.shaping import queues, spreading

from .isolated import isolated, require_isolation

PORT, PACKETS, SIZE = 9000, 900, 1500
LINE = "sites: [near, far]\nforward: [r1, r2, r3]\nlinks:\n  - between: [r1, r2]\n    forward: {%s}\n"
# what happens -> flows, packets by which the two may differ: one of credit and one of room each bucket
RATES = {
    "rate: {limit: 20 Mbit/s, kind: policer, bucket: 200 kB}": (1, 3),
    "rate: {limit: 20 Mbit/s, bucket: 64 kB, buffer: 50 ms}": (1, 3),
    "rate: {limit: 4 Gbit/s, per_flow: 8 Mbit/s, bucket: 30 kB, buffer: 60 ms}": (3, 6),
    "rate: {limit: 4 Gbit/s, per_flow: 8 Mbit/s, bucket: 60 kB, kind: policer}": (3, 9),
    "rate: {limit: 60 Mbit/s, members: 4, bucket: 16 kB, buffer: 30 ms}": (9, 12),
    "delay: 1 ms, rate: {limit: 60 Mbit/s, members: 3, bucket: 16 kB, buffer: 30 ms, counts: l3}": (9, 9),
}


def sent(virtual: VirtualLine, flows: int, packets: int = PACKETS) -> dict[str, Any]:
    """Send all packets as fast as a loop can, flows in turn; when each left, from which port, and which numbers came."""
    with virtual.inside(virtual.far):
        far = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        far.bind((virtual.address(virtual.far), PORT))
    with virtual.inside(virtual.near):
        near = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(flows)]
    for one in near:
        one.connect((virtual.address(virtual.far), PORT))
    payload, times = bytes(SIZE - 32), []
    for i in range(packets):
        times.append(monotonic_ns())
        near[i % flows].send(struct.pack("!I", i) + payload)
    far.settimeout(0.3)
    came = []
    while True:
        try:
            came.append(struct.unpack("!I", far.recv(2000)[:4])[0])
        except TimeoutError:
            ports = [one.getsockname()[1] for one in near]
            return {"times": times, "came": came, "ports": ports, "truth": virtual.truth()["forward"]}


@pytest.mark.lab
@pytest.mark.quiet
@pytest.mark.parametrize("what", RATES)
def test_the_kernel_and_the_memory_agree(what: str) -> None:
    require_isolation()
    flows, near_enough = RATES[what]
    line = parse(LINE % what, "x.yaml")

    def run() -> dict[str, Any]:
        with VirtualLine(line) as virtual:
            ends = [socket.inet_aton(virtual.address(node)).hex() for node in (virtual.near, virtual.far)]
            return {"ends": ends, **sent(virtual, flows)}

    seen = isolated(run)
    source, target = (bytes.fromhex(end) for end in seen["ends"])
    hashes = [flow_hash(source, target, struct.pack("!HH", port, PORT), 2) for port in seen["ports"]]  # the second link
    rate = line.between("r1", "r2").toward("r2").rate
    assert rate
    times, flow = np.array(seen["times"]), np.arange(PACKETS) % flows
    _, lost = Bottleneck(rate).through(times, np.full(PACKETS, SIZE), np.array(hashes)[flow])
    assert PACKETS - len(seen["came"]) == seen["truth"]["over_rate"] > PACKETS / 5
    expected, got = Counter(flow[~lost].tolist()), Counter(i % flows for i in seen["came"])
    if rate.members == 1:
        for one in range(flows):
            assert abs(got[one] - expected[one]) <= near_enough / flows
    else:  # flows of one member share it as their packets meet
        members = [one * rate.members >> 32 for one in hashes]
        for member in set(members):
            of_it = [i for i in range(flows) if members[i] == member]
            assert abs(sum(got[i] - expected[i] for i in of_it)) <= near_enough / rate.members


@pytest.mark.lab
@pytest.mark.quiet
def test_one_member_alone_can_lose() -> None:
    require_isolation()
    line = parse(LINE % "rate: {limit: 4 Gbit/s, members: 3, buffer: 4 MB}, loss: {ratio: 50 %, member: 2}", "x.yaml")

    def run() -> dict[str, Any]:
        with VirtualLine(line) as virtual:
            ends = [socket.inet_aton(virtual.address(node)).hex() for node in (virtual.near, virtual.far)]
            return {"ends": ends, **sent(virtual, 12, PACKETS // 4)}

    seen = isolated(run)
    source, target = (bytes.fromhex(end) for end in seen["ends"])
    members = [flow_hash(source, target, struct.pack("!HH", port, PORT), 2) * 3 >> 32 for port in seen["ports"]]
    lost = Counter(members[i % 12] for i in set(range(PACKETS // 4)) - set(seen["came"]))
    assert lost.total() == seen["truth"]["udp"]["dropped"]
    assert set(lost) <= {1}
    on_it = members.count(1) * PACKETS // 4 / 12
    assert lost[1] == pytest.approx(on_it / 2, abs=4 * on_it**0.5 / 2)


def test_one_bucket_is_one_queue_and_needs_no_firewall() -> None:
    rate = Rate(10**8, bucket_bytes=20_000, buffer_bytes=40_000)
    (told,) = queues("link1", rate, 1500, framed=True)
    assert told == (
        "qdisc add dev link1 root handle 1: stab overhead 24 linklayer ethernet tbf rate 100000000bit burst 20000 limit 40000"
    )
    assert spreading("link1", rate, 1) == ""


def test_half_of_the_room_a_policer_needs_counts_as_its_bucket() -> None:
    for rate, packets in (
        (Rate(10**8, policer=True, bucket_bytes=50_000), 1),
        (Rate(10**8, policer=True, bucket_bytes=50_000, members=2), 2),
    ):
        told = next(line for line in queues("link1", rate, 1500, framed=False) if " burst " in line)
        assert f" burst {50_000 - packets * 1538} " in told


def test_a_bundle_has_a_bucket_a_member() -> None:
    told = list(queues("link1", Rate(10**8, members=4), 1500, framed=False))
    assert sum("htb rate 25000000bit" in line for line in told) == 4
    assert "mod 4 seed 0x7 offset 0x10001" in spreading("link1", Rate(10**8, members=4), 7)
