"""What the probes of delay, loss and marking measured. Floor 0."""

from __future__ import annotations

from dataclasses import dataclass, field

from linkqual.model.asking import Direction, Outcome
from linkqual.model.packets import Histogram, Summary
from linkqual.model.path import Trace


@dataclass(frozen=True, slots=True)
class Decision:
    """What the sequential test said of one objective while packets arrived."""

    objective: str  # Objective.key
    outcome: Outcome  # PASS, FAIL, or INCONCLUSIVE at the cap
    n: int  # trials when it was decided (or at the end)
    bad: int
    events: int
    burst: float  # bound of the mean event size that was used
    because: str = ""
    limit: float | None = None  # the Objective.limit it was made for; judged again by the exact bound for any other
    confidence: float = 0.95
    family: int = 1  # red lines that shared the error of a FAIL


@dataclass(frozen=True, slots=True)
class StampResult:
    """What the stamp probe measured."""

    summary: Summary
    rate_pps: float  # as sent
    packet_bytes: int  # UDP payload; the largest of a mix
    timeout_ns: int
    schedule: str = "periodic"
    dscp: int = 0
    lateness: Histogram = field(default_factory=Histogram)  # departure against schedule, ns
    blocked_ns: int = 0  # sending stood still for want of replies: as many packets were in flight as may be
    decisions: tuple[Decision, ...] = ()
    stopped_by: str = ""  # "decided", "cap", "interrupted", "peer-lost", "host", "fixed length"
    family: int = 1  # red lines in the family (Bonferroni on the FAIL side)
    mix: tuple[tuple[int, int], ...] = ()  # (packet_bytes, weight) of packets of several sizes
    far_end: str = "agent"  # or of a reflector that is not ours: "stateful", "stateless", "restarted" (its counter), "unknown" (it never answered)


@dataclass(frozen=True, slots=True)
class PingResult:
    """ICMP echo, a cross-check: counts and the delays seen by ping (ns)."""

    sent: int
    received: int
    duplicates: int = 0
    errors: int = 0
    corrupted: int = 0
    unanswered: tuple[int, ...] = ()  # icmp_seq
    rtt_ns: tuple[int, ...] = ()
    rtt_min_ns: int | None = None
    rtt_avg_ns: int | None = None
    rtt_max_ns: int | None = None
    rtt_mdev_ns: int | None = None


@dataclass(frozen=True, slots=True)
class MarkingRow:
    """Packets that left one end with one marking, and the markings they arrived with at the other. DSCP and ECN as numbers.

    `sent` = `lost` + `unseen` + `unmarked` + the packets of `arrived`.
    """

    direction: Direction
    dscp: int
    ecn: int
    sent: int
    lost: int = 0  # on this way
    unseen: int = 0  # nobody knows how they arrived: forward, their replies are missing
    unmarked: int = 0  # that end's host did not mark them as asked: they tell nothing of the line
    arrived: tuple[tuple[int, int, int], ...] = ()  # (dscp, ecn, packets)


@dataclass(frozen=True, slots=True)
class MarkingTrace:
    """A trace whose probes carried a marking that does not arrive: its hops quote what they saw of it."""

    direction: Direction
    dscp: int
    ecn: int
    trace: Trace


@dataclass(frozen=True, slots=True)
class MarkingResult:
    """Which markings arrive, in each direction."""

    rows: tuple[MarkingRow, ...]
    packet_bytes: int  # UDP payload
    timeout_ns: int
    traces: tuple[MarkingTrace, ...] = ()  # at most one a direction
