from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkqual.model import Tally
from linkqual.stats import tally as tallies
from linkqual.stats.confidence import ratio_upper
from linkqual.stats.tally import tally

bits = st.lists(st.booleans(), max_size=40)


def of(text: str, gap: int = 1) -> Tally:
    return tally([letter == "1" for letter in text], gap)


@settings(max_examples=200, deadline=None)
@given(bits, bits, bits, st.integers(1, 5))
def test_any_split_merges_to_the_whole(a, b, c, gap):
    parts = [tally(part, gap) for part in (a, b, c)]
    whole = tally(a + b + c, gap)
    assert tallies.merge(tallies.merge(parts[0], parts[1]), parts[2]) == whole
    assert tallies.merge(parts[0], tallies.merge(parts[1], parts[2])) == whole


@settings(max_examples=100, deadline=None)
@given(bits, st.integers(1, 5))
def test_events_are_what_a_plain_reading_finds(column, gap):
    sizes: list[int] = []
    last = None
    for place, bad in enumerate(column):
        if bad and last is not None and place - last - 1 < gap:
            sizes[-1] += 1
        elif bad:
            sizes.append(1)
        last = place if bad else last
    found = tally(column, gap)
    assert tallies.events(found) == len(sizes)
    assert tallies.event_sizes(found) == {size: sizes.count(size) for size in sorted(set(sizes))}
    assert (found.n, found.bad) == (len(column), sum(column))


def test_an_empty_tally_changes_nothing_and_gaps_must_agree():
    some = of("0101", gap=3)
    assert tallies.merge(Tally(), some) == some == tallies.merge(some, Tally())
    with pytest.raises(ValueError, match="gaps 1 and 3"):
        tallies.merge(of("01"), some)
    with pytest.raises(ValueError, match="gap 0"):
        tally([True], gap=0)


def test_a_cluster_is_one_event_when_the_gap_says_so():
    assert tallies.events(of("110100001", gap=1)) == 3
    assert tallies.events(of("110100001", gap=2)) == 2
    assert tallies.events(of("110100001", gap=5)) == 1


def test_design_effect_of_the_runs_1_3_1_3():
    found = of("0001001110100111")
    assert tallies.event_sizes(found) == {1: 2, 3: 2}
    assert tallies.design_effect(found) == 2.5
    assert tallies.mean_event(found) == 2.0


def test_twelve_losses_in_three_bursts_are_worth_a_quarter_of_the_packets():
    found = Tally(n=10**7, bad=12, head=100, tail=10**6, first=4, last=4, sizes=((4, 1),))
    assert tallies.design_effect(found) == 4.0
    assert tallies.effective(found) == (3.0, 2.5e6)
    assert ratio_upper(found.bad, found.n) == pytest.approx(1.944256e-06, rel=1e-6)
    assert ratio_upper(*tallies.effective(found)) == pytest.approx(3.101460e-06, rel=1e-6)


def test_no_loss_says_nothing_about_bursts():
    clean = of("0" * 30)
    assert tallies.design_effect(clean) == 1.0
    assert tallies.mean_event(clean) is None
    assert tallies.effective(clean, assumed=3.0) == (0.0, 10.0)


def test_single_losses_many_bursts_and_few_bursts_each_get_their_interval():
    rng = np.random.default_rng(1)
    singles = tallies.interval(tally(np.arange(100_000) % 1000 == 0))
    assert (singles.method, singles.divisor) == ("exact", 1.0)
    column = np.zeros(100_000, np.bool_)
    for start in rng.choice(900, 40, replace=False) * 100:
        column[start : start + 5] = True
    bursts = tallies.interval(tally(column))
    assert (bursts.method, bursts.divisor) == ("effective sample", 5.0)
    few = tallies.interval(tally(np.arange(100_000) < 30))
    assert (few.method, few.divisor) == ("events", 30.0)
    for held, ratio in ((singles, 1e-3), (bursts, 2e-3), (few, 3e-4)):
        assert held.low < ratio < held.high


def test_a3_twenty_two_losses_in_one_burst_are_one_event_not_a_rate():
    column = np.zeros(1_000_000, np.bool_)
    column[400_000 : 400_000 + 22] = True
    burst = tally(column)
    spread = tally(np.arange(1_000_000) % 45_455 == 7)
    assert (burst.bad, spread.bad) == (22, 22)
    assert tallies.concentrated(burst)
    assert not tallies.concentrated(spread)
    assert (tallies.events(burst), tallies.events(spread)) == (1, 22)
    by_event, by_packet = tallies.interval(burst), tallies.interval(spread)
    assert by_event.method == "events"
    assert by_event.low < 1e-6  # one event may be chance ...
    assert by_packet.low > 1e-5  # ... twenty-two are a rate
