"""The loop of a load's receiver, in its process: every packet read, stamped by the kernel and checked by its number. Floor 3.

Trains that the kernel has joined (UDP_GRO) are read as one message with one stamp; single packets have a stamp each.
"""

from __future__ import annotations

import select
from typing import Any

import numpy as np

from linkqual.net import clock
from linkqual.net.clock import Alarm, monotonic_ns, utc_ns
from linkqual.net.load_ends import Ends, LoadConfig
from linkqual.net.messages import Longs, MessageBlock, received_joined
from linkqual.net.process import ANSWER, BITMAP, READY, REPORT, Inbox, Json, Outbox
from linkqual.net.sockets import StampedSocket
from linkqual.records import ABSENT
from linkqual.session.load_count import LoadCounter
from linkqual.session.load_phase import Phase
from linkqual.units import NS_PER_S
from linkqual.wire import load

_SINGLE, _JOINED = 512, 64  # messages read in one call
_JOINED_BYTES = 65536
_ROUNDS = 16  # calls before anybody else is listened to
_TELL_NS, _GREET_NS = 100_000_000, 50_000_000
_CLOSED_TELL_NS = 1_000_000  # where the sender waits for it
_GREETINGS = 60
_GATHER_NS, _BRIEFLY_NS = 2_000_000, 200_000  # while packets come: more of them for the price of one call
_LARGE_BUFFER = 8 << 20  # that holds the longer of them at any rate read here
_TICK_MS = 20
_LENGTH_BITS = 17
_NONE = np.empty((0, 6), np.int64)


def drive(config: Json, inbox: Inbox, outbox: Outbox) -> None:
    """The child: count phase after phase, until told to stop or left alone."""
    _Receiver(LoadConfig(**config), inbox, outbox).run()


