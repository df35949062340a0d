"""A17: a marking that does not arrive. What is said of each value, DSCP and ECN apart, and what is not known is no pass."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkqual import rules
from linkqual.model import (
    Direction,
    Fault,
    Finding,
    Hop,
    Link,
    MarkingResult,
    MarkingRow,
    MarkingTrace,
    Measurement,
    Objective,
    Outcome,
    Plan,
    Step,
    Trace,
    Verdict,
)
from linkqual.wire.codepoints import dscp_name, ecn_name, octet, parse_dscp, parse_ecn

from .streams import START, Truth, records, said, stamp, summary

FORWARD, REVERSE = Direction.FORWARD, Direction.REVERSE
N = 20


def objective(way: Direction, statistic: str, limit: str | None = "keep all", required: bool = True) -> Objective:
    return Objective(
        "marking", statistic, way, None if limit is None else 0.0, required=required, limit_text=limit or "none"
    )


ALL = tuple(objective(way, statistic) for way in (FORWARD, REVERSE) for statistic in ("DSCP", "ECN"))


def sent(way: Direction, name: str, *arrived: tuple[str, int], **rest: int) -> MarkingRow:
    """Packets of one DSCP (or, on CS0, one ECN code point) and what they arrived as; alone: kept."""
    ecn = name in {"ECT(0)", "ECT(1)", "CE"}
    value = parse_ecn(name) if ecn else parse_dscp(name)
    parse = parse_ecn if ecn else parse_dscp
    cells = arrived or (() if rest else ((name, N),))
    found = tuple((0, parse(to), n) if ecn else (parse(to), 0, n) for to, n in cells)
    total = sum(n for *_, n in found) + sum(rest.values())
    return MarkingRow(way, 0 if ecn else value, value if ecn else 0, total, arrived=found, **rest)


def both(*names: str) -> list[MarkingRow]:
    return [sent(way, name) for way in (FORWARD, REVERSE) for name in names]


def measured(*rows: MarkingRow, traces: tuple[MarkingTrace, ...] = ()) -> Measurement:
    return Measurement(Step("marking", "marking"), START, 0, marking=MarkingResult(rows, 52, 10**9, traces))


def judged(measurement: Measurement, objectives: tuple[Objective, ...] = ALL) -> Verdict:
    return rules.judge(Plan("mine", (measurement.step,), objectives, Link()), (measurement,))


def of(verdict: Verdict, way: Direction, statistic: str) -> Finding:
    (found,) = [
        one for one in verdict.findings
        if (one.objective.direction, one.objective.statistic) == (way, statistic)
    ]  # fmt: skip
    return found


def outcomes(verdict: Verdict) -> tuple[str, ...]:
    return tuple(str(one.outcome) for one in verdict.findings)


def test_a17_ef_arrives_as_cs0_forward_and_everything_is_intact_reverse() -> None:
    verdict = judged(measured(sent(FORWARD, "EF", ("CS0", N)), sent(FORWARD, "AF41"), sent(FORWARD, "CS0"),
                              *[sent(REVERSE, name) for name in ("EF", "AF41", "CS0")]))  # fmt: skip
    assert verdict.outcome is Outcome.FAIL
    assert outcomes(verdict) == ("fail", "pass", "pass", "pass")
    failed = of(verdict, FORWARD, "DSCP")
    assert failed.because == "forward marking DSCP: EF arrives as CS0 (20 of 20); AF41, CS0 kept (20 packets each)"
    assert of(verdict, REVERSE, "DSCP").because == "reverse marking DSCP: EF, AF41, CS0 kept (20 packets each)"
    assert failed.estimate is not None
    assert (failed.estimate.value, failed.estimate.n) == (1, 3 * N)
    assert "RoCEv2" in said(verdict)
    assert "DCQCN" not in said(verdict)


def test_bleached_ect_is_a_finding_of_its_own() -> None:
    rows = [
        sent(FORWARD, "EF", ("CS0", N)),
        sent(FORWARD, "CS0"),
        sent(FORWARD, "ECT(0)", ("Not-ECT", N)),
        sent(FORWARD, "ECT(1)"),
    ]
    verdict = judged(measured(*rows, *both("EF", "CS0", "ECT(0)")[3:]))
    assert outcomes(verdict) == ("fail", "fail", "pass", "pass")
    assert "ECT(0) arrives as Not-ECT (20 of 20)" in of(verdict, FORWARD, "ECN").because
    assert "ECT" not in of(verdict, FORWARD, "DSCP").because
    assert "DCQCN" in said(verdict)


@pytest.mark.parametrize(
    ("name", "arrived", "words"),
    [
        ("AF31", (("CS0", 12), ("AF31", 8)), "AF31 arrives as CS0 (12 of 20), 8 kept: packets of one flow"),
        ("CS6", (("CS0", 19), ("CS1", 1)), "CS6 arrives as CS0 (19 of 20) and CS1 (1 of 20)"),
        ("EF", (("EF", 19), ("7", 1)), "EF arrives as DSCP 7 (1 of 20), 19 kept"),
    ],
)
def test_some_changed_and_some_not(name: str, arrived: tuple[tuple[str, int], ...], words: str) -> None:
    verdict = judged(measured(*both("CS0"), sent(REVERSE, name, *arrived)))
    assert of(verdict, FORWARD, "DSCP").outcome is Outcome.PASS
    failed = of(verdict, REVERSE, "DSCP")
    assert failed.outcome is Outcome.FAIL
    assert words in failed.because


def test_congestion_marks_are_no_change_and_cleared_ones_are() -> None:
    kept = judged(measured(*both("CS0"), sent(FORWARD, "ECT(0)", ("CE", 3), ("ECT(0)", 17)), sent(FORWARD, "CE")))
    assert of(kept, FORWARD, "ECN").outcome is Outcome.PASS
    assert "3 of ECT(0) arrived as CE, which a queue may say" in of(kept, FORWARD, "ECN").because
    for name, to in (("CE", "ECT(0)"), ("CE", "Not-ECT"), ("ECT(1)", "ECT(0)"), ("ECT(0)", "ECT(1)")):
        verdict = judged(measured(*both("CS0"), sent(FORWARD, name, (to, N))))
        assert of(verdict, FORWARD, "ECN").outcome is Outcome.FAIL
    row = MarkingRow(FORWARD, 0, 0, N, arrived=((0, 3, N),))
    assert of(judged(measured(row)), FORWARD, "ECN").outcome is Outcome.FAIL, "no queue may set CE without ECT"


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ({"lost": N}, "EF not known: no packet of it arrived"),
        ({"unseen": 3, "lost": 17}, "EF not known: no packet of it arrived"),
        ({"unmarked": N}, "EF not known: the far host does not mark replies as asked"),
    ],
)
def test_a_value_of_which_nothing_arrived_is_open(rest: dict[str, int], words: str) -> None:
    verdict = judged(measured(*both("CS0"), sent(REVERSE, "EF", **rest)))
    found = of(verdict, REVERSE, "DSCP")
    assert found.outcome is verdict.outcome is Outcome.INCONCLUSIVE
    assert words in found.because
    assert found.decide


def test_a_value_that_was_to_be_sent_and_never_was_is_open() -> None:
    """The run was ended, or its second session could not be opened: "keep all" is no promise about what was left out."""
    taken = measured(*both("CS0", "EF", "ECT(0)"))
    step = replace(taken.step, params={"dscp": [0, parse_dscp("EF")], "ecn": [0, parse_ecn("ECT(0)"), parse_ecn("CE")]})
    verdict = judged(replace(taken, step=step))
    assert outcomes(verdict) == ("pass", "inconclusive", "pass", "inconclusive")
    assert "CE not known: no packet left with it" in of(verdict, REVERSE, "ECN").because


def test_a_host_that_marks_nothing_leaves_its_direction_open() -> None:
    rows = [
        sent(FORWARD, "CS0"),
        sent(FORWARD, "EF"),
        sent(REVERSE, "CS0", unmarked=N),
        sent(REVERSE, "EF", unmarked=N),
    ]
    verdict = judged(measured(*rows))
    assert outcomes(verdict) == ("pass", "pass", "inconclusive", "inconclusive")


def test_nothing_arrived_is_no_data() -> None:
    verdict = judged(measured(sent(FORWARD, "CS0", lost=N), sent(FORWARD, "EF", lost=N)))
    assert outcomes(verdict) == ("no-data",) * 4
    assert "CS0, EF not known: no packet of it arrived" in of(verdict, FORWARD, "DSCP").because


def test_only_what_is_asked_for_is_judged() -> None:
    rows = [*both("CS0", "AF41"), sent(FORWARD, "EF", ("CS0", N)), sent(REVERSE, "EF")]
    kept = judged(measured(*rows), (objective(FORWARD, "DSCP", "keep AF41, CS0"),))
    assert outcomes(kept) == ("pass",)
    assert "EF" not in kept.findings[0].because
    assert outcomes(judged(measured(*rows), (objective(FORWARD, "DSCP", "keep ef"),))) == ("fail",)
    never = judged(measured(*rows), (objective(FORWARD, "DSCP", "keep AF41, CS7"),))
    assert outcomes(never) == ("inconclusive",)
    assert "CS7 not known: no packet left with it" in never.findings[0].because


def test_without_a_limit_it_is_shown_and_not_judged() -> None:
    rows = [*both("CS0"), sent(FORWARD, "EF", ("CS0", N))]
    verdict = judged(measured(*rows), (objective(FORWARD, "DSCP", None),))
    assert outcomes(verdict) == ("not-judged",)
    assert "EF arrives as CS0 (20 of 20)" in verdict.findings[0].because
    advisory = judged(measured(*rows), (objective(FORWARD, "DSCP", required=False),))
    assert outcomes(advisory) == ("fail",)
    assert advisory.outcome is not Outcome.FAIL


def test_a_probe_that_failed_or_never_ran_is_no_data() -> None:
    step = Step("marking", "marking")
    broken = Measurement(
        step, START, 0, fault=Fault("unreachable", "no reply tells how a packet arrived", "let UDP through")
    )
    verdict = judged(broken)
    assert outcomes(verdict) == ("no-data",) * 4
    assert "no reply tells" in verdict.findings[0].because
    assert "was not run" in rules.judge(Plan("mine", (), ALL, Link()), ()).findings[0].because
    packets = stamp(summary(records(Truth(100, 1000)), ()), 1000)
    assert "was not run" in rules.judge(Plan("mine", (), ALL, Link()), (packets,)).findings[0].because


# ---- any mapping


VALUES = st.dictionaries(st.integers(1, 63), st.integers(0, 63), min_size=1, max_size=8)


@given(VALUES)
def test_whatever_a_line_does_to_dscp_each_change_is_named_and_nothing_else_fails(mapping: dict[int, int]) -> None:
    rows = [MarkingRow(FORWARD, value, 0, 7, arrived=((to, 0, 7),)) for value, to in mapping.items()]
    found = judged(measured(*rows), (objective(FORWARD, "DSCP"),)).findings[0]
    changed = {value: to for value, to in mapping.items() if value != to}
    assert found.outcome is (Outcome.FAIL if changed else Outcome.PASS)
    for value, to in changed.items():
        assert f"{dscp_name(value)} arrives as {dscp_name(to)} (7 of 7)" in found.because
    assert found.because.count("arrives as") == len(changed)
    assert found.estimate is not None
    assert found.estimate.value == len(changed)


# ---- where


def trace(way: Direction, name: str, *quoted: str | None) -> MarkingTrace:
    """Hops that quote these DSCPs; None: no quote. The end answers by itself."""
    tos = [None if each is None else octet(parse_dscp(each), 0) for each in quoted]
    hops = [Hop(ttl, f"10.0.{ttl}.1", quoted_tos=each) for ttl, each in enumerate(tos, 1)]
    end = Hop(len(hops) + 1, "10.9.9.9", reached=True)
    return MarkingTrace(way, parse_dscp(name), 0, Trace("10.0.0.1", "10.9.9.9", 40000, 33434, (*hops, end)))


@pytest.mark.parametrize(
    ("way", "quoted", "words"),
    [
        (FORWARD, ("EF", "EF", "CS0"), "changed between hop 2 and hop 3: hop 3 (10.0.3.1) is the first that quotes it as CS0"),
        (FORWARD, ("CS0", "CS0"), "changed between the near end and hop 1"),
        (REVERSE, ("CS0", "CS0"), "changed between the far end and hop 1"),
        (FORWARD, ("EF", None, "AF11"), "changed between hop 1 and hop 3: hop 3 (10.0.3.1) is the first that quotes it as AF11"),
        (REVERSE, ("EF", "EF"), "hop 2 (10.0.2.1) still quotes it unchanged, so it is changed between hop 2 and the near end"),
        (FORWARD, (None, None), "no hop tells what it saw of it"),
    ],
)  # fmt: skip
def test_where_it_changes(way: Direction, quoted: tuple[str | None, ...], words: str) -> None:
    rows = [*both("CS0"), sent(way, "EF", ("CS0", N))]
    notes = [note.sentence for note in judged(measured(*rows, traces=(trace(way, "EF", *quoted),))).notes]
    (told,) = [note for note in notes if "trace with" in note]
    assert told.startswith(f"{way} trace with EF: ")
    assert words in told


def test_a_trace_that_carries_both_tells_of_both() -> None:
    rows = [*both("CS0"), sent(FORWARD, "EF", ("CS0", N)), sent(FORWARD, "ECT(0)", ("Not-ECT", N))]
    hops = tuple(Hop(ttl, f"10.0.{ttl}.1", quoted_tos=tos) for ttl, tos in enumerate((186, 184, 0), 1))
    found = MarkingTrace(FORWARD, 46, 2, Trace("10.0.0.1", "10.9.9.9", 1, 2, hops))
    text = said(judged(measured(*rows, traces=(found,))))
    assert "forward trace with EF: changed between hop 2 and hop 3" in text
    assert "forward trace with ECT(0): changed between hop 1 and hop 2" in text
    assert ecn_name(0) in text
