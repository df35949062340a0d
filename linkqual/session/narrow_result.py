"""What a search for the narrowest hop says in the end: which link, how fast, how sure and why. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from linkqual.model import Direction, LinkSeen, NarrowResult, Train
from linkqual.session.narrow import Narrow
from linkqual.session.prefixes import DEEPEST_BUCKET
from linkqual.session.train_result import agreeing
from linkqual.units import NS_PER_S, format_duration, format_rate, format_size

NEAR = 0.15
DROP = 0.02  # by which a link must be slower than those before it to count as one of its own
CLOSE, APART = 0.02, 0.1  # of the rate: by which a prefix as slow as the way differs in a sure case, in a doubtful one
QUEUED_NS = 3_000_000
_TIGHT, _LOOSE = 0.8, 0.5  # of what was sent
_MORE = "allow more (bytes of narrow in the profile, --max-bytes)"
_AGAIN = "run it again, best while both hosts have nothing else to do"
_UNLOOKED = {  # though the limit is known
    "bytes": f"the bytes allowed were spent before enough routers were looked at: {_MORE}",
    "time": f"the time was over before enough routers were looked at: {_AGAIN}",
    "interrupted": "it was ended before enough routers were looked at",
    "slow": "the sending host is hardly faster than the line, so which link is narrow is not known",
}
_FEW = "too few routers were looked at"
_UNTOLD = {
    "bytes": f"the bytes allowed were spent before they were told apart; {_MORE}",
    "time": f"the time was over before they were told apart; {_AGAIN}",
}
_ENDED = {
    "no-way": "no packets of ours reach the far end, so nothing was measured",
    "stood": "of a whole train nothing arrived, though packets before it did: the line or a host stood still; run it again",
    "short": "the trains showed no steady limit",
    "void": "the hosts held the trains up, or dropped of them",
    "bytes": f"the bytes allowed were spent before a limit was seen for certain: {_MORE}",
    "time": f"the time was over before a limit was seen for certain: {_AGAIN}",
    "disagree": "the rate changed from train to train",
    "interrupted": "it was ended before a limit was seen for certain",
}


def result(direction: Direction, search: Narrow, *, counts: str, interrupted: bool = False) -> NarrowResult:
    """Everything known when the search ended, also when it was ended half-way."""
    bounds, trains = search.bounds, search.trains
    found = NarrowResult(
        direction,
        search.links,
        outlasted=trains.outlasted,
        seen=tuple(search.seen().values()),
        expired=tuple(search.expired.get(router, 0) for router in range(1, search.links)),
        sent_bytes=search.sent_bytes,
        counts=counts,
        packet_bytes=bounds.packet_bytes,
        overhead_bytes=bounds.overhead_bytes,
    )
    ended = "interrupted" if interrupted and not search.ended else search.ended
    if ended == "no-way" and search.links:
        ended = "stood"
    if ended == "none":
        return _none(found, trains.taken, bounds.each)
    good = agreeing(trains.taken, search.rate_bps) if search.rate_bps else []
    if not good:
        return replace(found, because=_ENDED.get(ended, "the trains did not agree"))
    rates = [train.rate_bps or 0.0 for train in good]
    best = max(good, key=lambda train: train.steady_ns).rate_bps or 0.0
    way, shared = search.way, search.way.shared
    kind = "policer" if way.policed else "shaper" if way.queues else "limit"
    buffers = [train.buffer_ns for train in good if train.buffer_ns is not None]
    buckets = [train.bucket_bytes or 0.0 for train in good]
    found = replace(
        found,
        kind=kind,
        rate_bps=shared.capacity_bps
        if shared is not None and shared.busy
        else (best, min(rates), max(*rates, search.way.perhaps_bps)),
        free_bps=shared.free_bps if shared is not None else None,
        trains=len(good),
        bucket_bytes=max(good, key=lambda train: train.steady_ns).bucket_bytes if buckets else None,
        buffer_ns=median(buffers) if buffers and kind == "shaper" else None,
    )
    may_be = _named(search)
    if not may_be:
        return replace(found, confidence="low", because=_unnamed(search, ended))
    named = may_be[0]
    near = _near(found.seen, search.way.whole.capacity_bps, named)
    confidence, because = _confidence(found, named, search.prefixes.own)
    if len(may_be) > 1:
        apart = _UNTOLD.get(ended, "what was seen does not tell them apart")
        confidence, because = "low", f"link {', '.join(map(str, sorted(may_be)))} may be it: {apart}"
    elif confidence == "high" and shared is not None and shared.busy and shared.by == "regression":
        confidence, because = "medium", f"{because}; what others took is known from trains of different pace alone"
    elif confidence != "low" and search.way.unresolved:
        confidence, because = (
            "medium",
            f"{because}; something lies between packets of ours",
        )
    elif confidence == "high" and named > 1 and not search.prefixes.unheld(named - 1, search.way.whole):
        confidence, because = "medium", f"{because}; a bucket on the way to router {named - 1} may still have been full"
    return replace(found, named=named, narrow=near, confidence=confidence, because=because)


def _none(found: NarrowResult, taken: Sequence[Train], each: int) -> NarrowResult:
    """The sender was the limit. A link slower than what came through would have shown, behind the deepest bucket looked for too."""
    longest = max((train for train in taken if not train.void), key=lambda train: train.packets)
    reached = min(longest.rate_bps or 0.0, longest.offered_bps)
    lasted = longest.packets * each * 8 / longest.offered_bps  # seconds
    least = max(0.0, reached - DEEPEST_BUCKET * 8 / lasted)
    sure = "high" if least >= _TIGHT * reached else "medium" if least >= _LOOSE * reached else "low"
    because = (
        f"the sender was the limit: {format_rate(round(reached))} came through for {format_duration(round(lasted * NS_PER_S))}; "
        f"anything slower than the rate named would have shown, even behind a bucket of {format_size(DEEPEST_BUCKET)}"
    )
    return replace(found, kind="none", at_least_bps=least, because=because, confidence=sure)


def _named(search: Narrow) -> tuple[int, ...]:
    """Links that may be the narrowest, the likeliest first; none: nobody knows."""
    known = search.links == 1 or search.prefixes.tell
    return tuple(search.prefixes.candidates(search.links, search.way.whole)) if known else ()


def _unnamed(search: Narrow, ended: str) -> str:
    if search.prefixes.slow:
        return _UNLOOKED["slow"]
    return (_UNLOOKED if search.trains.outlasted else _ENDED).get(ended, _FEW)


def _near(seen: tuple[LinkSeen, ...], rate: float, named: int) -> tuple[int, ...]:
    """Links within NEAR of the narrowest that are slower than all before them."""
    found, before = [], float("inf")
    for one in seen:
        if one.number < named and one.rate_bps is not None and one.rate_bps < (1 + NEAR) * rate:
            if one.rate_bps < (1 - DROP) * before:
                found.append(one.number)
            before = min(before, one.rate_bps)
    return (*found, named)


def _confidence(found: NarrowResult, named: int, own: bool) -> tuple[str, str]:
    assert found.rate_bps is not None
    rate = found.rate_bps[0]
    hits = [one for one in found.seen if one.number >= named and one.narrow]
    if found.outlasted and own:
        return (
            "high",
            "the sending host itself was held up: its own queue takes no more, and nothing behind is slower by more than 3 %",
        )
    off = max((abs((one.rate_bps or rate) / rate - 1) for one in hits if not one.error), default=0.0)
    carried = [one.rate_bps or one.offered_bps for one in found.seen if not one.error]
    if not found.outlasted:
        low = "no train stayed above the rate long enough, so a deeper bucket may hide a slower link"
    elif off > APART:
        low = f"load that crossed the narrow link came through at rates {off:.0%} apart"
    elif any(later > (1 + APART) * earlier for earlier, later in pairwise(carried) if earlier < (1 + NEAR) * rate):
        low = "a longer part of the way carried more than a shorter one: other load, or a bucket not yet empty"
    else:
        return _sure(found, named, hits, off)
    return "low", low


def _sure(found: NarrowResult, named: int, hits: list[LinkSeen], off: float) -> tuple[str, str]:
    """Medium or high."""
    if found.kind == "policer":
        return "medium", "packets are dropped without waiting, so the place is counted from losses"
    if hits and all(one.error for one in hits):
        return "medium", "what was held up is counted from losses only"
    if any(one.rise_ns <= QUEUED_NS for one in hits if not one.error):
        return "medium", "load that crossed the narrow link hardly waited"
    if off > CLOSE:
        return "medium", f"load that crossed the narrow link came through at rates {off:.1%} apart"
    before = [str(one.number) for one in found.seen if one.number < named]
    faster = f"load that expired on router {', '.join(before)} was faster" if before else ""
    if not hits:
        return "high", "; ".join(filter(None, [faster, "only what crossed the last link was held up"]))
    held = f"load that crossed link {named} waited and came through at this rate"
    return "high", "; ".join(filter(None, [held, faster]))
