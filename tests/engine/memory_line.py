"""A line in memory: joins a SenderSession and a ReflectorSession under a fake clock, and does to each packet what it is told."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from linkqual.records import ABSENT, Records
from linkqual.session.reflector import ReflectorSession, ReflectorSettings
from linkqual.session.sender import SenderSession, SenderSettings
from linkqual.wire.stamp import reflector_rows, request_template, sender_rows
from linkqual.wire.timestamp import ErrorEstimate, ntp_from_ns

MS = 1_000_000
UTC = 1_800_000_000_000_000_000  # near clock at monotonic 0
FAR_AHEAD = 7 * MS  # the far clock's offset
TX_DELAY = 3_000  # from a program's stamp to the kernel's


@dataclass(frozen=True)
class Treatment:
    """Delays (ns) of every copy on its way; no copy: lost. A forward copy gives as many replies, each treated by `back`."""

    there: tuple[int, ...] = (MS,)
    back: tuple[int, ...] = (MS,)


CLEAN = Treatment()
LOST_THERE = Treatment(there=())
LOST_BACK = Treatment(back=())


@dataclass
class MemoryLine:
    """`treat(seq)` says what happens to packet seq (unwrapped)."""

    treat: Callable[[int], Treatment]
    timeout_ns: int = 100 * MS
    grace_ns: int = 20 * MS
    capacity: int = 1024
    first_seq: int = 0
    interval_ns: int = MS
    packet_bytes: int = 64
    settle_every_ns: int = 5 * MS
    residence: Callable[[int], int] = lambda _seq: 0  # how long the far end leaves packet seq in its buffer
    stalled: Callable[[int], int] = lambda _seq: 0  # how long the far end keeps the reply to packet seq after its T3
    utc_step: tuple[int, int] | None = None  # (from this monotonic instant on, by this much) of the near clock
    sender: SenderSession = field(init=False)
    reflector: ReflectorSession = field(init=False)
    chunks: list[Records] = field(init=False, default_factory=list)
    now: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.sender = SenderSession(
            SenderSettings(
                ssid=7,
                packet_bytes=self.packet_bytes,
                timeout_ns=self.timeout_ns,
                grace_ns=self.grace_ns,
                linger_ns=10 * MS,
                capacity=self.capacity,
                window=self.capacity,
                first_seq=self.first_seq,
                follow_up=self.packet_bytes >= 64,
            )
        )
        self.reflector = ReflectorSession(
            ReflectorSettings(
                ssid=7,
                max_pps=10**9,
                max_packets=10**7,
                max_bytes=10**12,
                error=ErrorEstimate.of(1000),
                first_seq=self.first_seq,
            )
        )
        self._events: list[tuple[int, int, str, bytes, tuple[int, ...], int]] = []
        self._serial = 0

    def utc(self) -> int:
        step = self.utc_step[1] if self.utc_step and self.now >= self.utc_step[0] else 0
        return UTC + self.now + step

    def run(self, packets: int, *, unsent: Sequence[int] = ()) -> Records:
        """Send, wait for everything to settle, return all records."""
        next_settle = 0
        sent = 0
        while sent < packets or self.sender.pending:
            send_at = sent * self.interval_ns if sent < packets else None
            event_at = self._events[0][0] if self._events else None
            self.now = min(t for t in (send_at, event_at, next_settle) if t is not None)
            if self.now == send_at:
                self._send(self.first_seq + sent, lost_at_home=sent in unsent)
                sent += 1
            elif self.now == event_at:
                self._happen()
            else:
                self.chunks.append(self.sender.settle(self.now))
                next_settle += self.settle_every_ns
        return np.concatenate(self.chunks)

    def _send(self, seq: int, *, lost_at_home: bool) -> None:
        packet = request_template(self.packet_bytes, ssid=7).copy()
        fields = sender_rows(packet[None])
        fields["sequence"], fields["timestamp"] = seq % 2**32, ntp_from_ns(self.utc())
        assert self.sender.depart(np.array([self.utc()]), self.utc(), self.now) == seq
        if lost_at_home:
            self.sender.not_sent(seq, 1)
            return
        self.sender.transmitted(np.array([seq]), np.array([self.utc() + TX_DELAY]))
        treatment = self.treat(seq)
        for delay in treatment.there:
            self._later(delay + self.residence(seq), "request", packet.tobytes(), treatment.back, self.residence(seq))

    def _later(self, delay: int, kind: str, packet: bytes, back: tuple[int, ...] = (), held: int = 0) -> None:
        self._serial += 1
        heapq.heappush(self._events, (self.now + delay, self._serial, kind, packet, back, held))

    def _happen(self) -> None:
        _, _, kind, data, back, held = heapq.heappop(self._events)
        if kind == "left":
            stamp = UTC + self.now + FAR_AHEAD + TX_DELAY
            self.reflector.transmitted(np.array([int.from_bytes(data, "big")]), np.array([stamp]))
            return
        packet = np.frombuffer(data, np.uint8).copy()[None]
        one = np.ones(1, np.uint8)
        if kind == "reply":
            self.sender.receive(packet, np.array([self.utc()]), one * 61, one * 0, self.utc(), self.now)
            return
        far_now = UTC + self.now + FAR_AHEAD
        assert admitted(self.reflector, packet, self.now, far_now - held).all()
        number = answer(self.reflector, packet, far_now, far_now - held)
        stalled = self.stalled(int(reflector_rows(packet)["sender_sequence"][0]))
        self._later(stalled, "left", number.to_bytes(8, "big"))
        for delay in back:
            self._later(stalled + delay, "reply", packet.tobytes())


def admitted(reflector: ReflectorSession, packets: np.ndarray, now: int = 0, received_ns: int = UTC) -> np.ndarray:
    """Which of a batch of the peer's packets, all of one length, are to be answered."""
    count, size = packets.shape
    wide = np.zeros((count, max(size, 112)), np.uint8)
    wide[:, :size] = packets
    return reflector.admit(wide, np.full(count, size), np.ones(count, bool), np.full(count, received_ns), now)


def answer(reflector: ReflectorSession, packets: np.ndarray, utc: int = UTC, received_ns: int | None = None) -> int:
    """Turn a batch just admitted into replies; the first one's number."""
    count = len(packets)
    numbers, rows, octets = reflector.number(count), np.arange(count), np.zeros(count, np.uint8)
    reflector.answer(packets, rows, numbers, np.full(count, received_ns or utc), octets + 60, octets, utc)
    return int(numbers[0])


def treatments(table: dict[int, Treatment]) -> Callable[[int], Treatment]:
    """Those of the table, the others CLEAN."""
    return lambda seq: table.get(seq, CLEAN)


__all__ = [
    "ABSENT",
    "CLEAN",
    "FAR_AHEAD",
    "LOST_BACK",
    "LOST_THERE",
    "MS",
    "TX_DELAY",
    "UTC",
    "MemoryLine",
    "Treatment",
    "admitted",
    "answer",
    "treatments",
]
