"""UDP datagrams in captured frames, by the link-layer type a capture file names (tcpdump's LINKTYPE registry).

    0  BSD loopback     4 octets of address family, in the byte order of the host that captured
    1  Ethernet         14 octets, and 4 for each VLAN tag (IEEE 802.1Q, 802.1ad)
  101  raw IP           none; 12 and 14 are older numbers of it, 228 and 229 are IPv4 and IPv6 alone
  113  Linux cooked v1  16 octets, EtherType last
  276  Linux cooked v2  20 octets, EtherType first, index of the interface at 4

A capture holds everything that passed, so what is no UDP datagram (or its head was not captured) is None and no error. Of a
fragmented datagram the first fragment stands for it. Floor 1, pure.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

LOOPBACK, ETHERNET, COOKED, COOKED_2 = 0, 1, 113, 276
RAW_IP = (12, 14, 101, 228, 229)

_UDP, _FRAGMENT = 17, 44
_EXTENSIONS = (0, 43, 60)  # of IPv6: hop-by-hop, routing, destination options (RFC 8200 s4)
_VLAN = (0x8100, 0x88A8, 0x9100)
_IP = (0x0800, 0x86DD)
_UDP_HEADER = struct.Struct("!HHH")
_MOST_HEADERS = 16  # extension headers or VLAN tags of one frame


class Datagram(NamedTuple):
    """`payload` may be cut short by the capture; `payload_bytes` is its length as sent. Addresses are packed, 4 or 16 octets."""

    source: bytes
    destination: bytes
    source_port: int
    destination_port: int
    ttl: int
    tos: int
    payload_bytes: int
    payload: bytes
    interface: int = 0  # its index where the frame tells


def known(link_type: int) -> bool:
    """Whether frames of this link-layer type can be read."""
    return link_type in _STRIP or link_type in RAW_IP


def datagram(frame: bytes, link_type: int) -> Datagram | None:
    """The UDP datagram in a frame, or None."""
    if link_type in RAW_IP:
        return _ip(frame)
    strip = _STRIP.get(link_type)
    return strip(frame) if strip is not None else None


def _loopback(frame: bytes) -> Datagram | None:
    return _ip(frame[4:])


def _ethernet(frame: bytes) -> Datagram | None:
    at = 12
    for _ in range(_MOST_HEADERS):
        kind = int.from_bytes(frame[at : at + 2])
        if kind not in _VLAN:
            return _ip(frame[at + 2 :]) if kind in _IP else None
        at += 4
    return None


def _cooked(frame: bytes) -> Datagram | None:
    return _ip(frame[16:]) if int.from_bytes(frame[14:16]) in _IP else None


def _cooked_2(frame: bytes) -> Datagram | None:
    found = _ip(frame[20:]) if int.from_bytes(frame[:2]) in _IP else None
    return found._replace(interface=int.from_bytes(frame[4:8])) if found is not None else None


_STRIP: dict[int, Callable[[bytes], Datagram | None]] = {
    LOOPBACK: _loopback,
    ETHERNET: _ethernet,
    COOKED: _cooked,
    COOKED_2: _cooked_2,
}


def _ip(packet: bytes) -> Datagram | None:
    version = packet[0] >> 4 if packet else 0
    if version == 4:
        return _ipv4(packet)
    return _ipv6(packet) if version == 6 else None


def _ipv4(packet: bytes) -> Datagram | None:
    header = 4 * (packet[0] & 0x0F)
    if len(packet) < header + 8 or header < 20 or packet[9] != _UDP or int.from_bytes(packet[6:8]) & 0x1FFF:
        return None
    return _udp(packet[12:16], packet[16:20], packet[8], packet[1], packet[header:])


def _ipv6(packet: bytes) -> Datagram | None:
    if len(packet) < 48:
        return None
    following, at = packet[6], 40
    for _ in range(_MOST_HEADERS):
        if following == _UDP:
            traffic_class = int.from_bytes(packet[:2]) >> 4 & 0xFF
            return _udp(packet[8:24], packet[24:40], packet[7], traffic_class, packet[at:])
        if len(packet) < at + 8:
            return None
        if following in _EXTENSIONS:
            length = 8 + 8 * packet[at + 1]
        elif following == _FRAGMENT and int.from_bytes(packet[at + 2 : at + 4]) >> 3 == 0:
            length = 8
        else:
            return None
        following, at = packet[at], at + length
    return None


def _udp(source: bytes, destination: bytes, ttl: int, tos: int, udp: bytes) -> Datagram | None:
    if len(udp) < 8:
        return None
    source_port, destination_port, length = _UDP_HEADER.unpack_from(udp)
    if length < 8:
        return None
    return Datagram(source, destination, source_port, destination_port, ttl, tos, length - 8, udp[8:length])
