"""The page: self-contained, valid in structure, complete, and deaf to what names try to do."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from linkqual.model import Outcome
from linkqual.reports import drawing, html, wording
from linkqual.reports.inert import inert

from .golden import matches
from .samples import SAMPLES

VOID = {"meta", "br", "img", "link", "input", "hr", "wbr", "col"}
SVG_CLOSED = {"path", "line", "rect", "circle"}


class Page(HTMLParser):
    """Elements, attributes and text of a page; complains of tags that do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.styles: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert "svg" in self.open, f"<{tag}/> outside of an SVG"
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()
        if tag in {"td", "th", "dt", "dd", "li", "p"}:
            self.words.append(" ")

    def handle_data(self, data: str) -> None:
        (self.styles if self.open and self.open[-1] == "style" else self.words).append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


@cache
def source(name: str) -> str:
    return html.render(SAMPLES[name]())


@cache
def page(name: str) -> Page:
    return Page(source(name))


def spaced(text: str) -> str:
    return " ".join(inert(text).replace("`", "").split())  # what stands between is set as code


every = pytest.mark.parametrize("name", SAMPLES)


@every
def test_nothing_is_fetched_from_anywhere(name: str) -> None:
    for tag, attrs in page(name).tags:
        assert tag not in {"script", "img", "link", "iframe", "object", "embed", "base", "form", "image", "use"}
        for attribute, value in attrs.items():
            assert not attribute.startswith("on"), f"<{tag} {attribute}>"
            assert attribute not in {"src", "srcset", "style", "action", "xlink:href"}
            if attribute == "href":
                assert (value or "").startswith("#")
            if "url(" in (value or ""):
                assert re.search(r"url\(#[\w-]+\)", value or "")
    styles = "".join(page(name).styles)
    assert "url(" not in styles
    assert "@import" not in styles
    policy = next(meta["content"] for meta in page(name).named("meta") if "http-equiv" in meta)
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


@every
def test_the_page_has_a_language_a_title_and_one_heading_of_the_first_rank(name: str) -> None:
    p = page(name)
    assert source(name).startswith("<!doctype html>\n")
    assert p.named("html") == [{"lang": "en"}]
    assert len(p.named("title")) == len(p.named("h1")) == len(p.named("main")) == 1
    assert {meta.get("name") for meta in p.named("meta")} >= {"viewport", "color-scheme"}
    ranks = [int(tag[1]) for tag, _ in p.tags if re.fullmatch(r"h[1-6]", tag)]
    assert all(b - a <= 1 for a, b in pairwise(ranks))


@every
def test_identifiers_are_unique_and_links_lead_to_them(name: str) -> None:
    ids = Counter(attrs["id"] for _, attrs in page(name).tags if "id" in attrs)
    assert all(count == 1 for count in ids.values()), ids.most_common(3)
    for link in page(name).named("a"):
        assert (link["href"] or "")[1:] in ids
    for match in re.finditer(r"url\(#([\w-]+)\)", source(name)):
        assert match[1] in ids


@every
def test_every_finding_is_there_with_sentence_value_limit_and_source(name: str) -> None:
    text = page(name).text
    for finding in wording.findings_of(SAMPLES[name]()):
        objective = finding.objective
        for said in (
            finding.because,
            finding.decide,
            objective.source,
            wording.limit_words(objective),
            wording.value_words(finding),
            wording.interval_words(finding.estimate),
            wording.SIGNS[finding.outcome].word,
        ):
            assert spaced(said) in text


@every
def test_every_objective_reason_note_and_fault_is_there(name: str) -> None:
    q, text = SAMPLES[name](), page(name).text
    notes = [note.sentence for note in q.verdict.notes] if q.verdict else []
    faults = [m.fault.message for m in q.measurements if m.fault]
    for said in (*(o.source for o in q.plan.objectives), *q.plan.reasons, *notes, *faults, q.profile.purpose):
        assert spaced(said) in text


@every
def test_every_figure_has_words_for_those_who_cannot_see_it(name: str) -> None:
    p = page(name)
    pictures = p.named("svg")
    assert len(pictures) == 2 * len(p.named("figure"))
    for picture in pictures:
        assert picture["role"] == "img"
        assert len(picture["aria-label"] or "") > 30
    assert len(p.named("figcaption")) == len(p.named("figure"))


def test_a_full_run_shows_every_chart_and_a_lossy_one_its_losses() -> None:
    assert len(page("clean").named("figure")) == 8
    assert len(page("lossy").named("figure")) == 10
    label = next(p["aria-label"] for p in page("lossy").named("svg") if "Loss reverse" in (p["aria-label"] or ""))
    assert label == "Loss reverse over time: 39 events, 633 packets, the largest event 412 packets."


