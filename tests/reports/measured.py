"""Measurements as the probes would have returned them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from linkqual import model as m
from linkqual.model import Direction
from linkqual.session.compared import measured
from linkqual.session.symmetry import compare

from .traffic import MS, SECOND, Traffic, histogram, summary, traffic

START = 1_796_023_076_123_456_789  # 2026-11-30T07:17:56Z
FORWARD, REVERSE, ROUND_TRIP = Direction.FORWARD, Direction.REVERSE, Direction.ROUND_TRIP

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
    late = histogram(traffic(5, 4000, 1000, start_ns=0, forward_ns=2_000, jitter_ns=900).forward)
    longest = m.Burst(9, t.start_ns + SECOND, t.start_ns + SECOND + 45_000)
    pacing = m.Pacing(SECOND / t.rate_pps, 100, late, bursts=4000, longest=longest)
    result = m.StampResult(replace(summary(t), pacing=pacing), t.rate_pps, 128, SECOND, family=7)
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


MARKING = m.Step("marking", "marking", {"packets": 20}, packets=180, duration_ns=18 * SECOND, why="Which arrive.")
_DSCPS, _ECNS = (0, 24, 26, 34, 46, 48), (1, 2, 3)


def marking(changes: dict[tuple[int, int], tuple[int, int, int]] | None = None, *, lost: int = 0) -> m.Measurement:
    """20 packets each; `changes` forward: sent -> what so many arrive as. With changes, a trace that shows them at hop 3."""
    changes = changes or {}
    rows = []
    for way in (FORWARD, REVERSE):
        for sent in [(dscp, 0) for dscp in _DSCPS] + [(0, ecn) for ecn in _ECNS]:
            gone = lost if way is FORWARD and sent == (48, 0) else 0
            dscp, ecn, count = changes.get(sent, (0, 0, 0)) if way is FORWARD else (0, 0, 0)
            cells = [(*sent, 20 - count - gone)] + ([(dscp, ecn, count)] if count else [])
            rows.append(m.MarkingRow(way, *sent, 20, gone, arrived=tuple(cell for cell in cells if cell[2])))
    traces = ()
    if changes:
        first, (dscp, ecn, _) = next(iter(changes.items()))
        octets = (first[0] << 2 | first[1],) * 2 + (dscp << 2 | ecn,)
        hops = [hop(at, f"192.0.2.{at}", 5.0, quoted_tos=octet) for at, octet in enumerate(octets, 1)]
        end = hop(4, "192.0.2.33", 10.9, reached=True)
        traces = (m.MarkingTrace(FORWARD, *first, m.Trace("192.0.2.0", "192.0.2.33", 41_001, 33_434, (*hops, end))),)
    result = m.MarkingResult(tuple(rows), 52, SECOND, traces)
    return m.Measurement(MARKING, START + 140 * SECOND, 3 * SECOND, marking=result, conditions=CONDITIONS)


def hop(ttl: int, address: str | None, ms: float = 0.0, **changes: object) -> m.Hop:
    rtt = tuple(int((ms + extra) * MS) for extra in (0.0, 0.03, 0.01)) if address else ()
    return replace(m.Hop(ttl, address, rtt, 3, len(rtt)), **changes)  # type: ignore[arg-type]


def path(symmetric: bool = True, v6: bool = False) -> m.Measurement:
    """Four routers each way, the middle ones silent one way each; or a return over six. IPv4 names them by Record Route."""
    a = (lambda text: f"2001:db8:{text}::1") if v6 else (lambda text: f"192.0.2.{int(text, 16)}")
    told = (lambda text: None) if v6 or not symmetric else a
    label = ("label=24001 tc=0 s=1 ttl=1",)
    there = (
        hop(1, a("1"), 0.21, egress=told("6")),
        hop(2, a("5"), 0.62, egress=told("9")),
        hop(3, None, egress=told("12")),
        hop(4, a("11"), 5.4, labels=label, egress=told("22")),
        hop(5, a("21"), 10.9, reached=True),
    )
    back = (
        hop(1, a("22"), 0.25, egress=told("11")),
        hop(2, a("12"), 5.5, labels=label, egress=told("a")),
        hop(3, None, egress=told("5")),
        hop(4, a("6"), 10.4, egress=told("1")),
        hop(5, a("2"), 11.0, reached=True),
    )
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
    forward, reverse = m.Trace(a("2"), a("21"), 41_000, 862, there), m.Trace(a("21"), a("2"), 862, 41_000, back)
    found = compare(forward, reverse)
    result = m.PathResult(forward, reverse, found.verdict, found.because, found.pairs, measured(forward, reverse))
    return m.Measurement(PATH, START + 130 * SECOND, 9 * SECOND, path=result, conditions=CONDITIONS)
