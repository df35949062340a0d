"""What is asked: the line, the red lines, the yardstick, the plan; and the words all types share. Floor 0."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

SCHEMA = 1  # of the stored document; raised when a field changes its meaning

Json = Any  # what json.loads may return


class Direction(StrEnum):
    """Forward: from the near end (where the command was typed) to the far end."""

    FORWARD = "forward"
    REVERSE = "reverse"
    ROUND_TRIP = "round-trip"


class Outcome(StrEnum):
    """What a finding says. NOT_JUDGED: measured and shown, but the limit was not given."""

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    NO_DATA = "no-data"
    NOT_JUDGED = "not-judged"


class Relation(StrEnum):
    """On which side of the limit a good value lies."""

    AT_MOST = "at most"
    AT_LEAST = "at least"


class Rule(StrEnum):
    """Which rule decided a finding."""

    SEQUENTIAL = "sequential"  # Wald / Ville boundaries, looked at after every packet while measuring
    EXACT = "exact"  # Clopper-Pearson, a run of fixed length or a stored one
    NONE = "none"  # nothing to decide


@dataclass(frozen=True, slots=True)
class Service:
    """One service as contracted, with its acceptance criteria. None: not agreed, so measured and not judged."""

    name: str
    cir_bps: int  # near -> far, as `counts` counts
    cir_reverse_bps: int | None = None  # far -> near; None: as cir_bps
    eir_bps: int = 0  # each way
    counts: str = "l1"  # l1, l2 or l3, as `Link.rate_counts`
    sizes: tuple[tuple[int, int], ...] = ()  # (bytes of an IP packet, weight); empty: the line's MTU
    dscp: int = 0
    flr: float | None = None  # frame loss ratio
    ftd_ns: int | None = None  # frame transfer delay, one way
    fdv_ns: int | None = None  # frame delay variation, one way
    availability: float | None = None  # ratio, of the performance test

    def committed_bps(self, direction: Direction) -> int:
        """The CIR of one direction; the reverse is as the forward one unless given."""
        if direction is Direction.REVERSE and self.cir_reverse_bps is not None:
            return self.cir_reverse_bps
        return self.cir_bps


@dataclass(frozen=True, slots=True)
class LineSegment:
    """A part of the line that one supplier answers for. It begins and ends at a router or at a host.

    `start` and `end`: "near", "far" (the hosts), an address or a prefix of a router, or the number of a hop as packets from the near end
    meet it ("3").
    """

    name: str
    start: str  # nearer to the near end
    end: str
    supplier: str | None = None
    rate_bps: int | None = None  # that it is said to carry each way, as `Link.rate_counts` counts


@dataclass(frozen=True, slots=True)
class Link:
    """The line under test as contracted. Every field but the name may be unknown (None)."""

    name: str = "unnamed line"
    vendor: str | None = None
    cir_bps: int | None = None  # contracted rate near -> far
    cir_reverse_bps: int | None = None  # far -> near; None: as cir_bps
    rate_counts: str = "l1"  # what the contracted rate counts: l1 (preamble, gap, FCS), l2 (frame with FCS), l3 (IP)
    mtu: int | None = None
    rtt_budget_ns: int | None = None
    near: str | None = None  # names of the two ends, for people
    far: str | None = None
    in_service: bool | None = None  # others' traffic is on it now; None: nobody said
    services: tuple[Service, ...] = ()  # contracted on it; none: the line itself at its CIR
    encapsulation: tuple[str, ...] = ()  # what the line wraps packets in: names of `stats.overhead`
    segments: tuple[LineSegment, ...] = ()  # that it is made of, from the near end on; none: nobody said
    fibre_km: float | None = None  # length of its fibre: no direction is shorter

    def contracted_bps(self, direction: Direction) -> int | None:
        """The contracted rate of one direction; the reverse is as the forward one unless given."""
        if direction is Direction.REVERSE and self.cir_reverse_bps is not None:
            return self.cir_reverse_bps
        return self.cir_bps


@dataclass(frozen=True, slots=True)
class Objective:
    """One red line. `limit` is in the metric's base unit (ns, bit/s, ratio); None: depends on a fact of the line not given."""

    metric: str  # a key of metrics.METRICS
    statistic: str  # "ratio", "p50", "p99", "p99.9", "p10", "mean", "min", "max"
    direction: Direction
    limit: float | None
    relation: Relation = Relation.AT_MOST
    confidence: float = 0.95
    required: bool = True
    source: str = ""  # where the limit comes from: a clause, a contract, a stated reasoning
    limit_text: str = ""  # as written in the profile: "1e-5", "rtt_budget", "95 % of goodput"
    assumed_burst: float = 1.0  # mean size of a loss event assumed until five events were seen

    @property
    def key(self) -> str:
        """Unique inside a profile: "loss_ratio/forward/ratio"."""
        return f"{self.metric}/{self.direction}/{self.statistic}"


@dataclass(frozen=True, slots=True)
class Profile:
    """A yardstick: objectives and how each probe is to measure. `probes` maps a probe's name to its settings."""

    name: str
    title: str
    purpose: str
    objectives: tuple[Objective, ...]
    probes: dict[str, dict[str, Json]]
    file: str = ""  # where it was read
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One thing a probe is asked to do."""

    key: str  # unique in the plan: "stamp", "ping", "throughput/forward/8", "path"
    probe: str  # a name in probes.PROBES
    params: dict[str, Json] = field(default_factory=dict)
    direction: Direction = Direction.ROUND_TRIP
    packets: int | None = None  # at most
    duration_ns: int = 0  # at most
    expected_ns: int = 0  # on a good line
    offered_bps: int = 0  # at the IP layer, per loaded direction
    total_bytes: int = 0  # at most, both directions
    why: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be sent, for how long and why. Reasons are sentences for people."""

    profile: str
    steps: tuple[Step, ...]
    objectives: tuple[Objective, ...]  # limits resolved against the link
    link: Link
    reasons: tuple[str, ...] = ()

    @property
    def total_ns(self) -> int:
        """At most."""
        return sum(step.duration_ns for step in self.steps)

    @property
    def expected_ns(self) -> int:
        """On a good line."""
        return sum(step.expected_ns for step in self.steps)

    @property
    def total_bytes(self) -> int:
        """At most, both directions together."""
        return sum(step.total_bytes for step in self.steps)


FACTS = (
    *("marking", "path_mtu", "mtu_black_hole"),
    *("path_symmetry", "delay_symmetry"),  # proven, or bounds of the clocks
    "member_loss",  # its own test errs once in a thousand
)  # metrics that take no share of the error


def family_size(objectives: Iterable[Objective]) -> int:
    """Red lines judged together, at least 1: the required ones with a limit. They share the error of a FAIL (Bonferroni).

    Markings and sizes take no share: a changed packet, or one that arrived, is a fact and never a wrong FAIL by chance.
    """
    return max(1, sum(one.required and one.limit is not None and one.metric not in FACTS for one in objectives))
