"""One red line as a proportion, judged at the end by exact bounds: trials beside events, PASS and FAIL each with its proof.

Floor 2, pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from linkqual.metrics import METRICS, quantile
from linkqual.model import Objective, Outcome, Tally
from linkqual.stats import tally as tallies
from linkqual.stats import trials
from linkqual.stats.boundaries import LONGEST_EVENT, expected_trials, mean_event_lower, mean_event_upper, pass_after
from linkqual.stats.confidence import ratio_lower, ratio_upper, trials_to_decide

QUEUE_NS = 5_000_000  # packets of one queue, closer than it takes to drain, share its delay


def allowed_share(objective: Objective) -> float | None:
    """The proportion of bad trials an objective allows; None for what is no proportion (min, max, mean) or has no limit."""
    if objective.limit is None or objective.metric not in METRICS:
        return None
    if objective.statistic == "ratio":
        share = objective.limit
    elif quantile(objective.statistic) is not None:
        share = trials.share(objective)
    else:
        return None
    return share


def assumed_burst(objective: Objective, rate_pps: float) -> float:
    """Mean event size taken for granted until five events were seen.

    The profile's, and for delays at least the packets of 5 ms: a queue makes all of them late together.
    """
    if objective.metric in ("loss_ratio", "reordered_ratio", "duplicate_ratio", "throughput"):
        return objective.assumed_burst
    return max(objective.assumed_burst, rate_pps * QUEUE_NS / 1e9)


def strict_confidence(confidence: float, family: int) -> float:
    """The confidence a FAIL needs when `family` red lines share its error (Bonferroni)."""
    return 1 - (1 - confidence) / family


def longest_event(objective: Objective, rate_pps: float) -> int:
    """Bad trials after which an event counts again.

    Ten queues for delays, so that a line that is always late is not one event; each slow second for itself.
    """
    if objective.metric == "throughput":
        return 1
    if objective.metric == "loss_ratio":
        return LONGEST_EVENT
    return math.ceil(10 * max(1.0, rate_pps * QUEUE_NS / 1e9))


@dataclass(frozen=True, slots=True)
class Sample:
    """`bad` of `n` trials in `events` events, against the share `limit`.

    `doubt`: bad trials that may not be this line's doing (dropped by a host, of unknown direction, late by drifting clocks): they
    can keep a line from passing, never make it fail. `drift_ns`: what the clocks may have added to each delay, where that makes some
    of the doubt. `lost`: how many bad trials were lost packets, where delays are judged; None: not known. `suspicion`: whose
    doing the trials in doubt may be, and `remedy`: what would settle that.
    """

    n: int
    bad: int
    events: int
    limit: float
    confidence: float = 0.95
    family: int = 1
    assumed: float = 1.0
    doubt: int = 0
    lost: int | None = None
    drift_ns: int = 0
    suspicion: str = ""
    remedy: str = ""

    @property
    def certain(self) -> Sample:
        """Without the trials in doubt."""
        bad = self.bad - self.doubt
        return replace(self, bad=bad, events=min(self.events, bad), doubt=0)

    @property
    def doubted(self) -> Reason:
        """Who else may have caused what is in doubt."""
        return Reason.CLOCKS if self.drift_ns else Reason.HOST

    @property
    def ratio(self) -> float:
        """Share of bad trials seen."""
        return self.bad / self.n

    @property
    def size(self) -> float:
        """Mean size of an event as seen."""
        return self.bad / self.events if self.events else 0.0

    @property
    def strict(self) -> float:
        """Confidence a FAIL needs."""
        return strict_confidence(self.confidence, self.family)

    @property
    def burst(self) -> float:
        """Upper bound of the mean event size."""
        return float(mean_event_upper(self.events, self.bad, self.assumed))

    @property
    def upper(self) -> float:
        """One-sided upper bound by trials."""
        return ratio_upper(self.bad, self.n, self.confidence)

    @property
    def lower(self) -> float:
        """One-sided lower bound by trials."""
        return ratio_lower(self.bad, self.n, self.confidence)

    @property
    def event_upper(self) -> float:
        """Upper bound of events a trial."""
        return ratio_upper(self.events, self.n, self.confidence)

    @property
    def event_lower(self) -> float:
        """Lower bound of events a trial."""
        return ratio_lower(self.events, self.n, self.confidence)

    @property
    def high(self) -> float:
        """Upper bound of the share that knows of bursts: the larger of both forms."""
        return min(max(self.upper, self.event_upper * self.burst), 1.0)

    @property
    def low(self) -> float:
        """Lower bound of the share that knows of bursts: the smaller of both forms."""
        return min(self.lower, self.event_lower * max(float(mean_event_lower(self.events, self.bad)), 1.0))

    @property
    def design_effect(self) -> float:
        """By how much fewer independent trials there were: (1 + r) / (1 - r) of a two-state chain with correlation r, at least 1."""
        if not self.events:
            return 1.0
        begins = min(self.events / max(self.n - self.bad, 1), 1.0)
        ends = self.events / self.bad
        return max((2 - begins - ends) / (begins + ends), 1.0)

    @property
    def in_bursts(self) -> bool:
        """Whether bad trials came together."""
        return self.bad > self.events > 0


def sample_of(found: Tally, limit: float, objective: Objective, family: int, rate_pps: float, doubt: int = 0) -> Sample:
    """The sample of a tally; an event longer than `longest_event` counts again, as while measuring."""
    longest = longest_event(objective, rate_pps)
    events = sum(math.ceil(size / longest) * count for size, count in tallies.event_sizes(found).items())
    burst = assumed_burst(objective, rate_pps)
    return Sample(found.n, found.bad, events, limit, objective.confidence, family, burst, min(doubt, found.bad))


class Reason(StrEnum):
    """Why a sample is not (simply) a PASS or a FAIL."""

    PLAIN = "plain"
    HOST = "host"  # it would fail, were the losses in doubt the line's
    CLOCKS = "clocks"  # the same, and the doubt is that of drifting clocks
    FAMILY = "family"  # above the limit at the confidence of one red line, not of the family
    BURSTS = "bursts"  # trials say yes, events do not


@dataclass(frozen=True, slots=True)
class Ruling:
    """An outcome by the exact bound, and why."""

    outcome: Outcome
    reason: Reason = Reason.PLAIN


def rule(sample: Sample) -> Ruling:
    """PASS when both upper bounds are at or under the limit, FAIL when the lower bound of the trials is above it.

    A FAIL speaks of the window that was measured: lost is lost, also in one burst; the sentence then says that it was one
    event, and the interval goes by events.
    """
    if ratio_lower(sample.bad, sample.n, sample.strict) > sample.limit:
        if ratio_lower(sample.certain.bad, sample.n, sample.strict) > sample.limit:
            return Ruling(Outcome.FAIL, Reason.PLAIN if sample.low > sample.limit else Reason.BURSTS)
        return Ruling(Outcome.INCONCLUSIVE, sample.doubted)
    if sample.lower > sample.limit:
        return Ruling(Outcome.INCONCLUSIVE, Reason.FAMILY)
    if sample.upper <= sample.limit:
        if sample.event_upper * sample.burst <= sample.limit:
            return Ruling(Outcome.PASS)
        return Ruling(Outcome.INCONCLUSIVE, Reason.BURSTS)
    return Ruling(Outcome.INCONCLUSIVE)


def more_trials(sample: Sample, sequential: bool = False) -> int | None:
    """Further trials that would decide at the ratio seen so far; None: it sits on the limit, no number would."""
    if not 0 < sample.limit < 1:
        return None
    burst = sample.burst
    by_trials = trials_to_decide(sample.bad, sample.n, sample.limit, sample.confidence)
    by_events = trials_to_decide(sample.events, sample.n, sample.limit / burst, sample.confidence)
    if by_trials is None:
        return None
    total = max(by_trials, by_events or 0)
    if sequential or total <= sample.n:
        share = max(sample.ratio, sample.events / sample.n * burst)  # events count as large as they may be
        total = max(total, expected_trials(sample.limit, share, sample.confidence, sample.family, burst) or 2 * total)
        if total <= sample.n and share < sample.limit:  # luckier than typical so far, and still not there
            total = pass_after(sample.limit, sample.events, sample.confidence, burst)
    return max(total - sample.n, 1)
