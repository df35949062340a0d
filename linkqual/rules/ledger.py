"""Where the lost packets went: every one of them has one address, or stands as unattributed with the reason.

A host is proven guilty by its own words only: both sockets of a session hear nobody but the other end, so what they dropped was
this session's. Counters that also count others' packets, bursts of the sender's own making, and ends that left without their
counters are doubt: they acquit the line of so many losses and convict nobody. What is left is the line's.
Recomputed from the stored measurement alone. Floor 2, pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from linkqual.model import Conditions, Direction, EndConditions, Fault, Measurement, Pacing, Summary
from linkqual.rules import hosts
from linkqual.stats.pacing import longest
from linkqual.units import format_count

FORWARD, REVERSE, ROUND_TRIP = Direction.FORWARD, Direction.REVERSE, Direction.ROUND_TRIP
_ROOM = (
    "give that socket room (root gets what it asks for; others up to net.core.rmem_max), keep other work off that host, "
    "or measure at a lower rate"
)
_QUIET = (
    "measure again where the hosts drop nothing (see the note on host drops): a lower rate, larger buffers or rings"
)
_STEADY = "measure again from a host that keeps its schedule (quieter, or as root with real-time priority), or at a lower rate"
_QUEUE = "give the far host's send queue room (net.core.wmem_max, a longer qdisc), or measure at a lower rate"
_CAPS = "start the agent with higher caps (--max-pps, --max-bytes), or measure at a lower rate"
_RUN = "keep other work off the far host, or measure with a longer timeout"
_AGAIN = "measure again with both ends alive to the end: their counters settle who lost what"
_GONE = ("peer-lost", "silent")  # faults after which the far end can't be asked
_OTHERS = (
    "foreign",
    "malformed",
    "wrong_ssid",
    "wrong_key",
    "replayed",
    "duplicates",
    "unknown",
    "late",
    "late_copies",
)
_BOTH_WAYS = "measure with our agent at the far end: it tells which packets reached it"


class Address(StrEnum):
    """Where a lost packet was lost."""

    LINE_FORWARD = "line, forward"
    LINE_REVERSE = "line, reverse"
    NEAR_HOST = "near host"
    FAR_HOST = "far host"
    UNATTRIBUTED = "not attributed"


@dataclass(frozen=True, slots=True)
class Entry:
    """So many packets, where, and how that is known. `holds`: the directions in which they are certainly the line's loss.

    `remedy`: what would settle it or mend it, "" for losses of the line.
    """

    address: Address
    packets: int
    because: str
    remedy: str = ""
    holds: tuple[Direction, ...] = ()
    way: Direction | None = None  # None: not known


@dataclass(slots=True)
class _Account:
    """Losses still without an address, and the entries made so far."""

    way: Direction | None
    left: int
    entries: list[Entry] = field(default_factory=list)

    def book(self, address: Address, packets: int, because: str, remedy: str = "", *holds: Direction) -> int:
        """At most what is left; returns how many that was."""
        packets = max(min(packets, self.left), 0)
        if packets:
            self.left -= packets
            self.entries.append(Entry(address, packets, because, remedy, holds, self.way))
        return packets


def ledger(measurement: Measurement) -> tuple[Entry, ...]:
    """The entries of a stamp measurement, those without packets left out; together they are `sent - received` packets."""
    if measurement.stamp is None:
        return ()
    summary, state, fault = measurement.stamp.summary, measurement.conditions, measurement.fault
    there, back, unknown = (
        _Account(FORWARD, summary.lost_forward), _Account(REVERSE, summary.lost_reverse), _Account(None, summary.lost)
    )  # fmt: skip
    _kept_waiting((back, there, unknown), state)
    _forward(there, unknown, summary, state, fault)
    _reverse(back, unknown, summary, state, fault)
    _unknown(unknown, summary, state, fault)
    if measurement.stamp.far_end != "agent":
        _foreign(there, back, unknown)
    _close(there, back, unknown)
    return (*there.entries, *back.entries, *unknown.entries)


def doubts(measurement: Measurement, direction: Direction) -> list[Entry]:
    """The entries whose losses count in this direction and are not certainly the line's."""
    return [
        entry
        for entry in ledger(measurement)
        if direction not in entry.holds and (entry.way in (direction, None) or direction is ROUND_TRIP)
    ]


# ---- one way after the other


def _kept_waiting(accounts: Sequence[_Account], state: Conditions) -> None:
    """Replies that came too late only because the far end had not run: when asked, it may not have read the packet yet."""
    held = state.near.counters.get("held", 0)
    why = "the far end kept them waiting beyond the timeout: it did not get to run"
    for account in accounts:
        held -= account.book(Address.FAR_HOST, held, why, _RUN)


