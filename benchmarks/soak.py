#!/usr/bin/env python3
"""A long measurement on a bad line, compared with the line's own books: every packet, both directions, exactly.

    benchmarks/soak.py [--minutes 30] [--rate 10000] [--case loss|mangled|all] [--json]

case "loss":    0.1 % random loss each way
case "mangled": the same with 0.5 % duplicated, 1 % held back by 5 ms, jitter above the packet interval that lets packets overtake, and each way
                in turn losing every packet for a minute (a thirtieth of the length, when that is less than half an hour)

The measuring side is the product's own: an agent at the far end of a virtual line, the stamp probe at the near end. Beside the
line's counters its pump notes for each sequence number what it did (witness.py). Exits 1 on any difference.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from witness import Truth, WatchedLane, Way, truth

from linkqual import plan as planner
from linkqual import profiles
from linkqual.lab import line as lines
from linkqual.lab.isolate import run_isolated
from linkqual.lab.network import VirtualLine
from linkqual.model import Measurement, Step
from linkqual.net import drops
from linkqual.net.control import Control, Peer
from linkqual.probes import stamp
from linkqual.probes.bench import Bench
from linkqual.profile import parse as parse_profile
from linkqual.records import Fate, Records
from linkqual.rules.ledger import ledger
from linkqual.units import NS_PER_S

CASES = ("loss", "mangled")
LINE = """
title: A line for a long run
sites: [near-site, far-site]
forward: [edge-near, edge-far]
link: {{name: soak, cir: 1 Gbit/s, mtu: 1500, rtt_budget: 30 ms}}
links:
  - between: [edge-near, edge-far]
    both: {{delay: 2 ms, loss: {{ratio: 1e-3}}{more}}}
seed: {seed}
"""
MANGLED = (
    ", duplicate: 5e-3, reorder: {ratio: 1e-2, by: 5 ms}, "
    "jitter: {distribution: uniform, spread: 400 us, keep_order: false}"
)
CUT = """add table inet cut
add counter inet cut lost
add chain inet cut c {{ type filter hook forward priority 0; }}
add rule inet cut c ip daddr {address} meta l4proto udp counter name lost drop
"""
FULL_CUT_S = 60.0
Row = tuple[str, int, int]  # what, in the line's books, as measured


class Books:
    """What the probe said of each packet as it came, to be compared at the end."""

    def __init__(self, packets: int) -> None:
        self.fate = np.full(packets, 255, np.uint8)
        self.forward_copies = np.zeros(packets, np.uint8)
        self.reverse_copies = np.zeros(packets, np.uint8)
        self.rows = 0
        self.peaks: dict[str, list[int]] = {}  # RSS in MB of the engine's processes, over time
        self._looked = 0.0

    def write(self, records: Records) -> None:
        """The next settled packets."""
        seqs = records["seq"]
        for name in ("fate", "forward_copies", "reverse_copies"):
            getattr(self, name)[seqs] = records[name]
        self.rows += len(records)
        if time.monotonic() - self._looked > 10:
            self._looked = time.monotonic()
            for role, megabytes in workers().items():
                self.peaks.setdefault(role, []).append(megabytes)

    def close(self) -> None:
        """Nothing to seal."""


def workers() -> dict[str, int]:
    """RSS in MB of the sender's and the reflector's process, as it is now."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if b"linkqual.net.worker" in words:
                pages = int((folder / "statm").read_text().split()[1])
                found[words[words.index(b"linkqual.net.worker") + 1].decode()] = (
                    pages * os.sysconf("SC_PAGE_SIZE") >> 20
                )
    return found


