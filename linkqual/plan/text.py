"""A plan in words and numbers, for people and for machines. Floor 2, pure."""

from __future__ import annotations

from linkqual.folding import folded, table
from linkqual.metrics import METRICS
from linkqual.model import Direction, Json, Objective, Plan, Step, family_size
from linkqual.plan import sizes
from linkqual.plan.bounds import bytes_of, is_load, peak
from linkqual.plan.needs import BAD_FACTOR, Need, needs
from linkqual.rules import apart, words
from linkqual.units import (
    NS_PER_S,
    format_count,
    format_duration,
    format_packet_rate,
    format_rate,
    format_ratio,
    format_size,
    format_value,
)

_EXPIRING = "narrow: "  # begins the reason that counts packets (`plan.narrow`, `plan.recursive`)


def describe(plan: Plan, width: int | None = None) -> list[str]:
    """Lines for `linkqual plan`: totals, steps, what each red line needs, reasons. Columns are aligned, for a fixed-width font.

    `width`: characters a line may have (`folding`).
    """
    link = plan.link
    known = [text for text in (link.vendor, link.cir_bps and format_rate(link.cir_bps), _budget(plan)) if text]
    heads = ("step", "on a good line", "at most", "bytes at most", "peak rate", "what is sent")
    told = _of_expiring(plan)
    others = [reason for reason in plan.reasons if reason not in told]
    inner = None if width is None else width - 2
    lines = [
        f"{plan.profile} on {link.name}{' (' + ', '.join(known) + ')' if known else ''}",
        "",
        *_indented("in all", [*traffic(plan), *expiring(plan), *_totals(plan)]),
        "",
        *_indented("steps", table([heads, *map(_step, plan.steps)], inner)),
        "",
        *_indented("red lines", _red_lines(plan, inner)),
        *(["", *_indented("why", [f"- {reason}" for reason in others])] if others else []),
    ]
    return folded(lines, width)


def traffic(plan: Plan) -> list[str]:
    """What goes out at most in each direction, and how fast: the lines a person sees before anything is sent."""
    lines = []
    for way, arrow in ((Direction.FORWARD, "forward"), (Direction.REVERSE, "reverse")):
        sent, fastest = sum(bytes_of(step, way) for step in plan.steps), peak(plan, way)
        if fastest is None:
            continue
        known = fastest.offered_bps or not is_load(fastest)
        endless = _endless(plan, way)
        bounded = (
            f"at most {format_size(sent)}"
            if not endless
            else f"{format_size(sent)} and what the loads of {_keys(endless)} carry at the line's own rate"
        )
        rate = format_rate(fastest.offered_bps) if known else "the line's own rate"
        peak_words = f", peak {rate} ({fastest.key})" if fastest.offered_bps or not known else ""
        lines.append(f"{arrow}      {bounded}{peak_words}")
    return lines


def _endless(plan: Plan, way: Direction) -> list[Step]:
    """Loads of a direction that no number of bytes bounds."""
    return [
        one
        for one in plan.steps
        if is_load(one) and not one.total_bytes and one.direction in (way, Direction.ROUND_TRIP)
    ]


def _keys(steps: list[Step]) -> str:
    return " and ".join(dict.fromkeys(one.probe for one in steps))


def expiring(plan: Plan) -> list[str]:
    """How many packets expire on routers: with `traffic`, what a person sees before anything is sent."""
    return [f"routers      {reason.removeprefix(_EXPIRING)}" for reason in _of_expiring(plan)]


def _of_expiring(plan: Plan) -> list[str]:
    if not any(step.probe == "narrow" for step in plan.steps):
        return []
    return [reason for reason in plan.reasons if reason.startswith(_EXPIRING)]


def _budget(plan: Plan) -> str:
    budget = plan.link.rtt_budget_ns
    return f"round trip within {format_duration(budget)}" if budget else ""


def _indented(title: str, lines: list[str]) -> list[str]:
    return [title, *(f"  {line}" for line in lines)]


def _step(step: Step) -> tuple[str, ...]:
    good = "only if needed" if step.params.get("when") == "short" else format_duration(step.expected_ns)
    each = " each way" if step.direction is Direction.ROUND_TRIP else ""
    known = not is_load(step) or step.offered_bps
    size = (
        f"{format_size(step.total_bytes // (2 if each else 1))}{each}"
        if known or step.total_bytes
        else "as the line takes"
    )
    rate = format_rate(step.offered_bps) if step.offered_bps else "-"
    return step.key, good, format_duration(step.duration_ns), size, rate, _sends(step)


def _sends(step: Step) -> str:
    params = step.params
    if step.probe == "stamp":
        count = format_count(step.packets) if params["fixed"] else f"at most {format_count(step.packets)}"
        return f"{count} packets, {format_packet_rate(params['rate_pps'])} of {sizes.of_params(params).text} of UDP payload"
    if step.probe == "throughput":
        what = f"TCP {params['congestion_control']}, {'judged' if params['judged'] else 'shown beside'}"
    elif step.probe == "marking":
        kinds = (step.packets or 0) // params["packets"]
        what = f"{params['packets']} packets each of {kinds} DSCP and ECN values"
    elif step.probe == "path":
        what = f"up to {format_count(step.packets)} packets"
    elif step.probe == "ping":
        what = f"{format_count(step.packets)} echoes"
    else:
        what = step.why
    duty = params.get("duty")
    return f"{what}; {format_ratio(duty)} of the time, silence between" if duty else what


def all_needs(plan: Plan) -> list[Need]:
    """What every decidable red line of the plan needs."""
    family = family_size(plan.objectives)
    sent = {"stamp": "rate_pps", "throughput": "beside_pps"}  # packets a second, where packets are the trials
    rates = {
        probe: max((step.params.get(name) or 0 for step in plan.steps if step.probe == probe), default=0)
        for probe, name in sent.items()
    }
    asked = _asked(plan)
    return [need for probe, rate in rates.items() for need in needs(asked, probe, family, rate)]


