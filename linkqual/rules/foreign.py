"""What a reflector that is not ours leaves open: nobody can ask it, and its stamps are its own. Floor 2, pure."""

from __future__ import annotations

from dataclasses import replace

from linkqual.metrics import METRICS
from linkqual.model import Direction, Finding, Objective, Outcome, Rule
from linkqual.rules import words
from linkqual.rules.stream import Stream
from linkqual.units import format_duration

_NEEDS_NUMBERS = ("reordered_ratio", "duplicate_ratio")
# How far the stamps of a program that reflects may lie beside the wire: seldom more than the first, one time in a thousand the second.
_STAMP_NS, _TAIL_STAMP_NS = 1_000_000, 5_000_000
_USUAL = ("p50", "mean", "min", "p10", "p90", "p95")
_ASK_OURS = "measure with our agent at the far end: its kernel stamps what passes"


def missing(objective: Objective, stream: Stream) -> Finding | None:
    """NO DATA for what only replies numbered by the far end can show, of one direction alone."""
    numbered = stream.result.far_end in ("agent", "stateful")
    if numbered or objective.metric not in _NEEDS_NUMBERS or objective.direction is Direction.ROUND_TRIP:
        return None
    why = f"{words.name(objective)}: the reflector copies our numbers, so nothing tells one direction from the other"
    return Finding(
        objective, Outcome.NO_DATA, why, None, "measure with our agent at the far end, or with a stateful reflector", Rule.NONE,
        stream.measurement.step.key,
    )  # fmt: skip


def weighed(finding: Finding, stream: Stream) -> Finding:
    """The finding; a delay fails no line by so little that the reflector may have added it."""
    objective, estimate = finding.objective, finding.estimate
    stamps = stream.measurement.conditions.far.stamps
    surely = stream.result.far_end == "agent" or (stamps.get("T2"), stamps.get("T3")) == ("hardware", "hardware")
    if surely or finding.outcome is not Outcome.FAIL or METRICS[objective.metric].unit != "ns" or estimate is None:
        return finding
    assert objective.limit is not None
    added = _STAMP_NS if objective.statistic in _USUAL else _TAIL_STAMP_NS
    lowest = estimate.low if estimate.low is not None else estimate.value
    if lowest is not None and lowest > objective.limit + added:
        return finding
    why = f"{finding.because}; but the reflector is not ours and stamps by itself: up to {format_duration(added)} of this may be its own"
    return replace(finding, outcome=Outcome.INCONCLUSIVE, because=why, decide=_ASK_OURS)
