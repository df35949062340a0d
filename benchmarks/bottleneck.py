#!/usr/bin/env python3
"""How well the narrowest hop is found: random chains of real routers in namespaces, load that expires hop by hop, an agent at the far end.

    benchmarks/bottleneck.py [--chains 100] [--seed 1] [--kind plain | --all] [--memory] [--json]

2 to 6 routers, 20 to 400 Mbit/s, buckets of 8 KB to 1 MB, queues of 20 to 100 ms. Kinds: `policer` (the narrowest link, bucket from 50 KB on), `silent` (two
routers send no ICMP), `icmp` (one ICMP message in 10 s), `delay` (10 ms there, 15 ms back, 1 ms of jitter), `cross` (20 or 40 % of the narrowest
link used by others, all the way from the first router on), `reverse` (measured from the far end toward this one; the other way is at 20 Mbit/s). Right: the narrowest link, or one within 15 % of it.
`--all`: every kind, with the number of chains it is judged by. `--memory`: the same chains of the kinds plain, policer, delay and cross in memory, hundreds in a
minute, on a clock that counts what the control channel takes. `--json`: the table as one object on the last line. Without `--memory` it needs namespaces.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Any

import numpy as np
from narrow_chain import KINDS as IN_MEMORY
from narrow_chain import MBIT, OTHERS, chain_of, measure, random_rates, right

from linkqual.bottleneck import OVERHEAD, Rate
from linkqual.impair import Impairment, Jitter
from linkqual.lab.description import Expect, Line, LineLink, Node
from linkqual.lab.isolate import run_isolated
from linkqual.lab.network import VirtualLine
from linkqual.model import Direction, Link, Measurement, NarrowResult, Step
from linkqual.net.control import Control
from linkqual.net.load import LoadEnd
from linkqual.net.load_ends import LoadConfig
from linkqual.probes import narrow
from linkqual.probes.bench import Bench
from linkqual.session.load_phase import Phase
from linkqual.session.train import Bounds
from linkqual.units import NS_PER_S
from linkqual.wire.pairing import Peer

KINDS = {
    "plain": 100,
    "policer": 40,
    "silent": 20,
    "icmp": 20,
    "delay": 20,
    "cross": 20,
    "reverse": 20,
}  # and how many of each `--all` takes
SURE = ("high", "medium", "low", "")
BYTES = 60_000_000
SLOW = Rate(20 * MBIT, buffer_bytes=250_000, counts="l2")
Row = dict[str, Any]


def described(rates: tuple[Rate, ...], kind: str, seed: int) -> Line:
    """The chain as a line of the lab."""
    names = ["near", *(f"r{number}" for number in range(1, len(rates))), "far"]
    quiet = set(np.random.default_rng(seed).permutation(names[1:-1])[:2]) if kind == "silent" else set()
    interval = 10 * NS_PER_S if kind == "icmp" else 0
    nodes = [Node(name, name in ("near", "far"), name in quiet, icmp_interval_ns=interval) for name in names]
    links = []
    for number, rate in enumerate(rates):
        there, back = Impairment(rate=rate), Impairment()
        if kind == "reverse":
            there, back = Impairment(rate=SLOW) if number == 0 else Impairment(), Impairment(rate=rate)
        if kind == "delay" and number == len(rates) // 2:
            jitter = Jitter(spread_ns=1_000_000)
            there = Impairment(10_000_000, jitter, rate=rate)
            back = Impairment(15_000_000, jitter)
        links.append(LineLink(names[number], names[number + 1], there=there, back=back))
    forward, title = tuple(names), f"chain {seed}"
    return Line(title, title, "", tuple(nodes), tuple(links), forward, forward[::-1], Link(), Expect(), seed)


def one(rates: tuple[Rate, ...], kind: str, seed: int) -> Row:
    """Build the chain in an isolation of its own, measure it, and take it down."""
    hear, say = os.pipe()

    def inside() -> int:
        os.write(say, json.dumps(_measured(rates, kind, seed)).encode())
        return 0

    run_isolated(inside)
    os.close(say)
    with os.fdopen(hear) as answer:
        row: Row = json.loads(answer.read() or '{"right": false, "said": "the measurement broke"}')
    return row


def agent(stack: ExitStack, virtual: VirtualLine) -> Peer:
    """Started at the far end, until the stack ends."""
    command = [
        sys.executable,
        "-m",
        "linkqual",
        "agent",
        "--ephemeral",
        "--quiet",
        "--bind",
        virtual.address(virtual.far),
    ]
    with virtual.inside(virtual.far):
        process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    stack.callback(process.kill)
    assert process.stdout is not None
    said = process.stdout.readline().strip()
    return Peer.parse(said)


def _measured(rates: tuple[Rate, ...], kind: str, seed: int) -> Row:
    way = Direction.REVERSE if kind == "reverse" else Direction.FORWARD
    line = described(rates, kind, seed)
    seen = tuple(reversed(rates)) if way is Direction.REVERSE else rates
    with ExitStack() as stack:
        virtual = stack.enter_context(VirtualLine(line))
        peer = agent(stack, virtual)
        others = OTHERS[seed % 2] * min(rate.bps for rate in seen) if kind == "cross" else 0
        if others:
            _others(stack, virtual, round(others))
        stack.enter_context(virtual.inside(virtual.near))
        control = stack.enter_context(Control.connect(peer))
        began, measured = time.monotonic(), _probe(control, way)
        seconds = time.monotonic() - began
    if measured.narrow is None:
        return {"seed": seed, "right": False, "said": str(measured.fault), "seconds": seconds}
    return told(seen, kind, seed, measured.narrow, seconds)


def in_memory(rates: tuple[Rate, ...], kind: str, seed: int) -> Row:
    """The same without packets."""
    chain = chain_of(rates, kind, seed)
    found, _ = measure(chain, Bounds(BYTES, overhead_bytes=OVERHEAD["l2"]))
    return told(rates, kind, seed, found, chain.now / NS_PER_S)


def told(seen: tuple[Rate, ...], kind: str, seed: int, found: NarrowResult, seconds: float) -> Row:
    """What was found of links at these rates, in the order of the direction measured."""
    least, value = min(rate.bps for rate in seen), found.rate_bps[0] if found.rate_bps else None
    limit = min(seen, key=lambda rate: abs(rate.bps - (value or least)))
    truth = "policer" if limit.policer else "shaper"
    return {
        "seed": seed,
        "right": right(seen, found),
        "error": abs(value / least - 1) if value else None,
        "seconds": round(seconds, 2),
        "megabytes": found.sent_bytes / 1e6,
        "links": found.links,
        "named": found.named,
        "expired": found.expired,
        "narrow": found.narrow,
        "kind": found.kind,
        "kind_right": found.kind == truth,
        "kind_wrong": found.kind not in (truth, "limit"),
        "confidence": found.confidence,
        "said": found.because,
        "rates": [round(rate.bps / MBIT) for rate in seen],
        "buckets": [round(rate.bucket_bytes / 1000) for rate in seen],
        "profile": [(one.number, round((one.rate_bps or one.offered_bps) / MBIT, 1)) for one in found.seen],
        "mbps": round(value / MBIT, 2) if value else None,
        "free": [round(bps / MBIT, 2) for bps in found.free_bps] if found.free_bps else None,
    }


def _probe(control: Control, way: Direction) -> Measurement:
    params = {
        "bytes": BYTES, "packet_bytes": 1500, "counts": "l2", "fastest_bps": 0.0, "contracted_bps": 0, "max_rate_bps": None,
    }  # fmt: skip
    bench = Bench(control.peer_address, control.near_address, control=control)
    return narrow.measure(Step(f"narrow/{way}", "narrow", params, way), bench)


def _others(stack: ExitStack, virtual: VirtualLine, bps: int) -> None:
    """Other traffic from the first router on (the sending host's egress is the host's), or from the host where that is the narrowest, at an even rate, until the stack ends."""
    rates = [link.there.rate.bps for link in virtual.line.links if link.there.rate is not None]
    source = virtual.near if rates[0] == min(rates) else virtual.line.forward[1]
    near, far = virtual.address(source), virtual.address(virtual.far)
    with virtual.inside(virtual.far):
        receiver = stack.enter_context(LoadEnd.start("load-receiver", LoadConfig(7, near, 1, 972, bind_address=far)))
    with virtual.inside(source):
        config = LoadConfig(7, far, 1, 972, peer_port=receiver.ports[0])
        sender = stack.enter_context(LoadEnd.start("load-sender", config))
    phase = Phase("others", bps, duration_ns=30 * NS_PER_S, sizes=((1000, 1),), jitter=0.5)
    receiver.begin(1, phase)
    sender.begin(1, phase)
    time.sleep(0.5)


def figures(rows: list[Row]) -> Row:
    """What the rows of one kind say together."""
    errors = [row["error"] for row in rows if row.get("error") is not None]
    sure = [row.get("confidence", "") for row in rows]
    return {
        "chains": len(rows),
        "right": sum(row["right"] for row in rows),
        "kind_right": sum(bool(row.get("kind_right")) for row in rows),
        "kind_wrong": sum(bool(row.get("kind_wrong")) for row in rows),
        "capacity_error_median": round(statistics.median(errors), 6) if errors else None,
        "capacity_error_p95": round(float(np.quantile(errors, 0.95)), 6) if errors else None,
        "seconds_median": round(statistics.median(row.get("seconds", 0.0) for row in rows), 2),
        "seconds_max": round(max(row.get("seconds", 0.0) for row in rows), 2),
        "megabytes_max": round(max(row.get("megabytes", 0) for row in rows), 1),
        "confidence": {word: sure.count(word) for word in SURE},
        "wrong": {word: sum(not row["right"] for row in rows if row.get("confidence", "") == word) for word in SURE},
    }


def _line(kind: str, table: Row) -> str:
    wrong = ", ".join(f"{count} {word or 'none'}" for word, count in table["wrong"].items() if count) or "-"
    median, high = (
        f"{100 * table[name]:.3f} %" if table[name] is not None else "-"
        for name in ("capacity_error_median", "capacity_error_p95")
    )
    return (
        f"{kind:8} {table['right']:4} of {table['chains']:3}  kind {table['kind_right']:3}, wrong {table['kind_wrong']:2}  error {median:>8} {high:>8}  "
        f"{table['seconds_median']:5} s, at most {table['seconds_max']:5} s  {table['megabytes_max']:5} MB  wrong: {wrong}"
    )


def main() -> None:
    """Print a line for each chain, then one of the table for each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, help="of each kind; default 20, with --all as many as it is judged by")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=KINDS, default="plain")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    tables = {}
    for kind in [each for each in KINDS if not asked.memory or each in IN_MEMORY] if asked.all else [asked.kind]:
        rows = []
        for seed in range(asked.seed, asked.seed + (asked.chains or (KINDS[kind] if asked.all else 20))):
            rates = random_rates(seed, kind == "policer")
            row = in_memory(rates, kind, seed) if asked.memory else one(rates, kind, seed)
            rows.append(row)
            said = (f"{key}={value}" for key, value in row.items() if key != "right")
            print(kind, "right" if row["right"] else "WRONG", *said, flush=True)
        tables[kind] = figures(rows)
    for kind, table in tables.items():
        print(_line(kind, table))
    if asked.json:
        print(json.dumps(tables))


if __name__ == "__main__":
    main()
