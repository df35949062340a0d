"""Two clocks that drift apart, or are set: what they add to one-way results is told, and never fails a line. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from linkqual.model import (
    ClockState,
    ClockStep,
    Conditions,
    Direction,
    Measurement,
    Note,
    Objective,
    StampResult,
    Summary,
)
from linkqual.stats import skew
from linkqual.units import NS_PER_S, format_count, format_duration

NOTICEABLE_NS = 50_000
WEIGHTY = 0.1  # of a limit: worth a warning
STAMPS_NS = 20_000  # what stamps of two kernels may be beside the wire
TOLD_NS = 20_000  # a host that says its clock was set by less did not set it
QUEUES = 0.8  # of a step: two queues that stand so high could have changed places


# ---- steps


def believed(summary: Summary, conditions: Conditions) -> tuple[ClockStep, ...]:
    """The steps that were found in the packets and are a clock's doing.

    A host knows when its clock was set. Where none of them says so, two standing queues of this size that change places in one
    moment are the other explanation: then the round trip beside the step is longer than the shortest by as much.
    """
    if conditions.same_clock:
        return ()
    if _told(conditions):
        return summary.clock_steps
    shortest = _shortest(summary)
    return tuple(
        step for step in summary.clock_steps
        if min(step.round_trip_before_ns, step.round_trip_after_ns) - shortest < QUEUES * abs(step.step_ns)
    )  # fmt: skip


def _shortest(summary: Summary) -> int:
    """Round trip away from the steps: of what was in flight over one it is wrong by the step."""
    doubtful = [sorted((step.before_ns, step.after_ns)) for step in summary.clock_steps]
    length = summary.slice_ns
    return min(
        (
            piece.rtt_min_ns for piece in summary.slices
            if piece.rtt_min_ns is not None
            and not any(first - length <= piece.start_ns + length and piece.start_ns <= last + length for first, last in doubtful)
        ),
        default=0,
    )  # fmt: skip


def bound_ns(summary: Summary, conditions: Conditions) -> tuple[int | None, str]:
    """How far both clocks may be apart over the whole stream; None with the reason where nobody's word holds."""
    if conditions.same_clock:
        return 0, ""
    stated = conditions.clock_error_ns
    if stated is None:
        return None, "the offset between both clocks is not known"
    moved = _wander(summary)
    if moved > 2 * stated:
        return (
            None,
            f"a clock was set by {format_duration(moved)}, further than both clocks claim to be off ({format_duration(stated)})",
        )
    known = [each.minimum for each in (summary.forward_delay, summary.reverse_delay) if each.minimum is not None]
    least = min(known, default=0)
    if least < -stated - STAMPS_NS:
        return None, (
            f"a one-way delay of {format_duration(least)} is less than none: the clocks are at least {format_duration(-least)} apart, "
            f"further than they claim ({format_duration(stated)})"
        )
    return stated, ""


def _wander(summary: Summary) -> int:
    """The greatest distance between two offsets of the run, as its steps say."""
    offsets, at = [0], 0
    for step in summary.clock_steps if summary.segments else ():
        at += step.step_ns
        offsets.append(at)
    return max(offsets) - min(offsets)


# ---- drift


def added_ns(objective: Objective, summary: Summary, conditions: Conditions) -> int:
    """What the clocks may have added to a delay variation of this direction, at most; 0 for a round trip, or with one clock.

    Synchronised clocks cannot have moved by more than twice their bound.
    """
    if objective.metric != "pdv" or objective.direction is Direction.ROUND_TRIP or conditions.same_clock:
        return 0
    moved = skew.exchanged_ns(summary, objective.direction)
    error, _ = bound_ns(summary, conditions)
    return moved if error is None else min(moved, 2 * error)


def noticeable(summary: Summary, conditions: Conditions) -> bool:
    """Whether the clocks moved enough to tell of it."""
    return _moved(summary, conditions) >= NOTICEABLE_NS


def _moved(summary: Summary, conditions: Conditions) -> int:
    one_way = [Objective("pdv", "p99.9", way, None) for way in (Direction.FORWARD, Direction.REVERSE)]
    return max(added_ns(each, summary, conditions) for each in one_way)


# ---- notes


def notes(objectives: Sequence[Objective], measurements: Sequence[Measurement]) -> Iterator[Note]:
    """What is known of both clocks, for each stream between two of them."""
    for measurement in measurements:
        if measurement.stamp is None:
            continue
        conditions, summary = measurement.conditions, measurement.stamp.summary
        yield from _lost_source(conditions)
        yield from _set(measurement.stamp, conditions)
        if not conditions.same_clock and summary.forward_delay.n:
            yield _offset(summary, conditions)
            yield from _negative(summary)
            yield from _drift(objectives, summary, conditions)


def _lost_source(conditions: Conditions) -> Iterator[Note]:
    """Who kept a clock, before and after: a change is told."""
    for end, place in ((conditions.near, "near"), (conditions.far, "far")):
        before, after = end.clock_before, end.clock
        if before is None or after == ClockState():  # an end that could not be asked says nothing
            continue
        if (before.source, before.synchronised) == (after.source, after.synchronised):
            continue
        if before.synchronised and not after.synchronised:
            said = f"the {place} end's clock lost its source during the measurement: {_state(before)} before, {_state(after)} after"
        else:
            said = f"who keeps the {place} end's clock changed during the measurement: {_state(before)} before, {_state(after)} after"
        yield Note("clock", said, "warn")


def _state(state: ClockState) -> str:
    return f"{state.source}, {'in step' if state.synchronised else 'not in step'}"


