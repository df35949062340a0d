"""A9, A13 with other figures, and S12, S13, S40: what is said of a path whose fault is known, from the judge to the sentence for the carrier."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from linkqual import rules
from linkqual.link import parse
from linkqual.model import (
    Direction,
    Finding,
    Hop,
    LinkSeen,
    LoadedHop,
    LoadedPath,
    Measurement,
    MemberFlow,
    MembersResult,
    MtuHop,
    MtuResult,
    MtuTcp,
    MtuTried,
    MtuWay,
    NarrowResult,
    Objective,
    Outcome,
    PathResult,
    Plan,
    Relation,
    Step,
    Trace,
    Verdict,
)

FORWARD, REVERSE = Direction.FORWARD, Direction.REVERSE
BOTH = (FORWARD, REVERSE)
LINK = parse(
    """
link:
  cir: 100 Mbit/s
  mtu: 1500
  segments:
    - {name: access, supplier: Carrier A, from: near, to: 10.0.1.2}
    - {name: core, supplier: Carrier B, from: 10.0.1.2, to: 5}
    - {name: campus, from: 5, to: far}
""",
    "line.yaml",
)
ROUTERS = range(6)  # link i is 10.0.<i>.0/30 with .1 at its near end, and router i is the one behind it
THERE = (*(Hop(i + 1, f"10.0.{i}.2") for i in ROUTERS), Hop(7, "10.0.6.2", reached=True))
BACK = (*(Hop(6 - i, f"10.0.{i + 1}.1") for i in reversed(ROUTERS)), Hop(7, "10.0.0.1", reached=True))
PATH = PathResult(
    Trace("10.0.0.1", "10.0.6.2", 1, 2, THERE),
    Trace("10.0.6.2", "10.0.0.1", 2, 1, BACK),
    "symmetric",
    pairs=tuple((i + 1, 6 - i) for i in ROUTERS),
)
TRACED = Measurement(Step("path", "path"), 0, 1, path=PATH)


def verdict(*taken: Measurement, objectives: tuple[Objective, ...] = ()) -> Verdict:
    return rules.judge(Plan("made", tuple(one.step for one in taken), objectives, LINK), [TRACED, *taken])


# ---- A9: a limit nobody tells of

SIZES = tuple(
    Objective(metric, "size", way, limit, relation, limit_text="mtu")
    for way in BOTH
    for metric, limit, relation in (("path_mtu", 1500, Relation.AT_LEAST), ("mtu_black_hole", 0, Relation.AT_MOST))
)


def way(direction: Direction, passes: int, kind: str, at: int = 0) -> MtuWay:
    """Long packets reach router `at` and no further; "told": it says so."""
    address = (THERE if direction is FORWARD else BACK)[at - 1].address if at else None
    hops = tuple(
        MtuHop(hop.ttl, hop.address, short=True, long=hop.ttl <= at)
        for hop in (THERE if direction is FORWARD else BACK)[:6]
    )
    tried = tuple(MtuTried(size, 10, 10 * (size == passes)) for size in (passes, passes + 1))
    told = {"told_by": address, "told_bytes": passes} if kind == "told" else {}
    return MtuWay(
        direction, kind, 1500, 1500, passes, None if kind == "whole" else passes + 1, tried=tried, hops=hops, **told
    )  # type: ignore[arg-type]


def sized(there: MtuWay, back: MtuWay, *, stalls: bool, version: int = 4) -> Verdict:
    tcp = (MtuTcp(FORWARD, 1460, 1460, 100_000, 0, 0, stalled=True),) if stalls else ()
    return verdict(Measurement(Step("mtu", "mtu"), 0, 1, mtu=MtuResult((there, back), tcp, version)), objectives=SIZES)


def of(found: Verdict, metric: str, direction: Direction) -> Finding:
    return next(
        one for one in found.findings if one.objective.metric == metric and one.objective.direction is direction
    )


@pytest.mark.parametrize(
    ("version", "passes", "ours", "theirs"),
    [(4, 1400, 1360, 1340), (4, 1442, 1402, 1382), (6, 1400, 1340, 1360), (6, 1280, 1220, 1240)],
)
def test_a_black_hole_with_its_place_its_remedy_and_the_way_back_apart(
    version: int, passes: int, ours: int, theirs: int
) -> None:
    found = sized(way(FORWARD, passes, "black hole", 4), way(REVERSE, 1500, "whole"), stalls=True, version=version)
    assert found.outcome is Outcome.FAIL
    hole = of(found, "mtu_black_hole", FORWARD)
    assert hole.outcome is Outcome.FAIL
    for part in (
        f"{passes} bytes pass (10 of 10 arrived), {passes + 1} do not (0 of 10 arrived)", "vanish without a word between hop 4 (10.0.3.2) and hop 5 (10.0.4.2)",
        "TCP connects and its data stall", f"MSS set to {ours} (IPv{version}; {theirs} for IPv{10 - version})", "repair the ICMP",
    ):  # fmt: skip
        assert part in hole.because
    assert of(found, "mtu_black_hole", REVERSE).outcome is Outcome.PASS
    assert of(found, "path_mtu", REVERSE).outcome is Outcome.PASS
    (row,) = found.demarcation
    assert (row.segments, row.suppliers) == (("core", "campus"), ("Carrier B",))
    assert "hop 5 (10.0.4.2)" in row.settle


@pytest.mark.parametrize("at", [1, 3, 6])
def test_a_router_that_tells_is_a_smaller_mtu_and_no_hole(at: int) -> None:
    found = sized(way(FORWARD, 1400, "told", at), way(REVERSE, 1500, "whole"), stalls=False)
    assert of(found, "mtu_black_hole", FORWARD).outcome is Outcome.PASS
    size = of(found, "path_mtu", FORWARD)
    assert size.outcome is Outcome.FAIL
    assert f"hop {at} (10.0.{at - 1}.2) says so by ICMP" in size.because
    assert found.demarcation[0].segments == {1: ("access",), 3: ("core",), 6: ("campus",)}[at]


@pytest.mark.parametrize(
    ("fewer", "header"),
    [
        (4, "802.1Q"),
        (8, "QinQ"),
        (14, "the Ethernet header"),
        (18, "check sequence"),
        (20, "IP in IP"),
        (24, "GRE"),
        (28, "UDP"),
        (50, "VXLAN"),
    ],
)
def test_directions_that_differ_by_a_header_are_explained(fewer: int, header: str) -> None:
    for there, back in ((1500, 1500 - fewer), (1500 - fewer, 1500)):
        kinds = ["whole" if size == 1500 else "told" for size in (there, back)]
        found = sized(way(FORWARD, there, kinds[0], 3), way(REVERSE, back, kinds[1], 3), stalls=False)
        (said,) = [note.sentence for note in found.notes if f"{fewer} apart" in note.sentence]
        assert header in said
        assert "whether the MTU counts the IP packet (layer 3) or the frame (layer 2)" in said


# ---- A13: one lossy member


@pytest.mark.parametrize(
    ("paths", "bad", "loss", "count", "packets"),
    [(4, 2, 0.02, 64, (5_000, 15_000)), (3, 0, 0.01, 48, (1_000, 3_000)), (8, 5, 0.02, 64, (1_000, 3_000))],
)
def test_a_lossy_member_of_several(paths: int, bad: int, loss: float, count: int, packets: tuple[int, int]) -> None:
    """As many flows on each member as a hash may give it: the first ones one more."""

    def flows(seed: int) -> MembersResult:
        chance = np.random.default_rng(seed)
        made = tuple(
            MemberFlow(
                24_064 + at,
                tuple((sent, sent - int(chance.binomial(sent, loss * (at % paths == bad)))) for sent in packets),
            )
            for at in range(count)
        )
        return MembersResult(FORWARD, made, "10.0.0.1", "10.0.6.2", 4863, 128, 16_000_000)

    limit = Objective("member_loss", "ratio", FORWARD, 0.005, limit_text="0.5 %")
    runs = [
        verdict(Measurement(Step("members/forward", "members"), 0, 1, members=flows(seed)), objectives=(limit,))
        for seed in (1, 2)
    ]
    theirs = [24_064 + at for at in range(count) if at % paths == bad]
    needed = {3: 12, 4: 17, 8: 35}[paths]
    assert (1 - 1 / paths) ** needed <= 0.01 < (1 - 1 / paths) ** (needed - 1)
    assert needed == -int(-log(0.01) / log(1 - 1 / paths) // 1)
    for found in runs:
        assert found.outcome is Outcome.FAIL
        said = found.findings[0].because
        for part in (
            f"{len(theirs)} of {count} flows lose", f"consistent with 1 of {paths} paths", "The average of", "misleads",
            f"a chance of {100 * (1 - 1 / paths):.4g} % to miss it", f"{needed} flows meet it with 99 %",
        ):  # fmt: skip
            assert part in said
        listed = (
            f"forward flows that lose packets: UDP 10.0.0.1 ports {', '.join(map(str, theirs))} to 10.0.6.2 port 4863"
        )
        assert listed in [note.sentence for note in found.notes]  # the same in the second run
        (row,) = found.demarcation
        assert (row.fault, row.where, row.confidence) == ("lossy member", "anywhere between both ends", "low")
        assert "counters of the members" in row.settle


# ---- S12, S13, S40: egress, middle, egress; the bottleneck's segment and its evidence


def test_the_bottleneck_is_named_with_its_segment_and_each_place_with_its_state() -> None:
    there = NarrowResult(
        FORWARD, 7, "shaper", (80e6, 79.9e6, 80.1e6), trains=3, narrow=(4,), named=4, confidence="high", because="longer prefixes were slower",
        seen=(LinkSeen(1, 150e6), LinkSeen(3, 150e6), LinkSeen(4, 150e6, 80e6, narrow=True)), outlasted=True,
    )  # fmt: skip
    late = LoadedHop(4, "10.0.3.1", 20, (2_000_000,) * 20, 20, (30_000_000,) * 20)
    back = LoadedPath(
        REVERSE,
        "16 TCP streams",
        (late,),
        after=1,
        before=4,
        by="queue",
        confidence="medium",
        because="hops 2 and 3 are silent",
    )
    found = verdict(
        Measurement(Step("narrow/forward", "narrow", direction=FORWARD), 0, 1, narrow=there),
        Measurement(Step("throughput/reverse/16", "throughput", direction=REVERSE), 0, 1, loaded_path=back),
    )
    assert [(place.name, place.state, place.said) for place in found.places] == [
        ("end A's egress", "measured", "at least 150 Mbit/s (L1)"),
        ("the middle", "measured", "80 Mbit/s (L1)"),
        ("the middle", "declared", "100 Mbit/s (L1) by contract"),
        ("end B's egress", "unknown", "neither measured nor declared"),
    ]
    pinned, bounded = found.demarcation
    assert "between hop 3 (10.0.2.2) and hop 4 (10.0.3.2): in core (Carrier B)" in pinned.sentence
    assert (pinned.confidence, pinned.settle) == ("high", "")
    assert "longer prefixes were slower" in pinned.evidence[0][1]
    assert "between hop 1 (10.0.6.1) and hop 4 (10.0.3.1)" in bounded.sentence
    assert bounded.segments == ("campus", "core")
    assert bounded.confidence == "low"
    assert "an agent at hop 2 (10.0.5.1), where they meet" in bounded.settle
