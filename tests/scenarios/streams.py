"""Seeded streams of packet records as a measurement would give them, and what the rules say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from linkqual import plan as planner
from linkqual import profile, profiles, rules
from linkqual.metrics import METRICS
from linkqual.model import (
    Conditions,
    Direction,
    Finding,
    Link,
    Measurement,
    Objective,
    Plan,
    Profile,
    StampResult,
    Step,
    Summary,
    ThroughputResult,
    Verdict,
)
from linkqual.records import ABSENT, Fate, Records, Stamp, empty_records
from linkqual.rules.loaded import STREAM, on_stream
from linkqual.stats.added import Added
from linkqual.stats.summary import Summarizer

MS = 1_000_000
START = 1_764_487_000 * 10**9
FORWARD, REVERSE, ROUND_TRIP = Direction.FORWARD, Direction.REVERSE, Direction.ROUND_TRIP


@dataclass(frozen=True)
class Truth:
    """A line: delays by quantile, and which packets it loses (offsets)."""

    packets: int
    rate: float = 100.0
    forward: Sequence[tuple[float, float]] = ((0, 5.5 * MS), (1, 5.7 * MS))  # (probability, ns), linear between
    reverse: Sequence[tuple[float, float]] = ((0, 5.5 * MS), (1, 5.7 * MS))
    lost_forward: Sequence[int] = ()
    lost_reverse: Sequence[int] = ()
    offset_ns: int = 0  # of the far clock
    seed: int = 1


def records(truth: Truth) -> Records:
    """The packets of a truth, in order of sequence number."""
    rng = np.random.default_rng(truth.seed)
    rows = empty_records(truth.packets)
    n = truth.packets
    sent = START + (np.arange(n) * 1e9 / truth.rate).astype(np.int64)
    out, back = (
        np.interp(rng.random(n), *np.array(curve).T).astype(np.int64) for curve in (truth.forward, truth.reverse)
    )
    rows["intended_ns"] = rows["sent_ns"] = sent
    rows["far_received_ns"] = sent + out + truth.offset_ns
    rows["far_sent_ns"] = rows["far_received_ns"] + 20_000
    rows["received_ns"] = sent + out + 20_000 + back
    rows["fate"] = Fate.RECEIVED
    rows["stamps"] = int(Stamp.ALL_KERNEL)
    rows["forward_ttl"] = rows["reverse_ttl"] = 60
    rows["packet_bytes"] = 100
    _lose(rows, np.asarray(truth.lost_forward, np.int64), Fate.LOST_FORWARD)
    _lose(rows, np.asarray(truth.lost_reverse, np.int64), Fate.LOST_REVERSE)
    return number_arrivals(rows)


def _lose(rows: Records, where: np.ndarray, fate: Fate) -> None:
    gone = ("received_ns",) if fate is Fate.LOST_REVERSE else ("far_received_ns", "far_sent_ns", "received_ns")
    for name in gone:
        rows[name][where] = ABSENT
    rows["fate"][where] = fate


def number_arrivals(rows: Records) -> Records:
    """Fill in the order of arrival at both ends."""
    for order, stamp in (("far_seq", "far_received_ns"), ("arrival", "received_ns")):
        came = np.flatnonzero(rows[stamp] != ABSENT)
        rows[order] = ABSENT
        rows[order][came[np.argsort(rows[stamp][came], kind="stable")]] = np.arange(len(came))
    return rows


def spread(count: int, packets: int) -> tuple[int, ...]:
    """Offsets of `count` losses spread evenly."""
    return tuple((2 * i + 1) * packets // (2 * count) for i in range(count))


def summary(rows: Records, objectives: Sequence[Objective] = (), chunk: int = 65536, gap: int = 1) -> Summary:
    counter = Summarizer(tuple(objectives), gap)
    for at in range(0, len(rows), chunk):
        counter.add(rows[at : at + chunk])
    return counter.summary()


def load(name: str) -> Profile:
    """A shipped profile."""
    return profile.parse(profiles.text(name), name)


def plan_of(name: str = "training", link: Link | None = None) -> Plan:
    return planner.make(load(name), link or Link())


def stamp(made: Summary, rate: float = 100.0, conditions: Conditions | None = None, **more: object) -> Measurement:
    step = Step("stamp", "stamp")
    result = StampResult(made, rate, 100, 2 * 10**9, **more)  # type: ignore[arg-type]
    return Measurement(step, START, 0, stamp=result, conditions=conditions or Conditions(same_clock=True))


def goodput(direction: Direction, bps: Sequence[float], streams: int = 16, **more: object) -> Measurement:
    step = Step(f"throughput/{direction}/{streams}", "throughput", direction=direction)
    return Measurement(step, START, 0, throughput=ThroughputResult(streams, tuple(bps), **more))  # type: ignore[arg-type]


def under_load(
    direction: Direction, bps: Sequence[float], idle: Truth, loaded: Truth, objectives: Sequence[Objective] = (), streams: int = 16,
    conditions: Conditions | None = None, **more: object,
) -> Measurement:  # fmt: skip
    """A judged load with a stream beside it: what packets met before it began, and while it ran."""
    based = tuple(on_stream(each) for each in objectives if each.metric in STREAM)
    before, during = records(idle), records(loaded)
    added = Added(objectives)
    added.before(before)
    added.loaded(during)
    beside = StampResult(summary(during, based), loaded.rate, 64, 2 * 10**9, stopped_by="fixed length")
    found = goodput(
        direction, bps, streams, beside=beside, added=added.data(), idle_round_trip=added.idle_round_trip(), **more
    )
    step = replace(found.step, params={"streams": streams, "judged": True, "congestion_control": "cubic"})
    return replace(found, step=step, conditions=conditions or Conditions(same_clock=True))


def steady(mean: float, seconds: int, seed: int = 1, ripple: float = 0.001) -> list[float]:
    """Seconds of goodput close to a mean."""
    rng = np.random.default_rng(seed)
    return (mean * (1 + ripple * rng.standard_normal(seconds))).tolist()


def one(verdict: Verdict, key: str) -> Finding:
    """The finding of an objective key."""
    (found,) = [each for each in verdict.findings if each.objective.key == key]
    return found


def said(verdict: Verdict) -> str:
    """Every sentence of it."""
    return "\n".join(
        [*(f"{each.because} {each.decide}" for each in verdict.findings), *(each.sentence for each in verdict.notes)]
    )


def judge_line(
    truth: Truth, profile_name: str = "training", link: Link | None = None, loads: Sequence[Measurement] = ()
) -> Verdict:
    """From packets to verdict, as a stored run of fixed length: the red lines on the packets and loads these scenarios are about."""
    plan = plan_of(profile_name, link)
    spoken_of = tuple(one for one in plan.objectives if METRICS[one.metric].probe in ("stamp", "throughput", "marking"))
    plan = replace(plan, objectives=spoken_of)
    return rules.judge(plan, (stamp(_counted(truth, plan.objectives), truth.rate), *loads))


@cache
def _counted(truth: Truth, objectives: tuple[Objective, ...]) -> Summary:
    return summary(records(truth), objectives)
