from __future__ import annotations

from pathlib import Path

import pytest

from linkqual.errors import InputError, UsageError
from linkqual.impair import Distribution
from linkqual.lab import line as lines
from linkqual.lab.line import load, names, parse
from linkqual.model import Direction

FORWARD, REVERSE = Direction.FORWARD, Direction.REVERSE

HEAD = """sites: [near, far]
forward: [r1, r2, r3]
"""

WHOLE = """
title: Every key there is
about: nothing real
sites: [Standort Süd, 远端]
forward: [r1, r2, r3]
reverse: [r3, r5, r4, r1]
routers:
  r2: {icmp: never}
  r5: {icmp: one in 500 ms}
hosts:
  远端: {window: 256 KiB}
links:
  - between: [r2, r1]          # either order
    mtu: 1400
    both: {delay: 2 ms, loss: {ratio: 1e-4}}
    forward:
      delay: 3 ms
      jitter: {distribution: exponential, spread: 200 us, keep_order: false}
      loss: {ratio: 1 %, burst: 8}
      duplicate: 0.1 %
      reorder: {ratio: 1e-3, by: 1 ms}
      rate: {limit: 50 Mbit/s, kind: policer, bucket: 20 kB, counts: l2}
  - between: [r5, r4]
    reverse: {delay: 9 ms, remark: {EF: CS0, 7: AF41}, ecn: bleach}
  - between: [r2, r3]
    forward: {rate: {limit: 80 Mbit/s, members: 4, bucket: 64 kB, buffer: 25 ms}, loss: {ratio: 1e-2, member: 3}}
  - between: [r3, r5]
    reverse: {rate: {limit: 60 Mbit/s, per_flow: 20 Mbit/s, buffer: 25 ms}}
link: {name: x, vendor: y, cir: 50 Mbit/s, mtu: 1400, rtt_budget: 20 ms}
expect:
  rtt: 12 ms
  loss: {forward: 1 %, reverse: 0}
  goodput: 40 Mbit/s
  verdict: {training: fail}
  cause: {forward: hashing}
seed: 7
"""


def test_every_key_is_read() -> None:
    line = parse(WHOLE, "dir/süd leitung.yaml")
    assert (line.name, line.title, line.seed) == ("süd leitung", "Every key there is", 7)
    assert line.forward == ("Standort Süd", "r1", "r2", "r3", "远端")
    assert line.reverse == ("远端", "r3", "r5", "r4", "r1", "Standort Süd")
    assert line.node("r2").silent
    assert line.node("r5").icmp_interval_ns == 500_000_000
    link = line.between("r1", "r2")
    assert link.mtu == line.mtu(FORWARD) == 1400
    assert line.mtu(REVERSE) == 1500
    there = link.toward("r2")
    assert there.delay_ns == 3_000_000
    assert there.jitter.distribution is Distribution.EXPONENTIAL
    assert not there.jitter.keep_order
    assert (there.loss.ratio, there.loss.burst, there.duplicate) == (0.01, 8, 0.001)
    assert there.rate
    assert (there.rate.bps, there.rate.policer, there.rate.bucket_bytes, there.rate.counts) == (
        50_000_000,
        True,
        20_000,
        "l2",
    )
    assert link.toward("r1").delay_ns == 3_000_000, (
        "no path comes back this way: as long as the other way, and no more than that"
    )
    assert not link.toward("r1").loss.happens
    back = line.between("r4", "r5").toward("r4")
    assert (back.delay_ns, back.remark, back.bleach) == (9_000_000, ((46, 0), (7, 34)), True)
    assert (there.remark, there.bleach) == ((), False)
    bundle, capped = line.between("r2", "r3").toward("r3"), line.between("r3", "r5").toward("r5").rate
    assert bundle.rate
    assert capped
    assert (bundle.rate.members, bundle.rate.of_one.bps, bundle.loss.member) == (4, 20_000_000, 3)
    assert (capped.per_flow_bps, capped.members) == (20_000_000, 1)
    assert bundle.rate.buffer_bytes == capped.buffer_bytes == 62_500, "25 ms of what one flow meets"
    assert (line.window_bytes(FORWARD), line.window_bytes(REVERSE)) == (262_144, 0)
    assert line.expect.cause == {FORWARD: "hashing"}
    assert line.link.near == "Standort Süd"
    assert line.link.cir_bps == 50_000_000
    assert line.expect.loss == {FORWARD: 0.01, REVERSE: 0.0}
    assert line.expect.goodput_bps == {FORWARD: 40_000_000, REVERSE: 40_000_000}
    assert line.loss(FORWARD) == pytest.approx(1 - (1 - 0.01) * (1 - 0.01 / 4))


