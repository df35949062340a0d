"""The verdict on two hop lists: known shapes by hand, and thousands of random networks whose truth is computed."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from dataclasses import dataclass, replace

import pytest

from linkqual.model import Fault, Hop, Trace
from linkqual.session import symmetry
from linkqual.session.alignment import Routers, align, mates
from linkqual.session.link_states import Link, links
from linkqual.session.symmetry import compare, judge

NEAR, FAR = "10.0.0.1", "10.0.9.2"


def chain(*middle: int) -> Routers:
    """A chain with links 10.0.k.0/30, k = 0, *middle, 9, the same way back, every router told by Record Route."""
    numbers = [0, *middle, 9]
    there = [f"10.0.{k}.2" for k in numbers[:-1]]
    back = [f"10.0.{k}.1" for k in numbers[1:]]
    return Routers(there, back, back, there, NEAR, FAR)


def hidden(routers: Routers) -> Routers:
    return replace(routers, there_egress=[None] * len(routers.there), back_egress=[None] * len(routers.back))


def test_one_chain_both_ways_is_symmetric() -> None:
    verdict, because = judge(chain(1, 2, 3))
    assert verdict == "symmetric"
    assert "same 4 routers" in because


def test_one_router_may_be_two_gateways_beside_each_other() -> None:
    """A host and its gateway on a LAN have addresses like the two ends of a /30 or /31, with either of two gateways."""
    assert judge(chain())[0] == "symmetric"
    verdict, because = judge(hidden(chain()))
    assert verdict == "undetermined"
    assert "two beside each other" in because
    two = Routers(["10.0.0.1"], ["10.0.9.3"], ["10.0.9.1"], ["10.0.0.3"], "10.0.0.2", "10.0.9.2")
    assert judge(two)[0] == judge(hidden(two))[0] == "undetermined"
    sent = (["10.0.1.1", "10.0.9.1"], ["10.0.0.3", "10.0.1.2"])  # both gateways and the next router on one more LAN
    behind = Routers(["10.0.0.1", "10.0.1.2"], ["10.0.1.3", "10.0.9.1"], *sent, "10.0.0.2", FAR)
    verdict, because = judge(behind)
    assert verdict == "undetermined"
    assert "two gateways on one LAN" in because


@pytest.mark.parametrize("middle", [(1,), (1, 2)])
def test_without_record_route_there_is_room_for_another_link_or_router(middle: tuple[int, ...]) -> None:
    verdict, because = judge(hidden(chain(*middle)))
    assert verdict == "undetermined"
    assert "Record Route" in because


def test_wide_subnets_in_a_row_are_no_proof_of_another_way() -> None:
    """One way there and back: a /20 of hosts, another one behind its gateway, and a line of /30 behind that."""
    there, back = ["10.20.0.1", "10.21.8.1", "10.99.0.2"], ["10.21.0.1", "10.99.0.1", "10.99.1.1"]
    verdict, because = judge(Routers(there, back, near="10.20.9.5", far="10.99.1.2"))
    assert verdict == "undetermined"
    assert "a larger subnet has room for a second router" in because


@pytest.mark.parametrize("own", ["fe80::1", "169.254.7.1"])
def test_addresses_that_any_link_may_have_prove_nothing(own: str) -> None:
    version = "2001:db8:{}::{}" if ":" in own else "10.{}.0.{}"
    there, back = [own, version.format(1, 2)], [own[:-1] + "9", version.format(9, 1)]
    assert judge(Routers(there, back, near=version.format(8, 1), far=version.format(9, 2)))[0] == "undetermined"


def test_record_route_of_one_direction_is_not_enough() -> None:
    full = chain(1, 2, 3)
    assert judge(replace(full, back_egress=[None] * 4))[0] == "undetermined"
    assert judge(replace(full, there_egress=[*full.there_egress[:2], None, full.there_egress[3]]))[0] == "undetermined"


def test_two_links_between_two_routers_of_different_habits() -> None:
    """a answers from the interface of its own way, b from the one a probe came in by: both show the link that forward takes."""
    whole = chain(1)
    assert judge(hidden(whole))[0] == "undetermined"
    told = replace(whole, back_egress=[whole.back_egress[0], "10.0.44.2"])
    verdict, because = judge(told)
    assert verdict == "asymmetric"
    assert "between hop 1 and hop 2" in because


def test_routers_that_answer_from_a_link_the_flow_does_not_take() -> None:
    """Flows are shared over two links; the probes took the same one both ways."""
    whole = chain(1, 2, 3)
    answers = replace(whole, there=[*whole.there[:2], "10.0.44.2", whole.there[3]])
    assert judge(answers)[0] == "symmetric"
    verdict, because = judge(hidden(answers))
    assert verdict == "undetermined"
    assert "shared over" in because


def test_a_router_that_records_its_name() -> None:
    """Linux with a preferred source: ICMP errors from the interface, Record Route from the name."""
    whole = chain(1)
    named = replace(whole, there_egress=["192.0.2.1", "192.0.2.2"], back_egress=["192.0.2.1", "192.0.2.2"])
    verdict, because = judge(named)
    assert verdict == "undetermined"
    assert "one address in both directions" in because


def test_an_end_with_two_links_and_a_router_on_each() -> None:
    """Forward leaves by the link that is not the one of the near end's address, and so does the return at the far end."""
    seen = Routers(["10.0.5.2"], ["10.0.6.1"], ["10.0.9.1"], ["10.0.0.2"], NEAR, FAR)
    assert judge(seen)[0] == "undetermined"


