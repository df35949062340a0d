"""Histograms of signed integers that merge exactly and never grow with the number of values.

Two kinds, one sparse form (`model.Histogram`):

* `LogLinear`: buckets grow with the value, so every value is known to within 0.05 %. The kind for delays and rates.
* `Even`: buckets of one width, a power of two, doubled whenever more than `EVEN_LIMIT` of them are occupied. The kind for small
  differences on top of a large value: a 40 us jitter on a 60 ms path, or on clocks that are a second apart.

Both layouts depend only on the set of values, never on their order or on how they came in chunks: merge(parts) == whole.

Log-linear index of v >= 0 (negative values mirror it): v itself below 2048; above, with s = floor(log2 v) - 10, the index is
1024 s + (v >> s). A bucket is 2**s wide and starts at 2**(s+10) or more: its midpoint is within 1/2048 of every value in it.
Floor 1, pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from linkqual.model import Histogram
from linkqual.records import ABSENT

MANTISSA_BITS = 10
RELATIVE_ERROR = 2.0 ** -(MANTISSA_BITS + 1)  # of a LogLinear midpoint: 0.049 %
EVEN_LIMIT = 4096  # occupied buckets of an Even histogram

Ints = npt.NDArray[np.int64]


def log_linear_indices(values: Ints, bits: int = MANTISSA_BITS) -> Ints:
    """Bucket index of every value; fewer `bits` make coarser buckets (relative error 2**-(bits + 1))."""
    size = np.abs(values)
    exponent = (
        np.frexp(size.astype(np.float64))[1].astype(np.int64) - 1
    )  # one too high near 2**54 lands in the same bucket
    shift = np.maximum(exponent - bits, 0)
    index = (shift << bits) + (size >> shift)
    return np.where(values < 0, -index, index)


def log_linear_edges(index: int, bits: int = MANTISSA_BITS) -> tuple[int, int]:
    """Smallest and largest value of a bucket, both inside it."""
    size = abs(index)
    shift = max((size >> bits) - 1, 0)
    low = (size - (shift << bits)) << shift
    high = low + (1 << shift) - 1
    return (low, high) if index >= 0 else (-high, -low)


def _exact_sum(values: Ints) -> int:
    """Sum without overflow for up to 2**31 values of any size."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def _present(values: npt.ArrayLike) -> Ints:
    array = np.asarray(values, dtype=np.int64)
    present: Ints = array[array != ABSENT]
    return present


class _Moments:
    """Count, extremes and exact sum: what both kinds know apart from their buckets."""

    __slots__ = ("maximum", "minimum", "n", "total")

    def __init__(self) -> None:
        self.n = 0
        self.minimum: int | None = None
        self.maximum: int | None = None
        self.total = 0

    def _count(self, values: Ints) -> None:
        self._join(len(values), int(values.min()), int(values.max()), _exact_sum(values))

    def _join(self, n: int, minimum: int | None, maximum: int | None, total: int) -> None:
        self.n += n
        self.total += total
        if minimum is not None:
            self.minimum = minimum if self.minimum is None else min(self.minimum, minimum)
        if maximum is not None:
            self.maximum = maximum if self.maximum is None else max(self.maximum, maximum)


class LogLinear(_Moments):
    """A histogram being filled: `add` columns, then `data()`. Memory stays under 1 MB whatever comes."""

    __slots__ = ("_counts", "_low")

    def __init__(self) -> None:
        super().__init__()
        self._low = 0  # index of _counts[0]
        self._counts: Ints = np.zeros(0, np.int64)

    def _reach(self, low: int, high: int) -> None:
        """Make room for the indices low..high, both included."""
        if not self._counts.size:
            self._low, self._counts = low, np.zeros(high - low + 1, np.int64)
            return
        before = max(self._low - low, 0)
        after = max(high - (self._low + self._counts.size - 1), 0)
        if before or after:
            self._counts = np.pad(self._counts, (before, after))
            self._low -= before

    def add(self, values: npt.ArrayLike) -> None:
        """Count every value of an integer column; ABSENT ones did not happen and are left out."""
        column = _present(values)
        if not column.size:
            return
        self._count(column)
        index = log_linear_indices(column)
        low = int(index.min())
        counts = np.bincount(index - low)
        self._reach(low, low + counts.size - 1)
        start = low - self._low
        self._counts[start : start + counts.size] += counts

    def merge(self, other: LogLinear) -> None:
        """Take in everything `other` has counted."""
        if not other.n:
            return
        self._join(other.n, other.minimum, other.maximum, other.total)
        self._reach(other._low, other._low + other._counts.size - 1)
        start = other._low - self._low
        self._counts[start : start + other._counts.size] += other._counts

    def data(self) -> Histogram:
        """The sparse form, sorted by value."""
        occupied = np.flatnonzero(self._counts)
        return Histogram(
            n=self.n,
            minimum=self.minimum,
            maximum=self.maximum,
            total=self.total,
            indices=tuple((occupied + self._low).tolist()),
            counts=tuple(self._counts[occupied].tolist()),
        )

    @classmethod
    def from_data(cls, data: Histogram) -> LogLinear:
        """The inverse of `data`."""
        if data.width or data.origin:
            raise ValueError("an even histogram cannot go on as a log-linear one")
        made = cls()
        if data.n:
            made._join(data.n, data.minimum, data.maximum, data.total)
            made._reach(data.indices[0], data.indices[-1])
            made._counts[np.asarray(data.indices) - made._low] = data.counts
        return made


