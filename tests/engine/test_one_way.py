"""One-way sessions: each packet sent ends up in one record that says whether, when and how it arrived."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual.net.one_way import one_way
from linkqual.net.reflector import Reflector, ReflectorConfig
from linkqual.net.sender import Sender, SenderConfig
from linkqual.records import ABSENT, Fate, Records, Stamp, empty_records
from linkqual.session.one_way import OneWay
from linkqual.session.reflector import ARRIVAL
from linkqual.session.sender import SenderSession, SenderSettings
from linkqual.stats import delay

MS = 1_000_000
UTC = 1_800_000_000 * 10**9


def sent(first: int, count: int) -> Records:
    rows = empty_records(count, first)
    rows["fate"] = Fate.LOST
    rows["sent_ns"] = UTC + rows["seq"] * MS
    return rows


def logged(*seqs: int) -> np.ndarray:
    rows = np.zeros(len(seqs), ARRIVAL)
    rows["seq"] = seqs
    rows["received_ns"] = UTC + rows["seq"] * MS + 400
    rows["ttl"], rows["tos"] = 60, 184
    return rows


def test_arrivals_find_their_rows_whichever_come_first() -> None:
    join = OneWay(100 * MS)
    join.arrived(logged(1, 12, 0))  # 12 is ahead of its row
    join.sent(sent(0, 10), 0)
    join.arrived(logged(3, 2))
    assert len(join.settle(99 * MS)) == 0
    join.sent(sent(10, 5), 50 * MS)
    first = join.settle(100 * MS)
    assert first["seq"].tolist() == list(range(10))
    assert np.flatnonzero(first["fate"] == Fate.RECEIVED).tolist() == [0, 1, 2, 3]
    assert (first["fate"][4:] == Fate.LOST_FORWARD).all()
    assert first["far_seq"][:4].tolist() == [2, 0, 4, 3]
    assert (delay.forward(first)[:4] == 400).all()
    assert set(first["forward_ttl"][:4]) == {60}
    assert set(first["forward_tos"][:4]) == {184}
    assert (first["stamps"][:4] == Stamp.T2_KERNEL).all()
    assert (first["far_received_ns"][4:] == ABSENT).all()
    join.arrived(logged(12, 4, 99))
    last = join.close()
    assert np.flatnonzero(last["fate"] == Fate.RECEIVED).tolist() == [2]
    assert last["far_seq"][2] == 1
    assert last["forward_copies"].tolist() == [0, 0, 1, 0, 0]
    assert (join.counters.late, join.counters.copies, join.counters.unknown) == (1, 1, 1)


def test_packets_the_host_did_not_send_stay_that() -> None:
    join, rows = OneWay(MS), sent(0, 3)
    rows["fate"][1] = Fate.UNSENT
    join.sent(rows, 0)
    join.arrived(logged(0))
    assert not join.complete
    join.arrived(logged(2))
    assert join.settle(MS)["fate"].tolist() == [Fate.RECEIVED, Fate.UNSENT, Fate.RECEIVED]
    assert join.complete
    assert join.pending == 0


@given(
    st.lists(st.sampled_from([0, 0, 1, 1, 1, 2, 3]), min_size=1, max_size=60),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=20),
    st.randoms(use_true_random=False),
)
@settings(max_examples=80, deadline=None)
def test_counts_are_exact_however_the_streams_are_cut(copies: list[int], steps: list, chance: random.Random) -> None:
    count = len(copies)
    arrivals = [seq for seq, n in enumerate(copies) for _ in range(n)]
    chance.shuffle(arrivals)
    join, near, far = OneWay(100 * MS), 0, 0
    for now, (sends, arrives) in enumerate([*steps, (count, len(arrivals))]):
        join.sent(sent(near, min(sends, count - near)), now * MS)
        near = min(count, near + sends)
        join.arrived(logged(*arrivals[far : far + arrives]))
        far += arrives
        assert len(join.settle(now * MS)) == 0
    records = join.settle(1000 * MS)
    assert join.pending == len(join.close()) == 0
    assert records["seq"].tolist() == list(range(count))
    assert (records["fate"] == Fate.RECEIVED).tolist() == [n > 0 for n in copies]
    assert (records["fate"] == Fate.LOST_FORWARD).tolist() == [n == 0 for n in copies]
    assert records["forward_copies"].tolist() == [max(0, n - 1) for n in copies]
    firsts = [records["far_seq"][seq] for seq in dict.fromkeys(arrivals)]
    assert firsts == sorted(firsts)


def test_a_row_of_a_one_way_session_is_settled_by_its_tx_stamp() -> None:
    settings_ = SenderSettings(7, 44, 500 * MS, 100 * MS, 20 * MS, 1024, 6, one_way=True)
    session = SenderSession(settings_)
    session.depart(np.full(4, UTC), UTC, 0)
    assert session.room() == 2  # their stamps fill the buffer
    session.transmitted(np.array([0, 1, 3]), np.full(3, UTC + 5))
    session.not_sent(2, 1)
    assert session.room() == 6
    rows = session.settle(MS)
    assert rows["fate"].tolist() == [Fate.LOST, Fate.LOST, Fate.UNSENT, Fate.LOST]
    assert rows["sent_ns"].tolist() == [UTC + 5, UTC + 5, ABSENT, UTC + 5]
    session.depart(np.full(1, UTC), UTC, 2 * MS)  # and one whose stamp never comes
    assert len(session.settle(100 * MS)) == 0
    assert session.settle(103 * MS)["stamps"].tolist() == [0]


@pytest.mark.loopback
def test_packets_go_one_way_and_are_counted_at_both_ends() -> None:
    with Reflector.start(ReflectorConfig("127.0.0.1", "127.0.0.1", ssid=7, answering=False)) as far:
        config = SenderConfig("127.0.0.1", far.port, ssid=7, rate_pps=20_000, packets=10_000, one_way=True)
        with Sender.start(config) as sender:
            records = np.concatenate(list(one_way(sender, far, config.timeout_ns)))
            report = sender.report()
        counters = far.stop()["counters"]
    assert records["seq"].tolist() == list(range(10_000))
    assert (records["fate"] == Fate.RECEIVED).all()
    assert (records["stamps"] == Stamp.T1_KERNEL | Stamp.T2_KERNEL).all()
    assert delay.forward(records).min() >= 0  # one clock
    assert (delay.round_trip(records) == ABSENT).all()
    assert (report["sent"], report["received"], counters["logged"], counters["answered"]) == (10_000, 0, 10_000, 0)


@pytest.mark.loopback
def test_what_the_far_end_does_not_know_is_lost_on_the_way_there() -> None:
    with Reflector.start(ReflectorConfig("127.0.0.1", "127.0.0.1", ssid=7, answering=False)) as far:
        config = SenderConfig(
            "127.0.0.1", far.port, ssid=8, rate_pps=2000, packets=200, one_way=True, timeout_ns=50 * MS
        )
        with Sender.start(config) as sender:
            records = np.concatenate(list(one_way(sender, far, config.timeout_ns)))
    assert (records["fate"] == Fate.LOST_FORWARD).sum() == 200
