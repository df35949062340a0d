"""The process that carries packets across links: reads them at one tunnel end, lets the line do its work, writes them at the other.

One pump serves all links of one direction, so a busy reverse never delays forward. It counts into memory it shares with the lab:
the counters are the truth a measurement is checked against. Floor 3.
"""

from __future__ import annotations

import gc
import os
import select
import signal
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from mmap import mmap
from time import monotonic_ns
from typing import NoReturn, Protocol

from linkqual.bottleneck import flow_of_packet, member_of
from linkqual.impair import LOST, Impairer
from linkqual.net import clock

PROTOCOLS = ("udp", "tcp", "icmp", "other")
# one row of int64 counters a lane: seen, dropped and duplicated by protocol, then these
SEEN, DROPPED, DUPLICATED, REORDERED, FAILED, LATEST_NS, LATE = 0, 4, 8, 12, 13, 14, 15
COLUMNS = 16
LATE_NS = 1_000_000  # after its due time: this host, not the described line
_BATCH = 64  # packets read before looking at the clock for those due
_LARGEST = 65_535
_FLOWS = 100_000  # whose member is remembered
_FOREVER = 3600 * 10**9
_LONG_NS, _EARLY_NS = 1_000_000, 150_000
_KINDS = [3] * 256  # IP protocol number -> index in PROTOCOLS
_KINDS[17], _KINDS[6], _KINDS[1], _KINDS[58] = 0, 1, 2, 2
_Waiting = tuple[int, int, bytes]  # due, number in the order of arrival, packet


class Queue(Protocol):
    """Packets under way, the first one due in front."""

    def put(self, item: _Waiting) -> None: ...
    def first_due(self) -> int | None: ...
    def take(self) -> _Waiting: ...


class _InOrder:
    """Nobody overtakes: due times ascend by themselves."""

    def __init__(self) -> None:
        self._items: deque[_Waiting] = deque()
        self.put, self.take = self._items.append, self._items.popleft

    def first_due(self) -> int | None:
        return self._items[0][0] if self._items else None


class _ByDue:
    """Packets leave by their due time; equal ones in the order of arrival."""

    def __init__(self) -> None:
        self._items: list[_Waiting] = []

    def put(self, item: _Waiting) -> None:
        heappush(self._items, item)

    def take(self) -> _Waiting:
        return heappop(self._items)

    def first_due(self) -> int | None:
        return self._items[0][0] if self._items else None


class Lane:
    """One direction of one link: descriptors of both tunnel ends, what happens between, a row of counters."""

    def __init__(self, source: int, target: int, impairer: Impairer, counters: memoryview) -> None:
        self.source, self.target, self.impairer, self.counters = source, target, impairer, counters
        self.queue: Queue = _InOrder() if impairer.impairment.keeps_order else _ByDue()
        self._number = self._newest = 0
        self.hash_seed = 0  # of the bundle whose one member loses packets
        self._safe: dict[bytes, bool] | None = {} if impairer.impairment.loss.member else None

    def _is_safe(self, packet: bytes) -> bool:
        """Whether another member of the bundle carries it than the one that loses."""
        assert self._safe is not None
        flow = (
            packet[6:7] + packet[8:44] if packet[0] >= 0x60 else packet[9:10] + packet[12:24]
        )  # more than the hash is of
        if len(self._safe) > _FLOWS:
            self._safe.clear()
        if (safe := self._safe.get(flow)) is None:
            what = self.impairer.impairment
            assert what.rate
            member = member_of(flow_of_packet(packet, self.hash_seed), what.rate.members)
            safe = self._safe[flow] = member != what.loss.member - 1
        return safe

    def read(self) -> None:
        """Take what waits at the source, and decide what becomes of it."""
        counters, one, put = self.counters, self.impairer.one, self.queue.put
        is_safe = self._is_safe if self._safe is not None else None
        for _ in range(_BATCH):
            try:
                packet = os.read(self.source, _LARGEST)
            except OSError:  # nothing more waits (EAGAIN), or the interface is down
                return
            now = monotonic_ns()
            if len(packet) < 20 or ((v6 := packet[0] >= 0x60) and (len(packet) < 40 or packet[24] == 0xFF)):
                continue  # the kernel's own multicast reports are no traffic of the line
            kind = _KINDS[packet[6] if v6 else packet[9]]
            counters[SEEN + kind] += 1
            due, copied = one(now, is_safe(packet)) if is_safe else one(now)
            if due == LOST:
                counters[DROPPED + kind] += 1
                continue
            self._number += 1
            put((due, self._number, packet))
            if copied:
                counters[DUPLICATED + kind] += 1
                put((due, self._number, packet))

    def write(self) -> bool:
        """Hand on what is due; whether anything was."""
        counters, queue, target = self.counters, self.queue, self.target
        wrote = False
        while (due := queue.first_due()) is not None and due <= (now := monotonic_ns()):
            wrote = True
            _, number, packet = queue.take()
            if (late := now - due) > counters[LATEST_NS]:
                counters[LATEST_NS] = late
            if late > LATE_NS:
                counters[LATE] += 1
            if number < self._newest:
                counters[REORDERED] += 1
            else:
                self._newest = number
            try:
                os.write(target, packet)
            except OSError:
                counters[FAILED] += 1
        return wrote


def run(lanes: Sequence[Lane]) -> NoReturn:
    """Carry packets until a signal ends the process."""
    sources = {lane.source: lane for lane in lanes}
    waiting = list(sources)
    awake = False
    while True:
        dues = [due for lane in lanes if (due := lane.queue.first_due()) is not None]
        pause = min(dues) - monotonic_ns() if dues else _FOREVER
        if _LONG_NS < pause < _FOREVER:  # a processor that slept this long wakes late: be there early and wait awake
            pause, awake = pause - _EARLY_NS, True
        elif awake:
            pause = 0
        for fd in select.select(waiting, (), (), max(0, pause) / 1e9)[0]:
            sources[fd].read()
        for lane in lanes:
            if lane.write():
                awake = False


def spawn(lanes: Sequence[Lane]) -> int:
    """Fork a pump for these lanes; its pid. It dies of SIGTERM, and with the isolation it runs in."""
    pid = os.fork()
    if pid:
        return pid
    try:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the lab ends it in order
        clock.sharpen_timers()
        if not clock.go_realtime(10):  # root only
            clock.go_prompt()
        gc.disable()  # no cycles here, and a collection would hold packets up
        run(lanes)
    finally:
        os._exit(70)


def counters(lanes: int) -> tuple[mmap, list[memoryview]]:
    """Shared memory for `lanes` rows of counters, and each row as 64-bit integers."""
    size = COLUMNS * 8
    memory = mmap(-1, max(1, lanes) * size)
    view = memoryview(memory).cast("q")
    return memory, [view[i * COLUMNS : (i + 1) * COLUMNS] for i in range(lanes)]
