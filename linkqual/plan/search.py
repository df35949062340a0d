"""The steps of the throughput search, for lines that are not in service (RFC 2544; RFC 6815 says why). Floor 2, pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkqual.errors import UsageError
from linkqual.model import Direction, Json, Step
from linkqual.session import search
from linkqual.session.activation import ASSUMED_MTU, ip_share
from linkqual.session.load_phase import LONGEST
from linkqual.stats.throughput import OVERHEAD_BYTES
from linkqual.units import NS_PER_S, format_rate, format_ratio

if TYPE_CHECKING:
    from linkqual.plan.steps import Builder

FRAME_BYTES = OVERHEAD_BYTES["l2"]
LEAST_IPV6 = 66
SETUP_NS = NS_PER_S  # of a trial: telling both ends, waiting for stragglers


def build(builder: Builder, settings: dict[str, Json]) -> tuple[list[Step], list[str]]:
    """A search in each direction. UsageError unless the line is said to be out of service, and without a rate to begin with."""
    link, options = builder.link, builder.options
    if link.in_service is not False:
        said = "this one is said to be" if link.in_service else "nobody said that this one is not"
        raise UsageError(
            f"the search drives a line to loss and must not meet one in service (RFC 6815), and {said}",
            "say in_service: false in the link file (or --not-in-service) for a line that carries nothing else, or --skip search",
        )
    reasons: dict[str, None] = {}
    steps = []
    for way in (Direction.FORWARD, Direction.REVERSE):
        rate = link.contracted_bps(way)
        if rate is None and options.max_rate_bps is None:
            raise UsageError(
                "the search has no rate to begin with", "give --cir or --max-rate, or leave it out with --skip search"
            )
        sizes, left_out = _sizes(settings["frame_sizes"], link.mtu, options.ip_version)
        if left_out:
            reasons[f"search: frames of {left_out} octets do not fit this line and are left out"] = None
        found = []
        for size in sizes:
            most = [options.max_rate_bps] if options.max_rate_bps else []
            if rate is not None:
                most.append(int(rate * ip_share(((size, 1),), link.rate_counts)))
            found.append([size, min(most)])
        steps.append(_step(settings, way, found))
        if (
            options.max_rate_bps is not None
            and rate is not None
            and any(most == options.max_rate_bps for _, most in found)
        ):
            reasons[
                f"search: --max-rate ends it at {format_rate(options.max_rate_bps)}: what the line carries above is not known"
            ] = None
    return steps, list(reasons)


def _sizes(frames: list[int], mtu: int | None, ip_version: int) -> tuple[list[int], str]:
    """IP bytes of every frame that fits, ascending, each once; 0 stands for the MTU. And the frames that do not, in words."""
    most = min(mtu or ASSUMED_MTU, LONGEST)
    least = LEAST_IPV6 if ip_version == 6 else 0
    wanted = {(one - FRAME_BYTES if one else most) for one in frames}
    out = sorted(one for one in wanted if not least <= one <= most)
    return sorted(wanted - set(out)), ", ".join(str(one + FRAME_BYTES) for one in out)


def _step(settings: dict[str, Json], way: Direction, sizes: list[list[int]]) -> Step:
    """At most: every search twice through, and every final trial as often as may be."""
    trial, final, rest = settings["trial_ns"], settings["final_ns"], settings["settle_ns"] + SETUP_NS
    trials = search.most_trials(settings["resolution"])
    spent = trials * trial + search.MOST_FINALS * final
    return Step(
        key=f"search/{way}",
        probe="search",
        params=settings | {"sizes": sizes},
        direction=way,
        duration_ns=len(sizes) * (spent + (trials + search.MOST_FINALS) * rest),
        expected_ns=len(sizes) * (trial + final + 2 * rest),
        offered_bps=max(most for _, most in sizes),
        total_bytes=sum(most for _, most in sizes) * spent // (8 * NS_PER_S),
        why=f"UDP, the highest rate with {_goal(settings['goal'])} for {len(sizes)} frame sizes",
    )


def shorten(step: Step, spare: int) -> Step:
    """The search with up to `spare` bytes fewer allowed, one short and one long trial a size at least: it ends where they are spent."""
    if spare <= 0:
        return step
    params = step.params
    once = params["trial_ns"] + params["final_ns"]
    least = sum(most for _, most in params["sizes"]) * once // (8 * NS_PER_S)
    allowed = max(least, step.total_bytes - spare)
    if allowed >= step.total_bytes:
        return step
    return replace(step, params=params | {"max_bytes": allowed}, total_bytes=allowed)


def _goal(goal: float) -> str:
    return f"a loss of at most {format_ratio(goal)}" if goal else "no loss"
