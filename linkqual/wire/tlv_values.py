"""Values of the TLVs that a STAMP session asks for (RFC 8972 s4.2 to s4.7), each to and from its octets.

A sender fills in what is its own and leaves the rest zero; the reflector fills that. Reserved bits are sent as zero and
ignored. `decode` raises WireError for a length that the type does not have: the reflector then sets M. Floor 1, pure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from linkqual.errors import WireError
from linkqual.wire.tlv import Flag, Tlv, encode, parse

_PORTS = struct.Struct("!HH")
_CLASS_OF_SERVICE = struct.Struct("!I")
_COUNTERS = struct.Struct("!III")
_ACCESS = struct.Struct("!BBxx")
_FOLLOW_UP = struct.Struct("!IQB3x")
_ADDRESS_BYTES = 16


def _check(value: bytes, size: int, what: str) -> None:
    if len(value) != size:
        raise WireError(f"{what} of {len(value)} octets; it has {size}")


# ---- Location


class Place(IntEnum):
    """Sub-TLVs of Location (RFC 8972 s4.2); of an address, the plain one asks and names no family."""

    SOURCE_MAC = 1
    SOURCE_EUI48 = 2
    SOURCE_EUI64 = 3
    DESTINATION_IP = 4
    DESTINATION_IPV4 = 5
    DESTINATION_IPV6 = 6
    SOURCE_IP = 7
    SOURCE_IPV4 = 8
    SOURCE_IPV6 = 9


_PLACE_BYTES = {place: 8 if place <= Place.SOURCE_EUI64 else _ADDRESS_BYTES for place in Place}


@dataclass(frozen=True, slots=True)
class Location:
    """Ports and addresses of the request as the reflector received it: an address translator between both shows."""

    destination_port: int = 0
    source_port: int = 0
    places: tuple[Tlv, ...] = ()  # sub-TLVs: types of `Place`, and foreign ones

    @classmethod
    def asking(cls, places: Iterable[Place]) -> Location:
        """What a sender sends: zero, one sub-TLV for each place it asks for."""
        return cls(places=tuple(Tlv(place, bytes(_PLACE_BYTES[place])) for place in places))

    def answered(self, destination_port: int, source_port: int, source: bytes, destination: bytes) -> Location:
        """What a reflector answers: ports, and the addresses (4 or 16 octets, as packed) asked for. Other sub-TLVs go back with U.

        A sub-TLV whose length is not its type's goes back with M.
        """
        known: dict[int, tuple[Place, bytes]] = {
            Place.SOURCE_IP: (Place.SOURCE_IPV4 if len(source) == 4 else Place.SOURCE_IPV6, source),
            Place.DESTINATION_IP: (
                Place.DESTINATION_IPV4 if len(destination) == 4 else Place.DESTINATION_IPV6,
                destination,
            ),
        }
        return Location(destination_port, source_port, tuple(_answer_place(place, known) for place in self.places))

    def encode(self) -> bytes:
        """4 octets and the sub-TLVs."""
        return _PORTS.pack(self.destination_port, self.source_port) + encode(self.places)

    @classmethod
    def decode(cls, value: bytes) -> Location:
        """Raises WireError below 4 octets or when a sub-TLV runs past the end."""
        if len(value) < _PORTS.size:
            raise WireError(f"Location of {len(value)} octets; it has at least {_PORTS.size}")
        destination_port, source_port = _PORTS.unpack_from(value)
        return cls(destination_port, source_port, parse(value[_PORTS.size :]))

    def address(self, *kinds: Place) -> bytes | None:
        """The address (4 or 16 octets) in the first usable sub-TLV of these kinds."""
        for place in self.places:
            if place.type in kinds and not place.flags and len(place.value) == _ADDRESS_BYTES:
                short = place.type in (Place.DESTINATION_IPV4, Place.SOURCE_IPV4)
                return place.value[:4] if short else place.value
        return None


def _answer_place(place: Tlv, known: Mapping[int, tuple[Place, bytes]]) -> Tlv:
    if place.type not in known:
        return Tlv(place.type, place.value)
    if len(place.value) != _ADDRESS_BYTES:
        return Tlv(place.type, place.value, Flag.MALFORMED)
    kind, address = known[place.type]
    return Tlv(kind, address.ljust(_ADDRESS_BYTES, b"\0"), 0)


# ---- Timestamp Information


class SyncSource(IntEnum):
    """What a clock follows (RFC 8972 s5.4)."""

    UNKNOWN = 0
    NTP = 1
    PTP = 2
    SSU_BITS = 3
    GNSS = 4
    LOCAL = 5  # nothing: free-running


class TimestampMethod(IntEnum):
    """How a timestamp was taken (RFC 8972 s5.5); also the mode of Follow-Up Telemetry."""

    UNKNOWN = 0
    HARDWARE = 1
    SOFTWARE = 2  # local
    CONTROL_PLANE = 3


@dataclass(frozen=True, slots=True)
class TimestampInformation:
    """Clock and method of the reflector's T2 ("in") and T3 ("out") (RFC 8972 s4.3); values of `SyncSource`, `TimestampMethod`."""

    source_in: int = 0
    method_in: int = 0
    source_out: int = 0
    method_out: int = 0
    sub_tlvs: bytes = b""

    def encode(self) -> bytes:
        """4 octets and the sub-TLVs."""
        return bytes((self.source_in, self.method_in, self.source_out, self.method_out)) + self.sub_tlvs

    @classmethod
    def decode(cls, value: bytes) -> TimestampInformation:
        """Raises WireError below 4 octets or when a sub-TLV runs past the end."""
        if len(value) < 4:
            raise WireError(f"Timestamp Information of {len(value)} octets; it has at least 4")
        parse(value[4:])
        source_in, method_in, source_out, method_out = value[:4]
        return cls(source_in, method_in, source_out, method_out, value[4:])


