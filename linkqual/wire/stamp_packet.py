"""One STAMP test packet, either way, in both modes (RFC 8762 s4.2, s4.3): what a capture, a test or a foreign peer needs.

`stamp` draws the formats and has them as columns. Floor 1, pure.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from linkqual.errors import WireError
from linkqual.wire import timestamp
from linkqual.wire.stamp import SENDER, Mode
from linkqual.wire.timestamp import DEFAULT_NEAR_NS, ErrorEstimate

REFLECTOR = {
    Mode.UNAUTHENTICATED: struct.Struct("!IQHHQIQH2xB3x"),
    Mode.AUTHENTICATED: struct.Struct("!I12xQHH4xQ8xI12xQH6xB31x"),
}


@dataclass(frozen=True, slots=True)
class SenderPacket:
    """What a Session-Sender sends. `tail`: the octets after the base packet (TLVs)."""

    sequence: int
    timestamp_ns: int  # T1
    error: ErrorEstimate
    ssid: int = 0
    tail: bytes = b""

    def encode(self, mode: Mode = Mode.UNAUTHENTICATED) -> bytes:
        """At least the mode's base packet; in authenticated mode its HMAC is zero, `stamp_auth` fills it."""
        t1 = timestamp.encode(self.timestamp_ns, self.error.form)
        return SENDER[mode].pack(self.sequence, t1, self.error.to_wire(), self.ssid) + self.tail

    @classmethod
    def decode(cls, data: bytes, near_ns: int = DEFAULT_NEAR_NS, mode: Mode = Mode.UNAUTHENTICATED) -> SenderPacket:
        """Raises WireError when it is too short, or its Error Estimate or a PTP timestamp is not valid. Verifies no HMAC."""
        _check_length(data, "Session-Sender", mode)
        sequence, t1, error, ssid = SENDER[mode].unpack_from(data)
        estimate = ErrorEstimate.from_wire(error)
        return cls(sequence, timestamp.decode(t1, estimate.form, near_ns), estimate, ssid, data[mode:])


@dataclass(frozen=True, slots=True)
class ReflectorPacket:
    """What a Session-Reflector answers. `error` covers T2 and T3, `sender_error` is the request's and covers T1."""

    sequence: int
    timestamp_ns: int  # T3
    error: ErrorEstimate
    ssid: int
    receive_ns: int  # T2
    sender_sequence: int
    sender_timestamp_ns: int  # T1
    sender_error: ErrorEstimate
    sender_ttl: int  # TTL or Hop Limit of the request as it arrived
    tail: bytes = b""

    def encode(self, mode: Mode = Mode.UNAUTHENTICATED) -> bytes:
        """At least the mode's base packet; in authenticated mode its HMAC is zero, `stamp_auth` fills it."""
        form = self.error.form
        base = REFLECTOR[mode].pack(
            self.sequence,
            timestamp.encode(self.timestamp_ns, form),
            self.error.to_wire(),
            self.ssid,
            timestamp.encode(self.receive_ns, form),
            self.sender_sequence,
            timestamp.encode(self.sender_timestamp_ns, self.sender_error.form),
            self.sender_error.to_wire(),
            self.sender_ttl,
        )
        return base + self.tail

    @classmethod
    def decode(cls, data: bytes, near_ns: int = DEFAULT_NEAR_NS, mode: Mode = Mode.UNAUTHENTICATED) -> ReflectorPacket:
        """Raises WireError when it is too short, or an Error Estimate or a PTP timestamp is not valid. Verifies no HMAC."""
        _check_length(data, "Session-Reflector", mode)
        sequence, t3, error, ssid, t2, sender_sequence, t1, sender_error, ttl = REFLECTOR[mode].unpack_from(data)
        ours, theirs = ErrorEstimate.from_wire(error), ErrorEstimate.from_wire(sender_error)
        return cls(
            sequence=sequence,
            timestamp_ns=timestamp.decode(t3, ours.form, near_ns),
            error=ours,
            ssid=ssid,
            receive_ns=timestamp.decode(t2, ours.form, near_ns),
            sender_sequence=sender_sequence,
            sender_timestamp_ns=timestamp.decode(t1, theirs.form, near_ns),
            sender_error=theirs,
            sender_ttl=ttl,
            tail=data[mode:],
        )


def _check_length(data: bytes, kind: str, mode: Mode) -> None:
    if len(data) < mode:
        raise WireError(f"{len(data)} octets are no {mode.name.lower()} {kind} packet: it has at least {int(mode)}")
