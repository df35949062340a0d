"""Both directions in numbers: the refined word, what is in common, where they part; and intervals that hold the truth of random networks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from linkqual import rejudge
from linkqual.model import Compared, Fault, Measurement, PathResult, Step, Trace
from linkqual.session import compared
from linkqual.session.alignment import Routers
from linkqual.session.symmetry import compare, judge

from ..reports.samples import SAMPLES
from .test_symmetry import FAR, NEAR, Network, chain, hidden, trace


def seen(routers: Routers) -> Compared:
    """By the two traces that show these routers."""
    there = trace(list(routers.there), NEAR, FAR)
    back = trace(list(reversed(routers.back)), FAR, NEAR)
    sides = ((there, list(routers.there_egress)), (back, list(reversed(routers.back_egress))))
    return compared.measured(
        *(
            replace(one, hops=tuple(replace(hop, egress=via) for hop, via in zip(one.hops, [*told, None], strict=True)))
            if told
            else one
            for one, told in sides
        )
    )


def test_one_chain_has_all_in_common() -> None:
    found = seen(chain(1))
    assert replace(found, settle="") == Compared("symmetric", 2, 2, (1.0, 1.0), (1.0, 1.0))


def test_what_is_proven_leaves_nothing_to_settle() -> None:
    assert compared.settle("symmetric", chain(1, 2)) == ""
    assert compared.settle("symmetric", chain()) == ""


def test_an_address_that_stands_at_two_hops_shares_no_more_than_there_is() -> None:
    for way in (["10.0.0.2"] * 2, ["10.0.0.2"] * 3):
        there, back = trace(way, NEAR, FAR), trace(way, FAR, NEAR)
        found = compared.measured(there, back)
        assert found is not None
        for share in (found.routers, found.links):
            assert share is None or 0 <= share[0] <= share[1] <= 1


def test_a_longer_return_is_asymmetric_and_its_own_links_are_named() -> None:
    found = seen(Routers(["10.0.0.2", "10.0.1.2", "10.0.2.2"], ["10.0.1.1", "10.0.5.1", "10.0.6.1", "10.0.9.1"]))
    assert (found.word, found.forward_routers, found.reverse_routers) == ("asymmetric", 3, 4)
    assert found.routers == pytest.approx((0, 3 / 4))  # at most the shorter way's three
    assert found.links == pytest.approx((0, 3 / 6))
    assert found.forward_only == (2, 3)
    assert found.reverse_only == (2, 3, 4)
    assert not found.settle


def test_two_gateways_beside_each_other_are_not_in_common() -> None:
    """Forward goes out by 10.0.0.2, the return comes in by 10.0.0.3; one more router behind both."""
    two = Routers(["10.0.0.2", "10.0.2.2"], ["10.0.4.1", "10.0.9.1"], near=NEAR, far=FAR)
    for routers, least in (
        (two, 0),
        (replace(two, there_egress=["10.0.2.1", "10.0.9.1"], back_egress=["10.0.0.3", "10.0.4.2"]), 1 / 3),
    ):
        found = seen(routers)
        assert found.word in ("asymmetric", "undetermined", "link beside")
        assert found.routers is not None
        assert found.routers[0] == pytest.approx(least)


def test_a_parallel_link_is_a_link_beside() -> None:
    whole = chain(1, 2, 3)
    found = seen(
        replace(
            whole,
            back=[whole.back[0], "10.0.44.1", *whole.back[2:]],
            back_egress=[*whole.there[:2], "10.0.44.2", whole.there[3]],
        )
    )
    assert found.word == "link beside"
    assert (found.forward_only, found.reverse_only) == ((3,), (3,))
    assert found.links is not None
    assert found.links[1] == pytest.approx(4 / 6)
    assert "parallel" in found.settle


def test_other_routers_of_the_same_number_are_asymmetric() -> None:
    found = seen(
        Routers(["10.0.0.2", "10.0.1.2", "10.0.2.2", "10.0.3.2"], ["10.0.5.1", "10.0.6.1", "10.0.7.1", "10.0.9.1"])
    )
    assert found.word == "asymmetric"
    assert found.forward_only == (2, 3, 4)
    assert found.reverse_only == (2, 3, 4)


def test_a_router_known_to_be_one_between_two_links_that_differ_is_no_other_router() -> None:
    """Two parallel links one behind the other; the router between answers from its loopback, or is told by Record Route."""
    there = ["10.0.0.2", "10.0.1.2", "10.0.2.2", "10.0.3.2"]
    back = ["10.0.41.1", "10.0.42.1", "10.0.3.1", "10.0.9.1"]
    routers = Routers(there, back, near=NEAR, far=FAR, there_egress=[None] * 4, back_egress=[None] * 4)
    assert compared.word("asymmetric", routers) == "asymmetric"
    told = replace(routers, back_egress=[None, "10.0.1.2", None, None])
    assert compared.word("asymmetric", told) == "link beside"


@pytest.mark.parametrize(
    ("routers", "word"),
    [
        (hidden(chain(1, 2)), "Record Route"),
        (replace(hidden(chain(1)), there=[None, "10.0.1.2"]), "silent"),
        (replace(chain(1), near="10.0.0.77"), "who else forwards"),
        (Routers(["10.1.0.1", "10.2.0.1"], ["10.3.0.1", "10.4.0.1"]), "both ways"),
        (Routers(["10.0.0.2", "10.0.1.2", None], ["10.0.1.1", "10.0.9.1"]), "more rounds"),
    ],
)
def test_what_is_open_says_what_would_settle_it(routers: Routers, word: str) -> None:
    near = routers.near or NEAR
    found = compared.measured(trace(list(routers.there), near, FAR), trace(list(reversed(routers.back)), FAR, near))
    assert found.word == "undetermined"
    assert word in found.settle
    assert not found.forward_only
    assert found.routers is None or found.routers[0] < found.routers[1] == 1


def test_half_a_trace_has_no_numbers() -> None:
    fault = Fault("no-agent", "there is none", "start one")
    forward = trace(["10.0.0.2"], NEAR, FAR)
    found = compared.measured(forward, Trace(FAR, NEAR, 33434, 40001, fault=fault))
    assert found == Compared("undetermined", 1, None, settle="start one")


def test_a_stored_run_is_compared_again_from_its_traces(tmp_path: Path) -> None:
    forward, reverse = trace(["10.0.5.1"], NEAR, FAR), trace(["10.0.5.1"], FAR, NEAR)
    old = Measurement(Step("path", "path"), 0, 0, path=PathResult(forward, reverse, "undetermined", "once said so"))
    assert old.path is not None
    assert compared.of(old.path).word == "symmetric"
    now = compared.filled(old).path
    assert now is not None
    assert now.symmetry == "symmetric"
    assert now.because == compare(forward, reverse).because
    assert now.compared == compared.measured(forward, reverse)
    q = replace(SAMPLES["few"](), measurements=(old,))
    assert rejudge.rejudge(tmp_path, q, q.profile, q.plan.link).measurements == (compared.filled(old),)
    alone = replace(old, path=PathResult(forward, Trace(FAR, NEAR, 1, 2), "undetermined", "no agent; a hint"))
    assert compared.filled(alone) is alone


@pytest.mark.parametrize("inbound", [1.0, 0.0, 0.5])
@pytest.mark.parametrize("silent", [0.0, 0.2])
@pytest.mark.parametrize("record", [True, False])
def test_the_intervals_hold_what_is_really_in_common(inbound: float, silent: float, record: bool) -> None:
    words = set()
    for seed in range(150):
        network = Network(seed, inbound, silent, dense=bool(seed % 2))
        there, shown, told = network.walk(network.near, network.far, record)
        back, shown_back, told_back = network.walk(network.far, network.near, record)
        ends = [
            network.address[k, host]
            for host in (network.near, network.far)
            for k, link in enumerate(network.links)
            if host in link
        ]
        routers = Routers(shown, shown_back[::-1], told, told_back[::-1], *ends)
        verdict = judge(routers)[0]
        word = compared.word(verdict, routers)
        words.add(word)
        crossed, links = (
            (network.crossed(network.near, there), network.crossed(network.far, back)),
            (set(there), set(back)),
        )
        for (one, other), share in zip((crossed, links), compared.shares(verdict, routers), strict=True):
            truth = len(one & other) / len(one | other) if one | other else 1.0
            assert share is None or share[0] - 1e-9 <= truth <= share[1] + 1e-9, (seed, word, share, truth)
        assert word != "link beside" or len(there) == len(back)
    assert {"asymmetric", "link beside" if record else "undetermined"} <= words
