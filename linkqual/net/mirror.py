"""The reflector's loop, in its process: read a batch, see whose packets they are, answer in place. Floor 3.

A reflector of one peer connects its socket as soon as it has recognised a packet of the session: from then on strangers never reach its
buffer. Where several foreign senders share a port the socket stays open to all; strangers are counted and never answered.
The kernel stamps packets on arrival and on departure, so answers need no haste.
"""

from __future__ import annotations

import select

import numpy as np
import numpy.typing as npt

from linkqual.errors import InputError
from linkqual.net import clock
from linkqual.net.clock import Alarm, cpu_ns, monotonic_ns, utc_ns
from linkqual.net.messages import Longs, MessageBlock, Octets, runs
from linkqual.net.outlet import Outlet
from linkqual.net.process import ANSWER, BITMAP, CHUNK, ERROR, READY, REPORT, Inbox, Json, Outbox
from linkqual.net.reflector import ReflectorConfig
from linkqual.net.served import Batch, Mask, Owners, Served
from linkqual.net.sockets import StampedSocket, address_octets
from linkqual.session.reflector import Rows
from linkqual.wire.stamp import BASE_BYTES, Mode

_BATCH, _LARGE_BATCH, _LARGE_ROW = 512, 128, 4096  # packets read in one go; fewer where they may be long
_LINE_BYTES = 64  # of a processor's cache
_ROUNDS = 64  # batches before the parent is listened to
_TICK_MS = 200
_MANY, _ENOUGH = 4, 32  # packets in a batch: from so many on the next is waited for, unless they are as many as that
_GATHER_NS = 250_000
_SAMPLE_NS = 10_000_000  # between two looks at the drop counter
_MOST_SAMPLES = 1000
_MOST_BACKLOG = 24 << 20  # octets of rows the parent has not read; then the socket's buffer has to hold the packets
_ROWS_A_CHUNK = 4096
_NOBODY = -1


def drive(config: Json, inbox: Inbox, outbox: Outbox) -> None:
    """The child: reflect until told to stop or left alone. `config`: a ReflectorConfig, or {"sessions": several of them}."""
    several = config.get("sessions")
    configs = [ReflectorConfig(**one) for one in several or [config]]
    _Mirror(configs, inbox, outbox, alone=several is None).run()


