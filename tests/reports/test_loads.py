"""What the reports say of loads: the ladder, delay under load, causes, bursts."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from linkqual import model as m
from linkqual.reports import brief, bursts, charts_cause, charts_load, ladder, sheet, terminal, why

from . import loaded
from .measured import FORWARD, REVERSE
from .samples import SAMPLES
from .test_html import source


def page(name: str = "policed") -> str:
    return source(name)


def test_the_cause_stands_before_the_findings_with_its_confidence_and_what_to_do() -> None:
    text = page()
    card = text[text.index('<section id="why">') : text.index('<section id="findings">')]
    for said in (
        "A policer",
        "High confidence",
        "●●●",
        "ask the carrier which rate",
        "Trains of packets",
        "Per-flow cap",
    ):
        assert said in card
    assert card.count("<figure>") == 1  # the curve, and nowhere else again
    assert text.count("Arrivals of one forward train") == 2  # the wide and the narrow picture


def test_without_a_verdict_the_picture_stands_with_the_trains() -> None:
    text = page("activated")
    assert '<section id="why">' not in text
    assert text.count("Arrivals of one reverse train") == 2
    assert "84.2 ms" in text


def test_a_step_that_was_not_needed_is_no_missing_one() -> None:
    text = page()
    assert "Not needed: trains/reverse: nothing to explain" in text
    assert "trains/reverse not measured" not in text
    assert "Could not measure" not in text


def test_every_load_is_a_row_in_the_order_of_the_ladder() -> None:
    found = ladder.rows(SAMPLES["policed"]())
    forward = [row.short for row in found if row.direction is FORWARD]
    assert forward == ["1", "4", "16", "16, both at once", "16, bbr"]
    assert [row.short for row in found if row.direction is REVERSE] == forward
    chosen = ladder.judged(found, FORWARD)
    assert chosen is not None
    assert chosen.judged
    assert chosen.seconds == 65


def test_the_longest_dip_is_told_and_marked() -> None:
    row = ladder.judged(ladder.rows(SAMPLES["policed"]()), FORWARD)
    assert row is not None
    assert row.figures is not None
    assert row.figures.dip is not None
    assert (row.figures.dip.start_s, row.figures.dip.seconds) == (32, 3)
    assert ("area ink", "longest dip") in charts_load.seconds_key(row, ())
    assert "3 s <small>at 32 s, down to" in page()


def test_a_day_of_seconds_is_drawn_small_and_never_milder() -> None:
    rates = (9e8,) * 40_000 + (1e8,) + (9e8,) * 40_000
    result = m.ThroughputResult(4, rates, allowed_bps=9.4e8)
    taken = m.Measurement(m.Step("throughput/forward/4", "throughput", {"judged": True}, FORWARD), 0, 1, throughput=result)  # fmt: skip
    (row,) = ladder.rows(replace(SAMPLES["policed"](), measurements=(taken,)))
    drawn = charts_load.seconds(row, ())
    assert drawn is not None
    assert len(drawn.svg) < 60_000
    assert charts_load.seconds_key(row, ())[0][1] == "goodput, the slowest of each 334 s"
    assert min(charts_load._slowest(rates)[0]) == 1e8


def test_delay_under_load_is_of_its_own_direction() -> None:
    forward, reverse = (ladder.loaded(row) for row in ladder.rows(SAMPLES["policed"]()) if row.judged)
    assert forward is not None
    assert reverse is not None
    assert forward.lost == 62
    assert reverse.lost == 0
    assert forward.added[0] < reverse.added[0]  # type: ignore[operator]
    assert "Delay with the line full" in page()


def test_flows_that_share_full_members_stand_out() -> None:
    (shown,) = why.flows(SAMPLES["activated"]())
    assert shown.sharing.kind == "members"
    assert shown.picture is not None
    assert "7 lost packets" in shown.picture.alternative
    assert [row.flows for row in shown.rows] == [1, 4, 8]
    many = loaded.flows().flows
    assert many is not None
    drawn = charts_cause.rates_of_flows(many.counts[-1], shown.sharing)
    assert drawn is not None
    assert "32 of 64" in drawn.svg


def test_a_train_without_a_curve_has_no_picture() -> None:
    result = loaded.trains().trains
    assert result is not None
    assert charts_cause.arrival_curve(replace(result, trains=())) is None
    blind = replace(result, rate_bps=None, bucket_bytes=None, kind="none", at_least_bps=1e9)
    picture = charts_cause.arrival_curve(blind)
    assert picture is not None
    assert "--chart-limit" not in picture.svg  # no slope where none is known


def test_the_rate_of_trains_stands_with_what_it_counts() -> None:
    """Without it the rate of a policer set by frames looks like another one than was ordered."""
    q = SAMPLES["policed"]()
    (said,) = [words for head, words in brief.loads(q) if head == "trains →"]
    assert "rate 600.1 Mbit/s (l1: preamble, gap and FCS counted)" in said
    result = replace(loaded.trains().trains, rate_bps=None, kind="none", at_least_bps=1e9, counts="l3")
    none = replace(loaded.trains(), trains=result)
    (said,) = [words for head, words in brief.loads(replace(q, measurements=(none,))) if head == "trains →"]
    assert "no limit below 1 Gbit/s (l3: IP packets alone counted)" in said


def test_the_train_that_says_what_all_say_is_shown() -> None:
    result = loaded.trains().trains
    assert result is not None
    best, near, void = result.trains
    odd = replace(best, rate_bps=0.8 * loaded.RATE, steady_ns=10**9)
    assert charts_cause.clearest(replace(result, trains=(odd, void, near, best))) is best
    assert charts_cause.clearest(replace(result, trains=(void, best, odd), bucket_bytes=None)) is odd
    assert charts_cause.clearest(replace(result, trains=(void,))) is None


def test_bursts_never_complete_are_said_and_are_no_longest_one() -> None:
    there, back = bursts.rows(SAMPLES["policed"]())
    assert (there.late, back.late) == (1, 0)
    assert there.ideal == 16_000_000
    text = page()
    assert "never <small>1 burst</small>" in text
    assert "999 of 1,000" in text
    assert "never complete" in text


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_terminal_says_the_cause_and_the_loads_in_short(width: int) -> None:
    text = terminal.render(SAMPLES["policed"](), width=width, unicode=False)
    assert all(len(line) <= width for line in text.splitlines())
    flat = " ".join(text.split())
    for said in ("A policer.", "High confidence", "16, bbr: 598 Mbit/s", "bucket 128.2 kB", "999 of 1,000 complete"):
        assert said in flat


def test_the_sheet_has_a_row_for_every_figure() -> None:
    rows = [row for row in csv.DictReader(io.StringIO(sheet.render(SAMPLES["policed"]()))) if row["outcome"] == "shown"]
    cause = next(row for row in rows if row["metric"] == "cause")
    assert (cause["statistic"], cause["direction"]) == ("policer", "forward")
    assert "high confidence" in cause["because"]
    bucket = next(row for row in rows if row["statistic"] == "bucket")
    assert (float(bucket["value"]), float(bucket["low"]), bucket["unit"]) == (128_200, 126_900, "B")
    assert any(row["metric"] == "burst_completion" and row["statistic"] == "p99" for row in rows)
    assert sum(row["metric"] == "goodput" for row in rows) == 20
