#!/usr/bin/env python3
"""Where a queue begins, found gently and from one end alone: chains of real routers in namespaces, an agent at the far end.

    benchmarks/queues.py [--case NAME ...] [--user]

Each case is a chain with one narrow link, measured by the probe `gentle` (in both directions) and by recursive trains. Right: the place named
holds the narrow link; nothing named where there is none, or where that way cannot see it, is right too. `--user`: without raw sockets, as an ordinary user
has them. Needs namespaces; some four minutes.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from bottleneck import agent, described
from narrow_chain import MBIT

from linkqual.bottleneck import Rate
from linkqual.lab.isolate import run_isolated
from linkqual.lab.network import VirtualLine
from linkqual.model import Direction, LoadedPath, Step
from linkqual.net import trace_sockets
from linkqual.net.control import Control
from linkqual.probes import gentle, recursive
from linkqual.probes.bench import Bench

FASTER = 60


def shaper(mbit: int, bucket: int = 16_000) -> Rate:
    """Its queue holds 50 ms."""
    return Rate(mbit * MBIT, False, bucket, mbit * MBIT // 160, "l2")


def policer(mbit: int) -> Rate:
    """Its bucket holds 50 KB."""
    return Rate(mbit * MBIT, True, 50_000, 0, "l2")


CASES: dict[str, tuple[str, tuple[Rate, ...], int]] = {  # kind of chain (see bottleneck.py), its links, the narrow one
    "queue": ("plain", (shaper(90), shaper(30), shaper(60), shaper(80)), 2),
    "first link": ("plain", (shaper(30), shaper(90), shaper(60)), 1),
    "last link": ("plain", (shaper(60), shaper(90), shaper(30)), 3),
    "two silent routers": ("silent", (shaper(90), shaper(80), shaper(30), shaper(60)), 3),
    "one ICMP in 10 s": ("icmp", (shaper(90), shaper(30), shaper(60)), 2),
    "10/15 ms, jitter": ("delay", (shaper(90), shaper(30), shaper(60)), 2),
    "bucket of 1 MB": ("plain", (shaper(90), shaper(30, 1_000_000), shaper(60), shaper(80)), 2),
    "policer": ("plain", (shaper(90), policer(30), shaper(60), shaper(80)), 2),
    "one answer at a time": ("single", (shaper(90), shaper(30), shaper(60), shaper(80), shaper(70)), 2),
    "policer before the last router": ("plain", (shaper(90), shaper(80), policer(30), shaper(60)), 3),
    "nothing narrow": ("plain", (shaper(90), shaper(80), shaper(70)), 0),
}
SINGLE = ("r3", "r4")  # routers of a chain "single" that answer one packet a second and no two at once
_SINGLE = """table ip answers { chain out { type filter hook output priority 0;
  icmp type time-exceeded limit rate over 1/second burst 1 packets drop
  }
}
"""
REVERSE = ("queue", "policer")  # `reverse` of bottleneck.py walks the links the other way


def measured(name: str, way: Direction, probe: str, *, user: bool) -> dict[str, Any]:
    """One case in an isolation of its own."""
    hear, say = os.pipe()

    def inside() -> int:
        os.write(say, json.dumps(_inside(name, way, probe, user=user)).encode())
        return 0

    run_isolated(inside)
    os.close(say)
    with os.fdopen(hear) as answer:
        row: dict[str, Any] = json.loads(answer.read() or "{}")
    return row


def _inside(name: str, way: Direction, probe: str, *, user: bool) -> dict[str, Any]:
    kind, rates, link = CASES[name]
    if user:
        trace_sockets._raw_icmp = lambda _family: None  # type: ignore[assignment]
    with ExitStack() as stack:
        virtual = stack.enter_context(VirtualLine(described(rates, "reverse" if way is Direction.REVERSE else kind, 1)))
        for router in SINGLE if kind == "single" else ():
            virtual.spaces[router].run(["nft", "-f", "-"], _SINGLE)
        peer = agent(stack, virtual) if probe == "gentle" else None
        stack.enter_context(virtual.inside(virtual.near))
        control = stack.enter_context(Control.connect(peer)) if peer is not None else None
        bench = Bench(virtual.address(virtual.far), virtual.address(virtual.near), control=control)
        if probe == "gentle":
            params = {"rounds": 7, "packet_bytes": 1500, "rate_bps": _contract(rates), "bytes": 0, "max_rate_bps": None}
            found = gentle.measure(Step("gentle", "gentle", params, way), bench)
        else:
            found = recursive.measure(Step("narrow", "narrow", {"max_rate_bps": None}, way), bench)
    path = found.loaded_path
    seen = rates if probe == "gentle" else rates[:-1]  # one end alone does not see the last link
    if link > len(seen):
        link = seen.index(min(seen, key=lambda rate: rate.bps)) + 1
    truth = len(rates) + 1 - link if way is Direction.REVERSE and link else link
    said = str(found.fault) if path is None else path.because
    return {"right": _right(path, truth), "truth": truth, **_place(path), "said": said}


def _contract(rates: tuple[Rate, ...]) -> int:
    """Of the narrow link; of a chain without one, half of what it carries. IP layer."""
    least = min(rate.bps for rate in rates)
    return round((least if least < FASTER * MBIT else least / 2) * 1500 / 1514)


def _right(path: LoadedPath | None, link: int) -> bool:
    if path is None:
        return False
    if not path.by or path.after is None or path.before is None:
        return not link
    return path.after < link <= path.before


def _place(path: LoadedPath | None) -> dict[str, Any]:
    if path is None or not path.by:
        return {"place": "none", "by": "", "confidence": ""}
    return {"place": f"{path.after} to {path.before}", "by": path.by, "confidence": path.confidence}


def _wanted(names: list[str]) -> Iterator[tuple[str, Direction, str]]:
    for name in names or CASES:
        yield name, Direction.FORWARD, "gentle"
        if name in REVERSE:
            yield name, Direction.REVERSE, "gentle"
        if CASES[name][2]:
            yield name, Direction.FORWARD, "train"


def main() -> None:
    """Print a line for each measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", default=[], choices=list(CASES))
    parser.add_argument("--user", action="store_true")
    asked = parser.parse_args()
    for name, way, probe in _wanted(asked.case):
        row = measured(name, way, probe, user=asked.user)
        print(
            "right" if row.get("right") else "WRONG",
            f"{name}, {way}, {probe}:",
            *(f"{key}={value}" for key, value in row.items() if key != "right"),
            flush=True,
        )


if __name__ == "__main__":
    main()
