"""Availability: the state of every second, outages apart from gaps in the measurement, and what a downtime budget says of them.

No data is neither up nor down: a prober that was away (reboot, crash, lost clock) leaves a *gap*, never an outage; the report
shows what the figure would be if the gap had been down. Budgets are exact: durations are integer ns, availabilities decimals as
written ("99.99"). A window can refute a target for that window; it cannot prove a year. Floor 1, pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum, StrEnum
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from linkqual.units import NS_PER_S, format_duration

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class State(IntEnum):
    """Of one second in one direction."""

    NO_DATA = 0
    UP = 1
    DOWN = 2


def states(sent: npt.ArrayLike, lost: npt.ArrayLike, threshold: float = 1.0, least: int = 1) -> npt.NDArray[np.uint8]:
    """State of each second: DOWN when at least `threshold` of its packets were lost, NO_DATA under `least` packets sent.

    `threshold` 1.0: nothing got through. A vendor's definition with its own figure (0.5, 0.2 ...) is the caller's to give.
    """
    tried, gone = np.asarray(sent, np.int64), np.asarray(lost, np.int64)
    down = (gone >= threshold * tried) & (gone > 0)
    return np.where(tried < least, State.NO_DATA, np.where(down, State.DOWN, State.UP)).astype(np.uint8)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time, end not included; instants in UTC ns."""

    start_ns: int
    end_ns: int

    @property
    def duration_ns(self) -> int:
        """Length."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class Ledger:
    """What was seen of the line in one window: outages, gaps, and the rest was up."""

    window: Span
    outages: tuple[Span, ...] = ()
    gaps: tuple[Span, ...] = ()

    @property
    def down_ns(self) -> int:
        """Seen down."""
        return sum(span.duration_ns for span in self.outages)

    @property
    def unknown_ns(self) -> int:
        """Not seen."""
        return sum(span.duration_ns for span in self.gaps)

    @property
    def observed_ns(self) -> int:
        """Seen up or down."""
        return self.window.duration_ns - self.unknown_ns

    @property
    def availability(self) -> Fraction | None:
        """Up time over observed time, exact; None when nothing was observed."""
        return Fraction(self.observed_ns - self.down_ns, self.observed_ns) if self.observed_ns else None

    @property
    def availability_if_gaps_down(self) -> Fraction | None:
        """Up time over the whole window: the pessimist's reading."""
        whole = self.window.duration_ns
        return Fraction(whole - self.down_ns - self.unknown_ns, whole) if whole else None


def ledger(seconds: npt.ArrayLike, start_ns: int, step_ns: int = NS_PER_S) -> Ledger:
    """Outages and gaps of a column of `State`s, `step_ns` each. An outage that runs into a gap ends there: nothing is assumed."""
    column = np.asarray(seconds, np.uint8)
    window = Span(start_ns, start_ns + column.size * step_ns)
    return Ledger(
        window,
        _spans(column == State.DOWN, start_ns, step_ns),
        _spans(column == State.NO_DATA, start_ns, step_ns),
    )


def runs(flags: Bools) -> list[tuple[int, int]]:
    """First and past-the-last index of every run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _spans(flags: Bools, start_ns: int, step_ns: int) -> tuple[Span, ...]:
    return tuple(Span(start_ns + a * step_ns, start_ns + b * step_ns) for a, b in runs(flags))


# ---- budgets


def fraction(target: str | Decimal) -> Fraction:
    """Availability as an exact fraction of "99.99" or "99.99 %" (percent), or "0.9999" (at most 1: a ratio).

    Raises ValueError outside 0 ... 100 %.
    """
    text = str(target).strip()
    value = Fraction(Decimal(text.rstrip("% ")))
    share = value / 100 if text.endswith("%") or value > 1 else value
    if not 0 <= share <= 1:
        raise ValueError(f"{target!r} is no availability")
    return share


def budget_ns(target: str | Decimal, window_ns: int) -> Fraction:
    """Downtime a target allows in a window: (1 - A) * window, exact (99.99 % of 60 h: 21.6 s)."""
    return (1 - fraction(target)) * window_ns


class Standing(StrEnum):
    """What a window says of a target. There is no "proven": see `confidence.outage_rate_bounds`."""

    NOT_REFUTED = "not refuted"
    REFUTED = "refuted"
    NO_DATA = "no data"


@dataclass(frozen=True, slots=True)
class Assessment:
    """A target held against a ledger. Durations in ns."""

    target: Fraction
    standing: Standing
    standing_if_gaps_down: Standing
    budget_ns: Fraction
    used_ns: int
    used_if_gaps_down_ns: int
    because: str


def assess(book: Ledger, target: str | Decimal) -> Assessment:
    """Hold an availability target against what was seen in the window."""
    budget = budget_ns(target, book.window.duration_ns)
    used, most = book.down_ns, book.down_ns + book.unknown_ns
    standing, pessimist = _standing(book, used, budget), _standing(book, most, budget)
    return Assessment(
        fraction(target), standing, pessimist, budget, used, most, _sentence(book, target, budget, standing, pessimist)
    )


def _standing(book: Ledger, down_ns: int, budget: Fraction) -> Standing:
    if not book.observed_ns:
        return Standing.NO_DATA
    return Standing.REFUTED if down_ns > budget else Standing.NOT_REFUTED


def _sentence(book: Ledger, target: str | Decimal, budget: Fraction, standing: Standing, pessimist: Standing) -> str:
    name = (
        f"{str(target).rstrip('% ')} %" if fraction(target) * 100 == Fraction(str(target).rstrip("% ")) else str(target)
    )
    window = format_duration(book.window.duration_ns)
    if standing is Standing.NO_DATA:
        return f"{name}: nothing was observed in {window}"
    parts = [
        f"{name} over {window} allows {format_duration(float(budget))} down; {format_duration(book.down_ns)} were seen"
        f" in {_count(len(book.outages), 'outage')}: {standing} for this window"
    ]
    if book.gaps:
        most = format_duration(book.down_ns + book.unknown_ns)
        parts.append(
            f"{_count(len(book.gaps), 'measurement gap')} of {format_duration(book.unknown_ns)} counted as neither up nor"
            f" down; had the line been down then, {most}: {pessimist}"
        )
    if standing is Standing.NOT_REFUTED:
        parts.append("a window cannot prove a yearly availability")
    return "; ".join(parts)


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


# ---- composition and long-run figures


def series(parts: Iterable[float]) -> float:
    """All must work: the product."""
    return float(np.prod(list(parts)))


def parallel(parts: Iterable[float]) -> float:
    """One suffices, failures independent, failover instant."""
    return 1 - float(np.prod([1 - part for part in parts]))


def parallel_common_cause(unavailability: float, beta: float) -> float:
    """Two equal paths of which a share `beta` of failures hits both: A = 1 - (beta u + (1 - beta)^2 u^2)."""
    return 1 - (beta * unavailability + (1 - beta) ** 2 * unavailability**2)


def availability_bound(outage_rate: float, mean_repair: float) -> float:
    """Availability at most this many outages per unit of time allow when each lasts `mean_repair` (same unit): 1 / (1 + rate * MTTR)."""
    return 1 / (1 + outage_rate * mean_repair)


def outage_free_time(target: str | Decimal, mean_repair: float, confidence: float = 0.95) -> float:
    """How long must no outage be seen to prove a target: -ln(1 - c) * MTTR * A / (1 - A); unit of `mean_repair`."""
    share = fraction(target)
    return -float(np.log1p(-confidence)) * mean_repair * float(share / (1 - share))
