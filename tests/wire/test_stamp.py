"""STAMP packets against hand-made vectors, columns against single packets, and arbitrary bytes."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkqual.errors import InputError, WireError
from linkqual.wire import stamp, timestamp, tlv
from linkqual.wire.stamp_packet import ReflectorPacket, SenderPacket
from linkqual.wire.timestamp import ErrorEstimate, TimestampFormat

T = 1700000000 * 10**9
ERROR = ErrorEstimate.from_wire(0x8C64)
SENDER = SenderPacket(7, T + 123456789, ERROR, 0x1234)
REFLECTOR = ReflectorPacket(5, T + 130000000, ERROR, 0x1234, T + 129990000, 7, T + 123456789, ERROR, 253)
SENDER_HEX = "00000007e8fe6f801f9add378c641234" + "00" * 28
REFLECTOR_HEX = (
    "00000005e8fe6f802147ae148c641234e8fe6f802147064f00000007e8fe6f801f9add378c640000fd000000"  # RFC 8762 s4.3.1
)
errors = st.builds(
    ErrorEstimate, st.booleans(), st.sampled_from(TimestampFormat), st.integers(0, 63), st.integers(1, 255)
)
instants = st.integers(0, 2**32 * 10**9 - 1)
words = st.integers(0, 2**32 - 1)
ssids = st.integers(0, 0xFFFF)
tails = st.binary(max_size=40)
senders = st.builds(SenderPacket, words, instants, errors, ssids, tails)
reflectors = st.builds(
    ReflectorPacket, words, instants, errors, ssids, instants, words, instants, errors, st.integers(0, 255), tails
)


def test_golden_packets() -> None:
    assert SENDER.encode().hex() == SENDER_HEX
    assert SenderPacket.decode(bytes.fromhex(SENDER_HEX)) == SENDER
    assert REFLECTOR.encode().hex() == REFLECTOR_HEX
    assert ReflectorPacket.decode(bytes.fromhex(REFLECTOR_HEX)) == REFLECTOR


@given(senders)
def test_sender_round_trip(packet: SenderPacket) -> None:
    assert SenderPacket.decode(packet.encode()) == packet


@given(reflectors)
def test_reflector_round_trip(packet: ReflectorPacket) -> None:
    assert ReflectorPacket.decode(packet.encode()) == packet


@given(st.binary(max_size=120))
def test_any_bytes_give_a_packet_or_wire_error(data: bytes) -> None:
    readers: list[Any] = [
        SenderPacket.decode,
        ReflectorPacket.decode,
        lambda octets: SenderPacket.decode(octets, mode=stamp.Mode.AUTHENTICATED),
        lambda octets: ReflectorPacket.decode(octets, mode=stamp.Mode.AUTHENTICATED),
    ]
    for read in readers:
        with contextlib.suppress(WireError):
            read(data)


def test_must_be_zero_is_ignored_on_receipt() -> None:
    data = bytearray.fromhex(REFLECTOR_HEX)
    data[38:40] = b"\x12\x34"
    data[41:44] = b"abc"
    assert ReflectorPacket.decode(bytes(data)) == REFLECTOR


# ---- columns


def packets(count: int, size: int, **settings: Any) -> np.ndarray:
    return np.tile(stamp.request_template(size, **settings), (count, 1))


@given(st.lists(st.tuples(words, instants), min_size=1, max_size=8), st.sampled_from([44, 64, 72, 300]), ssids, errors)
def test_a_column_of_requests_is_each_request(
    sent: list[tuple[int, int]], size: int, ssid: int, error: ErrorEstimate
) -> None:
    buffer = packets(len(sent), size, ssid=ssid, error=error)
    rows = stamp.sender_rows(buffer)
    sequences, ns = np.array([s for s, _ in sent]), np.array([t for _, t in sent])
    ptp = error.form is TimestampFormat.PTP
    rows["sequence"] = sequences
    rows["timestamp"] = timestamp.ptp_column(ns) if ptp else timestamp.ntp_column(ns)
    for octets, (sequence, t1) in zip(buffer, sent, strict=True):
        packet = SenderPacket.decode(octets.tobytes())
        assert (packet.sequence, packet.timestamp_ns, packet.error, packet.ssid) == (sequence, t1, error, ssid)
        kinds = [(item.type, len(item.value)) for item in tlv.parse(packet.tail)]
        padding = [(1, size - 68)] if size > 64 else []
        assert kinds == ([(7, 16), *padding] if size >= 64 else padding)


def test_reflecting_in_place_is_what_the_scalar_codec_reads() -> None:
    error = ErrorEstimate.of(50_000, synchronised=True)
    buffer = packets(3, 100, ssid=9, error=ERROR, padding=np.random.default_rng(1))
    padding = buffer[0, 68:].copy()
    buffer[:, 16:44] = 0xAA  # MBZ of a careless sender: ignored, and not sent back
    requests = stamp.sender_rows(buffer)
    requests["sequence"] = [10, 11, 2**32 - 1]
    requests["timestamp"] = timestamp.ntp_column(T + np.array([1, 2, 3]))
    rows = stamp.reflect(
        buffer,
        sequence=np.array([100, 101, 102]),
        receive_timestamp=timestamp.ntp_column(T + np.array([11, 12, 13])),
        ttl=np.array([64, 63, 62]),
        error=error,
    )
    rows["timestamp"] = timestamp.ntp_column(T + np.array([21, 22, 23]))
    buffer[:, [44, 64]] = 0  # both TLVs understood
    rows["follow_up_sequence"] = [0, 100, 101]
    rows["follow_up_timestamp"] = timestamp.ntp_column(T + np.array([0, 20, 21]))
    rows["follow_up_timestamp"][0] = 0
    for n, octets in enumerate(buffer):
        reply = ReflectorPacket.decode(octets.tobytes())
        assert (reply.sequence, reply.ssid, reply.sender_ttl) == (100 + n, 9, 64 - n)
        assert reply.sender_sequence == [10, 11, 2**32 - 1][n]
        assert (reply.sender_timestamp_ns, reply.receive_ns, reply.timestamp_ns) == (T + 1 + n, T + 11 + n, T + 21 + n)
        assert (reply.error, reply.sender_error) == (error, ERROR)
        assert octets[38:40].tolist() == [0, 0]
        assert octets[41:44].tolist() == [0, 0, 0]
        follow_up, extra = tlv.parse(reply.tail)
        assert (follow_up.flags, extra.flags) == (0, 0)
        assert extra.value == padding.tobytes()
    assert stamp.is_valid_reply(rows, 9).all()
    assert stamp.has_follow_up(rows).tolist() == [False, True, True]


def test_delays_of_the_golden_exchange() -> None:
    """T4 of the example of the vectors: forward, reverse, at the reflector, round trip, offset (F - R) / 2."""
    reply, t4 = ReflectorPacket.decode(bytes.fromhex(REFLECTOR_HEX)), T + 136600000
    forward, reverse = reply.receive_ns - reply.sender_timestamp_ns, t4 - reply.timestamp_ns
    assert (forward, reverse) == (6_533_211, 6_600_000)
    assert reply.timestamp_ns - reply.receive_ns == 10_000
    assert forward + reverse == 13_133_211
    assert (forward - reverse) / 2 == -33_394.5


@pytest.mark.parametrize("mode", stamp.Mode)
def test_each_end_has_its_own_format_of_time(mode: stamp.Mode) -> None:
    """T1 by the request's Z bit, T2 and T3 by the reflector's (RFC 8186 s2.3), over the end of NTP's first era."""
    ntp, ptp = ErrorEstimate(form=TimestampFormat.NTP), ErrorEstimate(form=TimestampFormat.PTP)
    last = 2085978495 * 10**9 + 999_999_999  # the era ends with the next nanosecond
    for sender, reflector in ((ntp, ptp), (ptp, ntp), (ntp, ntp), (ptp, ptp)):
        packet = ReflectorPacket(0, last + 9, reflector, 1, last + 1, 2**32 - 1, last, sender, 255)
        octets = packet.encode(mode)
        assert len(octets) == mode
        assert ReflectorPacket.decode(octets, mode=mode) == packet
        row = stamp.reflector_rows(np.frombuffer(octets, np.uint8).reshape(1, -1), mode)
        assert timestamp.ns_column(row["sender_timestamp"], row["sender_error"]).tolist() == [last]
        for field, ns in (("receive_timestamp", last + 1), ("timestamp", last + 9)):
            assert timestamp.ns_column(row[field], row["error"]).tolist() == [ns]


