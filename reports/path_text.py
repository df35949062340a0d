"""The path drawn with letters: both directions side by side from the near end down, or one below the other where the terminal is narrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from linkqual.model import Direction
from linkqual.reports.cells import pad, wrap
from linkqual.reports.inert import inert, plain
from linkqual.reports.path_marks import NARROWEST, TIE
from linkqual.reports.path_view import Lane, Link, Stop, View, spoken
from linkqual.reports.wording import ARROWS

Cell = list[str]
_TTL = 2  # columns of a hop's number
_GAP = 5  # columns between both directions, where it says which routers they share


@dataclass(frozen=True, slots=True)
class _Signs:
    end: str
    router: str
    alone: str
    hidden: str
    measured: str
    unmeasured: str
    unknown: str
    narrowest: str
    tie: str
    one: str
    perhaps: str
    unicode: bool

    def text(self, words: str) -> str:
        """Made harmless, and plain where the terminal wants it: before it is measured."""
        return inert(words) if self.unicode else plain(inert(words))


_UNICODE = _Signs("■", "●", "◆", "○", "┃", "┊", "·", "▶◀ ", "▷◁ ", "═══", "───", unicode=True)
_ASCII = _Signs("#", "o", "*", ".", "|", ":", "?", "><  ", ">< ", "===", "---", unicode=False)


def lines(view: View, width: int, *, unicode: bool = True) -> list[str]:
    """At most `width` columns, but for a single word that is longer."""
    signs = _UNICODE if unicode else _ASCII
    gaps = [at for at in range(view.columns) if any(_said(lane, at, signs, view.measured) for lane in view.lanes)]
    titles = [_title(lane, signs, f"read {how}wards") for lane, how in zip(view.lanes, ("down", "up"), strict=True)]
    left, right = (_cells(lane, view, signs, gaps, (width - _GAP) // 2) for lane in view.lanes)
    size = max(map(cell_len, (titles[0], *(line for cell in left for line in cell))))
    if all(size + _GAP + cell_len(line) <= width for cell in right for line in cell):
        body = _beside(left, right, size, _between(view, signs, gaps))
        return [f"{pad(titles[0], size + _GAP)}{titles[1]}".rstrip(), *body, *_key(view, signs, width)]
    stacked: list[str] = []
    for lane in view.lanes:
        cells = _cells(lane, view, signs, gaps, width)
        ordered = cells if lane.direction is Direction.FORWARD else cells[::-1]
        stacked += [_title(lane, signs, ""), *(line for cell in ordered for line in cell)]
    return [*stacked, *_key(view, signs, width, joined=False)]


def _title(lane: Lane, signs: _Signs, how: str) -> str:
    return signs.text(
        ", ".join(part for part in (f"{ARROWS[lane.direction]} {lane.direction}", lane.delay, how) if part)
    )


def _key(view: View, signs: _Signs, width: int, *, joined: bool = True) -> list[str]:
    """What the signs mean that are in use."""
    found = []
    if joined and any(view.meets.values()):
        found.append(f"{signs.one} one router")
    if joined and not all(view.meets.values()):
        found.append(f"{signs.perhaps} same place, not proven one router")
    if any(stop.alone and stop.kind == "router" for lane in view.lanes for stop in lane.stops):
        found.append(f"{signs.alone} seen in this direction only")
    bare = [link for lane in view.lanes for link in lane.links if link.capacity is None and link.traced]
    if any(view.measured or link.marks for link in bare):
        found.append(f"{signs.unmeasured} what it carries is not measured")
    if any(stop.answer and stop.ttl for lane in view.lanes for stop in lane.stops):
        found.append("times: round trips from that direction's sender")
    return wrap("; ".join(found), width, "  ", "  ") if found else []


# ---- one direction


def _cells(lane: Lane, view: View, signs: _Signs, gaps: Sequence[int], width: int) -> list[Cell]:
    """From the near end: a cell for each column, and one for each gap behind a column of which either direction says something."""
    stops = {stop.column: stop for stop in lane.stops}
    cells: list[Cell] = []
    for column in range(view.columns + 1):
        link = _over(lane, column)
        cells.append(_stop(stops[column], signs, width) if column in stops else [_bar(link, signs)])
        if column in gaps:
            head = f"{_bar(link, signs)}    "
            said = ", ".join(_said(lane, column, signs, view.measured))
            cells.append([line.rstrip() for line in wrap(said, width, head, head)])
    return cells


def _over(lane: Lane, column: int) -> Link | None:
    """The link that leads from this column towards the far end, or past it."""
    return next((link for link in lane.links if link.columns[0] <= column < link.columns[1]), None)


def _said(lane: Lane, column: int, signs: _Signs, measured: bool) -> list[str]:
    """What is said of a link, in the gap behind its column nearest to the near end."""
    link = _over(lane, column)
    if link is None or column != link.columns[0]:
        return []
    said = [signs.text(link.capacity.words)] if link.capacity is not None else []
    if link.capacity is None and (measured or not link.traced):
        said.append("not measured" if link.traced else "way not known")
    shapes = {NARROWEST: signs.narrowest, TIE: signs.tie}
    shape = next((shapes[mark.kind] for mark in link.marks if mark.kind in shapes), "")
    return [*said, *(f"{shape if at == 0 else ''}{words}" for at, words in enumerate(spoken(lane, link)))]


def _stop(stop: Stop, signs: _Signs, width: int) -> Cell:
    shown = signs.alone if stop.alone else signs.router
    sign = {"end": signs.end, "router": shown}.get(stop.kind, signs.hidden)
    address = stop.hop.address if stop.kind == "end" and stop.hop is not None else None
    ttl = "" if stop.kind == "end" else str(stop.ttl)
    parts = [stop.name, address if address != stop.name else None, stop.answer if stop.ttl else None]
    labels = [f"MPLS {label}" for label in stop.labels]
    head = f"{sign} {pad(ttl, _TTL, right=True)} "
    said = signs.text(", ".join(part for part in (*parts, *labels, stop.elsewhere) if part))
    return wrap(said, width, head, " " * len(head))


def _bar(link: Link | None, signs: _Signs) -> str:
    if link is None:
        return " "
    if link.capacity is not None:
        return signs.measured
    return signs.unmeasured if link.traced else signs.unknown


# ---- both


def _between(view: View, signs: _Signs, gaps: Sequence[int]) -> list[str]:
    """The sign between both directions for each cell."""
    found = []
    for column in range(view.columns + 1):
        met = view.meets.get(column)
        found.append("" if met is None else signs.one if met else signs.perhaps)
        found += [""] if column in gaps else []
    return found


def _beside(left: Sequence[Cell], right: Sequence[Cell], size: int, between: Sequence[str]) -> list[str]:
    found = []
    for a, b, sign in zip(left, right, between, strict=True):
        for at in range(max(len(a), len(b))):
            one, other = (cell[at] if at < len(cell) else "" for cell in (a, b))
            found.append(f"{pad(one, size)} {pad(sign if at == 0 else '', 3)} {other}".rstrip())
    return found
