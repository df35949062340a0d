"""The matrix of markings, sent x arrived, as both reports show it: a few signs for the terminal, counts for the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from linkqual.model import Direction, Hop, MarkingResult, MarkingTrace, Qualification
from linkqual.session.marking import DSCP, ECN, Survival, survivals
from linkqual.wire.codepoints import dscp_name, ecn_name, parts

WAYS = (Direction.FORWARD, Direction.REVERSE)
KEPT, NOTHING = "=", "?"
LEGEND = f"{KEPT} arrives as sent   {NOTHING} not known   else: what it arrives as"
_NAMES: dict[str, Callable[[int], str]] = {DSCP: dscp_name, ECN: ecn_name}


@dataclass(frozen=True, slots=True)
class Cell:
    """One value in one direction."""

    name: Callable[[int], str]
    found: Survival

    @property
    def sign(self) -> str:
        """ "=", "CS0", "= CS0" (some of each), "?"."""
        arrived = [KEPT] if self.found.kept else []
        return " ".join([*arrived, *(self.name(value) for value, _ in self.found.changed)]) or NOTHING

    @property
    def arrived(self) -> tuple[tuple[str, int], ...]:
        """(value it arrived with, packets), the kept ones first."""
        found = self.found
        plain, congested = found.kept - found.congested, found.congested
        return (
            *([(self.name(found.value), plain)] if plain else []),
            *([("CE, set by a queue", congested)] if congested else []),
            *((self.name(value), count) for value, count in found.changed),
        )

    @property
    def sent(self) -> int:
        """Packets that left with it, as far as is known."""
        found = self.found
        return found.arrived + found.lost + found.unseen + found.unmarked

    @property
    def mark(self) -> str:
        """What became of it, in one word or two."""
        if self.found.changed:
            return "partly changed" if self.found.kept else "changed"
        if self.found.kept:
            return "kept"
        return "not marked by the far host" if self.found.unmarked else "not known"


@dataclass(frozen=True, slots=True)
class Row:
    """One value that was sent, in both directions; None: never sent in that one."""

    value: str
    forward: Cell | None
    reverse: Cell | None

    @property
    def differs(self) -> bool:
        """Whether it is changed in any direction."""
        return any(cell is not None and cell.found.changed for cell in (self.forward, self.reverse))


def result_of(q: Qualification) -> MarkingResult | None:
    """Of the document, if markings were measured."""
    return next((one.marking for one in q.measurements if one.marking), None)


def rows(result: MarkingResult, statistic: str) -> list[Row]:
    """Of DSCP or of ECN, in the order they were sent."""
    name = _NAMES[statistic]
    cells = {way: {one.value: Cell(name, one) for one in survivals(result.rows, way, statistic)} for way in WAYS}
    values = dict.fromkeys(value for way in WAYS for value in cells[way])
    return [Row(name(value), *(cells[way].get(value) for way in WAYS)) for value in values]


def short(result: MarkingResult) -> list[list[str]]:
    """The matrix as lines of cells: the values sent, then the signs of each direction."""
    every = [row for statistic in (DSCP, ECN) for row in rows(result, statistic)]
    lines = [[row.value for row in every]]
    for way in WAYS:
        cells = [row.forward if way is Direction.FORWARD else row.reverse for row in every]
        lines.append([cell.sign if cell is not None else NOTHING for cell in cells])
    return lines


# ---- for the page


def tables(q: Qualification) -> list[tuple[str, list[Row]]]:
    """(what was sent, its rows), DSCP and ECN apart."""
    result = result_of(q)
    if result is None:
        return []
    return [("DSCP values, sent without ECT", rows(result, DSCP)), ("ECN code points, sent on CS0", rows(result, ECN))]


def traces(q: Qualification) -> list[tuple[MarkingTrace, str, list[tuple[Hop, str]]]]:
    """(trace, what its probes carried, each hop with what it quotes of that)."""
    result = result_of(q)
    found = result.traces if result is not None else ()
    return [(one, _words(one.dscp, one.ecn), [(hop, _quoted(hop)) for hop in one.trace.hops]) for one in found]


def _quoted(hop: Hop) -> str:
    if hop.quoted_tos is None:
        return "answers itself" if hop.reached else "not told"
    return _words(*parts(hop.quoted_tos))


def _words(dscp: int, ecn: int) -> str:
    return f"{dscp_name(dscp)}, {ecn_name(ecn)}"
