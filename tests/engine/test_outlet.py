"""The door of a socket: what the host refuses is counted, and every TX stamp finds its packet, before Linux 6.13 too."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator

import numpy as np
import pytest

from linkqual.net import messages, sockets
from linkqual.net.clock import utc_ns
from linkqual.net.messages import MessageBlock
from linkqual.net.outlet import Outlet
from linkqual.net.sockets import StampedSocket

pytestmark = pytest.mark.loopback
TOO_LONG = 65_600  # octets: no UDP datagram holds them
FIRST = 2**32 - 40  # ids wrap on the way


@pytest.fixture(params=["ids of ours", "ids the kernel counts"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Before 6.13 Linux knows no SCM_TS_OPT_ID and refuses what carries it with EINVAL, as it does any unknown kind."""
    if request.param == "ids the kernel counts":
        monkeypatch.setattr(messages, "_ID_HEAD", socket.SOL_SOCKET | 250 << 32)
        monkeypatch.setattr(sockets, "SCM_TS_OPT_ID", 250)
    return str(request.param)


@pytest.fixture
def near() -> Iterator[StampedSocket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far:
        far.bind(("127.0.0.1", 0))
        sock = StampedSocket("127.0.0.1", peer=far.getsockname())
        yield sock
        sock.close()


class Stamps:
    """Takes them; `sent` says between which instants each packet left."""

    def __init__(self) -> None:
        self.by_number: dict[int, list[int]] = {}
        self.sent: dict[int, tuple[int, int]] = {}

    def take(self, numbers: np.ndarray, stamps: np.ndarray) -> None:
        for number, stamp in zip(numbers.tolist(), stamps.tolist(), strict=True):
            self.by_number.setdefault(number, []).append(stamp)

    def push(self, outlet: Outlet, block: MessageBlock, first: int, count: int) -> list[int]:
        before = utc_ns()
        refused = outlet.push(block, 0, count, first)
        self.sent |= dict.fromkeys(range(first, first + count), (before, utc_ns()))
        return refused

    def check(self, refused: set[int]) -> None:
        assert self.by_number.keys() == self.sent.keys() - refused
        assert all(len(stamps) == 1 for stamps in self.by_number.values())
        for number, (stamp,) in self.by_number.items():
            before, after = self.sent[number]
            assert before <= stamp <= after
        in_order = [self.by_number[number][0] for number in sorted(self.by_number)]
        assert in_order == sorted(in_order)


def test_every_stamp_finds_its_packet_whatever_is_refused(near: StampedSocket, kernel: str) -> None:
    chance, stamps = np.random.default_rng(5), Stamps()
    outlet = Outlet(near, FIRST, stamps.take)
    block = MessageBlock(16, TOO_LONG)
    number, refused = FIRST, set()
    for _ in range(30):
        count = int(chance.integers(1, 17))
        bad = chance.random(count) < chance.choice([0, 0.2, 0.7])
        block.sizes[:count] = np.where(bad, TOO_LONG, 64)
        given_up = stamps.push(outlet, block, number, count)
        assert given_up == [number + row for row in np.flatnonzero(bad).tolist()]
        refused |= set(given_up)
        number += count
        if chance.random() < 0.5:
            outlet.collect()
    outlet.collect()
    stamps.check(refused)
    assert outlet.unsent == {"EMSGSIZE": len(refused)}
    assert outlet.refusals["EMSGSIZE"] >= len(refused)
    assert len(refused) > 20
    assert outlet.stamps == len(stamps.by_number) == number - FIRST - len(refused)
    assert outlet._numbers.explicit == (kernel == "ids of ours")


def test_single_packets_are_numbered_alike(near: StampedSocket, kernel: str) -> None:
    stamps = Stamps()
    outlet = Outlet(near, FIRST, stamps.take)
    block = MessageBlock(1, 64)
    block.payload[:] = 7

    for number in range(FIRST, FIRST + 60):
        before = utc_ns()
        left = outlet.push_one(bytes(64), number)
        stamps.sent[number] = before, utc_ns()
        if not left:  # that one alone found out what this kernel knows
            assert number == FIRST
            assert stamps.push(outlet, block, number, 1) == []
        if number % 7 == 0:
            outlet.collect()
    outlet.collect()
    stamps.check(set())
    assert not outlet.refusals
    assert outlet._numbers.explicit == (kernel == "ids of ours")


def test_a_full_queue_is_waited_for_and_then_its_packets_are_given_up(
    near: StampedSocket, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue is full for 40 calls and takes nothing, then one packet a call: within the patience all but a few leave."""
    send, calls = MessageBlock.send, iter(range(10**6))

    def full_at_first(block: MessageBlock, descriptor: int, first: int, stop: int) -> tuple[int, int]:
        if outlet._numbers.explicit != (kernel == "ids of ours"):
            return send(block, descriptor, first, stop)
        if next(calls) % 60 < 40:
            return 0, errno.ENOBUFS
        return send(block, descriptor, first, first + 1)

    monkeypatch.setattr(MessageBlock, "send", full_at_first)
    stamps = Stamps()
    outlet = Outlet(near, FIRST, stamps.take)
    block = MessageBlock(16, 64)
    refused: set[int] = set()
    for at in range(FIRST, FIRST + 160, 16):
        refused.update(stamps.push(outlet, block, at, 16))
    outlet.collect()
    stamps.check(refused)
    assert outlet.unsent.total() == len(refused)
    assert outlet.refusals["ENOBUFS"] >= 40
