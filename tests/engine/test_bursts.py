"""Both ends of training bursts over a line in memory: loss, copies, reordering, lost answers; what a burst took, and what was lost where."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from linkqual.errors import WireError
from linkqual.session.bursts import INCOMPLETE, Shape
from linkqual.session.bursts_arriving import Arriving
from linkqual.session.bursts_sending import Sending
from linkqual.wire.bursts import Complete, Missing, Reply, decode, encode

MS = 1_000_000
DELAY = 5 * MS
SHAPE = Shape(
    bursts=6, packets=40, packet_bytes=1472, flows=4, gap_ns=100_000.0, period_ns=20 * MS, quiet_ns=MS,
    patience_ns=500 * MS, overlap=False, most_repeats=1000,
)  # fmt: skip
CLEAN = (
    SHAPE.packets * SHAPE.gap_ns - SHAPE.gap_ns + 2 * DELAY
)  # the last packet leaves a gap before the transfer's end

Fate = Callable[[int, int, int], int | None]  # burst, index, copy -> further delay, or None: lost


@dataclass
class Line:
    """Carries packets after DELAY; `fate` and `back` decide what happens to data and to answers."""

    shape: Shape = SHAPE
    fate: Fate = lambda _burst, _index, _copy: 0
    back: Callable[[Reply, int], int | None] = lambda _reply, _number: 0
    twice: bool = False
    sent: list[tuple[int, int, int]] = field(default_factory=list)
    answers: int = 0

    def run(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the sender and of the receiver, by burst."""
        now, order, heap = 0, 0, []
        sending, arriving = Sending(self.shape, 2 * DELAY, 0), Arriving(self.shape)
        rows = []

        def reply(one: Reply) -> None:
            nonlocal order
            later = self.back(one, self.answers)
            self.answers += 1
            if later is not None:
                order += 1
                heapq.heappush(heap, (now + DELAY + later, order, one))

        while not sending.done:
            while (taken := sending.departures(now, 8)) is not None:
                sending.sent(taken, now)
                for index, copy in zip(taken.indices.tolist(), taken.copies.tolist(), strict=True):
                    self.sent.append((taken.burst, index, copy))
                    later = self.fate(taken.burst, index, copy)
                    for _ in range(0 if later is None else 1 + self.twice):
                        order += 1
                        heapq.heappush(heap, (now + DELAY + (later or 0), order, (taken.burst, index, copy)))
            rows.append(sending.rows())
            now = round(min(sending.next_ns(), arriving.next_ns(), heap[0][0] if heap else 2**62))
            while heap and heap[0][0] <= now:
                arrived = heapq.heappop(heap)[2]
                if isinstance(arrived, Complete):
                    sending.complete(arrived, now)
                elif isinstance(arrived, Missing):
                    sending.missing(arrived, now)
                else:
                    for burst in arriving.add(*(np.array([value]) for value in arrived), now):
                        reply(Complete(burst, 0))
            for report in arriving.due(now):
                reply(report)
        rows.append(sending.rows())
        return np.sort(np.concatenate(rows), order="burst"), arriving.rows(final=True)


def test_a_clean_line_takes_the_transfer_and_a_round_trip() -> None:
    line = Line()
    sent, arrived = line.run()
    assert sent["burst"].tolist() == list(range(6))
    assert sent["completion_ns"].tolist() == [CLEAN] * 6
    assert not sent["repeats"].any()
    assert not sent["late"].any()
    assert not sent["held_ns"].any()
    assert arrived["received"].tolist() == [40] * 6
    assert not arrived["lost"].any()
    assert line.answers == 6


