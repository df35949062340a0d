"""Which DSCP and ECN values arrive, held against those that must; where a changed one changed, and what that means. Floor 2, pure.

A changed marking is a fact of a packet, not a rate: one packet that arrives with another one is enough. A value of which no
packet is known to have arrived is never a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from linkqual.model import (
    Direction,
    Estimate,
    Finding,
    Hop,
    MarkingResult,
    MarkingTrace,
    Measurement,
    Note,
    Objective,
    Outcome,
    Rule,
)
from linkqual.rules import words
from linkqual.session.marking import DSCP, ECN, Survival, Where, changed_at, survivals, wanted_values
from linkqual.units import format_count
from linkqual.wire.codepoints import dscp_name, ecn_name

UNIT = "changed"  # of the estimate: values that do not arrive as they were sent
_MEANING = {
    DSCP: "RoCEv2 and other classes of the sites' own networks are told apart by DSCP: packets that arrive with another one join another "
    "queue there, outside the priority that flow control protects; classify anew at the hand-over, or have the carrier keep it",
    ECN: "DCQCN, DCTCP and L4S slow down by CE marks on packets sent with ECT: where the line clears or rewrites them, congestion is "
    "told by loss alone, which RoCE bears worst",
}


def finding(objective: Objective, measurement: Measurement) -> Finding:
    """Of one direction and of DSCP or ECN."""
    result, step = measurement.marking, measurement.step.key
    assert result is not None
    found = survivals(result.rows, objective.direction, objective.statistic)
    name = _name(objective.statistic)
    asked = wanted_values(objective.limit_text, objective.statistic) if objective.limit is not None else None
    judged = [one for one in found if asked is None or one.value in asked]
    planned = asked if asked is not None else measurement.step.params.get(objective.statistic.lower(), ())
    unsent = [value for value in planned if value not in {one.value for one in found}]
    head = words.name(objective)
    arrived = sum(one.arrived for one in judged)
    if not any(one.arrived or one.unmarked for one in judged):
        why = "; ".join(_unknown(judged, unsent, name)) or "nothing was sent"
        return Finding(
            objective, Outcome.NO_DATA, f"{head}: {why}", None, "a line and a far host that bring them", Rule.NONE, step
        )
    changed = [one for one in judged if one.changed]
    kept = [one for one in judged if one.kept and not one.changed]
    unknown = list(_unknown(judged, unsent, name))
    said = [*(_changed(one, name) for one in changed), *_kept(kept, name), *unknown]
    estimate = Estimate(
        len(changed), None, None, objective.confidence, arrived, UNIT, "counted: one changed packet is a fact"
    )
    outcome = Outcome.FAIL if changed else Outcome.INCONCLUSIVE if unknown else Outcome.PASS
    if objective.limit is None:
        outcome = Outcome.NOT_JUDGED
    more = "packets of these values that arrive" if outcome is Outcome.INCONCLUSIVE else ""
    rule = Rule.EXACT if outcome in (Outcome.PASS, Outcome.FAIL) else Rule.NONE
    return Finding(objective, outcome, f"{head}: {'; '.join(said)}", estimate, more, rule, step)


def _name(statistic: str) -> Callable[[int], str]:
    return dscp_name if statistic == DSCP else ecn_name


def _changed(one: Survival, name: Callable[[int], str]) -> str:
    """ "EF arrives as CS0 (20 of 20)"; mixed: which paths may be why."""
    to = " and ".join(
        f"{name(value)} ({format_count(count)} of {format_count(one.arrived)})" for value, count in one.changed
    )
    said = f"{name(one.value)} arrives as {to}"
    if one.kept:
        said += f", {format_count(one.kept)} kept: packets of one flow are not treated alike, as where they take several paths"
    return said


def _kept(kept: Sequence[Survival], name: Callable[[int], str]) -> Iterator[str]:
    if not kept:
        return
    counts = {one.kept for one in kept}
    of_each = f"{format_count(min(counts))}{' or more' if len(counts) > 1 else ''}"
    yield f"{', '.join(name(one.value) for one in kept)} kept ({of_each} packets{' each' if len(kept) > 1 else ''})"
    congested = [f"{format_count(one.congested)} of {name(one.value)}" for one in kept if one.congested]
    if congested:
        yield f"{', '.join(congested)} arrived as CE, which a queue may say"


def _unknown(found: Sequence[Survival], unsent: Sequence[int], name: Callable[[int], str]) -> Iterator[str]:
    """Values of which nothing is known to have arrived, by the reason."""
    silent = [one for one in found if not one.arrived]
    unmarked = [name(one.value) for one in silent if one.unmarked]
    lost = [name(one.value) for one in silent if not one.unmarked and one.lost + one.unseen]
    never = [*(name(one.value) for one in silent if not one.unmarked + one.lost + one.unseen), *map(name, unsent)]
    if unmarked:
        yield f"{', '.join(unmarked)} not known: the far host does not mark replies as asked"
    if lost:
        yield f"{', '.join(lost)} not known: no packet of it arrived"
    if never:
        yield f"{', '.join(never)} not known: no packet left with it"


# ---- what a reader should know beside


def notes(measurements: Sequence[Measurement]) -> Iterator[Note]:
    """Where changed values change, and what that means for what runs over the line."""
    results = [one.marking for one in measurements if one.marking is not None]
    for result in results:
        for trace in result.traces:
            yield from _where(result, trace)
    for statistic, meaning in _MEANING.items():
        if any(_changes(result, statistic) for result in results):
            yield Note("marking", meaning, "warn")


def _changes(result: MarkingResult, statistic: str) -> bool:
    return any(one.changed for way in _WAYS for one in survivals(result.rows, way, statistic))


_WAYS = (Direction.FORWARD, Direction.REVERSE)


def _where(result: MarkingResult, trace: MarkingTrace) -> Iterator[Note]:
    for statistic, value in ((DSCP, trace.dscp), (ECN, trace.ecn)):
        changed = [one for one in survivals(result.rows, trace.direction, statistic) if one.changed]
        if value not in [one.value for one in changed]:
            continue
        name = _name(statistic)
        head = f"{trace.direction} trace with {name(value)}"
        where = changed_at(trace.trace.hops, value, statistic)
        if where is None:
            why = f" ({trace.trace.fault.message})" if trace.trace.fault else ""
            yield Note("marking", f"{head}: no hop tells what it saw of it{why}")
        else:
            yield Note("marking", f"{head}: {_between(where, trace.direction, name, statistic)}", "warn")


def _between(where: Where, direction: Direction, name: Callable[[int], str], statistic: str) -> str:
    """Between which hops: a router quotes the probe as it came in, its own way in included."""
    start = "the near end" if direction is Direction.FORWARD else "the far end"
    end = "the far end" if direction is Direction.FORWARD else "the near end"
    before, after = where.before, where.after
    if after is None:
        assert before is not None
        return f"{_hop(before)} still quotes it unchanged, so it is changed between hop {before.ttl} and {end}"
    part = 0 if statistic == DSCP else 1
    assert after.quoted_tos is not None
    seen = name((after.quoted_tos >> 2, after.quoted_tos & 3)[part])
    between = f"between {f'hop {before.ttl}' if before else start} and hop {after.ttl}"
    unchanged = f", {_hop(before)} quotes it unchanged" if before else ""
    return f"changed {between}: {_hop(after)} is the first that quotes it as {seen}{unchanged}"


def _hop(hop: Hop) -> str:
    return f"hop {hop.ttl} ({hop.address})" if hop.address else f"hop {hop.ttl}"
