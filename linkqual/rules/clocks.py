"""Two clocks that drift apart: what they add to one-way jitter is told, and never fails a line. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from linkqual.model import Conditions, Direction, Measurement, Note, Objective, Summary
from linkqual.stats import skew
from linkqual.units import format_duration

NOTICEABLE_NS = 50_000
WEIGHTY = 0.1  # of a limit: worth a warning


def added_ns(objective: Objective, summary: Summary, conditions: Conditions) -> int:
    """What the clocks may have added to a delay variation of this direction, at most; 0 for a round trip, or with one clock.

    Synchronised clocks cannot have moved by more than twice their bound.
    """
    if objective.metric != "pdv" or objective.direction is Direction.ROUND_TRIP or conditions.same_clock:
        return 0
    moved = skew.exchanged_ns(summary, objective.direction)
    error = conditions.clock_error_ns
    return moved if error is None else min(moved, 2 * error)


def notes(objectives: Sequence[Objective], measurements: Sequence[Measurement]) -> Iterator[Note]:
    """What is known of both clocks, for each stream between two of them."""
    for measurement in measurements:
        if measurement.stamp is None or measurement.conditions.same_clock:
            continue
        yield _offset(measurement.conditions)
        yield from _drift(objectives, measurement.stamp.summary, measurement.conditions)


def _offset(conditions: Conditions) -> Note:
    if conditions.clock_error_ns is None:
        return Note(
            "clock",
            "the offset between both clocks is not known: one-way delays are not absolute; "
            "round trips and loss do not need it, delay variation needs only that it stays",
        )
    agreed = format_duration(conditions.clock_error_ns)
    return Note("clock", f"both clocks agree to within {agreed}: one-way delays are known to that")


def noticeable(summary: Summary, conditions: Conditions) -> bool:
    """Whether the clocks moved enough to tell of it."""
    return _moved(summary, conditions) >= NOTICEABLE_NS


def _moved(summary: Summary, conditions: Conditions) -> int:
    one_way = [Objective("pdv", "p99.9", way, None) for way in (Direction.FORWARD, Direction.REVERSE)]
    return max(added_ns(each, summary, conditions) for each in one_way)


def _drift(objectives: Sequence[Objective], summary: Summary, conditions: Conditions) -> Iterator[Note]:
    moved, pace = _moved(summary, conditions), skew.clock_drift(summary)
    taken_out = bool(summary.clock_pace)
    if pace is None or not (taken_out or moved >= NOTICEABLE_NS):
        return
    limits = [
        each.limit for each in objectives
        if each.metric == "pdv" and each.direction is not Direction.ROUND_TRIP and each.limit
    ]  # fmt: skip
    heavy = bool(limits) and moved > WEIGHTY * min(limits)
    said = f"the far end's clock {'gains' if pace > 0 else 'loses'} {abs(pace) * 1e6:.2g} ppm against the near end's: one direction seems to"
    said += " get slower while the other gets faster"
    if taken_out:
        said += "; this is taken out of the one-way jitter"
    if moved >= NOTICEABLE_NS:
        left = "what is left of it" if taken_out else "it"
        said += f"; {left} adds up to {format_duration(moved)} to the one-way jitter of this run, and no limit is failed for that"
    yield Note("clock", said, "warn" if heavy else "info")