class Even(_Moments):
    """Even buckets [i w, (i + 1) w) with the smallest w = 1, 2, 4, ... that leaves at most `limit` of them occupied."""

    __slots__ = ("_counts", "_indices", "_limit", "_shift")

    def __init__(self, limit: int = EVEN_LIMIT) -> None:
        super().__init__()
        self._limit = limit
        self._shift = 0
        self._indices: Ints = np.zeros(0, np.int64)  # sorted
        self._counts: Ints = np.zeros(0, np.int64)

    def add(self, values: npt.ArrayLike) -> None:
        """Count every value of an integer column; ABSENT ones did not happen and are left out."""
        column = _present(values)
        if column.size:
            self._count(column)
            self._take(*_occupied(column >> self._shift), self._shift)

    def merge(self, other: Even) -> None:
        """Take in everything `other` has counted."""
        self._join(other.n, other.minimum, other.maximum, other.total)
        self._take(other._indices, other._counts, other._shift)

    def _take(self, indices: Ints, counts: Ints, shift: int) -> None:
        common = max(shift, self._shift)
        index = np.concatenate([self._indices >> (common - self._shift), indices >> (common - shift)])
        self._indices, self._counts = _grouped(index, np.concatenate([self._counts, counts]))
        self._shift = common
        if self._indices.size > self._limit:
            coarser = _coarsening(self._indices, self._limit)
            self._shift += coarser
            self._indices, self._counts = _grouped(self._indices >> coarser, self._counts)

    def data(self) -> Histogram:
        """The sparse form, sorted by value."""
        return Histogram(
            n=self.n,
            minimum=self.minimum,
            maximum=self.maximum,
            total=self.total,
            indices=tuple(self._indices.tolist()),
            counts=tuple(self._counts.tolist()),
            width=1 << self._shift,
        )

    @classmethod
    def from_data(cls, data: Histogram) -> Even:
        """The inverse of `data`; a shifted histogram (origin) cannot go on counting."""
        if data.n and (not data.width or data.origin):
            raise ValueError("only an even histogram at origin 0 can go on as an even one")
        made = cls()
        if data.n:
            made._join(data.n, data.minimum, data.maximum, data.total)
            made._shift = data.width.bit_length() - 1
            made._indices = np.asarray(data.indices, np.int64)
            made._counts = np.asarray(data.counts, np.int64)
        return made


def _occupied(index: Ints) -> tuple[Ints, Ints]:
    """Distinct indices and how often each occurs; counting beats sorting while the range is narrow."""
    low = int(index.min())
    if int(index.max()) - low <= 8 * index.size + 4096:
        counts = np.bincount(index - low)
        found = np.flatnonzero(counts)
        return found + low, counts[found]
    values, counts = np.unique(index, return_counts=True)
    return values, counts.astype(np.int64)


