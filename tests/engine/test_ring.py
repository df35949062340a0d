"""The ring of packets in flight against the plainest model of it: a dictionary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual.errors import UsageError
from linkqual.records import Fate, Records, empty_records
from linkqual.session import ring as ring_module
from linkqual.session.ring import Ring


def blank() -> Records:
    row = empty_records(1)
    row["fate"] = Fate.LOST
    row["dscp"] = 46
    return row


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "_FIRST_ROWS", 4)


steps = st.lists(
    st.tuples(st.sampled_from(["open", "take", "write", "follow"]), st.integers(0, 40), st.integers(0, 2**40)),
    min_size=1,
    max_size=60,
)


@given(steps, st.sampled_from([0, 3, 2**32 - 5, 2**33 + 31]))
@settings(max_examples=150, deadline=None)
def test_a_ring_is_a_dictionary_of_what_is_in_flight(plan: list[tuple[str, int, int]], first: int) -> None:
    ring, model, follow = Ring(blank(), first, 64), {}, {}
    heard: dict[int, bool] = {}
    for what, number, value in plan:
        if what == "open":
            count = min(number, 64 - ring.pending)
            rows = ring.open(count)
            ring.columns["sent_ns"][rows] = np.arange(count) + value
            ring.since[rows] = value
            model |= {ring.next - count + i: [value + i, value, False] for i in range(count)}
        elif what == "take":
            stop = min(ring.head + number, ring.next)
            taken = ring.take(stop)
            expected = [seq for seq in sorted(model) if seq < stop]
            assert taken["seq"].tolist() == expected
            assert taken["sent_ns"].tolist() == [model[seq][0] for seq in expected]
            assert (taken["dscp"] == 46).all()
            assert (taken["fate"] == Fate.RECEIVED).tolist() == [model[seq][2] for seq in expected]
            heard |= {seq: model.pop(seq)[2] for seq in expected}
        elif what == "write" and ring.pending:
            seqs = np.array(
                sorted({ring.head + (value >> i) % ring.pending for i in range(0, number, 3)} or {ring.head})
            )
            assert ring.columns["seq"][ring.at(seqs)].tolist() == seqs.tolist()
            ring.columns["fate"][ring.at(seqs)] = Fate.RECEIVED
            for seq in seqs.tolist():
                model[seq][2] = True
        elif what == "follow" and ring.pending:
            fars = np.array([ring.head + value % ring.pending])
            ring.note_follow_ups(fars, np.array([value]))
            follow[int(fars[0])] = value
        assert (ring.head, ring.pending) == (min(model, default=ring.next), len(model))
        seqs = np.arange(ring.head, ring.next)
        assert ring.since[ring.at(seqs)].tolist() == [model[seq][1] for seq in seqs.tolist()]
        assert ring.columns["sent_ns"][ring.at(seqs)].tolist() == [model[seq][0] for seq in seqs.tolist()]
        assert ring.followed(seqs).tolist() == [seq in follow for seq in seqs.tolist()]
        told = seqs[ring.followed(seqs)]
        assert ring.follow_ups(told).tolist() == [follow[seq] for seq in told.tolist()]
        for seq in range(ring.head - 70, ring.next):
            known = ring.head - 64 <= seq < ring.head
            assert ring.was_heard(seq) == (known and heard.get(seq, False))


def test_a_ring_grows_only_when_it_must() -> None:
    ring = Ring(blank(), 0, 1024)
    for _ in range(1000):
        ring.open(3)
        ring.take(ring.next)
    assert ring.capacity == 4
    ring.open(900)
    assert ring.capacity == 1024
    with pytest.raises(UsageError):
        ring.open(125)
    with pytest.raises(UsageError):
        Ring(blank(), 0, 1000)


def test_rows_that_follow_one_another_are_a_slice() -> None:
    ring = Ring(blank(), 6, 8)
    ring.open(2)
    ring.take(8)
    ring.open(4)
    assert ring.at(np.array([8, 9, 10])) == slice(0, 3)
    for seqs in ([8, 10, 9], [8, 8, 10], [9, 8], [8, 10]):
        assert ring.at(np.array(seqs)).tolist() == [seq & (ring.capacity - 1) for seq in seqs]