def test_a_detour_of_one_router_that_addresses_alone_do_not_show() -> None:
    """Linux answers from its own way back: forward a b c, return c x a. Every link looks proven; only the routes recorded tell."""
    there, back = ["10.0.0.2", "10.0.1.2", "10.0.4.2"], ["10.0.1.1", "10.0.4.1", "10.0.9.1"]
    seen = Routers(there, back, near=NEAR, far=FAR, there_egress=[None] * 3, back_egress=[None] * 3)
    assert links(there, back, NEAR, FAR) == [Link.PROVEN] * 4
    assert judge(seen)[0] == "undetermined"
    told = replace(
        seen, there_egress=["10.0.1.1", "10.0.2.1", "10.0.9.1"], back_egress=["10.0.0.2", "10.0.3.2", "10.0.4.2"]
    )
    assert judge(told)[0] == "asymmetric"
    assert judge(replace(told, back_egress=[None] * 3))[0] == "undetermined"


def test_a_detour_of_equal_length() -> None:
    there = ["10.0.0.2", "10.0.1.2", "10.0.2.2", "10.0.3.2"]
    back = ["10.0.5.1", "10.0.6.1", "10.0.7.1", "10.0.9.1"]
    verdict, because = judge(Routers(there, back, near=NEAR, far=FAR))
    assert verdict == "asymmetric"
    assert "4 routers each way" in because
    assert "between hop 1 and hop 4" in because


def test_a_longer_return_names_the_routers_of_one_way_only() -> None:
    there = ["10.0.0.2", "10.0.1.2", "10.0.2.2"]
    back = ["10.0.1.1", "10.0.5.1", "10.0.6.1", "10.0.9.1"]
    verdict, because = judge(Routers(there, back, near=NEAR, far=FAR))
    assert verdict == "asymmetric"
    assert "forward crosses 3 routers, the return 4" in because
    assert "10.0.5.1" in because
    assert "10.0.0.2" not in because


def test_a_parallel_link() -> None:
    whole = chain(1, 2, 3)
    seen = replace(
        whole,
        back=[whole.back[0], "10.0.44.1", *whole.back[2:]],
        back_egress=[*whole.there[:2], "10.0.44.2", whole.there[3]],
    )
    assert judge(hidden(seen))[0] == "undetermined"
    verdict, because = judge(seen)
    assert verdict == "asymmetric"
    assert "between hop 2 and hop 3" in because
    assert "parallel link" in because


def test_where_recorded_routes_part_the_routers_on_both_ways_stay_paired() -> None:
    """forward a b c, return c y x w a: every router answers from the interface the probe came in by."""
    there = ["10.0.0.2", "10.0.1.2", "10.0.2.2"]
    back = ["10.0.8.1", "10.0.7.1", "10.0.6.1", "10.0.5.1", "10.0.9.1"]
    sent_there = ["10.0.1.1", "10.0.2.1", None]
    sent_back = [None, "10.0.8.2", "10.0.7.2", "10.0.6.2", "10.0.5.2"]
    routers = Routers(there, back, sent_there, sent_back, NEAR, FAR)
    aligned = align(routers)
    assert aligned[0] == (0, 0)
    assert aligned[-1] == (2, 4)
    verdict, because = judge(routers)
    assert verdict == "asymmetric"
    assert because.endswith("(forward only: 10.0.1.2; return only: 10.0.7.1, 10.0.6.1, 10.0.5.1)")


@pytest.mark.parametrize("silent", [(0,), (1,), (3,), (1, 2), (0, 1, 2, 3)])
def test_silent_routers_are_never_a_reason_for_a_firm_verdict(silent: tuple[int, ...]) -> None:
    whole = hidden(chain(1, 2, 3))
    there = [None if k in silent else address for k, address in enumerate(whole.there)]
    back = [None if k in silent else address for k, address in enumerate(whole.back)]
    for seen in (
        replace(whole, there=there, back=back),
        replace(whole, there=there),
        replace(whole, back=back),
    ):
        assert judge(seen)[0] == "undetermined"


