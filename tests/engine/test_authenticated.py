"""Authenticated STAMP (RFC 8762 section 4.4) over real sockets: signed both ways, and nothing believed that is not."""

from __future__ import annotations

import socket
import threading

import numpy as np
import pytest

from linkqual.net.reflector import Reflector, ReflectorConfig
from linkqual.net.sender import Sender, SenderConfig
from linkqual.records import UNKNOWN_TOS, Fate, Records, Stamp
from linkqual.session.attribution import apply_far_stamps, attribute
from linkqual.session.mix import Mix

pytestmark = pytest.mark.loopback
TIMEOUT_NS = 2_000_000_000  # a busy host takes its time
KEY = bytes(range(32)).hex()


def session(port: int, packets: int = 400, **more: object) -> tuple[Records, dict]:
    settings = {"ssid": 7, "rate_pps": 4000, "packets": packets, "packet_bytes": 152, "timeout_ns": TIMEOUT_NS}
    config = SenderConfig("127.0.0.1", port, **{**settings, **more})  # type: ignore[arg-type]
    with Sender.start(config) as sender:
        rows = np.concatenate(list(sender.chunks()))
        return rows, sender.report()


def test_a_wrong_key_gets_no_answer() -> None:
    with Reflector.start(ReflectorConfig("127.0.0.1", "127.0.0.1", ssid=7, key=KEY)) as reflector:
        rows, report = session(reflector.port, packets=40, rate_pps=1000, key=KEY[::-1], timeout_ns=300_000_000)
        arrived = reflector.arrived(0, 40)
        final = reflector.stop()
    assert (rows["fate"] == Fate.LOST).all()
    attribute(rows, 0, arrived)
    assert (rows["fate"] == Fate.LOST_FORWARD).all()
    assert final["counters"]["wrong_key"] == 40
    assert final["counters"]["answered"] == 0
    assert report["received"] == 0


def test_a_forged_reply_is_counted_and_believed_by_nobody() -> None:
    """Somebody on the way answers in the far end's place: every request comes back as it went, its numbers where a reply has them."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as forger:
        forger.bind(("127.0.0.1", 0))
        forger.settimeout(3)

        def forge() -> None:
            for _ in range(40):
                request, sender = forger.recvfrom(2000)
                reply = bytearray(request)
                reply[48:52], reply[72:74] = request[:4], request[24:26]
                forger.sendto(reply, sender)

        thread = threading.Thread(target=forge, daemon=True)
        thread.start()
        rows, report = session(forger.getsockname()[1], packets=40, key=KEY, timeout_ns=300_000_000)
        thread.join()
    assert (rows["fate"] == Fate.LOST).all()
    assert (report["wrong_key"], report["received"]) == (40, 0)


def test_a_signed_session_of_several_sizes_is_complete_stamped_and_tells_how_packets_arrived() -> None:
    with Reflector.start(ReflectorConfig("127.0.0.1", "127.0.0.1", ssid=7, key=KEY)) as reflector:
        asked = {"key": KEY, "packet_bytes": 1400, "mix": ((160, 3), (400, 2), (1400, 1)), "seed": 9}
        rows, report = session(reflector.port, dscp=34, ecn=2, tlvs=("class_of_service",), **asked)
        final = reflector.stop()
    apply_far_stamps(rows, final["stamps"])
    assert (rows["fate"] == Fate.RECEIVED).all()
    assert (rows["stamps"] == Stamp.ALL_KERNEL).all()
    assert (report["wrong_key"], final["counters"]["wrong_key"]) == (0, 0)
    assert set(rows["forward_tos"].tolist()) == {34 << 2 | 2}
    drawn = Mix(asked["mix"], 9)  # type: ignore[arg-type]
    assert rows["packet_bytes"].tolist() == drawn.sizes[drawn.kinds(0, 400)].tolist()
    assert report["told"]["class_of_service"]["answered"] == 400
    assert final["counters"]["received_bytes"] == int(rows["packet_bytes"].sum())


def test_an_unsigned_mix_is_read_in_one_go() -> None:
    with Reflector.start(ReflectorConfig("127.0.0.1", "127.0.0.1", ssid=7)) as reflector:
        rows, _ = session(reflector.port, packet_bytes=1400, mix=((64, 7), (594, 4), (1400, 1)))
        final = reflector.stop()
    apply_far_stamps(rows, final["stamps"])
    assert (rows["fate"] == Fate.RECEIVED).all()
    assert (rows["stamps"] == Stamp.ALL_KERNEL).all()
    assert len(set(rows["packet_bytes"].tolist())) == 3
    assert set(rows["forward_tos"].tolist()) == {UNKNOWN_TOS}
