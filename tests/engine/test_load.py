"""Our own UDP load without a socket: packets, schedules, counting by sequence number, and both ends' counts put together."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkqual.errors import HostError, UsageError, WireError
from linkqual.model import Direction
from linkqual.net.load import LoadEnd
from linkqual.session import load_result
from linkqual.session.load_caps import Caps, expected_ns
from linkqual.session.load_count import MOST_BINS, Bins, LoadCounter
from linkqual.session.load_phase import Phase
from linkqual.session.load_schedule import Schedule, planned
from linkqual.session.load_sent import Sent
from linkqual.units import NS_PER_S
from linkqual.wire import load

S, MS = NS_PER_S, 1_000_000
T = 1_700_000_000 * S


# ---- packets


@given(st.binary(max_size=120))
def test_a_receivers_word_is_read_as_it_was_written_and_nothing_else_is(data: bytes) -> None:
    if len(data) == load.TOLD_BYTES:
        assert load.Told.decode(data).encode() == data
    else:
        with pytest.raises(WireError):
            load.Told.decode(data)


def test_heads_in_trains_are_written_in_place_and_the_pattern_shows_damage() -> None:
    pattern = load.template(0x01020304, 100)
    block = np.tile(pattern, (3, 4))
    heads = load.heads(block, 0, 3, 4, 100)
    heads["sequence"] = np.arange(12).reshape(3, 4)
    heads["flow"], heads["phase"], heads["sent_ns"] = 7, 9, T
    assert bytes(block[1, 200:218]) == bytes.fromhex("01020304090700000006") + T.to_bytes(8, "big")
    packets = block.reshape(12, 100)
    assert load.intact(packets, np.full(12, 100), pattern).all()
    packets[5, 40] ^= 1
    packets[6, 99] ^= 1
    lengths = np.full(12, 100)
    lengths[6] = 99  # what is behind its end is not the packet's
    assert np.flatnonzero(~load.intact(packets, lengths, pattern)).tolist() == [5]
    with pytest.raises(WireError, match="at least 18"):
        load.template(1, 17)
    with pytest.raises(WireError, match="last head"):
        load.heads(block, 1, 3)


# ---- when they are due

phases = st.builds(
    Phase,
    st.just("p"),
    st.sampled_from([8_000, 1_000_003, 20_000_000, 10**11]),
    duration_ns=st.just(10 * S),
    sizes=st.sampled_from([((1500, 1),), ((64, 7), (576, 4), (1500, 1)), ((100, 5833), (1400, 833))]),
    jitter=st.sampled_from([0.0, 0.5, 1.0]),
)


@given(phases, st.integers(0, 10**7), st.integers(1, 300))
def test_what_is_due_is_what_the_offsets_say(phase: Phase, first: int, count: int) -> None:
    schedule = Schedule(phase)
    offsets = schedule.offsets_ns(first, count)
    assert (np.diff(offsets) >= 0).all()
    assert offsets[0] == schedule.offset_ns(first)
    sizes = schedule.sizes(first, count)
    assert schedule.bytes_before(first + count) - schedule.bytes_before(first) == sizes.sum()
    exact = schedule.bytes_before(first) * 8 * S // phase.rate_bps
    gap = int(sizes[0]) * 8 * S // phase.rate_bps + 1
    assert exact <= offsets[0] <= exact + (gap if phase.jitter else 0)
    for at in (0, count // 2, count - 1):
        due = schedule.due(int(offsets[at]) + 1, first, count)
        assert due >= at + 1
        assert schedule.due(int(offsets[at]) - 2, first, count) <= at


def test_a_mix_keeps_its_shares_and_its_rate_in_every_stretch() -> None:
    schedule = Schedule(Phase("mix", 10**8, duration_ns=S, sizes=((64, 7), (576, 4), (1500, 1))))
    for first in (0, 5, 1234):
        values, counts = np.unique(schedule.sizes(first, 12), return_counts=True)
        assert dict(zip(values.tolist(), counts.tolist(), strict=True)) == {64: 7, 576: 4, 1500: 1}


def test_a_phase_is_as_long_as_asked() -> None:
    assert planned(Phase("a", 12_000_000, duration_ns=S)) == 1000
    assert planned(Phase("a", 12_000_000, duration_ns=S, packets=30)) == 30
    assert planned(Phase("a", 0, duration_ns=S)) is None
    assert expected_ns(Phase("a", 12_000_000, packets=500)) == S // 2
    assert expected_ns(Phase("a", 12_000_000, duration_ns=S, packets=5000)) == S
    for wrong in (
        {},
        {"duration_ns": S, "sizes": ((45, 1),)},
        {"packets": 1, "jitter": 1.5},
        {"packets": 1, "flows": 0},
    ):
        with pytest.raises(UsageError):
            Phase("a", 1000, **wrong)  # type: ignore[arg-type]


def test_caps_bound_rate_and_bytes_and_say_so() -> None:
    caps = Caps(max_rate_bps=10**6, max_bytes=3_000_000)
    asked = Phase("a", 5 * 10**6, duration_ns=2 * S)
    phase, less = caps.allow(asked)
    assert (phase and phase.rate_bps, phase and phase.packets, less) == (10**6, 0, True)
    free, less = caps.allow(Phase("a", 0, duration_ns=S))  # as fast as it may
    assert (free and free.rate_bps, less) == (10**6, False)
    caps.used(2_990_000)
    phase, less = caps.allow(asked)
    assert (phase and phase.packets, less) == (6, True)
    caps.used(9_000)
    assert caps.allow(asked) == (None, True)
    assert Caps().allow(asked) == (asked, False)
    phase, less = Caps(max_bytes=4 * 1500 - 1).allow(Phase("a", 0, packets=4))
    assert (phase and phase.packets, less) == (3, True)


# ---- what arrives


def take(
    counter: LoadCounter, seqs: list[int], flows: list[int] | None = None, at_ns: int = T, size: int = 100
) -> None:
    """Packets that left 1 ms apart by their number and arrive 1 us apart."""
    n = len(seqs)
    numbers = np.array(seqs, np.int64)
    counter.take(
        numbers & 0xFFFF_FFFF,
        np.array(flows or [0] * n, np.int64),
        T + numbers * MS,
        at_ns + np.arange(n) * 1000,
        np.full(n, size, np.int64),
    )


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 2)), max_size=20), max_size=6),
)
def test_counts_are_those_of_a_plain_set(batches: list[list[tuple[int, int]]]) -> None:
    counter = LoadCounter(3, S)
    seen: dict[int, int] = {}
    newest, duplicates, reordered = [-1, -1, -1], 0, 0
    for batch in batches:
        if batch:
            take(counter, [seq for seq, _ in batch], [flow for _, flow in batch])
        for seq, flow in batch:
            if seq in seen:
                duplicates += 1
                continue
            seen[seq] = flow
            reordered += seq < newest[flow]
            newest[flow] = max(newest[flow], seq)
    data = counter.data()
    assert (data["received"], data["duplicates"], data["reordered"]) == (len(seen), duplicates, reordered)
    assert data["received_bytes"] == 100 * len(seen) == sum(octets for _, octets in data["by_flow"])
    assert [count for count, _ in data["by_flow"]] == [list(seen.values()).count(flow) for flow in range(3)]
    missing = [seq for seq in range(max(seen, default=-1) + 1) if seq not in seen]
    told = [seq for first, count, _, _ in data["gaps"] for seq in range(first, first + count)]
    assert told == missing
    assert all(before <= after for _, _, before, after in data["gaps"])


def test_numbers_wrap_late_ones_fill_gaps_and_events_have_their_time() -> None:
    counter = LoadCounter(1, S)
    base = (1 << 32) - 3
    for first in range(0, base, 1 << 27):  # far on, as a long phase is
        take(counter, [first], at_ns=T + first * MS)
    take(counter, [base + at for at in range(6) if at not in (2, 4)], at_ns=T + base * MS)
    take(counter, [base + 4], at_ns=T + base * MS)
    data = counter.data()
    assert counter.next_seq == base + 6
    assert data["reordered"] == 1
    assert data["gaps"][-1] == [base + 2, 1, T + (base + 2) * MS, T + (base + 2) * MS]


def test_of_many_losses_the_first_are_told_and_swaps_are_none() -> None:
    counter = LoadCounter(1, S)
    lost = set(range(1000, 400_000, 100))
    for first in range(0, 400_000, 500):
        seqs = [seq for seq in range(first, first + 500) if seq not in lost]
        seqs[3], seqs[4] = seqs[4], seqs[3]
        take(counter, seqs)
    gaps = counter.data()["gaps"]
    assert counter.reordered == 800
    assert [(first, count) for first, count, _, _ in gaps] == [(seq, 1) for seq in sorted(lost)[:1000]]


def test_numbers_that_cannot_be_are_damage_and_move_nothing() -> None:
    counter = LoadCounter(1, S, most=100)
    take(counter, [0, 1, 99, 100, (1 << 32) - 1], [0, 0, 0, 0, 0])
    take(counter, [2], [1])
    assert (counter.received, counter.damaged, counter.next_seq) == (3, 3, 100)
    free = LoadCounter(1, S)
    take(free, [0, 1 << 29])
    take(free, [1], at_ns=T + 3601 * S)  # its time of departure is not to be believed
    assert (free.received, free.damaged) == (1, 2)


def test_bins_are_exact_sums_and_stay_few() -> None:
    bins = Bins(10)
    bins.add(np.array([105, 109, 131]), None, np.array([5, 5, 7]))
    bins.add(np.array([95]), np.array([1]), np.array([2]))
    assert bins.data() == {"interval_ns": 10, "first": 9, "sums": [[1, 2], [2, 10], [0, 0], [0, 0], [1, 7]]}
    bins.add(np.array([10 * MOST_BINS * 3]), None, np.array([1]))
    data = bins.data()
    assert len(data["sums"]) <= MOST_BINS
    assert (data["interval_ns"], data["first"]) == (40, 2)
    assert np.sum(data["sums"], axis=0).tolist() == [5, 20]


# ---- both ends together


def both(phase: Phase, lost: set[int], sent: int = 1000, dropped: int = 0, ended_by: str = "duration") -> Any:
    one, counter = Sent(1, phase), LoadCounter(phase.flows, phase.interval_ns)
    for seq in range(sent):
        one.left(0, 1, 1500, T + seq * MS)
    one.ended_by = ended_by
    seqs = np.array([seq for seq in range(sent) if seq not in lost])
    zeros = np.zeros(len(seqs), np.int64)
    counter.take(seqs, zeros, T + seqs * MS, T + seqs * MS + 5000, zeros + 1500)
    got = counter.data() | {"dropped": dropped, "longest_train": 1, "cpu_ns": 1, "wall_ns": 2}
    return load_result.together(phase, Direction.REVERSE, one.data(0), got)


def test_lost_is_sent_less_received_and_each_loss_has_its_place() -> None:
    phase = Phase("x", 12_000_000, duration_ns=S, interval_ns=100 * MS)
    lost = {0, 500, 501, 998, 999}
    count = both(phase, lost, dropped=2)
    assert (count.sent, count.received, count.lost, count.host_lost) == (1000, 995, 5, 2)
    assert [(event.first_seq, event.packets) for event in count.loss_events] == [(0, 1), (500, 2), (998, 2)]
    assert count.loss_events[1].start_ns == T + 500 * MS
    assert count.rate_bps == pytest.approx(
        12_000_000 * 994 / 996
    )  # two are missing between the first arrival and the last
    assert count.by_departure == ((100, 99), *[(100, 100)] * 4, (100, 98), *[(100, 100)] * 3, (100, 98))
    assert sum(packets for packets, _ in count.intervals) == 995
    assert (count.short, count.cpu_receiver) == ("", 0.5)


def test_a_host_that_offered_less_than_asked_is_said() -> None:
    slow = Phase("x", 12_200_000, duration_ns=S)
    assert both(slow, set()).short == "host"
    assert both(Phase("x", 12_050_000, duration_ns=S), set()).short == ""
    assert both(Phase("x", 12_200_000, packets=1000), set(), ended_by="packets").short == "host"
    assert both(slow, set(), ended_by="halt").short == "interrupted"
    assert both(Phase("x", 0, duration_ns=S), set()).short == ""


def test_when_an_end_is_gone_only_what_is_known_is_counted() -> None:
    phase = Phase("x", 12_000_000, duration_ns=S)
    word = load.Told(5, 1, 0, 3, T, received=90, received_bytes=135_000, next_seq=100, dropped=4, span_ns=89 * MS)
    sent = Sent(1, phase)
    sent.hear(word, 5)
    sent.hear(load.Told(5, 2, 0, 9, T, received=7), 6)  # of another phase
    assert {load.phase_octet(number) for number in range(1, 1000)} == set(range(1, 256))
    count = load_result.told(phase, Direction.FORWARD, sent.data(7)["told"], "silent")
    assert (count.sent, count.lost, count.host_lost, count.sent_bytes) == (100, 10, 4, 150_000)
    assert (count.short, count.rate_bps) == ("silent", pytest.approx(12_000_000))  # what followed the first one
    counter = LoadCounter(1, S)
    take(counter, [0, 1, 4])
    got = counter.data() | {"dropped": 0, "longest_train": 1}
    count = load_result.heard(phase, Direction.REVERSE, got, "peer-lost")
    assert (count.sent, count.received, count.lost, count.short) == (5, 3, 2, "peer-lost")


def test_a_phase_survives_json() -> None:
    phase = Phase("x", 5, packets=9, sizes=((64, 1), (1500, 2)), jitter=0.5, arrivals=True)
    assert Phase.of(asdict(phase) | {"sizes": [[64, 1], [1500, 2]], "more": 1}) == phase


class _Mute:
    """A process that takes what it is told and never answers."""

    role, closed = "load-sender", False
    ready: ClassVar[dict[str, Any]] = {"ports": [1], "address": "", "buffer": 1}

    def tell(self, _message: object) -> None:
        pass

    def expect(self, *_kind: object, **_more: object) -> bytearray:
        raise HostError("does not answer")

    def close(self) -> None:
        self.closed = True


def test_a_process_that_does_not_answer_is_asked_no_more() -> None:
    """Its late answer would pass for that of the next question."""
    for ask in (lambda end: end.look(), lambda end: end.arrivals(0, 1)):
        mute = _Mute()
        with pytest.raises(HostError):
            ask(LoadEnd(mute))  # type: ignore[arg-type]
        assert mute.closed
