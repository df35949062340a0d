"""The path as a picture, as a table and in letters: everything that was seen is there, nothing covers anything, nothing is invented."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from rich.cells import cell_len

from linkqual import document, document_paths, store
from linkqual import model as m
from linkqual.errors import InputError
from linkqual.reports import html, path_marks, path_picture, path_table, path_text, path_view, path_words, terminal
from linkqual.reports.drawing import NARROW, WIDE
from linkqual.reports.path_picture import CELL, SIZE, Text, draw, fold
from linkqual.reports.path_view import View
from linkqual.reports.sheet_facts import facts
from linkqual.rules import judge

from .measured import FORWARD, REVERSE, path
from .samples import SAMPLES
from .ways import WAYS, long_v6, narrow, narrowed, of, routers, seen, taken, unlike, untraced

MBIT = 1e6
ROUTES = m.Objective("path_symmetry", "own", m.Direction.ROUND_TRIP, 0.0, limit_text="symmetric")
every = pytest.mark.parametrize("name", WAYS)


@cache
def view(name: str) -> View:
    found = path_view.view(WAYS[name]())
    assert found is not None
    return found


def shown(q: m.Qualification) -> View:
    found = path_view.view(q)
    assert found is not None
    return found


def covered(texts: tuple[Text, ...]) -> list[tuple[str, str]]:
    """Words that stand on one another; each letter taken as wide as the layout takes it."""

    def box(text: Text) -> tuple[float, float, float, float]:
        half = cell_len(text.words) * CELL / 2
        return text.x - half, text.y - 0.8 * SIZE, text.x + half, text.y + 0.2 * SIZE

    boxes = [(text.words, *box(text)) for text in texts]
    return [
        (a[0], b[0])
        for at, a in enumerate(boxes)
        for b in boxes[at + 1 :]
        if a[1] < b[3] and b[1] < a[3] and a[2] < b[4] and b[2] < a[4]
    ]


# ---- what is seen


def test_routers_of_both_directions_share_a_column_and_others_do_not() -> None:
    found = view("unlike")
    columns = {stop.name: stop.column for lane in found.lanes for stop in lane.stops if stop.kind == "router"}
    assert columns["192.0.2.1"] == columns["192.0.2.6"]
    assert columns["192.0.2.17"] == columns["192.0.2.34"]
    assert found.meets.keys() == {columns["192.0.2.1"], columns["192.0.2.17"]}
    assert {stop.name for lane in found.lanes for stop in lane.stops if stop.alone} == {
        *("192.0.2.5", "silent"),
        *("192.0.2.98", "192.0.2.102", "192.0.2.110"),
    }
    assert [link.number for link in found.forward.links if link.marked(path_marks.ALONE)] == [2, 3, 4]
    assert [link.number for link in found.reverse.links if link.marked(path_marks.ALONE)] == [2, 3, 4, 5, 6]


def test_columns_rise_for_forward_and_fall_for_reverse() -> None:
    for name in WAYS:
        for lane, sign in zip(view(name).lanes, (1, -1), strict=True):
            columns = [sign * stop.column for stop in lane.stops]
            assert columns == sorted(set(columns))
            assert {abs(columns[0]), abs(columns[-1])} == {0, view(name).columns}


def test_a_line_compared_in_numbers_marks_the_links_it_names() -> None:
    whole = path(symmetric=False).path
    assert whole is not None
    compared = m.Compared("link beside", 4, 6, forward_only=(2,), reverse_only=(), settle="ask the carrier")
    found = shown(of(taken("path", path=replace(whole, compared=compared))))
    assert [link.number for link in found.forward.links if link.marked(path_marks.ALONE)] == [2]
    assert not any(link.marked(path_marks.ALONE) for link in found.reverse.links)
    (said,) = path_words.course(of(taken("path", path=replace(whole, compared=compared))))
    assert said[1].startswith("link beside: ")
    assert said[1].endswith("To settle it: ask the carrier")


def test_pairs_that_contradict_their_order_are_not_drawn() -> None:
    whole = routers(4, v6=False)
    crossed = replace(whole, pairs=((2, 3), (1, 4), (9, 9), (3, 2)))
    assert shown(of(taken("path", path=crossed))).meets.keys() == {2, 3}


def test_without_pairs_nothing_is_joined() -> None:
    found = shown(of(taken("path", path=replace(routers(4, v6=False), pairs=()))))
    assert not found.meets
    assert found.columns == 5


def test_a_way_nobody_traced_is_not_known_and_never_drawn_as_one_link() -> None:
    half, bare = view("half"), view("untraced")
    assert [link.traced for link in half.forward.links] == [True, True, True, False]
    assert [link.traced for link in half.reverse.links] == [False]
    assert half.reverse.fault.startswith("a reflector that is not ours traces nothing")
    assert half.forward.fault == "it did not get to its end"
    assert [stop.kind for stop in bare.forward.stops] == ["end", *["unknown"] * 4, "end"]
    for name in ("half", "untraced"):
        assert any(text.words == "way not known" for text in draw(view(name), WIDE).texts)
    assert path_view.view(of()) is None


def test_the_delay_of_a_direction_stands_beside_it_where_the_clocks_tell_it() -> None:
    assert shown(SAMPLES["embedded"]()).forward.delay == "5.4 ms one way"
    assert re.fullmatch(r"5\.4\d* ms one way ± [\d.]+ µs", shown(SAMPLES["clean"]()).forward.delay)
    assert shown(SAMPLES["few"]()).forward.delay == ""


# ---- what links carry


def test_what_a_longer_part_lets_through_each_of_its_links_carries_at_least() -> None:
    known = path_marks.capacities(narrow())
    assert {link: (one.bps / MBIT, one.exact) for link, one in known.items()} == {
        1: (360, False),  # all that was offered
        2: (108, True),
        3: (100, True),
        4: (100, False),
        5: (100, False),
    }


def test_a_drop_over_several_links_is_none_of_a_single_one() -> None:
    known = path_marks.capacities(narrow(seen=(seen(1, 300), seen(3, 100, narrow=True)), named=0, narrow=()))
    assert (known[1].bps, known[1].exact) == (300 * MBIT, True)
    assert all(not known[link].exact and known[link].bps == 100 * MBIT for link in (2, 3, 4, 5))
    assert path_marks.capacities(m.NarrowResult(FORWARD)) == {}


def test_no_link_carries_less_than_the_whole_way() -> None:
    """Trains to single routers may meet others' packets; what came to the end crossed every link."""
    known = path_marks.capacities(narrow(seen=(seen(2, 100, narrow=True), seen(3, 90)), named=2, narrow=(2,)))
    assert {link: (one.bps / MBIT, one.exact) for link, one in known.items() if link > 1} == {
        2: (100, True), 3: (100, False), 4: (100, False), 5: (100, False),
    }  # fmt: skip


