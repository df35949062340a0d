"""STAMP test packets (RFC 8762 s4.2, s4.3; SSID of RFC 8972 s3): columns of packets in both modes.

Unauthenticated; `stamp_auth` draws the authenticated ones and has their HMAC, `stamp_packet` reads and writes one by one.

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
(20 octets) right after the base packet, then whatever TLVs the sender asks for, in authenticated mode the HMAC TLV, and
last what is left as one Extra Padding TLV.

Columns: `sender_rows(buffer)` and `reflector_rows(buffer)` are views of a preallocated uint8 array of shape (N, size);
reading and assigning a field touches the packets themselves, no copies. Timestamps in them are wire values, see
`linkqual.wire.timestamp`. Floor 1, pure.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from functools import cache

import numpy as np
import numpy.typing as npt

from linkqual.errors import InputError
from linkqual.wire import tlv
from linkqual.wire.timestamp import ErrorEstimate

PORT = 862  # RFC 8762 s4.1
SEQUENCE_MODULUS = 2**32
HMAC_BYTES = 16  # of the base packet in authenticated mode: its last octets


class Mode(IntEnum):
    """The two packet formats of RFC 8762 s4; the value is the size of the base packet in octets."""

    UNAUTHENTICATED = 44
    AUTHENTICATED = 112

    @property
    def follow_up_bytes(self) -> int:
        """Size of the smallest packet of our own sessions that asks for Follow-Up Telemetry."""
        return self + _FOLLOW_UP_TLV + (0 if self is Mode.UNAUTHENTICATED else _HMAC_TLV)

    @property
    def timestamp_at(self) -> int:
        """Offset of the Timestamp; the Sequence Number is at 0 in both modes."""
        return 4 if self is Mode.UNAUTHENTICATED else 16


_FOLLOW_UP_TLV = tlv.HEADER_BYTES + 16
_HMAC_TLV = tlv.HEADER_BYTES + HMAC_BYTES
BASE_BYTES = int(Mode.UNAUTHENTICATED)

_PLAIN, _SIGNED = Mode.UNAUTHENTICATED, Mode.AUTHENTICATED
SENDER = {_PLAIN: struct.Struct("!IQHH28x"), _SIGNED: struct.Struct("!I12xQHH84x")}

Packets = npt.NDArray[np.uint8]  # shape (N, size)
Rows = npt.NDArray[np.void]  # shape (N,), a structured view of Packets
Mask = npt.NDArray[np.bool_]  # shape (N,)


_Field = tuple[str, str, int]  # name, format, offset


def _sender_fields(mode: Mode) -> tuple[_Field, ...]:
    t1 = mode.timestamp_at
    return ("sequence", ">u4", 0), ("timestamp", ">u8", t1), ("error", ">u2", t1 + 8), ("ssid", ">u2", t1 + 10)


_RECEIVED_FIELDS: dict[Mode, tuple[_Field, ...]] = {
    _PLAIN: (
        ("receive_timestamp", ">u8", 16),
        ("sender_sequence", ">u4", 24),
        ("sender_timestamp", ">u8", 28),
        ("sender_error", ">u2", 36),
        ("sender_ttl", "u1", 40),
    ),
    _SIGNED: (
        ("receive_timestamp", ">u8", 32),
        ("sender_sequence", ">u4", 48),
        ("sender_timestamp", ">u8", 64),
        ("sender_error", ">u2", 72),
        ("sender_ttl", "u1", 80),
    ),
}
SENDER_MBZ = {_PLAIN: (slice(16, 44),), _SIGNED: (slice(4, 16), slice(28, 96))}
REFLECTOR_MBZ = {
    _PLAIN: (slice(38, 40), slice(41, 44)),
    _SIGNED: (slice(4, 16), slice(28, 32), slice(40, 48), slice(52, 64), slice(74, 80), slice(81, 96)),
}
FOLLOW_UP_REPLY = tlv.Type.FOLLOW_UP_TELEMETRY << 16 | 16


def _follow_up_fields(mode: Mode, size: int) -> tuple[_Field, ...]:
    if size < mode + _FOLLOW_UP_TLV:
        return ()
    return (
        ("follow_up", ">u4", mode),  # the TLV's header
        ("follow_up_sequence", ">u4", mode + 4),
        ("follow_up_timestamp", ">u8", mode + 8),
        ("follow_up_mode", "u1", mode + 16),
    )


@cache
def _layout(mode: Mode, size: int, replies: bool) -> np.dtype[np.void]:
    if size < mode:
        raise InputError(f"rows of {size} octets hold no STAMP packet", hint=f"use at least {int(mode)}")
    fields = [*_sender_fields(mode), *_follow_up_fields(mode, size)]
    if replies:
        fields += _RECEIVED_FIELDS[mode]
    names, formats, offsets = zip(*fields, strict=True)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})


def sender_rows(buffer: Packets, mode: Mode = Mode.UNAUTHENTICATED) -> Rows:
    """View (N, size) octets as N Session-Sender packets: sequence, timestamp, error, ssid, and with 20 octets after the base
    packet follow_up, follow_up_sequence, follow_up_timestamp, follow_up_mode. The octets of a row must lie side by side.
    """
    return buffer.view(_layout(mode, buffer.shape[-1], False))[..., 0]


def reflector_rows(buffer: Packets, mode: Mode = Mode.UNAUTHENTICATED) -> Rows:
    """View (N, size) octets as N Session-Reflector packets: the fields of `sender_rows`, and receive_timestamp,
    sender_sequence, sender_timestamp, sender_error, sender_ttl.
    """
    return buffer.view(_layout(mode, buffer.shape[-1], True))[..., 0]


def request_template(
    size: int,
    *,
    mode: Mode = Mode.UNAUTHENTICATED,
    ssid: int = 0,
    error: ErrorEstimate | None = None,
    follow_up: bool = True,
    tlvs: Sequence[tlv.Tlv] = (),
    padding: np.random.Generator | None = None,
) -> npt.NDArray[np.uint8]:
    """One Session-Sender packet of `size` octets to copy into every row; sequence, timestamp and HMACs stay to be filled.

    With `follow_up` it asks for Follow-Up Telemetry when there is room; `tlvs` are asked for besides. The rest is one Extra
    Padding TLV, pseudo-random when a generator is given (RFC 8972 s4.1 recommends it), else zero. Raises InputError for a size
    without room for `tlvs`, or that leaves a rest of one to three octets, too short for a TLV.
    """
    signature = [tlv.Tlv(tlv.Type.HMAC, bytes(HMAC_BYTES))] if mode is Mode.AUTHENTICATED else []
    asked = [*tlvs, *signature] if tlvs else []
    if follow_up and size >= mode + _FOLLOW_UP_TLV + tlv.total_bytes([*tlvs, *signature]):
        asked = [tlv.Tlv(tlv.Type.FOLLOW_UP_TELEMETRY, bytes(16)), *tlvs, *signature]
    rest = size - mode - tlv.total_bytes(asked)
    if rest < 0 or 0 < rest < tlv.HEADER_BYTES:
        least = mode + tlv.total_bytes(asked)
        raise InputError(
            f"no STAMP packet has {size} octets here", hint=f"take {least}, or {least + tlv.HEADER_BYTES} and more"
        )
    if rest:
        filling = bytes(rest - tlv.HEADER_BYTES) if padding is None else padding.bytes(rest - tlv.HEADER_BYTES)
        asked.append(tlv.Tlv(tlv.Type.EXTRA_PADDING, filling))
    base = SENDER[mode].pack(0, 0, (error or ErrorEstimate()).to_wire(), ssid)
    return np.frombuffer(base + tlv.encode(asked), np.uint8)


def reflect(
    buffer: Packets,
    *,
    sequence: npt.NDArray[np.integer],
    receive_timestamp: npt.NDArray[np.uint64],
    ttl: npt.NDArray[np.integer],
    error: ErrorEstimate,
    mode: Mode = Mode.UNAUTHENTICATED,
) -> Rows:
    """Turn N requests into replies in place and return their reflector rows (RFC 8762 s4.3).

    `sequence` is the reflector's own counter modulo 2^32, `receive_timestamp` T2 as wire values in the format of `error`.
    T3 (`rows["timestamp"]`), the TLVs and, last of all, the HMACs are left for the caller to fill just before sending.
    """
    rows = reflector_rows(buffer, mode)
    for name in ("sequence", "timestamp", "error"):  # copies first: T3 and the counter take their places
        rows[f"sender_{name}"] = rows[name]
    rows["sequence"] = sequence
    rows["error"] = error.to_wire()
    rows["receive_timestamp"] = receive_timestamp
    rows["sender_ttl"] = ttl
    for octets in REFLECTOR_MBZ[mode]:
        buffer[..., octets] = 0
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
