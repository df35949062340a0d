"""Exact bounds: what k bad trials among n, a rank in a sample, or k outages in a time prove, and how many trials a proof takes.

Proportions by Clopper and Pearson (1934), in its one-sided and its equal-tailed form; k and n may be real, so that an effective
sample can be judged (see `stats.tally`). Quantiles by order statistics, free of any distribution. Rates by the chi-square form of
the Poisson bound. All bounds assume independent trials. Floor 1, pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import lru_cache

from scipy import special

from linkqual.model import Histogram
from linkqual.stats.beta import beta_quantile
from linkqual.stats.histogram import edges_at_rank

EXACT_SUM_LIMIT = 300  # bad trials up to which `trials_to_prove` adds the binomial terms in decimal arithmetic


def _check(k: float, n: float, confidence: float) -> None:
    if not 0 <= k <= n:
        raise ValueError(f"{k} bad among {n} trials")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence}: between 0 and 1")


# ---- proportions


def ratio_upper(k: float, n: float, confidence: float = 0.95) -> float:
    """One-sided upper bound of a proportion: with this confidence it is at most that. 1.0 when nothing was tried."""
    _check(k, n, confidence)
    if k >= n:
        return 1.0
    if k == 0:
        return -math.expm1(math.log1p(-confidence) / n)
    return float(beta_quantile(k + 1, n - k, confidence))


def ratio_lower(k: float, n: float, confidence: float = 0.95) -> float:
    """One-sided lower bound of a proportion: with this confidence it is at least that. 0.0 when nothing bad was seen."""
    _check(k, n, confidence)
    if k == 0:
        return 0.0
    if k == n:
        return math.exp(math.log1p(-confidence) / n)
    return float(beta_quantile(k, n - k + 1, 1 - confidence))


def ratio_interval(k: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """Two-sided, equal tails."""
    one_sided = (1 + confidence) / 2
    return ratio_lower(k, n, one_sided), ratio_upper(k, n, one_sided)


def _proves(k: int, n: int, limit: Decimal, alpha: Decimal) -> bool:
    """Whether P(at most k bad of n | limit) <= alpha, in decimal arithmetic of 50 digits."""
    with localcontext() as context:
        context.prec = 50
        term = (1 - limit) ** n
        ratio = limit / (1 - limit)
        total = term
        for j in range(1, k + 1):
            term = term * ratio * (n - j + 1) / j
            total += term
        return total <= alpha


@lru_cache(maxsize=1024)
def trials_to_prove(limit: float, k: int = 0, confidence: float = 0.95) -> int:
    """Fewest trials that prove "at most `limit`" with k bad ones among them: the smallest n with BinomCDF(k; n, limit) <= 1 - confidence.

    Exact up to EXACT_SUM_LIMIT bad trials (double precision is off by one near 1e-7), by the beta function above.
    """
    if not 0 < limit < 1:
        raise ValueError(f"a limit of {limit} cannot be proven by trials")
    _check(k, k + 1, confidence)
    exact_limit, alpha = Decimal(repr(limit)), 1 - Decimal(repr(confidence))

    def proves(n: int) -> bool:
        if k <= EXACT_SUM_LIMIT:
            return _proves(k, n, exact_limit, alpha)
        return float(special.bdtr(k, n, limit)) <= 1 - confidence

    guess = max(int(special.gammaincinv(k + 1, confidence) / limit), k + 1)
    step = max(guess // 1_000_000, 2)
    low = high = guess
    while low > k and proves(low):
        low, step = max(low - step, k), step * 2
    while not proves(high):
        high, step = high + step, step * 2
    return _first(proves, low, high)


def most_bad(limit: float, n: int, confidence: float = 0.95) -> int | None:
    """How many of n trials may be bad and "at most `limit`" still be proven; None when n are too few even without a bad one."""
    if trials_to_prove(limit, 0, confidence) > n:
        return None
    return _first(lambda k: trials_to_prove(limit, k, confidence) > n, 0, n) - 1


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Smallest n in (low, high] for which a monotone condition holds; it holds at `high` and not at `low`."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def trials_to_decide(k: float, n: int, limit: float, confidence: float = 0.95) -> int | None:
    """Trials in all that would decide if the ratio stays as observed; None when it sits on the limit (or n is 0)."""
    if n == 0:
        return trials_to_prove(limit, 0, confidence)
    ratio = k / n
    if math.isclose(ratio, limit, rel_tol=1e-9):
        return None
    if k == 0:
        return max(n, trials_to_prove(limit, 0, confidence))

    def decided(trials: int) -> bool:
        if ratio < limit:
            return ratio_upper(ratio * trials, trials, confidence) <= limit
        return ratio_lower(ratio * trials, trials, confidence) > limit

    high = n
    while not decided(high):
        high *= 2
        if high > 10**15:
            return None
    return n if high == n else _first(decided, max(high // 2, n), high)


# ---- quantiles


def _cdf(k: int, n: int, q: float) -> float:
    """P(at most k of n values lie at or under the q-quantile)."""
    if k < 0:
        return 0.0
    return 1.0 if k >= n else float(special.bdtr(k, n, q))


def _rank(n: int, q: float, probability: float) -> int:
    """Smallest rank u (1 ... n + 1) with BinomCDF(u - 1; n, q) >= probability."""
    return _first(lambda u: _cdf(u - 1, n, q) >= probability, 0, n + 1)


def quantile_ranks(n: int, q: float, confidence: float = 0.95) -> tuple[int | None, int | None]:
    """Ranks (l, u), counted from 1, whose values enclose the q-quantile with this confidence, equal tails; None: n is too small.

    P(x_(l) <= Q <= x_(u)) >= BinomCDF(u - 1) - BinomCDF(l - 1), whatever the distribution of the values.
    """
    tail = (1 - confidence) / 2
    return quantile_rank_lower(n, q, 1 - tail), quantile_rank_upper(n, q, 1 - tail)


def quantile_rank_upper(n: int, q: float, confidence: float = 0.95) -> int | None:
    """Rank whose value is, with this confidence, at or above the q-quantile; None: n is too small for any."""
    rank = _rank(n, q, confidence)
    return rank if rank <= n else None


def quantile_rank_lower(n: int, q: float, confidence: float = 0.95) -> int | None:
    """Rank whose value is, with this confidence, at or below the q-quantile; None: n is too small for any."""
    tail = 1 - confidence
    rank = _first(lambda r: _cdf(r - 1, n, q) > tail, 0, n + 1) - 1
    return rank if rank >= 1 else None


def quantile_interval(histogram: Histogram, q: float, confidence: float = 0.95) -> tuple[int | None, int | None]:
    """Values that enclose the q-quantile, equal tails. Ends lie at the outer edges of their buckets, so rounding never narrows it."""
    low, high = quantile_ranks(histogram.n, q, confidence)
    below = edges_at_rank(histogram, low) if low is not None else None
    above = edges_at_rank(histogram, high) if high is not None else None
    return (below[0] if below else None), (above[1] if above else None)


# ---- rates


def outage_rate_bounds(events: float, exposure: float, confidence: float = 0.95) -> tuple[float, float]:
    """One-sided lower and upper bound of a Poisson rate: `events` in `exposure` (any unit of time, or packets).

    chi2(1 - c; 2k) / 2T and chi2(c; 2k + 2) / 2T, the chi-square quantiles written as incomplete gamma functions.
    """
    if exposure <= 0:
        return 0.0, math.inf
    lower = float(special.gammaincinv(events, 1 - confidence)) / exposure if events > 0 else 0.0
    return lower, float(special.gammaincinv(events + 1, confidence)) / exposure
