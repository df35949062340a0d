"""A plan in words and numbers, for people and for machines. Floor 2, pure."""

from __future__ import annotations

from linkqual.model import Json, Plan, Step
from linkqual.plan_needs import Need, family_size, needs
from linkqual.units import (
    format_count,
    format_duration,
    format_packet_rate,
    format_rate,
    format_ratio,
    format_size,
)

_UNIT = {"stamp": "packets", "throughput": "seconds"}


def describe(plan: Plan) -> list[str]:
    """Lines for `linkqual plan`: the steps, what each red line needs, the totals and the reasons."""
    lines = [f"plan of profile {plan.profile} for {plan.link.name}", "", "steps"]
    lines += [f"  {number}. {_step(step)}" for number, step in enumerate(plan.steps, 1)]
    lines += ["", "red lines"]
    lines += [f"  {line}" for line in _red_lines(plan)]
    lines += ["", "in all"]
    lines += [f"  {line}" for line in _totals(plan)]
    if plan.reasons:
        lines += ["", "why"]
        lines += [f"  - {reason}" for reason in plan.reasons]
    return lines


def _step(step: Step) -> str:
    parts = [step.key]
    if step.probe == "stamp":
        parts.append(f"{format_packet_rate(step.params['rate_pps'])} of {step.params['packet_bytes']} B UDP payload")
        parts.append(f"at most {format_count(step.packets)} packets")
    elif step.packets:
        parts.append(f"{'up to ' if step.probe == 'path' else ''}{format_count(step.packets)} packets")
    if step.probe == "throughput":
        parts.append(f"TCP {step.params['congestion_control']}, {'judged' if step.params['judged'] else 'shown'}")
    if step.offered_bps:
        each = "each way" if step.probe != "throughput" else "up to the contracted rate"
        parts.append(f"{format_rate(step.offered_bps)} {each}")
    elif step.probe == "throughput":
        parts.append("as much as the line takes")
    parts.append(f"{format_duration(step.expected_ns)} on a good line, at most {format_duration(step.duration_ns)}")
    return ", ".join(parts)


def _all_needs(plan: Plan) -> list[Need]:
    family = family_size(plan.objectives)
    return [need for probe in _UNIT for need in needs(plan.objectives, probe, family)]


def _red_lines(plan: Plan) -> list[str]:
    lines = []
    decidable = {need.objective.key: need for need in _all_needs(plan)}
    for objective in plan.objectives:
        weight = "required" if objective.required else "advisory"
        need = decidable.get(objective.key)
        if objective.limit is None:
            lines.append(f"{objective.key}: measured and not judged ({objective.limit_text})")
        elif need is None:
            lines.append(f"{objective.key}: {weight}, compared at the end, without a proof")
        else:
            unit = "packets" if objective.metric != "throughput" else "seconds"
            lines.append(
                f"{objective.key}: {weight}, limit {objective.limit_text}, share of bad {unit} at most {format_ratio(need.share)}: "
                f"proven after {format_count(need.good)} good {unit}, a line ten times over refuted after about {format_count(need.bad)}"
            )
    return lines


def _totals(plan: Plan) -> list[str]:
    unknown = any(step.probe == "throughput" and not step.offered_bps for step in plan.steps)
    size = format_size(plan.total_bytes) + (
        " and what the throughput steps carry at the line's own rate" if unknown else ""
    )
    family = family_size(plan.objectives)
    return [
        f"a good line: {format_duration(plan.expected_ns)}; at most {format_duration(plan.total_ns)}",
        f"a line that breaks a limit ten times over: {format_duration(bad_ns(plan))}",
        f"traffic: at most {size}, both directions together",
        f"errors: a line bad in any required respect passes with at most 5 %; a line good in all of them fails with at most 5 %, shared by {family} red lines",
    ]


def bad_ns(plan: Plan) -> int:
    """Time of a plan whose line breaks every limit ten times over: each red line is refuted early."""
    wanted = _all_needs(plan)
    spent = 0
    for step in plan.steps:
        mine = [need.bad for need in wanted if _UNIT.get(step.probe) and need.objective.key and _of(need, step)]
        if not mine or step.params.get("fixed") or not step.params.get("judged", True):
            spent += step.expected_ns
        elif step.probe == "stamp":
            packets = min(max(mine), step.packets or max(mine))
            spent += packets * 10**9 // step.params["rate_pps"] + step.params["timeout_ns"]
        else:
            spent += step.expected_ns  # a block of throughput is never cut short
    return spent


def _of(need: Need, step: Step) -> bool:
    return (need.objective.metric == "throughput") == (step.probe == "throughput")


def as_json(plan: Plan) -> Json:
    """The plan as one object for --json: steps, needs of every red line, totals, reasons."""
    return {
        "profile": plan.profile,
        "link": plan.link.name,
        "steps": [
            {
                "key": step.key,
                "probe": step.probe,
                "direction": str(step.direction),
                "params": step.params,
                "packets": step.packets,
                "expected_ns": step.expected_ns,
                "at_most_ns": step.duration_ns,
                "offered_bps": step.offered_bps or None,
                "at_most_bytes": step.total_bytes if step.offered_bps or step.probe == "path" else None,
                "why": step.why,
            }
            for step in plan.steps
        ],
        "red_lines": [
            {
                "objective": need.objective.key,
                "required": need.objective.required,
                "limit": need.objective.limit,
                "limit_text": need.objective.limit_text,
                "share": need.share,
                "unit": "seconds" if need.objective.metric == "throughput" else "packets",
                "good_line": need.good,
                "bad_line": need.bad,
            }
            for need in _all_needs(plan)
        ],
        "not_judged": [one.key for one in plan.objectives if one.limit is None],
        "good_line_ns": plan.expected_ns,
        "bad_line_ns": bad_ns(plan),
        "at_most_ns": plan.total_ns,
        "at_most_bytes": plan.total_bytes,
        "family": family_size(plan.objectives),
        "reasons": list(plan.reasons),
    }
