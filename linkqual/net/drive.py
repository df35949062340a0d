"""The sender's loop, in its process: depart on schedule, drain now and then, settle, stream. Floor 3.

The kernel stamps packets, so replies need no haste: waking once a departure and draining every few dozen packets costs half of
what waking for each reply does. Departures follow the monotonic clock under a cap on packets in flight: catching up after a
stall must not flood the socket buffers of either end, whose overflow would pass for loss of the line.
"""

from __future__ import annotations

import select
from dataclasses import asdict
from typing import Any

import numpy as np

from linkqual.net import clock
from linkqual.net.card_clock import card_of
from linkqual.net.clock import Alarm, monotonic_ns, utc_ns
from linkqual.net.departures import BATCH, Departures
from linkqual.net.elaborate import ElaborateDepartures, templates_of
from linkqual.net.messages import MessageBlock, received_ancillary, received_card, runs
from linkqual.net.outlet import Outlet
from linkqual.net.process import CHUNK, READY, REPORT, Inbox, Json, Outbox
from linkqual.net.sender import CHUNK_HEAD, SenderConfig
from linkqual.net.sockets import StampedSocket, truesize
from linkqual.records import ABSENT
from linkqual.session.hardware import source
from linkqual.session.mix import Mix
from linkqual.session.pacer import pacer
from linkqual.session.sender import SETTLED_AT_ONCE, SenderSession
from linkqual.session.tails import Tails
from linkqual.stats.histogram import LogLinear
from linkqual.units import NS_PER_S

_LEAD_NS = 3_000_000  # from "ready" to the first packet
_SINGLE_PPS = 2_000  # up to here packets leave one by one, each at its own instant
_DRAIN_EVERY = 128  # packets sent between two drains, unless the window is small
_DRAIN_NS = 10_000_000
_SETTLE_NS = 50_000_000
_HEARTBEAT_NS = 100_000_000
_BATCH_AIM = 8  # packets a wake-up, above the single rate
_REST_NS = (400_000, 500_000)  # least and most between two wake-ups there
_LATENESS_ROWS = 4096  # departures kept before they go into the histogram
_READ_BATCH = 256
_CAUGHT_UP = 64  # packets at most that leave at once to catch up after a stall, unless twice the usual is more
_GATHER_NS = 50_000  # after the first reply that frees the window: more of them cost no more
_GATHER_WINDOW = 64  # below, the pipe would run empty meanwhile
_ROUNDS = 64  # batches read in one drain before departures are looked at again
_PATIENCE_NS = 200_000_000  # of silence, after which packets unheard of no longer hold the window
_REFUSED_NS = NS_PER_S  # "port unreachable" and no reply for so long: nobody is there
_MOST_BACKLOG = 1 << 20  # octets the parent has not read; beyond, settled rows wait in the ring
_WINDOW_SHARE = 0.9  # of the buffers


def drive(config: Json, inbox: Inbox, outbox: Outbox) -> None:
    """The child: send until done, settle everything, report."""
    _Drive(SenderConfig(**config), inbox, outbox).run()


