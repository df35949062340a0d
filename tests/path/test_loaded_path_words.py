"""What is said of the place of a queue, and of trains that say the same or another thing."""

from __future__ import annotations

from typing import Any

import pytest

from linkqual.model import Direction, LoadedHop, LoadedPath, Measurement, NarrowResult, Step
from linkqual.rules.loaded_path import notes

MS = 1_000_000
HOPS = tuple(
    LoadedHop(ttl, None if ttl == 2 else f"10.0.{ttl}.1", 2, (MS,) * 2, 6, (MS + (31 * MS if ttl > 2 else 0),) * 6)
    for ttl in (1, 2, 3, 4)
)


def found(**more: Any) -> Measurement:
    made = {"hops": HOPS, "after": 1, "before": 3, "by": "queue", "confidence": "high", "because": "it persists"} | more
    return Measurement(Step("t", "throughput"), 0, 1, loaded_path=LoadedPath(Direction.FORWARD, "16 streams of TCP", **made))  # fmt: skip


def said(*measurements: Measurement) -> list[tuple[str, str]]:
    return [(note.sentence, note.weight) for note in notes(measurements)]


def test_where_how_much_how_sure_and_why() -> None:
    [(sentence, weight)] = said(found())
    assert sentence == (
        "forward, under 16 streams of TCP, the queue of 31 ms begins between 10.0.1.1 and 10.0.3.1, with 1 hop between that cannot be told "
        "(high confidence: it persists)"
    )
    assert weight == "info"


def test_the_surest_load_speaks_and_a_load_that_shows_nothing_says_so() -> None:
    assert (
        "the sending host"
        in said(found(confidence="medium"), found(after=0, before=1), found(by="", confidence=""))[0][0]
    )
    [(sentence, _)] = said(found(by="", after=None, before=None, confidence="", because="the queue is short"))
    assert sentence.endswith("no hop shows where a queue begins: the queue is short")
    [(sentence, _)] = said(
        found(hops=(), by="", after=None, before=None, confidence="", because="no hop was asked: why")
    )
    assert (
        sentence == "where a queue begins forward is not known: no hop was asked: why"
    )  # and no load is said to have been sent
    assert said() == []


@pytest.mark.parametrize(
    ("named", "near", "word", "weight"),
    [(3, (), "name link 3, which is there", "info"), (4, (2,), "link 2 there as nearly as narrow", "info"), (4, (), "contradict", "warn"), (1, (), "contradict", "warn")],
)  # fmt: skip
def test_trains_agree_or_contradict(named: int, near: tuple[int, ...], word: str, weight: str) -> None:
    narrow = NarrowResult(Direction.FORWARD, links=4, named=named, narrow=near, confidence="high")  # type: ignore[call-arg]
    [(sentence, heavy)] = said(found(), Measurement(Step("n", "narrow"), 0, 1, narrow=narrow))
    assert word in sentence
    assert heavy == weight
