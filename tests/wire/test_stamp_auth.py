"""Authenticated STAMP and the HMAC TLV: hand-made vectors, single octets changed, columns against single packets."""

from __future__ import annotations

import contextlib
import hmac as standard_hmac
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkqual.errors import WireError
from linkqual.wire import stamp, stamp_auth, timestamp, tlv, tlv_values
from linkqual.wire.stamp import Mode
from linkqual.wire.stamp_packet import ReflectorPacket, SenderPacket
from linkqual.wire.timestamp import ErrorEstimate
from linkqual.wire.tlv import Flag, Tlv, Type

AUTH = Mode.AUTHENTICATED
T = 1700000000 * 10**9
ERROR = ErrorEstimate.from_wire(0x8C64)
KEY, OTHER_KEY = bytes(range(32)), bytes(32)
SENDER = SenderPacket(7, T + 123456789, ERROR, 0x1234)
REFLECTOR = ReflectorPacket(5, T + 130000000, ERROR, 0x1234, T + 129990000, 7, T + 123456789, ERROR, 253)
SENDER_HEX = f"00000007{'00' * 12}e8fe6f801f9add378c641234{'00' * 68}6d9a81fe505da9c81691a2fceb818080"
REFLECTOR_HEX = (
    f"00000005{'00' * 12}e8fe6f802147ae148c64123400000000e8fe6f802147064f{'00' * 8}"
    f"00000007{'00' * 12}e8fe6f801f9add378c64{'00' * 6}fd{'00' * 15}dfe37ba280838eacc90c9c2b5c5d8a93"
)
COUNTERS = Tlv(Type.DIRECT_MEASUREMENT, tlv_values.DirectMeasurement(8).encode())


def test_golden_packets() -> None:
    assert stamp_auth.encode_sender(SENDER, KEY).hex() == SENDER_HEX
    assert stamp_auth.decode_sender(bytes.fromhex(SENDER_HEX), KEY) == SENDER
    assert stamp_auth.encode_reflector(REFLECTOR, KEY).hex() == REFLECTOR_HEX
    assert stamp_auth.decode_reflector(bytes.fromhex(REFLECTOR_HEX), KEY) == REFLECTOR


@given(st.binary(max_size=150), st.binary(max_size=150))
def test_signatures_are_those_of_the_standard_library(key: bytes, data: bytes) -> None:
    assert stamp_auth.Signer(key)(data[:9], data[9:]) == standard_hmac.digest(key, data, "sha256")[:16]


def test_golden_signatures() -> None:
    assert stamp_auth.Signer(b"\x0b" * 32)(b"Hi ", b"There").hex() == "198a607eb44bfbc69903a0f1cf2bbdc5"
    tail = stamp_auth.close((COUNTERS,), 7, KEY, flags=0)
    assert tail.hex() == "8005000c000000080000000000000000" + "00080010" + "56a22f35153de4f8cf9136b7e451a775"
    signed = bytes.fromhex("8008001056a22f35153de4f8cf9136b7e451a775")
    assert stamp_auth.close((COUNTERS,), 7, KEY) == COUNTERS.encode() + signed


@given(st.integers(0, 111), st.integers(1, 255))
def test_one_changed_octet_is_noticed(place: int, change: int) -> None:
    data = bytearray.fromhex(REFLECTOR_HEX)
    data[place] ^= change
    with pytest.raises(WireError, match="not signed"):
        stamp_auth.decode_reflector(bytes(data), KEY)
    rows = np.frombuffer(bytes(data) + bytes.fromhex(REFLECTOR_HEX), np.uint8).reshape(2, 112)
    assert stamp_auth.verified(rows, KEY).tolist() == [False, True]


def test_signatures_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    real = standard_hmac.compare_digest
    monkeypatch.setattr(stamp_auth.hmac, "compare_digest", lambda a, b: asked.append(bytes(b)) or real(a, b))
    data = bytes.fromhex(SENDER_HEX)
    stamp_auth.decode_sender(data, KEY)
    stamp_auth.verified(np.frombuffer(data, np.uint8).reshape(1, -1), KEY)
    assert asked == [data[96:], data[96:]]
    tail = stamp_auth.close((COUNTERS,), 7, KEY)
    stamp_auth.check_tlvs(tail, 7, KEY)
    stamp_auth.verified_tlvs(np.frombuffer(data + tail, np.uint8).reshape(1, -1), KEY)
    assert asked[2:] == [tail[-16:], tail[-16:]]


# ---- where the HMAC TLV must be

