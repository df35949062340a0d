"""What the round trips of a trace's hops mean: delay of the line persists to the end, a router that is slow to answer does not. Floor 2, pure.

An ICMP error is made at leisure by the router's control plane, a packet that is forwarded never waits for that. So what a hop takes longer
than a later one (or than the data packets, which go all the way) is its own; only the least of all later round trips is delay of the way to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from linkqual.model import Hop
from linkqual.units import format_duration

LEAST_NS = 2_000_000  # less than this is what hosts and routers add to any single answer
SHARE = 0.1  # and less than this of the later round trip
RISE = 0.5  # of the whole round trip: a link that is worth naming


@dataclass(frozen=True, slots=True)
class Data:
    """Round trips of the traffic itself, ns: the smallest, and what nearly all (99 %) stay below."""

    least_ns: int
    most_ns: int


@dataclass(frozen=True, slots=True)
class HopDelay:
    """`slow`: TTLs of hops that answer late and delay nothing. `after`, `before`: most of the round trip arises between these TTLs (0: here)."""

    because: str = ""
    slow: tuple[int, ...] = ()
    after: int | None = None
    before: int | None = None


@dataclass(frozen=True, slots=True)
class _Seen:
    ttl: int
    least_ns: int


def explain(hops: Sequence[Hop], data: Data | None = None) -> HopDelay:
    """Read the round trips of a trace's hops, nearest first, beside those of the data. Silent hops widen the interval."""
    seen = [_Seen(hop.ttl, min(hop.rtt_ns)) for hop in hops if hop.rtt_ns]
    whole = bool(hops) and hops[-1].reached
    end_ns = [data.least_ns] if data is not None and whole else []
    # the least of each hop and all behind it: no packet can have taken longer to get there
    floors = [min([*(hop.least_ns for hop in seen[place:]), *end_ns]) for place in range(len(seen))]
    spread = data.most_ns - data.least_ns if data is not None else 0
    slow = tuple(
        hop.ttl
        for hop, floor in zip(seen, floors, strict=True)
        if hop.least_ns - floor > max(LEAST_NS, spread, SHARE * floor)
    )
    said = [_slow_text(hop, floor, data) for hop, floor in zip(seen, floors, strict=True) if hop.ttl in slow]
    after, before = _rise(seen, floors, spread) if whole and len(seen) > 1 else (None, None)
    if after is not None and before is not None:
        least = {0: 0} | {hop.ttl: floor for hop, floor in zip(seen, floors, strict=True)}
        end_alone = data is None and before == seen[-1].ttl
        said.append(_rise_text(least[before] - least[after], floors[-1], after, before, end_alone))
    return HopDelay("; ".join(said), slow, after, before)


def _slow_text(hop: _Seen, floor: int, data: Data | None) -> str:
    behind = "data packets and hops behind it" if data is not None else "hops behind it"
    return (
        f"hop {hop.ttl} takes {format_duration(hop.least_ns)} to answer, {behind} no more than {format_duration(floor)}: "
        "it makes its replies slowly, which delays nothing that it forwards"
    )


def _rise_text(rise: int, whole: int, after: int, before: int, end_alone: bool) -> str:
    """`end_alone`: nothing but the end's own answers shows it."""
    where = f"hop {after}" if after else "this end"
    said = (
        f"{format_duration(rise)} of the round trip of {format_duration(whole)} arise between {where} and hop {before}"
    )
    if end_alone:
        return f"{said}: delay of the line there, or an end that answers slowly"
    return f"{said} and persist to the end: delay of the line there"


def _rise(seen: Sequence[_Seen], floors: Sequence[int], spread: int) -> tuple[int | None, int | None]:
    before_ns, after = 0, 0
    for hop, floor in zip(seen, floors, strict=True):
        if floor - before_ns > max(LEAST_NS, spread, RISE * floors[-1]):
            return after, hop.ttl
        before_ns, after = floor, hop.ttl
    return None, None
