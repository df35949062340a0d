"""What a Session-Reflector answers in the TLVs of requests (RFC 8972 s4), in columns.

The requests of a session look alike: the places of their TLVs are found once a batch, and each kind is filled for all rows in
one go. Follow-Up Telemetry hands back when earlier replies really left, from a queue of kernel TX stamps. Floor 2, pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from linkqual.errors import WireError
from linkqual.wire import tlv
from linkqual.wire.stamp import SEQUENCE_MODULUS
from linkqual.wire.timestamp import TimestampFormat, ntp_column, ptp_column
from linkqual.wire.tlv import HEADER_BYTES, Flag, Type
from linkqual.wire.tlv_values import AccessReport, Location, SyncSource, TimestampInformation, TimestampMethod

MOST_TLVS = 64  # of one packet; those beyond go back as they came, with U set
_BY_VALUE = (Type.LOCATION, Type.TIMESTAMP_INFORMATION, Type.ACCESS_REPORT)  # the same for all packets of a session
_MOST_SHAPES = 64  # remembered
_LOW_32 = SEQUENCE_MODULUS - 1
_MOST_STAMPS = 8192  # kernel TX stamps waiting for a reply to travel in
_STALE_NS = 50_000_000  # stamps that a burst left behind must not delay those after them for ever
_FOLLOW_UP_BYTES, _COUNTER_BYTES, _CLASS_BYTES = 16, 12, 4
_FOLLOW_UP = np.dtype([("sequence", ">u4"), ("timestamp", ">u8"), ("mode", ">u4")])  # mode: 8 bits, 24 reserved
_FOLLOW_UP_SPOILT = 12  # octets that are zero when its length is wrong (erratum 8339): sequence number and timestamp

Longs = npt.NDArray[np.int64]
Octets = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]


class StampQueue:
    """Reply numbers and kernel TX stamps in the order they came, at most 8192; what comes then pushes the oldest out."""

    def __init__(self) -> None:
        self._numbers, self._stamps = np.zeros(_MOST_STAMPS, np.int64), np.zeros(_MOST_STAMPS, np.int64)
        self._first = self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, numbers: Longs, stamps: Longs) -> None:
        """The newest ones."""
        numbers, stamps = numbers[-_MOST_STAMPS:], stamps[-_MOST_STAMPS:]
        at = np.arange(self._first + self._count, self._first + self._count + len(numbers)) & _MOST_STAMPS - 1
        self._numbers[at], self._stamps[at] = numbers, stamps
        too_many = max(0, self._count + len(numbers) - _MOST_STAMPS)
        self._first += too_many
        self._count += len(numbers) - too_many

    def take(self, most: int) -> tuple[Longs, Longs]:
        """The oldest ones, at most so many: (numbers, stamps)."""
        found = self.first(most)
        self._first += len(found[0])
        self._count -= len(found[0])
        return found

    def first(self, most: int) -> tuple[Longs, Longs]:
        """As `take`, and they stay."""
        at = np.arange(self._first, self._first + min(most, self._count)) & _MOST_STAMPS - 1
        return self._numbers[at], self._stamps[at]

    def pairs(self) -> list[list[int]]:
        """All of them: [[number, stamp], ...]."""
        return np.column_stack(self.first(self._count)).tolist()  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Ends:
    """Where requests come from and go to, as this host receives them; addresses packed (4 or 16 octets), b"": unknown."""

    source: bytes = b""
    source_port: int = 0
    destination: bytes = b""
    destination_port: int = 0


@dataclass(slots=True)
class Replies:
    """What is known of one batch of replies, a row each."""

    tos: Octets  # of the request as received
    marks: Octets  # TOS of the reply; Class of Service changes it in place
    received: Longs  # R_RxC: packets of the session so far, this one included
    sent: Longs  # R_TxC: replies so far, this one included
    utc_ns: int

    def of(self, rows: Longs) -> Replies:
        """Copies of those rows."""
        return Replies(self.tos[rows], self.marks[rows], self.received[rows], self.sent[rows], self.utc_ns)


@dataclass(frozen=True, slots=True)
class Policy:
    """What this host says of itself and allows. `telemetry`: off in stateless mode (RFC 8972 s4.7)."""

    form: TimestampFormat = TimestampFormat.NTP
    source: int = SyncSource.LOCAL  # what its clock follows
    mark: bool = True  # replies may carry the DSCP a sender asks for
    telemetry: bool = True
    signed: bool = False  # HMAC TLVs are verified and filled in elsewhere, and understood


@dataclass(frozen=True, slots=True)
class _Shape:
    """Where a tail's TLVs lie. `places` and `octets` make it this shape: types and lengths, and the values of `_BY_VALUE`."""

    places: Longs
    octets: Octets
    parts: tuple[tuple[int, int, int], ...]  # type, offset of the value, its length
    torn: int | None  # offset of a header that runs past the packet