@every
def test_charts_take_their_colours_from_the_page(name: str) -> None:
    defined = set(re.findall(r"(--chart-\w+):", "".join(page(name).styles)))
    used = set(re.findall(r"var\((--chart-\w+)\)", source(name)))
    assert used <= defined
    assert not re.search(r'(?:fill|stroke)="(?!none|transparent|var)[^"]+"', source(name))


def test_names_are_inert() -> None:
    text = source("hostile")
    assert "<script" not in text
    assert "onerror" not in {name for _, attrs in page("hostile").tags for name in attrs}
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert '<script>alert("x")</script>\\x1b[2J\\u202egnp.exe' in page("hostile").text
    assert "上海–法兰克福 专线 №7 🚄" in page("hostile").text
    assert "'\"><img src=//evil.example/x onerror=1>" in page("hostile").text


def test_what_is_missing_is_said_with_its_reason() -> None:
    text = page("no_data").text
    for what in ("Delay", "Loss", "Throughput", "Path", "Ping"):
        assert f"{what} not measured: zrh4-gw.example.net: no answer in 5 s" in text
    assert (
        "Throughput not measured: the far end has no iperf3 (apt-get install iperf3 on zrh4-gw)"
        in page("interrupted").text
    )
    assert "not measured: the offset between both clocks is not known" in page("few").text
    assert not page("no_data").named("figure")


def test_every_judged_thing_that_was_not_measured_is_no_data_in_its_row() -> None:
    rows = re.findall(r'<tbody class="no-data">(.*?)</tbody>', source("no_data"), re.S)
    assert len(rows) == 9
    assert all("NO DATA" in row and "not measured" in row for row in rows)


@pytest.mark.parametrize(
    ("name", "words"), [("embedded", "embedded line “clean”"), ("simulated", "No packet was sent")]
)
def test_an_unreal_line_is_called_so_at_the_top(name: str, words: str) -> None:
    assert words in page(name).text[:900]
    assert words not in page("clean").text


def test_the_truth_of_a_virtual_line_stands_beside_the_measurement() -> None:
    assert "forwarded 332,858 332,858" in page("embedded").text
    assert "lost, as measured by STAMP 0 0" in page("embedded").text
    assert "truth" not in {attrs.get("id") for attrs in page("clean").named("section")}


def test_times_are_given_in_utc_and_in_the_named_zone() -> None:
    assert "2026-11-30 07:17:56 UTC" in page("clean").text
    assert "2026-11-30 08:17:56 Europe/Zurich" in page("clean").text
    assert "07:17:56 UTC" in page("hostile").text  # whose zone nobody knows


@every
def test_a_page_stays_small(name: str) -> None:
    assert len(source(name).encode()) < 400_000


@pytest.mark.parametrize("name", ["no_data", "clean"])
def test_words_of_the_page_are_the_ones_accepted(name: str) -> None:
    matches(f"{name}-page.txt", "\n".join(line for raw in page(name).words if (line := " ".join(raw.split()))) + "\n")


@pytest.mark.parametrize(
    ("far_end", "says"), [("stateful", "counts what it receives"), ("stateless", "have no direction")]
)
def test_a_far_end_that_is_not_ours_and_a_mix_of_sizes_are_told(far_end: str, says: str) -> None:
    document = SAMPLES["few"]()
    (stream,) = (one for one in document.measurements if one.stamp)
    assert stream.stamp is not None
    mixed = replace(stream.stamp, far_end=far_end, packet_bytes=1518, mix=((64, 7), (594, 4), (1518, 1)))
    text = Page(html.render(replace(document, measurements=(replace(stream, stamp=mixed),)))).text
    assert "64, 594 and 1,518 B as 7:4:1 (362 B on average) of UDP payload" in text
    assert "A reflector that is not ours answered the probes" in text
    assert says in text


def test_an_outcome_is_never_told_by_colour_alone() -> None:
    for name in ("clean", "lossy", "few", "no_data"):
        outcome = wording.outcome_of(SAMPLES[name]())
        assert f"{wording.SIGNS[outcome].symbol} {wording.SIGNS[outcome].word}" in page(name).text
    assert Outcome.PASS in wording.SIGNS


def test_rendering_is_repeatable_and_charts_keep_to_the_schema_of_their_language(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drawing, "CHECKED", True)
    assert html.render(SAMPLES["lossy"]()) == source("lossy")