class Listening:
    """A control channel that remembers what the far end counted when the session was closed."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self.closed: dict[str, Any] = {}

    def call(self, name: str, **args: Any) -> dict[str, Any]:
        """As Control.call."""
        answer = self._control.call(name, **args)
        if name == "stamp.close":
            self.closed = answer["counters"]
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._control, name)


class Cuts:
    """Each way in turn loses every UDP packet for a while; nftables in the router before the pump counts them.

    They begin when the line has seen a certain packet, not at a time: a slow start moves nothing.
    """

    def __init__(self, network: VirtualLine, forward: Way, length: float) -> None:
        """`length` of each in seconds; 0: none."""
        self._network, self._forward, self.length = network, forward, length
        self._places = {
            "forward": ("edge-near", network.address(network.far)),
            "reverse": ("edge-far", network.address(network.near)),
        }
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._cut_both)

    def __enter__(self) -> Cuts:
        if self.length:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self.length:
            self._thread.join()

    def _cut_both(self) -> None:
        for way, share in (("forward", 0.35), ("reverse", 0.65)):
            at = int(share * self._forward.packets)
            while not any(self._forward.came[at : at + 64]):
                if self._over.wait(0.005):
                    return
            self._begin(way)
            self._over.wait(self.length)
            self._end(way)

    def _begin(self, way: str) -> None:
        node, address = self._places[way]
        self._network.spaces[node].run(["nft", "-f", "-"], CUT.format(address=address))

    def _end(self, way: str) -> None:
        self._network.spaces[self._places[way][0]].run(["nft", "flush", "chain", "inet", "cut", "c"])

    def dropped(self, way: str) -> int:
        """Packets lost to the cut."""
        if not self.length:
            return 0
        listing = self._network.spaces[self._places[way][0]].run(["nft", "-j", "list", "counters"])
        return sum(int(item["counter"]["packets"]) for item in json.loads(listing)["nftables"] if "counter" in item)


@dataclass(frozen=True, slots=True)
class Outcome:
    """All there is to print of one case."""

    rows: list[Row]
    ledger: dict[str, int]
    measurement: Measurement
    peaks: dict[str, list[int]]
    cut_s: float

    @property
    def addresses(self) -> dict[str, int]:
        """Where the product says the lost packets were lost, and why it does not where it does not."""
        found: dict[str, int] = {}
        for entry in ledger(self.measurement):
            where = entry.address if entry.holds else f"{entry.address} ({entry.because})"
            found[where] = found.get(where, 0) + entry.packets
        return found

    @property
    def differences(self) -> int:
        return sum(line != measured for _, line, measured in self.rows)


def soak(case: str, seconds: float, rate: int, seed: int) -> Outcome:
    """Inside an isolation: build the line, measure, compare."""
    step = _step(round(seconds * rate), rate)
    assert step.packets is not None
    size = step.params["packet_bytes"]
    ways = (Way("forward", step.packets), Way("reverse", step.packets))
    turn = cycle(ways)  # the network makes the lane there before the lane back
    line = lines.parse(LINE.format(more=MANGLED if case == "mangled" else "", seed=seed), "soak.yaml")
    with VirtualLine(line, lambda *ends: WatchedLane(*ends, way=next(turn), size=size)) as network:
        cuts = Cuts(network, ways[0], min(FULL_CUT_S, seconds / 30) if case == "mangled" else 0.0)
        with _control(network) as control, cuts:
            books, listening = Books(step.packets), Listening(control)
            before, far_before = drops.counters(), control.call("host")["drops"]
            bench = Bench(
                peer_address=control.peer_address,
                near_address=control.near_address,
                control=listening,  # type: ignore[arg-type]
                save_packets=lambda _step: books,
            )
            measurement = stamp.measure(step, bench)
            ledger = _rise("near", before, drops.counters())
            ledger |= _rise("far", far_before, control.call("host")["drops"])
        done = network.truth()
        for way in ("forward", "reverse"):
            ledger |= {f"line {way}: {key}": done[way][key] for key in ("own", "late")}
        lost = {way: done[way]["udp"]["dropped"] + cuts.dropped(way) for way in ("forward", "reverse")}
        seen = {way: done[way]["udp"]["seen"] + cuts.dropped(way) for way in ("forward", "reverse")}
        rows = compare(measurement, books, truth(*ways, books.rows), listening.closed, done, lost, seen)
    return Outcome(rows, {key: n for key, n in ledger.items() if n}, measurement, books.peaks, cuts.length)


def _step(packets: int, rate: int) -> Step:
    profile = parse_profile(profiles.text("training"), "training.yaml")
    options = planner.PlanOptions(rate_pps=rate, packets=packets, only=("stamp",))
    (step,) = planner.make(profile, lines.load().link, options).steps
    return replace(step, params=step.params | {"fixed": True}, duration_ns=packets * NS_PER_S // rate)


@contextlib.contextmanager
def _control(network: VirtualLine) -> Iterator[Control]:
    """An agent at the far end, and the calling thread at the near one."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "linkqual",
        "agent",
        "--ephemeral",
        "--quiet",
        "--bind",
        network.address(network.far),
    ]
    agent = network.popen(network.far, command, stdout=subprocess.PIPE, text=True)
    assert agent.stdout is not None
    pairing = agent.stdout.readline()
    network.enter(network.near)
    with contextlib.closing(Control.connect(Peer.parse(pairing))) as control:
        yield control


