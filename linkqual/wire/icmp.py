"""ICMP errors as a trace meets them: the quoted probe, and the extensions behind it (RFC 792, 4443, 4884, 4950).

    0                   1                   2                   3
    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
   |     Type      |     Code      |          Checksum             |
   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
   | ICMPv6 Length |  ICMP Length  |            unused             |   of the quote, in 8 and in 4 octets; 0: not said
   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
   |      the datagram that met the error, from its IP header on   |   padded to 128 octets when extensions follow
   ~                                                               ~
   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
   |  2    |      (reserved)       |          Checksum             |   extension structure, RFC 4884 s7
   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
   |        Object Length          |   Class-Num   |   C-Type      |   MPLS label stack: class 1, type 1 (RFC 4950)
   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
   |                Label                  | TC  |S|      TTL      |   one entry, repeated
   +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+

Older routers send the extensions without saying the quote's length, always after 128 octets. Floor 1, pure.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address, IPv6Address

from linkqual.errors import WireError

UDP = 17
# RFC 791 s3.1: an IPv4 option with room for nine addresses, padded to 40 octets
RECORD_ROUTE = bytes([7, 39, 4]) + bytes(37)

_HEADER_BYTES = 8
_QUOTE_WITH_EXTENSIONS = 128  # RFC 4884 s5.1
_EXTENSION_VERSION = 2
_MPLS_STACK = (1, 1)  # Class-Num, C-Type


class Cause(Enum):
    """What an ICMP error says of the probe it quotes."""

    TTL = "its TTL ran out"
    PORT = "nobody listens on its port"
    REFUSED = "it may not pass"
    NO_ROUTE = "no way on"


_UNREACHABLE_V4 = {3: Cause.PORT, 9: Cause.REFUSED, 10: Cause.REFUSED, 13: Cause.REFUSED}  # RFC 792, RFC 1812 s5.2.7.1
_UNREACHABLE_V6 = {4: Cause.PORT, 1: Cause.REFUSED, 5: Cause.REFUSED, 6: Cause.REFUSED}  # RFC 4443 s3.1


def cause(version: int, kind: int, code: int) -> Cause:
    """What type and code of an ICMP (4) or ICMPv6 (6) message mean to a trace. Raises WireError for any other message."""
    if (version, kind, code) in {(4, 11, 0), (6, 3, 0)}:
        return Cause.TTL
    if (version, kind) == (4, 3):
        return _UNREACHABLE_V4.get(code, Cause.NO_ROUTE)
    if (version, kind) == (6, 1):
        return _UNREACHABLE_V6.get(code, Cause.NO_ROUTE)
    raise WireError(f"ICMPv{version} type {kind} code {code} is no error a trace waits for")


@dataclass(frozen=True, slots=True)
class Label:
    """One entry of an MPLS label stack (RFC 3032)."""

    label: int
    traffic_class: int
    bottom: bool
    ttl: int

    def __str__(self) -> str:
        return f"label={self.label} tc={self.traffic_class} s={self.bottom:d} ttl={self.ttl}"


@dataclass(frozen=True, slots=True)
class Quote:
    """The probe as the router saw it: UDP in IPv4 or IPv6."""

    source: str
    destination: str
    source_port: int
    destination_port: int
    udp_bytes: int  # the UDP Length field, header included
    ttl: int  # as it arrived there; more than 1 with an expired TTL hints at an MPLS tunnel or a broken hop
    tos: int = 0  # TOS or Traffic Class, as the router had it in hand


@dataclass(frozen=True, slots=True)
class IcmpError:
    """An ICMP error about one of our probes."""

    cause: Cause
    quote: Quote
    labels: tuple[Label, ...] = ()


def parse_v4(message: bytes) -> IcmpError:
    """An ICMP message from its type on. Raises WireError when it is no error about a UDP packet or is cut short."""
    kind, code, length = _head(message)
    return IcmpError(cause(4, kind, code), _quote_v4(message[_HEADER_BYTES:]), labels(message, 4 * length[1]))


def parse_v6(message: bytes) -> IcmpError:
    """An ICMPv6 message from its type on. Raises WireError when it is no error about a UDP packet or is cut short."""
    kind, code, length = _head(message)
    return IcmpError(cause(6, kind, code), _quote_v6(message[_HEADER_BYTES:]), labels(message, 8 * length[0]))


def _head(message: bytes) -> tuple[int, int, bytes]:
    if len(message) < _HEADER_BYTES:
        raise WireError(f"{len(message)} octets are no ICMP message")
    return message[0], message[1], message[4:6]


def _quote_v4(quote: bytes) -> Quote:
    if len(quote) < 20 or quote[0] >> 4 != 4:
        raise WireError("the ICMP error quotes no IPv4 header")
    udp = 4 * (quote[0] & 0x0F)
    if udp < 20 or quote[9] != UDP or len(quote) < udp + 6:
        raise WireError("the ICMP error quotes no UDP header")
    source, destination = IPv4Address(quote[12:16]), IPv4Address(quote[16:20])
    return _udp_quote(str(source), str(destination), quote[udp:], quote[8], quote[1])


def recorded(options: bytes) -> tuple[str, ...]:
    """What a Record Route option among IPv4 options holds (RFC 791 s3.1): from which address each router sent the packet onward.

    Empty without one.
    """
    offset = 0
    while offset < len(options) and options[offset] != 0:
        if options[offset] == 1:  # No Operation, a single octet
            offset += 1
            continue
        length = options[offset + 1] if offset + 1 < len(options) else 0
        if length < 3 or offset + length > len(options):
            break
        if options[offset] == RECORD_ROUTE[0]:
            filled = min(options[offset + 2] - 1, length)  # the pointer counts from 1, to the next free place
            places = range(offset + 3, offset + filled - 3, 4)
            return tuple(str(IPv4Address(options[place : place + 4])) for place in places)
        offset += length
    return ()


def _quote_v6(quote: bytes) -> Quote:
    if len(quote) < 46 or quote[0] >> 4 != 6:
        raise WireError("the ICMPv6 error quotes no IPv6 header")
    if quote[6] != UDP:
        raise WireError("the ICMPv6 error quotes no UDP header")
    source, destination = IPv6Address(quote[8:24]), IPv6Address(quote[24:40])
    traffic_class = (quote[0] << 4 | quote[1] >> 4) & 0xFF
    return _udp_quote(str(source), str(destination), quote[40:], quote[7], traffic_class)


def _udp_quote(source: str, destination: str, udp: bytes, ttl: int, tos: int) -> Quote:
    source_port, destination_port, udp_bytes = struct.unpack_from("!HHH", udp)
    return Quote(source, destination, source_port, destination_port, udp_bytes, ttl, tos)


def labels(message: bytes, quote_bytes: int) -> tuple[Label, ...]:
    """The MPLS label stack in an ICMP message's extensions, outermost first; empty when there is none or it is damaged.

    `quote_bytes` is the quote's length as the message says it; 0: not said, then only a correct checksum proves that what
    stands after 128 octets is an extension structure and no part of the quote.
    """
    return stack(message[_HEADER_BYTES + (quote_bytes or _QUOTE_WITH_EXTENSIONS) :], stated=bool(quote_bytes))


def labels_behind_payload(version: int, payload: bytes) -> tuple[Label, ...]:
    """The same where the kernel has taken off the quote's IP and UDP headers; of quotes of 128 octets, proven by their checksum."""
    return stack(payload[_QUOTE_WITH_EXTENSIONS - (28 if version == 4 else 48) :], stated=False)


def stack(structure: bytes, *, stated: bool) -> tuple[Label, ...]:
    """The MPLS label stack of an extension structure; `stated`: the message says that there is one, so that its checksum may be left out."""
    if len(structure) < 8 or structure[0] >> 4 != _EXTENSION_VERSION:
        return ()
    unchecked = structure[2:4] == b"\0\0"
    if (unchecked and not stated) or not (unchecked or _checksum(structure) == 0):
        return ()
    found: list[Label] = []
    offset = 4
    while offset + 4 <= len(structure):
        length, *kind = struct.unpack_from("!HBB", structure, offset)
        if length < 4 or offset + length > len(structure):
            break
        if tuple(kind) == _MPLS_STACK:
            entries = structure[offset + 4 : offset + length]
            found += [_label(word) for (word,) in struct.iter_unpack("!I", entries[: len(entries) // 4 * 4])]
        offset += length
    return tuple(found)


def _label(word: int) -> Label:
    return Label(word >> 12, word >> 9 & 7, bool(word >> 8 & 1), word & 0xFF)


def _checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071); 0 over data that holds its own."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data[: len(data) // 2 * 2])) + (data[-1] << 8) * (
        len(data) % 2
    )
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
