"""A virtual dedicated line as described: nodes, links, what each direction does, and what must be measured on it. Floor 3, pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

from linkqual.impair import Impairment, Rate
from linkqual.model import Direction, Link

DIRECTIONS = (Direction.FORWARD, Direction.REVERSE)
CAUSES = (
    "policer",
    "shaper",
    "per-flow cap",
    "hashing",
    "window",
    "loss",
)  # why a line falls short; as `Diagnosis.cause`


@dataclass(frozen=True, slots=True)
class Node:
    """A site (an end of the line) or a router between them."""

    name: str
    site: bool = False
    silent: bool = False  # sends no ICMP error: a hop without an address in a trace
    hides_mtu: bool = False  # drops packets that are too long for its next link and tells nobody
    icmp_interval_ns: int = 0  # one ICMP error in this time and no more; 0: as many as asked
    window_bytes: int = 0  # of a site: the largest receive window its TCP offers; 0: as its kernel likes


@dataclass(frozen=True, slots=True)
class LineLink:
    """A link between two nodes. `there` is what happens from `a` to `b`, `back` from `b` to `a`."""

    a: str
    b: str
    mtu: int = 1500
    there: Impairment = field(default_factory=Impairment)
    back: Impairment = field(default_factory=Impairment)

    @property
    def name(self) -> str:
        """ "r1 - r2"."""
        return f"{self.a} - {self.b}"

    @property
    def pumped(self) -> bool:
        """Whether its packets go through a pump: something but the rate happens on it."""
        return self.there.pumped or self.back.pumped

    def toward(self, node: str) -> Impairment:
        """What happens to packets arriving at `node`."""
        return self.there if node == self.b else self.back


@dataclass(frozen=True, slots=True)
class Expect:
    """The truth a test can check a measurement against. None: not stated."""

    rtt_ns: int | None = None  # median, with nothing queued
    loss: dict[Direction, float] = field(default_factory=dict)
    goodput_bps: dict[Direction, int] = field(default_factory=dict)  # what one TCP receiver gets
    verdict: dict[str, str] = field(default_factory=dict)  # by profile: "pass", "fail", "inconclusive"
    cause: dict[Direction, str] = field(default_factory=dict)  # why that direction falls short of the contract


@dataclass(frozen=True, slots=True)
class Line:
    """A line with two sites. `forward` and `reverse` name every node a packet meets, both ends included."""

    name: str
    title: str
    about: str
    nodes: tuple[Node, ...]
    links: tuple[LineLink, ...]
    forward: tuple[str, ...]
    reverse: tuple[str, ...]
    link: Link  # as contracted
    expect: Expect
    seed: int = 1

    @property
    def near(self) -> str:
        """The site where the measuring end stands."""
        return self.forward[0]

    @property
    def far(self) -> str:
        """The site where the agent stands."""
        return self.forward[-1]

    def path(self, direction: Direction) -> tuple[str, ...]:
        """Every node a packet of this direction meets, both ends included."""
        return self.forward if direction == Direction.FORWARD else self.reverse

    def node(self, name: str) -> Node:
        """The node called `name`; KeyError when there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def between(self, one: str, other: str) -> LineLink:
        """The link of two nodes; KeyError when there is none."""
        for link in self.links:
            if {link.a, link.b} == {one, other}:
                return link
        raise KeyError(f"{one} - {other}")

    def crossings(self, direction: Direction) -> Iterator[tuple[LineLink, str]]:
        """The links a direction crosses, in order, each with the node it arrives at."""
        path = self.path(direction)
        for here, there in pairwise(path):
            yield self.between(here, there), there

    def impairments(self, direction: Direction) -> tuple[Impairment, ...]:
        """What happens to a packet of this direction, link by link."""
        return tuple(link.toward(node) for link, node in self.crossings(direction))

    def mtu(self, direction: Direction) -> int:
        """The smallest MTU on the way."""
        return min(link.mtu for link, _ in self.crossings(direction))

    def delay_ns(self, direction: Direction, q: float = 0.5) -> float:
        """One-way delay as described, nothing queued: the sum over the links (exact for a quantile when one link has jitter)."""
        return sum(impairment.delay_quantile(q) for impairment in self.impairments(direction))

    def rtt_ns(self) -> float:
        """Median round-trip delay as described."""
        return sum(self.delay_ns(direction) for direction in DIRECTIONS)

    def loss(self, direction: Direction) -> float:
        """Loss ratio in the long run, exact places left out; over flows that fill the members of a bundle alike."""
        return 1 - prod(1 - impairment.loss_ratio for impairment in self.impairments(direction))

    def rate(self, direction: Direction) -> Rate | None:
        """The narrowest rate on the way for all flows together; None: nothing limits it."""
        rates = [impairment.rate for impairment in self.impairments(direction) if impairment.rate]
        return min(rates, key=lambda rate: rate.bps, default=None)

    def window_bytes(self, direction: Direction) -> int:
        """The largest window that TCP of this direction is offered; 0: as the receiving kernel likes."""
        return self.node(self.path(direction)[-1]).window_bytes
