"""Which flows fare worse, from counts and delays in memory; and the sentences made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from linkqual.model import (
    Direction,
    Finding,
    Measurement,
    MemberFlow,
    MembersResult,
    MemberTrace,
    Objective,
    Outcome,
    Plan,
    Step,
)
from linkqual.model import Link as Contract
from linkqual.rules import members as rules
from linkqual.session.members import flows_needed, missed, proving, read, unsettled

FORWARD = Direction.FORWARD
LIMIT = Objective("member_loss", "ratio", FORWARD, 0.01, limit_text="1 %")
Member = Callable[[int], int]


def four(flow: int) -> int:
    """The member of four that carries a flow: of 64, the third has 15."""
    return 2 if 7 * flow % 64 < 15 else (0, 1, 3)[flow % 3]


def flows(
    loss: dict[int, float], *, rounds: tuple[int, ...] = (250, 750), seed: int = 1, count: int = 64, slow: dict[int, int] | None = None,
    queue: dict[int, int] | None = None, member: Member = four, drift_ns: int = 5_000,
) -> MembersResult:  # fmt: skip
    """Flows over members with that loss each, and that much more delay (`slow`: every packet, `queue`: the median alone)."""
    chance = np.random.default_rng(seed)
    made = []
    for flow in range(count):
        on = member(flow)
        got = tuple((sent, sent - int(chance.binomial(sent, loss.get(on, 0.0)))) for sent in rounds)
        quarters = 4 * len(rounds)
        base = [4_000_000 + number * drift_ns + (slow or {}).get(on, 0) for number in range(quarters)]
        least = tuple(each + int(chance.exponential(4_000)) for each in base)
        median = tuple(each + 30_000 + (queue or {}).get(on, 0) + int(chance.normal(0, 3_000)) for each in base)
        made.append(MemberFlow(24_064 + flow, got, least, median))
    return MembersResult(FORWARD, tuple(made), "192.0.2.1", "192.0.2.9", 4863, 128, 16_000_000)


def on_member(which: int, count: int = 64, member: Member = four) -> tuple[int, ...]:
    return tuple(24_064 + flow for flow in range(count) if member(flow) == which)


def test_a_lossy_member_is_found_with_every_one_of_its_flows() -> None:
    """Scenario: 4 members, one with 2 %, 64 flows of which 15 take it."""
    found = read(flows({2: 0.02}, rounds=(5_000, 15_000)))
    assert [group.kind for group in found.groups] == ["loss"]
    group = found.groups[0]
    assert group.ports == on_member(2)
    assert len(group.ports) == 15
    assert not group.unclear
    assert group.share[1] < 0.25 < group.share[2]
    assert group.paths == 4
    assert found.average == pytest.approx(0.0047, abs=2e-4)
    assert group.loss is not None
    assert group.loss[1] < 0.02 < group.loss[2]
    assert group.others is not None
    assert group.others[0] == 0


def test_what_one_flow_would_have_missed() -> None:
    assert missed(4) == 0.75
    assert [flows_needed(paths) for paths in (2, 4, 8)] == [7, 17, 35]
    assert (missed(4, 3), flows_needed(4, 3)) == (0.25, 4)


@pytest.mark.parametrize("seed", range(12))
def test_the_list_is_the_same_in_another_run(seed: int) -> None:
    found = read(flows({2: 0.02}, rounds=(250, 750, 750, 750), seed=seed)).groups
    assert len(found) == 1
    assert set(found[0].ports) <= set(on_member(2)) <= {*found[0].ports, *found[0].unclear}


def test_flows_that_fare_alike_are_not_divided() -> None:
    """However much all of them lose: of 400 lines hardly one may be called uneven (once in a thousand)."""
    wrong = sum(
        bool(read(flows(dict.fromkeys(range(4), loss), seed=seed, drift_ns=drift)).groups)
        for loss, drift in ((0.0, 0), (1e-4, 5_000), (0.005, 5_000), (0.05, 50_000))
        for seed in range(100)
    )
    assert wrong <= 2


def test_other_shares_and_losses_on_both_sides() -> None:
    half = read(flows({1: 0.05, 0: 0.002}, rounds=(250, 750, 750), member=lambda flow: flow % 2)).groups[0]
    assert half.ports == on_member(1, member=lambda flow: flow % 2)
    assert half.paths == 2
    lone = read(flows({1: 0.3}, rounds=(250, 250), member=lambda flow: int(flow == 17))).groups[0]
    assert lone.ports == (24_064 + 17,)
    eighth = read(flows({3: 0.02}, rounds=(250, 750, 750), member=lambda flow: flow % 8)).groups[0]
    assert eighth.paths == 8
    assert eighth.among[0] < 8 < eighth.among[1]
    assert (half.among, lone.paths, lone.among[0]) == ((2, 2), 64, 12)


def test_one_round_alone_proves_nothing_and_asks_for_more() -> None:
    one = flows({2: 0.02}, rounds=(250,))
    assert not read(one).groups
    assert unsettled(one)
    assert not unsettled(flows({}, rounds=(250,)))
    assert not unsettled(flows({2: 0.05}, rounds=(250, 750, 750)))
    assert not unsettled(replace(one, host_lost=9))


def test_a_limit_that_is_not_proven_yet_asks_for_more_though_nothing_is_lost() -> None:
    """Else a profile that asks for less than the first round shows would stay open for ever."""
    clean = flows({}, rounds=(250,))
    assert not unsettled(clean, 0.01)
    assert unsettled(clean, 0.005)
    assert [proving(64, 0.01), proving(16, 0.01), proving(48, 0.005), proving(4, 0.5)] == [144, 574, 384, 9]
    for count, limit in ((64, 0.005), (48, 0.005), (16, 0.01)):
        packets = proving(count, limit)
        assert (
            read(flows({}, rounds=(packets,), count=count)).excess
            <= limit
            < read(flows({}, rounds=(packets - 2,), count=count)).excess
        )
    assert not unsettled(flows({2: 0.05}, rounds=(250, 750, 750)), 1e-4)  # proven broken


def test_a_longer_path_shows_by_its_least_delay_and_a_queue_by_its_median() -> None:
    longer = read(flows({}, slow={1: 400_000}, rounds=(250,))).groups
    assert [group.kind for group in longer] == ["path"]
    assert longer[0].ports == on_member(1)
    assert longer[0].excess_ns == pytest.approx(400_000, rel=0.05)
    queued = read(flows({}, queue={3: 900_000}, rounds=(250,))).groups
    assert [(group.kind, group.ports) for group in queued] == [("queue", on_member(3))]
    assert not read(flows({}, slow={1: 20_000}, rounds=(250,))).groups  # what a host does to single packets


def test_most_flows_may_be_on_bad_paths() -> None:
    """Three of four members are longer: said as that, and not as one of two."""
    group = read(flows({}, slow={0: 400_000, 1: 400_000, 3: 400_000}, rounds=(250,))).groups[0]
    assert (len(group.ports), group.bad, group.paths) == (49, 3, 4)


def test_what_moves_by_itself_is_no_slow_path() -> None:
    """An offset must exceed five times what a flow's own quarters differ by; and four flows lie in some order by chance."""
    steady = flows({}, slow={1: 160_000}, rounds=(250,), count=16)
    assert read(steady).groups
    chance = np.random.default_rng(3)

    def moved(flow: MemberFlow, most_ns: int) -> MemberFlow:
        return replace(flow, least_ns=tuple(ns + int(chance.uniform(0, most_ns)) for ns in flow.least_ns if ns))

    restless = replace(steady, flows=tuple(moved(flow, 80_000) for flow in steady.flows))
    assert not [group for group in read(restless).groups if group.kind == "path"]
    assert not read(flows({}, slow={1: 400_000}, rounds=(250,), count=4, member=lambda flow: flow)).groups


