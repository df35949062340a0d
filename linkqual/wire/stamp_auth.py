"""STAMP test packets in authenticated mode (RFC 8762 s4.2.2, s4.3.2, s4.4) and the HMAC TLV (RFC 8972 s4.8).

Session-Sender, 112 octets                           Session-Reflector, 112 octets
   0  Sequence Number                                   0  Sequence Number
   4  MBZ (12)                                          4  MBZ (12)
  16  Timestamp (T1)                                   16  Timestamp (T3)
  24  Error Estimate | SSID                            24  Error Estimate | SSID
  28  MBZ (68)                                         28  MBZ (4)
                                                       32  Receive Timestamp (T2)
                                                       40  MBZ (8)
                                                       48  Session-Sender Sequence Number
                                                       52  MBZ (12)
                                                       64  Session-Sender Timestamp (T1)
                                                       72  Session-Sender Error Estimate
                                                       74  MBZ (6)
                                                       80  Session-Sender TTL | MBZ (15)
  96  HMAC (16) over octets 0..95                      96  HMAC (16) over octets 0..95
 112  TLVs                                            112  TLVs

HMAC-SHA-256 cut to its leftmost 128 bits; MBZ octets count as received. It is verified, in constant time, before any
field is used. Each packet is read and written one by one: a keyed hash a packet has no columns. Floor 1, pure.
"""

from __future__ import annotations

import hashlib
import hmac
import struct

from linkqual.errors import WireError
from linkqual.wire import timestamp, tlv
from linkqual.wire.stamp import ReflectorPacket, SenderPacket
from linkqual.wire.timestamp import DEFAULT_NEAR_NS, ErrorEstimate

AUTHENTICATED_BYTES = 112
HMAC_BYTES = 16

_SIGNED = 96
_SENDER = struct.Struct("!I12xQHH68x")
_REFLECTOR = struct.Struct("!I12xQHH4xQ8xI12xQH6xB15x")


def hmac_128(key: bytes, data: bytes) -> bytes:
    """HMAC-SHA-256-128: the leftmost 16 octets (RFC 4868)."""
    return hmac.digest(key, data, hashlib.sha256)[:HMAC_BYTES]


def encode_sender(packet: SenderPacket, key: bytes) -> bytes:
    """At least 112 octets."""
    t1 = timestamp.encode(packet.timestamp_ns, packet.error.form)
    signed = _SENDER.pack(packet.sequence, t1, packet.error.to_wire(), packet.ssid)
    return signed + hmac_128(key, signed) + packet.tail


def decode_sender(data: bytes, key: bytes, near_ns: int = DEFAULT_NEAR_NS) -> SenderPacket:
    """Raises WireError when it is too short, not signed with `key`, or holds a value that is not valid."""
    _verify(data, key)
    sequence, t1, error, ssid = _SENDER.unpack_from(data)
    estimate = ErrorEstimate.from_wire(error)
    t1_ns = timestamp.decode(t1, estimate.form, near_ns)
    return SenderPacket(sequence, t1_ns, estimate, ssid, data[AUTHENTICATED_BYTES:])


def encode_reflector(packet: ReflectorPacket, key: bytes) -> bytes:
    """At least 112 octets."""
    form = packet.error.form
    signed = _REFLECTOR.pack(
        packet.sequence,
        timestamp.encode(packet.timestamp_ns, form),
        packet.error.to_wire(),
        packet.ssid,
        timestamp.encode(packet.receive_ns, form),
        packet.sender_sequence,
        timestamp.encode(packet.sender_timestamp_ns, packet.sender_error.form),
        packet.sender_error.to_wire(),
        packet.sender_ttl,
    )
    return signed + hmac_128(key, signed) + packet.tail


def decode_reflector(data: bytes, key: bytes, near_ns: int = DEFAULT_NEAR_NS) -> ReflectorPacket:
    """Raises WireError when it is too short, not signed with `key`, or holds a value that is not valid."""
    _verify(data, key)
    sequence, t3, error, ssid, t2, sender_sequence, t1, sender_error, ttl = _REFLECTOR.unpack_from(data)
    ours, theirs = ErrorEstimate.from_wire(error), ErrorEstimate.from_wire(sender_error)
    return ReflectorPacket(
        sequence=sequence,
        timestamp_ns=timestamp.decode(t3, ours.form, near_ns),
        error=ours,
        ssid=ssid,
        receive_ns=timestamp.decode(t2, ours.form, near_ns),
        sender_sequence=sender_sequence,
        sender_timestamp_ns=timestamp.decode(t1, theirs.form, near_ns),
        sender_error=theirs,
        sender_ttl=ttl,
        tail=data[AUTHENTICATED_BYTES:],
    )


def _verify(data: bytes, key: bytes) -> None:
    if len(data) < AUTHENTICATED_BYTES:
        raise WireError(f"{len(data)} octets are no authenticated packet: it has at least {AUTHENTICATED_BYTES}")
    if not hmac.compare_digest(hmac_128(key, data[:_SIGNED]), data[_SIGNED:AUTHENTICATED_BYTES]):
        raise WireError("the packet is not signed with this session's key", hint="give both ends the same key")


def hmac_tlv(key: bytes, sequence: int, preceding: bytes, flags: int = tlv.Flag.UNRECOGNISED) -> tlv.Tlv:
    """The TLV that protects all TLVs before it: HMAC over the base packet's Sequence Number and their octets."""
    return tlv.Tlv(tlv.Type.HMAC, hmac_128(key, struct.pack("!I", sequence) + preceding), flags)


def check_tlvs(key: bytes, sequence: int, tail: bytes) -> tuple[tlv.Tlv, ...]:
    """The TLVs of an authenticated packet, once their HMAC TLV is verified. Raises WireError.

    It is required unless the only TLV is Extra Padding, and only Extra Padding may follow it (RFC 8972 s4.8).
    """
    tlvs = tlv.parse(tail)
    kinds = [item.type for item in tlvs]
    if kinds in ([], [tlv.Type.EXTRA_PADDING]):
        return tlvs
    while kinds and kinds[-1] == tlv.Type.EXTRA_PADDING:
        kinds.pop()
    if kinds.count(tlv.Type.HMAC) != 1 or kinds[-1] != tlv.Type.HMAC:
        raise WireError("the TLVs are not closed by exactly one HMAC TLV")
    place = len(kinds) - 1
    expected = hmac_tlv(key, sequence, tlv.encode(tlvs[:place])).value
    if not hmac.compare_digest(expected, tlvs[place].value):
        raise WireError("the TLVs are not signed with this session's key", hint="give both ends the same key")
    return tlvs
