from __future__ import annotations

import numpy as np
import pytest

from linkqual import metrics
from linkqual.model import Direction, Objective, Relation
from linkqual.records import Fate, Stamp, empty_records
from linkqual.stats.trials import share, supported, trials

F, R, RT = Direction.FORWARD, Direction.REVERSE, Direction.ROUND_TRIP
FATES = [Fate.RECEIVED, Fate.LOST_FORWARD, Fate.UNSENT, Fate.LOST_REVERSE, Fate.LOST, Fate.RECEIVED]


def rows(fates=FATES, forward=None, reverse=None):
    """Sent at 0, 1000, ...; one-way delays as given (100 and 200 else); 10 inside the far end."""
    made = empty_records(len(fates))
    there = np.array(forward or [100] * len(fates))
    back = np.array(reverse or [200] * len(fates))
    made["sent_ns"] = np.arange(len(fates)) * 1000
    made["far_received_ns"] = made["sent_ns"] + there
    made["far_sent_ns"] = made["far_received_ns"] + 10
    made["received_ns"] = made["far_sent_ns"] + back
    made["fate"], made["stamps"] = fates, Stamp.ALL_KERNEL
    return made


def objective(metric, statistic, direction, limit, **kw):
    return Objective(metric, statistic, direction, limit, **kw)


@pytest.mark.parametrize(
    ("direction", "bad"),
    [
        (F, [0, 1, 0, 1, 0]),  # the loss of unknown direction counts here ...
        (R, [0, 1, 1, 0]),  # ... and here; the packet lost forward never met the way back
        (RT, [0, 1, 1, 1, 0]),
    ],
)
def test_loss_trials_by_direction(direction, bad):
    assert trials(rows(), objective("loss_ratio", "ratio", direction, 1e-5), {}).astype(int).tolist() == bad


@pytest.mark.parametrize(
    ("direction", "limit", "bad"),
    [
        (RT, 299, [1, 1, 1, 1, 1]),
        (RT, 300, [0, 1, 1, 1, 0]),
        (F, 99, [1, 1, 1, 1, 1]),
        (F, 100, [0, 1, 0, 1, 0]),  # lost on the way back, with its T2 known: a forward delay like any other
        (R, 200, [0, 1, 1, 0]),
    ],
)
def test_a_lost_packet_took_longer_than_any_limit(direction, limit, bad):
    metric = "round_trip_delay" if direction is RT else "one_way_delay"
    assert trials(rows(), objective(metric, "p99.9", direction, limit), {}).astype(int).tolist() == bad


def test_a_packet_without_fit_stamps_is_no_delay_trial_but_stays_a_loss_trial():
    made = rows([Fate.RECEIVED] * 3)
    made["stamps"][1] = Stamp.ALL_KERNEL & ~Stamp.T3_KERNEL
    assert trials(made, objective("round_trip_delay", "p99", RT, 299), {}).size == 2
    assert trials(made, objective("loss_ratio", "ratio", RT, 0.1), {}).size == 3


def test_pdv_is_judged_against_the_smallest_delay_so_far():
    made = rows([Fate.RECEIVED] * 5, forward=[100, 150, 90, 150, 100])
    found = trials(made, objective("pdv", "p99", F, 50), {})
    assert found.tolist() == [False, False, False, True, False]


def test_ipdv_takes_the_size_of_the_step_and_needs_both_packets():
    fates = [Fate.RECEIVED, Fate.RECEIVED, Fate.UNSENT, Fate.RECEIVED, Fate.LOST_FORWARD, Fate.RECEIVED]
    made = rows(fates, forward=[100, 40, 0, 45, 0, 45])
    assert trials(made, objective("ipdv", "p99", F, 20), {}).tolist() == [True, False, True]


ALL = [
    objective("loss_ratio", "ratio", F, 1e-5),
    objective("loss_ratio", "ratio", R, 1e-5),
    objective("round_trip_delay", "p99", RT, 10_400_000),
    objective("one_way_delay", "p90", R, 5_200_000),
    objective("pdv", "p99.9", F, 300_000),
    objective("ipdv", "p50", RT, 100_000),
]


@pytest.mark.parametrize("asked", ALL, ids=lambda each: each.key)
def test_chunking_changes_nothing(stream, asked):
    made = stream(2000, 4, loss_forward=0.02, loss_reverse=0.02, lost=0.01, unsent=0.02, user_t3=0.05)
    whole = trials(made, asked, {})
    for cuts in ([1], [7, 8, 9, 1000], list(range(0, 2000, 13))):
        state: dict[str, int] = {}
        parts = [trials(part, asked, state) for part in np.split(made, cuts)]
        assert np.array_equal(np.concatenate(parts), whole)
    assert 0 < whole.sum() < whole.size


def test_quantiles_are_the_decimals_they_are_written_as():
    names = {"p99.9": 0.999, "p99.99": 0.9999, "p99.999": 0.99999, "p5": 0.05, "p0.1": 0.001}
    assert {name: metrics.quantile(name) for name in names} == names  # 99.9 / 100 is 0.9990000000000001
    assert [metrics.quantile(name) for name in ("p0", "p100", "px", "pnan", "ratio", "p")] == [None] * 6


def test_shares_are_the_decimals_they_print_as():
    assert share(objective("loss_ratio", "ratio", F, 1e-5)) == 1e-5
    assert share(objective("pdv", "p99.9", F, 5)) == 0.001
    assert share(objective("pdv", "p99.99", F, 5)) == 0.0001
    assert share(objective("throughput", "p5", F, 1e9, relation=Relation.AT_LEAST)) == 0.05
    with pytest.raises(ValueError, match="no proportion"):
        share(objective("pdv", "max", F, 5))


@pytest.mark.parametrize(
    "asked",
    [
        objective("loss_ratio", "ratio", F, None),
        objective("round_trip_delay", "mean", RT, 5),
        objective("round_trip_delay", "max", RT, 5),
        objective("reordered_ratio", "ratio", F, 0.1),
        objective("throughput", "p5", F, 1e9, relation=Relation.AT_LEAST),
    ],
    ids=lambda each: each.key,
)
def test_what_is_no_proportion_of_packets_is_refused(asked):
    assert not supported(asked)
    with pytest.raises(ValueError, match="packet by packet"):
        trials(rows(), asked, {})
