"""The three questions on the topology: PASS only when all they rest on was seen, FAIL by what was seen, UNKNOWN else, never a verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkqual import rules
from linkqual.model import (
    Conditions,
    Diagnosis,
    Direction,
    EndConditions,
    Hop,
    Link,
    MarkingResult,
    MarkingRow,
    Measurement,
    MemberFlow,
    MembersResult,
    MtuResult,
    MtuWay,
    NarrowResult,
    Objective,
    Outcome,
    Plan,
    SelfCheck,
    Step,
)
from linkqual.reports import html, terminal
from linkqual.reports.sheet_facts import facts
from linkqual.rules import self_checks
from linkqual.rules.self_checks import NON_BLOCKING, ROUTES, SITES
from linkqual.session import compared
from linkqual.session.symmetry import compare

from ..reports.samples import SAMPLES
from ..scenarios.streams import FORWARD, REVERSE, ROUND_TRIP, goodput, stamp, steady
from ..scenarios.test_asymmetry import counted, path, ways

LINK = Link(cir_bps=100_000_000, mtu=1500)
BOTH = (FORWARD, REVERSE)


def of(name: str, *taken: Measurement, link: Link = LINK, lines: tuple[Objective, ...] = ()) -> SelfCheck:
    verdict = rules.judge(Plan("of mine", (), lines, link), taken)
    (found,) = [one for one in verdict.checks if one.name == name]
    return found


def measured(probe: str, **result: object) -> Measurement:
    return Measurement(Step(probe, probe), 0, 1, **result)  # type: ignore[arg-type]


def one_way() -> Measurement:
    """One router, the same both ways."""
    return path(["198.51.100.2"], ["203.0.113.1"], ["203.0.113.1"], ["198.51.100.2"])


def sizes(forward: int = 1500, reverse: int = 1500, near: int = 1500, far: int = 1500) -> Measurement:
    made = [
        MtuWay(way, "whole" if passes == own else "told", own, own, passes, None if passes == own else passes + 1)
        for way, passes, own in ((FORWARD, forward, near), (REVERSE, reverse, far))
    ]
    return measured("mtu", mtu=MtuResult(tuple(made)))


def flows(way: Direction, lossy: int = 0, short: str = "", longer: int = 0) -> Measurement:
    """64 flows over four rounds, of which `lossy` lose one packet in twenty and `longer` take 2 ms more."""
    made = [
        MemberFlow(
            24000 + k,
            tuple((250, 237 if k < lossy else 250) for _ in range(4)),
            (5_000_000 + 2_000_000 * (k < longer),) * 16,
            (5_050_000 + 2_000_000 * (k < longer),) * 16,
        )
        for k in range(64)
    ]
    result = MembersResult(way, tuple(made), "198.51.100.1", "203.0.113.2", 4863, 128, 10**6, short=short)
    return replace(measured("members", members=result), step=Step(f"members/{way}", "members", direction=way))


def dead(way: Direction) -> Measurement:
    """None of whose packets arrives."""
    made = flows(way)
    assert made.members is not None
    none = tuple(replace(flow, rounds=((250, 0),), least_ns=(), median_ns=()) for flow in made.members.flows)
    return replace(made, members=replace(made.members, flows=none))


def marks(changed: tuple[Direction, ...] = (), lost: tuple[Direction, ...] = ()) -> Measurement:
    rows = [
        MarkingRow(way, dscp, ecn, 20, 20 if way in lost else 0, arrived=() if way in lost else ((0 if way in changed and dscp == 26 else dscp, ecn, 20),))
        for way in BOTH for dscp, ecn in ((0, 0), (26, 0), (0, 1), (0, 2))
    ]  # fmt: skip
    return measured("marking", marking=MarkingResult(tuple(rows), 52, 10**9))


def loads(forward: float = 94e6, reverse: float = 94e6, together: float = 93e6, **more: object) -> list[Measurement]:
    alone = [
        goodput(way, steady(bps, 65), allowed_bps=94.15e6, **more)
        for way, bps in zip(BOTH, (forward, reverse), strict=True)
    ]
    made = goodput(ROUND_TRIP, steady(together, 5), **more)
    assert made.throughput is not None
    return [*alone, replace(made, throughput_back=made.throughput)]


FLOWS = [flows(way) for way in BOTH]
SEEN = [one_way(), sizes(), marks(), *FLOWS, *loads()]


def test_all_seen_and_alike_passes_and_says_what_is_beyond_sight() -> None:
    for name, beyond in ((SITES, "nvidia-smi topo"), (NON_BLOCKING, "pause and ECN counters"), (ROUTES, "")):
        found = of(name, *SEEN)
        assert found.outcome == "PASS", found
        assert beyond in found.settle
        assert len(found.evidence) >= 1
    assert "the RDMA MTU that fits is 1024" in of(NON_BLOCKING, *SEEN).because


@pytest.mark.parametrize("name", [SITES, NON_BLOCKING, ROUTES])
def test_nothing_seen_is_unknown_fails_nothing_and_says_what_to_do(name: str) -> None:
    found = of(name)
    assert found.outcome == "UNKNOWN"
    assert "measure with probe" in found.settle
    verdict = rules.judge(Plan("of mine", (), (), LINK), (ways(7, 12),))
    assert {one.outcome for one in verdict.checks} == {"FAIL", "UNKNOWN"}
    assert verdict.outcome is Outcome.NO_DATA


@pytest.mark.parametrize("gone", range(len(SEEN) - 1))
def test_whatever_is_missing_leaves_a_check_unknown(gone: int) -> None:
    """Each measurement but one: what rests on it is UNKNOWN and nothing fails."""
    taken = [one for k, one in enumerate(SEEN) if k != gone]
    outcomes = {name: of(name, *taken).outcome for name in (SITES, NON_BLOCKING, ROUTES)}
    assert "UNKNOWN" in outcomes.values()
    assert "FAIL" not in outcomes.values()


def with_(*others: Measurement, without: str) -> list[Measurement]:
    return [*[one for one in SEEN if one.step.probe != without], *others]


@pytest.mark.parametrize(
    ("taken", "link", "word"),
    [
        (with_(ways(3, 4), without="path"), LINK, "routers: 3 forward, 4 back"),
        (with_(sizes(1500, 1400), without="mtu"), LINK, "path MTU: 1500 bytes forward, 1400 reverse"),
        (with_(sizes(9000, 1500, 9000, 1500), without="mtu"), LINK, "MTU 9000 at the near end, 1500 at the far end"),
        (SEEN, replace(LINK, cir_reverse_bps=20_000_000), "20 Mbit/s reverse (declared)"),
    ],
)
def test_what_differs_between_the_sites_fails(taken: list[Measurement], link: Link, word: str) -> None:
    found = of(SITES, *taken, link=link)
    assert found.outcome == "FAIL"
    assert word in found.because


def test_a_bad_member_is_a_fault_and_no_other_topology() -> None:
    lossy = of(SITES, *with_(flows(FORWARD, 16), flows(REVERSE), without="members"))
    assert lossy.outcome == "PASS"
    shown = dict(lossy.evidence)
    assert shown["faults of single paths"] == "some lose packets forward, all flows alike reverse"
    assert of(NON_BLOCKING, *with_(flows(FORWARD, 16), flows(REVERSE), without="members")).outcome == "FAIL"
    one = of(SITES, *with_(flows(FORWARD, longer=16), flows(REVERSE), without="members"))
    assert one.outcome == "UNKNOWN"  # the other way it is only that none was met
    assert "some flows take a longer path forward" in one.because
    assert "more flows" in one.settle
    both = of(SITES, *with_(*(flows(way, longer=16) for way in BOTH), without="members"))
    assert both.outcome == "PASS"
    assert "faults of single paths" not in dict(both.evidence)


def test_routers_counted_up_to_a_silent_last_one_are_unknown() -> None:
    other = path(["198.51.100.2"], ["203.0.113.1"])
    assert other.path is not None
    back = other.path.reverse
    hops = (replace(back.hops[0]), Hop(2), replace(back.hops[1], ttl=3))
    open_ = replace(other.path, reverse=replace(back, hops=hops))
    found = compare(open_.forward, open_.reverse)
    assert found.verdict == "undetermined"
    numbers = compared.measured(open_.forward, open_.reverse)
    taken = replace(
        other, path=replace(open_, symmetry=found.verdict, because=found.because, pairs=found.pairs, compared=numbers)
    )
    said = of(SITES, *with_(taken, without="path"))
    assert said.outcome == "UNKNOWN"
    assert "1 or one fewer forward, 2 or one fewer back" in said.because


def test_cards_in_unlike_slots_are_told_of_two_hosts_alone() -> None:
    ends = Conditions(near=EndConditions(slot_bps=252 * 10**9), far=EndConditions(slot_bps=126 * 10**9))
    first, *others = SEEN
    assert "slots of the cards" in of(SITES, replace(first, conditions=ends), *others).because
    alone = replace(first, conditions=replace(ends, same_clock=True))
    assert of(SITES, alone, *others).outcome == "PASS"


@pytest.mark.parametrize(
    ("taken", "outcome", "word"),
    [
        (with_(marks(changed=(REVERSE,)), without="marking"), "FAIL", "DSCP: changed: AF31 reverse"),
        (with_(marks(lost=(REVERSE,)), without="marking"), "UNKNOWN", "nothing is known of"),
        (with_(sizes(1400, 1500), without="mtu"), "FAIL", "1400 bytes pass both ways, 1500 are agreed"),
        (with_(sizes(1400, 1500, 1400), without="mtu"), "UNKNOWN", "1400 bytes pass both ways"),
        (with_(*loads(forward=60e6), without="throughput"), "FAIL", "goodput forward: 6"),
        (
            with_(*loads(60e6, cpu_near=0.99, version="3.12"), without="throughput"),
            "UNKNOWN",
            "one core at the near end",
        ),
        (with_(*loads(together=50e6), without="throughput"), "FAIL", "take from each other"),
        (with_(flows(FORWARD), flows(REVERSE, 16), without="members"), "FAIL", "some lose packets reverse"),
        (
            with_(flows(FORWARD), dead(REVERSE), without="members"),
            "UNKNOWN",
            "not told apart in both",
        ),
        (
            with_(flows(FORWARD), flows(REVERSE, 0, "interrupted"), without="members"),
            "UNKNOWN",
            "not told apart in both",
        ),
    ],
)
def test_what_blocks_fails_and_what_a_host_may_have_done_is_unknown(
    taken: list[Measurement], outcome: str, word: str
) -> None:
    found = of(NON_BLOCKING, *taken)
    assert found.outcome == outcome, found
    assert word in found.because
    assert found.settle


def test_few_seconds_are_no_proof_of_a_short_rate() -> None:
    alone = [goodput(way, [60e6, 61e6, 60e6], allowed_bps=94.15e6) for way in BOTH]
    found = of(NON_BLOCKING, *with_(*alone, without="throughput"))
    assert found.outcome == "UNKNOWN"
    assert "too few" in found.because
    enough = [goodput(way, [94e6, 94e6, 94e6], allowed_bps=94.15e6) for way in BOTH]
    assert of(NON_BLOCKING, *with_(*enough, loads()[-1], without="throughput")).outcome == "UNKNOWN"


def test_a_host_that_sends_no_longer_packets_makes_no_path_mtu_of_the_line_differ() -> None:
    found = of(SITES, *with_(sizes(1500, 9000, 1500, 9000), without="mtu"))
    assert found.because == "interfaces: MTU 1500 at the near end, 9000 at the far end"
    assert "no longer ones were tried forward" in dict(found.evidence)["path MTU"]
    assert "path MTU" in of(SITES, *with_(sizes(1400, 9000, 1500, 9000), without="mtu")).because


def test_a_window_that_is_too_small_is_no_line_that_blocks() -> None:
    taken = with_(*loads(forward=60e6), without="throughput")

    def found(cause: str, subject: str = "line") -> SelfCheck:
        made = Diagnosis(
            FORWARD, cause, "high", "the receive window holds 60 Mbit/s", decide="widen it", subject=subject
        )
        checks = self_checks.of(Plan("of mine", (), (), LINK), taken, (), (made,))
        return next(one for one in checks if one.name == NON_BLOCKING)

    assert found("window").outcome == "UNKNOWN"
    assert "the receive window holds" in found("window").because
    assert "widen it" in found("window").settle
    assert found("policer").outcome == found("window", "flow").outcome == "FAIL"


def test_what_a_host_dropped_or_a_search_did_not_end_is_unknown() -> None:
    dropped = flows(REVERSE)
    assert dropped.members is not None
    dropped = replace(dropped, members=replace(dropped.members, host_lost=5))
    assert of(NON_BLOCKING, *with_(flows(FORWARD), dropped, without="members")).outcome == "UNKNOWN"
    whole = sizes()
    assert whole.mtu is not None
    there, back = whole.mtu.ways
    ended = replace(whole, mtu=MtuResult((there, replace(back, kind="unknown", because="no answer"))))
    assert of(NON_BLOCKING, *with_(ended, without="mtu")).outcome == "UNKNOWN"
    one_way_only = marks()
    assert one_way_only.marking is not None
    rows = tuple(row for row in one_way_only.marking.rows if row.direction is FORWARD)
    half = replace(one_way_only, marking=replace(one_way_only.marking, rows=rows))
    assert of(NON_BLOCKING, *with_(half, without="marking")).outcome == "UNKNOWN"


def test_without_a_contract_nothing_is_known_of_what_the_line_should_carry() -> None:
    found = of(NON_BLOCKING, *SEEN, link=Link())
    assert found.outcome == "UNKNOWN"
    assert "--cir" in found.settle


def test_routes_fail_by_other_routers_or_by_a_delay_that_no_router_shows() -> None:
    assert of(ROUTES, ways(7, 12)).outcome == "FAIL"
    longer = stamp(counted(4.1, 9.8), 1000, Conditions(clock_error_ns=200_000))
    found = of(ROUTES, one_way(), longer)
    assert found.outcome == "FAIL"
    assert "below IP" in found.settle
    open_ = of(ROUTES, one_way(), stamp(counted(4.1, 9.8), 1000, Conditions(clock_error_ns=8_000_000)))
    assert open_.outcome == "PASS"
    assert "undetermined" in dict(open_.evidence)["delay"]
    fibre = replace(LINK, fibre_km=1330)  # both directions alike, by it
    contradicted = of(ROUTES, one_way(), longer, link=fibre)
    assert contradicted.outcome == "UNKNOWN"
    assert "length of the fibre again" in contradicted.settle
    sure = stamp(counted(4.1, 9.8), 1000, Conditions(same_clock=True))
    believed = of(ROUTES, one_way(), sure, link=fibre)
    assert believed.outcome == "FAIL"
    assert "cannot be true and is not used" in believed.because
    silent = path(["198.51.100.2", "10.3.0.2", "10.3.1.2"], ["203.0.113.1", "10.3.1.1", "10.3.0.1"])
    assert of(ROUTES, silent).outcome == "UNKNOWN"


def test_late_bursts_block() -> None:
    objective = Objective("burst_completion", "p99", FORWARD, 1e6)
    found = of(NON_BLOCKING, *SEEN, lines=(objective,))
    assert found.outcome == "UNKNOWN"
    assert "bursts forward" in dict(found.evidence)


def test_what_was_judged_comes_to_the_page_and_the_sheet() -> None:
    taken = (ways(7, 12), *SEEN[1:], stamp(counted(4.1, 9.8), 1000))
    plan = Plan("of mine", (), (), LINK)
    q = replace(SAMPLES["few"](), plan=plan, measurements=taken, verdict=rules.judge(plan, taken))
    said = html.render(q)
    assert "<h2>Topology</h2>" in said
    for quantity in ("One-way delay", "Delay variation", "Loss", "Goodput", "Both at once"):
        assert quantity in said
    assert "reverse is longer by" in said
    rows = {(fact.metric, fact.statistic): fact for fact in facts(q)}
    assert rows["self_check", "symmetric routes"].because.startswith(
        "FAIL: traces: asymmetric, routers: 7 forward and 12 back"
    )
    assert rows["path_symmetry", "links in common"].high == 0.5
    assert (rows["both_directions", "goodput"].value or 0) > 0.99
    seen = terminal.render(q, 200)
    assert "✗ symmetric routes" in seen
    assert " ".join(seen.split()).count("reverse is longer by") == 1


@pytest.mark.parametrize(("confidence", "outcome"), [("high", "FAIL"), ("low", "UNKNOWN")])
def test_a_narrowest_hop_below_the_contract_blocks(confidence: str, outcome: str) -> None:
    found = NarrowResult(REVERSE, 3, "shaper", (30e6, 29.9e6, 30.1e6), 3, named=3, narrow=(3,), confidence=confidence)
    slow = of(NON_BLOCKING, measured("narrow", narrow=found))
    assert slow.outcome == outcome
    assert "one flow gets 30 Mbit/s (L1) at most, 30 % of the 100 Mbit/s contracted" in slow.because
