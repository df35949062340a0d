"""The closing table: whole numbers, straight columns, nothing that needs colour."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from rich.cells import cell_len

from linkqual import model as m
from linkqual.metrics import METRICS
from linkqual.model import Outcome
from linkqual.reports import html, sheet, terminal, wording
from linkqual.rules import judge

from .golden import matches
from .samples import SAMPLES

ANSI = re.compile(r"\x1b\[[0-9;]*m")


VIEWS = [(name, 100) for name in SAMPLES] + [(name, width) for name in ("lossy", "few") for width in (80, 120)]


@pytest.mark.parametrize(("name", "width"), VIEWS)
def test_view_is_the_one_accepted(name: str, width: int) -> None:
    matches(f"{name}-{width}.txt", terminal.render(SAMPLES[name](), width, report="runs/r/report.html"))


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
@pytest.mark.parametrize("name", SAMPLES)
def test_no_line_is_wider_than_the_terminal_unless_it_is_one_word(name: str, width: int) -> None:
    for line in terminal.render(SAMPLES[name](), width, color=True).splitlines():
        bare = ANSI.sub("", line).rstrip()
        assert cell_len(bare) <= width or len(bare.split()) <= 3, bare


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("name", SAMPLES)
def test_no_number_is_ever_cut(name: str, width: int) -> None:
    q = SAMPLES[name]()
    shown = " ".join(terminal.render(q, width).split())
    for finding in wording.findings_of(q):
        for number in (
            wording.value_words(finding),
            wording.limit_words(finding.objective),
            wording.sample_words(finding),
        ):
            assert number in shown


@pytest.mark.parametrize("name", ["clean", "lossy", "no_data", "hostile"])
def test_columns_are_straight(name: str) -> None:
    lines = terminal.render(SAMPLES[name](), 100).splitlines()
    head = next(line for line in lines if line.startswith("metric"))
    first = lines.index(head) + 2
    rows = lines[first : first + len(wording.findings_of(SAMPLES[name]()))]
    at = cell_len(head[: head.index("outcome")])
    assert len(rows) == 9
    for row in rows:
        cells = [char for char in row for _ in range(cell_len(char))]
        assert cells[at] in "✓✗?○·"
        assert cells[at - 1] == " "


def test_a_dozen_lines_are_enough_when_all_is_well() -> None:
    table = terminal.render(SAMPLES["clean"](), 100).split("\n\n")[1]
    assert len(table.splitlines()) <= 12


@pytest.mark.parametrize("name", SAMPLES)
def test_ascii_is_ascii(name: str) -> None:
    assert terminal.render(SAMPLES[name](), 100, unicode=False).isascii()


@pytest.mark.parametrize("name", SAMPLES)
def test_colour_adds_no_word(name: str) -> None:
    q = SAMPLES[name]()
    coloured = ANSI.sub("", terminal.render(q, 100, color=True))
    for finding in wording.findings_of(q):
        assert wording.SIGNS[finding.outcome].word in coloured
    assert "\x1b" not in terminal.render(q, 100)


def test_names_cannot_steer_the_terminal() -> None:
    shown = terminal.render(SAMPLES["hostile"](), 100)
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert "\\x1b[2J\\u202e" in shown
    assert "上海–法兰克福 专线 №7 🚄" in shown


def test_no_data_is_said_in_every_row_and_never_as_zero() -> None:
    shown = terminal.render(SAMPLES["no_data"](), 100)
    assert shown.count("not measured") == 9 + 1
    assert shown.count("○ NO DATA") == 9
    assert "agent running?" in shown


def test_equal_sentences_are_said_once() -> None:
    shown = " ".join(terminal.render(SAMPLES["few"](), 100).split())
    assert shown.count("loss could still be up to 3e-4") == 1
    assert "loss, forward and reverse: no packet lost of 10,000" in shown
    assert "To decide: 289,572 more packets" in shown


@pytest.mark.parametrize(
    ("name", "words"), [("embedded", "embedded line “clean”"), ("simulated", "No packet was sent")]
)
def test_an_unreal_line_is_called_so(name: str, words: str) -> None:
    assert words in terminal.render(SAMPLES[name](), 200)
    assert words not in terminal.render(SAMPLES["clean"](), 200)


@pytest.mark.parametrize(
    ("name", "banner"),
    [
        ("clean", "P A S S   7 of 7 red lines of profile training proven kept"),
        ("lossy", "F A I L   3 of 7 red lines of profile training proven broken"),
        ("few", "I N C O N C L U S I V E   2 of 4 red lines of profile training not decided; 3 not judged"),
        ("no_data", "N O  D A T A   7 of 7 red lines of profile training not measured"),
        ("measured_only", "N O T  J U D G E D   measured only"),
    ],
)
def test_the_verdict_is_one_big_line(name: str, banner: str) -> None:
    assert any(banner in line for line in terminal.render(SAMPLES[name](), 140).splitlines())


def test_every_outcome_has_its_own_word_and_symbol() -> None:
    signs = [wording.SIGNS[outcome] for outcome in Outcome]
    for part in ("word", "symbol", "ascii_symbol", "slug"):
        assert len({getattr(sign, part) for sign in signs}) == len(signs)


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("utf-8", True), ("UTF8", True), ("ascii", False), (None, False), ("latin-1", False), ("nonsense", False)],
)
def test_unicode_is_shown_where_the_stream_can(encoding: str | None, shown: bool) -> None:
    assert terminal.shows_unicode(encoding) is shown


def test_packets_left_out_of_the_delays_are_counted() -> None:
    q = SAMPLES["clean"]()
    assert "left out" not in terminal.render(q, 100)
    (place, taken), *_ = [(n, each) for n, each in enumerate(q.measurements) if each.stamp]
    assert taken.stamp is not None
    stamp = replace(taken.stamp, summary=replace(taken.stamp.summary, unstamped=801))
    measurements = (*q.measurements[:place], replace(taken, stamp=stamp), *q.measurements[place + 1 :])
    shown = terminal.render(replace(q, measurements=measurements), 100)
    assert "\n801 packets are left out of the delays: a stamp of user space\n" in shown


@pytest.mark.parametrize("width", [80, 100, 120])
def test_every_kind_of_red_line_takes_one_line(width: int) -> None:
    """Names, units and outcomes at their longest."""
    q = SAMPLES["policed"]()
    assert q.verdict is not None
    values = {"ns": 118.4e6, "bit/s": 119.4e6, "times": 1.268, "ratio": 0.02131}
    kinds = [(name, metric) for name, metric in METRICS.items() if metric.unit in values]
    findings = []
    for name, metric in kinds:
        value, statistic = values[metric.unit], "p99" if metric.quantiles else metric.statistics[0]
        objective = m.Objective(name, statistic, metric.directions[0], 0.98 * value, required=False)
        estimate = m.Estimate(value, 0.9 * value, 1.1 * value, 0.95, 369_715, metric.unit, "")
        findings.append(m.Finding(objective, Outcome.INCONCLUSIVE, "why", estimate))
    text = terminal.render(replace(q, verdict=replace(q.verdict, findings=tuple(findings))), width=width)
    table = [line for line in text.splitlines() if "? INCONCLUSIVE" in line]
    assert len(table) == len(kinds)
    assert all("…" in line or "–" in line for line in table)  # value and interval in the same line


def only(probe: str) -> m.Qualification:
    """A run of one probe: the red lines of all others have no data."""
    q = SAMPLES["clean"]()
    step = m.Step(f"{probe}/forward", probe, {}, m.Direction.FORWARD)
    taken = tuple(one for one in q.measurements if one.step.probe == probe)
    plan = replace(q.plan, steps=tuple(one.step for one in taken) or (step,))
    return replace(q, plan=plan, measurements=taken, verdict=judge(plan, taken))


def test_of_probes_that_were_not_asked_for_one_line_is_said() -> None:
    q = only("trains")
    text, total = terminal.render(q, 120), len(q.plan.objectives)
    assert text.count("that this run leaves out") == 1
    assert f"{total} red lines belong to probes that this run leaves out (" in text
    assert "was not run" not in text
    required = sum(one.required for one in q.plan.objectives)
    assert wording.headline(q).startswith(f"none of the {required} required red lines")
    assert wording.headline(q) in text
    assert "was not run" not in html.render(q)
    assert html.render(q).count("that this run leaves out (") == 1
    assert sheet.render(q).count("was not run") == total  # a script still sees each of them


def test_the_red_lines_of_the_probe_that_ran_are_shown_and_the_verdict_stays() -> None:
    q = only("stamp")
    shown = wording.shown_of(q)
    assert {METRICS[one.objective.metric].probe for one in shown} == {"stamp"}
    assert len(shown) + len(wording.apart_of(q)) == len(q.plan.objectives)
    assert q.verdict is not None
    assert q.verdict.outcome is Outcome.NO_DATA
    assert wording.apart_words(q) in " ".join(terminal.render(q, 200).split())
    assert not wording.apart_words(SAMPLES["no_data"]())  # asked for and failed is told in full
