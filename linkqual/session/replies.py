"""Replies of one batch in columns: which may be used at all, and what their fields say. Floor 2, pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from linkqual.records import ABSENT
from linkqual.wire import stamp
from linkqual.wire.stamp import Mode
from linkqual.wire.timestamp import ns_column

_SHORTEST = 41  # of TWAMP (RFC 5357 s4.2.1): the same fields at the same places, all of them MBZ from there on
_INSTANTS = ("receive_timestamp", "timestamp", "follow_up_timestamp")

Longs = npt.NDArray[np.int64]
Octets = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Replies:
    """Row by row."""

    packets: Octets
    rows: stamp.Rows  # a view of them
    arrived_ns: Longs  # T4; the program's own where the kernel gave none
    unstamped: Mask  # where it gave none
    ttl: Octets
    tos: Octets
    hardware_ns: Longs | None
    trusted: Mask | None  # whose TLVs are signed; None: nothing is signed here

    def pick(self, which: Mask) -> Replies:
        """Some of them."""
        return Replies(
            self.packets[which],
            self.rows[which],
            self.arrived_ns[which],
            self.unstamped[which],
            self.ttl[which],
            self.tos[which],
            None if self.hardware_ns is None else self.hardware_ns[which],
            None if self.trusted is None else self.trusted[which],
        )

    def instants(self) -> Longs:
        """T2, T3 and the Follow-Up's in UTC ns, shape (3, n) or (2, n): decoded in one go, numpy's cost is by the call."""
        fields = _INSTANTS if "follow_up" in (self.rows.dtype.names or ()) else _INSTANTS[:2]
        wire = np.empty((len(fields), len(self.rows)), np.uint64)
        for row, field in enumerate(fields):
            wire[row] = self.rows[field]
        return ns_column(wire, self.rows["error"])

    def line_ns(self) -> Longs:
        """T4 - T1 - (T3 - T2) by what each packet says itself: how long it was under way without its stay at the far end."""
        received, answered = self.instants()[:2]
        sent = ns_column(self.rows["sender_timestamp"].astype(np.uint64), self.rows["sender_error"])
        line: Longs = self.arrived_ns - sent - (answered - received)
        return line

    def follow_ups(self) -> Mask:
        """Which tell when an earlier reply really left."""
        told = stamp.has_follow_up(self.rows)
        return told if self.trusted is None else told & self.trusted


def columns(
    packets: Octets, received_ns: Longs, ttl: Octets, tos: Octets, utc_ns: int, hardware_ns: Longs | None, mode: Mode
) -> Replies | None:
    """Packets of one length, shape (n, size), as replies; None: too short for that.

    `received_ns`: kernel RX stamps in UTC, `hardware_ns`: those of the NIC on its own clock, each ABSENT where there is none;
    `utc_ns`: when they were read.
    """
    if packets.shape[1] < mode:
        if packets.shape[1] < _SHORTEST or mode is Mode.AUTHENTICATED:
            return None
        packets = np.pad(packets, ((0, 0), (0, mode - packets.shape[1])))
    unstamped = received_ns == ABSENT
    arrived = np.where(unstamped, utc_ns, received_ns) if unstamped.any() else received_ns
    return Replies(packets, stamp.reflector_rows(packets, mode), arrived, unstamped, ttl, tos, hardware_ns, None)


def genuine(replies: Replies, key: bytes) -> Replies:
    """Those signed with the session's key; nothing of the others is looked at (RFC 8762 s4.4)."""
    from linkqual.wire import stamp_auth  # OpenSSL takes 3.5 MB of a process that signs nothing

    signed = replies.pick(stamp_auth.verified(replies.packets, key))
    if len(signed.packets):
        signed.trusted = stamp_auth.verified_tlvs(signed.packets, key)
    return signed
