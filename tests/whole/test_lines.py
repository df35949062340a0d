"""The whole of it on lines whose truth is known: real packets, and what the report must say of them.

Every expectation comes from the line's own description or its own counters, never from a constant here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from linkqual import profiles
from linkqual.cli import read
from linkqual.lab import line as lines
from linkqual.lab.isolate import available
from linkqual.model import Direction

pytestmark = [pytest.mark.lab, pytest.mark.quiet]
NEAR_ENOUGH_NS = 300_000


@pytest.fixture(autouse=True)
def _isolation() -> None:
    if reason := available():
        pytest.skip(reason)


@dataclass(frozen=True)
class Told:
    code: int
    document: dict[str, Any]
    folder: Path
    said: str

    def of(self, probe: str) -> list[dict[str, Any]]:
        return [taken for taken in self.document["measurements"] if taken["step"]["probe"] == probe]

    @property
    def summary(self) -> dict[str, Any]:
        (taken,) = self.of("stamp")
        assert taken["fault"] is None, taken["fault"]
        summary: dict[str, Any] = taken["stamp"]["summary"]
        return summary

    def outcome(self, key: str) -> str:
        findings = {
            "/".join(
                (each["objective"]["metric"], each["objective"]["direction"], each["objective"]["statistic"])
            ): each
            for each in self.document["verdict"]["findings"]
        }
        outcome: str = findings[key]["outcome"]
        return outcome


def run(folder: Path, *arguments: str, verb: str = "test") -> Told:
    """`verb`: `measure` where neither a verdict nor a report is looked at."""
    command = [sys.executable, "-m", "linkqual", verb, *arguments, "-o", str(folder / "run")]
    said = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    document = json.loads((folder / "run" / "run.json").read_text())
    return Told(said.returncode, document, folder / "run", said.stdout + said.stderr)


def assert_counts_are_the_lines_own(told: Told) -> None:
    summary, truth = told.summary, told.document["truth"]
    assert truth["forward"]["own"] == truth["reverse"]["own"] == 0 or summary["sent"] > 0
    assert summary["lost_forward"] == truth["forward"]["udp"]["dropped"] + truth["forward"]["over_rate"]
    assert summary["lost_reverse"] == truth["reverse"]["udp"]["dropped"] + truth["reverse"]["over_rate"]
    assert summary["lost"] == 0
    assert summary["sent"] == truth["forward"]["udp"]["seen"]


def assert_delay_is_the_described_one(told: Told, name: str) -> None:
    from linkqual.model import Histogram
    from linkqual.stats.histogram import quantile

    stored = told.summary["round_trip_delay"]
    histogram = Histogram(**stored | {key: tuple(stored[key]) for key in ("indices", "counts")})
    expected = read.line(name).expect.rtt_ns
    assert expected is not None
    median = quantile(histogram, 0.5)
    assert median is not None
    assert abs(median - expected) <= NEAR_ENOUGH_NS


@pytest.mark.parametrize(("name", "duration"), [("bursty-loss", "2s"), ("jittery", "1s")])
def test_delay_and_loss_of_a_shipped_line(name: str, duration: str, tmp_path: Path) -> None:
    told = run(tmp_path, "--line", name, "--only", "stamp", "--duration", duration, verb="measure")
    assert_counts_are_the_lines_own(told)
    assert_delay_is_the_described_one(told, name)


OTHER = """
title: Another line
about: Other figures of the same kind as the shipped ones, with the loss on the way back.
sites: [near-site, far-site]
forward: [a, b, c]
link: {name: Another line, cir: 100 Mbit/s, mtu: 1500, rtt_budget: 30 ms}
links:
  - between: [a, b]
    forward: {delay: 2.5 ms}
    reverse: {delay: 8 ms, loss: {ratio: 2e-3}}
