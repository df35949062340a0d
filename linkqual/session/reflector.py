"""The Session-Reflector of one session (RFC 8762 s4.3, RFC 8972): batches of requests turned into replies in place.

Each packet that came is counted once, by what became of it. Refused are packets of another SSID, corrupt, not signed with the
session's key, out of the sequence's reach or over a cap; a reply is exactly as long as its request. In stateful mode the session's
own counter numbers the replies, so that the peer can tell losses of both ways apart; a window of bits remembers what arrived. A sequence
number seen before (a copy the net made, or a replay) is answered from an allowance of its own, so that
replays use up nothing of the session's. Floor 2, pure.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import numpy as np
import numpy.typing as npt

from linkqual.session.allowance import Allowance
from linkqual.session.answers import Answers, Policy, Replies
from linkqual.session.arrivals import Arrivals
from linkqual.units import NS_PER_S
from linkqual.wire import stamp, stamp_auth
from linkqual.wire.stamp import Mode
from linkqual.wire.timestamp import ErrorEstimate, TimestampFormat, encode, ntp_column, ptp_column

SHORTEST_REPLY = 41  # RFC 5357 s4.2.1: up to the Sender TTL a TWAMP reply has the fields of ours
_LOW_32 = stamp.SEQUENCE_MODULUS - 1
_REACH = 1 << 16  # packets a sequence may jump ahead at any moment, besides what the time passed allows
_LONGEST_GAP_NS = 3600 * NS_PER_S
_KEEP_DSCP = np.uint8(0xFC)

ARRIVAL = np.dtype([("seq", "<i8"), ("received_ns", "<i8"), ("ttl", "u1"), ("tos", "u1")])  # a row of a one-way session

Longs = npt.NDArray[np.int64]
Octets = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Rows = slice | Longs


@dataclass(frozen=True, slots=True)
class ReflectorSettings:
    """Caps are the reflector's own. `max_packets`: of different sequence numbers."""

    ssid: int | None  # None: any, as octets of a TWAMP-Light sender's padding may be
    max_pps: int
    max_packets: int
    max_bytes: int
    error: ErrorEstimate  # of T2 and T3; its Z bit gives their format
    first_seq: int = 0
    stateless: bool = False  # a reply has the sequence number of its request
    key: bytes = field(default=b"", repr=False)  # b"": unauthenticated
    clock_source: int = 5  # RFC 8972 s5.4
    mark: bool = True  # replies may carry the DSCP a sender asks for
    reply_ecn: int | None = None  # of all replies; None: that of a request with Class of Service, else 0
    started_ns: int = 0  # UTC

    @property
    def mode(self) -> Mode:
        """Which of the two packet formats."""
        return Mode.AUTHENTICATED if self.key else Mode.UNAUTHENTICATED


@dataclass(slots=True)
class ReflectorCounters:
    """Every packet that came is in exactly one of the first nine."""

    answered: int = 0
    unanswered: int = 0  # the host could not send the reply
    logged: int = 0  # of a one-way session: kept as a row instead of answered
    foreign: int = 0  # from another address or port; counted by whoever reads the socket
    malformed: int = 0  # too short or too long, corrupt, or a sequence number the session cannot have reached
    wrong_key: int = 0
    wrong_ssid: int = 0
    replayed: int = 0  # seen before, and more of them than are answered
    over_cap: int = 0
    short: int = 0  # of those malformed: no reply fits into them
    duplicates: int = 0  # of those answered or logged: a sequence number seen before
    received_bytes: int = 0  # UDP payload of what was admitted
    unstamped: int = 0  # without a kernel RX stamp: T2 is the program's own


