"""Why a direction carries what it carries: one card a diagnosis, with the pictures of what was looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from linkqual.model import Diagnosis, Direction, FlowsResult, LoadCount, Qualification, TrainsResult
from linkqual.reports import charts_cause
from linkqual.reports.marks import Picture
from linkqual.rules.why.reading import UNLOOKED
from linkqual.session import flow_sharing
from linkqual.session.flow_sharing import Sharing
from linkqual.stats import load_rates
from linkqual.units import format_count, format_duration, format_rate, format_size

DOTS = {"high": "●●●", "medium": "●●○", "low": "●○○"}
_TITLES = {
    "policer": "A policer",
    "shaper": "A shaper",
    "per-flow cap": "A limit of each flow",
    "hashing": "Flows share members of a bundle",
    "window": "The TCP window",
    "loss": "Packet loss",
    "host": "Our own hosts",
    "overhead": "Headers",
    "none": "Cause not found",
}


@dataclass(frozen=True, slots=True)
class Card:
    """A diagnosis as it is shown. `picture`: what the cause was seen in, where there is one."""

    diagnosis: Diagnosis
    title: str
    dots: str
    picture: Picture | None = None
    caption: str = ""


_BY_TRAINS, _BY_FLOWS = ("policer", "shaper"), ("per-flow cap", "hashing")


def section(q: Qualification) -> dict[str, Any]:
    """What the templates why.html and limits.html ask for."""
    trained, shared, unneeded = trains(q), flows(q), spared(q)
    cards = [_card(one, trained, shared) for one in (q.verdict.diagnoses if q.verdict else ())]
    told = {(_seen_in(one.diagnosis), one.diagnosis.direction) for one in cards if one.picture}
    return {
        "trains": trained,
        "flows": shared,
        "spared": unneeded,
        "cards": cards,
        "shown": bool(trained or shared or unneeded),
        "told": told,  # pictures that stand in a card: none is drawn twice
        "legend": legend,
    }


def _card(one: Diagnosis, trained: Sequence[TrainsShown], shared: Sequence[FlowsShown]) -> Card:
    picture, caption = None, ""
    if _seen_in(one) == "trains":
        picture = next((shown.picture for shown in trained if shown.result.direction is one.direction), None)
        caption = f"One train of packets, {one.direction}: bytes arrived"
    elif _seen_in(one) == "flows":
        picture = next((shown.picture for shown in shared if shown.direction is one.direction), None)
        caption = f"Flows sent alike, {one.direction}: what each got"
    return Card(one, title(one), DOTS.get(one.confidence, ""), picture, caption)


def _seen_in(one: Diagnosis) -> str:
    return "trains" if one.cause in _BY_TRAINS else "flows" if one.cause in _BY_FLOWS else ""


def title(one: Diagnosis) -> str:
    """ "A policer"; of a single flow it is said whose it is."""
    said = _TITLES.get(one.cause, one.cause.capitalize())
    if one.cause == "none" and one.sentence.endswith(UNLOOKED):
        said = "Not looked into"
    return f"{said} (one flow alone)" if one.subject == "flow" else said


def spared(q: Qualification) -> list[str]:
    """Steps that were not needed, with why: "trains/reverse: nothing to explain ..."; equal reasons once."""
    groups: dict[str, list[str]] = {}
    for measurement in q.measurements:
        if measurement.not_needed:
            groups.setdefault(measurement.not_needed, []).append(measurement.step.key)
    return [f"{', '.join(steps)}: {why}" for why, steps in groups.items()]


def legend(kind: str, way: Direction) -> list[tuple[str, str]]:
    """Keys of the picture of "trains" or "flows", or of the one a cause was seen in."""
    if kind in (*_BY_TRAINS, "trains"):
        rate = "the rate alone: it meets the left edge at the size of the bucket"
        return [(f"line {way}", "arrived"), ("dash limit", rate)]
    return [(f"box {way}", "lost packets"), (f"box hollow {way}", "lost none")]


# ---- trains


@dataclass(frozen=True, slots=True)
class TrainsShown:
    """What the trains of one direction say, in words and as a picture."""

    result: TrainsResult
    facts: tuple[tuple[str, str], ...]
    picture: Picture | None


COUNTS = {"l1": "preamble, gap and FCS counted", "l2": "frame and FCS counted", "l3": "IP packets alone counted"}


def trains(q: Qualification) -> list[TrainsShown]:
    """Every direction trains were sent in."""
    found = [one.trains for one in q.measurements if one.trains is not None]
    return [TrainsShown(one, tuple(_train_facts(one)), charts_cause.arrival_curve(one)) for one in found]


def _train_facts(one: TrainsResult) -> Iterator[tuple[str, str]]:
    kinds = {"policer": "policer: what exceeds the rate is dropped", "shaper": "shaper: what exceeds the rate waits",
             "none": "nothing slower than the sender", "unknown": "not known"}  # fmt: skip
    yield "met", kinds.get(one.kind, one.kind)
    if one.rate_bps:
        yield "rate", f"{_span(one.rate_bps, format_rate)}, {COUNTS.get(one.counts, one.counts)}"
    if one.bucket_bytes:
        yield "bucket", _span(one.bucket_bytes, format_size)
    if one.buffer_ns:
        yield "queue", f"{_span(one.buffer_ns, format_duration)} deep"
    elif one.buffer_at_least_ns:
        yield "queue", f"at least {format_duration(one.buffer_at_least_ns)} deep, its end was not seen"
    if one.at_least_bps:
        yield "no limit below", f"{format_rate(one.at_least_bps)}, {COUNTS.get(one.counts, one.counts)}"
    void = [train for train in one.trains if train.void]
    sent = sum(train.packets for train in one.trains)
    used = f"{len(one.trains) - len(void)} of {len(one.trains)} trains count, {format_count(sent)} packets of {one.packet_bytes} B"
    yield "seen in", used + (f"; left out: {', '.join(dict.fromkeys(train.void for train in void))}" if void else "")
    if one.because:
        yield "because", one.because


def counted(bps: float, counts: str) -> str:
    """ "101.6 Mbit/s (l1: preamble, gap and FCS counted)": a rate with what it counts."""
    return f"{format_rate(bps)} ({counts}: {COUNTS.get(counts, 'not known')})"


def _span(values: tuple[float, float, float], words: object) -> str:
    value, low, high = (words(value) for value in values)  # type: ignore[operator]
    return f"{value} ({low} to {high})"


# ---- flows


@dataclass(frozen=True, slots=True)
class FlowsRow:
    """One phase; rates in bit/s at the IP layer."""

    flows: int
    offered: float
    carried: float
    least: float
    most: float
    lost: float
    host_lost: int


@dataclass(frozen=True, slots=True)
class FlowsShown:
    """The same load over one flow and over many, in one direction."""

    direction: Direction
    sharing: Sharing
    words: str
    rows: tuple[FlowsRow, ...]
    picture: Picture | None


def flows(q: Qualification) -> list[FlowsShown]:
    """Every direction that was loaded with different numbers of flows."""
    found = [one.flows for one in q.measurements if one.flows is not None]
    return [shown for one in found for shown in _of(one)]


def _of(result: FlowsResult) -> Iterator[FlowsShown]:
    for way in dict.fromkeys(count.direction for count in result.counts):
        counts = tuple(count for count in result.counts if count.direction is way)
        sharing = flow_sharing.read(counts)
        many = [count for count in counts if count.flows > 1]
        drawn = next((count for count in many if count.flows == sharing.flows), many[-1] if many else None)
        picture = charts_cause.rates_of_flows(drawn, sharing) if drawn else None
        yield FlowsShown(way, sharing, sharing_words(sharing), tuple(map(_flows_row, counts)), picture)


def _flows_row(count: LoadCount) -> FlowsRow:
    rates = load_rates.flow_rates(count) or (0.0,)
    lost = count.lost / count.sent if count.sent else 0.0
    carried = load_rates.steady_bps(count)
    return FlowsRow(count.flows, load_rates.offered_bps(count), carried, min(rates), max(rates), lost, count.host_lost)


def flow_words(q: Qualification) -> list[tuple[Direction, str]]:
    """What the flows of each direction say, in one sentence, without a picture."""
    found = [one.flows for one in q.measurements if one.flows is not None]
    ways = [(way, one) for one in found for way in dict.fromkeys(count.direction for count in one.counts)]
    return [
        (way, sharing_words(flow_sharing.read([count for count in one.counts if count.direction is way])))
        for way, one in ways
    ]


def sharing_words(shared: Sharing) -> str:
    """What the flows say, in one sentence."""
    rate = format_rate(shared.bps) if shared.bps else ""
    said = {
        "whole": f"one flow carries all of the load ({rate})",
        "line": f"many flows together carry no more than one: {rate}",
        "cap": f"each flow is held to {rate}, and more flows carry more",
        "members": f"flows fare differently, as on members of {rate} each{_members(shared)}",
    }.get(shared.kind, "the flows say nothing certain")
    return f"{said}: {shared.because}" if shared.because and shared.kind not in ("whole", "line") else said


def _members(shared: Sharing) -> str:
    of = f" of {shared.members}" if shared.members else ""
    return f" ({shared.crowded} of {shared.flows} flows filled {shared.full}{of} members)" if shared.full else ""