def test_no_limit_found_is_a_bound_of_every_link() -> None:
    known = path_marks.capacities(m.NarrowResult(FORWARD, 3, "none", at_least_bps=480 * MBIT))
    assert [(one.words, one.exact) for one in known.values()] == [("≥ 480 Mbit/s", False)] * 3


def test_marks_say_what_every_probe_found_of_a_link() -> None:
    found = view("narrowed")
    kinds = {link.number: [mark.kind for mark in link.marks] for link in found.forward.links}
    assert kinds == {1: [], 2: ["tie", "mtu"], 3: ["narrowest", "queue"], 4: ["queue"], 5: []}
    assert {link.number: [mark.kind for mark in link.marks] for link in found.reverse.links} == {
        1: ["narrowest"],
        2: ["mtu"],
        3: [],
        4: [],
        5: [],
    }
    said = [mark.said for link in found.forward.links for mark in link.marks]
    assert "narrowest: shaper, bucket 64 kB, queue 31 ms; high confidence" in said
    assert "queue under load begins on one of links 3 to 4 (16 TCP streams; high confidence)" in said
    assert "packets of more than 1400 bytes end here: longer ones vanish" in said


# ---- the picture


@every
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_no_words_cover_others_or_leave_the_picture(name: str, width: int) -> None:
    drawn = draw(view(name), width)
    assert not covered(drawn.texts)
    for text in drawn.texts:
        half = cell_len(text.words) * CELL / 2
        assert text.x - half >= -2, text
        assert text.x + half <= width + 2, text
        assert 0 < text.y < drawn.height, text


