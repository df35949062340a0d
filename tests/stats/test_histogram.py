from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from linkqual.model import Histogram
from linkqual.records import ABSENT
from linkqual.stats import histogram
from linkqual.stats.histogram import EVEN_LIMIT, RELATIVE_ERROR, Even, LogLinear

int64 = hnp.arrays(np.int64, st.integers(0, 60), elements=st.integers(-(2**63) + 1, 2**63 - 1))
near = hnp.arrays(np.int64, st.integers(0, 60), elements=st.integers(-5000, 5000))
columns = st.one_of(int64, near)
KINDS = [LogLinear, Even]


def filled(kind: type[LogLinear] | type[Even], *parts: np.ndarray) -> Histogram:
    made = kind()
    for part in parts:
        made.add(part)
    return made.data()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(columns, columns)
def test_merging_two_histograms_is_the_histogram_of_all_values(kind, a, b):
    whole = filled(kind, np.concatenate([a, b]))
    assert histogram.merge(filled(kind, a), filled(kind, b)) == whole
    assert filled(kind, b, a) == whole
    joined = kind.from_data(filled(kind, a))
    joined.merge(kind.from_data(filled(kind, b)))
    assert joined.data() == whole


@settings(max_examples=100, deadline=None)
@given(int64.filter(lambda column: column.size > 0), st.floats(0.001, 1))
def test_a_log_linear_quantile_is_within_its_stated_error(values, q):
    rank = histogram.quantile_rank(values.size, q)
    exact = int(np.sort(values)[rank - 1])
    found = histogram.quantile(filled(LogLinear, values), q)
    assert abs(found - exact) <= RELATIVE_ERROR * abs(exact)


def test_the_stated_error_is_under_a_tenth_of_a_percent_and_is_reached_nowhere_else():
    assert RELATIVE_ERROR < 0.001
    edges = 2 ** np.arange(62, dtype=np.int64)
    for value in np.concatenate([edges, edges - 1, edges + 1, -edges]):
        low, high = histogram.log_linear_edges(int(histogram.log_linear_indices(np.array([value]))[0]))
        assert low <= value <= high
        assert high - low <= 2 * RELATIVE_ERROR * abs(int(value))


def test_neighbouring_buckets_leave_no_hole():
    for index in (0, 1, 2047, 2048, 3071, 3072, 20_000, -1, -2048, -2049):
        assert histogram.log_linear_edges(index)[1] + 1 == histogram.log_linear_edges(index + 1)[0]


def test_count_extremes_and_sum_are_exact_even_where_int64_would_overflow():
    values = np.array([2**62, 2**62, 2**62, -5, 7])
    for kind in KINDS:
        data = filled(kind, values)
        assert (data.n, data.minimum, data.maximum, data.total) == (5, -5, 2**62, 3 * 2**62 + 2)
        assert histogram.mean(data) == (3 * 2**62 + 2) / 5


def test_what_did_not_happen_is_not_counted():
    for kind in KINDS:
        assert filled(kind, np.array([ABSENT, ABSENT])) == filled(kind) == kind().data()
        assert filled(kind, np.array([ABSENT, 3, 0])).n == 2


@settings(max_examples=60, deadline=None)
@given(columns.filter(lambda column: column.size > 0), st.integers(2, 9))
def test_even_buckets_are_as_fine_as_their_number_allows(values, limit):
    made = Even(limit)
    for part in np.array_split(values, 3):
        made.add(part)
    data = made.data()
    shift = data.width.bit_length() - 1
    assert len(data.indices) == np.unique(values >> shift).size <= limit
    assert shift == 0 or np.unique(values >> (shift - 1)).size > limit


def test_an_empty_histogram_answers_none():
    empty = Histogram()
    assert histogram.quantile(empty, 0.5) is None
    assert histogram.value_at_rank(empty, 1) is None
    assert histogram.mean(empty) is None
    assert histogram.count_above(empty, 0) == 0
    assert histogram.merge(empty, empty) == empty


def test_percentiles_are_those_of_rfc_2330():
    data = filled(LogLinear, np.array([-2, 7, 7, 4, 18, -5]))
    assert histogram.quantiles(data, (0.25, 0.5, 1.0)) == (-2, 4, 18)


@pytest.mark.parametrize(
    ("n", "q", "rank"),
    [(1000, 0.999, 999), (100, 0.07, 7), (10, 0.95, 10), (1, 0.001, 1), (10**9, 0.999, 999_000_000), (3, 0.5, 2)],
)
def test_a_rank_is_counted_from_the_decimal_the_quantile_prints_as(n, q, rank):
    assert histogram.quantile_rank(n, q) == rank  # 0.07 * 100 is 7.000000000000001 in binary


def test_even_buckets_keep_a_small_jitter_on_top_of_a_huge_offset():
    jitter = np.random.default_rng(3).gamma(2, 20_000, 200_000).astype(np.int64)
    offset = 37_000_000_000  # TAI against UTC
    data = filled(Even, jitter + offset)
    shown = histogram.shifted(data, -data.minimum)
    exact = np.sort(jitter - jitter.min())
    for q in (0.5, 0.99, 0.999):
        assert abs(histogram.quantile(shown, q) - exact[histogram.quantile_rank(jitter.size, q) - 1]) <= data.width
    assert data.width <= 256
    assert len(data.indices) <= EVEN_LIMIT


@settings(max_examples=40, deadline=None)
@given(near.filter(lambda column: column.size > 0), st.integers(-(10**12), 10**12))
def test_shifting_moves_every_answer_by_the_same_amount(values, by):
    for kind in KINDS:
        data = filled(kind, values)
        moved = histogram.shifted(data, by)
        assert histogram.quantile(moved, 0.5) == histogram.quantile(data, 0.5) + by
        assert histogram.mean(moved) == pytest.approx(histogram.mean(data) + by)
        assert histogram.count_above(moved, by) == histogram.count_above(data, 0)
        assert histogram.merge(moved, moved).n == 2 * values.size


@pytest.mark.parametrize("kind", KINDS)
def test_counting_above_a_limit(kind):
    data = filled(kind, np.arange(-10, 11))
    assert [histogram.count_above(data, limit) for limit in (-11, -10, 0, 0.5, 9, 10)] == [21, 20, 10, 10, 1, 0]


def test_histograms_that_do_not_belong_together_are_refused():
    one, other = filled(LogLinear, np.array([1])), filled(Even, np.array([1]))
    with pytest.raises(ValueError, match="different kinds"):
        histogram.merge(one, other)
    with pytest.raises(ValueError, match="different kinds or origins"):
        histogram.merge(other, histogram.shifted(other, 5))
    with pytest.raises(ValueError, match="log-linear"):
        LogLinear.from_data(other)
    with pytest.raises(ValueError, match="even"):
        Even.from_data(one)
