"""A7, A12, A20, A21, A24: why a line carries no more, with the evidence an engineer would ask for, and what is not its fault."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from linkqual import rules
from linkqual.model import (
    Conditions,
    Diagnosis,
    Direction,
    EndConditions,
    FlowsResult,
    FoundRate,
    Link,
    LoadCount,
    Measurement,
    Objective,
    Outcome,
    Plan,
    Relation,
    SearchResult,
    Service,
    ServicesResult,
    ServiceStep,
    Step,
)
from linkqual.rules.why import diagnose
from linkqual.stats.histogram import LogLinear
from linkqual.stats.overhead import wrapped_goodput
from linkqual.stats.throughput import header_goodput

from ..rules.seeded_lines import FORWARD, stamp, tcp, trains

G = 10**9


def udp(offered: float, loss: float, rise_ms: float = 0.2, flows: int = 1) -> LoadCount:
    """A load at an IP rate of which that share was lost, with delays between 5 ms and `rise_ms` more."""
    sent = 10_000
    lost = round(loss * sent)
    delays = LogLinear()
    delays.add((5e6 + np.linspace(0, 1, 500) ** 0.2 * rise_ms * 1e6).astype(np.int64))
    span = round(sent * 1500 * 8 / offered * 1e9)
    return LoadCount(
        f"{offered:g}", FORWARD, round(offered), span, ((1500, 1),), flows, True, sent, sent * 1500, span, sent - lost, (sent - lost) * 1500, span,
        (sent - lost) * 1500 * 8e9 / span, lost, one_way=delays.data(),
    )  # fmt: skip


def loads(*counts: LoadCount) -> Measurement:
    return Measurement(Step("search/forward", "search", {}, FORWARD), 0, 1, search=SearchResult(FORWARD, 0.0, counts))


def why(link: Link, *measured: Measurement) -> Diagnosis:
    (found,) = diagnose(Plan("made", (), (), link), measured)
    return found


def draw(seed: int = 1) -> Random:
    return Random(seed)


# ---- A7: a policer, and its twin


STEPS = (800e6, 900e6, 950e6, 1000e6, 1100e6)


def policed(limit: float, rise_ms: float) -> Measurement:
    return loads(*(udp(rate, max(0.0, 1 - limit / rate), rise_ms if rate > limit else 0.2) for rate in STEPS))


def test_loads_over_a_policer_lose_what_exceeds_it_and_nothing_waits() -> None:
    link = Link(cir_bps=G, mtu=1500)
    slow = tcp(1, 610e6, draw(), rtt=0.008, resent=2e-3)
    told = why(link, stamp(50_000, 0), slow, policed(952e6, 0.3))
    assert (told.cause, told.confidence) == ("policer", "medium")
    assert "about 952.1 Mbit/s" in told.sentence
    said = dict(told.evidence)["UDP load"]
    assert "4.8 %" in said
    assert "13.45 %" in said
    assert "--only trains" in told.decide
    assert "grew by no more" in dict(told.against)["shaper"]


def test_with_trains_the_policer_is_certain_and_its_bucket_told() -> None:
    link = Link(cir_bps=G, mtu=1500)
    slow, many = tcp(1, 610e6, draw(), rtt=0.008, resent=2e-3), tcp(4, 850e6, draw(2), rtt=0.008, resent=4e-3)
    bucket = trains("policer", 952e6 * 1538 / 1500, draw(), 190e3)
    told = why(link, stamp(50_000, 0), slow, many, policed(952e6, 0.3), bucket)
    assert (told.cause, told.confidence) == ("policer", "high")
    assert "with a bucket of" in told.sentence
    assert "burst size (bucket) of at least 97" in told.decide  # kB: 8 ms of it
    assert "shape at your own edge" in told.decide
    deep = trains("policer", 952e6 * 1538 / 1500, draw(), 5e6)
    assert (
        "burst size" not in why(link, stamp(50_000, 0), slow, many, policed(952e6, 0.3), deep).decide
    )  # it is deep enough
    assert "4 trains: policer of 97" in dict(told.evidence)["trains of packets"]  # as layer 1 counts 952 of IP


def test_the_twin_whose_delay_climbs_is_a_shaper() -> None:
    link = Link(cir_bps=G, mtu=1500)
    slow = tcp(1, 880e6, draw(), rtt=0.008, mean=0.06, resent=1e-4)
    told = why(link, stamp(50_000, 0), slow, policed(930e6, 84.0))
    assert (told.cause, told.confidence) == ("shaper", "medium")
    assert "delay grew by" in told.sentence


def test_one_overload_alone_names_nothing() -> None:
    told = why(
        Link(cir_bps=G, mtu=1500),
        stamp(50_000, 0),
        tcp(1, 610e6, draw(), rtt=0.008, resent=2e-3),
        loads(udp(1100e6, 0.135)),
    )
    assert told.cause == "none"
    assert "not looked for" in dict(told.against)["policer"]


def test_a_policer_of_one_service_among_several_is_none_of_the_line() -> None:
    """Overshoots of two services end at their own rates; only a service that is the whole line tells of it."""
    counts = (udp(40e6, 0.25), udp(41e6, 0.26))
    both = (Service("a", 20_000_000, 10_000_000), Service("b", 50_000_000))
    steps = tuple(ServiceStep("a", FORWARD, "overshoot", 2.0, count) for count in counts)
    link = Link(cir_bps=100_000_000, mtu=1500)
    load = tcp(1, 28e6, draw(), rtt=0.008, resent=2e-3)
    some = Measurement(Step("services", "services"), 0, 1, services=ServicesResult(both, steps))
    assert why(link, stamp(50_000, 0), load, some).cause == "none"
    whole = replace(some, services=ServicesResult((Service("a", 100_000_000),), steps))
    assert why(link, stamp(50_000, 0), load, whole).cause == "policer"


def test_short_packets_do_not_tell_what_long_ones_may_have() -> None:
    short = loads(*(replace(udp(rate, 1 - 30e6 / rate), sizes=((110, 1),)) for rate in (40e6, 50e6)))
    told = why(
        Link(cir_bps=100_000_000, mtu=1500), stamp(50_000, 0), tcp(1, 28e6, draw(), rtt=0.008, resent=2e-3), short
    )
    assert told.cause == "none"


# ---- TCP alone, where neither trains nor UDP told


def ladder(totals: tuple[float, ...], rtt: float, mean: float, resent: float) -> list[Measurement]:
    return [
        tcp(n, total, draw(n), rtt=rtt, mean=mean, resent=resent, window=6_000_000)
        for n, total in zip((1, 4, 16), totals, strict=True)
    ]


def test_few_and_many_streams_that_end_at_one_rate_behind_a_queue() -> None:
    link = Link(cir_bps=91_161_000, mtu=1500)
    told = why(link, stamp(20_000, 0), *ladder((71.0e6, 71.2e6, 70.9e6), 0.0076, 0.146, 1e-3))
    assert (told.cause, told.confidence) == ("shaper", "medium")
    assert "a queue of 138.4 ms fills" in told.sentence
    assert "--only trains" in told.decide


def test_few_and_many_streams_that_end_at_one_rate_without_a_queue() -> None:
    link = Link(cir_bps=77_282_000, mtu=1500)
    saw = ladder((42.3e6, 46.2e6, 49.4e6), 0.0204, 0.0207, 5e-3)
    told = why(link, stamp(20_000, 0), *saw)
    assert (told.cause, told.confidence) == ("policer", "medium")
    assert "the idle line loses nothing" in told.sentence
    assert why(link, stamp(20_000, 60), *saw).cause != "policer"  # it may be the losses of the line
    assert why(link, *saw).cause != "policer"  # nobody looked


def test_a_member_filled_by_one_stream_and_shared_by_others() -> None:
    link = Link(cir_bps=115_746_000, mtu=1500)
    few = tcp(
        4, 81.7e6, draw(4), rtt=0.069, mean=0.084, resent=1e-3, window=3_000_000, flows=(27.2e6, 27.2e6, 12.7e6, 14.6e6)
    )
    one = tcp(1, 27.3e6, draw(1), rtt=0.069, mean=0.08, resent=1e-3, window=3_000_000)
    many = tcp(16, 109e6, draw(16), rtt=0.069, mean=0.089, resent=1e-3, window=3_000_000)
    told = why(link, stamp(20_000, 0), one, few, many)
    assert (told.cause, told.subject, told.confidence) == ("hashing", "flow", "medium")
    assert "a bundle of 4 members" in told.sentence
    assert "4 streams: 3 of them full" in told.sentence


# ---- A12: few flows on four members


def bundle(*rates: float) -> Measurement:
    return tcp(len(rates), sum(rates), draw(), rtt=0.001, mean=0.0015, resent=1e-4, window=60_000_000, flows=rates)


EIGHT = bundle(9.4e9, 3.1e9, 3.12e9, 3.08e9, 2.35e9, 2.36e9, 2.33e9, 2.35e9)


def test_eight_flows_on_three_of_four_members() -> None:
    told = why(Link(cir_bps=40 * G, mtu=1500), stamp(100_000, 0), EIGHT)
    assert told.cause == "hashing"
    assert told.subject == "line"
    assert "3 of 4 members were full, with 1, 3, 4 flows on them" in told.sentence
    assert "1 carried nothing" in told.sentence
    assert "the line is not short" in told.sentence
    assert "queue pairs" in told.decide
    assert "reach very different rates" in dict(told.against)["per-flow cap"]


def test_that_many_flows_carry_the_whole_line_makes_it_certain() -> None:
    many = tcp(64, 37.3e9, draw(), rtt=0.001, mean=0.0015, resent=1e-4, window=60_000_000)
    told = why(Link(cir_bps=40 * G, mtu=1500), stamp(100_000, 0), EIGHT, many)
    assert (told.cause, told.confidence, told.subject) == ("hashing", "high", "flow")
    assert "64 streams 37.16 Gbit/s" in dict(told.evidence)["TCP, few streams against many"]


def test_other_figures_of_a_bundle() -> None:
    """Two of three members of 25 G: five flows, two and three on them."""
    two = bundle(11.6e9, 11.5e9, 7.7e9, 7.75e9, 7.7e9)
    told = why(Link(cir_bps=75 * G, mtu=9000), stamp(100_000, 0), two)
    assert told.cause == "hashing"
    assert "2 of 3 members were full, with 2, 3 flows on them" in told.sentence


# ---- A20: one stream against many


def test_a_window_over_a_round_trip_is_the_rate_and_what_would_be_needed_is_told() -> None:
    link = Link(cir_bps=10 * G, mtu=1500)
    one = tcp(1, 2.79e9, draw(), rtt=0.012, window=4_190_000)
    four = tcp(4, 9.3e9, draw(2), rtt=0.012, mean=0.0125, resent=1e-6, window=4_190_000)
    told = why(link, stamp(100_000, 0), one, four)
    assert (told.cause, told.subject, told.confidence) == ("window", "flow", "medium")
    assert "2.793 Gbit/s" in told.sentence  # 4.19 MB x 8 / 12 ms
    assert "window of 15 MB for 10 Gbit/s at 12 ms" in told.decide
    assert "the line is not at fault" in told.decide
    sure = why(link, stamp(100_000, 0), one, four, loads(udp(8e9, 0.0)))  # one UDP flow has more than the stream
    assert (sure.cause, sure.confidence) == ("window", "high")


def test_a_cap_of_each_flow_with_window_to_spare() -> None:
    one = tcp(1, 4.9e9, draw(), rtt=0.012, window=30_000_000)
    four = tcp(4, 9.3e9, draw(2), rtt=0.012, window=30_000_000)
    told = why(Link(cir_bps=10 * G, mtu=1500), stamp(2_000_000, 0), one, four)
    assert told.cause == "per-flow cap"
    assert "in flight" in dict(told.against)["window"]
    assert told.confidence == "low"  # a member of a bundle would look the same
    assert "--only flows" in told.decide
    counts = (
        udp(9.75e9, 1 - 5.07 / 9.75),
        *(replace(udp(9.7e9, 0.0, flows=n), by_flow=((10_000, 10_000, 15_000_000),) * n) for n in (4, 16, 64)),
    )
    first = replace(counts[0], by_flow=((10_000, 5200, 7_800_000),))
    flows = Measurement(Step("flows/forward", "flows", {}, FORWARD), 0, 1, flows=FlowsResult((first, *counts[1:])))
    sure = why(Link(cir_bps=10 * G, mtu=1500), stamp(2_000_000, 0), one, four, flows)
    assert (sure.cause, sure.confidence) == ("per-flow cap", "medium")
    assert "a bundle whose hash happened to spread these flows evenly" in dict(sure.against)["hashing"]


def test_losses_that_leave_a_stream_150_mbit_at_30_ms() -> None:
    link = Link(cir_bps=10 * G, mtu=1500)
    streams = [tcp(n, n * 148e6, draw(n), rtt=0.030, resent=1.1e-5, window=60_000_000, mss=1460) for n in (1, 16)]
    told = why(link, stamp(2_000_000, 21), *streams, loads(udp(5e9, 1e-5)))
    assert told.cause == "loss"
    said = dict(told.evidence)
    assert "147.2 Mbit/s" in said["Mathis (Reno)"]  # 150.8 Mbit/s at 1.00e-5
    assert "1.05e-5" in said["packets of an idle line"]
    assert "losses below" in told.decide
    assert "were resent" in dict(told.against)["window"] or "in flight" in dict(told.against)["window"]


def test_a_clean_line_of_that_length_is_not_said_to_lose() -> None:
    told = why(Link(cir_bps=G, mtu=1500), stamp(5_000_000, 0), tcp(1, 148e6, draw(), rtt=0.030, window=60_000_000))
    assert told.cause != "loss"
    assert "which leaves a stream at least" in dict(told.against)["loss"]


# ---- A21: an encrypted line


def judged(limit: float) -> tuple[Objective, ...]:
    return (Objective("throughput", "p50", FORWARD, limit, Relation.AT_LEAST),)


def test_what_the_tunnel_takes_is_told_apart_from_what_else_is_missing() -> None:
    link = Link(cir_bps=10 * G, mtu=1438, encapsulation=("ipsec-cbc",))
    allowed = header_goodput(10e9, 1438)
    load = tcp(8, 7.6e9, draw(), rtt=0.004, mss=1386, resent=1e-5, window=60_000_000, allowed=allowed, seconds=60)
    plan = Plan("made", (), judged(0.95 * allowed), link)
    verdict = rules.judge(plan, [stamp(100_000, 0), load])
    assert verdict.outcome is Outcome.FAIL
    (told,) = verdict.diagnoses
    assert told.cause == "none"
    said = dict(told.against)["overhead"]
    assert "adds 62 bytes to each packet of 1438: that leaves 9.012 Gbit/s of 9.39 Gbit/s" in said
    assert "so 1.4" in said  # Gbit/s more are missing
    assert "read the processors of the gateways" in told.decide
    assert "not seen from the ends" in dict(told.against)["packet rate"]


def test_equal_packets_a_second_at_every_size_are_something_that_works_on_each() -> None:
    link = Link(cir_bps=10 * G, mtu=1438, encapsulation=("ipsec",))
    pps = 660_000
    found = tuple(FoundRate(size, round(10e9 * size / (size + 38)), pps * 8.0 * size) for size in (1438, 1024, 512))
    search = Measurement(
        Step("search/forward", "search", {}, FORWARD), 0, 1, search=SearchResult(FORWARD, 0.0, (), found)
    )
    told = why(link, stamp(2_000_000, 0), tcp(8, 7.0e9, draw(), rtt=0.004, mss=1386, window=60_000_000), search)
    assert told.cause == "packet rate"
    assert "660 kpps" in told.sentence
    assert told.confidence != "high"


def test_a_tunnel_that_queues_is_no_shaper_for_certain() -> None:
    link = Link(cir_bps=10 * G, mtu=1438, encapsulation=("ipsec",))
    load = [tcp(n, 7.0e9, draw(n), rtt=0.004, mean=0.03, mss=1386, window=60_000_000) for n in (1, 8)]
    told = why(link, stamp(2_000_000, 0), *load, trains("shaper", 7.45e9, draw()))
    assert told.cause == "shaper"
    assert told.confidence == "medium"
    assert "a gateway that encrypts" in told.because


@pytest.mark.parametrize(("mtu", "takes"), [(1500, 0.0204), (9000, 0.0035)])
def test_macsec_takes_its_share_and_the_line_passes(mtu: int, takes: float) -> None:
    link = Link(cir_bps=10 * G, mtu=mtu, encapsulation=("macsec",))
    allowed, left = header_goodput(10e9, mtu), wrapped_goodput(10e9, mtu, ("macsec",))
    assert 1 - left / allowed == pytest.approx(takes, abs=1e-4)
    load = tcp(8, 0.993 * left, draw(), rtt=0.004, mss=mtu - 52, resent=1e-6, allowed=allowed, seconds=120)
    verdict = rules.judge(Plan("made", (), judged(0.95 * allowed), link), [stamp(100_000, 0), load])
    assert verdict.outcome is Outcome.PASS
    if mtu == 1500:
        (told,) = verdict.diagnoses
        assert (told.cause, told.confidence) == ("overhead", "high")
        assert "32 bytes to each packet of 1500" in told.sentence
    else:
        assert verdict.diagnoses == ()  # a third of one percent is no shortfall


def test_smaller_packets_than_the_contract_allows() -> None:
    link = Link(cir_bps=10 * G, mtu=9000)
    told = why(link, stamp(100_000, 0), tcp(8, 9.38e9, draw(), rtt=0.002, mss=1448, resent=1e-6))
    assert (told.cause, told.confidence) == ("overhead", "high")
    assert "packets of 1500 bytes where the contract has an MTU of 9000" in told.sentence


# ---- A24: the host is the limit


def test_a_host_at_its_limit_fails_no_line() -> None:
    link = Link(cir_bps=100 * G, mtu=9000)
    allowed = header_goodput(100e9, 9000)
    load = tcp(1, 41e9, draw(), rtt=0.0005, mss=8948, window=100_000_000, cpu=1.0, allowed=allowed, seconds=60)
    drops = {"UdpRcvbufErrors": 18_220, "eth0:nic/rx_out_of_buffer": 5_113}
    load = replace(load, conditions=Conditions(far=EndConditions(drops=drops, slot_bps=252 * G)))
    verdict = rules.judge(Plan("made", (), judged(0.95 * allowed), link), [stamp(100_000, 0), load])
    assert verdict.outcome is Outcome.INCONCLUSIVE
    (told,) = verdict.diagnoses
    assert (told.cause, told.confidence) == ("host", "high")
    assert "100 % of one core" in told.sentence
    assert "rx_out_of_buffer +5,113" in told.sentence
    assert "ethtool -G" in told.decide
    assert "slot" not in told.sentence  # generation 4 with 16 lanes carries 100 Gbit/s


def test_a_slot_that_cannot_carry_the_contract() -> None:
    """63 GB/s of a generation 4 slot are both ways added: 31.5 GB/s one way do not feed 400 Gbit/s."""
    link = Link(cir_bps=400 * G, mtu=9000)
    load = tcp(16, 240e9, draw(), rtt=0.0005, mss=8948, window=100_000_000, cpu=0.4)
    load = replace(load, conditions=Conditions(near=EndConditions(slot_bps=252 * G)))
    told = why(link, stamp(100_000, 0), load)
    assert (told.cause, told.confidence) == ("host", "medium")
    assert "carries at most 252 Gbit/s one way, less than the 400 Gbit/s contracted" in told.sentence
    notes = rules.judge(Plan("made", (), (), link), [load]).notes
    assert [note.sentence for note in notes if note.kind == "host"] == [
        "the slot of the near end's card carries at most 252 Gbit/s one way, less than the 400 Gbit/s contracted: "
        "no measurement from there can prove the contract"
    ]


def test_hosts_that_rest_are_not_blamed() -> None:
    told = why(
        Link(cir_bps=100 * G, mtu=9000),
        stamp(100_000, 0),
        tcp(1, 41e9, draw(), rtt=0.0005, mss=8948, window=100_000_000),
    )
    assert told.cause == "none"
    assert "30 % of a core, and neither host dropped packets" in dict(told.against)["host"]


# ---- what holds for every diagnosis


def test_few_seconds_are_never_certain() -> None:
    link = Link(cir_bps=10 * G, mtu=9000)
    told = why(link, stamp(100_000, 0), tcp(8, 9.38e9, draw(), rtt=0.002, mss=1448, resent=1e-6, seconds=3))
    assert (told.cause, told.confidence) == ("overhead", "medium")
    assert told.because == "the load was measured for 3 s only"


def test_a_load_that_was_held_back_or_has_no_contract_needs_no_cause() -> None:
    load = tcp(1, 40e6, draw(), rtt=0.01)
    held = replace(load, step=replace(load.step, params={"streams": 1, "max_rate_bps": 50_000_000}))
    assert diagnose(Plan("made", (), (), Link(cir_bps=G)), [held]) == ()
    assert diagnose(Plan("made", (), (), Link()), [load]) == ()
    assert diagnose(Plan("made", (), (), Link(cir_bps=G)), [stamp(10, 0)]) == ()


def test_each_direction_has_its_own() -> None:
    link = Link(cir_bps=10 * G, cir_reverse_bps=5 * G, mtu=9000)
    there = tcp(8, 9.38e9, draw(), rtt=0.002, mss=1448)
    back = replace(
        tcp(8, 4.69e9, draw(), rtt=0.002, mss=1448),
        step=Step("throughput/reverse/8", "throughput", {"streams": 8}, Direction.REVERSE),
    )
    told = diagnose(Plan("made", (), (), link), [there, back])
    assert [(one.direction.value, one.cause) for one in told] == [("forward", "overhead"), ("reverse", "overhead")]
