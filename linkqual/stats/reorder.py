"""Reordering (RFC 4737) and duplication (RFC 5560) of a sequence of arrivals.

`arrivals` is the column of sequence numbers in the order the packets arrived, first copies only unless said otherwise. Reordering
is a property of the packet that comes too late, not of the one that overtakes it. Floor 1, pure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def next_expected(arrivals: Ints, start: int | None = None) -> Ints:
    """NextExp before each arrival (RFC 4737 section 3.3): one above the largest number so far; `start` before the first."""
    first = np.iinfo(np.int64).min if start is None else start
    before: Ints = np.maximum.accumulate(np.concatenate([[first], arrivals + 1]))[:-1]
    return before


def reordered(arrivals: npt.ArrayLike, start: int | None = None) -> Bools:
    """Which arrivals are reordered: a packet sent later came before them (RFC 4737 section 3.3)."""
    column = np.asarray(arrivals, np.int64)
    return column < next_expected(column, start)


def ratio(arrivals: npt.ArrayLike) -> float | None:
    """Type-P-Reordered-Ratio (RFC 4737 section 4.1): reordered of all that arrived; None without arrivals."""
    flags = reordered(arrivals)
    return float(flags.mean()) if flags.size else None


def extents(arrivals: npt.ArrayLike) -> Ints:
    """Reordering extent i - min{j < i : s[j] > s[i]} of each arrival (RFC 4737 section 4.2); 0 where it is in order."""
    column = np.asarray(arrivals, np.int64)
    largest = np.maximum.accumulate(column) if column.size else column
    first_larger = np.searchsorted(largest, column, side="right")
    place = np.arange(column.size)
    return np.where(first_larger < place, place - first_larger, 0)


def late_times(arrivals: npt.ArrayLike, arrived_ns: npt.ArrayLike) -> Ints:
    """Late time t(i) - t(i - e) of each arrival (RFC 4737 section 4.3); 0 where it is in order."""
    times = np.asarray(arrived_ns, np.int64)
    late: Ints = times - times[np.arange(times.size) - extents(arrivals)]
    return late


def n_reordering(arrivals: npt.ArrayLike) -> Ints:
    """How many packets right before each reordered one were all sent after it (RFC 4737 section 5.3); 0: not n-reordered.

    3 or more makes a TCP sender without SACK-based detection retransmit for nothing (duplicate ACKs, RFC 5681).
    """
    column = np.asarray(arrivals, np.int64)
    result = np.zeros(column.size, np.int64)
    for place in np.flatnonzero(reordered(column)):
        smaller = np.flatnonzero(column[:place] < column[place])
        result[place] = place - 1 - (smaller[-1] if smaller.size else -1)
    return result


@dataclass(frozen=True, slots=True)
class Duplication:
    """RFC 5560 section 5, of the packets that were not lost. None without any."""

    fraction: float | None  # copies received per packet, less one
    replicated_rate: float | None  # packets that came more than once


def duplication(arrivals: npt.ArrayLike) -> Duplication:
    """Duplicates in a column of arrivals that still has every copy."""
    _, copies = np.unique(np.asarray(arrivals, np.int64), return_counts=True)
    if not copies.size:
        return Duplication(None, None)
    return Duplication(float(copies.mean() - 1), float((copies > 1).mean()))