expect: {rtt: 10.5 ms}
"""


def test_loss_on_the_way_back_is_laid_to_it(tmp_path: Path) -> None:
    file = tmp_path / "another.yaml"
    file.write_text(OTHER)
    told = run(tmp_path, "--line", str(file), "--only", "stamp", "--rate", "5k", "--packets", "10k")
    assert_counts_are_the_lines_own(told)
    assert_delay_is_the_described_one(told, str(file))
    assert told.outcome("loss_ratio/reverse/ratio") == "fail"
    assert told.outcome("loss_ratio/forward/ratio") == "inconclusive"  # 10,000 packets prove no 1e-5
    assert told.code == 1


@pytest.mark.parametrize("name", ["slow-reverse", "policed"])
def test_throughput_of_a_shipped_line(name: str, tmp_path: Path) -> None:
    asked = ("--only", "throughput", "--streams", "4", "--duration", "2s", "--quick")
    told = run(tmp_path, "--line", name, *asked, verb="measure")
    assert {taken["step"]["direction"] for taken in told.of("throughput")} == {"forward", "reverse"}
    expected = read.line(name).expect.goodput_bps
    for taken in told.of("throughput"):
        assert taken["fault"] is None, taken["fault"]
        seconds = taken["throughput"]["receiver_bps"]
        direction = Direction(taken["step"]["direction"])
        mean = sum(seconds) / len(seconds)
        if direction in expected:
            assert mean == pytest.approx(expected[direction], rel=0.03)
        else:
            assert mean < 0.95 * taken["throughput"]["allowed_bps"]


def test_a_way_back_over_other_routers_is_asymmetric_and_longer(tmp_path: Path) -> None:
    asked = ("--only", "path", "--only", "stamp", "--rate", "2k", "--duration", "1s", "--quick", "--no-calibration")
    told = run(tmp_path, "--line", "long-return", "--profile", "training", *asked)
    described = read.line("long-return")
    there, back = (len(way) - 2 for way in (described.forward, described.reverse))
    (path,) = told.of("path")
    compared = path["path"]["compared"]
    assert (compared["word"], compared["forward_routers"], compared["reverse_routers"]) == ("asymmetric", there, back)
    assert 0 < compared["links"][0] < compared["links"][1] < 1
    checks = {one["name"]: one for one in told.document["verdict"]["checks"]}
    assert checks["same topology across sites"]["outcome"] == checks["symmetric routes"]["outcome"] == "FAIL"
    assert "reverse is longer by" in checks["symmetric routes"]["because"]
    assert checks["non-blocking for RoCE"]["outcome"] == "UNKNOWN"


EASIER = {  # few good seconds and bursts, and a third of the packets, prove these; few echoes are as good as many
    "statistic: p5\n": "statistic: p50\n",
    "limit: 1e-5\n": "limit: 3e-5\n",
    "metric: burst_completion\n    statistic: p99\n": "metric: burst_completion\n    statistic: p90\n",
    "count: 1000 ": "count: 100 ",
    "ping: {count: 20,": "ping: {count: 4,",
}


def quick(folder: Path) -> str:
    """The training profile with easier limits where only the number of samples makes it long: all it measures and judges is there."""
    text = profiles.text("training")
    for shipped, easier in EASIER.items():
        assert text.count(shipped) == 1, shipped
        text = text.replace(shipped, easier)
    (folder / "quick.yaml").write_text(text)
    return str(folder / "quick.yaml")


def test_the_default_line_passes_and_its_run_can_be_judged_again(tmp_path: Path) -> None:
    told = run(tmp_path, "--profile", quick(tmp_path), "--streams", "4", "--rate", "20k", "--quick")
    assert told.code == 0, told.said
    assert told.document["verdict"]["outcome"] == "pass"
    assert_delay_is_the_described_one(told, "clean")
    assert told.summary["lost_forward"] == told.summary["lost_reverse"] == told.summary["lost"] == 0
    for taken in told.of("throughput"):
        expected = read.line("clean").expect.goodput_bps[Direction(taken["step"]["direction"])]
        seconds = taken["throughput"]["receiver_bps"]
        assert sum(seconds) / len(seconds) == pytest.approx(expected, rel=0.03)
    (path,) = told.of("path")
    assert path["path"]["symmetry"] == "symmetric"
    assert (told.folder / "report.html").stat().st_size > 50_000

    again = subprocess.run(
        [sys.executable, "-m", "linkqual", "judge", str(told.folder), "--json"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["verdict"]["outcome"] == "pass"


def test_every_shipped_line_says_what_must_be_measured_on_it() -> None:
    for name in lines.names():
        expect = read.line(name).expect
        assert expect.rtt_ns is not None
        assert "training" in expect.verdict
