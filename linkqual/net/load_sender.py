"""The loop of a load's sender, in its process: paced batches, counted exactly as the kernel took them. Floor 3.

A sender that fell behind does not catch up: its schedule slips instead. A stall of a few milliseconds made good at once would be a
burst that no shaper was promised, and what such a burst loses would be called the line's.
"""

from __future__ import annotations

import errno
import select
from typing import Any

import numpy as np

from linkqual.net import clock
from linkqual.net.clock import Alarm, monotonic_ns, utc_ns
from linkqual.net.load_ends import Ends, LoadConfig
from linkqual.net.messages import MessageBlock
from linkqual.net.process import ANSWER, READY, REPORT, Inbox, Json, Outbox
from linkqual.net.sockets import errno_name
from linkqual.session.load_count import Bins
from linkqual.session.load_phase import Phase
from linkqual.session.load_schedule import Schedule
from linkqual.units import NS_PER_S
from linkqual.wire import load

_ROWS = 64  # packets handed over in one call
_TRAINS = 16  # of trains
_TRAIN_PACKETS, _TRAIN_BYTES = 64, 65_000  # what the kernel takes as one
_TRAIN_NS = 100_000  # of the phase's rate in one train
_REST_NS = 100_000  # least between two wake-ups
_LATE_NS = 1_000_000  # of lateness made good; beyond, the schedule slips
_LISTEN_NS = 20_000_000
_LEAD_NS = 1_000_000
_FULL_MS = 1  # a full queue is waited for
_PATIENCE_NS = NS_PER_S  # of refusals, after which sending is given up
_MEET_NS = 3 * NS_PER_S  # until every flow's way must be known
_TICK_MS = 100
_FULL = (errno.EAGAIN, errno.ENOBUFS)


def drive(config: Json, inbox: Inbox, outbox: Outbox) -> None:
    """The child: phase after phase, until told to stop or left alone."""
    _Sender(LoadConfig(**config), inbox, outbox).run()


