"""Do both directions take one way? The red lines on routes and on the difference of delay, and the sentence of two traces. Floor 2, pure.

What is proven passes or fails; what is undetermined is INCONCLUSIVE, and says what would settle it.
"""

from __future__ import annotations

from collections.abc import Sequence

from linkqual.model import Compared, Estimate, Finding, Link, Measurement, Objective, Outcome, PathResult, Rule, Share
from linkqual.rules import directions, words
from linkqual.session import compared
from linkqual.session.symmetry import SYMMETRIC, UNDETERMINED
from linkqual.units import format_duration

ROUTES, DELAYS = "path_symmetry", "delay_symmetry"


def sentence(path: PathResult) -> str:
    """The word, why, what both ways have in common, what would settle it."""
    found = compared.of(path)
    said = path.because if found.word in (SYMMETRIC, UNDETERMINED) else f"{found.word}: {path.because}"
    if found.word != SYMMETRIC and found.links is not None and found.routers is not None:
        said += f"; in common {share_words(found.routers)} of the routers, {share_words(found.links)} of the links"
    return f"{said}. To settle it: {found.settle}" if found.settle and found.word != SYMMETRIC else said


def share_words(share: Share) -> str:
    """ "40 to 75 %"."""
    low, high = (f"{100 * end:.3g}" for end in share)
    return f"{high} %" if low == high else f"{low} to {high} %"


def own_links(found: Compared) -> Estimate:
    """How many links one direction alone takes: those that are seen to, at least and at most."""
    seen = len(found.forward_only) + len(found.reverse_only)
    n = (found.forward_routers or 0) + (found.reverse_routers or 0)
    if found.links is None:
        return Estimate(None, None, None, 1.0, 0, "links", "traces of one flow from both ends")
    most, least = (_own(share, n + 2) for share in found.links)
    return Estimate(
        max(seen, least), least, most, 1.0, n, "links", "traces of one flow from both ends, proven link by link"
    )


def _own(share: float, links: int) -> int:
    """Links that are not in common, of so many both ways together, by their Jaccard index."""
    return links - 2 * round(share * links / (1 + share))


def routes_finding(objective: Objective, measurements: Sequence[Measurement]) -> Finding | None:
    """PASS only where all routers and links are proven to be the same; None without traces."""
    taken = next((one for one in measurements if one.path is not None), None)
    if taken is None or taken.path is None:
        return None
    found, said, key = compared.of(taken.path), sentence(taken.path), taken.step.key
    made = own_links(found)
    if objective.limit is None:
        return Finding(
            objective, Outcome.NOT_JUDGED, f"{said}, {words.not_judged(objective)}", made, "", Rule.NONE, key
        )
    outcome = {SYMMETRIC: Outcome.PASS, UNDETERMINED: Outcome.INCONCLUSIVE}.get(found.word, Outcome.FAIL)
    rule = Rule.NONE if outcome is Outcome.INCONCLUSIVE else Rule.EXACT
    because = taken.path.because if outcome is Outcome.INCONCLUSIVE else said
    settle = found.settle if outcome is not Outcome.PASS else ""
    return Finding(objective, outcome, f"both ways: {because}", made, settle, rule, key)


def delays_finding(objective: Objective, link: Link, measurements: Sequence[Measurement]) -> Finding | None:
    """The difference of the smallest one-way delays, as far as the clocks' bound lets it be known; None without delays."""
    streams = [one for one in measurements if one.stamp is not None and one.stamp.summary.round_trip_delay.n]
    taken = max(streams, key=lambda one: one.stamp.summary.sent if one.stamp else 0, default=None)
    if taken is None or taken.stamp is None:
        return None
    summary, key = taken.stamp.summary, taken.step.key
    found, why = directions.difference(link, summary, taken.conditions)
    if found is None:
        return None
    least = most = None
    if found.low_ns is not None and found.high_ns is not None:
        least, most = max(found.low_ns, -found.high_ns, 0), max(-found.low_ns, found.high_ns)
    n = min(summary.forward_delay.n, summary.reverse_delay.n)
    method = "smallest one-way delay of each direction, bounded by the clocks or the fibre, no confidence"
    made = Estimate(abs(found.measured_ns), least, most, 1.0, n, "ns", method)
    said = f"one-way delay, forward less reverse: {directions.difference_words(found, why)}"
    if objective.limit is None:
        return Finding(
            objective, Outcome.NOT_JUDGED, f"{said}; {words.not_judged(objective)}", made, "", Rule.NONE, key
        )
    said += f"; at most {format_duration(objective.limit)} is asked"
    if found.within(objective.limit):
        return Finding(objective, Outcome.PASS, said, made, "", Rule.EXACT, key)
    if found.beyond(objective.limit):
        return Finding(objective, Outcome.FAIL, said, made, "", Rule.EXACT, key)
    settle = directions.WHICH if found.by == directions.CONTRADICTION else directions.SYNC
    return Finding(objective, Outcome.INCONCLUSIVE, said, made, settle, Rule.NONE, key)
