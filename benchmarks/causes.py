#!/usr/bin/env python3
"""Lines whose truth is known, measured by linkqual with real packets: is the right cause named, and how far off are its figures?

    benchmarks/causes.py [--lines 20] [--seed 1] [--only KIND] [--keep FOLDER [--again]] [--json]

Each line is a seeded description (benchmarks/known_lines.py), built in namespaces of its own and measured by `linkqual test` with an agent at
its far end: 1, 4 and 16 TCP streams each way, trains, flows. A line counts as right when the cause of every direction that falls short is
named and none is named for the others. About 80 s a line. Needs root or user namespaces, and iperf3. docs/benchmarks.md explains the columns.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import known_lines

from linkqual import document
from linkqual.bottleneck import OVERHEAD
from linkqual.errors import InputError
from linkqual.lab.line import Line, parse
from linkqual.model import Direction, Qualification, ThroughputResult
from linkqual.rules.why import diagnose
from linkqual.stats.throughput import header_goodput

PROFILE = """name: causes
title: Why a line falls short
purpose: Short loads and everything that explains them.
objectives:
  - {metric: throughput, statistic: p50, direction: [forward, reverse], limit: 95 % of goodput, source: the benchmark}
probes:
  stamp: {rate: 2 kpps, packets: 20_000}
  throughput: {streams: [1, 4, 16], warmup: 2 s, short: 5 s, block: 5 s, cap: 10 s, both: false, compare: none}
  trains: {}
  flows: {}
"""
WAYS = (Direction.FORWARD, Direction.REVERSE)
NEVER_S = 600  # no line takes that long
NOTHING = ""  # no diagnosis, or one that finds none of the causes


@dataclass(frozen=True)
class Row:
    """One direction of one line: what is true, and what was found. Errors are shares of the truth; None: not found, or nothing to compare."""

    line: str
    direction: str
    truth: str
    named: str
    confidence: str
    udp_error: float | None = None
    tcp_error: float | None = None
    bucket_error: float | None = None
    buffer_error: float | None = None
    said: str = ""

    @property
    def right(self) -> bool:
        return self.named == self.truth


def measure(folder: Path, text: str) -> Qualification | str:
    """The run of one line; what linkqual said instead when there is none."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "line.yaml").write_text(text)
    (folder / "causes.yaml").write_text(PROFILE)
    argv = [
        sys.executable,
        "-m",
        "linkqual",
        "test",
        "--line",
        str(folder / "line.yaml"),
        "-p",
        str(folder / "causes.yaml"),
    ]
    argv += ["-o", str(folder / "run"), "--yes", "--no-calibration"]
    environment = {**os.environ, "NO_COLOR": "1"}
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=NEVER_S, env=environment)
    except subprocess.TimeoutExpired:
        return f"no end after {NEVER_S} s"
    if not (folder / "run" / "run.json").exists():
        return (done.stderr or done.stdout).strip()[-500:]
    return stored(folder)


def stored(folder: Path) -> Qualification | str:
    """A kept run; why it is none."""
    try:
        run = document.load((folder / "run" / "run.json").read_text())
    except InputError as error:
        return str(error)
    return run.interrupted or run


def rows(line: Line, run: Qualification) -> Iterator[Row]:
    """Both directions, judged."""
    told = diagnose(run.plan, run.measurements)  # slow seconds without a cause may stand beside one
    said = {one.direction: one for one in sorted(told, key=lambda one: one.cause != "none")}
    for way in WAYS:
        truth = line.expect.cause.get(way, NOTHING)
        found = said.get(way)
        named = found.cause if found and found.cause != "none" else NOTHING
        trains = next((one.trains for one in run.measurements if one.trains and one.step.direction is way), None)
        rate = known_lines.rate(line, way).of_one
        udp = bucket = buffer = None
        if trains and trains.overhead_bytes != OVERHEAD[rate.counts]:
            trains = None  # counted in other bytes
        if trains:
            udp, bucket = _error(trains.rate_bps, rate.bps), _error(trains.bucket_bytes, rate.bucket_bytes)
            buffer = None if rate.policer else _error(trains.buffer_ns, rate.buffer_ns)
        tcp = _tcp_error(line, run, way)
        confidence = found.confidence if found else ""
        yield Row(
            line.title, str(way), truth, named, confidence, udp, tcp, bucket, buffer, found.sentence if found else ""
        )


