"""STAMP test packets, unauthenticated (RFC 8762 s4.2.1, s4.3.1; SSID of RFC 8972 s3): one packet, and columns of packets.

Session-Sender, 44 octets                            Session-Reflector, 44 octets
     0               2               4                    0               2               4
     +---------------+---------------+                    +---------------+---------------+
   0 |        Sequence Number        |                  0 |        Sequence Number        | its own counter
     +-------------------------------+                    +-------------------------------+
   4 |        Timestamp (T1)         |                  4 |        Timestamp (T3)         |
   8 |                               |                  8 |                               |
     +---------------+---------------+                    +---------------+---------------+
  12 |Error Estimate |     SSID      |                 12 |Error Estimate |     SSID      |
     +---------------+---------------+                    +---------------+---------------+
  16 |                               |                 16 |    Receive Timestamp (T2)     |
     |                               |                 20 |                               |
     |                               |                    +-------------------------------+
     |                               |                 24 |Session-Sender Sequence Number |
     |              MBZ              |                    +-------------------------------+
     |         (28 octets)           |                 28 |Session-Sender Timestamp (T1)  |
     |                               |                 32 |                               |
     |                               |                    +---------------+---------------+
     |                               |                 36 |Sender Err.Est.|      MBZ      |
     |                               |                    +-------+-------+---------------+
     |                               |                 40 |  TTL  |         MBZ           | of the request
     +-------------------------------+                    +-------+-----------------------+
  44 ~             TLVs              ~                 44 ~        TLVs (RFC 8972)        ~

A reply is as long as its request. MBZ is sent as zero and ignored on receipt. Our own sessions carry Follow-Up Telemetry
(20 octets at 44) and, beyond 64 octets, one Extra Padding TLV.

Columns: `sender_rows(buffer)` and `reflector_rows(buffer)` are views of a preallocated uint8 array of shape (N, size);
reading and assigning a field touches the packets themselves, no copies. Timestamps in them are wire values, see
`linkqual.wire.timestamp`. Floor 1, pure.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from linkqual.errors import InputError, WireError
from linkqual.wire import timestamp, tlv
from linkqual.wire.timestamp import DEFAULT_NEAR_NS, ErrorEstimate

PORT = 862  # RFC 8762 s4.1
BASE_BYTES = 44
FOLLOW_UP_BYTES = BASE_BYTES + tlv.HEADER_BYTES + 16
SEQUENCE_MODULUS = 2**32

_SENDER = struct.Struct("!IQHH28x")
_REFLECTOR = struct.Struct("!IQHHQIQH2xB3x")

Packets = npt.NDArray[np.uint8]  # shape (N, size)
Rows = npt.NDArray[np.void]  # shape (N,), a structured view of Packets
Mask = npt.NDArray[np.bool_]  # shape (N,)


# ---- one packet


@dataclass(frozen=True, slots=True)
class SenderPacket:
    """What a Session-Sender sends. `tail`: the octets after the base packet (TLVs)."""

    sequence: int
    timestamp_ns: int  # T1
    error: ErrorEstimate
    ssid: int = 0
    tail: bytes = b""

    def encode(self) -> bytes:
        """At least 44 octets."""
        t1 = timestamp.encode(self.timestamp_ns, self.error.form)
        return _SENDER.pack(self.sequence, t1, self.error.to_wire(), self.ssid) + self.tail

    @classmethod
    def decode(cls, data: bytes, near_ns: int = DEFAULT_NEAR_NS) -> SenderPacket:
        """Raises WireError when it is too short, or its Error Estimate or a PTP timestamp is not valid."""
        _check_length(data, "Session-Sender")
        sequence, t1, error, ssid = _SENDER.unpack_from(data)
        estimate = ErrorEstimate.from_wire(error)
        return cls(sequence, timestamp.decode(t1, estimate.form, near_ns), estimate, ssid, data[BASE_BYTES:])


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

    def encode(self) -> bytes:
        """At least 44 octets."""
        form = self.error.form
        base = _REFLECTOR.pack(
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
    def decode(cls, data: bytes, near_ns: int = DEFAULT_NEAR_NS) -> ReflectorPacket:
        """Raises WireError when it is too short, or an Error Estimate or a PTP timestamp is not valid."""
        _check_length(data, "Session-Reflector")
        sequence, t3, error, ssid, t2, sender_sequence, t1, sender_error, ttl = _REFLECTOR.unpack_from(data)
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
            tail=data[BASE_BYTES:],
        )


def _check_length(data: bytes, kind: str) -> None:
    if len(data) < BASE_BYTES:
        raise WireError(f"{len(data)} octets are no {kind} packet: it has at least {BASE_BYTES}")


# ---- columns of packets

_Field = tuple[str, str, int]  # name, format, offset
_SENDER_FIELDS: tuple[_Field, ...] = (
    ("sequence", ">u4", 0),
    ("timestamp", ">u8", 4),
    ("error", ">u2", 12),
    ("ssid", ">u2", 14),
)
_REFLECTOR_FIELDS: tuple[_Field, ...] = (
    *_SENDER_FIELDS,
    ("receive_timestamp", ">u8", 16),
    ("sender_sequence", ">u4", 24),
    ("sender_timestamp", ">u8", 28),
    ("sender_error", ">u2", 36),
    ("mbz", ">u2", 38),
    ("sender_ttl", "u1", 40),
    ("mbz_tail", "V3", 41),
)
_FOLLOW_UP_FIELDS: tuple[_Field, ...] = (
    ("follow_up", ">u4", 44),  # the TLV's header
    ("follow_up_sequence", ">u4", 48),
    ("follow_up_timestamp", ">u8", 52),
    ("follow_up_mode", "u1", 60),
)
FOLLOW_UP_REQUEST = tlv.Flag.UNRECOGNISED << 24 | tlv.Type.FOLLOW_UP_TELEMETRY << 16 | 16
FOLLOW_UP_REPLY = tlv.Type.FOLLOW_UP_TELEMETRY << 16 | 16


@cache
def _layout(base: tuple[_Field, ...], size: int) -> np.dtype[np.void]:
    if size < BASE_BYTES:
        raise InputError(f"rows of {size} octets hold no STAMP packet", hint=f"use at least {BASE_BYTES}")
    fields = base + (_FOLLOW_UP_FIELDS if size >= FOLLOW_UP_BYTES else ())
    names, formats, offsets = zip(*fields, strict=True)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})


def sender_rows(buffer: Packets) -> Rows:
    """View (N, size) octets as N Session-Sender packets: sequence, timestamp, error, ssid, and from 64 octets on follow_up,
    follow_up_sequence, follow_up_timestamp, follow_up_mode. The octets of a row must lie side by side.
    """
    return buffer.view(_layout(_SENDER_FIELDS, buffer.shape[-1]))[..., 0]


def reflector_rows(buffer: Packets) -> Rows:
    """View (N, size) octets as N Session-Reflector packets: the fields drawn above, and those of `sender_rows`."""
    return buffer.view(_layout(_REFLECTOR_FIELDS, buffer.shape[-1]))[..., 0]


def request_template(
    size: int,
    *,
    ssid: int = 0,
    error: ErrorEstimate | None = None,
    follow_up: bool = True,
    padding: np.random.Generator | None = None,
) -> npt.NDArray[np.uint8]:
    """One Session-Sender packet of `size` octets to copy into every row; sequence and timestamp stay to be filled.

    With `follow_up` it asks for Follow-Up Telemetry when there is room. The rest is one Extra Padding TLV, pseudo-random
    when a generator is given (RFC 8972 s4.1 recommends it), else zero. Raises InputError for a size that leaves a rest of
    one to three octets, too short for a TLV.
    """
    asks = follow_up and size >= FOLLOW_UP_BYTES
    rest = size - (FOLLOW_UP_BYTES if asks else BASE_BYTES)
    if rest < 0 or 0 < rest < tlv.HEADER_BYTES:
        raise InputError(
            f"no STAMP packet has {size} octets here",
            hint=f"take {BASE_BYTES}, {FOLLOW_UP_BYTES}, or {FOLLOW_UP_BYTES + tlv.HEADER_BYTES} and more",
        )
    tlvs = [tlv.Tlv(tlv.Type.FOLLOW_UP_TELEMETRY, bytes(16))] if asks else []
    if rest:
        filling = bytes(rest - tlv.HEADER_BYTES) if padding is None else padding.bytes(rest - tlv.HEADER_BYTES)
        tlvs.append(tlv.Tlv(tlv.Type.EXTRA_PADDING, filling))
    base = _SENDER.pack(0, 0, (error or ErrorEstimate()).to_wire(), ssid)
    return np.frombuffer(base + tlv.encode(tlvs), np.uint8)


def reflect(
    buffer: Packets,
    *,
    sequence: npt.NDArray[np.integer],
    receive_timestamp: npt.NDArray[np.uint64],
    ttl: npt.NDArray[np.integer],
    error: ErrorEstimate,
) -> Rows:
    """Turn N requests into replies in place and return their reflector rows (RFC 8762 s4.3.1).

    `sequence` is the reflector's own counter modulo 2^32, `receive_timestamp` T2 as wire values in the format of `error`.
    T3 (`rows["timestamp"]`) and the follow_up fields are left for the caller to fill just before sending. In requests of
    our own layout the U flags of both TLVs are cleared: they are understood. Others keep their tail; give it to `tlv.answer`.
    """
    rows = reflector_rows(buffer)
    for name in ("sequence", "timestamp", "error"):  # copies first: T3 and the counter take their places
        rows[f"sender_{name}"] = rows[name]
    rows["sequence"] = sequence
    rows["error"] = error.to_wire()
    rows["receive_timestamp"] = receive_timestamp
    rows["sender_ttl"] = ttl
    rows["mbz"] = 0
    buffer[..., 41:44] = 0
    if "follow_up" in (rows.dtype.names or ()):
        own = rows["follow_up"] == FOLLOW_UP_REQUEST
        buffer[own, BASE_BYTES] = 0
        if buffer.shape[-1] > FOLLOW_UP_BYTES:
            padded = own & (buffer[..., FOLLOW_UP_BYTES + 1] == tlv.Type.EXTRA_PADDING)
            buffer[padded, FOLLOW_UP_BYTES] = 0
    return rows


def is_valid_reply(rows: Rows, ssid: int) -> Mask:
    """Which rows may be used: both Error Estimates valid; the SSID ours, or 0 (a reflector without RFC 8972)."""
    session = (rows["ssid"] == ssid) | (rows["ssid"] == 0)
    valid: Mask = session & ((rows["error"] & 0xFF) != 0) & ((rows["sender_error"] & 0xFF) != 0)
    return valid


def has_follow_up(rows: Rows) -> Mask:
    """Which replies tell when an earlier one really left: an answered Follow-Up Telemetry TLV that is not all zero."""
    if "follow_up" not in (rows.dtype.names or ()):
        return np.zeros(rows.shape, np.bool_)
    tells: Mask = (rows["follow_up"] == FOLLOW_UP_REPLY) & (rows["follow_up_timestamp"] != 0)
    return tells
