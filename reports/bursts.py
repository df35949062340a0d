"""Training bursts as the page and the terminal tell them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from linkqual.model import BurstsResult, Qualification
from linkqual.reports import charts_bursts
from linkqual.stats import bursts as stats
from linkqual.units import format_count, format_duration, format_rate, format_size

Interval = tuple[float | None, float | None, float | None]


@dataclass(frozen=True, slots=True)
class Row:
    """One direction in numbers; times in ns, each a value with its interval."""

    result: BurstsResult
    p50: Interval
    p99: Interval
    most: float | None
    variation: Interval
    drift: Interval

    @property
    def late(self) -> int:
        """Bursts never complete within the patience."""
        return self.result.sent - self.result.completed

    @property
    def ideal(self) -> int | None:
        """The time at the pace of the burst and one round trip: what an idle line would take."""
        base = self.result.base_rtt_ns
        return None if base is None or not self.result.transfer_ns else self.result.transfer_ns + base


def results(q: Qualification) -> list[BurstsResult]:
    """Both directions of every burst step, forward first."""
    return [one for m in q.measurements for one in (m.bursts, m.bursts_back) if one is not None]


def rows(q: Qualification) -> list[Row]:
    """One a direction."""
    return [_row(one) for one in results(q)]


def _row(one: BurstsResult) -> Row:
    each = one.completions_ns
    return Row(
        one,
        stats.quantile(each, 0.5),
        stats.quantile(each, 0.99),
        max((value for value in each if value is not None), default=None),
        stats.variation(each),
        stats.drift(each),
    )


def section(q: Qualification) -> dict[str, Any]:
    """What the template bursts.html asks for."""
    found = results(q)
    return {
        "rows": rows(q),
        "what": [*dict.fromkeys(map(what, found))],
        "time": charts_bursts.completion_over_time(found),
        "tail": charts_bursts.completion_tail(found, q.plan.objectives),
        "loss": charts_bursts.loss_by_position(found),
    }


_PATTERNS = {
    "sync": "bursts as a gradient synchronisation sends them",
    "incast": "bursts whose flows all start at the same instant",
    "pipeline": "messages as a pipeline between sites sends them",
}


def what(one: BurstsResult) -> str:
    """What was sent, in one sentence."""
    flows = f"{format_count(one.flows)} flow{'s' if one.flows != 1 else ''}"
    pace = f", at {format_rate(one.pace_bps)}" if one.pace_bps else ""
    said = f"{_PATTERNS.get(one.pattern, one.pattern)}: {format_size(one.burst_bytes)} each {format_duration(one.period_ns)} over {flows}{pace}"
    return f"{said} ({one.source})" if one.source else said