@every
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_every_hop_and_every_mark_is_in_the_picture(name: str, width: int) -> None:
    found = view(name)
    written = "".join(text.words.replace(" ", "") for text in draw(found, width).texts)
    for lane in found.lanes:
        for stop in lane.stops:
            assert stop.name.replace(" ", "") in written
            assert stop.kind in ("end", "unknown") or f"hop{stop.ttl}" in written
        for link in lane.links:
            assert link.capacity is None or link.capacity.words.replace(" ", "") in written
            for mark in link.marks:
                assert mark.short.replace(" ", "") in written


def test_the_narrow_link_has_a_sign_of_its_own_and_width_is_what_links_carry() -> None:
    shapes = draw(view("narrowed"), WIDE).shapes
    assert sum('fill="var(--chart-limit)"' in shape for shape in shapes) == 2  # one a direction
    strokes = [float(found[1]) for shape in shapes if (found := re.search(r'<line .*stroke-width="([\d.]+)"/>', shape))]
    forward = sorted(width for width in strokes if width > 2.5)  # joints have 2.5
    assert forward[-1] / forward[0] == pytest.approx(3.6, rel=0.02)
    assert not any("chart-limit" in shape for shape in draw(view("unlike"), WIDE).shapes)
    assert sum('fill="var(--inconclusive-soft)"' in shape for shape in draw(view("unlike"), WIDE).shapes) == 2


def test_a_long_path_is_wrapped_and_no_link_is_squeezed() -> None:
    for count in (1, 5, 6, 7, 16, 30):
        for width in (WIDE, NARROW):
            bands = path_picture.bands(count, width)
            assert [band.first for band in bands[1:]] == [band.last for band in bands[:-1]]
            assert (bands[0].first, bands[-1].last) == (0, count)
            assert all(band.span >= 106 for band in bands)


def test_words_are_folded_and_nothing_of_an_address_is_lost() -> None:
    address = "2001:db8:1234:5678:9abc:def0:1234:5678"
    lines = fold(address, 106)
    assert "".join(lines) == address
    assert all(cell_len(line) * CELL <= 106 for line in lines)
    assert all(line.endswith(":") for line in lines[:-1])
    assert fold("a longer sentence of words", 60) == ["a longer", "sentence", "of words"]
    assert fold("上海" * 12, 60) == ["上海上海", "上海上海", "上海上海", "上海上海", "上海上海", "上海上海"]


def test_names_and_labels_cannot_become_markup() -> None:
    evil = '<script>"&\u202e'
    whole = routers(2, v6=False)
    hops = tuple(replace(hop, labels=(f"label={evil}",)) for hop in whole.forward.hops)
    link = replace(SAMPLES["clean"]().plan.link, near="<b>near", far=evil)
    traced = replace(whole, forward=replace(whole.forward, hops=hops))
    drawn = path_picture.picture(shown(of(taken("path", path=traced), link=link)))
    assert "<script" not in drawn.svg
    assert "<b>" not in drawn.svg
    assert "\u202e" not in drawn.svg
    assert "&lt;script&gt;" in drawn.svg


def test_who_cannot_see_the_picture_is_told_it() -> None:
    told = path_picture.alternative(view("narrowed"))
    assert "forward: fra1-gw, 192.0.2.1, 192.0.2.5, silent, 192.0.2.17, zrh4-gw" in told
    assert "link 3 narrowest, shaper, queue under load, on one of links 3 to 4 (100 Mbit/s)" in told


def test_the_legend_names_the_signs_in_use_and_no_other() -> None:
    words = {words for _, words in path_picture.keys(view("unlike"))}
    assert words == {
        "dotted: what it carries is not measured",
        *("router that stays silent", "seen in one direction only", "same place, not proven to be one router"),
    }
    narrowed_words = {words for _, words in path_picture.keys(view("narrowed"))}
    assert "narrowest link" in narrowed_words
    assert not any(words.startswith("dotted") for words in narrowed_words)
    assert "same place, not proven to be one router" in {words for _, words in path_picture.keys(view("long_v6"))}


# ---- the table


