"""Real traces through real routers: hand-made namespaces, both families, both ways, with and without privilege."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from linkqual.errors import PeerError
from linkqual.model import Step, Trace
from linkqual.net import trace_sockets
from linkqual.net.trace import Target, trace
from linkqual.net.trace_scapy import SCAPY
from linkqual.net.trace_sockets import PLAIN, Codec
from linkqual.probes import path as path_probe
from linkqual.probes.bench import Bench
from linkqual.session.symmetry import compare
from linkqual.wire import trace_json

from .chain import Chain, build, entered, run

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces made by hand, as `ip netns` does, need root"),
]

NEAR_PORT, FAR_PORT = 40001, 33434
FAMILIES = [(socket.AF_INET, 4), (socket.AF_INET6, 6)]
STRAIGHT = ["near", "r1", "r2", "r3", "far"]
LONGER = ["near", "r1", "q1", "q2", "r3", "far"]
BESIDE = ["near", "r1", "q1", "r3", "far"]


@pytest.fixture(scope="module")
def chains() -> Iterator[Callable[..., Chain]]:
    """Chains by their two paths, each built once; all are gone at the end, whatever happened."""
    built: dict[tuple[str, ...], Chain] = {}

    def get(backward: list[str], silent: str = "", own: str = "") -> Chain:
        key = (*backward, silent, own)
        if key not in built:
            built[key] = build(STRAIGHT, backward)
            if silent:
                built[key].silence(silent)
        return built[key]

    try:
        yield get
    finally:
        for chain in built.values():
            chain.remove()


def both(chain: Chain, family: int, number: int, codec: Codec, **options: Any) -> tuple[Trace, Trace]:
    near, far = chain.address("near", "r1", number), chain.address("far", "r3", number)
    with entered(chain.name("far")):
        target = Target(far, FAR_PORT, near, family)
    with target, entered(chain.name("near")):
        forward = trace(far, NEAR_PORT, FAR_PORT, family, codec=codec, **options)
    with entered(chain.name("near")):
        target = Target(near, NEAR_PORT, far, family)
    with target, entered(chain.name("far")):
        reverse = trace(near, FAR_PORT, NEAR_PORT, family, **options)
    return forward, reverse


def routers(chain: Chain, nodes: list[str], number: int) -> list[set[str]]:
    """Every address of each node: which of them it answers from is the router's own choice."""
    return [{address[number == 6] for (node, _), address in chain.addresses.items() if node == name} for name in nodes]


def seen_in_order(found: Trace, chain: Chain, nodes: list[str], number: int) -> None:
    assert found.fault is None
    assert [hop.ttl for hop in found.hops] == list(range(1, len(nodes) + 1))
    for hop, addresses in zip(found.hops, routers(chain, nodes, number), strict=True):
        assert hop.address in addresses
        assert hop.rtt_ns
    assert [hop.reached for hop in found.hops] == [False] * (len(nodes) - 1) + [True]


@pytest.mark.parametrize(("family", "number"), FAMILIES)
@pytest.mark.parametrize("codec", [PLAIN, SCAPY], ids=["plain", "scapy"])
def test_a_longer_return_path_is_seen_from_both_ends(
    chains: Callable[..., Chain], family: int, number: int, codec: Codec
) -> None:
    chain = chains(LONGER)
    forward, reverse = both(chain, family, number, codec, tos=0xB9)
    seen_in_order(forward, chain, STRAIGHT[1:], number)
    seen_in_order(reverse, chain, LONGER[-2::-1], number)
    for hop in (*forward.hops, *reverse.hops):
        assert hop.quoted_tos == (None if hop.reached else 0xB9)
    found = compare(forward, reverse)
    assert found.verdict == "asymmetric"
    assert "forward crosses 3 routers, the return 4" in found.because
    assert trace_json.decode(json.loads(json.dumps(trace_json.encode(reverse)))) == reverse


