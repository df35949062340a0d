"""Lines folded between words, tables whose last cells stand below their row."""

from __future__ import annotations

from linkqual.cli import read
from linkqual.folding import folded, table
from linkqual.model import Link
from linkqual.plan import PlanOptions, describe, make


def test_continuations_stand_below_the_words() -> None:
    assert folded(["routers      up to 10,667 packets expire on routers"], 36) == [
        "routers      up to 10,667 packets",
        "             expire on routers",
    ]
    assert folded(["  - narrow: in each direction packets"], 24) == ["  - narrow: in each", "    direction packets"]


def test_what_fits_and_what_goes_to_a_file_is_left_alone() -> None:
    lines = ["", "  a  b", "x" * 300, "one " * 80]
    assert folded(lines, None) == lines
    assert folded(lines[:3], 80) == lines[:3]  # a word is never cut


def test_cells_that_find_no_room_stand_below_their_row_behind_their_head() -> None:
    rows = [("step", "rate", "what is sent"), ("narrow", "1 Mbit/s", "trains of packets"), ("ping", "-", "-")]
    assert table(rows, 24) == [
        "step    rate",
        "narrow  1 Mbit/s",
        "    what is sent: trains",
        "    of packets",
        "ping    -",
    ]
    assert table(rows, None)[1] == "narrow  1 Mbit/s  trains of packets"


def test_a_plan_keeps_to_the_terminal() -> None:
    plan = make(read.profile("path"), Link(cir_bps=50_000_000), PlanOptions(expiring_load=True))
    whole, narrow = describe(plan), describe(plan, 72)
    assert max(map(len, whole)) > 120
    assert max(map(len, narrow)) <= 72
    assert sum(line.startswith("  routers      in each direction up to") for line in narrow) == 1
