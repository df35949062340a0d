"""A19: ICMP comes second. What ping and hops lose is named beside what the data packets lost."""

from __future__ import annotations

from functools import cache

import pytest

from linkqual import rules
from linkqual.model import Hop, Measurement, Outcome, PathResult, PingResult, Step, Summary, Trace, Verdict

from .streams import MS, START, Truth, one, plan_of, records, said, spread, stamp, summary

N = 600_000


def ping(sent: int, received: int, rtt: float = 11.3) -> Measurement:
    result = PingResult(sent, received, rtt_ns=tuple([int(rtt * MS)] * received))
    return Measurement(Step("ping", "ping"), START, 0, ping=result)


def path(losses: dict[int, float], hops: int = 9, sent: int = 1000) -> Measurement:
    def trace(source: str, destination: str) -> Trace:
        found = []
        for ttl in range(1, hops + 1):
            received = sent - round(losses.get(ttl, 0) * sent)
            address = destination if ttl == hops else f"10.9.{ttl}.1"
            found.append(Hop(ttl, address, (MS,), sent, received, reached=ttl == hops))
        return Trace(source, destination, 50000, 50001, tuple(found))

    result = PathResult(trace("10.0.0.1", "10.0.0.2"), trace("10.0.0.2", "10.0.0.1"), "symmetric", "")
    return Measurement(Step("path", "path"), START, 0, path=result)


@cache
def data(lost: int) -> Summary:
    return summary(records(Truth(N, 20_000, lost_forward=spread(lost, N))), plan_of().objectives)


def verdict_of(lost: int, *others: Measurement) -> Verdict:
    return rules.judge(plan_of(), (stamp(data(lost), 20_000), *others))


def test_a19_icmp_is_limited_and_the_line_loses_nothing() -> None:
    verdict = verdict_of(0, ping(1000, 988), path({4: 0.38}))
    assert one(verdict, "loss_ratio/forward/ratio").outcome is Outcome.PASS
    assert one(verdict, "loss_ratio/reverse/ratio").outcome is Outcome.PASS
    text = said(verdict)
    assert "ICMP echo: 12 of 1,000 unanswered (1.2 %), while none of 600,000 data packets was lost" in text
    assert "not loss of the line" in text
    assert "hop 4 (38 % missing) limits its replies" in text
    assert "0 of 600,000 data packets were lost" in text


@pytest.mark.parametrize(("sent", "received"), [(500, 470), (20, 10), (50, 0)])
def test_a19_other_figures(sent: int, received: int) -> None:
    verdict = verdict_of(0, ping(sent, received))
    assert one(verdict, "loss_ratio/forward/ratio").outcome is Outcome.PASS
    assert "not loss of the line" in said(verdict)
    assert ("filtered" in said(verdict)) == (received == 0)


def test_a19_reversed_hops_and_data_lose_alike() -> None:
    verdict = verdict_of(18_000, ping(1000, 970), path(dict.fromkeys(range(4, 10), 0.03)))
    assert one(verdict, "loss_ratio/forward/ratio").outcome is Outcome.FAIL
    text = said(verdict)
    assert "real loss begins at or before hop 4" in text
    assert "does not contradict the data packets" in text
    assert "not loss of the line" not in text


def test_ping_without_loss_adds_no_word_of_it() -> None:
    assert "ICMP echo" not in said(verdict_of(0, ping(20, 20)))


@pytest.mark.parametrize(
    ("rtt", "word"), [(11.25, "they agree"), (15.0, "far host's time to answer"), (5.0, "data packets wait")]
)
def test_the_delays_of_ping_are_compared(rtt: float, word: str) -> None:
    assert word in said(verdict_of(0, ping(20, 20, rtt)))


def test_ping_never_judges() -> None:
    plan = plan_of()
    alone = rules.judge(plan, (ping(1000, 1000), path({})))
    assert one(alone, "loss_ratio/forward/ratio").outcome is Outcome.NO_DATA
    assert alone.outcome is Outcome.NO_DATA