COMPLAINTS = [
    ("forward: [r1]\n", "x.yaml:1: sites: is missing"),
    ("sites: [a]\nforward: [r1]\n", "x.yaml:1: sites: names 1 sites; allowed: two: [near, far]"),
    ("sites: [a, b]\nforward: [r1, r1]\n", "x.yaml:2: forward: 'r1' stands on the path twice"),
    ("sites: [a, b]\nforward: [r1, b]\n", "x.yaml:2: forward: 'b' stands on the path twice"),
    ("sites: [a, b]\nforward: [r/1]\n", "x.yaml:2: forward: 'r/1' is no name of a node"),
    (HEAD + "routers: {r9: {icmp: never}}\n", "x.yaml:3: routers.r9: stands on no path; allowed: r1, r2, r3"),
    (HEAD + "routers: {r1: {icmp: sometimes}}\n", "x.yaml:3: routers.r1.icmp: 'sometimes' is no ICMP behaviour"),
    (HEAD + "colour: red\n", "x.yaml:3: colour: unknown key"),
    (HEAD + "links:\n  - between: [r1, r3]\n", "x.yaml:4: links#1.between: is no link of the paths; allowed: [near, r1]"),
    (HEAD + "links:\n  - between: [r1, r2]\n  - between: [r2, r1]\n", "x.yaml:5: links#2.between: is described twice"),
    (HEAD + "links: {r1: 1}\n", "x.yaml:3: links: is no list"),
    (HEAD + "links:\n  - between: [r1, r2]\n    mtu: 500\n", "x.yaml:5: links#1.mtu: '500' is no MTU of a link"),
    (HEAD + "links:\n  - between: [r1, r2]\n    both: {delay: 5}\n", "x.yaml:5: links#1.both.delay: '5': a duration needs its unit"),
    (HEAD + "links:\n  - between: [r1, r2]\n    both: {delay: 5 s}\n", "links#1.both.delay: 5 s is no delay of a link"),
    (HEAD + "links:\n  - between: [r1, r2]\n    both: {dely: 5 ms}\n", "unknown key, did you mean 'delay'?"),
    (HEAD + "links:\n  - between: [r1, r2]\n    both: {loss: 1e-3}\n", "links#1.both.loss: is a single value; allowed: keys"),
    (HEAD + "links:\n  - between: [r1, r2]\n    both: {loss: {}}\n", "0 kinds of loss are given"),
    (HEAD + "links:\n  - between: [r1, r2]\n    both: {loss: {ratio: 1e-3, every: 3}}\n", "2 kinds of loss are given"),
    (HEAD + "links:\n  - between: [r1, r2]\n    both: {loss: {every: 3, burst: 3}}\n", "loss.burst: belongs to a ratio"),
    (HEAD + "links:\n  - between: [r1, r2]\n    both: {loss: {ratio: 120 %}}\n", "a ratio lies between 0 and 1"),
    (HEAD + "links:\n  - between: [r1, r2]\n    both: {loss: {ratio: 80 %, burst: 2}}\n", "2 is too short for a loss ratio of 0.8"),
    (HEAD + "links:\n  - between: [r1, r2]\n    both: {jitter: {spread: 1 ms, distribution: pareto}}\n", "'pareto' is not known; allowed: uniform, normal, exponential"),
    (HEAD + "links:\n  - between: [r1, r2]\n    both: {rate: {kind: shaper}}\n", "links#1.both.rate.limit: is missing"),
    (HEAD + "links:\n  - between: [r1, r2]\n    both: {rate: {limit: 1 Mbit/s, kind: policer, buffer: 9 kB}}\n", "a policer has none"),
    (HEAD + "links:\n  - between: [r1, r2]\n    both: {rate: {limit: 1 Mbit/s, members: 1}}\n", "links#1.both.rate.members: 1 is out of range"),
    (HEAD + "links:\n  - between: [r1, r2]\n    both: {rate: {limit: 9 Mbit/s, members: 2, per_flow: 1 Mbit/s}}\n", "rate.per_flow: stands beside members"),
    (HEAD + "links:\n  - between: [r1, r2]\n    both: {rate: {limit: 9 Mbit/s, per_flow: 10 Mbit/s}}\n", "rate.per_flow: is more than the limit of all, 9 Mbit/s"),
    (HEAD + "links:\n  - between: [r1, r2]\n    both: {rate: {limit: 1 Mbit/s, buffer: 1 ms}}\n", "'1 ms' is no depth of a buffer at 1 Mbit/s; allowed: 3000 B"),
    (HEAD + "links:\n  - between: [near, r1]\n    both: {rate: {limit: 1 Mbit/s}}\n", "links#1.both: has the rate where 'near' itself sends"),
    (HEAD + "links:\n  - between: [r1, r2]\n    both: {loss: {ratio: 1e-3, member: 2}}\n", "links#1.both.loss: is that of member 2"),
    (HEAD + "links:\n  - between: [r1, r2]\n    both: {rate: {limit: 9 Mbit/s, members: 2}, loss: {ratio: 1e-3, member: 3}}\n", "links#1.both.loss: is that of member 3"),
    (HEAD + "hosts: {r1: {window: 64 KiB}}\n", "x.yaml:3: hosts.r1: is no site; allowed: near, far"),
    (HEAD + "hosts: {far: {window: 100 kB}}\n", "hosts.far.window: '100 kB' is no window of a host; allowed: 64 KiB, 128 KiB"),
    (HEAD + "expect: {cause: weather}\n", "expect.cause: 'weather' is not known; allowed: policer, shaper"),
    (HEAD + "links:\n  - between: [r1, r2]\n    both: {remark: {EF5: CS0}}\n", "links#1.both.remark.EF5: 'EF5' is no DSCP; allowed: 0 to 63, BE"),
    (HEAD + "links:\n  - between: [r1, r2]\n    both: {remark: {EF: 64}}\n", "links#1.both.remark.EF: '64' is no DSCP"),
    (HEAD + "links:\n  - between: [r1, r2]\n    both: {remark: {BE: 1, CS0: 2}}\n", "links#1.both.remark.CS0: is a DSCP that stands here already"),
    (HEAD + "links:\n  - between: [r1, r2]\n    both: {ecn: clear}\n", "links#1.both.ecn: 'clear' is not known; allowed: keep, bleach"),
    (HEAD + "reverse: [r3, r4, r1]\nlinks:\n  - between: [r3, r4]\n    forward: {delay: 1 ms}\n", "the forward path does not cross this link"),
    (HEAD + "link: {cir: fast}\n", "x.yaml:3: link.cir: 'fast' is no rate"),
    (HEAD + "expect: {verdict: {training: maybe}}\n", "expect.verdict.training: 'maybe' is not known; allowed: pass, fail, inconclusive"),
    (HEAD + "seed: -1\n", "x.yaml:3: seed: -1 is out of range"),
    (HEAD + "forward: [r1]\n", "x.yaml:3: forward: given twice, first in line 2"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "complaint"), COMPLAINTS)
