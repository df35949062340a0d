"""STAMP packets against hand-made vectors, against scapy, and under arbitrary bytes."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkqual.errors import InputError, WireError
from linkqual.wire import stamp, timestamp, tlv, tlv_values
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
        tlv.parse,
        tlv_values.FollowUp.decode,
    ]
    for read in readers:
        with contextlib.suppress(WireError):
            read(data)
    assert len(tlv.answer(data, {7: lambda value: value})) == len(data)


def test_must_be_zero_is_ignored_on_receipt() -> None:
    data = bytearray.fromhex(REFLECTOR_HEX)
    data[38:40] = b"\x12\x34"
    data[41:44] = b"abc"
    assert ReflectorPacket.decode(bytes(data)) == REFLECTOR


# ---- scapy as a second opinion


@pytest.fixture(scope="module")
def scapy_stamp() -> Any:
    from scapy.config import conf

    conf.route_autoload = conf.route6_autoload = False
    import scapy.contrib.stamp as contrib

    return contrib


def test_scapy_reads_our_reply(scapy_stamp: Any) -> None:
    follow_up = tlv.Tlv(7, tlv_values.FollowUp(4, 0xE8FE6F8020000000, 2).encode(), 0)
    packet = ReflectorPacket.decode(REFLECTOR.encode() + follow_up.encode())
    seen = scapy_stamp.STAMPSessionReflectorTestUnauthenticated(packet.encode())
    assert (seen.seq, seen.ssid, seen.seq_sender, seen.ttl_sender, seen.mbz1, seen.mbz2) == (5, 0x1234, 7, 253, 0, 0)
    estimate = seen.err_estimate
    assert (estimate.S, estimate.Z, estimate.scale, estimate.multiplier) == (1, 0, 12, 100)
    assert float(seen.ts_rx) - 2208988800 == pytest.approx(packet.receive_ns / 1e9, abs=1e-6)
    (telemetry,) = seen.tlv_objects
    assert (int(telemetry.flags), telemetry.type, telemetry.len) == (0, 7, 16)
    assert bytes(telemetry)[4:] == tlv_values.FollowUp(4, 0xE8FE6F8020000000, 2).encode()


def test_we_read_what_scapy_sends(scapy_stamp: Any) -> None:
    raw = bytes(
        scapy_stamp.STAMPSessionSenderTestUnauthenticated(
            seq=99,
            ts=1700000000.25 + 2208988800,
            ssid=77,
            err_estimate=scapy_stamp.ErrorEstimate(S=1, Z=0, scale=3, multiplier=9),
            tlv_objects=[scapy_stamp.STAMPTestTLV(flags=0x80, type=1, len=4, value=b"abcd")],
        )
    )
    packet = SenderPacket.decode(raw)
    assert (packet.sequence, packet.ssid) == (99, 77)
    assert packet.timestamp_ns == T + 250000000
    assert packet.error == ErrorEstimate(True, TimestampFormat.NTP, 3, 9)
    assert tlv.parse(packet.tail) == (tlv.Tlv(tlv.Type.EXTRA_PADDING, b"abcd"),)


# ---- TLVs


@given(st.lists(st.builds(tlv.Tlv, st.integers(0, 255), st.binary(max_size=20), st.integers(0, 255)), max_size=5))
def test_tlv_round_trip(tlvs: list[tlv.Tlv]) -> None:
    assert tlv.parse(tlv.encode(tlvs)) == tuple(tlvs)


def test_golden_tlvs() -> None:
    counters = tlv.Tlv(tlv.Type.DIRECT_MEASUREMENT, (8).to_bytes(4) + bytes(8))
    assert counters.encode().hex() == "8005000c000000080000000000000000"
    assert tlv.parse(tlv.encode([counters, tlv.Tlv(1, b"xyz")]))[0] == counters


def test_a_reflector_answers_each_tlv() -> None:
    request = [tlv.Tlv(7, bytes(16)), tlv.Tlv(200, b"what?"), tlv.Tlv(5, b"short"), tlv.Tlv(1, b"pad")]

    def count(value: bytes) -> bytes:
        if len(value) != 12:
            raise WireError("Direct Measurement has 12 octets")
        return value

    tail = tlv.answer(tlv.encode(request), {7: lambda _: tlv_values.FollowUp(1, 2, 3).encode(), 5: count})
    assert [(item.type, item.flags, item.value) for item in tlv.parse(tail)] == [
        (7, 0, tlv_values.FollowUp(1, 2, 3).encode()),
        (200, tlv.Flag.UNRECOGNISED, b"what?"),
        (5, tlv.Flag.MALFORMED, b"short"),
        (1, 0, b"pad"),
    ]


def test_a_tlv_beyond_the_packet_is_marked_malformed() -> None:
    whole, torn = tlv.Tlv(200, b"ab").encode(), bytes.fromhex("80010009") + b"only"
    reply = tlv.answer(whole + torn, {})
    assert reply[: len(whole)] == whole
    assert reply[len(whole)] == tlv.Flag.MALFORMED
    assert reply[len(whole) + 1 :] == torn[1:]


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


def test_views_are_no_copies_and_refuse_what_holds_no_packet() -> None:
    buffer = packets(2, 44)
    stamp.sender_rows(buffer)["sequence"][1] = 0x01020304
    assert buffer[1, :4].tolist() == [1, 2, 3, 4]
    with pytest.raises(InputError):
        stamp.sender_rows(np.zeros((2, 43), np.uint8))
    for size in (43, 45, 47, 65, 67):
        with pytest.raises(InputError):
            stamp.request_template(size)


def test_replies_of_other_sessions_and_corrupt_ones_are_told_apart() -> None:
    buffer = np.tile(np.frombuffer(bytes.fromhex(REFLECTOR_HEX), np.uint8), (4, 1))
    rows = stamp.reflector_rows(buffer)
    rows["ssid"] = [0x1234, 0, 1, 0x1234]
    rows["sender_error"][3] = 0x8C00
    assert stamp.is_valid_reply(rows, 0x1234).tolist() == [True, True, False, False]
    assert not stamp.has_follow_up(rows).any()