def test_a_drifting_clock_is_no_slow_path() -> None:
    assert not read(flows({}, rounds=(250, 750), drift_ns=2_000_000)).groups


def test_losses_of_the_receiving_host_say_nothing_of_single_flows() -> None:
    busy = replace(flows({2: 0.02}), host_lost=40)
    assert not read(busy).groups
    assert found(busy).outcome is Outcome.INCONCLUSIVE
    assert "receiving host's own socket" in found(busy).because


# ---- in words


def found(result: MembersResult, objective: Objective = LIMIT) -> Finding:
    one = Measurement(Step("members/forward", "members"), 0, 1, members=result)
    got = rules.finding(objective, Plan("training", (), (objective,), Contract()), [one], 1)
    assert got is not None
    return got


def said(result: MembersResult) -> list[str]:
    return [
        note.sentence for note in rules.notes([Measurement(Step("members/forward", "members"), 0, 1, members=result)])
    ]


def test_the_finding_says_what_the_carrier_needs() -> None:
    lossy = flows({2: 0.02}, rounds=(5_000, 15_000))
    got = found(lossy)
    assert got.outcome is Outcome.FAIL
    for part in (
        "15 of 64 flows lose", "consistent with 1 of 4 paths", "misleads", "a chance of 75 % to miss it", "17 flows meet it with 99 % (30 if it is 1 of 7)",
        "of all flows: 1 of 3 to 7)",
    ):  # fmt: skip
        assert part in got.because
    ports = ", ".join(map(str, on_member(2)))
    assert said(lossy) == [f"forward flows that lose packets: UDP 192.0.2.1 ports {ports} to 192.0.2.9 port 4863"]
    back = said(replace(lossy, direction=Direction.REVERSE))[0]
    assert back.startswith("reverse flows that lose packets: UDP 192.0.2.9 port 4863 to 192.0.2.1 ports 24064")


