"""Two summaries into one, the second stream sent after the first.

Law: merge(summary(first part), summary(rest)) == summary(whole), wherever the cut. The exceptions, on which no count, extreme or
delay quantile rests: the two quantiles of a chart's slice; RFC 3550's J, when packets crossed the cut; and of the `over` tallies
the one ipdv pair across the cut, and pdv, where each part is judged against its own smallest delay. Packets that crossed the cut
are found among the last and first `arrivals.EDGE` arrivals. A step of a clock is found when it lies as far from the cut as
`stats.clock_steps` looks; and parts that were levelled (`stats.levelling`) are not merged: level the whole. Floor 1, pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from linkqual.model import Direction, Edge, Histogram, Slice, Summary
from linkqual.stats import arrivals, histogram, loss_events, pacing, slices, tally
from linkqual.stats.slices import least, most

COUNTS = (
    "sent",
    "unsent",
    "received",
    "lost_forward",
    "lost_reverse",
    "lost",
    "duplicates_forward",
    "duplicates_reverse",
    "late",
    "unstamped",
    "crossed",
)

Part = TypeVar("Part")


def merge(a: Summary, b: Summary) -> Summary:
    """The summary of both streams. Raises ValueError when they were made with different gaps between loss events."""
    if not a.sent or not b.sent:
        some, unsent = (a, b.unsent) if a.sent else (b, a.unsent)
        return replace(some, unsent=some.unsent + unsent)
    edges, crossed = _edges(a, b)
    parts: dict[str, Any] = {name: getattr(a, name) + getattr(b, name) for name in COUNTS}
    for name in ("round_trip_delay", "forward_delay", "reverse_delay", "residence"):
        parts[name] = histogram.merge(getattr(a, name), getattr(b, name))
    gap = max((found.gap for found in [*a.loss.values(), *b.loss.values()]), default=1)
    pieces, length = _slices(a, b)
    return Summary(
        **parts,
        reordered_forward=a.reordered_forward + b.reordered_forward + crossed.get(Direction.FORWARD, 0),
        reordered_reverse=a.reordered_reverse + b.reordered_reverse + crossed.get(Direction.REVERSE, 0),
        first_sent_ns=least(a.first_sent_ns, b.first_sent_ns),
        last_sent_ns=most(a.last_sent_ns, b.last_sent_ns),
        variation=_both(a.variation, b.variation, histogram.merge),
        ipdv=_ipdv(a, b),
        jitter_rfc3550_ns=_jitter(a, b),
        loss=_both(a.loss, b.loss, tally.merge),
        over=_both(a.over, b.over, tally.merge),
        loss_events=loss_events.merged(a.loss_events, b.loss_events, gap),
        slices=pieces,
        slice_ns=length,
        edges=edges,
        forward_hops=_summed(a.forward_hops, b.forward_hops),
        reverse_hops=_summed(a.reverse_hops, b.reverse_hops),
        clock_steps=a.clock_steps + b.clock_steps,
        pacing=pacing.merge(a.pacing, b.pacing),
    )


def _both(a: Mapping[str, Part], b: Mapping[str, Part], join: Callable[[Part, Part], Part]) -> dict[str, Part]:
    return {**a, **b, **{key: join(a[key], b[key]) for key in a if key in b}}


def _summed(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    total = Counter(a) + Counter(b)
    return {ttl: total[ttl] for ttl in sorted(total, key=int)}


def _edges(a: Summary, b: Summary) -> tuple[dict[str, Edge], dict[str, int]]:
    edges, crossed = {}, {}
    for key in a.edges.keys() & b.edges.keys():
        edges[key], crossed[key] = arrivals.joined(a.edges[key], b.edges[key])
    return edges, crossed


def _across(a: Summary, b: Summary, key: str) -> int | None:
    """Size of D(i) - D(i-1) of the pair sent on either side of the cut; None where one of them has no delay."""
    if key not in a.edges or key not in b.edges:
        return None
    before, after = a.edges[key].last_sent_ns, b.edges[key].first_sent_ns
    return None if before is None or after is None else abs(after - before)


def _ipdv(a: Summary, b: Summary) -> dict[str, Histogram]:
    found = _both(a.ipdv, b.ipdv, histogram.merge)
    for key in a.edges:
        step = _across(a, b, key)
        if step is not None:
            pair = histogram.Even()
            pair.add(np.array([step]))
            found[key] = histogram.merge(found.get(key, Histogram()), pair.data())
    return found


def _jitter(a: Summary, b: Summary) -> dict[str, float]:
    counts = {
        str(Direction.FORWARD): (a.forward_delay.n, b.forward_delay.n),
        str(Direction.REVERSE): (a.reverse_delay.n, b.reverse_delay.n),
        str(Direction.ROUND_TRIP): (a.round_trip_delay.n, b.round_trip_delay.n),
    }
    return {
        key: arrivals.joined_jitter(
            a.jitter_rfc3550_ns.get(key, 0.0),
            b.jitter_rfc3550_ns.get(key, 0.0),
            a.edges.get(key, Edge()),
            b.edges.get(key, Edge()),
            after,
        )
        for key, (before, after) in counts.items()
        if before + after > 1
    }


def _slices(a: Summary, b: Summary) -> tuple[tuple[Slice, ...], int]:
    floors = {key: _lowest(a, b, key) for key in (Direction.FORWARD, Direction.REVERSE)}
    lifted = [_lifted(part, floors) for part in (a, b)]
    return slices.merged(lifted[0], a.slice_ns, lifted[1], b.slice_ns)


def _lowest(a: Summary, b: Summary, key: Direction) -> int | None:
    known = [part.variation[key].minimum for part in (a, b) if key in part.variation]
    return min((each for each in known if each is not None), default=None)


def _lifted(part: Summary, floors: Mapping[Direction, int | None]) -> list[Slice]:
    """The part's slices with PDV counted from the floor of both parts."""
    by = []
    for key, floor in floors.items():
        own = part.variation[key].minimum if key in part.variation else None
        by.append(own - floor if own is not None and floor is not None else 0)
    return slices.lifted(part.slices, *by)
