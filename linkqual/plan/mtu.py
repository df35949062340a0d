"""The step of the search for the path MTU: both directions, UDP and TCP. Floor 2, pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkqual.model import Direction, Json, Step
from linkqual.session.mtu import AT_ONCE, CONFIRM, EACH
from linkqual.units import NS_PER_S, format_count

if TYPE_CHECKING:
    from linkqual.plan.steps import Builder

PACE_BPS = 10_000_000
SHARE = 0.1  # of the contract: a search that fills a queue loses packets of every size
LEAST_BPS = 100_000
_SEARCH_NS, _TRACE_NS, _TCP_NS = 4 * NS_PER_S, 5 * NS_PER_S, 8 * NS_PER_S  # at most, of each direction; on a bad line
_EXPECTED_NS = 2 * NS_PER_S


def build(builder: Builder, settings: dict[str, Json]) -> tuple[list[Step], list[str]]:
    """One step: the search holds both directions against each other."""
    longest, data = settings["longest_bytes"], settings["tcp_bytes"]
    usual = min(longest, builder.link.mtu or 1500)
    sizes = EACH * 3 * AT_ONCE + 2 * CONFIRM  # of three rounds, and the last one
    pace = max(LEAST_BPS, _pace(builder))
    step = Step(
        key="mtu",
        probe="mtu",
        params={"longest_bytes": longest, "tcp_bytes": data, "timeout_ns": settings["timeout_ns"], "pace_bps": pace},
        packets=2 * sizes,
        duration_ns=2 * (_SEARCH_NS + _TRACE_NS) + (_TCP_NS if data else 0),
        expected_ns=_EXPECTED_NS,
        offered_bps=pace,
        total_bytes=2 * (sizes * max(usual, 1500) + data * 11 // 10),
        why=f"the longest packet that arrives, up to {format_count(longest)} bytes or what the hosts' interfaces take; whether routers "
        "tell of longer ones; and the segments TCP agrees on",
    )
    return [step], []


def _pace(builder: Builder) -> int:
    rates = [int(SHARE * bps) for way in Direction if (bps := builder.link.contracted_bps(way))]
    if builder.options.max_rate_bps is not None:
        rates.append(builder.options.max_rate_bps)
    return min([PACE_BPS, *rates])
