"""How many trials an objective needs: to be proven on a good line, to be refuted on a bad one. Floor 2, pure.

Every red line that can be decided is a proportion: a loss ratio is one, and "p99.9 at most X" is "at most one packet in a
thousand above X". `docs/metrics.md` has the boundaries; here only their typical numbers are taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from linkqual.metrics import METRICS
from linkqual.model import Objective
from linkqual.rules import loaded
from linkqual.rules.proportion import allowed_share, assumed_burst
from linkqual.stats.boundaries import expected_trials, pass_after
from linkqual.units import NS_PER_S, format_count, format_duration, format_packet_rate, format_ratio

BAD_FACTOR = 10  # "a bad line" in a plan breaks the limit ten times over


@dataclass(frozen=True, slots=True)
class Need:
    """Trials (packets, or seconds of throughput) until one objective is decided."""

    objective: Objective
    share: float  # the proportion of bad trials it allows
    good: int  # trials that prove it when none is bad
    bad: int  # trials that typically refute it when the share is ten times the limit


def needs(objectives: Iterable[Objective], probe: str, family: int = 1, rate_pps: float = 0) -> list[Need]:
    """One Need for each decidable objective of a probe; `family` red lines share the FAIL side (Bonferroni).

    `rate_pps`: of the packet stream; packets of one queue count as one event where delay is judged.
    """
    found = []
    for objective in objectives:
        allowed = allowed_share(objective)
        if METRICS[objective.metric].probe != probe or allowed is None or not 0 < allowed < 1:
            continue
        sure, burst = objective.confidence, assumed_burst(loaded.on_stream(objective), rate_pps)
        good = pass_after(allowed, 0, sure, burst)
        bad = expected_trials(allowed, _bad_share(allowed), sure, family, burst)
        found.append(Need(objective, allowed, good, bad or good))
    return found


def _bad_share(limit: float) -> float:
    """The share of bad trials of a line ten times over the limit, kept below 1."""
    return BAD_FACTOR * limit if BAD_FACTOR * limit < 0.9 else max(0.9, (1 + limit) / 2)


def span_ns(packets: int, rate: int) -> int:
    """How long so many packets take at a rate."""
    return packets * NS_PER_S // rate


def why_packets(wanted: list[Need], cap: int, rate: int, fixed: bool) -> list[str]:
    """Why that many packets, in sentences."""
    if not wanted:
        return [f"stamp: no limit to decide, so {format_count(cap)} packets are sent and described"]
    hardest = max(wanted, key=lambda need: need.good)
    name = f"{hardest.objective.metric} {hardest.objective.statistic}"
    limit = format_ratio(hardest.share)
    sure = f"{hardest.objective.confidence:.0%}"
    reasons = []
    if fixed:
        reasons.append(f"stamp: {format_count(cap)} packets, a fixed length: judged once at its end by the exact bound")
        return reasons
    reasons.append(
        f"stamp: {name} decides the length: {format_count(hardest.good)} packets without a bad one prove a share of at most "
        f"{limit} at {sure}, {format_duration(span_ns(hardest.good, rate))} at {format_packet_rate(rate)}"
    )
    reasons.append(
        f"stamp: a line ten times over that limit is refuted after about {format_count(hardest.bad)} packets "
        f"({format_duration(span_ns(hardest.bad, rate))}); in doubt at most {format_count(cap)} are sent ({format_duration(span_ns(cap, rate))})"
    )
    if hardest.good > cap:
        reasons.append(
            f"stamp: the cap of {format_count(cap)} packets is too low to prove {name} ({format_count(hardest.good)} needed): "
            "it can only be refuted; raise stamp.packets or --packets"
        )
    if hardest.objective.metric == "loss_ratio":
        burst = hardest.objective.assumed_burst
        reasons.append(
            f"stamp: with no loss seen, the proof holds for losses that come {burst:g} at a time on average (assumed_burst); "
            "from the fifth loss event on, what was seen takes its place"
        )
    return reasons
