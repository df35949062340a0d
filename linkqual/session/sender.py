"""The Session-Sender's memory (RFC 8762 s4.2): a ring of packets in flight that turns into settled records, in sequence order.

A row is opened by `depart`, gains its kernel TX stamp by `transmitted` and its reply by `receive`, and leaves through
`settle` once nothing more can come: its reply is there, a moment for copies of it has passed, and the far end's own TX stamp
for it is there too (Follow-Up Telemetry of a later reply, RFC 8972 s4.7) or a grace has passed; or its timeout has passed. The ring is as long as the horizon in flight,
however many packets a session has.

The timeout is the line's: the time a packet lay in the far end's buffer (T3 - T2) does not count towards it.

Two clocks: records hold UTC; `now_ns` is monotonic and alone decides about timeouts, so a step of the wall clock loses
nothing. Floor 2, pure.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from linkqual.errors import UsageError
from linkqual.model import Json
from linkqual.records import ABSENT, Fate, Records, Stamp, empty_records
from linkqual.session.tails import Tails
from linkqual.units import NS_PER_S
from linkqual.wire import stamp, stamp_auth
from linkqual.wire.stamp import Mode
from linkqual.wire.timestamp import ns_column
from linkqual.wire.tlv import Type

_LOW_32, _HALF = stamp.SEQUENCE_MODULUS - 1, stamp.SEQUENCE_MODULUS // 2
_RECEIVED, _UNSENT, _LOST = int(Fate.RECEIVED), int(Fate.UNSENT), int(Fate.LOST)  # an IntEnum is slow in a loop
_T4 = np.uint8(Stamp.T4_KERNEL)
_INSTANTS = ("receive_timestamp", "timestamp", "follow_up_timestamp")
_BLOCK = 8192  # rows looked at in one go when settling
_MOST_COPIES = 255
_MOST_TX_DELAY_NS = NS_PER_S
_SHORTEST_REPLY = 41  # of TWAMP (RFC 5357 s4.2.1): the same fields at the same places, all of them MBZ from there on

Longs = npt.NDArray[np.int64]
Octets = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SenderSettings:
    """`capacity`: rows of the ring, a power of two; at least the packets sent in timeout + grace."""

    ssid: int
    packet_bytes: int
    timeout_ns: int
    grace_ns: int  # how long a reply waits for its Follow-Up stamp
    linger_ns: int  # how long a reply waits for copies of itself
    capacity: int
    window: int  # most packets in flight
    first_seq: int = 0
    follow_up: bool = True
    far_kernel: bool = True  # the far end stamps arrivals in its kernel: our own reflector does
    dscp: int = 0
    flow: int = 0
    key: bytes = b""  # of authenticated mode (RFC 8762 s4.4); empty: unauthenticated


@dataclass(slots=True)
class SenderCounters:
    """What came besides the replies that became records."""

    received: int = 0
    late: int = 0  # replies after their packet's timeout
    late_copies: int = 0  # copies of a reply whose record was settled already
    forward_copies: int = 0
    reverse_copies: int = 0
    malformed: int = 0  # too short, corrupt, or of another session
    wrong_key: int = 0  # not signed with the session's key: nothing in them was read
    unmarked: int = 0  # replies whose far end says that it could not mark them as asked (RP of Class of Service)
    unknown: int = 0  # replies to packets never sent


class SenderSession:
    """See the module's head."""

    def __init__(self, settings: SenderSettings, tails: Tails | None = None) -> None:
        """`tails`: reads the answers to TLVs asked for besides Follow-Up Telemetry."""
        if settings.capacity & (settings.capacity - 1) or settings.capacity < 2:
            raise UsageError(f"a ring of {settings.capacity} rows", hint="take a power of two")
        self.settings = settings
        self.counters = SenderCounters()
        self._mode = Mode.AUTHENTICATED if settings.key else Mode.UNAUTHENTICATED
        self._tails = tails
        self.next_seq = settings.first_seq
        self._head = settings.first_seq  # first row not settled
        self._heard = settings.first_seq  # everything below is answered, overtaken or given up: no longer in flight
        self._mask = settings.capacity - 1
        self._ring = empty_records(settings.capacity)
        self._fate, self._stamps = self._ring["fate"], self._ring["stamps"]
        self._blank = empty_records(1)[0]
        for name in ("packet_bytes", "dscp", "flow"):
            self._blank[name] = getattr(settings, name)
        self._blank["fate"] = _LOST  # until it is heard of
        self._departed = np.zeros(settings.capacity, np.int64)  # monotonic
        self._answered = np.zeros(settings.capacity, np.int64)  # monotonic
        self._follow_seq = np.full(settings.capacity, ABSENT)  # far_seq whose TX stamp lies beside it
        self._follow_ns = np.zeros(settings.capacity, np.int64)
        self._next_far = 0
        self._residence = 0  # how long the far end held the last reply
        self._far_bits = np.uint8(Stamp.T2_KERNEL if settings.far_kernel else 0)
        self._next_arrival = 0
        self._copies: dict[int, set[int]] = {}  # seq -> far_seq of its further replies

    @property
    def pending(self) -> int:
        """Rows not settled."""
        return self.next_seq - self._head

    @property
    def in_flight(self) -> int:
        """Packets that may still fill a buffer: sent, and none sent after them answered."""
        return self.next_seq - self._heard

    @property
    def far_behind(self) -> bool:
        """The far end takes a good part of the timeout to answer: sending more would only fill its buffer."""
        return self.in_flight > 0 and self._residence > self.settings.timeout_ns // 4

    def room(self) -> int:
        """How many packets may depart now."""
        if self.far_behind:
            return 0
        return min(self.settings.window - self.in_flight, self.settings.capacity - self.pending)

    def give_up_before(self, departed_ns: int) -> None:
        """Packets that left before this instant no longer count as in flight: an outage must not silence the sender."""
        waiting = np.arange(self._heard, self.next_seq) & self._mask
        self._heard += int(np.searchsorted(self._departed[waiting], departed_ns))

    # ---- on the way out

    def depart(self, intended_ns: Longs, sent_ns: int, now_ns: int, sizes: Longs | None = None) -> int:
        """Open rows for packets that leave now; `intended_ns` UTC, shape (n,), `sizes`: where they differ. The number of the first one."""
        first, count = self.next_seq, len(intended_ns)
        at = first & self._mask
        if at + count <= self.settings.capacity:
            self._open(slice(at, at + count), first, intended_ns, sent_ns, now_ns)
        else:
            fits = self.settings.capacity - at
            self._open(slice(at, None), first, intended_ns[:fits], sent_ns, now_ns)
            self._open(slice(0, count - fits), first + fits, intended_ns[fits:], sent_ns, now_ns)
        self.next_seq += count
        if sizes is not None:
            self._ring["packet_bytes"][np.arange(first, first + count) & self._mask] = sizes
        return first

    def _open(self, rows: slice, first: int, intended_ns: Longs, sent_ns: int, now_ns: int) -> None:
        ring = self._ring[rows]
        ring[:] = self._blank
        ring["seq"] = np.arange(first, first + len(intended_ns))
        ring["intended_ns"] = intended_ns
        ring["sent_ns"] = sent_ns
        self._departed[rows] = now_ns

    def not_sent(self, first: int, count: int) -> None:
        """The host could not send these: UNSENT, no trials of the line."""
        rows = np.arange(first, first + count) & self._mask
        self._fate[rows] = _UNSENT
        self._ring["sent_ns"][rows] = ABSENT

    def transmitted(self, seqs: Longs, sent_ns: Longs) -> None:
        """Kernel TX stamps. Those of rows settled, or a second away from the program's own stamp, are not used."""
        mine = (seqs >= self._head) & (seqs < self.next_seq)
        if not mine.all():
            seqs, sent_ns = seqs[mine], sent_ns[mine]
        rows = seqs & self._mask
        plausible = np.abs(sent_ns - self._ring["sent_ns"][rows]) < _MOST_TX_DELAY_NS
        if not plausible.all():
            rows, sent_ns = rows[plausible], sent_ns[plausible]
        self._ring["sent_ns"][rows] = sent_ns
        self._stamps[rows] |= int(Stamp.T1_KERNEL)

    # ---- on the way in

    def receive(self, packets: Octets, received_ns: Longs, ttl: Octets, tos: Octets, utc_ns: int, now_ns: int) -> None:
        """Replies of one length, shape (n, size), in the order they came, read at `utc_ns` = `now_ns`.

        `received_ns`: kernel RX stamps, ABSENT where there is none.
        """
        if packets.shape[1] < self._mode:
            if packets.shape[1] < _SHORTEST_REPLY or self.settings.key:
                self.counters.malformed += len(packets)
                return
            packets = np.pad(packets, ((0, 0), (0, self._mode - packets.shape[1])))
        trusted: Mask | None = None
        if self.settings.key:
            genuine = self._genuine(packets)
            packets, received_ns, ttl, tos = packets[genuine], received_ns[genuine], ttl[genuine], tos[genuine]
            if not len(packets):
                return
            trusted = stamp_auth.verified_tlvs(packets, self.settings.key)
        replies = stamp.reflector_rows(packets, self._mode)
        kernel = received_ns != ABSENT
        arrived = np.where(kernel, received_ns, utc_ns)
        back = (self.next_seq - 1 - replies["sender_sequence"].astype(np.int64) & _LOW_32) + 1  # 1: the last one sent
        valid = stamp.is_valid_reply(replies, self.settings.ssid)
        open_ = valid & (back <= self.pending)
        if not open_.all():
            self._count_strays(valid, back, open_)
            if not open_.any():
                return
            replies, kernel, arrived, back = replies[open_], kernel[open_], arrived[open_], back[open_]
            ttl, tos = ttl[open_], tos[open_]
            if trusted is not None:
                trusted = trusted[open_]
            if self._tails is not None:
                packets = packets[open_]
        far = self._unwrap_far(replies["sequence"])
        self._next_far = max(self._next_far, int(far.max()) + 1)
        instants = self._instants(replies)
        self._note_follow_ups(replies, instants, trusted)
        seqs = self.next_seq - back
        rows = seqs & self._mask
        residence = np.clip(instants[1] - instants[0], 0, self.settings.timeout_ns)
        self._residence = int(residence[-1])
        age = now_ns - (utc_ns - arrived) - self._departed[rows] - residence
        new = (self._fate[rows] != _RECEIVED) & (age <= self.settings.timeout_ns)
        if not (seqs[1:] > seqs[:-1]).all():
            firsts = np.zeros(len(seqs), np.bool_)
            firsts[np.unique(seqs, return_index=True)[1]] = True
            new &= firsts
        self._heard = max(self._heard, int(seqs.max()) + 1)
        if self._tails is not None:
            far = self._read_tails(self._tails, packets, trusted, rows, new, replies, far)
        if new.all():
            self._fill(rows, replies["sender_ttl"], instants, far, arrived, kernel, ttl, tos, now_ns)
        else:
            taken = (
                replies["sender_ttl"][new],
                instants[:, new],
                far[new],
                arrived[new],
                kernel[new],
                ttl[new],
                tos[new],
            )
            self._fill(rows[new], *taken, now_ns)
            self._count_copies(seqs[~new], far[~new])

    def _genuine(self, packets: Octets) -> Mask:
        """Which replies are signed with the session's key; nothing of the others is looked at (RFC 8762 s4.4)."""
        genuine = stamp_auth.verified(packets, self.settings.key)
        self.counters.wrong_key += len(packets) - int(genuine.sum())
        return genuine

    def _read_tails(
        self,
        tails: Tails,
        packets: Octets,
        trusted: Mask | None,
        rows: Longs,
        new: Mask,
        replies: stamp.Rows,
        far: Longs,
    ) -> Longs:
        """Keep what first replies say in their TLVs; the order of arrival at the far end, as far as it is told."""
        if packets.shape[1] < tails.end_bytes:
            return far
        usable = tails.usable(packets)
        if trusted is not None:
            usable &= trusted[:, None]
        tails.note(packets, usable & new[:, None])
        if tails.asks(Type.CLASS_OF_SERVICE):
            told, words = tails.column(packets, usable, Type.CLASS_OF_SERVICE)
            told &= new
            service = words[told, 0]  # DSCP1 6, DSCP2 6, ECN 2, RP 2, reserved 16 (RFC 8972 s4.4)
            self._ring["forward_tos"][rows[told]] = service >> 18 & 0xFF
            self.counters.unmarked += int((service >> 16 & 3 != 0).sum())
        if tails.asks(Type.DIRECT_MEASUREMENT) and not self.settings.far_kernel:
            told, words = tails.column(packets, usable, Type.DIRECT_MEASUREMENT)
            told &= replies["sequence"] == replies["sender_sequence"]  # a stateless reflector that counts all the same
            far = np.where(told, self._unwrap_far(words[:, 1].astype(np.uint32) - np.uint32(1)), far)
        return far

    def _instants(self, replies: stamp.Rows) -> Longs:
        """T2, T3 and the Follow-Up's in UTC ns, shape (3, n) or (2, n): decoded in one go, numpy's cost is by the call."""
        fields = _INSTANTS if "follow_up" in (replies.dtype.names or ()) else _INSTANTS[:2]
        wire = np.empty((len(fields), len(replies)), np.uint64)
        for row, field in enumerate(fields):
            wire[row] = replies[field]
        return ns_column(wire, replies["error"])

    def _fill(
        self,
        rows: Longs,
        forward_ttl: Octets,
        instants: Longs,
        far: Longs,
        arrived: Longs,
        kernel: npt.NDArray[np.bool_],
        ttl: Octets,
        tos: Octets,
        now_ns: int,
    ) -> None:
        ring, count = self._ring, len(rows)
        ring["far_received_ns"][rows] = instants[0]
        ring["far_sent_ns"][rows] = instants[1]
        ring["received_ns"][rows] = arrived
        ring["far_seq"][rows] = far
        ring["arrival"][rows] = np.arange(self._next_arrival, self._next_arrival + count)
        ring["forward_ttl"][rows] = forward_ttl
        ring["reverse_ttl"][rows] = ttl
        ring["tos"][rows] = tos
        self._fate[rows] = _RECEIVED
        self._stamps[rows] |= self._far_bits | kernel * _T4
        self._answered[rows] = now_ns
        self._next_arrival += count
        self.counters.received += count

    def _unwrap_far(self, sequence: npt.NDArray[np.unsignedinteger]) -> Longs:
        return (sequence.astype(np.int64) - (self._next_far - _HALF) & _LOW_32) + (self._next_far - _HALF)

    def _note_follow_ups(self, replies: stamp.Rows, instants: Longs, trusted: Mask | None) -> None:
        told = stamp.has_follow_up(replies)
        if trusted is not None:
            told &= trusted
        if not told.any():
            return
        far, sent = self._unwrap_far(replies["follow_up_sequence"]), instants[2]
        if not told.all():
            far, sent = far[told], sent[told]
        at = far & self._mask
        self._follow_seq[at] = far
        self._follow_ns[at] = sent

    def _count_strays(self, valid: npt.NDArray[np.bool_], back: Longs, open_: npt.NDArray[np.bool_]) -> None:
        self.counters.malformed += int((~valid).sum())
        for distance in back[valid & ~open_].tolist():
            if distance > self.next_seq - self.settings.first_seq:
                self.counters.unknown += 1
            elif (
                distance <= self.settings.capacity and self._fate[(self.next_seq - distance) & self._mask] == _RECEIVED
            ):
                self.counters.late_copies += 1
            else:
                self.counters.late += 1

    def _count_copies(self, seqs: Longs, fars: Longs) -> None:
        """Same far_seq: copied on the way back; another: copied on the way there, and answered twice by the far end."""
        for seq, far in zip(seqs.tolist(), fars.tolist(), strict=True):
            row = self._ring[seq & self._mask]
            if row["fate"] != _RECEIVED:
                self.counters.late += 1
                continue
            known = self._copies.setdefault(seq, {int(row["far_seq"])})
            way = "reverse_copies" if far in known else "forward_copies"
            known.add(far)
            row[way] = min(_MOST_COPIES, int(row[way]) + 1)
            setattr(self.counters, way, getattr(self.counters, way) + 1)

    # ---- settled

    def settle(self, now_ns: int) -> Records:
        """Rows from the head on to which nothing more can come; every reply that had arrived before `now_ns` must be in."""
        first = self._head
        while self._head < self.next_seq:
            rows = np.arange(self._head, min(self._head + _BLOCK, self.next_seq)) & self._mask
            ready = self._ready(rows, now_ns)
            count = len(rows) if ready.all() else int(np.argmin(ready))
            self._head += count
            if count < len(rows):
                break
        self._heard = max(self._heard, self._head)
        for seq in [seq for seq in self._copies if seq < self._head]:
            del self._copies[seq]
        return self._records(first, self._head)

    def _ready(self, rows: Longs, now_ns: int) -> npt.NDArray[np.bool_]:
        fate = self._fate[rows]
        patience = (
            self.settings.timeout_ns + self._residence * 5 // 4
        )  # of a far end that is behind, the next takes longer
        ready = (fate == _UNSENT) | ((fate == _LOST) & (now_ns - self._departed[rows] > patience))
        waited = now_ns - self._answered[rows]
        received = (fate == _RECEIVED) & (waited >= self.settings.linger_ns)
        if self.settings.follow_up:
            far = self._ring["far_seq"][rows]
            received &= (self._follow_seq[far & self._mask] == far) | (waited > self.settings.grace_ns)
        return np.asarray(ready | received)

    def _records(self, first: int, stop: int) -> Records:
        records: Records = self._ring[np.arange(first, stop) & self._mask]
        if len(records):
            self._apply_follow_ups(records)
        return records

    def _apply_follow_ups(self, records: Records) -> None:
        """Replace T3 by the far end's kernel TX stamp of that very reply where it came."""
        far = records["far_seq"]
        at = far & self._mask
        told = (records["fate"] == _RECEIVED) & (self._follow_seq[at] == far)
        records["far_sent_ns"][told] = self._follow_ns[at[told]]
        records["stamps"][told] |= int(Stamp.T3_KERNEL)

    def figures(self) -> dict[str, Json]:
        """The counters by name, and under `told` what the far end said in its TLVs."""
        return asdict(self.counters) | {"told": self._tails.told() if self._tails is not None else {}}
