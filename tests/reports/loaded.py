"""Loads as the probes would have returned them, of a line policed to 600 of 1000 Mbit/s going forward and good coming back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from linkqual import model as m
from linkqual.model import Direction

from .measured import CONDITIONS, FORWARD, REVERSE, ROUND_TRIP, START
from .traffic import MS, SECOND, Delays, histogram, summary, traffic

CIR, RATE, BUCKET, MTU = 1_000_000_000, 600_000_000, 128_000, 1500
ALLOWED = 941_482_444.0
LINK = m.Link("FRA–ZRH metro 3", "Example Carrier AG", CIR, mtu=MTU, rtt_budget_ns=12 * MS, near="fra1-gw", far="zrh4-gw")  # fmt: skip


def goodput(way: Direction, streams: int, *, mean: float, seconds: int, seed: int, dip: bool = False, bbr: bool = False) -> m.ThroughputResult:  # fmt: skip
    rng = np.random.default_rng(seed)
    rates = rng.normal(mean, 0.01 * mean, seconds)
    if dip:
        rates[seconds // 2 : seconds // 2 + 3] *= 0.72
    forward = way is FORWARD
    added = rng.gamma(2.0, 0.4 * MS if forward else 2.1 * MS, 20_000).astype(np.int64)
    idle = (11.0 * MS + rng.gamma(1.6, 0.02 * MS, 5000)).astype(np.int64)
    lost = ((0.3, 40, "forward"), (0.7, 22, "forward")) if forward else ()
    stream = traffic(seed, 20_000, 500, start_ns=START, jitter_ns=3e5, bursts=lost)
    return m.ThroughputResult(
        streams,
        tuple(float(round(rate)) for rate in rates),
        warmup_bps=(0.4 * mean, 0.9 * mean),
        sent_bytes=int(rates.sum() / 8 * 1.02),
        received_bytes=int(rates.sum() / 8),
        retransmits=4210 if forward else 3,
        congestion_control="bbr" if bbr else "cubic",
        mss=1448,
        rtt_min_ns=11_020_000,
        rtt_mean_ns=12_100_000 if forward else 15_300_000,
        allowed_bps=ALLOWED,
        version="iperf 3.12",
        cpu_near=0.18,
        cpu_far=0.22,
        stopped_by="decided",
        seconds_rtt_ns=tuple(int(v) for v in rng.normal(12.1 * MS, 0.3 * MS, seconds)),
        seconds_retransmits=tuple(int(v) for v in rng.poisson(70 if forward else 0.05, seconds)),
        window_bytes=850_000,
        receive_window_bytes=6_300_000,
        flows_bps=tuple(float(round(v)) for v in rng.dirichlet(np.full(streams, 30.0)) * mean),
        beside=m.StampResult(summary(stream, 60), 500, 128, SECOND),
        idle_round_trip=histogram(idle),
        added={str(way): m.AddedDelay(5_420_000, 5000, 5_421_000, histogram(added))},
    )


def load(way: Direction, streams: int, mean: float, *, judged: bool = False, seconds: int = 5, bbr: bool = False, dip: bool = False) -> m.Measurement:  # fmt: skip
    key = f"throughput/{way}/{streams}" + ("/bbr" if bbr else "")
    control = "bbr" if bbr else "cubic"
    params = {"streams": streams, "judged": judged, "congestion_control": control, "allowed_bps": ALLOWED}
    step = m.Step(key, "throughput", params, way, duration_ns=seconds * SECOND, expected_ns=seconds * SECOND, offered_bps=CIR, total_bytes=CIR * seconds // 8)  # fmt: skip
    result = goodput(way, streams, mean=mean, seconds=seconds, seed=streams + len(way) + bbr, bbr=bbr, dip=dip)
    return m.Measurement(step, START, seconds * SECOND, throughput=result, conditions=CONDITIONS)


def both(streams: int, forward: float, reverse: float) -> m.Measurement:
    params = {"streams": streams, "judged": False, "congestion_control": "cubic", "allowed_bps": ALLOWED}
    step = m.Step(f"throughput/both/{streams}", "throughput", params, ROUND_TRIP, duration_ns=5 * SECOND, offered_bps=CIR)  # fmt: skip
    there = goodput(FORWARD, streams, mean=forward, seconds=5, seed=3)
    back = replace(goodput(REVERSE, streams, mean=reverse, seconds=5, seed=4), beside=None)
    return m.Measurement(step, START, 7 * SECOND, throughput=there, throughput_back=back, conditions=CONDITIONS)


def trains() -> m.Measurement:
    packets, size = 8000, 1538
    times = np.arange(packets) * size * 8 / 1.2e9
    arrived = np.minimum(np.arange(packets) * size, BUCKET + times * RATE / 8)
    picked = np.unique(np.geomspace(1, packets - 1, 80).astype(int))
    curve = tuple((int(times[at] * 1e9), int(arrived[at])) for at in picked)
    one = m.Train("long", 1.2e9, packets, int(arrived[-1] / size), lost=packets - int(arrived[-1] / size), rate_bps=RATE * 1.0, steady_ns=70 * MS, bucket_bytes=128_400.0, rise_ns=90_000, lost_from=167, curve=curve)  # fmt: skip
    again = replace(one, purpose="again", rate_bps=RATE * 0.999, bucket_bytes=127_700.0, curve=curve[::3])
    void = m.Train("again", 1.2e9, packets, 4000, void="the receiving host dropped packets itself")
    result = m.TrainsResult(FORWARD, (one, again, void), "policer", (6.001e8, 5.997e8, 6.004e8), (128_200.0, 126_900.0, 129_400.0), outlasted=True, idle_ns=5_420_000, noise_ns=9_000, because="packets beyond 600 Mbit/s are dropped and the delay stays flat")  # fmt: skip
    step = m.Step("trains/forward", "trains", {"when": "short"}, FORWARD, duration_ns=12 * SECOND, offered_bps=1_200_000_000, total_bytes=37_000_000)  # fmt: skip
    return m.Measurement(step, START, 4 * SECOND, trains=result, conditions=CONDITIONS)


def shaper() -> m.Measurement:
    found = trains()
    assert found.trains is not None
    result = replace(found.trains, direction=REVERSE, kind="shaper", buffer_ns=(84.2e6, 82.0e6, 86.9e6), because="packets wait up to 84 ms before any is dropped")  # fmt: skip
    return replace(found, step=replace(found.step, key="trains/reverse", direction=REVERSE), trains=result)


def count(flows: int, rates: np.ndarray, sent_bps: float = 9e8, seconds: float = 3.0, **changes: object) -> m.LoadCount:
    each = sent_bps / flows * seconds / 8 / MTU
    by_flow = tuple((round(each), round(rate * seconds / 8 / MTU), round(rate * seconds / 8 / MTU) * MTU) for rate in rates)  # fmt: skip
    sent, received = (sum(row[at] for row in by_flow) for at in (0, 1))
    made = m.LoadCount(f"{flows} flows", FORWARD, round(sent_bps), round(seconds * SECOND), ((MTU, 1),), flows, sent=sent, sent_bytes=sent * MTU, sent_ns=round(seconds * SECOND), received=received, received_bytes=received * MTU, received_ns=round(seconds * SECOND), rate_bps=received * MTU * 8 / seconds, lost=sent - received, by_flow=by_flow, cpu_sender=0.2, cpu_receiver=0.3)  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def flows(members: bool = False) -> m.Measurement:
    """All flows share one limit; `members`: eight flows on four members of a bundle, three of them full."""
    if members:
        rates = np.array([9.4] + [3.1] * 3 + [2.35] * 4) / 40 * 9e8
        counts = (count(1, np.array([2.11e8])), count(4, np.full(4, 2.11e8)), count(8, rates))
    else:
        counts = tuple(count(n, np.random.default_rng(n).dirichlet(np.full(n, 400.0)) * 5.85e8) for n in (1, 4, 16, 64))
    step = m.Step("flows/forward", "flows", {"when": "short"}, FORWARD, duration_ns=20 * SECOND, offered_bps=10**9)
    ports = tuple(range(49_000, 49_000 + counts[-1].flows))
    return m.Measurement(step, START, 14 * SECOND, flows=m.FlowsResult(counts, ports), conditions=CONDITIONS)


def _completions(seed: int, sent: int, slow: float) -> Delays:
    rng = np.random.default_rng(seed)
    values = 16.2 * MS + rng.gamma(2.0, 0.08 * MS, sent)
    late = rng.random(sent) < slow
    values[late] += rng.gamma(3.0, 4.0 * MS, int(late.sum()))
    return values.astype(np.int64)


def bursts_of(way: Direction) -> m.BurstsResult:
    forward = way is FORWARD
    values = _completions(5 if forward else 6, 1000, 0.05 if forward else 0.001)
    each: tuple[int | None, ...] = tuple(int(v) for v in values)
    if forward:
        each = (*each[:400], None, *each[401:])
    positions = tuple(int(60 * at**2 / 400) if forward else 0 for at in range(20))
    lost = sum(positions)
    return m.BurstsResult(
        way,
        "sync",
        burst_bytes=600_000,
        period_ns=20 * MS,
        flows=8,
        packet_bytes=1500,
        source="given",
        pace_bps=970_000_000,
        transfer_ns=5 * MS,
        quiet_ns=2 * MS,
        sent=1000,
        completed=999 if forward else 1000,
        completion=histogram(values),
        completions_ns=each,
        held_ns=(0,) * 1000,
        base_rtt_ns=11 * MS,
        late_starts=12 if forward else 0,
        packets=410_000,
        lost=lost,
        lost_by_burst=(0,) * 1000,
        positions=20,
        lost_by_position=positions,
        repaired=lost,
        stopped_by="count",
    )


def bursts() -> m.Measurement:
    step = m.Step("bursts", "bursts", {"pattern": "sync"}, ROUND_TRIP, duration_ns=25 * SECOND, offered_bps=CIR, total_bytes=1_200_000_000)  # fmt: skip
    there, back = bursts_of(FORWARD), bursts_of(REVERSE)
    return m.Measurement(step, START, 21 * SECOND, bursts=there, bursts_back=back, conditions=CONDITIONS)


WHY = m.Diagnosis(
    FORWARD,
    "policer",
    "high",
    "forward, 585 of 941 Mbit/s: a policer drops what exceeds 600 Mbit/s beyond bursts of 128 kB",
    (
        ("trains of packets", "rate 600 Mbit/s (599.7 to 600.4), bucket 128.2 kB, delay flat within 0.09 ms while packets were lost"),
        ("TCP, 16 streams", "585 Mbit/s, 97.5 % of what the policer's rate leaves after headers; 4,210 retransmits"),
    ),
    (
        ("shaper", "the delay did not rise before packets were lost"),
        ("per-flow cap", "64 flows carry no more than one"),
        ("window", "the windows allow 4.6 Gbit/s at this round trip"),
    ),
    "ask the carrier which rate and burst size its ingress policer has; let the sites shape to 600 Mbit/s until it is raised",
    "observations of different kinds agree, and the other causes looked for do not fit",
)  # fmt: skip


def measurements() -> tuple[m.Measurement, ...]:
    fast, slow = 9.38e8, 5.85e8
    ladder = (
        load(FORWARD, 1, slow * 0.7),
        load(REVERSE, 1, fast * 0.98),
        load(FORWARD, 4, slow),
        load(REVERSE, 4, fast),
    )
    judged = (
        load(FORWARD, 16, slow, judged=True, seconds=65, dip=True),
        load(REVERSE, 16, fast, judged=True, seconds=65),
    )
    shown = (both(16, slow * 0.99, fast * 0.97), load(FORWARD, 16, 5.98e8, bbr=True), load(REVERSE, 16, fast, bbr=True))
    spared = m.Measurement(replace(trains().step, key="trains/reverse", direction=REVERSE), START, 0, not_needed="nothing to explain: the reverse goodput did not fall short")  # fmt: skip
    return (*ladder, *judged, *shown, trains(), spared, flows(), bursts())


SERVICES = (
    m.Service("gold", 300_000_000, eir_bps=100_000_000, counts="l2", sizes=((64, 1), (594, 1), (1500, 2)), dscp=46, flr=1e-5, ftd_ns=8 * MS, fdv_ns=2 * MS, availability=0.9999),
    m.Service("best effort", 500_000_000, counts="l2", sizes=((1500, 1),), flr=1e-3),
)  # fmt: skip


def activation() -> m.Measurement:
    made = []
    for service in SERVICES:
        for way in (FORWARD, REVERSE):
            for kind, share in (("cir", 0.25), ("cir", 0.5), ("cir", 0.75), ("cir", 1.0), ("eir", 4 / 3), ("overshoot", 17 / 12)):  # fmt: skip
                if kind == "eir" and not service.eir_bps:
                    continue
                offered = service.cir_bps * share * 0.95
                got = min(offered, 3.6e8) if way is FORWARD and service.name == "gold" else offered
                one = count(1, np.array([got]), offered, 10.0, name=f"{kind} {share:.0%}", direction=way)
                stream = traffic(7, 5000, 500, start_ns=START, jitter_ns=4e4)
                beside = m.StampResult(summary(stream, 20), 500, 128, SECOND, dscp=service.dscp)
                made.append(m.ServiceStep(service.name, way, kind, share, one, beside, 800_000))
    step = m.Step("services", "services", {}, ROUND_TRIP, duration_ns=200 * SECOND, offered_bps=8 * 10**8, total_bytes=10**10)  # fmt: skip
    return m.Measurement(step, START, 180 * SECOND, services=m.ServicesResult(SERVICES, tuple(made)), conditions=CONDITIONS)  # fmt: skip


def search() -> m.Measurement:
    found = (
        m.FoundRate(46, 547_000_000, 310_000_000.0, "host"),
        m.FoundRate(576, 937_000_000, 931_000_000.0),
        m.FoundRate(1500, 975_000_000, 975_000_000.0),
    )
    trials = tuple(count(1, np.array([rate]), rate * 1.0, 5.0, sizes=((1500, 1),)) for rate in (9.75e8, 4.9e8))
    step = m.Step("search/forward", "search", {}, FORWARD, duration_ns=200 * SECOND, offered_bps=CIR)
    return m.Measurement(step, START, 90 * SECOND, search=m.SearchResult(FORWARD, 0.0, trials, found, 0.005), conditions=CONDITIONS)  # fmt: skip


def objective(metric: str, statistic: str, way: Direction, limit: float | None, **more: object) -> m.Objective:
    relation = m.Relation.AT_LEAST if metric == "throughput" else m.Relation.AT_MOST
    return m.Objective(metric, statistic, way, limit, relation, **more)  # type: ignore[arg-type]


GOODPUT = tuple(objective("throughput", "p5", way, 0.95 * ALLOWED, limit_text="95 % of goodput", source="RFC 6349") for way in (FORWARD, REVERSE))  # fmt: skip
