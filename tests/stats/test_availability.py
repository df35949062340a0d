from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from linkqual.stats import availability as a
from linkqual.stats import error_performance as e
from linkqual.stats.confidence import outage_rate_bounds
from linkqual.units import NS_PER_S

HOUR, DAY = 3600 * NS_PER_S, 86_400 * NS_PER_S


@pytest.mark.parametrize(
    ("target", "seconds"),
    [
        ("99", ("315360", "25920", "604800/100", "2592", "864")),
        ("99.5", ("157680", "12960", "3024", "1296", "432")),
        ("99.9", ("31536", "2592", "604.8", "259.2", "86.4")),
        ("99.95", ("15768", "1296", "302.4", "129.6", "43.2")),
        ("99.99", ("3153.6", "259.2", "60.48", "25.92", "8.64")),
        ("99.995", ("1576.8", "129.6", "30.24", "12.96", "4.32")),
        ("99.999", ("315.36", "25.92", "6.048", "2.592", "0.864")),
    ],
)
def test_downtime_budgets_are_exact(target, seconds):
    for window, allowed in zip((365 * DAY, 30 * DAY, 7 * DAY, 72 * HOUR, DAY), seconds, strict=True):
        assert a.budget_ns(target, window) == Fraction(allowed) * NS_PER_S


def test_an_availability_is_a_percentage_or_a_ratio():
    assert a.fraction("99.99") == a.fraction("99.99 %") == a.fraction("0.9999") == Fraction(9999, 10_000)
    assert a.fraction("0.5 %") == Fraction(1, 200)
    for wrong in ("101", "-1"):
        with pytest.raises(ValueError, match="no availability"):
            a.fraction(wrong)


