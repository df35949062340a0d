"""Documents as a run would have stored them, made of seeded traffic: what every report is tried on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from linkqual import model as m
from linkqual.model import Outcome

from . import loaded
from .measured import (
    CONDITIONS,
    FORWARD,
    PATH,
    PING,
    REVERSE,
    STAMP,
    START,
    marking,
    path,
    ping,
    stamp,
    throughput,
    throughput_step,
)  # fmt: skip
from .traffic import MS, SECOND, traffic
from .yardstick import LINK, objectives, profile


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
        marking(),
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
        marking({(46, 0): (0, 0, 20), (34, 0): (0, 0, 8), (0, 2): (0, 0, 20)}, lost=20),
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


def policed() -> m.Qualification:
    """Every kind of load, on a line policed going forward; why is told."""
    taken = (clean().measurements[0], *loaded.measurements())
    slow = "65 of 65 s forward are slower than 894 Mbit/s, 5 % may be."
    findings = (
        finding(loaded.GOODPUT[0], Outcome.FAIL, slow, 5.76e8, 5.7e8, 5.79e8, 65),
        finding(loaded.GOODPUT[1], Outcome.PASS, "65 s reverse without a slow one.", 9.24e8, 9.2e8, 9.3e8, 65),
    )
    q = document(loaded.LINK, taken, m.Verdict(Outcome.FAIL, findings, (), FAMILY, (loaded.WHY,)))
    return replace(q, plan=replace(q.plan, objectives=loaded.GOODPUT))


def activated() -> m.Qualification:
    """A service activation test, a search, a bundle whose members are full, and a shaper."""
    taken = (loaded.activation(), loaded.search(), loaded.flows(members=True), loaded.shaper())
    return replace(document(loaded.LINK, taken, None), embedded_line="shaped")


SAMPLES: dict[str, Callable[[], m.Qualification]] = {
    sample.__name__: cache(sample)
    for sample in (
        clean,
        embedded,
        lossy,
        few,
        no_data,
        interrupted,
        measured_only,
        simulated,
        hostile,
        policed,
        activated,
    )
}