def test_a_reflector_that_counts_in_ptp_turns_an_ntp_request_round() -> None:
    error = ErrorEstimate.of(1000, form=TimestampFormat.PTP)
    buffer = packets(1, 64, error=ErrorEstimate())
    request = stamp.sender_rows(buffer)
    request["sequence"], request["timestamp"] = 2**32 - 1, timestamp.ntp_column(np.array([T]))
    times = timestamp.ptp_column(np.array([T + 5, T + 8]))
    rows = stamp.reflect(
        buffer, sequence=np.array([0]), receive_timestamp=times[:1], ttl=np.array([1], np.uint8), error=error
    )
    rows["timestamp"] = times[1]
    reply = ReflectorPacket.decode(buffer[0].tobytes())
    assert (reply.sender_sequence, reply.sender_timestamp_ns) == (2**32 - 1, T)
    assert (reply.receive_ns, reply.timestamp_ns, reply.sender_ttl) == (T + 5, T + 8, 1)
    assert (reply.error.form, reply.sender_error.form) == (TimestampFormat.PTP, TimestampFormat.NTP)


def test_tlvs_asked_for_lie_between_follow_up_and_padding() -> None:
    asked = (tlv.Tlv(4, bytes(4)), tlv.Tlv(5, bytes(12)))
    for size in (44 + 20 + 24, 44 + 20 + 24 + 4, 300):
        tail = tlv.parse(stamp.request_template(size, tlvs=asked).tobytes()[44:])
        assert [item.type for item in tail] == [7, 4, 5, *([1] if size > 88 else [])]
    assert [item.type for item in tlv.parse(stamp.request_template(44 + 24, tlvs=asked).tobytes()[44:])] == [4, 5]
    with pytest.raises(InputError):
        stamp.request_template(44 + 20, tlvs=asked)