class _Sender:
    def __init__(self, config: LoadConfig, inbox: Inbox, outbox: Outbox) -> None:
        self._config, self._inbox, self._outbox = config, inbox, outbox
        self._ends = Ends(config)
        self._headers = load.HEADERS[self._ends.ip_version]
        self._alarm = Alarm()
        self._left_bytes = config.max_bytes
        self._phase = _Sent()
        self._asked: tuple[int, Phase] | None = None
        self._halted = self._stopped = False

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
                (number, phase), self._asked = self._asked, None
                self._carry_out(number, phase)
        if self._stopped:
            self._outbox.put_json(REPORT, {"dropped": self._ends.dropped()})
        self._ends.close()

    # ---- the parent and the peer

    def _listen(self) -> None:
        """Words of the peer and of the parent."""
        for told in self._ends.hear():
            self._phase.hear(told)
        for each in self._ends.sockets:
            for number in each.sent_stamps().errnos:
                self._phase.refusals[errno_name(number)] = self._phase.refusals.get(errno_name(number), 0) + 1
        if self._inbox.ended:
            return
        for message in self._inbox.take():
            match message:
                case {"do": "begin", "number": int(number), "phase": dict(asked)}:
                    self._outbox.put_json(ANSWER, {})
                    sizes = tuple((int(size), int(weight)) for size, weight in asked["sizes"])
                    self._asked = number, Phase(**asked | {"sizes": sizes})
                    self._halted = False
                    self._phase = _Sent(number, self._asked[1])  # a look must not find the former phase's end
                case {"do": "look"}:
                    self._outbox.put_json(ANSWER, self._phase.small())
                case {"do": "result"}:
                    self._outbox.put_json(ANSWER, self._phase.data())
                case {"do": "halt"}:
                    self._halted = True
                    self._outbox.put_json(ANSWER, {})
                case {"do": "stop"}:
                    self._stopped = self._halted = True
        self._outbox.flush()

    # ---- one phase

    def _carry_out(self, number: int, phase: Phase) -> None:
        self._phase = sent = _Sent(number, phase)
        cpu_ns, begun_ns = clock.cpu_ns(), monotonic_ns()
        if self._meet():
            sent.heard_ns = monotonic_ns()
            self._send(phase, _Rows(self._config.token, number, phase, self._ends, self._headers))
        sent.cpu_ns, sent.wall_ns = clock.cpu_ns() - cpu_ns, monotonic_ns() - begun_ns
        sent.ended_by = sent.ended_by or "halt"

    def _meet(self) -> bool:
        """Await the ways of all flows; without them the phase ends before it begins."""
        until = monotonic_ns() + _MEET_NS
        while not self._ends.ready and not self._over():
            if monotonic_ns() > until:
                self._phase.ended_by = "no-greeting"
                return False
            self._alarm.sleep_until(monotonic_ns() + _LISTEN_NS)
            self._listen()
        return not self._over()

    def _over(self) -> bool:
        return self._halted or self._inbox.ended

    def _send(self, phase: Phase, rows: _Rows) -> None:
        sent, schedule = self._phase, Schedule(phase)
        sent.train = rows.train
        start = monotonic_ns() + _LEAD_NS
        deadline = start + phase.duration_ns if phase.duration_ns else None
        most = phase.packets or 1 << 62
        listen_ns = 0
        while not sent.ended_by:
            now = monotonic_ns()
            if now >= listen_ns:
                listen_ns = now + _LISTEN_NS
                self._listen()
                if self._over():
                    sent.ended_by = "halt"
                elif self._config.silence_ns and now - sent.heard_ns > self._config.silence_ns:
                    sent.ended_by = "silent"
            if deadline is not None and now >= deadline:
                sent.ended_by = "duration"
            elif sent.sent >= most:
                sent.ended_by = "packets"
            if sent.ended_by:
                break
            due = schedule.due(now - start, sent.sent, min(rows.room, most - sent.sent))
            if due < rows.train and due < most - sent.sent:
                wake = start + int(schedule.offsets_ns(sent.sent + rows.train - 1, 1)[0])
                wake = min(max(wake, now + _REST_NS), deadline or wake + _REST_NS, now + _LISTEN_NS)
                self._alarm.sleep_until(wake)
                continue
            if phase.rate_bps:
                late = now - start - int(schedule.offsets_ns(sent.sent, 1)[0]) - rows.train_ns
                start += max(0, late - _LATE_NS)
            self._depart(rows, schedule, due)

    def _depart(self, rows: _Rows, schedule: Schedule, due: int) -> None:
        """`due` packets, a share of them in each flow."""
        flows = self._phase.flows
        share = max(1, due // flows // rows.train) * rows.train
        while due > 0 and not self._phase.ended_by:
            count = min(due, share)
            flow = self._phase.turn % flows
            self._phase.turn += 1
            octets = schedule.sizes(self._phase.sent, count)
            if int(octets.sum()) > self._left_bytes:
                self._phase.ended_by = "cap"
                return
            self._push(rows, flow, count, octets)
            due -= count

    def _push(self, rows: _Rows, flow: int, count: int, octets: Any) -> None:
        """Hand over what one flow sends now; what the kernel refuses is tried again, and is not sent until it is taken."""
        sent, descriptor = self._phase, self._ends.socket_of(flow).descriptor
        utc, begun_ns, at = utc_ns(), monotonic_ns(), 0
        filled = rows.fill(sent.sent, flow, count, utc, octets, self._ends.names[flow], self._ends.ip_version)
        patience = 0
        while at < filled:
            taken, refusal = rows.send(descriptor, at, filled)
            if taken:
                first, last = rows.packets_in(at, count), rows.packets_in(at + taken, count)
                sent.left(flow, last - first, int(octets[first:last].sum()), utc)
                at, patience = at + taken, 0
                continue
            if refusal:
                name = errno_name(refusal)
                sent.refusals[name] = sent.refusals.get(name, 0) + 1
                now = monotonic_ns()
                patience = patience or now + _PATIENCE_NS
                if refusal == errno.EMSGSIZE or (now > patience and refusal not in _FULL):
                    sent.ended_by = name
                    break
                if refusal in _FULL:
                    _await_room(descriptor)
            if monotonic_ns() - begun_ns > _LISTEN_NS:
                self._listen()
                if self._over():
                    break
        self._left_bytes -= int(octets[: rows.packets_in(at, count)].sum())


def _await_room(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    poll.poll(_FULL_MS)


class _Rows:
    """Packets of one phase laid out to be sent: single ones, or trains that the kernel cuts up."""

    def __init__(self, token: int, number: int, phase: Phase, ends: Ends, headers: int) -> None:
        longest = phase.longest - headers
        self.train = _train(phase, longest)
        if not all([each.cut_trains(longest if self.train > 1 else 0) for each in ends.sockets]):
            self.train = 1
        self.train_ns = int(self.train * phase.longest * 8 * NS_PER_S / phase.rate_bps) if phase.rate_bps else 0
        self._octets, self._headers = longest, headers
        count = _TRAINS if self.train > 1 else _ROWS
        self.room = count * self.train
        self._block = MessageBlock(count, longest * self.train, named=True)
        self._named = True
        pattern = load.template(token, longest)
        self._block.payload[:] = np.tile(pattern, self.train)
        self._heads = load.heads(self._block.payload, 0, count, self.train, longest)
        self._heads["phase"] = number & 0xFF

    def fill(self, first: int, flow: int, count: int, utc: int, octets: Any, name: bytes | None, version: int) -> int:
        """`count` packets from number `first` on; how many rows they take."""
        rows = -(-count // self.train)
        numbers = np.arange(first, first + rows * self.train).reshape(rows, self.train) & 0xFFFF_FFFF
        heads = self._heads[:rows]
        heads["flow"], heads["sequence"], heads["sent_ns"] = flow, numbers, utc
        block = self._block
        if self.train > 1:
            block.sizes[:rows] = self._octets * self.train
            block.sizes[rows - 1] = self._octets * (count - (rows - 1) * self.train)
        else:
            block.sizes[:rows] = octets - self._headers
        block.without_numbers(0, rows)
        if name is None:
            if self._named:
                block.forget_names()
                self._named = False
        else:
            block.names[:rows] = np.frombuffer(name, np.uint8)
            block.name_lengths[:rows] = 16 if version == 4 else len(name)
        return rows

    def packets_in(self, rows: int, count: int) -> int:
        """Of `count` packets laid out, those in the first `rows` rows."""
        return min(count, rows * self.train)

    def send(self, descriptor: int, first: int, stop: int) -> tuple[int, int]:
        """Rows the kernel took, and the errno of the one it refused."""
        return self._block.send(descriptor, first, stop)


def _train(phase: Phase, octets: int) -> int:
    """Packets of a train: short enough not to be a burst at the phase's rate; 1: single packets."""
    if phase.segmented or len(phase.sizes) > 1:
        return 1
    most = min(_TRAIN_PACKETS, _TRAIN_BYTES // octets)
    if phase.rate_bps:
        most = min(most, int(phase.rate_bps * _TRAIN_NS / (8 * NS_PER_S * phase.longest)))
    return max(1, most)


class _Sent:
    """What left in one phase."""

    def __init__(self, number: int = 0, phase: Phase | None = None) -> None:
        self.number = number
        self.flows = phase.flows if phase is not None else 1
        self.sent = self.sent_bytes = self.turn = 0
        self.train = 1
        self.ended_by = "" if phase is not None else "none"
        self.refusals: dict[str, int] = {}
        self.cpu_ns = self.wall_ns = 0
        self.heard_ns = 0  # monotonic, of the peer's last word about this phase
        self._first_ns = self._last_ns = 0
        self._by_flow = [0] * self.flows
        self._departed = Bins(phase.interval_ns if phase is not None else NS_PER_S)
        self._told: load.Told | None = None

    def left(self, flow: int, count: int, octets: int, utc: int) -> None:
        """The kernel took these."""
        if not self.sent:
            self._first_ns = utc
        self._last_ns = utc
        self.sent += count
        self.sent_bytes += octets
        self._by_flow[flow] += count
        self._departed.add(np.array((utc,)), np.array(((count, octets),)))

    def hear(self, told: load.Told) -> None:
        """A word of the receiver."""
        if told.phase == self.number & 0xFF and told.phase:
            self.heard_ns = monotonic_ns()
            if self._told is None or told.count > self._told.count:
                self._told = told

    def small(self) -> dict[str, Any]:
        """What is told while it runs."""
        told = self._told
        silent_ns = monotonic_ns() - self.heard_ns if self.heard_ns else 0
        return {
            "sent": self.sent,
            "sent_bytes": self.sent_bytes,
            "ended_by": self.ended_by,
            "silent_ns": silent_ns,
            "told": None
            if told is None
            else {
                "received": told.received,
                "received_bytes": told.received_bytes,
                "next_seq": told.next_seq,
                "dropped": told.dropped,
                "received_ns": told.span_ns,
            },
        }

    def data(self) -> dict[str, Any]:
        """All of it."""
        return self.small() | {
            "sent_ns": self._last_ns - self._first_ns,
            "last_sent_ns": self._last_ns,
            "by_flow": self._by_flow,
            "departed": self._departed.data(),
            "train": self.train,
            "refusals": self.refusals,
            "cpu_ns": self.cpu_ns,
            "wall_ns": self.wall_ns,
        }
