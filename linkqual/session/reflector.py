"""The stateful Session-Reflector (RFC 8762 s4.3, RFC 8972): batches of requests turned into replies in place.

It answers one session of one peer: rows of another SSID, corrupt or beyond its caps are counted and left unanswered, and a
reply is exactly as long as its request. Its own counter numbers the replies, so that the peer can tell losses of both ways
apart; a bit for every Session-Sender sequence number remembers what arrived. The kernel TX stamps of replies go back
through a queue, one in the Follow-Up Telemetry TLV of each later reply. Floor 2, pure.
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from linkqual.units import NS_PER_S
from linkqual.wire import stamp, tlv, tlv_values
from linkqual.wire.timestamp import ErrorEstimate, ntp_column, ntp_from_ns

_LOW_32, _HALF = stamp.SEQUENCE_MODULUS - 1, stamp.SEQUENCE_MODULUS // 2
_MOST_STAMPS_KEPT = 8192  # kernel TX stamps waiting for a reply to travel in
_STALE_NS = 50_000_000  # stamps that a burst left behind must not delay those after them for ever
_SOFTWARE_LOCAL = 2  # RFC 8972 s5.5
_BURST_S = 0.25  # a caller catching up after a stall may send this much of a second at once
_FIRST_BITMAP_BYTES = 4096
_BITS = np.left_shift(1, np.arange(8)).astype(np.uint8)

Longs = npt.NDArray[np.int64]
Octets = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ReflectorSettings:
    """Caps are the reflector's own. `max_packets` bounds the bitmap of arrivals too: sequence numbers beyond it are refused."""

    ssid: int
    max_pps: int
    max_packets: int
    max_bytes: int
    error: ErrorEstimate
    first_seq: int = 0


@dataclass(slots=True)
class ReflectorCounters:
    """Every packet that came is in exactly one of: answered, unanswered, foreign, malformed, wrong_ssid, over_cap."""

    answered: int = 0
    unanswered: int = 0  # the host could not send the reply
    foreign: int = 0  # from another address or port
    malformed: int = 0
    wrong_ssid: int = 0
    over_cap: int = 0
    duplicates: int = 0  # of those answered: a sequence number seen before
    received_bytes: int = 0  # UDP payload of what was admitted
    unstamped: int = 0  # without a kernel RX stamp: T2 is the program's own


