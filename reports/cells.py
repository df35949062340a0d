"""Text in columns of a terminal: wide characters take two cells, combining ones none. Nothing is ever cut."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len

_QUANTITY = re.compile(r"(?<=\d) (?=(?:[kMGT]?(?:bit/s|B|pps)|ns|µs|us|ms|s|min|h|d|%)(?![\w]))")  # stays on one line


def pad(text: str, width: int, right: bool = False) -> str:
    """Filled up to `width` cells; longer text stays whole."""
    fill = " " * (width - cell_len(text))
    return fill + text if right else text + fill


def wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Lines of at most `width` cells with their indents; a number and its unit stay together, a longer word stays whole."""
    lines, current, empty = [], first, True
    for word in _QUANTITY.sub("\0", " ".join(text.split())).split(" "):
        if not empty and _cells(current) + 1 + _cells(word) > width:
            lines.append(current)
            current, empty = rest, True
        current += word if empty else f" {word}"
        empty = False
    return [line.replace("\0", " ") for line in (*lines, current)]


def _cells(text: str) -> int:
    return cell_len(text.replace("\0", " "))


def widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Of each column, in cells."""
    return [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
