"""The probe of many flows: over a load in memory, and over a bundle of real packets with one lossy member."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from linkqual.errors import HostError
from linkqual.lab import line as lines
from linkqual.lab.network import VirtualLine
from linkqual.model import Direction, EndConditions, Fault, LoadCount, MembersResult, Step
from linkqual.net.control import Control
from linkqual.plan.members import FIRST, NEXT
from linkqual.probes import member_traces, members
from linkqual.probes.bench import Bench
from linkqual.probes.loading import Loaded
from linkqual.session import routes
from linkqual.session.load_phase import Phase
from linkqual.units import NS_PER_S
from linkqual.wire.load import ARRIVAL
from linkqual.wire.pairing import Peer

from ..lab.isolated import isolated, require_isolation
from .conftest import SCRIPT

FLOWS = 16
PARAMS = {
    "flows": FLOWS, "packet_bytes": 128, "rate_bps": 8_000_000, "max_rate_bps": None, "first": FIRST, "next": NEXT, "packets": 4_000, "traces": 0,
}  # fmt: skip
STEP = Step("members/reverse", "members", PARAMS, Direction.REVERSE, total_bytes=10**8)


class Line:
    """A load whose every fourth flow loses that share and takes that much longer. `taken`: ports that are somebody's already."""

    def __init__(self, loss: float = 0.0, slower_ns: int = 0, fault_at: int = 99, taken: int = 0) -> None:
        self.loss, self.slower_ns, self.fault_at, self.taken = loss, slower_ns, fault_at, taken
        self.sent: list[Phase] = []
        self._chance = np.random.default_rng(5)

    @contextlib.contextmanager
    def opened(self, _bench: Bench, _way: Direction, *, near_port: int, **asked: Any) -> Iterator[Any]:
        if self.taken:
            self.taken -= 1
            raise HostError("address in use", "")
        line = self

        class Load:
            ports, far_port = tuple(range(near_port, near_port + asked["flows"])), 4863
            near, far = EndConditions(), EndConditions()

            def run(self, phase: Phase) -> Loaded:
                line.sent.append(phase)
                return line.run(phase)

        yield Load()

    def run(self, phase: Phase) -> Loaded:
        rows = np.zeros(phase.packets, ARRIVAL)
        rows["seq"] = np.arange(phase.packets)
        rows["flow"] = rows["seq"] % phase.flows
        bad = rows["flow"] % 4 == 1
        rows["sent_ns"] = rows["seq"] * 100_000
        noise = self._chance.exponential(5_000, phase.packets).astype(np.int64)
        rows["received_ns"] = rows["sent_ns"] + 5_000_000 + noise + bad * self.slower_ns
        kept = rows[~bad | (self._chance.random(phase.packets) >= self.loss)]
        flows = tuple(
            (phase.packets // phase.flows, int((kept["flow"] == flow).sum()), 0) for flow in range(phase.flows)
        )
        count = LoadCount(
            phase.name, Direction.REVERSE, phase.rate_bps, 0, phase.sizes, phase.flows, sent=phase.packets, received=len(kept), by_flow=flows
        )  # fmt: skip
        if len(self.sent) >= self.fault_at:
            return Loaded(replace(count, short="interrupted"), kept, Fault("interrupted", "was interrupted"))
        return Loaded(count, kept)


def measured(line: Line, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(members.loading, "opened", line.opened)
    return members.measure(STEP, Bench("192.0.2.9", "192.0.2.1"))


def bad(result: MembersResult, kind: str) -> list[int]:
    return [
        port - result.flows[0].near_port
        for group in members.members.read(result).groups
        if group.kind == kind
        for port in group.ports
    ]


def test_a_clean_line_is_let_go_after_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line()
    got = measured(line, monkeypatch)
    assert got.fault is None
    assert [phase.packets for phase in line.sent] == [FLOWS * FIRST]
    assert [flow.sent for flow in got.members.flows] == [FIRST] * FLOWS
    assert not members.members.read(got.members).groups


def test_losses_are_followed_until_it_is_clear_whose_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(loss=0.03)
    got = measured(line, monkeypatch).members
    assert bad(got, "loss") == [1, 5, 9, 13]
    assert 2 <= len(line.sent) <= 6
    assert sum(phase.packets for phase in line.sent) <= FLOWS * PARAMS["packets"]


def test_a_slow_path_is_seen_in_the_first_round(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(slower_ns=300_000)
    assert bad(measured(line, monkeypatch).members, "path") == [1, 5, 9, 13]
    assert len(line.sent) == 1


def test_what_was_counted_before_the_end_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    got = measured(Line(loss=0.03, fault_at=2), monkeypatch)
    assert got.fault.kind == "interrupted"
    assert got.members.short == "interrupted"
    assert len(got.members.flows[0].rounds) == 2


def test_ports_are_the_same_in_every_run_and_others_where_they_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = (measured(Line(), monkeypatch).members.flows for _ in range(2))
    assert [flow.near_port for flow in first] == [flow.near_port for flow in again]
    elsewhere = measured(Line(taken=1), monkeypatch).members.flows
    assert elsewhere[0].near_port == first[0].near_port + members.ELSEWHERE
    assert measured(Line(taken=9), monkeypatch).fault.kind == "host"


def test_without_an_agent_it_is_a_fault() -> None:
    got = members.measure(STEP, Bench("192.0.2.9"))
    assert got.fault is not None
    assert (got.fault.kind, got.members) == ("no-agent", None)


LINE = """
title: A lossy member
about: A bundle of four, the third of which loses 10 % there.
sites: [here, there]
forward: [r1, r2]
links:
  - between: [r1, r2]
    both: {delay: 1 ms, rate: {limit: 200 Mbit/s, kind: shaper, bucket: 16 kB, buffer: 30 ms, members: 4}}
    forward: {loss: {ratio: 10 %, member: 3}}
"""


def _measure() -> Any:
    """Inside an isolation: each direction once, forward a second time."""
    member_traces.GAP_NS = NS_PER_S // 20  # these routers limit nothing
    params = PARAMS | {"flows": 24, "rate_bps": 16_000_000, "first": 100, "next": 300, "packets": 400}
    with VirtualLine(lines.parse(LINE, "test")) as virtual:
        command = [sys.executable, "-c", SCRIPT, virtual.address("there"), str(10**9)]
        agent = virtual.popen("there", command, stdout=subprocess.PIPE, text=True)
        assert agent.stdout is not None
        virtual.enter("here")
        with Control.connect(Peer.parse(agent.stdout.readline())) as control:
            bench = Bench(control.peer_address, control.near_address, control=control)
            steps = {way: Step(f"members/{way}", "members", params, way, total_bytes=10**8) for way in _WAYS}
            got = [members.measure(steps[Direction.FORWARD], bench) for _ in range(2)]
            truth = virtual.truth()["forward"]["udp"]["dropped"]
            got.append(members.measure(steps[Direction.REVERSE], bench))
        assert not [one.fault for one in got if one.fault]
        read = [members.members.read(one.members) for one in got if one.members]
    return [[asdict(group) for group in one.groups] for one in read], [one.lost for one in read], truth


_WAYS = (Direction.FORWARD, Direction.REVERSE)


@pytest.mark.lab
def test_a_lossy_member_of_a_real_bundle_and_the_same_flows_again() -> None:
    require_isolation()
    (first, again, back), lost, truth = isolated(_measure)
    loss, second = ([group for group in run if group["kind"] == "loss"] for run in (first, again))
    assert len(loss) == len(second) == 1
    assert 2 <= len(loss[0]["ports"]) <= 12  # a quarter of 24, as the hash has it
    assert set(loss[0]["ports"]) <= {*second[0]["ports"], *second[0]["unclear"]}
    assert set(second[0]["ports"]) <= {*loss[0]["ports"], *loss[0]["unclear"]}
    assert loss[0]["others"][0] == 0
    assert lost[0] + lost[1] <= truth <= lost[0] + lost[1] + 30  # but for greetings and traces
    assert not [group for group in back if group["kind"] == "loss"]


SPREAD = """
title: Two routers side by side
about: Flows are spread over north and south each way; south takes 3 ms more.
sites: [here, there]
forward: [r1, north, r2]
reverse: [r2, south, r1]
links:
  - between: [north, r2]
    both: {delay: 1 ms}
  - between: [south, r2]
    both: {delay: 4 ms}
"""


def _spread() -> Any:
    """Inside an isolation: r1 hashes ports over both routers, r2 over both on the way back."""
    member_traces.GAP_NS = NS_PER_S // 20
    params = PARAMS | {"flows": 32, "first": 60, "packets": 60, "traces": 20}
    with VirtualLine(lines.parse(SPREAD, "test")) as virtual:
        for router, target in (("r1", virtual.far), ("r2", virtual.near)):
            hops = [(virtual.line.between(router, via), via) for via in ("north", "south")]
            nexthops = " ".join(
                f"nexthop via {virtual._on_link(link, via, 4)} dev {virtual._interface(link)}" for link, via in hops
            )
            virtual.spaces[router].sysctl({"ipv4/fib_multipath_hash_policy": 3, "ipv4/fib_multipath_hash_fields": 0x37})
            virtual.spaces[router].run(["ip", "route", "replace", virtual.address(target), *nexthops.split()])
        command = [sys.executable, "-c", SCRIPT, virtual.address("there"), str(10**9)]
        agent = virtual.popen("there", command, stdout=subprocess.PIPE, text=True)
        assert agent.stdout is not None
        virtual.enter("here")
        with Control.connect(Peer.parse(agent.stdout.readline())) as control:
            bench = Bench(control.peer_address, control.near_address, control=control)
            steps = [Step(f"members/{way}", "members", params, way, total_bytes=10**8) for way in _WAYS]
            got = [members.measure(step, bench) for step in steps]
    assert not [one.fault for one in got if one.fault]
    return [_seen(one.members) for one in got if one.members]


def _seen(result: MembersResult) -> dict[str, Any]:
    found, groups = routes.parting(result.traces), members.members.read(result).groups
    assert found is not None, result
    return asdict(found) | {
        "flows": found.flows,
        "short": result.traces_short,
        "lengths": [len(trace.hops) for trace in result.traces],
        "slow": [asdict(group) | {"paths": group.paths} for group in groups],
        "apart": [routes.apart(result.traces, group.ports)[:3] for group in groups],  # type: ignore[index]
    }


@pytest.mark.lab
def test_flows_on_other_routers_are_traced_from_both_ends() -> None:
    require_isolation()
    for found in isolated(_spread):
        assert (found["hop"], found["paths"], len(found["ways"])) == (2, 2, 2)
        assert 11 <= found["flows"] <= 20
        assert not found["short"]
        assert set(found["lengths"]) == {3}
        (slow,) = found["slow"]
        assert (slow["kind"], slow["paths"]) == ("path", 2)
        assert slow["excess_ns"] == pytest.approx(3_000_000, rel=0.2)
        assert found["apart"] == [[1, 2, None]]  # the router behind answers from the link each flow came by
