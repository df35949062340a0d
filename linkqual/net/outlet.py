"""Packets out of the door of a socket: what the host refuses is told apart from what the line loses. Floor 3.

A full queue is waited for a moment, an error that ICMP left on the socket is met once and tried again, a packet refused for good
is given up and its reason counted. The kernel's TX stamps come back to their packets here.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable

import numpy as np

from linkqual.net.clock import Alarm, monotonic_ns
from linkqual.net.messages import Longs, MessageBlock
from linkqual.net.sockets import SendNumbers, StampedSocket, errno_name

_PATIENCE_NS = 5_000_000  # how long a full queue is waited for, a batch
_REST_NS = 50_000
_TRIES = 3  # of a packet refused for another reason


class Outlet:
    """The caller numbers its packets; `stamped(numbers, TX stamps in UTC ns)` takes the stamps, `timed` those of a network card."""

    def __init__(
        self,
        socket: StampedSocket,
        first: int,
        stamped: Callable[[Longs, Longs], None],
        timed: Callable[[Longs, Longs], None] | None = None,
    ) -> None:
        self._socket, self._stamped, self._timed = socket, stamped, timed
        self._numbers = SendNumbers(socket, first)
        self._alarm = Alarm()
        self.refusals: Counter[str] = Counter()  # by errno: how often the host refused
        self.unsent: Counter[str] = Counter()  # by errno: packets given up
        self.icmp_errors: Counter[str] = Counter()  # by errno: what ICMP said
        self.refused_ns: int | None = None  # monotonic, when ICMP last said "port unreachable"
        self.stamps = 0  # TX stamps that came

    def push_one(self, data: bytes | bytearray, number: int) -> bool:
        """One datagram on a connected socket; False: refused, `push` it with a block."""
        if self._socket.send(data, number if self._numbers.explicit else None):
            return False
        self._numbers.sent(1)
        return True

    def push(self, block: MessageBlock, first: int, stop: int, number: int) -> list[int]:
        """Messages [first, stop), the first of which has that number; the numbers of those the host did not send."""
        self._number(block, first, stop, number)
        taken, refusal = block.send(self._socket.descriptor, first, stop)
        self._numbers.sent(taken)
        if taken == stop - first:
            return []
        return self._insist(block, first + taken, stop, number + taken, refusal)

    def _number(self, block: MessageBlock, first: int, stop: int, number: int) -> None:
        if self._numbers.explicit:
            block.number(first, np.arange(number, number + stop - first))
        else:
            block.without_numbers(first, stop)

    def _insist(self, block: MessageBlock, at: int, stop: int, number: int, refusal: int) -> list[int]:
        """The message `at` was refused; errno 0: not the first of its call, the reason was not told."""
        given_up: list[int] = []
        give_up_ns, tries = monotonic_ns() + _PATIENCE_NS, 0
        while at < stop:
            self._restart(number)
            if refusal == errno.EINVAL and self._numbers.explicit:
                self._numbers.count()
                self._number(block, at, stop, number)
            elif refusal:
                name = errno_name(refusal)
                self.refusals[name] += 1
                tries += refusal != errno.ECONNREFUSED  # that is never the send's own result: it passes
                full = refusal in (errno.EAGAIN, errno.ENOBUFS)
                if monotonic_ns() >= give_up_ns or (not full and tries >= _TRIES):
                    self.unsent[name] += 1
                    given_up.append(number)
                    at, number, tries, refusal = at + 1, number + 1, 0, 0
                    continue
                if full:
                    self._alarm.sleep_until(monotonic_ns() + _REST_NS)
            taken, refusal = block.send(self._socket.descriptor, at, stop)
            self._numbers.sent(taken)
            at, number = at + taken, number + taken
            tries = 0 if taken else tries
        self._restart(number)
        return given_up

    def _restart(self, number: int) -> None:
        self.collect()
        self._numbers.restart(number)

    def collect(self) -> None:
        """TX stamps to their packets, ICMP errors into the counters."""
        told = self._socket.sent_stamps()
        if len(told.ids):
            self.stamps += len(told.ids)
            self._stamped(self._numbers.of(told.ids), told.stamps)
        if self._timed is not None and len(told.card_ids):
            self._timed(self._numbers.of(told.card_ids), told.card_stamps)
        for error in told.errnos:
            self.icmp_errors[errno_name(error)] += 1
            if error == errno.ECONNREFUSED:
                self.refused_ns = monotonic_ns()