def _error(found: tuple[float, float, float] | None, truth: float) -> float | None:
    return found[0] / truth - 1 if found else None


def _tcp_error(line: Line, run: Qualification, way: Direction) -> float | None:
    """Of the goodput that the headers leave of the rate, where a queue lets TCP have it: one stream for a limit of single flows, else 16."""
    truth = line.expect.cause.get(way, NOTHING)
    if truth in {"policer", "loss", "window", "hashing"}:
        return None
    streams = 1 if truth == "per-flow cap" else 16
    loads = [_of(one.throughput) for one in run.measurements if one.throughput and one.step.direction is way]
    got = next((goodput for count, goodput in loads if count == streams), None)
    rate = known_lines.rate(line, way)
    bps = rate.of_one.bps if streams == 1 else rate.bps
    return None if got is None else got / header_goodput(bps, 1500, counts=rate.counts) - 1


def _of(load: ThroughputResult) -> tuple[int, float]:
    return load.streams, statistics.fmean(load.receiver_bps) if load.receiver_bps else 0.0


def table(found: list[Row]) -> Iterator[str]:
    """The rows, each with its mark."""
    yield f"{'line':<14}{'way':<9}{'truth':<14}{'named':<14}{'sure':<8}{'UDP':>8}{'TCP':>8}{'bucket':>9}{'buffer':>9}"
    for row in found:
        errors = (row.udp_error, row.tcp_error, row.bucket_error, row.buffer_error)
        shown = "".join(f"{_percent(error):>{width}}" for error, width in zip(errors, (8, 8, 9, 9), strict=True))
        mark = "" if row.right else "   <- WRONG"
        yield f"{row.line:<14}{row.direction:<9}{row.truth or '-':<14}{row.named or '-':<14}{row.confidence or '-':<8}{shown}{mark}"


def _percent(error: float | None) -> str:
    return "-" if error is None else f"{error:+.1%}"


def counts(found: list[Row]) -> dict[str, object]:
    """What is judged: lines with every cause right, wrong causes said with high confidence, figures within their bounds."""
    lines = {row.line for row in found}
    right = [line for line in lines if all(row.right for row in found if row.line == line)]
    sure = [row for row in found if not row.right and row.named and row.confidence == "high"]
    within = {
        name: _within([error for row in found if (error := getattr(row, f"{name}_error")) is not None], bound)
        for name, bound in (("udp", 0.01), ("tcp", 0.03), ("bucket", 0.15), ("buffer", 0.15))
    }
    return {"lines": len(lines), "right": len(right), "wrong_with_high_confidence": len(sure), "within": within}


def _within(errors: list[float], bound: float) -> str:
    return f"{sum(abs(error) <= bound for error in errors)} of {len(errors)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=known_lines.KINDS, action="append")
    parser.add_argument("--keep", type=Path, help="keep the runs in this folder")
    parser.add_argument(
        "--again", action="store_true", help="judge the runs kept there, as far as they go, instead of measuring"
    )
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        base = asked.keep or Path(scratch)
        for number, (kind, text) in enumerate(known_lines.lines(asked.lines, asked.seed)):
            if asked.only and kind not in asked.only:
                continue
            line = parse(text, f"{kind}-{number}.yaml")
            folder = base / f"{number:02}-{kind}"
            if asked.again and not (folder / "run" / "run.json").exists():
                continue
            run = stored(folder) if asked.again else measure(folder, text)
            if isinstance(run, str):
                found += [Row(line.title, "", "a run", "none", "", said=run)]
                print(f"{line.title}: {run}", file=sys.stderr, flush=True)
                continue
            new = list(rows(line, run))
            found += new
            if not asked.json:
                print("\n".join(list(table(new))[0 if len(found) == len(new) else 1 :]), flush=True)
    said = counts(found)
    if asked.json:
        print(json.dumps({"seed": asked.seed, **said, "rows": [asdict(row) for row in found]}))
    else:
        print(
            f"seed {asked.seed}: cause right on {said['right']} of {said['lines']} lines, wrong with high confidence: "
            f"{said['wrong_with_high_confidence']}; within bounds: {said['within']}"
        )
    return 0 if said["right"] == said["lines"] else 1


if __name__ == "__main__":
    sys.exit(main())
