from __future__ import annotations

import numpy as np
import pytest

from linkqual.model import Direction, Summary
from linkqual.stats import histogram, query, skew
from linkqual.stats.levelling import Levelling
from linkqual.stats.summary import Summarizer, merge

FORWARD, REVERSE = Direction.FORWARD, Direction.REVERSE


def test_the_line_under_the_points_is_not_fooled_by_queues():
    delays = [5, 5.32, 6.24, 5.06, 5.58, 5.3, 5.12, 6.04, 5.26, 5.18]
    slope, intercept = skew.skew(np.arange(10) * 100, [round(delay * 100) for delay in delays])
    assert (slope, intercept) == pytest.approx((0.02, 500))
    assert np.polyfit(np.arange(10), delays, 1)[0] == pytest.approx(0.000606, abs=1e-6)  # least squares is


def test_too_few_points_have_no_slope():
    assert skew.skew([5], [1]) is None
    assert skew.skew([5, 5], [1, 2]) is None
    assert skew.clock_drift(Summary()) is None
    assert skew.exchanged_ns(Summary(), FORWARD) == 0


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


def summarised(records, **kw):
    found = Summarizer(**kw)
    found.add(records)
    return found.summary()


@pytest.mark.parametrize("pace", [0.0, 2e-5, -5e-6])
@pytest.mark.parametrize("offset_ns", [0, 37_000_000_000])
def test_drift_is_found_under_jitter(stream, pace, offset_ns):
    found = summarised(drifting(stream, pace, jitter_ns=300_000, offset_ns=offset_ns))
    assert skew.clock_drift(found) == pytest.approx(pace, abs=2e-7)
    for way in (FORWARD, REVERSE):
        assert skew.exchanged_ns(found, way) == pytest.approx(abs(pace) * 100e9, abs=30_000)


@pytest.mark.parametrize("pace", [0.0, 1e-5])
def test_a_path_that_gets_longer_is_not_drift(stream, pace):
    """Both directions, or one of them: what the other does not give up is no clock's doing."""
    both = summarised(drifting(stream, pace, path=4e-5, jitter_ns=100_000))
    assert skew.clock_drift(both) == pytest.approx(0, abs=2e-7)
    assert max(skew.exchanged_ns(both, way) for way in (FORWARD, REVERSE)) < 30_000
    made = drifting(stream, pace, jitter_ns=100_000)
    queued = np.round(4e-5 * (made["sent_ns"] - made["sent_ns"][0])).astype(np.int64)
    for name in ("far_received_ns", "far_sent_ns", "received_ns"):
        made[name] += queued
    assert skew.clock_drift(summarised(made)) == pytest.approx(pace, abs=2e-7)
    assert skew.exchanged_ns(summarised(made), FORWARD) == pytest.approx(pace * 100e9, abs=30_000)


@pytest.mark.parametrize("step_ns", [2_000_000, -2_000_000])
def test_a_clock_that_is_set_is_seen_where_a_route_that_changes_is_not(stream, step_ns):
    made = stream(20_000, 5, pace_ns=5_000_000)
    made["far_received_ns"][9_000:] += step_ns
    rerouted = summarised(made)
    made["far_sent_ns"][9_000:] += step_ns
    stepped = summarised(made)
    for way in (FORWARD, REVERSE):
        assert skew.exchanged_ns(stepped, way) == pytest.approx(2_000_000, rel=0.1)
        assert skew.exchanged_ns(rerouted, way) < 30_000


@pytest.mark.parametrize("pace", [2e-5, -2e-5])
def test_a_second_pass_takes_it_out(stream, pace):
    """PDV is that of the same line under one clock, to within what the pace is known to, however the stream is cut."""
    made, still = drifting(stream, pace, jitter_ns=300_000), summarised(drifting(stream, 0, jitter_ns=300_000))
    known = skew.clock_drift(summarised(made))
    whole = summarised(made, levelling=Levelling(pace=known))
    for way in (FORWARD, REVERSE):
        for q in (0.5, 0.999):
            freed, wanted = (histogram.quantile(query.distribution(one, "pdv", way), q) for one in (whole, still))
            assert freed == pytest.approx(wanted, abs=30_000)
        assert skew.exchanged_ns(whole, way) < 30_000
    assert skew.clock_drift(whole) == pytest.approx(pace, abs=4e-7)
    cut = Summarizer(levelling=Levelling(pace=known))
    for part in np.array_split(made, 7):
        cut.add(part)
    assert cut.summary() == whole


def test_two_parts_know_what_the_whole_knows(stream):
    made = drifting(stream, 2e-5)
    merged = merge(summarised(made[:7777]), summarised(made[7777:]))
    assert skew.clock_drift(merged) == skew.clock_drift(summarised(made))


def test_a_short_run_says_nothing(stream):
    assert skew.clock_drift(summarised(drifting(stream, 2e-5, n=100))) is None