def seconds_of(text: str, per_second: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """One letter a second: "." fine, "x" all lost, "h" half lost, "1" one lost, "?" nothing sent."""
    lost = {".": 0, "x": per_second, "h": per_second // 2, "1": 1, "?": 0}
    return np.array([per_second * (c != "?") for c in text]), np.array([lost[c] for c in text])


def test_no_data_is_neither_up_nor_down():
    states = a.states(*seconds_of("..x?h1"))
    assert states.tolist() == [a.State.UP, a.State.UP, a.State.DOWN, a.State.NO_DATA, a.State.UP, a.State.UP]
    assert a.states(*seconds_of("h1"), threshold=0.5).tolist() == [a.State.DOWN, a.State.UP]
    assert a.states(*seconds_of(".1"), threshold=0.0).tolist() == [a.State.UP, a.State.DOWN]  # loss-free seconds
    assert a.states([3], [3], least=5).tolist() == [a.State.NO_DATA]


def test_outages_and_gaps_are_kept_apart():
    book = a.ledger(a.states(*seconds_of("..xx??x...?.")), start_ns=1000)
    assert [(span.start_ns - 1000, span.duration_ns) for span in book.outages] == [
        (2 * NS_PER_S, 2 * NS_PER_S),
        (6 * NS_PER_S, NS_PER_S),
    ]
    assert (book.down_ns, book.unknown_ns) == (3 * NS_PER_S, 3 * NS_PER_S)
    assert book.availability == Fraction(6, 9)
    assert book.availability_if_gaps_down == Fraction(6, 12)


def weekend(outage_s: int = 17, gap_s: int = 240) -> a.Ledger:
    """Friday 18:00 to Monday 06:00 at 10 packets a second."""
    sent, lost = np.full(60 * 3600, 10), np.zeros(60 * 3600, np.int64)
    sent[90_000 : 90_000 + gap_s] = 0
    lost[150_000 : 150_000 + outage_s] = 10
    return a.ledger(a.states(sent, lost), 0)


def test_a5_a_weekend_with_one_outage_and_a_reboot():
    found = a.assess(weekend(), "99.99")
    assert found.standing is a.Standing.NOT_REFUTED
    assert found.budget_ns == Fraction("21.6") * NS_PER_S
    assert found.used_ns == 17 * NS_PER_S
    assert found.used_if_gaps_down_ns == 257 * NS_PER_S
    assert found.standing_if_gaps_down is a.Standing.REFUTED
    for words in (
        "21.6 s",
        "17 s",
        "1 outage",
        "1 measurement gap of 4 min 00 s",
        "4 min 17 s",
        "cannot prove a yearly",
    ):
        assert words in found.because


def test_a5_with_other_figures():
    over = a.assess(weekend(outage_s=22), "99.99")
    assert over.standing is a.Standing.REFUTED
    assert "cannot prove" not in over.because
    short = a.assess(weekend(outage_s=0, gap_s=20), "99.99")
    assert short.standing is short.standing_if_gaps_down is a.Standing.NOT_REFUTED
    assert a.assess(weekend(outage_s=22, gap_s=0), "99.9").standing is a.Standing.NOT_REFUTED


def test_an_outage_of_exactly_the_budget_keeps_it():
    seconds = np.full(10_000, a.State.UP)
    seconds[:1] = a.State.DOWN
    assert a.assess(a.ledger(seconds, 0), "99.99").standing is a.Standing.NOT_REFUTED


def test_a_window_nobody_watched_says_nothing():
    found = a.assess(a.ledger(np.zeros(100, np.uint8), 0), "99.9 %")
    assert found.standing is found.standing_if_gaps_down is a.Standing.NO_DATA
    assert found.because == "99.9 %: nothing was observed in 100 s"
    assert a.ledger([], 0).availability is a.ledger([], 0).availability_if_gaps_down is None


def test_composition():
    assert a.series([0.999, 0.9995, 0.9999]) == pytest.approx(0.998400649950, abs=1e-12)
    assert a.parallel([0.999 * 0.9995] * 2) == pytest.approx(0.999997751500, abs=1e-12)
    assert a.parallel_common_cause(1e-3, 0.05) == pytest.approx(0.999949097500, abs=1e-12)


def test_what_a_soak_can_prove():
    rate = outage_rate_bounds(0, 72)[1]  # per hour
    assert a.availability_bound(rate, 10 / 60) == pytest.approx(0.993113192, abs=1e-9)
    for minutes, bound in ((1, 0.999307), (60, 0.96005), (240, 0.8573)):
        assert a.availability_bound(rate, minutes / 60) == pytest.approx(bound, abs=6e-6 if minutes < 60 else 6e-5)
    assert a.outage_free_time("99.99", 4) == pytest.approx(119817.308, abs=1e-3)
    for target, hours in (("99.9", 2992.7), ("99.99", 29954.3), ("99.999", 299570)):
        assert a.outage_free_time(target, 1) == pytest.approx(hours, rel=2e-5)


def test_the_look_ahead_state_machine():
    flr = [0, 0, 0.6, 0.7, 0.9, 1, 0.4, 0.8, 0, 0, 0, 0.9, 0, 0, 0]
    found = e.windowed(flr, threshold=0.5, run=3)
    assert found.available.astype(int).tolist() == [1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1]
    assert found.ratio == 9 / 15
    assert found.high_loss == 1
    assert found.consecutive_high_loss == 0


def test_the_state_stays_where_the_look_ahead_is_incomplete():
    assert e.windowed([0, 0, 1, 1], run=3).available.all()
    assert e.windowed([1, 1, 1, 0, 0], run=3).available.tolist() == [False] * 5
    assert e.windowed([], run=3).ratio is None
    assert e.windowed([1] * 6 + [0] * 3, run=7, consecutive=5).consecutive_high_loss == 1


@pytest.mark.parametrize(
    ("text", "es", "ses", "uas"),
    [
        ("...1..x...", 2, 1, 0),
        ("." * 5 + "x" * 9 + "." * 5, 9, 9, 0),  # nine are severe, ten are unavailable
        ("." * 5 + "x" * 10 + "." * 5, 0, 0, 15),  # and stay so until ten good ones follow
        ("." * 5 + "x" * 10 + "." * 10, 0, 0, 10),
        ("." * 5 + "x" * 10 + "." * 9 + "x" + "." * 10, 0, 0, 20),
        ("1" + "x" * 12 + "." * 12 + "1", 2, 0, 12),  # other counters stand still in unavailable time
        ("x" * 10 + "?" * 12 + "x" * 3, 0, 0, 13),  # nor of ten good ones
        ("x" * 5 + "???" + "x" * 5, 10, 10, 0),  # a hole in the data is no proof of ten in a row
    ],
)
def test_the_ten_second_rule(text, es, ses, uas):
    found = e.error_seconds(*seconds_of(text))
    assert (found.es, found.ses, found.uas) == (es, ses, uas)
    assert found.observed == len(text.replace("?", ""))


def test_ratios_count_available_seconds_only():
    found = e.error_seconds(*seconds_of("1" + "x" * 12 + "." * 12 + "1"))
    assert found.esr == 2 / 14
    assert e.error_seconds(*seconds_of("x" * 12)).esr is None
    assert e.error_seconds(*seconds_of("x" * 12)).sesr is None


def test_a_second_with_few_packets_cannot_be_severely_errored():
    assert e.error_seconds([5] * 12, [5] * 12).ses == 0
    assert e.error_seconds([5] * 12, [5] * 12, least=5).uas == 12
