"""The far end's own counter: its numbers unwrapped, and by them its TX stamps (Follow-Up Telemetry, RFC 8972 s4.7). Floor 2, pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from linkqual.records import Fate, Records, Stamp
from linkqual.session.replies import Replies
from linkqual.session.ring import Ring
from linkqual.wire.stamp import SEQUENCE_MODULUS

_LOW_32, _HALF = SEQUENCE_MODULUS - 1, SEQUENCE_MODULUS // 2
_RECEIVED, _T3 = int(Fate.RECEIVED), int(Stamp.T3_KERNEL)

Longs = npt.NDArray[np.int64]


class FarNumbers:
    """Of replies to the packets in flight in `ring`. `from_zero`: the counter begins with the session, as our own reflector's does."""

    def __init__(self, ring: Ring, *, from_zero: bool = True) -> None:
        self._ring = ring
        self._begun = from_zero
        self.next = 0

    def unwrap(self, sequence: npt.NDArray[np.unsignedinteger]) -> Longs:
        """Numbers of 32 bits as those within 2^31 of the next one."""
        return (sequence.astype(np.int64) - (self.next - _HALF) & _LOW_32) + (self.next - _HALF)

    def met(self, sequence: npt.NDArray[np.unsignedinteger]) -> Longs:
        """Numbers of replies that came."""
        if not self._begun and len(sequence):
            self._begun, self.next = True, int(sequence[0])
        far = self.unwrap(sequence)
        self.next = max(self.next, int(far.max()) + 1)
        return far

    def note_follow_ups(self, replies: Replies, instants: Longs) -> tuple[Longs, Longs] | None:
        """Keep what replies tell of earlier ones, and return it: (their numbers, TX stamps); `instants`: theirs, row 2 the Follow-Up's."""
        told = replies.follow_ups()
        if not told.any():
            return None
        far, sent = self.unwrap(replies.rows["follow_up_sequence"]), instants[2]
        if not told.all():
            far, sent = far[told], sent[told]
        self._ring.note_follow_ups(far, sent)
        return far, sent

    def apply_follow_ups(self, records: Records) -> None:
        """Replace T3 by the far end's kernel TX stamp of that very reply where it came."""
        far = records["far_seq"]
        told = (records["fate"] == _RECEIVED) & self._ring.followed(far)
        records["far_sent_ns"][told] = self._ring.follow_ups(far[told])
        records["stamps"][told] |= _T3
