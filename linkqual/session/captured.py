"""STAMP sessions as a capture shows them: requests and replies matched by number, told as packet records in sending order.

Nothing of the engine is used: what passed a point of the path is read from the wire, with the stamps of whoever captured it. From
the point of capture a packet takes four legs, and where it was lost shows so:

    sender --a--> capture --b--> reflector --c--> capture --d--> sender

- lost on a: its number is missing among the requests seen;
- lost on b or c: its request was seen and no reply. The reflector's own numbers tell b from c when it counts (RFC 8762 s4.3:
  stateful), by totals: what was sent less what it answered, and what it answered less what came. After the last reply, and with
  a reflector that copies the sender's numbers, nobody can tell;
- lost on d: cannot be seen from here. At the sender's own end there is no a and no d, at the reflector's no b and no c.

Memory is that of the packets of one timeout. Floor 2, pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from linkqual.records import ABSENT, Fate, Records, Stamp, empty_records
from linkqual.session.captured_numbers import Attribution, Numbers, unwrapped
from linkqual.units import NS_PER_S
from linkqual.wire import timestamp, tlv
from linkqual.wire.frame import Datagram
from linkqual.wire.stamp import FOLLOW_UP_REPLY, Mode
from linkqual.wire.stamp_packet import REFLECTOR
from linkqual.wire.timestamp import TimestampFormat

MOST_MISSING = 2**24  # numbers in a row; a longer gap is another beginning, not a loss
_LINGER_NS = 2 * NS_PER_S  # beyond the timeout: for late replies and copies
_CHUNK = 8192
_MOST_COPIES = 255
_FOLLOW_UP_END = 17  # octets of the TLV up to its mode


class Key(NamedTuple):
    """Addresses are packed, 4 or 16 octets."""

    sender: bytes
    sender_port: int
    reflector: bytes
    reflector_port: int
    ssid: int


@dataclass(slots=True)
class Counts:
    """Of what a session's records do not show."""

    requests: int = 0  # every copy
    replies: int = 0
    request_copies: int = 0  # made before the capture
    unseen: int = 0  # answered, but their request was not captured: the capture is not complete
    late: int = 0  # replies after the timeout
    stragglers: int = 0  # packets of numbers settled long before
    elsewhere: int = 0  # seen again on another interface: not counted as copies
    jumps: int = 0  # numbers far ahead of the last: another beginning
    uncorrected: int = (
        0  # replies whose T3 no Follow-Up put right, of a reflector that sends them: left out of the delays
    )
    unfinished: int = 0  # without a reply within the timeout before the capture's end


@dataclass(slots=True)
class _Row:
    t1_ns: int = ABSENT
    request_ns: int = ABSENT
    reply_ns: int = ABSENT
    far_received_ns: int = ABSENT
    far_sent_ns: int = ABSENT
    far_seq: int = ABSENT
    arrival: int = ABSENT
    packet_bytes: int = 0
    forward_ttl: int = 0
    reverse_ttl: int = 0
    dscp: int = 0
    tos: int = 0
    forward_copies: int = 0
    reverse_copies: int = 0
    stamps: int = 0
    fars: set[int] = field(default_factory=set)


_COLUMNS = (
    ("intended_ns", "t1_ns"), ("sent_ns", "request_ns"), ("received_ns", "reply_ns"), ("far_received_ns", "far_received_ns"),
    ("far_sent_ns", "far_sent_ns"), ("far_seq", "far_seq"), ("arrival", "arrival"), ("packet_bytes", "packet_bytes"),
    ("forward_ttl", "forward_ttl"), ("reverse_ttl", "reverse_ttl"), ("dscp", "dscp"), ("tos", "tos"),
    ("forward_copies", "forward_copies"), ("reverse_copies", "reverse_copies"), ("stamps", "stamps"),
)  # fmt: skip