def test_the_table_has_a_row_for_every_link_and_says_what_is_not_known() -> None:
    forward, reverse = path_table.sides(view("narrowed"))
    assert [row.capacity for row in forward.rows] == ["≥ 360 Mbit/s", "108 Mbit/s", "100 Mbit/s", *["≥ 100 Mbit/s"] * 2]
    assert [row.start for row in forward.rows] == ["fra1-gw", "192.0.2.1", "192.0.2.5", "hop 3, silent", "192.0.2.17"]
    assert len(reverse.rows) == 5
    assert [row.capacity for row in path_table.sides(view("long_v6"))[1].rows] == ["not measured"] * 13
    assert "also answers as 192.0.2.106" in path_table.sides(view("unlike"))[1].rows[2].remarks
    assert "what lies between is not known" in path_table.sides(view("half"))[0].rows[-1].remarks


@every
def test_the_page_shows_picture_and_table(name: str) -> None:
    page = html.render(WAYS[name]())
    section = page[page.index('<section id="path">') :].partition("</section>")[0]
    assert section.count("<svg") == 2
    rows = sum(len(lane.links) for lane in view(name).lanes)
    assert section.count('<th scope="row">') == rows
    assert ("--allow-expiring-load" in section) is not view(name).measured
    assert '<a href="#path">Path</a>' in page


# ---- the terminal


@every
@pytest.mark.parametrize("unicode", [True, False])
@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
def test_no_line_of_the_drawing_is_wider_than_asked(name: str, width: int, unicode: bool) -> None:
    lines = path_text.lines(view(name), width, unicode=unicode)
    for line in lines:
        assert cell_len(line) <= width or len(line.split()) <= 4, line
    assert unicode or "".join(lines).isascii()


@pytest.mark.parametrize("width", [40, 100])
@every
def test_every_hop_is_in_the_drawing(name: str, width: int) -> None:
    text = "\n".join(path_text.lines(view(name), width))
    for lane in view(name).lanes:
        for stop in lane.stops:
            assert stop.kind == "end" or re.search(rf" {stop.ttl} {re.escape(stop.name)}", text)
        for link in lane.links:
            for mark in link.marks:
                assert mark.short.split()[0] in text


def test_both_directions_stand_side_by_side_where_there_is_room() -> None:
    wide, slim = (path_text.lines(view("narrowed"), width) for width in (100, 40))
    assert any("192.0.2.1," in line and "═══" in line and "192.0.2.6," in line for line in wide)
    assert not any("═══" in line for line in slim)
    assert slim.index("← reverse") > slim.index("→ forward") > -1
    below = slim[slim.index("← reverse") :]
    assert "zrh4-gw" in below[1]  # the sender of the return comes first


def test_a_run_about_the_path_is_drawn_and_any_other_says_it_in_a_line() -> None:
    text = terminal.render(unlike(), 100)
    assert "→ forward, read downwards" in text
    assert "◆ seen in this direction only" in text
    assert "times: round trips from that direction's sender" in " ".join(text.split())
    other = terminal.render(SAMPLES["clean"](), 100)
    assert "read downwards" not in other
    assert re.search(r"\npath  +symmetric: both directions cross the same 4 routers", other)
    few = " ".join(terminal.render(SAMPLES["few"](), 100).split())
    assert "undetermined: no link shows both its ends" in few
    assert "To settle it: ask the carrier for the routers" not in few  # of a whole line only what is known
    assert terminal.render(narrowed(), 100, unicode=False).isascii()


def test_a_return_traced_in_part_meets_forward_at_the_same_routers_whatever_counted_the_rest() -> None:
    whole = routers(4, v6=False)
    back = replace(whole.reverse, hops=whole.reverse.hops[:2])
    half = replace(whole, reverse=back, symmetry="undetermined", pairs=((1, None), (2, None), (3, 2), (4, 1)))
    q = of(taken("path", path=half), taken("narrow", narrow=narrow(direction=REVERSE)))
    assert shown(q).meets == shown(of(taken("path", path=half))).meets == {3: False, 4: False}
    assert back.hops[0].address is not None
    named = replace(
        half,
        forward=replace(
            half.forward,
            hops=(
                *half.forward.hops[:3],
                replace(half.forward.hops[3], egress=back.hops[0].address),
                *half.forward.hops[4:],
            ),
        ),
    )
    assert shown(of(taken("path", path=named))).meets == {3: False, 4: True}


