"""One document with every kind of field filled in, written out by hand. Run this file to write golden/schema-1.json anew."""

from __future__ import annotations

from pathlib import Path

from linkqual import document
from linkqual.model import (
    ClockState,
    ClockStep,
    Compared,
    Conditions,
    Decision,
    Direction,
    EndConditions,
    Estimate,
    Fault,
    Finding,
    FlowsResult,
    FoundRate,
    Histogram,
    Hop,
    HostFloor,
    LineSegment,
    Link,
    LoadCount,
    Located,
    LossEvent,
    MarkingResult,
    MarkingRow,
    MarkingTrace,
    Measurement,
    Note,
    Objective,
    Outcome,
    PathResult,
    PingResult,
    Place,
    Plan,
    Profile,
    Qualification,
    Relation,
    Rule,
    SearchResult,
    Segment,
    SelfCheck,
    Service,
    ServicesResult,
    ServiceStep,
    Slice,
    StampResult,
    Step,
    Summary,
    Tally,
    ThroughputResult,
    Trace,
    Verdict,
)

GOLDEN = Path(__file__).parent / "golden" / "schema-1.json"
START = 1_796_022_000_123_456_789

LOSS = Objective("loss_ratio", "ratio", Direction.FORWARD, 1e-5, source="Vertrag § 4 — 合同", limit_text="1e-5")
RATE = Objective(
    "throughput", "p10", Direction.REVERSE, 8.94e9, Relation.AT_LEAST, 0.99, False, "contract", "95 % of goodput"
)
GOLD = Service("gold – 金", 10**9, 5 * 10**8, 10**8, "l2", ((46, 7), (1500, 1)), 46, 1e-5, 12_000_000, 1_000_000, 0.999)
LINK = Link(
    "上海 – Zhongwei 2", "Example", 10**10, 5 * 10**9, "l2", 9000, 12_000_000, "Shanghai", "Zhongwei", services=(GOLD,),
    fibre_km=1900.5,
    segments=(LineSegment("access – 接入", "near", "10.0.0.2", "Carrier A", 10**9), LineSegment("core", "10.0.0.2", "far")),
)  # fmt: skip
CIR = LoadCount(
    "gold – 金 CIR 100 %", Direction.REVERSE, 5 * 10**8, 10**10, ((46, 7), (1500, 1)), sent=9, received=8, lost=1
)
STAMP = Step("stamp", "stamp", {"rate_pps": 20000, "window": 512, "fixed": False}, packets=2_000_000, why="loss")
LOAD = Step(
    "throughput/reverse/4", "throughput", {"streams": 4, "allowed_bps": None, "b": [1, 2.5, "x"]}, Direction.REVERSE
)

SUMMARY = Summary(
    sent=2**63 - 1,
    unsent=3,
    received=332_857,
    lost_forward=1,
    first_sent_ns=START,
    last_sent_ns=START + 16_642_900_000,
    round_trip_delay=Histogram(3, -5, 11_400_000, 33_000_001, (0, 4711), (1, 2)),
    ipdv={"reverse": Histogram(), "forward": Histogram(1, 7, 7, 7, (7,), (1,))},
    jitter_rfc3550_ns={"forward": 1234.5, "reverse": 0.1},
    loss={"forward": Tally(10, 2, 1, 3, 5, 2, 0, ((1, 4), (2, 1)))},
    over={"round_trip_delay/round-trip/p99": Tally(10)},
    loss_events=(LossEvent(Direction.FORWARD, START + 5, 0, 17, 1), LossEvent(None, START + 9, 8, 40, 3)),
    slices=(Slice(START, 20_000, 1, 0, 0, 11_200_000, None, 11_400_000), Slice(START + 10**9, 0, 0, 0, 0)),
    clock_steps=(ClockStep(3, 9, START + 3, START - 47_999_991, 100, -47_999_900, 10_000_000, 10_000_050),),
    segments=(Segment(START, Histogram(1, 5, 5, 5, (5,), (1,)), Histogram()), Segment(None)),
    crossed=5,
    forward_hops={"250": 332_857},
)

