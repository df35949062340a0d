"""A5: a weekend soak with an outage and an absent prober, counted second by second."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from linkqual.stats import availability as av
from linkqual.units import NS_PER_S

HOURS = 3600


def weekend(hours: int, pps: int, outage: tuple[int, int], reboot: tuple[int, int]) -> av.Ledger:
    """Seconds with packets sent and lost; a prober that is away sends nothing."""
    n = hours * HOURS
    sent, lost = np.full(n, pps), np.zeros(n, np.int64)
    lost[outage[0] : outage[0] + outage[1]] = pps
    sent[reboot[0] : reboot[0] + reboot[1]] = 0
    lost[reboot[0] : reboot[0] + reboot[1]] = 0
    return av.ledger(av.states(sent, lost), 0)


def test_a5_a_reboot_is_no_outage() -> None:
    seen = weekend(60, 10, (150_000, 17), (60_000, 240))
    assert [span.duration_ns for span in seen.outages] == [17 * NS_PER_S]
    assert [span.duration_ns for span in seen.gaps] == [240 * NS_PER_S]
    assert seen.down_ns == 17 * NS_PER_S
    assert seen.down_ns + seen.unknown_ns == 257 * NS_PER_S
    assert av.budget_ns("99.99", seen.window.duration_ns) == Fraction(216, 10) * NS_PER_S


@pytest.mark.parametrize(
    ("hours", "outage", "gap", "target", "standing", "if_down"),
    [
        (60, 17, 240, "99.99", "not refuted", "refuted"),
        (60, 22, 0, "99.99", "refuted", "refuted"),
        (60, 17, 4, "99.99", "not refuted", "not refuted"),
        (168, 17, 240, "99.95", "not refuted", "not refuted"),
    ],
)
def test_a5_the_budget_of_the_window(
    hours: int, outage: int, gap: int, target: str, standing: str, if_down: str
) -> None:
    assessed = av.assess(weekend(hours, 10, (100_000, outage), (20_000, gap)), target)
    assert assessed.standing == standing
    assert assessed.standing_if_gaps_down == if_down


def test_a5_a_weekend_proves_no_year() -> None:
    assert {each.value for each in av.Standing} == {"not refuted", "refuted", "no data"}
