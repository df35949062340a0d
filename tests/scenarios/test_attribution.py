"""A2, A3 with figures drawn at random; A24, A25: a loss is laid to the line only where nothing else can have done it."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from linkqual import rules
from linkqual.model import (
    Conditions,
    EndConditions,
    Fault,
    Finding,
    Link,
    Measurement,
    Objective,
    Outcome,
    Plan,
    Relation,
    Summary,
    Tally,
)
from linkqual.rules.ledger import Address, ledger
from linkqual.rules.proportion import strict_confidence
from linkqual.stats.confidence import ratio_lower, ratio_upper, trials_to_prove
from linkqual.units import format_count

from .streams import FORWARD, REVERSE, Truth, goodput, one, records, said, stamp, steady, summary

MILLION = 1_000_000
BOTH = tuple(Objective("loss_ratio", "ratio", way, 1e-5) for way in (FORWARD, REVERSE))
TEN_THOUSANDTH = tuple(replace(each, limit=1e-4) for each in BOTH)
many = settings(max_examples=60, deadline=None)


def singles(n: int, bad: int) -> Tally:
    """So many single losses, spread evenly."""
    if not bad:
        return Tally(n=n, head=n, tail=n)
    inner = ((1, bad - 2),) if bad > 2 else ()
    return Tally(n, bad, 1, n // (2 * bad), n // (2 * bad), 1, 1 if bad > 1 else 0, inner)


def counted(n: int, forward: int, reverse: int = 0, rate: float = 1000, **conditions: EndConditions) -> Measurement:
    received = n - forward - reverse
    loss = {"forward": singles(n, forward), "reverse": singles(n - forward, reverse)}
    made = Summary(sent=n, received=received, lost_forward=forward, lost_reverse=reverse, loss=loss)
    return stamp(made, rate, Conditions(**conditions, same_clock=True))


def finding(measured: Measurement, limit: float = 1e-5, family: int = 1) -> Finding:
    objectives = [replace(BOTH[0], limit=limit), *(replace(BOTH[1], limit=0.9) for _ in range(family - 1))]
    verdict = rules.judge(Plan("p", (), tuple(objectives), Link()), (measured,))
    return verdict.findings[0]


def more_of(text: str) -> int:
    match = re.search(r"([\d,]+) more packets", text)
    assert match, text
    return int(match[1].replace(",", ""))


# ---- A2: too few samples


@many
@given(st.floats(1e-6, 0.05), st.floats(0.01, 0.999), st.sampled_from([10, 100, 20_000]))
def test_a2_too_few_packets_never_pass_and_say_how_many_more_would(limit: float, share: float, rate: float) -> None:
    needed = trials_to_prove(limit)
    n = max(1, int(share * needed))
    assume(n < needed)
    found = finding(counted(n, 0, rate=rate), limit)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "could still be up to" in found.because
    assert not re.search(r"(?<![\d.])0 %", found.because.replace("100 %", ""))
    more = more_of(found.decide)
    assert found.decide.startswith(f"{format_count(more)} more packets without a bad one: ")
    assert finding(counted(n + more, 0, rate=rate), limit).outcome is Outcome.PASS
    assert finding(counted(n + more - 1, 0, rate=rate), limit).outcome is Outcome.INCONCLUSIVE


# ---- A3: just above


@many
@given(st.integers(1_000, 5 * MILLION), st.integers(0, 60), st.floats(1e-6, 1e-3), st.integers(1, 8))
def test_a3_pass_and_fail_are_the_exact_bounds_and_the_rest_is_open(
    n: int, bad: int, limit: float, family: int
) -> None:
    found = finding(counted(n, bad), limit, family)
    if ratio_lower(bad, n, strict_confidence(0.95, family)) > limit:
        assert found.outcome is Outcome.FAIL
    elif ratio_upper(bad, n, 0.95) <= limit:
        assert found.outcome is Outcome.PASS
    else:
        assert found.outcome is Outcome.INCONCLUSIVE
        assert found.decide
    assert format_count(bad or n) in found.because


@many
@given(st.integers(100_000, 3 * MILLION), st.integers(8, 40), st.floats(1.05, 2.2))
def test_a3_twice_the_packets_it_asks_for_decide_if_the_ratio_stays(n: int, bad: int, above: float) -> None:
    """The point lies above the limit, the interval contains it: INCONCLUSIVE, and its number is of the right size."""
    limit = bad / n / above
    found = finding(counted(n, bad), limit)
    assume(found.outcome is Outcome.INCONCLUSIVE)
    total = n + 2 * more_of(found.decide)
    assert finding(counted(total, math.ceil(bad * total / n)), limit).outcome is Outcome.FAIL
    assert found.estimate is not None
    assert found.estimate.low is not None
    assert found.estimate.low < limit < (found.estimate.value or 0)


@pytest.mark.parametrize(("n", "size", "rate"), [(30_000, 14, 70.0), (60_000, 70, 350.0), (50_000, 31, 20_000.0)])
def test_a3_one_burst_is_one_event_whatever_its_size(n: int, size: int, rate: float) -> None:
    at = n // 3
    made = summary(records(Truth(n, rate, lost_forward=tuple(range(at, at + size)))), TEN_THOUSANDTH)
    found = rules.judge(Plan("p", (), TEN_THOUSANDTH, Link()), (stamp(made, rate),)).findings[0]
    assert found.outcome is Outcome.FAIL
    assert "all in one event" in found.because
    assert "one event and not a rate" in found.because
    assert found.estimate is not None
    assert (found.estimate.low or 0) < 1e-4 < (found.estimate.high or 0)


# ---- A24: the host is the limit


def test_a24_the_receiver_was_the_limit() -> None:
    far = EndConditions(
        drops={"socket_drops": 18_220, "UdpRcvbufErrors": 18_220, "UdpInErrors": 18_220, "eth0:nic/rx_out_of_buffer": 411, "softnet_squeezed": 90},
        drop_times=((1_764_487_002 * 10**9, "UdpRcvbufErrors", 18_220),),
    )  # fmt: skip
    taken = counted(2 * MILLION, 18_220, far=far)
    verdict = rules.judge(Plan("p", (), BOTH, Link()), (taken,))
    loss = one(verdict, BOTH[0].key)
    assert verdict.outcome is loss.outcome is Outcome.INCONCLUSIVE
    assert "18,220 dropped by the far end's receive socket, which had no room" in loss.because
    assert "rmem_max" in loss.decide
    assert one(verdict, BOTH[1].key).outcome is Outcome.PASS
    note = next(each for each in verdict.notes if "the host of the far end dropped packets by itself" in each.sentence)
    assert "UdpRcvbufErrors +18,220" in note.sentence
    assert "rx_out_of_buffer +411" in note.sentence
    assert note.weight == "warn"
    assert [(entry.address, entry.packets) for entry in ledger(taken)] == [(Address.FAR_HOST, 18_220)]


COUNTERS = (
    "socket_drops",
    "UdpRcvbufErrors",
    "Udp6InErrors",
    "softnet_dropped",
    "eth0:rx_fifo",
    "ens1f0:nic/out_of_buffer",
    "eth0:ingress_drops",
)


@many
@given(st.integers(200_000, 4 * MILLION), st.integers(5, 3_000), st.floats(0, 1.5), st.sampled_from(COUNTERS))
def test_a24_hosts_make_no_line_fail_and_help_none_to_pass(n: int, lost: int, share: float, name: str) -> None:
    dropped = round(share * lost)
    bare, with_host = (
        finding(counted(n, lost, far=EndConditions(drops=drops))) for drops in ({}, {name: dropped})
    )  # fmt: skip
    left = max(lost - dropped, 0)
    certain = ratio_lower(left, n, 0.95) > 1e-5
    assert (with_host.outcome is Outcome.FAIL) == certain
    assert (with_host.outcome is Outcome.PASS) == (bare.outcome is Outcome.PASS)  # all of them counted
    if bare.outcome is Outcome.FAIL and not certain:
        assert f"up to {format_count(min(dropped, lost))} of them may be no loss of this line" in with_host.because
        assert with_host.decide


RATE = Objective("throughput", "p10", FORWARD, 95e9, Relation.AT_LEAST)


@pytest.mark.parametrize(
    ("more", "far", "words"),
    [
        ({"cpu_far": 1.0}, {}, "iperf3 used 100 % of one core at the far end"),
        (
            {"cpu_near": 0.97, "cpu_far": 0.93},
            {},
            "97 % of one core at the near end and 93 % of one core at the far end",
        ),
        ({}, {"eth0:nic/rx_out_of_buffer": 18_220, "UdpRcvbufErrors": 9}, "far eth0:nic/rx_out_of_buffer +18,220"),
        ({"cpu_far": 15.9, "version": "iperf 3.17"}, {}, "1590 % of one core"),
        ({"cpu_far": 4.0, "version": "iperf 3.17"}, {}, ""),  # 16 streams, a thread each: cores to spare
        ({"cpu_near": 0.4, "cpu_far": 0.6}, {"UdpRcvbufErrors": 500, "softnet_squeezed": 90}, ""),
    ],
)
def test_a24_a_receiver_out_of_breath_is_no_slow_line(more: dict[str, Any], far: dict[str, int], words: str) -> None:
    """41 Gbit/s of 100 because of the host: INCONCLUSIVE and how to mend it; the same with idle hosts is the line's."""
    load = goodput(FORWARD, steady(41e9, 60), **({"version": "iperf 3.12"} | more))
    load = replace(load, conditions=Conditions(far=EndConditions(drops=far)))
    (found,) = rules.judge(Plan("p", (), (RATE,), Link(cir_bps=100 * 10**9)), (load,)).findings
    assert found.outcome is (Outcome.INCONCLUSIVE if words else Outcome.FAIL)
    assert words in found.because
    assert ("the host may be the limit" in found.because) is bool(words)
    assert not words or "MTU 9000" in found.decide
    fine = replace(load, throughput=replace(load.throughput, receiver_bps=tuple(steady(99e9, 60))))  # type: ignore[type-var]
    assert rules.judge(Plan("p", (), (RATE,), Link()), (fine,)).outcome is Outcome.PASS


