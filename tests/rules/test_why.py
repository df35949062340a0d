"""The right cause of many lines whose truth is known, and never a wrong one for certain."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from linkqual.model import (
    Diagnosis,
    Direction,
    Fault,
    Link,
    Measurement,
    Objective,
    Outcome,
    Plan,
    Relation,
    Step,
    ThroughputResult,
)  # fmt: skip
from linkqual.reports import why
from linkqual.rules import judge
from linkqual.rules.why import diagnose
from linkqual.rules.why.reading import UNLOOKED
from linkqual.stats.throughput import header_goodput

from .seeded_lines import CAUSES, line, tcp

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


def seconds(*rates: float, cir: int | None = 10**8) -> tuple[Plan, list[Measurement]]:
    asked = Objective("throughput", "p5", Direction.FORWARD, 90e6, Relation.AT_LEAST)
    step = Step("throughput/forward/8", "throughput", {"streams": 8, "judged": True}, Direction.FORWARD)
    load = ThroughputResult(8, rates, allowed_bps=94e6 if cir else None, mss=1448)
    return Plan("p", (), (asked,), Link(cir_bps=cir, mtu=1500)), [Measurement(step, 0, 1, throughput=load)]


def test_slow_seconds_of_a_good_median_are_told_one_by_one() -> None:
    plan, taken = seconds(*(70e6 if at % 5 == 2 else 94e6 for at in range(60)))
    (told,) = diagnose(plan, taken)
    assert judge(plan, taken).findings[0].outcome is Outcome.FAIL
    assert (told.cause, told.confidence) == ("none", "low")
    assert "most seconds carry all of it" in told.sentence
    assert "slow seconds at 3, 8, 13, 18, 23, 28, 33, 38 and 4 more of 60, down to 70 Mbit/s" in told.sentence
    assert "nothing holds all seconds down" in told.because
    assert "--only trains" in told.decide
    assert "--only trains" not in diagnose(plan, [*taken, ran("trains")])[0].decide


def test_a_goodput_that_fails_has_its_why_without_a_contracted_rate_too() -> None:
    (told,) = diagnose(*seconds(*[60e6] * 60, cir=None))
    assert "60 seconds carry less" in told.sentence
    assert "--cir" in told.decide
    assert diagnose(*seconds(*[94e6] * 60, cir=None)) == ()
    assert diagnose(*seconds(*[94e6] * 10)) == ()  # open for want of seconds: none of them is slow


def ran(probe: str, fault: Fault | None = None) -> Measurement:
    return Measurement(Step(f"{probe}/forward", probe, {}, Direction.FORWARD), 0, 1, fault=fault)


def test_what_was_not_looked_for_is_not_called_looked_for() -> None:
    plan, taken = seconds(*[60e6] * 60)
    (told,) = diagnose(plan, taken)
    assert told.sentence.endswith(UNLOOKED)
    assert "--only trains" in told.decide
    assert "--only flows" in told.decide
    assert why.title(told) == "Not looked into"


def test_what_ran_and_failed_is_said_and_not_asked_for_again() -> None:
    plan, taken = seconds(*[60e6] * 60)
    failed = Fault("host-overload", "the host was starved", "end what else runs there")
    (told,) = diagnose(plan, [*taken, ran("trains", failed), ran("flows")])
    assert UNLOOKED not in told.sentence
    assert "--only trains" not in told.decide
    assert "--only flows" not in told.decide
    assert "end what else runs there" in told.decide
    against = dict(told.against)
    assert against["policer"] == "looked for in vain: trains ran and told nothing: the host was starved"
    assert "flows ran and told nothing" in against["hashing"]
    assert "looked for in vain: policer, shaper, per-flow cap, hashing" in told.because
    assert "not looked for: loss" in told.because


def test_a_rate_that_keeps_its_limit_needs_no_reason() -> None:
    left = header_goodput(22e6, 1500)
    load = tcp(16, 0.966 * left, Random(1), rtt=0.09, resent=0.03, allowed=left)
    limited = Objective("throughput", "p5", Direction.FORWARD, 0.95 * left, Relation.AT_LEAST)
    link = Link(cir_bps=22_000_000, mtu=1500)
    assert diagnose(Plan("made", (), (limited,), link), [load]) == ()
    assert diagnose(Plan("made", (), (replace(limited, limit=0.99 * left),), link), [load])