class _Receiver:
    def __init__(self, config: LoadConfig, inbox: Inbox, outbox: Outbox) -> None:
        self._config, self._inbox, self._outbox = config, inbox, outbox
        self._ends = Ends(config)
        self._headers = load.HEADERS[self._ends.ip_version]
        self._pattern = load.template(config.token, config.longest)
        self._single = MessageBlock(_SINGLE, -(-config.longest // 64) * 64 + 64, named=True)
        self._trains = MessageBlock(_JOINED, _JOINED_BYTES, named=True)
        self._block = self._single
        self._alarm = Alarm()
        self._phase = 0  # as written in its packets; 0: none yet
        self._counter = LoadCounter(config.flows, NS_PER_S)
        self._longest_train = 1
        self._dropped = self._cpu_ns = self._begun_ns = 0
        self._heard_ns = 0  # monotonic, of the last packet of this phase
        self._tell_ns = self._greet_ns = self._words = 0
        self._buffer = min(each.receive_buffer_bytes for each in self._ends.sockets)
        self._rest_ns = _GATHER_NS if self._buffer >= _LARGE_BUFFER else _BRIEFLY_NS
        self._every_ns, self._gather_ns = _TELL_NS, self._rest_ns
        self.strangers = 0

    def run(self) -> None:
        ports = [each.port for each in self._ends.sockets]
        bound = {"ports": ports, "address": self._ends.sockets[0].address, "buffer": self._buffer}
        self._outbox.put_json(READY, bound)
        poll = select.poll()
        for each in self._ends.sockets:
            poll.register(each.descriptor, select.POLLIN)
        poll.register(self._inbox.descriptor, select.POLLIN)
        while not self._inbox.ended:
            ready = {descriptor for descriptor, _ in poll.poll(_TICK_MS)}
            if ready - {self._inbox.descriptor} and self._drain(ready) < self._block.count // 2 and self._gather_ns:
                self._alarm.sleep_until(monotonic_ns() + self._gather_ns)
            self._tell()
            if self._inbox.descriptor in ready:
                for message in self._inbox.take():
                    if not self._obey(message):
                        self._ends.close()
                        return
            self._outbox.flush()
        self._ends.close()

    # ---- the parent

    def _obey(self, message: Json) -> bool:
        match message:
            case {"do": "begin", "number": int(number), "phase": dict(asked), "most": most}:
                self._begin(number, Phase.of(asked), most)
                self._outbox.put_json(ANSWER, {})
            case {"do": "look"}:
                self._outbox.put_json(ANSWER, self._small())
            case {"do": "result"}:
                self._drain_all()
                self._outbox.put_json(ANSWER, self._data())
            case {"do": "arrivals", "first": int(first), "count": int(count)}:
                self._outbox.put(BITMAP, self._counter.rows()[first : first + count].tobytes())
            case {"do": "halt"}:
                self._outbox.put_json(ANSWER, {})
            case {"do": "stop"}:
                self._outbox.put_json(REPORT, {"dropped": self._ends.dropped(), "strangers": self.strangers})
                return False
        return True

    def _begin(self, number: int, phase: Phase, most: int | None) -> None:
        self._drain_all()
        self._phase = load.phase_octet(number)
        self._counter = LoadCounter(self._config.flows, phase.interval_ns, most=most, arrivals=phase.arrivals)
        trains = not phase.segmented and not phase.arrivals
        joined = [each.join_trains(joined=trains) for each in self._ends.sockets]
        self._block = self._trains if trains and all(joined) else self._single
        self._every_ns, self._gather_ns = (_TELL_NS, self._rest_ns) if phase.rate_bps else (_CLOSED_TELL_NS, 0)
        self._longest_train = 1
        self._dropped = self._ends.dropped()
        self._cpu_ns, self._begun_ns, self._heard_ns = clock.cpu_ns(), monotonic_ns(), monotonic_ns()
        self._tell_ns = self._greet_ns = self._words = 0

    def _small(self) -> dict[str, Any]:
        return self._counter.small() | {
            "dropped": self._ends.dropped() - self._dropped,
            "quiet_ns": monotonic_ns() - self._heard_ns,
        }

    def _data(self) -> dict[str, Any]:
        own = {"cpu_ns": clock.cpu_ns() - self._cpu_ns, "wall_ns": self._heard_ns - self._begun_ns}
        return self._small() | self._counter.data() | own | {"longest_train": self._longest_train}

    # ---- the peer

    def _tell(self) -> None:
        """What came so far, now and then; until the first packet the way is held open for every flow."""
        if not self._phase:
            return
        now = monotonic_ns()
        if not self._counter.received and now >= self._greet_ns and self._words < _GREETINGS:
            self._greet_ns, self._words = now + _GREET_NS, self._words + 1
            self._ends.greet(self._words)
        if now >= self._tell_ns:
            self._tell_ns, self._words = now + self._every_ns, self._words + 1
            counter = self._counter
            dropped = self._ends.dropped() - self._dropped
            self._ends.tell(
                load.Told(
                    self._config.token, self._phase, 0, self._words, utc_ns(), counter.received,
                    counter.received_bytes, counter.next_seq, max(0, dropped), counter.span_ns,
                )
            )  # fmt: skip

    def _drain_all(self) -> None:
        self._drain({each.descriptor for each in self._ends.sockets})

    def _drain(self, ready: set[int]) -> int:
        """Read what is there; most messages of one call."""
        most = 0
        for each in self._ends.sockets:
            if each.descriptor not in ready:
                continue
            for _ in range(_ROUNDS):
                count = self._read(each)
                most = max(most, count)
                if count < self._block.count:
                    break
        return most

    def _read(self, socket_: StampedSocket) -> int:
        block = self._block
        count = socket_.receive(block)
        if not count:
            socket_.sent_stamps()  # an ICMP error that waits would be all that is ever read
            return 0
        stamps, octets = received_joined(block, count)
        stamps = np.where(stamps == ABSENT, utc_ns(), stamps)
        lengths = block.lengths[:count].astype(np.int64)
        octets = np.where(octets > 0, octets, lengths)
        mine = (lengths >= load.HEAD_BYTES) & (octets >= load.HEAD_BYTES) & ~block.truncated(count)
        if self._ends.far:
            mine &= self._ends.from_peer(block.names[:count])
        self.strangers += int((~mine).sum())
        trains = mine & (octets < lengths)
        parts = [self._columns(np.flatnonzero(mine & ~trains), 1, lengths, stamps)]
        for kind in np.unique(octets[trains] << _LENGTH_BITS | lengths[trains]).tolist():
            size, length = kind >> _LENGTH_BITS, kind & (1 << _LENGTH_BITS) - 1
            rows = np.flatnonzero(trains & (octets == size) & (lengths == length))
            parts.append(self._columns(rows, -(-length // size), lengths, stamps, size))
        self._count([part for part in parts if len(part)])
        return count

    def _columns(self, rows: Longs, train: int, lengths: Longs, stamps: Longs, octets: int = 0) -> Longs:
        """Of messages of `train` packets each: message, number, flow, departure, arrival, IP bytes; shape (n, 6). Strange ones are left out."""
        payload = self._block.payload
        last = lengths[rows] - (train - 1) * octets
        if len(rows) == 0 or int(last.min()) < load.HEAD_BYTES:
            self.strangers += len(rows)
            return _NONE
        heads = load.heads(payload, 0, payload.shape[0], train, octets)[rows]
        ours = (heads["token"] == self._config.token).all(axis=1)
        self.strangers += int((~ours).sum())
        now = ours & (heads["phase"] == self._phase).all(axis=1) & (self._phase > 0)
        if not now.all():
            self._greeted(rows[ours & ~now], heads[ours & ~now], lengths)
            rows, heads, last = rows[now], heads[now], last[now]
        if not len(rows):
            return _NONE
        self._longest_train = max(self._longest_train, train)
        if train == 1:  # every octet is compared; a train's only UDP's checksum has been over
            same = load.intact(payload[rows, : int(last.max())], lengths[rows], self._pattern)
            self._counter.damaged += int((~same).sum())
        found = np.empty((len(rows), train, 6), np.int64)
        found[..., 0] = rows[:, None]
        found[..., 1], found[..., 2], found[..., 3] = heads["sequence"], heads["flow"], heads["sent_ns"]
        found[..., 4] = stamps[rows][:, None]
        found[..., 5] = octets + self._headers
        found[:, -1, 5] = last + self._headers
        return found.reshape(-1, 6)

    def _count(self, parts: list[Longs]) -> None:
        """Packets of one read, put back into the order they came in."""
        if not parts:
            return
        self._heard_ns = monotonic_ns()
        found = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if len(parts) > 1:
            found = found[np.argsort(found[:, 0], kind="stable")]
        if self._ends.far:
            for flow, at in zip(*np.unique(found[:, 2], return_index=True), strict=True):
                self._ends.learn(int(flow), self._block.names[found[at, 0]])
        joined = len(found) > int(found[-1, 0] - found[0, 0]) + 1  # more packets than messages
        stamped = np.flatnonzero(np.diff(found[:, 0], prepend=-1)) if joined else slice(None)
        _, numbers, flows, sent_ns, received_ns, octets = np.ascontiguousarray(found.T)
        self._counter.take(numbers, flows, sent_ns, received_ns, octets, stamped)

    def _greeted(self, rows: Longs, heads: Any, lengths: Longs) -> None:
        """Words of no phase: where a flow is."""
        for row, head in zip(rows.tolist(), heads, strict=True):
            if lengths[row] == load.TOLD_BYTES and head["phase"][0] == 0:
                self._ends.learn(int(head["flow"][0]), self._block.names[row])
