"""How exactly delays are known: where the four stamps came from, what the hosts add, how far the clocks agree. Floor 2, pure.

RFC 7679 section 3.7: the error of a one-way delay is that of both clocks against each other and of the stamps against the wire
(Hsource, Hdest); of a round trip (RFC 2681 section 2.7) only the latter. Between wire and stamp lies the host: its floor is measured
over the loopback (`model.HostFloor`), which a packet crosses twice at one host, and bounds what it crosses once at each.
"""

from __future__ import annotations

from dataclasses import dataclass

from linkqual.model import Conditions, EndConditions, HostFloor, Summary
from linkqual.rules import clocks
from linkqual.units import format_count, format_duration

USER_NS = 100_000  # by which a program's stamp is beside the kernel's on a quiet host; a busy one adds its scheduling
STAMPS = ("T1", "T2", "T3", "T4")


@dataclass(frozen=True, slots=True)
class Exactness:
    """`round_trip_ns`, `one_way_ns`: by how much a delay may be off, None: not known; and each in a sentence."""

    sources: str  # "T1 kernel, T2 kernel, T3 user, T4 kernel"
    round_trip_ns: int | None
    round_trip: str
    one_way_ns: int | None
    one_way: str


def of(summary: Summary, conditions: Conditions) -> Exactness | None:
    """Of one stream; None where no stamps were told."""
    stamps = conditions.near.stamps | conditions.far.stamps
    if not stamps:
        return None
    sources = ", ".join(f"{name} {stamps[name]}" for name in STAMPS if name in stamps)
    hosts, said = _hosts(conditions)
    user = [name for name in STAMPS if "user" in stamps.get(name, "") and not _left_out(name, stamps[name])]
    late = USER_NS * len(user)
    if user:
        said += f", and up to {format_duration(USER_NS)} for each stamp a program took ({', '.join(user)}), more while that host is busy"
    error, why = clocks.bound_ns(summary, conditions)
    whole = None if hosts is None else hosts + late
    return Exactness(
        sources=sources,
        round_trip_ns=whole,
        round_trip=f"stamps count in ns; a round trip contains {said}",
        one_way_ns=None if whole is None or error is None else whole + error,
        one_way=_one_way(error, why, same=conditions.same_clock),
    )


def _left_out(name: str, source: str) -> bool:
    """Packets whose T3 alone is a program's are in no delay (`stats.delay.unfit`)."""
    return name == "T3" and source != "user"


def _one_way(error: int | None, why: str, *, same: bool) -> str:
    if error is None:
        return f"{why}: one-way delays are not absolute"
    if same:
        return "both ends read one clock: a one-way delay is as exact as a round trip"
    return f"a one-way delay may be off by {format_duration(error)} more, as far as both clocks may be apart"


def _hosts(conditions: Conditions) -> tuple[int | None, str]:
    ends = [(name, _floor(end)) for name, end in (("near", conditions.near), ("far", conditions.far))]
    parts = [f"at most {format_duration(floor.rtt_p99_ns)} of the {name} host" for name, floor in ends if floor]
    unknown = [name for name, floor in ends if not floor]
    if unknown:
        parts.append(
            f"an unknown share of {'both hosts' if len(unknown) == 2 else f'the {unknown[0]} host'} (not calibrated)"
        )
    total = sum(floor.rtt_p99_ns or 0 for _, floor in ends if floor) if all(floor for _, floor in ends) else None
    return total, " and ".join(parts)


def _floor(end: EndConditions) -> HostFloor | None:
    return end.floor if end.floor is not None and end.floor.rtt_p99_ns is not None else None


def floor_words(found: HostFloor, who: str = "this host") -> str:
    """ "this host adds at most 12.3 µs (p99 of 1,000 loopback probes)"."""
    if found.rtt_p99_ns is None:
        return f"what {who} adds by itself is not known: {found.why_not}"
    return f"{who} adds at most {format_duration(found.rtt_p99_ns)} (p99 of {format_count(found.n)} loopback probes)"
