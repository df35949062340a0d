"""docs/metrics.md explains every metric there is, and its figures are those the code gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from linkqual.metrics import METRICS
from linkqual.stats import confidence, throughput
from linkqual.stats.histogram import EVEN_LIMIT, MANTISSA_BITS, RELATIVE_ERROR

TEXT = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_has_a_section_that_cites_its_standards(name):
    metric = METRICS[name]
    body = [body for title, body in SECTIONS.items() if f"(`{name}`)" in title]
    assert len(body) == 1, f"docs/metrics.md: one section titled ... (`{name}`)"
    for clause in metric.standard.split(", "):
        assert clause in body[0]
    for word in (
        "| definition |",
        "| standard |" if metric.name != "loss_ratio" else "RFC",
        "| needs |",
        "| statistics |",
    ):
        assert word in body[0]
    for statistic in metric.statistics:
        assert f"`{statistic}`" in body[0]


def test_no_section_explains_a_metric_that_does_not_exist():
    named = {name for title in SECTIONS for name in re.findall(r"\(`(\w+)`\)", title)}
    assert named == set(METRICS)


def test_the_figures_in_the_text_are_those_of_the_code():
    for k, packets in enumerate(("299,572", "474,385", "629,578", "775,364")):
        assert packets == f"{confidence.trials_to_prove(1e-5, k):,}"
        assert packets in TEXT
    for q, least in ((0.999, 3688), (0.99, 368)):
        assert confidence.quantile_ranks(least, q)[1] is not None
        assert confidence.quantile_ranks(least - 1, q)[1] is None
        assert str(least) in TEXT
    for rate, digits in ((1e9, 4), (10e9, 4), (100e9, 3)):
        for mtu in (1500, 9000):
            assert f"{throughput.header_goodput(rate, mtu) / 1e9:.{digits}f}" in TEXT
    assert f"{100 * RELATIVE_ERROR:.3f} %" in TEXT
    assert f"{2**MANTISSA_BITS} buckets" in TEXT
    assert f"at most {EVEN_LIMIT} of them" in TEXT


def test_links_within_the_page_lead_somewhere():
    anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in SECTIONS}
    for target in re.findall(r"\]\(#([^)]+)\)", TEXT):
        assert target in anchors
