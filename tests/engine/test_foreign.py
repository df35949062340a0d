"""Reflectors that are not ours: what their numbers tell of the way a packet was lost, and whole sessions with small ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual.records import ABSENT, Fate, Records, empty_records
from linkqual.session import attribution
from linkqual.session.attribution import FIRST_SEQ, STATEFUL, STATELESS, UNTOLD, Numbers


def far_end(order: list[int], answered: list[bool], first: int = 0) -> dict[int, int]:
    """A stateful reflector: packets in order of arrival -> number of the reply, for those whose reply came back."""
    return {seq: first + number for number, (seq, back) in enumerate(zip(order, answered, strict=True)) if back}


def table(count: int, replies: dict[int, int], unsent: tuple[int, ...] = ()) -> Records:
    rows = empty_records(count, FIRST_SEQ)
    rows["fate"] = Fate.LOST
    for seq, far in replies.items():
        rows["fate"][seq], rows["far_seq"][seq] = Fate.RECEIVED, far
    rows["fate"][list(unsent)] = Fate.UNSENT
    return rows


def through(rows: Records, cuts: list[int]) -> tuple[Records, Records, Numbers]:
    numbers = Numbers()
    out = [numbers.take(part) for part in np.split(rows, sorted(cuts))]
    rest, tail = numbers.close()
    return np.concatenate([*out, rest]), tail, numbers


def counts(rows: Records) -> tuple[int, int, int]:
    return tuple(int((rows["fate"] == fate).sum()) for fate in (Fate.LOST_FORWARD, Fate.LOST_REVERSE, Fate.LOST))


def test_the_golden_vector() -> None:
    """Ten packets; 2, 5 and 6 lost on the way there, the replies to 4 and 9 on the way back."""
    done, tail, numbers = through(table(10, {0: 0, 1: 1, 3: 2, 7: 4, 8: 5}), [])
    assert numbers.kind == STATEFUL
    assert counts(done) == (3, 1, 0)
    assert tail["seq"].tolist() == [FIRST_SEQ + 9]
    fates = {int(row["seq"]) - FIRST_SEQ: row["fate"] for row in done}
    assert fates[2] == Fate.LOST_FORWARD
    assert sum(fates[seq] == Fate.LOST_FORWARD for seq in (4, 5, 6)) == 2


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 1500))
def test_every_loss_gets_its_direction(data: st.DataObject, count: int) -> None:
    draw = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    there, back = draw.random(count) >= draw.choice([0, 0.01, 0.3]), draw.random(count) >= draw.choice([0, 0.01, 0.3])
    unsent = draw.random(count) < draw.choice([0, 0.02])
    there &= ~unsent
    order = np.flatnonzero(there).tolist()
    replies = far_end(order, back[order].tolist())
    rows = table(count, replies, tuple(np.flatnonzero(unsent).tolist()))
    done, tail, _ = through(rows, data.draw(st.lists(st.integers(0, count), max_size=6)))
    assert np.concatenate([done, tail])["seq"].tolist() == rows["seq"].tolist()
    within = len(done)
    assert counts(done) == ((~there & ~unsent)[:within].sum(), (there & ~back)[:within].sum(), 0)
    assert not (tail["fate"] == Fate.RECEIVED).any()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(400, 3000))
def test_totals_hold_where_packets_overtake_each_other(seed: int, count: int) -> None:
    draw = np.random.default_rng(seed)
    there, back = draw.random(count) >= 0.05, draw.random(count) >= 0.05
    there[-300:] = back[-300:] = True  # what is carried must find its gap
    there[:20] = back[:20] = True  # and the counter's begin be seen
    order = np.flatnonzero(there)
    late = draw.exponential(4, len(order)) * ((order >= 20) & (order < count - 300))
    order = order[np.argsort(order + late, kind="stable")].tolist()
    done, _, numbers = through(table(count, far_end(order, back[order].tolist())), [count // 3, count // 2])
    forward, reverse, unknown = counts(done)
    assert (forward + reverse, unknown) == ((~(there & back)).sum(), 0)
    assert forward - (~there).sum() == -numbers.carried
    assert abs(numbers.carried) <= 10


def test_a_copy_made_on_the_way_there_is_no_arrival_more() -> None:
    rows = table(6, {0: 0, 1: 1, 3: 3, 4: 4, 5: 5})  # packet 1 came twice and was answered twice; 2 never arrived
    rows["forward_copies"][1] = 1
    done, _, _ = through(rows, [])
    assert counts(done) == (1, 0, 0)


def test_a_stateless_reflector_is_known_by_the_numbers_it_copies() -> None:
    rows = table(9, {seq: FIRST_SEQ + seq for seq in (0, 1, 3, 4, 7)})
    done, tail, numbers = through(rows, [4])
    assert numbers.kind == STATELESS
    assert counts(done) == (0, 0, 3)
    assert (done["far_seq"] == ABSENT).all()
    assert len(tail) == 1


def test_a_counter_that_did_not_begin_with_us_tells_nothing_of_what_came_before() -> None:
    done, _, numbers = through(table(8, far_end([2, 3, 5, 6, 7], [True] * 5, first=90_000)), [])
    assert numbers.kind == STATEFUL
    assert done["fate"][:2].tolist() == [Fate.LOST, Fate.LOST]
    assert done["fate"][4] == Fate.LOST_FORWARD


def test_without_any_reply_nothing_is_told() -> None:
    done, tail, numbers = through(table(500, {}), [100])
    assert (len(done), len(tail), numbers.kind) == (0, 500, UNTOLD)


def test_an_outage_longer_than_what_is_held_stays_without_a_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribution, "_MOST_HELD", 600)
    lost = range(400, 2000)
    order = [seq for seq in range(3000) if seq not in lost]
    answered = [seq != 2500 for seq in order]
    done, tail, _ = through(table(3000, far_end(order, answered)), list(range(0, 3000, 100)))
    assert counts(done)[1] == 1
    assert counts(done)[2] >= 600
    assert sum(counts(done)) == 1601
    assert not len(tail)