PADDING = Tlv(Type.EXTRA_PADDING, b"pad")
CLOSED = stamp_auth.close((COUNTERS,), 7, KEY)
TAILS = {  # a tail, and whether it may be used
    "nothing": (b"", True),
    "padding alone": (PADDING.encode(), True),
    "signed": (CLOSED, True),
    "signed, then padding": (CLOSED + PADDING.encode() + PADDING.encode(), True),
    "padding inside": (stamp_auth.close((PADDING, COUNTERS), 7, KEY), True),
    "two paddings": (PADDING.encode() * 2, False),
    "unsigned": (COUNTERS.encode(), False),
    "another key": (stamp_auth.close((COUNTERS,), 7, OTHER_KEY), False),
    "another sequence number": (stamp_auth.close((COUNTERS,), 8, KEY), False),
    "a TLV after it": (CLOSED + COUNTERS.encode(), False),
    "two of them": (stamp_auth.close(tlv.parse(CLOSED), 7, KEY), False),
    "a short one": (COUNTERS.encode() + Tlv(Type.HMAC, bytes(12)).encode(), False),
    "torn": (CLOSED + b"\x80\x01\x00\x09", False),
    "cut off": (CLOSED[:-1], False),
    "half a header": (CLOSED + b"\x80\x01", False),
}


@pytest.mark.parametrize("case", TAILS)
def test_position_and_value_of_the_signature(case: str) -> None:
    tail, good = TAILS[case]
    if good:
        assert tlv.encode(stamp_auth.check_tlvs(tail, 7, KEY)) == tail
    else:
        with pytest.raises(WireError):
            stamp_auth.check_tlvs(tail, 7, KEY)
    packet = stamp_auth.encode_sender(SenderPacket(7, T, ERROR, 1, tail), KEY)
    assert stamp_auth.verified_tlvs(np.frombuffer(packet, np.uint8).reshape(1, -1), KEY).tolist() == [good]


def test_rows_with_different_tails_are_told_apart() -> None:
    tails = {
        "first": (CLOSED, True),
        "another type": (stamp_auth.close((Tlv(99, bytes(12)),), 7, KEY), True),
        "elsewhere": (stamp_auth.close((Tlv(99, bytes(8)),), 7, KEY) + Tlv(1, b"").encode(), True),
        "none needed": (Tlv(1, bytes(32)).encode(), True),
        "unsigned": (Tlv(99, bytes(32)).encode(), False),
        "another key": TAILS["another key"],
        "another number": TAILS["another sequence number"],
    }
    assert {len(tail) for tail, _ in tails.values()} == {36}
    packets = [stamp_auth.encode_sender(SenderPacket(7, T, ERROR, 1, tail), KEY) for tail, _ in tails.values()]
    rows = np.stack([np.frombuffer(packet, np.uint8) for packet in packets])
    good = [good for _, good in tails.values()]
    assert stamp_auth.verified_tlvs(rows, KEY).tolist() == good
    stamp_auth.sign_tlvs(rows, KEY)  # puts right what has its HMAC TLV in place
    assert stamp_auth.verified_tlvs(rows, KEY).tolist() == [True, True, True, True, False, True, True]


# ---- columns


def requests(count: int, size: int, **settings: Any) -> np.ndarray:
    buffer = np.tile(stamp.request_template(size, mode=AUTH, **settings), (count, 1))
    rows = stamp.sender_rows(buffer, AUTH)
    rows["sequence"] = np.arange(count)
    rows["timestamp"] = timestamp.ntp_column(T + np.arange(count))
    stamp_auth.sign_tlvs(buffer, KEY)
    stamp_auth.sign(buffer, KEY)
    return buffer


@pytest.mark.parametrize("size", [112, 116, 152, 156, 172, 300])
@pytest.mark.parametrize("tlvs", [(), (COUNTERS,)])
def test_a_column_of_requests_is_each_request(size: int, tlvs: tuple[Tlv, ...]) -> None:
    if tlvs and size < 112 + 36:
        return
    buffer = requests(4, size, ssid=9, error=ERROR, tlvs=tlvs)
    assert buffer.shape == (4, size)
    assert stamp_auth.verified(buffer, KEY).all()
    assert stamp_auth.verified_tlvs(buffer, KEY).all()
    assert not stamp_auth.verified(buffer, OTHER_KEY).any()
    for number, octets in enumerate(buffer):
        packet = stamp_auth.decode_sender(octets.tobytes(), KEY)
        assert (packet.sequence, packet.timestamp_ns, packet.error, packet.ssid) == (number, T + number, ERROR, 9)
        kinds = [item.type for item in stamp_auth.check_tlvs(packet.tail, number, KEY)]
        asked = [7] if size >= 152 + 16 * len(tlvs) else []
        assert [kind for kind in kinds if kind != 1] == [*asked, *(5 for _ in tlvs), *([8] if asked or tlvs else [])]
        assert 1 not in kinds[:-1]


