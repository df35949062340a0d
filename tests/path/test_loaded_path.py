"""Where a load's queue begins, over chains drawn by chance: slow, silent and limiting routers, jitter, policers. Never a wrong interval with high confidence."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from linkqual.model import Direction, LoadedHop, LoadedPath
from linkqual.session.loaded_path import locate

MS = 1_000_000


@dataclass(frozen=True)
class Truth:
    """The link that holds the queue (1: leaves the sending host)."""

    link: int
    hops: tuple[LoadedHop, ...]
    added_ns: int


def chain(seed: int, idle: int = 3, loaded: int = 6, *, sawtooth: float = 0.3, policed: bool = False) -> Truth:
    """2 to 7 hops; any router may be silent, limit its answers, be slow at any time or only while the line is loaded."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 8))
    link = int(rng.integers(1, count + 1))
    queue_ns = 10 ** rng.uniform(0.5, 2) * MS  # 3 to 100 ms
    jitter_ns = rng.choice([0.02, 0.1, 0.5]) * MS
    base, hops = 0.0, []
    for ttl in range(1, count + 1):
        base += 10 ** rng.uniform(-1, 1) * MS
        router = ttl < count
        kind = rng.choice(["fair", "silent", "slow", "slow under load", "limits"], p=[0.72, 0.1, 0.08, 0.05, 0.05]) if router else "fair"  # fmt: skip
        own_ns = 10 ** rng.uniform(0, 2) * MS

        def trip(under: bool, ttl: int = ttl, base: float = base, kind: str = kind, own_ns: float = own_ns) -> int:
            took = base + 0.05 * MS + rng.exponential(jitter_ns) + (rng.random() < 0.02) * rng.exponential(20 * MS)
            if under and ttl >= link and not policed:
                took += queue_ns * rng.uniform(1 - sawtooth, 1)
            if kind == "slow" or (kind == "slow under load" and under):
                took += rng.exponential(own_ns)
            return int(took)

        lost = 0.4 if kind == "limits" else 0.0
        under_lost = max(lost, 0.45 if policed and ttl >= link else 0.02)
        quiet = [trip(False) for _ in range(idle) if rng.random() >= lost]
        busy = [trip(True) for _ in range(loaded) if rng.random() >= under_lost]
        if kind == "silent":
            hops.append(LoadedHop(ttl, None, idle, (), loaded, ()))
        else:
            hops.append(LoadedHop(ttl, f"10.0.{ttl}.1", idle, tuple(quiet), loaded, tuple(busy)))
    return Truth(link, tuple(hops), 0 if policed else int(queue_ns * (1 - sawtooth / 2)))


def right(truth: Truth, found: LoadedPath) -> bool:
    assert found.after is not None
    assert found.before is not None
    return found.after < truth.link <= found.before


@pytest.mark.parametrize("confirmed", [True, False])
def test_never_a_wrong_interval_with_high_confidence(confirmed: bool) -> None:
    counted = {"high": 0, "right": 0, "named": 0, "narrow": 0}
    for seed in range(1500):
        truth = chain(seed)
        found = locate(Direction.FORWARD, "a load", truth.hops, added_ns=truth.added_ns if confirmed else None)
        if not found.by:
            continue
        counted["named"] += 1
        counted["right"] += right(truth, found)
        if found.confidence == "high":
            counted["high"] += 1
            assert right(truth, found), (seed, truth.link, found)
            counted["narrow"] += found.before == found.after + 1
    assert counted["named"] > 1400
    assert counted["right"] >= 0.98 * counted["named"]
    assert counted["high"] > (700 if confirmed else 450)
    assert counted["narrow"] > 0.6 * counted["high"]


def test_few_answers_are_never_called_sure() -> None:
    for seed in range(200):
        truth = chain(seed, idle=1, loaded=4)
        assert locate(Direction.FORWARD, "a load", truth.hops, added_ns=truth.added_ns).confidence != "high"


