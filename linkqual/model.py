"""The central types: what is asked, what was measured, what follows from it. Frozen, slotted, no behaviour beyond arithmetic.

Units are in the names: `_ns` integer nanoseconds, `_bps` bits per second, `_bytes` bytes; instants are UTC nanoseconds of the
end that stamped them. `None` means "did not happen" or "not known"; zero is a measured value. Floor 0, pure, standard library
only, so that `--help` never pays for numpy.
"""

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


# ---- what is asked


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


# ---- what was measured


@dataclass(frozen=True, slots=True)
class Histogram:
    """A mergeable histogram in sparse form; `stats.histogram` gives the indices their meaning."""

    n: int = 0
    minimum: int | None = None
    maximum: int | None = None
    total: int = 0  # exact sum of the values
    indices: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()
    width: int = 0  # 0: log-linear buckets; else: even buckets of this width, a power of two
    origin: int = 0  # value at index 0


@dataclass(frozen=True, slots=True)
class Tally:
    """A sequence of good and bad trials in order, reduced so that two halves merge to what the whole gives.

    Events are clusters of bad trials with fewer than `gap` good ones between two of them. `head` and `tail` are what a
    merge has to know of the edges: good trials before the first and after the last bad one. The first and the last event
    are kept apart from `sizes` (size -> count of the events between them) since a neighbour may still extend them.
    """

    n: int = 0
    bad: int = 0
    gap: int = 1
    head: int = 0
    tail: int = 0
    first: int = 0  # size of the first event; 0: no bad trial
    last: int = 0  # size of the last event; 0: fewer than two events
    sizes: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class LossEvent:
    """Packets lost together: a run, or a cluster closer than the stated gap."""

    direction: Direction | None
    start_ns: int  # when its first packet left
    duration_ns: int
    first_seq: int
    packets: int
    last_seq: int = -1


@dataclass(frozen=True, slots=True)
class Slice:
    """One interval of the run, for pictures: counts and delays of the packets sent in it (ns; None without data)."""

    start_ns: int
    sent: int
    lost_forward: int
    lost_reverse: int
    lost: int  # direction unknown
    rtt_min_ns: int | None = None
    rtt_p50_ns: int | None = None
    rtt_p99_ns: int | None = None
    rtt_max_ns: int | None = None
    forward_pdv_p99_ns: int | None = None
    reverse_pdv_p99_ns: int | None = None
    forward_min_ns: int | None = None  # smallest T2 - T1, clock offset included
    reverse_min_ns: int | None = None  # smallest T4 - T3


@dataclass(frozen=True, slots=True)
class Edge:
    """What the merge of two summaries has to know of one direction of a stream at its two ends.

    Delays are None where the packet has none. `head` and `tail`: the first and the last arrivals as (order sent, order
    arrived, 1 if reordered); packets that crossed the cut are found among them.
    """

    first_sent_ns: int | None = None  # delay of the first packet sent
    last_sent_ns: int | None = None
    first_arrived_ns: int | None = None  # delay of the first packet to arrive
    last_arrived_ns: int | None = None
    head: tuple[tuple[int, int, int], ...] = ()
    tail: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Burst:
    """Packets a sender that was behind let go one after the other (`stats.pacing`): how many, when, how many of them were lost."""

    packets: int = 0
    start_ns: int = 0  # departure of the first
    end_ns: int = 0  # departure of the last
    lost_forward: int = 0
    lost_reverse: int = 0
    lost: int = 0  # direction unknown


