"""A19 with real packets: routers that limit their ICMP errors beside a line that loses nothing, and beside one that does."""

from __future__ import annotations

import socket
import time
from collections import Counter
from typing import Any

import pytest

from linkqual.lab import line as lines
from linkqual.lab.isolate import available
from linkqual.lab.network import VirtualLine
from linkqual.model import Hop
from linkqual.net.marking import exchange
from linkqual.net.reflector import Reflector, ReflectorConfig
from linkqual.net.trace_sockets import TraceSockets
from linkqual.session.hop_loss import Data, explain
from linkqual.session.marking import Mark
from linkqual.session.trace import Reply

from ..lab.isolated import isolated

pytestmark = [pytest.mark.lab, pytest.mark.skipif(available() != "", reason="needs namespaces")]

HOPS, ASKED, PACKETS = 5, 40, 400
LINE = "sites: [near, far]\nforward: [r1, r2, r3, r4]\n"


def asked(virtual: VirtualLine, version: int) -> Any:
    """[replies of each hop, data packets sent, data packets lost], both by the same flow's kind of packet."""
    near, far = (virtual.address(node, version) for node in (virtual.near, virtual.far))
    family = socket.AF_INET6 if version == 6 else socket.AF_INET
    heard: dict[int, Reply] = {}
    with virtual.inside(virtual.near), TraceSockets(family, near, 0, far, 33434) as sockets:
        for number in range(ASKED * HOPS):
            ttl = number % HOPS + 1
            for early in sockets.send(number, ttl):
                heard.setdefault(early.number, early)
            for reply in sockets.receive(2_000_000):
                heard.setdefault(reply.number, reply)
        until = time.monotonic_ns() + 200_000_000
        while (left := until - time.monotonic_ns()) > 0:
            for reply in sockets.receive(left):
                heard.setdefault(reply.number, reply)
    with virtual.inside(virtual.far):
        reflector = Reflector.start(ReflectorConfig(far, near, 7))
    with reflector, virtual.inside(virtual.near):
        data = exchange(
            far, reflector.port, 7, [Mark(0, 0)] * PACKETS,
            source=near, family=family, interval_ns=1_000_000, timeout_ns=300_000_000,
        )  # fmt: skip
    replies = Counter(number % HOPS + 1 for number in heard)
    return [[replies[ttl] for ttl in range(1, HOPS + 1)], len(data.sent), len(data.sent) - len(data.echoes)]


def seen(text: str) -> Any:
    line = lines.parse(LINE + text, "limited.yaml")

    def found() -> Any:
        with VirtualLine(line) as virtual:
            return [asked(virtual, version) for version in (4, 6)]

    return isolated(found)


def hops(replies: list[int]) -> list[Hop]:
    return [
        Hop(ttl, f"10.0.{ttl}.1", sent=ASKED, received=count, reached=ttl == HOPS)
        for ttl, count in enumerate(replies, 1)
    ]


def test_two_routers_that_limit_their_replies_are_no_loss() -> None:
    for replies, sent, lost in seen("routers:\n  r2: {icmp: one in 5 s}\n  r4: {icmp: one in 200 ms}\n"):
        assert lost == 0
        assert replies[1] < 0.6 * ASKED
        assert replies[0] == replies[2] == ASKED
        found = explain(hops(replies), Data(sent, lost))
        assert (found.kind, found.first_ttl) == ("limited", None)
        assert 2 in found.limited
        assert set(found.limited) <= {2, 4}
        assert f"0 of {PACKETS} data packets were lost" in found.because


def test_loss_of_the_line_is_found_behind_a_router_that_limits_its_replies() -> None:
    text = (
        "routers:\n  r1: {icmp: one in 5 s}\n"
        "links:\n  - between: [r2, r3]\n    forward: {loss: {every: 4}}\n"
    )  # fmt: skip
    for replies, sent, lost in seen(text):
        assert lost in {PACKETS // 4, PACKETS // 4 + 1}
        assert replies[1] == ASKED
        found = explain(hops(replies), Data(sent, lost))
        assert (found.kind, found.first_ttl, found.limited) == ("real", 3, (1,))
        assert "real loss begins at or before hop 3" in found.because