class ReflectorSession:
    """See the module's head."""

    def __init__(self, settings: ReflectorSettings) -> None:
        self.settings = settings
        self.counters = ReflectorCounters()
        self.next_far = 0  # the reply counter
        self._tokens = self._burst = max(64.0, settings.max_pps * _BURST_S)
        self._filled_ns: int | None = None
        self._admitted = 0
        self._next_seq = settings.first_seq  # reference for unwrapping
        self._bits = np.zeros(_FIRST_BITMAP_BYTES, np.uint8)
        self._stamps: deque[tuple[int, int]] = deque(maxlen=_MOST_STAMPS_KEPT)
        self._missed: deque[tuple[int, int]] = deque(maxlen=_MOST_STAMPS_KEPT)  # too old to be waited for

    def admit(self, packets: Octets, from_peer: Mask, now_ns: int) -> Mask:
        """Which requests, all of one length, shape (n, size), will be answered; the others are counted. `now_ns` monotonic."""
        count, size = packets.shape
        counters = self.counters
        strangers = count - int(from_peer.sum())
        counters.foreign += strangers
        if size < stamp.BASE_BYTES:
            counters.malformed += count - strangers
            return np.zeros(count, np.bool_)
        requests = stamp.sender_rows(packets)
        ours = requests["ssid"] == self.settings.ssid
        sound = ((requests["error"] & 0xFF) != 0) & self._in_range(requests["sequence"])
        admitted: Mask = from_peer & ours & sound
        if not admitted.all():
            counters.wrong_ssid += int((from_peer & ~ours).sum())
            counters.malformed += int((from_peer & ours & ~sound).sum())
        wanted = int(admitted.sum())
        allowed = self._allowance(wanted, size, now_ns)
        if allowed < wanted:
            counters.over_cap += wanted - allowed
            admitted[np.flatnonzero(admitted)[allowed:]] = False
        return admitted

    def answer(self, packets: Octets, received_ns: Longs, ttl: Octets, utc_ns: int) -> int:
        """Rewrite admitted requests of one length into replies that leave now; the first one's number in the reply counter.

        `received_ns`: T2, kernel RX stamps; `utc_ns`: T3 as far as the program knows it.
        """
        count, size = packets.shape
        self._note_arrivals(stamp.sender_rows(packets)["sequence"])
        first = self.next_far
        self.next_far += count
        self.counters.received_bytes += count * size
        replies = stamp.reflect(
            packets,
            sequence=np.arange(first, first + count) & _LOW_32,
            receive_timestamp=ntp_column(received_ns),
            ttl=ttl,
            error=self.settings.error,
        )
        if size >= stamp.FOLLOW_UP_BYTES:
            self._answer_tails(packets, replies, utc_ns)
        replies["timestamp"] = ntp_from_ns(utc_ns)
        self.counters.answered += count
        return first

    def transmitted(self, numbers: Longs, sent_ns: Longs) -> None:
        """Kernel TX stamps (UTC) of replies, by their number in the reply counter; each goes into a later reply."""
        self._stamps.extend(zip(numbers.tolist(), sent_ns.tolist(), strict=True))

    def not_sent(self, count: int) -> None:
        """The host refused so many of the replies counted as answered."""
        self.counters.answered -= count
        self.counters.unanswered += count

    def stamps_left(self) -> list[list[int]]:
        """[[reply number, kernel TX stamp], ...] that no reply has carried."""
        return [list(pair) for pair in (*self._missed, *self._stamps)]

    def arrived(self, first_seq: int, count: int) -> bytes:
        """One bit a sequence number from `first_seq` on, lowest bit first: whether it arrived."""
        bits = np.zeros(count, np.uint8)
        first = first_seq - self.settings.first_seq
        begin, end = max(first, 0), min(first + count, 8 * len(self._bits))
        if begin < end:  # octets, not numbers one by one: meanwhile no packet is answered
            octets = self._bits[begin >> 3 : (end + 7) >> 3]
            skipped = begin & 7
            known = np.unpackbits(octets, bitorder="little")[skipped : skipped + end - begin]
            bits[begin - first : end - first] = known
        return np.packbits(bits, bitorder="little").tobytes()

    def figures(self) -> dict[str, int]:
        """The counters by name."""
        return asdict(self.counters)

    # ---- caps

    def _allowance(self, wanted: int, size: int, now_ns: int) -> int:
        """A token bucket of `max_pps`, and the totals."""
        elapsed = 0 if self._filled_ns is None else max(0, now_ns - self._filled_ns)
        self._filled_ns = now_ns
        self._tokens = min(self._burst, self._tokens + elapsed * self.settings.max_pps / NS_PER_S)
        left = (self.settings.max_bytes - self.counters.received_bytes) // size
        allowed = max(0, min(wanted, int(self._tokens), self.settings.max_packets - self._admitted, left))
        self._tokens -= allowed
        self._admitted += allowed
        return allowed

    # ---- arrivals

    def _unwrap(self, sequence: npt.NDArray[np.unsignedinteger]) -> Longs:
        oldest = self._next_seq - _HALF
        return (sequence.astype(np.int64) - oldest & _LOW_32) + oldest

    def _in_range(self, sequence: npt.NDArray[np.unsignedinteger]) -> Mask:
        offsets = self._unwrap(sequence) - self.settings.first_seq
        return (offsets >= 0) & (offsets < self.settings.max_packets)

    def _note_arrivals(self, sequence: npt.NDArray[np.unsignedinteger]) -> None:
        seqs = self._unwrap(sequence)
        newest = int(seqs.max())
        self._next_seq = max(self._next_seq, newest + 1)
        offsets = seqs - self.settings.first_seq
        if (newest - self.settings.first_seq) >> 3 >= len(self._bits):
            self._grow((newest - self.settings.first_seq >> 3) + 1)
        at, bit = offsets >> 3, _BITS[offsets & 7]
        fresh = offsets[self._bits[at] & bit == 0]
        distinct = len(fresh) if (fresh[1:] > fresh[:-1]).all() else len(np.unique(fresh))
        self.counters.duplicates += len(offsets) - distinct
        np.bitwise_or.at(self._bits, at, bit)

    def _grow(self, needed: int) -> None:
        bigger = np.zeros(max(needed, 2 * len(self._bits)), np.uint8)
        bigger[: len(self._bits)] = self._bits
        self._bits = bigger

    # ---- TLVs

    def _answer_tails(self, packets: Octets, replies: stamp.Rows, utc_ns: int) -> None:
        """Our own layout on columns; any other tail one by one, as RFC 8972 s4 wants it."""
        own = replies["follow_up"] == stamp.FOLLOW_UP_REPLY
        wanted = int(own.sum())
        while len(self._stamps) > wanted and self._stamps[0][1] < utc_ns - _STALE_NS:
            self._missed.append(self._stamps.popleft())
        count = min(len(self._stamps), wanted)
        taken = [self._stamps.popleft() for _ in range(count)]
        rows = np.flatnonzero(own)
        replies["follow_up_sequence"][rows[count:]] = 0
        replies["follow_up_timestamp"][rows[count:]] = 0
        replies["follow_up_mode"][rows[count:]] = 0
        if count:
            table = np.array(taken, np.int64)
            replies["follow_up_sequence"][rows[:count]] = table[:, 0] & _LOW_32
            replies["follow_up_timestamp"][rows[:count]] = ntp_column(table[:, 1])
            replies["follow_up_mode"][rows[:count]] = _SOFTWARE_LOCAL
        for row in np.flatnonzero(~own):
            tail = packets[row, stamp.BASE_BYTES :]
            answered = tlv.answer(tail.tobytes(), {tlv.Type.FOLLOW_UP_TELEMETRY: self._follow_up})
            tail[:] = np.frombuffer(answered, np.uint8)

    def _follow_up(self, value: bytes) -> bytes:
        tlv_values.FollowUp.decode(value)
        if not self._stamps:
            return bytes(len(value))
        number, sent_ns = self._stamps.popleft()
        return tlv_values.FollowUp(number & _LOW_32, ntp_from_ns(sent_ns), _SOFTWARE_LOCAL).encode()
