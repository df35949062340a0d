"""What a reflector that is not ours leaves open: nobody can ask it, and its stamps are its own. Floor 2, pure."""

from __future__ import annotations

from dataclasses import replace

from linkqual.metrics import METRICS
from linkqual.model import Direction, Finding, Objective, Outcome, Rule
from linkqual.rules import words
from linkqual.rules.stream import Stream

_NEEDS_NUMBERS = ("reordered_ratio", "duplicate_ratio")
_QUICKEST_NS = 1_000_000  # a reflector answers one packet of many without a longer delay of its own
_ASK_OURS = "measure with our agent at the far end: its kernel stamps what passes"


def missing(objective: Objective, stream: Stream) -> Finding | None:
    """NO DATA for what only replies stamped, or numbered, by the far end can show, of one direction alone."""
    if objective.direction is Direction.ROUND_TRIP:
        return None
    if METRICS[objective.metric].unit == "ns" and _blind(stream):
        why = f"{words.name(objective)}: the reflector does not stamp, so only the round trip is known, with the time packets stayed there"
        return Finding(objective, Outcome.NO_DATA, why, None, _ASK_OURS, Rule.NONE, stream.measurement.step.key)
    numbered = stream.result.far_end in ("agent", "stateful")
    if numbered or objective.metric not in _NEEDS_NUMBERS:
        return None
    cause = "began counting anew" if stream.result.far_end == "restarted" else "copies our numbers"
    why = f"{words.name(objective)}: the reflector {cause}, so nothing tells one direction from the other"
    return Finding(
        objective, Outcome.NO_DATA, why, None, "measure with our agent at the far end, or with a stateful reflector", Rule.NONE,
        stream.measurement.step.key,
    )  # fmt: skip


def _blind(stream: Stream) -> bool:
    summary = stream.summary
    return stream.result.far_end != "agent" and summary.received > 0 and not summary.forward_delay.n


def weighed(finding: Finding, stream: Stream) -> Finding:
    """The finding; a delay of which the reflector may have added any part fails no line.

    Its program may read a packet long after it came, and stamps it then. Only a round trip whose quickest packet took longer than the
    limit is the line's beyond that.
    """
    objective = finding.objective
    stamps = stream.measurement.conditions.far.stamps
    surely = stream.result.far_end == "agent" or (stamps.get("T2"), stamps.get("T3")) == ("hardware", "hardware")
    if surely or finding.outcome is not Outcome.FAIL or METRICS[objective.metric].unit != "ns":
        return finding
    assert objective.limit is not None
    quickest = stream.summary.round_trip_delay.minimum
    if objective.metric == "round_trip_delay" and quickest is not None and quickest > objective.limit + _QUICKEST_NS:
        return finding
    why = f"{finding.because}; but the reflector is not ours and stamps by itself: packets may have waited in its host before it did"
    return replace(finding, outcome=Outcome.INCONCLUSIVE, because=why, decide=_ASK_OURS)