def test_tails_stay_as_they_came() -> None:
    buffer = np.concatenate(
        [packets(1, 100), packets(1, 100, tlvs=(tlv.Tlv(5, bytes(12)),)), packets(1, 100, follow_up=False)]
    )
    before = buffer.copy()
    stamp.reflect(
        buffer,
        sequence=np.arange(3),
        receive_timestamp=timestamp.ntp_column(T + np.arange(3)),
        ttl=np.full(3, 9, np.uint8),
        error=ERROR,
    )
    assert (buffer[:, 44:] == before[:, 44:]).all()


def test_views_are_no_copies_and_refuse_what_holds_no_packet() -> None:
    buffer = packets(2, 44)
    stamp.sender_rows(buffer)["sequence"][1] = 0x01020304
    assert buffer[1, :4].tolist() == [1, 2, 3, 4]
    with pytest.raises(InputError):
        stamp.sender_rows(np.zeros((2, 43), np.uint8))
    with pytest.raises(InputError):
        stamp.reflector_rows(np.zeros((2, 111), np.uint8), stamp.Mode.AUTHENTICATED)
    for size in (43, 45, 47, 65, 67):
        with pytest.raises(InputError):
            stamp.request_template(size)
    for size in (44, 111, 115, 153, 155):
        with pytest.raises(InputError):
            stamp.request_template(size, mode=stamp.Mode.AUTHENTICATED)


def test_replies_of_other_sessions_and_corrupt_ones_are_told_apart() -> None:
    buffer = np.tile(np.frombuffer(bytes.fromhex(REFLECTOR_HEX), np.uint8), (4, 1))
    rows = stamp.reflector_rows(buffer)
    rows["ssid"] = [0x1234, 0, 1, 0x1234]
    rows["sender_error"][3] = 0x8C00
    assert stamp.is_valid_reply(rows, 0x1234).tolist() == [True, True, False, False]
    assert not stamp.has_follow_up(rows).any()
