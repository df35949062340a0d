"""What a person sees while packets fly: one line that moves on a terminal, plain lines now and then elsewhere. Floor 6.

Drawing is limited to ten times a second and skipped otherwise, so telling of progress never costs the measurement anything; a
stream that can no longer be written to (a closed pipe) ends the display, never the run.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO
from unicodedata import east_asian_width

from linkqual.folding import folded
from linkqual.units import NS_PER_S, format_count, format_duration

if TYPE_CHECKING:
    from linkqual.probes.bench import Progress

REDRAW_S = 0.1
PLAIN_S = 5.0
BAR = 20  # cells


class Live:
    """Progress of one run on one stream.

    with Live(sys.stderr) as live:
        live.phase("stamp: delay and loss")
        live.update(Progress("stamp", done=..., total=...))  # as often as one likes
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        terminal: bool | None = None,
        now: Callable[[], float] = time.monotonic,
        width: Callable[[], int] | None = None,
    ) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._terminal = is_terminal(self._stream) if terminal is None else terminal
        self._unicode = "utf" in (getattr(self._stream, "encoding", None) or "").lower()
        self._now = now
        self._width = width or (lambda: shutil.get_terminal_size((100, 24)).columns)
        self._lock = Lock()
        self._next = 0.0
        self._drawn = ""  # the line that stands under the cursor
        self._last: Progress | None = None
        self._alive = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._settle()

    def phase(self, text: str) -> None:
        """A new phase begins: the line of the last one stays behind as its result."""
        with self._lock:
            self._settle()
            shown = self._fold(f"  {_one_line(text)}")
            if self._terminal:
                self._draw(shown)  # until the first word of progress
                self._next = 0.0
            else:
                self._write(f"{shown}\n")
                self._next = self._now() + PLAIN_S

    def say(self, text: str) -> None:
        """A line of its own that stays, above the moving one."""
        with self._lock:
            moving, self._drawn = self._drawn, ""
            lines = folded([self._fold(_one_line(text))], self._width() if self._terminal else None)
            self._write(("\r\x1b[K" if moving else "") + "\n".join(lines) + "\n")
            if moving:
                self._draw(moving)

    def update(self, progress: Progress) -> None:
        """The state of the running phase; shown when it is time to."""
        with self._lock:
            self._last = progress
            moment = self._now()
            if moment < self._next or not self._alive:
                return
            self._next = moment + (REDRAW_S if self._terminal else PLAIN_S)
            if self._terminal:
                self._draw(self._fold(line(progress, self._width() - 1, bar=True, unicode=self._unicode)))
            else:
                self._write(self._fold(line(progress, 1000)) + "\n")

    def _settle(self) -> None:
        """The last state once more, and the cursor below it."""
        progress, self._last = self._last, None
        if progress is not None and self._terminal:
            self._draw(self._fold(line(progress, self._width() - 1, bar=True, unicode=self._unicode)))
        elif progress is not None:
            self._write(self._fold(line(progress, 1000)) + "\n")
        if self._drawn:
            self._write("\n")
            self._drawn = ""

    def _draw(self, text: str) -> None:
        if text != self._drawn:
            self._write(f"\r{text}\x1b[K")
            self._drawn = text

    def _fold(self, text: str) -> str:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        if not self._unicode:
            text = text.replace("·", "|").replace("µ", "u")
        return text.encode(encoding, "backslashreplace").decode(encoding)

    def _write(self, text: str) -> None:
        if not self._alive:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # a closed pipe or stream: nobody looks any more
            self._alive = False


def is_terminal(stream: TextIO) -> bool:
    """Whether a line may be drawn over itself here."""
    try:
        return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    except ValueError:
        return False


def line(progress: Progress, width: int, *, bar: bool = False, unicode: bool = True) -> str:
    """One line of at most `width` characters; what does not fit is left out whole, numbers are never cut."""
    done, total = progress.done, progress.total
    counted = f"{format_count(done)} of {format_count(total)}" if total else format_count(done)
    parts = [f"{counted} {progress.unit}" if done or total else ""]
    if progress.lost is not None:
        parts.append(f"{format_count(progress.lost)} lost")
    if progress.left_ns is not None and not (total and done >= total):
        whole = max(0, round(progress.left_ns / NS_PER_S)) * NS_PER_S
        parts.append(f"{format_duration(whole) if whole else 'under 1 s'} left")
    parts.append(_one_line(progress.text))
    shown = f"  {_one_line(progress.phase)}"
    if bar and total and len(shown) + BAR + 10 < width // 2 + 10:
        share = min(done / total, 1.0)
        full = int(share * BAR)
        ink, rest = ("█", "░") if unicode else ("#", ".")
        shown += f"  {ink * full}{rest * (BAR - full)} {share:4.0%}"
    for part in filter(None, parts):
        longer = f"{shown} · {part}" if shown.strip() else part
        if _cells(longer) > width:
            break
        shown = longer
    return shown if _cells(shown) <= width else shown[: width // 2]


def _cells(text: str) -> int:
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in text)


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text).strip()