def _grouped(index: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Add up the counts of equal indices."""
    if not index.size:
        return index, counts
    if np.any(index[1:] < index[:-1]):
        order = np.argsort(index, kind="stable")
        index, counts = index[order], counts[order]
    starts = np.flatnonzero(np.concatenate([[True], index[1:] != index[:-1]]))
    return index[starts], np.add.reduceat(counts, starts)


def _coarsening(indices: Ints, limit: int) -> int:
    """Smallest s that leaves at most `limit` distinct values of indices >> s; `indices` ascend.

    Two neighbours become one at s = bit length of their exclusive or; numbers of unlike sign never do.
    """
    apart = indices[1:] ^ indices[:-1]
    low = np.frexp(apart & 0xFFFFFFFF)[1]
    high = np.frexp(apart >> 32)[1] + 32
    meets = np.where(apart < 0, 64, np.where(apart >> 32 > 0, high, low))
    still_apart = indices.size - np.cumsum(np.bincount(meets, minlength=65))  # distinct values left at each shift
    return int(np.argmax(still_apart <= limit))


# ---- on the sparse form


def _edges(histogram: Histogram, index: int) -> tuple[int, int]:
    """Smallest and largest value a bucket may hold, within what was seen."""
    assert histogram.minimum is not None
    assert histogram.maximum is not None
    if histogram.width:
        low = index * histogram.width
        high = low + histogram.width - 1
    else:
        low, high = log_linear_edges(index)
    low, high = low + histogram.origin, high + histogram.origin
    return max(low, histogram.minimum), min(high, histogram.maximum)


def merge(a: Histogram, b: Histogram) -> Histogram:
    """Both together; exactly the histogram of all their values. They must be of one kind and origin."""
    if not a.n or not b.n:
        return a if a.n else b
    if a.origin != b.origin or bool(a.width) != bool(b.width):
        raise ValueError("histograms of different kinds or origins cannot be merged")
    kind = Even if a.width else LogLinear
    both = kind.from_data(replace(a, origin=0))
    both.merge(kind.from_data(replace(b, origin=0)))  # type: ignore[arg-type]
    joined = both.data()
    low, high = min(_known(a.minimum), _known(b.minimum)), max(_known(a.maximum), _known(b.maximum))
    return replace(joined, minimum=low, maximum=high, total=a.total + b.total, origin=a.origin)


def _known(value: int | None) -> int:
    assert value is not None
    return value


def shifted(histogram: Histogram, by: int) -> Histogram:
    """The histogram of value + by, exact: the buckets move, they are not filled again."""
    if not histogram.n:
        return histogram
    return replace(
        histogram,
        minimum=_known(histogram.minimum) + by,
        maximum=_known(histogram.maximum) + by,
        total=histogram.total + by * histogram.n,
        origin=histogram.origin + by,
    )


def quantile_rank(n: int, q: float) -> int:
    """RFC 2330 section 11.3: the percentile is the value of rank ceil(q n), counted from 1. `q` means what it prints as."""
    return min(max(-(-Fraction(repr(q)) * n // 1), 1), n)


def edges_at_rank(histogram: Histogram, rank: int) -> tuple[int, int] | None:
    """Between which two values the value of this rank (1 = smallest) lies, both included; None beyond the sample."""
    if not 1 <= rank <= histogram.n:
        return None
    if rank == 1:
        return _known(histogram.minimum), _known(histogram.minimum)
    if rank == histogram.n:
        return _known(histogram.maximum), _known(histogram.maximum)
    seen = 0
    for index, count in zip(histogram.indices, histogram.counts, strict=True):
        seen += count
        if seen >= rank:
            return _edges(histogram, index)
    raise ValueError("the counts of this histogram do not add up to its n")


def value_at_rank(histogram: Histogram, rank: int) -> int | None:
    """The value of this rank, 1 = smallest: the midpoint of its bucket; the extremes are exact. None beyond the sample."""
    edges = edges_at_rank(histogram, rank)
    return None if edges is None else (edges[0] + edges[1]) // 2


def quantile(histogram: Histogram, q: float) -> int | None:
    """The RFC 2330 percentile (section 11.3) to within half a bucket; None without values."""
    return value_at_rank(histogram, quantile_rank(histogram.n, q)) if histogram.n else None


def quantiles(histogram: Histogram, qs: Iterable[float]) -> tuple[int | None, ...]:
    """`quantile` of each."""
    return tuple(quantile(histogram, q) for q in qs)


def count_above(histogram: Histogram, limit: float) -> int:
    """How many values lie over the limit; a bucket across it counts by its midpoint."""
    if not histogram.n or _known(histogram.maximum) <= limit:
        return 0
    above = 0
    for index, count in zip(reversed(histogram.indices), reversed(histogram.counts), strict=True):
        low, high = _edges(histogram, index)
        if (low + high) // 2 <= limit:
            break
        above += count
    return above


def mean(histogram: Histogram) -> float | None:
    """The exact mean of the values."""
    return histogram.total / histogram.n if histogram.n else None
