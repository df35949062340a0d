"""What a sender makes of the TLVs in replies: used where RFC 8972 lets it, and brought to the row of their packet."""

from __future__ import annotations

import ipaddress
from dataclasses import replace

import numpy as np
import pytest

from linkqual.errors import UsageError
from linkqual.records import UNKNOWN_TOS, Fate, Stamp
from linkqual.session.mix import Mix, mean_bytes
from linkqual.session.sender import SenderSession, SenderSettings
from linkqual.session.tails import ASKABLE, Tails, requests
from linkqual.wire import stamp_auth
from linkqual.wire.stamp import Mode, request_template
from linkqual.wire.stamp_packet import ReflectorPacket
from linkqual.wire.timestamp import ErrorEstimate, ntp_from_ns
from linkqual.wire.tlv import Flag, Tlv, Type, encode, parse
from linkqual.wire.tlv_values import ClassOfService, DirectMeasurement, FollowUp, Location, TimestampInformation

UTC = 1_800_000_000_000_000_000
MS = 1_000_000
KEY = bytes(range(32))
SETTINGS = SenderSettings(
    ssid=7, packet_bytes=200, timeout_ns=1000 * MS, grace_ns=MS, linger_ns=0, capacity=64, window=64, follow_up=False
)


def template(mode: Mode = Mode.UNAUTHENTICATED) -> bytes:
    """A request that asks for everything there is."""
    return request_template(300, mode=mode, ssid=7, tlvs=requests(tuple(ASKABLE), dscp=46)).tobytes()


def answered(tail: bytes, *, received: int = 5, dscp2: int = 10, rp: int = 0) -> list[Tlv]:
    """What a reflector that knows all of them makes of a tail, from RFC 8972 section 4; HMAC TLVs stay as they are."""
    made = []
    for item in parse(tail):
        value = item.value
        if item.type == Type.CLASS_OF_SERVICE:
            value = replace(ClassOfService.decode(value), dscp2=dscp2, ecn=1, reverse_path=rp).encode()
        elif item.type == Type.DIRECT_MEASUREMENT:
            value = replace(DirectMeasurement.decode(value), reflector_rx=received, reflector_tx=received).encode()
        elif item.type == Type.LOCATION:
            places = (ipaddress.ip_address("192.0.2.1").packed, ipaddress.ip_address("192.0.2.9").packed)
            value = Location.decode(value).answered(862, 5000, *places).encode()
        elif item.type == Type.TIMESTAMP_INFORMATION:
            value = TimestampInformation(1, 2, 1, 2).encode()
        made.append(Tlv(item.type, value, 0))
    return made


def reply(sequence: int, tail: bytes, *, far_seq: int | None = None, mode: Mode = Mode.UNAUTHENTICATED) -> np.ndarray:
    error = ErrorEstimate.of(1000)
    packet = ReflectorPacket(
        sequence if far_seq is None else far_seq, UTC + 20, error, 7, UTC + 10, sequence, UTC, error, 61, tail
    )
    return np.frombuffer(packet.encode(mode), np.uint8).copy()[None]


def session(settings: SenderSettings = SETTINGS, mode: Mode = Mode.UNAUTHENTICATED) -> SenderSession:
    made = SenderSession(settings, Tails(template(mode), mode))
    made.depart(np.arange(8) * MS + UTC, UTC, 0)
    return made


def take(one: SenderSession, packets: np.ndarray) -> None:
    blank = np.zeros(len(packets), np.uint8)
    one.receive(packets, np.full(len(packets), UTC + MS), blank, blank, UTC + MS, MS)


def test_the_far_ends_view_of_a_packet_comes_to_its_row() -> None:
    one, tail = session(), template()[44:]
    take(one, reply(0, encode(answered(tail))))
    take(one, reply(1, encode(answered(tail, received=6, dscp2=0, rp=1))))
    take(one, reply(2, tail))  # a reflector that knows no TLVs sends them back as they came, U set
    told = one.figures()["told"]
    assert told["class_of_service"] == {"answered": 2, "dscp1": 46, "dscp2": 0, "ecn": 1, "reverse_path": 1}
    assert told["direct_measurement"]["reflector_rx"] == 6
    assert told["timestamp_information"] == {
        "answered": 2, "source_in": 1, "method_in": 2, "source_out": 1, "method_out": 2,
    }  # fmt: skip
    places = {"source": "192.0.2.1", "destination": "192.0.2.9", "source_port": 5000, "destination_port": 862}
    assert told["location"] == {"answered": 2} | places
    rows = one.settle(5000 * MS)
    assert rows["forward_tos"].tolist() == [10 << 2 | 1, 1, UNKNOWN_TOS] + [UNKNOWN_TOS] * 5
    assert one.counters.unmarked == 1


@pytest.mark.parametrize(
    ("flags", "kept"),
    [  # what is set on the second TLV of four, and which of them may still be read
        (Flag.UNRECOGNISED, [True, False, True, True]),
        (Flag.MALFORMED, [True, False, False, False]),
        (Flag.INTEGRITY, [False, False, False, False]),
    ],
)
def test_flags_say_what_may_be_read(flags: int, kept: list[bool]) -> None:
    tails, items = Tails(template()), answered(template()[44:])
    items[2] = replace(items[2], flags=flags)  # the first is Follow-Up Telemetry
    usable = tails.usable(reply(0, encode(items)))
    assert usable[0, 1:].tolist() == kept


