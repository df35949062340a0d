"""Clocks and stamps, as every report shows them: how exactly delays are known, the offset of the clocks, and where they were set."""

from __future__ import annotations

from dataclasses import dataclass

from linkqual.model import Conditions, Histogram, Measurement, Qualification, Summary
from linkqual.rules import clocks, exactness
from linkqual.stats import skew
from linkqual.units import NS_PER_S, format_duration


@dataclass(frozen=True, slots=True)
class Fact:
    """One row: what it is about, what is known, and the small print."""

    name: str
    said: str
    more: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """One-way delays between two steps of a clock."""

    span: str  # "until 02:13:07.105", "from 02:13:07.112"; "" for a run that was not cut
    forward: Histogram
    reverse: Histogram


def floors(q: Qualification) -> list[str]:
    """What the hosts add by themselves, in a sentence each, equal ones once."""
    found: dict[str, None] = {}
    for m in q.measurements:
        near, far = m.conditions.near.floor, m.conditions.far.floor
        if near is not None:
            found[exactness.floor_words(near, "this host")] = None
        if far is not None and far != near:
            found[exactness.floor_words(far, "the far host")] = None
    return list(found)


def facts(m: Measurement) -> list[Fact]:
    """Of the packet stream of a measurement."""
    if m.stamp is None:
        return []
    rows = []
    known = exactness.of(m.stamp.summary, m.conditions)
    if known is not None:
        rows.append(Fact("round trip exact to", _to(known.round_trip_ns), f"{known.sources}; {known.round_trip}"))
        rows.append(Fact("one-way delay exact to", _to(known.one_way_ns), known.one_way))
    if not m.conditions.same_clock:
        rows += _between(m.stamp.summary, m.conditions)
    return rows


def _to(ns: int | None) -> str:
    return "not known" if ns is None else format_duration(ns)


def _between(summary: Summary, conditions: Conditions) -> list[Fact]:
    rows = []
    estimates = [("", skew.offset(summary.forward_delay, summary.reverse_delay))]
    if summary.segments:
        estimates = [(f", {part.span}", skew.offset(part.forward, part.reverse)) for part in parts(summary)]
    for span, estimate in estimates:
        if estimate is not None:
            said = f"{format_duration(estimate[0])} ± {format_duration(estimate[1])}"
            rows.append(
                Fact(
                    f"offset of the far clock{span}",
                    said,
                    "(F − R) / 2 of the smallest delays, to within half a round trip",
                )
            )
    pace, paces = skew.clock_drift(summary), skew.drift_range(summary)
    if pace is not None and paces is not None:
        said = f"{pace * 1e6:+.3g} ppm ({paces[0] * 1e6:+.3g} to {paces[1] * 1e6:+.3g} by the two directions)"
        rows.append(
            Fact("drift of the far clock", said, "slope beneath the smallest delays (Moon, Skelly and Towsley 1999)")
        )
    bound, why = clocks.bound_ns(summary, conditions)
    if bound is None and conditions.clock_error_ns is not None:
        rows.append(Fact("stated bound of both clocks", "does not hold", why))
    return rows


def parts(summary: Summary) -> list[Part]:
    """One-way delays cut at the steps of the clocks; a run without steps is one part."""
    if not summary.segments:
        return [Part("", summary.forward_delay, summary.reverse_delay)]
    found = []
    for number, segment in enumerate(summary.segments):
        words = []
        if number:
            words.append(f"from {_time(summary.clock_steps[number - 1].after_ns)}")
        if number < len(summary.clock_steps):
            words.append(f"until {_time(summary.clock_steps[number].before_ns)}")
        found.append(Part(" ".join(words), segment.forward_delay, segment.reverse_delay))
    return found


def _time(ns: int) -> str:
    return clocks.instant(ns)[11:] if abs(ns) > NS_PER_S else clocks.instant(ns)