def test_record_route_sees_through_silent_routers() -> None:
    whole = chain(1, 2, 3)
    silent = replace(whole, there=[*whole.there[:2], None, whole.there[3]], back=[*whole.back[:2], None, whole.back[3]])
    assert judge(silent)[0] == "symmetric"


def test_a_silent_last_hop_leaves_the_length_open() -> None:
    there = ["10.0.0.2", "10.0.1.2", None]
    back = ["10.0.1.1", "10.0.9.1"]
    verdict, because = judge(Routers(there, back, near=NEAR, far=FAR))
    assert verdict == "undetermined"
    assert "lost answer" in because


def test_a_lan_at_an_end_has_room_for_a_second_gateway() -> None:
    whole = chain(1, 2)
    verdict, because = judge(replace(whole, near="10.0.0.77"))
    assert verdict == "undetermined"
    assert "larger subnet" in because
    assert "between the near end and hop 1" in because


def test_routers_that_answer_from_one_address() -> None:
    whole = hidden(chain(1, 2))
    loopbacks = [f"192.0.2.{k}" for k in range(3)]
    verdict, because = judge(replace(whole, there=loopbacks, back=loopbacks))
    assert verdict == "undetermined"
    assert "another link between two routers would not show" in because
    alone = hidden(chain())
    assert judge(replace(alone, there=loopbacks[:1], back=loopbacks[:1]))[0] == "symmetric"
    told = replace(chain(1, 2), there=loopbacks, back=loopbacks)
    assert judge(told)[0] == "symmetric"


def test_addresses_without_any_mates_prove_nothing() -> None:
    there, back = ["10.1.0.1", "10.2.0.1"], ["10.3.0.1", "10.4.0.1"]
    verdict, because = judge(Routers(there, back, near="10.5.0.1", far="10.6.0.1"))
    assert verdict == "undetermined"
    assert "cannot tell" in because


def test_behind_address_translation_the_ends_prove_nothing() -> None:
    whole = chain(1, 2)
    assert links(whole.there, whole.back, None, FAR)[0] is Link.UNSEEN
    assert judge(hidden(replace(whole, near=None)))[0] == "undetermined"


def test_no_router_between() -> None:
    assert judge(Routers([], [], near=NEAR, far="10.0.0.2"))[0] == "symmetric"


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("10.0.0.1", "10.0.0.2", True),
        ("10.0.0.4", "10.0.0.5", True),
        ("10.0.0.2", "10.0.0.5", False),
        ("10.0.0.1", "10.0.0.1", False),
        ("fd00::1", "fd00::2", True),
        ("fd00::a", "fd00::b", True),
        ("fd00::1", "fd00:0:0:1::2", False),
        ("10.0.0.1", "fd00::2", False),
    ],
)
def test_mates(a: str, b: str, expected: bool) -> None:
    assert mates(a, b) is mates(b, a) is expected


# ---- whole traces


def trace(addresses: list[str | None], source: str, destination: str, **last: object) -> Trace:
    hops = [Hop(ttl, address) for ttl, address in enumerate(addresses, start=1)]
    end = Hop(len(hops) + 1, destination, reached=True)
    return Trace(source, destination, 40001, 33434, (*hops, replace(end, **last)))  # type: ignore[arg-type]


def test_pairs_are_ttls_with_the_near_end_first() -> None:
    forward = trace(["10.0.0.2", "10.0.1.2", "10.0.2.2"], NEAR, FAR)
    reverse = trace(["10.0.9.1", "10.0.6.1", "10.0.5.1", "10.0.1.1"], FAR, NEAR)
    found = compare(forward, reverse)
    assert found.verdict == "asymmetric"
    assert found.pairs[0] == (1, 4)
    assert found.pairs[-1] == (3, 1)
    assert {pair[1] for pair in found.pairs if pair[0] is None} <= {2, 3}


def test_a_trace_that_did_not_arrive_proves_nothing() -> None:
    forward = trace(["10.0.0.2"], NEAR, FAR)
    fault = Fault("no-agent", "there is no agent")
    found = compare(forward, Trace(FAR, NEAR, 33434, 40001, fault=fault))
    assert found.verdict == "undetermined"
    assert "there is no agent" in found.because


def test_the_length_of_the_way_back_from_one_end() -> None:
    hops = tuple(Hop(ttl, NEAR, reply_ttl=reply) for ttl, reply in ((1, 64), (2, 254), (3, 60), (4, 59)))
    assert [symmetry.return_hops(hop) for hop in hops] == [1, 2, 5, 6]
    assert "hop 3 come back over 5 hops" in symmetry.longer_returns(Trace(NEAR, FAR, 1, 2, hops))
    assert symmetry.longer_returns(Trace(NEAR, FAR, 1, 2, hops[:2])) == ""


