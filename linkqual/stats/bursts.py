"""What the completions of many bursts say: quantiles, spread, drift. Floor 1, pure.

A burst that was never complete took longer than any: it is among the quantiles, and out of the spread. Neighbouring bursts are alike, so
the intervals of spread and drift come from blocks of neighbours and not from single bursts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import special

from linkqual.stats.confidence import quantile_ranks
from linkqual.stats.histogram import quantile_rank
from linkqual.stats.slope import theil_sen

Completions = Sequence[int | None]
Interval = tuple[float | None, float | None, float | None]  # value, low, high
Floats = npt.NDArray[np.float64]
BLOCKS = 20
LEAST = 2 * BLOCKS  # bursts, for a spread or a drift


def quantile(completions: Completions, q: float, confidence: float = 0.95) -> Interval:
    """RFC 2330 percentile with its order-statistic interval, ns; None: among the bursts never complete, or too few of them."""
    known = sorted(one for one in completions if one is not None)
    ordered: list[int | None] = [*known, *[None] * (len(completions) - len(known))]
    if not ordered:
        return None, None, None
    low, high = quantile_ranks(len(ordered), q, confidence)
    return (
        ordered[quantile_rank(len(ordered), q) - 1],
        None if low is None else ordered[low - 1],
        None if high is None else ordered[high - 1],
    )


def variation(completions: Completions, confidence: float = 0.95) -> Interval:
    """Coefficient of variation (sample deviation over mean) of those complete; interval by a jackknife over BLOCKS blocks, Student's t."""
    blocks = _blocks(completions)
    if blocks is None:
        return None, None, None
    value = _variation(np.concatenate(blocks))
    without = [_variation(np.concatenate(blocks[:at] + blocks[at + 1 :])) for at in range(BLOCKS)]
    error = math.sqrt((BLOCKS - 1) / BLOCKS * float(((np.array(without) - np.mean(without)) ** 2).sum()))
    half = float(special.stdtrit(BLOCKS - 1, (1 + confidence) / 2)) * error
    return value, max(value - half, 0.0), value + half


def drift(completions: Completions, confidence: float = 0.95) -> Interval:
    """By how much completion changed from the first burst to the last, ns: Theil-Sen slope over the medians of BLOCKS blocks.

    Interval after Sen (1968), by the normal form of Kendall's S.
    """
    blocks = _blocks(completions)
    if blocks is None:
        return None, None, None
    found = theil_sen([float(np.median(block)) for block in blocks], confidence)
    assert found is not None
    value, below, above = (each * (BLOCKS - 1) for each in found)
    return value, below, above


def _blocks(completions: Completions) -> list[Floats] | None:
    known = np.array([one for one in completions if one is not None], np.float64)
    return np.array_split(known, BLOCKS) if len(known) >= LEAST else None


def _variation(values: Floats) -> float:
    return float(values.std(ddof=1) / values.mean())
