"""In whose part of a line a fault lies: which segments, how sure, what would settle it, and nothing beyond the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from linkqual.model import (
    Compared,
    Diagnosis,
    Direction,
    Finding,
    Hop,
    LineSegment,
    Link,
    LinkSeen,
    LoadedPath,
    Located,
    Measurement,
    MemberFlow,
    MembersResult,
    MemberTrace,
    MtuHop,
    MtuResult,
    MtuTried,
    MtuWay,
    NarrowResult,
    Objective,
    Outcome,
    PathResult,
    Plan,
    StampResult,
    Step,
    Summary,
    ThroughputResult,
    Trace,
)
from linkqual.rules import demarcation
from linkqual.session.segments import Way, owners, placed

THERE, BACK = Direction.FORWARD, Direction.REVERSE


def hops(*addresses: str | None) -> tuple[Hop, ...]:
    """Routers, then the end."""
    routers = tuple(Hop(ttl, address, sent=3, received=3 * bool(address)) for ttl, address in enumerate(addresses, 1))
    return (*routers, Hop(len(routers) + 1, "10.0.9.9", reached=True, sent=3, received=3))


# one path, four routers, whose links are 10.0.<i>.0/30: the near end has .1 of link 0, a router .2 toward it and .1 of the next one
PATH = PathResult(
    Trace("10.0.0.1", "10.0.4.2", 1, 2, hops("10.0.0.2", "10.0.1.2", "10.0.2.2", "10.0.3.2")),
    Trace("10.0.4.2", "10.0.0.1", 2, 1, hops("10.0.4.1", "10.0.3.1", "10.0.2.1", "10.0.1.1")),
    "symmetric",
    pairs=((1, 4), (2, 3), (3, 2), (4, 1)),
)
TRACED = Measurement(Step("path", "path"), 0, 1, path=PATH)
SEGMENTS = (
    LineSegment("access", "near", "10.0.0.2", "Carrier A"),
    LineSegment("core", "10.0.0.2", "10.0.2.2", "Carrier B"),
    LineSegment("tail", "10.0.2.2", "far", "Carrier C"),
)


def narrow(link: int, way: Direction = THERE, **more: Any) -> Measurement:
    found = NarrowResult(way, 5, "shaper", (50e6, 49e6, 51e6), 3, narrow=(link,), named=link, confidence="high", because="trains agree",
                         seen=(LinkSeen(link, 90e6, 50e6, narrow=True),))  # fmt: skip
    return Measurement(Step(f"narrow/{way}", "narrow", direction=way), 0, 1, narrow=replace(found, **more))


def rows(*taken: Measurement, segments: Sequence[LineSegment] = SEGMENTS, findings: Sequence[Finding] = (), mtu: int | None = None) -> tuple[Located, ...]:  # fmt: skip
    return demarcation.rows(Plan("training", (), (), Link(segments=tuple(segments), mtu=mtu)), taken, findings)


def only(*taken: Measurement, **more: Any) -> Located:
    (row,) = rows(*taken, **more)
    return row


# ---- where segments lie


def test_segments_lie_on_the_hops_of_either_direction() -> None:
    there, back = (demarcation.ways.of([TRACED], way) for way in (THERE, BACK))
    assert [(one.segment.name, one.start, one.end) for one in placed(SEGMENTS, there)] == [
        ("access", (0, 0), (1, 1)), ("core", (1, 1), (3, 3)), ("tail", (3, 3), (5, 5)),
    ]  # fmt: skip
    assert [(one.segment.name, one.start, one.end) for one in placed(SEGMENTS, back)] == [
        ("tail", (0, 0), (2, 2)), ("core", (2, 2), (4, 4)), ("access", (4, 4), (5, 5)),
    ]  # fmt: skip


def test_prefixes_numbers_and_places_no_trace_shows() -> None:
    there, back = (demarcation.ways.of([TRACED], way) for way in (THERE, BACK))
    assert [there.place(text) for text in ("10.0.2.0/23", "10.0.2.2/32", "2", "5", "10.0.3.1", "192.0.2.1")] == [
        (2, 3), (3, 3), (2, 2), None, (3, 3), None,
    ]  # fmt: skip
    assert [back.place(text) for text in ("10.0.2.0/23", "2", "near", "far")] == [(2, 3), (3, 3), (5, 5), (0, 0)]
    unseen = (
        LineSegment("a", "near", "192.0.2.1"),
        LineSegment("b", "192.0.2.1", "10.0.2.2"),
        LineSegment("c", "10.0.2.2", "far"),
    )
    found = placed(unseen, there)
    assert [(one.start, one.end) for one in found] == [((0, 0), (0, 3)), ((0, 3), (3, 3)), ((3, 3), (5, 5))]
    assert owners(found, 1, 2).names == ("a", "b")
    assert not owners(found, 1, 2).beside  # they meet somewhere: no part is nobody's
    assert owners((found[0], *placed((replace(unseen[1], start="192.0.2.2"),), there)), 1, 2).beside
    assert owners(found, 3, 4).names == ("c",)
    assert owners(found, 3, 4).certain


@pytest.mark.parametrize("path", [PATH, replace(PATH, symmetry="undetermined", pairs=())])
def test_a_segment_up_to_the_subnet_of_its_last_link_has_that_link(path: PathResult) -> None:
    """Both routers of a link have an address in its subnet: the nearer one would leave the segment without a link."""
    taken = replace(TRACED, path=path)
    subnet = (
        LineSegment("access", "near", "10.0.1.2", "Carrier A"),
        LineSegment("core", "10.0.1.2", "10.0.2.0/30", "Carrier B"),
        LineSegment("campus", "10.0.2.0/30", "far"),
    )
    there = placed(subnet, demarcation.ways.of([taken], THERE))
    assert [(one.segment.name, one.start, one.end) for one in there] == [
        ("access", (0, 0), (2, 2)), ("core", (2, 2), (3, 3)), ("campus", (3, 3), (5, 5)),
    ]  # fmt: skip
    assert only(taken, narrow(3), segments=subnet).suppliers == ("Carrier A", "Carrier B")
    for link, true in ((1, "campus"), (2, "campus"), (3, "core"), (4, "access"), (5, "access")):
        assert true in owners(placed(subnet, demarcation.ways.of([taken], BACK)), link - 1, link).names


def test_a_prefix_is_either_router_of_its_link() -> None:
    halves = (LineSegment("a", "near", "10.0.2.0/30", "A"), LineSegment("b", "10.0.2.0/30", "far", "B"))
    row = only(TRACED, narrow(3), segments=halves)
    assert (row.segments, row.confidence) == (("a", "b"), "medium")
    assert "10.0.2.0/30 (which is hop 2 (10.0.1.2) or hop 3 (10.0.2.2))" in str(row.evidence)
    assert only(TRACED, narrow(5), segments=halves).segments == ("b",)


def test_where_a_segment_is_not_met_as_declared_nobody_is_named_for_sure() -> None:
    same = (
        LineSegment("access", "near", "10.0.0.2"),
        LineSegment("core", "10.0.0.2", "10.0.1.1"),
        LineSegment("tail", "10.0.1.1", "far"),
    )
    row = only(TRACED, narrow(3), segments=same)
    assert (row.segments, row.confidence) == (("tail",), "medium")
    assert row.settle == "places of core that packets of this direction meet one behind the other"


def test_segments_out_of_order_tell_nothing_of_a_place_no_trace_shows() -> None:
    turned = (SEGMENTS[2], LineSegment("b", "192.0.2.1", "10.0.1.2"), SEGMENTS[0])
    found = placed(turned, demarcation.ways.of([TRACED], THERE))
    assert [(one.start, one.end) for one in found] == [((3, 3), (5, 5)), ((0, 5), (2, 2)), ((0, 0), (1, 1))]


def test_a_segment_that_is_met_the_other_way_round_owns_nothing() -> None:
    turned = (LineSegment("odd", "10.0.2.2", "10.0.0.2"),)
    assert placed(turned, demarcation.ways.of([TRACED], THERE)) == ()


def test_where_both_traces_prove_nothing_of_a_router_its_address_counts_one_way_only() -> None:
    doubtful = replace(
        TRACED,
        path=replace(
            PATH, symmetry="undetermined", reverse=replace(PATH.reverse, hops=hops("192.0.2.7", None, None, None))
        ),
    )
    assert demarcation.ways.of([doubtful], BACK).place("10.0.1.2") is None
    assert demarcation.ways.of([doubtful], THERE).place("10.0.1.2") == (2, 2)


# ---- the narrowest hop


def test_one_link_inside_a_segment_is_its_suppliers() -> None:
    row = only(TRACED, narrow(3))
    assert (row.fault, row.after, row.before) == ("narrowest hop", 2, 3)
    assert (row.segments, row.suppliers, row.confidence, row.settle) == (("core",), ("Carrier B",), "high", "")
    assert row.where == "between hop 2 (10.0.1.2) and hop 3 (10.0.2.2)"
    assert row.sentence == (
        "forward, narrowest hop: 50 Mbit/s (L1), a shaper, between hop 2 (10.0.1.2) and hop 3 (10.0.2.2): in core (Carrier B)"
    )
    assert ("link file", "core runs from 10.0.0.2 (hop 1) to 10.0.2.2 (hop 3)") in row.evidence
    assert "link 3 of 5, high confidence: trains agree" in row.evidence[0][1]


def test_a_link_that_begins_where_two_suppliers_meet_is_either_ones() -> None:
    row = only(TRACED, narrow(4))
    assert row.suppliers == ("Carrier B", "Carrier C")
    assert row.confidence == "medium"
    assert "in core (Carrier B) or tail (Carrier C)" in row.sentence
    assert row.settle == "who runs the router at hop 3 (10.0.2.2), in which both meet and which sends onto that link"
    assert only(TRACED, narrow(1)).suppliers == ("Carrier A",)  # our own host is nobody's hand-over


def test_a_policer_may_stand_at_either_end_of_its_link() -> None:
    assert only(TRACED, narrow(3)).suppliers == ("Carrier B",)
    assert only(TRACED, narrow(3, kind="policer")).suppliers == ("Carrier B", "Carrier C")


def test_the_way_back_is_mirrored() -> None:
    assert only(TRACED, narrow(4, BACK)).suppliers == ("Carrier B",)
    assert only(TRACED, narrow(2, BACK)).suppliers == ("Carrier C",)
    row = only(TRACED, narrow(5, BACK))
    assert row.suppliers == ("Carrier B", "Carrier A")
    assert row.evidence[-1][1] == (
        "core runs from 10.0.2.2 (hop 2, 10.0.3.1) to 10.0.0.2 (hop 4, 10.0.1.1); access runs from 10.0.0.2 (hop 4, 10.0.1.1) to the near end"
    )


def test_nothing_declared_says_addresses_only() -> None:
    row = only(TRACED, narrow(3), segments=())
    assert (row.segments, row.suppliers) == ((), ())
    assert row.sentence.endswith("a shaper, between hop 2 (10.0.1.2) and hop 3 (10.0.2.2)")
    assert row.confidence == "high"
    assert only(narrow(3), segments=()).where == "between hop 2 and hop 3"


def test_a_part_nobody_declared_is_said() -> None:
    row = only(TRACED, narrow(2), segments=SEGMENTS[2:])
    assert row.segments == ()
    assert row.sentence.endswith(": in a part that no segment is declared for")
    assert row.settle == "segments for the whole way"


def test_a_place_no_trace_shows_is_asked_for() -> None:
    unseen = (LineSegment("a", "near", "192.0.2.1", "A"), LineSegment("b", "192.0.2.1", "far", "B"))
    row = only(TRACED, narrow(3), segments=unseen)
    assert row.suppliers == ("A", "B")
    assert row.settle == "an address or hop number for 192.0.2.1 that a trace of this direction shows"


def test_nearly_equal_links_are_named_as_well() -> None:
    row = only(TRACED, narrow(3, narrow=(2, 3)))
    assert "nearly as narrow: between hop 1 (10.0.0.2) and hop 2 (10.0.1.2)" in row.evidence[0][1]
    assert row.settle


def test_load_that_crossed_another_number_of_links_than_the_traces_names_no_hop_of_them() -> None:
    row = only(TRACED, narrow(4, links=7))
    assert (row.after, row.before, row.confidence) == (None, None, "low")
    assert "crossed 7 links and the trace 5" in row.settle


def test_where_only_a_queue_was_seen_it_bounds_the_place() -> None:
    load = LoadedPath(
        THERE, "16 TCP streams", after=2, before=5, by="queue", confidence="medium", because="hops 3 and 4 are silent"
    )
    seen = Measurement(Step("throughput/forward/16", "throughput", direction=THERE), 0, 1, loaded_path=load)
    row = only(TRACED, seen)
    assert row.where == "between hop 2 (10.0.1.2) and the far end"
    assert "the queue of 16 TCP streams begins between hop 2 (10.0.1.2) and the far end: in core" in row.sentence
    assert row.suppliers == ("Carrier B", "Carrier C")
    assert row.confidence == "low"
    assert row.settle == "the same test from an agent at hop 3 (10.0.2.2), where they meet; load that expires hop by hop (--allow-expiring-load) names one link"  # fmt: skip
    both = only(TRACED, narrow(3), seen)
    assert (both.after, both.before) == (2, 3)
    assert any(looked == "hops under load" for looked, _ in both.evidence)
    assert not rows(TRACED, replace(seen, loaded_path=replace(load, by="", after=None, before=None)))


def test_packets_longer_than_the_host_itself_sends_are_no_fault_of_the_line() -> None:
    made = size(1400, "told", told_by="10.0.1.2")
    assert made.mtu is not None
    assert [one.fault for one in rows(TRACED, made)] == ["path MTU"]
    short = tuple(replace(way, interface_bytes=1400) for way in made.mtu.ways)
    assert rows(TRACED, replace(made, mtu=replace(made.mtu, ways=short))) == ()


def test_a_narrowest_hop_that_carries_the_contract_is_no_fault() -> None:
    queue = LoadedPath(THERE, "16 TCP streams", after=2, before=5, by="queue", confidence="medium")
    step = Step("throughput/forward/16", "throughput", direction=THERE)

    def found(cir: int | None, *taken: Measurement) -> list[str]:
        plan = Plan("training", (), (), Link(cir_bps=cir, segments=SEGMENTS))
        return [one.fault for one in demarcation.rows(plan, [TRACED, *taken], ())]

    def loaded(bps: float) -> Measurement:
        return Measurement(step, 0, 1, throughput=ThroughputResult(16, (bps,) * 5, allowed_bps=47e6), loaded_path=queue)

    assert found(50_000_000, narrow(3)) == found(50_000_000, narrow(3), loaded(47e6)) == []
    assert found(60_000_000, narrow(3)) == found(None, narrow(3)) == ["narrowest hop"]
    assert found(50_000_000, loaded(47e6)) == []
    assert found(50_000_000, loaded(40e6)) == found(None, loaded(47e6)) == ["narrowest hop"]


def test_a_goodput_that_falls_short_is_nowhere_until_something_shows_a_place() -> None:
    failed = Finding(
        Objective("throughput", "p10", THERE, 9e7),
        Outcome.FAIL,
        "20 of 20 seconds were below 90 Mbit/s",
        step="throughput/forward/16",
    )
    row = only(TRACED, findings=(failed,))
    assert (row.fault, row.where, row.confidence) == ("throughput", "anywhere between both ends", "low")
    assert row.suppliers == ("Carrier A", "Carrier B", "Carrier C")
    assert "--only narrow --allow-expiring-load" in row.settle
    assert [one.fault for one in rows(TRACED, narrow(3), findings=(failed,))] == ["narrowest hop"]

    def caused(cause: str) -> list[tuple[str, int]]:
        found = demarcation.rows(
            Plan("training", (), (), Link()), [TRACED], (failed,), (Diagnosis(THERE, cause, "high", ""),)
        )
        return [(one.fault, len(one.evidence)) for one in found]

    assert caused("hashing") == [("throughput", 2)]
    assert caused("window") == caused("host") == []
    assert caused("none") == [("throughput", 2)]


def test_a_trace_that_did_not_arrive_names_no_host() -> None:
    """Hop 5 was seen under load: it is a router, though the trace ended at hop 4."""
    ended = replace(TRACED, path=replace(PATH, forward=replace(PATH.forward, hops=PATH.forward.hops[:4])))
    load = LoadedPath(THERE, "16 TCP streams", after=4, before=5, by="queue", confidence="low")
    seen = Measurement(Step("throughput/forward/16", "throughput", direction=THERE), 0, 1, loaded_path=load)
    assert only(ended, seen, segments=()).where == "between hop 4 (10.0.3.2) and hop 5 (silent)"


def test_a_silent_router_that_others_tell_of_is_named() -> None:
    forward = list(hops("10.0.0.2", None, "10.0.2.2", "10.0.3.2"))
    forward[1] = replace(forward[1], egress="10.0.2.1")  # as Record Route has it
    told = replace(
        TRACED, path=replace(PATH, forward=replace(PATH.forward, hops=tuple(forward)), symmetry="undetermined")
    )
    assert only(told, narrow(3), segments=()).where == "between hop 2 (10.0.2.1, silent itself) and hop 3 (10.0.2.2)"


# ---- the other faults


def size(passes: int, kind: str, *, told_by: str | None = None, long: int = 0, way: Direction = THERE) -> Measurement:
    answered = tuple(MtuHop(ttl, f"10.0.{ttl - 1}.2", short=True, long=ttl <= long) for ttl in range(1, 5))
    got = MtuWay(
        way,
        kind,
        1500,
        1500,
        passes,
        passes + 1,
        told_by,
        tried=(MtuTried(passes, 10, 10),),
        hops=answered if long else (),
    )
    return Measurement(Step("mtu", "mtu"), 0, 1, mtu=MtuResult((got,)))


def test_long_packets_stop_at_a_link() -> None:
    hole = only(TRACED, size(1400, "black hole", long=2), mtu=1500)
    assert (hole.fault, hole.after, hole.before, hole.confidence) == ("path MTU", 2, 3, "medium")
    assert hole.suppliers == ("Carrier B", "Carrier C")  # what hop 3 takes, or what hop 2 sends
    told = only(TRACED, size(1400, "told", told_by="10.0.1.2"))
    assert (told.after, told.before, told.suppliers, told.confidence) == (2, 3, ("Carrier B",), "high")
    assert "packets of 1400 bytes pass, 1500 are asked for" in told.sentence
    assert not rows(TRACED, size(1400, "told", told_by="10.0.1.2"), mtu=1400)
    nowhere = only(TRACED, size(1400, "black hole"))
    assert (nowhere.where, nowhere.suppliers) == ("anywhere between both ends", ("Carrier A", "Carrier B", "Carrier C"))
    stranger = only(TRACED, size(1400, "told", told_by="192.0.2.77"))
    assert stranger.after is None
    assert "which hop 192.0.2.77 is" in stranger.settle


def lossy(trace: Sequence[Hop], outcome: Outcome = Outcome.FAIL) -> tuple[Located, ...]:
    path = replace(PATH, forward=replace(PATH.forward, hops=tuple(trace)))
    stream = StampResult(Summary(sent=100_000, lost_forward=20_000), 1000.0, 100, 10**9)
    finding = Finding(Objective("loss_ratio", "ratio", THERE, 1e-5), outcome, "20 % lost", step="stamp")
    taken = (replace(TRACED, path=path), Measurement(Step("stamp", "stamp"), 0, 1, stamp=stream))
    return rows(*taken, findings=(finding,))


def test_loss_begins_at_or_before_a_hop_or_nobody_knows_where() -> None:
    many = tuple(Hop(ttl, address, sent=400, received=400 if ttl < 3 else 320) for ttl, address in enumerate(("10.0.0.2", "10.0.1.2", "10.0.2.2", "10.0.3.2"), 1))  # fmt: skip
    (row,) = lossy((*many, Hop(5, "10.0.9.9", reached=True, sent=400, received=320)))
    assert (row.fault, row.after, row.before) == ("loss", 0, 3)
    assert row.suppliers == ("Carrier A", "Carrier B", "Carrier C")
    assert "test each part by itself" in row.settle
    (row,) = lossy(PATH.forward.hops)
    assert (row.where, row.after) == ("anywhere between both ends", None)
    assert "the same test from an agent at hop 1 (10.0.0.2) and at hop 3 (10.0.2.2), where they meet" in row.settle
    assert lossy(PATH.forward.hops, Outcome.PASS) == ()


def members(*traces: MemberTrace) -> Measurement:
    flows = tuple(
        MemberFlow(port, ((250, 250 - 30 * (port < 5)), (750, 750 - 90 * (port < 5)))) for port in range(1, 17)
    )
    found = MembersResult(THERE, flows, "10.0.0.1", "10.0.4.2", 4863, 128, 16_000_000, traces=traces)
    return Measurement(Step("members/forward", "members", direction=THERE), 0, 1, members=found)


def test_a_lossy_member_lies_where_its_flows_leave_the_others() -> None:
    bad = MemberTrace(1, ("10.0.0.2", "10.0.7.2", "10.0.2.2", "10.0.3.2"))
    good = MemberTrace(9, ("10.0.0.2", "10.0.1.2", "10.0.2.2", "10.0.3.2"))
    row = only(TRACED, members(bad, good))
    assert (row.fault, row.after, row.before) == ("lossy member", 1, 3)
    assert row.where == "between hop 1 (10.0.0.2) and hop 3 (10.0.2.2)"
    assert "at hop 2 they meet 10.0.7.2, the others 10.0.1.2" in row.evidence[1][1]
    assert "4 of 16 flows lose 12 %" in row.sentence
    alike = replace(bad, hops=good.hops)
    assert "meet the same routers" in only(TRACED, members(alike, good)).evidence[1][1]
    assert only(TRACED, members(alike)).evidence[1][1] == "these flows were not traced beside others"
    anywhere = only(TRACED, members())
    assert "were not traced" in anywhere.evidence[1][1]
    assert anywhere.where == "anywhere between both ends"
    assert anywhere.confidence == "low"


def test_a_lossy_member_without_a_trace_of_the_line_and_behind_a_silent_hop() -> None:
    hops_of = ((1, "10.0.7.2"), (9, "10.0.2.2"))
    row = only(members(*(MemberTrace(port, ("10.0.0.2", None, router, "10.0.3.2")) for port, router in hops_of)))
    assert (row.after, row.before, row.where) == (1, 4, "between hop 1 and hop 4")
    assert "at hop 3 they meet 10.0.7.2, the others 10.0.2.2" in row.evidence[1][1]
    last = only(members(*(MemberTrace(port, ("10.0.0.2", router)) for port, router in hops_of)))
    assert last.where == "between hop 1 and the far end"


def test_links_that_one_direction_alone_takes() -> None:
    apart = Compared("link beside", 4, 4, forward_only=(3,), reverse_only=(3,))
    there, back = rows(replace(TRACED, path=replace(PATH, compared=apart, because="addresses differ")))
    assert (there.fault, there.after, there.before, there.segments) == ("other routers", 2, 3, ("core",))
    assert (back.after, back.before, back.segments) == (2, 3, ("core",))
    assert ("path", "addresses differ") in back.evidence
    assert "one of its links the other direction does not take" in there.sentence
    counted = Compared(
        "asymmetric", 4, 3, forward_only=(2, 3), reverse_only=(3,)
    )  # which of both it is, their number does not tell
    more, fewer = rows(replace(TRACED, path=replace(PATH, compared=counted)))
    assert "some or all of 2 links the other direction does not take" in more.sentence
    assert "one of its links" in fewer.sentence


def test_a_line_without_fault_has_no_row() -> None:
    assert rows(TRACED) == ()
    assert rows(TRACED, narrow(1, named=0, narrow=(), kind="none", rate_bps=None)) == ()


def test_every_link_of_a_whole_way_has_an_owner() -> None:
    found = placed(SEGMENTS, Way(THERE, 5, names={"10.0.0.2": 1, "10.0.2.2": 3}))
    assert all(owners(found, link - 1, link).certain for link in range(1, 6))