@dataclass(frozen=True, slots=True)
class Pacing:
    """How packets really left, against their schedule. Empty where nothing was scheduled (closed loop).

    `first` and `last` are what a merge has to know of the two ends: a burst there may go on in the neighbour.
    """

    interval_ns: float = 0.0  # mean of the schedule
    most: int = 0  # packets of a burst that is still taken for the schedule's own
    late: Histogram = field(default_factory=Histogram)  # departure (T1) after the intended instant
    gaps: Histogram = field(default_factory=Histogram)  # between the departures of neighbours
    bursts: int = 0  # of any size, single packets too
    longest: Burst = field(default_factory=Burst)  # of those between `first` and `last`
    beyond: int = 0  # bursts of more than `most` packets
    lost_forward: int = 0  # packets lost of those in bursts beyond
    lost_reverse: int = 0
    lost: int = 0
    first: Burst = field(default_factory=Burst)
    last: Burst = field(default_factory=Burst)
    first_intended_ns: int | None = None


@dataclass(frozen=True, slots=True)
class ClockStep:
    """A clock was set (`stats.clock_steps`): forward delays moved by `step_ns`, reverse ones by as much the other way, round trips not.

    What was sent after `last_before` and before `first_after` (sequence numbers) was sent or in flight while it happened. Offsets are
    of the far clock against the near one, from the smallest delays beside the step, each to within half of its round trip.
    """

    last_before: int
    first_after: int
    before_ns: int  # when those two left, by the near end's clock
    after_ns: int
    offset_before_ns: int
    offset_after_ns: int
    round_trip_before_ns: int
    round_trip_after_ns: int

    @property
    def step_ns(self) -> int:
        """Of the far clock against the near one."""
        return self.offset_after_ns - self.offset_before_ns


