"""Quantiles of the beta distribution where the library's own inverse goes astray."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import betainc

from linkqual.stats.beta import beta_quantile
from linkqual.stats.confidence import ratio_lower, ratio_upper


def test_a_point_the_library_misses() -> None:
    assert float(beta_quantile(1000, 198_048_792, 0.125)) == pytest.approx(4.86613162e-6, rel=1e-7)
    assert ratio_lower(1000, 198_049_791, 0.875) < 1000 / 198_049_791


def test_every_quantile_has_its_probability_and_bounds_enclose_the_point() -> None:
    rng = np.random.default_rng(7)
    n = (10 ** rng.uniform(1, 10, 100_000)).astype(np.int64)
    k = np.minimum(n - 1, (10 ** rng.uniform(0, 4, 100_000)).astype(np.int64))
    q = rng.uniform(0.001, 0.2, 100_000)
    for wanted in (q, 1 - q):
        a, b = (k, n - k + 1) if wanted is q else (k + 1, n - k)
        found = beta_quantile(a, b, wanted)
        assert (np.abs(betainc(a, b, found) - wanted) <= 1e-5 * np.minimum(wanted, 1 - wanted)).all()
    for bad, trials in zip(k[:2000].tolist(), n[:2000].tolist(), strict=True):
        assert ratio_lower(bad, trials) < bad / trials < ratio_upper(bad, trials)
