"""What the plan asks consent for, and what people are told of the narrowest hop: where, how fast, how sure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkqual.errors import UsageError
from linkqual.model import (
    Direction,
    Hop,
    Link,
    LinkSeen,
    Measurement,
    MemberTrace,
    NarrowResult,
    PathResult,
    Plan,
    Profile,
    Step,
    Trace,
)
from linkqual.plan import PlanOptions, make
from linkqual.rules.narrow import notes, sentence, told, where_is

MBIT = 1_000_000
FORWARD = Step("narrow/forward", "narrow", {}, Direction.FORWARD)
REVERSE = replace(FORWARD, key="narrow/reverse", direction=Direction.REVERSE)
FOUND = NarrowResult(
    Direction.FORWARD, 4, "shaper", (50e6, 49.9e6, 50.1e6), 3, 16_000, 20e6, (2, 3), 3, confidence="high", because="it waited",
    seen=(LinkSeen(1, 90e6), LinkSeen(2, 90e6, 55e6), LinkSeen(3, 90e6, 50e6, narrow=True)), outlasted=True, counts="l2", overhead_bytes=18,
)  # fmt: skip
HOPS = (Hop(1, "10.0.1.2"), Hop(2, None), Hop(3, "10.0.3.2"), Hop(4, "10.0.4.2", reached=True))
PATH = Measurement(
    Step("path", "path", {}), 0, 1, path=PathResult(Trace("a", "b", 1, 2, HOPS), Trace("b", "a", 2, 1, (Hop(1, "10.0.4.1"),)))
)  # fmt: skip


def plan_of(link: Link, options: PlanOptions) -> Plan:
    return make(Profile("bare", "", "", (), {}), link, options)


def measured(found: NarrowResult) -> Measurement:
    return Measurement(FORWARD if found.direction is Direction.FORWARD else REVERSE, 0, 1, narrow=found)


# ---- consent


def test_nothing_expires_without_consent() -> None:
    profile = Profile("with", "", "", (), {"narrow": {"bytes": 0}, "ping": {"count": 1, "interval_ns": 10**8, "packet_bytes": 64, "timeout_ns": 10**9}})  # fmt: skip
    plan = make(profile, Link(), PlanOptions())
    assert [step.probe for step in plan.steps] == ["ping"]
    assert any("--allow-expiring-load" in reason for reason in plan.reasons)
    with pytest.raises(UsageError, match="expires on routers"):
        make(profile, Link(), PlanOptions(only=("narrow",)))


def test_consent_plans_both_directions_and_says_how_many_packets_expire() -> None:
    plan = plan_of(Link(cir_bps=100 * MBIT), PlanOptions(expiring_load=True))
    assert [step.key for step in plan.steps] == ["narrow/forward", "narrow/reverse"]
    assert [step.total_bytes for step in plan.steps] == [60_000_000, 60_000_000]
    assert plan.steps[0].params["fastest_bps"] == 200 * MBIT
    assert any("up to 10,667 packets expire on routers" in reason for reason in plan.reasons)


def test_what_the_plan_may_send_holds() -> None:
    plan = plan_of(Link(), PlanOptions(expiring_load=True, max_rate_bps=30 * MBIT, max_bytes=30_000_000))
    assert plan.total_bytes <= 30_000_000
    assert all(step.params["bytes"] == step.total_bytes for step in plan.steps)
    assert all(step.offered_bps <= 30 * MBIT for step in plan.steps)


# ---- words


def test_where_it_is() -> None:
    assert where_is(1, 4, HOPS) == "link 1 of 4, between the sending host and 10.0.1.2"
    assert where_is(3, 4, HOPS) == "link 3 of 4, between 10.0.1.2 and 10.0.3.2, in a part with 1 hidden router"
    assert where_is(4, 4, HOPS) == "link 4 of 4, between 10.0.3.2 and the receiving host"
    assert where_is(2, 4, ()) == "link 2 of 4"
    assert where_is(1, 4, HOPS[3:]).endswith("in a part with 3 hidden routers")


def test_a_load_that_crossed_another_number_of_links_is_beside_none_of_the_traced_routers() -> None:
    other = where_is(3, 6, HOPS)
    assert other.startswith("link 3 of 6 (the trace crossed 4")
    assert "10.0." not in other
    assert "10.0." not in sentence(replace(FOUND, links=6), HOPS)


def test_where_flows_part_the_addresses_are_those_of_the_traced_flow() -> None:
    def said(*flows: MemberTrace) -> str:
        assert PATH.path is not None
        path = replace(PATH, path=replace(PATH.path, flows=flows))
        return told((path, measured(FOUND)), FOUND)

    assert "not of this load" in said(MemberTrace(7, ("10.0.1.2", None, "10.0.9.2")))
    assert "not of this load" not in said(MemberTrace(7, ("10.0.1.2", None, "10.0.3.2")))


def test_one_sentence_says_rate_kind_near_ties_and_confidence() -> None:
    said = sentence(FOUND, HOPS)
    assert said.startswith("forward, the narrowest hop is link 3 of 4, between 10.0.1.2 and 10.0.3.2")
    for part in (
        "50 Mbit/s as the contract counts (L2), 49.87 Mbit/s as frames",
        "a shaper with a bucket of 16 kB and a queue of 20 ms",
        "nearly as narrow: link 2 of 4, between 10.0.1.2 and 10.0.3.2, in a part with 1 hidden router at 55 Mbit/s",
        "(high confidence: it waited)",
        "whether others send over it too is not known",
    ):
        assert part in said, part


def test_what_was_not_told_apart_is_called_neither() -> None:
    said = sentence(replace(FOUND, kind="limit", buffer_ns=None), HOPS)
    assert "a policer or a shaper with a short queue (not told apart) with a bucket of 16 kB;" in said


def test_packets_that_had_to_be_shorter_are_said() -> None:
    step, plan = replace(FORWARD, params={"packet_bytes": 1500}), Plan("p", (), (), Link())
    for length, shown in ((1400, True), (1500, False)):
        said = next(iter(notes(plan, [Measurement(step, 0, 1, narrow=replace(FOUND, packet_bytes=length))]))).sentence
        assert ("packets of 1,500 bytes do not arrive, so those sent had 1,400" in said) is shown


def test_what_others_take_is_a_number_of_its_own() -> None:
    alone = replace(FOUND, free_bps=(50e6, 49e6, 50e6))
    assert not alone.busy
    assert sentence(alone, HOPS).endswith("; nothing else was on it")
    busy = replace(FOUND, free_bps=(40e6, 39e6, 41e6))
    assert busy.busy
    assert "; of that 40 Mbit/s (L2) were free, 39 Mbit/s to 41 Mbit/s: others took the rest" in sentence(busy, HOPS)


def test_what_is_not_known_is_not_named() -> None:
    none = NarrowResult(Direction.FORWARD, 4, "none", at_least_bps=900e6, because="the sender was the limit")
    assert sentence(none, HOPS) == "forward, no bottleneck below 900 Mbit/s (L1): the sender was the limit"
    unknown = NarrowResult(Direction.REVERSE, 4, because="the rate changed")
    assert sentence(unknown, HOPS) == "reverse, the narrowest hop is not known: the rate changed"
    unnamed = replace(FOUND, named=0, narrow=(), confidence="low", because="it was ended")
    assert "which link limits it is not known (low confidence: it was ended" in sentence(unnamed, HOPS)


def test_below_the_contract_is_a_warning() -> None:
    for cir, weight in ((100, "warn"), (50, "info")):
        plan = plan_of(Link(cir_bps=cir * MBIT), PlanOptions(expiring_load=True))
        found = list(notes(plan, [PATH, measured(FOUND)]))
        assert {note.weight for note in found} == {weight}
    assert not list(notes(plan, [PATH]))


def test_less_than_the_contract_is_a_warning_that_names_both() -> None:
    plan = Plan("p", (), (), Link(cir_bps=80 * MBIT))
    first, second = notes(plan, [measured(FOUND)])
    assert (first.weight, second.weight) == ("warn", "warn")
    assert (
        second.sentence
        == "forward, at the narrowest hop one flow gets 50 Mbit/s (L2) at most, 62.5 % of the 80 Mbit/s contracted"
    )
    unsure = replace(FOUND, confidence="low")
    assert "(low confidence)" in list(notes(plan, [measured(unsure)]))[1].sentence
    for contracted in (51 * MBIT, None):  # not below for certain; not known
        assert len(list(notes(Plan("p", (), (), Link(cir_bps=contracted)), [measured(FOUND)]))) == 1
