"""What the replies of one session say in the TLVs that it asks for (RFC 8972 s4), read in columns.

The TLVs of a session's requests lie at fixed places, and a reflector answers each in its own place. An answer may be used when
the TLV there has kept its type and length and was understood (U is clear), no TLV up to it is malformed (M), and none failed the
integrity check (I). Floor 2, pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

import numpy as np
import numpy.typing as npt

from linkqual.errors import UsageError, WireError
from linkqual.model import Json
from linkqual.wire import tlv
from linkqual.wire.stamp import Mode
from linkqual.wire.tlv import Flag, Tlv, Type
from linkqual.wire.tlv_values import ClassOfService, DirectMeasurement, Location, Place, TimestampInformation

ASKABLE = {
    "class_of_service": Type.CLASS_OF_SERVICE,
    "direct_measurement": Type.DIRECT_MEASUREMENT,
    "location": Type.LOCATION,
    "timestamp_information": Type.TIMESTAMP_INFORMATION,
}
FOREIGN_ASKS = ("direct_measurement", "timestamp_information")  # of a reflector that nobody can be asked about
_FOLLOW_UP_BYTES = tlv.HEADER_BYTES + 16

Octets = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Longs = npt.NDArray[np.int64]


def requests(names: Sequence[str], dscp: int) -> tuple[Tlv, ...]:
    """TLVs to put into every request; `dscp`: the mark asked for on the way back. Raises UsageError for an unknown name."""
    made = {
        Type.CLASS_OF_SERVICE: lambda: ClassOfService(dscp1=dscp).encode(),
        Type.DIRECT_MEASUREMENT: lambda: DirectMeasurement().encode(),
        Type.LOCATION: lambda: Location.asking((Place.DESTINATION_IP, Place.SOURCE_IP)).encode(),
        Type.TIMESTAMP_INFORMATION: lambda: TimestampInformation().encode(),
    }
    for name in names:
        if name not in ASKABLE:
            raise UsageError(f"no sender asks for {name!r}", hint=f"choose from {', '.join(ASKABLE)}")
    return tuple(Tlv(ASKABLE[name], made[ASKABLE[name]]()) for name in dict.fromkeys(names))


def least_bytes(mode: Mode, names: Sequence[str], follow_up: bool = True) -> int:
    """Octets of the smallest packet that asks for these and for Follow-Up Telemetry: where padding begins in longer ones."""
    if not follow_up and not names:
        return int(mode)
    spared = 0 if follow_up else _FOLLOW_UP_BYTES
    return mode.follow_up_bytes - spared + tlv.total_bytes(requests(names, 0))


class Tails:
    """`template`: one request of the session, the HMACs and counters in it do not matter.

    `end_bytes`: where the last TLV asked for ends; a shorter reply answers none.
    """

    def __init__(self, template: bytes, mode: Mode = Mode.UNAUTHENTICATED) -> None:
        placed = [(item, int(mode) + at) for item, at in tlv.walk(template[mode:])]
        placed = [one for one in placed if one[0].type != Type.EXTRA_PADDING]
        self._kinds = np.array([item.type for item, _ in placed], np.uint8)
        self._lengths = np.array([len(item.value) for item, _ in placed], np.int64)
        self._places = np.array([at for _, at in placed], np.int64)
        self.end_bytes = max((at + tlv.HEADER_BYTES + len(item.value) for item, at in placed), default=0)
        self._index = {Type(item.type): row for row, (item, _) in enumerate(placed)}
        self.answered = dict.fromkeys((kind for kind in ASKABLE.values() if kind in self._index), 0)
        self.newest: dict[Type, bytes] = {}  # value of the last usable answer

    def asks(self, kind: Type) -> bool:
        """Whether requests carry that TLV."""
        return kind in self._index

    def place(self, kind: Type) -> int:
        """Where its value starts in a packet."""
        return int(self._places[self._index[kind]]) + tlv.HEADER_BYTES

    def usable(self, packets: Octets) -> npt.NDArray[np.bool_]:
        """Which answers may be used, shape (packets, TLVs asked for), of packets of at least `end_bytes`."""
        flags = packets[:, self._places]
        same = packets[:, self._places + 1] == self._kinds
        lengths = packets[:, self._places + 2].astype(np.int64) << 8 | packets[:, self._places + 3]
        sound = ~np.logical_or.accumulate((flags & Flag.MALFORMED != 0) | (lengths != self._lengths), axis=1)
        whole = ~(flags & Flag.INTEGRITY != 0).any(axis=1)
        understood = same & (flags & Flag.UNRECOGNISED == 0)
        return np.asarray(understood & sound & whole[:, None])

    def note(self, packets: Octets, usable: npt.NDArray[np.bool_]) -> None:
        """Count the usable answers and keep the newest of each kind."""
        for kind in self.answered:
            rows = np.flatnonzero(usable[:, self._index[kind]])
            self.answered[kind] += len(rows)
            if len(rows):
                self.newest[kind] = self._values(packets[rows[-1:]], kind).tobytes()

    def column(self, packets: Octets, usable: npt.NDArray[np.bool_], kind: Type) -> tuple[Mask, Longs]:
        """(where it may be used, the value as 32-bit words, shape (packets, words)) of one kind."""
        words = self._values(packets, kind).copy().view(">u4").astype(np.int64)
        return usable[:, self._index[kind]], words

    def _values(self, packets: Octets, kind: Type) -> Octets:
        at = self.place(kind)
        return packets[:, at : at + int(self._lengths[self._index[kind]])]

    def told(self) -> dict[str, Json]:
        """By the name of what was asked for: how many replies answered it, and what the newest said."""
        return {
            name: {"answered": self.answered[kind]} | _read(kind, self.newest.get(kind))
            for name, kind in ASKABLE.items()
            if kind in self.answered
        }


_READERS: dict[Type, Callable[[bytes], ClassOfService | DirectMeasurement | TimestampInformation]] = {
    Type.CLASS_OF_SERVICE: ClassOfService.decode,
    Type.DIRECT_MEASUREMENT: DirectMeasurement.decode,
    Type.TIMESTAMP_INFORMATION: TimestampInformation.decode,
}


def _read(kind: Type, value: bytes | None) -> dict[str, Json]:
    if value is None:
        return {}
    try:
        if kind is Type.LOCATION:
            return _location(Location.decode(value))
        figures = asdict(_READERS[kind](value))
        return {name: figure for name, figure in figures.items() if isinstance(figure, int)}
    except WireError as error:
        return {"unreadable": error.message}


def _location(said: Location) -> dict[str, Json]:
    """Ports and addresses of the request as the far end received it."""
    import ipaddress

    places = {
        "source": said.address(Place.SOURCE_IP, Place.SOURCE_IPV4, Place.SOURCE_IPV6),
        "destination": said.address(Place.DESTINATION_IP, Place.DESTINATION_IPV4, Place.DESTINATION_IPV6),
    }
    found = {name: str(ipaddress.ip_address(octets)) for name, octets in places.items() if octets is not None}
    return {"source_port": said.source_port, "destination_port": said.destination_port} | found
