from __future__ import annotations

import numpy as np
import pytest

from linkqual.model import Direction, Summary
from linkqual.stats import loss


def test_loss_patterns_of_rfc_3357():
    lost = [2, 5, 7, 9, 10]
    assert loss.loss_distances(lost).tolist() == [0, 3, 2, 2, 1]
    assert loss.loss_periods(lost).tolist() == [1, 2, 3, 4, 4]
    assert loss.period_lengths(lost).tolist() == [1, 1, 1, 2]
    assert loss.inter_period_lengths(lost).tolist() == [0, 3, 2, 2]
    assert loss.noticeable_rate(lost, 2) == 3 / 5


def test_no_loss_has_no_pattern():
    assert loss.loss_distances([]).size == loss.loss_periods([]).size == loss.period_lengths([]).size == 0
    assert loss.noticeable_rate([], 2) is None


def test_ratios_have_the_packets_that_met_the_direction_below_the_line():
    summary = Summary(sent=1000, received=940, lost_forward=40, lost_reverse=20)
    assert loss.ratio(summary, Direction.FORWARD) == 0.04
    assert loss.ratio(summary, Direction.REVERSE) == 20 / 960
    assert loss.ratio(summary, Direction.ROUND_TRIP) == 0.06
    assert loss.ratio(Summary(), Direction.FORWARD) is None


def test_gilbert_by_counting_transitions():
    found = loss.gilbert([letter == "1" for letter in "0001001110100111"])
    assert (found.p, found.r) == (4 / 8, 3 / 7)
    assert found.loss_ratio == pytest.approx(0.538462, abs=1e-6)
    assert found.design_effect == pytest.approx(1.153846, abs=1e-6)
    assert found.mean_burst == pytest.approx(7 / 3)
    assert loss.gilbert([False] * 5) is None
    assert loss.gilbert([False, True]) is None


REPLIES = ([0, 1, 3, 7, 8], [0, 1, 2, 4, 5])  # 0..9 sent; 2, 5, 6 lost forward; the replies to 4 and 9 lost


def test_direction_of_loss_from_the_numbers_in_the_replies():
    found = loss.directional(*REPLIES, sent=10)
    assert (found.gaps_forward, found.gaps_reverse) == ((0, 1, 2, 0), (0, 0, 1, 0))
    assert (found.forward, found.reverse, found.unattributed) == (3, 1, 1)
    assert found.sent - found.received == 5


def test_the_reflectors_counters_settle_the_tail():
    found = loss.directional(*REPLIES, sent=10, far_received=7, far_sent=7)
    assert (found.forward, found.reverse, found.unattributed) == (3, 2, 0)


def test_reordered_replies_and_copies_leave_the_totals_alone():
    order = [3, 0, 4, 1, 2]
    s, r = (np.array(column)[order] for column in REPLIES)
    shuffled = loss.directional(s, r, sent=10)
    assert (shuffled.forward, shuffled.reverse, shuffled.unattributed) == (3, 1, 1)
    copied_back = loss.directional([0, 1, 1, 3, 7, 8], [0, 1, 1, 2, 4, 5], sent=10)
    assert copied_back == loss.directional(*REPLIES, sent=10)
    copied_forward = loss.directional([0, 1, 1, 3, 7, 8], [0, 1, 2, 3, 5, 6], sent=10)
    assert (copied_forward.forward, copied_forward.reverse, copied_forward.received) == (3, 1, 5)


def test_counters_of_32_bits_may_wrap():
    n, turn = 2000, 2**32
    counter = (np.arange(n) * 2**22 + 5) % turn  # wraps twice
    assert loss.unwrapped(counter).tolist() == (np.arange(n) * 2**22 + 5).tolist()
    assert loss.unwrapped([3, 2**32 - 1, 4]).tolist() == [3, -1, 4]  # reordered across the wrap
    assert loss.unwrapped([]).size == 0


def test_a_counter_of_16_bits_wraps_and_a_late_answer_stays_where_it_belongs() -> None:
    seen = [1, 2, 30_000, 60_000, 65_535, 0, 1, 65_534, 3]
    assert loss.unwrapped(seen, bits=16).tolist() == [1, 2, 30_000, 60_000, 65_535, 65_536, 65_537, 65_534, 65_539]


def test_no_reply_leaves_everything_unattributed():
    found = loss.directional([], [], sent=7)
    assert (found.forward, found.reverse, found.unattributed, found.received) == (0, 0, 7, 0)
