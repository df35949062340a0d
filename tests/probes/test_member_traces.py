"""Which flows are traced, from which end, and what ends it early: over traces made up."""

from __future__ import annotations

from typing import Any

import pytest

from linkqual.errors import PeerError
from linkqual.model import Direction, Fault, Hop, MemberFlow, MembersResult, Trace
from linkqual.probes import member_traces
from linkqual.probes.bench import Bench, Progress
from linkqual.wire import trace_json

FORWARD, REVERSE = Direction.FORWARD, Direction.REVERSE


def result(direction: Direction = FORWARD, lossy: int = 0) -> MembersResult:
    """16 flows, the first of which lose packets."""
    flows = tuple(
        MemberFlow(port, ((250, 250 - 30 * (port <= lossy)), (750, 750 - 90 * (port <= lossy))))
        for port in range(1, 17)
    )
    return MembersResult(direction, flows, "10.0.0.1", "10.0.9.1", 4863, 128, 10**7)


def made(source_port: int, destination_port: int, *, ways: int = 1) -> Trace:
    port = source_port if destination_port == 4863 else destination_port
    hops = (Hop(1, "10.0.0.2"), Hop(2, f"10.0.{1 + port % ways}.2"), Hop(3, None), Hop(4, "10.0.9.1", reached=True))
    return Trace("10.0.0.1", "10.0.9.1", source_port, destination_port, hops)


class Agent:
    """Traces back; `refuses` after so many."""

    def __init__(self, refuses: int = 99) -> None:
        self.asked: list[dict[str, Any]] = []
        self._left = refuses

    def call(self, name: str, hurried: Any = None, **arguments: Any) -> Any:
        assert name == "trace"
        self.asked.append(arguments)
        self._left -= 1
        if self._left < 0:
            raise PeerError("the agent is closing", "", "state")
        return trace_json.encode(made(arguments["source_port"], arguments["destination_port"]))

    def lost(self) -> bool:
        return False


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_traces, "GAP_NS", 0)


def forward(monkeypatch: pytest.MonkeyPatch, *, ways: int = 1) -> list[tuple[int, int]]:
    """The flows that are traced from here: (source port, destination port)."""
    sent: list[tuple[int, int]] = []

    def trace(_address: str, source_port: int, destination_port: int, *_more: object) -> Trace:
        sent.append((source_port, destination_port))
        return made(source_port, destination_port, ways=ways)

    monkeypatch.setattr(member_traces, "trace", trace)
    return sent


def ports(found: MembersResult) -> list[int]:
    return [trace.near_port for trace in found.traces]


def test_nothing_is_traced_where_flows_fare_alike_unless_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = forward(monkeypatch)
    bench = Bench("10.0.9.1", "10.0.0.1")
    assert member_traces.traced(bench, result(), 0, 10**9).traces == ()
    assert not sent
    found = member_traces.traced(bench, result(), 33, 10**9)
    assert ports(found) == [1, 2, 3, 4, 5, 6]
    assert sent == [(port, 4863) for port in range(1, 7)]
    assert found.traces[0].hops == ("10.0.0.2", "10.0.1.2", None)  # the end is no router
    assert not found.traces_short


def test_flows_that_differ_are_sampled_beside_others(monkeypatch: pytest.MonkeyPatch) -> None:
    forward(monkeypatch)
    found = member_traces.traced(Bench("10.0.9.1", "10.0.0.1"), result(lossy=4), 0, 10**9)
    assert ports(found) == [1, 2, 5, 6]
    assert not found.traces_short  # more was not asked for


def test_as_many_as_were_allowed_and_each_router_again(monkeypatch: pytest.MonkeyPatch) -> None:
    forward(monkeypatch, ways=2)
    told: list[Progress] = []
    found = member_traces.traced(Bench("10.0.9.1", "10.0.0.1", progress=told.append), result(), 33, 10**9)
    assert ports(found) == [*range(1, 12), 1, 2]
    assert all(one.done <= (one.total or 0) for one in told)
    few = member_traces.traced(Bench("10.0.9.1", "10.0.0.1"), result(), 4, 10**9)
    assert few.traces_short == "no more than 4 were to be traced"


def test_the_far_end_traces_back_along_the_flow() -> None:
    agent = Agent()
    bench = Bench("10.0.9.1", "127.0.0.1", control=agent)  # type: ignore[arg-type]
    found = member_traces.traced(bench, result(REVERSE), 33, 10**9)
    assert ports(found) == [1, 2, 3, 4, 5, 6]
    assert {asked["source_port"] for asked in agent.asked} == {4863}
    assert [asked["destination_port"] for asked in agent.asked] == ports(found)
    assert {asked["rounds"] for asked in agent.asked} == {1}


def test_what_was_traced_before_an_end_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(refuses=2)
    bench = Bench("10.0.9.1", "127.0.0.1", control=agent)  # type: ignore[arg-type]
    found = member_traces.traced(bench, result(REVERSE), 33, 10**9)
    assert (ports(found), found.traces_short) == ([1, 2], "the agent is closing")
    forward(monkeypatch)
    monkeypatch.setattr(member_traces, "GAP_NS", 10**10)
    calls = iter([False, True])
    stopped = Bench("10.0.9.1", "10.0.0.1", interrupted=lambda: next(calls, True))
    found = member_traces.traced(stopped, result(), 33, 10**9)
    assert (ports(found), found.traces_short) == ([1], "it was interrupted")
    monkeypatch.setattr(member_traces, "GAP_NS", 0)
    late = member_traces.traced(Bench("10.0.9.1", "10.0.0.1"), result(), 33, -1)
    assert (late.traces, late.traces_short) == ((), "the time for traces is over")
    fault = Trace("10.0.0.1", "10.0.9.1", 1, 4863, fault=Fault("host", "trace: no buffers", ""))
    monkeypatch.setattr(member_traces, "trace", lambda *_: fault)
    none = member_traces.traced(Bench("10.0.9.1", "10.0.0.1"), result(), 33, 10**9)
    assert (none.traces, none.traces_short) == ((), "trace: no buffers")


def test_without_an_agent_nothing_is_traced_back() -> None:
    found = member_traces.traced(Bench("10.0.9.1", "10.0.0.1"), result(REVERSE), 33, 10**9)
    assert (found.traces, found.traces_short) == ((), "no agent traces back")
