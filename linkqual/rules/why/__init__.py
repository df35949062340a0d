"""Why a direction carries no more: each cause held against all that was measured, the diagnosis that follows, with its evidence.

`diagnose` is pure over stored measurements. Causes: "policer", "shaper", "per-flow cap", "hashing", "window", "loss", "host",
"overhead", "packet rate"; "none" where none of them explains it. A cause is a file with `readings(facts)` and one line here.
docs/decisions/074 says when a cause is held for certain. Floor 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from linkqual.model import Diagnosis, Direction, Measurement, Plan
from linkqual.rules import loads, words
from linkqual.rules.why import bucket, facts, flows, host, loss, overhead, packet_rate, slow, window
from linkqual.rules.why.facts import Facts
from linkqual.rules.why.reading import Fit, Reading, diagnosis
from linkqual.units import format_rate, format_ratio

CAUSES: tuple[Callable[[Facts], list[Reading]], ...] = (
    overhead.readings,
    bucket.readings,
    flows.readings,
    loss.readings,
    window.readings,
    host.readings,
    packet_rate.readings,
)


def diagnose(plan: Plan, measurements: Sequence[Measurement]) -> tuple[Diagnosis, ...]:
    """One for each direction whose goodput falls short of the contract, has slow seconds, or whose single flow falls short of many."""
    found = []
    for direction in (Direction.FORWARD, Direction.REVERSE):
        known = facts.of(plan, measurements, direction)
        told = _of(known) if known is not None else []
        if not any(one.subject == "line" for one in told):
            told += slow.diagnosis(plan, measurements, direction)
        found += told
    return tuple(found)


def _of(known: Facts) -> list[Diagnosis]:
    """Where nearly all arrives, a cause that is not borne out is not worth a word."""
    readings = [reading for cause in CAUSES for reading in cause(known)]
    if known.nearly and all(one.fit < Fit.FITS for one in readings):
        return []
    return [_diagnosis(known, readings)]


def _diagnosis(known: Facts, readings: list[Reading]) -> Diagnosis:
    return diagnosis(known.direction, _short(known), known.subject, readings, _thin(known))


def _short(known: Facts) -> str:
    load, got = known.load, known.got
    streams = words.streams(load.streams)
    share = f"{format_rate(got)} is {format_ratio(got / known.allowed)}"
    if known.subject == "flow":
        return f"{known.direction}, {streams}: {share} of what {known.heaviest.streams} reach"
    return f"{known.direction}, {streams}: {share} of what the headers allow at the contracted rate"


def _thin(known: Facts) -> str:
    seconds = len(known.load.receiver_bps)
    if seconds < facts.THIN_S:
        return f"the load was measured for {seconds} s only"
    spread = max(known.load.receiver_bps) - min(known.load.receiver_bps)
    if spread > loads.median(known.load):
        return "its seconds differ by more than their median: the cause may come and go"
    return ""


__all__ = ["diagnose"]
