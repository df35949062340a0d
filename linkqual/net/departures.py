"""Session-Sender packets, filled in and sent. Floor 3.

One packet goes through `struct` and `sendmsg` (numpy's fixed cost would be 6 to 9 us), several through one `sendmmsg`.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from linkqual.net.messages import Longs, MessageBlock
from linkqual.net.outlet import Outlet
from linkqual.session.sender import SenderSession
from linkqual.wire import stamp
from linkqual.wire.timestamp import ntp_from_ns

BATCH = 256  # packets at most in one call: the closed loop's, where each shares the cost of the call
_SEQUENCE_AND_T1 = struct.Struct(">IQ")


class Departures:
    """`template`: one Session-Sender packet, of which sequence number and T1 are filled in."""

    def __init__(self, outlet: Outlet, session: SenderSession, template: npt.NDArray[np.uint8]) -> None:
        self._outlet, self._session = outlet, session
        self._single = bytearray(template.tobytes())
        self._block = MessageBlock(BATCH, len(template))
        self._block.payload[:] = template
        rows = stamp.sender_rows(self._block.payload)
        self._sequences, self._times = rows["sequence"], rows["timestamp"]

    def send_one(self, intended_ns: int, utc_ns: int, now_ns: int) -> None:
        """One packet, bookkeeping after it has left; T1 is `utc_ns`."""
        number = self._session.next_seq
        _SEQUENCE_AND_T1.pack_into(self._single, 0, number & 0xFFFF_FFFF, ntp_from_ns(utc_ns))
        left = self._outlet.push_one(self._single, number)
        self._session.depart(np.array((intended_ns,)), utc_ns, now_ns)
        if not left:
            self._push(number, 1, utc_ns)

    def send_batch(self, intended_ns: Longs, utc_ns: int, now_ns: int) -> None:
        """At most BATCH packets in one call."""
        first = self._session.depart(intended_ns, utc_ns, now_ns)
        self._push(first, len(intended_ns), utc_ns)

    def _fill(self, first: int, count: int, utc_ns: int) -> None:
        self._sequences[:count] = np.arange(first, first + count)  # modulo 2^32 by the width of the field
        self._times[:count] = ntp_from_ns(utc_ns)

    def _push(self, first: int, count: int, utc_ns: int) -> None:
        self._fill(first, count, utc_ns)
        for number in self._outlet.push(self._block, 0, count, first):
            self._session.not_sent(number, 1)