def test_a24_the_way_back_is_received_at_the_near_end() -> None:
    back = replace(RATE, direction=REVERSE)
    load = goodput(REVERSE, steady(41e9, 60))
    for near, far, outcome in (
        ({"softnet_dropped": 4}, {}, Outcome.INCONCLUSIVE),
        ({}, {"softnet_dropped": 4}, Outcome.FAIL),
    ):
        state = Conditions(EndConditions(drops=near), EndConditions(drops=far))
        assert rules.judge(Plan("p", (), (back,), Link()), (replace(load, conditions=state),)).outcome is outcome


# ---- A25: the prober down, the far end down, the line down


GONE = Fault(
    "peer-lost", "the agent at the far end has gone away; the 600 packets after its last reply are not counted"
)
SILENT = Fault("silent", "the line went silent: neither probes nor the control channel get through")
N, CUT = 6_000, tuple(range(4_000, 4_200))
LOOSE = tuple(replace(each, limit=1e-3) for each in BOTH)


def outage(
    fate: int, fault: Fault | None = None, far: EndConditions | None = None
) -> tuple[Measurement, dict[str, Finding], str]:
    """200 packets in a row, at 1 kpps, with that fate."""
    field = {1: "lost_forward", 2: "lost_reverse"}.get(fate, "lost_forward")
    rows = records(Truth(N, 1000, **{field: CUT}))
    if fate == 3:
        rows["fate"][list(CUT)] = 3
    taken = stamp(summary(rows, LOOSE), 1000, Conditions(far=far or EndConditions(), same_clock=True))
    taken = replace(taken, fault=fault)
    verdict = rules.judge(Plan("p", (), LOOSE, Link()), (taken,))
    return taken, {str(found.objective.direction): found for found in verdict.findings}, said(verdict)


