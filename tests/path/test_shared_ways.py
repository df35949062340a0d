"""Further flows of a path: what they meet, in words and numbers, and when enough were traced."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from linkqual.errors import PeerError
from linkqual.model import Hop, MemberTrace, PathResult, Trace
from linkqual.probes import path_flows
from linkqual.probes.bench import Bench
from linkqual.rules import shared_ways as rules
from linkqual.session import shared_ways
from linkqual.wire import trace_json

NEAR, FAR = "10.0.0.1", "10.0.9.2"


def trace(source: str, destination: str, ports: tuple[int, int], *routers: str | None) -> Trace:
    hops = [Hop(ttl, address) for ttl, address in enumerate(routers, 1)]
    return Trace(source, destination, *ports, (*hops, Hop(len(hops) + 1, destination, reached=True)))


ALONE = PathResult(
    trace(NEAR, FAR, (40001, 33434), "10.0.0.2", "10.0.1.2", "10.0.3.2"),
    trace(FAR, NEAR, (33434, 40001), "10.0.9.1", "10.0.4.1", "10.0.2.1"),
    "asymmetric",
)
UPPER, LOWER = ("10.0.0.2", "10.0.1.2", "10.0.3.2"), ("10.0.0.2", "10.0.2.2", "10.0.4.2")
HOME_UPPER, HOME_LOWER = ("10.0.9.1", "10.0.3.1", "10.0.1.1"), ("10.0.9.1", "10.0.4.1", "10.0.2.1")


def of(*ways: tuple[tuple[str, ...], tuple[str, ...]]) -> PathResult:
    return replace(
        ALONE,
        flows=tuple(MemberTrace(50000 + k, there) for k, (there, _) in enumerate(ways)),
        flows_back=tuple(MemberTrace(50000 + k, back) for k, (_, back) in enumerate(ways)),
    )


def text(path: PathResult) -> str:
    return "\n".join(note.sentence for note in rules.notes(path))


def test_one_flow_alone_says_nothing() -> None:
    assert text(ALONE) == ""
    assert shared_ways.in_common(ALONE) is None


def test_ways_of_both_directions_are_the_same_though_one_flow_takes_two() -> None:
    """The flow goes by the upper way and comes back by the lower one; over all flows both directions take both."""
    path = of((LOWER, HOME_UPPER), (UPPER, HOME_UPPER), (LOWER, HOME_LOWER), (LOWER, HOME_LOWER), (UPPER, HOME_UPPER))
    found = shared_ways.in_common(path)
    assert found is not None
    assert found.union == 1.0
    assert found.single < 0.5
    said = text(path)
    assert "forward, 6 flows that differ by a port alone are shared from hop 2 on: 10.0.1.2 (3), 10.0.2.2 (3)" in said
    assert "the compared flow meets 10.0.1.2" in said
    assert "further ways may exist" in said
    assert "about the flow between ports 40001 and 33434 alone" in said


def test_six_flows_exclude_a_second_way_and_five_do_not() -> None:
    same = of(*[(UPPER, HOME_LOWER)] * 5)
    assert "6 flows that differ by a port alone meet the same routers" in text(same)
    assert "5 % at most" in text(same)
    assert "too few to exclude" in text(of(*[(UPPER, HOME_LOWER)] * 4))


def test_how_many_flows_are_wanted() -> None:
    assert shared_ways.wanted(ALONE, 1) == 1
    assert shared_ways.wanted(ALONE, 64) == 6
    assert shared_ways.wanted(of((LOWER, HOME_LOWER)), 64) == 11
    assert shared_ways.wanted(of((LOWER, HOME_LOWER)), 8) == 8


# ---- the probe


class Far:
    """The agent: every flow comes back by the lower way. `breaks`: after so many traces it is gone."""

    def __init__(self, breaks: int = 99) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._breaks = breaks

    def call(self, name: str, hurried: Any = None, **asked: Any) -> Any:
        self.asked.append((name, asked))
        if len(self.asked) > self._breaks:
            raise PeerError("gone", "", "peer-lost")
        if name == "trace":
            found = trace(FAR, NEAR, (asked["source_port"], asked["destination_port"]), *HOME_LOWER)
            return json.loads(json.dumps(trace_json.encode(found)))
        return {"port": asked["port"]}

    def lost(self) -> bool:
        return False


@pytest.mark.parametrize(("breaks", "most", "further"), [(99, 64, 5), (99, 3, 2), (5, 64, 2), (99, 1, 0)])
def test_flows_are_traced_until_another_way_is_excluded(
    monkeypatch: pytest.MonkeyPatch, breaks: int, most: int, further: int
) -> None:
    ports = iter(range(50000, 50100))
    monkeypatch.setattr(path_flows, "GAP_NS", 0)
    monkeypatch.setattr(path_flows, "Target", lambda *_: nullcontext())
    monkeypatch.setattr(path_flows, "trace", lambda *_: trace(NEAR, FAR, (next(ports), 33434), *UPPER))
    far = Far(breaks)
    found = path_flows.traced(Bench(FAR, NEAR, control=far), ALONE, most, 30)  # type: ignore[arg-type]
    assert [flow.near_port for flow in found.flows] == list(range(50000, 50000 + further))
    assert {flow.hops for flow in found.flows} <= {UPPER}
    assert {flow.hops for flow in found.flows_back} <= {HOME_LOWER}
    assert {asked["source_port"] for name, asked in far.asked if name == "trace"} <= {33434}


def test_an_interruption_keeps_the_flows_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    far = Far()
    bench = Bench(FAR, NEAR, control=far, interrupted=lambda: True)  # type: ignore[arg-type]
    assert path_flows.traced(bench, ALONE, 64, 30) == ALONE
    assert not far.asked