class ReflectorSession:
    """See the module's head."""

    def __init__(self, settings: ReflectorSettings) -> None:
        self.settings = settings
        self.counters = ReflectorCounters()
        self.next_far = 0  # the reply counter
        self.arrivals = Arrivals(settings.first_seq)
        self.answers = Answers(
            Policy(
                form=settings.error.form,
                source=settings.clock_source,
                mark=settings.mark,
                telemetry=not settings.stateless,
                signed=bool(settings.key),
            )
        )
        self.shortest = int(Mode.AUTHENTICATED) if settings.key else SHORTEST_REPLY
        self._wire = ptp_column if settings.error.form is TimestampFormat.PTP else ntp_column
        self._allowance = Allowance(settings.max_pps, settings.max_packets, settings.max_bytes)
        self._received = 0  # packets of the session, answered or not
        self._counts = np.zeros(0, np.int64)  # of the batch admitted last: R_RxC of each row
        self.newest_ns = settings.started_ns  # RX stamp of the newest packet in sequence

    # ---- which packets are the session's

    def requests(self, packets: Octets) -> stamp.Rows:
        """The fields of requests, shape (n, width)."""
        return stamp.sender_rows(packets, self.settings.mode)

    def recognises(self, packets: Octets, lengths: Longs, rows: Longs) -> Mask:
        """Which of these rows are sound packets of this session, whatever their sequence numbers; `packets` as for `admit`."""
        known: Mask = (lengths[rows] >= self.shortest) & (lengths[rows] <= packets.shape[1])
        if self.settings.key:
            known[known] = stamp_auth.verified(packets[:, : Mode.AUTHENTICATED][rows[known]], self.settings.key)
        requests = self.requests(packets)[rows]
        known &= (requests["error"] & 0xFF) != 0
        if self.settings.ssid is not None:
            known &= requests["ssid"] == self.settings.ssid
        return known

    def continues(self, packets: Octets, received_ns: Longs, rows: Longs) -> Mask:
        """Which of these rows can come next in the sequence."""
        seqs = self.arrivals.unwrap(self.requests(packets)["sequence"][rows])
        known = self._within_reach(seqs, received_ns[rows]) & (seqs >= self.arrivals.oldest)
        known[known] = ~self.arrivals.seen(seqs[known])
        return known

    def admit(self, packets: Octets, lengths: Longs, mine: Mask, received_ns: Longs, now_ns: int) -> Mask:
        """Which of the peer's requests in a batch (`mine`) are to be answered, or logged; the other ones of it are counted here.

        `packets`: shape (n, width), of which each row's first `lengths` octets came; a longer one did not fit. `received_ns`:
        kernel RX stamps, UTC. `now_ns`: monotonic.
        """
        if self._are_next(packets, lengths, mine):
            return self._take_next(lengths, received_ns, now_ns)
        counters = self.counters
        sized = mine & (lengths >= self.shortest) & (lengths <= packets.shape[1])
        if not sized.all():
            counters.malformed += int(mine.sum()) - int(sized.sum())
            counters.short += int((mine & (lengths < self.shortest)).sum())
        if self.settings.key:
            counters.wrong_key += self._verify(packets, sized)
        requests = self.requests(packets)
        ours = sized
        if self.settings.ssid is not None:
            ours = sized & (requests["ssid"] == self.settings.ssid)
            counters.wrong_ssid += int(sized.sum()) - int(ours.sum())
        seqs = self.arrivals.unwrap(requests["sequence"])
        sound: Mask = ours & ((requests["error"] & 0xFF) != 0) & self._within_reach(seqs, received_ns)
        counters.malformed += int(ours.sum()) - int(sound.sum())
        self._counts = self._received + np.cumsum(sound)
        if not sound.any():
            return sound
        self._received = int(self._counts[-1])
        rows = np.flatnonzero(sound)
        rows = rows[self._allowed(seqs[rows], received_ns[rows], lengths[rows], now_ns)]
        admitted = np.zeros(len(sound), np.bool_)
        admitted[rows] = True
        return admitted

    def _are_next(self, packets: Octets, lengths: Longs, mine: Mask) -> bool:
        """Whether a batch is what nearly every one is: the next packets of the sequence, of one length, and none is missing."""
        count, size = len(lengths), int(lengths[0])
        if not self.shortest <= size <= packets.shape[1] or not (mine.all() and (lengths == size).all()):
            return False
        if self.settings.key and not stamp_auth.verified(packets, self.settings.key).all():
            return False
        requests, following = self.requests(packets), self.arrivals.next_seq
        return bool(
            (requests["sequence"] == np.arange(following, following + count) & _LOW_32).all()
            and (self.settings.ssid is None or (requests["ssid"] == self.settings.ssid).all())
            and (requests["error"] & 0xFF).all()
        )

    def _take_next(self, lengths: Longs, received_ns: Longs, now_ns: int) -> Mask:
        """As `_allowed`, for a batch of which `_are_next` is true."""
        count = len(lengths)
        self._counts = np.arange(self._received + 1, self._received + count + 1)
        self._received += count
        self.arrivals.note(np.arange(self.arrivals.next_seq, self.arrivals.next_seq + count))
        self.newest_ns = int(received_ns[-1])
        allowed = self._allowance.new(lengths, now_ns)
        self.counters.over_cap += count - allowed
        self.counters.received_bytes += allowed * int(lengths[0])
        return np.arange(count) < allowed

    def _verify(self, packets: Octets, sized: Mask) -> int:
        """Take from `sized` what is not signed with the session's key; how many. No field is read before (RFC 8762 s4.4)."""
        rows = np.flatnonzero(sized)
        signed = stamp_auth.verified(packets[:, : Mode.AUTHENTICATED][rows], self.settings.key)
        sized[rows] = signed
        return len(rows) - int(signed.sum())

    def _within_reach(self, seqs: Longs, received_ns: Longs) -> Mask:
        """Numbers from the session's first on, and not further ahead than packets can have come since the newest one.

        The kernel's stamps decide: packets may have waited in the buffer while this process stood still.
        """
        passed = np.clip(received_ns - self.newest_ns, 0, _LONGEST_GAP_NS)
        ahead = passed // 1000 * self.settings.max_pps // 1_000_000
        reached: Mask = (seqs >= self.settings.first_seq) & (seqs < self.arrivals.next_seq + _REACH + ahead)
        return reached

    def _allowed(self, seqs: Longs, received_ns: Longs, lengths: Longs, now_ns: int) -> Mask:
        """Which of these packets are answered; all of them have arrived."""
        old = seqs < self.arrivals.oldest
        copies = old.copy()
        within = np.flatnonzero(~old)
        copies[within] = self.arrivals.seen(seqs[within])
        if len(within):
            newest = within[int(np.argmax(seqs[within]))]
            if seqs[newest] >= self.arrivals.next_seq:
                self.newest_ns = int(received_ns[newest])
            self.arrivals.note(seqs[within])
        allowed = np.zeros(len(seqs), np.bool_)
        fresh, again = np.flatnonzero(~copies), np.flatnonzero(copies & ~old)
        answered = fresh[: self._allowance.new(lengths[fresh], now_ns)]
        repeated = again[: self._allowance.copies(lengths[again])]
        self.counters.over_cap += len(fresh) - len(answered)
        self.counters.duplicates += len(repeated)
        self.counters.replayed += len(seqs) - len(fresh) - len(repeated)
        allowed = np.zeros(len(seqs), np.bool_)
        allowed[answered] = allowed[repeated] = True
        self.counters.received_bytes += int(lengths[allowed].sum())
        return allowed

    # ---- replies

    def number(self, count: int) -> Longs:
        """The numbers of the next replies in the reply counter; the host is about to send them."""
        first = self.next_far
        self.next_far += count
        self.counters.answered += count
        return np.arange(first, first + count)

    def answer(
        self, packets: Octets, rows: Rows, numbers: Longs, received_ns: Longs, ttl: Octets, tos: Octets, utc_ns: int
    ) -> Octets:
        """Rewrite admitted requests of one length into replies that leave now; the TOS each is to be sent with.

        `packets`: shape (n, size), what were `rows` of the batch admitted last; a packet shorter than 44 octets as if it had
        them. `numbers`: see `number`. `received_ns`: T2. `utc_ns`: T3 as far as the program knows it.
        """
        mode = self.settings.mode
        intact = stamp_auth.verified_tlvs(packets, self.settings.key) if self.settings.key else None
        own = self.requests(packets)["sequence"].copy() if self.settings.stateless else numbers & _LOW_32
        replies = stamp.reflect(
            packets,
            sequence=own,
            receive_timestamp=self._wire(received_ns),
            ttl=ttl,
            error=self.settings.error,
            mode=mode,
        )
        marks = tos & _KEEP_DSCP  # without Class of Service nobody could tell on which way ECN was set
        if packets.shape[1] > mode:
            said = Replies(tos, marks, self._counts[rows], numbers + 1, utc_ns)
            self.answers.fill(packets[:, mode:], said, intact)
        if self.settings.reply_ecn is not None:
            marks = marks & _KEEP_DSCP | np.uint8(self.settings.reply_ecn)
        replies["timestamp"] = encode(utc_ns, self.settings.error.form)
        if intact is not None:
            self._sign(packets, intact)
        return marks

    def _sign(self, packets: Octets, intact: Mask) -> None:
        """TLVs that were not intact go back as they came, their HMAC too."""
        if intact.all():
            stamp_auth.sign_tlvs(packets, self.settings.key)
        else:
            good = packets[intact]
            stamp_auth.sign_tlvs(good, self.settings.key)
            packets[intact] = good
        stamp_auth.sign(packets, self.settings.key)

    def log(self, packets: Octets, rows: Longs, received_ns: Longs, ttl: Octets, tos: Octets) -> npt.NDArray[np.void]:
        """These admitted rows of a one-way session's batch in the form of ARRIVAL, in the order they came."""
        logged = np.empty(len(rows), ARRIVAL)
        logged["seq"] = self.arrivals.unwrap(self.requests(packets)["sequence"][rows])
        for name, column in (("received_ns", received_ns), ("ttl", ttl), ("tos", tos)):
            logged[name] = column[rows]
        self.counters.logged += len(rows)
        return logged

    def transmitted(self, numbers: Longs, sent_ns: Longs) -> None:
        """Kernel TX stamps (UTC) of replies, by their number in the reply counter; each goes into a later reply."""
        self.answers.transmitted(numbers, sent_ns)

    def not_sent(self, count: int) -> None:
        """The host refused so many of the replies counted as answered."""
        self.counters.answered -= count
        self.counters.unanswered += count

    def stamps_left(self) -> list[list[int]]:
        """[[reply number, kernel TX stamp], ...] that no reply has carried."""
        return self.answers.stamps_left()

    def begin_anew(self, first_seq: int, utc_ns: int) -> None:
        """A foreign sender has started again: its sequence and the reply counter with it. Caps and counters go on."""
        self.arrivals = Arrivals(first_seq)
        self.next_far = 0
        self.newest_ns = utc_ns

    def figures(self) -> dict[str, int]:
        """The counters by name."""
        return asdict(self.counters)
