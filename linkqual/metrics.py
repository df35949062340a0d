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
    unit: str  # "ns", "bit/s", "ratio"; "marking": values that change; "links": of a path
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


def _of_services(
    name: str, title: str, unit: str, relation: Relation, statistics: tuple[str, ...], definition: str, standard: str
) -> Metric:
    quantiles = unit == "ns"
    return Metric(
        name, title, unit, "services", (FORWARD, REVERSE), relation, quantiles, statistics, definition, standard
    )


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
            "loaded_round_trip_delay",
            "round trip under load",
            "ns",
            "throughput",
            (ROUND_TRIP,),
            Relation.AT_MOST,
            True,
            ("min", "max", "mean"),
            "round trip of a STAMP stream beside the judged TCP load, of the load in whose direction it is longer",
            "RFC 2681, RFC 6349",
        ),
        Metric(
            "added_delay",
            "added delay under load",
            "ns",
            "throughput",
            (FORWARD, REVERSE),
            Relation.AT_MOST,
            True,
            ("max", "mean"),
            "one-way delay beside the judged TCP load of this direction, above the median just before it; the clock offset cancels",
            "RFC 6349, RFC 5481",
        ),
        Metric(
            "loaded_loss_ratio",
            "loss under load",
            "ratio",
            "throughput",
            (FORWARD, REVERSE),
            Relation.AT_MOST,
            False,
            ("ratio",),
            "STAMP packets lost beside the judged TCP load of this direction, of those sent",
            "RFC 7680",
        ),
        Metric(
            "rate_symmetry",
            "rates of both directions",
            "times",
            "throughput",
            (ROUND_TRIP,),
            Relation.AT_MOST,
            False,
            ("factor",),
            "goodput of the stronger direction over that of the weaker one, by the receivers' median seconds",
            "RFC 6349",
        ),
        _of_services(
            "information_rate",
            "information rate (IR)",
            "ratio",
            Relation.AT_LEAST,
            ("ratio",),
            "what arrives of a service while at least its CIR is offered, as a share of the CIR, by the receiver's stamps",
            "ITU-T Y.1564",
        ),
        _of_services(
            "frame_loss_ratio",
            "frame loss (FLR)",
            "ratio",
            Relation.AT_MOST,
            ("ratio",),
            "frames that do not arrive of those offered within the CIR, in each step for itself",
            "ITU-T Y.1563, ITU-T Y.1564",
        ),
        _of_services(
            "frame_transfer_delay",
            "frame delay (FTD)",
            "ns",
            Relation.AT_MOST,
            ("min", "max", "mean"),
            "one-way delay of a STAMP stream in the service's DSCP while the service is loaded within its CIR",
            "ITU-T Y.1563, ITU-T Y.1564",
        ),
        _of_services(
            "frame_delay_variation",
            "frame delay variation (FDV)",
            "ns",
            Relation.AT_MOST,
            ("max", "mean"),
            "one-way delay of that stream above its smallest one of the same step; the clock offset cancels",
            "ITU-T Y.1563, ITU-T Y.1564",
        ),
        _of_services(
            "service_availability",
            "availability (AVAIL)",
            "ratio",
            Relation.AT_LEAST,
            ("ratio",),
            "seconds of the performance test that are not unavailable: ten and more in a row that each lose half of their frames",
            "ITU-T Y.1563, ITU-T Y.1564",
        ),
        _of_services(
            "policing",
            "policing",
            "ratio",
            Relation.AT_MOST,
            ("ratio",),
            "what gets through above CIR + EIR while more than that is offered, as a share of CIR + EIR",
            "ITU-T Y.1564",
        ),
        Metric(
            "frame_throughput",
            "frame throughput",
            "bit/s",
            "search",
            (FORWARD, REVERSE),
            Relation.AT_LEAST,
            False,
            ("min",),
            "highest rate at which the loss goal is kept, as the contracted rate counts; of all frame sizes the one with the least",
            "RFC 2544, RFC 9004",
        ),
        Metric(
            "burst_completion",
            "burst completion",
            "ns",
            "bursts",
            (FORWARD, REVERSE),
            Relation.AT_MOST,
            True,
            ("max",),
            "from a burst's first departure to the confirmation that all of it has arrived, what was sent again included",
            "RFC 2330",
        ),
        Metric(
            "burst_spread",
            "spread of burst completion",
            "ratio",
            "bursts",
            (FORWARD, REVERSE),
            Relation.AT_MOST,
            False,
            ("cv",),
            "coefficient of variation of the completions: standard deviation over mean",
            "RFC 2330",
        ),
        Metric(
            "member_loss",
            "loss of single paths",
            "ratio",
            "members",
            (FORWARD, REVERSE),
            Relation.AT_MOST,
            False,
            ("ratio",),
            "by how much more the flows of one path lose, of a bundle or of equal routes, than the others do",
            "RFC 7680",
        ),
        Metric(
            "path_mtu",
            "path MTU",
            "B",
            "mtu",
            (FORWARD, REVERSE),
            Relation.AT_LEAST,
            False,
            ("size",),
            "longest IP packet with Don't Fragment of which one arrived, up to what the sending host's interface takes",
            "RFC 4821, RFC 8899",
        ),
        Metric(
            "mtu_black_hole",
            "MTU black hole",
            "B",
            "mtu",
            (FORWARD, REVERSE),
            Relation.AT_MOST,
            False,
            ("size",),
            "by how much longer packets, up to the line's MTU, vanish without an ICMP message that reaches the sender",
            "RFC 2923",
        ),
        Metric(
            "path_symmetry",
            "routes of both directions",
            "links",
            "path",
            (ROUND_TRIP,),
            Relation.AT_MOST,
            False,
            ("own",),
            "links of one flow that one direction alone takes, by traces from both ends",
            "RFC 7680, RFC 791",
        ),
        Metric(
            "delay_symmetry",
            "delay difference",
            "ns",
            "stamp",
            (ROUND_TRIP,),
            Relation.AT_MOST,
            False,
            ("difference",),
            "smallest one-way delay forward less the smallest one reverse, known to twice the bound of the clocks' offset",
            "RFC 7679",
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
