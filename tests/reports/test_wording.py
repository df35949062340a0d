"""One fact, one wording; text of others made harmless; columns of cells; numbers for charts; CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from linkqual import reports
from linkqual.model import Conditions, Direction, Estimate, Fault, Finding, Objective, Outcome, Relation, Slice
from linkqual.reports import series, sheet, surroundings, terminal, wording
from linkqual.reports.cells import pad, wrap
from linkqual.reports.inert import inert, plain
from linkqual.reports.truth import truth

from .measured import CONDITIONS
from .samples import SAMPLES
from .traffic import histogram


@pytest.mark.parametrize(
    ("low", "high", "unit", "words"),
    [
        (11.1e6, 11.4e6, "ns", "11.1–11.4 ms"),
        (982e3, 1.04e6, "ns", "982 µs … 1.04 ms"),
        (0.0, 9e-6, "ratio", "≤ 9e-6"),
        (None, 9e-6, "ratio", "≤ 9e-6"),
        (0.0, 1e6, "ns", "0 ns … 1 ms"),
        (9.3e9, None, "bit/s", "≥ 9.3 Gbit/s"),
        (None, None, "ns", ""),
        (5e6, 5e6, "ns", "5 ms"),
        (8.3e-4, 0.001088, "ratio", "8.3e-4 … 1.09e-3"),
        (0, None, "ns", "no upper bound"),
        (5_000_000, 5_000_100, "ns", "5 ms"),
        (0.0024, 0.0049, "ratio", "0.24–0.49 %"),
    ],
)
def test_intervals(low: float | None, high: float | None, unit: str, words: str) -> None:
    assert wording.interval_words(Estimate(1.0, low, high, 0.95, 10, unit, "")) == words


def test_a_rate_that_came_to_nothing_has_no_lost_quantile() -> None:
    nothing = Estimate(None, 3.0, None, 0.95, 65, "times", "medians of the seconds")
    found = Finding(Objective("rate_symmetry", "factor", Direction.ROUND_TRIP, 1.5), Outcome.FAIL, "", nothing)
    assert wording.value_words(found) == "∞ (nothing came through)"
    late = Finding(Objective("delay", "p99", Direction.FORWARD, 1e6), Outcome.FAIL, "", replace(nothing, unit="ns"))
    assert wording.value_words(late) == "∞ (lost)"


def test_no_estimate_is_no_number() -> None:
    finding = SAMPLES["no_data"]().verdict.findings[0]  # type: ignore[union-attr]
    assert wording.value_words(finding) == "not measured"
    assert wording.interval_words(finding.estimate) == ""
    assert wording.sample_words(finding) == "0"


def test_a_metric_of_a_newer_linkqual_is_shown_as_it_is() -> None:
    unknown = Objective("packet_colour", "p99", Direction.FORWARD, 3.0, Relation.AT_LEAST)
    assert wording.metric_title(unknown) == "packet_colour p99"
    assert wording.limit_words(unknown) == "≥ 3"
    assert wording.limit_words(replace(unknown, limit=None)) == "not given"


@given(st.text())
@settings(max_examples=200)
def test_inert_text_is_printable_one_line_and_stays_so(text: str) -> None:
    shown = inert(text)
    shown.encode()
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 or "\u202a" <= char <= "\u202e" for char in shown)
    assert inert(shown) == shown
    assert plain(shown).isascii()


def test_foreign_names_stay_readable() -> None:
    assert inert("上海 קצה Zürich 👩‍💻") == "上海 קצה Zürich 👩‍💻"
    assert inert("a\x1b[31m\u202eb\ud800\n") == "a\\x1b[31m\\u202eb\\ud800 "
    assert plain("Zürich → 5 µs ≤ 上") == "Zurich -> 5 us <= \\u4e0a"


@given(st.text(alphabet="ab 上é1.μ,", max_size=80), st.integers(5, 40))
@settings(max_examples=100)
def test_wrapped_text_is_the_same_text(text: str, width: int) -> None:
    lines = wrap(text, width, "* ", "  ")
    assert " ".join(" ".join(lines)[2:].split()) == " ".join(text.split())
    for row in lines:
        assert cell_len(row) <= width or len(row.split()) <= 2


def test_a_number_keeps_its_unit_on_its_line() -> None:
    assert wrap("carried at least 4.61 Gbit/s, much", 22) == ["carried at least", "4.61 Gbit/s, much"]
    assert pad("上", 4) + "|" == "上  |"
    assert pad("上", 4, right=True) == "  上"


def test_thinned_slices_never_look_milder() -> None:
    slices = [
        Slice(i, 10, 0, i % 2, 0, 100 + i, None if i == 3 else 200, 300, 400 + i, 7 * i, None) for i in range(1000)
    ]
    thin = series.thinned(slices)
    assert len(thin) <= series.MAX_POINTS
    assert sum(s.lost_reverse for s in thin) == 500
    assert sum(s.sent for s in thin) == 10_000
    assert max(s.rtt_max_ns or 0 for s in thin) == 1399
    assert min(s.rtt_min_ns or 0 for s in thin) == 100
    assert max(s.forward_pdv_p99_ns or 0 for s in thin) == 6993
    assert all(s.reverse_pdv_p99_ns is None for s in thin)
    assert series.thinned(slices[:5]) == slices[:5]


def test_a_tail_ends_where_the_sample_does() -> None:
    few = series.tail(histogram(np.arange(100)))
    assert few[0] == (0.0, 0)
    assert few[-1][0] == pytest.approx(2.0)
    many = series.tail(histogram(np.arange(100_000)))
    assert many[-1][0] == pytest.approx(4.0)
    assert many[-1][1] == pytest.approx(99_990, rel=1e-3)
    assert [value for _, value in many] == sorted(value for _, value in many)
    assert series.tail(histogram(np.zeros(0, np.int64))) == []


def test_axes_keep_their_numbers_short() -> None:
    assert series.duration_axis([None, 2_500_000]).unit == "ms"
    assert series.time_axis(90e9).unit == "s"
    assert series.time_axis(200e9).unit == "min"
    assert series.rate_axis([940e6]).unit == "Mbit/s"
    assert series.rate_axis([]).unit == "bit/s"


def test_counters_of_a_line_stand_side_by_side_and_zeros_are_left_out() -> None:
    counters = {
        "line": "clean",
        "seed": 7,
        "forward": {"udp": {"seen": 9, "dropped": 0}, "dropped": 2, "latest_ns": 2_000_000},
        "reverse": {"udp": {"seen": 8, "dropped": 0}, "dropped": 0, "latest_ns": None},
        "links": [
            {"link": "a - b", "to": "b", "pumped": True, "seen": 1_771_951, "udp": {"seen": 5, "dropped": 0}},
            {"link": "a - b", "to": "a", "pumped": False, "seen": 0},
        ],
    }
    told = truth(replace(SAMPLES["lossy"](), truth=counters))
    assert told.ways == (
        ("lost, as measured by STAMP", "3", "633"),
        ("dropped", "2", "0"),
        ("latest", "2 ms", "—"),
        ("udp seen", "9", "8"),
        ("udp dropped", "0", "0"),
    )
    assert told.parts == (("a - b → b", "seen 1,771,951, udp seen 5"),)
    assert told.facts == (("line", "clean"), ("seed", "7"))


def test_csv_gives_one_row_a_finding_in_base_units() -> None:
    every = list(csv.DictReader(io.StringIO(sheet.render(SAMPLES["clean"]()))))
    rows = [row for row in every if row["outcome"] != "shown"]
    assert len(rows) == 9
    assert rows[0] | {"because": "", "source": ""} == {
        "run": "2026-11-30T07-17-56_fra-zrh", "line": "FRA–ZRH wave 7", "metric": "loss_ratio", "statistic": "ratio",
        "direction": "forward", "required": "yes", "outcome": "pass", "value": "0.0", "low": "0.0", "high": "9e-06",
        "confidence": "0.95", "unit": "ratio", "relation": "at most", "limit": "1e-05", "n": "332858",
        "rule": "sequential", "because": "", "decide": "", "source": "",
    }  # fmt: skip
    none = list(csv.DictReader(io.StringIO(sheet.render(SAMPLES["no_data"]()))))
    assert none[0]["value"] == ""
    assert none[0]["outcome"] == "no-data"


def test_a_quantile_among_lost_packets_has_no_bound() -> None:
    """A p99.9 of a line that loses 0.12 % was measured: later than any limit."""
    q = SAMPLES["clean"]()
    assert q.verdict is not None
    first, *rest = q.verdict.findings
    unbounded = Estimate(None, 3_200_000, None, 0.95, 40_000, "ns", "order statistics")
    q = replace(q, verdict=replace(q.verdict, findings=(replace(first, estimate=unbounded), *rest)))
    assert "∞ (lost) ≥ 3.2 ms" in " ".join(terminal.render(q, 200).split())
    assert "inf (lost)" in terminal.render(q, 200, unicode=False)
    assert "∞ (lost)" in reports.render(q, "html")
    assert next(csv.DictReader(io.StringIO(sheet.render(q))))["value"] == "inf"


def test_a_name_is_no_formula() -> None:
    q = SAMPLES["clean"]()
    named = replace(q, run="=HYPERLINK(1)")
    assert next(csv.DictReader(io.StringIO(sheet.render(named))))["run"] == "'=HYPERLINK(1)"


@pytest.mark.parametrize("form", reports.FORMATS)
def test_every_format_of_the_registry_renders(form: str) -> None:
    assert "FRA" in reports.render(SAMPLES["clean"](), form)


def test_conditions_that_agree_are_told_once_and_the_worse_bound_holds() -> None:
    q = SAMPLES["clean"]()
    first, second, third, *_ = q.measurements
    bare = replace(CONDITIONS, near=replace(CONDITIONS.near, stamps={}), clock_error_ns=120_000)
    other = replace(CONDITIONS, far=replace(CONDITIONS.far, host="spare-gw"))
    q = replace(
        q,
        measurements=(first, replace(second, conditions=bare), replace(third, conditions=other)),
    )
    groups = surroundings.groups(q)
    assert [group.steps for group in groups] == [("stamp", "ping"), ("throughput/forward/1",)]
    assert groups[0].state.near.stamps == {"T1": "kernel", "T4": "kernel"}
    assert groups[0].state.clock_error_ns == 120_000
    silent = replace(q, measurements=(replace(first, conditions=Conditions()),))
    assert surroundings.groups(silent) == []


def test_a_host_that_dropped_packets_is_named() -> None:
    q = SAMPLES["clean"]()
    near = replace(CONDITIONS.near, drops={"UdpRcvbufErrors": 7, "softnet_dropped": 0})
    q = replace(q, measurements=(replace(q.measurements[0], conditions=replace(CONDITIONS, near=near)),))
    assert surroundings.drops(q) == [surroundings.Drop("stamp", "near", "UdpRcvbufErrors", 7)]


def test_a_way_back_that_nobody_could_trace_is_no_failure() -> None:
    fault = Fault("no-way-back", "it traces nothing")
    assert wording.Trouble(("path",), fault, True).head == "Measured one way only"
    assert wording.Trouble(("path",), fault, False).head == "Could not measure path"
    assert wording.Trouble(("path",), Fault("no-agent", ""), True).head == "Could not measure path to its end"
