"""What the page tells of services and of the search, from the stored document alone."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from functools import cache

from linkqual import model as m
from linkqual.metrics import METRICS
from linkqual.model import Outcome
from linkqual.reports import html, services, sheet, terminal

from .measured import FORWARD, REVERSE
from .samples import SAMPLES


@cache
def activated() -> m.Qualification:
    """With the red lines an activation has."""
    q = SAMPLES["activated"]()
    lines = tuple(
        m.Objective(
            name, "p99" if METRICS[name].quantiles else "ratio", way, 1.0, METRICS[name].relation, limit_text=text
        )
        for name, text in (
            ("information_rate", "agreed"),
            ("frame_loss_ratio", "agreed"),
            ("frame_transfer_delay", "agreed"),
            ("policing", "5 %"),
        )
        for way in (FORWARD, REVERSE)
    )
    return replace(q, plan=replace(q.plan, objectives=lines))


def row(table: services.Table, way: m.Direction, title: str) -> dict[str, services.Cell]:
    (found,) = [one for one in table.rows if one.direction is way and one.title == title]
    return {cell.head: cell for cell in found.cells}


def test_each_service_is_a_table_with_what_was_ordered_and_accepted() -> None:
    gold, effort = services.tables(activated())
    assert (gold.service.name, len(gold.rows)) == ("gold", 12)
    assert (
        gold.ordered
        == "CIR 300 Mbit/s, EIR 100 Mbit/s, frames with FCS counted; frames of 82, 612 and 1,518 octets as 1:1:2, DSCP 46"
    )
    assert gold.accepted == "IR at least 99.999 %, FLR at most 1e-5, FTD p99 at most 8 ms"
    assert effort.accepted == "IR at least 99.9 %, FLR at most 0.1 %"  # of what is not agreed nothing is said


def test_each_figure_carries_what_is_said_of_it() -> None:
    gold, _ = services.tables(activated())
    quarter, over = row(gold, FORWARD, "CIR 25 %"), row(gold, FORWARD, "overshoot")
    assert quarter["FLR"].value == "0"
    assert quarter["FLR"].outcome in (Outcome.PASS, Outcome.INCONCLUSIVE)
    assert quarter["IR"].outcome is None  # a quarter of the CIR shows no CIR
    assert over["FLR"].outcome is None  # above the CIR no loss is promised
    assert over["IR"].outcome is not None
    assert row(gold, FORWARD, "CIR 100 %")["FTD"].outcome is not None
    assert all(
        cell.outcome is None
        for one in services.tables(SAMPLES["activated"]())
        for each in one.rows
        for cell in each.cells
    )


def test_a_load_cut_short_says_so_and_what_was_offered_is_not_known() -> None:
    q = activated()
    (at, taken), *_ = ((at, one) for at, one in enumerate(q.measurements) if one.services is not None)
    assert taken.services is not None
    *others, last = taken.services.steps
    cut = replace(last, count=replace(last.count, sent_ns=0, short="peer-lost"))
    result = replace(taken.services, steps=(*others, cut))
    measurements = (*q.measurements[:at], replace(taken, services=result), *q.measurements[at + 1 :])
    told = replace(q, measurements=measurements)
    (shown,) = [one for table in services.tables(told) for one in table.rows if one.title.endswith(", cut short")]
    assert (shown.offered, shown.frames > 0, shown.length_ns > 0) == (None, True, True)
    assert "cut short" in html.render(told)


def test_a_search_that_hosts_ended_is_no_figure_of_the_line() -> None:
    small, *others = services.searched(activated())
    assert (small.frame, small.limited) == (64, "the hosts could do no more")
    assert all(one.limited == "" for one in others)
    text = html.render(activated())
    section = text[text.index('<section id="search">') :]
    assert "at least 5" in section
    assert section.index("at least") < section.index("the hosts could do no more")


def test_the_page_shows_them_and_links_to_them() -> None:
    text = html.render(activated())
    for name in ("services", "search"):
        assert f'<section id="{name}">' in text
        assert f'<a href="#{name}">' in text
    assert '<section id="services">' not in html.render(SAMPLES["clean"]())


def test_a_hostile_name_of_a_service_stays_text() -> None:
    q = activated()
    (taken,) = [one for one in q.measurements if one.services]
    assert taken.services is not None
    bad = "=<script>\x1b[2Jalert(1)</script>"
    renamed = m.ServicesResult(
        tuple(replace(one, name=bad) for one in taken.services.services[:1]),
        tuple(replace(one, service=bad) for one in taken.services.steps if one.service == "gold"),
    )
    shown = replace(q, measurements=(replace(taken, services=renamed),))
    assert "<script>" not in html.render(shown)
    assert "alert(1)" in html.render(shown)
    assert "\x1b" not in terminal.render(shown, width=100, color=False, unicode=True)
    assert not [cell for row in csv.reader(io.StringIO(sheet.render(shown))) for cell in row if cell.startswith("=")]


def test_terminal_and_csv_have_the_same_in_short() -> None:
    said = terminal.render(activated(), width=200, color=False, unicode=True)
    (line,) = [one for one in said.splitlines() if one.startswith("gold →")]
    assert "CIR 25 %: " in line
    assert "at least" in next(one for one in said.splitlines() if one.startswith("64 octets →"))
    rows = list(csv.DictReader(io.StringIO(sheet.render(activated()))))
    overshoot = [row for row in rows if row["statistic"] == "gold, overshoot" and row["direction"] == "forward"]
    assert {row["metric"] for row in overshoot} == {"service_rate", "frame_loss_ratio"}