def test_a_policer_shows_by_loss_alone() -> None:
    counted = {"named": 0, "right": 0}
    for seed in range(300):
        truth = chain(seed, idle=6, loaded=12, policed=True)
        found = locate(Direction.FORWARD, "a load", truth.hops)
        assert found.by != "queue", (seed, found)
        assert found.confidence != "high"
        if found.by:
            counted["named"] += 1
            counted["right"] += right(truth, found)
    assert counted["named"] > 240
    assert counted["right"] >= 0.9 * counted["named"]


def test_an_idle_line_names_nothing() -> None:
    for seed in range(200):
        truth = chain(seed, policed=True)
        hops = tuple(LoadedHop(h.ttl, h.address, h.idle_sent, h.idle_ns, h.idle_sent, h.idle_ns) for h in truth.hops)
        found = locate(Direction.FORWARD, "a load", hops)
        assert (found.by, found.after, found.before, found.confidence) == ("", None, None, "")


def hop(ttl: int, idle_ms: float, loaded_ms: float, n: int = 8, *, silent: bool = False) -> LoadedHop:
    if silent:
        return LoadedHop(ttl, None, 4, (), n, ())
    return LoadedHop(ttl, f"10.0.{ttl}.1", 4, (int(idle_ms * MS),) * 4, n, (int(loaded_ms * MS),) * n)


def test_the_place_lies_between_the_last_hop_that_is_not_late_and_the_first_that_is() -> None:
    found = locate(Direction.FORWARD, "a load", (hop(1, 1, 1), hop(2, 2, 2), hop(3, 3, 34), hop(4, 4, 35)))
    assert (found.after, found.before, found.by, found.confidence) == (2, 3, "queue", "high")
    assert "hop 3 answers 31 ms later than on the idle line" in found.because
    assert "hop 2 no later" in found.because


def test_a_silent_hop_widens_it() -> None:
    found = locate(Direction.REVERSE, "a load", (hop(1, 1, 1), hop(2, 0, 0, silent=True), hop(3, 3, 34), hop(4, 4, 35)))
    assert (found.after, found.before, found.confidence) == (1, 3, "high")


def test_the_sending_hosts_own_queue_lies_before_the_first_hop() -> None:
    found = locate(Direction.FORWARD, "a load", (hop(1, 1, 32), hop(2, 2, 33)))
    assert (found.after, found.before) == (0, 1)


def test_a_hop_that_alone_is_late_is_slow_at_answering() -> None:
    found = locate(Direction.FORWARD, "a load", (hop(1, 1, 1), hop(2, 2, 40), hop(3, 3, 3), hop(4, 4, 4)))
    assert (found.by, found.before) == ("", None)
    assert "hop 2 alone is late" in found.because


