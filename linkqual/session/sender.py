"""The Session-Sender's memory (RFC 8762 s4.2): a ring of packets in flight that turns into settled records, in sequence order.

A row is opened by `depart`, gains its kernel TX stamp by `transmitted` and its reply by `receive`, and leaves through
`settle` once nothing more can come: its reply is there, a moment for copies of it has passed, and the far end's own TX stamp
for it is there too (Follow-Up Telemetry of a later reply, RFC 8972 s4.7) or a grace has passed; or its timeout has passed.
Memory is that of the packets in flight, however many a session has.

The timeout is the line's: the time a packet lay in the far end's buffer (T3 - T2) does not count towards it, nor the time this host took to
let it go (T1 of the kernel less the program's).

Two clocks: records hold UTC; `now_ns` is monotonic and alone decides about timeouts, so a step of the wall clock loses
nothing. Floor 2, pure.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import numpy as np
import numpy.typing as npt

from linkqual.model import Json
from linkqual.records import ABSENT, Fate, Records, Stamp, empty_records
from linkqual.session import hardware
from linkqual.session.far_numbers import FarNumbers
from linkqual.session.hardware import Stopwatch
from linkqual.session.replies import Replies, columns, genuine
from linkqual.session.ring import Ring, Rows
from linkqual.session.strays import SenderCounters, Strays
from linkqual.session.tails import Tails
from linkqual.units import NS_PER_S
from linkqual.wire import stamp
from linkqual.wire.stamp import Mode
from linkqual.wire.tlv import Type

_LOW_32 = stamp.SEQUENCE_MODULUS - 1
_RECEIVED, _UNSENT, _LOST = int(Fate.RECEIVED), int(Fate.UNSENT), int(Fate.LOST)  # an IntEnum is slow in a loop
_T1, _T4 = int(Stamp.T1_KERNEL), int(Stamp.T4_KERNEL)
SETTLED_AT_ONCE = 4096  # rows at most that `settle` looks at and hands out
_MOST_TX_DELAY_NS = NS_PER_S
_NOTABLE_TX_DELAY_NS = 1_000_000

Longs = npt.NDArray[np.int64]
Octets = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SenderSettings:
    """`capacity`: most rows not settled, a power of two; at least the packets sent in the longest wait for one of them."""

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
    key: bytes = field(default=b"", repr=False)  # of authenticated mode (RFC 8762 s4.4); empty: unauthenticated
    one_way: bool = False  # nothing comes back: a row is settled, as LOST, once its TX stamp is there
    hardware: bool = False  # the network card stamps too


class SenderSession:
    """See the module's head."""

    def __init__(self, settings: SenderSettings, tails: Tails | None = None) -> None:
        """`tails`: reads the answers to TLVs asked for besides Follow-Up Telemetry."""
        self.settings = settings
        self.counters = SenderCounters()
        self._mode = Mode.AUTHENTICATED if settings.key else Mode.UNAUTHENTICATED
        self._tails = tails
        blank = empty_records(1)
        for name in ("packet_bytes", "dscp", "flow"):
            blank[name] = getattr(settings, name)
        blank["fate"] = _LOST  # until it is heard of
        self._ring = Ring(blank, settings.first_seq, settings.capacity)
        self._column = self._ring.columns
        self._heard = settings.first_seq  # everything below is answered, overtaken or given up: no longer in flight
        self._far = FarNumbers(self._ring, from_zero=settings.far_kernel)
        self._far_said: dict[str, int] = {}  # Error Estimate and SSID of a foreign reflector's last reply
        self._residence = 0  # how long the far end held the last reply
        self._stamped = (int(Stamp.T2_KERNEL) if settings.far_kernel else 0) | _T4  # of a reply with a kernel RX stamp
        self._next_arrival = 0
        self._strays = Strays(self._ring, self.counters, settings.first_seq)
        self._stopwatch = Stopwatch(self._ring) if settings.hardware else None

    @property
    def next_seq(self) -> int:
        """Of the next packet to depart."""
        return self._ring.next

    @property
    def pending(self) -> int:
        """Rows not settled."""
        return self._ring.pending

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
        waiting = self._ring.since[self._ring.span(self._heard, self.in_flight)]
        self._heard += int(np.searchsorted(waiting, departed_ns))

    # ---- on the way out

    def depart(self, intended_ns: Longs, sent_ns: int, now_ns: int, sizes: Longs | None = None) -> int:
        """Open rows for packets that leave now; `intended_ns` UTC, shape (n,), `sizes`: where they differ. The number of the first one."""
        first = self.next_seq
        rows = self._ring.open(len(intended_ns))
        self._column["intended_ns"][rows] = intended_ns
        self._column["sent_ns"][rows] = sent_ns
        self._ring.since[rows] = now_ns
        if sizes is not None:
            self._column["packet_bytes"][rows] = sizes
        return first

    def not_sent(self, first: int, count: int) -> None:
        """The host could not send these: UNSENT, no trials of the line."""
        rows = self._ring.span(first, count)
        self._column["fate"][rows] = _UNSENT
        self._column["sent_ns"][rows] = ABSENT

    def transmitted(self, seqs: Longs, sent_ns: Longs) -> None:
        """Kernel TX stamps. Those of rows settled, or a second away from the program's own stamp, are not used."""
        mine = (seqs >= self._ring.head) & (seqs < self.next_seq)
        if not mine.all():
            seqs, sent_ns = seqs[mine], sent_ns[mine]
        rows = self._ring.at(seqs)
        delay = sent_ns - self._column["sent_ns"][rows]
        plausible = np.abs(delay) < _MOST_TX_DELAY_NS
        if not plausible.all():
            seqs, sent_ns, delay = seqs[plausible], sent_ns[plausible], delay[plausible]
            rows = self._ring.at(seqs)
        if (
            delay.max(initial=0) > _NOTABLE_TX_DELAY_NS
        ):  # the time this host took does not count towards the timeout either
            self._ring.since[rows] += np.maximum(delay, 0) * (self._column["fate"][rows] == _LOST)
        self._column["sent_ns"][rows] = sent_ns
        self._column["stamps"][rows] |= _T1
        if self.settings.one_way and len(seqs):
            self._heard = max(self._heard, int(seqs.max()) + 1)

    def timed(self, seqs: Longs, stamps_ns: Longs) -> None:
        """TX stamps of the network card, on its own clock."""
        if self._stopwatch is not None:
            self._stopwatch.left(seqs, stamps_ns)

    # ---- on the way in

    def receive(
        self,
        packets: Octets,
        received_ns: Longs,
        ttl: Octets,
        tos: Octets,
        utc_ns: int,
        now_ns: int,
        hardware_ns: Longs | None = None,
    ) -> None:
        """Replies of one length, shape (n, size), in the order they came, read at `utc_ns` = `now_ns`.

        `received_ns`: kernel RX stamps, `hardware_ns`: those of the network card on its own clock, ABSENT where there is none.
        """
        came = columns(packets, received_ns, ttl, tos, utc_ns, hardware_ns, self._mode)
        replies = self._read(came, len(packets))
        if replies is None:
            return
        back = (self.next_seq - 1 - replies.rows["sender_sequence"].astype(np.int64) & _LOW_32) + 1  # 1: the last sent
        valid = stamp.is_valid_reply(replies.rows, self.settings.ssid)
        open_ = valid & (back <= self.pending)
        if not open_.all():
            self._count_strays(replies.pick(~open_), valid[~open_], back[~open_])
            if not open_.any():
                return
            replies, back = replies.pick(open_), back[open_]
        seqs = self.next_seq - back
        if not self.settings.far_kernel:
            self._far_said = {name: int(replies.rows[name][-1]) for name in ("error", "ssid")}
        far = self._far.met(replies.rows["sequence"])
        instants = replies.instants()
        if not self.settings.far_kernel:
            for row, name in enumerate(("receive_timestamp", "timestamp")):
                instants[row][replies.rows[name] == 0] = ABSENT  # a reflector that does not stamp
        self._note_follow_ups(replies, instants)
        new = self._first_in_time(seqs, replies, instants, utc_ns, now_ns)
        self._heard = max(self._heard, int(seqs.max()) + 1)
        if self._tails is not None:
            far = self._read_tails(self._tails, replies, seqs, new, far)
        if new.all():
            self._fill(seqs, replies, instants, far, now_ns)
        else:
            self._fill(seqs[new], replies.pick(new), instants[:, new], far[new], now_ns)
            self._strays.count_copies(seqs[~new], far[~new], self._over_ns(replies.pick(~new)), instants[1][~new])

    def _count_strays(self, replies: Replies, valid: Mask, back: Longs) -> None:
        instants, far = replies.instants(), self._far.unwrap(replies.rows["sequence"])
        self._strays.count(valid, back, far, self._over_ns(replies), instants[1])
        if valid.any():
            self._note_follow_ups(replies.pick(valid), instants[:, valid])

    def _note_follow_ups(self, replies: Replies, instants: Longs) -> None:
        told = self._far.note_follow_ups(replies, instants)
        if told is not None and self.settings.far_kernel:
            self._strays.followed(*told)

    def _over_ns(self, replies: Replies) -> Longs:
        """By how much the line exceeded the timeout: the time they lay at the far end is not the line's."""
        if not self.settings.far_kernel:  # the stamps of other reflectors may say anything
            return np.full(len(replies.packets), NS_PER_S)
        return replies.line_ns() - self.settings.timeout_ns

    def _read(self, came: Replies | None, count: int) -> Replies | None:
        """Those of `count` packets whose fields may be looked at; None: there is none."""
        if came is None:
            self.counters.malformed += count
        elif self.settings.key:
            came = genuine(came, self.settings.key)
            self.counters.wrong_key += count - len(came.packets)
        return came if came is not None and len(came.packets) else None

    def _first_in_time(self, seqs: Longs, replies: Replies, instants: Longs, utc_ns: int, now_ns: int) -> Mask:
        """Which replies are the first to their packet, and within its timeout."""
        rows, timeout = self._ring.at(seqs), self.settings.timeout_ns
        ours = self.settings.far_kernel  # the stamps of other reflectors may say anything
        self._residence = min(max(int(instants[1, -1]) - int(instants[0, -1]), 0), timeout) if ours else 0
        new: Mask = self._column["fate"][rows] != _RECEIVED
        since = self._ring.since[rows]
        if now_ns - int(since.min()) > timeout:
            residence = np.clip(instants[1] - instants[0], 0, timeout) if ours else 0
            unread = np.maximum(
                utc_ns - replies.arrived_ns, 0
            )  # less than nothing: the wall clock was set back meanwhile
            new &= now_ns - unread - since - residence <= timeout
        if not isinstance(rows, slice) and not (seqs[1:] > seqs[:-1]).all():
            firsts = np.zeros(len(seqs), np.bool_)
            firsts[np.unique(seqs, return_index=True)[1]] = True
            new &= firsts
        return new

    def _read_tails(self, tails: Tails, replies: Replies, seqs: Longs, new: Mask, far: Longs) -> Longs:
        """Keep what first replies say in their TLVs; the order of arrival at the far end, as far as it is told."""
        packets = replies.packets
        if packets.shape[1] < tails.end_bytes:
            return far
        usable = tails.usable(packets)
        if replies.trusted is not None:
            usable &= replies.trusted[:, None]
        tails.note(packets, usable & new[:, None])
        if tails.asks(Type.CLASS_OF_SERVICE):
            told, words = tails.column(packets, usable, Type.CLASS_OF_SERVICE)
            told &= new
            service = words[told, 0]  # DSCP1 6, DSCP2 6, ECN 2, RP 2, reserved 16 (RFC 8972 s4.4)
            self._column["forward_tos"][self._ring.at(seqs[told])] = service >> 18 & 0xFF
            self.counters.unmarked += int((service >> 16 & 3 != 0).sum())
        if tails.asks(Type.DIRECT_MEASUREMENT) and not self.settings.far_kernel:
            told, words = tails.column(packets, usable, Type.DIRECT_MEASUREMENT)
            told &= (
                replies.rows["sequence"] == replies.rows["sender_sequence"]
            )  # a stateless reflector that counts all the same
            far = np.where(told, self._far.unwrap(words[:, 1].astype(np.uint32) - np.uint32(1)), far)
        return far

    def _fill(self, seqs: Longs, replies: Replies, instants: Longs, far: Longs, now_ns: int) -> None:
        rows, column, count = self._ring.at(seqs), self._column, len(seqs)
        column["far_received_ns"][rows] = instants[0]
        column["far_sent_ns"][rows] = instants[1]
        column["received_ns"][rows] = replies.arrived_ns
        column["far_seq"][rows] = far
        column["arrival"][rows] = np.arange(self._next_arrival, self._next_arrival + count)
        column["forward_ttl"][rows] = replies.rows["sender_ttl"]
        column["reverse_ttl"][rows] = replies.ttl
        column["tos"][rows] = replies.tos
        column["fate"][rows] = _RECEIVED
        column["stamps"][rows] |= self._stamped - replies.unstamped * np.uint8(_T4)
        self._ring.since[rows] = now_ns
        if self._stopwatch is not None and replies.hardware_ns is not None:
            self._stopwatch.came(seqs, replies.hardware_ns)
        self._next_arrival += count
        self.counters.received += count

    # ---- settled

    def settle(self, now_ns: int) -> Records:
        """Rows from the head on to which nothing more can come, SETTLED_AT_ONCE at most: with so many there may be more.

        Every reply that had arrived before `now_ns` must be in.
        """
        count = min(SETTLED_AT_ONCE, self.pending)
        rows = self._ring.span(self._ring.head, count)
        ready = self._ready(rows, now_ns)
        if not ready.all():
            count = int(np.argmin(ready))
        intervals = None if self._stopwatch is None else self._stopwatch.intervals(rows)
        records = self._ring.take(self._ring.head + count)
        self._heard = max(self._heard, self._ring.head)
        self._strays.forget_settled()
        self._far.apply_follow_ups(records)
        if intervals is not None:
            self.counters.card_timed += hardware.apply(records, intervals[:count])
        return records

    def _ready(self, rows: Rows, now_ns: int) -> Mask:
        fate, waited = self._column["fate"][rows], now_ns - self._ring.since[rows]
        if self.settings.one_way:
            left = self._column["stamps"][rows] & _T1 != 0
            return np.asarray(left | (fate == _UNSENT) | (waited > self.settings.grace_ns))
        # where the far end is behind, the next packet takes longer still
        patience = self.settings.timeout_ns + self._residence * 5 // 4
        received = (fate == _RECEIVED) & (waited >= self.settings.linger_ns)
        if self.settings.follow_up:
            received &= self._ring.followed(self._column["far_seq"][rows]) | (waited > self.settings.grace_ns)
        ready: Mask = received | (fate == _UNSENT) | ((fate == _LOST) & (waited > patience))
        return ready

    def figures(self) -> dict[str, Json]:
        """The counters by name, under `told` what the far end said in its TLVs, under `far_said` a foreign one's other fields."""
        told = self._tails.told() if self._tails is not None else {}
        return asdict(self.counters) | {"told": told, "far_said": self._far_said}
