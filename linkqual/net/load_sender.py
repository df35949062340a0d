"""The loop of a load's sender, in its process: paced batches, counted exactly as the kernel took them. Floor 3.

A sender that fell behind does not catch up: its schedule slips instead. A stall of a few milliseconds made good at once would be a
burst that no shaper was promised, and what such a burst loses would be called the line's. Without a rate it sends as fast as the
receiver reads: packets in flight are bounded by the receiver's buffer, and its words say how far it is.
"""

from __future__ import annotations

import errno
import select

from linkqual.net import clock
from linkqual.net.clock import Alarm, monotonic_ns, utc_ns
from linkqual.net.load_ends import Ends, LoadConfig
from linkqual.net.load_rows import Rows
from linkqual.net.process import ANSWER, READY, REPORT, Inbox, Json, Outbox
from linkqual.net.sockets import errno_name, truesize
from linkqual.session.load_phase import Phase
from linkqual.session.load_schedule import Schedule, flow_of
from linkqual.session.load_sent import Sent
from linkqual.units import NS_PER_S

_REST_NS = 100_000  # least between two wake-ups
_LATE_NS, _LATE_PACKETS = 1_000_000, 4  # of lateness made good; beyond, the schedule slips
_LISTEN_NS = 20_000_000
_LEAD_NS = 1_000_000
_FULL_MS = 1  # a full queue, or a full window, is waited for
_PATIENCE_NS = NS_PER_S  # of refusals, after which sending is given up
_MEET_NS = 3 * NS_PER_S  # until every flow's way must be known
_TICK_MS = 100
_FULL = (errno.EAGAIN, errno.ENOBUFS)
_WINDOW_SHARE = 0.5  # of the receiver's buffer
_STUCK_NS = 500_000_000  # without news of the receiver, after which what is in flight no longer counts


def drive(config: Json, inbox: Inbox, outbox: Outbox) -> None:
    """The child: phase after phase, until told to stop or left alone."""
    _Sender(LoadConfig(**config), inbox, outbox).run()