# ---- Class of Service


@dataclass(frozen=True, slots=True)
class ClassOfService:
    """DSCP and ECN on the way there, and whether the reply could be marked as asked (RFC 8972 s4.4, erratum 8199)."""

    dscp1: int  # what the sender wants the reply marked with
    dscp2: int = 0  # of the request as the reflector received it
    ecn: int = 0  # of the same
    reverse_path: int = 0  # RP: 1 when local policy forbade DSCP1 and the reply keeps the DSCP received

    def encode(self) -> bytes:
        """4 octets."""
        bits = (self.dscp1 & 63) << 26 | (self.dscp2 & 63) << 20 | (self.ecn & 3) << 18 | (self.reverse_path & 3) << 16
        return _CLASS_OF_SERVICE.pack(bits)

    @classmethod
    def decode(cls, value: bytes) -> ClassOfService:
        """Raises WireError for any length but 4."""
        _check(value, _CLASS_OF_SERVICE.size, "Class of Service")
        (bits,) = _CLASS_OF_SERVICE.unpack(value)
        return cls(bits >> 26, bits >> 20 & 63, bits >> 18 & 3, bits >> 16 & 3)


# ---- counters and states


@dataclass(frozen=True, slots=True)
class DirectMeasurement:
    """In-profile packets of the session, modulo 2^32 (RFC 8972 s4.5): their differences between two replies are losses each way."""

    sender_tx: int = 0  # S_TxC
    reflector_rx: int = 0  # R_RxC
    reflector_tx: int = 0  # R_TxC

    def encode(self) -> bytes:
        """12 octets."""
        return _COUNTERS.pack(
            self.sender_tx & 0xFFFF_FFFF, self.reflector_rx & 0xFFFF_FFFF, self.reflector_tx & 0xFFFF_FFFF
        )

    @classmethod
    def decode(cls, value: bytes) -> DirectMeasurement:
        """Raises WireError for any length but 12."""
        _check(value, _COUNTERS.size, "Direct Measurement")
        return cls(*_COUNTERS.unpack(value))


@dataclass(frozen=True, slots=True)
class AccessReport:
    """State of an access network (RFC 8972 s4.6)."""

    IDS: ClassVar[tuple[int, ...]] = (1, 2)  # 3GPP, non-3GPP; a report of any other is discarded

    access_id: int
    return_code: int  # 1 available, 2 unavailable

    def encode(self) -> bytes:
        """4 octets."""
        return _ACCESS.pack((self.access_id & 15) << 4, self.return_code)

    @classmethod
    def decode(cls, value: bytes) -> AccessReport:
        """Raises WireError for any length but 4."""
        _check(value, _ACCESS.size, "Access Report")
        first, code = _ACCESS.unpack(value)
        return cls(first >> 4, code)


@dataclass(frozen=True, slots=True)
class FollowUp:
    """Follow-Up Telemetry (RFC 8972 s4.7): when the reply before this one really left.

    `timestamp` is the wire value, in the format of the reply's own Error Estimate; all zero: nothing to tell yet.
    """

    sequence: int = 0  # the reflector's, of an earlier reply
    timestamp: int = 0
    mode: int = 0  # a `TimestampMethod`

    def encode(self) -> bytes:
        """16 octets."""
        return _FOLLOW_UP.pack(self.sequence, self.timestamp, self.mode)

    @classmethod
    def decode(cls, value: bytes) -> FollowUp:
        """Of 16 octets, reserved ones ignored. Raises WireError for any other length."""
        _check(value, _FOLLOW_UP.size, "Follow-Up Telemetry")
        return cls(*_FOLLOW_UP.unpack(value))
