"""The path as a picture: both directions as two lanes, the near end left, links as wide as what they carry. Wrapped where it is long.

Shape and words say everything; colour only repeats it. The unit is the pixel of a page as wide as the figure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from markupsafe import Markup, escape
from rich.cells import cell_len

from linkqual.model import Direction
from linkqual.reports import path_shapes
from linkqual.reports.drawing import NARROW, WIDE, inline
from linkqual.reports.inert import inert
from linkqual.reports.marks import Picture
from linkqual.reports.path_marks import ALONE, NARROWEST, TIE
from linkqual.reports.path_shapes import WIDEST
from linkqual.reports.path_view import Lane, Link, Stop, View, runs, spoken
from linkqual.reports.wording import ARROWS

SIZE = 11.5  # of the letters
LINE = 14  # from one line of text to the next
CELL = 0.58 * SIZE  # width of a letter, on the safe side for digits and hex
_LEAST_SPAN = 106  # of a link
_MARGIN = 56  # beside the first and last stop: half of its words
_LEAST = 2.5  # stroke of a link
_WAY = {Direction.FORWARD: "forward", Direction.REVERSE: "reverse"}


@dataclass(frozen=True, slots=True)
class Text:
    """Words of the picture and where they stand; each letter is at most `CELL` wide."""

    x: float  # centre
    y: float  # baseline
    words: str
    bold: bool = False
    muted: bool = False


@dataclass(frozen=True, slots=True)
class Drawn:
    """A picture of one width."""

    width: int
    height: float
    shapes: tuple[str, ...]
    texts: tuple[Text, ...]


def picture(view: View) -> Picture:
    """Both widths, inline, and the same in words for who cannot see it."""
    told = alternative(view)
    svgs = (
        inline(_body(drawn), drawn.width, drawn.height, kind, told)
        for kind, drawn in (("wide", draw(view, WIDE)), ("narrow", draw(view, NARROW)))
    )
    return Picture(Markup("").join(svgs), told)


def alternative(view: View) -> str:
    """ "forward: near end, 192.0.2.1, far end; link 2 narrowest, shaper (200 Mbit/s). reverse: ..."."""
    said = []
    for lane in view.lanes:
        marked = [
            f"link {link.number} {', '.join(mark.short for mark in link.marks)}"
            + (f" ({link.capacity.words})" if link.capacity is not None else "")
            for link in lane.links
            if link.marks
        ]
        said.append("; ".join([f"{lane.direction}: {', '.join(stop.name for stop in lane.stops)}", *marked]))
    return inert(f"The path, both directions. {'. '.join(said)}.")


def keys(view: View) -> tuple[tuple[str, str], ...]:
    """(swatch, meaning) of every sign that is in this picture."""
    stops = [stop for lane in view.lanes for stop in lane.stops]
    links = [link for lane in view.lanes for link in lane.links]
    found = (
        ("wide-line", "width of a line: what it carries", view.measured),
        ("dots ink", "dotted: what it carries is not measured", any(link.capacity is None for link in links)),
        ("pinch", "narrowest link", view.marked(NARROWEST)),
        ("pinch hollow-pinch", "nearly as narrow", view.marked(TIE)),
        ("ring", "router that stays silent", any(stop.kind in ("silent", "unknown") for stop in stops)),
        ("frame", "seen in one direction only", view.marked(ALONE)),
        ("joined", "one router, seen from both sides", any(view.meets.values())),
        ("joined dash", "same place, not proven to be one router", not all(view.meets.values())),
    )
    return tuple((swatch, words) for swatch, words, there in found if there)


# ---- layout


@dataclass(frozen=True, slots=True)
class _Band:
    """One row of a picture that is wrapped: columns `first` to `last`, both drawn."""

    first: int
    last: int
    span: float
    top: float = 0.0
    lines: tuple[float, float] = (0.0, 0.0)  # y of both lanes

    def x(self, column: int) -> float:
        return _MARGIN + (column - self.first) * self.span

    def room(self, column: int) -> float:
        """For the words of a stop: half a link on either side, less at the edges of the picture."""
        return min(self.span - 8, 2 * _MARGIN - 4) if column in (self.first, self.last) else self.span - 8

    def holds(self, link: Link) -> bool:
        left, right = link.columns
        return max(left, self.first) < min(right, self.last)

    def ends(self, link: Link) -> tuple[float, float]:
        """The part of a link in this band, left to right."""
        left, right = link.columns
        return self.x(max(left, self.first)), self.x(min(right, self.last))

    def home(self, link: Link) -> bool:
        """Whether its words stand here: where its middle is."""
        left, right = link.columns
        return self.first <= (left + right - 1) // 2 < self.last


def bands(columns: int, width: int) -> list[_Band]:
    """As few rows as leave every link its least span, all alike."""
    room = width - 2 * _MARGIN
    most = max(1, int(room // _LEAST_SPAN))
    rows = ceil(columns / most)
    each = ceil(columns / rows)
    return [
        _Band(first, min(first + each, columns), room / (each if rows > 1 else columns))
        for first in range(0, columns, each)
    ]


def draw(view: View, width: int) -> Drawn:
    """Everything with its place."""
    shapes: list[str] = []
    texts: list[Text] = []
    most = max((link.capacity.bps for lane in view.lanes for link in lane.links if link.capacity), default=0.0) or 1.0
    top = 4.0
    for band in bands(view.columns, width):
        words = [_Words(lane, band) for lane in view.lanes]
        upper = top + LINE + 7 + words[0].outer * LINE + LINE + WIDEST / 2
        lower = upper + WIDEST / 2 + 6 + (words[0].inner + words[1].inner + 1) * LINE + 10 + WIDEST / 2
        placed = _Band(band.first, band.last, band.span, top, (upper, lower))
        for column, one in view.meets.items():
            if placed.first <= column <= placed.last:
                shapes.append(path_shapes.joint(placed.x(column), upper, lower, one))
        for lane, y, above in zip(view.lanes, (upper, lower), (True, False), strict=True):
            shapes += _links(lane, placed, y, most)
            shapes += [path_shapes.stop(stop, placed.x(stop.column), y) for stop in lane.stops if _within(stop, placed)]
            texts += words[0 if above else 1].texts(placed, y, above=above, measured=view.measured)
        bottom = lower + WIDEST / 2 + 4 + words[1].outer * LINE
        head = "" if band.first == 0 else ", continued"
        texts += [
            _title(view.forward, head, top + LINE - 3),
            _title(view.reverse, head, bottom + LINE),
        ]
        top = bottom + LINE + 22
    return Drawn(width, top - 12, tuple(shapes), tuple(texts))


def _title(lane: Lane, head: str, y: float) -> Text:
    words = f"{ARROWS[lane.direction]} {lane.direction}{head}{f', {lane.delay}' if lane.delay and not head else ''}"
    return Text(cell_len(words) * CELL / 2 + 2, y, words, bold=True)


def _within(stop: Stop, band: _Band) -> bool:
    return band.first <= stop.column <= band.last


class _Words:
    """The words of one lane in one band, folded to the room they have; how many lines they take on either side."""

    def __init__(self, lane: Lane, band: _Band) -> None:
        self.stops = [(stop, _stop_lines(stop, band.room(stop.column))) for stop in lane.stops if _within(stop, band)]
        self.links = [
            (link, [line for words in spoken(lane, link) for line in _room(words, band, link)])
            for link in lane.links
            if band.holds(link) and band.home(link)
        ]
        self.outer = max((len(lines) for _, lines in self.stops), default=0)
        self.inner = max((len(lines) for _, lines in self.links), default=0)

    def texts(self, band: _Band, y: float, *, above: bool, measured: bool) -> Iterator[Text]:
        """Stops outside, links between both lanes, what a link carries just above its line."""
        for stop, lines in self.stops:
            first = y - WIDEST / 2 - LINE - 7 - (len(lines) - 1) * LINE if above else y + WIDEST / 2 + LINE + 1
            for at, (words, muted) in enumerate(lines):
                bold = stop.kind == "end" and not muted
                yield Text(band.x(stop.column), first + at * LINE, words, bold=bold, muted=muted)
        for link, said in self.links:
            left, right = band.ends(link)
            x, carried = (left + right) / 2, y - WIDEST / 2 - 5
            if link.capacity is not None:
                yield Text(x, carried, link.capacity.words, bold=link.marked(NARROWEST))
            elif measured or not link.traced:
                yield Text(x, carried, "not measured" if link.traced else "way not known", muted=True)
            first = y + WIDEST / 2 + LINE if above else carried - len(said) * LINE
            for at, words in enumerate(said):
                yield Text(x, first + at * LINE, words, bold=link.marked(NARROWEST))


def _room(words: str, band: _Band, link: Link) -> list[str]:
    left, right = band.ends(link)
    return fold(words, right - left - 8)


def _stop_lines(stop: Stop, room: float) -> list[tuple[str, bool]]:
    """(line, whether it is said by the way): name or address, hop and least answer, MPLS labels. Only a long name of an end is cut."""
    name, beside = fold(inert(stop.name), room), []
    if stop.kind == "end":
        name = name if len(name) <= 2 else [name[0], f"{name[1][:-1]}…"]
        address = stop.hop.address if stop.hop is not None else None
        beside = [address] if address and address != stop.name else []
    elif stop.kind != "unknown":
        beside = [f"hop {stop.ttl}"]
    beside += [stop.answer] if stop.answer and stop.ttl else []
    beside += [f"MPLS {label}" for label in stop.labels]
    beside += [stop.elsewhere] if stop.elsewhere else []
    return [*((line, False) for line in name), *((line, True) for text in beside for line in fold(inert(text), room))]


def fold(words: str, room: float) -> list[str]:
    """Lines of at most `room` pixels: broken at spaces, a longer word behind a colon or dot, else anywhere."""
    most = max(4, int(room // CELL))
    lines: list[str] = [""]
    for word in words.split():
        if cell_len(lines[-1]) + bool(lines[-1]) + cell_len(word) <= most:
            lines[-1] += f" {word}" if lines[-1] else word
            continue
        if lines[-1]:
            lines.append("")
        rest = word
        while cell_len(rest) > most:
            at = most
            while cell_len(rest[:at]) > most:
                at -= 1
            at = max(rest.rfind(":", 0, at), rest.rfind(".", 0, at)) + 1 or at
            lines[-1:] = [rest[:at], ""]
            rest = rest[at:]
        lines[-1] = rest
    return lines


# ---- drawing


def _links(lane: Lane, band: _Band, y: float, most: float) -> Iterator[str]:
    ink = f"var(--chart-{_WAY[lane.direction]})"
    for run in runs(lane, ALONE):
        if parts := [band.ends(link) for link in run if band.holds(link)]:
            yield path_shapes.frame(min(left for left, _ in parts), max(right for _, right in parts), y)
    for link in lane.links:
        if not band.holds(link):
            continue
        left, right = band.ends(link)
        if link.capacity is None:
            yield path_shapes.line(left, right, y, ink, 1.5, "2 3" if link.traced else "2 8")
        else:
            yield path_shapes.line(left, right, y, ink, max(_LEAST, WIDEST * link.capacity.bps / most), "")
        if band.first <= link.end.column <= band.last:
            yield path_shapes.arrow(left, right, y, ink, lane.direction)
        if band.home(link) and (link.marked(NARROWEST) or link.marked(TIE)):
            yield path_shapes.pinch((left + right) / 2, y, solid=link.marked(NARROWEST))


def _body(drawn: Drawn) -> Markup:
    letters = (_letters(text) for text in drawn.texts)
    # Shapes are made of numbers alone; words of others are escaped in `_letters`.
    return Markup("".join((*drawn.shapes, *letters)))  # noqa: S704


def _letters(text: Text) -> str:
    weight = ' font-weight="bold"' if text.bold else ""
    ink = "muted" if text.muted else "ink"
    place = f'x="{text.x:.1f}" y="{text.y:.1f}"'
    return (
        f'<text {place} text-anchor="middle" font-size="{SIZE}" fill="var(--{ink})"{weight}>{escape(text.words)}</text>'
    )
