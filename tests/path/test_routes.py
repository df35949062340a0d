"""Flows that meet other routers: how many traces are enough, where they part, what a route that moved proves."""

from __future__ import annotations

import random

import pytest

from linkqual.model import MemberTrace
from linkqual.session.routes import Parting, apart, enough, following, moved, order, parting, short

PORTS = tuple(range(24_064, 24_064 + 64))


def trace(port: int, *hops: str | None) -> MemberTrace:
    return MemberTrace(port, hops)


def test_as_many_flows_as_the_stopping_rule_asks_for() -> None:
    assert [enough(known) for known in range(1, 7)] == [6, 11, 16, 21, 27, 33]


def test_of_equally_met_routers_one_is_missed_once_in_twenty_at_most() -> None:
    chance = random.Random(2)
    for routers in (2, 3, 4):
        missed = sum(
            len({chance.randrange(routers) for _ in range(enough(routers - 1))}) < routers for _ in range(2000)
        )
        assert 0 < missed / 2000 < 0.065


def test_flows_that_differ_come_first_and_some_that_do_not() -> None:
    ordered = order(PORTS, [PORTS[3:9], PORTS[20:22]])
    assert ordered[:6] == (*PORTS[3:5], *PORTS[20:22], PORTS[0], PORTS[1])
    assert sorted(ordered) == list(PORTS)


def walk(routers: dict[int, tuple[str | None, ...]], most: int = 33) -> list[MemberTrace]:
    """What a probe would trace, one flow after the other."""
    traces: list[MemberTrace] = []
    while (port := following(PORTS, traces, most)) is not None:
        traces.append(trace(port, *routers[port]))
        assert len(traces) <= most + 8
    return traces


def test_one_way_is_enough_after_six_flows() -> None:
    traces = walk(dict.fromkeys(PORTS, ("10.0.0.1", None, "10.0.2.1")))
    assert len(traces) == 6
    assert parting(traces) is None
    assert not short(traces)


def test_two_ways_ask_for_eleven_and_one_of_each_again() -> None:
    traces = walk({port: ("10.0.0.1", f"10.0.{3 + port % 2}.1", "10.0.9.1") for port in PORTS})
    assert [one.near_port for one in traces] == [*PORTS[:11], PORTS[0], PORTS[1]]
    found = parting(traces)
    assert found == Parting(2, (("10.0.3.1", PORTS[0:11:2]), ("10.0.4.1", PORTS[1:11:2])), 2)
    assert found.flows == 11


def test_ways_that_part_twice_are_counted_as_ways() -> None:
    traces = walk({port: (f"10.0.{1 + port % 2}.1", f"10.0.{5 + port % 4}.1") for port in PORTS})
    found = parting(traces)
    assert found is not None
    assert (found.hop, found.paths) == (1, 4)


def test_fewer_than_enough_is_said() -> None:
    traces = walk({port: (f"10.0.{port % 2}.1",) for port in PORTS}, most=4)
    assert len({one.near_port for one in traces}) == 4
    assert short(traces)


def test_silent_hops_part_nothing() -> None:
    traces = [trace(1, None, "10.0.2.1"), trace(2, "10.0.1.1", None), trace(3, "10.0.1.1", "10.0.2.1")]
    assert parting(traces) is None
    found = parting([*traces, trace(4, "10.0.7.1", None)])
    assert found == Parting(1, (("10.0.1.1", (2, 3)), ("10.0.7.1", (4,))), 2)


def test_a_route_that_moved_proves_no_ways() -> None:
    traces = [trace(1, "10.0.1.1"), trace(2, "10.0.2.1"), trace(1, "10.0.2.1")]
    assert moved(traces) == (1,)
    assert parting(traces) is None
    assert following((1, 2, 3), [*traces, *(trace(port, "10.0.2.1") for port in range(3, 20))], 33) is None


@pytest.mark.parametrize(
    ("inside", "outside", "expected"),
    [
        (("a", "b", "c"), ("a", "d", "c"), (1, 2, 3, {"b"}, {"d"})),
        (("a", "b", "e", "c"), ("a", "d", "f", "c"), (1, 2, 4, {"b"}, {"d"})),
        (("a", None, "e"), ("a", None, "f"), (1, 3, None, {"e"}, {"f"})),
        (("b", "c"), ("d", "c"), (0, 1, 2, {"b"}, {"d"})),
        (("a", None, "c"), ("a", "d", "c"), None),
    ],
)
def test_where_some_leave_the_way_of_the_others(
    inside: tuple[str | None, ...], outside: tuple[str | None, ...], expected: object
) -> None:
    assert apart([trace(1, *inside), trace(2, *outside)], [1]) == expected


def test_what_was_not_traced_leaves_nothing() -> None:
    assert apart([trace(2, "a")], [1]) is None
    assert apart([trace(1, "a"), trace(2, "b")], [1], unclear=[2]) is None