def _shape(tail: bytes) -> _Shape:
    places: list[int] = []
    parts: list[tuple[int, int, int]] = []
    at, torn = 0, None
    while at < len(tail) and len(parts) < MOST_TLVS:
        value = at + HEADER_BYTES
        places += range(at + 1, min(value, len(tail)))
        length = int.from_bytes(tail[at + 2 : value])
        if value + length > len(tail):
            torn = at
            break
        parts.append((tail[at + 1], value, length))
        at = value + length
        if tail[value - HEADER_BYTES + 1] in _BY_VALUE:
            places += range(value, at)
    return _Shape(np.array(places, np.int64), np.frombuffer(tail, np.uint8)[places], tuple(parts), torn)


class Answers:
    """One session's. `ends` may be set later, when the peer is known."""

    def __init__(self, policy: Policy) -> None:
        self.ends = Ends()
        self._policy = policy
        self._stamps, self._missed = StampQueue(), StampQueue()  # missed: too old to be waited for
        self._last: dict[int, _Shape] = {}  # by length of the tail
        self._fillers: dict[int, Callable[[Octets, Replies], bool]] = {
            Type.EXTRA_PADDING: lambda _values, _replies: True,
            Type.LOCATION: self._location,
            Type.TIMESTAMP_INFORMATION: self._timestamp_information,
            Type.CLASS_OF_SERVICE: self._class_of_service,
            Type.DIRECT_MEASUREMENT: self._direct_measurement,
            Type.ACCESS_REPORT: self._access_report,
            Type.FOLLOW_UP_TELEMETRY: self._follow_up,
        }
        if policy.signed:
            self._fillers[Type.HMAC] = lambda _values, _replies: True
        self._wire = ptp_column if policy.form is TimestampFormat.PTP else ntp_column

    # ---- kernel TX stamps

    def transmitted(self, numbers: Longs, sent_ns: Longs) -> None:
        """Kernel TX stamps (UTC) of replies, by their number in the reply counter; each goes into a later reply."""
        if self._policy.telemetry:
            self._stamps.put(numbers, sent_ns)

    def stamps_left(self) -> list[list[int]]:
        """[[reply number, kernel TX stamp], ...] that no reply has carried."""
        return [*self._missed.pairs(), *self._stamps.pairs()]

    # ---- tails

    def fill(self, tails: Octets, replies: Replies, intact: Mask | None = None) -> None:
        """Answer the tails of one length, shape (n, octets), in place; those not `intact` go back unread with I (s4.8)."""
        if intact is not None and not intact.all():
            for row in np.flatnonzero(~intact):
                tails[row] = np.frombuffer(tlv.answer(tails[row].tobytes(), {}, intact=False), np.uint8)
            self._fill_rows(tails, replies, np.flatnonzero(intact))
            return
        shape = self._last.get(tails.shape[1])
        if shape is None or not (tails[:, shape.places] == shape.octets).all():
            self._fill_rows(tails, replies, np.arange(len(tails)))
        else:
            self._fill(shape, tails, replies)

    def _fill_rows(self, tails: Octets, replies: Replies, rows: Longs) -> None:
        """Of any shapes, one shape after the other."""
        while len(rows):
            if len(self._last) >= _MOST_SHAPES:
                self._last.clear()
            shape = self._last[tails.shape[1]] = _shape(tails[rows[0]].tobytes())
            alike = (tails[rows][:, shape.places] == shape.octets).all(axis=1)
            taken, rows = rows[alike], rows[~alike]
            part, said = tails[taken], replies.of(taken)
            self._fill(shape, part, said)
            tails[taken], replies.marks[taken] = part, said.marks

    def _fill(self, shape: _Shape, tails: Octets, replies: Replies) -> None:
        if shape.parts and shape.parts[0][0] == 0:
            return  # padding of a sender without RFC 8972: no TLV has that type
        for kind, at, length in shape.parts:
            fill = self._fillers.get(kind)
            if fill is None:
                tails[:, at - HEADER_BYTES] = Flag.UNRECOGNISED
                continue
            try:
                understood = fill(tails[:, at : at + length], replies)
                tails[:, at - HEADER_BYTES] = 0 if understood else Flag.UNRECOGNISED
            except WireError:
                tails[:, at - HEADER_BYTES] = Flag.MALFORMED
        if shape.torn is not None:
            tails[:, shape.torn] = Flag.MALFORMED

    # ---- values: shape (n, length); False: not understood; WireError: a length that the type does not have

    def _follow_up(self, values: Octets, replies: Replies) -> bool:
        if values.shape[1] != _FOLLOW_UP_BYTES:
            values[:, :_FOLLOW_UP_SPOILT] = 0
            raise WireError("not the length of Follow-Up Telemetry")
        wanted, queue = len(values), self._stamps
        if len(queue) > wanted:
            waiting = queue.first(len(queue) - wanted)[1]
            fresh = np.flatnonzero(waiting >= replies.utc_ns - _STALE_NS)
            self._missed.put(*queue.take(int(fresh[0]) if len(fresh) else len(waiting)))
        numbers, stamps = queue.take(wanted)
        count = len(numbers)
        told = values.view(_FOLLOW_UP)[:, 0]
        if count:
            told["sequence"][:count] = numbers & _LOW_32
            told["timestamp"][:count] = self._wire(stamps)
        told["mode"] = TimestampMethod.SOFTWARE << 24
        if count < wanted:
            values[count:] = 0
        return True

    def _class_of_service(self, values: Octets, replies: Replies) -> bool:
        """DSCP1(6) DSCP2(6) ECN(2) RP(2): the reply is marked as asked and has the ECN of its request."""
        if values.shape[1] != _CLASS_BYTES:
            raise WireError("not the length of Class of Service")
        asked, came = values[:, 0] & 0xFC, replies.tos
        values[:, 0] = asked | came >> 6
        values[:, 1] = (came << 2) | (0 if self._policy.mark else 1)
        values[:, 2:] = 0
        replies.marks[:] = asked | came & 3 if self._policy.mark else came
        return True

    def _direct_measurement(self, values: Octets, replies: Replies) -> bool:
        if values.shape[1] != _COUNTER_BYTES:
            raise WireError("not the length of Direct Measurement")
        counters = np.column_stack((replies.received, replies.sent)) & _LOW_32
        values[:, 4:] = counters.astype(">u4").view(np.uint8).reshape(-1, 8)
        return True

    def _timestamp_information(self, values: Octets, _replies: Replies) -> bool:
        asked = TimestampInformation.decode(values[0].tobytes())
        source, method = self._policy.source, TimestampMethod.SOFTWARE
        said = replace(asked, source_in=source, method_in=method, source_out=source, method_out=method)
        values[:] = np.frombuffer(said.encode(), np.uint8)
        return True

    def _location(self, values: Octets, _replies: Replies) -> bool:
        ends, asked = self.ends, Location.decode(values[0].tobytes())
        said = asked.answered(ends.destination_port, ends.source_port, ends.source, ends.destination)
        values[:] = np.frombuffer(said.encode(), np.uint8)
        return True

    def _access_report(self, values: Octets, _replies: Replies) -> bool:
        """A report goes back as it came: that is its acknowledgement."""
        return AccessReport.decode(values[0].tobytes()).access_id in AccessReport.IDS
