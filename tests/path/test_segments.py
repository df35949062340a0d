"""Segments on random networks: whoever is named is the one, and where nobody can be, the true one is among those possible."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from linkqual.model import Direction, Hop, LineSegment, Measurement, PathResult, Step, Trace
from linkqual.rules import ways
from linkqual.session.segments import owners, placed
from linkqual.session.symmetry import compare

from .test_symmetry import Network

FORWARD = Direction.FORWARD


def walked(net: Network, source: int, target: int, record: bool) -> tuple[Trace, list[int]]:
    """The trace, and the nodes it meets, both ends included."""
    taken, shown, told = net.walk(source, target, record)
    ends = {
        host: next(net.address[k, host] for k, link in enumerate(net.links) if host in link)
        for host in (source, target)
    }
    nodes = [source]
    for link in taken:
        nodes.append(sum(net.links[link]) - nodes[-1])
    hops = [
        Hop(ttl, address, egress=egress if address else None)
        for ttl, (address, egress) in enumerate(zip(shown, told, strict=True), 1)
    ]
    return Trace(ends[source], ends[target], 1, 2, (*hops, Hop(len(nodes) - 1, ends[target], reached=True))), nodes


def owner(nodes: list[int], link: int, first: int, second: int, way: Direction) -> str | None:
    """The segment of a link of a way whose hand-overs are the routers `first` and `second`; None: the way does not meet both in that order."""
    if first not in nodes or second not in nodes:
        return None
    a, b = nodes.index(first), nodes.index(second)
    if (a < b) is not (way is FORWARD):
        return None
    return (
        ("a" if link <= a else "b" if link <= b else "c")
        if way is FORWARD
        else ("c" if link <= b else "b" if link <= a else "a")
    )


def _spelt(kind: str, ttl: int, trace: Trace) -> str:
    return {"number": str(ttl), "prefix": f"{trace.hops[ttl - 1].address}/32"}.get(
        kind, str(trace.hops[ttl - 1].address)
    )


@pytest.mark.parametrize("inbound", [1.0, 0.0, 0.5])
@pytest.mark.parametrize("silent", [0.0, 0.2])
def test_never_the_wrong_segment(inbound: float, silent: float) -> None:
    seen: Counter[tuple[Direction, bool, bool]] = Counter()
    for seed in range(60):
        dice, net = random.Random(seed), Network(seed, inbound, silent, dense=seed % 2 == 0)
        record = dice.random() < 0.5
        (there, nodes_there), (back, nodes_back) = (
            walked(net, net.near, net.far, record),
            walked(net, net.far, net.near, record),
        )
        visible = [ttl for ttl, hop in enumerate(there.hops[:-1], 1) if hop.address]
        if len(visible) < 2:
            continue
        found = compare(there, back)
        first, second = sorted(dice.sample(visible, 2))
        kind = dice.choice(("address", "number", "prefix"))
        one, other = (_spelt(kind, ttl, there) for ttl in (first, second))
        segments = (LineSegment("a", "near", one), LineSegment("b", one, other), LineSegment("c", other, "far"))
        taken = [
            Measurement(
                Step("path", "path"), 0, 1, path=PathResult(there, back, found.verdict, found.because, found.pairs)
            )
        ]
        for way, nodes in ((FORWARD, nodes_there), (Direction.REVERSE, nodes_back)):
            lie = placed(segments, ways.of(taken, way))
            for link in range(1, len(nodes)):
                true = owner(nodes, link, nodes_there[first], nodes_there[second], way)
                said = owners(lie, link - 1, link)
                if true is not None:
                    seen[way, said.certain, true in said.names] += 1
    assert not [key for key in seen if not key[2]]
    assert seen[FORWARD, True, True] > 100
    assert seen[FORWARD, False, True] == 0
    assert seen[Direction.REVERSE, True, True] > 2 * seen[Direction.REVERSE, False, True]
