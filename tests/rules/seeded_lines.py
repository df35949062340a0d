"""Measurements of lines whose truth is known: UDP flows pass the bucket in memory, TCP follows the formulas with a spread of its own.

`line(cause, seed)` draws a line of that kind and what would be measured of it; figures differ with every seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import numpy as np

from linkqual.bottleneck import Bottleneck, Rate
from linkqual.model import (
    Conditions,
    Direction,
    EndConditions,
    FlowsResult,
    Link,
    LoadCount,
    Measurement,
    Plan,
    StampResult,
    Step,
    Summary,
    Tally,
    ThroughputResult,
    Train,
    TrainsResult,
)
from linkqual.session.load_schedule import flow_of
from linkqual.stats.histogram import LogLinear
from linkqual.stats.throughput import cubic, header_goodput, window_limit

FORWARD = Direction.FORWARD
MTU, OVER = 1500, 38
SHARE = MTU / (MTU + OVER)  # of a rate counted at layer 1 that IP packets have
PAYLOAD = (MTU - 52) / MTU
MSS = 1448


def flow_count(
    rate: Rate | None, flows: int, load_bps: float, seed: int, seconds: float = 2.0, loss: float = 0.0, bundle: int = 0
) -> LoadCount:
    """UDP of so many flows, in turn, at an IP rate through a bucket; `bundle`: seed of its hash."""
    chance = np.random.default_rng(seed)
    gap = MTU * 8e9 / load_bps
    sent = int(seconds * 1e9 / gap)
    flow = np.array([flow_of(turn, flows) for turn in range(sent)])
    times = ((np.arange(sent) + chance.uniform(0, 0.5, sent)) * gap).astype(np.int64)
    hashes = np.random.default_rng([bundle, flows]).integers(0, 2**32, flows)[flow]
    out, lost = times.copy(), np.zeros(sent, bool)
    if rate is not None:
        out, lost = Bottleneck(rate).through(times, np.full(sent, MTU), hashes.astype(np.int64))
    lost = lost | (chance.random(sent) < loss)
    came = np.sort(out[~lost])
    bins = np.bincount((came - came[0]) // 200_000_000)
    delays = LogLinear()
    delays.add((out - times)[~lost] + 5_000_000)
    by_flow = []
    for one in range(flows):
        mine = flow == one
        got = int((mine & ~lost).sum())
        by_flow.append((int(mine.sum()), got, got * MTU))
    return LoadCount(
        f"{flows} flows", FORWARD, round(load_bps), round(seconds * 1e9), ((MTU, 1),), flows, True,
        sent, sent * MTU, int(times[-1] - times[0]), len(came), len(came) * MTU, int(came[-1] - came[0]),
        len(came) * MTU * 8e9 / int(came[-1] - came[0]), int(lost.sum()),
        interval_ns=200_000_000, intervals=tuple((int(n), int(n) * MTU) for n in bins), by_flow=tuple(by_flow), one_way=delays.data(),
    )  # fmt: skip


def tcp(streams: int, bps: float, chance: Random, *, rtt: float, mean: float | None = None, resent: float = 0.0, seconds: int = 10,
        window: int | None = None, cpu: float = 0.3, mss: int = MSS, allowed: float | None = None, flows: tuple[float, ...] = ()) -> Measurement:  # fmt: skip
    """A load; `bps` goodput of all streams, `rtt` and `mean` in seconds, `resent` per packet."""
    rates = tuple(bps * chance.uniform(0.985, 1.01) for _ in range(seconds))
    step = Step(f"throughput/forward/{streams}", "throughput", {"streams": streams}, FORWARD)
    octets = round(sum(rates) / 8)
    return Measurement(step, 0, seconds * 10**9, throughput=ThroughputResult(
        streams, rates, sent_bytes=octets, received_bytes=octets, retransmits=round(resent * octets / mss), congestion_control="cubic", mss=mss,
        rtt_min_ns=round(rtt * 1e9), rtt_mean_ns=round((mean or rtt) * 1e9), allowed_bps=allowed, cpu_near=cpu, cpu_far=cpu, receive_window_bytes=window,
        flows_bps=flows or tuple(bps / streams for _ in range(streams)),
    ))  # fmt: skip


def stamp(sent: int, lost: int) -> Measurement:
    """The packet stream of the idle line; losses one by one."""
    tally = Tally(sent, lost, 1, 1, 1, 1 if lost else 0, 1 if lost > 1 else 0, ((1, lost - 2),) if lost > 2 else ())
    summary = Summary(sent=sent, received=sent - lost, lost_forward=lost, loss={"forward": tally})
    return Measurement(Step("stamp", "stamp"), 0, 1, stamp=StampResult(summary, 1000, 64, 10**9))


def trains(
    kind: str, bps: float, chance: Random, bucket: float = 1e5, buffer_s: float = 0.05, count: int = 4
) -> Measurement:
    """What trains would tell of a bucket: `bps` at layer 1, to within a percent. "none": no limit below `bps`."""
    seen = [Train("long", 1.5 * bps, 2000, 1500) for _ in range(count)]
    if kind == "none":
        result = TrainsResult(FORWARD, tuple(seen), "none", at_least_bps=bps, outlasted=True)
    else:
        rate = bps * chance.uniform(0.993, 1.007)
        size, depth = bucket * chance.uniform(0.9, 1.1), buffer_s * 1e9 * chance.uniform(0.9, 1.1)
        result = TrainsResult(
            FORWARD, tuple(seen), kind, (rate, 0.995 * rate, 1.005 * rate), (size, 0.9 * size, 1.1 * size),
            (depth, 0.9 * depth, 1.1 * depth) if kind == "shaper" else None, outlasted=True, slow_too=True,
        )  # fmt: skip
    return Measurement(Step("trains/forward", "trains", {}, FORWARD), 0, 1, trains=result)


@dataclass(slots=True)
class Line:
    """A line with its truth. `cause`: what must be named ("" for a line that carries all of it)."""

    cause: str
    link: Link
    measured: list[Measurement] = field(default_factory=list)

    @property
    def plan(self) -> Plan:
        return Plan("made", (), (), self.link)


LADDER = (1, 4, 16)
FLOWS = (1, 4, 16, 64)


def line(cause: str, seed: int, *, udp: bool = True, with_trains: bool = True) -> Line:
    """One line of that kind, with everything measured unless left out."""
    chance = Random(f"{cause} {seed}")
    contract = chance.choice((10e6, 20e6, 40e6))
    link = Link(cir_bps=round(contract), mtu=MTU)
    made = Line(cause, link)
    rtt = chance.uniform(0.002, 0.03)
    whole = header_goodput(contract, MTU)
    bucket, buffer_s = chance.uniform(16e3, 5e5), chance.uniform(0.005, 0.2)
    packets = chance.choice((20_000, 50_000))
    _MAKE[cause](made, chance, contract, whole, rtt, bucket, buffer_s, packets, udp, with_trains)
    if not with_trains:
        made.measured = [one for one in made.measured if one.trains is None]
    if not udp:
        made.measured = [one for one in made.measured if one.flows is None]
    return made


def _flows(made: Line, rate: Rate | None, contract: float, seed: int, loss: float = 0.0) -> None:
    counts = tuple(flow_count(rate, flows, contract * SHARE, seed + flows, loss=loss, bundle=seed) for flows in FLOWS)
    made.measured.append(Measurement(Step("flows/forward", "flows", {}, FORWARD), 0, 1, flows=FlowsResult(counts)))


def _bucket(made, chance, contract, whole, rtt, bucket, buffer_s, packets, udp, _with, policer):  # type: ignore[no-untyped-def]
    rate = contract * chance.uniform(0.35, 0.95)
    bucket = max(bucket, 50e3) if policer else bucket
    made.measured.append(stamp(packets, 0))
    for streams in LADDER:
        if policer:
            share, mean, resent = (
                min(0.97, chance.uniform(0.5, 0.85) + 0.1 * streams**0.4),
                rtt,
                10 ** chance.uniform(-3, -2),
            )
        else:
            share = chance.uniform(0.96, 1.0) if buffer_s > rtt else chance.uniform(0.8, 0.95)
            mean, resent = rtt + buffer_s * chance.uniform(0.4, 0.9), 10 ** chance.uniform(-5, -3)
        made.measured.append(
            tcp(streams, rate / contract * whole * share, chance, rtt=rtt, mean=mean, resent=resent, window=6_000_000)
        )
    made.measured.append(trains("policer" if policer else "shaper", rate, chance, bucket, buffer_s))
    if udp:
        _flows(
            made,
            Rate(round(rate), policer, round(bucket), round(buffer_s * rate / 8)),
            contract,
            chance.randrange(10**6),
        )


def _policer(*given):  # type: ignore[no-untyped-def]
    _bucket(*given, True)


def _shaper(*given):  # type: ignore[no-untyped-def]
    _bucket(*given, False)


def _cap(made, chance, contract, whole, rtt, bucket, _buffer, packets, udp, _with):  # type: ignore[no-untyped-def]
    share = chance.uniform(0.12, 0.7)
    policer = chance.random() < 0.5
    made.measured.append(stamp(packets, 0))
    for streams in LADDER:
        got = (
            min(streams * share * (chance.uniform(0.7, 0.95) if policer else 0.98), chance.uniform(0.97, 0.99)) * whole
        )
        made.measured.append(tcp(streams, got, chance, rtt=rtt, mean=rtt + 0.01, resent=1e-3, window=6_000_000))
    made.measured.append(trains("policer" if policer else "shaper", share * contract, chance, min(bucket, 1e5), 0.03))
    if udp:
        limit = Rate(round(contract), policer, 100_000, 200_000, per_flow_bps=round(share * contract))
        _flows(made, limit, contract, chance.randrange(10**6))


def _hashing(made, chance, contract, whole, rtt, bucket, _buffer, packets, udp, _with):  # type: ignore[no-untyped-def]
    members, seed = chance.choice((2, 4, 4, 8)), chance.randrange(10**6)
    made.measured.append(stamp(packets, 0))
    for streams in LADDER:
        on = [chance.randrange(members) for _ in range(streams)]
        weights = [chance.uniform(0.7, 1.3) for _ in range(streams)]
        rates = tuple(
            whole / members * 0.98 * weights[i] / sum(w for j, w in enumerate(weights) if on[j] == on[i])
            for i in range(streams)
        )
        made.measured.append(
            tcp(streams, sum(rates), chance, rtt=rtt, mean=rtt + 0.01, resent=1e-3, window=6_000_000, flows=rates)
        )
    made.measured.append(trains("shaper", contract / members, chance, min(bucket, 5e4), 0.03))
    if udp:
        _flows(made, Rate(round(contract), False, 32_000, 60_000, members=members), contract, seed)


def _window(made, chance, contract, whole, rtt, _bucket, _buffer, packets, udp, _with):  # type: ignore[no-untyped-def]
    window = whole * rtt / 8 * chance.uniform(0.1, 0.6)
    made.measured.append(stamp(packets, 0))
    for streams in LADDER:
        got = min(
            streams * window_limit(window, rtt * 1e9) * chance.uniform(0.85, 0.99), chance.uniform(0.97, 0.99) * whole
        )
        full = got < 0.9 * whole
        made.measured.append(
            tcp(
                streams,
                got,
                chance,
                rtt=rtt,
                mean=rtt if full else 1.5 * rtt,
                resent=0 if full else 1e-4,
                window=round(window),
            )
        )
    made.measured.append(
        trains("none", 1.2 * contract, chance) if chance.random() < 0.5 else trains("shaper", contract, chance)
    )
    if udp:
        _flows(made, Rate(round(contract)), contract, chance.randrange(10**6))


def _loss(made, chance, contract, whole, _rtt, _bucket, _buffer, _packets, udp, _with):  # type: ignore[no-untyped-def]
    rtt, ratio = chance.uniform(0.025, 0.04), 10 ** chance.uniform(-3, -2)
    alone = cubic(MSS, rtt * 1e9, ratio)
    while alone > 0.6 * whole:
        rtt, alone = 1.5 * rtt, cubic(MSS, 1.5 * rtt * 1e9, ratio)
    made.measured.append(stamp(20_000, sum(chance.random() < ratio for _ in range(20_000))))
    for streams in LADDER:
        got = min(streams * alone * chance.uniform(0.6, 1.3), chance.uniform(0.9, 0.98) * whole)
        made.measured.append(
            tcp(streams, got, chance, rtt=rtt, resent=ratio * chance.uniform(0.8, 1.5), window=6_000_000)
        )
    made.measured.append(
        trains("none", 1.2 * contract, chance) if chance.random() < 0.5 else trains("shaper", contract, chance)
    )
    if udp:
        _flows(made, Rate(round(contract)), contract, chance.randrange(10**6), loss=ratio)


def _host(made, chance, contract, whole, rtt, _bucket, _buffer, packets, udp, _with):  # type: ignore[no-untyped-def]
    got = whole * chance.uniform(0.3, 0.7)
    made.measured.append(stamp(packets, 0))
    drops = {"eth0:nic/rx_out_of_buffer": chance.randrange(100, 10_000), "UdpRcvbufErrors": 5}
    for streams in LADDER:
        one = tcp(
            streams, got, chance, rtt=rtt, mean=rtt * 1.1, resent=1e-5, window=60_000_000, cpu=chance.uniform(0.96, 1.0)
        )
        made.measured.append(
            Measurement(
                one.step, 0, 1, throughput=one.throughput, conditions=Conditions(far=EndConditions(drops=drops))
            )
        )
    made.measured.append(trains("none", 1.2 * contract, chance))
    if udp:
        _flows(made, None, contract, 1)


def _overhead(made, chance, contract, _whole, rtt, _bucket, _buffer, packets, udp, _with):  # type: ignore[no-untyped-def]
    made.link = Link(cir_bps=round(contract), mtu=9000)
    got = header_goodput(contract, MTU) * chance.uniform(0.988, 0.999)
    made.measured.append(stamp(packets, 0))
    made.measured += [
        tcp(streams, got, chance, rtt=rtt, mean=2 * rtt, resent=1e-5, window=6_000_000) for streams in LADDER
    ]
    made.measured.append(trains("shaper", contract, chance, buffer_s=0.2))


def _none(made, chance, contract, whole, rtt, _bucket, _buffer, packets, udp, _with):  # type: ignore[no-untyped-def]
    got = whole * chance.uniform(0.3, 0.8)
    made.measured.append(stamp(packets, 0))
    made.measured += [tcp(streams, got, chance, rtt=rtt, mean=1.1 * rtt, window=60_000_000) for streams in LADDER]
    made.measured.append(trains("none", 1.2 * contract, chance))
    if udp:
        _flows(made, None, contract, 1)


def _clean(made, chance, contract, whole, rtt, _bucket, _buffer, packets, udp, _with):  # type: ignore[no-untyped-def]
    made.measured.append(stamp(packets, 0))
    made.measured += [
        tcp(streams, whole * 0.998, chance, rtt=rtt, mean=2 * rtt, resent=1e-4, window=6_000_000) for streams in LADDER
    ]


_MAKE = {
    "policer": _policer, "shaper": _shaper, "per-flow cap": _cap, "hashing": _hashing, "window": _window, "loss": _loss, "host": _host,
    "overhead": _overhead, "none": _none, "": _clean,
}  # fmt: skip
CAUSES = tuple(_MAKE)
