"""The reflector's process against plain sockets: other modes, other senders, one way."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import time
from collections.abc import Callable

import numpy as np
import pytest

from linkqual.model import ClockState
from linkqual.net.clock import utc_ns
from linkqual.net.reflector import Reflector, ReflectorConfig, SharedReflector, of_clock
from linkqual.session.reflector import ARRIVAL
from linkqual.wire import tlv
from linkqual.wire.stamp_auth import close, decode_reflector, encode_sender
from linkqual.wire.stamp_packet import ReflectorPacket, SenderPacket
from linkqual.wire.timestamp import ErrorEstimate, TimestampFormat, ntp_from_ns
from linkqual.wire.tlv import Flag, Tlv, Type
from linkqual.wire.tlv_values import ClassOfService, DirectMeasurement, Location, Place

pytestmark = pytest.mark.loopback
HERE = "127.0.0.1"
KEY = bytes(range(32))


class Near:
    """A sender of one packet at a time; its replies come with their TOS."""

    def __init__(self, port: int, source: str = HERE, tos: int = 0) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        self.socket.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
        self.socket.bind((source, 0))
        self.socket.settimeout(10)
        self.port, self.target = self.socket.getsockname()[1], (HERE, port)
        self.tos = -1

    def ask(self, data: bytes) -> bytes:
        self.socket.sendto(data, self.target)
        reply, ancillary, _, _ = self.socket.recvmsg(20_000, 64)
        self.tos = ancillary[0][2][0]
        return reply


def packet(seq: int = 0, tail: bytes = b"", ssid: int = 7) -> SenderPacket:
    return SenderPacket(seq, utc_ns(), ErrorEstimate(), ssid, tail)


def started(**settings: object) -> Reflector:
    return Reflector.start(ReflectorConfig(HERE, HERE, **({"ssid": 7} | settings)))


# ---- modes


def test_a_stateless_reflector_gives_back_the_senders_numbers() -> None:
    with started(stateless=True) as reflector:
        near = Near(reflector.port)
        for seq in (5, 3, 9):
            tail = Tlv(Type.FOLLOW_UP_TELEMETRY, b"\xff" * 16).encode()
            reply = ReflectorPacket.decode(near.ask(packet(seq, tail).encode()))
            assert (reply.sequence, reply.sender_sequence) == (seq, seq)
            assert reply.tail == b"\0\x07\0\x10" + bytes(16)


@pytest.mark.parametrize("form", ["ntp", "ptp"])
def test_each_end_has_its_own_format_of_timestamps(form: str) -> None:
    with started(form=form, clock_error_ns=1000, clock_synchronised=True) as reflector:
        near = Near(reflector.port)
        before = utc_ns()
        for sender_form in TimestampFormat:
            asked = SenderPacket(int(sender_form), before, ErrorEstimate(form=sender_form), 7)
            reply = ReflectorPacket.decode(near.ask(asked.encode()))
            assert reply.error.form == TimestampFormat[form.upper()]
            assert reply.error.synchronised
            assert reply.sender_error == asked.error
            assert reply.sender_timestamp_ns == before
            assert before <= reply.receive_ns <= reply.timestamp_ns <= utc_ns()


def test_follow_up_telemetry_tells_of_the_reply_before_in_the_sessions_format() -> None:
    with started(form="ptp") as reflector:
        near = Near(reflector.port)
        tail = Tlv(Type.FOLLOW_UP_TELEMETRY, bytes(16)).encode()
        first = ReflectorPacket.decode(near.ask(packet(0, tail).encode()))
        second = near.ask(packet(1, tail).encode())[48:64]
        assert second[:4] == bytes(4)  # of reply 0
        told_ns = int.from_bytes(second[4:8]) * 10**9 + int.from_bytes(second[8:12])
        assert 0 <= told_ns - first.timestamp_ns < 10**9


def test_an_authenticated_session_answers_nobody_without_its_key() -> None:
    with started(key=KEY.hex()) as reflector:
        near = Near(reflector.port)
        tail = close((Tlv(Type.CLASS_OF_SERVICE, ClassOfService(10).encode()),), 4, KEY)
        spoilt = bytearray(encode_sender(packet(4, tail), KEY))
        spoilt[112 + 4] ^= 1  # the TLV no longer is what was signed
        for wrong in (
            encode_sender(packet(1), b"another key"),
            encode_sender(packet(2), KEY)[:-1] + b"\0",
            packet(3).encode() + bytes(68),
            encode_sender(packet(4, ssid=8), KEY),
            bytes(111),
            os.urandom(112),
        ):
            near.socket.sendto(wrong, near.target)
        reply = decode_reflector(near.ask(encode_sender(packet(4, tail), KEY)), KEY)
        assert (reply.sender_sequence, reply.sequence) == (4, 0)
        assert tlv.parse(reply.tail)[0].flags == 0
        reply = decode_reflector(near.ask(bytes(spoilt)), KEY)
        assert [one.flags for one in tlv.parse(reply.tail)] == [Flag.INTEGRITY] * 2
        assert reply.tail[5:8] == spoilt[112 + 5 : 112 + 8]
        counters = reflector.counters()
        assert (counters["answered"], counters["wrong_key"], counters["wrong_ssid"]) == (2, 4, 1)
        assert counters["malformed"] == 1


# ---- marks and places


def test_class_of_service_tells_both_ways_apart() -> None:
    tail = Tlv(Type.CLASS_OF_SERVICE, ClassOfService(10).encode()).encode()
    with started() as reflector:
        near = Near(reflector.port, tos=46 << 2 | 1)
        reply = near.ask(packet(0, tail).encode())
        assert ClassOfService.decode(reply[48:52]) == ClassOfService(10, 46, 1, 0)
        assert near.tos == 10 << 2 | 1
        near.ask(packet(1).encode())
        assert near.tos == 46 << 2  # without the TLV: DSCP as it came, no ECN
    with started(mark=False) as reflector:
        near = Near(reflector.port, tos=46 << 2 | 2)
        reply = near.ask(packet(0, tail).encode())
        assert ClassOfService.decode(reply[48:52]) == ClassOfService(10, 46, 2, 1)
        assert near.tos == 46 << 2 | 2


def test_location_and_counters_are_what_the_far_end_sees() -> None:
    tlvs = (
        Tlv(Type.LOCATION, Location.asking((Place.SOURCE_IP, Place.DESTINATION_IP)).encode()),
        Tlv(Type.DIRECT_MEASUREMENT, DirectMeasurement(5).encode()),
    )
    with started() as reflector:
        near = Near(reflector.port)
        for seq in range(3):
            place, counters = tlv.parse(near.ask(packet(seq, tlv.encode(tlvs)).encode())[44:])
            seen = Location.decode(place.value)
            assert (seen.source_port, seen.destination_port) == (near.port, reflector.port)
            assert seen.address(Place.SOURCE_IPV4) == seen.address(Place.DESTINATION_IPV4) == socket.inet_aton(HERE)
            assert DirectMeasurement.decode(counters.value) == DirectMeasurement(5, seq + 1, seq + 1)


# ---- senders of others


def twamp_light(seq: int, size: int, filling: Callable[[int], bytes] = bytes) -> bytes:
    """A TWAMP-Test request (RFC 5357 s4.1.2): sequence, timestamp, Error Estimate, padding."""
    head = seq.to_bytes(4) + ntp_from_ns(utc_ns()).to_bytes(8) + b"\x00\x01"
    return head + filling(size - len(head))


def test_a_twamp_light_sender_gets_its_fields_where_it_expects_them() -> None:
    fillings: list[Callable[[int], bytes]] = [bytes, os.urandom, lambda n: b"\xff" * n]
    with started(ssid=None, stateless=True, foreign=True) as reflector:
        near = Near(reflector.port)
        for seq, (size, filling) in enumerate(itertools.product((41, 43, 44, 45, 64, 100, 1400), fillings), 70_000):
            sent = twamp_light(seq, size, filling)
            reply = near.ask(sent)
            assert len(reply) == size
            assert reply[:4] == reply[24:28] == sent[:4]
            assert reply[28:38] == sent[4:14]
            assert reply[40] == 64
            assert abs(int.from_bytes(reply[16:24]) - int.from_bytes(sent[4:12])) < 5 << 32


def test_what_no_reply_fits_into_is_never_answered_with_a_longer_one() -> None:
    with started(ssid=None, stateless=True, foreign=True) as reflector:
        near = Near(reflector.port)
        for size in (14, 40):
            near.socket.sendto(twamp_light(0, size), near.target)
        assert len(near.ask(twamp_light(1, 41))) == 41
        counters = reflector.counters()
        assert (counters["answered"], counters["malformed"] + counters["foreign"]) == (1, 2)
        assert counters["short"] == 2


def test_a_foreign_sender_may_begin_anywhere() -> None:
    with started(foreign=True) as reflector:
        near = Near(reflector.port)
        for at, seq in enumerate((3_000_000_000, 3_000_000_001, 2)):
            near.socket.sendto(packet(seq).encode(), near.target)
            if at < 2:
                reply = ReflectorPacket.decode(near.socket.recv(100))
                assert (reply.sender_sequence, reply.sequence) == (seq, at)
        assert len(near.ask(packet(3_000_000_002).encode())) == 44
        assert reflector.counters()["malformed"] == 1  # far out of sequence, and the sender was heard a moment ago


def test_a_foreign_sender_may_start_again_after_a_silence() -> None:
    config = ReflectorConfig(HERE, HERE, ssid=7, foreign=True, idle_ns=300_000_000)
    reflector = SharedReflector.start([config])
    try:
        near, again = Near(reflector.port), Near(reflector.port)
        assert [ReflectorPacket.decode(near.ask(packet(seq).encode())).sequence for seq in (500, 501)] == [0, 1]
        again.socket.sendto(packet(3).encode(), again.target)
        assert ReflectorPacket.decode(near.ask(packet(502).encode())).sequence == 2
        told = reflector.counters()
        assert (told["port"]["wrong_ssid"], told["sessions"][0]["held"], told["sessions"][0]["port"]) == (
            0,
            1,
            near.port,
        )
        for other, seq in ((again, 3), (again, 1), (near, 900_000)):
            time.sleep(0.35)
            assert ReflectorPacket.decode(other.ask(packet(seq).encode())).sequence == 0
        time.sleep(0.35)
        assert ReflectorPacket.decode(near.ask(packet(900_001).encode())).sequence == 1  # a pause is no new start
    finally:
        reflector.close()


def test_another_port_takes_over_from_a_silent_one_but_not_from_a_live_one() -> None:
    key = KEY.hex()
    config = ReflectorConfig(HERE, HERE, ssid=7, foreign=True, key=key, idle_ns=600 * 10**9, hold_ns=200_000_000)
    reflector = SharedReflector.start([config])
    try:
        first, second, liar = Near(reflector.port), Near(reflector.port), Near(reflector.port)
        for seq in range(20):
            first.ask(encode_sender(packet(seq), KEY))
            second.socket.sendto(encode_sender(packet(0), KEY), second.target)
        first.ask(encode_sender(packet(20), KEY))
        held = reflector.counters()["sessions"][0]
        assert (held["answered"], held["held"], held["port"]) == (21, 20, first.port)
        time.sleep(0.25)
        liar.socket.sendto(encode_sender(packet(0), b"another key"), liar.target)
        reply = decode_reflector(second.ask(encode_sender(packet(0), KEY)), KEY)
        assert (reply.sender_sequence, reply.sequence) == (0, 0)  # a session of its own
        figures = reflector.counters()["sessions"][0]
        assert (figures["port"], figures["held"]) == (second.port, 21)
    finally:
        reflector.close()


# ---- sequences


def test_sequence_numbers_wrap() -> None:
    first = 2**32 - 77
    with started(first_seq=first) as reflector:
        near = Near(reflector.port)
        for seq in range(first, first + 200):
            reply = ReflectorPacket.decode(near.ask(packet(seq % 2**32).encode()))
            assert (reply.sender_sequence, reply.sequence) == (seq % 2**32, seq - first)
        assert reflector.arrived(first, 200) == b"\xff" * 25
        assert reflector.counters()["duplicates"] == 0


def test_replays_are_answered_sparingly_and_cost_the_session_nothing() -> None:
    with started(max_pps=1000) as reflector:
        near = Near(reflector.port)
        data = packet(0).encode()
        for _ in range(3000):
            near.socket.sendto(data, near.target)
        for seq in range(1, 200):  # within the allowance of 250 at once, which replays have not used up
            near.socket.sendto(packet(seq).encode(), near.target)
        seen = set[int]()
        while len(seen) < 200:
            seen.add(ReflectorPacket.decode(near.socket.recv(100)).sender_sequence)
        counters = reflector.counters()
        assert counters["answered"] <= 200 + 200 + 64
        assert counters["answered"] + counters["replayed"] == 3199
        assert counters["over_cap"] == 0


def test_what_strangers_drowned_before_the_session_is_told_apart() -> None:
    with started(receive_buffer_bytes=8192) as reflector:
        stranger, near = Near(reflector.port, "127.0.0.2"), Near(reflector.port)
        os.kill(reflector.pid, signal.SIGSTOP)
        for _ in range(500):
            stranger.socket.sendto(bytes(44), stranger.target)
        os.kill(reflector.pid, signal.SIGCONT)
        deadline = time.monotonic() + 10
        while reflector.counters()["foreign"] == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        near.ask(packet(0).encode())
        before = reflector.counters()
        assert before["foreign"] + before["drops_before_peer"] == 500
        assert (before["drops_before_peer"] > 0, before["socket_drops"]) == (True, 0)
        os.kill(reflector.pid, signal.SIGSTOP)
        for seq in range(1, 501):
            near.socket.sendto(packet(seq).encode(), near.target)
            stranger.socket.sendto(bytes(44), stranger.target)
        os.kill(reflector.pid, signal.SIGCONT)
        after = reflector.stop()
        counters = after["counters"]
        assert counters["answered"] - 1 + counters["socket_drops"] == 500
        assert counters["socket_drops"] > 0
        assert counters["drops_before_peer"] == before["drops_before_peer"]
        assert sum(by for _, by in after["drop_times"]) == counters["socket_drops"] + counters["drops_before_peer"]


def test_the_clock_is_named_as_the_rfc_does() -> None:
    for source, number in (("chrony", 1), ("ptp4l", 2), ("none", 5), ("kernel", 0)):
        told = {"clock_error_ns": 9, "clock_synchronised": True, "clock_source": number}
        assert of_clock(ClockState(source, True, 9)) == told


# ---- one way


def test_one_way_every_packet_is_a_row_and_nothing_is_sent_back() -> None:
    count = 20_000
    with started(answering=False) as reflector:
        near = Near(reflector.port, tos=46 << 2)
        began = utc_ns()
        for seq in range(count):
            near.socket.sendto(packet(seq).encode(), near.target)
        near.socket.sendto(packet(5).encode(), near.target)
        rows = list(reflector.rows())
        final = reflector.stop()
        rows += list(reflector.rows())
        arrived = np.concatenate(rows)
        assert arrived.dtype == ARRIVAL
        assert arrived["seq"].tolist() == [*range(count), 5]
        assert set(arrived["tos"].tolist()) == {46 << 2}
        assert set(arrived["ttl"].tolist()) == {64}
        assert began <= arrived["received_ns"].min() <= arrived["received_ns"].max() <= utc_ns()
        counters = final["counters"]
        assert (counters["logged"], counters["duplicates"], counters["answered"]) == (count + 1, 1, 0)
        near.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            near.socket.recv(1)
