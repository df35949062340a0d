"""The search for the highest rate within a loss goal, on lines in memory whose limit is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from linkqual.impair import Bottleneck, Rate
from linkqual.session.search import MOST_FINALS, Search, Told, Trial, most_trials

BYTES = 1500


def policed(limit_bps: int, bucket: int = 16_000) -> Callable[[Trial], Told]:
    """A policer at the IP layer; each trial sends 4000 packets, a final one 8000."""

    def carry(trial: Trial) -> Told:
        line = Bottleneck(Rate(limit_bps, policer=True, bucket_bytes=bucket, counts="l3"))
        count = 8000 if trial.final else 4000
        times = np.arange(count, dtype=np.int64) * (BYTES * 8 * 10**9 // trial.rate_bps)
        _, lost = line.through(times, np.full(count, BYTES, np.int64))
        return Told(count, int(lost.sum()), trial.rate_bps)

    return carry


def run(search: Search, carry: Callable[[Trial], Told]) -> list[Trial]:
    made = []
    while (trial := search.trial) is not None:
        made.append(trial)
        search.told(carry(trial))
    return made


@pytest.mark.parametrize("limit", [37_000_000, 61_300_000, 99_000_000])
def test_it_ends_within_the_resolution_of_a_policer(limit: int) -> None:
    search = Search(100_000_000, 0.0, 0.005)
    trials = run(search, policed(limit))
    assert search.limited == ""
    assert search.rate_bps is not None
    assert limit - 600_000 <= search.rate_bps <= limit * 1.005  # the bucket lets a short trial pass a little above
    assert trials[-1] == Trial(search.rate_bps, final=True)
    assert len(trials) <= most_trials(0.005)


def test_a_line_that_carries_all_is_asked_once_and_once_for_long() -> None:
    search = Search(50_000_000, 0.0, 0.01)
    assert run(search, policed(60_000_000)) == [Trial(50_000_000), Trial(50_000_000, final=True)]
    assert search.rate_bps == 50_000_000


def test_a_loss_that_does_not_come_back_is_not_the_rate() -> None:
    """Flaky: every first attempt at a rate loses one packet."""
    carry = policed(80_000_000)

    def flaky(trial: Trial) -> Told:
        told = carry(trial)
        return told if trial.repeat or told.lost else Told(told.sent, 1, told.offered_bps)

    search = Search(100_000_000, 0.0, 0.005)
    run(search, flaky)
    assert search.rate_bps is not None
    assert abs(search.rate_bps - 80_000_000) < 1_000_000


def test_a_loss_goal_lets_a_lossy_line_pass() -> None:
    def lossy(trial: Trial) -> Told:
        return Told(100_000, 50 if trial.rate_bps <= 70_000_000 else 5_000, trial.rate_bps)

    strict, lax = Search(100_000_000, 1e-4, 0.01), Search(100_000_000, 1e-3, 0.01)
    assert run(strict, lossy)
    assert strict.rate_bps is None
    run(lax, lossy)
    assert lax.rate_bps is not None
    assert 69_000_000 <= lax.rate_bps <= 70_000_000


def test_what_the_final_trial_refutes_is_searched_below() -> None:
    def late(trial: Trial) -> Told:
        limit = 40_000_000 if trial.final else 60_000_000
        return Told(10_000, 0 if trial.rate_bps <= limit else 100, trial.rate_bps)

    search = Search(100_000_000, 0.0, 0.02)
    trials = run(search, late)
    assert search.rate_bps is not None
    assert 38_000_000 <= search.rate_bps <= 40_000_000
    assert search.limited == ""
    first = next(at for at, trial in enumerate(trials) if trial.final)
    assert all(trial.final for trial in trials[first:])  # short ones have shown that they do not see it


def test_a_host_that_cannot_send_more_makes_no_figure_of_the_line() -> None:
    def slow(trial: Trial) -> Told:
        return Told(10_000, 0, min(trial.rate_bps, 25_000_000))

    search = Search(100_000_000, 0.0, 0.005)
    assert [trial.rate_bps for trial in run(search, slow)] == [100_000_000, 100_000_000, 25_000_000]
    assert (search.rate_bps, search.limited) == (25_000_000, "host")


def test_what_a_host_that_is_behind_loses_is_not_the_lines_limit() -> None:
    def behind(trial: Trial) -> Told:
        late = trial.rate_bps > 40_000_000
        return Told(10_000, 30 if late else 0, trial.rate_bps * (0.9 if late else 1.0))

    search = Search(100_000_000, 0.0, 0.005)
    run(search, behind)
    assert search.limited == "host"
    assert search.rate_bps is not None
    assert 39_000_000 < search.rate_bps <= 40_000_000


def test_a_host_that_stalls_once_is_no_limit() -> None:
    def stalls(trial: Trial) -> Told:
        return Told(10_000, 0, trial.rate_bps * (1.0 if trial.repeat else 0.9))

    search = Search(100_000_000, 0.0, 0.005)
    run(search, stalls)
    assert (search.rate_bps, search.limited) == (100_000_000, "")


@pytest.mark.parametrize(("line_bps", "limited"), [(80_000_000, "host"), (30_000_000, "")])
def test_a_receiver_that_drops_leaves_the_least_known(line_bps: int, limited: str) -> None:
    """The receiving host has no room from 60 Mbit/s on; below it only the line's own limit is the line's figure."""

    def deaf(trial: Trial) -> Told:
        dropped = 0 if trial.rate_bps < 60_000_000 else 500
        lost = 0 if trial.rate_bps <= line_bps else 300
        return Told(10_000, dropped + lost, trial.rate_bps, host_lost=dropped if trial.rate_bps <= line_bps else 0)

    search = Search(100_000_000, 0.0, 0.005)
    run(search, deaf)
    assert search.limited == limited
    assert search.rate_bps is not None
    assert min(60_000_000, line_bps) - 600_000 <= search.rate_bps <= min(60_000_000, line_bps)


@pytest.mark.parametrize("why", ["cap", "interrupted", "peer-lost"])
def test_what_ends_in_the_middle_keeps_what_is_known(why: str) -> None:
    carry, done = policed(60_000_000), []

    def cut(trial: Trial) -> Told:
        done.append(trial)
        told = carry(trial)
        return told if len(done) < 6 else Told(told.sent, told.lost, told.offered_bps, stopped=why)

    search = Search(100_000_000, 0.0, 0.001)
    run(search, cut)
    assert (len(done), search.limited) == (6, why)
    assert search.rate_bps is not None
    assert search.rate_bps <= 60_000_000


def test_a_line_that_changes_its_mind_ends_too() -> None:
    """Long trials keep the goal by turns, short ones always."""
    search = Search(100_000_000, 0.0, 0.001)
    trials = run(search, lambda trial: Told(1000, 10 if trial.final else 0, trial.rate_bps))
    assert sum(trial.final for trial in trials) <= MOST_FINALS
    assert len(trials) <= MOST_FINALS + most_trials(0.001)
    assert search.rate_bps is None  # what short trials showed was refuted