class _Drive:
    def __init__(self, config: SenderConfig, inbox: Inbox, outbox: Outbox) -> None:
        self._config, self._inbox, self._outbox = config, inbox, outbox
        self._socket = StampedSocket(
            config.source_address,
            config.source_port,
            peer=(config.address, config.port),
            buffer_bytes=config.receive_buffer_bytes,
            dscp=config.dscp,
            ecn=config.ecn,
            ttl=config.ttl,
        )
        self._window = config.window or self._buffered_window()
        templates = templates_of(config)
        key = bytes.fromhex(config.key)
        tails = Tails(templates[0].tobytes(), config.mode) if config.tlvs else None
        self._card = card_of(self._socket.peer)
        if self._card is not None and self._card.worth_asking:
            self._socket.stamp_by_card()
        self._session = SenderSession(config.session(self._window, hardware=self._socket.by_card), tails)
        self._outlet = Outlet(self._socket, config.first_seq, self._session.transmitted, self._session.timed)
        self._departures = Departures(self._outlet, self._session, templates[-1])
        if config.mix or key or config.tlvs:
            mix = Mix(config.mix, config.seed) if config.mix else None
            self._departures = ElaborateDepartures(
                self._outlet, self._session, templates, mix=mix, key=key, tails=tails, filled_bytes=config.filled_bytes
            )
        self._common_bytes = config.filled_bytes if config.mix else 0
        self._block = MessageBlock(_READ_BATCH, -(-config.packet_bytes // 64) * 64 + 64)
        self._pacer = pacer(config.schedule, config.rate_pps, config.seed)
        self._single = 0 < config.rate_pps <= _SINGLE_PPS
        least, most = _REST_NS
        self._rest_ns = (
            0 if not config.rate_pps else int(min(most, max(least, _BATCH_AIM * NS_PER_S / config.rate_pps)))
        )
        usual = config.rate_pps * self._rest_ns // NS_PER_S
        self._most_at_once = min(BATCH, max(_CAUGHT_UP, int(2 * usual))) if config.rate_pps else BATCH
        self._drain_every = max(1, min(_DRAIN_EVERY, self._window // 4))
        self._alarm = Alarm()
        self._poll = select.poll()
        self._poll.register(self._socket.descriptor, select.POLLIN)
        self._lateness = LogLinear()
        self._late = np.zeros(_LATENESS_ROWS + BATCH + 1, np.int64)
        self._late_count = 0
        self._sent = 0
        self._undrained = 0
        self._blocked = False
        self._blocked_ns = 0
        self._most_in_flight = 0
        self._ended_by = ""
        self._kernel_received = 0  # replies with a kernel RX stamp
        self._last_reply_ns = 0
        self._next_due_ns = 0
        self._start_ns = self._next_drain_ns = self._next_settle_ns = self._heartbeat_ns = 0
        self._last_departure_ns = 0
        self._cpu_before_ns = 0

    def _buffered_window(self) -> int:
        """Packets in flight that neither end's receive buffer can overflow with; here each leaves a TX stamp in it too.

        One way only the stamps: the far end reads without being waited for.
        """
        if self._config.one_way:
            return max(1, int(self._socket.receive_buffer_bytes * _WINDOW_SHARE / truesize(0)))
        size = self._config.packet_bytes
        window = self._socket.receive_buffer_bytes * _WINDOW_SHARE / (truesize(size) + truesize(0))
        if self._config.far_buffer_bytes:
            window = min(window, self._config.far_buffer_bytes * _WINDOW_SHARE / (truesize(size) + truesize(0)))
        return max(1, int(window))

    # ---- the loop

    def run(self) -> None:
        config = self._config
        clock.sharpen_timers()
        realtime = clock.go_realtime(config.realtime) if config.realtime else False
        self._outbox.put_json(
            READY, {"address": self._socket.address, "port": self._socket.port, "window": self._window}
        )
        self._start_ns = self._next_due_ns = self._last_reply_ns = monotonic_ns() + _LEAD_NS
        self._next_due_ns += int(self._pacer.offsets_ns(0, 1)[0])
        started_ns = utc_ns() + _LEAD_NS
        self._cpu_before_ns = clock.cpu_ns()
        while True:
            if not self._ended_by:
                self._depart()
            now = monotonic_ns()
            if self._undrained >= self._drain_every or self._blocked or now >= self._next_drain_ns:
                self._drain()
                if self._ended_by and not self._session.pending:
                    break
            self._rest()
        self._outbox.put_json(REPORT, self._report(started_ns, realtime))

    def _depart(self) -> None:
        """Everything due, at most one batch."""
        now, limit, self._blocked = monotonic_ns(), self._most_at_once, False
        if self._config.packets is not None:
            limit = min(limit, self._config.packets - self._sent)
        due = self._pacer.due(now - self._start_ns, self._sent, limit)
        if not due:
            return
        room = self._session.room()
        if room < due:
            if now - self._last_reply_ns > _PATIENCE_NS:  # silence: an outage, or the far end stands still
                self._session.give_up_before(now - _PATIENCE_NS)
            room = self._session.room()
        self._blocked = room < due
        count = min(due, room)
        if count <= 0:
            return
        offsets = self._pacer.offsets_ns(self._sent, count + 1)
        utc, now = utc_ns(), monotonic_ns()
        late = now - self._start_ns - offsets[:count]
        if count == 1:
            self._departures.send_one(utc - int(late[0]), utc, now)
        else:
            self._departures.send_batch(utc - late, utc, now)
        if self._config.rate_pps:
            self._late[self._late_count : self._late_count + count] = late
            self._late_count += count
            if self._late_count > _LATENESS_ROWS:
                self._count_lateness()
        self._sent += count
        self._undrained += count
        self._last_departure_ns = now
        self._next_due_ns = self._start_ns + int(offsets[count])
        self._most_in_flight = max(self._most_in_flight, self._session.in_flight)
        if self._sent == self._config.packets:
            self._ended_by = "count"

    def _count_lateness(self) -> None:
        self._lateness.add(self._late[: self._late_count])
        self._late_count = 0

    def _rest(self) -> None:
        """Until the next departure or drain; blocked by the window, until a reply is there."""
        if self._blocked and not self._ended_by:
            before = monotonic_ns()
            self._wait_for_reply()
            self._blocked_ns += monotonic_ns() - before
            return
        if self._ended_by:
            self._alarm.sleep_until(min(self._next_drain_ns, monotonic_ns() + _DRAIN_NS // 10))
            self._undrained = self._drain_every
            return
        wake = self._next_due_ns if self._single else max(self._next_due_ns, self._last_departure_ns + self._rest_ns)
        wake = min(wake, self._next_drain_ns)
        if self._config.spin_ns and wake == self._next_due_ns:
            self._alarm.sleep_until(wake - self._config.spin_ns)
            self._alarm.spin_until(wake)
        else:
            self._alarm.sleep_until(wake)

    def _wait_for_reply(self) -> None:
        if self._poll.poll(1) and self._window >= _GATHER_WINDOW:
            self._alarm.sleep_until(monotonic_ns() + _GATHER_NS)

    # ---- replies

    def _drain(self) -> None:
        now = monotonic_ns()
        self._outlet.collect()
        for _ in range(_ROUNDS):
            count = self._socket.receive(self._block)
            if count:
                self._take(count)
            if count < self._block.count:
                break
        else:
            return  # more is waiting: nothing may time out yet
        self._undrained = 0
        self._next_drain_ns = now + _DRAIN_NS
        if now >= self._next_settle_ns or self._ended_by:
            self._settle(now)

    def _take(self, count: int) -> None:
        block = self._block
        utc, now = utc_ns(), monotonic_ns()
        stamps, ttl, tos = received_ancillary(block, count)
        timed = received_card(block, count) if self._socket.by_card else None
        self._kernel_received += int((stamps != ABSENT).sum())
        lengths = block.lengths[:count]
        if self._common_bytes and int(lengths.min()) >= self._common_bytes:  # of all sizes, what is read lies alike
            packets = block.payload[:count, : self._common_bytes]
            self._session.receive(packets, stamps, ttl, tos, utc, now, timed)
            self._last_reply_ns = now
            return
        for first, stop in runs(lengths):
            packets = block.payload[first:stop, : int(block.lengths[first])]
            here = slice(first, stop)
            by_card = None if timed is None else timed[here]
            self._session.receive(packets, stamps[here], ttl[here], tos[here], utc, now, by_card)
        self._last_reply_ns = now

    def _settle(self, now: int) -> None:
        self._next_settle_ns = now + _SETTLE_NS
        self._outbox.flush()
        while self._outbox.backlog < _MOST_BACKLOG:
            records = self._session.settle(now)
            if len(records) or now >= self._heartbeat_ns:
                self._heartbeat_ns = now + _HEARTBEAT_NS
                self._outbox.put(CHUNK, CHUNK_HEAD.pack(self._sent) + records.tobytes())
            if len(records) < SETTLED_AT_ONCE:
                break
        for message in self._inbox.take():
            if message.get("do") == "stop":
                self._ended_by = self._ended_by or "stop"
        if self._inbox.ended:
            raise BrokenPipeError
        refused = self._outlet.refused_ns
        if refused and refused > self._last_reply_ns and now - self._last_reply_ns > _REFUSED_NS:
            self._ended_by = self._ended_by or "refused"

    # ---- the end

    def _report(self, started_ns: int, realtime: bool) -> dict[str, Any]:
        out = self._outlet
        self._count_lateness()
        elapsed = self._last_departure_ns - self._start_ns
        unsent = out.unsent.total()
        figures = self._session.figures()
        sent, received, timed = self._sent - unsent, int(figures["received"]), int(figures["card_timed"])
        return figures | {
            "ended_by": self._ended_by,
            "started_ns": started_ns,
            "sent": sent,
            "unsent": unsent,
            "unsent_because": dict(out.unsent),
            "refusals": dict(out.refusals),
            "icmp_errors": dict(out.icmp_errors),
            "tx_stamps": out.stamps,
            "t1_source": source(sent, min(out.stamps, sent), timed),
            "t4_source": source(received, min(self._kernel_received, received), timed),
            "card": None if self._card is None else self._card.said(),
            "rate_pps": (self._sent - 1) * NS_PER_S / elapsed if elapsed > 0 and self._sent > 1 else None,
            "socket_drops": self._socket.dropped(),
            "receive_buffer_bytes": self._socket.receive_buffer_bytes,
            "send_buffer_bytes": self._socket.send_buffer_bytes,
            "window": self._window,
            "most_in_flight": self._most_in_flight,
            "blocked_ns": self._blocked_ns,
            "lateness": asdict(self._lateness.data()),
            "realtime": realtime,
            "loop_cpu_ns": clock.cpu_ns() - self._cpu_before_ns,
        }
