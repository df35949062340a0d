"""The shapes of the picture of a path: each is one SVG element made of numbers. Pixels; `x` grows to the far end, `y` downwards."""

from __future__ import annotations

from linkqual.model import Direction
from linkqual.reports.path_view import Stop

RADIUS = 7  # of a router
WIDEST = 15.0  # stroke of the link that carries most


def frame(left: float, right: float, y: float) -> str:
    """Around what one direction alone takes."""
    place = f'x="{left:.1f}" y="{y - WIDEST / 2 - 4:.1f}" width="{right - left:.1f}" height="{WIDEST + 8:.1f}" rx="4"'
    return f'<rect {place} fill="var(--inconclusive-soft)" stroke="var(--inconclusive)" stroke-dasharray="5 3"/>'


def line(left: float, right: float, y: float, ink: str, width: float, dash: str) -> str:
    """A link, level; `dash` as SVG has it, "" for a solid one."""
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<line x1="{left:.1f}" y1="{y:.1f}" x2="{right:.1f}" y2="{y:.1f}" stroke="{ink}" stroke-width="{width:.1f}"{dashes}/>'


def arrow(left: float, right: float, y: float, ink: str, way: Direction) -> str:
    """At the end a packet comes to, clear of the stop's own sign."""
    tip, back = (right - RADIUS - 2, -11) if way is Direction.FORWARD else (left + RADIUS + 2, 11)
    points = f"M{tip:.1f},{y:.1f}L{tip + back:.1f},{y - 7:.1f}L{tip + back:.1f},{y + 7:.1f}Z"
    return f'<path d="{points}" fill="{ink}" stroke="var(--paper)" stroke-width="1"/>'


def pinch(x: float, y: float, *, solid: bool) -> str:
    """Two triangles that meet: a narrow place."""
    points = f"M{x - 13:.1f},{y - 9:.1f}L{x:.1f},{y:.1f}L{x - 13:.1f},{y + 9:.1f}ZM{x + 13:.1f},{y - 9:.1f}L{x:.1f},{y:.1f}L{x + 13:.1f},{y + 9:.1f}Z"
    fill = "var(--chart-limit)" if solid else "var(--paper)"
    return f'<path d="{points}" fill="{fill}" stroke="var(--ink)" stroke-width="1.2"/>'


def stop(stop: Stop, x: float, y: float) -> str:
    """An end is a square, a router a circle, a broken one where it hides."""
    if stop.kind == "end":
        return f'<rect x="{x - 9:.1f}" y="{y - 9:.1f}" width="18" height="18" rx="3" fill="var(--ink)"/>'
    hollow = ' stroke-dasharray="3 2.5"' if stop.kind != "router" else ""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}" fill="var(--paper)" stroke="var(--ink)" stroke-width="2"{hollow}/>'


def joint(x: float, upper: float, lower: float, one: bool) -> str:
    """Between the lanes, at a router both cross; broken where it may be two."""
    dash = "" if one else ' stroke-dasharray="4 4"'
    return f'<line x1="{x:.1f}" y1="{upper:.1f}" x2="{x:.1f}" y2="{lower:.1f}" stroke="var(--muted)" stroke-width="{2.5 if one else 1.2}"{dash}/>'