DOCUMENT = Qualification(
    schema=1,
    linkqual_version="0.1.0",
    run="2026-11-30 \"first\" run",
    started_ns=START,
    ended_ns=START + 90 * 10**9,
    profile=Profile("training", "Inter-site training", "Says why.", (LOSS, RATE), {"stamp": {"rate_pps": 20000}}, "training.yaml", ("a note",)),
    plan=Plan("training", (STAMP, LOAD), (LOSS, RATE), LINK, ("332,858 packets",)),
    peer="linkqual://203.0.113.7:8620",
    measurements=(
        Measurement(
            STAMP,
            START,
            17_000_000_000,
            stamp=StampResult(
                SUMMARY,
                20_000.0,
                100,
                2_000_000_000,
                decisions=(Decision("loss_ratio/forward/ratio", Outcome.PASS, 332_858, 0, 0, 1.0, "no loss event"),),
                stopped_by="decided",
                family=2,
                mix=((64, 7), (100, 4)),
                far_end="stateful",
            ),
            conditions=Conditions(
                EndConditions(
                    "near-host",
                    "Linux x86_64, 2 CPUs",
                    {"python": "3.11.7", "linkqual": "0.1.0"},
                    ClockState("chrony", True, 250_000, "stratum 3"),
                    {"T1": "kernel", "T4": "kernel"},
                    33_554_432,
                    {"UdpRcvbufErrors": 2},
                    ("busy",),
                    clock_before=ClockState("chrony", False, None, "no source"),
                    clock_stepped_ns=-48_000_000,
                    floor=HostFloor(1000, 424, 1439, 25_489, 1000.0, "kernel", ""),
                ),
                clock_error_ns=500_000,
            ),
        ),
        Measurement(
            LOAD,
            START + 20 * 10**9,
            5,
            throughput=ThroughputResult(4, (9.41e9, 9.4e9, 0.0), (1e9,), 7, 6, cpu_near=0.25, allowed_bps=9.4148e9),
            fault=Fault("peer-lost", "the far end went away after 3 s", "start the agent again"),
        ),
        Measurement(Step("ping", "ping"), START, 1, ping=PingResult(20, 19, unanswered=(7,), rtt_ns=(8_000_000,), rtt_mdev_ns=0)),
        Measurement(
            Step("path", "path"),
            START,
            1,
            path=PathResult(
                Trace("10.0.0.1", "10.9.0.1", 33_000, 862, (Hop(1, "10.0.0.2", (123_456,), 3, 3, ("label=24001 tc=0 s=1 ttl=1",)), Hop(2))),
                Trace("10.9.0.1", "10.0.0.1", 862, 33_000, fault=Fault("no-capability", "raw sockets refused")),
                "undetermined",
                "the reverse trace is missing",
                ((1, None), (2, 1)),
                Compared("link beside", 2, 2, (0.5, 1.0), (0.2, 0.5), (2,), (2,), "ask the carrier"),
            ),
        ),
        Measurement(
            Step("flows/forward", "flows", direction=Direction.FORWARD),
            START,
            1,
            flows=FlowsResult(
                (
                    LoadCount(
                        "2 flows", Direction.FORWARD, 20_000_000, 10**9, ((1500, 1),), 2, True, 1666, 2_499_000, 999_000_000,
                        1660, 2_490_000, 998_000_000, 19_947_896.5, 6, 1, 2, 3, 0, 10**9, ((1600, 2_400_000), (60, 90_000)),
                        ((1000, 998), (666, 662)), ((833, 830, 1_245_000), (833, 830, 1_245_000)), Histogram(1, 7, 7, 7, (7,), (1,)),
                        (LossEvent(Direction.FORWARD, START, 5, 10, 6, 15),), "host", 0.25, 0.5,
                    ),
                ),
                (40_001, 40_002),
            ),
        ),
        Measurement(
            Step("services/configuration/reverse", "services", direction=Direction.REVERSE),
            START,
            1,
            services=ServicesResult(
                (GOLD,),
                (ServiceStep(GOLD.name, Direction.REVERSE, "cir", 1.0, CIR, StampResult(Summary(sent=1), 200.0, 64, 10**9, dscp=46), 147_200),),
            ),
        ),
        Measurement(
            Step("search/reverse", "search", direction=Direction.REVERSE),
            START,
            1,
            search=SearchResult(
                Direction.REVERSE, 1e-6, (CIR,), (FoundRate(46, 10**8, None), FoundRate(1500, 10**9, 9.5e8, "host")), 0.005
            ),
        ),
        Measurement(
            Step("marking", "marking"),
            START,
            1,
            marking=MarkingResult(
                (
                    MarkingRow(Direction.FORWARD, 46, 0, 20, 1, 2, 0, ((0, 0, 9), (46, 0, 8))),
                    MarkingRow(Direction.REVERSE, 46, 0, 19, unmarked=19),
                ),
                52,
                2_000_000_000,
                (MarkingTrace(Direction.FORWARD, 46, 0, Trace("10.0.0.1", "10.9.0.1", 33_000, 862, (Hop(1, "10.0.0.2", quoted_tos=184),))),),
            ),
        ),
    ),
    verdict=Verdict(
        Outcome.FAIL,
        (
            Finding(
                LOSS, Outcome.PASS, "no loss event in 332,858 packets",
                Estimate(0.0, 0.0, 9e-6, 0.95, 332_858, "ratio", "sequential"), rule=Rule.SEQUENTIAL, step="stamp",
            ),
            Finding(RATE, Outcome.NO_DATA, "three seconds are too few", decide="29 more good seconds"),
        ),
        (Note("host", "2 packets were dropped by this host", "warn"),),
        "Bonferroni over 2 red lines",
        checks=(SelfCheck("symmetric routes", "FAIL", "link beside", (("traces", "link 2 differs"),), "ask the carrier"),),
        places=(Place("end A's egress", Direction.FORWARD, "measured", "at least 1 Gbit/s (L1)", (("trains", "1 Gbit/s"),)),),
        demarcation=(
            Located(
                "narrowest hop", Direction.FORWARD, "between hop 1 (10.0.0.2) and the receiving host", 1, 2, ("core",), (), "high",
                (("narrow/forward", "link 2 of 2"),), "in core", "nothing",
            ),
        ),
    ),
    embedded_line=None,
    interrupted="",
    zone="Asia/Shanghai",
    truth={"drops": {"reverse": 0, "forward": 1}, "exact": True},
)  # fmt: skip

if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(document.dump(DOCUMENT), encoding="utf-8")
