"""Authenticated STAMP: the HMAC of the base packet (RFC 8762 s4.4) and the HMAC TLV that covers the TLVs (RFC 8972 s4.8).

Session-Sender, 112 octets (RFC 8762 s4.2.2)         Session-Reflector, 112 octets (s4.3.2)
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
 112  TLVs, HMAC TLV, Extra Padding                   112  TLVs, HMAC TLV, Extra Padding

HMAC-SHA-256 cut to its leftmost 128 bits; MBZ octets count as received. It is compared in constant time, before any field
is used. Columns are uint8 arrays of shape (N, size) as in `stamp`; a keyed hash is a call for each packet. Floor 1, pure.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from linkqual.errors import WireError
from linkqual.wire import tlv
from linkqual.wire.stamp import HMAC_BYTES, Mask, Mode, Packets
from linkqual.wire.stamp_packet import ReflectorPacket, SenderPacket
from linkqual.wire.timestamp import DEFAULT_NEAR_NS

_BASE = int(Mode.AUTHENTICATED)
_COVERED = _BASE - HMAC_BYTES
_SEQUENCE_BYTES = 4
_HASH_BLOCK = 64  # of SHA-256
_PADS = [bytes(octet ^ pad for octet in range(256)) for pad in (0x36, 0x5C)]
_NOT_NEEDED, _BROKEN = 0, -1  # where an HMAC TLV's value would start


class Signer:
    """HMAC-SHA-256-128 under one key: the leftmost 16 octets (RFC 4868).

    Both hashes of RFC 2104 begin with a block made of the key: kept as they stand after it, they take half the time of `hmac`.
    """

    def __init__(self, key: bytes) -> None:
        block = (key if len(key) <= _HASH_BLOCK else hashlib.sha256(key).digest()).ljust(_HASH_BLOCK, b"\0")
        self._inner, self._outer = (hashlib.sha256(block.translate(pad)) for pad in _PADS)

    def __call__(self, *parts: bytes | memoryview) -> bytes:
        """16 octets, over the parts one after the other."""
        inner, outer = self._inner.copy(), self._outer.copy()
        for part in parts:
            inner.update(part)
        outer.update(inner.digest())
        return outer.digest()[:HMAC_BYTES]


# ---- the base packet


def sign(buffer: Packets, key: bytes) -> None:
    """Fill the HMAC of N authenticated packets in place; whatever it covers must be filled in before."""
    signer, covered = Signer(key), memoryview(buffer[:, :_COVERED].tobytes())
    signatures = b"".join(signer(covered[at : at + _COVERED]) for at in range(0, len(covered), _COVERED))
    buffer[:, _COVERED:_BASE] = np.frombuffer(signatures, np.uint8).reshape(-1, HMAC_BYTES)


def verified(buffer: Packets, key: bytes) -> Mask:
    """Which of N packets are signed with `key`; none when they are too short. Use no field of the others."""
    if buffer.shape[-1] < _BASE:
        return np.zeros(len(buffer), np.bool_)
    signer, base = Signer(key), memoryview(buffer[:, :_BASE].tobytes())
    return np.fromiter(
        (
            hmac.compare_digest(signer(base[at : at + _COVERED]), base[at + _COVERED : at + _BASE])
            for at in range(0, len(base), _BASE)
        ),
        np.bool_,
        len(buffer),
    )


def encode_sender(packet: SenderPacket, key: bytes) -> bytes:
    """At least 112 octets; the tail is taken as it is, see `close`."""
    return _signed(packet.encode(Mode.AUTHENTICATED), key)


def decode_sender(data: bytes, key: bytes, near_ns: int = DEFAULT_NEAR_NS) -> SenderPacket:
    """Raises WireError when it is too short, not signed with `key`, or holds a value that is not valid."""
    _verify(data, key)
    return SenderPacket.decode(data, near_ns, Mode.AUTHENTICATED)


def encode_reflector(packet: ReflectorPacket, key: bytes) -> bytes:
    """At least 112 octets; the tail is taken as it is, see `close`."""
    return _signed(packet.encode(Mode.AUTHENTICATED), key)


def decode_reflector(data: bytes, key: bytes, near_ns: int = DEFAULT_NEAR_NS) -> ReflectorPacket:
    """Raises WireError when it is too short, not signed with `key`, or holds a value that is not valid."""
    _verify(data, key)
    return ReflectorPacket.decode(data, near_ns, Mode.AUTHENTICATED)


def _signed(data: bytes, key: bytes) -> bytes:
    covered = data[:_COVERED]
    return covered + Signer(key)(covered) + data[_BASE:]


def _verify(data: bytes, key: bytes) -> None:
    if len(data) < _BASE:
        raise WireError(f"{len(data)} octets are no authenticated packet: it has at least {_BASE}")
    if not hmac.compare_digest(Signer(key)(data[:_COVERED]), data[_COVERED:_BASE]):
        raise WireError("the packet is not signed with this session's key", hint="give both ends the same key")


# ---- the TLVs


def close(tlvs: tuple[tlv.Tlv, ...], sequence: int, key: bytes, flags: int = tlv.Flag.UNRECOGNISED) -> bytes:
    """A packet's tail: the TLVs, and the HMAC TLV over the base packet's Sequence Number and them."""
    octets = tlv.encode(tlvs)
    value = Signer(key)(sequence.to_bytes(_SEQUENCE_BYTES), octets)
    return octets + tlv.Tlv(tlv.Type.HMAC, value, flags).encode()


def check_tlvs(tail: bytes, sequence: int, key: bytes) -> tuple[tlv.Tlv, ...]:
    """The TLVs of an authenticated packet, once their HMAC TLV is verified. Raises WireError.

    It is required unless the only TLV is Extra Padding, and only Extra Padding may follow it (RFC 8972 s4.8).
    """
    at = _closing(tail)
    if at == _BROKEN:
        raise WireError("the TLVs are not closed by exactly one HMAC TLV")
    if at != _NOT_NEEDED:
        signature = Signer(key)(sequence.to_bytes(_SEQUENCE_BYTES), tail[: at - tlv.HEADER_BYTES])
        if not hmac.compare_digest(signature, tail[at : at + HMAC_BYTES]):
            raise WireError("the TLVs are not signed with this session's key", hint="give both ends the same key")
    return tlv.parse(tail)


def sign_tlvs(buffer: Packets, key: bytes) -> None:
    """Fill the HMAC TLV of each authenticated packet that has one in its place; sequence numbers and TLVs must be in before."""
    places = _closings(buffer)
    for at in np.unique(places[places > 0]).tolist():
        rows = np.flatnonzero(places == at)
        values = b"".join(_tlv_signatures(buffer[rows, :], at, Signer(key)))
        buffer[rows, _BASE + at : _BASE + at + HMAC_BYTES] = np.frombuffer(values, np.uint8).reshape(-1, HMAC_BYTES)


def verified_tlvs(buffer: Packets, key: bytes) -> Mask:
    """Whose TLVs are signed with `key`, or need no signature; those of the others go back unread with I set (`tlv.answer`)."""
    places = _closings(buffer)
    good: Mask = places == _NOT_NEEDED
    for at in np.unique(places[places > 0]).tolist():
        rows = np.flatnonzero(places == at)
        told = buffer[rows, _BASE + at : _BASE + at + HMAC_BYTES].tobytes()
        expected = _tlv_signatures(buffer[rows, :], at, Signer(key))
        good[rows] = [
            hmac.compare_digest(value, told[HMAC_BYTES * row : HMAC_BYTES * (row + 1)])
            for row, value in enumerate(expected)
        ]
    return good


def _tlv_signatures(packets: Packets, at: int, signer: Signer) -> Iterator[bytes]:
    size, octets = packets.shape[1], memoryview(packets.tobytes())
    for start in range(0, len(octets), size):
        base = start + _BASE
        yield signer(octets[start : start + _SEQUENCE_BYTES], octets[base : base + at - tlv.HEADER_BYTES])


def _closings(buffer: Packets) -> npt.NDArray[np.int64]:
    """`_closing` of each row's tail. Rows of one session look alike: those with the first one's TLV headers share its answer."""
    places = np.full(len(buffer), _NOT_NEEDED)
    if not len(buffer) or buffer.shape[1] <= _BASE:
        return places
    tails = buffer[:, _BASE:]
    first = tails[0].tobytes()
    headers = _headers(first)
    alike = (tails[:, headers] == tails[0, headers]).all(axis=1)
    places[alike] = _closing(first)
    for row in np.flatnonzero(~alike):
        places[row] = _closing(tails[row].tobytes())
    return places


def _headers(tail: bytes) -> list[int]:
    """Where types and lengths of a tail's TLVs lie, those of a torn one too."""
    places: list[int] = []
    at = 0
    while at < len(tail):
        places += range(at + 1, min(at + tlv.HEADER_BYTES, len(tail)))
        at += tlv.HEADER_BYTES + int.from_bytes(tail[at + 2 : at + 4])
    return places


def _closing(tail: bytes) -> int:
    """Where the value of the HMAC TLV starts in a tail; or that none is needed, or that it is not where it must be."""
    place, padded, others = _NOT_NEEDED, 0, 0
    try:
        for item, at in tlv.walk(tail):
            if item.type == tlv.Type.EXTRA_PADDING:
                padded += place == _NOT_NEEDED
            elif place != _NOT_NEEDED or (item.type == tlv.Type.HMAC and len(item.value) != HMAC_BYTES):
                return _BROKEN
            elif item.type == tlv.Type.HMAC:
                place = at + tlv.HEADER_BYTES
            else:
                others += 1
    except WireError:
        return _BROKEN
    if place != _NOT_NEEDED:
        return place
    return _NOT_NEEDED if others == 0 and padded <= 1 else _BROKEN