def _set(result: StampResult, conditions: Conditions) -> Iterator[Note]:
    """Every step of a clock: when, by how much, whose, by what evidence, and what was cut for it."""
    summary = result.summary
    steps = summary.clock_steps if summary.segments else ()
    for step in steps:
        yield Note("clock", f"{_stepped(step, conditions)}: {_evidence(step)}", "warn")
    if steps:
        said = "one-way delay and jitter are cut there, each part against its own smallest delay; round trip, loss and rate do not depend on clocks"
        if summary.crossed:
            said += f"; packets in flight over it, {format_count(summary.crossed)}, have no round trip and are left out of the delays"
        yield Note("clock", said)
    elif told := [f"{place} end by {_signed(by)}" for place, by in _told(conditions)]:
        said = f"a clock was set during the measurement ({', '.join(told)}), and no step of that kind is seen in the packets"
        said += ": delays of packets in flight at that moment may be wrong by as much"
        yield Note("clock", said, "warn")


def _told(conditions: Conditions) -> list[tuple[str, int]]:
    both = (("near", conditions.near.clock_stepped_ns), ("far", conditions.far.clock_stepped_ns))
    return [(place, by) for place, by in both if by is not None and abs(by) > TOLD_NS]


def _stepped(step: ClockStep, conditions: Conditions) -> str:
    told = dict(_told(conditions))
    when = f"{instant(step.before_ns)} UTC"
    if not told:
        said = f"at {when} the far end's clock stepped by {_signed(step.step_ns)} against the near end's, or the near end's the other way"
        if None not in (conditions.near.clock_stepped_ns, conditions.far.clock_stepped_ns):
            said += " (no program set either of them: a virtual machine that was moved or stopped leaps like that)"
        return said
    if len(told) == 2:
        return f"at {when} a clock was set; the far end's is {_signed(step.step_ns)} off against before (both ends set theirs in this run)"
    (place,) = told
    by = step.step_ns if place == "far" else -step.step_ns
    return f"at {when} the {place} end's clock was set by {_signed(by)}, as its host confirms"


def _evidence(step: ClockStep) -> str:
    forward, reverse = (f"{_signed(by)} {way}" for by, way in ((step.step_ns, "forward"), (-step.step_ns, "reverse")))
    return (
        f"the smallest delays moved by {forward} and {reverse} at once and the round trip by "
        f"{_signed(step.round_trip_after_ns - step.round_trip_before_ns)}, which no network event does. Offset of the far clock before "
        f"{_offset_words(step.offset_before_ns, step.round_trip_before_ns // 2)}, after "
        f"{_offset_words(step.offset_after_ns, step.round_trip_after_ns // 2)}"
    )


def instant(ns: int) -> str:
    """ "2026-11-30 02:13:07.123"."""
    return f"{datetime.fromtimestamp(ns // NS_PER_S, UTC):%Y-%m-%d %H:%M:%S}.{ns // 1_000_000 % 1000:03d}"


def _signed(ns: int) -> str:
    return f"{'-' if ns < 0 else '+'}{format_duration(abs(ns))}"


def _offset_words(offset: int, half: int) -> str:
    return f"{_signed(offset)} ± {format_duration(half)}"


def _offset(summary: Summary, conditions: Conditions) -> Note:
    error, why = bound_ns(summary, conditions)
    if error is not None:
        return Note("clock", f"both clocks agree to within {format_duration(error)}: one-way delays are known to that")
    said = f"{why}: one-way delays are not absolute; round trips and loss do not need it, delay variation needs only that it stays"
    estimate = skew.offset(summary.forward_delay, summary.reverse_delay)
    if estimate is not None and estimate[1] >= 0 and not summary.segments:
        said += f". From the packets the far clock is {_offset_words(*estimate)} off, wherever in that range the line's two directions put it"
    return Note("clock", said, "warn" if conditions.clock_error_ns is not None else "info")


def _negative(summary: Summary) -> Iterator[Note]:
    for histogram, way in ((summary.forward_delay, "forward"), (summary.reverse_delay, "reverse")):
        if histogram.minimum is not None and histogram.minimum < 0:
            yield Note(
                "clock",
                f"one-way delays {way} are as low as {format_duration(histogram.minimum)}. Negative means: the clocks differ by more than the "
                "delay. They are kept as measured, since their differences are right",
            )


def _drift(objectives: Sequence[Objective], summary: Summary, conditions: Conditions) -> Iterator[Note]:
    moved, pace, paces = _moved(summary, conditions), skew.clock_drift(summary), skew.drift_range(summary)
    taken_out = bool(summary.clock_pace)
    if pace is None or paces is None or not (taken_out or moved >= NOTICEABLE_NS):
        return
    limits = [
        each.limit for each in objectives
        if each.metric == "pdv" and each.direction is not Direction.ROUND_TRIP and each.limit
    ]  # fmt: skip
    heavy = bool(limits) and moved > WEIGHTY * min(limits)
    said = f"the far end's clock {'gains' if pace > 0 else 'loses'} {abs(pace) * 1e6:.2g} ppm against the near end's"
    said += f" ({paces[0] * 1e6:.2g} to {paces[1] * 1e6:.2g} by the two directions): one direction seems to get slower while the other gets faster"
    if taken_out:
        said += "; this is taken out of the one-way jitter"
    if moved >= NOTICEABLE_NS:
        left = "what is left of it" if taken_out else "it"
        said += f"; {left} adds up to {format_duration(moved)} to the one-way jitter of this run, and no limit is failed for that"
    yield Note("clock", said, "warn" if heavy else "info")
