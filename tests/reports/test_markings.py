"""The matrix of markings: signs for the terminal, counts for the page, each readable without colour."""

from __future__ import annotations

import re

from linkqual.reports import html, markings, terminal

from .measured import marking
from .samples import SAMPLES


def words(text: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


def test_a_sign_for_each_value_and_direction() -> None:
    result = marking({(46, 0): (0, 0, 20), (34, 0): (0, 0, 8), (0, 2): (0, 3, 5)}, lost=20).marking
    assert result is not None
    values, forward, reverse = markings.short(result)
    assert values == ["CS0", "CS3", "AF31", "AF41", "EF", "CS6", "Not-ECT", "ECT(1)", "ECT(0)", "CE"]
    assert dict(zip(values, forward, strict=True)) == dict.fromkeys(values, "=") | {
        "AF41": "= CS0", "EF": "CS0", "CS6": "?",
    }  # fmt: skip
    assert set(reverse) == {"="}


def test_the_page_counts_what_arrived_as_what() -> None:
    page = html.render(SAMPLES["lossy"]())
    section = words(page[page.index('<section id="marking">') :].split("</section>")[0])
    assert "EF changed : 20 as CS0 of 20 sent kept : 20 as EF of 20 sent" in section
    assert "AF41 partly changed : 12 as AF41 , 8 as CS0 of 20 sent" in section
    assert "CS6 not known of 20 sent, 20 lost" in section
    assert "Trace forward with probes sent as EF, Not-ECT" in section
    assert "3 192.0.2.3 CS0, Not-ECT 4 192.0.2.33 answers itself" in section


def test_where_the_matrix_does_not_fit_the_sentences_stand_alone() -> None:
    q = SAMPLES["lossy"]()
    assert markings.LEGEND in terminal.render(q, width=80)
    assert markings.LEGEND not in terminal.render(q, width=50)
