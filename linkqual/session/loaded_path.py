"""Where the queue of a load begins, or its loss: round trips to each hop on the idle line against those on the loaded one. Floor 2, pure.

A queue makes every answer from behind it late, and none from before it. So what is late has to persist to the end: a router that
alone is late is slow at making ICMP errors. A hop that cannot be told widens the interval, as a silent one does, and is never guessed.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from linkqual.model import Direction, LoadedHop, LoadedPath
from linkqual.units import format_duration, format_ratio

LEAST_NS = 1_000_000  # less than this is what hosts and timers add
CLEAN, LATE, MOST = 0.25, 0.5, 1.5  # of what the end is late: at most, at least, and what one queue cannot exceed
ALIKE = (0.75, 1.33)  # of what the end is late: one queue, seen at two hops at different times
OUTLIER_IDLE = 4  # round trips on the idle line: one that a host was busy for
ORDERED = 0.9  # of all pairs of an idle and a loaded round trip
FEW_IDLE, FEW_LOADED = 2, 6
LEAST_LATE = 3  # answers of the end: fewer show no queue
OUTLIER_IN = 12  # round trips: one that a router was busy for
CONFIRMED = (0.5, 2.0)  # of what the end is late, as packets stamped at both ends saw it in this direction
QUIET_LOSS, LOSS_RISE, LEAST_GAIN = 0.02, 0.10, 3.0  # before the place; above that behind it; of the log likelihood
LOSS_PROBES = 10  # of a hop
_NEVER_SURER = "loss is counted from few probes and never surer than that"


class _Seen(Enum):
    CLEAN = "not late"
    LATE = "late as the end is"
    UNCLEAR = "neither"


@dataclass(frozen=True, slots=True)
class _Reading:
    hop: LoadedHop
    late_ns: float  # median under load above the median on the idle line
    most_ns: float  # above the least that this hop, or any behind it, took on the idle line
    ordered: float  # share of pairs in which the loaded one took longer, the longest idle ones left out


def locate(
    direction: Direction,
    load: str,
    hops: Sequence[LoadedHop],
    *,
    reached: bool = True,
    added_ns: int | None = None,
    lost: float | None = None,
    weak: str = "",
    lost_only: bool = False,
) -> LoadedPath:
    """The place, nearest hop first in `hops`. `reached`: the last hop is the far end; `added_ns`: what packets stamped at both
    ends were later by in this direction under the same load (median), None: not measured; `lost`: the share of them, 0 to 1, that
    this direction lost under it, None: not measured; `weak`: why this load shows little; `lost_only`: it is so far above the rate
    that a wider link may have a queue too, and only loss tells.
    """
    blank = LoadedPath(direction, load, tuple(hops))
    if lost_only:
        return _loss(blank, lost)
    readings = _readings(hops)
    why = _no_queue(readings, added_ns)
    if why:
        return _loss(replace(blank, because=why), lost)
    clean, before = _bounds(readings)
    confidence, why = _confidence(readings, clean, before, reached=reached, added_ns=added_ns, weak=weak)
    return replace(
        blank,
        after=clean.hop.ttl if clean is not None else 0,
        before=before.hop.ttl,
        by="queue",
        confidence=confidence,
        because=f"{_evidence(clean, before, readings[-1])}; {why}",
    )


# ---- the queue


def _no_queue(readings: Sequence[_Reading], added_ns: int | None) -> str:
    """Why none is seen; "" where one is: the last hop that answers decides."""
    if not readings:
        return "no hop answered both on the idle line and under load"
    end = readings[-1]
    n = len(end.hop.loaded_ns)
    if n < LEAST_LATE:
        return f"{n} of {end.hop.loaded_sent} answers of {_name(end)} under load: no queue shows in so few"
    if end.late_ns < LEAST_NS:
        late = [one for one in readings[:-1] if one.late_ns >= LEAST_NS and one.ordered >= ORDERED]
        said = f"under load {_name(end)} answers {_later(end.late_ns)}: no queue that persists to the end"
        verb = "is" if len(late) == 1 else "are"
        alone = f"; {', '.join(_name(one) for one in late)} alone {verb} late, slow at making ICMP errors"
        return said + alone if late else said
    if added_ns is not None and added_ns < LEAST_NS:
        said = f"{_name(end)} answers {_later(end.late_ns)}, yet packets stamped at both ends were {_later(added_ns)}"
        return f"{said}: the answering is late and not the way there"
    if end.ordered < ORDERED:
        return f"the round trips to {_name(end)} vary as much on the idle line as under load: no queue shows"
    return ""


def _bounds(readings: Sequence[_Reading]) -> tuple[_Reading | None, _Reading]:
    """The last hop that is not late (None: not even the first is that), and the first late one behind it, from the end backwards."""
    before, whole_ns = readings[-1], readings[-1].most_ns
    for one in reversed(readings[:-1]):
        state = _state(one, whole_ns)
        if state is _Seen.CLEAN:
            return one, before
        if state is _Seen.LATE:
            before = one
    return None, before


def _readings(hops: Sequence[LoadedHop]) -> list[_Reading]:
    """Of the hops that answered in both states. What takes longer to a near hop than to a far one is that hop's own slowness."""
    least_ns, found = math.inf, []
    for hop in reversed(hops):
        if not hop.idle_ns or not hop.loaded_ns:
            continue
        least_ns = min(least_ns, *hop.idle_ns)
        under = statistics.median(hop.loaded_ns)
        usual = sorted(hop.idle_ns)[: len(hop.idle_ns) - len(hop.idle_ns) // OUTLIER_IDLE]
        ordered = sum(bisect_left(usual, loaded) for loaded in hop.loaded_ns) / (len(usual) * len(hop.loaded_ns))
        found.append(_Reading(hop, under - statistics.median(hop.idle_ns), under - least_ns, ordered))
    return found[::-1]


def _state(one: _Reading, whole_ns: float) -> _Seen:
    if one.most_ns <= CLEAN * whole_ns:
        steady = max(_spread(one.hop.idle_ns), _spread(one.hop.loaded_ns)) <= whole_ns
        return _Seen.CLEAN if steady else _Seen.UNCLEAR
    if LATE * whole_ns <= one.late_ns <= MOST * whole_ns and one.ordered >= ORDERED:
        return _Seen.LATE
    return _Seen.UNCLEAR


def _confidence(
    readings: Sequence[_Reading],
    clean: _Reading | None,
    before: _Reading,
    *,
    reached: bool,
    added_ns: int | None,
    weak: str,
) -> tuple[str, str]:
    """How sure, and why not surer."""
    end = readings[-1]
    bounds = [before] if clean is None else [clean, before]
    few = any(len(one.hop.loaded_ns) < FEW_LOADED or len(one.hop.idle_ns) < FEW_IDLE for one in bounds)
    differs = added_ns is not None and not _within(added_ns, end.most_ns, CONFIRMED)
    both_ends = f"packets stamped at both ends were {_later(added_ns or 0)} in this direction"
    doubts = (
        (bool(weak), "low", weak),
        (differs, "low", f"{both_ends}: hosts or the way back are slow too"),
        (len(before.hop.loaded_ns) < FEW_IDLE, "low", "a single answer"),
        (few, "medium", "few answers"),
        (not reached and added_ns is None, "medium", "the far end does not answer, so whether it persists is not seen"),
        (before is end and added_ns is None, "medium", "the last hop alone is late, and may be slow at answering"),
        (
            not _within(before.late_ns, end.late_ns, ALIKE),
            "medium",
            f"the end is {_later(end.late_ns)}: another queue behind it, or one that varies",
        ),
        (_varies(before, end), "medium", f"{_name(before)} varies more than one queue makes it"),
    )
    confirmed = "" if added_ns is None else ", and packets stamped at both ends agree"
    return next(((level, why) for is_so, level, why in doubts if is_so), ("high", f"it persists to the end{confirmed}"))


def _within(value: float, whole: float, bounds: tuple[float, float]) -> bool:
    return bounds[0] * whole - LEAST_NS <= value <= bounds[1] * whole + LEAST_NS


def _spread(values: Sequence[int]) -> int:
    """Of the middle half; of all where they are few."""
    ordered = sorted(values)
    cut = len(ordered) // 4
    return ordered[-1 - cut] - ordered[cut]


def _varies(one: _Reading, end: _Reading) -> bool:
    """Whether its round trips under load differ by more than one queue, seen at the end, makes them."""
    base_ns = statistics.median(one.hop.loaded_ns) - one.late_ns
    low, high = CLEAN * end.late_ns, MOST * end.late_ns + LEAST_NS
    odd = sum(not low <= took - base_ns <= high for took in one.hop.loaded_ns)
    wide = _spread(one.hop.loaded_ns) > max(LEAST_NS, 2 * _spread(end.hop.loaded_ns), low)
    return wide or odd > len(one.hop.loaded_ns) // OUTLIER_IN


# ---- the loss


def _loss(found: LoadedPath, data_lost: float | None) -> LoadedPath:
    """The change point of the probes' loss (two binomial laws), where no queue shows: a policer has none.

    Where the load's own packets came through, routers limit their answers while they are busy.
    """
    hops = [hop for hop in found.hops if hop.address is not None and hop.loaded_sent]
    limited = [hop for hop in hops if _ratio(hop.idle_sent, hop.idle_ns) >= LOSS_RISE]
    usable = [hop for hop in hops if hop not in limited and hop.idle_sent]
    lost = [(hop.loaded_sent - len(hop.loaded_ns), hop.loaded_sent) for hop in usable]
    gains = [_gain(lost[at:]) for at in range(len(usable))]
    if not gains or max(gains) <= LEAST_GAIN:
        return replace(found, because=_also(found, "no loss begins at one hop and persists"))
    at = gains.index(max(gains))
    behind = sum(gone for gone, _ in lost[at:]) / sum(sent for _, sent in lost[at:])
    ahead = sum(sent for _, sent in lost[:at])
    before_it = sum(gone for gone, _ in lost[:at]) / ahead if ahead else 0.0
    if behind - before_it < LOSS_RISE or lost[-1][0] / lost[-1][1] < LOSS_RISE / 2:
        return replace(found, because=_also(found, "what probes were lost does not persist to the end"))
    if data_lost is not None and data_lost < LOSS_RISE / 2:
        said = (
            f"{format_ratio(behind)} of the probes to hop {usable[at].ttl} and behind it were lost, yet {format_ratio(data_lost)} of the "
            "packets counted at both ends: answers are missing, and no packets on the way there"
        )
        return replace(found, because=_also(found, said))
    few = min(sent for _, sent in lost) < LOSS_PROBES
    alone = at == len(usable) - 1
    said = (
        f"{'no queue, but ' if found.because else ''}{format_ratio(behind)} of the probes to hop {usable[at].ttl} and behind it were lost, and "
        f"{format_ratio(before_it)} of those before it"
    )
    if limited:
        said += f"; {len(limited)} hops lost answers on the idle line too and tell nothing"
    confidence = "low" if few or alone or max(gains) < 2 * LEAST_GAIN else "medium"
    doubt = "few probes" if few else "the last hop alone, which may limit its answers" if alone else _NEVER_SURER
    return replace(
        found,
        after=usable[at - 1].ttl if at else 0,
        before=usable[at].ttl,
        by="loss",
        confidence=confidence,
        because=f"{said}; {doubt}",
    )


def _gain(lost: Sequence[tuple[int, int]]) -> float:
    """Log likelihood won if from here on hops lose at their own common rate and not at that of a quiet line."""
    gone, sent = sum(one for one, _ in lost), sum(one for _, one in lost)
    own = gone / sent
    if own <= QUIET_LOSS:
        return 0.0
    won = gone * math.log(own / QUIET_LOSS)
    return won + (sent - gone) * math.log((1 - own) / (1 - QUIET_LOSS)) if own < 1 else won


def _ratio(sent: int, came: Sequence[int]) -> float:
    return (sent - len(came)) / sent if sent else 0.0


# ---- words


def _also(path: LoadedPath, said: str) -> str:
    return f"{path.because}; {said}" if path.because else said


def _name(one: _Reading) -> str:
    return f"hop {one.hop.ttl}"


def _later(late_ns: float) -> str:
    return f"{format_duration(round(late_ns))} later" if late_ns >= 1 else "no later"


def _evidence(clean: _Reading | None, before: _Reading, end: _Reading) -> str:
    said = f"{_name(before)} answers {_later(before.late_ns)} than on the idle line"
    if before is not end:
        said += f", the end {_later(end.late_ns)}"
    if clean is not None:
        said += f", {_name(clean)} {_later(clean.late_ns)}"
    n = min(len(before.hop.loaded_ns), len(end.hop.loaded_ns))
    return f"{said} (medians of {n} and more under load)"
