"""One quantity of both directions, side by side: what every comparison says. Floor 2, pure."""

from __future__ import annotations

from dataclasses import dataclass

from linkqual.model import Direction

FORWARD, REVERSE = Direction.FORWARD, Direction.REVERSE
WAYS = (FORWARD, REVERSE)
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Beside:
    """One quantity of both directions. `ratio` is (value, low, high), None where a side is nothing; `unit` of forward and reverse."""

    what: str
    word: str
    said: str
    unit: str
    forward: float | None
    reverse: float | None
    n: int
    ratio: tuple[float, float | None, float | None] | None = None
    settle: str = ""
    step: str = ""
    clash: bool = False  # what bounds it excludes each other: one of both is not true
