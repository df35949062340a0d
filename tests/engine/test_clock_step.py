"""A far clock that is set while real packets fly: between sender and reflector sits one who shifts the far end's stamps."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from linkqual.net.reflector import Reflector, ReflectorConfig
from linkqual.net.sender import Sender, SenderConfig
from linkqual.stats.histogram import quantile
from linkqual.stats.summary import Summarizer
from linkqual.wire.timestamp import ns_column
from tests.engine.relay import Relay

pytestmark = pytest.mark.loopback

MS = 1_000_000
STAMPS = (4, 16, 52)  # T3, T2 and the T3 of an earlier reply (Follow-Up Telemetry) in a reply of 64 octets, NTP format


class Set(Relay):
    """Makes the reflector's clock seem set by `step_ns` at the moment `after` packets have passed."""

    def __init__(self, port: int, step_ns: int, after: int) -> None:
        super().__init__(port)
        self.step, self.after = (step_ns << 32) // 10**9, after
        self.moment = 0  # NTP, of the far end

    def reply(self, data: bytes, number: int) -> bytes:
        reply = bytearray(data)
        (received,) = struct.unpack_from(">Q", reply, 16)
        if number >= self.after and not self.moment:
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