def test_reflecting_in_place_is_what_the_scalar_codec_reads() -> None:
    buffer = requests(3, 200, ssid=9, error=ERROR, padding=np.random.default_rng(1))
    padding = buffer[0, 156:].copy()
    for octets in ((4, 16), (28, 96)):  # MBZ of a careless sender: ignored, and not sent back
        buffer[:, slice(*octets)] = 0xAA
    mine = ErrorEstimate.of(50_000, synchronised=True)
    rows = stamp.reflect(
        buffer,
        sequence=np.array([100, 101, 102]),
        receive_timestamp=timestamp.ntp_column(T + np.array([11, 12, 13])),
        ttl=np.array([64, 63, 62]),
        error=mine,
        mode=AUTH,
    )
    buffer[:, [112, 132, 152]] = 0  # all three TLVs understood
    assert (rows["follow_up"] == stamp.FOLLOW_UP_REPLY).all()
    rows["timestamp"] = timestamp.ntp_column(T + np.array([21, 22, 23]))
    rows["follow_up_sequence"] = [7, 100, 101]
    rows["follow_up_timestamp"] = timestamp.ntp_column(T + np.array([19, 20, 21]))
    rows["follow_up_mode"] = 2
    stamp_auth.sign_tlvs(buffer, KEY)
    stamp_auth.sign(buffer, KEY)
    for n, octets in enumerate(buffer):
        reply = stamp_auth.decode_reflector(octets.tobytes(), KEY)
        assert (reply.sequence, reply.ssid, reply.sender_ttl, reply.sender_sequence) == (100 + n, 9, 64 - n, n)
        assert (reply.sender_timestamp_ns, reply.receive_ns, reply.timestamp_ns) == (T + n, T + 11 + n, T + 21 + n)
        assert (reply.error, reply.sender_error) == (mine, ERROR)
        assert reply.encode(AUTH)[:96] == octets[:96].tobytes()  # MBZ is zero
        follow_up, signature, extra = stamp_auth.check_tlvs(reply.tail, 100 + n, KEY)
        assert (follow_up.flags, signature.flags, extra.flags, extra.value) == (0, 0, 0, padding.tobytes())
        assert tlv_values.FollowUp.decode(follow_up.value).mode == 2
    assert stamp_auth.verified(buffer, KEY).all()
    assert stamp_auth.verified_tlvs(buffer, KEY).all()
    assert stamp.is_valid_reply(rows, 9).all()
    assert stamp.has_follow_up(rows).all()


def test_no_packets_at_all() -> None:
    none = np.empty((0, 152), np.uint8)
    stamp_auth.sign(none, KEY)
    stamp_auth.sign_tlvs(none, KEY)
    assert stamp_auth.verified(none, KEY).tolist() == stamp_auth.verified_tlvs(none, KEY).tolist() == []


def test_a_failed_signature_marks_every_tlv_and_nothing_of_it_is_read() -> None:
    asked = stamp_auth.close((Tlv(7, bytes(16)), COUNTERS), 7, OTHER_KEY) + PADDING.encode()
    reply = tlv.answer(asked, {}, intact=False)
    assert [item.flags for item in tlv.parse(reply)] == [Flag.INTEGRITY] * 4
    assert [item.value for item in tlv.parse(reply)] == [item.value for item in tlv.parse(asked)]
    assert tlv.read_reply(reply) == ()


@given(st.binary(max_size=300), st.binary(min_size=1, max_size=80))
def test_any_bytes_give_a_packet_or_wire_error(data: bytes, key: bytes) -> None:
    readers: list[Any] = [
        lambda: stamp_auth.decode_sender(data, key),
        lambda: stamp_auth.decode_reflector(data, key),
        lambda: stamp_auth.check_tlvs(data, 7, key),
    ]
    for read in readers:
        with contextlib.suppress(WireError):
            read()
    if data:
        rows = np.frombuffer(data, np.uint8).reshape(1, -1).copy()
        assert not stamp_auth.verified(rows, key).any()
        before = stamp_auth.verified_tlvs(rows, key)
        stamp_auth.sign_tlvs(rows, key)
        assert rows.shape == (1, len(data))
        assert not before.any() or len(data) <= 112 or data[113] == Type.EXTRA_PADDING
