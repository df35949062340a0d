"""The two boundaries of `stats.sequential` as formulas: evidence for a better and for worse lines, bounds of the mean event size.

All evidence is the natural logarithm of a likelihood ratio against a line exactly at the limit, of `bad` among `n` trials;
arrays in, arrays out. Floor 1, pure. scipy is imported when the first burst has to be bounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from linkqual.stats.beta import beta_quantile

Floats = npt.NDArray[np.float64]

BETTER = 0.1  # the better line, as a multiple of the limit
WORSE = (1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1000.0, 10000.0)  # the worse lines
HORIZON = 20  # bad trials expected at the limit, after which the alternatives follow the data
FINE = 1e-3  # up to this limit n stands for the n - k good trials: the error grows by at most a factor exp(1.8 * limit)
ENOUGH_EVENTS = 5  # fewer say nothing of their mean size: the profile's assumption holds
LONGEST_EVENT = 1000  # a longer run of bad trials is a state of the line: it counts again after each so many
BURST_CONFIDENCE = 0.99  # of each bound; 0.95 lets 6 % of lines at the limit pass when bursts are long


def mean_event_upper(events: npt.ArrayLike, bad: npt.ArrayLike, assumed: float = 1.0) -> Floats:
    """Upper bound of the mean size of an event, given `bad` trials in `events` events (arrays of one shape).

    If a bad trial ends its event with a constant chance (geometric sizes, the simple Gilbert model), that chance has been
    tried `bad` times and has come true `events` times: Clopper-Pearson. Fewer than five events, or events that were all of
    size one: the assumption (or what was seen, if that is more), unless that bound lies below it.
    """
    e, b = np.broadcast_arrays(np.asarray(events, np.float64), np.asarray(bad, np.float64))
    taken = np.maximum(assumed, b / np.maximum(e, 1))
    if not np.any(b) or (assumed == 1 and np.all(b == e)):
        return np.asarray(taken, np.float64)
    bound = 1 / beta_quantile(np.maximum(e, 1), b - e + 1, 1 - BURST_CONFIDENCE)
    many = (e >= ENOUGH_EVENTS) & (b > e)
    return np.asarray(np.where(many, bound, np.where(e > 0, np.minimum(taken, bound), taken)), np.float64)


def mean_event_lower(events: npt.ArrayLike, bad: npt.ArrayLike) -> Floats:
    """Lower bound of the mean size of an event, by the same reasoning; 1 while fewer than five events were seen."""
    e, b = np.broadcast_arrays(np.asarray(events, np.float64), np.asarray(bad, np.float64))
    if not np.any((e >= ENOUGH_EVENTS) & (b > e)):
        return np.ones(e.shape)
    bound = 1 / beta_quantile(e + 1, np.maximum(b - e, 1), BURST_CONFIDENCE)
    return np.asarray(np.where((e >= ENOUGH_EVENTS) & (b > e), np.maximum(bound, 1), 1), np.float64)


class Side(Enum):
    """For which lines the evidence speaks."""

    BETTER = 1
    WORSE = 2


@dataclass(frozen=True, slots=True)
class Stage:
    """A stretch of the stream with fixed alternatives. `better`, `worse`: multiples of the limit; worse None: the mixture."""

    better: float = BETTER
    worse: float | None = None
    trials: int = 0
    bad: int = 0
    events: int = 0

    def evidence(self, side: Side, n: npt.ArrayLike, bad: npt.ArrayLike, limit: npt.ArrayLike) -> Floats:
        """Of one side, after `bad` bad ones among `n` trials of this stage; arrays that broadcast to one dimension."""
        at, trials, wrong = (np.atleast_1d(np.asarray(one, np.float64)) for one in (limit, n, bad))
        return self._for_better(trials, wrong, at) if side is Side.BETTER else self._for_worse(trials, wrong, at)

    def _for_better(self, n: Floats, bad: Floats, limit: Floats) -> Floats:
        """Evidence (ln): the likelihood ratio of the better line against the limit."""
        good = n if self.worse is None and bool(np.all(limit <= FINE)) else n - bad
        return good * self.slope(limit) + bad * math.log(self.better)

    def slope(self, limit: Floats) -> Floats:
        """What one good trial adds to it."""
        return np.asarray(np.log1p(-self.better * limit) - np.log1p(-limit), np.float64)

    def _for_worse(self, n: Floats, bad: Floats, limit: Floats) -> Floats:
        """Evidence (ln): the (mean) likelihood ratio of the worse lines against the limit."""
        ratios = np.array(WORSE if self.worse is None else (self.worse,))[:, np.newaxis]
        share = ratios * limit
        possible = share < 1
        if not np.all(possible.any(axis=0)):
            share, possible = np.where(possible, share, (1 + limit) / 2), np.ones_like(possible)
        share = np.where(possible, share, 0.5)
        one = bad * np.log(share / limit) + (n - bad) * (np.log1p(-share) - np.log1p(-limit))
        total = np.logaddexp.reduce(np.where(possible, one, -np.inf), axis=0)
        return np.asarray(total - np.log(possible.sum(axis=0)), np.float64)


# ---- figures for a plan


def pass_after(limit: float, k: int = 0, confidence: float = 0.95, burst: float = 1.0) -> int:
    """Trials after which "at most `limit`" is proven with k bad ones among them (k events, if they come in bursts).

    (ln(1/a) + k ln(limit/p0)) / ln((1 - p0) / (1 - limit)) with p0 a tenth of the limit: 332,858 for 1e-5 and none bad.
    """
    stage, at = Stage(), np.array([limit / burst])
    n = math.ceil((-math.log(1 - confidence) - k * math.log(BETTER)) / float(stage.slope(at)[0]))
    while float(stage.evidence(Side.BETTER, n, k, at)[0]) < -math.log(1 - confidence):
        n += 1
    return n


def expected_trials(
    limit: float, true_share: float, confidence: float = 0.95, family: int = 1, burst: float = 1.0
) -> int | None:
    """Typical trials until a line with this share of bad ones is decided; None: too near the limit, it runs to the cap.

    Threshold over drift (Wald 1947), without the overshoot: within a fifth of the simulated mean. One event a `burst`.
    """
    at, share = limit / burst, true_share / burst
    if true_share == 0:
        return pass_after(limit, 0, confidence, burst)
    threshold = -math.log(1 - confidence)
    if true_share < limit:
        drift = (1 - share) * float(Stage().slope(np.array([at]))[0]) + share * math.log(BETTER)
    else:
        drift = max(_drift(q, share, at) for q in alternatives(at))
        threshold += math.log(family * len(WORSE))
    return math.ceil(threshold / drift) if drift > 0 else None


def alternatives(limit: float) -> list[float]:
    """The worse lines the FAIL boundary averages over."""
    return [ratio * limit for ratio in WORSE if ratio * limit < 1] or [(1 + limit) / 2]


def _drift(q: float, share: float, limit: float) -> float:
    return share * math.log(q / limit) + (1 - share) * (math.log1p(-q) - math.log1p(-limit))
