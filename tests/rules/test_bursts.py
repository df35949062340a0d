"""Red lines on bursts: what a thousand of them prove, what a busy host may not prove, and what a reader is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from linkqual.model import (
    BurstsResult,
    Direction,
    Fault,
    Finding,
    Link,
    Measurement,
    Objective,
    Outcome,
    Plan,
    Step,
    Verdict,
)
from linkqual.rules import judge

MS = 1_000_000
LINE = Link(cir_bps=100_000_000, rate_counts="l3")
IDEAL = 3 * MS  # 25 packets of 1500 octets at that rate, without a round trip
RTT = 8 * MS
LIMIT = 1.2 * (IDEAL + RTT)


def result(completions: list[int | None], **more: Any) -> BurstsResult:
    known: dict[str, Any] = {
        "direction": Direction.FORWARD,
        "pattern": "sync",
        "burst_bytes": 36_800,
        "period_ns": 12 * MS,
        "flows": 4,
        "packet_bytes": 1500,
        "pace_bps": 100_000_000,
        "transfer_ns": IDEAL,
        "sent": len(completions),
        "completed": sum(one is not None for one in completions),
        "completions_ns": tuple(completions),
        "held_ns": (0,) * len(completions),
        "base_rtt_ns": RTT,
        "packets": 25 * len(completions),
        "positions": 20,
        "lost_by_position": (0,) * 20,
    }
    return BurstsResult(**known | more)


def objective(statistic: str = "p99", metric: str = "burst_completion", **more: Any) -> Objective:
    given: dict[str, Any] = {"limit": 1.2 * IDEAL, "limit_text": "1.2 x ideal", "source": "test"}
    return Objective(metric, statistic, Direction.FORWARD, **given | more)


def judged(
    found: BurstsResult | None, *objectives: Objective, fault: Fault | None = None, link: Link = LINE
) -> Verdict:
    step = Step("bursts", "bursts")
    plan = Plan("test", (step,), objectives or (objective(),), link)
    return judge(plan, [Measurement(step, 0, 1, bursts=found, fault=fault)])


def finding(found: BurstsResult, *objectives: Objective) -> Finding:
    return judged(found, *objectives).findings[0]


def late(count: int, of: int = 1000, by: float = 1.5) -> list[int | None]:
    """So many bursts late, spread evenly; the others at their ideal."""
    completions: list[int | None] = [IDEAL + RTT] * of
    for at in range(count):
        completions[at * of // count] = round(by * LIMIT)
    return completions


@pytest.mark.parametrize(
    ("bad", "of", "outcome"),
    [
        (0, 298, Outcome.INCONCLUSIVE),
        (0, 299, Outcome.PASS),
        (4, 1000, Outcome.PASS),
        (5, 1000, Outcome.INCONCLUSIVE),
        (15, 1000, Outcome.INCONCLUSIVE),
        (16, 1000, Outcome.FAIL),
    ],
)
def test_the_number_of_bursts_decides(bad: int, of: int, outcome: Outcome) -> None:
    assert finding(result(late(bad, of))).outcome is outcome


def test_the_limit_holds_for_the_round_trip_that_was_found_as_well() -> None:
    made = finding(result([round(LIMIT) - 1] * 1000))
    assert made.outcome is Outcome.PASS
    assert made.objective.limit == pytest.approx(LIMIT)
    assert finding(result([round(LIMIT) + 1] * 1000)).outcome is Outcome.FAIL
    longer = result([round(LIMIT) + 1] * 1000, base_rtt_ns=RTT + MS)
    assert finding(longer).outcome is Outcome.PASS


def test_judged_anew_the_ideal_is_that_of_the_bursts_that_were_sent_on_the_line_as_contracted_now() -> None:
    found = result([round(LIMIT) - 1] * 1000)
    slower = judged(found, link=replace(LINE, cir_bps=50_000_000)).findings[0]
    assert (slower.outcome, slower.objective.limit) == (Outcome.PASS, pytest.approx(1.2 * (2 * IDEAL + RTT)))
    faster = judged(found, link=replace(LINE, cir_bps=200_000_000)).findings[0]
    assert faster.outcome is Outcome.NOT_JUDGED
    assert "slower than contracted" in faster.because


def test_an_absolute_limit_gets_no_round_trip() -> None:
    given = objective(limit=10 * MS, limit_text="10 ms")
    made = finding(result([9 * MS] * 400), given)
    assert (made.outcome, made.objective.limit) == (Outcome.PASS, 10 * MS)


def test_a_burst_never_complete_is_later_than_any() -> None:
    completions = late(0)
    completions[::50] = [None] * 20
    verdict = judged(result(completions))
    assert verdict.findings[0].outcome is Outcome.FAIL
    assert any("20 of 1,000 bursts were not complete" in note.sentence for note in verdict.notes)
    worst = finding(result([*late(0, 999), None]), objective("max"))
    assert worst.outcome is Outcome.FAIL
    assert worst.estimate is not None
    assert worst.estimate.value is None


def test_a_sender_that_was_behind_fails_no_line_and_acquits_none() -> None:
    completions = late(100)
    held = tuple(0 if one == IDEAL + RTT else 2 * MS for one in completions)
    made = finding(result(completions, held_ns=held))
    assert made.outcome is Outcome.INCONCLUSIVE
    assert (
        "up to 100 of them may not be this line's doing: the sending host was behind its own pace in 100"
        in made.because
    )
    assert "hosts" in made.decide
    few = tuple(2 * MS if at < 300 else 0 for at in range(1000))  # it was behind in some, and late without that as well
    assert finding(result(completions, held_ns=few)).outcome is Outcome.FAIL


def test_packets_that_a_full_socket_dropped_fail_no_line() -> None:
    completions = late(30)
    assert finding(result(completions, lost=30)).outcome is Outcome.FAIL
    made = finding(result(completions, lost=30, host_lost=30))
    assert made.outcome is Outcome.INCONCLUSIVE
    assert "socket dropped 30 packets" in made.because


def test_drops_of_a_full_socket_explain_the_longest_burst_and_the_spread_too() -> None:
    for asked, completions in (
        (objective("max"), late(1)),
        (objective("max"), [*late(0, 999), None]),
        (objective("cv", "burst_spread", limit=0.01, limit_text="1 %"), late(100)),
    ):
        assert finding(result(completions, lost=3), asked).outcome is Outcome.FAIL
        made = finding(result(completions, lost=3, host_lost=3), asked)
        assert (made.outcome, "socket dropped 3 packets" in made.because) == (Outcome.INCONCLUSIVE, True)


def test_a_fail_says_whether_packets_were_lost() -> None:
    assert "no packet of theirs was lost" in finding(result(late(100))).because
    assert "70 of 25,000 packets were lost on the way" in finding(result(late(100), lost=70)).because


def test_losses_at_the_end_of_a_burst_show_a_short_queue() -> None:
    crowded = (0,) * 15 + (8, 8, 8, 8, 8)
    said = [note.sentence for note in judged(result(late(40), lost=40, lost_by_position=crowded)).notes]
    assert any("100 % of them in the last quarter" in sentence and "queue" in sentence for sentence in said)
    even = judged(result(late(40), lost=40, lost_by_position=(2,) * 20)).notes
    assert any("spread over the burst" in note.sentence for note in even)


def test_the_spread_is_judged_by_the_bursts_whose_sender_kept_its_pace() -> None:
    chance = np.random.default_rng(3)
    uneven: list[int | None] = (11e6 + chance.exponential(4e6, 1000)).astype(int).tolist()
    asked = objective("cv", "burst_spread", limit=0.1, limit_text="10 %", required=False)
    assert finding(result(uneven), asked).outcome is Outcome.FAIL
    held = tuple(max(0, (one or 0) - 11_500_000) for one in uneven)
    made = finding(result(uneven, held_ns=held), asked)
    assert made.outcome is Outcome.INCONCLUSIVE
    assert "the host may be what varies" in made.because
    assert finding(result(late(0)), asked).outcome is Outcome.PASS
    assert finding(result(late(0, 30)), asked).outcome is Outcome.NO_DATA


def test_nothing_measured_is_no_pass() -> None:
    assert judged(None).findings[0].outcome is Outcome.NO_DATA
    made = judged(
        None, fault=Fault("unanswered", "no UDP packet of the bursts was answered", "look for a filter")
    ).findings[0]
    assert (made.outcome, made.because) == (Outcome.NO_DATA, "no UDP packet of the bursts was answered")


def test_without_a_contracted_rate_it_is_shown_and_not_judged() -> None:
    made = finding(result(late(500)), objective(limit=None))
    assert made.outcome is Outcome.NOT_JUDGED
    assert made.estimate is not None
    assert made.estimate.value == round(1.5 * LIMIT)


def test_a_steady_line_that_is_fast_once_is_not_a_steady_line() -> None:
    """Thousands of synchronisations: 2 GB each over 40 Gbit/s, mostly at the ideal, every 80th waits for 150 ms more."""
    ideal, rtt = 400 * MS, 20 * MS
    line = Link(cir_bps=40 * 10**9, rate_counts="l3")
    sent = {"base_rtt_ns": rtt, "packet_bytes": 8000, "pace_bps": 40 * 10**9, "transfer_ns": ideal}
    completions: list[int | None] = [ideal + rtt + 150 * MS * (at % 80 == 79) for at in range(2400)]
    chosen = (objective(limit=1.2 * ideal), objective("p50", limit=1.2 * ideal))
    verdict = judged(result(completions, **sent), *chosen, link=line)
    p99, p50 = verdict.findings
    assert (p50.outcome, p99.outcome) == (Outcome.PASS, Outcome.INCONCLUSIVE)
    more = judged(result(completions * 4, **sent), *chosen, link=line).findings[0]
    assert more.outcome is Outcome.FAIL
    assert "9,600 bursts" in more.because
    assert any("p50 420 ms" in note.sentence and "longest 570 ms" in note.sentence for note in verdict.notes)
