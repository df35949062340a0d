"""What trains find on a line whose bucket is known, with real packets through the agent; figures come from the line's description.

The line has no delay, so that no pump stands between the packets and the kernel's bucket.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from linkqual import document
from linkqual.cli import read
from linkqual.lab.isolate import available
from linkqual.lab.line import Line
from linkqual.model import Direction, Qualification, TrainsResult

pytestmark = [pytest.mark.lab, pytest.mark.quiet]

LINE = """
title: A policer on the way there
sites: [near-site, far-site]
forward: [a, b, c]
link: {name: Policed, cir: 40 Mbit/s, mtu: 1500, rtt_budget: 30 ms}
links:
  - between: [a, b]
    forward: {rate: {limit: 24 Mbit/s, kind: policer, bucket: 120 kB}}
"""
# What crosses beside the load (the control channel, greetings) meets the same policer: each site counts what leaves it and what arrives.
COUNTED = """
import json, sys
from linkqual.cli import main
from linkqual.lab.network import VirtualLine
BOOKS = '''
table inet books {
  counter sent { }
  counter came { }
  chain out {
    type filter hook output priority 0
    oifname != lo meta l4proto tcp counter name sent
    oifname != lo udp length < 1000 counter name sent
  }
  chain in {
    type filter hook input priority 0
    iifname != lo meta l4proto tcp counter name came
    iifname != lo udp length < 1000 counter name came
  }
}
'''
class Counted(VirtualLine):
    def up(self):
        super().up()
        for site in (self.near, self.far):
            self.spaces[site].run(["nft", "-f", "-"], BOOKS)
    def counted(self, site, name):
        (_, found) = json.loads(self.spaces[site].run(["nft", "-j", "list", "counter", "inet", "books", name]))["nftables"]
        return found["counter"]["packets"]
    def truth(self):
        found = super().truth()
        # what the near end asks fits into one segment each; the far end's answers do not, and would be counted before they are cut
        found["forward"]["others"] = self.counted(self.near, "sent") - self.counted(self.far, "came")
        return found
import linkqual.lab.network as network
network.VirtualLine = Counted
raise SystemExit(main())
"""
Measured = tuple[Line, Qualification]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """One run for all tests here."""
    if reason := available():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("loads")
    line, run = folder / "policed.yaml", folder / "run"
    line.write_text(LINE)
    argv = ["measure", "--line", str(line), "--only", "trains", "--no-calibration", "--yes", "-o", str(run)]
    said = subprocess.run(
        [sys.executable, "-c", COUNTED, *argv], capture_output=True, text=True, timeout=120, check=False
    )
    assert (run / "run.json").exists(), said.stderr
    return read.line(str(line)), document.load((run / "run.json").read_text())


def trains(run: Qualification, way: Direction) -> TrainsResult:
    (found,) = [one.trains for one in run.measurements if one.trains and one.step.direction is way]
    return found


def test_trains_find_the_policer_and_its_bucket(measured: Measured) -> None:
    line, run = measured
    found, truth = trains(run, Direction.FORWARD), line.rate(Direction.FORWARD)
    assert found.kind == "policer", found.because
    assert truth
    assert found.rate_bps
    assert found.bucket_bytes
    assert found.rate_bps[0] == pytest.approx(truth.bps, rel=0.01)
    assert found.bucket_bytes[0] == pytest.approx(truth.bucket_bytes, rel=0.15)


def test_where_nothing_holds_them_back_they_say_up_to_which_rate(measured: Measured) -> None:
    line, run = measured
    found = trains(run, Direction.REVERSE)
    assert line.rate(Direction.REVERSE) is None
    assert (found.kind, found.bucket_bytes) == ("none", None), found.because
    assert found.at_least_bps
    assert found.at_least_bps >= 40e6


def test_the_lines_own_books_say_where_the_packets_went(measured: Measured) -> None:
    _, run = measured
    for way in (Direction.FORWARD, Direction.REVERSE):
        assert run.truth[way]["own"] == 0
        lost = sum(train.lost - train.host_lost for train in trains(run, way).trains)
        assert run.truth[way]["over_rate"] == lost + run.truth[way].get("others", 0)  # the way back has no policer
        assert (lost > 0) is (way is Direction.FORWARD)