def test_a_lost_packet_costs_a_silence_and_a_round_trip_and_has_its_place() -> None:
    sent, arrived = Line(fate=lambda burst, index, copy: None if (burst, index, copy) == (2, 13, 0) else 0).run()
    expected = [CLEAN] * 6
    expected[2] = CLEAN + SHAPE.quiet_ns + 2 * DELAY
    assert sent["completion_ns"].tolist() == expected
    assert sent["repeats"].tolist() == [0, 0, 1, 0, 0, 0]
    assert arrived["received"].tolist() == [40, 40, 39, 40, 40, 40]
    assert np.argwhere(arrived["lost"]).tolist() == [[2, 13 * 20 // 40]]


def test_the_last_packets_are_missed_without_anything_that_follows_them() -> None:
    sent, arrived = Line(fate=lambda _burst, index, copy: None if index >= 37 and copy == 0 else 0).run()
    assert (sent["completion_ns"] > CLEAN).all()
    assert (sent["completion_ns"] < CLEAN + 2 * SHAPE.quiet_ns + 2 * DELAY).all()
    assert arrived["lost"].sum(axis=0).tolist() == [0] * 18 + [6, 12]


def test_a_burst_lost_as_a_whole_is_asked_about() -> None:
    sent, arrived = Line(fate=lambda burst, _index, copy: None if burst == 1 and copy == 0 else 0).run()
    assert sent["completion_ns"][1] > CLEAN + 2 * DELAY
    assert sent["repeats"][1] == 40  # its last packet asks, and brings the others after it
    assert arrived["received"].tolist() == [40, 0, 40, 40, 40, 40]


def test_a_lost_confirmation_is_given_again() -> None:
    sent, _ = Line(back=lambda _reply, number: None if number == 0 else 0).run()
    assert CLEAN + 2 * DELAY < sent["completion_ns"][0] < CLEAN + 8 * DELAY
    assert sent["completion_ns"][1:].tolist() == [CLEAN] * 5


def test_reordering_within_the_silence_repeats_nothing() -> None:
    line = Line(fate=lambda _burst, index, _copy: 7 * 100_000 if index % 9 == 4 else 0)
    sent, arrived = line.run()
    assert len(line.sent) == 240
    assert not arrived["lost"].any()
    assert (sent["completion_ns"] >= CLEAN).all()


def test_copies_made_by_the_line_count_once() -> None:
    sent, arrived = Line(twice=True).run()
    assert sent["completion_ns"].tolist() == [CLEAN] * 6
    assert arrived["received"].tolist() == [40] * 6


def test_a_packet_on_its_way_is_not_sent_again() -> None:
    """The receiver reports after a silence much shorter than a round trip, again and again; once in a round trip is enough."""
    line = Line(fate=lambda _burst, index, copy: None if index == 0 and copy == 0 else 0)
    line.run()
    assert sum(copy > 0 for _, _, copy in line.sent) == 6


def test_what_never_arrives_is_given_up_after_the_patience_and_the_next_starts_late() -> None:
    line = Line(fate=lambda burst, index, _copy: None if burst == 3 and index == 7 else 0)
    sent, arrived = line.run()
    assert sent["completion_ns"][3] == INCOMPLETE
    assert sent["late"].tolist() == [0, 0, 0, 0, 1, 0]
    assert arrived["received"].tolist() == [40, 40, 40, 39, 40, 40]


def test_an_overlapping_stream_starts_in_time_whatever_became_of_the_one_before() -> None:
    shape = replace(SHAPE, overlap=True)
    sent, _ = Line(shape, fate=lambda burst, index, _copy: None if burst == 3 and index == 7 else 0).run()
    assert not sent["late"].any()
    assert (sent["completion_ns"] == INCOMPLETE).tolist() == [False, False, False, True, False, False]


def test_no_more_is_sent_again_than_was_allowed() -> None:
    line = Line(replace(SHAPE, most_repeats=25), fate=lambda _burst, _index, copy: None if copy == 0 else 0)
    sent, _ = line.run()
    assert sum(copy > 0 for _, _, copy in line.sent) == 25
    assert len(sent) < SHAPE.bursts


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_lost_on_both_ways_every_burst_ends_and_losses_are_exact(seed: int) -> None:
    chance = np.random.default_rng(seed)
    lost: set[tuple[int, int]] = set()

    def fate(burst: int, index: int, copy: int) -> int | None:
        if chance.random() < 0.1:
            if copy == 0:
                lost.add((burst, index))
            return None
        return int(chance.integers(0, 3 * MS))

    shape = replace(SHAPE, overlap=bool(seed % 2))
    line = Line(shape, fate=fate, back=lambda _reply, _number: None if chance.random() < 0.1 else 0)
    sent, arrived = line.run()
    assert len(sent) == shape.bursts
    assert (sent["completion_ns"] > 0).all()
    assert int(arrived["lost"].sum()) == len(lost)
    for row in arrived:
        assert row["received"] == shape.packets - sum(burst == row["burst"] for burst, _ in lost)


def test_a_sender_that_was_held_makes_up_for_little_and_says_by_how_much_it_was_late() -> None:
    sending = Sending(SHAPE, 2 * DELAY, 0)
    first = sending.departures(0, 8)
    assert first is not None
    assert first.indices.tolist() == [0]
    sending.sent(first, 30 * MS)
    again = sending.departures(30 * MS, 100)
    assert again is not None
    assert again.indices.tolist() == [1, 2, 3, 4, 5, 6]  # those of half a millisecond, not those of thirty
    at = 30 * MS
    while at < 40 * MS:
        taken = sending.departures(at, 8)
        if taken is not None:
            sending.sent(taken, at)
        at += 100_000
    sending.complete(Complete(0, 0), at)
    assert 26 * MS <= sending.rows()["held_ns"][0] <= 30 * MS


def test_packets_no_burst_has_are_strangers() -> None:
    arriving = Arriving(SHAPE)
    assert arriving.add(np.array([0, 6, -1, 2]), np.array([40, 0, 0, -3]), np.zeros(4, np.int64), 0) == []
    assert arriving.counters["strangers"] == 4
    assert len(arriving.rows(final=True)) == 0


def test_a_burst_that_waited_for_others_makes_up_for_none_of_their_delay() -> None:
    sending = Sending(replace(SHAPE, overlap=True, period_ns=MS), 2 * DELAY, 0)
    at, left = 0, {}
    while 1 not in left or len(left[1]) < SHAPE.packets:
        taken = sending.departures(at, 8)
        if taken is not None:
            sending.sent(taken, at)
            left.setdefault(taken.burst, []).extend([at] * len(taken.indices))
        at += 350_000  # the driver wakes too seldom
    assert left[1][-1] - left[1][0] >= (SHAPE.packets - 1) * SHAPE.gap_ns
    assert left[1][1] > left[1][0]


def test_a_report_names_each_packet_once() -> None:
    """A short one must not ask for many times the burst."""
    told = Missing(4, ((0, 2), (2, 5), (9, 1)))
    assert decode(encode(7, told), 7) == told
    for ranges in (((0, 40), (0, 40)), ((5, 2), (1, 2)), ((3, 0),)):
        with pytest.raises(WireError):
            decode(encode(7, Missing(4, ranges)), 7)


def test_what_a_receiver_notes_of_long_bursts_is_bounded() -> None:
    """Few of them are open at a time, whatever patience and period make of it."""
    arriving = Arriving(replace(SHAPE, bursts=100, packets=1 << 22, overlap=True, period_ns=1, patience_ns=10**9))
    for burst in range(20):
        arriving.add(*(np.array([each]) for each in (burst, 0, 0)), burst)
    assert arriving.rows()["burst"].tolist() == [0, 1, 2, 3]
