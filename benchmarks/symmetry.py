#!/usr/bin/env python3
"""Random networks of real routers, traced by linkqual from both ends: is a firm verdict on symmetry ever wrong?

    benchmarks/symmetry.py [--topologies 50] [--seed 1] [--kind KIND] [--unprivileged] [--jobs 4] [--json]

Each network (benchmarks/networks.py) is built of namespaces, traced by the path probe over IPv4 and over IPv6, and its truth read from the
counters of its interfaces while 40 packets of the very flow go each way. Needs root or user namespaces. docs/benchmarks.md explains the columns.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import networks
from network_lab import FAMILIES, Built
from networks import FAR, KINDS, NEAR, Network, network

from linkqual.lab.isolate import run_isolated
from linkqual.model import PathResult, Step, Trace
from linkqual.net.trace import Target, trace
from linkqual.probes import path
from linkqual.probes.bench import Bench
from linkqual.wire import trace_json

FIRM = ("symmetric", "asymmetric")
_CAP_NET_RAW = 13
_CAPABILITY_VERSION_3 = 0x20080522


@dataclass(frozen=True)
class Row:
    """One network by one IP version. `strangers`: hops whose address is not of the router that stands there."""

    seed: int
    kind: str
    habits: str
    version: int
    truth: str
    verdict: str
    because: str
    strangers: tuple[str, ...]
    seconds: float

    @property
    def wrong(self) -> bool:
        """A firm verdict that is not the truth, or a hop that is not there."""
        return (self.verdict in FIRM and self.verdict != self.truth) or bool(self.strangers)


class FarEnd:
    """The agent's part: traces back, and a port to trace to, in the far namespace."""

    def __init__(self, built: Built, version: int) -> None:
        self._built, self._version, self._target = built, version, contextlib.ExitStack()

    def call(self, name: str, hurried: object = None, **asked: Any) -> Any:
        """As over the control channel."""
        self.close()
        near, far = (self._built.network.site(end, self._version) for end in (NEAR, FAR))
        with self._built.spaces[FAR].inside():
            if name == "trace":
                found = trace(near, family=FAMILIES[self._version], source=far, **asked)
                return json.loads(json.dumps(trace_json.encode(found)))
            target = self._target.enter_context(Target(far, 0, near, FAMILIES[self._version]))
            if target.error is not None:
                raise target.error
            return {"port": target.port}

    def close(self) -> None:
        """Free the port."""
        self._target.close()


def measured(built: Built, version: int) -> PathResult:
    """What the path probe finds."""
    near, far = (built.network.site(end, version) for end in (NEAR, FAR))
    with contextlib.closing(FarEnd(built, version)) as control, built.spaces[NEAR].inside():
        bench = Bench(far, near, FAMILIES[version], control=control)  # type: ignore[arg-type]
        found = path.measure(Step("path", "path", {"max_hops": 20}), bench).path
    assert found is not None, "no trace"
    return found


def judge(made: Network, label: str = "") -> list[Row]:
    """Build it, trace it by both IP versions, and set the verdict beside the truth."""
    rows = []
    with Built(made, label) as built:
        for version in FAMILIES:
            began = time.monotonic()
            found = measured(built, version)
            if not found.forward.source_port:
                raise RuntimeError(f"{label}{made.kind}, IPv{version}: {found.forward.fault}")
            ends = (NEAR, found.forward.source_port), (FAR, found.forward.destination_port)
            there = built.crossed(*ends, version)
            back = built.crossed(*ends[::-1], version)
            alike = [link for link, _ in there] == [link for link, _ in back[::-1]]
            strangers = (
                *_strangers(made, found.forward, there, version),
                *_strangers(made, found.reverse, back, version),
            )
            rows.append(
                Row(
                    0, made.kind, habits(made), version, FIRM[not alike], found.symmetry, found.because, strangers,
                    round(time.monotonic() - began, 1),
                )
            )  # fmt: skip
    return rows


def _strangers(made: Network, found: Trace, taken: tuple[networks.Step, ...], version: int) -> Iterator[str]:
    if found.fault is not None or len(found.hops) != len(taken):
        yield f"{len(found.hops)} hops of {len(taken)}: {found.fault.message if found.fault else ''}"
    for hop, (_, node) in zip(found.hops, taken, strict=False):
        if hop.address is not None and hop.address not in made.addresses(node, version):
            yield f"hop {hop.ttl} from {found.source}: {hop.address} is not {node}"


def habits(made: Network) -> str:
    """What is special about its routers, in a few words."""
    said = {
        "inbound " + "+".join(sorted(made.inbound)): made.inbound,
        "limited": made.limited,
        "no options": made.no_options,
        "silent " + "+".join(sorted(made.silent)): made.silent,
        "one name": made.one_name,
        "/31": made.short,
        "dense": made.dense,
    }
    return ", ".join(words for words, true in said.items() if true)


def drop_raw() -> None:
    """Give up the right to raw sockets, for this thread and for good."""
    libc = ctypes.CDLL(None, use_errno=True)
    head = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), 8)
    sets = ctypes.create_string_buffer(24)  # effective, permitted, inheritable of the lower 32, then of the upper
    if libc.capget(head, sets) == 0:
        words = list(struct.unpack("=6I", sets.raw))
        words[:3] = [word & ~(1 << _CAP_NET_RAW) for word in words[:3]]
        if libc.capset(head, struct.pack("=6I", *words)) == 0:
            return
    raise OSError(ctypes.get_errno(), "the right to raw sockets cannot be given up")


def run(arguments: argparse.Namespace) -> int:
    """Judge them all, print the table; 1 when a verdict is wrong."""
    began = time.monotonic()

    def one(seed: int) -> list[Row]:
        made = network(seed, arguments.kind)
        return [Row(**{**asdict(row), "seed": seed}) for row in judge(made, f"{seed}-")]

    seeds = range(arguments.seed * 1000, arguments.seed * 1000 + arguments.topologies)
    with ThreadPoolExecutor(arguments.jobs, initializer=drop_raw if arguments.unprivileged else None) as pool:
        rows = [row for rows in pool.map(one, seeds) for row in rows]
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        report(rows, time.monotonic() - began)
    return int(any(row.wrong for row in rows))


def report(rows: list[Row], seconds: float) -> None:
    """A line for each network and version, then the counts by kind."""
    for row in rows:
        mark = "WRONG" if row.wrong else "right" if row.verdict == row.truth else "open "
        print(
            f"{mark} {row.seed} IPv{row.version} {row.kind}: {row.truth}, called {row.verdict} [{row.habits}] {row.seconds} s"
        )
        if row.wrong:
            print(f"      {row.because}\n      {'; '.join(row.strangers)}")
    print(f"\n{'kind':10} {'truth':12} {'networks':>8} {'right':>6} {'open':>6} {'WRONG':>6}")
    for (kind, truth), count in sorted(Counter((row.kind, row.truth) for row in rows).items()):
        of = [row for row in rows if (row.kind, row.truth) == (kind, truth)]
        right = sum(row.verdict == truth for row in of)
        wrong = sum(row.wrong for row in of)
        print(f"{kind:10} {truth:12} {count:8} {right:6} {count - right - wrong:6} {wrong:6}")
    print(f"{len(rows)} verdicts in {seconds:.0f} s: {sum(row.wrong for row in rows)} wrong")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topologies", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=KINDS, default="")
    parser.add_argument("--unprivileged", action="store_true", help="without the right to raw sockets")
    parser.add_argument("--jobs", type=int, default=4, help="networks at a time")
    parser.add_argument("--json", action="store_true")
    return run_isolated(lambda: run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