class CapturedSession:
    """One session: packets go in as they were captured, records come out in order of sequence number."""

    def __init__(self, key: Key, mode: Mode, timeout_ns: int) -> None:
        self.key, self.mode = key, mode
        self.counts = Counts()
        self.first_ns = self.last_ns = ABSENT  # requests
        self._timeout_ns = timeout_ns
        self._rows: dict[int, _Row] = {}
        self._seen: deque[tuple[int, int]] = deque()  # (when, number) of the rows, as they were opened
        self._by_far: dict[int, _Row] = {}
        self._head: int | None = None  # everything below is settled
        self._newest: int | None = None
        self._next_arrival = 0
        self._places: dict[str, Hashable] = {}
        self._numbers = Numbers()
        self._corrects = False  # the reflector sends Follow-Ups: T3 in a reply is its program's

    # ---- packets

    def request(self, packet: Datagram, ns: int, place: Hashable = 0) -> None:
        """A Session-Sender packet captured at `ns`."""
        if not self._here("request", place):
            return
        self.counts.requests += 1
        seq = self._unwrap(int.from_bytes(packet.payload[:4]))
        row = self._rows.get(seq)
        if row is None:
            if not self._open(seq, ns):
                return
            row = self._rows[seq]
        elif row.request_ns != ABSENT:
            self.counts.request_copies += 1
            return
        row.request_ns, row.packet_bytes, row.dscp = ns, packet.payload_bytes, packet.tos >> 2
        row.t1_ns = self._t1(packet.payload)
        row.stamps |= int(Stamp.T1_KERNEL)
        self.first_ns = ns if self.first_ns == ABSENT else self.first_ns
        self.last_ns = ns
        self._numbers.sent(seq)

    def reply(self, packet: Datagram, ns: int, place: Hashable = 0) -> None:
        """A Session-Reflector packet captured at `ns`."""
        if not self._here("reply", place):
            return
        self.counts.replies += 1
        octets = packet.payload.ljust(self.mode, b"\0")  # TWAMP's is three octets shorter
        number, t3, error, _, t2, sender_number, t1, t1_error, ttl = REFLECTOR[self.mode].unpack_from(octets)
        seq, form = self._unwrap(sender_number), TimestampFormat(bool(error & 0x4000))
        row = self._rows.get(seq)
        if row is None:
            if not self._open(seq, ns):
                return
            row = self._rows[seq]
        told = self._follow_up(octets, form)
        far = self._numbers.answered(seq, number, row.fars, counting=told)
        if row.reply_ns != ABSENT:
            way = "reverse_copies" if far in row.fars else "forward_copies"
            setattr(row, way, min(_MOST_COPIES, getattr(row, way) + 1))
            row.fars.add(far)
            return
        row.fars.add(far)
        row.reply_ns, row.far_seq, row.arrival = ns, far, self._next_arrival
        row.far_received_ns, row.far_sent_ns = _instant(t2, form), _instant(t3, form)
        row.t1_ns = _instant(t1, TimestampFormat(bool(t1_error & 0x4000))) if row.t1_ns == ABSENT else row.t1_ns
        row.forward_ttl, row.reverse_ttl, row.tos = ttl, packet.ttl, packet.tos
        row.stamps |= int(Stamp.T4_KERNEL)
        self._by_far[far] = row
        self._next_arrival += 1

    def _t1(self, octets: bytes) -> int:
        """What the sender wrote; to a packet cut short, ABSENT."""
        at = self.mode.timestamp_at
        if len(octets) < at + 10:
            return ABSENT
        form = TimestampFormat(bool(octets[at + 8] & 0x40))
        return _instant(int.from_bytes(octets[at : at + 8]), form)

    def _here(self, kind: str, place: Hashable) -> bool:
        """Whether it passed the interface where packets of this kind were seen first."""
        if self._places.setdefault(kind, place) == place:
            return True
        self.counts.elsewhere += 1
        return False

    def _unwrap(self, number: int) -> int:
        return number if self._newest is None else unwrapped(number, self._newest)

    def _open(self, seq: int, ns: int) -> bool:
        """A row for a number not seen so far, unless it is settled."""
        if self._head is not None and seq < self._head:
            self.counts.stragglers += 1
            return False
        newest = seq if self._newest is None else self._newest
        self.counts.jumps += seq - newest > MOST_MISSING
        self._rows[seq] = _Row()
        self._seen.append((ns, seq))
        self._newest = max(newest, seq)
        return True

    def _follow_up(self, octets: bytes, form: TimestampFormat) -> bool:
        """Put T3 of an earlier reply right (RFC 8972 s4.7). True when the reflector tells one, which only a counting one does."""
        data = octets[self.mode : self.mode + _FOLLOW_UP_END]
        if len(data) < _FOLLOW_UP_END or int.from_bytes(data[: tlv.HEADER_BYTES]) != FOLLOW_UP_REPLY:
            return False
        number, value = int.from_bytes(data[4:8]), int.from_bytes(data[8:16])
        if not value:
            return False
        self._corrects = True
        row = self._by_far.get(self._numbers.unwrap(number))
        if row is not None:
            row.far_sent_ns = _instant(value, form)
            row.stamps |= int(Stamp.T3_KERNEL)
        return True

    # ---- records

    def settle(self, now_ns: int) -> Iterator[Records]:
        """Rows to which nothing more can come, missing numbers among them, in order and in chunks."""
        stop, old = self._head, now_ns - self._timeout_ns - _LINGER_NS
        while self._seen and self._seen[0][0] < old:
            seq = self._seen.popleft()[1]
            stop = seq + 1 if stop is None else max(stop, seq + 1)
        if stop is not None and self._rows:
            yield from self._settle_below(stop)

    def finish(self, now_ns: int) -> Iterator[Records]:
        """Everything left; `now_ns`: when the capture ended."""
        self.counts.unfinished = sum(
            row.reply_ns == ABSENT and now_ns - row.request_ns < self._timeout_ns for row in self._rows.values()
        )
        if self._rows:
            yield from self._settle_below(max(self._rows) + 1)

    def _settle_below(self, stop: int) -> Iterator[Records]:
        seqs = sorted(seq for seq in self._rows if seq < stop)
        start = seqs[0] if self._head is None and seqs else self._head
        if start is None:
            return
        self._head = max(stop, start)
        for first in range(0, len(seqs), _CHUNK):
            part = seqs[first : first + _CHUNK]
            rows = [self._rows.pop(seq) for seq in part]
            for row in rows:
                self._by_far.pop(row.far_seq, None)
            yield from _with_missing(self._records(part, rows), start)
            start = part[-1] + 1

    def _records(self, seqs: list[int], rows: list[_Row]) -> Records:
        records = empty_records(len(rows))
        records["seq"] = seqs
        for column, name in _COLUMNS:
            records[column] = [getattr(row, name) for row in rows]
        held = np.clip(records["far_sent_ns"] - records["far_received_ns"], 0, self._timeout_ns)
        answered, seen = records["received_ns"] != ABSENT, records["sent_ns"] != ABSENT
        age = np.where(answered & seen, records["received_ns"] - records["sent_ns"] - held, 0)
        late = age > self._timeout_ns
        self.counts.late += int(late.sum())
        self.counts.unseen += int((answered & ~seen).sum())
        if self._corrects:
            records["stamps"][answered] |= int(Stamp.T2_KERNEL)  # so delays leave out a T3 that is the program's
            self.counts.uncorrected += int((answered & ((records["stamps"] & int(Stamp.T3_KERNEL)) == 0)).sum())
        records["fate"] = np.where(answered & ~late, Fate.RECEIVED, Fate.LOST)
        return records

    def attribution(self) -> Attribution:
        """Totals since the session's beginning, or since its first reply when that was before the capture."""
        if self.counts.jumps:
            return Attribution(reason="the sender's numbers begin anew in the middle")
        return self._numbers.attribution()


def _with_missing(records: Records, start: int) -> Iterator[Records]:
    """The records, and before each a row for every number from `start` on that was never seen: lost before the capture."""
    seqs = records["seq"]
    before = np.concatenate([[start], seqs[:-1] + 1])
    gaps = np.flatnonzero(seqs > before)
    done = 0
    for gap in gaps.tolist():
        if gap > done:
            yield records[done:gap]
        done = gap
        first, stop = int(before[gap]), int(seqs[gap])
        if stop - first > MOST_MISSING:
            continue
        for at in range(first, stop, _CHUNK):
            missing = empty_records(min(_CHUNK, stop - at), at)
            missing["fate"] = Fate.LOST_FORWARD
            yield missing
    yield records[done:]


def _instant(value: int, form: TimestampFormat) -> int:
    """UTC ns; of a PTP timestamp whose nanoseconds reach a second, ABSENT."""
    if form is TimestampFormat.PTP and value & 0xFFFF_FFFF >= NS_PER_S:
        return ABSENT
    return timestamp.decode(value, form)
