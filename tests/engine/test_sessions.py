"""Session-Sender and Session-Reflector over a line in memory: every packet ends up in exactly one record that tells the truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual.errors import InputError
from linkqual.records import ABSENT, Fate, Stamp
from linkqual.session.attribution import apply_far_stamps, attribute
from linkqual.session.reflector import ReflectorSession
from linkqual.wire.stamp import reflector_rows, request_template, sender_rows
from linkqual.wire.stamp_auth import sign, sign_tlvs
from linkqual.wire.timestamp import ntp_from_ns
from tests.engine.memory_line import (
    CLEAN,
    FAR_AHEAD,
    LOST_BACK,
    LOST_THERE,
    MS,
    TX_DELAY,
    UTC,
    MemoryLine,
    Treatment,
    admitted,
    answer,
    treatments,
)


def attributed(line: MemoryLine, records: np.ndarray) -> np.ndarray:
    attribute(records, line.first_seq, line.reflector.arrivals.bitmap(line.first_seq, len(records)))
    return records


def test_a_clean_line_gives_every_instant_from_the_kernel() -> None:
    line = MemoryLine(lambda _seq: CLEAN)
    records = line.run(50)
    assert records["seq"].tolist() == list(range(50))
    assert (records["fate"] == Fate.RECEIVED).all()
    left = UTC + np.arange(50) * MS
    assert (records["intended_ns"] == left).all()
    assert (records["sent_ns"] == left + TX_DELAY).all()
    assert (records["far_received_ns"] == left + MS + FAR_AHEAD).all()
    assert (records["received_ns"] == left + 2 * MS).all()
    assert records["far_seq"].tolist() == records["arrival"].tolist() == list(range(50))
    assert set(records["forward_ttl"]) == {60}
    assert set(records["reverse_ttl"]) == {61}
    # the last reply's own stamp has no later reply to travel in
    assert (records["stamps"][:-1] == Stamp.ALL_KERNEL).all()
    assert (records["far_sent_ns"][:-1] == records["far_received_ns"][:-1] + TX_DELAY).all()
    assert records["stamps"][-1] == Stamp.ALL_KERNEL & ~Stamp.T3_KERNEL


def test_the_reflectors_last_stamps_complete_the_last_records() -> None:
    line = MemoryLine(lambda _seq: CLEAN)
    records = line.run(50)
    assert apply_far_stamps(records, line.reflector.stamps_left()) == 1
    assert (records["stamps"] == Stamp.ALL_KERNEL).all()
    assert (records["far_sent_ns"] == records["far_received_ns"] + TX_DELAY).all()
    assert apply_far_stamps(records, []) == 0


def test_losses_of_both_ways_are_told_apart() -> None:
    there, back = {3, 4, 30, 49}, {0, 10, 31, 48}
    table = dict.fromkeys(there, LOST_THERE) | dict.fromkeys(back, LOST_BACK)
    line = MemoryLine(treatments(table))
    records = line.run(50)
    assert set(np.flatnonzero(records["fate"] == Fate.LOST)) == there | back
    records = attributed(line, records)
    assert set(np.flatnonzero(records["fate"] == Fate.LOST_FORWARD)) == there
    assert set(np.flatnonzero(records["fate"] == Fate.LOST_REVERSE)) == back
    assert (records["received_ns"][sorted(there | back)] == ABSENT).all()
    assert (records["sent_ns"] != ABSENT).all()


def test_a_lost_reply_costs_one_stamp_and_no_more() -> None:
    line = MemoryLine(treatments({10: LOST_BACK}))  # its reply carried the stamp of reply 9
    records = line.run(30)
    incomplete = np.flatnonzero((records["stamps"] & Stamp.T3_KERNEL) == 0)
    assert incomplete.tolist() == [9, 10, 29]
    assert records["far_sent_ns"][9] == records["far_received_ns"][9]  # the program's own T3


def test_copies_are_counted_on_the_way_they_were_made() -> None:
    table = {
        5: Treatment(there=(MS, MS + 1)),
        6: Treatment(back=(MS, MS + 1, MS + 2)),
        7: Treatment(there=(MS, 2 * MS), back=(MS, MS + 5)),
    }
    line = MemoryLine(treatments(table))
    records = line.run(20)
    assert records["forward_copies"].tolist() == [1 if i in (5, 7) else 0 for i in range(20)]
    assert records["reverse_copies"].tolist() == [{6: 2, 7: 2}.get(i, 0) for i in range(20)]
    assert line.reflector.counters.duplicates == 2
    assert line.sender.counters.received == 20
    assert (records["fate"] == Fate.RECEIVED).all()


def test_copies_read_in_one_batch_are_told_apart_too() -> None:
    line = MemoryLine(lambda _seq: CLEAN)
    packets = requests(0, 1, 2)
    line.sender.depart(np.full(3, UTC), UTC, 0)
    admitted(line.reflector, packets)
    answer(line.reflector, packets)
    nothing = np.zeros(4, np.uint8)
    line.sender.receive(packets[[0, 1, 1, 2]], np.full(4, UTC), nothing, nothing, UTC, 0)
    records = line.sender.settle(1000 * MS)
    assert records["reverse_copies"].tolist() == [0, 1, 0]
    assert records["arrival"].tolist() == [0, 1, 2]
    assert line.sender.counters.received == 3


def test_reordering_shows_in_the_counters_of_the_way_it_happened_on() -> None:
    line = MemoryLine(treatments({5: Treatment(there=(4 * MS + 1,)), 12: Treatment(back=(4 * MS + 1,))}))
    records = line.run(20)
    assert np.argsort(records["far_seq"]).tolist() == [*range(5), 6, 7, 8, 5, *range(9, 20)]
    assert records["far_seq"][12] == 12
    assert records["arrival"][12] > records["arrival"][15]


def test_a_reply_after_the_timeout_is_late_and_its_packet_lost() -> None:
    line = MemoryLine(treatments({4: Treatment(back=(100 * MS,)), 5: Treatment(back=(500 * MS,))}))
    line.run(1000)
    records = np.concatenate(line.chunks)
    assert np.flatnonzero(records["fate"] == Fate.LOST).tolist() == [4, 5]
    assert line.sender.counters.late == 2
    assert line.sender.counters.unknown == 0


def test_a_far_end_that_falls_behind_is_no_loss_of_the_line() -> None:
    """Its buffer fills until packets lie in it for longer than the timeout: the line itself took 2 ms all the while."""
    line = MemoryLine(lambda _seq: CLEAN, residence=lambda seq: min(seq, 180) * MS)
    records = line.run(400)
    assert (records["fate"] == Fate.RECEIVED).all()
    assert line.sender.counters.late == 0
    line.sender.depart(np.zeros(1, np.int64), 0, line.now)
    assert line.sender.far_behind
    assert line.sender.room() == 0  # more would only fill that buffer


def test_what_the_far_end_kept_beyond_the_timeout_is_told_from_what_the_line_kept() -> None:
    """Forty packets lay at the far end for half a second, ten were on the line for as long: all are late, forty were held."""
    slow = treatments({seq: Treatment(there=(500 * MS,)) for seq in range(300, 310)})
    line = MemoryLine(slow, residence=lambda seq: 500 * MS if 100 <= seq < 140 else 0)
    records = line.run(1000)
    assert (records["fate"] == Fate.LOST).sum() == 50
    assert (line.sender.counters.late, line.sender.counters.held) == (50, 40)


def test_what_the_far_end_kept_after_writing_its_stamp_is_told_by_the_follow_up() -> None:
    """Five replies were let go half a second after their T3: only their own TX stamps, told later, show it."""
    slow = treatments({seq: Treatment(there=(500 * MS,)) for seq in range(300, 310)})
    line = MemoryLine(slow, stalled=lambda seq: 500 * MS if 100 <= seq < 105 else 0)
    records = line.run(1000)
    assert (records["fate"] == Fate.LOST).sum() == 15
    assert (line.sender.counters.late, line.sender.counters.held) == (15, 5)


def test_a_host_that_was_slow_to_send_is_no_loss_of_the_line() -> None:
    """A packet was filled in at 0 and left at 90 ms; its reply came 90 ms later, within the timeout of 100."""
    for left, late in ((90 * MS, 0), (70 * MS, 1), (0, 1)):
        sender = MemoryLine(lambda _seq: CLEAN).sender
        sender.depart(np.array([UTC]), UTC, 0)
        sender.transmitted(np.array([0]), np.array([UTC + left]))
        reply = np.tile(request_template(64, ssid=7), (1, 1))
        rows = reflector_rows(reply)
        rows["sender_error"], rows["timestamp"] = rows["error"], ntp_from_ns(UTC + FAR_AHEAD)
        rows["receive_timestamp"] = rows["timestamp"]
        blank, now = np.zeros(1, np.uint8), 180 * MS
        sender.receive(reply, np.array([UTC + now]), blank, blank, UTC + now, now)
        assert sender.counters.late == late
        assert sender.counters.received == 1 - late
        assert len(sender.settle(now + MS)) == 0 or late


def test_a_copy_of_a_settled_reply_is_not_taken_for_a_late_one() -> None:
    line = MemoryLine(treatments({4: Treatment(back=(MS, 300 * MS))}))
    line.run(400)
    assert (line.sender.counters.late, line.sender.counters.late_copies) == (0, 1)


@pytest.mark.parametrize("first", [2**32 - 20, 2**33 - 20])
def test_sequence_numbers_wrap_at_32_bits_and_records_do_not(first: int) -> None:
    line = MemoryLine(treatments({first + 19: LOST_THERE, first + 21: LOST_BACK}), first_seq=first)
    records = attributed(line, line.run(60))
    assert records["seq"].tolist() == list(range(first, first + 60))
    assert records["fate"][19] == Fate.LOST_FORWARD
    assert records["fate"][21] == Fate.LOST_REVERSE
    assert (np.delete(records["fate"], [19, 21]) == Fate.RECEIVED).all()


def test_the_reply_counter_wraps_at_32_bits_too() -> None:
    line = MemoryLine(lambda _seq: CLEAN)
    line.reflector.next_far = line.sender._far.next = 2**32 - 10
    records = line.run(30)
    assert records["far_seq"].tolist() == list(range(2**32 - 10, 2**32 + 20))
    assert (records["stamps"][:-1] == Stamp.ALL_KERNEL).all()


@pytest.mark.parametrize("step", [-3_600_000 * MS, -50 * MS, 50 * MS, 3_600_000 * MS])
def test_a_step_of_the_wall_clock_loses_nothing(step: int) -> None:
    line = MemoryLine(lambda _seq: CLEAN, utc_step=(25 * MS + 1, step))
    records = line.run(60)
    assert (records["fate"] == Fate.RECEIVED).all()
    assert line.sender.counters.late == 0


def test_a_wall_clock_set_back_while_replies_wait_to_be_read_loses_none() -> None:
    """Two replies stamped in time are read together, the first after its timeout, and the clock was set back by ten seconds before."""
    line = MemoryLine(lambda _seq: CLEAN, timeout_ns=100 * MS)
    replies = []
    for seq, left in enumerate((0, 90 * MS)):
        packet = request_template(64, ssid=7).copy()[None]
        sender_rows(packet)["sequence"] = seq
        assert line.sender.depart(np.array([UTC + left]), UTC + left, left) == seq
        assert admitted(line.reflector, packet, left, UTC + left).all()
        answer(line.reflector, packet, UTC + left)
        replies.append(packet)
    two = np.ones(2, np.uint8)
    arrived = UTC + np.array([101, 102]) * MS
    line.sender.receive(np.concatenate(replies), arrived, two * 61, two * 0, UTC + 110 * MS - 10_000 * MS, 110 * MS)
    records = line.sender.settle(10_000 * MS)
    assert records["fate"].tolist() == [Fate.LOST, Fate.RECEIVED]


def test_packets_the_host_did_not_send_are_no_losses() -> None:
    line = MemoryLine(lambda _seq: CLEAN)
    records = line.run(30, unsent=(0, 7, 29))
    assert np.flatnonzero(records["fate"] == Fate.UNSENT).tolist() == [0, 7, 29]
    assert (records["sent_ns"][[0, 7, 29]] == ABSENT).all()
    assert (records["intended_ns"] != ABSENT).all()
    line.sender.depart(np.array([UTC]), UTC, line.now)
    line.sender.not_sent(30, 1)
    line.sender.transmitted(np.array([30]), np.array([UTC]))  # a stamp that cannot be its own
    assert line.sender.settle(line.now)["sent_ns"].tolist() == [ABSENT]


def test_memory_is_the_horizon_and_not_the_run() -> None:
    line = MemoryLine(treatments({700: LOST_THERE}), capacity=256, timeout_ns=50 * MS)
    records = line.run(3000)
    assert line.sender._ring.capacity == 256
    assert records["seq"].tolist() == list(range(3000))
    assert max(map(len, line.chunks)) <= 256


def test_records_do_not_change_after_they_were_handed_out() -> None:
    line = MemoryLine(lambda _seq: CLEAN, capacity=256)
    line.run(300)
    first = line.chunks[2].copy()
    for seq in range(300, 900):
        line.sender.depart(np.array([0]), 0, seq * MS)
        line.sender.settle((seq + 500) * MS)
    assert (line.chunks[2] == first).all()


def test_room_is_what_window_and_ring_leave() -> None:
    line = MemoryLine(lambda _seq: LOST_THERE, capacity=64, timeout_ns=10 * MS)
    sender = line.sender
    sender.depart(np.zeros(40, np.int64), 0, 0)
    assert (sender.in_flight, sender.room()) == (40, 24)
    sender.depart(np.zeros(24, np.int64), 0, 5 * MS)
    assert sender.room() == 0
    sender.give_up_before(5 * MS)  # an outage: the older ones no longer fill any buffer
    assert (sender.in_flight, sender.pending) == (24, 64)
    assert sender.room() == 0  # but the ring still holds them
    assert len(sender.settle(11 * MS)) == 40
    assert sender.room() == 40


def test_a_loss_does_not_hold_the_window() -> None:
    line = MemoryLine(treatments(dict.fromkeys(range(0, 40, 2), LOST_BACK)))
    line.run(40)
    assert line.sender.in_flight == 0


fates = st.sampled_from(
    [
        CLEAN,
        CLEAN,
        CLEAN,
        LOST_THERE,
        LOST_BACK,
        Treatment(there=(MS, 3 * MS)),
        Treatment(back=(MS, 3 * MS)),
        Treatment(there=(7 * MS,)),
        Treatment(back=(7 * MS,)),
        Treatment(back=(150 * MS,)),
        Treatment(there=(150 * MS,)),
    ]
)


@given(st.lists(fates, min_size=1, max_size=120), st.sampled_from([0, 2**32 - 60, 2**40]))
@settings(max_examples=60, deadline=None)
def test_whatever_the_line_does_the_records_tell_it(plan: list[Treatment], first: int) -> None:
    line = MemoryLine(lambda seq: plan[seq - first], first_seq=first)
    records = line.run(len(plan))
    assert records["seq"].tolist() == list(range(first, first + len(plan)))  # each exactly once, in order
    in_time = [bool(p.there and p.back) and min(p.there) + min(p.back) <= 100 * MS for p in plan]
    assert (records["fate"] == Fate.RECEIVED).tolist() == in_time
    # a bitmap read at the end knows arrivals after the timeout as well: they did reach the far end
    while line._events:
        line.now = line._events[0][0]
        line._happen()
    records = attributed(line, records)
    assert (records["fate"] == Fate.LOST_FORWARD).tolist() == [not p.there for p in plan]
    received = records["fate"] == Fate.RECEIVED
    assert (records["received_ns"][received] - records["sent_ns"][received] > 0).all()
    kernel = records["stamps"] == Stamp.ALL_KERNEL
    rtt = (records["received_ns"] - records["sent_ns"]) - (records["far_sent_ns"] - records["far_received_ns"])
    assert all(rtt[i] == min(p.there) + min(p.back) - 2 * TX_DELAY for i, p in enumerate(plan) if kernel[i])


@given(st.binary(max_size=200), st.integers(44, 100))
@settings(max_examples=200)
def test_no_bytes_upset_a_session(data: bytes, size: int) -> None:
    line = MemoryLine(lambda _seq: CLEAN)
    records = line.run(5)
    before = line.sender.figures(), records.copy()
    packets = np.resize(np.frombuffer(data or b"\0", np.uint8), (3, size)).copy()
    nothing = np.zeros(3, np.uint8)
    line.sender.receive(packets, np.full(3, ABSENT), nothing, nothing, UTC, line.now)
    after = line.sender.figures()
    strays = ("late", "late_copies", "malformed", "unknown")
    assert sum(after[k] for k in strays) == sum(before[0][k] for k in strays) + 3
    good = admitted(line.reflector, packets, line.now)
    if good.any():
        answer(line.reflector, packets[good])
    figures = line.reflector.figures()
    assert sum(figures[kind] for kind in ("answered", "malformed", "wrong_ssid", "replayed")) == 8


PIECES = st.tuples(st.booleans(), st.binary(max_size=190), st.integers(0, 190), st.integers(0, 3))


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, min_size=1, max_size=8), st.booleans(), st.booleans(), st.booleans())
def test_each_packet_of_any_octets_is_in_one_counter(
    pieces: list[tuple[bool, bytes, int, int]], signed: bool, any_ssid: bool, stateless: bool
) -> None:
    """Garbage, and packets of the session of which a few octets were overwritten."""
    key = b"k" * 32 if signed else b""
    base = MemoryLine(lambda _seq: CLEAN).reflector.settings
    reflector = ReflectorSession(replace(base, key=key, ssid=None if any_ssid else 7, stateless=stateless))
    mode = reflector.settings.mode
    packets, lengths = np.zeros((len(pieces), 192), np.uint8), np.zeros(len(pieces), np.int64)
    for row, (sound, octets, at, seq) in enumerate(pieces):
        packet = (
            request_template(mode.follow_up_bytes + 8, mode=mode, ssid=7).copy() if sound else np.zeros(0, np.uint8)
        )
        if sound:
            packet[3] = seq
            if signed:
                sign_tlvs(packet[None], key)
                sign(packet[None], key)
        written = octets[:3] if sound else octets
        whole = bytes(packet[:at]) + written + bytes(packet[at + len(written) :])
        lengths[row] = min(len(whole), 192)
        packets[row, : lengths[row]] = np.frombuffer(whole, np.uint8)[:192]
    taken = reflector.admit(packets, lengths, np.ones(len(pieces), bool), np.full(len(pieces), UTC), 0)
    for row in np.flatnonzero(taken):
        part = packets[row : row + 1, : max(44, lengths[row])]
        one = np.ones(1, np.uint8)
        reflector.answer(part, np.array([row]), reflector.number(1), np.full(1, UTC), one, one, UTC)
    figures = reflector.figures()
    kinds = ("answered", "malformed", "wrong_key", "wrong_ssid", "replayed", "over_cap")
    assert sum(figures[kind] for kind in kinds) == len(pieces)
    assert figures["answered"] == taken.sum()


# ---- the reflector's refusals


def requests(*seqs: int, ssid: int = 7, size: int = 64) -> np.ndarray:
    packets = np.tile(request_template(size, ssid=ssid), (len(seqs), 1))
    sender_rows(packets)["sequence"] = seqs
    return packets


def test_other_sessions_and_scraps_are_counted_and_not_answered() -> None:
    reflector = MemoryLine(lambda _seq: CLEAN).reflector
    assert not admitted(reflector, requests(0, 1, ssid=8)).any()
    assert not admitted(reflector, np.zeros((2, 40), np.uint8)).any()
    assert not admitted(reflector, np.zeros((2, 0), np.uint8)).any()
    corrupt = requests(0, 1)
    sender_rows(corrupt)["error"] = 0
    assert not admitted(reflector, corrupt).any()
    figures = reflector.figures()
    assert (figures["wrong_ssid"], figures["malformed"], figures["short"]) == (2, 6, 4)
    assert admitted(reflector, requests(0, 1)).all()
    assert not reflector.admit(requests(2), np.array([64]), np.zeros(1, bool), np.array([UTC]), 0).any()
    assert reflector.figures() == figures | {"received_bytes": 128}  # of others the session says nothing


def test_a_sequence_does_not_leap_further_than_the_time_allows() -> None:
    reflector = MemoryLine(lambda _seq: CLEAN).reflector
    session = ReflectorSession(replace(reflector.settings, max_pps=1000, started_ns=UTC))
    assert admitted(session, requests(0)).all()
    assert not admitted(session, requests(2**31)).any()
    assert not admitted(session, requests(2**16 + 1)).any()
    assert admitted(session, requests(2**16 - 1)).all()  # a little at any moment
    assert not admitted(session, requests(2**17 + 9_000)).any()
    assert admitted(session, requests(2**17 + 9_000), received_ns=UTC + 10 * 10**9).all()  # what 10 s allow besides
    assert session.counters.malformed == 3
    late = ReflectorSession(replace(reflector.settings, first_seq=5, started_ns=UTC))
    assert not admitted(late, requests(4)).any()


def test_caps_are_the_reflectors_own() -> None:
    settings_ = MemoryLine(lambda _seq: CLEAN).reflector.settings
    reflector = ReflectorSession(replace(settings_, max_pps=1000, max_packets=500))
    assert admitted(reflector, requests(*range(300))).sum() == 250  # a quarter of a second at once
    assert admitted(reflector, requests(*range(300, 600)), 100 * MS).sum() == 100
    assert admitted(reflector, requests(*range(600, 900)), 10_000 * MS).sum() == 150  # the total is spent
    assert reflector.counters.over_cap == 50 + 200 + 150
    assert reflector.arrivals.bitmap(0, 904) == bytes([255] * 112 + [15])  # unanswered, and yet they arrived


def test_bytes_are_capped_too() -> None:
    settings_ = MemoryLine(lambda _seq: CLEAN).reflector.settings
    reflector = ReflectorSession(replace(settings_, max_bytes=640))
    assert admitted(reflector, requests(*range(8))).sum() == 8
    assert admitted(reflector, requests(*range(4), *range(8, 9))).tolist() == [True, False, False, False, True]
    assert not admitted(reflector, requests(20)).any()
    assert reflector.counters.received_bytes == 640


def test_replays_use_up_nothing_of_the_sessions_allowance() -> None:
    settings_ = MemoryLine(lambda _seq: CLEAN).reflector.settings
    reflector = ReflectorSession(replace(settings_, max_pps=1000))
    for seq in range(200):
        admitted(reflector, requests(*([seq // 2] * 100)), seq * MS)
        assert admitted(reflector, requests(seq), seq * MS).all() or seq == 0
    figures = reflector.figures()
    assert 200 <= figures["duplicates"] <= 64 + 200  # a few, and one more for each new packet
    assert figures["replayed"] + figures["duplicates"] == 200 * 100
    assert figures["over_cap"] == 0


def test_one_number_twice_in_a_batch_is_one_duplicate() -> None:
    reflector = MemoryLine(lambda _seq: CLEAN).reflector
    assert admitted(reflector, requests(3, 4, 3, 3)).all()
    assert admitted(reflector, requests(5, 4)).all()
    assert reflector.counters.duplicates == 3


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(["next", "next", "next", "skip", "again", "ssid", "error"]), min_size=1, max_size=6)
    ),
    st.sampled_from([0, 2**32 - 7]),
    st.integers(3, 40),
)
def test_the_short_way_of_the_usual_batch_is_the_long_one(batches: list[list[str]], first: int, cap: int) -> None:
    """Packets in one batch, of which most are the next ones, are taken as if each had come by itself."""
    settings_ = replace(MemoryLine(lambda _seq: CLEAN).reflector.settings, first_seq=first, max_packets=cap)
    together, singly = ReflectorSession(settings_), ReflectorSession(settings_)
    seq = first
    for number, kinds in enumerate(batches):
        packets = requests(*[0] * len(kinds))
        rows = sender_rows(packets)
        for row, kind in enumerate(kinds):
            seq += 2 if kind == "skip" else 0 if kind == "again" and seq > first else 1
            rows["sequence"][row] = (seq - 1) % 2**32
            rows["ssid"][row] += kind == "ssid"
            rows["error"][row] *= kind != "error"
        taken = admitted(together, packets, number * MS)
        assert taken.tolist() == [
            bool(admitted(singly, packets[row : row + 1], number * MS)[0]) for row in range(len(kinds))
        ]
    assert together.figures() == singly.figures()
    assert together.arrivals.next_seq == singly.arrivals.next_seq
    assert together.arrivals.bitmap(first, 100) == singly.arrivals.bitmap(first, 100)


def test_stamps_a_burst_left_behind_do_not_delay_those_after_it() -> None:
    reflector = MemoryLine(lambda _seq: CLEAN).reflector
    reflector.transmitted(np.arange(40), np.full(40, UTC))
    for number, now in ((40, UTC + 100 * MS), (41, UTC + 200 * MS)):
        packets = requests(number)
        admitted(reflector, packets)
        answer(reflector, packets, now)
        reflector.transmitted(np.array([number]), np.array([now]))
        assert sender_rows(packets)["follow_up_sequence"][0] == (39 if number == 40 else 40)
    assert [number for number, _ in reflector.stamps_left()] == [*range(39), 41]


def test_attribution_needs_a_bitmap_that_covers_the_losses() -> None:
    records = MemoryLine(treatments({3: LOST_THERE})).run(20)
    for first, bitmap in ((4, bytes(4)), (0, b"")):
        with pytest.raises(InputError):
            attribute(records.copy(), first, bitmap)
    received = records[records["fate"] == Fate.RECEIVED]
    attribute(received, 0, b"")  # nothing lost, nothing to know
