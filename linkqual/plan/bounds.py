"""What bounds the loads of a plan: bytes in all, the rate, rests between pulses, and steps that run only when needed. Floor 2, pure.

A probe's builder keeps its steps within `--max-rate`; here that is checked for all of them, and bytes and time are cut. A step with
`when` "short" in its parameters explains a load that fell short: the runner carries it out only then (`rules.short`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from linkqual.errors import InputError, UsageError
from linkqual.model import Direction, Plan, Step
from linkqual.plan import bursts, flows, gentle, members, narrow, search, services, throughput, trains
from linkqual.units import NS_PER_S, format_rate, format_ratio, format_size, parse_ratio

if TYPE_CHECKING:
    from linkqual.plan import PlanOptions

LOADS = (
    "throughput",
    "trains",
    "flows",
    "narrow",
    "gentle",
    "bursts",
    "services",
    "search",
)  # probes that load the line, not only look at it
ASK_BYTES = 10**9  # more than this is asked about first, where somebody is there to answer
_AS_MUCH = 1.01  # of the contract: rounding, not more than that
LEAST_DUTY = 0.001  # at a thousandth a load of a minute takes most of a day
PULSE_S = 5  # measured seconds of a pulse of TCP: slow start is over, and others wait no longer than that


def bounded(plan: Plan, options: PlanOptions) -> Plan:
    """The plan within what was allowed. UsageError when its shortest form is still too much, or cannot be foreseen."""
    plan = _conditional(plan, options.only)
    plan = replace(plan, reasons=(*plan.reasons, *_beyond(plan)))
    if options.max_rate_bps is not None:
        _check_rate(plan, options.max_rate_bps)
    if options.duty is not None and options.duty < 1:
        why = (
            f"at a duty of {format_ratio(options.duty)} every load comes in pulses with silence between: TCP in blocks of {PULSE_S} s, "
            f"UDP phase by phase, so the loads take {1 / options.duty:.3g} times as long and their mean is that share of their rate"
        )
        steps = tuple(_pulsed(step, options.duty) for step in plan.steps)
        plan = replace(plan, steps=steps, reasons=(*plan.reasons, why))
    return plan if options.max_bytes is None else _within(plan, options.max_bytes)


def is_load(step: Step) -> bool:
    """Whether the step loads the line with all it may."""
    return step.probe in LOADS


def bytes_of(step: Step, direction: Direction) -> int:
    """At most, in one direction: all of a step that loads one alone, half of one that loads both."""
    if step.direction is Direction.ROUND_TRIP:
        return step.total_bytes // 2
    return step.total_bytes if step.direction is direction else 0


def peak(plan: Plan, direction: Direction) -> Step | None:
    """The step that offers the most in a direction; one whose rate is not known (0) before all others. None without a step."""
    there = [one for one in plan.steps if one.direction in (direction, Direction.ROUND_TRIP)]
    unknown = [one for one in there if is_load(one) and not one.offered_bps]
    return unknown[0] if unknown else max(there, key=lambda one: one.offered_bps, default=None)


def concern(plan: Plan) -> str:
    """Why somebody should say yes before these loads go out, "" where nobody need. A line said not to be in service is free to load."""
    loads = [step for step in plan.steps if is_load(step)]
    if not loads or plan.link.in_service is False:
        return ""
    said = []
    if any(not step.offered_bps for step in loads):
        said.append("as much as the line takes")
    elif plan.total_bytes > ASK_BYTES:
        said.append(f"up to {format_size(plan.total_bytes)}")
    filling = [step for step in loads if plan.link.in_service and _fills(step, plan)]
    full = max(filling, key=lambda step: step.offered_bps, default=None)
    if full is not None:
        said.append(f"at {format_rate(full.offered_bps)}, {_contracted(full, plan)},")
    if not said:
        return ""
    return f"this sends {' '.join(said)} over a line {'in service' if plan.link.in_service else 'others may use'}"


def _contracted(step: Step, plan: Plan) -> str:
    least = min(bps for way in _ways(step) if (bps := plan.link.contracted_bps(way)))
    if step.offered_bps > least * _AS_MUCH:
        return f"more than the {format_rate(least)} contracted"
    return "all that is contracted"


def _fills(step: Step, plan: Plan) -> bool:
    return any(step.offered_bps >= bps for way in _ways(step) if (bps := plan.link.contracted_bps(way)))


def _ways(step: Step) -> list[Direction]:
    return [way for way in (Direction.FORWARD, Direction.REVERSE) if step.direction in (way, Direction.ROUND_TRIP)]


def read_duty(text: object) -> float:
    """ "10%" or "0.1" of the time, at most 1. InputError else."""
    value = parse_ratio(text)
    if value < LEAST_DUTY:
        raise InputError(
            f"{text!r} is too small a share of the time", f"{format_ratio(LEAST_DUTY)} to 100 %, such as 10%"
        )
    return value


# ---- steps that explain


def _conditional(plan: Plan, only: tuple[str, ...]) -> Plan:
    """Asked for by name they run always; with nothing that could fall short they are left out."""
    loaded = any(step.probe == "throughput" for step in plan.steps)
    kept, reasons = [], dict.fromkeys(plan.reasons)
    for step in plan.steps:
        if step.params.get("when") != "short":
            kept.append(step)
        elif step.probe in only:
            kept.append(replace(step, params=step.params | {"when": "always"}))
        elif loaded:
            kept.append(replace(step, expected_ns=0))
            reasons[f"{step.probe} runs only when the goodput falls short, to say why; a good line is spared it"] = None
        else:
            reasons[
                f"{step.probe} is left out: it explains a goodput that falls short, and none is measured; --only {step.probe} asks for it"
            ] = None
    return replace(plan, steps=tuple(kept), reasons=tuple(reasons))


# ---- rate


def _check_rate(plan: Plan, most: int) -> None:
    for step in plan.steps:
        if step.offered_bps > most:
            raise UsageError(
                f"{step.key} offers {format_rate(step.offered_bps)} and cannot do with the {format_rate(most)} allowed",
                f"allow more with --max-rate, or leave it out with --skip {step.probe}",
            )


def _beyond(plan: Plan) -> list[str]:
    """What only looks at the line and yet asks for more than is contracted: it cannot go slower."""
    return [
        f"{step.key} offers {format_rate(step.offered_bps)}, more than the {format_rate(min(known))} contracted: it cannot go slower; "
        f"--skip {step.probe} leaves it out"
        for step in plan.steps
        if not is_load(step)
        and (known := [bps for way in _ways(step) if (bps := plan.link.contracted_bps(way))])
        and step.offered_bps > min(known)
    ]


# ---- duty


def _pulsed(step: Step, duty: float) -> Step:
    if not is_load(step):
        return step
    if step.probe == "bursts":
        return bursts.pulsed(step, duty)
    if step.probe == "throughput":
        step = throughput.pulsed(step, PULSE_S)
    return replace(
        step,
        params=step.params | {"duty": duty},
        duration_ns=round(step.duration_ns / duty),
        expected_ns=round(step.expected_ns / duty),
    )


# ---- bytes


def _within(plan: Plan, most: int) -> Plan:
    """Extensions are cut first, then steps that only explain or are shown beside; what is left must fit."""
    unknown = [step for step in plan.steps if is_load(step) and not step.offered_bps]
    if unknown:
        probe = unknown[0].probe
        raise UsageError(
            f"how much {probe} would send is not known without a rate",
            f"give --cir or --max-rate, or leave it out with --skip {probe}",
        )
    steps = [_held(step) for step in plan.steps]
    reasons = list(plan.reasons)
    spare = plan.total_bytes - most
    if spare > 0:
        steps = _shortened(steps, spare)
        reasons.append(
            f"cut to {format_size(most)} in all: extensions are shorter, so a doubtful line may stay undecided"
        )
    left_out = _to_leave_out(steps, most)
    if left_out:
        steps = [step for step in steps if step not in left_out]
        names = ", ".join(step.key for step in left_out)
        reasons.append(f"left out to stay within {format_size(most)}: {names}, which no red line needs")
    least = sum(step.total_bytes for step in steps)
    if least > most:
        greatest = max(steps, key=lambda step: step.total_bytes)
        raise UsageError(
            f"the shortest form of this plan sends {format_size(least)}, more than the {format_size(most)} allowed",
            f"allow more with --max-bytes, a lower rate with --max-rate, or leave out what sends most with --skip {greatest.probe}",
        )
    return replace(plan, steps=tuple(steps), reasons=tuple(reasons))


def _held(step: Step) -> Step:
    """TCP takes what it gets: where bytes are bounded it is held to the rate they were reckoned with."""
    if step.probe != "throughput":
        return step
    return replace(step, params=step.params | {"max_rate_bps": step.params.get("max_rate_bps") or step.offered_bps})


def _shortened(steps: list[Step], spare: int) -> list[Step]:
    found = list(steps)
    for probe, shorten in _SHORTEN.items():
        for at, step in enumerate(found):
            if step.probe == probe and spare > 0:
                found[at] = shorten(step, spare)
                spare -= step.total_bytes - found[at].total_bytes
    return found


def _to_leave_out(steps: list[Step], most: int) -> list[Step]:
    """The largest of the steps without which every red line can still be judged, until the rest fits."""
    spare = sum(step.total_bytes for step in steps) - most
    able = [step for step in steps if step.params.get("when") == "short" or step.params.get("judged") is False]
    found = []
    for step in sorted(able, key=lambda one: -one.total_bytes):
        if spare <= 0:
            break
        found.append(step)
        spare -= step.total_bytes
    return found


def _shorter_stream(step: Step, spare: int) -> Step:
    """Fewer probe packets at most, never below what proves a good line."""
    packets = step.packets or 0
    if not packets:
        return step
    each = step.total_bytes / packets
    fewer = min(packets, max(int(step.params["enough"]), packets - math.ceil(spare / each)))
    saved_ns = (packets - fewer) * NS_PER_S // step.params["rate_pps"]
    return replace(step, packets=fewer, duration_ns=step.duration_ns - saved_ns, total_bytes=round(fewer * each))


# in this order: the loads give first, the few octets of the probe packets last
_SHORTEN: dict[str, Callable[[Step, int], Step]] = {
    "search": search.shorten,
    "services": services.shorten,
    "throughput": throughput.shorten,
    "trains": trains.shorten,
    "flows": flows.shorten,
    "narrow": narrow.shorten,
    "gentle": gentle.shorten,
    "members": members.shorten,
    "bursts": bursts.shorten,
    "stamp": _shorter_stream,
}
