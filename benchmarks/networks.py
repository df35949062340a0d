"""Random networks between two sites; `network_lab` builds them of namespaces.

A network is links with a cost for each direction; what leads to a site is its cheapest way, over all cheapest ones where routers
share the flows among them. Kinds: "same" (one chain both ways), "detour" (some routers replaced by as many), "longer" (by more),
"parallel" (another link between the same two routers), "ecmp" (equal ways, the flow decides), "lan" (two gateways beside a site),
"random" (any graph).
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from dataclasses import dataclass, field
from ipaddress import ip_address
from itertools import pairwise

NEAR, FAR = "near", "far"
KINDS = ("same", "detour", "longer", "parallel", "ecmp", "lan", "random")

Step = tuple[int, str]  # a link, and the node it is left to


@dataclass
class Network:
    """`links`: the nodes on each, two, or more on a LAN. `cost`: of a link toward a node."""

    kind: str
    links: list[tuple[str, ...]] = field(default_factory=list)
    cost: dict[Step, float] = field(default_factory=dict)
    shared: bool = False  # routers spread flows over all cheapest ways
    # IPv4: routers that send ICMP errors from where the packet came in, not from where their own way back begins
    inbound: frozenset[str] = frozenset()
    one_name: frozenset[str] = frozenset()  # routers that send from one address of theirs (unless `inbound`)
    silent: frozenset[str] = frozenset()
    limited: bool = False  # one ICMP error a second and destination, after a few at once, as Linux does by default
    no_options: str = ""  # a router that drops packets with IPv4 options
    short: bool = False  # /31 and /127 instead of /30 and /126
    dense: bool = False  # all subnets side by side, else far from each other
    hosts: list[dict[str, int]] = field(default_factory=list)  # of each link: the place of each node in its subnet
    blocks: list[int] = field(default_factory=list)

    @property
    def nodes(self) -> list[str]:
        """Ends and routers."""
        return sorted({node for link in self.links for node in link})

    def address(self, link: int, node: str, version: int) -> str:
        """Of a node on a link."""
        place = self.blocks[link] * (8 if self.dense else 256) + self.hosts[link][node]
        return f"10.91.{place >> 8}.{place & 255}" if version == 4 else str(ip_address(f"fd91::{place:x}"))

    def length(self, link: int, version: int) -> int:
        """Prefix length of a link's subnet."""
        shortest = 29 if len(self.links[link]) > 2 else 31 if self.short else 30
        return shortest if version == 4 else shortest + 96

    def site(self, node: str, version: int) -> str:
        """Address of an end."""
        return self.address(next(k for k, link in enumerate(self.links) if node in link), node, version)

    def addresses(self, node: str, version: int) -> set[str]:
        """All of a node's."""
        found = {self.address(k, node, version) for k, link in enumerate(self.links) if node in link}
        return found | ({self.name(node, version)} if node in self.one_name else set())

    def name(self, node: str, version: int) -> str:
        """The address of a router that is on none of its links."""
        number = self.nodes.index(node) + 1
        return f"10.92.0.{number}" if version == 4 else f"fd92::{number:x}"

    def ways(self, target: str) -> dict[str, list[Step]]:
        """The links of each node that are best toward `target`, each with the node at its other end. Ends forward nothing."""
        best, way, reached = {target: 0.0}, defaultdict(list), [(0.0, target)]
        while reached:
            cost, node = heapq.heappop(reached)
            if cost > best[node] or (node in {NEAR, FAR} and node != target):
                continue
            for k, link in enumerate(self.links):
                for other in link if node in link else ():
                    total = cost + self.cost[k, node]
                    if other == node or total > best.get(other, 1e9):
                        continue
                    if total < best.get(other, 1e9):
                        way[other] = []
                        heapq.heappush(reached, (total, other))
                    best[other] = total
                    way[other].append((k, node))
        return {node: steps if self.shared else steps[:1] for node, steps in way.items()}