def test_a25_a_far_end_that_went_away_is_no_outage() -> None:
    """What came before its last reply was clean; nothing after it is counted."""
    made = summary(records(Truth(N, 1000)), LOOSE)
    taken = replace(stamp(made, 1000), fault=GONE)
    verdict = rules.judge(Plan("p", (), LOOSE, Link()), (taken,))
    assert {found.outcome for found in verdict.findings} == {Outcome.PASS}
    assert ledger(taken) == ()
    early = replace(stamp(summary(records(Truth(500, 1000)), LOOSE), 1000), fault=GONE)
    assert {found.outcome for found in rules.judge(Plan("p", (), LOOSE, Link()), (early,)).findings} == {
        Outcome.INCONCLUSIVE
    }


def test_a25_both_ends_alive_and_both_see_it() -> None:
    taken, found, text = outage(1)
    assert found["forward"].outcome is Outcome.FAIL
    assert found["reverse"].outcome is Outcome.PASS
    assert "all in one event" in found["forward"].because
    assert "it lasted 199 ms" in found["forward"].because
    assert [(str(entry.address), entry.packets) for entry in ledger(taken)] == [("line, forward", 200)]
    assert "the longest event took 200 packets in 199 ms" in text


def test_a25_the_far_end_logs_arrivals_while_the_near_one_sees_nothing() -> None:
    taken, found, _ = outage(2)
    assert found["forward"].outcome is Outcome.PASS
    assert found["reverse"].outcome is Outcome.FAIL
    assert [(str(entry.address), entry.packets) for entry in ledger(taken)] == [("line, reverse", 200)]


def test_a25_nobody_can_say_whether_the_far_end_or_the_line_went_down() -> None:
    taken, found, _ = outage(3, SILENT)
    assert {each.outcome for each in found.values()} == {Outcome.INCONCLUSIVE}
    assert [entry.address for entry in ledger(taken)] == [Address.UNATTRIBUTED]
    assert "line and far host look the same" in found["forward"].because
    assert "both ends alive to the end" in found["forward"].decide


def test_a25_losses_before_a_far_end_died_with_its_counters_prove_nothing() -> None:
    _, found, _ = outage(1, GONE)
    assert found["forward"].outcome is Outcome.INCONCLUSIVE
    assert "left without its counters" in found["forward"].because
    _, found, _ = outage(2, GONE)
    assert found["reverse"].outcome is Outcome.INCONCLUSIVE
    assert "left without its counters" in found["reverse"].because
    process = EndConditions(drops={"socket_drops": 0}, counters={"answered": N - 200})
    both = replace(process, drops=process.drops | {"softnet_dropped": 0})
    for fate, way in ((1, "forward"), (2, "reverse")):
        assert outage(fate, GONE, process)[1][way].outcome is Outcome.INCONCLUSIVE
        assert outage(fate, GONE, both)[1][way].outcome is Outcome.FAIL
