"""TLVs answered in columns, against the answer to each packet by itself (`wire.tlv.answer`)."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual.errors import WireError
from linkqual.session.answers import MOST_TLVS, Answers, Ends, Policy, Replies, StampQueue
from linkqual.wire import tlv
from linkqual.wire.timestamp import TimestampFormat, ptp_from_ns
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
)

UTC = 1_800_000_000_000_000_000
ENDS = Ends(bytes([192, 0, 2, 1]), 40_000, bytes([192, 0, 2, 2]), 862)
TOS = 46 << 2 | 1


def replies(count: int, tos: int = TOS) -> Replies:
    numbers = np.arange(1, count + 1)
    return Replies(np.full(count, tos, np.uint8), np.full(count, tos & 0xFC, np.uint8), numbers + 100, numbers, UTC)


def answers(**policy: object) -> Answers:
    made = Answers(Policy(source=SyncSource.NTP, **policy))
    made.ends = ENDS
    return made


def filled(tails: list[bytes], made: Answers | None = None, intact: np.ndarray | None = None) -> list[bytes]:
    octets = np.frombuffer(b"".join(tails), np.uint8).reshape(len(tails), -1).copy()
    (made or answers()).fill(octets, replies(len(tails)), intact)
    return [row.tobytes() for row in octets]


# ---- the same, one by one


def _refuse(_value: bytes) -> bytes:
    raise WireError("no such length")


def _class_of_service(value: bytes) -> bytes:
    return ClassOfService(ClassOfService.decode(value).dscp1, TOS >> 2, TOS & 3).encode()


def _access_report(value: bytes) -> bytes:
    AccessReport.decode(value)
    return value


def one_by_one(row: int, tail: bytes) -> bytes:
    def direct_measurement(value: bytes) -> bytes:
        return DirectMeasurement(DirectMeasurement.decode(value).sender_tx, row + 101, row + 1).encode()

    def timestamp_information(value: bytes) -> bytes:
        return TimestampInformation(1, 2, 1, 2, TimestampInformation.decode(value).sub_tlvs).encode()

    def location(value: bytes) -> bytes:
        return Location.decode(value).answered(862, 40_000, ENDS.source, ENDS.destination).encode()

    return tlv.answer(
        tail,
        {
            Type.CLASS_OF_SERVICE: _class_of_service,
            Type.DIRECT_MEASUREMENT: direct_measurement,
            Type.TIMESTAMP_INFORMATION: timestamp_information,
            Type.LOCATION: location,
        },
    )


KNOWN = st.sampled_from([1, 2, 3, 4, 5, 9, 200])
TLVS = st.builds(Tlv, KNOWN, st.binary(max_size=24), st.sampled_from([0, 0x80, 0xFF])) | st.sampled_from(
    [
        Tlv(Type.CLASS_OF_SERVICE, ClassOfService(10).encode()),
        Tlv(Type.DIRECT_MEASUREMENT, DirectMeasurement(77).encode()),
        Tlv(Type.LOCATION, Location.asking((Place.SOURCE_IP, Place.DESTINATION_IP, Place.SOURCE_MAC)).encode()),
        Tlv(Type.TIMESTAMP_INFORMATION, bytes(4)),
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.lists(TLVS, max_size=4), st.binary(max_size=5)), min_size=1, max_size=5), st.data())
def test_columns_say_what_each_packet_by_itself_would_be_told(
    kinds: list[tuple[list[Tlv], bytes]], data: st.DataObject
) -> None:
    size = max(tlv.total_bytes(tlvs) + len(rest) for tlvs, rest in kinds)
    drawn = data.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=9))
    tails = [(tlv.encode(tlvs) + rest).ljust(size, b"\1")[:size] for tlvs, rest in drawn]
    tails = [tail for tail in tails if tail[1:2] != b"\0"]  # that is no TLV: padding
    if not size or not tails:
        return
    expected = [one_by_one(row, tail) for row, tail in enumerate(tails)]
    assert filled(tails) == expected
    assert all(len(answer) == size for answer in expected)


@given(st.lists(st.binary(min_size=40, max_size=40), min_size=1, max_size=6), st.booleans())
@settings(max_examples=200, deadline=None)
def test_no_octets_upset_them(tails: list[bytes], signed: bool) -> None:
    assert [len(tail) for tail in filled(tails, answers(signed=signed))] == [40] * len(tails)


# ---- one kind after the other


def test_each_tlv_of_the_rfc_is_answered_and_flagged() -> None:
    asked = [
        Tlv(Type.FOLLOW_UP_TELEMETRY, bytes(16)),
        Tlv(Type.CLASS_OF_SERVICE, ClassOfService(34).encode()),
        Tlv(Type.DIRECT_MEASUREMENT, DirectMeasurement(9).encode()),
        Tlv(Type.LOCATION, Location.asking((Place.SOURCE_IP, Place.SOURCE_MAC)).encode()),
        Tlv(Type.TIMESTAMP_INFORMATION, bytes(4)),
        Tlv(Type.ACCESS_REPORT, AccessReport(1, 2).encode()),
        Tlv(Type.ACCESS_REPORT, AccessReport(3, 2).encode()),
        Tlv(77, b"what is this"),
        Tlv(Type.CLASS_OF_SERVICE, b"12345"),
        Tlv(Type.FOLLOW_UP_TELEMETRY, b"\xff" * 13),
        Tlv(Type.HMAC, bytes(16)),
        Tlv(Type.EXTRA_PADDING, b"padding"),
    ]
    made = answers(form=TimestampFormat.PTP)
    made.transmitted(np.array([41, 42]), np.array([UTC - 5, UTC - 3]))
    said = tlv.parse(filled([tlv.encode(asked)], made)[0])
    assert [one.type for one in said] == [one.type for one in asked]
    assert [one.flags for one in said] == [0] * 6 + [Flag.UNRECOGNISED] * 2 + [Flag.MALFORMED] * 2 + [0x80, 0]
    assert FollowUp.decode(said[0].value) == FollowUp(41, ptp_from_ns(UTC - 5), 2)
    assert ClassOfService.decode(said[1].value) == ClassOfService(34, 46, 1, 0)
    assert DirectMeasurement.decode(said[2].value) == DirectMeasurement(9, 101, 1)
    place = Location.decode(said[3].value)
    assert (place.source_port, place.destination_port) == (40_000, 862)
    assert place.address(Place.SOURCE_IPV4) == ENDS.source
    assert TimestampInformation.decode(said[4].value) == TimestampInformation(1, 2, 1, 2)
    assert said[9].value == bytes(12) + b"\xff"  # erratum 8339
    assert made.stamps_left() == [[42, UTC - 3]]


def test_stamps_wait_for_a_reply_as_long_as_they_are_fresh() -> None:
    made = answers()
    made.transmitted(np.arange(5), UTC + np.array([-60, -51, -49, -20, -1]) * 10**6)
    asked = Tlv(Type.FOLLOW_UP_TELEMETRY, bytes(16)).encode()
    told = [FollowUp.decode(filled([asked], made)[0][4:]).sequence for _ in range(3)]
    assert told == [2, 3, 4]
    assert made.stamps_left() == [[0, UTC - 60 * 10**6], [1, UTC - 51 * 10**6]]


def test_replies_are_marked_as_asked_where_that_is_allowed() -> None:
    tail = np.frombuffer(Tlv(Type.CLASS_OF_SERVICE, ClassOfService(34).encode()).encode(), np.uint8)
    for mark, tos, said in ((True, 34 << 2 | 1, (34, 46, 1, 0)), (False, TOS, (34, 46, 1, 1))):
        batch, tails = replies(2), np.tile(tail, (2, 1))
        answers(mark=mark).fill(tails, batch)
        assert batch.marks.tolist() == [tos] * 2
        assert ClassOfService.decode(tails[1, 4:].tobytes()) == ClassOfService(*said)


def test_without_state_there_is_no_telemetry() -> None:
    made = answers(telemetry=False)
    made.transmitted(np.array([1]), np.array([UTC]))
    asked = Tlv(Type.FOLLOW_UP_TELEMETRY, b"\xff" * 16).encode()
    assert filled([asked], made)[0] == b"\0\x07\0\x10" + bytes(16)


def test_tlvs_that_were_tampered_with_go_back_unread() -> None:
    asked = tlv.encode([Tlv(Type.CLASS_OF_SERVICE, bytes(4)), Tlv(Type.HMAC, bytes(16))])
    good, bad = filled([asked, asked], answers(signed=True), np.array([True, False]))
    assert [one.flags for one in tlv.parse(good)] == [0, 0]
    assert [(one.flags, one.value) for one in tlv.parse(bad)] == [
        (Flag.INTEGRITY, bytes(4)),
        (Flag.INTEGRITY, bytes(16)),
    ]


def test_padding_of_a_sender_without_tlvs_stays_as_it_is() -> None:
    assert filled([bytes(100)] * 2) == [bytes(100)] * 2


def test_a_packet_full_of_tlvs_costs_no_more_than_a_few() -> None:
    asked = Tlv(200, b"").encode() * 2000
    told = filled([asked])[0]
    assert told == asked  # U was set, and is
    mine = filled([Tlv(Type.EXTRA_PADDING, b"").encode() * 2000])[0]
    assert [mine[at] for at in (0, 4 * MOST_TLVS - 4, 4 * MOST_TLVS)] == [0, 0, 0x80]


def test_the_queue_of_stamps_is_bounded_and_keeps_the_newest() -> None:
    queue = StampQueue()
    for start in range(0, 20_000, 3000):
        queue.put(np.arange(start, start + 3000), np.arange(start, start + 3000) + UTC)
    assert len(queue) == 8192
    numbers, stamps = queue.take(2)
    assert numbers.tolist() == [21_000 - 8192, 21_000 - 8191]
    assert (stamps == numbers + UTC).all()
    assert len(queue.take(9000)[0]) == 8190
    assert queue.pairs() == []
    queue.put(np.arange(10_000), np.arange(10_000))
    assert queue.pairs()[0] == [10_000 - 8192] * 2