class _Mirror:
    """`alone`: one session whose peer the socket connects to."""

    def __init__(self, configs: list[ReflectorConfig], inbox: Inbox, outbox: Outbox, *, alone: bool) -> None:
        self._inbox, self._outbox, self._alone = inbox, outbox, alone
        first = configs[0]
        self._socket = StampedSocket(first.bind_address, first.port, buffer_bytes=first.receive_buffer_bytes)
        here = address_octets(self._socket.address)
        self._served = [Served(config, here, self._socket.port) for config in configs]
        longest = max(int(Mode.AUTHENTICATED), *(config.longest_packet for config in configs))
        count = _BATCH if longest <= _LARGE_ROW else _LARGE_BATCH
        self._block = MessageBlock(count, -(-longest // _LINE_BYTES) * _LINE_BYTES, named=True)
        self._owners = Owners()
        self._outlet = Outlet(self._socket, 0, self._served[0].session.transmitted if alone else self._transmitted)
        self._tos = 0
        self._strangers = dict.fromkeys(("foreign", "wrong_ssid", "unstamped"), 0)
        self._drops = _Drops(self._socket)
        self._log: list[npt.NDArray[np.void]] = []  # rows of a one-way session on their way to the parent
        self._logged = 0
        self._alarm = Alarm()
        self._busy = (
            False  # packets come so fast that a moment's rest lets more of them come for the price of one batch
        )
        self._connected = False
        if alone and first.peer_port:
            self._connect()
        if first.realtime:
            clock.go_realtime(first.realtime)

    # ---- the loop

    def run(self) -> None:
        bound = {"port": self._socket.port, "address": self._socket.address}
        self._outbox.put_json(READY, bound | {"receive_buffer_bytes": self._socket.receive_buffer_bytes})
        poll = select.poll()
        poll.register(self._socket.descriptor, select.POLLIN)
        poll.register(self._inbox.descriptor, select.POLLIN)
        while not self._inbox.ended:
            ready = {descriptor for descriptor, _ in poll.poll(_TICK_MS)}
            if self._socket.descriptor in ready:
                self._drain()
            self._hand_over(1 if not ready else _ROWS_A_CHUNK)
            if self._inbox.descriptor in ready:
                for message in self._inbox.take():
                    if not self._obey(message):
                        return
            self._outbox.flush()

    def _drain(self) -> None:
        if self._outbox.backlog > _MOST_BACKLOG:
            self._alarm.sleep_until(monotonic_ns() + _GATHER_NS)
            return
        for _ in range(_ROUNDS):
            if self._busy:
                self._alarm.sleep_until(monotonic_ns() + _GATHER_NS)
            count = self._serve_batch()
            self._busy = _MANY <= count < _ENOUGH
            if count < _MANY:
                break
        self._drops.sample()

    def _obey(self, message: Json) -> bool:
        session = self._served[0].session
        match message:
            case {"do": "counters"}:
                self._drain()  # what came before it was asked
                self._hand_over(1)
                self._outbox.put_json(ANSWER, self._counters())
            case {"do": "arrived", "first": int(first), "count": int(count)}:
                try:
                    self._outbox.put(BITMAP, session.arrivals.bitmap(first, count))
                except InputError as error:
                    said = {"kind": "InputError", "message": error.message, "hint": error.hint}
                    self._outbox.put_json(ERROR, said)
            case {"do": "stop"}:
                self._drain()  # what had come before
                self._outlet.collect()
                self._hand_over(1)
                report = {"counters": self._counters(), "stamps": session.stamps_left()}
                self._outbox.put_json(REPORT, report | {"drop_times": self._drops.times})
                return False
        return True

    def _counters(self) -> Json:
        own = self._drops.figures() | {
            "queue_refusals": self._outlet.refusals["ENOBUFS"],
            "receive_buffer_bytes": self._socket.receive_buffer_bytes,
            "cpu_ns": cpu_ns(),
        }
        if not self._alone:
            return {"sessions": [one.figures() for one in self._served], "port": own | self._strangers}
        figures = self._served[0].session.figures()
        return figures | {name: figures[name] + count for name, count in self._strangers.items()} | own

    # ---- packets

    def _serve_batch(self) -> int:
        """How many packets were there."""
        block = self._block
        count = self._socket.receive(block)
        if count:
            batch = Batch(block, count)
            self._strangers["unstamped"] += batch.unstamped
            owner: Longs | None
            if block.named:
                owner = self._distribute(batch)
                if self._connected and count < block.count:  # all that came before the connection has been read
                    block.forget_names()
            else:
                admitted = self._admit(0, batch, np.ones(count, np.bool_))
                owner = None if admitted.all() else np.where(admitted, 0, _NOBODY)
            self._reply(batch, owner)
        self._outlet.collect()
        return count

    def _distribute(self, batch: Batch) -> Longs:
        """To each session its own: which one answers each packet. Of the rest it is counted why nobody does."""
        free = np.ones(len(batch.lengths), np.bool_)
        owner = np.full(len(free), _NOBODY)
        for index, served in enumerate(self._served):
            mine = served.claim(batch, free)
            if mine.any():
                free &= ~mine
                owner[self._admit(index, batch, mine)] = index
        if self._alone and self._served[0].port and not self._connected:
            self._connect()
        if not self._alone:
            for served in self._served:
                free &= ~served.turn_away(free)
        left = int(free.sum())
        if left and not self._alone:
            known = free & np.logical_or.reduce([batch.from_address(served.address) for served in self._served])
            self._strangers["wrong_ssid"] += int(known.sum())
            left -= int(known.sum())
        self._strangers["foreign"] += left
        return owner

    def _connect(self) -> None:
        served = self._served[0]
        self._connected = self._socket.connect(served.config.peer_address, served.port)
        if self._connected:
            self._drops.peer_known()

    def _admit(self, index: int, batch: Batch, mine: Mask) -> Mask:
        """Which packets of a session are to be answered."""
        served, now = self._served[index], monotonic_ns()
        nothing = np.zeros(len(mine), np.bool_)
        if now > served.over_ns:
            served.session.counters.over_cap += int(mine.sum())
            return nothing
        admitted = served.session.admit(batch.packets, batch.lengths, mine, batch.stamps, now)
        if served.config.answering:
            return admitted
        rows = np.flatnonzero(admitted)
        self._log.append(served.session.log(batch.packets, rows, batch.stamps, batch.ttl, batch.tos))
        self._logged += len(rows)
        return nothing

    def _reply(self, batch: Batch, owner: Longs | None) -> None:
        """Answer packets in the order they came, with one call where all replies have one mark. `owner` None: all of one session."""
        if owner is None and (batch.lengths == batch.lengths[0]).all():
            numbers = self._served[0].session.number(len(batch.lengths))
            self._send(numbers, self._answer(0, batch, slice(None), slice(None), numbers), None)
            return
        if owner is None:
            owner = np.zeros(len(batch.lengths), np.int64)
        rows = np.flatnonzero(owner != _NOBODY)
        if not len(rows):
            return
        if len(rows) < len(owner):
            self._block.gather(rows)
            owner = owner[rows]
        numbers, marks = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.uint8)
        for index in (0,) if self._alone else np.unique(owner).tolist():
            mine = np.arange(len(rows)) if self._alone else np.flatnonzero(owner == index)
            numbers[mine] = self._served[index].session.number(len(mine))
            lengths = batch.lengths[rows[mine]]
            for length in np.unique(lengths):
                part = mine[lengths == length]
                marks[part] = self._answer(index, batch, rows[part], part, numbers)
        self._send(numbers, marks, owner)

    def _answer(self, index: int, batch: Batch, rows: Rows, places: Rows, numbers: Longs) -> Octets:
        """The marks of replies to `rows` of the batch, all of one session and length, now at these places of the block."""
        size = max(int(batch.lengths[rows][0]), BASE_BYTES)
        wide = self._block.payload[: len(numbers), :size]
        packets = wide[places]  # a view, or a copy where they do not lie side by side
        marks = self._served[index].session.answer(
            packets, rows, numbers[places], batch.stamps[rows], batch.ttl[rows], batch.tos[rows], utc_ns()
        )
        if not isinstance(places, slice):
            wide[places] = packets
        return marks

    def _send(self, numbers: Longs, marks: Octets, owner: Longs | None) -> None:
        block, count = self._block, len(numbers)
        first = int(numbers[0]) if self._alone or owner is None else self._owners.enter(owner, numbers)
        block.prepare_replies(0, count)
        for begin, end in runs(marks):
            if marks[begin] != self._tos:
                self._tos = int(marks[begin])
                self._socket.set_tos(self._tos)
            for number in self._outlet.push(block, begin, end, first + begin):
                index = 0 if owner is None else int(owner[number - first])
                self._served[index].session.not_sent(1)

    def _transmitted(self, numbers: Longs, sent_ns: Longs) -> None:
        sessions, own = self._owners.find(numbers)
        for index in np.unique(sessions):
            here = sessions == index
            self._served[index].session.transmitted(own[here], sent_ns[here])

    def _hand_over(self, least: int) -> None:
        """Rows of a one-way session, when there are so many."""
        if self._logged >= least:
            self._outbox.put(CHUNK, np.concatenate(self._log).tobytes())
            self._log.clear()
            self._logged = 0


class _Drops:
    """Packets the socket lost because its buffer was full: how many, and when."""

    def __init__(self, socket_: StampedSocket) -> None:
        self._socket = socket_
        self._before_peer = 0  # while strangers could reach the buffer
        self._seen = 0
        self._next_ns = 0
        self.times: list[list[int]] = []  # [UTC ns, increase], at most 1000

    def sample(self) -> None:
        """Look, every 10 ms at most."""
        now = monotonic_ns()
        if now >= self._next_ns:
            self._next_ns = now + _SAMPLE_NS
            self._look()

    def _look(self) -> int:
        dropped = self._socket.dropped()
        if dropped != self._seen and len(self.times) < _MOST_SAMPLES:
            self.times.append([utc_ns(), dropped - self._seen])
        self._seen = dropped
        return dropped

    def peer_known(self) -> None:
        """From now on only the peer's packets can be dropped."""
        self._before_peer = self._look()

    def figures(self) -> dict[str, int]:
        """`socket_drops` of the peer's packets once it is known, `drops_before_peer`."""
        return {"socket_drops": self._look() - self._before_peer, "drops_before_peer": self._before_peer}
