"""Every metric linkqual knows: its name from the standards, its unit, who measures it. docs/metrics.md explains each at length.

Floor 0, pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from linkqual.model import Direction, Relation

FORWARD, REVERSE, ROUND_TRIP = Direction.FORWARD, Direction.REVERSE, Direction.ROUND_TRIP


@dataclass(frozen=True, slots=True)
class Metric:
    """`quantiles`: whether statistics p50, p99, p99.9 ... of it may be asked for, else only those in `statistics`."""

    name: str
    title: str  # as people read it in a table
    unit: str  # "ns", "bit/s", "ratio"; "marking": values that change
    probe: str
    directions: tuple[Direction, ...]
    relation: Relation
    quantiles: bool
    statistics: tuple[str, ...]
    definition: str
    standard: str


def _delay(name: str, title: str, directions: tuple[Direction, ...], definition: str, standard: str) -> Metric:
    return Metric(
        name,
        title,
        "ns",
        "stamp",
        directions,
        Relation.AT_MOST,
        True,
        ("min", "max", "mean"),
        definition,
        standard,
    )


def _share(name: str, title: str, directions: tuple[Direction, ...], definition: str, standard: str) -> Metric:
    return Metric(name, title, "ratio", "stamp", directions, Relation.AT_MOST, False, ("ratio",), definition, standard)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        _share(
            "loss_ratio",
            "loss",
            (FORWARD, REVERSE, ROUND_TRIP),
            "packets that did not arrive within the timeout, of those sent (reverse: of those that reached the far end)",
            "RFC 7680, RFC 6673",
        ),
        _delay(
            "round_trip_delay",
            "round trip",
            (ROUND_TRIP,),
            "(T4 - T1) - (T3 - T2): the line alone, the far host's own time taken out",
            "RFC 2681",
        ),
        _delay(
            "one_way_delay",
            "one-way delay",
            (FORWARD, REVERSE),
            "T2 - T1 or T4 - T3; needs a bound of the clock error",
            "RFC 7679",
        ),
        _delay(
            "pdv",
            "jitter (PDV)",
            (FORWARD, REVERSE, ROUND_TRIP),
            "delay above the smallest delay of the same run and direction; the clock offset cancels",
            "RFC 5481",
        ),
        _delay(
            "ipdv",
            "jitter (IPDV)",
            (FORWARD, REVERSE, ROUND_TRIP),
            "size of the difference between the delays of two packets sent one after the other",
            "RFC 3393",
        ),
        _share(
            "reordered_ratio",
            "reordered",
            (FORWARD, REVERSE),
            "packets that arrive after a packet sent later, of those that arrive",
            "RFC 4737",
        ),
        _share(
            "duplicate_ratio",
            "duplicated",
            (FORWARD, REVERSE),
            "extra copies, of those that arrive",
            "RFC 5560",
        ),
        Metric(
            "throughput",
            "goodput",
            "bit/s",
            "throughput",
            (FORWARD, REVERSE),
            Relation.AT_LEAST,
            True,
            ("mean",),
            "TCP payload that reached the receiver in one second, warm-up left out",
            "RFC 6349",
        ),
        Metric(
            "marking",
            "marking",
            "marking",
            "marking",
            (FORWARD, REVERSE),
            Relation.AT_MOST,
            False,
            ("DSCP", "ECN"),
            "DSCP or ECN values of which a packet arrives with another one; ECT that arrives as CE is not one of them",
            "RFC 8972",
        ),
    )
}


def quantile(statistic: str) -> float | None:
    """0.999 of "p99.9"; None when the statistic is no quantile."""
    try:
        value = float(Decimal(statistic[1:]) / 100) if statistic.startswith("p") else None  # 99.9 / 100 is not 0.999
    except InvalidOperation:
        return None
    return value if value is not None and 0 < value < 1 else None
