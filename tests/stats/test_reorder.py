from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual.stats import reorder

VECTOR = [1, 2, 3, 7, 8, 9, 4, 5, 6]


def test_reordering_of_rfc_4737():
    column = np.array(VECTOR)
    assert column[reorder.reordered(column)].tolist() == [4, 5, 6]
    assert reorder.ratio(column) == 3 / 9
    assert reorder.extents(column).tolist() == [0, 0, 0, 0, 0, 0, 3, 4, 5]
    assert reorder.n_reordering(column).tolist() == [0, 0, 0, 0, 0, 0, 3, 0, 0]


def test_late_time_is_counted_from_the_first_that_overtook():
    assert reorder.late_times(VECTOR, np.arange(9) * 10).tolist() == [0] * 6 + [30, 40, 50]


def test_in_order_arrivals_with_losses_are_in_order():
    assert not reorder.reordered([0, 5, 6, 100]).any()
    assert reorder.ratio([]) is None
    assert reorder.extents([]).size == 0


@settings(max_examples=100, deadline=None)
@given(st.permutations(range(12)))
def test_definitions_agree_with_a_plain_reading(arrivals):
    column = np.array(arrivals)
    for place, number in enumerate(arrivals):
        larger = [j for j in range(place) if arrivals[j] > number]
        assert reorder.reordered(column)[place] == bool(larger)
        assert reorder.extents(column)[place] == (place - larger[0] if larger else 0)
        n = 0
        while n < place and arrivals[place - 1 - n] > number:
            n += 1
        assert reorder.n_reordering(column)[place] == n


def test_duplication_of_rfc_5560():
    found = reorder.duplication([1, 1, 2, 2, 3, 4])
    assert (found.fraction, found.replicated_rate) == (0.5, 0.5)
    assert reorder.duplication([1, 1, 1, 2]).fraction == 1.0
    assert reorder.duplication([]) == reorder.Duplication(None, None)


@pytest.mark.parametrize("start", [None, 1, 5])
def test_the_next_expected_number_goes_on_from_where_it_stood(start):
    assert reorder.reordered([3, 4], start=start).tolist() == ([True, True] if start == 5 else [False, False])