@pytest.mark.parametrize("codec", [PLAIN, SCAPY], ids=["plain", "scapy"])
def test_one_chain_is_proven_symmetric_by_record_route(chains: Callable[..., Chain], codec: Codec) -> None:
    chain = chains(STRAIGHT)
    forward, reverse = both(chain, *FAMILIES[0], codec)
    seen_in_order(forward, chain, STRAIGHT[1:], 4)
    assert [hop.egress for hop in forward.hops] == [*(chain.address(*hop) for hop in pairwise(STRAIGHT[1:])), None]
    assert [hop.egress for hop in reverse.hops] == [*(chain.address(*hop) for hop in pairwise(STRAIGHT[-2::-1])), None]
    assert compare(forward, reverse).verdict == "symmetric"


def test_ipv6_has_no_record_route_and_three_routers_stay_undetermined(chains: Callable[..., Chain]) -> None:
    found = compare(*both(chains(STRAIGHT), *FAMILIES[1], PLAIN))
    assert found.verdict == "undetermined"
    assert "IPv6 has none" in found.because


@pytest.mark.parametrize(("family", "number"), FAMILIES)
def test_a_detour_of_one_router_and_equal_length(chains: Callable[..., Chain], family: int, number: int) -> None:
    chain = chains(BESIDE)
    forward, reverse = both(chain, family, number, PLAIN)
    seen_in_order(forward, chain, STRAIGHT[1:], number)
    seen_in_order(reverse, chain, BESIDE[-2::-1], number)
    assert compare(forward, reverse).verdict == "asymmetric"


def test_a_silent_router(chains: Callable[..., Chain]) -> None:
    chain = chains(STRAIGHT, silent="r2")
    forward, reverse = both(chain, *FAMILIES[0], PLAIN, rounds=1)
    assert [hop.address is None for hop in forward.hops] == [False, True, False, False]
    assert forward.hops[-1].reached
    assert forward.hops[1].egress == chain.address("r2", "r3")
    assert compare(forward, reverse).verdict == "symmetric"
    forward, reverse = both(chain, *FAMILIES[1], PLAIN, rounds=1)
    assert forward.hops[1].address is None
    assert compare(forward, reverse).verdict == "undetermined"


@pytest.mark.parametrize(("family", "number"), FAMILIES)
def test_without_the_right_to_raw_sockets(
    chains: Callable[..., Chain], monkeypatch: pytest.MonkeyPatch, family: int, number: int
) -> None:
    real = socket.socket

    def refuse(family: int, kind: int, protocol: int = 0) -> socket.socket:
        if kind == socket.SOCK_RAW:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        return real(family, kind, protocol)

    monkeypatch.setattr(trace_sockets.socket, "socket", refuse)
    chain = chains(LONGER)
    assert not trace_sockets.raw_permitted(family)
    if number == 4:
        with entered(chain.name("near")):
            told = path_probe.measure(Step("path", "path", {}), bench(chain, Agent(chain))).conditions
        assert all("without the right to raw sockets" in end.notes[0] for end in (told.near, told.far))
    forward, reverse = both(chain, family, number, SCAPY)
    seen_in_order(forward, chain, STRAIGHT[1:], number)
    seen_in_order(reverse, chain, LONGER[-2::-1], number)
    if number == 4:
        assert [hop.egress for hop in forward.hops] == [*(chain.address(*hop) for hop in pairwise(STRAIGHT[1:])), None]
    assert {hop.quoted_ttl for hop in forward.hops} == {None}


@pytest.mark.parametrize(("family", "number"), FAMILIES)
def test_a_closed_port_marks_the_destination_too(chains: Callable[..., Chain], family: int, number: int) -> None:
    chain = chains(STRAIGHT)
    with entered(chain.name("near")):
        found = trace(chain.address("far", "r3", number), NEAR_PORT, FAR_PORT, family)
    seen_in_order(found, chain, STRAIGHT[1:], number)


