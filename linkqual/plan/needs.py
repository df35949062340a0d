"""How many trials an objective needs: to be proven on a good line, to be refuted on a bad one. Floor 2, pure.

Every red line that can be decided is a proportion: a loss ratio is one, and "p99.9 at most X" is "at most one packet in a
thousand above X". `docs/metrics.md` has the boundaries; here only their typical numbers are taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from linkqual.metrics import METRICS
from linkqual.model import Objective
from linkqual.rules.proportion import allowed_share, assumed_burst
from linkqual.stats.boundaries import expected_trials, pass_after

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
        sure, burst = objective.confidence, assumed_burst(objective, rate_pps)
        good = pass_after(allowed, 0, sure, burst)
        bad = expected_trials(allowed, _bad_share(allowed), sure, family, burst)
        found.append(Need(objective, allowed, good, bad or good))
    return found


def _bad_share(limit: float) -> float:
    """The share of bad trials of a line ten times over the limit, kept below 1."""
    return BAD_FACTOR * limit if BAD_FACTOR * limit < 0.9 else max(0.9, (1 + limit) / 2)
