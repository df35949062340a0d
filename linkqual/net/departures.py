"""Packets out of the door: filled in, handed to the kernel, and what the host refused set apart from what the line lost. Floor 3.

One packet goes through `struct` and `send` (numpy's fixed cost would be 6 to 9 us), several through one `sendmmsg`. A full queue
is waited for a moment; a packet refused for good is UNSENT, with the reason counted. The kernel's TX stamps come back here.
"""

from __future__ import annotations

import errno
import struct
from collections import Counter

import numpy as np
import numpy.typing as npt

from linkqual.net.clock import Alarm, monotonic_ns
from linkqual.net.messages import MessageBlock
from linkqual.net.sockets import SendNumbers, StampedSocket, errno_name
from linkqual.session.sender import SenderSession
from linkqual.wire import stamp
from linkqual.wire.timestamp import ntp_from_ns

BATCH = 64
_SEQUENCE_AND_T1 = struct.Struct(">IQ")
_RETRY_NS = 5_000_000  # how long a full queue is waited for, a batch
_RETRY_REST_NS = 50_000

Longs = npt.NDArray[np.int64]


class Departures:
    """See the module's head. `template`: one Session-Sender packet."""

    def __init__(self, socket: StampedSocket, session: SenderSession, template: npt.NDArray[np.uint8]) -> None:
        self._socket, self._session = socket, session
        self._single = bytearray(template.tobytes())
        self._block = MessageBlock(BATCH, len(template))
        self._block.payload[:] = template
        rows = stamp.sender_rows(self._block.payload)
        self._sequences, self._times = rows["sequence"], rows["timestamp"]
        self._numbers = SendNumbers(socket, session.next_seq)
        self._alarm = Alarm()
        self.refusals: Counter[str] = Counter()  # by errno: how often the host refused
        self.unsent: Counter[str] = Counter()  # by errno: packets given up
        self.icmp_errors: Counter[str] = Counter()  # by errno: what ICMP said
        self.refused_ns: int | None = None  # monotonic, when ICMP last said "port unreachable"
        self.stamped = 0

    def send_one(self, intended_ns: int, utc_ns: int, now_ns: int) -> None:
        """One packet, as late as it is; T1 is `utc_ns`."""
        session = self._session
        _SEQUENCE_AND_T1.pack_into(self._single, 0, session.next_seq & 0xFFFF_FFFF, ntp_from_ns(utc_ns))
        refusal = self._socket.send(self._single, session.next_seq if self._numbers.explicit else None)
        first = session.depart(np.array((intended_ns,)), utc_ns, now_ns)
        if not refusal:
            self._numbers.sent(1)
            return
        self._fill(first, 1, utc_ns)
        self._insist(first, 0, 1, refusal)

    def send_batch(self, intended_ns: Longs, utc_ns: int, now_ns: int) -> None:
        """At most BATCH packets in one call."""
        count = len(intended_ns)
        self._fill(self._session.next_seq, count, utc_ns)
        taken, refusal = self._block.send(self._socket.descriptor, 0, count)
        first = self._session.depart(intended_ns, utc_ns, now_ns)
        self._numbers.sent(taken)
        if taken < count:
            self._insist(first, taken, count, refusal)

    def collect_stamps(self) -> None:
        """Kernel TX stamps into the session, ICMP errors into the counters."""
        ids, stamps, errors = self._socket.sent_stamps()
        if len(ids):
            self.stamped += len(ids)
            self._session.transmitted(self._numbers.of(ids), stamps)
        for number in errors:
            self.icmp_errors[errno_name(number)] += 1
            if number == errno.ECONNREFUSED:
                self.refused_ns = monotonic_ns()

    def _fill(self, first: int, count: int, utc_ns: int) -> None:
        self._sequences[:count] = np.arange(first, first + count) & 0xFFFF_FFFF
        self._times[:count] = ntp_from_ns(utc_ns)
        if self._numbers.explicit:
            self._block.number(0, np.arange(first, first + count))
        else:
            self._block.control_lengths[:count] = 0

    def _insist(self, first: int, done: int, count: int, refusal: int) -> None:
        """Packets first + [done, count), the first of which was refused (0: after some others, reason not told)."""
        give_up_ns = monotonic_ns() + _RETRY_NS
        tries = 0
        while done < count:
            self._renumber(first + done)
            if refusal == errno.EINVAL and self._numbers.explicit:
                self._numbers.count()
                self._block.control_lengths[:] = 0
            elif refusal:
                self.refusals[errno_name(refusal)] += 1
                tries += 1
                full = refusal in (errno.EAGAIN, errno.ENOBUFS)
                # an error that ICMP left on the socket is told once, by the send that meets it: the next one may pass
                if monotonic_ns() >= give_up_ns or (not full and tries > 2):
                    self._session.not_sent(first + done, 1)
                    self.unsent[errno_name(refusal)] += 1
                    done, tries = done + 1, 0
                    self._renumber(first + done)
                elif full:
                    self._alarm.sleep_until(monotonic_ns() + _RETRY_REST_NS)
                if done == count:
                    break
            taken, refusal = self._block.send(self._socket.descriptor, done, count)
            self._numbers.sent(taken)
            if taken:
                done, tries = done + taken, 0
        self._renumber(first + count)

    def _renumber(self, number: int) -> None:
        self.collect_stamps()
        self._numbers.restart(number)