def _forward(there: _Account, unknown: _Account, summary: Summary, state: Conditions, fault: Fault | None) -> None:
    near, far = state.near, state.far
    _own_socket((there, unknown), far, "far", summary.duplicates_forward)
    _shared(there, (hosts.sent_drops(near), "near"), (hosts.received_drops(far), "far"))
    early = far.drops.get("drops_before_peer", 0)
    why = "dropped by the far end's receive socket before it knew its peer: others' may be among them"
    there.book(Address.UNATTRIBUTED, early, why, _ROOM)
    _gone(there, far, fault)
    _bursts(there, summary.pacing, summary.pacing.lost_forward)


def _reverse(back: _Account, unknown: _Account, summary: Summary, state: Conditions, fault: Fault | None) -> None:
    near, far = state.near, state.far
    over = "reached the far end and were over the agent's caps"
    back.book(Address.FAR_HOST, far.counters.get("over_cap", 0), over, _CAPS)
    refused = "reached the far end, whose host refused to send the reply"
    back.book(Address.FAR_HOST, far.counters.get("unanswered", 0), refused, _QUEUE)
    _own_socket((back, unknown), near, "near", summary.duplicates_reverse)
    _shared(back, (hosts.sent_drops(far), "far"), (hosts.received_drops(near), "near"))
    _gone(back, far, fault)
    _bursts(back, summary.pacing, summary.pacing.lost_reverse)


def _unknown(unknown: _Account, summary: Summary, state: Conditions, fault: Fault | None) -> None:
    ends = ((state.near, "near"), (state.far, "far"))
    _shared(
        unknown, *((found(end), place) for end, place in ends for found in (hosts.sent_drops, hosts.received_drops))
    )
    _bursts(unknown, summary.pacing, summary.pacing.lost)
    if fault is not None and fault.kind in _GONE:
        why = f"nobody could be asked how far they came ({fault.message}): from here line and far host look the same"
        unknown.book(Address.UNATTRIBUTED, unknown.left, why, _AGAIN)


def _foreign(there: _Account, back: _Account, unknown: _Account) -> None:
    """A reflector that is not ours: what its host dropped, before it counted a packet or after, is told by nobody."""
    why = "not answered by a reflector that is not ours: its host does not tell what it dropped itself"
    for account in (there, unknown):
        account.book(Address.UNATTRIBUTED, account.left, why, _BOTH_WAYS)
    why = "numbered by a reflector that is not ours and never here: its host does not tell what its own queues dropped"
    back.book(Address.UNATTRIBUTED, back.left, why, _BOTH_WAYS)


def _close(there: _Account, back: _Account, unknown: _Account) -> None:
    """What nobody else answers for is the line's."""
    there.book(Address.LINE_FORWARD, there.left, "never reached the far host", "", FORWARD, ROUND_TRIP)
    why = "answered by the far end, never reached the near host"
    back.book(Address.LINE_REVERSE, back.left, why, "", REVERSE, ROUND_TRIP)
    why = "lost by the line, in a direction nobody could tell"
    unknown.book(Address.UNATTRIBUTED, unknown.left, why, _BOTH_WAYS, ROUND_TRIP)


# ---- what is booked to whom


def _own_socket(accounts: Sequence[_Account], end: EndConditions, place: str, copies: int) -> None:
    """The drops of the probe's own socket at this end, unless more than lost packets were among them."""
    surely, perhaps = hosts.own_socket_drops(end)
    dropped, lost = surely + perhaps, sum(account.left for account in accounts)
    others = copies + sum(end.counters.get(name, 0) for name in _OTHERS)
    if dropped > lost or others:
        surely, perhaps = 0, dropped
        doubtful = f"the {place} end's receive socket dropped {format_count(dropped)} packets, with copies or others' among them"
    else:
        doubtful = f"dropped by the {place} end's receive socket, for want of room or because they came damaged"
    certain = f"dropped by the {place} end's receive socket, which had no room ({hosts.OWN})"
    host = Address.NEAR_HOST if place == "near" else Address.FAR_HOST
    for account in accounts:
        surely -= account.book(host, surely, certain, _ROOM)
    for account in accounts:
        perhaps -= account.book(Address.UNATTRIBUTED, perhaps, doubtful, _ROOM)


def _shared(account: _Account, *parts: tuple[hosts.Counters, str]) -> None:
    """Drops that the hosts' counters tell of, of whatever traffic."""
    which = ", ".join(hosts.words(counters, place) for counters, place in parts if counters)
    count = sum(sum(counters.values()) for counters, _ in parts)
    account.book(Address.UNATTRIBUTED, count, f"may have been dropped inside a host ({which})", _QUIET)


def _gone(account: _Account, far: EndConditions, fault: Fault | None) -> None:
    """An end that left before its process or its host had told their counters."""
    if fault is not None and fault.kind in _GONE and not (far.counters and hosts.told(far)):
        why = "the far end left without its counters: what its host dropped is not known"
        account.book(Address.UNATTRIBUTED, account.left, why, _AGAIN)


def _bursts(account: _Account, pacing: Pacing, lost: int) -> None:
    why = (
        f"left in bursts of more than {format_count(pacing.most)} packets, made by the sender catching up "
        f"(the longest: {format_count(longest(pacing).packets)})"
    )
    account.book(Address.UNATTRIBUTED, lost, why, _STEADY)