@dataclass(frozen=True, slots=True)
class Segment:
    """One-way delays of the packets between two steps of a clock, clock offset included."""

    start_ns: int | None = None  # its first packet left
    forward_delay: Histogram = field(default_factory=Histogram)
    reverse_delay: Histogram = field(default_factory=Histogram)


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts and distributions of one packet stream. Integer counts are primary; summaries of two halves merge exactly."""

    sent: int = 0
    unsent: int = 0  # planned, never left the host: not lost
    received: int = 0  # replies to distinct packets
    lost_forward: int = 0
    lost_reverse: int = 0
    lost: int = 0  # direction unknown
    duplicates_forward: int = 0
    duplicates_reverse: int = 0
    reordered_forward: int = 0
    reordered_reverse: int = 0
    late: int = 0  # replies after the timeout: counted as lost, and here
    unstamped: int = 0  # received, but left out of the delays: a stamp of user space among kernel stamps
    first_sent_ns: int | None = None
    last_sent_ns: int | None = None
    round_trip_delay: Histogram = field(default_factory=Histogram)
    forward_delay: Histogram = field(default_factory=Histogram)  # T2 - T1: includes the clock offset
    reverse_delay: Histogram = field(default_factory=Histogram)  # T4 - T3: includes minus the clock offset
    residence: Histogram = field(default_factory=Histogram)  # T3 - T2, inside the far end
    variation: dict[str, Histogram] = field(
        default_factory=dict
    )  # by direction: the same delays in even buckets, fine enough for PDV on top of a long delay or a clock offset
    ipdv: dict[str, Histogram] = field(
        default_factory=dict
    )  # by direction: |D(i) - D(i-1)| of consecutive sent packets
    jitter_rfc3550_ns: dict[str, float] = field(default_factory=dict)  # by direction, last value of J
    loss: dict[str, Tally] = field(default_factory=dict)  # by direction
    over: dict[str, Tally] = field(default_factory=dict)  # by objective key: trials beyond that objective's limit
    loss_events: tuple[LossEvent, ...] = ()  # the first MAX_EVENTS
    slices: tuple[Slice, ...] = ()
    slice_ns: int = 0  # length of each slice
    edges: dict[str, Edge] = field(default_factory=dict)  # by direction
    clock_pace: float = (
        0.0  # of the far clock against the near one, taken out of the one-way `variation`, `over` and slices
    )
    clock_steps: tuple[ClockStep, ...] = ()  # found; with `segments`: one-way results are cut there
    segments: tuple[Segment, ...] = ()  # one more than steps, where the packets were counted a second time
    crossed: int = 0  # in flight over a step: received, no round trip known
    forward_hops: dict[str, int] = field(default_factory=dict)  # received TTL (as text) -> packets
    reverse_hops: dict[str, int] = field(default_factory=dict)
    pacing: Pacing = field(default_factory=Pacing)


@dataclass(frozen=True, slots=True)
class ClockState:
    """What one end knows of its clock. `error_ns`: bound of its offset to UTC, None: unknown."""

    source: str = "unknown"  # chrony, systemd-timesyncd, ptp4l, kernel, none, unknown
    synchronised: bool = False
    error_ns: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class HostFloor:
    """What a host adds to a round trip all by itself: probes between two processes of it, over its loopback (`calibration`)."""

    n: int = 0
    rtt_p50_ns: int | None = None
    rtt_p99_ns: int | None = None
    rtt_max_ns: int | None = None
    rate_pps: float = 0.0
    stamps: str = ""  # where T1 of these probes came from, as in `EndConditions.stamps`
    why_not: str = ""  # not measured


@dataclass(frozen=True, slots=True)
class EndConditions:
    """One end of the measurement: who, with what, and what its host dropped by itself."""

    host: str = ""
    platform: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    clock: ClockState = field(default_factory=ClockState)
    stamps: dict[str, str] = field(default_factory=dict)  # "T1" -> "kernel", "user", "hardware", or shares of them
    receive_buffer_bytes: int | None = None
    drops: dict[str, int] = field(default_factory=dict)  # counter -> increase during the step
    notes: tuple[str, ...] = ()
    counters: dict[str, int] = field(default_factory=dict)  # of the probe's own process: packets by what became of them
    drop_times: tuple[
        tuple[int, str, int], ...
    ] = ()  # when `drops` rose: (read at, UTC of that end; counter; increase)
    clock_before: ClockState | None = None  # before the step; `clock` is after it
    clock_stepped_ns: int | None = None  # by which its clock was set during the step; None: not told
    floor: HostFloor | None = None  # None: not asked for


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under which conditions a number was taken."""

    near: EndConditions = field(default_factory=EndConditions)
    far: EndConditions = field(default_factory=EndConditions)
    clock_error_ns: int | None = (
        None  # bound of the offset between both clocks; None: not known, one-way delay not absolute
    )
    same_clock: bool = False  # both ends on one host: the offset is zero by construction


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a step could not be measured (or not to its end). The other steps go on."""

    kind: str  # "unreachable", "refused", "missing-program", "no-capability", "interrupted", "peer-lost", "host-overload", ...
    message: str
    hint: str = ""


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
class ThroughputResult:
    """One direction, one number of streams; goodput of each whole second seen by the receiver, warm-up left out."""

    streams: int
    receiver_bps: tuple[float, ...]  # per second
    warmup_bps: tuple[float, ...] = ()
    sent_bytes: int | None = None  # warm-up included; None: that end's own count is missing
    received_bytes: int | None = None
    retransmits: int | None = None
    congestion_control: str = ""
    mss: int | None = None
    rtt_min_ns: int | None = None
    rtt_mean_ns: int | None = None
    allowed_bps: float | None = None  # goodput the headers allow at the contracted rate
    version: str = ""
    cpu_near: float | None = None  # 0..1 of one core, iperf3's own figure
    cpu_far: float | None = None
    decisions: tuple[Decision, ...] = ()
    stopped_by: str = ""


@dataclass(frozen=True, slots=True)
class Hop:
    """One TTL of a trace. `address` None: silent."""

    ttl: int
    address: str | None = None
    rtt_ns: tuple[int, ...] = ()
    sent: int = 0
    received: int = 0
    labels: tuple[str, ...] = ()  # MPLS, RFC 4950: "label=24001 tc=0 s=1 ttl=1"
    reply_ttl: int | None = None
    quoted_ttl: int | None = None
    reached: bool = False  # this hop is the far end
    others: tuple[str, ...] = ()  # further addresses that answered at this TTL
    egress: str | None = None  # the address it sent the probes onward from (Record Route, RFC 791 s3.1); None: not told
    quoted_tos: int | None = None  # TOS / Traffic Class of the probe as its ICMP error quotes it; None: not told


@dataclass(frozen=True, slots=True)
class Trace:
    """Hops in the order a packet of this direction meets them."""

    source: str
    destination: str
    source_port: int
    destination_port: int
    hops: tuple[Hop, ...] = ()
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class PathResult:
    """Both traces of one flow and what comparing them says."""

    forward: Trace
    reverse: Trace
    symmetry: str = "undetermined"  # symmetric | asymmetric | undetermined
    because: str = ""
    pairs: tuple[tuple[int | None, int | None], ...] = ()  # aligned TTLs (forward, reverse), client side first


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


@dataclass(frozen=True, slots=True)
class Measurement:
    """What came of one step. Exactly one result, or a fault, or both (cut short)."""

    step: Step
    started_ns: int
    elapsed_ns: int
    stamp: StampResult | None = None
    ping: PingResult | None = None
    throughput: ThroughputResult | None = None
    path: PathResult | None = None
    marking: MarkingResult | None = None
    conditions: Conditions = field(default_factory=Conditions)
    fault: Fault | None = None


# ---- what follows


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number as every report prints it."""

    value: float | None
    low: float | None
    high: float | None
    confidence: float
    n: int
    unit: str  # "ns", "bit/s", "ratio", "ns" ...
    method: str


