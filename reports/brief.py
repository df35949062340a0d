"""Loads in short, for the terminal: one line a direction and theme, the cause with what to do next."""

from __future__ import annotations

from collections.abc import Iterator

from linkqual.model import Direction, Qualification
from linkqual.reports import bursts, ladder, services, why
from linkqual.reports.wording import ARROWS
from linkqual.units import format_count, format_duration, format_rate, format_ratio, format_size


def loads(q: Qualification) -> list[tuple[str, str]]:
    """(head, text) of every load that was run."""
    return [*_goodput(q), *_delays(q), *_trains(q), *_flows(q), *_bursts(q), *_services(q)]


def causes(q: Qualification) -> list[tuple[str, str]]:
    """(head, text) of each diagnosis: the cause, how sure, why so, what to do next."""
    found = q.verdict.diagnoses if q.verdict else ()
    lines = []
    for one in found:
        evidence = "; ".join(f"{looked}: {showed}" for looked, showed in one.evidence)
        said = f"{one.sentence}. {one.confidence.capitalize()} confidence{f': {one.because}' if one.because else ''}."
        said += f" Seen in {evidence}." if evidence else ""
        said += f" Next: {one.decide}." if one.decide else ""
        lines.append((f"why {ARROWS[one.direction]}", f"{why.title(one)}. {said}"))
    return lines


def _goodput(q: Qualification) -> Iterator[tuple[str, str]]:
    found = [row for row in ladder.rows(q) if row.figures is not None]
    for way in (Direction.FORWARD, Direction.REVERSE):
        here = [row for row in found if row.direction is way]
        if len(here) > 1:
            said = (f"{row.short}: {format_rate(row.mean)}{' (judged)' if row.judged else ''}" for row in here)
            yield f"TCP streams {ARROWS[way]}", "; ".join(said)


def _delays(q: Qualification) -> Iterator[tuple[str, str]]:
    found = ladder.rows(q)
    for way in (Direction.FORWARD, Direction.REVERSE):
        row = ladder.judged(found, way)
        line = ladder.loaded(row) if row is not None else None
        if line is None:
            continue
        p50, _, p99, most = line.added
        said = [f"added p50 {format_duration(p50)}, p99 {format_duration(p99)}, at most {format_duration(most)}"]
        if line.idle is not None:
            loaded = " and ".join(format_duration(value) for value in line.round_trip)
            said.append(f"round trip {format_duration(line.idle)} idle, p50 and p99 {loaded} loaded")
        said.append(f"{format_count(line.lost)} of {format_count(line.n)} probe packets lost")
        yield f"under load {ARROWS[way]}", "; ".join(said)


def _trains(q: Qualification) -> Iterator[tuple[str, str]]:
    for one in (m.trains for m in q.measurements if m.trains is not None):
        said = [one.kind if one.kind != "unknown" else f"nothing certain: {one.because}"]
        if one.rate_bps:
            said.append(f"rate {why.counted(one.rate_bps[0], one.counts)}")
        if one.bucket_bytes:
            said.append(f"bucket {format_size(one.bucket_bytes[0])}")
        if one.buffer_ns:
            said.append(f"queue {format_duration(one.buffer_ns[0])}")
        if one.at_least_bps:
            said.append(f"no limit below {why.counted(one.at_least_bps, one.counts)}")
        yield f"trains {ARROWS[one.direction]}", ", ".join(said)


def _flows(q: Qualification) -> Iterator[tuple[str, str]]:
    for words in why.flow_words(q):
        yield f"flows {ARROWS[words[0]]}", words[1]


def _bursts(q: Qualification) -> Iterator[tuple[str, str]]:
    for row in bursts.rows(q):
        one = row.result
        said = [f"{format_count(one.completed)} of {format_count(one.sent)} complete"]
        said.append(f"p50 {format_duration(row.p50[0])}, p99 {format_duration(row.p99[0])}, longest {'never' if row.late else format_duration(row.most)}")  # fmt: skip
        if row.variation[0] is not None:
            said.append(f"coefficient of variation {format_ratio(row.variation[0])}")
        said.append(f"{format_count(one.lost)} of {format_count(one.packets)} packets lost at first")
        yield f"bursts {ARROWS[one.direction]}", ", ".join(said)


def _services(q: Qualification) -> Iterator[tuple[str, str]]:
    for table in services.tables(q):
        for way in (Direction.FORWARD, Direction.REVERSE):
            rows = [row for row in table.rows if row.direction is way]
            said = (
                f"{row.title}: {format_rate(row.rate)}, {format_count(row.lost)} of {format_count(row.frames)} lost"
                for row in rows
            )
            if rows:
                yield f"{table.service.name} {ARROWS[way]}", "; ".join(said)
    for one in services.searched(q):
        rate = f"{'at least ' if one.limited else ''}{format_rate(one.found)}" if one.found is not None else "no rate"
        said_of = f"{rate} of {format_rate(one.maximum)} possible{f' ({one.limited})' if one.limited else ''}"
        yield f"{one.frame} octets {ARROWS[one.direction]}", said_of
