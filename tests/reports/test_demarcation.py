"""The three places, and faults by segment: on the page, in the terminal, in the sheet."""

from __future__ import annotations

from dataclasses import replace

from linkqual import model as m
from linkqual.reports import html, terminal
from linkqual.reports.sheet_facts import facts

from .samples import SAMPLES
from .test_paths import words

FORWARD, REVERSE = m.Direction.FORWARD, m.Direction.REVERSE
PLACES = (
    m.Place("end A's egress", FORWARD, "measured", "at least 90 Mbit/s (L2)", (("narrow/forward", "at least 90 Mbit/s (L2)"),)),
    m.Place("the middle", FORWARD, "measured", "50 Mbit/s (L2)", (("narrow/forward", "50 Mbit/s (L2)"),)),
    m.Place("the middle", REVERSE, "declared", "100 Mbit/s (L1) by contract"),
    m.Place("end B's egress", REVERSE, "unknown", "neither measured nor declared"),
)  # fmt: skip
FAULT = m.Located(
    "narrowest hop", FORWARD, "between hop 3 (10.0.2.2) and hop 4 (10.0.3.2)", 3, 4, ("core", "tail"), ("Carrier B", "<Carrier C>"), "medium",
    (("narrow/forward", "link 4 of 5"),), "forward, narrowest hop: 50 Mbit/s, between hop 3 and hop 4: in core (Carrier B) or tail (Carrier C)",
    "who runs the router at hop 3",
)  # fmt: skip
SEGMENTS = (
    m.LineSegment("core", "near", "10.0.2.2", "Carrier B"),
    m.LineSegment("tail", "10.0.2.2", "far", "<Carrier C>"),
)


def shown(*, segments: tuple[m.LineSegment, ...] = SEGMENTS, places: tuple[m.Place, ...] = PLACES, faults: tuple[m.Located, ...] = (FAULT,)) -> m.Qualification:  # fmt: skip
    q = SAMPLES["few"]()
    assert q.verdict is not None
    link = replace(q.plan.link, segments=segments, near="Shanghai", far="Zhongwei")
    return replace(q, plan=replace(q.plan, link=link), verdict=replace(q.verdict, places=places, demarcation=faults))


def test_the_page_has_three_rows_and_each_fault_with_its_supplier() -> None:
    page = html.render(shown())
    said = words(page, "demarcation")
    assert (
        page[page.index('<section id="demarcation">') :].partition("</table>")[0].count("<tr><th scope") == 4
    )  # heads and three places
    assert "one end's figure alone says nothing of the line" in said.replace("&#39;", "'").lower()
    assert "end A&#39;s egress (Shanghai) → forward : at least 90 Mbit/s (L2) measured" in said
    assert "the middle → forward : 50 Mbit/s (L2) ← reverse : 100 Mbit/s (L1) by contract measured declared" in said
    assert "end B&#39;s egress (Zhongwei) ← reverse : unknown — ← nothing was sent that shows it" in said
    assert (
        "Narrowest hop → forward between hop 3 (10.0.2.2) and hop 4 (10.0.3.2) core or tail Carrier B or &lt;Carrier C&gt; ●●○ medium"
        in said
    )
    assert "To settle it who runs the router at hop 3" in said
    assert '<a href="#demarcation">' in page


def test_without_segments_addresses_stand_alone() -> None:
    bare = shown(segments=(), faults=(replace(FAULT, segments=(), suppliers=()),))
    said = words(html.render(bare), "demarcation")
    assert "No segments are declared" in said
    assert "and hop 4 (10.0.3.2) — — ●●○ medium" in said
    assert "part →" not in terminal.render(bare)
    part = words(html.render(shown(faults=(replace(FAULT, segments=(), suppliers=()),))), "demarcation")
    assert "none declared there" in part


def test_what_nobody_knows_takes_no_room() -> None:
    nothing = tuple(replace(place, state="unknown", said="", evidence=()) for place in PLACES)
    q = shown(segments=(), places=nothing, faults=())
    assert 'id="demarcation"' not in html.render(q)
    assert "places" not in terminal.render(q)
    assert not [fact for fact in facts(q) if fact.metric in ("place", "demarcation")]


def test_the_terminal_says_it_in_short() -> None:
    view = " ".join(terminal.render(shown(), width=100).split())
    assert (
        "places end A's egress (Shanghai) → at least 90 Mbit/s (L2) (measured); the middle → 50 Mbit/s (L2) (measured), ←"
        in view
    )
    assert "end B's egress (Zhongwei) ← unknown. One end's figure alone says nothing of the line" in view
    assert (
        "part → narrowest hop: 50 Mbit/s, between hop 3 and hop 4: in core (Carrier B) or tail (Carrier C) (medium confidence)."
        in view
    )
    assert "To settle it: who runs the router at hop 3." in view


def test_the_sheet_has_a_row_for_each() -> None:
    found = [fact for fact in facts(shown()) if fact.metric in ("place", "demarcation")]
    assert [(fact.metric, fact.statistic, fact.direction) for fact in found] == [
        ("place", "end A's egress (Shanghai)", FORWARD),
        ("place", "the middle", FORWARD),
        ("place", "the middle", REVERSE),
        ("place", "end B's egress (Zhongwei)", REVERSE),
        ("demarcation", "narrowest hop", FORWARD),
    ]
    assert found[0].because == "measured: at least 90 Mbit/s (L2) (narrow/forward: at least 90 Mbit/s (L2))"
    assert "link 4 of 5" in found[4].because
    assert found[4].decide == "who runs the router at hop 3"
