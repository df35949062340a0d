"""Lines of words and tables folded to a width, between words. Floor 0, pure.

Widths are characters; None: as wide as it gets, for files and pipes, where a line is one thing to search for.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

_LABEL = re.compile(r" *(?:- |[^ ](?:[^ ]| (?! )){0,17} {2,}|linkqual: )?")  # what continuations are indented by
_LEAST = 20  # characters of words a line must have room for beside its indent


def folded(lines: Iterable[str], width: int | None) -> list[str]:
    """Continuations stand below the words behind a label ("forward      at most ..."), a dash or the indent. Longer words stay whole."""
    found: list[str] = []
    for line in lines:
        label = _LABEL.match(line)
        indent = label.end() if label is not None else 0
        if width is None or len(line) <= width:
            found.append(line)
            continue
        if width - indent < _LEAST:
            indent = 2
        found += textwrap.wrap(
            line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
        )
    return found


def table(rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """Columns aligned, heads first. Of a row that is too wide the last cells stand below it, each behind its head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    shown = len(widths)
    while shown > 1 and width is not None and sum(widths[:shown]) + 2 * (shown - 1) > width:
        shown -= 1
    heads = rows[0][shown:]
    found: list[str] = []
    for row in rows:
        found.append("  ".join(cell.ljust(size) for cell, size in zip(row[:shown], widths, strict=False)).rstrip())
        if row is not rows[0]:
            below = [
                f"    {head}: {cell}" for head, cell in zip(heads, row[shown:], strict=True) if cell not in ("", "-")
            ]
            found += folded(below, width)
    return found
