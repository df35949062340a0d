"""Timestamps and error estimates of test packets: integer UTC nanoseconds to and from the wire, one by one and in columns.

    NTP 64-bit (RFC 5905 s6; Z = 0)            PTPv2 truncated (RFC 8877 s4.3; Z = 1)
    0              31 32             63        0              31 32             63
    +----------------+----------------+        +----------------+----------------+
    | seconds        | fraction       |        | seconds        | nanoseconds    |
    | since 1900 UTC | 1/2^32 s       |        | since 1970 TAI | 0..999999999   |
    +----------------+----------------+        +----------------+----------------+

Both are handled as one unsigned 64-bit integer, as they lie on the wire in network order. Fractions are rounded to nearest
in both directions: an instant in ns survives the round trip exactly (cutting off would lose 1 ns each time). The 32-bit
seconds are unfolded to the era nearest `near_ns`; its default covers 1970-01-01 to 2106-02-07 without asking a clock.
Many stacks put UTC seconds into the PTP format, so TAI - UTC is an argument (`tai_offset_s`, default 0), never inferred.

Error Estimate (RFC 4656 s4.1.2, RFC 8186 s2.3): error = Multiplier * 2^(Scale - 32) seconds
     15  14  13        8 7             0
    +---+---+-----------+---------------+
    | S | Z |   Scale   |  Multiplier   |
    +---+---+-----------+---------------+

Floor 1, pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from linkqual.errors import WireError
from linkqual.records import ABSENT
from linkqual.units import NS_PER_S

Instants = npt.NDArray[np.int64]  # UTC nanoseconds
Wire64 = npt.NDArray[np.uint64]  # timestamps as they lie on the wire, in host order

UNIX_EPOCH_IN_NTP = 2_208_988_800  # seconds from 1900-01-01 to 1970-01-01
DEFAULT_NEAR_NS = 2**31 * NS_PER_S  # the middle of the 2^32 seconds that start in 1970

_MASK = 0xFFFF_FFFF
_HALF_ERA = 2**31


class TimestampFormat(IntEnum):
    """The Z bit of an Error Estimate."""

    NTP = 0
    PTP = 1


# ---- one instant


def ntp_from_ns(ns: int) -> int:
    """64-bit NTP timestamp of UTC ns (RFC 5905 s6), rounded to the nearest fraction."""
    seconds, rest = divmod(ns, NS_PER_S)
    return ((seconds + UNIX_EPOCH_IN_NTP) & _MASK) << 32 | ((rest << 32) + NS_PER_S // 2) // NS_PER_S


def ns_from_ntp(value: int, near_ns: int = DEFAULT_NEAR_NS) -> int:
    """UTC ns of a 64-bit NTP timestamp, rounded to nearest, in the era nearest `near_ns`."""
    seconds = _unfold((value >> 32) - UNIX_EPOCH_IN_NTP, near_ns)
    return seconds * NS_PER_S + (((value & _MASK) * NS_PER_S + _HALF_ERA) >> 32)


def ptp_from_ns(ns: int, tai_offset_s: int = 0) -> int:
    """Truncated PTPv2 timestamp of UTC ns (RFC 8877 s4.3)."""
    seconds, rest = divmod(ns, NS_PER_S)
    return ((seconds + tai_offset_s) & _MASK) << 32 | rest


def ns_from_ptp(value: int, near_ns: int = DEFAULT_NEAR_NS, tai_offset_s: int = 0) -> int:
    """UTC ns of a truncated PTPv2 timestamp. Raises WireError when the nanoseconds reach a second."""
    rest = value & _MASK
    if rest >= NS_PER_S:
        raise WireError(f"PTP timestamp with {rest} ns: a second has {NS_PER_S}", hint="the peer sends another format")
    return _unfold((value >> 32) - tai_offset_s, near_ns) * NS_PER_S + rest


def encode(ns: int, form: TimestampFormat) -> int:
    """UTC ns in the format a Z bit announces."""
    return ptp_from_ns(ns) if form is TimestampFormat.PTP else ntp_from_ns(ns)


def decode(value: int, form: TimestampFormat, near_ns: int = DEFAULT_NEAR_NS) -> int:
    """UTC ns of a timestamp in the format a Z bit announces. Raises WireError (PTP only)."""
    return ns_from_ptp(value, near_ns) if form is TimestampFormat.PTP else ns_from_ntp(value, near_ns)


def _unfold(seconds: int, near_ns: int) -> int:
    near = near_ns // NS_PER_S
    return near + ((seconds - near + _HALF_ERA) & _MASK) - _HALF_ERA


# ---- columns of instants; same arithmetic, every product stays below 2^63


def ntp_column(ns: Instants) -> Wire64:
    """NTP timestamps, shape (N,), of UTC ns; assign it to a ">u8" field and numpy swaps the octets."""
    seconds, rest = np.divmod(ns, NS_PER_S)
    seconds += UNIX_EPOCH_IN_NTP
    seconds <<= 32  # what leaves at the top is the era
    seconds |= ((rest << 32) + NS_PER_S // 2) // NS_PER_S
    return seconds.view(np.uint64)


def ns_column_from_ntp(values: npt.NDArray[np.unsignedinteger], near_ns: int = DEFAULT_NEAR_NS) -> Instants:
    """UTC ns, shape (N,), of NTP timestamps in any byte order."""
    raw = np.asarray(values, np.uint64).view(np.int64)
    fraction = ((raw & _MASK) * NS_PER_S + _HALF_ERA) >> 32
    return _unfold_column((raw >> 32) - UNIX_EPOCH_IN_NTP, near_ns) * NS_PER_S + fraction


def ptp_column(ns: Instants, tai_offset_s: int = 0) -> Wire64:
    """Truncated PTPv2 timestamps, shape (N,), of UTC ns."""
    seconds, rest = np.divmod(ns, NS_PER_S)
    return (((seconds + tai_offset_s) << 32) | rest).view(np.uint64)


def ns_column_from_ptp(
    values: npt.NDArray[np.unsignedinteger], near_ns: int = DEFAULT_NEAR_NS, tai_offset_s: int = 0
) -> Instants:
    """UTC ns, shape (N,), of truncated PTPv2 timestamps; ABSENT where the nanoseconds reach a second."""
    raw = np.asarray(values, np.uint64).view(np.int64)
    rest = raw & _MASK
    whole = _unfold_column((raw >> 32) - tai_offset_s, near_ns) * NS_PER_S + rest
    return np.where(rest < NS_PER_S, whole, ABSENT)


def ns_column(
    values: npt.NDArray[np.unsignedinteger],
    estimates: npt.NDArray[np.unsignedinteger],
    near_ns: int = DEFAULT_NEAR_NS,
) -> Instants:
    """UTC ns, shape (N,), each row in the format the Z bit of its Error Estimate announces (a peer may mix them)."""
    ptp = (np.asarray(estimates, np.uint16) & _Z) != 0
    if not ptp.any():
        return ns_column_from_ntp(values, near_ns)
    return np.where(ptp, ns_column_from_ptp(values, near_ns), ns_column_from_ntp(values, near_ns))


def _unfold_column(seconds: Instants, near_ns: int) -> Instants:
    near = near_ns // NS_PER_S
    return near + (((seconds - near + _HALF_ERA) & _MASK) - _HALF_ERA)


# ---- Error Estimate

_S, _Z = 0x8000, 0x4000
_MAX_SCALE, _MAX_MULTIPLIER = 63, 255


@dataclass(frozen=True, slots=True)
class ErrorEstimate:
    """The two octets that say how far a timestamp may be off, and in which format the timestamps beside it are."""

    synchronised: bool = False  # S: the clock follows UTC through an external source
    form: TimestampFormat = TimestampFormat.NTP  # Z
    scale: int = _MAX_SCALE
    multiplier: int = _MAX_MULTIPLIER

    @classmethod
    def of(
        cls, error_ns: int | None, *, synchronised: bool = False, form: TimestampFormat = TimestampFormat.NTP
    ) -> ErrorEstimate:
        """The smallest figure not below `error_ns`, at the finest scale that can hold it; None: the largest there is."""
        if error_ns is not None:
            for scale in range(_MAX_SCALE + 1):
                multiplier = -((-error_ns << 32) // (NS_PER_S << scale))
                if multiplier <= _MAX_MULTIPLIER:
                    return cls(synchronised, form, scale, max(1, multiplier))  # 0 would mean a corrupt packet
        return cls(synchronised, form)

    @classmethod
    def from_wire(cls, value: int) -> ErrorEstimate:
        """Of 16 bits. Raises WireError for Multiplier 0, which marks the packet as corrupt (RFC 4656 s4.1.2)."""
        if not value & 0xFF:
            raise WireError("Error Estimate with Multiplier 0", hint="the peer's clock or its packets are not usable")
        return cls(bool(value & _S), TimestampFormat(bool(value & _Z)), value >> 8 & 0x3F, value & 0xFF)

    def to_wire(self) -> int:
        """16 bits."""
        return self.synchronised * _S | self.form * _Z | self.scale << 8 | self.multiplier

    @property
    def error_ns(self) -> int:
        """Nanoseconds, rounded up: a bound stays a bound."""
        return -((-self.multiplier * NS_PER_S << self.scale) >> 32)