def network(seed: int, kind: str = "") -> Network:
    """The network of that seed; the same every time."""
    dice = random.Random(seed)
    made = Network(kind or KINDS[seed % len(KINDS)])
    _random_links(made, dice) if made.kind == "random" else _two_ways(made, dice)
    routers = [node for node in made.nodes if node not in {NEAR, FAR}]
    like = dice.choice((0.0, 1.0, 0.5))
    made.inbound = frozenset(router for router in routers if dice.random() < like)
    made.short = dice.random() < 0.25
    made.limited, made.dense = dice.random() < 0.25, dice.random() < 0.5
    if dice.random() < 0.3:
        made.silent = frozenset(dice.sample(routers, min(len(routers), dice.choice((1, 1, 2)))))
    if dice.random() < 0.15:
        made.one_name = frozenset(router for router in routers if dice.random() < 0.7)
    if dice.random() < 0.2:
        made.no_options = dice.choice(routers)
    made.blocks = dice.sample(range(32 if made.dense else 200), len(made.links))
    for link in made.links:
        places = range(1, 7) if len(link) > 2 else (0, 1) if made.short else (1, 2)
        made.hosts.append(dict(zip(link, dice.sample(places, len(link)), strict=True)))
    return made


def _two_ways(made: Network, dice: random.Random) -> None:
    """One path there and one back, as the kind wants them; what else leads to a site costs more."""
    beside = made.kind == "parallel" or (made.kind == "ecmp" and dice.random() < 0.3)
    count = dice.randint(2 if beside else 1, 6)
    there = back = [NEAR, *(f"r{k}" for k in range(1, count + 1)), FAR]
    if made.kind == "lan":
        back = _second_gateway(made, there, dice)
    elif made.kind != "same" and not beside:
        back = _detour(there, dice.randint(1, 3) if made.kind == "longer" else 0, dice)
    if dice.random() < 0.5:
        there, back = back, there
    for a, b in (*pairwise(there), *pairwise(back)):
        if not _joining(made, a, b):
            made.links.append((a, b))
    if beside:
        twice = dice.randrange(1, count)
        made.links.append((there[twice], there[twice + 1]))
    made.shared = made.kind == "ecmp"
    for k, link in enumerate(made.links):
        for node in link:
            made.cost[k, node] = 1 if made.shared else dice.randint(30, 60) + k / 100
    for a, b in pairwise(there):
        made.cost[_joining(made, a, b)[0], b] = 1
    for b, a in pairwise(back):
        made.cost[_joining(made, a, b)[-1], b] = 1  # of two parallel links the other one


def _joining(made: Network, a: str, b: str) -> list[int]:
    return [k for k, link in enumerate(made.links) if {a, b} <= set(link)]


def _detour(there: list[str], more: int, dice: random.Random) -> list[str]:
    """One to three routers in a row replaced by as many others, and `more`."""
    first = dice.randint(1, len(there) - 2)
    last = dice.randint(first, min(len(there) - 2, first + 2))
    return [*there[:first], *(f"q{k}" for k in range(last - first + 1 + more)), *there[last + 1 :]]


def _second_gateway(made: Network, there: list[str], dice: random.Random) -> list[str]:
    """Another router on the LAN of one site, or of both; more often than not the return takes it."""
    place = dice.choice((1, len(there) - 2))
    site, beyond = (there[0], there[2]) if place == 1 else (there[-1], there[-3])
    made.links.append((site, there[place], "q1"))
    made.links.append((beyond, there[place], "q1") if beyond in {NEAR, FAR} else ("q1", beyond))
    return [*there[:place], "q1", *there[place + 1 :]] if dice.random() < 0.6 else there


def _random_links(made: Network, dice: random.Random) -> None:
    count = dice.randint(3, 8)
    joined = {(f"r{dice.randrange(i)}", f"r{i}") for i in range(1, count)}
    for _ in range(dice.randint(0, count)):
        a, b = sorted(dice.sample(range(count), 2))
        joined.add((f"r{a}", f"r{b}"))
    made.links = sorted(joined)
    made.links += [link for link in made.links if dice.random() < 0.15]
    made.links += [(NEAR, f"r{dice.randrange(count)}"), (FAR, f"r{dice.randrange(count)}")]
    alike = dice.random() < 0.4
    for k, link in enumerate(made.links):
        there, back = (dice.randint(1, 6) + dice.random() / 100 for _ in range(2))
        made.cost[k, link[0]], made.cost[k, link[1]] = there, there if alike else back