@pytest.mark.parametrize("octets", [44, 60, 70])
def test_a_reply_without_its_tail_says_nothing(octets: int) -> None:
    one = session()
    take(one, reply(0, encode(answered(template()[44:])))[:, :octets].copy())
    assert one.figures()["told"]["class_of_service"] == {"answered": 0}
    assert one.settle(5000 * MS)["fate"][0] == Fate.RECEIVED


def test_a_torn_length_ends_the_reading() -> None:
    tails, items = Tails(template()), answered(template()[44:])
    packet = reply(0, encode(items))
    packet[0, 44 + 20 + 3] ^= 4  # length of the first TLV after Follow-Up Telemetry
    assert not tails.usable(packet)[0, 1:].any()


def test_counters_of_a_stateless_far_end_take_the_place_of_its_numbers() -> None:
    far_counts = SenderSession(replace(SETTINGS, far_kernel=False), Tails(template()))
    far_counts.depart(np.arange(8) * MS + UTC, UTC, 0)
    tail = template()[44:]
    take(far_counts, reply(4, encode(answered(tail, received=3))))  # two of five had not arrived
    take(far_counts, reply(6, encode(answered(tail, received=4)), far_seq=3))  # this one counts its replies
    rows = far_counts.settle(5000 * MS)
    assert rows["far_seq"][[4, 6]].tolist() == [2, 3]


def test_an_unsigned_reply_is_counted_and_not_read() -> None:
    signed = replace(SETTINGS, key=KEY)
    one = session(signed, Mode.AUTHENTICATED)
    tail = template(Mode.AUTHENTICATED)[112:]
    good = reply(0, encode(answered(tail)), mode=Mode.AUTHENTICATED)
    stamp_auth.sign_tlvs(good, KEY)
    stamp_auth.sign(good, KEY)
    other, torn_tail = good.copy(), good.copy()
    other[0, 51] = 1  # Session-Sender Sequence Number
    stamp_auth.sign(other, KEY[::-1])
    torn_tail[0, 51] = 2
    torn_tail[0, 112 + 20 + 4] ^= 0xFF  # a TLV that its HMAC TLV does not cover any more
    stamp_auth.sign(torn_tail, KEY)
    for packet in (good, other, torn_tail):
        take(one, packet)
    rows = one.settle(5000 * MS)
    assert rows["fate"][:3].tolist() == [Fate.RECEIVED, Fate.LOST, Fate.RECEIVED]
    assert (rows["forward_tos"][:3] != UNKNOWN_TOS).tolist() == [True, False, False]
    assert one.counters.wrong_key == 1


@pytest.mark.parametrize("torn", [False, True])
def test_a_follow_up_that_is_not_signed_moves_no_stamp(torn: bool) -> None:
    signed = replace(SETTINGS, key=KEY, follow_up=True)
    one = session(signed, Mode.AUTHENTICATED)
    items = answered(template(Mode.AUTHENTICATED)[112:])
    items[0] = replace(items[0], value=FollowUp(0, ntp_from_ns(UTC + 77), 2).encode())
    for sequence in (0, 1):
        packet = reply(sequence, encode(items), mode=Mode.AUTHENTICATED)
        stamp_auth.sign_tlvs(packet, KEY)
        if torn:
            packet[0, 112 + 4 + 15] ^= 1
        stamp_auth.sign(packet, KEY)
        take(one, packet)
    row = one.settle(5000 * MS)[0]
    assert bool(row["stamps"] & Stamp.T3_KERNEL) is not torn
    assert row["far_sent_ns"] == UTC + (20 if torn else 77)


def test_a_reply_of_twamp_size_is_read_and_a_shorter_one_is_not() -> None:
    one = SenderSession(replace(SETTINGS, far_kernel=False))
    one.depart(np.arange(8) * MS + UTC, UTC, 0)
    take(one, reply(0, b"")[:, :41].copy())
    take(one, reply(1, b"")[:, :40].copy())
    assert one.settle(5000 * MS)["fate"][:2].tolist() == [Fate.RECEIVED, Fate.LOST]
    assert one.counters.malformed == 1


@pytest.mark.parametrize("ours", [True, False])
def test_only_our_own_far_end_is_believed_to_be_behind(ours: bool) -> None:
    """A reply that says it stayed there for an hour."""
    one = SenderSession(replace(SETTINGS, far_kernel=ours))
    one.depart(np.arange(8) * MS + UTC, UTC, 0)
    packet = reply(0, b"")
    packet[0, 16:24] = np.frombuffer(ntp_from_ns(UTC - 3600 * 1000 * MS).to_bytes(8), np.uint8)
    take(one, packet)
    assert one.far_behind is ours
    assert (one.room() > 0) is not ours


def test_nobody_asks_for_what_there_is_not() -> None:
    with pytest.raises(UsageError, match="access_report"):
        requests(("access_report",), 0)
    assert [item.type for item in requests(("location", "location"), 0)] == [Type.LOCATION]


def test_sizes_follow_from_the_seed_and_the_number_alone() -> None:
    weights = ((1518, 1), (64, 7), (594, 4))
    whole = Mix(weights, 5).kinds(0, 4096)
    parts = Mix(weights, 5)
    assert np.concatenate([parts.kinds(at, 64) for at in range(0, 4096, 64)]).tolist() == whole.tolist()
    assert parts.kinds(4090, 12).tolist() == [*whole[4090:], *Mix(weights, 5).kinds(4096, 6)]
    sizes = parts.sizes[whole]
    assert abs(sizes.mean() - mean_bytes(weights)) < 40
    assert set(sizes.tolist()) == {64, 594, 1518}
    assert parts.kinds(4096, 4096).tolist() != whole.tolist()
