"""What per-hop loss of a trace means: real loss persists to the end, a router that limits its replies does not. Floor 2.

ICMP errors are made at leisure by a router's control plane and capped (Linux: one a second and destination); the data it
forwards does not pass there. So loss seen at one hop counts only if every later hop shows it too, and what the end answers
by ICMP counts only if the data itself was lost. Comparisons use exact one-sided bounds (Clopper-Pearson), never points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from linkqual.model import Hop
from linkqual.stats.confidence import ratio_lower, ratio_upper
from linkqual.units import format_count, format_ratio

CONFIDENCE = 0.999  # of each bound: a trace of twelve hops compares 78 pairs, and a false alarm is worse than silence


@dataclass(frozen=True, slots=True)
class Data:
    """Packets of the traffic itself that were sent and lost end to end (UDP or TCP probes)."""

    sent: int
    lost: int


@dataclass(frozen=True, slots=True)
class HopLoss:
    """`kind`: "none", "limited" (routers that answer less than they forward), "real" or "undetermined"."""

    kind: str
    because: str
    first_ttl: int | None = None  # real: it begins at or before this hop
    limited: tuple[int, ...] = ()  # TTLs whose loss is no loss of data


@dataclass(frozen=True, slots=True)
class _Seen:
    ttl: int
    ratio: float
    low: float
    high: float


def explain(hops: Sequence[Hop], data: Data | None = None) -> HopLoss:
    """Read the replies of a trace's hops, nearest first, beside what became of the data. Silent hops tell nothing."""
    seen = [_seen(hop.ttl, hop.sent - hop.received, hop.sent) for hop in hops if hop.received]
    end = _seen(0, data.lost, data.sent) if data else None
    later = seen + ([end] if end else [])
    limited = tuple(hop.ttl for k, hop in enumerate(seen) if any(hop.low > other.high for other in later[k + 1 :]))
    lossy = [hop for hop in seen if hop.low > 0 and hop.ttl not in limited]
    if end is None:
        return _without_data(seen, limited, lossy)
    assert data is not None
    told = f"{format_count(data.lost)} of {format_count(data.sent)} data packets"
    if end.low > 0:
        return _real(seen, limited, end, told)
    if limited:
        return HopLoss("limited", _limited_text(hops, seen, limited, f"{told} were lost"), limited=limited)
    if lossy:
        names = _names([hop.ttl for hop in lossy])
        return HopLoss("undetermined", f"{names} lost replies and {told} were lost: too few to tell one from the other")
    return HopLoss("none", f"no hop shows loss, and {told} were lost")


def _without_data(seen: Sequence[_Seen], limited: tuple[int, ...], lossy: Sequence[_Seen]) -> HopLoss:
    if lossy:
        first = lossy[0]
        return HopLoss(
            "undetermined",
            f"from hop {first.ttl} on {format_ratio(first.ratio)} of the replies are missing to the end: real loss at or "
            "before that hop, or an end that limits its replies too; only data packets decide",
            first.ttl,
            limited,
        )
    if limited:
        rest = "later hops lose nothing like it"
        return HopLoss("limited", f"{_names(limited)} limit their replies: {rest}", limited=limited)
    return HopLoss("none", "no hop shows loss")


def _real(seen: Sequence[_Seen], limited: tuple[int, ...], end: _Seen, told: str) -> HopLoss:
    """The data was lost: from the first hop on from which all replies are missing at least as often as the data."""
    first = None
    for hop in reversed(seen):
        if hop.ttl in limited:
            continue  # it may lose data or not: its own limit hides it
        if not (hop.low > 0 and hop.high >= end.low):
            break
        first = hop
    if first is None:
        where = "the hops' few probes do not show where"
        return HopLoss("real", f"{told} were lost ({format_ratio(end.ratio)}); {where}", limited=limited)
    return HopLoss(
        "real",
        f"{format_ratio(first.ratio)} of the replies are missing from hop {first.ttl} to the end, and {told} were lost "
        f"({format_ratio(end.ratio)}): real loss begins at or before hop {first.ttl}",
        first.ttl,
        limited,
    )


def _limited_text(hops: Sequence[Hop], seen: Sequence[_Seen], limited: tuple[int, ...], told: str) -> str:
    ratios = {hop.ttl: format_ratio(hop.ratio) for hop in seen}
    ends = {hop.ttl for hop in hops if hop.reached}
    routers = [ttl for ttl in limited if ttl not in ends]
    parts = []
    if routers:
        shown = ", ".join(f"hop {ttl} ({ratios[ttl]} missing)" for ttl in routers)
        verb = "limits its" if len(routers) == 1 else "limit their"
        parts.append(f"{shown} {verb} replies: the loss does not persist to the end")
    parts += [
        f"the {ratios[ttl]} of ICMP replies missing from the destination are no loss of data"
        for ttl in limited
        if ttl in ends
    ]
    return "; ".join(parts) + f" ({told})"


def _names(ttls: Sequence[int]) -> str:
    return f"hop{'s' * (len(ttls) > 1)} {', '.join(map(str, ttls))}"


def _seen(ttl: int, lost: int, sent: int) -> _Seen:
    return _Seen(
        ttl, lost / sent if sent else 0.0, ratio_lower(lost, sent, CONFIDENCE), ratio_upper(lost, sent, CONFIDENCE)
    )