def _rise(end: str, before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {f"{end}: {name}": after[name] - before.get(name, 0) for name in after}


def compare(
    measurement: Measurement,
    books: Books,
    true: Truth,
    far: dict[str, Any],
    done: dict[str, Any],
    lost: dict[str, int],
    seen: dict[str, int],
) -> list[Row]:
    """Pairs that must be equal. `lost` and `seen`: by direction, the pump's counters with those of the cuts."""
    assert measurement.stamp is not None, measurement.fault
    summary = measurement.stamp.summary
    count = books.rows
    copies = summary.duplicates_forward + summary.duplicates_reverse
    wrong = {
        "fate": int((books.fate[:count] != true.fate).sum()),
        "copies": int((books.forward_copies[:count] != true.forward_copies).sum())
        + int((books.reverse_copies[:count] != true.reverse_copies).sum()),
    }
    return [
        ("packets sent", seen["forward"], summary.sent),
        ("lost forward", lost["forward"], summary.lost_forward),
        ("lost reverse", int((true.fate == Fate.LOST_REVERSE).sum()), summary.lost_reverse),
        ("lost, direction unknown", 0, summary.lost),
        ("received", int((true.fate == Fate.RECEIVED).sum()), summary.received),
        ("never sent by this host", 0, summary.unsent),
        ("requests that reached the far end", seen["forward"] - lost["forward"] + done["forward"]["udp"]["duplicated"], far["answered"]),
        ("replies sent", seen["reverse"], far["answered"]),
        ("replies lost, with those to copies", lost["reverse"], far["answered"] - summary.received - summary.duplicates_forward),
        ("copied forward (far end)", done["forward"]["udp"]["duplicated"], far["duplicates"]),
        ("copied forward, reply received", int(true.forward_copies.sum()), summary.duplicates_forward),
        ("copied reverse", done["reverse"]["udp"]["duplicated"], summary.duplicates_reverse),
        ("replies received", seen["reverse"] - lost["reverse"] + done["reverse"]["udp"]["duplicated"], summary.received + copies),
        ("reordered forward", true.reordered_forward, summary.reordered_forward),
        ("reordered reverse", true.reordered_reverse, summary.reordered_reverse),
        ("packets given another fate", 0, wrong["fate"]),
        ("packets given other copies", 0, wrong["copies"]),
    ]  # fmt: skip


def show(case: str, outcome: Outcome) -> None:
    """The table, and what beside it explains it."""
    print(f"\n{case}: {'every count equal' if not outcome.differences else f'{outcome.differences} counts DIFFER'}")
    print(f"  {'':38}{'line':>14}{'measured':>14}")
    for what, line, measured in outcome.rows:
        print(f"  {what:38}{line:>14,}{measured:>14,}{'' if line == measured else '   <-- differs'}")
    for where, packets in outcome.addresses.items():
        print(f"  lost at: {where}: {packets:,}")
    print(f"  host drops: {', '.join(f'{key} {n:,}' for key, n in outcome.ledger.items()) or 'none'}")
    for role, seen in outcome.peaks.items():
        print(f"  memory of the {role}: {seen[0]} MB at first, {seen[-1]} MB at last, at most {max(seen)} MB")
    if outcome.cut_s:
        print(f"  each way lost every packet for {outcome.cut_s:g} s")
    if outcome.measurement.fault:
        print(f"  fault: {outcome.measurement.fault.message}")


def as_json(outcome: Outcome) -> dict[str, Any]:
    """What `show` prints."""
    rows = {what: {"line": line, "measured": measured} for what, line, measured in outcome.rows}
    fault = outcome.measurement.fault.message if outcome.measurement.fault else None
    told = {
        "differences": outcome.differences,
        "counts": rows,
        "lost_at": outcome.addresses,
        "host_drops": outcome.ledger,
    }
    return {**told, "fault": fault, "memory_mb": outcome.peaks, "cut_s": outcome.cut_s}


def main() -> int:
    """Run the cases one after the other."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=30, help="of sending, each case (default: %(default)g)")
    options.add_argument("--rate", type=int, default=10_000, help="packets a second (default: %(default)s)")
    options.add_argument("--case", choices=(*CASES, "all"), default="all", help="which line (default: %(default)s)")
    options.add_argument("--seed", type=int, default=1, help="of the line's own draws (default: %(default)s)")
    options.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    asked = options.parse_args()
    answers, hear, say = {}, *os.pipe()

    def run(case: str) -> int:
        outcome = soak(case, asked.minutes * 60, asked.rate, asked.seed)
        show(case, outcome)
        os.write(say, json.dumps(as_json(outcome)).encode() + b"\n")
        return int(outcome.differences > 0 or outcome.measurement.fault is not None)

    code = 0
    with os.fdopen(hear) as told:
        for case in CASES if asked.case == "all" else (asked.case,):
            failed = run_isolated(partial(run, case))  # in processes of its own: its answer comes through the pipe
            if failed not in (0, 1):
                return failed
            answers[case] = json.loads(told.readline())
            code = max(code, failed)
    if asked.json:
        print(json.dumps({"minutes": asked.minutes, "rate_pps": asked.rate, "cases": answers}))
    return code


if __name__ == "__main__":
    sys.exit(main())
