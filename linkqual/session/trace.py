"""Which probes a trace sends next, and what its replies say: pure, the time is an argument.

All probes belong to one flow (source and destination port never change, Paris style), so every load balancer on the way
takes the same decision for all of them. TTLs are explored in small batches until the destination answers; then only hops
that kept quiet are asked again, no sooner than `round_gap_ns` after they were asked last: routers make about one ICMP
error a second. A hop that never answers stays silent (`address` None). Floor 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from linkqual.model import Fault, Hop


@dataclass(frozen=True, slots=True)
class TracePlan:
    """How a trace is run. Instants and spans in ns."""

    max_hops: int = 30
    rounds: int = 3
    batch: int = 8  # TTLs explored at once
    explore_wait_ns: int = 350_000_000  # before the next batch, when not all of this one have answered
    round_gap_ns: int = 1_050_000_000
    timeout_ns: int = 1_000_000_000  # for replies to the last probes


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe that was sent. Its number is its place in the order of sending and identifies its reply."""

    number: int
    ttl: int
    sent_ns: int


class Answer(Enum):
    """What a reply says of where its probe got to."""

    ON_THE_WAY = "a router on the way"
    ARRIVED = "the destination"
    STOPPED = "a router that lets it go no further"
    NO_WAY = "a router that knows no way on"


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back for one probe. `received_ns` is of the same clock as the probe's `sent_ns`."""

    number: int
    address: str
    received_ns: int
    answer: Answer = Answer.ON_THE_WAY
    labels: tuple[str, ...] = ()
    reply_ttl: int | None = None
    quoted_ttl: int | None = None
    by_target: bool = False  # the destination expects traces: no ICMP error
    recorded: tuple[str, ...] = ()  # Record Route, as the target got it
    quoted_tos: int | None = None


Replies = Mapping[int, Reply]  # by number: the first reply to each probe


@dataclass(frozen=True, slots=True)
class Next:
    """What to do: send these TTLs now, or wait for replies until `wait_until_ns`, or (both empty) stop."""

    ttls: tuple[int, ...] = ()
    wait_until_ns: int | None = None

    @property
    def done(self) -> bool:
        """Nothing more to send or to wait for."""
        return not self.ttls and self.wait_until_ns is None


def step(plan: TracePlan, sent: Sequence[Probe], replies: Replies, now_ns: int) -> Next:
    """Probes and replies so far in, what to do next out."""
    end = last_ttl(plan, sent, replies)
    explored = max((probe.ttl for probe in sent), default=0)
    answered = {probe.ttl for probe in sent if probe.number in replies}
    asked: dict[int, list[int]] = {}
    for probe in sent:
        if probe.ttl <= end and probe.ttl not in answered:
            asked.setdefault(probe.ttl, []).append(probe.sent_ns)
    latest = max((max(times) for times in asked.values()), default=None)
    if explored < end:
        if latest is not None and now_ns < latest + plan.explore_wait_ns:
            return Next(wait_until_ns=latest + plan.explore_wait_ns)
        return Next(ttls=tuple(range(explored + 1, min(explored + plan.batch, end) + 1)))
    if latest is None:
        return Next()
    again = tuple(sorted(ttl for ttl, times in asked.items() if len(times) < plan.rounds))
    until = latest + (plan.round_gap_ns if again else plan.timeout_ns)
    return Next(wait_until_ns=until) if now_ns < until else Next(ttls=again)


def last_ttl(plan: TracePlan, sent: Sequence[Probe], replies: Replies) -> int:
    """The smallest TTL at which the trace ended: the destination or a router that stops it; `max_hops` until then."""
    ends = (
        probe.ttl for probe in sent if probe.number in replies and replies[probe.number].answer is not Answer.ON_THE_WAY
    )
    return min(ends, default=plan.max_hops)