def test_a_line_without_difference_passes_with_what_may_hide() -> None:
    clean = found(flows({}, rounds=(250,)))
    assert clean.outcome is Outcome.PASS
    assert clean.estimate is not None
    assert (clean.estimate.value, clean.estimate.low) == (0, 0)
    assert clean.estimate.high == pytest.approx(1 - (0.05 / 16) ** 1e-3)
    assert "0 of 16,000 packets of 64 flows lost" in clean.because
    assert "at most 0.5" in clean.because  # 1 - (0.05 / 16)^(1 / 1000): 0.575 %
    assert found(flows({}, rounds=(20,))).outcome is Outcome.INCONCLUSIVE
    alike = found(flows(dict.fromkeys(range(4), 0.02), rounds=(250, 750, 750, 750)))
    assert alike.outcome is Outcome.PASS  # all lose alike: that is the line's loss, and judged as such
    assert found(flows({}), replace(LIMIT, limit=None)).outcome is Outcome.NOT_JUDGED


def test_a_small_difference_is_no_fail() -> None:
    assert found(flows({2: 0.006}, rounds=(5_000, 15_000))).outcome is Outcome.PASS


def test_nothing_measured_is_no_finding() -> None:
    plan = Plan("training", (), (LIMIT,), Contract())
    assert rules.finding(LIMIT, plan, [], 1) is None
    other = Measurement(
        Step("members/reverse", "members"), 0, 1, members=replace(flows({}), direction=Direction.REVERSE)
    )
    assert rules.finding(LIMIT, plan, [other], 1) is None


def test_flows_of_which_nothing_arrives_pass_nothing() -> None:
    got = found(flows(dict.fromkeys(range(4), 1.0)))
    assert got.outcome is Outcome.INCONCLUSIVE
    assert "none of 64,000 packets arrived" in got.because


def test_traces_show_where_the_paths_part() -> None:
    bad, good = on_member(2)[0], on_member(0)[0]
    traces = (
        MemberTrace(bad, ("10.0.0.1", "10.0.2.1", "10.0.9.1")),
        MemberTrace(good, ("10.0.0.1", "10.0.3.1", "10.0.9.1")),
    )
    told = said(replace(flows({2: 0.02}, rounds=(500, 1500)), traces=traces))
    assert "leave the path of the others by hop 2: 10.0.2.1 instead of 10.0.3.1" in told[-2]
    same = tuple(replace(trace, hops=(None, "10.0.3.1")) for trace in traces)
    assert "no trace tells apart" in said(replace(flows({2: 0.02}, rounds=(500, 1500)), traces=same))[-2]


def routed(*, ways: int, count: int = 16, traces_short: str = "") -> str:
    """What is said of a line that loses nothing and spreads flows over so many routers."""
    traces = tuple(MemberTrace(24_064 + flow, ("10.0.0.1", f"10.0.3.{2 + 4 * (flow % ways)}")) for flow in range(count))
    (told,) = said(replace(flows({}, rounds=(250,)), traces=traces, traces_short=traces_short))
    return told


def test_flows_on_other_routers_are_told_and_are_no_fault() -> None:
    told = routed(ways=2)
    assert told.startswith(
        "forward: 8 of 16 flows go by 10.0.3.6 instead of 10.0.3.2 at hop 2, over 2 ways in all. Flows are spread"
    )
    assert "no fault by itself" in told
    ports = ", ".join(str(24_065 + 2 * at) for at in range(8))
    assert told.endswith(f"by 10.0.3.6: UDP 192.0.2.1 ports {ports} to 192.0.2.9 port 4863")
    assert "fewer were traced" not in told
    few = routed(ways=3, count=9, traces_short="it was interrupted")
    assert "fewer were traced than would show one more way at 95 % (it was interrupted)" in few


def test_one_way_is_said_with_what_may_have_been_missed() -> None:
    assert routed(ways=1, count=6) == (
        "forward: 6 flows traced meet the same routers; one more way that carries as many flows would have been met, at 95 %"
    )
    assert "fewer were traced" in routed(ways=1, count=5)
    none = said(replace(flows({}, rounds=(250,)), traces_short="that UDP port is in use at the far end"))
    assert none == ["forward: no flow was traced: that UDP port is in use at the far end"]


def test_a_route_that_changed_meanwhile_divides_nobody() -> None:
    traces = (
        MemberTrace(24_064, ("10.0.1.1",)),
        MemberTrace(24_065, ("10.0.2.1",)),
        MemberTrace(24_064, ("10.0.2.1",)),
    )
    (told,) = said(replace(flows({}, rounds=(250,)), traces=traces))
    assert "ports 24064" not in told
    assert "port 24064 to 192.0.2.9 port 4863 met other routers when traced again" in told
