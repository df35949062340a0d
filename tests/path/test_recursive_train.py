"""A train between two rows of packets that expire: over chains in memory, and between real routers; what is planned of it."""

from __future__ import annotations

import json
import os
import socket
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linkqual import profiles as shipped
from linkqual.bottleneck import Rate
from linkqual.errors import UsageError
from linkqual.lab.isolate import available, run_isolated
from linkqual.lab.network import VirtualLine
from linkqual.model import Direction, Fault, Link, LoadedHop, LoadedPath, Step
from linkqual.plan import PlanOptions, make
from linkqual.probes import narrow
from linkqual.probes.bench import Bench
from linkqual.profile import parse
from linkqual.session.recursive_train import PACKET_BYTES, SIZES, Heard, Recursive, numbers

MBIT, MS = 1_000_000, 1_000_000
TRAINING = parse(shipped.text("training"), "training.yaml")
SENT_NS = 5_000  # between two packets of the sender


def carried(
    rates: list[tuple[int, int]], size: int, *, policer: int = 0, silent: int = 0, single: tuple[int, ...] = ()
) -> Heard:
    """One train over links of (Mbit/s, bucket in bytes) each; the link `policer` drops what its bucket does not hold, hops in `single` answer one packet."""
    ttls = [ttl for ttl in range(1, len(rates)) if ttl != silent]
    rows = [(ttl, 0) for ttl in ttls] + [(99, 2)] * size + [(ttl, 1) for ttl in reversed(ttls)]
    times = np.arange(len(rows)) * SENT_NS
    sent: dict[int, list[int]] = {ttl: [0, 0] for ttl in ttls}
    came: dict[int, list[int | None]] = {ttl: [None, None] for ttl in ttls}
    alive = [(row, int(at)) for row, at in zip(rows, times, strict=True)]
    for (ttl, place), at in alive:
        if place < 2:
            sent[ttl][place] = at
    for link, (mbit, bucket) in enumerate(rates, 1):
        tokens, last, leaving, passed = float(bucket), 0, 0, []
        for (ttl, place), at in alive:
            now = max(at, leaving)
            tokens = min(float(bucket), tokens + (now - last) * mbit * MBIT / 8e9)
            wait = max(0.0, (PACKET_BYTES - tokens) * 8e9 / (mbit * MBIT))
            if link == policer and wait:
                last = now
                continue
            leaving = last = round(now + wait)
            tokens += wait * mbit * MBIT / 8e9 - PACKET_BYTES
            if ttl == link:
                came[ttl][place] = None if ttl in single and place else leaving
            else:
                passed.append(((ttl, place), leaving))
        alive = passed
    return Heard(size, {ttl: (a, b) for ttl, (a, b) in sent.items()}, {ttl: (a, b) for ttl, (a, b) in came.items()})


def found(rates: list[tuple[int, int]], **more: Any) -> tuple[LoadedPath, list[int]]:
    hops = [LoadedHop(ttl, None if ttl == more.get("silent") else f"10.0.{ttl}.1") for ttl in range(1, len(rates))]
    trains = Recursive.over(hops)
    while (size := trains.next()) is not None:
        trains.taken.append(carried(rates, size, **more))
    return trains.result(Direction.FORWARD), [one.load for one in trains.taken]


SMALL = 16_000


def test_a_narrow_link_draws_the_train_out() -> None:
    for at in range(3):
        mbits = [90, 90, 90, 90]
        mbits[at] = 30
        path, sizes = found([(mbit, SMALL) for mbit in mbits])
        assert (path.after, path.before, path.by, path.confidence) == (at, at + 1, "train", "low")
        assert sizes == [0, 60, 400, 60, 60]


def test_a_bucket_that_lets_a_short_train_through_is_met_by_a_longer_one() -> None:
    path, sizes = found([(90, SMALL), (30, 256_000), (60, SMALL), (80, SMALL)])
    assert (path.after, path.before) == (1, 2)
    assert sizes == [0, 60, 400, 1600, 1600, 1600]


def test_a_silent_hop_widens_it() -> None:
    path, _ = found([(90, SMALL), (30, SMALL), (90, SMALL), (90, SMALL)], silent=2)
    assert (path.after, path.before) == (1, 3)


def test_what_a_policer_drops_behind_the_train_widens_it_too() -> None:
    path, _ = found([(200, SMALL), (30, 50_000), (200, SMALL), (200, SMALL)], policer=2)
    assert path.after is not None
    assert path.before is not None
    assert path.after < 2 <= path.before
    assert "dropped before it" in path.because


@pytest.mark.parametrize("single", [(3,), (2, 3)])
def test_routers_that_answer_one_packet_at_a_time_drop_none(single: tuple[int, ...]) -> None:
    path, _ = found([(3000, 10**9)] * 4, single=single)
    assert (path.by, path.before) == ("", None)
    assert "answer one packet at a time" in path.because or "answers one packet at a time" in path.because
    drawn, _ = found([(30, SMALL), (90, SMALL), (90, SMALL), (90, SMALL)], single=single)
    assert (drawn.after, drawn.before) == (0, 1)
    assert "dropped" not in drawn.because


@pytest.mark.parametrize(("policer", "single"), [(3, ()), (2, ()), (2, (3,)), (3, (2,))])
def test_a_policer_shows_at_the_next_router_that_answers_two_packets(policer: int, single: tuple[int, ...]) -> None:
    """Of the last router alone too."""
    rates = [(3000, 10**9)] * 4
    rates[policer - 1] = (30, 50_000)
    path, _ = found(rates, policer=policer, single=single)
    assert path.after is not None
    assert path.before is not None
    assert path.after < policer <= path.before, path
    assert "without load both: they are dropped before it" in path.because


