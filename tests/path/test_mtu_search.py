"""The search for the path MTU, over a path in memory."""

from __future__ import annotations

from math import comb

import pytest
from numpy.random import default_rng

from linkqual.model import MtuHop
from linkqual.session.mtu import LEAST, Search, chance, kind, place

GOOD = 1.0


def run(mtu: int, most: int = 1500, *, version: int = 4, tells: int = 0, keeps: float = GOOD, seed: int = 1) -> Search:
    """A path that carries packets up to `mtu`, loses the rest, and of those that fit keeps that share. `tells`: what a router names."""
    chances, search = default_rng(seed), Search(LEAST[version], most)
    while sizes := search.next():
        for size in sizes:
            search.took(size, 1, int(size <= mtu and chances.random() < keeps))
            if tells and size > tells:
                search.told(tells)
    return search


@pytest.mark.parametrize("version", [4, 6])
def test_every_path_mtu_is_found_to_the_byte(version: int) -> None:
    for mtu in (*range(LEAST[version], 1501, 7), 1500, *range(1501, 9217, 67)):
        search = run(mtu, 9216, version=version)
        assert (search.passes, search.fails) == (mtu, mtu + 1 if mtu < 9216 else None), mtu
        assert not search.trouble


def test_it_takes_few_rounds_and_packets() -> None:
    """On a good line one round and what confirms it; else two or three, of which a black hole costs one patience each."""
    assert sum(one.sent for one in run(1500).tried) == 20
    assert run(1500).rounds <= 3
    usual = [run(mtu, 9216) for mtu in (1280, 1400, 1438, 1476, 1492, 1500, 8950, 9000)]
    odd = [run(mtu, 9216) for mtu in (601, 1333, 1471, 3001, 8888)]
    assert max(search.rounds for search in usual) <= 6
    assert max(search.rounds for search in odd) <= 8
    assert max(sum(one.sent for one in search.tried) for search in usual + odd) < 400
    assert sum(one.sent for one in run(1400, tells=1400).tried) < 40  # a router's word is the next size


def test_a_routers_word_is_a_hint_and_no_proof() -> None:
    for said in (1300, 1420, 1499, 20):
        search = run(1400, tells=said)
        assert (search.passes, search.fails) == (1400, 1401)


@pytest.mark.parametrize("seed", range(20))
def test_loss_is_not_taken_for_a_limit(seed: int) -> None:
    """With a third of all packets lost the limit is still found, or it is said that it cannot be told."""
    search = run(1400, keeps=0.67, seed=seed)
    assert search.trouble or (search.passes, search.fails) == (1400, 1401)
    whole = run(1500, keeps=0.67, seed=seed)
    assert whole.trouble or (whole.passes, whole.fails) == (1500, None)


def test_most_lossy_lines_are_still_told() -> None:
    found = [run(1400, keeps=0.67, seed=seed) for seed in range(100, 140)]
    assert sum(not one.trouble for one in found) >= 36


def test_what_cannot_be_told_is_unknown() -> None:
    silent = run(0)
    assert silent.passes is None
    assert "not even packets of 576" in silent.trouble
    assert kind(silent, None) == "unknown"
    assert kind(run(1500), None) == "whole"
    assert kind(run(1500), "192.0.2.1") == "whole"
    assert kind(run(1400), "192.0.2.1") == "told"
    assert kind(run(1400), None) == "black hole"


def test_an_answer_that_comes_late_still_counts() -> None:
    search = Search(576, 1500)
    for size in search.next():
        search.took(size, 1, 0)
    search.took(1500, 0, 1)
    assert (search.passes, search.fails) == (1500, None)


def test_the_test_that_tells_two_sizes_apart() -> None:
    """All of ten against none of ten: one way of 184,756 to divide them so."""
    assert chance(10, 10, 0, 10) == pytest.approx(1 / comb(20, 10))
    assert chance(10, 10, 10, 10) == 1
    assert chance(5, 10, 5, 10) > 0.5
    assert chance(0, 10, 0, 10) == 1


def hops(*seen: tuple[bool, bool]) -> tuple[MtuHop, ...]:
    return tuple(MtuHop(ttl, f"10.0.{ttl}.1", *one) for ttl, one in enumerate(seen, 1))


BOTH, SHORT, NOTHING = (True, True), (True, False), (False, False)


def test_long_packets_vanish_between_the_last_hop_that_saw_them_and_the_next_that_answers() -> None:
    found = place(hops(BOTH, BOTH, SHORT, SHORT))
    assert found is not None
    assert found.before is not None
    assert found.after is not None
    assert (found.before.ttl, found.after.ttl, found.silent) == (2, 3, ())
    over = place(hops(BOTH, NOTHING, NOTHING, SHORT))
    assert over is not None
    assert over.after is not None
    assert (over.after.ttl, over.silent) == (4, (2, 3))
    late = place(hops(BOTH, SHORT, BOTH, SHORT))  # a hop that did not answer the long one, and a later one did
    assert late is not None
    assert late.before is not None
    assert late.before.ttl == 3


def test_the_first_and_the_last_part_of_the_path_have_no_hop_on_one_side() -> None:
    first, last = place(hops(SHORT, SHORT)), place(hops(BOTH, BOTH))
    assert first is not None
    assert last is not None
    assert first.before is None
    assert last.after is None
    assert place(hops(NOTHING, NOTHING)) is None
    assert place(()) is None
