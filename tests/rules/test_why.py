"""The right cause of many lines whose truth is known, and never a wrong one for certain."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from linkqual.model import Diagnosis, Measurement
from linkqual.rules.why import diagnose

from .seeded_lines import CAUSES, line

SEEDS = 20


def found(cause: str, seed: int, *, udp: bool = True, with_trains: bool = True) -> Diagnosis | None:
    made = line(cause, seed, udp=udp, with_trains=with_trains)
    told = diagnose(made.plan, made.measured)
    assert len(told) <= 1  # one direction was measured
    return told[0] if told else None


@pytest.mark.parametrize("cause", [cause for cause in CAUSES if cause])
def test_the_right_cause_of_nineteen_lines_in_twenty(cause: str) -> None:
    told = [found(cause, seed) for seed in range(SEEDS)]
    named = Counter(one.cause if one else "" for one in told)
    assert named[cause] >= 0.95 * SEEDS, named
    assert not [one for one in told if one and one.cause != cause and one.confidence == "high"]
    if cause != "none":
        assert sum(one is not None and one.confidence == "high" for one in told) >= SEEDS // 2
        assert all(one.evidence and one.decide and one.because for one in told if one)


def test_a_line_that_carries_all_of_it_needs_no_cause() -> None:
    assert not any(found("", seed) for seed in range(SEEDS))


@pytest.mark.parametrize(("udp", "with_trains"), [(False, True), (True, False), (False, False)])
def test_with_less_measured_less_is_named_and_nothing_wrong_for_certain(udp: bool, with_trains: bool) -> None:
    for cause in CAUSES:
        for seed in range(6):
            told = found(cause, seed, udp=udp, with_trains=with_trains)
            if told is not None and told.cause != cause:
                assert told.confidence == "low" or told.cause == "none", (cause, seed, told)


def test_every_cause_not_named_is_told_with_a_reason() -> None:
    told = found("policer", 3)
    assert told is not None
    against = dict(told.against)
    assert {"shaper", "per-flow cap", "hashing", "loss", "window", "host", "overhead"} <= against.keys()
    assert all(against.values())
    assert "policer" not in against


def test_the_same_measurements_give_the_same_diagnosis() -> None:
    assert found("loss", 5) == found("loss", 5)


HOLES = {
    "retransmits": None, "rtt_min_ns": None, "rtt_mean_ns": None, "mss": None, "receive_window_bytes": None, "cpu_near": None, "cpu_far": None,
    "flows_bps": (), "sent_bytes": None, "allowed_bps": None, "receiver_bps": (0.0,) * 8, "version": "",
}  # fmt: skip


def holed(one: Measurement, chance: Random) -> Measurement:
    if one.throughput is not None and chance.random() < 0.7:
        hole = chance.choice(list(HOLES))
        return replace(one, throughput=replace(one.throughput, **{hole: HOLES[hole]}))
    if one.trains is not None and chance.random() < 0.4:
        hole = chance.choice(["bucket_bytes", "buffer_ns", "rate_bps", "at_least_bps"])
        return replace(one, trains=replace(one.trains, **{hole: None}))
    return one


def test_what_is_missing_makes_no_cause_certain_that_is_none() -> None:
    """Steps that did not run, fields that an end did not tell, trains that came to nothing."""
    for seed in range(400):
        chance = Random(seed)
        cause = chance.choice(CAUSES)
        made = line(cause, seed % 8, udp=False)
        kept = [holed(one, chance) for one in made.measured if chance.random() > 0.15]
        for told in diagnose(made.plan, kept):
            assert told.cause == cause or told.confidence != "high", (seed, told)
