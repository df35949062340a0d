"""The far end's memory of what arrived, against a plain set."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual.errors import InputError
from linkqual.session.arrivals import WINDOW, Arrivals

SMALL = 1 << 17


def bits(data: bytes, count: int) -> list[bool]:
    return np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[:count].astype(bool).tolist()


def arrive(arrivals: Arrivals, *seqs: int) -> list[bool]:
    """As a session does it: numbers off the wire, those in reach noted."""
    found = arrivals.unwrap(np.array(seqs) % 2**32)
    assert found.tolist() == list(seqs)
    seen = arrivals.seen(found)
    arrivals.note(found)
    return seen.tolist()


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([0, 5, 2**32 - 40_000, 2**33 + 77]),
    st.lists(
        st.tuples(st.integers(-60_000, 90_000), st.lists(st.integers(0, 300), min_size=1, max_size=12)), max_size=14
    ),
)
def test_whatever_arrives_is_known_as_long_as_the_window_reaches(
    first: int, batches: list[tuple[int, list[int]]]
) -> None:
    arrivals, truth, newest = Arrivals(first, SMALL), set[int](), first
    for jump, offsets in batches:
        seqs = [seq for seq in (max(newest + jump, first) + offset for offset in offsets) if seq >= arrivals.oldest]
        if not seqs:
            continue
        known = [seq in truth or seq in seqs[:at] for at, seq in enumerate(seqs)]
        assert arrive(arrivals, *seqs) == known
        truth |= set(seqs)
        newest = max(newest, *seqs)
        assert arrivals.next_seq == newest + 1
    assert arrivals.oldest <= max(first, newest - SMALL + 2 * 2**16)
    for start in (arrivals.oldest, max(arrivals.oldest, newest - 700), newest - 3):
        if start >= arrivals.oldest:
            expected = [start + at in truth for at in range(1000)]
            assert bits(arrivals.bitmap(start, 1000), 1000) == expected


def test_memory_does_not_grow_with_the_session_and_numbers_wrap() -> None:
    first = 2**32 - 20 * SMALL
    arrivals = Arrivals(first, SMALL)
    taken = arrivals._bits.nbytes
    for start in range(first, first + 40 * SMALL, 2**15):
        assert arrive(arrivals, start + 9, start + 11, start + 9) == [False, False, True]
    assert arrivals._bits.nbytes == taken == SMALL // 8
    newest = first + 40 * SMALL - 2**15
    assert bits(arrivals.bitmap(newest + 8, 4), 4) == [False, True, False, True]
    assert bits(arrivals.bitmap(newest - 2**15 + 8, 4), 4) == [False, True, False, True]


def test_what_fell_out_of_the_window_is_an_error_and_not_a_loss() -> None:
    arrivals = Arrivals(100, SMALL)
    arrive(arrivals, 100, 101)
    assert arrivals.bitmap(0, 108) == bytes(12) + bytes([0b0011_0000, 0])  # before the first nothing can have arrived
    arrive(arrivals, 10 * SMALL)
    with pytest.raises(InputError, match=r"no longer remembered, 100 was") as caught:
        arrivals.bitmap(0, 108)
    assert caught.value.hint
    assert arrivals.bitmap(10 * SMALL, 8) == b"\x01"


def test_a_batch_that_jumps_beyond_its_own_window_forgets_its_own_beginning() -> None:
    arrivals = Arrivals(0, SMALL)
    arrive(arrivals, 3, 4 * SMALL, 3)
    assert arrivals.bitmap(4 * SMALL, 8) == b"\x01"
    assert not any(arrivals.bitmap(arrivals.oldest, 4 * SMALL - arrivals.oldest))


def test_a_long_stretch_and_none_at_all() -> None:
    arrivals = Arrivals()
    arrive(arrivals, 0, 9, 100_000)
    assert arrivals.bitmap(0, 10) == bytes([0b1, 0b10])
    assert arrivals.bitmap(9, 3) == bytes([0b1])
    assert arrivals.bitmap(10**8, 8) == bytes(1)
    assert arrivals.bitmap(99_993, WINDOW) == bytes([0b1000_0000]) + bytes(WINDOW // 8 - 1)
    assert arrivals.bitmap(0, 0) == b""
