"""What was measured beside the red lines, as rows of numbers: loads, delay under load, buckets, bursts, causes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from linkqual.model import Direction, Qualification
from linkqual.reports import bursts, checks, demarcation, ladder, path_view, paths, services, why
from linkqual.session import compared


@dataclass(frozen=True, slots=True)
class Fact:
    """One number in base units (ns, bit/s, bytes, ratio) with its interval where it has one; of a cause only words."""

    metric: str
    statistic: str
    direction: Direction
    value: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    n: int = 0
    because: str = ""
    decide: str = ""


def facts(q: Qualification) -> Iterator[Fact]:
    """In the order of the page."""
    for one in q.verdict.diagnoses if q.verdict else ():
        said = f"{one.sentence} ({one.confidence} confidence{f': {one.because}' if one.because else ''})"
        yield Fact("cause", one.cause, one.direction, because=said, decide=one.decide)
    for row in ladder.rows(q):
        yield from _load(row)
    for shown in (m.trains for m in q.measurements if m.trains is not None):
        for name, unit, value in (("rate", "bit/s", shown.rate_bps), ("bucket", "B", shown.bucket_bytes), ("queue", "ns", shown.buffer_ns)):  # fmt: skip
            if value is not None:
                yield Fact(shown.kind, name, shown.direction, *value, unit, len(shown.trains), shown.because)
    for way, words in why.flow_words(q):
        yield Fact("flows", "", way, because=words)
    for burst in bursts.rows(q):
        way, sent = burst.result.direction, burst.result.sent
        yield Fact("burst_completion", "p50", way, *burst.p50, "ns", sent)
        yield Fact("burst_completion", "p99", way, *burst.p99, "ns", sent)
        yield Fact("burst_spread", "cv", way, *burst.variation, "ratio", burst.result.completed)
    yield from _services(q)
    yield from _paths(q)
    yield from _links(q)
    yield from _parts(q)
    yield from _both_ways(q)


def _links(q: Qualification) -> Iterator[Fact]:
    """What each link carries: a figure of its own, or a bound; what marks it in words."""
    view = path_view.view(q)
    for lane in view.lanes if view is not None else ():
        for link in lane.links:
            known, said = link.capacity, "; ".join(mark.said for mark in link.marks)
            if known is not None:
                most = known.bps if known.exact else None
                yield Fact(
                    "link_rate", f"link {link.number}", lane.direction, most, known.bps, most, "bit/s", because=said
                )
            elif said:
                yield Fact("link", f"link {link.number}", lane.direction, because=said)


def _both_ways(q: Qualification) -> Iterator[Fact]:
    """What both routes have in common, each quantity of both directions, and the self-checks."""
    for path in (m.path for m in q.measurements if m.path is not None):
        found = compared.of(path)
        for name, share in (("routers in common", found.routers), ("links in common", found.links)):
            if share is not None:
                yield Fact(
                    "path_symmetry",
                    name,
                    Direction.ROUND_TRIP,
                    None,
                    *share,
                    "ratio",
                    because=found.word,
                    decide=found.settle,
                )
    for row in checks.rows(q):
        one = row.beside
        value, low, high = one.ratio or (None, None, None)
        said = f"{one.word}: {one.said}"
        yield Fact(
            "both_directions", one.what, Direction.ROUND_TRIP, value, low, high, "ratio", one.n, said, one.settle
        )
    for check in checks.checks_of(q):
        said = f"{check.outcome}: {check.because}"
        yield Fact("self_check", check.name, Direction.ROUND_TRIP, because=said, decide=check.settle)


def _parts(q: Qualification) -> Iterator[Fact]:
    """The three places in words; faults with the segments and suppliers they may lie in."""
    for row in demarcation.rows(q):
        for place in row.lines:
            seen = "; ".join(f"{looked}: {showed}" for looked, showed in place.evidence)
            said = place.said if place.state == "unknown" else f"{place.state}: {place.said}"
            yield Fact("place", row.title, place.direction, because=f"{said} ({seen})" if seen else said)
    for card in demarcation.cards(q):
        one = card.row
        seen = "; ".join(f"{looked}: {showed}" for looked, showed in one.evidence)
        said = f"{one.sentence} ({one.confidence} confidence; {seen})"
        yield Fact("demarcation", one.fault, one.direction, because=said, decide=one.settle)


def _paths(q: Qualification) -> Iterator[Fact]:
    """What passes and what TCP agrees on; flows that fare worse, their ports in words."""
    for size in paths.sizes(q):
        way, tcp = size.way.direction, size.tcp
        yield Fact(
            "path_mtu",
            size.way.kind,
            way,
            size.way.passes,
            unit="B",
            because=" ".join((size.words, size.where)).strip(),
        )
        if tcp is not None and tcp.mss_told is not None:
            yield Fact("tcp_mss", "told", way, tcp.mss_told, unit="B")
        if tcp is not None and tcp.mss_heard is not None:
            yield Fact("tcp_mss", "heard", way, tcp.mss_heard, unit="B")
    for flows in paths.flows(q):
        for group, tuples in flows.groups:
            yield Fact(
                "members", f"{group.kind}, share", flows.result.direction, *group.share, "ratio", group.flows, tuples
            )
            if group.loss is not None:
                yield Fact("members", "loss", flows.result.direction, *group.loss, "ratio")
            if group.excess_ns is not None:
                yield Fact("members", f"{group.kind}, excess", flows.result.direction, group.excess_ns, unit="ns")
        for router, count, tuples in flows.routed:
            of = f"flows by {router} at hop {flows.parting.hop}" if flows.parting else ""
            yield Fact("members", of, flows.result.direction, count, n=flows.traced, because=tuples)


def _services(q: Qualification) -> Iterator[Fact]:
    """Rate and loss of every load; what the search found, bare where the hosts ended it."""
    for table in services.tables(q):
        for row in table.rows:
            of = f"{table.service.name}, {row.title}"
            yield Fact("service_rate", of, row.direction, row.rate, unit="bit/s", n=row.frames)
            yield Fact("frame_loss_ratio", of, row.direction, row.lost / max(row.frames, 1), unit="ratio", n=row.frames)
    for one in services.searched(q):
        said = f"at least: {one.limited}" if one.limited else ""
        yield Fact("frame_throughput", f"{one.frame} octets", one.direction, one.found, unit="bit/s", because=said)


def _load(row: ladder.Row) -> Iterator[Fact]:
    if row.figures is None:
        return
    one, n, of = row.figures, row.seconds, row.label
    yield Fact("goodput", f"mean, {of}", row.direction, row.mean, unit="bit/s", n=n)
    yield Fact("goodput", f"p5, {of}", row.direction, one.p5_bps, unit="bit/s", n=n)
    if one.retransmits is not None:
        yield Fact("retransmits", of, row.direction, one.retransmits, n=n)
    for name, value in (("tcp_efficiency", one.efficiency), ("transfer_time_ratio", one.transfer_time_ratio), ("buffer_delay", one.buffer_delay)):  # fmt: skip
        if value is not None:
            yield Fact(name, of, row.direction, value, unit="ratio", n=n)
    line = ladder.loaded(row)
    if line is not None:
        for name, value in zip(("p50", "p95", "p99", "max"), line.added, strict=True):
            yield Fact("added_delay", f"{name}, {of}", row.direction, value, unit="ns", n=line.n)