def test_a_router_that_has_used_up_its_answers_drops_none() -> None:
    """A bucket of answers: it held those of the first trains."""
    trains = Recursive.over([LoadedHop(ttl, f"10.0.{ttl}.1") for ttl in (1, 2, 3)])
    while (size := trains.next()) is not None:
        left = 3 if len(trains.taken) == 0 else 1
        one = carried([(3000, 10**9)] * 4, size)
        came = one.came | {3: (one.came[3][0], one.came[3][1] if left > 1 else None)}
        trains.taken.append(replace(one, came=came))
    assert [one.load for one in trains.taken][-1] == 0
    assert trains.result(Direction.FORWARD).by == ""


def test_a_train_that_came_as_it_left_names_nothing() -> None:
    path, sizes = found([(3000, 10**9)] * 4)
    assert (path.by, path.before, sizes[-1]) == ("", None, SIZES[-1])
    assert "came as they left" in path.because


def test_without_answers_nothing_is_known_and_it_ends() -> None:
    trains = Recursive.over([LoadedHop(1, "10.0.1.1")])
    while (size := trains.next()) is not None:
        trains.taken.append(Heard(size, {1: (0, 100)}, {1: (50, None)}))
    assert len(trains.taken) <= 10
    assert trains.result(Direction.FORWARD).because == "no hop answered both before and behind a train"


def test_first_and_last_packets_are_told_apart_and_nearly_as_long_as_the_load() -> None:
    given = numbers(tuple(range(1, 31)))
    flat = [number for both in given.values() for number in both]
    assert len(set(flat)) == 60
    assert min(flat) >= 1140


def test_the_plan_asks_for_consent_and_says_what_goes_where() -> None:
    options = PlanOptions(only=("narrow",), reflector=True)
    with pytest.raises(UsageError, match="nobody has allowed that"):
        make(TRAINING, Link(), options)
    plan = make(TRAINING, Link(), replace(options, expiring_load=True))
    [step] = plan.steps
    assert (step.key, step.direction, step.params["far_end"]) == ("narrow/forward", Direction.FORWARD, "reflector")
    assert step.total_bytes < 10_000_000
    assert any("closed UDP port of the far host" in why for why in plan.reasons)
    slowly = make(TRAINING, Link(), replace(options, expiring_load=True, max_rate_bps=20 * MBIT))
    [slow] = slowly.steps
    assert any("at 20 Mbit/s; two expire" in why for why in slowly.reasons)
    assert slow.offered_bps == slow.params["max_rate_bps"] == 20 * MBIT


def test_an_interruption_ends_it_before_the_next_train() -> None:
    from linkqual.session.hop_watch import Known

    known = Known(0, 33_434, (LoadedHop(1, "127.0.0.1"), LoadedHop(2, "127.0.0.1")))
    step = Step("narrow/forward", "narrow", {"far_end": "reflector", "max_rate_bps": None}, Direction.FORWARD)
    done = narrow.measure(step, Bench("127.0.0.1", hops={Direction.FORWARD: known}, interrupted=lambda: True))
    assert done.fault == Fault("interrupted", "the trains were interrupted; what was found is kept")
    assert done.loaded_path is None


@pytest.mark.loopback
def test_an_interruption_ends_a_slow_train_in_the_middle() -> None:
    from linkqual.net.recursive_train import send
    from linkqual.net.trace_sockets import TraceSockets

    asked = iter((False, False, True))
    with TraceSockets(socket.AF_INET, "127.0.0.1", 0, "127.0.0.1", 33_434) as sockets:
        assert send(sockets, (1,), 10**6, 2 * MS, lambda: next(asked)) is None
    assert next(asked, None) is None


@pytest.mark.lab
@pytest.mark.skipif(available() != "", reason="needs namespaces")
def test_between_real_routers(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the right to raw sockets, then without it."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    from linkqual.net import recursive_train, trace_sockets
    from linkqual.probes import recursive

    monkeypatch.setattr(recursive, "APART_NS", 50 * MS)
    monkeypatch.setattr(recursive_train, "LISTEN_NS", 300 * MS)
    import bottleneck

    rates = tuple(Rate(mbit * MBIT, False, 16_000, mbit * MBIT // 80, "l2") for mbit in (90, 30, 60, 80))
    hear, say = os.pipe()

    def measured(virtual: VirtualLine) -> list[Any]:
        step = Step("narrow/forward", "narrow", {"far_end": "reflector", "max_rate_bps": None}, Direction.FORWARD)
        done = narrow.measure(step, Bench(virtual.address(virtual.far), virtual.address(virtual.near)))
        path = done.loaded_path
        return [path.after, path.before, path.by] if path else [0, 0, str(done.fault)]

    def inside() -> int:
        with ExitStack() as stack:
            virtual = stack.enter_context(VirtualLine(bottleneck.described(rates, "plain", 1)))
            stack.enter_context(virtual.inside(virtual.near))
            raw = measured(virtual)
            monkeypatch.setattr(trace_sockets, "_raw_icmp", lambda _family: None)
            os.write(say, json.dumps([raw, measured(virtual)]).encode())
        return 0

    run_isolated(inside)
    os.close(say)
    with os.fdopen(hear) as answer:
        assert json.loads(answer.read()) == [[1, 2, "train"]] * 2