def test_a_complaint_names_file_line_key_and_what_is_allowed(source: str, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(source, "x.yaml")
    assert complaint in str(caught.value)
    assert caught.value.hint == lines.HINT


def test_all_complaints_come_at_once() -> None:
    with pytest.raises(InputError) as caught:
        parse(
            HEAD + "links:\n  - between: [r1, r2]\n    mtu: 1\n    both: {delay: 1, loss: {ratio: 2}}\ncolour: 1\n",
            "x.yaml",
        )
    assert len(str(caught.value).splitlines()) == 4


def test_names_begin_with_the_default() -> None:
    assert names()[0] == lines.DEFAULT == "clean"
    assert {"lossy", "bursty-loss", "slow-reverse", "long-return", "jittery", "policed"} < set(names())


@pytest.mark.parametrize("name", names())
def test_a_shipped_line_expects_what_it_describes(name: str) -> None:
    line = load(name)
    assert line.name == name
    assert line.title
    assert line.about
    assert len(line.forward) >= 5, "two sites, three routers"
    assert line.rtt_ns() == pytest.approx(line.expect.rtt_ns)
    for way in (FORWARD, REVERSE):
        assert line.expect.loss[way] == pytest.approx(line.loss(way))
        rate, goodput = line.rate(way), line.expect.goodput_bps.get(way)
        if goodput:
            assert rate
            # 1448 bytes of a segment with timestamps in 1538 on the wire (IPv4)
            assert goodput == pytest.approx(rate.bps * 1448 / 1538, rel=2e-3)
    assert line.expect.verdict["training"] in {"pass", "fail"}
    assert line.link.cir_bps
    assert line.link.rtt_budget_ns


def test_a_file_of_any_name_is_read(tmp_path: Path) -> None:
    path = tmp_path / "меня зовут line 1.yaml"
    path.write_text(HEAD, "utf-8")
    assert load(str(path)).name == "меня зовут line 1"


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no line is called 'cleam'") as unknown:
        load("cleam")
    assert "clean, bufferbloat, bundle" in unknown.value.hint
    with pytest.raises(InputError, match="No such file"):
        load(str(tmp_path / "none.yaml"))
    with pytest.raises(InputError, match="Is a directory"):
        load(str(tmp_path))


def test_the_documented_example_is_a_line_that_expects_what_it_describes() -> None:
    page = (Path(__file__).parents[2] / "docs" / "lines.md").read_text("utf-8")
    line = parse(page.split("```yaml\n")[1].split("```")[0], "lines.md")
    assert line.expect.rtt_ns == pytest.approx(line.rtt_ns(), abs=1000)
    assert line.expect.loss[FORWARD] == pytest.approx(line.loss(FORWARD))
    assert all(f"| `{name}`" in page for name in names())