def _asked(plan: Plan) -> list[Objective]:
    """The red lines of the probes that run."""
    return [one for one in plan.objectives if not apart.sits_out(one, plan)]


def _label(objective: Objective) -> str:
    metric = METRICS[objective.metric]
    statistic = "" if objective.statistic in ("ratio", "own", "difference") else f" {objective.statistic}"
    direction = "" if len(metric.directions) == 1 else f", {objective.direction}"
    return f"{metric.title}{statistic}{direction}"


def _limit(objective: Objective) -> str:
    if objective.limit is None:
        return "not judged" if objective.limit_text in {"", "none"} else f"not judged: {objective.limit_text}"
    if METRICS[objective.metric].unit in ("marking", "links"):
        return objective.limit_text
    return f"{objective.relation} {format_value(objective.limit, METRICS[objective.metric].unit)}"


def _red_lines(plan: Plan, width: int | None) -> list[str]:
    decidable = {need.objective.key: need for need in all_needs(plan)}
    rows: list[tuple[str, ...]] = [("metric", "weight", "limit", "proven after", "a bad line is refuted after about")]
    asked = _asked(plan)
    for objective in asked:
        weight = "required" if objective.required else "advisory"
        need = decidable.get(objective.key)
        if need is None:
            end = "-" if objective.limit is None else "judged at the end, by all that was seen"
            rows.append((_label(objective), weight, _limit(objective), end, ""))
        else:
            unit = words.unit(objective)
            good, bad = f"{format_count(need.good)} good {unit}", f"{format_count(need.bad)}"
            rows.append((_label(objective), weight, _limit(objective), good, bad))
    others = apart.sentence([one for one in plan.objectives if one not in asked])
    return [*(table(rows, width) if asked else []), *([others] if others else [])]


def _totals(plan: Plan) -> list[str]:
    family = family_size(plan.objectives)
    judged = [one.confidence for one in plan.objectives if one.required and one.limit is not None]
    risk = format_ratio(1 - min(judged, default=0.95))
    return [
        f"a good line  {format_duration(plan.expected_ns)}",
        f"a bad line   {format_duration(bad_ns(plan))}, where every limit is broken {BAD_FACTOR} times over",
        f"at most      {format_duration(plan.total_ns)}",
        f"errors       a line that breaks any required limit passes with at most {risk}; one that keeps {f'all {family}' if family > 1 else 'it'} fails with at most {risk}",
    ]


def bad_ns(plan: Plan) -> int:
    """Time of a plan whose line breaks every limit ten times over: every red line is refuted early."""
    wanted = all_needs(plan)
    spent = 0
    for step in plan.steps:
        mine = [need.bad for need in wanted if METRICS[need.objective.metric].probe == step.probe]
        if step.probe != "stamp" or not mine or step.params["fixed"]:
            spent += step.expected_ns  # a block of throughput is never cut short
        else:
            packets = min(max(mine), step.packets or max(mine))
            spent += min(step.expected_ns, packets * NS_PER_S // step.params["rate_pps"] + step.params["timeout_ns"])
    return spent


def as_json(plan: Plan) -> Json:
    """The plan as one object for --json: steps, needs of every red line, totals, reasons."""
    wanted, asked = all_needs(plan), _asked(plan)
    proven = {need.objective.key for need in wanted}
    return {
        "profile": plan.profile,
        "link": plan.link.name,
        "steps": [_step_json(step) for step in plan.steps],
        "red_lines": [_need_json(need) for need in wanted],
        "compared_at_end": [one.key for one in asked if one.limit is not None and one.key not in proven],
        "not_judged": [one.key for one in asked if one.limit is None],
        "not_run": [one.key for one in plan.objectives if apart.sits_out(one, plan)],
        "good_line_ns": plan.expected_ns,
        "bad_line_ns": bad_ns(plan),
        "at_most_ns": plan.total_ns,
        "at_most_bytes": plan.total_bytes,
        "directions": {str(way): _way_json(plan, way) for way in (Direction.FORWARD, Direction.REVERSE)},
        "family": family_size(plan.objectives),
        "reasons": list(plan.reasons),
    }


def _way_json(plan: Plan, way: Direction) -> Json:
    """Bytes and rate of one direction at most; null where a load takes what the line gives; the rate also where only probes without one are sent."""
    fastest = peak(plan, way)
    known = fastest is None or fastest.offered_bps or not is_load(fastest)
    return {
        "at_most_bytes": None if _endless(plan, way) else sum(bytes_of(step, way) for step in plan.steps),
        "peak_bps": (fastest.offered_bps or None if fastest else 0) if known else None,
        "peak_step": fastest.key if fastest else None,
    }


def _step_json(step: Step) -> Json:
    known = bool(step.offered_bps) or not is_load(step)
    return {
        "key": step.key,
        "probe": step.probe,
        "direction": str(step.direction),
        "params": step.params,
        "packets": step.packets,
        "when": step.params.get("when", "always"),
        "good_line_ns": step.expected_ns,
        "at_most_ns": step.duration_ns,
        "offered_bps": step.offered_bps if known else None,
        "at_most_bytes": step.total_bytes if known or step.total_bytes else None,
        "why": step.why,
    }


def _need_json(need: Need) -> Json:
    objective = need.objective
    return {
        "objective": objective.key,
        "required": objective.required,
        "limit": objective.limit,
        "limit_text": objective.limit_text,
        "share": need.share,
        "unit": words.unit(objective),
        "good_line": need.good,
        "bad_line": need.bad,
    }
