"""How many trials an objective needs: to be proven on a good line, to be refuted on a bad one. Floor 2, pure.

Every red line that can be decided is a proportion: a loss ratio is one, and "p99.9 at most X" is "at most one packet in a
thousand above X". `docs/metrics.md` has the boundaries; here only their typical numbers are taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from linkqual.metrics import METRICS, quantile
from linkqual.model import Objective, Relation

try:
    from linkqual.stats.sequential import pass_after
except ImportError:

    def pass_after(limit: float, k: int, confidence: float = 0.95) -> int:
        p0 = limit / 10
        z0 = math.log((1 - p0) / (1 - limit))
        return math.ceil((math.log(1 / (1 - confidence)) + k * math.log(limit / p0)) / z0)


BAD_FACTOR = 10  # "a bad line" in a plan breaks the limit ten times over
_MIXTURE = 9  # alternatives the FAIL boundary averages over


@dataclass(frozen=True, slots=True)
class Need:
    """Trials (packets, or seconds of throughput) until one objective is decided."""

    objective: Objective
    share: float  # the proportion of bad trials it allows
    good: int  # trials that prove it when none is bad
    bad: int  # trials that typically refute it when the share is ten times the limit


def share(objective: Objective) -> float | None:
    """The proportion of bad trials an objective allows; None for what is no proportion (max, min, mean) or has no limit."""
    if objective.limit is None:
        return None
    if METRICS[objective.metric].unit == "ratio":
        return objective.limit
    rank = quantile(objective.statistic)
    if rank is None:
        return None
    return 1 - rank if objective.relation is Relation.AT_MOST else rank


def needs(objectives: Iterable[Objective], probe: str, family: int = 1) -> list[Need]:
    """One Need for each decidable objective of a probe; `family` red lines share the FAIL side (Bonferroni)."""
    found = []
    for objective in objectives:
        allowed = share(objective)
        if METRICS[objective.metric].probe != probe or allowed is None or not 0 < allowed < 1:
            continue
        events = allowed / objective.assumed_burst  # loss events, not packets: mean size as assumed
        good = pass_after(events, 0, objective.confidence)
        found.append(Need(objective, allowed, good, _refuted_after(allowed, objective.confidence, family)))
    return found


def _refuted_after(limit: float, confidence: float, family: int) -> int:
    """Mean trials of a test whose log likelihood ratio grows by KL(q, limit) a trial (Wald 1947), at q ten times the limit."""
    q = min(BAD_FACTOR * limit, 0.9)
    q = max(q, (limit + 1) / 2) if limit > 0.5 else q
    gain = q * math.log(q / limit) + (1 - q) * math.log((1 - q) / (1 - limit))
    return math.ceil((math.log(family / (1 - confidence)) + math.log(_MIXTURE)) / gain)


def family_size(objectives: Iterable[Objective]) -> int:
    """Required red lines judged together, at least 1: the FAIL side shares its error among them."""
    return max(1, sum(one.required and one.limit is not None for one in objectives))