def test_the_last_hop_alone_may_be_a_slow_host_unless_both_ends_stamps_agree() -> None:
    hops = (hop(1, 1, 1), hop(2, 2, 2), hop(3, 3, 34))
    assert locate(Direction.FORWARD, "a load", hops).confidence == "medium"
    assert locate(Direction.FORWARD, "a load", hops, added_ns=31 * MS).confidence == "high"
    assert locate(Direction.FORWARD, "a load", hops, added_ns=2 * MS).confidence == "low"
    host = locate(Direction.FORWARD, "a load", hops, added_ns=MS // 2)
    assert (host.by, host.before) == ("", None)
    assert "the answering is late" in host.because


def test_a_hop_that_is_some_of_it_late_is_neither_and_widens_the_place() -> None:
    """Two queues, one behind the other, or a router that is slow besides."""
    for late in (12, 80):
        found = locate(Direction.FORWARD, "a load", (hop(1, 1, 1), hop(2, 2, 2 + late), hop(3, 3, 34), hop(4, 4, 35)))
        assert (found.after, found.before) == (1, 3), late


def test_a_router_that_was_slow_on_the_idle_line_alone_is_not_taken_for_clean() -> None:
    found = locate(Direction.FORWARD, "a load", (hop(1, 1, 1), hop(2, 33, 33), hop(3, 3, 34), hop(4, 4, 35)))
    assert (found.after, found.before) == (1, 3)
    steady = LoadedHop(2, "10.0.2.1", 4, (2 * MS, 60 * MS, 2 * MS, 70 * MS), 8, (2 * MS, 90 * MS, 2 * MS, 3 * MS) * 2)
    found = locate(Direction.FORWARD, "a load", (hop(1, 1, 1), steady, hop(3, 3, 34), hop(4, 4, 35)))
    assert (found.after, found.before) == (1, 3)


def test_what_says_that_the_load_shows_little_makes_it_low() -> None:
    found = locate(
        Direction.FORWARD, "a load", (hop(1, 1, 1), hop(2, 2, 34), hop(3, 3, 35)), weak="bbr keeps queues short"
    )
    assert (found.by, found.confidence) == ("queue", "low")
    assert "bbr keeps queues short" in found.because


def test_a_load_far_above_the_rate_may_fill_wider_links_so_only_its_loss_tells() -> None:
    lossy = tuple(
        LoadedHop(k, f"10.0.{k}.1", 10, (MS,) * 10, 12, ((31 if k > 1 else 1) * MS,) * (12 if k < 3 else 6))
        for k in (1, 2, 3, 4)
    )
    assert locate(Direction.FORWARD, "a load", lossy).by == "queue"
    found = locate(Direction.FORWARD, "a load", lossy, lost_only=True)
    assert (found.by, found.after, found.before) == ("loss", 2, 3)
    none = locate(Direction.FORWARD, "a load", (hop(1, 1, 1), hop(2, 2, 34)), lost_only=True)
    assert (none.by, none.because) == ("", "no loss begins at one hop and persists")


def test_loss_of_the_last_hop_alone_may_be_its_habit() -> None:
    """A port that nobody answers on any more, and a firewall that lets no ICMP error out."""
    hops = [LoadedHop(k, f"10.0.{k}.1", 10, (MS,) * 10, 120, (MS,) * 120) for k in (1, 2, 3, 4)]
    for first, confidence in ((4, "low"), (3, "medium")):
        lossy = [replace(hop, loaded_ns=(MS,) * (60 if hop.ttl >= first else 120)) for hop in hops]
        found = locate(Direction.FORWARD, "a load", lossy)
        assert (found.by, found.after, found.before, found.confidence) == ("loss", first - 1, first, confidence)


@pytest.mark.parametrize("lost", [None, 0.0, 0.04, 0.06, 0.5])
def test_where_the_load_itself_came_through_missing_answers_are_no_policer(lost: float | None) -> None:
    """Routers in a row that make one ICMP error in two seconds while they are busy."""
    busy = [LoadedHop(k, f"10.0.{k}.1", 10, (MS,) * 10, 40, (MS,) * (40 if k < 3 else 20)) for k in (1, 2, 3, 4)]
    for only in (False, True):
        found = locate(Direction.FORWARD, "a load", busy, lost=lost, lost_only=only)
        assert found.by == ("loss" if lost is None or lost > 0.05 else "")
        assert found.by or "answers are missing, and no packets" in found.because


def test_hops_that_limit_their_answers_on_the_idle_line_tell_nothing_of_loss() -> None:
    def lossy(ttl: int, idle: int, loaded: int) -> LoadedHop:
        return LoadedHop(ttl, f"10.0.{ttl}.1", 10, (MS,) * idle, 12, (MS,) * loaded)

    found = locate(Direction.FORWARD, "a load", (lossy(1, 10, 12), lossy(2, 5, 6), lossy(3, 10, 6), lossy(4, 10, 6)))
    assert (found.after, found.before, found.by) == (1, 3, "loss")
    assert locate(Direction.FORWARD, "a load", (lossy(1, 5, 6), lossy(2, 4, 5))).by == ""
    slow = locate(Direction.FORWARD, "a load", (lossy(1, 10, 12), lossy(2, 10, 4), lossy(3, 10, 12)))
    assert (slow.by, slow.before) == ("", None)
    many = tuple(
        LoadedHop(k, f"10.0.{k}.1", 10, (MS,) * 10, 200, (MS,) * came) for k, came in ((1, 198), (2, 186), (3, 186))
    )
    assert locate(Direction.FORWARD, "a load", many).by == ""  # too little to be what limits a line
    alike = locate(Direction.FORWARD, "a load", (lossy(1, 10, 8), lossy(2, 10, 8)))
    assert (alike.after, alike.before) == (0, 1)
