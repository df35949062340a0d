"""Services and the search over a policed line of real packets: every lost frame is one the line's own counter has, no more gets through."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from linkqual import document
from linkqual.lab.isolate import available
from linkqual.model import Direction, Measurement, Qualification
from linkqual.rules import services
from linkqual.stats import query

pytestmark = pytest.mark.lab
OTHERS = 5  # packets that cross beside what is counted: the control channel's, the stream's before and after a load
POLICED, BUCKET = 8_000_000, 30_000  # bit/s on the wire, bytes
LINE = """
title: A policed line
about: 8 Mbit/s each way.
sites: [near-site, far-site]
forward: [cpe-near, cpe-far]
link: {name: policed, cir: 8 Mbit/s, mtu: 1500}
links:
  - between: [cpe-near, cpe-far]
    both: {rate: {limit: 8 Mbit/s, kind: policer, bucket: 30 kB}}
"""
PROFILE = """
name: short
title: Short
purpose: Two steps of a service in each direction, one size of the search in each.
objectives:
  - {metric: frame_loss_ratio, direction: both, limit: 1e-2, source: an example for the laboratory}
  - {metric: policing, direction: both, limit: 5 %, source: an example for the laboratory}
  - {metric: frame_throughput, direction: both, limit: none}
probes:
  services: {steps: [100 %], step: 1 s, performance: none, stream: 50 pps}
  search: {frame_sizes: [mtu], trial: 300 ms, final: 300 ms, settle: 0 s, resolution: 10 %}
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Qualification:
    if reason := available():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("services")
    (folder / "line.yaml").write_text(LINE)
    (folder / "profile.yaml").write_text(PROFILE)
    command = [
        sys.executable,
        "-m",
        "linkqual",
        "test",
        "--line",
        "line.yaml",
        "--profile",
        "profile.yaml",
        "-o",
        "run",
        "--no-calibration",
    ]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert "fault of linkqual itself" not in said.stderr, said.stderr
    return document.load((folder / "run" / "run.json").read_text())


def lost(taken: Measurement, way: Direction) -> int:
    """Frames of the loads and packets of the streams beside them."""
    steps = taken.services.steps if taken.services else ()
    found = sum(one.count.lost for one in steps if one.direction is way)
    found += sum(query.losses(one.beside.summary, way) for one in steps if one.beside is not None)
    return found + sum(one.lost for one in taken.search.trials if one.direction is way) if taken.search else found


def test_every_loss_is_the_lines_own(told: Qualification) -> None:
    assert [taken.fault for taken in told.measurements] == [None] * 4
    for way in (Direction.FORWARD, Direction.REVERSE):
        counted = sum(lost(taken, way) for taken in told.measurements)
        others = told.truth[way]["over_rate"] - counted
        assert 0 <= others <= OTHERS < counted


def test_no_more_gets_through_than_the_policer_lets(told: Qualification) -> None:
    loads = services.loads(told.measurements, told.plan.link)
    assert [load.title for load in loads] == ["line, CIR 100 %", "line, overshoot"] * 2
    for load in loads:
        spare = BUCKET * 8 / (load.step.count.received_ns / 1e9)
        assert 0 < load.ir_bps <= POLICED * 1.01 + spare
        assert load.beside is not None


def test_the_search_does_not_find_more_than_there_is(told: Qualification) -> None:
    for taken in told.measurements[2:]:
        assert taken.search is not None
        (found,) = taken.search.found
        assert found.packet_bytes == 1500
        assert found.maximum_bps == pytest.approx(POLICED * 1500 / 1538, rel=1e-6)
        assert (found.rate_bps or 0) <= found.maximum_bps
        assert taken.search.trials[0].asked_bps == found.maximum_bps


def test_the_stored_run_is_judged_alike_offline(told: Qualification, tmp_path: Path) -> None:
    from linkqual import rules

    assert told.verdict is not None
    again: Any = rules.judge(told.plan, told.measurements)
    assert [(one.objective.key, one.outcome) for one in again.findings] == [
        (one.objective.key, one.outcome) for one in told.verdict.findings
    ]
    assert len(again.findings) == 6
