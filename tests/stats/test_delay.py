from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual.model import Direction
from linkqual.records import ABSENT, Fate, Stamp, empty_records
from linkqual.stats import delay


def one(t1=100, t2=250, t3=300, t4=420, fate=Fate.RECEIVED, stamps=Stamp.ALL_KERNEL):
    row = empty_records(1)
    for name, value in (("sent_ns", t1), ("far_received_ns", t2), ("far_sent_ns", t3), ("received_ns", t4)):
        row[name] = value
    row["fate"], row["stamps"] = fate, stamps
    return row


def test_the_four_stamps_give_four_durations():
    row = one()
    assert delay.forward(row).tolist() == [150]
    assert delay.reverse(row).tolist() == [120]
    assert delay.residence(row).tolist() == [50]
    assert delay.round_trip(row).tolist() == [270]
    assert [delay.delays(row, each).item() for each in Direction] == [150, 120, 270]


def test_a_negative_one_way_delay_is_kept():
    row = one(t2=250 - 1000, t3=300 - 1000)
    assert delay.forward(row).tolist() == [-850]
    assert delay.reverse(row).tolist() == [1120]
    assert delay.round_trip(row).tolist() == [270]


@pytest.mark.parametrize(
    ("fate", "forward", "reverse", "round_trip"),
    [
        (Fate.RECEIVED, 150, 120, 270),
        (Fate.LOST_REVERSE, 150, ABSENT, ABSENT),
        (Fate.LOST_FORWARD, ABSENT, ABSENT, ABSENT),
        (
            Fate.LOST,
            ABSENT,
            ABSENT,
            ABSENT,
        ),  # its late reply does not make a delay: RFC 7679, undefined beyond the timeout
        (Fate.UNSENT, ABSENT, ABSENT, ABSENT),
    ],
)
def test_a_delay_is_defined_where_the_packet_got_through(fate, forward, reverse, round_trip):
    row = one(fate=fate)
    assert (delay.forward(row).item(), delay.reverse(row).item()) == (forward, reverse)
    assert delay.round_trip(row).item() == round_trip


@pytest.mark.parametrize("missing", ["t1", "t2", "t3", "t4"])
def test_a_missing_stamp_leaves_the_round_trip_undefined(missing):
    assert delay.round_trip(one(**{missing: ABSENT})).item() == ABSENT


FALLBACK = Stamp.ALL_KERNEL & ~Stamp.T3_KERNEL
HARDWARE = Stamp.T1_HARDWARE | Stamp.T2_HARDWARE | Stamp.T3_HARDWARE | Stamp.T4_HARDWARE


@pytest.mark.parametrize(
    ("stamps", "expected", "left_out"),
    [
        (Stamp.ALL_KERNEL, None, False),
        (FALLBACK, None, True),
        (HARDWARE, None, False),
        (HARDWARE & ~Stamp.T3_HARDWARE, None, True),
        (Stamp(0), None, False),  # user space throughout: poor, but of one kind
        (Stamp.T1_KERNEL | Stamp.T4_KERNEL, None, False),  # a far end without kernel stamps
        (Stamp.T1_KERNEL | Stamp.T4_KERNEL, Stamp.ALL_KERNEL, True),
        (HARDWARE, Stamp.ALL_KERNEL, False),
        (FALLBACK, Stamp.T1_KERNEL | Stamp.T4_KERNEL, False),
    ],
)
def test_rows_with_stamps_of_unequal_quality_are_left_out_of_every_delay(stamps, expected, left_out):
    row = one(stamps=stamps)
    assert delay.unfit(row, expected).item() is left_out
    for column in (delay.forward, delay.reverse, delay.round_trip, delay.residence):
        assert (column(row, expected).item() == ABSENT) is left_out


def test_a_lost_packet_is_lost_not_unfit():
    assert not delay.unfit(one(fate=Fate.LOST_REVERSE, stamps=FALLBACK)).item()


def test_pdv_counts_from_the_smallest_delay():
    column = np.array([30, 10, ABSENT, 25])
    assert delay.pdv(column).tolist() == [20, 0, ABSENT, 15]
    assert delay.pdv(column, smallest=5).tolist() == [25, 5, ABSENT, 20]
    assert delay.pdv(np.array([ABSENT])).tolist() == [ABSENT]


def test_ipdv_needs_two_packets_sent_one_after_the_other():
    assert delay.ipdv(np.array([30, 10, ABSENT, 25, 26])).tolist() == [ABSENT, -20, ABSENT, ABSENT, 1]
    assert delay.ipdv(np.array([30]), before=35).tolist() == [-5]
    assert delay.ipdv(np.array([], np.int64)).tolist() == []


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=30), st.integers(-(10**15), 10**15))
def test_a_clock_offset_cancels_in_every_variation(values, offset):
    column = np.array(values)
    assert (delay.pdv(column + offset) == delay.pdv(column)).all()
    assert (delay.ipdv(column + offset) == delay.ipdv(column)).all()
    assert delay.rfc3550(column + offset) == pytest.approx(delay.rfc3550(column))


def test_interarrival_jitter_of_rfc_3550():
    found = delay.rfc3550([10, 10.5, 10.2, 14.2, 10.2, 10.3])
    assert found == pytest.approx([0.031250000, 0.048046875, 0.295043945, 0.526603699, 0.499940968], abs=5e-10)
    assert delay.rfc3550([7]).size == 0


def test_interarrival_jitter_in_blocks_is_the_recursion_step_by_step():
    transit = np.random.default_rng(2).integers(0, 10**7, 1000)
    jitter, expected = 0.0, []
    for step in np.abs(np.diff(transit)):
        jitter += (step - jitter) / 16
        expected.append(jitter)
    assert delay.rfc3550(transit) == pytest.approx(expected)
    first = delay.rfc3550(transit[:300])
    assert delay.rfc3550(transit[299:], jitter=first[-1]) == pytest.approx(expected[299:])
