"""Documents as a run would have stored them, made of seeded traffic: what every report is tried on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from linkqual import model as m
from linkqual.model import Direction, Outcome, Relation

from .traffic import MS, SECOND, Traffic, histogram, summary, traffic

START = 1_796_023_076_123_456_789  # 2026-11-30T07:17:56Z
FORWARD, REVERSE, ROUND_TRIP = Direction.FORWARD, Direction.REVERSE, Direction.ROUND_TRIP
LINK = m.Link(
    name="FRA–ZRH wave 7",
    vendor="Example Carrier AG",
    cir_bps=10_000_000_000,
    mtu=9000,
    rtt_budget_ns=12 * MS,
    near="fra1-gw",
    far="zrh4-gw",
)


def objectives(link: m.Link) -> tuple[m.Objective, ...]:
    """A yardstick of the kind `training` is."""
    budget = link.rtt_budget_ns
    goodput = None if link.cir_bps is None else link.cir_bps * 0.9885 * 0.95
    one_way = "half of the round trip budget"
    flr = "MEF 23.2 CPO, performance tier 1, label H: FLR ≤ 1e-5"
    pdv = "RDMA reordering window of 1 ms at 10 Gbit/s; evaluated as RFC 5481 section 6.5"
    rate = "contract, schedule B 2.1: 95 % of the goodput the headers allow at the contracted rate"
    return (
        m.Objective("loss_ratio", "ratio", FORWARD, 1e-5, source=flr, limit_text="1e-5"),
        m.Objective("loss_ratio", "ratio", REVERSE, 1e-5, source=flr, limit_text="1e-5"),
        m.Objective(
            "round_trip_delay", "p99", ROUND_TRIP, budget, source="contract: round trip budget", limit_text="rtt_budget"
        ),
        m.Objective("pdv", "p99.9", FORWARD, 1 * MS, source=pdv, limit_text="1 ms"),
        m.Objective("pdv", "p99.9", REVERSE, 1 * MS, source=pdv, limit_text="1 ms"),
        m.Objective(
            "throughput", "p10", FORWARD, goodput, Relation.AT_LEAST, source=rate, limit_text="95 % of goodput"
        ),
        m.Objective(
            "throughput", "p10", REVERSE, goodput, Relation.AT_LEAST, source=rate, limit_text="95 % of goodput"
        ),
        m.Objective(
            "one_way_delay",
            "p99",
            FORWARD,
            None if budget is None else budget / 2,
            required=False,
            source=one_way,
            limit_text="rtt_budget / 2",
        ),
        m.Objective(
            "reordered_ratio",
            "ratio",
            FORWARD,
            1e-4,
            required=False,
            source="ITU-T Y.1540 appendix: RoCE treats reordering as loss",
            limit_text="1e-4",
        ),
    )


def profile(link: m.Link) -> m.Profile:
    return m.Profile(
        name="training",
        title="Training across sites",
        purpose="Gradient exchange between two sites: little loss, a steady round trip, the contracted rate in both directions.",
        objectives=objectives(link),
        probes={
            "stamp": {"rate": "20 kpps", "packets": 2_000_000, "packet": "128 B", "timeout": "1 s"},
            "ping": {"count": 50},
            "throughput": {"streams": [1, 8], "seconds": 20},
            "path": {},
        },
        file="linkqual.profiles/training.yaml",
        notes=("A red line of loss counts packets of at most 128 B: longer ones meet more bit errors.",),
    )


STAMP = m.Step(
    "stamp",
    "stamp",
    {"rate_pps": 20_000, "packet_bytes": 128},
    packets=2_000_000,
    duration_ns=101 * SECOND,
    expected_ns=17 * SECOND,
    offered_bps=24_960_000,
    total_bytes=624_000_000,
    why="loss ≤ 1e-5 at 95 % needs 332,858 packets without a loss; at most 2,000,000 with losses.",
)
PING = m.Step(
    "ping", "ping", {"count": 50}, packets=50, duration_ns=6 * SECOND, total_bytes=8_400, why="A cross-check."
)
PATH = m.Step("path", "path", {}, duration_ns=20 * SECOND, total_bytes=24_000, why="Both directions, same flow.")


def throughput_step(direction: Direction, streams: int) -> m.Step:
    return m.Step(
        f"throughput/{direction}/{streams}",
        "throughput",
        {"streams": streams},
        direction,
        duration_ns=25 * SECOND,
        expected_ns=25 * SECOND,
        offered_bps=10_000_000_000,
        total_bytes=31_250_000_000,
        why=f"goodput with {streams} stream{'s' if streams > 1 else ''}, {direction}.",
    )


CLOCK = m.ClockState("chrony", True, 38_000, "stratum 2, last offset 4.1 µs, root delay 61 µs")
KERNEL = dict.fromkeys(("T1", "T4"), "kernel")
CONDITIONS = m.Conditions(
    near=m.EndConditions(
        "fra1-gw",
        "Debian 12, Linux 6.1.0-25-amd64, 32 CPUs",
        {"linkqual": "0.1.0", "python": "3.11.2", "iperf3": "3.12"},
        CLOCK,
        KERNEL,
        8_388_608,
        {"UdpRcvbufErrors": 0, "UdpSndbufErrors": 0, "softnet_dropped": 0},
    ),
    far=m.EndConditions(
        "zrh4-gw",
        "Debian 12, Linux 6.1.0-25-amd64, 32 CPUs",
        {"linkqual": "0.1.0", "python": "3.11.2", "iperf3": "3.12"},
        replace(CLOCK, error_ns=51_000, detail="stratum 2, last offset 9.7 µs"),
        dict.fromkeys(("T2", "T3"), "kernel"),
        8_388_608,
        {"UdpRcvbufErrors": 0, "UdpSndbufErrors": 0, "softnet_dropped": 0},
    ),
    clock_error_ns=89_000,
)


def stamp(t: Traffic, stopped_by: str, decisions: tuple[m.Decision, ...] = (), **changes: object) -> m.Measurement:
    late = traffic(5, 4000, 1000, start_ns=0, forward_ns=2_000, jitter_ns=900).forward
    result = m.StampResult(summary(t), t.rate_pps, 128, SECOND, lateness=histogram(late), family=7)
    result = replace(result, stopped_by=stopped_by, decisions=decisions)
    measurement = m.Measurement(STAMP, t.start_ns, int(t.seconds * SECOND), stamp=result, conditions=CONDITIONS)
    return replace(measurement, **changes)  # type: ignore[arg-type]


def ping(rtt_ns: float = 11.07 * MS, answered: int = 50) -> m.Measurement:
    rtt = np.random.default_rng(2).gamma(2.0, 0.03 * MS, answered) + rtt_ns
    values = tuple(int(v) for v in rtt)
    unanswered = tuple(range(answered + 1, 51))
    result = m.PingResult(50, answered, unanswered=unanswered, rtt_ns=values)
    if values:
        spread = int(np.std(values))
        result = replace(
            result, rtt_min_ns=min(values), rtt_avg_ns=int(np.mean(values)), rtt_max_ns=max(values), rtt_mdev_ns=spread
        )
    return m.Measurement(PING, START + 20 * SECOND, 5 * SECOND, ping=result, conditions=CONDITIONS)


def throughput(direction: Direction, streams: int, mean_bps: float, seconds: int = 20) -> m.Measurement:
    rng = np.random.default_rng(streams * 7 + len(direction))
    rates = tuple(float(round(v)) for v in rng.normal(mean_bps, mean_bps * 0.006, seconds))
    result = m.ThroughputResult(
        streams,
        rates,
        warmup_bps=tuple(mean_bps * part for part in (0.41, 0.83, 0.97)),
        sent_bytes=int(sum(rates) / 8) + 4_000_000,
        received_bytes=int(sum(rates) / 8),
        retransmits=streams * 3,
        congestion_control="cubic",
        mss=8948,
        rtt_min_ns=11_020_000,
        rtt_mean_ns=12_400_000,
        allowed_bps=9_885_000_000.0,
        version="iperf 3.12",
        cpu_near=0.38,
        cpu_far=0.52,
        stopped_by="fixed length",
    )
    step = throughput_step(direction, streams)
    offset = {("forward", 1): 30, ("forward", 8): 55, ("reverse", 1): 80, ("reverse", 8): 105}[
        (str(direction), streams)
    ]
    return m.Measurement(step, START + offset * SECOND, 24 * SECOND, throughput=result, conditions=CONDITIONS)


def hop(ttl: int, address: str | None, ms: float = 0.0, **changes: object) -> m.Hop:
    rtt = tuple(int((ms + extra) * MS) for extra in (0.0, 0.03, 0.01)) if address else ()
    return replace(m.Hop(ttl, address, rtt, 3, len(rtt)), **changes)  # type: ignore[arg-type]


def path(symmetric: bool = True, v6: bool = False) -> m.Measurement:
    a = (lambda text: f"2001:db8:{text}::1") if v6 else (lambda text: f"192.0.2.{int(text, 16)}")
    label = ("label=24001 tc=0 s=1 ttl=1",)
    forward = (
        hop(1, a("1"), 0.21),
        hop(2, a("5"), 0.62),
        hop(3, None),
        hop(4, a("11"), 5.4, labels=label),
        hop(5, a("21"), 10.9, reached=True),
    )
    back = (
        hop(1, a("22"), 0.25),
        hop(2, a("12"), 5.5, labels=label),
        hop(3, None),
        hop(4, a("6"), 10.4),
        hop(5, a("2"), 11.0, reached=True),
    )
    pairs: tuple[tuple[int | None, int | None], ...] = ((1, 5), (2, 4), (3, 3), (4, 2), (5, 1))
    because = "5 hops each way; hop addresses pair up by /30, one hop silent in both directions."
    if not symmetric:
        back = (
            hop(1, a("22"), 0.25),
            hop(2, a("62"), 3.1),
            hop(3, a("66"), 9.8, others=(a("6a"),)),
            hop(4, None),
            hop(5, a("6e"), 14.2),
            hop(6, a("6"), 16.4),
            hop(7, a("2"), 17.0, reached=True),
        )
        pairs = ((1, 7), (2, 6), (3, None), (4, None), (None, 5), (None, 4), (None, 3), (None, 2), (5, 1))
        because = "the return path has 7 hops against 5 and shares no router between TTL 2 and the far end."
    result = m.PathResult(
        m.Trace(a("0"), a("21"), 41_000, 862, forward),
        m.Trace(a("21"), a("0"), 862, 41_000, back),
        "symmetric" if symmetric else "asymmetric",
        because,
        pairs,
    )
    return m.Measurement(PATH, START + 130 * SECOND, 9 * SECOND, path=result, conditions=CONDITIONS)


def finding(  # numbers: value, low, high, n
    objective: m.Objective,
    outcome: Outcome,
    because: str,
    *numbers: float,
    **changes: object,
) -> m.Finding:
    unit = {"loss_ratio": "ratio", "reordered_ratio": "ratio", "throughput": "bit/s"}.get(objective.metric, "ns")
    estimate = None
    if numbers:
        value, low, high, n = numbers
        estimate = m.Estimate(value, low, high, objective.confidence, int(n), unit, "order statistics")
    step = "throughput" if objective.metric == "throughput" else "stamp"
    rule = m.Rule.NONE if estimate is None else m.Rule.SEQUENTIAL if step == "stamp" else m.Rule.EXACT
    return replace(m.Finding(objective, outcome, because, estimate, rule=rule, step=step), **changes)  # type: ignore[arg-type]


def document(link: m.Link, measurements: tuple[m.Measurement, ...], verdict: m.Verdict | None) -> m.Qualification:
    yardstick = profile(link)
    steps = tuple(measurement.step for measurement in measurements)
    reasons = (
        "loss ≤ 1e-5 is proven kept by 332,858 packets without a loss: 17 s at 20 kpps.",
        "A line at 1e-3 is proven broken after about 1,400 packets.",
        "p10 of the seconds needs 20 whole seconds per direction.",
    )
    ended = max((x.started_ns + x.elapsed_ns for x in measurements), default=START + SECOND)
    return m.Qualification(
        schema=m.SCHEMA,
        linkqual_version="0.1.0",
        run="2026-11-30T07-17-56_fra-zrh",
        started_ns=START,
        ended_ns=ended,
        profile=yardstick,
        plan=m.Plan("training", steps, yardstick.objectives, link, reasons),
        peer="zrh4-gw.example.net",
        measurements=measurements,
        verdict=verdict,
        zone="Europe/Zurich",
    )


FAMILY = (
    "7 red lines: each may pass at 5 % error; on the failing side 0.05 / 7 each (Bonferroni), "
    "so that a line good in every respect fails with at most 5 %."
)


def clean() -> m.Qualification:
    """Everything measured, everything kept, a real peer."""
    t = traffic(1, 332_858, 20_000, start_ns=START)
    o = objectives(LINK)
    kept = "no packet lost of 332,858: loss is at most 9e-6 with 95 % confidence, the limit is 1e-5."
    findings = (
        finding(o[0], Outcome.PASS, kept, 0.0, 0.0, 9.0e-6, 332_858),
        finding(o[1], Outcome.PASS, kept, 0.0, 0.0, 9.0e-6, 332_858),
        finding(o[2], Outcome.PASS, _kept("99 %", "11.32 ms", "12 ms"), 11.318 * MS, 11.314 * MS, 11.322 * MS, 332_858),
        finding(o[3], Outcome.PASS, _kept("99.9 %", "267 µs", "1 ms"), 267_100, 261_900, 272_400, 332_858),
        finding(o[4], Outcome.PASS, _kept("99.9 %", "271 µs", "1 ms"), 270_800, 266_000, 275_900, 332_858),
        finding(o[5], Outcome.PASS, _fast("9.62", "forward"), 9.62e9, 9.54e9, 9.66e9, 20),
        finding(o[6], Outcome.PASS, _fast("9.6", "reverse"), 9.6e9, 9.55e9, 9.65e9, 20),
        finding(o[7], Outcome.PASS, _kept("99 %", "5.548 ms", "6 ms"), 5.548 * MS, 5.459 * MS, 5.637 * MS, 332_858),
        finding(o[8], Outcome.PASS, "no packet of 332,858 arrived out of order.", 0.0, 0.0, 9.0e-6, 332_858),
    )
    decisions = (
        m.Decision(o[0].key, Outcome.PASS, 332_858, 0, 0, 1.0, kept),
        m.Decision(o[1].key, Outcome.PASS, 332_858, 0, 0, 1.0, kept),
        m.Decision(o[3].key, Outcome.PASS, 3_291, 0, 0, 2.4, "passed at packet 3,291"),
    )
    measurements = (
        stamp(t, "decided", decisions),
        ping(),
        *(throughput(d, n, bps) for d, n, bps in _RATES),
        path(),
    )
    notes = (
        m.Note(
            "ping", "ping's median round trip (11.12 ms) differs from STAMP's by 40 µs: the far host's ICMP answer."
        ),
        m.Note("path", "Both directions cross the same routers."),
    )
    return document(LINK, measurements, m.Verdict(Outcome.PASS, findings, notes, FAMILY))


_RATES = ((FORWARD, 1, 9.41e9), (FORWARD, 8, 9.68e9), (REVERSE, 1, 9.37e9), (REVERSE, 8, 9.66e9))


def _kept(share: str, value: str, limit: str) -> str:
    return f"{share} of the packets took at most {value}, proven within {limit}."


def _fast(rate: str, direction: str) -> str:
    return f"nine of ten seconds {direction} carried at least {rate} Gbit/s of the 9.885 Gbit/s the headers allow."


def embedded() -> m.Qualification:
    """The demo: the virtual line, with its own counters as truth."""
    q = clean()
    truth = {
        "line": "clean",
        "forward": {"delay_ns": 5_400_000, "dropped": 0, "forwarded": 332_858},
        "reverse": {"delay_ns": 5_600_000, "dropped": 0, "forwarded": 332_858},
    }
    link = replace(LINK, name="embedded line clean", vendor=None, near="west", far="east")
    note = m.Note(
        "host", "Both ends share 2 CPUs of one host: throughput beyond 1 Gbit/s is the host's, not the line's.", "warn"
    )
    verdict = replace(q.verdict, notes=(*q.verdict.notes, note)) if q.verdict else None
    measurements = tuple(replace(x, conditions=replace(x.conditions, same_clock=True)) for x in q.measurements)
    q = replace(q, peer="embedded line clean", embedded_line="clean", truth=truth, verdict=verdict, zone="UTC")
    return replace(q, plan=replace(q.plan, link=link), measurements=measurements)


def lossy() -> m.Qualification:
    """Bursts lost on the way back, a long return path, a slow reverse direction."""
    rng = np.random.default_rng(11)
    bursts = [(float(w), int(s), "reverse") for w, s in zip(rng.random(38), rng.geometric(0.14, 38), strict=True)]
    bursts += [(0.61, 412, "reverse"), (0.2, 1, "forward"), (0.83, 2, "forward")]
    t = traffic(
        3, 180_000, 20_000, start_ns=START, reverse_ns=11_400_000, jitter_ns=60_000, spikes=2e-3, bursts=tuple(bursts)
    )
    o = objectives(LINK)
    lost = int(t.lost_reverse.sum())
    ratio = lost / 179_997
    findings = (
        finding(
            o[0],
            Outcome.INCONCLUSIVE,
            "3 of 180,000 packets lost in 2 events (1.67e-5); the interval holds the limit of 1e-5.",
            1.67e-5,
            3.4e-6,
            4.87e-5,
            180_000,
            decide="about 1,100,000 more packets (55 s at 20 kpps) if the line goes on like this.",
        ),
        finding(
            o[1],
            Outcome.FAIL,
            f"{lost} of 179,997 packets lost in 39 events, the largest of 412 packets in 20.6 ms: "
            f"at least 2.4e-3 with 95 % confidence, 240 times the limit of 1e-5.",
            ratio,
            ratio * 0.7,
            ratio * 1.4,
            179_997,
        ),
        finding(
            o[2],
            Outcome.FAIL,
            "1 % of the packets took more than 17.42 ms; the budget is 12 ms. The return path is 6 ms longer than the way there.",
            17.42 * MS,
            17.4 * MS,
            17.44 * MS,
            179_000,
        ),
        finding(o[3], Outcome.PASS, _kept("99.9 %", "862 µs", "1 ms"), 862_000, 845_000, 884_000, 180_000),
        finding(
            o[4],
            Outcome.INCONCLUSIVE,
            "99.9 % of the packets took at most 1.01 ms above the smallest delay; the interval holds the limit of 1 ms.",
            1.01 * MS,
            0.982 * MS,
            1.04 * MS,
            179_000,
            decide="about 60,000 more packets (3 s at 20 kpps).",
        ),
        finding(o[5], Outcome.PASS, _fast("9.62", "forward"), 9.62e9, 9.54e9, 9.66e9, 20),
        finding(
            o[6],
            Outcome.FAIL,
            "nine of ten seconds reverse carried at least 4.61 Gbit/s, 49 % of the 9.391 Gbit/s asked.",
            4.61e9,
            4.55e9,
            4.66e9,
            20,
        ),
        finding(o[7], Outcome.PASS, _kept("99 %", "5.81 ms", "6 ms"), 5.81 * MS, 5.72 * MS, 5.9 * MS, 180_000),
        finding(o[8], Outcome.PASS, "no packet of 180,000 arrived out of order.", 0.0, 0.0, 1.66e-5, 180_000),
    )
    notes = (
        m.Note("path", "The return path differs: 7 hops against 5, 6 ms longer.", "warn"),
        m.Note("loss", "96 % of the loss sits in one event of 20.6 ms: a protection switch looks like this.", "warn"),
    )
    slow = ((FORWARD, 1, 9.41e9), (FORWARD, 8, 9.68e9), (REVERSE, 1, 4.41e9), (REVERSE, 8, 4.66e9))
    decisions = (m.Decision(o[1].key, Outcome.FAIL, 9_211, 44, 6, 9.1, "failed at packet 9,211"),)
    measurements = (
        stamp(t, "cap", decisions),
        ping(17.1 * MS, 46),
        *(throughput(d, n, bps) for d, n, bps in slow),
        path(symmetric=False),
    )
    return document(LINK, measurements, m.Verdict(Outcome.FAIL, findings, notes, FAMILY))


def few() -> m.Qualification:
    """Ten thousand packets, none lost: too few to prove 1e-5. No limit of the line was given."""
    link = m.Link(name="10.20.0.7", near="lab-a")
    t = traffic(4, 10_000, 1_000, start_ns=START)
    o = objectives(link)
    loss = "no packet lost of 10,000: loss could still be up to 3e-4, the limit is 1e-5."
    more = "289,572 more packets without a loss, 4 min 50 s at 1 kpps."
    give = "Give --rtt-budget and --cir, or a link file, to judge them."
    findings = (
        finding(o[0], Outcome.INCONCLUSIVE, loss, 0.0, 0.0, 3.0e-4, 10_000, decide=more),
        finding(o[1], Outcome.INCONCLUSIVE, loss, 0.0, 0.0, 3.0e-4, 10_000, decide=more),
        finding(
            o[2],
            Outcome.NOT_JUDGED,
            "99 % took at most 11.32 ms.",
            11.32 * MS,
            11.3 * MS,
            11.34 * MS,
            10_000,
            decide=give,
        ),
        finding(o[3], Outcome.PASS, _kept("99.9 %", "267 µs", "1 ms"), 267_100, 251_900, 292_400, 10_000),
        finding(o[4], Outcome.PASS, _kept("99.9 %", "271 µs", "1 ms"), 270_800, 256_000, 295_900, 10_000),
        finding(o[5], Outcome.NOT_JUDGED, "measured 938 Mbit/s.", 9.38e8, 9.31e8, 9.4e8, 20, decide=give),
        finding(o[6], Outcome.NOT_JUDGED, "measured 936 Mbit/s.", 9.36e8, 9.3e8, 9.4e8, 20, decide=give),
        finding(o[7], Outcome.NOT_JUDGED, "no bound of the clock error between both ends.", decide=give),
        finding(o[8], Outcome.INCONCLUSIVE, "none of 10,000 out of order.", 0.0, 0.0, 3.0e-4, 10_000),
    )
    unsynchronised = replace(CONDITIONS, clock_error_ns=None)
    measurements = (
        stamp(t, "cap", conditions=unsynchronised),
        ping(answered=0),
        *(throughput(d, n, bps / 10.03) for d, n, bps in _RATES),
        path(v6=True),
    )
    return document(link, measurements, m.Verdict(Outcome.INCONCLUSIVE, findings, (), FAMILY))


def no_data() -> m.Qualification:
    """The far end never answered."""
    o = objectives(LINK)
    why = "no data: the far end did not answer."
    fix = "start `linkqual agent` on zrh4-gw and let UDP 862 and TCP 4862 through."
    findings = tuple(finding(x, Outcome.NO_DATA, why, decide=fix) for x in o)
    fault = m.Fault("unreachable", "zrh4-gw.example.net: no answer in 5 s", "is the agent running? try ping zrh4-gw")
    steps = (STAMP, PING, throughput_step(FORWARD, 8), PATH)
    measurements = tuple(m.Measurement(step, START, SECOND, fault=fault) for step in steps)
    return document(LINK, measurements, m.Verdict(Outcome.NO_DATA, findings, (), FAMILY))


def interrupted() -> m.Qualification:
    """Ctrl-C in the middle of the packets; no throughput, the far end has no iperf3."""
    q = few()
    no_iperf = m.Fault("missing-program", "the far end has no iperf3", "apt-get install iperf3 on zrh4-gw")
    cut = m.Fault("interrupted", "stopped by Ctrl-C after 10,000 of 2,000,000 packets")
    step = throughput_step(FORWARD, 8)
    measurements = (replace(q.measurements[0], fault=cut), m.Measurement(step, START, 2 * SECOND, fault=no_iperf))
    return replace(q, measurements=measurements, interrupted="Ctrl-C after 12 s")


def measured_only() -> m.Qualification:
    """`linkqual measure`: no verdict."""
    return replace(clean(), verdict=None)


def simulated() -> m.Qualification:
    """Made in memory."""
    return replace(embedded(), simulated=True)


def hostile() -> m.Qualification:
    """Names that try to be markup, to steer the terminal, or to turn the line around; others are merely foreign."""
    evil = '<script>alert("x")</script>\x1b[2J\u202egnp.exe'
    link = replace(
        LINK,
        name="上海–法兰克福 专线 №7 🚄",
        vendor=evil,
        near="קצה קרוב",
        far="'\"><img src=//evil.example/x onerror=1>",
    )
    q = lossy()
    first, *others = q.verdict.findings if q.verdict else ()
    verdict = m.Verdict(
        Outcome.FAIL, (replace(first, because=evil, decide=evil), *others), (m.Note("path", evil, "warn"),), evil
    )
    named = m.EndConditions(
        evil, evil, {evil: evil}, m.ClockState(evil, False, None, evil), {"T1": evil}, None, {evil: 3}, (evil,)
    )
    measurements = (replace(q.measurements[0], conditions=m.Conditions(near=named, far=named)), *q.measurements[1:])
    shown = replace(q.profile, name=evil, title=evil, purpose=evil, notes=(evil,))
    return replace(
        q,
        run="run </title><b>",
        peer=evil,
        zone="Mars/<b>Olympus",
        profile=shown,
        plan=replace(q.plan, link=link, reasons=(evil,)),
        measurements=measurements,
        verdict=verdict,
        truth={evil: {"n": evil}},
        interrupted=evil,
    )


SAMPLES: dict[str, Callable[[], m.Qualification]] = {
    sample.__name__: cache(sample)
    for sample in (clean, embedded, lossy, few, no_data, interrupted, measured_only, simulated, hostile)
}
