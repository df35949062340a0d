"""Where the lost packets went, and how the sender kept its schedule: rows and words that every report shares."""

from __future__ import annotations

from dataclasses import dataclass

from linkqual.model import Histogram, Pacing, Qualification, StampResult
from linkqual.rules.ledger import ledger
from linkqual.stats.histogram import quantile
from linkqual.stats.pacing import longest
from linkqual.units import format_count, format_duration

TITLE = "where the lost packets went"


@dataclass(frozen=True, slots=True)
class Account:
    """One address, how many packets were lost there, and how that is known."""

    address: str
    packets: int
    because: str


def accounts(q: Qualification) -> list[Account]:
    """Of every stream that lost something, the largest first; together they are all its lost packets."""
    found: list[Account] = []
    for measurement in q.measurements:
        joined: dict[tuple[str, str], int] = {}
        for entry in ledger(measurement):
            key = str(entry.address), entry.because
            joined[key] = joined.get(key, 0) + entry.packets
        rows = [Account(address, count, because) for (address, because), count in joined.items()]
        found += sorted(rows, key=lambda row: -row.packets)
    return found


def pacing_words(stamp: StampResult) -> str:
    """ "99 % left within 12 µs of their instant, longest burst 9 packets (0.45 ms)"; "" where nothing was scheduled."""
    late = lateness(stamp)
    if not late.n:
        return ""
    said = f"half of the packets left within {_within(late, 0.5)} of their instant, 99 % within {_within(late, 0.99)}"
    said += f", the latest after {format_duration(late.maximum)}"
    pacing = stamp.summary.pacing
    if pacing.bursts:
        said += f"; longest burst {burst_words(pacing)}"
    return said


def short_pacing(stamp: StampResult) -> str:
    """ "p99 12 µs late, longest burst 9 packets (0.45 ms)"; "" where nothing was scheduled."""
    late, pacing = lateness(stamp), stamp.summary.pacing
    if not late.n:
        return ""
    said = f"p99 {_within(late, 0.99)} late"
    return f"{said}, longest burst {burst_words(pacing)}" if pacing.bursts else said


def burst_words(pacing: Pacing) -> str:
    """ "9 packets (450 µs)"."""
    most = longest(pacing)
    if most.packets == 1:
        return "1 packet"
    return f"{format_count(most.packets)} packets ({format_duration(most.end_ns - most.start_ns)})"


def lateness(stamp: StampResult) -> Histogram:
    """Departures after their instant: the kernel's where they were audited, else as the program handed them over."""
    pacing = stamp.summary.pacing
    return pacing.late if pacing.late.n else stamp.lateness


def _within(late: Histogram, share: float) -> str:
    return format_duration(quantile(late, share))
