"""TLVs that follow the base packet of a STAMP test (RFC 8972 s4), and the answer a Session-Reflector gives to each.

     0                   1                   2                   3
     0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
    +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
    |U|M|I|  MBZ    |     Type      |   Length (of the value alone) |
    +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
    ~                            Value                              ~
    +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+

Whether TLVs are there is known from the UDP length only. Floor 1, pure.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum, IntFlag

from linkqual.errors import WireError

_HEADER = struct.Struct("!BBH")
HEADER_BYTES = _HEADER.size


class Flag(IntFlag):
    """RFC 8972 s4. A sender sets U and clears the others; the reflector's answer tells what it made of the TLV."""

    UNRECOGNISED = 0x80
    MALFORMED = 0x40
    INTEGRITY = 0x20


class Type(IntEnum):
    """Types of the IANA registry "STAMP TLV Types" (RFC 8972 s5, RFC 9503, RFC 9534)."""

    EXTRA_PADDING = 1
    LOCATION = 2
    TIMESTAMP_INFORMATION = 3
    CLASS_OF_SERVICE = 4
    DIRECT_MEASUREMENT = 5
    ACCESS_REPORT = 6
    FOLLOW_UP_TELEMETRY = 7
    HMAC = 8
    DESTINATION_NODE_ADDRESS = 9
    RETURN_PATH = 10
    MICRO_SESSION_ID = 11


@dataclass(frozen=True, slots=True)
class Tlv:
    """One TLV. Its flags start as a Session-Sender sends it."""

    type: int
    value: bytes
    flags: int = Flag.UNRECOGNISED

    def encode(self) -> bytes:
        """Header and value."""
        return _HEADER.pack(self.flags, self.type, len(self.value)) + self.value


def encode(tlvs: Iterable[Tlv]) -> bytes:
    """All of them, one after the other."""
    return b"".join(tlv.encode() for tlv in tlvs)


def total_bytes(tlvs: Iterable[Tlv]) -> int:
    """What they take in a packet."""
    return sum(HEADER_BYTES + len(tlv.value) for tlv in tlvs)


def parse(data: bytes) -> tuple[Tlv, ...]:
    """Every TLV of a packet's tail. Raises WireError when one runs past the end or a rest is too short for a header."""
    return tuple(tlv for tlv, _ in walk(data))


def walk(data: bytes) -> Iterator[tuple[Tlv, int]]:
    """Each TLV with the offset of its header. Raises WireError where one runs past the end or is cut off."""
    offset = 0
    while offset < len(data):
        if len(data) - offset < HEADER_BYTES:
            raise WireError(f"{len(data) - offset} octets are left where a TLV header takes {HEADER_BYTES}")
        flags, kind, length = _HEADER.unpack_from(data, offset)
        end = offset + HEADER_BYTES + length
        if end > len(data):
            raise WireError(f"TLV of type {kind} says {length} octets and runs {end - len(data)} past the packet")
        yield Tlv(kind, data[offset + HEADER_BYTES : end], flags), offset
        offset = end


def answer(data: bytes, known: Mapping[int, Callable[[bytes], bytes]], *, intact: bool = True) -> bytes:
    """The tail of the reply to a request's tail, of the same length (RFC 8972 s4).

    `known` maps a type to what fills its value; it raises WireError when the value has no valid length (M is set, the
    value goes back unchanged). Types not in it go back with U set, Extra Padding as it came with U cleared. What follows a
    TLV that runs past the packet goes back unread, with M set on that TLV. Unless `intact` (the HMAC TLV was verified, s4.8),
    every TLV goes back unread with I set.
    """
    reply = bytearray(data)
    read = 0
    try:
        for tlv, offset in walk(data):
            flags, value = _answer_one(tlv, known) if intact else (Flag.INTEGRITY, tlv.value)
            reply[offset] = flags
            read = offset + HEADER_BYTES + len(tlv.value)
            if len(value) == len(tlv.value):
                reply[offset + HEADER_BYTES : read] = value
    except WireError:
        reply[read] = Flag.MALFORMED if intact else Flag.MALFORMED | Flag.INTEGRITY
    return bytes(reply)


def _answer_one(tlv: Tlv, known: Mapping[int, Callable[[bytes], bytes]]) -> tuple[int, bytes]:
    if tlv.type == Type.EXTRA_PADDING:
        return 0, tlv.value
    fill = known.get(tlv.type)
    if fill is None:
        return Flag.UNRECOGNISED, tlv.value
    try:
        return 0, fill(tlv.value)
    except WireError:
        return Flag.MALFORMED, tlv.value


def read_reply(data: bytes) -> tuple[Tlv, ...]:
    """What a Session-Sender may use of a reply's tail (RFC 8972 s4): nothing once a TLV has I set, else the TLVs up to the first
    with M set or that runs past the packet, without those with U set.
    """
    usable, reading = [], True
    try:
        for tlv, _ in walk(data):
            if tlv.flags & Flag.INTEGRITY:
                return ()
            reading = reading and not tlv.flags & Flag.MALFORMED
            if reading and not tlv.flags & Flag.UNRECOGNISED:
                usable.append(tlv)
    except WireError:
        pass  # a TLV that runs past the packet ends what can be read
    return tuple(usable)
