"""The probe of the narrowest hop: packets with a TTL each, over a chain in memory, between real routers, and what is kept when it is ended."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linkqual.bottleneck import Rate
from linkqual.lab.isolate import available
from linkqual.model import Direction, EndConditions, Fault, LoadCount, Step
from linkqual.net.messages import MessageBlock
from linkqual.probes import loading, narrow
from linkqual.probes.bench import Bench
from linkqual.probes.loading import Loaded
from linkqual.session.load_phase import Phase
from linkqual.wire.load import ARRIVAL

MBIT = 1_000_000
PARAMS = {"bytes": 60_000_000, "packet_bytes": 1500, "counts": "l2", "fastest_bps": 0.0, "contracted_bps": 0, "max_rate_bps": None}  # fmt: skip
STEP = Step("narrow/forward", "narrow", PARAMS, Direction.FORWARD)


def shaper(mbit: int) -> Rate:
    return Rate(mbit * MBIT, False, 16_000, mbit * MBIT // 160, "l2")


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))


@dataclass
class FakeLoading:
    """Carries phases over a chain in memory; `spoil` may change what came of one."""

    chain: Any
    spoil: Callable[[Phase, Loaded], Loaded] = lambda _phase, loaded: loaded
    near: EndConditions = field(default_factory=lambda: EndConditions(host="near"))
    far: EndConditions = field(default_factory=lambda: EndConditions(host="far"))

    def run(self, phase: Phase, *, soon: bool = False) -> Loaded:
        numbers, departed, arrived = self.chain.run(phase)
        rows = np.zeros(len(numbers), ARRIVAL)
        rows["seq"], rows["sent_ns"], rows["received_ns"] = numbers, departed, arrived
        count = LoadCount(phase.name, Direction.FORWARD, phase.rate_bps, 0, phase.sizes, sent=phase.packets, received=len(numbers))  # fmt: skip
        return self.spoil(phase, Loaded(count, rows))


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch, benchmarks: None) -> Any:
    import narrow_chain

    monkeypatch.setattr(narrow, "rest", lambda *_: True)
    monkeypatch.setattr(narrow, "silent", lambda *_: True)
    return narrow_chain.MemoryChain((shaper(90), shaper(30), shaper(60)))


def over(monkeypatch: pytest.MonkeyPatch, load: FakeLoading) -> None:
    @contextlib.contextmanager
    def opened(*_: Any, **__: Any) -> Iterator[FakeLoading]:
        yield load

    monkeypatch.setattr(loading, "opened", opened)


def test_what_is_found_and_under_which_conditions(monkeypatch: pytest.MonkeyPatch, chain: Any) -> None:
    over(monkeypatch, FakeLoading(chain))
    done = narrow.measure(STEP, Bench("192.0.2.1"))
    assert done.fault is None
    assert done.narrow is not None
    assert (done.narrow.links, done.narrow.named, done.narrow.confidence) == (3, 2, "high")
    assert (done.conditions.near.host, done.conditions.far.host) == ("near", "far")


@pytest.mark.parametrize("kind", ["peer-lost", "interrupted"])
def test_a_fault_under_way_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch, chain: Any, kind: str) -> None:
    def spoil(phase: Phase, loaded: Loaded) -> Loaded:
        return Loaded(loaded.count, None, Fault(kind, "gone")) if phase.expire_at else loaded

    over(monkeypatch, FakeLoading(chain, spoil))
    done = narrow.measure(STEP, Bench("192.0.2.1"))
    assert done.fault == Fault(kind, "gone")
    assert done.narrow is not None
    assert done.narrow.rate_bps is not None
    assert done.narrow.rate_bps[0] == pytest.approx(30 * MBIT, rel=0.001)
    assert (done.narrow.named, done.narrow.confidence) == (0, "low")


def test_packets_that_vanish_altogether_are_said(monkeypatch: pytest.MonkeyPatch, chain: Any) -> None:
    over(monkeypatch, FakeLoading(chain, lambda _, loaded: Loaded(loaded.count, loaded.arrivals[:0])))  # type: ignore[index]
    done = narrow.measure(STEP, Bench("192.0.2.1"))
    assert done.narrow is None
    assert done.fault is not None
    assert done.fault.kind == "unreachable"


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("family", "address", "level", "ask", "kind"),
    [
        (socket.AF_INET, "127.0.0.1", socket.IPPROTO_IP, 12, socket.IP_TTL),
        (socket.AF_INET6, "::1", socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, socket.IPV6_HOPLIMIT),
    ],
)
def test_each_packet_leaves_with_its_own_ttl(family: int, address: str, level: int, ask: int, kind: int) -> None:
    with socket.socket(family, socket.SOCK_DGRAM) as receiver, socket.socket(family, socket.SOCK_DGRAM) as sender:
        receiver.settimeout(2)
        receiver.setsockopt(level, ask, 1)
        receiver.bind((address, 0))
        sender.connect(receiver.getsockname())
        block = MessageBlock(4, 64)
        block.expire(np.array([3, 0, 255, 1]), 4 if family == socket.AF_INET else 6)
        assert block.send(sender.fileno(), 0, 4) == (4, 0)
        seen = [receiver.recvmsg(100, 100)[1] for _ in range(4)]
    found = [int.from_bytes(ancillary[0][2][:4], "little") for ancillary in seen]
    assert [ancillary[0][:2] for ancillary in seen] == [(level, kind)] * 4
    assert [found[0], found[2], found[3]] == [3, 255, 1]
    assert found[1] not in (3, 255, 1)


@pytest.mark.lab
@pytest.mark.quiet
@pytest.mark.skipif(available() != "", reason="needs namespaces")
@pytest.mark.parametrize("kind", ["silent", "reverse"])
def test_between_real_routers(benchmarks: None, kind: str) -> None:
    """Silent routers; and load that the far end sends, past a slow way there."""
    import bottleneck

    row = bottleneck.one((shaper(90), shaper(30), shaper(60)), kind, 1)
    links = (60, 30, 90) if kind == "reverse" else (90, 30, 60)
    assert row["rates"] == list(links)
    assert (row["links"], row["named"], row["kind"]) == (3, 2, "shaper"), row
    assert row["error"] < 0.01
    assert min(row["expired"]) > 100