def test_sentences_tell_sizes_and_members_too() -> None:
    said = dict(path_words.sentences(narrowed()))
    assert said["MTU"].startswith("→ 1,400 B (longer ones vanish without a word, hop 1 – hop 2); ← 1,492 B")
    assert said["under load"].startswith(
        "forward, under 16 TCP streams, the queue of 31 ms begins between 192.0.2.5 and"
    )
    flows = tuple(m.MemberFlow(24_064 + at, ((250, 250),)) for at in range(16))
    ways = [m.MembersResult(way, flows, "192.0.2.1", "192.0.2.9", 4863, 128, 16_000_000) for way in (FORWARD, REVERSE)]
    both = of(*(taken("members", members=one) for one in ways))
    assert dict(path_words.sentences(both))["members"] == "→ and ← none of 16 flows fares worse than the others"
    dead = replace(ways[0], flows=tuple(m.MemberFlow(24_064 + at, ((250, 0),)) for at in range(16)))
    said = [text for head, text in path_words.sentences(of(taken("members", members=dead))) if head == "members"]
    assert said == ["→ none of 4,000 packets arrived"]
    assert path_words.about_path(both)
    assert not path_words.about_path(SAMPLES["clean"]())
    assert [head for head, _ in path_words.course(untraced())] == ["narrowest"]
    assert [head for head, _ in path_words.course(long_v6())] == ["path", "narrowest"]


def test_a_document_with_an_address_that_is_none_is_refused_and_not_drawn(tmp_path: Path) -> None:
    q = unlike()
    (tmp_path / "run.json").write_text(document.dump(q))
    assert path_view.view(store.load(tmp_path)) == path_view.view(q)
    (tmp_path / "run.json").write_text(document.dump(q).replace("192.0.2.110", "192.0.2.x"))
    with pytest.raises(InputError, match=r"'192\.0\.2\.x' is no IP address"):
        store.load(tmp_path)
    (first, *others) = q.measurements
    assert first.path is not None
    flows = (m.MemberTrace(1, ("192.0.2.1", None, "a router")),)
    odd = replace(q, measurements=(replace(first, path=replace(first.path, flows=flows)), *others))
    with pytest.raises(InputError, match="'a router' is no IP address"):
        document_paths.check(odd)


def test_a_trace_that_ends_in_silence_is_one_stop() -> None:
    whole = routers(4, v6=False)
    silent = tuple(m.Hop(ttl, sent=3) for ttl in range(3, 31))
    ended = replace(
        whole,
        forward=replace(whole.forward, hops=(*whole.forward.hops[:2], *silent)),
        symmetry="undetermined",
        pairs=(),
    )
    q = of(taken("path", path=ended))
    names = [stop.name for stop in shown(q).forward.stops]
    assert names[1:-1] == ["198.51.100.3", "198.51.100.5", "silent to hop 30"]
    assert shown(q).forward.stops[-1].ttl == 31
    assert sum("silent" in line for line in path_text.lines(shown(q), 100)) == 1
    counted = of(taken("path", path=ended), taken("narrow", narrow=narrow(links=5)))
    assert [stop.name for stop in shown(counted).forward.stops[3:-1]] == ["silent", "silent"]
    one = replace(ended, forward=replace(ended.forward, hops=ended.forward.hops[:3]))
    assert [stop.name for stop in shown(of(taken("path", path=one))).forward.stops[3:-1]] == ["silent"]


def test_what_stands_beside_the_drawing_is_not_said_a_second_time() -> None:
    q = unlike()
    verdict = judge(plan := replace(q.plan, objectives=(ROUTES,)), q.measurements)
    text = " ".join(terminal.render(replace(q, plan=plan, verdict=verdict), 100).split())
    assert verdict.findings[0].outcome is m.Outcome.FAIL
    assert text.count("the return 6 (forward only") == 1
    assert text.index("forward only: 192.0.2.5") < text.index("→ forward, read downwards") < text.index("F A I L")


def test_the_sheet_has_what_each_link_carries() -> None:
    found = {(fact.metric, fact.statistic, fact.direction): fact for fact in facts(narrowed())}
    own, bound = found["link_rate", "link 3", FORWARD], found["link_rate", "link 4", FORWARD]
    assert (own.value, own.low, own.high) == (100 * MBIT, 100 * MBIT, 100 * MBIT)
    assert own.because.startswith("narrowest: shaper")
    assert (bound.value, bound.low, bound.high) == (None, 100 * MBIT, None)
    assert {fact.because for fact in facts(unlike()) if fact.metric == "link"} == {"forward only", "return only"}