@dataclass(frozen=True, slots=True)
class Finding:
    """An objective, what was found, and why it means what it means."""

    objective: Objective
    outcome: Outcome
    because: str  # one sentence with numbers
    estimate: Estimate | None = None
    decide: str = ""  # what would decide it (INCONCLUSIVE, NO DATA)
    rule: Rule = Rule.NONE
    step: str = ""  # key of the step it comes from


@dataclass(frozen=True, slots=True)
class Note:
    """Something a reader should know that is no red line: an asymmetry, a host limit, a cross-check that differs."""

    kind: str  # "path", "ping", "host", "clock", "asymmetry", "throughput", "loss", "marking", "simulated"
    sentence: str
    weight: str = "info"  # info | warn


@dataclass(frozen=True, slots=True)
class Verdict:
    """The worst required finding wins."""

    outcome: Outcome
    findings: tuple[Finding, ...]
    notes: tuple[Note, ...] = ()
    family: str = ""  # how errors were controlled over all red lines together


@dataclass(frozen=True, slots=True)
class Qualification:
    """The one document. Everything a report shows is in it or recomputed from the run folder beside it."""

    schema: int
    linkqual_version: str
    run: str  # name of the run
    started_ns: int
    ended_ns: int
    profile: Profile
    plan: Plan
    peer: str  # as the user gave it, or "embedded line clean"
    measurements: tuple[Measurement, ...]
    verdict: Verdict | None = None
    embedded_line: str | None = None  # name of the virtual line; None: a real peer
    simulated: bool = False  # made in memory under a fake clock
    interrupted: str = ""  # why the run ended early
    zone: str = "UTC"  # IANA zone in which times are shown beside UTC
    truth: dict[str, Json] = field(default_factory=dict)  # of a virtual line: its own counters


SEVERITY = (Outcome.NOT_JUDGED, Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.NO_DATA, Outcome.FAIL)


def family_size(objectives: Iterable[Objective]) -> int:
    """Red lines judged together, at least 1: the required ones with a limit. They share the error of a FAIL (Bonferroni).

    Markings take no share: one changed packet is a fact, and never a wrong FAIL by chance.
    """
    return max(1, sum(one.required and one.limit is not None and one.metric != "marking" for one in objectives))


def worst(outcomes: list[Outcome]) -> Outcome:
    """The outcome that decides; NO DATA when nothing was judged at all."""
    judged = [outcome for outcome in outcomes if outcome is not Outcome.NOT_JUDGED]
    return max(judged, key=SEVERITY.index) if judged else Outcome.NO_DATA
