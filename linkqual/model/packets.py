"""What packets said, reduced so that two halves merge to the whole: histograms, tallies, events, pacing, summaries. Floor 0."""

from __future__ import annotations

from dataclasses import dataclass, field

from linkqual.model.asking import Direction


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
