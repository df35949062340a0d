from __future__ import annotations

import numpy as np
import pytest

from linkqual.errors import UsageError
from linkqual.lab import simulate as module
from linkqual.lab.line import load, names, parse
from linkqual.lab.simulate import simulate
from linkqual.model import Direction
from linkqual.records import ABSENT, Fate, Records

HEAD = "sites: [a, b]\nforward: [r1, r2, r3]\n"


def run(line_text: str, packets: int = 50_000, rate: float = 20_000, **more: int) -> tuple[Records, dict]:
    simulation = simulate(parse(line_text, "x.yaml"), packets, rate, seed=1, **more)
    records = np.concatenate(list(simulation))
    assert records["seq"].tolist() == list(range(packets))
    return records, simulation.truth


@pytest.mark.parametrize("name", names())
def test_losses_equal_the_truth_and_delays_the_description(name: str) -> None:
    line = load(name)
    simulation = simulate(line, 100_000, 20_000, seed=3)
    records = np.concatenate(list(simulation))
    truth = simulation.truth
    for direction, fate in (("forward", Fate.LOST_FORWARD), ("reverse", Fate.LOST_REVERSE)):
        assert (records["fate"] == fate).sum() == truth[direction]["dropped"] + truth[direction]["over_rate"]
    here = records[records["fate"] == Fate.RECEIVED]
    forward = here["far_received_ns"] - here["sent_ns"]
    reverse = here["received_ns"] - here["far_sent_ns"]
    for direction, delays in ((Direction.FORWARD, forward), (Direction.REVERSE, reverse)):
        assert delays.min() >= line.delay_ns(direction, 0)
        jitter = sum(what.jitter.spread_ns for what in line.impairments(direction))
        assert np.median(delays) == pytest.approx(line.delay_ns(direction), abs=1 + jitter / 8)
    assert set(here["forward_ttl"]) == {255 - len(line.forward) + 2}
    assert set(here["reverse_ttl"]) == {255 - len(line.reverse) + 2}


def test_one_seed_gives_one_stream() -> None:
    text = (
        HEAD + "links:\n  - between: [r1, r2]\n    both: {delay: 1 ms, loss: {ratio: 1 %, burst: 3}, duplicate: 1 %}\n"
    )
    one, other = run(text)[0], run(text)[0]
    assert np.array_equal(one, other)


def test_copies_are_counted_in_their_direction() -> None:
    text = (
        HEAD
        + "links:\n  - between: [r1, r2]\n    forward: {delay: 1 ms, duplicate: 1 %}\n    reverse: {duplicate: 2 %}\n"
    )
    records, truth = run(text)
    assert (records["fate"] == Fate.RECEIVED).all()
    assert records["forward_copies"].sum() + records["reverse_copies"].sum() == (
        truth["forward"]["duplicated"] + truth["reverse"]["duplicated"]
    )
    # a copy made on the way there is answered like any packet, and such an answer may be copied again on the way back
    assert int(records["forward_copies"].sum()) == pytest.approx(500, abs=100)
    assert int(records["reverse_copies"].sum()) == pytest.approx(1000, abs=150)


def test_reordering_shows_in_the_order_of_arrival() -> None:
    records, truth = run(
        HEAD + "links:\n  - between: [r1, r2]\n    forward: {delay: 1 ms, reorder: {ratio: 1 %, by: 1 ms}}\n"
    )
    newest = np.maximum.accumulate(records["far_seq"][np.argsort(records["seq"])])
    order = records["seq"][np.argsort(records["far_seq"])]
    assert (order[1:] < np.maximum.accumulate(order)[:-1]).sum() == truth["forward"]["reordered"] > 400
    assert newest[-1] == len(records) - 1
    assert truth["reverse"]["reordered"] == 0


def test_a_clock_offset_moves_only_the_far_end() -> None:
    text = HEAD + "links:\n  - between: [r1, r2]\n    both: {delay: 2 ms}\n"
    plain, moved = run(text, 1000)[0], run(text, 1000, clock_offset_ns=-5_000_000)[0]
    assert np.array_equal(plain["received_ns"], moved["received_ns"])
    assert np.array_equal(plain["far_received_ns"] - 5_000_000, moved["far_received_ns"])
    assert np.array_equal(plain["far_sent_ns"] - 5_000_000, moved["far_sent_ns"])


def test_what_did_not_happen_is_absent() -> None:
    records, _ = run(HEAD + "links:\n  - between: [r1, r2]\n    forward: {loss: {every: 10}}\n", 1000)
    gone = records[9::10]
    assert (gone["fate"] == Fate.LOST_FORWARD).all()
    for column in ("far_received_ns", "far_sent_ns", "received_ns", "far_seq", "arrival"):
        assert (gone[column] == ABSENT).all()
    assert sorted(records["arrival"][records["fate"] == Fate.RECEIVED]) == list(range(900))


def test_an_answer_after_its_timeout_is_lost() -> None:
    records, _ = run(HEAD + "links:\n  - between: [r1, r2]\n    both: {delay: 20 ms}\n", 1000, timeout_ns=30_000_000)
    assert (records["fate"] == Fate.LOST_REVERSE).all()


def test_a_rate_too_high_is_dropped_by_the_shaper() -> None:
    text = (
        HEAD + "links:\n  - between: [r1, r2]\n    forward: {rate: {limit: 10 Mbit/s, bucket: 3 kB, buffer: 30 kB}}\n"
    )
    records, truth = run(text, 50_000, 20_000)  # (100 + 28 + 38) bytes at 20 kpps: 26.56 Mbit/s
    lost = int((records["fate"] == Fate.LOST_FORWARD).sum())
    assert lost == truth["forward"]["over_rate"]
    assert lost / len(records) == pytest.approx(1 - 10 / 26.56, abs=0.01)
    here = records[records["fate"] == Fate.RECEIVED]
    wait = (here["far_received_ns"] - here["sent_ns"]).max()
    assert wait == pytest.approx(30_000 * 8 / 10e6 * 1e9, rel=0.02)


def test_what_cannot_be_sent_is_refused() -> None:
    with pytest.raises(UsageError, match="do not fit"):
        simulate(load("clean"), 10, 10, 1, packet_bytes=1500)
    with pytest.raises(UsageError, match="cannot be sent"):
        simulate(load("clean"), 0, 10, 1)


def test_the_size_of_a_batch_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        HEAD
        + "links:\n  - between: [r1, r2]\n    both: {delay: 1 ms, jitter: {spread: 3 ms, keep_order: false}, loss: {ratio: 1 %}, duplicate: 1 %}\n"
        + "  - between: [r2, r3]\n    reverse: {reorder: {ratio: 5 %, by: 4 ms}, rate: {limit: 50 Mbit/s}}\n"
    )
    whole, truth = run(text, 20_000)
    monkeypatch.setattr(module, "_BATCH", 777)
    pieces, same = run(text, 20_000)
    assert np.array_equal(whole, pieces)
    assert truth == same
