"""A far clock that is set while real packets fly: between sender and reflector sits one who shifts the far end's stamps."""

from __future__ import annotations

import select
import socket
import struct
import threading

import numpy as np
import pytest

from linkqual.net.reflector import Reflector, ReflectorConfig
from linkqual.net.sender import Sender, SenderConfig
from linkqual.stats.histogram import quantile
from linkqual.stats.summary import Summarizer
from linkqual.wire.timestamp import ns_column

pytestmark = pytest.mark.loopback

MS = 1_000_000
STAMPS = (4, 16, 52)  # T3, T2 and the T3 of an earlier reply (Follow-Up Telemetry) in a reply of 64 octets, NTP format


class Set:
    """A relay by which the reflector's clock seems set by `step_ns` at the moment `after` packets have passed."""

    def __init__(self, port: int, step_ns: int, after: int) -> None:
        self.near, self.far = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        self.near.bind(("127.0.0.1", 0))
        self.far.connect(("127.0.0.1", port))
        self.port, self.step, self.after = self.near.getsockname()[1], (step_ns << 32) // 10**9, after
        self.moment = 0  # NTP, of the far end
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self.pass_on, daemon=True)

    def __enter__(self) -> Set:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        self.thread.join()
        self.near.close()
        self.far.close()

    def pass_on(self) -> None:
        sender, passed = None, 0
        while not self.ending.is_set():
            for one in select.select([self.near, self.far], [], [], 0.05)[0]:
                data, peer = one.recvfrom(9000)
                if one is self.near:
                    sender, passed = peer, passed + 1
                    self.far.send(data)
                elif sender is not None:
                    self.near.sendto(self.shifted(bytearray(data), passed), sender)

    def shifted(self, reply: bytearray, passed: int) -> bytes:
        (received,) = struct.unpack_from(">Q", reply, 16)
        if passed >= self.after and not self.moment:
            self.moment = received
        for at in STAMPS:
            (instant,) = struct.unpack_from(">Q", reply, at)
            if self.moment and instant >= self.moment:
                struct.pack_into(">Q", reply, at, instant + self.step)
        return bytes(reply)


@pytest.mark.parametrize("step_ns", [300 * MS, -300 * MS])
def test_the_step_is_found_and_the_round_trip_does_not_move(step_ns: int) -> None:
    with (
        Reflector.start(ReflectorConfig("127.0.0.1", "127.0.0.1", ssid=7)) as reflector,
        Set(reflector.port, step_ns, after=400) as way,
        Sender.start(
            SenderConfig("127.0.0.1", way.port, ssid=7, rate_pps=500, packets=800, timeout_ns=900 * MS)
        ) as sender,
    ):
        rows = np.concatenate(list(sender.chunks()))
        assert sender.report()["sent"] == 800
    made = Summarizer()
    made.add(rows)
    found = made.summary()
    assert found.received == 800
    assert quantile(found.round_trip_delay, 0.95) < 200 * MS  # whatever this host is busy with
    (step,) = found.clock_steps
    assert step.step_ns == pytest.approx(step_ns, rel=0.05)
    moment = int(ns_column(np.array([[way.moment]], np.uint64), np.zeros(1, np.uint16))[0, 0])
    assert step.before_ns - 100 * MS <= moment <= step.after_ns + 100 * MS
    assert step.last_before < 420
    assert step.first_after > 380
