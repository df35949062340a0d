"""Goodput of both directions side by side: the receivers' median seconds, and by what factor one is above the other. Floor 2, pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from linkqual.model import Direction, Link, ThroughputResult
from linkqual.rules import loads
from linkqual.stats import throughput
from linkqual.units import format_rate

FORWARD, REVERSE = Direction.FORWARD, Direction.REVERSE


@dataclass(frozen=True, slots=True)
class Pair:
    """`factor` by which the stronger direction is above the weaker one, with its interval; each against its contracted rate, where given.

    Infinite where nothing came through the weaker one, and without an interval where nothing came through either (`nothing`).
    """

    middle: dict[Direction, float]
    weaker: Direction
    factor: float
    low: float | None  # of the factor
    high: float | None
    n: int  # seconds of the shorter load

    def of(self, way: Direction) -> float:
        """Its median second, bit/s."""
        return self.middle[way]

    @property
    def nothing(self) -> bool:
        """Whether neither direction brought anything."""
        return not any(self.middle.values())

    @property
    def share(self) -> tuple[float, float | None, float | None]:
        """The weaker one as a share of the stronger one, with its interval."""
        low, high = (1 / end if end else None for end in (self.high, self.low))
        return 1 / self.factor, low, high

    @property
    def said(self) -> str:
        """Both figures."""
        forward, reverse = format_rate(self.of(FORWARD)), format_rate(self.of(REVERSE))
        return f"goodput (receiver's median second) is {forward} forward and {reverse} reverse"

    @property
    def weaker_words(self) -> str:
        """Which one, and by how much."""
        if not self.of(self.weaker):
            return f"nothing came through {'either way' if self.nothing else self.weaker}"
        return f"{self.weaker} is the weaker direction by a factor of {self.factor:.1f}"


def contracted(link: Link) -> dict[Direction, float]:
    """What each direction's rate is divided by: the contract may allow them different rates."""
    return {way: float(link.contracted_bps(way) or 1) for way in (FORWARD, REVERSE)}


def of(results: Mapping[Direction, ThroughputResult], confidence: float, contract: Mapping[Direction, float]) -> Pair:
    """Of one load in each direction; intervals by order statistics of the seconds, the ends that lie furthest apart."""
    middle = {way: loads.median(result) for way, result in results.items()}
    weaker, stronger = sorted(results, key=lambda way: middle[way] / contract[way])
    spans = {way: throughput.seconds_interval(result.receiver_bps, 0.5, confidence) for way, result in results.items()}

    def factor(above: float | None, below: float | None) -> float | None:
        if above is None or below is None or not (above or below):
            return None
        return above / contract[stronger] / (below / contract[weaker]) if below else math.inf

    return Pair(
        middle,
        weaker,
        factor(middle[stronger], middle[weaker]) or math.inf,
        factor(spans[stronger][0], spans[weaker][1]),
        factor(spans[stronger][1], spans[weaker][0]),
        min(len(result.receiver_bps) for result in results.values()),
    )
