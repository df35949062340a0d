"""Hints of MPLS tunnels, and hop counts that a tunnel may feign."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkqual.model import Hop, Trace
from linkqual.session import tunnels
from linkqual.session.symmetry import compare

from .test_symmetry import FAR, NEAR, trace


def path(*changes: dict[str, object], count: int = 6) -> list[Hop]:
    """Routers 1 to `count` and the end; `changes` of the first ones."""
    hops = [Hop(ttl, f"10.0.{ttl}.2", reply_ttl=65 - ttl, quoted_ttl=1) for ttl in range(1, count + 1)]
    changed = [replace(hop, **change) for hop, change in zip(hops, changes, strict=False)]  # type: ignore[arg-type]
    return [*changed, *hops[len(changes) :], Hop(count + 1, FAR, reached=True, quoted_ttl=5, reply_ttl=58)]


def label(ttl: int) -> dict[str, object]:
    return {"labels": (f"label=24001 tc=0 s=1 ttl={ttl}",)}


def test_an_ordinary_path_hints_at_nothing() -> None:
    assert list(tunnels.hints(path())) == []
    assert tunnels.hidden(path()) == ""
    assert tunnels.inside(path()) == ()
    assert tunnels.hidden([replace(hop, reply_ttl=None) for hop in path()]) == ""


def test_routers_that_quote_labels() -> None:
    seen = path({}, label(1), label(1), label(1))
    assert list(tunnels.hints(seen)) == ["hops 2 to 4 stand in an MPLS tunnel and quote their labels"]
    assert tunnels.inside(seen) == (2, 3, 4)


def test_routers_that_quote_growing_ttls() -> None:
    (said,) = tunnels.hints(path({}, {}, {"quoted_ttl": 2}, {"quoted_ttl": 3}))
    assert said.startswith("hops 3 to 4 stand where probes arrive with more TTL")
    assert "(a hint)" in said


def test_one_label_at_the_end_of_a_tunnel() -> None:
    (said,) = tunnels.hints(path({}, {}, label(252)))
    assert said.startswith("hop 3 ends an MPLS tunnel")
    assert "about 3 routers" in said


@pytest.mark.parametrize(("more", "told"), [(0, False), (1, False), (3, True)])
def test_answers_that_come_back_over_more_hops(more: int, told: bool) -> None:
    later = [{"reply_ttl": 65 - ttl - more} for ttl in range(3, 7)]
    assert ("answers from hop 3 on" in tunnels.hidden(path({}, {}, *later))) is told


def longer(labelled: int) -> Trace:
    """A return of five routers, of which some show labels."""
    found = trace(["10.0.9.1", "10.0.6.1", "10.0.5.1", "10.0.4.1", "10.0.1.1"], FAR, NEAR)
    hops = [
        replace(hop, labels=("label=16 tc=0 s=1 ttl=1",)) if 1 < hop.ttl < 2 + labelled else hop for hop in found.hops
    ]
    return replace(found, hops=tuple(hops))


@pytest.mark.parametrize(
    ("labelled", "verdict"), [(0, "asymmetric"), (1, "asymmetric"), (2, "undetermined"), (3, "undetermined")]
)
def test_a_tunnel_that_one_direction_may_hide_is_no_longer_way(labelled: int, verdict: str) -> None:
    forward = trace(["10.0.0.2", "10.0.1.2", "10.0.8.2"], NEAR, FAR)
    found = compare(forward, longer(labelled))
    assert found.verdict == verdict
    assert ("tunnel" in found.because) is (verdict == "undetermined")
    assert (
        compare(
            replace(longer(labelled), source=NEAR, destination=FAR), replace(forward, source=FAR, destination=NEAR)
        ).verdict
        == verdict
    )
