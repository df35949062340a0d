"""Which hop is asked when, what counts as idle and what as loaded, and the answers as they travel."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from linkqual.errors import WireError
from linkqual.model import Direction, Hop, LoadedHop, LoadedPath, Measurement, PathResult, Step, Trace
from linkqual.session.hop_watch import PATIENCE_NS, ROUND_NS, Asked, Known, Span, known, schedule, seen
from linkqual.wire import hops_json

MS, S = 1_000_000, 1_000_000_000
HOPS = (LoadedHop(1, "10.0.1.1", 1, (MS,)), LoadedHop(2, None, 3), LoadedHop(3, "10.0.3.1", 1, (3 * MS,)))
KNOWN = Known(40_000, 33_434, HOPS)


def test_no_hop_is_asked_more_often_than_routers_answer() -> None:
    times: dict[int, list[int]] = {}
    for ttl, due, _ in itertools.islice(schedule((1, 3, 4, 5)), 40):
        times.setdefault(ttl, []).append(due)
    assert all(later - before >= ROUND_NS for each in times.values() for before, later in itertools.pairwise(each))
    assert max(each[0] for each in times.values()) < 100 * MS  # on the idle line still
    assert times[3][4] - times[1][4] == ROUND_NS // 4  # hops in turn


def test_a_number_is_given_out_again_when_its_answer_is_long_overdue() -> None:
    last: dict[int, tuple[int, int]] = {}
    for ttl, due, number in itertools.islice(schedule(tuple(range(1, 12))), 200):
        before = last.get(number)
        assert before is None or (before[0] == ttl and due - before[1] > 3 * ROUND_NS)
        last[number] = (ttl, due)
    assert len(last) == 44


def test_what_left_before_the_load_is_idle_and_what_left_once_it_stands_is_loaded() -> None:
    spans = [Span(1 * S, 2 * S, 5 * S), Span(7 * S, 8 * S, 9 * S)]
    asked = [
        Asked(1, 100 * MS, 2 * MS, "10.0.1.1"),
        Asked(1, 995 * MS, 10 * MS, "10.0.1.1"),  # under way when the load began
        Asked(1, 1500 * MS, 20 * MS, "10.0.1.1"),  # the queue still filled
        Asked(1, 3000 * MS, 31 * MS, "10.0.1.1"),
        Asked(3, 3100 * MS),  # lost
        Asked(3, 6000 * MS, 4 * MS, "10.0.3.1"),  # between two loads
        Asked(3, 8500 * MS, 33 * MS, "10.0.3.1"),
        Asked(3, 8600 * MS, 33 * MS, "10.9.9.9"),  # the path has changed
        Asked(3, 8900 * MS),  # the watch ended before its patience did
    ]
    one, silent, three = seen(KNOWN, asked, spans, 9 * S + 100 * MS)
    assert (one.idle_ns, one.idle_sent, one.loaded_ns, one.loaded_sent) == ((MS, 2 * MS), 2, (31 * MS,), 1)
    assert (three.idle_ns, three.idle_sent, three.loaded_ns, three.loaded_sent) == ((3 * MS,), 1, (33 * MS,), 2)
    assert silent == HOPS[1]
    assert seen(KNOWN, asked, spans, 9 * S + PATIENCE_NS)[2].loaded_sent == 3


def test_a_later_load_knows_what_earlier_ones_saw_of_the_idle_line() -> None:
    there = Trace("10.0.0.1", "10.9.0.1", 40_000, 33_434, (Hop(1, "10.0.1.1", (MS,), 1, 1), Hop(2, "10.9.0.1", (2 * MS,), 1, 1, reached=True)))  # fmt: skip
    back = Trace("10.9.0.1", "10.0.0.1", 33_434, 40_000, (Hop(1, sent=3),))
    path = Measurement(Step("path", "path"), 0, 1, path=PathResult(there, back))
    found = known([path])
    assert set(found) == {Direction.FORWARD}
    assert (found[Direction.FORWARD].ttls, found[Direction.FORWARD].reached) == ((1, 2), True)
    hops = (LoadedHop(1, "10.0.1.1", 2, (MS, MS), 5, (MS,) * 5), LoadedHop(2, "10.9.0.1", 2, (2 * MS,) * 2, 5, (9 * MS,) * 5))  # fmt: skip
    load = Measurement(Step("t", "throughput"), 0, 1, loaded_path=LoadedPath(Direction.FORWARD, "a load", hops))
    again = known([path, load])[Direction.FORWARD]
    assert [hop.idle_ns for hop in again.hops] == [(MS, MS), (2 * MS, 2 * MS)]
    assert all(not hop.loaded_sent and not hop.loaded_ns for hop in again.hops)
    fewer = replace(load, loaded_path=LoadedPath(Direction.FORWARD, "trains", hops[:1]))
    assert known([path, fewer])[Direction.FORWARD].ttls == (1, 2)
    assert known([load]) == {}


ROWS: list[hops_json.Row] = [(1, 0, 5, "10.0.1.1"), (2, 7, None, ""), (3, 9, 0, "2001:db8::1")]


def test_answers_travel_whole() -> None:
    assert hops_json.decode(hops_json.encode(ROWS, 99)) == (ROWS, 99)
    assert hops_json.decode(hops_json.encode([(1, 0, 5, "fe80::1%\x1b")], 99)) == ([(1, 0, 5, "fe80::1")], 99)


@pytest.mark.parametrize(
    "change",
    [
        {"addresses": ["nowhere"]},
        {"addresses": [7]},
        {"asked": [[1, 2, 3]]},
        {"asked": [[0, 0, 0, 0]]},
        {"asked": [[1, 0, 0, 2]]},
        {"asked": [[1, 0, -2, 0]]},
        {"asked": [[1, True, 0, 0]]},
        {"asked": 3},
        {"ended_ns": -1},
    ],
)
def test_answers_that_are_none_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(WireError):
        hops_json.decode(hops_json.encode(ROWS, 99) | change)
