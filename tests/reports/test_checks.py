"""The self-checks and both directions beside each other: on the page, in the terminal, in the sheet."""

from __future__ import annotations

from dataclasses import replace

from linkqual import model as m
from linkqual.reports import html, terminal

from .samples import SAMPLES
from .test_paths import words

CHECKS = (
    m.SelfCheck("same topology across sites", "FAIL", "routers: 3 forward, 4 back", (("routers", "3 forward, 4 <back>"),)),
    m.SelfCheck("non-blocking for RoCE", "UNKNOWN", "marking: not looked at", (), "measure with the marking probe"),
    m.SelfCheck("symmetric routes", "PASS", "as far as both ends see: traces: the same", (("traces", "the same"),), "ask on"),
)  # fmt: skip


def checked(*checks: m.SelfCheck) -> m.Qualification:
    q = SAMPLES["few"]()
    assert q.verdict is not None
    return replace(q, verdict=replace(q.verdict, checks=checks))


def test_the_page_has_three_rows_with_outcome_evidence_and_what_to_do() -> None:
    page = html.render(checked(*CHECKS))
    said = words(page, "checks")
    for one in ("FAIL", "UNKNOWN", "PASS", "To settle it: measure with the marking probe", "Next: ask on"):
        assert one in said
    assert "4 &lt;back&gt;" in page
    assert '<a href="#checks">' in page


def test_the_terminal_says_each_in_short_and_three_unknown_in_one_line() -> None:
    shown = terminal.render(checked(*CHECKS), 200)
    assert "✗ same topology across sites  FAIL: routers: 3 forward, 4 back" in shown
    assert "? non-blocking for RoCE       UNKNOWN: marking: not looked at. To settle it: measure with" in shown
    assert "✓ symmetric routes            PASS: as far as both ends see (traces)\n" in shown
    plain = terminal.render(checked(*CHECKS), 200, unicode=False)
    assert "x same topology across sites" in plain
    unknown = [replace(one, outcome="UNKNOWN") for one in CHECKS]
    assert terminal.render(checked(*unknown), 200).count("UNKNOWN") == 1


def test_a_document_without_checks_shows_no_section() -> None:
    assert 'id="checks"' not in html.render(checked())
    assert "self-checks" not in terminal.render(checked())