# ---- random networks


@dataclass
class Network:
    """Routers joined by /30 links with a cost for each direction; two hosts; shortest paths to each host."""

    seed: int
    inbound: float  # share of routers that answer from the interface the probe came in by, else from that of their own way back
    silent: float
    dense: bool  # all links out of one /24

    def __post_init__(self) -> None:
        dice = random.Random(self.seed)
        count = dice.randint(3, 9)
        joined = {(dice.randrange(i), i) for i in range(1, count)}
        joined |= {tuple(sorted(dice.sample(range(count), 2))) for _ in range(dice.randint(0, 2 * count))}
        self.links = sorted(joined)
        self.links += [link for link in self.links if dice.random() < 0.15]
        self.near, self.far = count, count + 1
        self.links += [(self.near, dice.randrange(count)), (self.far, dice.randrange(count))]
        dice.shuffle(self.links)
        numbers = dice.sample(range(64), len(self.links)) if self.dense else range(len(self.links))
        self.address: dict[tuple[int, int], str] = {}
        self.cost: dict[tuple[int, int], float] = {}
        same = dice.random() < 0.4
        for k, (a, b) in enumerate(self.links):
            hosts = dice.sample((1, 2), 2)
            for node, host in zip((a, b), hosts, strict=True):
                place = numbers[k] * 4 + host if self.dense else numbers[k] * 256 + host
                self.address[k, node] = f"10.0.{place >> 8}.{place & 255}"
                self.cost[k, node] = dice.randint(1, 6) + dice.random() / 100
            if same:
                self.cost[k, b] = self.cost[k, a]
        self.by_entry = {node for node in range(count) if dice.random() < self.inbound}
        self.quiet = {node for node in range(count) if dice.random() < self.silent}
        self.to = {host: self._ways(host) for host in (self.near, self.far)}

    def _ways(self, target: int) -> dict[int, int]:
        """node -> link toward the target."""
        best, way, open_ = {target: 0.0}, {}, [(0.0, target)]
        while open_:
            cost, node = heapq.heappop(open_)
            if cost > best[node] or (node in {self.near, self.far} and node != target):
                continue
            for k, ends in enumerate(self.links):
                if node in ends:
                    other = sum(ends) - node
                    total = cost + self.cost[k, other]
                    if total < best.get(other, 1e9):
                        best[other], way[other] = total, k
                        heapq.heappush(open_, (total, other))
        return way

    def walk(self, source: int, target: int, record: bool) -> tuple[list[int], list[str | None], list[str | None]]:
        """Links taken; what a trace shows of each router; what Record Route tells of each."""
        taken, routers, node = [], [], source
        while node != target:
            link = self.to[target][node]
            node = sum(self.links[link]) - node
            taken.append(link)
            routers.append((node, link))
        routers.pop()
        shown = [
            None
            if node in self.quiet
            else self.address[(link if node in self.by_entry else self.to[source][node]), node]
            for node, link in routers
        ]
        told = [self.address[taken[place + 1], node] if record else None for place, (node, _) in enumerate(routers)]
        return taken, shown, told

    def crossed(self, source: int, taken: list[int]) -> set[int]:
        """The routers on a way."""
        found, node = [], source
        for link in taken:
            node = sum(self.links[link]) - node
            found.append(node)
        return set(found[:-1])

    def judged(self, record_there: bool, record_back: bool) -> tuple[str, str]:
        """The truth and the verdict."""
        there, shown, told = self.walk(self.near, self.far, record_there)
        back, shown_back, told_back = self.walk(self.far, self.near, record_back)
        ends = [
            self.address[k, host] for host in (self.near, self.far) for k, link in enumerate(self.links) if host in link
        ]
        truth = "symmetric" if there == back[::-1] else "asymmetric"
        routers = Routers(shown, shown_back[::-1], told, told_back[::-1], *ends)
        return truth, judge(routers)[0]


@pytest.mark.parametrize("inbound", [1.0, 0.0, 0.5])
@pytest.mark.parametrize("silent", [0.0, 0.2])
@pytest.mark.parametrize("record", [(True, True), (True, False), (False, False)])
def test_never_a_wrong_firm_verdict(inbound: float, silent: float, record: tuple[bool, bool]) -> None:
    seen = Counter(
        Network(seed, inbound, silent, dense).judged(*record) for seed in range(200) for dense in (False, True)
    )
    assert seen["symmetric", "asymmetric"] == 0
    assert seen["asymmetric", "symmetric"] == 0
    assert seen["asymmetric", "asymmetric"] > 20
    if record == (True, True) and not silent:
        assert seen["symmetric", "undetermined"] == 0
