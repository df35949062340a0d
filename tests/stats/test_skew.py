from __future__ import annotations

import numpy as np
import pytest

from linkqual.model import Summary
from linkqual.stats import skew
from linkqual.stats.summary import Summarizer, merge


def test_the_line_under_the_points_is_not_fooled_by_queues():
    delays = [5, 5.32, 6.24, 5.06, 5.58, 5.3, 5.12, 6.04, 5.26, 5.18]
    slope, intercept = skew.skew(np.arange(10) * 100, [round(delay * 100) for delay in delays])
    assert (slope, intercept) == pytest.approx((0.02, 500))
    assert np.polyfit(np.arange(10), delays, 1)[0] == pytest.approx(0.000606, abs=1e-6)  # least squares is


def test_too_few_points_have_no_slope():
    assert skew.skew([5], [1]) is None
    assert skew.skew([5, 5], [1, 2]) is None
    assert skew.clock_drift(Summary()) is None
    assert skew.drifted_ns(Summary()) is None


def drifting(stream, pace: float, n: int = 20_000, path: float = 0.0, **kw):
    """The far clock gains `pace` a second; both directions get longer by `path` a second."""
    made = stream(n, 5, pace_ns=5_000_000, **kw)
    passed = made["sent_ns"] - made["sent_ns"][0]
    slower = np.round(path * passed).astype(np.int64)
    ahead = np.round(pace * passed).astype(np.int64)
    made["far_received_ns"] += ahead + slower
    made["far_sent_ns"] += ahead + slower
    made["received_ns"] += 2 * slower
    return made


def summarised(records):
    found = Summarizer()
    found.add(records)
    return found.summary()


@pytest.mark.parametrize("pace", [0.0, 2e-5, -5e-6])
@pytest.mark.parametrize("offset_ns", [0, 37_000_000_000])
def test_drift_is_found_under_jitter(stream, pace, offset_ns):
    found = summarised(drifting(stream, pace, jitter_ns=300_000, offset_ns=offset_ns))
    assert skew.clock_drift(found) == pytest.approx(pace, abs=2e-7)
    assert skew.drifted_ns(found) == pytest.approx(abs(pace) * 100e9, abs=20_000)


def test_a_path_that_gets_longer_is_not_drift(stream):
    found = summarised(drifting(stream, 1e-5, path=4e-5, jitter_ns=100_000))
    assert skew.clock_drift(found) == pytest.approx(1e-5, abs=2e-7)


def test_two_parts_know_what_the_whole_knows(stream):
    made = drifting(stream, 2e-5)
    merged = merge(summarised(made[:7777]), summarised(made[7777:]))
    assert skew.clock_drift(merged) == skew.clock_drift(summarised(made))


def test_a_short_run_says_nothing(stream):
    assert skew.clock_drift(summarised(drifting(stream, 2e-5, n=100))) is None
