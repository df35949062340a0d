"""The three places of a line: what each carries, who says so, and that one alone says nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from linkqual.model import (
    Direction,
    FlowsResult,
    LineSegment,
    Link,
    LinkSeen,
    LoadCount,
    LoadedPath,
    Measurement,
    NarrowResult,
    Place,
    Plan,
    Step,
    ThroughputResult,
    TrainsResult,
)
from linkqual.rules.places import rows

THERE, BACK = Direction.FORWARD, Direction.REVERSE
FOUND = NarrowResult(
    THERE, 4, "shaper", (50e6, 49.9e6, 50.1e6), trains=3, narrow=(3,), named=3, confidence="high",
    seen=(LinkSeen(1, 90e6), LinkSeen(2, 90e6, 55e6), LinkSeen(3, 90e6, 50e6, narrow=True)), counts="l2", overhead_bytes=18,
)  # fmt: skip
CONTRACT = Link(cir_bps=100_000_000)


def one(key: str, way: Direction, **result: Any) -> Measurement:
    return Measurement(Step(key, key.partition("/")[0], direction=way), 0, 1, **result)


def places(*taken: Measurement, link: Link = CONTRACT) -> tuple[Place, ...]:
    found = rows(Plan("training", (), (), link), taken)
    assert [(place.name, place.direction) for place in found] == [
        ("end A's egress", THERE), ("the middle", THERE), ("the middle", BACK), ("end B's egress", BACK),
    ]  # fmt: skip
    return found


def test_each_is_measured_declared_or_unknown() -> None:
    found = places(one("narrow/forward", THERE, narrow=FOUND))
    assert [place.state for place in found] == ["measured", "measured", "declared", "unknown"]
    assert found[0].said == "at least 90 Mbit/s (L2)"
    behind = replace(FOUND, seen=(LinkSeen(1, 90e6), LinkSeen(2, 93e6), LinkSeen(3, 90e6, 50e6, narrow=True)))
    assert (
        places(one("narrow/forward", THERE, narrow=behind))[0].said == "at least 93 Mbit/s (L2)"
    )  # it left by the egress too
    assert found[1].said == "50 Mbit/s (L2)"
    assert found[2].said == "100 Mbit/s (L1) by contract"
    assert found[3].said == "neither measured nor declared"
    assert ("declared", "100 Mbit/s (L1) by contract") in found[1].evidence
    assert places(link=Link())[2].state == "unknown"


def test_the_narrowest_hop_at_the_egress_bounds_the_middle() -> None:
    first = replace(FOUND, named=1, narrow=(1,), seen=(LinkSeen(1, 90e6, 50e6, narrow=True),))
    found = places(one("narrow/forward", THERE, narrow=first))
    assert [place.said for place in found[:2]] == ["50 Mbit/s (L2)", "at least 50 Mbit/s (L2)"]
    alone = replace(FOUND, named=1, links=1, narrow=(1,), seen=())
    assert places(one("narrow/forward", THERE, narrow=alone))[0].said == "50 Mbit/s (L2)"
    nothing = NarrowResult(THERE, 4, "none", at_least_bps=900e6)
    assert [place.said for place in places(one("narrow/forward", THERE, narrow=nothing))[:2]] == [
        "at least 900 Mbit/s (L1)"
    ] * 2


def test_what_was_carried_contradicts_a_smaller_figure() -> None:
    def found(bps: float) -> tuple[Place, ...]:
        tcp = one("throughput/forward/16", THERE, throughput=ThroughputResult(16, (bps,) * 3))
        first = replace(FOUND, named=1, narrow=(1,), seen=(LinkSeen(1, 90e6, 50e6, narrow=True),))
        return places(one("narrow/forward", THERE, narrow=first), tcp)

    egress, middle, *_ = found(200e6)
    assert egress.state == "unknown"
    assert "contradict each other: 50 Mbit/s (L2)" in egress.said
    assert "at least 200 Mbit/s of TCP payload" in egress.said
    assert len(egress.evidence) == 3  # both ways of reading the trains, and the load
    assert middle.said == "at least 200 Mbit/s of TCP payload"
    assert found(52e6)[0].said == "50 Mbit/s (L2)"  # no more than a bucket lets through at first


def test_every_load_bounds_the_whole_way() -> None:
    tcp = one("throughput/forward/16", THERE, throughput=ThroughputResult(16, (92e6, 94e6)))
    slow = one("throughput/forward/1", THERE, throughput=ThroughputResult(1, (20e6,)))
    trains = one("trains/reverse", BACK, trains=TrainsResult(BACK, (), "shaper", (40e6, 39e6, 41e6)))
    found = places(slow, tcp, trains)
    assert [place.state for place in found] == ["measured"] * 4
    assert [place.said for place in found] == ["at least 93 Mbit/s of TCP payload"] * 2 + [
        "at least 40 Mbit/s (L1)"
    ] * 2
    assert found[0].evidence[0] == (
        "throughput/forward/16, mean of 2 s over 16 streams",
        "at least 93 Mbit/s of TCP payload",
    )
    both = one(
        "throughput/both/4", Direction.ROUND_TRIP, throughput=ThroughputResult(4, (10e6,)), throughput_back=ThroughputResult(4, (30e6,))
    )  # fmt: skip
    assert [place.said for place in places(both)] == ["at least 10 Mbit/s of TCP payload"] * 2 + [
        "at least 30 Mbit/s of TCP payload"
    ] * 2


def test_udp_flows_bound_it_as_well() -> None:
    def count(flows: int, received: int) -> LoadCount:
        return LoadCount(
            f"{flows} flows",
            THERE,
            10**8,
            10**9,
            ((1500, 1),),
            flows,
            True,
            9000,
            received=received,
            received_bytes=received * 1500,
            received_ns=10**9,
        )

    found = places(one("flows/forward", THERE, flows=FlowsResult((count(1, 1000), count(16, 4000)), ())))
    assert [place.said for place in found[:2]] == ["at least 48 Mbit/s (L3)"] * 2
    assert ("flows/forward, 1 UDP flow", "at least 12 Mbit/s (L3)") in found[0].evidence
    assert found[3].state == "unknown"


def test_where_a_queue_begins_is_evidence_for_one_place() -> None:
    def loaded(after: int | None, before: int | None) -> list[bool]:
        path = LoadedPath(THERE, "16 TCP streams", after=after, before=before, by="queue", confidence="medium")
        found = places(one("throughput/forward/16", THERE, throughput=ThroughputResult(16, (93e6,)), loaded_path=path))
        return [any("16 TCP streams begins" in showed for _, showed in place.evidence) for place in found]

    assert loaded(0, 1) == [True, False, False, False]
    assert loaded(1, 2) == [False, True, False, False]
    assert loaded(0, 2) == [False] * 4
    assert loaded(None, None) == [False] * 4


def test_a_link_file_says_what_the_edges_carry() -> None:
    segments = (
        LineSegment("access", "near", "10.0.0.1", rate_bps=10**9),
        LineSegment("campus", "10.0.0.1", "far", rate_bps=2 * 10**9),
    )
    found = places(link=Link(segments=segments))
    assert [(place.state, place.said) for place in found] == [
        ("declared", "1 Gbit/s (L1) of access, by link file"),
        ("unknown", "neither measured nor declared"),
        ("unknown", "neither measured nor declared"),
        ("declared", "2 Gbit/s (L1) of campus, by link file"),
    ]