def test_what_the_system_refuses_is_a_fault(chains: Callable[..., Chain]) -> None:
    chain = chains(STRAIGHT)
    far = chain.address("far", "r3")
    with entered(chain.name("near")), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("", NEAR_PORT))
        busy = trace(far, NEAR_PORT, FAR_PORT)
        nowhere = trace("203.0.113.9", 0, FAR_PORT)
    assert busy.fault is not None
    assert "40001" in busy.fault.hint
    assert nowhere.fault is not None
    assert nowhere.fault.kind == "unreachable"


# ---- the probe


class Agent:
    """The far end's part of the control channel, in the far namespace: `trace` and `trace.target`."""

    def __init__(self, chain: Chain, *, refuses: str = "", answer: Any = None) -> None:
        self.chain, self.refuses, self.answer = chain, refuses, answer

    def call(self, name: str, hurried: Any = None, **args: Any) -> Any:
        if name == self.refuses:
            raise PeerError("not today", "ask again", "busy")
        if name == "trace.target":
            return {"port": args.get("port", FAR_PORT)}
        if self.answer is not None:
            return self.answer
        with entered(self.chain.name("far")):
            return trace_json.encode(trace(self.chain.address("near", "r1"), **args))


def bench(chain: Chain, control: Any, saved: dict[str, Any] | None = None) -> Bench:
    keep = {} if saved is None else saved
    return Bench(chain.address("far", "r3"), control=control, save_raw=keep.__setitem__)


def test_the_probe_traces_both_ways_along_one_flow(chains: Callable[..., Chain]) -> None:
    chain = chains(LONGER)
    saved: dict[str, Any] = {}
    with entered(chain.name("near")):
        got = path_probe.measure(
            Step("path", "path", {"max_hops": 12, "source_port": 41000}), bench(chain, Agent(chain), saved)
        )
    assert got.fault is None
    assert got.path is not None
    assert got.path.symmetry == "asymmetric"
    assert (got.path.forward.source_port, got.path.forward.destination_port) == (41000, FAR_PORT)
    assert (got.path.reverse.source_port, got.path.reverse.destination_port) == (FAR_PORT, 41000)
    assert len(got.path.forward.hops) == 4
    assert len(got.path.reverse.hops) == 5
    assert got.path.pairs[0] == (1, 4)
    assert got.path.pairs[-1] == (3, 1)
    assert json.loads(saved["path.json"])["reverse"]["hops"][4]["reached"]


@pytest.mark.parametrize(
    ("control", "kind"),
    [
        (lambda _chain: None, "no-agent"),
        (lambda chain: Agent(chain, refuses="trace"), "busy"),
        (lambda chain: Agent(chain, refuses="trace.target"), "busy"),
        (lambda chain: Agent(chain, answer={"hops": "many"}), "damaged-output"),
    ],
)
def test_without_a_trace_from_the_far_end_the_forward_one_is_kept(
    chains: Callable[..., Chain], control: Callable[[Chain], Any], kind: str
) -> None:
    chain = chains(LONGER)
    with entered(chain.name("near")):
        got = path_probe.measure(Step("path", "path", {"rounds": 1}), bench(chain, control(chain)))
    assert got.fault is not None
    assert got.fault.kind == kind
    assert got.path is not None
    assert got.path.symmetry == "undetermined"
    assert len(got.path.forward.hops) == 4
    assert not got.path.reverse.hops
    assert got.path.reverse.source == chain.address("far", "r3")
    assert "come back over" in got.path.because


@pytest.mark.parametrize(("kind", "ended"), [("prohibit", "refused"), ("unreachable", "unreachable")])
def test_a_router_that_refuses_or_knows_no_way_on_is_named(chains: Callable[..., Chain], kind: str, ended: str) -> None:
    chain = chains(STRAIGHT, own=kind)
    far, r2 = chain.address("far", "r3"), chain.address("r2", "r1")
    run(f"ip -n {chain.name('r2')} route replace {kind} {far}/32")
    with entered(chain.name("near")):
        found = trace(far, NEAR_PORT, FAR_PORT)
    assert found.fault is not None
    assert found.fault.kind == ended
    assert found.fault.message.startswith(f"{r2} at hop 2")
    assert [hop.reached for hop in found.hops] == [False, False]
