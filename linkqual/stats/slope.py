"""A trend that outliers do not bend: Theil-Sen. Floor 1, pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

LEAST = 10  # values: Kendall's S is close enough to normal from there on


def theil_sen(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float, float] | None:
    """(slope, low, high) a step of evenly spaced values; None under LEAST of them.

    The median of the slopes of all pairs; interval after Sen (1968), by the normal form of Kendall's S.
    """
    count = len(values)
    if count < LEAST:
        return None
    column = np.asarray(values, np.float64)
    first, second = np.triu_indices(count, 1)
    slopes = np.sort((column[second] - column[first]) / (second - first))
    spread = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    reach = float(special.ndtri((1 + confidence) / 2)) * spread
    low = max(math.floor((len(slopes) - reach) / 2), 0)
    high = min(math.ceil((len(slopes) + reach) / 2), len(slopes) - 1)
    return float(np.median(slopes)), float(slopes[low]), float(slopes[high])
