"""From a chart specification to two inline SVGs, one for a page and one for a phone, that take their colours from the page.

A chart is drawn with the marker colours of `Ink`; in the SVG each becomes a CSS variable, so the same picture follows a light
or a dark screen and prints black on white. The drawing library runs no network and needs no browser.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import altair as alt
import vl_convert
from altair.utils.schemapi import debug_mode
from markupsafe import Markup, escape

WIDE, NARROW = 860, 340  # pixels
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"


class Ink(StrEnum):
    """Marker colours; the page defines --chart-<name> for each."""

    TEXT = "#010101"
    MUTED = "#020202"
    GRID = "#030303"
    FORWARD = "#040404"
    REVERSE = "#050505"
    ROUND = "#060606"
    LIMIT = "#070707"


CONFIG: dict[str, Any] = {
    "aria": False,
    "background": None,
    "font": "sans-serif",
    "view": {"stroke": None},
    "axis": {
        "domainColor": Ink.MUTED,
        "tickColor": Ink.GRID,
        "gridColor": Ink.GRID,
        "labelColor": Ink.MUTED,
        "titleColor": Ink.MUTED,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelPadding": 5,
    },
    "axisX": {"grid": False, "titleAnchor": "end", "labelFlush": True},
    "axisY": {
        "domain": False,
        "ticks": False,
        "titleAngle": 0,
        "titleAlign": "left",
        "titleAnchor": "end",
        "titleY": -14,
    },
    "text": {"color": Ink.TEXT, "fontSize": 12},
}

CHECKED = False  # against the schema of the chart language; costs more than the drawing, so tests do it
ROWS = alt.NamedData("rows")
Rows = list[dict[str, Any]]
Draw = Callable[[int], Any]  # a chart of that many pixels in width


def figure(draw: Draw, rows: Rows, name: str, alternative: str) -> Markup:
    """Both widths of one chart of `rows`; `name` keeps the identifiers of one SVG apart from another's."""
    drawn = (
        _inline(_svg(draw, width, rows), f"{name}-{kind}", kind, alternative)
        for kind, width in (("wide", WIDE), ("narrow", NARROW))
    )
    return Markup("").join(drawn)


def _svg(draw: Draw, width: int, rows: Rows) -> str:
    with debug_mode(CHECKED):
        spec = draw(width).to_dict(validate=CHECKED)
    spec.setdefault("datasets", {})[ROWS.name] = rows  # here, and not before: altair copies what it is given many times
    spec["config"] = CONFIG
    spec["autosize"] = {"type": "fit", "contains": "padding"}
    svg: str = vl_convert.vegalite_to_svg(spec)
    return svg


_NOISE = re.compile(
    r' (?:pointer-events="none"|aria-hidden="true"|aria-roledescription="[^"]*"|role="graphics-[a-z]+"|opacity="1"'
    r'|font-family="[^"]*"|class="[^"]*"|xmlns(?::xlink)?="[^"]*"|version="1.1")'
)
_EMPTY = re.compile(r'<path(?: (?!d=)[-a-z]+="[^"]*")* d="(?:M0,0h0v0h0Z)?"(?: [-a-z]+="[^"]*")*/>|<g>\s*</g>')
_GEOMETRY = re.compile(r' (?:d|transform|x2|y2)="[^"]*"')
_LONG = re.compile(r"(\.\d\d)\d+")


def _inline(svg: str, name: str, kind: str, alternative: str) -> Markup:
    head, _, body = svg.partition(">")
    body = _NOISE.sub("", body)
    body = _EMPTY.sub("", body)
    body = _GEOMETRY.sub(lambda attribute: _LONG.sub(r"\1", attribute[0]), body)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r"url\(#", f"url(#{name}-", body)
    for ink in Ink:
        body = body.replace(f'"{ink}"', f'"var(--chart-{ink.name.lower()})"')
    box = re.search(r'viewBox="[^"]*"', head)
    size = f"{box[0]} " if box else ""
    # What is in `body` was written by the drawing library from numbers and our own words; it escapes text itself.
    return Markup(_head(kind, size, alternative) + body)  # noqa: S704


def inline(body: Markup, width: float, height: float, kind: str, alternative: str) -> Markup:
    """A picture drawn by hand as one inline SVG; `kind` "wide" or "narrow": the page it is for."""
    head = _head(kind, f'viewBox="0 0 {width:g} {height:g}" ', alternative)
    return Markup(head) + body + Markup("</svg>")  # noqa: S704  # its own words are escaped


def _head(kind: str, size: str, alternative: str) -> str:
    return f'<svg class="{kind}" {size}role="img" aria-label="{escape(alternative)}" font-family="{_FONT}">'