class _Sender:
    def __init__(self, config: LoadConfig, inbox: Inbox, outbox: Outbox) -> None:
        self._config, self._inbox, self._outbox = config, inbox, outbox
        self._ends = Ends(config)
        self._alarm = Alarm()
        self._left_bytes = config.max_bytes
        self._sent = Sent()
        self._asked: tuple[int, Phase, int] | None = None
        self._halted = self._stopped = False
        self._words = select.poll()
        for each in self._ends.sockets:
            self._words.register(each.descriptor, select.POLLIN)

    def run(self) -> None:
        first = self._ends.sockets[0]
        ports = [each.port for each in self._ends.sockets]
        self._outbox.put_json(READY, {"ports": ports, "address": first.address, "buffer": first.send_buffer_bytes})
        clock.sharpen_timers()
        poll = select.poll()
        poll.register(self._inbox.descriptor, select.POLLIN)
        while not self._inbox.ended and not self._stopped:
            poll.poll(_TICK_MS)
            self._listen()
            while self._asked is not None and not self._stopped:
                (number, phase, window_bytes), self._asked = self._asked, None
                self._carry_out(number, phase, window_bytes)
        if self._stopped:
            self._outbox.put_json(REPORT, {"dropped": self._ends.dropped()})
        self._ends.close()

    # ---- the parent and the peer

    def _listen(self) -> None:
        """Words of the peer and of the parent."""
        self._hear()
        for each in self._ends.sockets:
            for number in each.sent_stamps().errnos:
                self._sent.refused(errno_name(number))
        if self._inbox.ended:
            return
        for message in self._inbox.take():
            match message:
                case {"do": "begin", "number": int(number), "phase": dict(asked), "window_bytes": int(window)}:
                    phase = Phase.of(asked)
                    self._asked = number, phase, window
                    self._halted = False
                    self._sent = Sent(number, phase)  # a look must not find the former phase's end
                    self._outbox.put_json(ANSWER, {})
                case {"do": "look"}:
                    self._outbox.put_json(ANSWER, self._sent.small(monotonic_ns()))
                case {"do": "result"}:
                    self._outbox.put_json(ANSWER, self._sent.data(monotonic_ns()))
                case {"do": "halt"}:
                    self._halted = True
                    self._outbox.put_json(ANSWER, {})
                case {"do": "stop"}:
                    self._stopped = self._halted = True
        self._outbox.flush()

    def _hear(self) -> None:
        for told in self._ends.hear():
            self._sent.hear(told, monotonic_ns())

    # ---- one phase

    def _carry_out(self, number: int, phase: Phase, window_bytes: int) -> None:
        sent = self._sent
        clock.go_on_time(phase.rate_bps / (8 * phase.mean_bytes))
        cpu_ns, begun_ns = clock.cpu_ns(), monotonic_ns()
        if self._meet():
            sent.heard_ns = monotonic_ns()
            rows = Rows(self._config.token, number, phase, self._ends)
            sent.train = rows.train
            self._send(phase, rows, _window(phase, window_bytes, rows.train))
        sent.cpu_ns, sent.wall_ns = clock.cpu_ns() - cpu_ns, monotonic_ns() - begun_ns
        sent.ended_by = sent.ended_by or "halt"

    def _meet(self) -> bool:
        """Await the ways of all flows; without them the phase ends before it begins."""
        until = monotonic_ns() + _MEET_NS
        while not self._ends.ready and not self._over():
            if monotonic_ns() > until:
                self._sent.ended_by = "no-greeting"
                return False
            self._alarm.sleep_until(monotonic_ns() + _LISTEN_NS)
            self._listen()
        return not self._over()

    def _over(self) -> bool:
        return self._halted or self._inbox.ended

    def _send(self, phase: Phase, rows: Rows, window: int | None) -> None:
        sent, schedule = self._sent, Schedule(phase)
        start = monotonic_ns() + _LEAD_NS
        deadline = start + (phase.duration_ns or 1 << 62)
        most = phase.packets or 1 << 62
        late_ns = max(_LATE_NS, schedule.offset_ns(_LATE_PACKETS)) + rows.train_ns
        listen_ns = 0
        while not sent.ended_by:
            now = monotonic_ns()
            if now >= listen_ns:
                listen_ns = now + _LISTEN_NS
                self._listen()
            sent.ended_by = self._reason(now, deadline, most)
            if sent.ended_by:
                break
            left = min(rows.room, most - sent.sent)
            if window is not None:
                left = min(left, self._room(window) // rows.train * rows.train)
                if left <= 0:
                    self._words.poll(_FULL_MS)
                    self._hear()
                    continue
            due = schedule.due(now - start, sent.sent, left)
            if due < min(rows.train, left):
                wake = start + schedule.offset_ns(sent.sent + rows.train - 1)
                self._alarm.sleep_until(min(max(wake, now + _REST_NS), deadline, now + _LISTEN_NS))
                continue
            if phase.rate_bps:
                start += max(0, now - start - schedule.offset_ns(sent.sent) - late_ns)
            self._depart(rows, schedule, due)

    def _reason(self, now: int, deadline: int, most: int) -> str:
        """Why the phase is over; "" while it is not."""
        sent, silence_ns = self._sent, self._config.silence_ns
        if self._over():
            return "halt"
        if silence_ns and now - sent.heard_ns > silence_ns:
            return "silent"
        if now >= deadline:
            return "duration"
        return "packets" if sent.sent >= most else ""

    def _room(self, window: int) -> int:
        """Packets that may still be in flight."""
        sent = self._sent
        if monotonic_ns() - sent.moved_ns > _STUCK_NS:
            sent.forgive(monotonic_ns())
        return window - sent.in_flight

    def _depart(self, rows: Rows, schedule: Schedule, due: int) -> None:
        """`due` packets, a share of them in each flow."""
        sent = self._sent
        share = max(1, due // sent.flows // rows.train) * rows.train
        while due > 0 and not sent.ended_by and not self._over():
            count = min(due, share)
            before = schedule.bytes_before(sent.sent)
            if schedule.bytes_before(sent.sent + count) - before > self._left_bytes:
                sent.ended_by = "cap"
                return
            flow = flow_of(sent.turn, sent.flows)
            sent.turn += 1
            self._push(rows, schedule, flow, count)
            self._left_bytes -= schedule.bytes_before(sent.sent) - before
            due -= count

    def _push(self, rows: Rows, schedule: Schedule, flow: int, count: int) -> None:
        """Hand over what one flow sends now; what the kernel refuses is tried again, and is not sent until it is taken."""
        sent, descriptor = self._sent, self._ends.socket_of(flow).descriptor
        utc, begun_ns, first = utc_ns(), monotonic_ns(), sent.sent
        octets = None if schedule.alike else schedule.sizes(first, count)
        filled = rows.fill(first, flow, count, utc, octets, self._ends.names[flow])
        at, refused_ns = 0, 0
        while at < filled:
            taken, refusal = rows.send(descriptor, at, filled)
            if taken:
                at, refused_ns = at + taken, 0
                now_sent = first + min(count, at * rows.train)
                size = schedule.bytes_before(now_sent) - schedule.bytes_before(sent.sent)
                sent.left(flow, now_sent - sent.sent, size, utc)
                continue
            now = monotonic_ns()
            if refusal:
                refused_ns = refused_ns or now
                if self._given_up(refusal, now - refused_ns, descriptor):
                    return
            if now - begun_ns > _LISTEN_NS:
                begun_ns = now
                self._listen()
                if self._over():
                    return

    def _given_up(self, refusal: int, for_ns: int, descriptor: int) -> bool:
        """Whether a refusal ends the phase; a full queue is waited for as long as it takes."""
        name = errno_name(refusal)
        self._sent.refused(name)
        if refusal in _FULL:
            poll = select.poll()
            poll.register(descriptor, select.POLLOUT)
            poll.poll(_FULL_MS)
        elif refusal == errno.EMSGSIZE or for_ns > _PATIENCE_NS:
            self._sent.ended_by = name
        return bool(self._sent.ended_by)


def _window(phase: Phase, buffer_bytes: int, train: int) -> int | None:
    """Packets in flight that the receiver's buffer holds with room to spare; None: the rate bounds them."""
    if phase.rate_bps:
        return None
    each = truesize(phase.longest) if train == 1 else phase.longest * 1.5
    return max(2 * train, int(buffer_bytes * _WINDOW_SHARE / each))
