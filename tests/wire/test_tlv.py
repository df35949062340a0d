"""TLVs: what a reflector answers, what a sender may use of it, and their values against vectors worked out by hand."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkqual.errors import WireError
from linkqual.wire import tlv, tlv_values
from linkqual.wire.tlv import Flag, Tlv, Type
from linkqual.wire.tlv_values import (
    AccessReport,
    ClassOfService,
    DirectMeasurement,
    FollowUp,
    Location,
    Place,
    SyncSource,
    TimestampInformation,
    TimestampMethod,
)

TLVS = st.lists(st.builds(Tlv, st.integers(0, 255), st.binary(max_size=20), st.integers(0, 255)), max_size=5)
VALUES: list[Any] = [Location, TimestampInformation, ClassOfService, DirectMeasurement, AccessReport, FollowUp]
WORDS = st.integers(0, 2**32 - 1)


@given(TLVS)
def test_round_trip(tlvs: list[Tlv]) -> None:
    assert tlv.parse(tlv.encode(tlvs)) == tuple(tlvs)
    assert tlv.total_bytes(tlvs) == len(tlv.encode(tlvs))


def test_types_and_flags_are_those_of_the_registry() -> None:
    names = "EXTRA_PADDING LOCATION TIMESTAMP_INFORMATION CLASS_OF_SERVICE DIRECT_MEASUREMENT ACCESS_REPORT FOLLOW_UP_TELEMETRY HMAC"
    assert [Type[name] for name in names.split()] == list(range(1, 9))
    assert (Flag.UNRECOGNISED, Flag.MALFORMED, Flag.INTEGRITY) == (0x80, 0x40, 0x20)


# ---- the reflector's answer


def test_a_reflector_answers_each_tlv() -> None:
    request = [Tlv(7, bytes(16)), Tlv(200, b"what?"), Tlv(5, b"short"), Tlv(1, b"pad")]

    def count(value: bytes) -> bytes:
        return DirectMeasurement(DirectMeasurement.decode(value).sender_tx, 2, 3).encode()

    tail = tlv.answer(tlv.encode(request), {7: lambda _: FollowUp(1, 2, 3).encode(), 5: count})
    assert [(item.type, item.flags, item.value) for item in tlv.parse(tail)] == [
        (7, 0, FollowUp(1, 2, 3).encode()),
        (200, Flag.UNRECOGNISED, b"what?"),
        (5, Flag.MALFORMED, b"short"),
        (1, 0, b"pad"),
    ]


@pytest.mark.parametrize("intact", [True, False])
def test_a_tlv_beyond_the_packet_is_marked_malformed(intact: bool) -> None:
    whole, torn = Tlv(200, b"ab").encode(), bytes.fromhex("80010009") + b"only"
    reply = tlv.answer(whole + torn, {}, intact=intact)
    assert reply[0] == (Flag.UNRECOGNISED if intact else Flag.INTEGRITY)
    assert reply[1 : len(whole)] == whole[1:]
    assert reply[len(whole)] == (Flag.MALFORMED if intact else Flag.MALFORMED | Flag.INTEGRITY)
    assert reply[len(whole) + 1 :] == torn[1:]


def test_nothing_is_read_under_a_failed_signature() -> None:
    def fail(value: bytes) -> bytes:
        raise AssertionError(value)

    request = tlv.encode([Tlv(7, b"a" * 16), Tlv(1, b"pad"), Tlv(200, b""), Tlv(8, bytes(16))])
    reply = tlv.answer(request, {7: fail, 8: fail}, intact=False)
    assert [item.flags for item in tlv.parse(reply)] == [Flag.INTEGRITY] * 4
    assert [item.value for item in tlv.parse(reply)] == [item.value for item in tlv.parse(request)]


@given(st.binary(max_size=200), st.booleans())
def test_an_answer_is_as_long_as_what_was_asked(data: bytes, intact: bool) -> None:
    known = {
        7: lambda value: value,
        4: lambda value: bytes(3),
        5: lambda value: DirectMeasurement.decode(value).encode(),
    }
    reply = tlv.answer(data, known, intact=intact)
    assert len(reply) == len(data)
    assert not intact or len(tlv.read_reply(reply)) <= len(data) // 4
    assert intact or tlv.read_reply(reply) == ()


# ---- what the sender may use of it


def reply(*flags: int) -> bytes:
    return tlv.encode(Tlv(9 + place, b"value", each) for place, each in enumerate(flags))


@pytest.mark.parametrize(
    ("data", "types"),
    [
        (reply(0, 0, 0), [9, 10, 11]),
        (reply(0, 0x80, 0), [9, 11]),  # U: this one is skipped
        (reply(0, 0x40, 0), [9]),  # M: nothing after it
        (reply(0x80, 0, 0x40), [10]),
        (reply(0, 0, 0x20), []),  # I anywhere: nothing at all
        (reply(0x40, 0xA0), []),
        (reply(0x1F, 0), [9, 10]),  # reserved bits mean nothing
        (reply(0, 0)[:-1], [9]),  # torn
        (reply(0) + b"\0\1", [9]),
        (b"", []),
    ],
)
def test_flags_of_a_reply_are_heeded(data: bytes, types: list[int]) -> None:
    assert [item.type for item in tlv.read_reply(data)] == types


# ---- values


def test_golden_values() -> None:
    assert DirectMeasurement(8).encode().hex() == "000000080000000000000000"
    assert (
        Tlv(Type.DIRECT_MEASUREMENT, DirectMeasurement(8).encode()).encode().hex() == "8005000c000000080000000000000000"
    )
    assert DirectMeasurement(2**32 + 1, 2, 3).encode().hex() == "000000010000000200000003"  # counters wrap
    # 101110 000000 00 00: EF asked for; then 100010 (AF41) received with ECT(1), marking refused
    assert ClassOfService(46).encode().hex() == "b8000000"
    assert ClassOfService(46, 34, 1, 1).encode().hex() == "ba250000"
    assert ClassOfService.decode(bytes.fromhex("ba25ffff")) == ClassOfService(46, 34, 1, 1)
    assert AccessReport(2, 1).encode().hex() == "20010000"
    assert AccessReport.decode(bytes.fromhex("2f01abcd")) == AccessReport(2, 1)
    assert FollowUp(4, 0xE8FE6F8020000000, 2).encode().hex() == "00000004e8fe6f802000000002000000"
    info = TimestampInformation(SyncSource.NTP, TimestampMethod.SOFTWARE, SyncSource.GNSS, TimestampMethod.HARDWARE)
    assert info.encode().hex() == "01020401"
    assert Location(862, 4000).encode().hex() == "035e0fa0"


@given(st.integers(0, 63), st.integers(0, 63), st.integers(0, 3), st.integers(0, 3), st.tuples(WORDS, WORDS, WORDS))
def test_values_round_trip(dscp1: int, dscp2: int, ecn: int, rp: int, counters: tuple[int, int, int]) -> None:
    for value in (ClassOfService(dscp1, dscp2, ecn, rp), DirectMeasurement(*counters), AccessReport(ecn, dscp1)):
        assert type(value).decode(value.encode()) == value


@pytest.mark.parametrize(
    ("kind", "lengths"),
    [
        (ClassOfService, {4}),
        (DirectMeasurement, {12}),
        (AccessReport, {4}),
        (FollowUp, {16}),
        (Location, set(range(4, 40)) - {5, 6, 7}),
        (TimestampInformation, set(range(4, 40)) - {5, 6, 7}),
    ],
)
def test_only_the_lengths_of_the_type_are_read(kind: Any, lengths: set[int]) -> None:
    for size in range(40):
        value = bytearray(size)
        if size >= 8 and kind in (Location, TimestampInformation):
            value[6:8] = (size - 8).to_bytes(2)  # one sub-TLV to the end
        if size in lengths:
            assert len(kind.decode(bytes(value)).encode()) == size
        else:
            with pytest.raises(WireError):
                kind.decode(bytes(value))


def test_location_names_ports_and_addresses_as_they_arrived() -> None:
    asked = Location.asking([Place.SOURCE_IP, Place.DESTINATION_IP, Place.SOURCE_MAC])
    assert asked.encode().hex() == "00000000" + "80070010" + "00" * 16 + "80040010" + "00" * 16 + "80010008" + "00" * 8
    told = Location.decode(asked.encode()).answered(862, 4000, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
    assert len(told.encode()) == len(asked.encode())
    back = Location.decode(told.encode())
    assert (back.destination_port, back.source_port) == (862, 4000)
    assert [(item.type, item.flags) for item in back.places] == [(8, 0), (5, 0), (1, Flag.UNRECOGNISED)]
    assert back.address(Place.SOURCE_IPV4, Place.SOURCE_IPV6) == bytes([10, 0, 0, 1])
    assert back.address(Place.DESTINATION_IPV4, Place.DESTINATION_IPV6) == bytes([10, 0, 0, 2])
    six = asked.answered(1, 2, b"s" * 16, b"d" * 16)
    assert [item.type for item in six.places[:2]] == [Place.SOURCE_IPV6, Place.DESTINATION_IPV6]
    assert six.address(Place.SOURCE_IPV6) == b"s" * 16
    assert six.address(Place.SOURCE_EUI48) is None


def test_a_place_of_the_wrong_length_is_malformed() -> None:
    told = Location(places=(Tlv(Place.SOURCE_IP, bytes(4)),)).answered(1, 2, bytes(4), bytes(4))
    assert [(item.type, item.flags) for item in told.places] == [(7, Flag.MALFORMED)]
    assert told.address(Place.SOURCE_IP) is None


@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_wire_error(data: bytes) -> None:
    with contextlib.suppress(WireError):
        tlv.parse(data)
    for kind in VALUES:
        with contextlib.suppress(WireError):
            value = kind.decode(data)
            assert len(value.encode()) == len(data)
            if isinstance(value, Location):
                value.answered(1, 2, bytes(4), bytes(16)).address(*Place)
    assert tlv_values.FollowUp() == FollowUp.decode(bytes(16))
