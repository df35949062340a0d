"""Sessions out of captured packets: counts, directions, numbers that wrap, both modes, every place of capture."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkqual.records import ABSENT, UNKNOWN_TOS, Fate, Stamp
from linkqual.session.captured_numbers import Attribution
from linkqual.stats.histogram import quantiles
from linkqual.wire import frame
from linkqual.wire.stamp import Mode
from linkqual.wire.timestamp import ErrorEstimate, TimestampFormat, ntp_from_ns
from linkqual.wire.tlv_values import FollowUp
from tests.capture.made import FAR, MS, NEAR, Point, T, ipv4, looked_at


def golden(point: Point) -> Point:
    """Sent 0 to 9; 2, 5, 6 lost on the way there, the replies to 4 and 9 on the way back."""
    replies = {0: 0, 1: 1, 3: 2, 7: 4, 8: 5}
    for seq in range(10):
        point.request(seq, T + seq * 10 * MS)
        if seq in replies:
            point.reply(seq, replies[seq], T + seq * 10 * MS + 5 * MS)
    return point


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("form", TimestampFormat)
def test_losses_of_the_golden_example_have_their_direction(mode: Mode, form: TimestampFormat) -> None:
    told = looked_at(golden(Point(mode, error=ErrorEstimate(form=form))).packets)
    (session,), (summarizer,) = told.sessions, told.summarizers
    summary = summarizer.summary()
    assert (session.mode, session.key.ssid, session.key.sender_port, session.key.reflector_port) == (
        mode,
        7,
        40000,
        862,
    )
    assert (summary.sent, summary.received, summary.lost, summary.lost_forward) == (10, 5, 5, 0)
    assert session.attribution() == Attribution(forward=3, reverse=1, tail=1)
    # by the capture's stamps, less T3 - T2: 5 ms less the 1 ms the reflector held it
    assert quantiles(summary.round_trip_delay, (0.5,))[0] == pytest.approx(4 * MS, rel=1e-3)
    assert summary.round_trip_delay.minimum == summary.round_trip_delay.maximum == 4 * MS


def test_a_record_says_what_the_packets_said() -> None:
    point = Point()
    point.request(0, T, tos=46 << 2)
    point.reply(0, 0, T + 5 * MS)
    ((row,),) = looked_at(point.packets).records
    assert (row["sent_ns"], row["received_ns"]) == (T, T + 5 * MS)
    assert (row["far_received_ns"], row["far_sent_ns"]) == (T + 4 * MS - 50, T + 5 * MS - 50)
    assert (row["packet_bytes"], row["forward_ttl"], row["reverse_ttl"], row["dscp"], row["tos"]) == (
        64,
        250,
        60,
        46,
        4,
    )
    assert (row["fate"], row["stamps"]) == (Fate.RECEIVED, Stamp.T1_KERNEL | Stamp.T4_KERNEL)
    assert (row["far_seq"], row["arrival"], row["forward_tos"]) == (0, 0, UNKNOWN_TOS)


def test_the_follow_up_of_a_later_reply_puts_t3_right() -> None:
    point = Point()
    for seq in range(2):
        point.request(seq, T + seq * 10 * MS)
        told = FollowUp(0, ntp_from_ns(T + 4_700_000), 2) if seq else None
        point.reply(seq, seq, T + seq * 10 * MS + 5 * MS, told=told)
    (rows,) = looked_at(point.packets).records
    assert rows["far_sent_ns"].tolist() == [T + 4_700_000, T + 15 * MS - 50]
    assert ((rows["stamps"] & Stamp.T3_KERNEL) != 0).tolist() == [True, False]


@pytest.mark.parametrize("start", [0, 2**32 - 5, 1000])
def test_copies_and_disorder_in_each_direction(start: int) -> None:
    point = Point()
    for n in range(10):
        point.request(start + n, T + n * MS)
    for n in (0, 1, 3, 2, 4, 5, 6, 7, 8, 9):  # 2 was overtaken on the way back
        point.reply(start + n, n, T + 20 * MS + len(point.packets) * MS)
    point.reply(start + 4, 4, T + 60 * MS)  # copied on the way back
    point.reply(start + 5, 10, T + 61 * MS)  # copied on the way there: answered twice
    point.reply(start + 5, 10, T + 62 * MS)  # and that copied on the way back
    told = looked_at(point.packets)
    summary = told.summarizers[0].summary()
    assert (summary.sent, summary.received, summary.lost) == (10, 10, 0)
    assert (summary.duplicates_forward, summary.duplicates_reverse) == (1, 2)
    assert (summary.reordered_forward, summary.reordered_reverse) == (0, 1)
    assert told.records[0]["seq"].tolist() == list(range(start, start + 10))
    assert told.sessions[0].attribution() == Attribution(0, 0, 0)


def test_a_reflector_without_numbers_of_its_own_leaves_the_direction_open() -> None:
    point = Point()
    for seq in range(10):
        point.request(seq, T + seq * MS)
        if seq != 4:
            point.reply(seq, seq, T + seq * MS + MS // 2)
    found = looked_at(point.packets).sessions[0].attribution()
    assert (found.forward, found.reverse) == (None, None)
    assert "keeps no state" in found.reason


def test_follow_up_telemetry_proves_that_it_counts() -> None:
    point = Point()
    for seq in range(10):
        point.request(seq, T + seq * MS)
        if seq != 4:
            point.reply(seq, seq, T + seq * MS + MS // 2, told=FollowUp(max(0, seq - 1), ntp_from_ns(T + seq * MS), 2))
    assert looked_at(point.packets).sessions[0].attribution() == Attribution(0, 1, 0)


def test_a_capture_that_begins_in_the_middle_counts_from_its_first_reply() -> None:
    point = Point()
    for seq in range(500, 520):
        point.request(seq, T + seq * MS)
        if seq not in (505, 506, 510):
            point.reply(seq, seq - 37 - (seq > 505) - (seq > 506), T + seq * MS + MS // 2)  # 37 were lost before
    assert looked_at(point.packets).sessions[0].attribution() == Attribution(2, 1, 0)


def test_what_came_before_the_first_reply_of_such_a_capture_stays_open() -> None:
    point = Point()
    for seq in range(500, 510):
        point.request(seq, T + seq * MS)
        if seq >= 504:
            point.reply(seq, seq - 37, T + seq * MS + MS // 2)
    assert looked_at(point.packets).sessions[0].attribution() == Attribution(0, 0, 0, head=4)


def test_at_the_reflectors_end_missing_numbers_are_the_losses_on_the_way_there() -> None:
    point = Point()
    for seq in (0, 1, 3, 4, 7, 8, 9):
        point.request(seq, T + seq * 10 * MS)
        point.reply(seq, {0: 0, 1: 1, 3: 2, 4: 3, 7: 4, 8: 5, 9: 6}[seq], T + seq * 10 * MS + MS + 100)
    told = looked_at(point.packets)
    summary = told.summarizers[0].summary()
    assert (summary.sent, summary.received, summary.lost, summary.lost_forward) == (10, 7, 0, 3)
    assert told.records[0]["fate"][[2, 5, 6]].tolist() == [Fate.LOST_FORWARD] * 3
    assert told.sessions[0].attribution() == Attribution(3, 0, 0)
    assert summary.round_trip_delay.maximum == 100  # from there: next to nothing


def test_a_late_reply_is_a_loss_and_said() -> None:
    point = Point()
    for seq in range(3):
        point.request(seq, T + seq * MS)
    point.reply(0, 0, T + 500 * MS)
    point.reply(1, 1, T + 1500 * MS)
    point.reply(2, 2, T + 1600 * MS, held=700 * MS)  # the reflector held it: the line was in time
    told = looked_at(point.packets)
    assert told.records[0]["fate"].tolist() == [Fate.RECEIVED, Fate.LOST, Fate.RECEIVED]
    assert told.sessions[0].counts.late == told.summarizers[0].summary().late == 1


def test_what_an_incomplete_capture_shows_is_told_apart() -> None:
    point = Point()
    point.request(0, T)
    point.reply(0, 0, T + MS)
    point.reply(1, 1, T + 2 * MS)  # its request was not captured
    point.request(2, T + 3 * MS)
    told = looked_at(point.packets)
    counts = told.sessions[0].counts
    assert (counts.unseen, counts.unfinished, counts.requests, counts.replies) == (1, 1, 2, 2)
    assert told.records[0]["sent_ns"].tolist() == [T, ABSENT, T + 3 * MS]
    assert told.summarizers[0].summary().round_trip_delay.n == 1


def test_a_packet_seen_on_two_interfaces_is_no_copy() -> None:
    from linkqual.session.captured_sessions import Sessions

    point, sessions = golden(Point()), Sessions(MS)
    for ns, octets in point.packets:
        packet = frame.datagram(octets, 101)
        assert packet is not None
        for place in ("in", "out") if packet.destination_port == 862 else ("out", "in"):
            sessions.add(packet, ns, place)
    (session,) = sessions.found.values()
    assert (session.counts.elsewhere, session.counts.request_copies) == (15, 0)


def test_sessions_are_told_apart_by_ssid_and_ports() -> None:
    points = [Point(ssid=1), Point(ssid=2), Point(near=("192.0.2.1", 40001), ssid=1)]
    packets = [packet for point in points for packet in golden(point).packets]
    told = looked_at(sorted(packets, key=lambda each: each[0]))
    assert [session.key.ssid for session in told.sessions] == [1, 2, 1]
    assert [each.summary().received for each in told.summarizers] == [5, 5, 5]


def test_a_reply_of_a_plain_reflector_finds_its_session() -> None:
    point = Point(ssid=9)
    for seq in range(3):
        point.request(seq, T + seq * MS)
        point.reply(seq, seq, T + seq * MS + MS // 2, ssid=0)
    told = looked_at(point.packets)
    assert [session.key.ssid for session in told.sessions] == [9]
    assert told.summarizers[0].summary().received == 3


def test_twamp_light_is_found_by_its_port() -> None:
    request = bytes.fromhex("00000000e8fe6f80000000000001") + b"\x5a" * 27
    reply = bytes.fromhex("00000000e8fe6f80300000000001" + "0000" + "e8fe6f8020000000") + request[:14] + b"\0\0\xff"
    assert (len(request), len(reply)) == (41, 41)
    packets = [(T, ipv4(NEAR, FAR, request)), (T + 100 * MS, ipv4(FAR, NEAR, reply))]
    assert not looked_at(packets).sessions
    told = looked_at(packets, port=862)
    assert told.summarizers[0].summary().received == 1
    assert told.records[0]["far_sent_ns"][0] - told.records[0]["far_received_ns"][0] == 62_500_000


def test_what_is_not_stamp_is_left_alone() -> None:
    others = [b"", b"\0" * 44, b"\xff" * 200, bytes(range(64)), b"\x12\x34\x01\0\0\x01" + b"\0" * 50]
    assert not looked_at([(T, ipv4(NEAR, FAR, each)) for each in others]).sessions


@given(st.integers(0, 2**32), st.integers(0, 2**32 - 1), st.floats(0, 0.3), st.floats(0, 0.3), st.floats(0, 0.2))
def test_totals_are_those_of_the_line(seed: int, start: int, forward: float, reverse: float, copied: float) -> None:
    """A line that loses and copies on both ways, against the two counters."""
    chance, point, counter = random.Random(seed), Point(), 0
    truth = {"forward": 0, "reverse": 0, "received": 0}
    answered_last = start - 1
    for seq in range(start, start + 120):
        now = T + (seq - start) * 10 * MS
        point.request(seq, now)
        if chance.random() < forward and seq != start:
            truth["forward"] += 1
            continue
        came = False
        for copy in range(1 + (chance.random() < copied)):
            lost = chance.random() < reverse and seq != start and not came and copy == 0
            if not lost:
                point.reply(seq, counter, now + MS + copy)
                came = True
            elif copied:
                lost = True
            counter += 1
            if lost:
                break
        truth["received"] += came
        truth["reverse"] += not came
        if came:
            answered_last = seq
    told = looked_at(point.packets)
    summary, found = told.summarizers[0].summary(), told.sessions[0].attribution()
    assert (summary.sent, summary.received) == (120, truth["received"])
    assert summary.lost == truth["forward"] + truth["reverse"]
    assert found.tail == start + 119 - answered_last
    if not found.reason:
        assert found.forward + found.reverse + found.tail == summary.lost
        assert 0 <= truth["forward"] - found.forward <= found.tail
        assert 0 <= truth["reverse"] - found.reverse <= found.tail
    else:
        assert truth["forward"] == 0 or not summary.received


def test_memory_is_that_of_one_timeout() -> None:
    from linkqual.session.captured_sessions import Sessions

    sessions, point, most, rows = Sessions(100 * MS), Point(), 0, 0
    for seq in range(6_000):
        point.request(seq, T + seq * MS)
        point.reply(seq, seq, T + seq * MS + MS // 2)
        for ns, octets in point.packets:
            packet = frame.datagram(octets, 101)
            assert packet is not None
            session = sessions.add(packet, ns)
        point.packets.clear()
        assert session is not None
        if seq % 500 == 0:
            rows += sum(len(batch) for batch in session.settle(T + seq * MS))
            most = max(most, len(session._rows), len(session._by_far), len(session._seen))
    assert most <= 100 + 2000 + 500 + 1
    assert rows > 3_000


def test_a_jump_of_the_numbers_is_another_beginning_not_a_million_losses() -> None:
    point = Point()
    for seq in (0, 1, 2**25, 2**25 + 1):
        point.request(seq, T + len(point.packets) * MS)
        point.reply(seq, seq, T + len(point.packets) * MS)
    told = looked_at(point.packets)
    assert told.sessions[0].counts.jumps == 1
    assert told.summarizers[0].summary().sent == 4
    assert "anew" in told.sessions[0].attribution().reason


def test_records_come_in_order_and_each_number_once() -> None:
    chance, point = random.Random(5), Point()
    order = sorted(range(1000), key=lambda seq: seq + chance.random() * 30)
    for place, seq in enumerate(order):
        if seq % 17:
            point.request(seq, T + place * 10 * MS)
    told = looked_at(point.packets, timeout_ns=50 * MS, every=20)
    seqs = told.records[0]["seq"]
    assert (np.diff(seqs) == 1).all()
    assert told.summarizers[0].summary().lost_forward == sum(seq % 17 == 0 for seq in range(seqs[0], seqs[-1]))
