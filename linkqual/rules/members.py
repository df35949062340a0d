"""Flows that differ by a port alone and fare differently: which, on how large a part of the paths, and what to tell the carrier. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from linkqual.model import (
    Direction,
    Estimate,
    Finding,
    Measurement,
    MembersResult,
    MemberTrace,
    Note,
    Objective,
    Outcome,
    Plan,
    Rule,
)
from linkqual.rules import words
from linkqual.session import members, routes
from linkqual.session.members import CONFIDENCE, MOST_MEMBERS, Found, Group
from linkqual.units import format_count, format_duration, format_ratio

METHOD = "two binomials by likelihood, confirmed on a round of its own by Fisher's exact test"


def finding(objective: Objective, _plan: Plan, measurements: Sequence[Measurement], _family: int) -> Finding | None:
    """Loss of single paths above that of all, in one direction; None when nothing was measured there."""
    taken = next((one for one in measurements if one.members and one.members.direction is objective.direction), None)
    if taken is None or taken.members is None or not any(flow.sent for flow in taken.members.flows):
        return None
    result, step = taken.members, taken.step.key
    found, head = members.read(result), words.name(objective)
    lossy = _lossy(found)
    if lossy is not None and lossy.loss is not None and lossy.others is not None:
        value, low, high = (max(0.0, one - lossy.others[0]) for one in lossy.loss)
        estimate = Estimate(value, low, high, CONFIDENCE, found.sent, "ratio", METHOD)
        said = f"{head}: {_said(result, found, lossy)}"
        if objective.limit is None:
            return Finding(objective, Outcome.NOT_JUDGED, said, estimate, "", Rule.NONE, step)
        if low > objective.limit:
            return Finding(objective, Outcome.FAIL, said, estimate, "", Rule.EXACT, step)
        outcome = Outcome.PASS if high <= objective.limit else Outcome.INCONCLUSIVE
        more = "" if outcome is Outcome.PASS else "more packets of each flow (members: packets)"
        return Finding(objective, outcome, said, estimate, more, Rule.EXACT, step)
    return _alike(objective, result, found, head, step)


def _lossy(found: Found) -> Group | None:
    return next((group for group in found.groups if group.kind == "loss"), None)


def _alike(objective: Objective, result: MembersResult, found: Found, head: str, step: str) -> Finding:
    """No flow is known to lose more: how much more one path may lose all the same."""
    if found.silent:
        return _silence(objective, found, head, step)
    estimate = Estimate(0.0, 0.0, found.excess, CONFIDENCE, found.sent, "ratio", METHOD)
    lost = f"{format_count(found.lost)} of {format_count(found.sent)} packets of {len(result.flows)} flows lost"
    said = (
        f"{head}: {lost}, no flow more than others; a path that carries one in {MOST_MEMBERS} of the flows loses at most "
        f"{format_ratio(found.excess)} more than all do, at {words.percent(CONFIDENCE)}"
    )
    if result.host_lost:
        said += f"; {format_count(result.host_lost)} were dropped by the receiving host's own socket, so losses tell nothing of single flows"
    if objective.limit is None:
        return Finding(objective, Outcome.NOT_JUDGED, said, estimate, "", Rule.NONE, step)
    if found.excess <= objective.limit:
        return Finding(objective, Outcome.PASS, said, estimate, "", Rule.EXACT, step)
    more = "a receiving host that keeps up" if result.host_lost else "more packets of each flow (members: packets)"
    return Finding(objective, Outcome.INCONCLUSIVE, said, estimate, more, Rule.NONE, step)


def _silence(objective: Objective, found: Found, head: str, step: str) -> Finding:
    """Flows of which nothing arrives are alike, and show no path at all."""
    said = f"{head}: none of {format_count(found.sent)} packets arrived, which tells nothing of single paths"
    if objective.limit is None:
        return Finding(objective, Outcome.NOT_JUDGED, said, None, "", Rule.NONE, step)
    more = "a line, and hosts without a filter, that let UDP to the agent's ports through"
    return Finding(objective, Outcome.INCONCLUSIVE, said, None, more, Rule.NONE, step)


def _said(result: MembersResult, found: Found, group: Group) -> str:
    """The sentence an operator hands on."""
    assert group.loss is not None
    assert group.others is not None
    return (
        f"{len(group.ports)} of {group.flows} flows lose {_ratio(group.loss)}, the others {_ratio(group.others)}: {_share(group)}. "
        f"The average of {format_ratio(found.average)} misleads; {_odds(group)}"
    )


def _ratio(ratio: tuple[float, float, float]) -> str:
    """ "2.1 % (1.9 to 2.3 %)", "none (at most 1e-4)"."""
    value, low, high = ratio
    if not value:
        return f"none (at most {format_ratio(high)})"
    return f"{format_ratio(value)} ({format_ratio(low)} to {format_ratio(high)})"


def _share(group: Group) -> str:
    """ "consistent with 1 of 4 paths (14.1 % to 35.6 % of the flows: 1 of 3 to 7)"."""
    _, low, high = group.share
    fewest, most = group.among
    range_ = f": {'all but 1' if group.bad > 1 else '1'} of {fewest} to {most}" if fewest < most else ""
    return f"consistent with {group.bad} of {group.paths} paths ({format_ratio(low)} to {format_ratio(high)} of all flows{range_})"


def _odds(group: Group) -> str:
    most = group.among[1]
    worst = f" ({members.flows_needed(most)} if it is 1 of {most})" if group.bad == 1 and most > group.paths else ""
    return (
        f"a test over one flow had a chance of {format_ratio(members.missed(group.paths, group.bad))} to miss it, and {members.flows_needed(group.paths, group.bad)} "
        f"flows meet it with {words.percent(members.FOUND)}{worst}"
    )


# ---- what a reader should know beside


def notes(measurements: Sequence[Measurement]) -> Iterator[Note]:
    """The flows to hand to the carrier, slower paths, other routers."""
    for measurement in measurements:
        if measurement.members is not None:
            for group in members.read(measurement.members).groups:
                yield from _of_group(measurement.members, group)
            yield from _routes(measurement.members)


def _of_group(result: MembersResult, group: Group) -> Iterator[Note]:
    way = result.direction
    if group.kind != "loss":
        what = "have a path that is longer by" if group.kind == "path" else "wait longer in a queue, by a median of"
        yield Note(
            "members",
            f"{way}: {len(group.ports)} of {group.flows} flows {what} {format_duration(group.excess_ns)}: {_share(group)}; {_odds(group)}",
            "warn",
        )
    yield Note("members", f"{way} flows {_KINDS[group.kind]}: {tuples(result, group.ports)}", "warn")
    if group.unclear:
        yield Note(
            "members", f"{way}: flows that may be of either: {tuples(result, group.unclear)}; more packets would tell"
        )
    if routed := _routed(result.traces, group):
        yield Note("members", f"{way}: {routed}")


_KINDS = {"loss": "that lose packets", "path": "on the longer path", "queue": "that wait"}


def tuples(result: MembersResult, ports: Sequence[int]) -> str:
    """The 5-tuples: "UDP 192.0.2.1 ports 24064, 24070 to 192.0.2.9 port 4863"."""
    near = f"{result.near_address} port{'s' * (len(ports) > 1)} {', '.join(map(str, ports))}"
    far = f"{result.far_address} port {result.far_port}"
    return f"UDP {near} to {far}" if result.direction is Direction.FORWARD else f"UDP {far} to {near}"


def _routed(traces: Sequence[MemberTrace], group: Group) -> str:
    """The first hop that shows one router to the flows of the group and another to all other ones."""
    parts = routes.apart(traces, group.ports, group.unclear)
    if parts is not None:
        theirs, others = (", ".join(sorted(some)) for some in (parts.theirs, parts.others))
        return f"they leave the path of the others by hop {parts.hop}: {theirs} instead of {others}"
    if {trace.near_port for trace in traces} & set(group.ports):
        return "their traces show the same routers as those of the others: members between two routers that no trace tells apart"
    return ""


def _routes(result: MembersResult) -> Iterator[Note]:
    """Which routers flows meet, whether or not they fare alike."""
    way, traces = result.direction, result.traces
    if not traces:
        if result.traces_short:
            yield Note("members", f"{way}: no flow was traced: {result.traces_short}")
        return
    count = len({trace.near_port for trace in traces})
    if ports := routes.moved(traces):
        yield Note(
            "members",
            f"{way}: {tuples(result, ports)} met other routers when traced again: the route changed meanwhile, or single packets are "
            "spread and not flows; so which routers flows meet is not said",
        )
        return
    few = (
        f"; fewer were traced than would show one more way at {words.percent(1 - routes.SURE)}"
        if routes.short(traces)
        else ""
    )
    few += f" ({result.traces_short})" if few and result.traces_short else ""
    found = routes.parting(traces)
    if found is None:
        sure = (
            few or f"; one more way that carries as many flows would have been met, at {words.percent(1 - routes.SURE)}"
        )
        yield Note("members", f"{way}: {count} flows traced meet the same routers{sure}")
        return
    (most, _), *rest = found.ways
    said = "; ".join(
        f"{len(ports)} of {found.flows} flows go by {address} instead of {most}" for address, ports in rest
    )
    listed = "; ".join(f"by {address}: {tuples(result, ports)}" for address, ports in rest)
    yield Note(
        "members",
        f"{way}: {said} at hop {found.hop}, over {found.paths} ways in all{few}. Flows are spread over equal routes, which is no fault by itself: "
        f"a single flow tells of one of them only. {listed}",
    )
