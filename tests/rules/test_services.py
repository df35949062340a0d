"""Services held against what was agreed: which load decides, what a host may have caused, what a step of some length can prove."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from linkqual.metrics import METRICS
from linkqual.model import (
    Conditions,
    Direction,
    EndConditions,
    Finding,
    FoundRate,
    Json,
    Link,
    LoadCount,
    LossEvent,
    Measurement,
    Objective,
    Outcome,
    Plan,
    SearchResult,
    Service,
    ServicesResult,
    ServiceStep,
    StampResult,
    Step,
    Summary,
)
from linkqual.rules import judge
from linkqual.session.activation import Rung, Stream
from linkqual.stats.histogram import Even, LogLinear
from linkqual.stats.tally import tally

WAY = Direction.FORWARD
SIZE = 1500
SHARE = SIZE / (SIZE + 38)  # IP octets in each octet of l1
GOOD = Service(
    "data",
    100_000_000,
    eir_bps=20_000_000,
    sizes=((SIZE, 1),),
    flr=1e-3,
    ftd_ns=10_000_000,
    fdv_ns=1_000_000,
    availability=0.999,
)


def load(
    kind: str, offered: float, got: float | None = None, seconds: int = 10, lost: int | None = None, **more: Any
) -> ServiceStep:
    """A load as the service counts it (l1, Mbit/s); what is not got is lost, in one event unless told otherwise."""
    sent = round(offered * 1e6 * SHARE * seconds / (8 * SIZE))
    received = sent - lost if lost is not None else round(sent * (offered if got is None else got) / offered)
    events = more.pop("events", (LossEvent(WAY, 0, 0, 0, sent - received),) if received < sent else ())
    share = offered * 1e6 / GOOD.cir_bps
    title = {"cir": f"CIR {share:.0%}".replace("%", " %"), "eir": "CIR + EIR", "performance": "CIR"}.get(kind, kind)
    each = [(sent // seconds, received // seconds)] * seconds
    count = LoadCount(
        f"data {title}", WAY, round(offered * 1e6 * SHARE), seconds * 10**9, ((SIZE, 1),), sent=sent, sent_bytes=sent * SIZE, sent_ns=seconds * 10**9,
        received=received, received_bytes=received * SIZE, received_ns=seconds * 10**9, rate_bps=received * SIZE * 8 / seconds,
        lost=sent - received, loss_events=events, interval_ns=10**9, by_departure=tuple(each),
    )  # fmt: skip
    return ServiceStep("data", WAY, kind, share, replace(count, **more))


def find(
    metric: str, *loads: ServiceStep, service: Service = GOOD, conditions: Conditions | None = None, **objective: Any
) -> Finding:
    others = (Objective("loss_ratio", "ratio", WAY, 1e-5),) * objective.pop("others", 0)
    text = objective.pop("limit_text", "5 %" if metric == "policing" else "agreed")
    statistic = "p99" if METRICS[metric].quantiles else "ratio"
    rounds = [[planned(one)] for one in objective.pop("rounds", ())]
    one = Objective(metric, statistic, WAY, 0.0, METRICS[metric].relation, limit_text=text, **objective)
    taken = Measurement(
        Step("services/configuration/forward", "services", {"rounds": rounds}, WAY), 0, 0, services=ServicesResult((service,), loads),
        conditions=conditions or Conditions(same_clock=True),
    )  # fmt: skip
    link = Link(services=(service,))
    return judge(Plan("p", (), (one, *others), link), [taken]).findings[0]


def planned(step: ServiceStep) -> Json:
    """The load as a plan has it."""
    stream = Stream(200, 64, 92)
    return Rung(step.service, WAY, step.kind, step.share, 50_000_000, 10**10, ((SIZE, 1),), 0, stream).as_json()


# ---- what was planned


def test_loads_of_the_plan_that_did_not_run_keep_a_line_from_passing() -> None:
    half, full, most = load("cir", 50), load("cir", 100), load("performance", 100)
    rounds = [half, full, most]
    assert find("frame_loss_ratio", half, full, most, rounds=rounds).outcome is Outcome.PASS
    found = find("frame_loss_ratio", half, rounds=rounds)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "but data, CIR 100 % and 1 more loads of the plan did not run to the end" in found.because
    cut = replace(full, count=replace(full.count, short="interrupted"))
    assert find("frame_loss_ratio", half, cut, most, rounds=rounds).outcome is Outcome.INCONCLUSIVE
    assert (
        find("information_rate", full, most, rounds=rounds).outcome is Outcome.PASS
    )  # half of the CIR says nothing of it
    assert find("information_rate", full, rounds=rounds).outcome is Outcome.INCONCLUSIVE
    assert find("frame_loss_ratio", load("cir", 50, 45), rounds=rounds).outcome is Outcome.FAIL  # that is known


# ---- information rate and policing


def test_a_line_that_carries_the_cir_passes() -> None:
    found = find(
        "information_rate", load("cir", 50, 20), load("cir", 100), load("eir", 120, 119), load("overshoot", 125, 120)
    )
    assert found.outcome is Outcome.PASS
    assert "the least of 3 loads" in found.because  # half of the CIR offers no CIR


def test_a_line_that_carries_less_fails_and_names_the_step() -> None:
    found = find("information_rate", load("cir", 100, 99), load("overshoot", 125, 100.1))
    assert found.outcome is Outcome.FAIL
    assert found.because.startswith(
        "forward information rate (IR): data, CIR 100 %: 99 Mbit/s of 100 Mbit/s offered arrived, 99 % of the CIR"
    )


def test_a_rate_within_the_error_of_two_clocks_is_no_shortfall() -> None:
    assert find("information_rate", load("cir", 100, 99.85)).outcome is Outcome.PASS
    assert find("information_rate", load("cir", 100, 99.6)).outcome is Outcome.FAIL


def test_a_host_that_sends_or_receives_too_little_fails_no_line() -> None:
    one = load("cir", 100)
    slow = replace(
        one, count=replace(one.count, sent_bytes=one.count.sent_bytes // 2, rate_bps=(one.count.rate_bps or 0) / 2)
    )
    found = find("information_rate", slow)
    assert (found.outcome, "left this host" in found.because) == (Outcome.INCONCLUSIVE, True)
    lossy = load("cir", 100, 90)
    deaf = replace(lossy, count=replace(lossy.count, host_lost=lossy.count.lost))
    found = find("information_rate", deaf)
    assert (found.outcome, "a host may have dropped" in found.because) == (Outcome.INCONCLUSIVE, True)


@pytest.mark.parametrize(
    ("got", "outcome"),
    [(120, Outcome.PASS), (125.9, Outcome.PASS), (127, Outcome.FAIL), (149, Outcome.FAIL)],
)
def test_an_overshoot_is_cut_at_cir_and_eir_and_the_margin(got: float, outcome: Outcome) -> None:
    found = find("policing", load("overshoot", 150, got), limit_text="5 %")
    assert found.outcome is outcome
    assert ("does not police" in found.because) is (outcome is Outcome.FAIL)


def test_an_overshoot_that_was_none_says_nothing() -> None:
    found = find("policing", load("overshoot", 150, 125), service=replace(GOOD, eir_bps=45_000_000))
    assert found.outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("short", ["interrupted", "peer-lost", "silent"])
def test_a_load_cut_short_gives_no_rate(short: str) -> None:
    """After a lost peer nobody knows for how long it was sent."""
    whole = load("overshoot", 150, 119)
    cut = replace(whole, count=replace(whole.count, sent_ns=0, short=short))
    for metric in ("policing", "information_rate"):
        found = find(metric, cut)
        assert (found.outcome, found.estimate, "not run to its end" in found.because) == (Outcome.NO_DATA, None, True)
    assert find("information_rate", load("cir", 100, 50), cut).outcome is Outcome.FAIL  # that is known


# ---- loss


def test_a_known_policer_loses_as_much_as_it_must() -> None:
    """Steps of 80 to 110 % of a gigabit at a policer of 952 Mbit/s lose 0, 0, 0, 4.8 and 13.5 %; here with other figures."""
    offered = [80.0, 90.0, 95.0, 100.0, 110.0]
    lost = [0.0, 0.0, 0.0, 0.048, 0.135]
    steps = [load("cir", rate, rate * (1 - share)) for rate, share in zip(offered, lost, strict=True)]
    found = find("frame_loss_ratio", *steps)
    assert found.outcome is Outcome.FAIL
    assert "CIR 110 %" in found.because
    assert found.estimate is not None
    assert found.estimate.value == pytest.approx(0.135, abs=1e-4)
    assert find("frame_loss_ratio", *steps[:3]).outcome is Outcome.PASS
    rates = [step.count.rate_bps / SHARE / 1e6 for step in steps]
    assert rates == pytest.approx([80, 90, 95, 95.2, 95.15], rel=1e-3)


def test_above_the_cir_no_loss_is_judged() -> None:
    assert (
        find("frame_loss_ratio", load("cir", 100), load("overshoot", 150, 120), load("eir", 120, 100)).outcome
        is Outcome.PASS
    )


def test_too_few_frames_prove_nothing_and_the_need_is_told() -> None:
    strict = replace(GOOD, flr=1e-5)
    found = find("frame_loss_ratio", load("cir", 25), load("cir", 100), service=strict)
    assert found.outcome is Outcome.INCONCLUSIVE
    sent = load("cir", 25).count.sent
    assert f"{299_572 - sent:,} more packets" in found.decide
    assert "step: auto" in found.decide
    assert find("frame_loss_ratio", load("cir", 100, seconds=40), service=strict).outcome is Outcome.PASS


def test_every_load_has_to_keep_it_and_all_share_the_error_of_a_fail() -> None:
    near = replace(GOOD, flr=1e-3)
    one = load("cir", 100, lost=100, events=tuple(LossEvent(WAY, at, 0, at, 1) for at in range(100)))
    assert find("frame_loss_ratio", one, service=near).outcome is Outcome.FAIL  # 100 of 81,274 at 95 %
    assert find("frame_loss_ratio", one, *[load("cir", 50)] * 30, service=near).outcome is Outcome.INCONCLUSIVE
    assert find("frame_loss_ratio", one, service=near, others=30).outcome is Outcome.INCONCLUSIVE


def test_frames_a_host_may_have_lost_fail_no_line() -> None:
    one = load("cir", 100, lost=5000)
    assert find("frame_loss_ratio", one).outcome is Outcome.FAIL
    dropped, behind = (
        replace(one, count=replace(one.count, **more)) for more in ({"host_lost": 5000}, {"short": "host"})
    )
    assert find("frame_loss_ratio", dropped).outcome is Outcome.INCONCLUSIVE
    found = find("frame_loss_ratio", behind)
    assert (found.outcome, "fell behind its schedule" in found.because) == (Outcome.INCONCLUSIVE, True)
    cut = replace(one, count=replace(one.count, short="interrupted"))
    late = replace(cut, count=replace(cut.count, sent_ns=round(cut.count.sent_ns * 1.02)))
    assert [find("frame_loss_ratio", each).outcome for each in (cut, late)] == [Outcome.FAIL, Outcome.INCONCLUSIVE]


def test_without_a_figure_it_is_shown_and_a_profile_may_have_one() -> None:
    free = replace(GOOD, flr=None)
    lossy = load("cir", 100, lost=5000)
    assert find("frame_loss_ratio", lossy, service=free).outcome is Outcome.NOT_JUDGED
    assert find("frame_loss_ratio", lossy, service=free, limit_text="agreed or 1e-3").outcome is Outcome.FAIL
    assert (
        find("frame_loss_ratio", lossy, limit_text="agreed or 0.5").outcome is Outcome.FAIL
    )  # what is agreed goes first


# ---- delay


def stream(delay_ns: int, jitter_ns: int, n: int = 2000) -> StampResult:
    """Delays of `delay_ns` and up to `jitter_ns` more, evenly."""
    values = delay_ns + np.arange(n, dtype=np.int64) * jitter_ns // n
    even, one_way, round_trip = Even(), LogLinear(), LogLinear()
    even.add(values)
    one_way.add(values)
    round_trip.add(2 * values)
    none = tally(np.zeros(n, np.bool_))
    summary = Summary(
        sent=n, received=n, forward_delay=one_way.data(), round_trip_delay=round_trip.data(), variation={"forward": even.data()},
        loss={str(way): none for way in Direction},
    )  # fmt: skip
    return StampResult(summary, 200.0, 64, 10**9)


@pytest.mark.parametrize(("delay", "outcome"), [(8_000_000, Outcome.PASS), (11_000_000, Outcome.FAIL)])
def test_delay_under_load_is_judged_one_way(delay: int, outcome: Outcome) -> None:
    one = replace(load("cir", 100), beside=stream(delay, 100_000), stream_bps=147_200)
    assert find("frame_transfer_delay", one).outcome is outcome
    assert find("frame_delay_variation", one).outcome is Outcome.PASS


def test_variation_under_load() -> None:
    one = replace(load("cir", 100), beside=stream(5_000_000, 3_000_000), stream_bps=147_200)
    assert find("frame_delay_variation", one).outcome is Outcome.FAIL


def test_without_a_bound_of_the_clocks_the_round_trip_may_still_prove_it() -> None:
    apart = Conditions(same_clock=False)
    quick = replace(load("cir", 100), beside=stream(4_000_000, 100_000), stream_bps=147_200)
    found = find("frame_transfer_delay", quick, conditions=apart)
    assert (found.outcome, "no longer than both" in found.because) == (Outcome.PASS, True)
    slow = replace(quick, beside=stream(6_000_000, 100_000))
    assert find("frame_transfer_delay", slow, conditions=apart).outcome is Outcome.NO_DATA


def test_more_lost_than_may_be_late_refutes_a_delay() -> None:
    heard = stream(4_000_000, 100_000)
    gone = tally(np.arange(2000) % 25 == 0)
    summary = replace(heard.summary, received=1920, lost_forward=80, loss=heard.summary.loss | {"forward": gone})
    found = find(
        "frame_transfer_delay", replace(load("cir", 100), beside=replace(heard, summary=summary), stream_bps=147_200)
    )
    assert (found.outcome, "longer than any limit" in found.because) == (Outcome.FAIL, True)


def test_no_stream_is_no_delay() -> None:
    assert find("frame_transfer_delay", load("cir", 100)).outcome is Outcome.NO_DATA


# ---- availability


@pytest.mark.parametrize(("bad", "outcome"), [(0, Outcome.PASS), (9, Outcome.PASS), (12, Outcome.FAIL)])
def test_ten_bad_seconds_in_a_row_are_unavailable_time(bad: int, outcome: Outcome) -> None:
    one = load("performance", 100, seconds=900)
    sent, _ = one.count.by_departure[0]
    seconds = tuple((sent, sent // 3 if 300 <= at < 300 + bad else sent) for at in range(900))
    found = find("service_availability", replace(one, count=replace(one.count, by_departure=seconds)))
    assert found.outcome is outcome
    assert f"{bad if bad >= 10 else 0} s unavailable" in found.because


def test_without_a_performance_test_there_is_no_availability() -> None:
    found = find("service_availability", load("cir", 100))
    assert found.outcome is Outcome.NO_DATA


# ---- search


def searched(
    rate: float | None,
    limited: str = "",
    maximum: float = 100e6,
    also: tuple[int, ...] = (),
    far: EndConditions | None = None,
) -> Finding:
    """Of frames of 1518 octets on a line of 100 Mbit/s (l1), rates as l1 counts them. `also`: packet sizes of the plan besides."""
    found = FoundRate(SIZE, round(maximum * SHARE), None if rate is None else rate * SHARE, limited)
    one = Objective(
        "frame_throughput", "min", WAY, 99e6, METRICS["frame_throughput"].relation, limit_text="99 % of cir"
    )
    taken = Measurement(
        Step("search/forward", "search", {"sizes": [[size, 10**8] for size in (46, SIZE, *also)]}, WAY),
        0,
        0,
        search=SearchResult(WAY, 0.0, (), (FoundRate(46, 10**9, 9e8), found), 0.005),
        conditions=Conditions(far=far or EndConditions()),
    )
    return judge(Plan("p", (), (one,), Link(cir_bps=100_000_000)), [taken]).findings[0]


@pytest.mark.parametrize(
    ("rate", "limited", "outcome"),
    [
        (100e6, "", Outcome.PASS), (99.1e6, "", Outcome.PASS), (98.7e6, "", Outcome.INCONCLUSIVE), (98e6, "", Outcome.FAIL),
        (None, "", Outcome.FAIL), (50e6, "host", Outcome.INCONCLUSIVE), (99.5e6, "host", Outcome.PASS), (None, "cap", Outcome.INCONCLUSIVE),
        (100e6, "interrupted", Outcome.INCONCLUSIVE),  # short trials alone have shown it
    ],
)  # fmt: skip
def test_the_size_that_carries_least_decides(rate: float | None, limited: str, outcome: Outcome) -> None:
    found = searched(rate, limited)
    assert found.outcome is outcome
    assert "1518 octets" in found.because
    if limited:
        assert "is known, since" in found.because


def test_sizes_that_were_not_searched_keep_a_line_from_passing() -> None:
    found = searched(100e6, also=(494, 1262))
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "frames of 512 and 1280 octets were not searched to the end" in found.because
    assert searched(98e6, also=(494,)).outcome is Outcome.FAIL


def test_what_a_host_may_have_dropped_refutes_no_rate() -> None:
    found = searched(98e6, far=EndConditions(drops={"softnet_dropped": 3}))
    assert (found.outcome, "a host may have dropped 3 packets" in found.because) == (Outcome.INCONCLUSIVE, True)