def hops(plan: TracePlan, sent: Sequence[Probe], replies: Replies) -> tuple[Hop, ...]:
    """One Hop for each TTL up to the end; of an endless row of silent hops at the end only the first is kept."""
    end = min(last_ttl(plan, sent, replies), max((probe.ttl for probe in sent), default=0))
    found = [_hop(ttl, sent, replies) for ttl in range(1, end + 1)]
    while len(found) > 1 and found[-1].address is None and found[-2].address is None:
        found.pop()
    refused = any(probe.ttl == end and _refused(replies.get(probe.number)) for probe in sent)
    if refused and len(found) > 1 and found[-1].address == found[-2].address:
        found.pop()  # the last router, which let the hop before pass and has no way on: no hop of its own
    return tuple(found)


def _refused(reply: Reply | None) -> bool:
    return reply is not None and reply.answer in (Answer.STOPPED, Answer.NO_WAY)


def with_egress(found: Sequence[Hop], recorded: Sequence[str], source: str, destination: str) -> tuple[Hop, ...]:
    """The hops of a whole trace with what Record Route held when it came to the end: which address each router sent it onward from.

    The hosts at both ends may have recorded themselves. Where there are fewer or more than one for each router, one of them keeps
    silent about itself, and the others cannot be told apart: then nothing is known.
    """
    told = list(recorded)
    if told and told[0] == source:
        del told[0]
    if told and told[-1] == destination:
        del told[-1]
    routers = [hop.ttl for hop in found if not hop.reached]
    known = dict(zip(routers, told, strict=True)) if len(told) == len(routers) else {}
    return tuple(replace(hop, egress=known.get(hop.ttl)) for hop in found)


def _hop(ttl: int, sent: Sequence[Probe], replies: Replies) -> Hop:
    probes = [probe for probe in sent if probe.ttl == ttl]
    heard = [(probe, replies[probe.number]) for probe in probes if probe.number in replies]
    if not heard:
        return Hop(ttl, sent=len(probes))
    ends = [reply for _, reply in heard if reply.answer is not Answer.ON_THE_WAY]
    chief = (ends or [reply for _, reply in heard])[0]
    rtts = [reply.received_ns - probe.sent_ns for probe, reply in heard]
    return Hop(
        ttl=ttl,
        address=chief.address,
        rtt_ns=tuple(rtt for rtt in rtts if rtt > 0),  # none where the wall clock was set meanwhile
        sent=len(probes),
        received=len(heard),
        labels=chief.labels,
        reply_ttl=chief.reply_ttl,
        quoted_ttl=chief.quoted_ttl,
        reached=chief.answer is Answer.ARRIVED,
        quoted_tos=chief.quoted_tos,
        others=tuple(dict.fromkeys(reply.address for _, reply in heard if reply.address != chief.address)),
    )


def fault(found: Sequence[Hop], destination: str, ended: Answer | None, max_hops: int) -> Fault | None:
    """Why a trace did not get to its destination; None when it did. `ended`: what the router said that ended it, if one did."""
    if found and found[-1].reached:
        return None
    seen = [hop for hop in found if hop.address is not None]
    if ended is Answer.STOPPED:
        return Fault(
            "refused",
            f"{seen[-1].address} at hop {seen[-1].ttl} lets the probes go no further",
            "allow UDP to the trace's port there, or give another destination port",
        )
    if ended is Answer.NO_WAY:
        return Fault(
            "unreachable",
            f"{seen[-1].address} at hop {seen[-1].ttl} knows no way on to {destination}",
            "check that host, and the routes from there",
        )
    if not seen:
        return Fault(
            "unreachable",
            f"no hop within {max_hops} answered on the way to {destination}",
            "check the route, and that ICMP errors reach this host",
        )
    return Fault(
        "unreachable",
        f"{destination} did not answer; the last hop seen is {seen[-1].address} at hop {seen[-1].ttl}",
        "open the trace's UDP port there, or let that host send ICMP port unreachable",
    )
