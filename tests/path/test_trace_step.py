"""The pure step of a trace against a network in memory under a fake clock."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from linkqual.model import Hop
from linkqual.session.trace import (
    Answer,
    Probe,
    Reply,
    TracePlan,
    fault,
    hops,
    step,
    with_egress,
)

MS = 1_000_000
PLAN = TracePlan()


def run(
    answers: Callable[[int, int], Reply | None], plan: TracePlan = PLAN, delay_ns: int = 10 * MS
) -> tuple[tuple[Hop, ...], list[Probe], int]:
    """Drive a whole trace; `answers(probe number, ttl)` is what comes back after `delay_ns`. Hops, probes, time it took."""
    now = 0
    sent: list[Probe] = []
    replies: dict[int, Reply] = {}
    under_way: list[tuple[int, Reply]] = []
    for _ in range(10_000):
        due = [reply for at, reply in under_way if at <= now]
        under_way = [(at, reply) for at, reply in under_way if at > now]
        replies |= {reply.number: reply for reply in due}
        ask = step(plan, sent, replies, now)
        if ask.done:
            return hops(plan, sent, replies), sent, now
        for ttl in ask.ttls:
            reply = answers(len(sent), ttl)
            if reply:
                under_way.append((now + delay_ns, reply))
            sent.append(Probe(len(sent), ttl, now))
        if ask.wait_until_ns is not None:
            now = min([ask.wait_until_ns, *(at for at, _ in under_way)])
    raise AssertionError("the trace never ends")


def path(length: int, silent: frozenset[int] = frozenset()) -> Callable[[int, int], Reply | None]:
    """Routers 10.0.ttl.1, then the destination at TTL `length` + 1."""

    def answer(number: int, ttl: int) -> Reply | None:
        if ttl in silent:
            return None
        if ttl > length:
            return Reply(number, "10.9.9.9", 10 * MS, Answer.ARRIVED)
        return Reply(number, f"10.0.{ttl}.1", 10 * MS)

    return answer


@pytest.mark.parametrize("length", [0, 1, 7, 8, 12, 29])
def test_a_path_that_answers_is_traced_once_and_at_once(length: int) -> None:
    found, sent, took = run(path(length))
    assert [hop.address for hop in found] == [f"10.0.{ttl}.1" for ttl in range(1, length + 1)] + ["10.9.9.9"]
    assert found[-1].reached
    assert all((hop.sent, hop.received) == (1, 1) for hop in found)
    assert len(sent) <= length + 1 + PLAN.batch
    assert took < PLAN.explore_wait_ns


def test_quiet_hops_are_asked_three_times_with_a_pause_and_stay_silent() -> None:
    found, sent, took = run(path(5, silent=frozenset({2, 4})))
    assert [hop.address is None for hop in found] == [False, True, False, True, False, False]
    times = [probe.sent_ns for probe in sent if probe.ttl == 2]
    assert len(times) == 3
    assert all(b - a >= 1_050 * MS for a, b in pairwise(times))
    assert [probe.ttl for probe in sent].count(3) == 1
    assert took == 2 * PLAN.round_gap_ns + PLAN.timeout_ns


def test_a_hop_that_answers_the_second_time_is_seen() -> None:
    def answer(number: int, ttl: int) -> Reply | None:
        return None if ttl == 3 and number < 8 else path(5)(number, ttl)

    found, _, took = run(answer)
    assert (found[2].address, found[2].sent, found[2].received) == ("10.0.3.1", 2, 1)
    assert took < 2 * PLAN.round_gap_ns


def test_a_lost_answer_of_the_destination_does_not_lengthen_the_path() -> None:
    def answer(number: int, ttl: int) -> Reply | None:
        return None if ttl == 4 and number < 8 else path(3)(number, ttl)

    found, _, _ = run(answer)
    assert len(found) == 4
    assert found[-1].reached


def test_what_lies_beyond_the_destination_is_not_waited_for() -> None:
    """A destination that answers the first probe only, as one that limits its ICMP errors does."""
    found, sent, took = run(lambda number, ttl: path(3)(number, ttl) if ttl <= 4 else None)
    assert len(found) == 4
    assert len(sent) == PLAN.batch
    assert took < PLAN.explore_wait_ns


def test_the_destination_names_a_hop_at_which_a_router_answered_too() -> None:
    sent = [Probe(0, 1, 0), Probe(1, 1, 0)]
    (hop,) = hops(PLAN, sent, {0: Reply(0, "10.0.1.1", 5), 1: Reply(1, "10.9.9.9", 7, Answer.ARRIVED)})
    assert (hop.address, hop.others, hop.reached) == ("10.9.9.9", ("10.0.1.1",), True)


def test_a_reply_from_before_its_probe_has_no_delay_and_counts() -> None:
    """The wall clock, which stamps arrivals, was set meanwhile."""
    (hop,) = hops(PLAN, [Probe(0, 1, 20 * MS)], {0: Reply(0, "10.0.1.1", 10 * MS)})
    assert (hop.address, hop.received, hop.rtt_ns) == ("10.0.1.1", 1, ())


def test_late_replies_count() -> None:
    found, _, _ = run(path(4), delay_ns=900 * MS)
    assert [hop.received for hop in found] == [1] * 5
    assert found[-1].reached


def test_an_endless_silence_is_one_hop_and_a_fault() -> None:
    found, sent, _ = run(path(29, silent=frozenset(range(4, 31))))
    assert [hop.address for hop in found] == ["10.0.1.1", "10.0.2.1", "10.0.3.1", None]
    assert len(sent) == 3 + 27 * 3
    told = fault(found, "10.9.9.9", None, max_hops=30)
    assert told is not None
    assert told.kind == "unreachable"
    assert "10.0.3.1 at hop 3" in told.message


def test_nothing_at_all_answers() -> None:
    found, _, _ = run(lambda _number, _ttl: None)
    told = fault(found, "10.9.9.9", None, max_hops=30)
    assert told is not None
    assert "no hop within 30" in told.message


@pytest.mark.parametrize(("says", "kind"), [(Answer.STOPPED, "refused"), (Answer.NO_WAY, "unreachable")])
def test_a_router_that_stops_the_trace_ends_it(says: Answer, kind: str) -> None:
    def answer(number: int, ttl: int) -> Reply | None:
        return Reply(number, "10.0.3.1", 10 * MS, says) if ttl >= 3 else path(9)(number, ttl)

    found, sent, _ = run(answer)
    assert len(found) == 3
    assert not found[-1].reached
    assert len(sent) == 8
    told = fault(found, "10.9.9.9", says, max_hops=30)
    assert told is not None
    assert told.kind == kind
    assert "10.0.3.1 at hop 3" in told.message


def test_the_last_router_before_a_host_that_is_not_there_is_one_hop() -> None:
    def answer(number: int, ttl: int) -> Reply | None:
        return Reply(number, f"10.0.{min(ttl, 2)}.1", 10 * MS, Answer.NO_WAY if ttl > 2 else Answer.ON_THE_WAY)

    found, _, _ = run(answer)
    assert [hop.address for hop in found] == ["10.0.1.1", "10.0.2.1"]
    told = fault(found, "10.9.9.9", Answer.NO_WAY, 30)
    assert told is not None
    assert told.message == "10.0.2.1 at hop 2 knows no way on to 10.9.9.9"


def test_two_routers_at_one_ttl_are_both_kept() -> None:
    sent = [Probe(0, 1, 0), Probe(1, 1, 0)]
    (hop,) = hops(PLAN, sent, {0: Reply(0, "10.0.1.1", 5), 1: Reply(1, "10.0.1.9", 7)})
    assert (hop.address, hop.others, hop.rtt_ns) == ("10.0.1.1", ("10.0.1.9",), (5, 7))


ROUTERS = [Hop(1, "a"), Hop(2, "b"), Hop(3, None), Hop(4, "d", reached=True)]


@pytest.mark.parametrize(
    "recorded", [("x", "y", "z"), ("me", "x", "y", "z"), ("x", "y", "z", "d"), ("me", "x", "y", "z", "d")]
)
def test_record_route_tells_one_address_for_each_router(recorded: tuple[str, ...]) -> None:
    told = with_egress(ROUTERS, recorded, "me", "d")
    assert [hop.egress for hop in told] == ["x", "y", "z", None]


@pytest.mark.parametrize("recorded", [(), ("x", "y"), ("me", "x", "z", "d"), ("v", "x", "y", "z")])
def test_a_router_that_does_not_record_itself_leaves_all_untold(recorded: tuple[str, ...]) -> None:
    assert {hop.egress for hop in with_egress(ROUTERS, recorded, "me", "d")} == {None}