def test_routers_that_other_flows_meet_are_named_beside_the_hop() -> None:
    whole = routers(3, v6=False)
    flows = (m.MemberTrace(4001, ("198.51.100.3", "203.0.113.9", None)), m.MemberTrace(4002, ("198.51.100.3",)))
    back = (m.MemberTrace(4001, ("203.0.113.1", None, None)), m.MemberTrace(4002, ("203.0.113.2",)))
    found = shown(of(taken("path", path=replace(whole, flows=flows, flows_back=back))))
    assert [stop.elsewhere for stop in found.forward.stops] == ["", "", "other flows: 203.0.113.9", "", ""]
    assert [stop.elsewhere for stop in found.reverse.stops] == ["", "other flows: 2 other routers", "", "", ""]
    assert "other flows meet 203.0.113.1, 203.0.113.2" in path_table.sides(found)[1].rows[0].remarks
    assert "other flows: 203.0.113.9" in "\n".join(path_text.lines(found, 160))
    assert not covered(draw(found, NARROW).texts)
    members = m.MembersResult(FORWARD, (), "192.0.2.1", "192.0.2.9", 4863, 128, 1, traces=flows)
    beside = shown(of(taken("path", path=whole), taken("members", members=members)))
    assert beside.forward.stops[2].beside == ("203.0.113.9",)


def test_a_page_about_the_path_begins_with_it() -> None:
    page, other = html.render(unlike()), html.render(SAMPLES["few"]())
    assert page.index('<section id="path">') < page.index('<section id="findings">')
    assert page.index('href="#path"') < page.index('href="#findings"')
    assert page.count('<section id="path">') == other.count('<section id="path">') == 1
    assert other.index('<section id="path">') > other.index('<section id="findings">')


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_paths_of_every_length_with_long_names_stay_readable(width: int) -> None:
    rng = random.Random(7)
    link = replace(
        SAMPLES["clean"]().plan.link, near="Rechenzentrum Frankfurt am Main 4, Kaefig 12", far="上海–中卫 2 号机房"
    )
    for count in (0, 1, 2, 5, 6, 9, 16, 30):
        silent = tuple(k for k in range(1, count + 1) if rng.random() < 0.3)
        rates = [None if rng.random() < 0.4 else rng.choice((20, 99.95, 360)) for _ in range(count)]
        links = tuple(seen(k, rate) for k, rate in enumerate(rates, start=1))
        near = tuple(k for k in range(1, count + 2) if rng.random() < 0.3)
        found = narrow(links=count + 1, seen=links, narrow=(*near, count + 1), named=count + 1)
        whole = routers(count, v6=rng.random() < 0.5, silent=silent)
        drawn = draw(shown(of(taken("path", path=whole), taken("narrow", narrow=found), link=link)), width)
        assert not covered(drawn.texts), count
        for text in drawn.texts:
            half = cell_len(text.words) * CELL / 2
            assert text.x - half >= 0, text
            assert text.x + half <= width, text


def test_a_load_that_crossed_another_number_of_links_marks_none_of_the_drawn_ones() -> None:
    found = narrowed()
    other = tuple(replace(m, narrow=replace(m.narrow, links=9)) if m.narrow else m for m in found.measurements)
    lanes = shown(replace(found, measurements=other)).lanes
    assert all(link.capacity is None and not link.marked("narrowest") for lane in lanes for link in lane.links)
    assert any(link.marked("queue") for lane in lanes for link in lane.links)


def test_what_others_leave_of_the_narrowest_link_is_said_beside_it() -> None:
    busy = shown(of(taken("narrow", narrow=narrow(free_bps=(60 * MBIT, 58 * MBIT, 62 * MBIT)))))
    (mark,) = busy.forward.links[2].marks
    assert mark.short == "narrowest, shaper, 60 Mbit/s free"
    assert "60 Mbit/s free beside what others send" in mark.said
    idle = shown(of(taken("narrow", narrow=narrow(free_bps=(99.9 * MBIT, 99 * MBIT, 100 * MBIT)))))
    assert idle.forward.links[2].marks[0].short == "narrowest, shaper"
    unsure = shown(of(taken("narrow", narrow=narrow(confidence="low"))))
    assert unsure.forward.links[2].marks[0].short == "narrowest, shaper, low confidence"
